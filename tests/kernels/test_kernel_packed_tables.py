"""Packed triangles and ragged tables in kernels: arguments, results, domains, derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_checks import check, refused
from staged import staged

import peffects as pe
from peffects.errors import (
    BoundsError,
    IndexSetError,
    IndexSetMismatchError,
    KernelTypeError,
    UnknownIndexSetError,
    ValueRangeError,
)
from peffects.ir.evaluate import Work, evaluate
from peffects.optimize.pipeline import optimize

X = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
A = np.arange(15.0).reshape(5, 3)
RAGGED = pe.ragged([[1.0, 2.0], [], [3.0, 4.0, 5.0], [6.0]])
TRIANGLES = [pe.Upto, pe.Below, pe.From, pe.Above]
MASKS: dict[Any, Callable[[Any], Any]] = {
    pe.Upto: np.tril,
    pe.Below: lambda a: np.tril(a, -1),
    pe.From: np.triu,
    pe.Above: lambda a: np.triu(a, 1),
}


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


@pytest.mark.parametrize("lengths", [[2, 0, 3], [], [0, 0], [4]])
def test_lengths_may_be_a_table_of_the_kernel(lengths: list[int]) -> None:
    def counted(lengths: Any) -> Any:
        n = pe.Ragged(lengths)
        packed = pe.table(lambda i, j: 10 * i + j, over=n)
        return packed, pe.table(lambda i: pe.sum(lambda j: packed[i, j])), n.size

    rows = [[10 * i + j for j in range(count)] for i, count in enumerate(lengths)]
    packed, sums, size = check(counted, np.array(lengths, np.int64))
    assert [row.tolist() for row in packed] == rows
    assert (sums.tolist(), size) == ([sum(row) for row in rows], sum(lengths))
    assert packed.index_set == pe.Ragged(lengths)


def test_lengths_of_the_kernel_are_tested() -> None:
    def size(lengths: Any) -> Any:
        return pe.Ragged(lengths).size

    assert "negative" in refused(ValueRangeError, size, np.array([1, -1]))
    assert "of f64" in refused(KernelTypeError, size, X)


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


def test_arithmetic_on_packed_tables_is_pointwise() -> None:
    def combined(t: Any, x: Any) -> Any:
        u = pe.table(lambda i: pe.table(lambda j: x[j], over=i.upto()))
        return 2.0 * t + u * x[1], pe.exp(-t), x[2] - t

    t = pe.pack(pe.Upto(5), np.random.default_rng(2).normal(size=(5, 5)))
    both, exponentials, differences = check(combined, t, X)
    columns = pe.pack(pe.Upto(5), np.ones((5, 5)) * X)
    np.testing.assert_allclose(both.packed, 2.0 * t.packed + 2.0 * columns.packed)
    np.testing.assert_allclose(exponentials.packed, np.exp(-t.packed))
    np.testing.assert_allclose(differences.packed, 4.0 - t.packed)
    message = refused(IndexSetMismatchError, lambda x: pe.sum(pe.Packed(pe.Upto(x), x)), X)
    assert "5 elements, and its index set 15 pairs" in message


def test_pairs_unpack_from_their_ordinal() -> None:
    def parts(r: Any) -> Any:
        n, last = pe.Upto(r.index), 0
        for i, j in n:
            last = 3 * last + i - j

        def part(k: Any) -> Any:
            i, j = n.from_ordinal(int(k))
            return 10 * i + j

        return pe.table(part, over=n.size), last

    expected, last = [10 * i + j for i in range(4) for j in range(i + 1)], 0
    for i in range(4):
        for j in range(i + 1):
            last = 3 * last + i - j
    found = check(parts, RAGGED)
    assert (found[0].tolist(), found[1]) == (expected, last)


def test_a_triangular_sum_is_half_the_work_of_the_masked_square() -> None:
    def triangle(x: Any) -> Any:
        return pe.sum(lambda i: pe.sum(lambda j: pe.exp(x[i] - x[j]), over=i.below()), over=x)

    def masked(x: Any) -> Any:
        return pe.sum(lambda i: pe.sum(lambda j: pe.where(j < i, pe.exp(x[i] - x[j]), 0.0)), over=x)

    x, done = np.linspace(0.0, 1.0, 50), []
    for function in (triangle, masked):
        program = optimize(staged(function, x).program)
        done.append(Work())
        evaluate(program, [x], work=done[-1])
    assert done[0].operations < 0.5 * done[1].operations
    np.testing.assert_allclose(check(triangle, x), check(masked, x))


def test_packed_tables_are_not_filled_before_they_are_written() -> None:
    def outer(x: Any) -> Any:
        return pe.table(lambda i: pe.table(lambda j: x[i] * x[j], over=i.upto()))

    source = pe.explain(pe.kernel(outer), X).sections["generated source"]
    assert source.count("store_f64_1(") == 1


def test_what_does_not_write_all_of_a_packed_table_is_filled_before() -> None:
    def some(x: Any) -> Any:
        h = pe.accumulator(pe.Upto(x))
        for i in pe.par(x):
            for j in pe.par(i.upto()):
                if x[i] > 3.0:
                    h[i, j] += x[j]
        return h

    expected = np.tril(np.ones((5, 5)) * X)
    expected[X <= 3.0] = 0.0
    np.testing.assert_array_equal(check(some, X).to_dense(), expected)


def test_zeros_have_the_sign_that_the_evaluator_gives_them() -> None:
    def negated(x: Any) -> Any:
        return pe.table(lambda i: pe.table(lambda j: -x[j], over=i.upto()))

    assert not np.signbit(check(negated, np.zeros(3)).packed).any()


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


# --- refusals ------------------------------------------------------------------------------------


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


# --- rows whose lengths the kernel does not compute -----------------------------------------------

LENGTHS = np.array([2, 0, 1, 3, 1])


def of_default(x: Any, lengths: Any = LENGTHS) -> Any:
    return pe.table(lambda i, j: x[i] * j, over=pe.Ragged(lengths))


def of_a_list(x: Any) -> Any:
    return pe.table(lambda i, j: x[i] * j, over=pe.Ragged([2, 0, 1, 3, 1]))


def of_an_array(x: Any) -> Any:
    return pe.table(lambda i, j: x[i] * j, over=pe.Ragged(np.array([2, 0, 1, 3, 1])))


@pytest.mark.parametrize("function", [of_default, of_a_list, of_an_array])
def test_a_ragged_set_is_made_inside_a_kernel(function: Any) -> None:
    meant = check(function, X)
    np.testing.assert_array_equal(meant.packed, [0.0, 1.0, 0.0, 0.0, 8.0, 16.0, 0.0])
    np.testing.assert_array_equal(
        pe.grad(lambda x: pe.sum(function(x)))(X), [1.0, 0.0, 0.0, 3.0, 0.0]
    )
    np.testing.assert_array_equal(pe.kernel(function).debug(X).packed, meant.packed)


def test_lengths_of_a_ragged_set_are_never_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = np.array([1, 1, 0, 0, 0])
    monkeypatch.setattr(of_default, "__defaults__", (lengths,))
    kernel = pe.kernel(of_default)
    assert len(kernel(X).packed) == 2
    lengths[4] = 3
    np.testing.assert_array_equal(kernel(X).packed, [0.0, 0.0, 0.0, 16.0, 32.0])


def test_lengths_that_are_none_are_refused_inside_a_kernel() -> None:
    for lengths, words in (([1, -2], "-2, which is negative"), ([1.5], "lengths of rows")):
        with pytest.raises(IndexSetError, match=words):
            staged(lambda x, n=lengths: pe.table(lambda i, j: x[i], over=pe.Ragged(n)), X)
