"""Worlds that go on in other processes: what is done on their way out is done once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from peffects import Effect, Fin, Handler, Operation, effectful, handle, multi, pfor, run
from peffects.errors import UnhandledEffectError
from peffects.handlers import accum, accumulate, amb, parallel_worlds
from peffects.parallel import Monoid, Processes

JOIN: Any = Monoid([], lambda x, y: x + y)


@pytest.fixture(scope="module")
def executor() -> Iterator[Processes]:
    with Processes(2) as made:
        yield made


@effectful
def leaves_a_trace(*, twice: bool = False) -> Any:
    """Performs on its way out of a choice."""
    try:
        x = yield from amb([1, 2, 3])
        return (yield from leaves_a_trace()) + x if twice else x
    finally:
        yield from accum([1])
        yield from accum([2])


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("outside", [False, True])
def test_worlds_that_go_on_elsewhere_are_not_unwound_here(
    executor: Processes, capfd: pytest.CaptureFixture[str], outside: bool, twice: bool
) -> None:
    def program() -> Any:
        if outside:
            added = handle(accumulate(JOIN), handle(parallel_worlds(), leaves_a_trace(twice=twice)))
            return added
        return handle(parallel_worlds(), handle(accumulate(JOIN), leaves_a_trace(twice=twice)))

    assert run(program(), executor=executor) == run(program())
    gc.collect()
    assert capfd.readouterr().err == ""


class Pause(Effect): ...


class Wait(Operation[Pause, int]): ...


class resumes(Handler[Pause]):
    """Resumes in an iteration of a loop, or not at all."""

    def __init__(self, really: bool) -> None:
        self.really = really

    @multi
    def wait(self, op: Wait, k: Any) -> Any:
        really = self.really

        @effectful
        def body(i: Any) -> Any:
            return (yield from k(int(i))) if really else -1

        return sum((yield from pfor(Fin(3), body)))


@pytest.mark.parametrize("really", [False, True])
def test_frames_that_nobody_enters_elsewhere_are_unwound_here(
    executor: Processes, really: bool
) -> None:
    left: list[str] = []

    @effectful
    def program() -> Any:
        try:
            return (yield from Wait())
        finally:
            left.append("left")
            yield from accum([1])

    def outcome(**options: Any) -> Any:
        return run(handle(accumulate(JOIN), handle(resumes(really), program())), **options)

    if really:
        assert outcome() == outcome(executor=executor) == ([1, 1, 1], 3)
        return
    for options in ({}, {"executor": executor}):
        left.clear()
        with pytest.raises(UnhandledEffectError, match="nobody resumed `Wait`"):
            outcome(**options)
        assert left == ["left"]
