"""Where random programs come from: a row of choices, each a number below some bound.

A generator asks `Choices` and nothing else, so a program is the row of numbers that it was told:
a seed makes the row, a shorter or smaller row is a smaller program, and Hypothesis can draw it.
Zero is always the simplest choice, so that a row that is too short goes on with zeros.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

__all__ = ["Choices", "Drawn", "Replayed", "Seeded", "shrunk"]

T = TypeVar("T")


class Choices:
    """What generators ask; they get numbers, items and truth values."""

    def below(self, bound: int) -> int:
        """A number from 0 to `bound - 1`."""
        raise NotImplementedError

    def item(self, items: Sequence[T]) -> T:
        """One of the items; the first one is the simplest."""
        return items[self.below(len(items))]

    def between(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def one_in(self, count: int) -> bool:
        """True in one of `count` cases."""
        return self.below(count) == count - 1

    def subset(self, items: Sequence[T]) -> list[T]:
        """Some of the items, in any order."""
        left, chosen = list(items), []
        for _ in range(self.below(len(items) + 1)):
            chosen.append(left.pop(self.below(len(left))))
        return chosen


class Seeded(Choices):
    """Random choices; `row` has those made so far."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.row: list[int] = []

    def below(self, bound: int) -> int:
        """A random number, which is noted."""
        self.row.append(self._random.randrange(bound))
        return self.row[-1]


class Replayed(Choices):
    """The choices of a row; `used` says how many were asked for."""

    def __init__(self, row: Sequence[int]) -> None:
        self._row = row
        self.used = 0

    def below(self, bound: int) -> int:
        """The next number of the row, as far as the bound allows."""
        value = self._row[self.used] if self.used < len(self._row) else 0
        self.used += 1
        return min(value, bound - 1)


class Drawn(Choices):
    """Choices that Hypothesis makes, and shrinks."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def below(self, bound: int) -> int:
        """A number that Hypothesis draws."""
        number: int = self._draw(st.integers(0, bound - 1))
        return number


def shrunk(row: list[int], fails: Callable[[list[int]], bool], tries: int) -> list[int]:
    """A smaller row that still fails, found in about so many tries."""
    before: list[int] = []
    while row != before and tries > 0:
        before = row
        size = len(row)
        while size >= 1 and tries > 0:  # leave parts out, the longest and the last ones first
            start = len(row) - size
            while start >= 0 and tries > 0:
                candidate = row[:start] + row[start + size :]
                tries -= 1
                if fails(candidate):
                    row = candidate
                start = min(start, len(row)) - size
            size //= 2
        for place in range(len(row)):
            for smaller in sorted({0, row[place] // 2, row[place] - 1}):
                if 0 <= smaller < row[place] and tries > 0:
                    candidate = [*row[:place], smaller, *row[place + 1 :]]
                    tries -= 1
                    if fails(candidate):
                        row = candidate
                        break
    return row
