"""The effect machine: calls, handlers, exceptions, unwinding; its refusals and their texts."""

from __future__ import annotations

import sys
import traceback
from typing import Any

import pytest

from peffects.clauses import final
from peffects.effects import Effect, Operation, effectful, once
from peffects.errors import (
    LoopValuesError,
    MissingYieldFromError,
    NotAComputationError,
    TraverseError,
    UnhandledEffectError,
)
from peffects.handling import Handler, ParHandler, handle
from peffects.handlers import (
    Ok,
    State,
    Throw,
    accum,
    accumulate,
    ask,
    attempt,
    get,
    put,
    reader,
    run_state,
    throw,
    weak_exceptions,
)
from peffects.parallel import CONCATENATE, Fin, pfor, run
from peffects.resumption import Resumption


class Log(Effect): ...


class Note(Operation[Log, None]):
    text: str


class Fuel(State[int]): ...


@effectful
def increment() -> Any:
    n: int = yield from get()
    yield from put(n + 1)
    return n


# --- calls ---------------------------------------------------------------------------------------


def test_a_call_gives_its_result() -> None:
    @effectful
    def twice() -> Any:
        first = yield from increment()
        second = yield from increment()
        return first, second

    assert run(handle(run_state(5), twice())) == (7, (5, 6))


def test_calls_nest_deeper_than_the_python_stack() -> None:
    @effectful
    def depth(n: int) -> Any:
        if n == 0:
            return (yield from get())
        return 1 + (yield from depth(n - 1))

    deep = 50 * sys.getrecursionlimit()
    assert run(handle(run_state(7), depth(deep))) == (7, 7 + deep)


@pytest.mark.parametrize("end", ["exception", "throw"])
def test_what_ends_a_deep_computation_unwinds_every_frame(end: str) -> None:
    """In linear time: 20 000 frames take a second, and would take minutes otherwise."""
    unwound = 0

    @effectful
    def depth(n: int) -> Any:
        nonlocal unwound
        if n == 0:
            if end == "throw":
                yield from throw("bottom")
            raise ValueError("bottom")
        try:
            return (yield from depth(n - 1))
        finally:
            unwound += 1

    answer: Any = run(attempt(depth(20_000), catch=(ValueError,)))
    assert str(answer.error) == "bottom"
    assert unwound == 20_000


def test_handlers_nest_deeper_than_the_python_stack() -> None:
    @effectful
    def under(n: int) -> Any:
        if n == 0:
            return (yield from get())
        return (yield from handle(reader(n), under(n - 1)))

    deep = 3 * sys.getrecursionlimit()
    assert run(handle(run_state(7), under(deep))) == (7, 7)


def test_an_undecorated_generator_runs_inline() -> None:
    def inline() -> Any:
        return (yield from increment())

    @effectful
    def outer() -> Any:
        return (yield from inline())

    assert run(handle(run_state(1), outer())) == (2, 1)
    assert run(handle(run_state(1), inline())) == (2, 1)


def test_an_effectful_function_may_return_a_computation_for_its_own() -> None:
    @effectful
    def alias() -> Any:
        return increment()

    assert run(handle(run_state(1), alias())) == (2, 1)


def test_once_gives_what_the_thunk_gives() -> None:
    assert run(once(lambda: 3)) == 3
    assert run(once(lambda: None)) is None


def test_a_handler_can_be_used_again() -> None:
    counting = run_state(0)
    for _ in range(2):
        assert run(handle(counting, increment())) == (1, 0)


def test_none_is_an_answer_like_others() -> None:
    @effectful
    def program() -> Any:
        nothing: Any = yield from get()
        done: Any = put(2)
        return nothing, (yield from done)

    assert run(handle(run_state(None), program())) == (2, (None, None))


# --- named instances -----------------------------------------------------------------------------


def test_instances_of_one_effect_are_told_apart() -> None:
    @effectful
    def program() -> Any:
        fuel = yield from Fuel.get()
        yield from Fuel.put(fuel - 1)
        yield from put("changed")
        return (yield from get())

    inner = handle(run_state("plain"), program())
    assert run(handle(run_state(9, at=Fuel), inner)) == (8, ("changed", "changed"))
    outer = handle(run_state(9, Fuel), program())
    assert run(handle(run_state("plain"), outer)) == ("changed", (8, "changed"))


