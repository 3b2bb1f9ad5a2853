"""Kernels over structured index sets, run as plain Python: as when they are compiled."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.errors import BoundsError, UnknownIndexSetError
from peffects.staging.structures.trees import flatten


class Color(enum.Enum):
    RED = "r"
    GREEN = "g"


@dataclasses.dataclass
class Cell:
    row: Any
    column: Any


X = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
RAGGED = pe.ragged([[1.0, 2.0], [], [3.0, 4.0, 5.0]])
TRIANGLE = pe.pack(pe.Upto(5), np.add.outer(X, X))


def joined(x: Any) -> Any:
    both = x.index + pe.Bool
    return pe.table(lambda k: pe.match(k, left=lambda i: x[i], right=lambda b: 1.0 * b), over=both)


def flags(x: Any) -> Any:
    both = x.index + x.index
    return pe.table(lambda k: 1.0 if k.is_left else 2.0, over=both)


def colors(x: Any) -> Any:
    w = pe.table(lambda c: pe.match(c, RED=lambda: 1.0, GREEN=lambda: x[2]), over=Color)
    counts = pe.accumulator(Color, dtype=int)
    for i in pe.par(x):
        if x[i] > 3.0:
            counts[Color.RED] += 1
    return w, w[Color.GREEN], counts


NAMES = pe.Elements.of(["Bob", "Alice"])


def names(x: Any) -> Any:
    total, parity = pe.accumulator(NAMES), pe.accumulator((2, NAMES))
    for i in pe.par(x):
        total["Bob"] += x[i]
        parity[i % 2, "Alice"] += x[i]
    t = pe.table(lambda i, name: x[i] * int(name), over=(x, NAMES))
    return total, total["Bob"], parity, t[2, "Bob"]


def cells(x: Any) -> Any:
    grid = Cell(x.index, pe.Fin(2))
    total = pe.accumulator()
    for p in pe.par(grid):
        total += x[p.row] * p.column
    return pe.table(lambda p: x[p.row] + p.column, over=grid), total


def fields(x: Any) -> Any:
    posts = pe.Post(x)

    def at(p: Any) -> Any:
        left = pe.match(posts.left_field(p), just=lambda i: x[i], nothing=lambda: 0.0)
        return left - pe.match(posts.right_field(p), just=lambda i: x[i], nothing=lambda: 0.0)

    t = pe.table(at, over=posts)
    return pe.table(lambda i: t[posts.right_post(i)], over=x)


def ranges(x: Any) -> Any:
    return (
        pe.table(lambda i: pe.sum(lambda j: x[j] * (j - i), over=i.above()), over=x),
        pe.table(lambda i: pe.prod(lambda j: x[j], over=i.below()), over=x),
        pe.sum(lambda i, j: x[i] - x[j], over=pe.Below(x)),
    )


def triangle(x: Any) -> Any:
    return pe.table(lambda i: pe.table(lambda j: x[i] - x[j], over=i.from_()), over=x)


def counted(x: Any) -> Any:
    h = pe.accumulator(pe.Below(x))
    for i, j in pe.par(pe.Below(x)):
        h[i, j] += x[i] * x[j]
    return h, pe.table(lambda i, j: x[j], over=pe.tile(x, 2))


def sequential(x: Any) -> Any:
    total = 0.0
    for k in x.index + pe.Bool:
        total = 2.0 * total + pe.match(k, left=lambda i: x[i], right=lambda b: 1.0)
    for i in x.index:
        for j in i.upto():
            total = total + x[j]
    return total


def packed(x: Any) -> Any:
    return (
        pe.table(lambda i: pe.sum(lambda j: TRIANGLE[i, j] * x[j])),
        pe.table(lambda i: pe.sum(lambda j: RAGGED[i, j])),
        pe.sum(TRIANGLE),
        pe.table(lambda i: pe.table(lambda j: 2.0 * RAGGED[i, j], over=RAGGED.index_set.row(i)),
                 over=RAGGED),
    )  # fmt: skip


KERNELS: list[Callable[[Any], Any]] = [
    joined, flags, colors, names, cells, fields, ranges, triangle, counted, sequential, packed,
]  # fmt: skip


@pytest.mark.parametrize("function", KERNELS)
def test_debugging_gives_what_compiled_code_gives(function: Callable[[Any], Any]) -> None:
    kernel = pe.kernel(function)
    expected, tree = flatten(kernel(X))
    found, same = flatten(kernel.debug(X))
    assert same == tree
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-14)


def test_packed_arguments_are_tested() -> None:
    kernel = pe.kernel(lambda t, i, j: t[i, j])
    assert kernel.debug(TRIANGLE, 3, 1) == kernel(TRIANGLE, 3, 1) == 10.0
    with pytest.raises(BoundsError):
        kernel.debug(TRIANGLE, 1, 3)


def test_an_open_index_of_a_row_that_begins_late_is_refused() -> None:
    t = pe.pack(pe.Above(5), np.add.outer(X, X))
    kernel = pe.kernel(lambda t: pe.table(lambda i: pe.sum(lambda j: t[i, j])))
    with pytest.raises(UnknownIndexSetError, match="does not begin with the first index"):
        kernel.debug(t)
