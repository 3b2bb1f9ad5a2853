"""What the machine refuses, and the texts of its refusals."""

from __future__ import annotations

from typing import Any

import pytest

from peffects.errors import (
    LoopValuesError,
    MissingYieldFromError,
    NotAComputationError,
    TraverseError,
    UnhandledEffectError,
)
from peffects.handlers import State, accum, accumulate, get, put, reader, run_state
from peffects.machine.handling.handler import Handler, ParHandler, handle
from peffects.machine.handling.operations import Effect, Operation, effectful
from peffects.machine.resuming.resumption import Resumption
from peffects.parallel import ADD, Fin, pfor, run

pytestmark = pytest.mark.filterwarnings("ignore:PE109")  # made, compared, thrown away


class Log(Effect): ...


class Note(Operation[Log, None]):
    text: str


@effectful
def increment() -> Any:
    n: int = yield from get()
    yield from put(n + 1)
    return n


def test_an_unhandled_effect_names_operation_line_and_handlers_in_scope() -> None:
    @effectful
    def program() -> Any:
        yield from accum("x")

    with pytest.raises(UnhandledEffectError) as caught:
        run(handle(run_state(0), program()))
    text = str(caught.value)
    assert "no handler handles the effect `Accum` of the operation `AccumOp`" in text
    assert "in program:   yield from accum(" in text
    assert "in scope: `run_state`, handles `State`, installed at test_refusals.py:" in text
    with pytest.raises(UnhandledEffectError, match="\n  no handler is in scope\n"):
        run(program())


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
    assert lines[1].startswith("  at test_refusals.py:")
    assert lines[1].endswith("in step:   ys = yield from pfor(n, body)")
    assert lines[2].startswith("  handler installed at test_refusals.py:")
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


@pytest.mark.parametrize("value", [3, None, (), (1, 2), ("a", "b", "c"), [get()]])
def test_yielding_something_else_is_refused(value: Any) -> None:
    @effectful
    def program() -> Any:
        yield value

    with pytest.raises(MissingYieldFromError, match="which is no computation"):
        run(program())


@pytest.mark.parametrize("before", [False, True])
def test_an_iteration_that_yields_something_else_is_refused(before: bool) -> None:
    @effectful
    def body(i: int) -> Any:
        if before:
            yield from accum(1)
        yield 3

    with pytest.raises(MissingYieldFromError, match="yielded 3, which is no computation"):
        run(handle(accumulate(ADD), pfor(Fin(2), body)))
    if not before:
        with pytest.raises(MissingYieldFromError, match="yielded 3, which is no computation"):
            run(pfor(Fin(2), body))


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
