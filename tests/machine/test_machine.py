"""The effect machine: calls, handlers, named instances, clauses."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from peffects.errors import (
    UnhandledEffectError,
)
from peffects.handlers import (
    State,
    attempt,
    get,
    put,
    reader,
    run_state,
    throw,
)
from peffects.machine.handling.handler import Handler, handle
from peffects.machine.handling.operations import Effect, Operation, effectful, once
from peffects.machine.resuming.resumption import Resumption
from peffects.parallel import run


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


def test_none_is_a_result_like_others() -> None:
    @effectful
    def nothing() -> Any:
        yield from ()

    @effectful
    def program() -> Any:
        return [(yield from nothing()), (yield from nothing())]

    assert run(program()) == [None, None]


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
