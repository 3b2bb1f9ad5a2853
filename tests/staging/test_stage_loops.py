"""Loop operations: what staged tables, reductions and accumulators compute, against numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from staged import call, pe, run, staged, text

RNG = np.random.default_rng(7)
A, B = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 5))
X = RNG.normal(size=6)


def test_matmul_is_numpy_s() -> None:
    def matmul(a: Any, b: Any) -> Any:
        return pe.table(lambda i, j: pe.sum(lambda k: a[i, k] * b[k, j]))

    np.testing.assert_allclose(run(matmul, A, B), A @ B)


def histogram(x: Any, lo: Any, hi: Any, nbins: Any) -> Any:
    h = pe.accumulator(pe.Fin(nbins), dtype=float)
    for i in pe.par(x):
        b = int((x[i] - lo) / (hi - lo) * nbins)
        h[min(max(b, 0), nbins - 1)] += 1.0
    return h


def test_histogram_is_numpy_s() -> None:
    x = RNG.random(200)
    expected = np.histogram(x, 7, (0.0, 1.0))[0]
    assert run(histogram, x, 0.0, 1.0, 7).tolist() == expected.tolist()


def log_likelihood(x: Any, log_weight: Any, mean: Any, log_scale: Any) -> Any:
    precision = pe.table(lambda k, j: pe.exp(-2.0 * log_scale[k, j]))
    norm = pe.table(lambda k: log_weight[k] - pe.sum(lambda j: log_scale[k, j]))

    def point(n: Any) -> Any:
        t = pe.table(
            lambda k: (
                norm[k] - 0.5 * pe.sum(lambda j: (x[n, j] - mean[k, j]) ** 2 * precision[k, j])
            )
        )
        return pe.logsumexp(lambda k: t[k])

    return pe.sum(point)


def test_log_likelihood_is_numpy_s() -> None:
    x, w, mean, scale = (RNG.normal(size=shape) for shape in ((10, 3), 4, (4, 3), (4, 3)))
    squares = ((x[:, None] - mean) ** 2 * np.exp(-2 * scale)).sum(2)
    t = w - scale.sum(1) - 0.5 * squares
    expected = np.log(np.exp(t).sum(1)).sum()
    assert run(log_likelihood, x, w, mean, scale) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("sum", np.sum), ("prod", np.prod), ("max", np.max), ("min", np.min), ("mean", np.mean),
        ("argmin", np.argmin), ("argmax", np.argmax),
        ("logsumexp", lambda x: np.log(np.sum(np.exp(x)))),
    ],
)  # fmt: skip
def test_reduction_is_numpy_s(operation: str, expected: Any) -> None:
    reduce_ = getattr(pe, operation)
    assert run(lambda x: reduce_(lambda i: 2.0 * x[i]), X) == pytest.approx(expected(2.0 * X))
    assert run(lambda x: reduce_(x), X) == pytest.approx(expected(X))


def test_reduction_over_several_indices() -> None:
    assert run(lambda a: pe.sum(lambda i, j: a[i, j] * a[i, j]), A) == pytest.approx((A * A).sum())
    assert run(lambda a: pe.max(a), A) == A.max()
    assert run(lambda a: pe.mean(lambda i, j: a[i, j]), A) == pytest.approx(A.mean())


def test_any_and_all() -> None:
    x = np.array([0.5, 2.0])
    assert run(lambda x: (pe.any(lambda i: x[i] > 1), pe.all(lambda i: x[i] > 1)), x) == (
        True,
        False,
    )
    assert run(lambda x: (any(x), all(x)), np.array([True, False])) == (True, False)
    empty = np.zeros(0)
    assert run(lambda x: (pe.any(lambda i: x[i] > 1), pe.all(lambda i: x[i] > 1)), empty) == (
        False,
        True,
    )


def test_sum_has_numpy_s_type() -> None:
    for dtype in (np.int8, np.uint16, np.int32, np.float32, np.bool_):
        x = np.array([1, 0, 1], dtype)
        assert run(lambda x: pe.sum(x), x).dtype == x.sum().dtype
    assert run(lambda x: pe.sum(lambda i: x[i] > 0), X) == int((X > 0).sum())


def test_argmin_takes_the_first_and_nan_like_numpy() -> None:
    for values in ([1.0, 2.0, 0.4, 5.0], [3.0, 1.0, 1.0], [1.0, math.nan, 0.0]):
        x = np.array(values)
        assert run(lambda x: (pe.argmin(x), pe.argmax(x)), x) == (np.argmin(x), np.argmax(x))


def test_logsumexp_of_infinities() -> None:
    assert run(lambda x: pe.logsumexp(x), np.array([-np.inf, -np.inf])) == -np.inf
    assert run(lambda x: pe.logsumexp(x), np.array([1000.0, 1000.0])) == pytest.approx(
        1000 + math.log(2)
    )
    assert run(lambda x: pe.logsumexp(x), np.zeros(0)) == -np.inf


def test_logsumexp_of_a_table_copies_nothing() -> None:
    program = text(lambda x: pe.logsumexp(lambda i: x[i]), X)
    assert "-> x1" not in program


def test_rows_and_tuples_of_results() -> None:
    def stats(a: Any) -> Any:
        rows = pe.table(lambda i: a[i])
        total, squares = pe.sum(lambda i: (a[i], a[i, 0] * a[i, 0]))
        return rows, pe.table(lambda i: {"first": a[i, 0], "row": a[i]}), total, squares

    rows, tables, total, squares = run(stats, A)
    np.testing.assert_array_equal(rows, A)
    np.testing.assert_array_equal(tables["first"], A[:, 0])
    np.testing.assert_array_equal(tables["row"], A)
    np.testing.assert_allclose(total, A.sum(0))
    assert squares == pytest.approx((A[:, 0] ** 2).sum())


def test_product_sets_give_tuples_of_indices() -> None:
    def both(n: Any, m: Any) -> Any:
        pairs = pe.table(lambda p: p[0] * m + p[1], over=pe.Fin(n) * pe.Fin(m))
        return (
            pairs,
            pe.table(lambda i, j: i * m + j, over=(n, m)),
            pe.sum(lambda p: pairs[p], over=(n, m)),
        )

    pairs, same, total = run(both, 3, 5)
    assert pairs.tolist() == same.tolist() == np.arange(15).reshape(3, 5).tolist()
    assert total == 105


def test_over_takes_sizes_sets_and_tables() -> None:
    def sizes(x: Any, n: Any) -> Any:
        ones = [
            pe.sum(lambda i: 1, over=over)
            for over in (n, pe.Fin(n), 4, x, x.index, x.index_set, len(x), x.shape[0], n + 1)
        ]
        return ones

    assert run(sizes, X, 3) == [3, 3, 4, 6, 6, 6, 6, 6, 4]


def test_outer_index_sets_of_inner_tables_may_be_computed() -> None:
    def ragged(n: Any) -> Any:
        def row_sum(i: Any) -> Any:
            row = pe.table(lambda j: j + 1, over=i + 1)
            return pe.sum(lambda j: row[j])

        return pe.table(row_sum, over=n)

    assert run(ragged, 4).tolist() == [1, 3, 6, 10]


def test_index_of_one_set_needs_no_test_and_every_other_is_tested() -> None:
    def stencil(x: Any, n: Any) -> Any:
        return pe.table(lambda i: x[i] + x[i - 1] + x[0] + x[-1] + x[n] + pe.unchecked(x)[n])

    program = text(stencil, X, 2)
    reads = [line.strip() for line in program.splitlines() if "= x[" in line]
    marks = [line[line.index("]") + 1 :] for line in reads]
    assert marks == ["", "?", "?", "", "?", "!"]  # a negative literal is tested beforehand
    assert "check" in program


def test_negative_literals_count_from_the_end() -> None:
    assert run(lambda x: (x[-1], x[-6]), X) == (X[-1], X[0])
    assert run(lambda: pe.table(lambda i: i, over=4)[-1]) == 3


def test_accumulators_of_all_operations() -> None:
    def all_of(x: Any) -> Any:
        total, product = pe.accumulator(), pe.accumulator(op="mul")
        low, high = pe.accumulator(op="min"), pe.accumulator(op="max")
        some, every = pe.accumulator(dtype=bool, op="or"), pe.accumulator(dtype=bool, op="and")
        for i in pe.par(x):
            total += x[i]
            product *= x[i]
            low.combine((), x[i])
            high.combine((), x[i])
            some |= x[i] > 1.0
            every &= x[i] > -100.0
        return total, product, low, high, some, every

    expected = (X.sum(), X.prod(), X.min(), X.max(), (X > 1).any(), True)
    assert run(all_of, X) == pytest.approx(expected)


def test_whole_rows_are_accumulated() -> None:
    def by_group(x: Any, group: Any, n: Any) -> Any:
        sums = pe.accumulator(n, x.index_sets[1])
        for i in pe.par(x):
            sums[int(group[i])] += x[i]
        return sums

    group = np.array([0, 1, 0])
    expected = [A[0] + A[2], A[1]]
    np.testing.assert_allclose(run(by_group, A, group, 2), expected)


def test_integer_rows_become_floats_when_they_are_accumulated() -> None:
    def total(x: Any) -> Any:
        sums = pe.accumulator(x.index_sets[1])
        pe.each(lambda i: sums.combine((), x[i]), over=x)
        return sums

    x = np.arange(6).reshape(2, 3)
    assert run(total, x).tolist() == [3.0, 5.0, 7.0]


def test_accumulator_regions_end_at_the_first_read() -> None:
    def normalized(x: Any) -> Any:
        total = pe.accumulator()
        count = pe.accumulator(dtype=int)
        for i in pe.par(x):
            total += x[i]
        factor = 2.0
        mean = total / len(x)
        for i in pe.par(x):
            if x[i] > mean:
                count += 1
        return pe.table(lambda i: factor * x[i] / total), count

    scaled, count = run(normalized, X)
    np.testing.assert_allclose(scaled, 2 * X / X.sum())
    assert count == (X.mean() < X).sum()


def test_values_of_loops_that_accumulate_leave_the_region() -> None:
    def running(x: Any) -> Any:
        largest = pe.accumulator(op="max")
        s = 0.0
        for k in range(len(x)):
            s += x[k]
            largest.combine((), s)
        twice = 2.0 * s
        largest.combine((), twice)
        return s, largest

    total, largest = run(running, X)
    assert total == pytest.approx(X.sum())
    assert largest == pytest.approx(max(*np.cumsum(X), 2 * X.sum()))


def test_private_accumulators_are_made_in_each_iteration() -> None:
    def rows(a: Any) -> Any:
        out = pe.accumulator(a.index)
        for i in pe.par(a):
            mine = pe.accumulator()
            for j in pe.par(a.index_sets[1]):
                mine += a[i, j]
            out[i] += mine
        return out

    np.testing.assert_allclose(run(rows, A), A.sum(1))


def test_accumulators_pass_through_functions() -> None:
    def deposit(h: Any, b: Any, w: Any) -> None:
        h[b] += w

    def weights(x: Any, n: Any) -> Any:
        h = pe.accumulator(n)
        pe.each(lambda i: deposit(h, i % n, x[i]), over=x)
        return h

    np.testing.assert_allclose(run(weights, X, 2), [X[::2].sum(), X[1::2].sum()])


def test_two_dimensional_parallel_loops() -> None:
    def off_diagonal(a: Any) -> Any:
        total = pe.accumulator()
        for i, j in pe.par(*a.index_sets):
            if int(i) != int(j):
                total += a[i, j]
        return total

    expected = A.sum() - np.trace(A)
    assert run(off_diagonal, A) == pytest.approx(expected)


def test_stop_gradient_and_where_keep_values() -> None:
    def clipped(x: Any) -> Any:
        row = pe.stop_gradient(pe.table(lambda i: pe.where(x[i] > 0, x[i], 0)))
        return row, pe.stop_gradient(x[0])

    row, first = run(clipped, X)
    np.testing.assert_array_equal(row, np.maximum(X, 0))
    assert first == X[0]


def test_programs_do_not_depend_on_sizes() -> None:
    made = staged(lambda x: pe.sum(lambda i: x[i]), X)
    assert call(made, np.arange(100.0)) == 4950.0
