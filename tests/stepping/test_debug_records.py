"""Kernels with records and complex numbers run as plain Python, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import peffects as pe
from peffects.errors import BoundsError, KernelTypeError
from peffects.staging.structures.trees import flatten

X = np.array([3.0, -1.0, 2.0])
Y = np.array([1.0, 4.0, -2.0])
Z = X + 1j * Y


@dataclass(frozen=True)
class Point:
    x: Any
    y: Any = None

    def __add__(self, other: Point) -> Point:
        return Point(self.x + other.x, self.y + other.y)


class Pair(NamedTuple):
    left: Any
    right: Any


def elements(x: Any, y: Any) -> Any:
    points = pe.table(lambda i: Point(x[i], y[i]))
    pairs = pe.table(lambda i: (x[i], Pair(y[i], None)))
    dicts = pe.table(lambda i: {"a": points[i]})
    left, _ = pairs
    return (
        points, pe.table(lambda i: points[i] + dicts[i]["a"]), pairs[0], pairs[1][1].left,
        dicts["a"].x, left, pe.sum(points), pe.sum(lambda i: points[i].x), len(points),
    )  # fmt: skip


def rows(x: Any, y: Any) -> Any:
    grid = pe.table(lambda i, j: Point(x[i] * y[j], i))
    nested = pe.table(lambda i: pe.table(lambda j: Point(x[i] + y[j], 1)))
    total = 0.0
    for point in grid[1]:
        total += point.x
    return grid[1, 2].x, nested[2], nested[1, 0].x, total, pe.table(lambda i: i, over=grid)


def arguments(point: Any, pair: Any, structured: Any) -> Any:
    return (
        pe.table(lambda i: point[i].x * pair[i].left), point[1].y, pair[0],
        pe.table(lambda i: structured[i]["x"]), structured["x"][0],
        pe.table(lambda i: i, over=point),
    )  # fmt: skip


def complexes(z: Any) -> Any:
    total = pe.accumulator(dtype=complex)
    for i in pe.par(z):
        total += z[i]
    return (
        pe.table(lambda i: z[i] * 2j + abs(z[i])), pe.sum(z), z[1].real, pe.exp(z[0]), total,
        pe.table(lambda i: (z[i], i)),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (elements, (X, Y)),
        (rows, (X, Y)),
        (arguments, (Point(X, Y), Pair(X, Y), np.array([(1.0,), (2.0,)], [("x", "f8")]))),
        (complexes, (Z,)),
    ],
)
def test_debugging_gives_what_the_compiled_kernel_gives(function: Any, args: Any) -> None:
    kernel = pe.kernel(function)
    found, expected = flatten(kernel.debug(*args)), flatten(kernel(*args))
    assert found[1] == expected[1]
    for value, wanted in zip(found[0], expected[0], strict=True):
        if wanted is None:
            assert value is None
        else:
            np.testing.assert_allclose(np.asarray(value), np.asarray(wanted), rtol=1e-15)


def test_indices_of_records_are_tested() -> None:
    with pytest.raises(BoundsError, match="index 3"):
        pe.kernel(lambda p, k: p[k].x).debug(Point(X, Y), 3)


def sums(x: Any, y: Any) -> Any:
    bins = pe.accumulator(2, dtype=Point(float, int))
    whole = pe.accumulator(dtype=Pair(float, None))
    for i in pe.par(x):
        bins[i % 2] += Point(x[i], 1)
        bins.x[0] += 1.0
        whole += Pair(y[i], None)
    return bins, whole, bins[1].x, whole.left * 2


def test_accumulators_of_records() -> None:
    kernel = pe.kernel(sums)
    found, expected = flatten(kernel.debug(X, Y)), flatten(kernel(X, Y))
    assert found[1] == expected[1]
    for value, wanted in zip(found[0], expected[0], strict=True):
        np.testing.assert_equal(np.asarray(value), np.asarray(wanted))


def test_what_is_added_must_be_such_a_record() -> None:
    def f(x: Any) -> Any:
        total = pe.accumulator(dtype=Pair(float, None))
        total.combine((), x)
        return total

    with pytest.raises(KernelTypeError, match="is no Pair of the same structure"):
        pe.kernel(f).debug(1.0)