def test_a_handler_does_not_handle_an_instance_of_its_effect() -> None:
    with pytest.raises(UnhandledEffectError) as caught:
        run(handle(run_state(9), Fuel.get()))
    assert "run_state(..., at=Fuel)" in str(caught.value)


# --- clauses -------------------------------------------------------------------------------------


def test_a_generator_clause_performs_outward() -> None:
    class logs(Handler[Log]):
        def note(self, op: Note) -> Any:
            yield from put((yield from get()) + op.text)

    @effectful
    def program() -> Any:
        yield from Note("a")
        yield from handle(run_state("inner"), Note("b"))
        return (yield from get())

    answer = run(handle(run_state(""), handle(logs(), program())))
    assert answer == ("ab", "ab")


def test_a_clause_runs_outside_its_own_handler() -> None:
    class prefix(Handler[Log]):
        def note(self, op: Note) -> Any:
            return (yield from Note("> " + op.text))

    class keep(Handler[Log]):
        def __init__(self) -> None:
            self.kept: list[str] = []

        def ret(self, x: Any) -> Any:
            return self.kept

        def note(self, op: Note) -> None:
            self.kept = [*self.kept, op.text]

    assert run(handle(keep(), handle(prefix(), handle(prefix(), Note("x"))))) == ["> > x"]


def test_a_general_clause_resumes_in_the_middle_of_its_work() -> None:
    class bracket(Handler[Log]):
        def note(self, op: Note, k: Resumption[None, str]) -> Any:
            rest = yield from k(None)
            return f"<{op.text}{rest}>"

    @effectful
    def program() -> Any:
        yield from Note("a")
        yield from Note("b")
        return "!"

    assert run(handle(bracket(), program())) == "<a<b!>>"


def test_a_general_clause_without_yield_gives_the_answer_at_once() -> None:
    class stop(Handler[Log]):
        def note(self, op: Note, k: Resumption[None, str]) -> str:
            return op.text

    assert run(handle(stop(), Note("a"))) == "a"


def test_a_return_clause_may_perform() -> None:
    class counted(Handler[Log]):
        def ret(self, x: Any) -> Any:
            yield from put((yield from get()) + 1)
            return x, "counted"

        def note(self, op: Note) -> None: ...

    assert run(handle(run_state(0), handle(counted(), Note("a")))) == (1, (None, "counted"))


def test_state_changed_before_resuming_is_seen_and_after_it_is_not() -> None:
    class counts(Handler[Log]):
        def __init__(self) -> None:
            self.n = 0

        def ret(self, x: Any) -> Any:
            return [self.n]

        def note(self, op: Note, k: Resumption[None, Any]) -> Any:
            self.n = self.n + 1
            rest = yield from k(None)
            return [*rest, self.n]

    @effectful
    def program() -> Any:
        yield from Note("a")
        yield from Note("b")

    assert run(handle(counts(), program())) == [2, 2, 1]


# --- exceptions ----------------------------------------------------------------------------------


def test_an_exception_crosses_calls_and_handlers_with_the_user_s_frames() -> None:
    @effectful
    def innermost() -> Any:
        yield from ask()
        raise KeyError("lost")

    @effectful
    def middle() -> Any:
        return (yield from innermost())

    @effectful
    def outermost() -> Any:
        return (yield from handle(reader(1), middle()))

    with pytest.raises(KeyError) as caught:
        run(handle(run_state(0), outermost()))
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    ours = [name for name in names if name in ("innermost", "middle", "outermost", "__iter__")]
    assert ours == ["outermost", "middle", "innermost"]


def test_an_exception_is_caught_by_the_caller() -> None:
    @effectful
    def fails() -> Any:
        yield from increment()
        raise ValueError("no")

    @effectful
    def program() -> Any:
        try:
            yield from fails()
        except ValueError as error:
            return str(error), (yield from get())

    assert run(handle(run_state(3), program())) == (4, ("no", 4))


def test_an_exception_in_an_answering_clause_is_raised_where_the_operation_is() -> None:
    class refuses(Handler[Log]):
        def note(self, op: Note) -> None:
            raise PermissionError(op.text)

    class refuses_later(Handler[Log]):
        def note(self, op: Note) -> Any:
            yield from get()
            raise PermissionError(op.text)

    @effectful
    def program() -> Any:
        try:
            yield from Note("x")
        except PermissionError as error:
            return f"refused {error}"

    assert run(handle(refuses(), program())) == "refused x"
    assert run(handle(run_state(0), handle(refuses_later(), program()))) == (0, "refused x")


