"""Which suspended frames have something to unwind: `try` and `with`, of their delegates too."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from peffects.handlers import run_state
from peffects.machine.resuming.frames import (
    TOP,
    HandlerMarker,
    LoggedFrame,
    Marker,
    Unwind,
    UnwindMarker,
)
from peffects.machine.resuming.unwinding import may_have_to_unwind, nothing_to_unwind
from peffects.source import UNKNOWN


def plain() -> Generator[int, None, None]:
    yield 1


def with_finally() -> Generator[int, None, None]:
    try:
        yield 1
    finally:
        pass


def with_block() -> Generator[int, None, None]:
    with contextlib.suppress(KeyError):
        yield 1


def in_a_loop() -> Generator[int, None, None]:
    for n in (1, 2):
        if n:
            try:
                yield n
            finally:
                pass


def after_one() -> Generator[int, None, None]:
    try:
        pass
    finally:
        pass
    yield 1


def delegates(inner: Any) -> Generator[int, None, None]:
    yield from inner


class Iterating:
    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (plain, False),
        (with_finally, True),
        (with_block, True),
        (in_a_loop, True),
        (after_one, False),
        (lambda: delegates(plain()), False),
        (lambda: delegates(with_finally()), True),
        (lambda: delegates(Iterating()), True),
    ],
)
def test_only_frames_with_try_or_with_have_something_to_unwind(make: Any, expected: bool) -> None:
    gen = make()
    next(gen)
    assert may_have_to_unwind(gen) is expected


@pytest.mark.parametrize("make", [plain, lambda: delegates(plain())])
def test_what_never_started_or_has_ended_has_nothing_to_unwind(make: Any) -> None:
    gen = make()
    assert not may_have_to_unwind(gen)
    list(gen)
    assert not may_have_to_unwind(gen)


# --- segments ------------------------------------------------------------------------------------


def installed(below: Marker = TOP) -> HandlerMarker:
    marker = HandlerMarker(run_state(0), UNKNOWN)
    marker.placed(None, below)
    return marker


def test_a_segment_in_which_something_unwinds_has_to_go_on() -> None:
    owner = installed()
    assert nothing_to_unwind(None, None, installed(owner), owner)
    unwinding = UnwindMarker(Unwind(), None, None).placed(None, owner)
    assert not nothing_to_unwind(None, None, unwinding, owner)


@pytest.mark.parametrize(("make", "nothing"), [(plain, True), (with_finally, False)])
def test_frames_of_worlds_are_asked_once_if_there_is_nothing(make: Any, nothing: bool) -> None:
    gen, owner = make(), installed()
    next(gen)
    frame = LoggedFrame(gen, (None, "call"), None)
    above = LoggedFrame(None, (None, "call"), frame)
    assert nothing_to_unwind(None, above, owner, owner) is nothing
    assert above.unguarded is frame.unguarded is nothing
    frame.take()
    assert nothing_to_unwind(None, above, owner, owner)  # no world returns into what is there
