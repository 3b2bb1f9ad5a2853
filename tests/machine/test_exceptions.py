"""Exceptions and unwinding: what crosses frames and handlers, and what runs on the way."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from peffects.errors import UnhandledEffectError
from peffects.handlers import (
    Ok,
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
from peffects.machine.handling.clauses import final
from peffects.machine.handling.handler import Handler, handle
from peffects.machine.handling.operations import Effect, Operation, effectful
from peffects.parallel import CONCATENATE, Fin, pfor, run


class Log(Effect): ...


class Note(Operation[Log, None]):
    text: str


@effectful
def increment() -> Any:
    n: int = yield from get()
    yield from put(n + 1)
    return n


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
