"""A record of tables, which a kernel is given, and a table of records, which it makes, meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from compiled import assert_same
from staged import run

import peffects as pe
from peffects.errors import MergeError
from peffects.staging.structures.trees import flatten

X = np.array([3.0, -1.0, 2.0, 0.5])
Y = np.array([1.0, 4.0, -2.0, 8.0])


@dataclass(frozen=True)
class Point:
    x: Any
    y: Any

    def __add__(self, other: Point) -> Point:
        return Point(self.x + other.x, self.y + other.y)

    @property
    def square(self) -> Any:
        return self.x * self.x + self.y * self.y


class Pair(NamedTuple):
    left: Any
    right: Any


def both(function: Callable[..., Any], *args: Any) -> Any:
    """What the compiled kernel gives, which is what the evaluator gives, bit for bit."""
    found, expected = pe.kernel(function)(*args), run(function, *args)
    for x, y in zip(flatten(found)[0], flatten(expected)[0], strict=True):
        assert_same(x, y)
    return found


def moved(points: Any) -> Any:
    return pe.table(lambda i: points[i] + Point(1.0, -1.0), over=points)


def paired(points: Any) -> Any:
    return pe.table(lambda i: Pair(points[i].x, points[i].y), over=points)


def test_a_record_of_tables_meets_a_table_of_records() -> None:
    """A simulation starts with the former, an argument, and makes the latter in each step."""

    def by_range(points: Any, n: int) -> Any:
        for _ in range(n):
            points = moved(points)
        return points, pe.sum(lambda i: points[i].square)

    def by_while(points: Any, n: int) -> Any:
        k = 0
        while k < n:
            points, k = moved(points), k + 1
        return points, np.float64(0.0)

    def by_fold(points: Any, n: int) -> Any:
        return pe.fold(lambda carry, k: moved(carry), points, over=n), np.float64(0.0)

    def by_state(points: Any, n: int) -> Any:
        state = pe.state(points)
        for _ in range(n):
            state.set(moved(state.get()))
        return state, np.float64(0.0)

    for f in (by_range, by_while, by_fold, by_state):
        for n in (0, 3):
            points, _ = both(f, Point(X, Y), n)
            np.testing.assert_array_equal(points.x, X + n)
            np.testing.assert_array_equal(points.y, Y - n)
    slope = pe.grad(lambda points: by_range(points, 3)[1])(Point(X, Y))
    np.testing.assert_array_equal(slope.x, 2 * (X + 3))
    np.testing.assert_array_equal(slope.y, 2 * (Y - 3))


def test_a_table_of_records_meets_a_record_of_tables() -> None:
    def swapped(points: Any, n: int) -> Any:
        points = moved(points)
        for _ in range(n):
            points = Point(points.y, points.x)
        return points

    def chosen(points: Any, n: int) -> Any:
        if n > 0:
            points = moved(points)
        return points

    for n in (0, 1, 2):
        points = both(swapped, Point(X, Y), n)
        np.testing.assert_array_equal(points.x, Y - 1 if n == 1 else X + 1)
        np.testing.assert_array_equal(both(chosen, Point(X, Y), n).x, X + (n > 0))


def test_a_carry_of_records_of_another_kind_is_told() -> None:
    def other_record(points: Any) -> Any:
        for _ in range(3):
            points = paired(points)
        return points

    with pytest.raises(MergeError) as caught:
        pe.kernel(other_record)(Point(X, Y))
    table = "a table with 1 axis of f64"
    assert f"it is the Point ({table}, {table}) on one way and the table of Pair on the other" in (
        caught.value.what
    )