def test_an_exception_in_a_general_clause_goes_outward_from_the_handler() -> None:
    class refuses(Handler[Log]):
        @final
        def note(self, op: Note) -> None:
            raise PermissionError(op.text)

    unwound = []

    @effectful
    def inside() -> Any:
        try:
            yield from Note("x")
        except PermissionError:
            unwound.append("caught inside")
        finally:
            unwound.append("finally")

    @effectful
    def program() -> Any:
        try:
            yield from handle(refuses(), inside())
        except PermissionError:
            return "caught outside"

    assert run(program()) == "caught outside"
    assert unwound == ["finally"]


def test_python_exceptions_pass_weak_exceptions_unless_asked_for() -> None:
    @effectful
    def fails(i: int) -> Any:
        if i == 1:
            raise ValueError("one")
        yield from ()
        return int(i)

    with pytest.raises(ValueError, match="one"):
        run(attempt(pfor(Fin(3), fails)))
    answers = run(pfor(Fin(3), lambda i: attempt(fails(i), catch=(ValueError,))))
    assert [answers[0], answers[2]] == [Ok(0), Ok(2)]
    assert isinstance(answers[1].error, ValueError)
    whole: Any = run(attempt(pfor(Fin(3), fails), catch=(ValueError,)))
    assert isinstance(whole.error, ValueError)


def test_catching_every_exception_does_not_take_in_mistakes() -> None:
    with pytest.raises(UnhandledEffectError):
        run(attempt(get(), catch=(Exception,)))


def test_an_exception_of_a_loop_body_is_raised_at_the_loop_inside_its_handlers() -> None:
    def bad(i: int) -> int:
        return 1 // (2 - i)

    @effectful
    def program() -> Any:
        try:
            yield from pfor(Fin(4), bad)
        except ZeroDivisionError:
            yield from accum(("caught",))
        return "went on"

    program_ = handle(accumulate(CONCATENATE), handle(weak_exceptions(), program()))
    assert run(program_) == (("caught",), Ok("went on"))


# --- unwinding -----------------------------------------------------------------------------------


def test_throw_unwinds_frames_once_from_the_top_and_lets_them_perform() -> None:
    @effectful
    def frame(name: str, inner: Any) -> Any:
        try:
            yield from inner
        finally:
            yield from accum((name,))

    program = frame("outer", frame("inner", throw("stop")))
    log, answer = run(handle(accumulate(CONCATENATE), handle(weak_exceptions(), program)))
    assert log == ("inner", "outer")
    assert answer.error == "stop"


def test_unwinding_exits_with_blocks_and_handlers_on_the_way() -> None:
    events = []

    class resource:
        def __enter__(self) -> None:
            events.append("enter")

        def __exit__(self, *_: object) -> None:
            events.append("exit")

    @effectful
    def program() -> Any:
        with resource():
            yield from handle(run_state(0), throw("stop"))

    assert run(handle(weak_exceptions(), program())).error == "stop"
    assert events == ["enter", "exit"]


def test_a_finally_that_fails_while_unwinding_is_heard() -> None:
    @effectful
    def program() -> Any:
        try:
            yield from throw("stop")
        finally:
            raise RuntimeError("broken finally")

    with pytest.raises(RuntimeError, match="broken finally"):
        run(handle(weak_exceptions(), program()))


def test_a_finally_that_throws_while_unwinding_replaces_the_answer_of_the_inner_handler() -> None:
    class Other(Throw[str]): ...

    @effectful
    def program() -> Any:
        try:
            yield from throw("first")
        finally:
            yield from Other.throw("second")

    answer = run(handle(weak_exceptions(at=Other), handle(weak_exceptions(), program())))
    assert answer.error == "second"


# --- what is refused -----------------------------------------------------------------------------


def test_an_unhandled_effect_names_operation_line_and_handlers_in_scope() -> None:
    @effectful
    def program() -> Any:
        yield from accum("x")

    with pytest.raises(UnhandledEffectError) as caught:
        run(handle(run_state(0), program()))
    text = str(caught.value)
    assert "no handler handles the effect `Accum` of the operation `AccumOp`" in text
    assert "in program:   yield from accum(" in text
    assert "in scope: `run_state`, handles `State`, installed at test_machine.py:" in text


