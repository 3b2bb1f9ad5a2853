"""Which suspended frames have something to unwind: `try` and `with`, of their delegates too."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from peffects.pending import may_have_to_unwind


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
