"""Index sets with structure in kernels: staged, evaluated, compiled, on any number of threads."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import check, refused
from staged import run as evaluated

import peffects as pe
from peffects.errors import (
    BoundsError,
    IndexSetError,
    IndexSetMismatchError,
    KernelTypeError,
)
from peffects.parallel import IndexSet


class Color(enum.Enum):
    RED = "r"
    GREEN = "g"
    BLUE = "b"


@dataclasses.dataclass
class Cell:
    row: Any
    column: Any


X, Y = np.array([1.0, 2.0, 4.0, 8.0, 16.0]), np.array([0.5, -1.0, 3.0])
A = np.arange(15.0).reshape(5, 3)


# --- sums, enums, dataclasses, posts -------------------------------------------------------------


def test_a_sum_runs_one_case_for_each_index() -> None:
    def joined(x: Any, y: Any) -> Any:
        both = x.index + y.index
        return pe.table(
            lambda k: pe.match(k, left=lambda i: x[i], right=lambda j: -y[j]), over=both
        )

    np.testing.assert_array_equal(check(joined, X, Y), [*X, *-Y])


def test_is_left_and_injections_work_on_symbols() -> None:
    def twice(x: Any, y: Any) -> Any:
        both = x.index + y.index
        t = pe.table(lambda k: 1.0 if k.is_left else 2.0, over=both)
        return pe.sum(lambda i: t[both.left(i)] * x[i]), pe.sum(lambda j: t[both.right(j)] * y[j])

    assert check(twice, X, Y) == (X.sum(), 2 * Y.sum())


def test_nested_sums_and_products_match() -> None:
    inner = pe.Fin(2) * pe.Bool
    n = inner + (pe.Fin(3) + pe.Unit)

    def numbers() -> Any:
        def right(k: Any) -> Any:
            return pe.match(k, left=lambda i: 100 + i, right=lambda: 7)

        def left(p: Any) -> Any:
            i, b = p
            return 10 * i + (1 if b else 0)

        return pe.table(lambda k: pe.match(k, left=left, right=right), over=n)

    assert check(numbers).tolist() == [0, 1, 10, 11, 100, 101, 102, 7]


def test_enums_are_index_sets_and_members_are_indices() -> None:
    def weights(x: Any) -> Any:
        w = pe.table(
            lambda c: pe.match(c, RED=lambda: 1.0, GREEN=lambda: 2.0, BLUE=lambda: x[0]),
            over=Color,
        )
        counts = pe.accumulator(Color, dtype=int)
        for i in pe.par(x):
            if x[i] > 3.0:
                counts[Color.RED] += 1
            else:
                counts[Color.BLUE] += 1
        return w, w[Color.GREEN], counts

    w, green, counts = check(weights, X)
    assert (w.tolist(), green, counts.tolist()) == ([1.0, 2.0, 1.0], 2.0, [3, 0, 2])


def test_values_of_elements_are_indices() -> None:
    names = pe.Elements.of(["Bob", "Alice", "Charlie", "Alice"])

    def bob() -> Any:
        t = pe.table(lambda i: 10 * i, over=names)
        return t["Bob"], t

    assert (check(bob)[0], check(bob)[1].tolist()) == (10, [0, 10, 20])


def test_a_dataclass_of_index_sets_is_a_loop_over_its_axes() -> None:
    def doubled(a: Any) -> Any:
        grid = Cell(a.index, pe.Fin(3))
        t = pe.table(lambda p: a[p] + a[p.row, p.column], over=grid)
        total = pe.accumulator()
        for p in pe.par(grid):
            total += t[p]
        return t, total

    t, total = check(doubled, A)
    np.testing.assert_array_equal(t, 2 * A)
    assert total == 2 * A.sum()


def test_a_dataclass_in_a_sum_comes_back_as_one() -> None:
    def corner(a: Any) -> Any:
        n = pe.index_set(Cell(a.index, pe.Fin(3))) + pe.Unit
        return pe.table(
            lambda k: pe.match(k, left=lambda p: a[p.row, p.column], right=lambda: -1.0), over=n
        )

    np.testing.assert_array_equal(check(corner, A), [*A.ravel(), -1.0])


def test_posts_have_fields_on_both_sides() -> None:
    def smoothed(x: Any) -> Any:
        posts = pe.Post(x)

        def at(p: Any) -> Any:
            left = pe.match(posts.left_field(p), just=lambda i: x[i], nothing=lambda: 0.0)
            right = pe.match(posts.right_field(p), just=lambda i: x[i], nothing=lambda: 0.0)
            return left + right

        t = pe.table(at, over=posts)
        return t, pe.table(lambda i: t[posts.right_post(i)] - t[posts.left_post(i)], over=x)

    sums, differences = check(smoothed, X)
    np.testing.assert_array_equal(sums, np.r_[0.0, X] + np.r_[X, 0.0])
    np.testing.assert_array_equal(differences, np.diff(sums))


def test_loops_over_structured_sets_may_be_sequential() -> None:
    def last(x: Any) -> Any:
        total, steps = 0.0, 0
        for k in x.index + pe.Bool:
            total = 2.0 * total + pe.match(k, left=lambda i: x[i], right=lambda b: 1.0)
        for i, b in x.index * pe.Bool:
            steps = steps + (1 if b else 0) * i
        return total, steps

    total = 0.0
    for value in [*X, 1.0, 1.0]:
        total = 2 * total + value
    assert check(last, X) == (total, sum(range(5)))


INDEX_SETS: list[Callable[[Any], IndexSet[Any]]] = [
    lambda n: n + pe.Bool,
    lambda n: n * pe.Bool,
    lambda n: pe.Maybe(n * n),
    lambda n: pe.Post(n) * pe.Maybe(n),
    lambda n: pe.index_set(Cell(n, pe.Post(n))),
    lambda n: (n + n) * (pe.Unit + n),
    pe.Upto,
    pe.Below,
    pe.From,
    pe.Above,
    lambda n: pe.tile(n, 2),
    lambda n: pe.Ragged([1, 0, 2]),
]


@pytest.mark.parametrize("made", range(len(INDEX_SETS)))
@given(size=st.integers(0, 4))
@settings(max_examples=5)
def test_ordinals_in_kernels_are_those_outside(made: int, size: int) -> None:
    make = INDEX_SETS[made]

    def ordinals(x: Any) -> Any:
        n = make(pe.Fin(x.index))
        return pe.table(lambda k: n.ordinal(n.from_ordinal(int(k))), over=n.size), n.size

    found, count = evaluated(ordinals, np.zeros(size))
    expected = make(pe.Fin(size))
    assert count == len(expected)
    assert found.tolist() == [expected.ordinal(i) for i in expected]


def test_from_ordinal_tests_its_number() -> None:
    def at(x: Any, k: int) -> Any:
        n = x.index + x.index
        return pe.match(n.from_ordinal(k), left=lambda i: x[i], right=lambda i: -x[i])

    assert check(at, X, 7) == -4.0
    for k in (-1, 10):
        assert f"ordinal {k} is outside" in refused(BoundsError, at, X, k)


# --- ranges --------------------------------------------------------------------------------------


def test_reductions_run_over_ranges_of_the_outer_index() -> None:
    def moments(x: Any) -> Any:
        return (
            pe.table(lambda i: pe.sum(lambda j: x[j] * (j - i), over=i.above())),
            pe.table(lambda i: pe.sum(lambda j: x[j], over=i.upto())),
            pe.table(lambda i: pe.prod(lambda j: x[j], over=i.below())),
            pe.table(lambda i: pe.max(lambda j: -x[j], over=i.from_())),
        )

    above, upto, below, from_ = check(moments, X)
    places = range(len(X))
    np.testing.assert_array_equal(
        above, [sum(X[j] * (j - i) for j in places[i + 1 :]) for i in places]
    )
    np.testing.assert_array_equal(upto, np.cumsum(X))
    np.testing.assert_array_equal(below, [1, 1, 2, 8, 64])
    np.testing.assert_array_equal(from_, [-x for x in X])


def test_ranges_nest() -> None:
    def triples(x: Any) -> Any:
        return pe.sum(
            lambda i: pe.sum(
                lambda j: pe.sum(lambda k: x[i] * x[j] * x[k], over=j.above()), over=i.above()
            ),
            over=x,
        )

    n = range(len(X))
    expected = sum(X[i] * X[j] * X[k] for i in n for j in n[i + 1 :] for k in n[j + 1 :])
    assert check(triples, X) == expected


def test_ranges_are_loops_of_statements() -> None:
    def pairs(x: Any) -> Any:
        count, last = pe.accumulator(x.index, dtype=int), 0
        for i in pe.par(x):
            for j in pe.par(i.below()):
                count[j] += i
        for i in x.index:
            for j in i.upto():
                last = last + j
        return count, last

    count, last = check(pairs, X)
    assert count.tolist() == [10, 9, 7, 4, 0]
    assert last == sum(j for i in range(5) for j in range(i + 1))


def test_inject_and_project_cross_between_a_range_and_its_set() -> None:
    def signs(x: Any, m: int) -> Any:
        middle = x.index.index_set.from_ordinal(m)
        above = middle.above()
        inside = pe.table(
            lambda i: pe.match(above.project(i), just=lambda j: x[j], nothing=lambda: 0.0), over=x
        )
        return inside, pe.sum(lambda j: 1.0 * pe.inject(j), over=above)

    inside, total = check(signs, X, 2)
    assert (inside.tolist(), total) == ([0.0, 0.0, 0.0, 8.0, 16.0], 7.0)


def test_tiles_are_ranges() -> None:
    def blocks(x: Any) -> Any:
        tiles = pe.tile(x, 2)
        sums = pe.table(lambda t: pe.sum(lambda i: x[i], over=tiles.row(t)), over=tiles.outer)
        return sums, pe.table(lambda t, i: x[i] + t, over=tiles)

    sums, packed = check(blocks, X)
    assert sums.tolist() == [3.0, 12.0, 16.0]
    assert packed.packed.tolist() == [1.0, 2.0, 5.0, 9.0, 18.0]


# --- derivatives ---------------------------------------------------------------------------------


def test_gradients_go_through_sums_and_posts() -> None:
    @pe.kernel
    def energy(x: Any) -> Any:
        posts = pe.Post(x)

        def at(p: Any) -> Any:
            left = pe.match(posts.left_field(p), just=lambda i: x[i], nothing=lambda: 0.0)
            right = pe.match(posts.right_field(p), just=lambda i: x[i], nothing=lambda: 0.0)
            return (right - left) ** 2

        return pe.sum(at, over=posts)

    x = np.array([0.3, -0.7, 1.1])
    padded = np.r_[0.0, x, 0.0]
    d = np.diff(padded)
    np.testing.assert_allclose(pe.grad(energy)(x), 2 * (d[:-1] - d[1:]))
    pe.check_grads(energy, (x,))


# --- refusals ------------------------------------------------------------------------------------


def test_an_index_of_another_structure_is_refused_with_both_origins() -> None:
    def wrong(x: Any, y: Any) -> Any:
        t = pe.table(lambda k: 1.0, over=pe.Post(x))
        return pe.table(lambda k: t[k], over=x.index + y.index)

    message = refused(IndexSetMismatchError, wrong, X, Y)
    assert "`k` runs over" in message
    assert "used on axis 0 of `t`" in message
    assert "Post(" in message


def test_sums_of_other_sizes_are_refused_when_the_kernel_runs() -> None:
    def wrong(x: Any, y: Any) -> Any:
        t = pe.table(lambda p: 1.0, over=pe.Post(x))
        return pe.table(lambda p: t[p], over=pe.Post(y))

    message = refused(IndexSetMismatchError, wrong, X, Y)
    assert "length 5" in message
    assert "length 3" in message


def test_an_index_of_another_set_is_no_part_of_a_sum() -> None:
    def wrong(x: Any, y: Any) -> Any:
        both = pe.Post(x) + y.index
        return pe.table(lambda i: 1.0 * both.left(i), over=x.index + y.index)

    assert "is needed" in refused(IndexSetMismatchError, wrong, X, Y)


def test_match_without_all_cases_is_refused() -> None:
    def wrong(x: Any) -> Any:
        return pe.table(lambda k: pe.match(k, left=lambda i: x[i]), over=x.index + pe.Bool)

    assert "left, right" in refused(IndexSetError, wrong, X)


def test_match_on_a_number_is_refused() -> None:
    def wrong(x: Any) -> Any:
        return pe.match(x[0], left=lambda i: i, right=lambda i: i)

    assert "no index" in refused(KernelTypeError, wrong, X)


def test_the_set_of_an_axis_makes_and_counts_indices() -> None:
    @pe.kernel
    def f(x: Any) -> Any:
        return x[x.index.from_ordinal(2)], pe.table(lambda i: x.index.ordinal(i) + 0.5 * x[i])

    third, places = f(np.arange(4.0))
    assert third == 2.0
    np.testing.assert_array_equal(places, 1.5 * np.arange(4.0))