def test_a_sequential_handler_round_a_parallel_for_is_refused() -> None:
    @effectful
    def step(n: Any, body: Any) -> Any:
        ys = yield from pfor(n, body)
        return ys

    with pytest.raises(TraverseError) as caught:
        run(handle(run_state(0), step(Fin(3), lambda i: i)))
    lines = str(caught.value).splitlines()
    assert lines[0] == (
        "PE104 TraverseError: handler `run_state` has no traverse clause, so it cannot run around"
        " a parallel for."
    )
    assert lines[1].startswith("  at test_machine.py:")
    assert lines[1].endswith("in step:   ys = yield from pfor(n, body)")
    assert lines[2].startswith("  handler installed at test_machine.py:")
    assert lines[3] == (
        "  Do one of: handle the effect inside the loop body; use `accumulate` if the updates only"
        " accumulate; write the loop sequentially: `for i in n: yield from body(i)`."
    )
    assert lines[4] == "  python -m peffects explain PE104"


def test_yield_instead_of_yield_from_is_refused() -> None:
    @effectful
    def program() -> Any:
        x = yield get()
        return x

    with pytest.raises(MissingYieldFromError, match="`yield` instead of `yield from`") as caught:
        run(handle(run_state(0), program()))
    assert caught.value.at.function == "program"


@pytest.mark.parametrize("value", [3, None, (1, 2), ("a", "b", "c"), [get()]])
def test_yielding_something_else_is_refused(value: Any) -> None:
    @effectful
    def program() -> Any:
        yield value

    with pytest.raises(MissingYieldFromError, match="which is no computation"):
        run(program())


def test_a_computation_as_result_of_run_is_refused() -> None:
    @effectful
    def program() -> Any:
        yield from get()
        return increment()

    with pytest.raises(MissingYieldFromError, match="increment"):
        run(handle(reader(0), handle(handles_state(), program())))


class handles_state(Handler[State[int]]):
    def get(self, op: Any) -> int:
        return 0

    def put(self, op: Any) -> None: ...


def test_a_computation_as_result_of_an_iteration_is_refused() -> None:
    @effectful
    def body(i: int) -> Any:
        yield from ()
        return increment()

    with pytest.raises(MissingYieldFromError, match="an iteration"):
        run(pfor(Fin(2), body))


def test_a_clause_that_returns_k_of_something_is_refused_and_k_unwound() -> None:
    class forgets(Handler[Log]):
        def note(self, op: Note, k: Resumption[None, str]) -> Any:
            return k(None)

    unwound = []

    @effectful
    def program() -> Any:
        try:
            yield from Note("a")
        finally:
            unwound.append(1)

    with pytest.raises(MissingYieldFromError, match="clause `note` of `forgets`"):
        run(handle(forgets(), program()))
    assert unwound == [1]


def test_functions_and_classes_instead_of_computations_and_handlers_are_refused() -> None:
    with pytest.raises(NotAComputationError, match="`run` takes a computation") as caught:
        run(increment)  # type: ignore[arg-type]
    assert "run(increment(...))" in str(caught.value)
    with pytest.raises(NotAComputationError, match="`handle` takes a computation"):
        handle(run_state(0), increment)  # type: ignore[arg-type]
    with pytest.raises(NotAComputationError) as caught:
        handle(run_state, increment())  # type: ignore[arg-type]
    assert "handle(run_state(...), ...)" in str(caught.value)
    with pytest.raises(NotAComputationError):
        handle(3, increment())  # type: ignore[arg-type]


def test_a_traverse_clause_with_too_few_values_is_refused() -> None:
    class drops_one(ParHandler[Log]):
        def note(self, op: Note) -> None: ...

        def traverse(self, n: Any, loop: Any, k: Any) -> Any:
            answers = yield from loop()
            return (yield from k(answers[1:]))

    with pytest.raises(LoopValuesError, match="2 values after a loop of 3"):
        run(handle(drops_one(), pfor(Fin(3), lambda i: i)))


def test_wrong_arguments_are_reported_at_the_call() -> None:
    @effectful
    def takes_one(x: int) -> Any:
        yield from get()

    @effectful
    def program() -> Any:
        wrong: Any = takes_one
        try:
            yield from wrong(1, 2)
        except TypeError:
            return "TypeError at the call"

    assert run(program()) == "TypeError at the call"
