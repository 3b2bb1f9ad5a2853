"""Index sets with structure in kernels: staged, evaluated, compiled, on any number of threads."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compiled import assert_same
from hypothesis import given, settings
from hypothesis import strategies as st
from staged import run as evaluated

import peffects as pe
from peffects.errors import (
    BoundsError,
    IndexSetError,
    IndexSetMismatchError,
    KernelTypeError,
    PeffectsError,
    UnknownIndexSetError,
    ValueRangeError,
)
from peffects.parallel import IndexSet
from peffects.staging.trees import flatten


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
RAGGED = pe.ragged([[1.0, 2.0], [], [3.0, 4.0, 5.0], [6.0]])
TRIANGLES = [pe.Upto, pe.Below, pe.From, pe.Above]
MASKS: dict[Any, Callable[[Any], Any]] = {
    pe.Upto: np.tril,
    pe.Below: lambda a: np.tril(a, -1),
    pe.From: np.triu,
    pe.Above: lambda a: np.triu(a, 1),
}


def check(function: Callable[..., Any], *args: Any) -> Any:
    """The value of a kernel: what the evaluator gives, and the same bits on 1 to 4 threads."""
    meant, tree = flatten(evaluated(function, *args))
    kernel = pe.kernel(function)
    with pe.threads(1):
        first, same = flatten(kernel(*args))
    assert same == tree
    for x, y in zip(first, meant, strict=True):
        assert np.asarray(x).dtype == np.asarray(y).dtype
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-14)
    for threads in (2, 3, 4):
        with pe.threads(threads):
            found, _ = flatten(kernel(*args))
        for x, y in zip(found, first, strict=True):
            assert_same(x, y, f"{threads} threads")
    return kernel(*args)


def refused(error: type[PeffectsError], function: Callable[..., Any], *args: Any) -> str:
    """The message of the error that a kernel raises."""
    with pytest.raises(error) as caught:
        pe.kernel(function)(*args)
    assert caught.value.fix
    return str(caught.value)


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


# --- packed tables -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TRIANGLES)
@pytest.mark.parametrize("size", [0, 1, 2, 5, 40])
def test_rows_of_dependent_length_make_a_packed_triangle(kind: Any, size: int) -> None:
    x = np.arange(float(size))

    def outer(x: Any) -> Any:
        return pe.table(
            lambda i: pe.table(lambda j: 10.0 * x[i] + x[j], over=kind(x).row(i)), over=x
        )

    found = check(outer, x)
    assert found.index_set == kind(size)
    np.testing.assert_array_equal(found.to_dense(), MASKS[kind](10 * x[:, None] + x))


def test_the_offsets_of_a_triangle_are_those_of_its_pairs() -> None:
    def places(x: Any) -> Any:
        n = pe.Upto(x)
        return pe.table(lambda i: pe.table(lambda j: n.ordinal((i, j)), over=i.upto()), over=x)

    assert [row.tolist() for row in check(places, X)] == [
        [0], [1, 2], [3, 4, 5], [6, 7, 8, 9], [10, 11, 12, 13, 14],
    ]  # fmt: skip


@pytest.mark.parametrize("kind", TRIANGLES)
def test_packed_triangles_are_arguments(kind: Any) -> None:
    dense = np.random.default_rng(0).normal(size=(5, 5))
    t = pe.pack(kind(5), dense)

    def uses(t: Any, x: Any) -> Any:
        rows = pe.table(lambda i: pe.sum(lambda j: t[i, j] * x[j]))
        whole = pe.sum(t), pe.sum(lambda i, j: t[i, j] * x[i], over=t.index_set)
        return rows, whole, pe.table(lambda i: pe.sum(t[i])), len(t), t.index.size

    masked = MASKS[kind](dense)
    rows, (total, weighted), sums, length, size = check(uses, t, X)
    np.testing.assert_allclose(rows, masked @ X)
    np.testing.assert_allclose([total, weighted], [masked.sum(), (masked.T @ X).sum()])
    np.testing.assert_allclose(sums, masked.sum(1))
    assert (length, size) == (5, 5)


def test_ragged_tables_are_arguments_results_and_domains() -> None:
    def normalized(r: Any) -> Any:
        total = pe.table(lambda i: pe.sum(lambda j: r[i, j]))
        longest = pe.max(lambda i: r.index_set.row(i).size, over=r)
        shares = pe.table(lambda i: pe.table(lambda j: r[i, j] / total[i]))
        positions = pe.table(lambda i, j: j, over=r.index_set)
        return total, longest, shares, positions

    total, longest, shares, positions = check(normalized, RAGGED)
    assert (total.tolist(), longest) == ([3.0, 0.0, 12.0, 6.0], 3)
    assert [row.tolist() for row in shares] == [[1 / 3, 2 / 3], [], [0.25, 4 / 12, 5 / 12], [1.0]]
    assert positions.packed.tolist() == [0, 1, 0, 1, 2, 0]
    assert shares.index_set == RAGGED.index_set


def test_new_lengths_and_sizes_compile_nothing() -> None:
    @pe.kernel
    def total(r: Any, t: Any) -> Any:
        return pe.sum(r) + pe.sum(lambda i: pe.sum(lambda j: t[i, j]))

    assert total(RAGGED, pe.Packed(pe.Upto(2), np.ones(3))) == 24.0
    assert total(pe.ragged([[1.0], [2.0]]), pe.Packed(pe.Upto(3), np.ones(6))) == 9.0
    assert "1 specialization" in repr(total)


def test_captured_packed_tables_are_read_at_each_call() -> None:
    held = {"t": pe.Packed(pe.Upto(2), np.array([1.0, 2.0, 3.0])), "r": RAGGED}

    @pe.kernel
    def product(x: Any) -> Any:
        t, r = held["t"], held["r"]
        return pe.table(lambda i: pe.sum(lambda j: t[i, j] * x[j])), pe.sum(r)

    x = np.array([1.0, 10.0])
    assert product(x)[0].tolist() == [1.0, 32.0]
    held["t"].packed[:] = [0.0, 0.0, 1.0]
    assert product(x)[0].tolist() == [0.0, 10.0]
    held["r"] = pe.ragged([[7.0]])
    assert product(x)[1] == 7.0
    held["t"] = pe.Packed(pe.Above(2), np.array([5.0]))
    assert product(x)[0].tolist() == [50.0, 0.0]


def test_elements_of_packed_tables_may_have_axes() -> None:
    t = pe.Packed(pe.Below(3), np.arange(6.0).reshape(3, 2))

    def summed(t: Any) -> Any:
        return t[2, 1, 0], pe.table(
            lambda i: pe.table(lambda j: t[i, j, 1], over=i.below()), over=t
        )

    one, second = check(summed, t)
    assert one == 4.0
    assert second.packed.tolist() == [1.0, 3.0, 5.0]


def test_accumulators_over_pairs_are_packed() -> None:
    def counts(x: Any, edge: Any) -> Any:
        h = pe.accumulator(pe.Below(x), dtype=int)
        d = pe.accumulator(pe.Below(x))
        for e in pe.par(edge.index):
            h[edge[e, 0], edge[e, 1]] += 1
        for i, j in pe.par(pe.Below(x)):
            d[i, j] += x[i] - x[j]
        return h, d

    h, d = check(counts, X, np.array([[2, 0], [4, 3], [2, 0]]))
    expected = np.zeros((5, 5), int)
    expected[2, 0], expected[4, 3] = 2, 1
    np.testing.assert_array_equal(h.to_dense(), expected)
    np.testing.assert_array_equal(d.to_dense(), np.tril(X[:, None] - X, -1))


def test_packed_bools_and_integers_are_packed_too() -> None:
    def larger(k: Any) -> Any:
        return (
            pe.table(lambda i: pe.table(lambda j: k[j] > k[i], over=i.upto())),
            pe.table(lambda i: pe.table(lambda j: k[j] - k[i], over=i.upto())),
        )

    k = np.array([3, 1, 2], np.int16)
    bools, integers = check(larger, k)
    assert bools.packed.tolist() == [False, True, False, True, False, False]
    assert (integers.dtype, integers.packed.tolist()) == (np.int16, [0, 2, 0, 1, -1, 0])


def test_packed_tables_are_carried_through_loops_and_branches() -> None:
    def halved(t: Any) -> Any:
        return pe.table(lambda i, j: 0.5 * t[i, j], over=t.index_set)

    def smoothed(t: Any, rounds: int) -> Any:
        for _ in range(rounds):
            t = halved(t)
        if rounds > 2:
            t = pe.table(lambda i, j: t[i, j] + 1.0, over=t.index_set)
        return t

    t = pe.Packed(pe.Upto(2), np.array([8.0, 16.0, 24.0]))
    assert check(smoothed, t, 2).packed.tolist() == [2.0, 4.0, 6.0]
    assert check(smoothed, t, 3).packed.tolist() == [2.0, 3.0, 4.0]


def test_reductions_over_pairs_know_empty_sets() -> None:
    def extremes(x: Any) -> Any:
        return (
            pe.max(lambda i, j: x[i] - x[j], over=pe.Below(x)),
            pe.mean(lambda p: x[p[0]], over=pe.Below(x)),
        )

    assert check(extremes, X) == (15.0, np.mean([2, 4, 4, 8, 8, 8, 16, 16, 16, 16]))
    assert "empty" in refused(ValueRangeError, extremes, X[:1])


def test_packed_loops_are_parallel_and_written_directly() -> None:
    def outer(x: Any) -> Any:
        return pe.table(lambda i: pe.table(lambda j: x[i] * x[j], over=i.upto()))

    loops = pe.explain(pe.kernel(outer), X).sections["loops"]
    assert "runs in parallel" in loops
    assert "written directly" in loops


# --- derivatives ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TRIANGLES)
def test_gradients_of_triangles_are_triangles(kind: Any) -> None:
    t = pe.pack(kind(4), np.random.default_rng(1).normal(size=(4, 4)))
    x = np.array([0.3, -0.7, 1.1, 0.2])

    @pe.kernel
    def loss(t: Any, x: Any) -> Any:
        y = pe.table(lambda i: pe.sum(lambda j: t[i, j] * pe.sin(x[j])))
        return pe.sum(lambda i: y[i] ** 2)

    dt, dx = pe.grad(loss, argnums=(0, 1))(t, x)
    masked = t.to_dense()
    y = masked @ np.sin(x)
    assert dt.index_set == t.index_set
    np.testing.assert_allclose(dt.to_dense(), MASKS[kind](2 * y[:, None] * np.sin(x)))
    np.testing.assert_allclose(dx, 2 * y @ masked * np.cos(x))
    pe.check_grads(lambda values, x: loss(pe.Packed(t.index_set, values), x), (t.packed, x))


def test_derivatives_of_packed_results() -> None:
    x = np.array([0.3, -0.7, 1.1, 0.2])

    @pe.kernel
    def outer(x: Any) -> Any:
        return pe.table(lambda i: pe.table(lambda j: pe.sin(x[i] * x[j]), over=i.above()))

    value, tangent = pe.jvp(outer, (x,), (np.ones(4),))
    slope = np.cos(np.multiply.outer(x, x)) * np.add.outer(x, x)
    assert tangent.index_set == value.index_set == pe.Above(4)
    np.testing.assert_allclose(tangent.to_dense(), np.triu(slope, 1))
    _, pullback = pe.vjp(outer, x)
    ct = pe.Packed(value.index_set, np.arange(6.0))
    dense = ct.to_dense()
    weights = np.cos(np.multiply.outer(x, x)) * dense
    (dx,) = pullback(ct)
    np.testing.assert_allclose(dx, weights @ x + weights.T @ x)


def test_gradients_of_ragged_tables_are_ragged() -> None:
    @pe.kernel
    def loss(r: Any, w: Any) -> Any:
        return pe.sum(lambda i: pe.logsumexp(lambda j: w[0] * r[i, j] + w[1]) ** 2)

    r = pe.ragged([[0.1, 0.4], [1.0], [-0.3, 0.2, 0.5]])
    w = np.array([0.7, 0.1])
    dr, dw = pe.grad(loss, argnums=(0, 1))(r, w)
    assert dr.index_set == r.index_set
    step = 1e-6
    for place in range(6):
        shifted = [r.packed.copy() for _ in range(2)]
        shifted[0][place] += step
        shifted[1][place] -= step
        high, low = (loss(pe.Packed(r.index_set, values), w) for values in shifted)
        np.testing.assert_allclose(dr.packed[place], (high - low) / (2 * step), rtol=1e-7)
    _, forward = pe.jvp(loss, (r, w), (pe.Packed(r.index_set, np.ones(6)), np.zeros(2)))
    np.testing.assert_allclose(forward, dr.packed.sum())
    assert dw.shape == (2,)


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


@pytest.mark.parametrize(
    ("i", "j", "words"),
    [(7, 1, "index 7 is outside the 5 rows of `t`"), (2, 3, "index 3 is outside row 2 of `t`")],
)
def test_numbers_outside_a_packed_table_are_refused(i: int, j: int, words: str) -> None:
    t = pe.Packed(pe.Upto(5), np.arange(15.0))
    assert check(lambda t, i, j: t[i, j], t, 3, 2) == 8.0
    assert words in refused(BoundsError, lambda t, i, j: t[i, j], t, i, j)


def test_both_indices_of_a_packed_table_in_one_loop_are_refused() -> None:
    t = pe.Packed(pe.Upto(5), np.arange(15.0))
    message = refused(UnknownIndexSetError, lambda t: pe.sum(lambda i, j: t[i, j]), t)
    assert "Nest the loops" in message


def test_packed_tables_whose_parts_do_not_fit_are_refused() -> None:
    t = pe.Packed(pe.Upto(3), np.zeros(6))
    t.packed = np.zeros(5)
    message = refused(
        IndexSetMismatchError, lambda t: pe.sum(lambda i, j: t[i, j], over=t.index_set), t
    )
    assert "5 elements, and its index set 6 pairs" in message


def test_packed_rows_in_a_loop_of_two_indices_are_refused() -> None:
    def wrong(a: Any) -> Any:
        return pe.table(lambda i, k: pe.table(lambda j: a[j, k], over=i.upto()), over=(a, 3))

    assert "one of several indices" in refused(KernelTypeError, wrong, A)
