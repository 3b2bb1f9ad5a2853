"""Lists that loops append to, filters, and what combines by a function of the user's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from everywhere import run_everywhere
from hypothesis import given
from hypothesis import strategies as st
from staged import check_refused, run

import peffects as pe
from peffects.errors import (
    AccumulatorError,
    BoundsError,
    ControlFlowError,
    KernelTypeError,
)

X = np.array([3.0, 1.0, 2.0, 1.0, 5.0])
RNG = np.random.default_rng(5)


# --- lists ---------------------------------------------------------------------------------------


def edges(a: Any) -> Any:
    out = pe.list_accumulator()
    for i, j in pe.par(a.shape[0], a.shape[1]):
        if a[i, j]:
            out.append((i, j))
    return out


@given(st.lists(st.booleans(), min_size=12, max_size=12))
def test_adjacency_lists_are_in_order(bits: list[bool]) -> None:
    a = np.array(bits).reshape(4, 3)
    found = run(edges, a)
    np.testing.assert_array_equal(np.stack(found), np.stack(np.nonzero(a)))


def test_c14_matches_of_a_triple_loop() -> None:
    def matches(mask: Any) -> Any:
        out = pe.list_accumulator(dtype=int)
        for i in pe.par(mask.shape[0]):
            for j in pe.par(mask.shape[1]):
                for k in range(mask.shape[2]):
                    if mask[i, j, k] == 2:
                        out.append(100 * i + 10 * j + k)
        return out, len(out), pe.sum(out)

    mask = RNG.integers(1, 3, (5, 4, 3))
    expected = [100 * i + 10 * j + k for i, j, k in np.argwhere(mask == 2).tolist()]
    out, count, total = run_everywhere(matches, mask)
    assert out.tolist() == expected and count == len(expected) and total == sum(expected)


def test_rows_records_and_two_places() -> None:
    def f(a: Any) -> Any:
        out, small = pe.list_accumulator(), pe.list_accumulator()
        total = pe.accumulator()
        for i in pe.par(a):
            s = pe.sum(lambda j, i=i: a[i, j])
            total += s
            if s > 0.0:
                out.append({"row": a[i], "sum": s})
                out.append({"row": a[0], "sum": 0})
            else:
                small.append(i)
        return out, small, total

    a = np.arange(-4.0, 5.0).reshape(3, 3)
    out, small, total = run_everywhere(f, a, debug=False)
    np.testing.assert_array_equal(out["row"], [a[2], a[0]])
    assert out["sum"].tolist() == [9.0, 0.0] and small.tolist() == [0, 1] and total == 0.0


def test_accumulators_that_what_is_appended_depends_on() -> None:
    def f(a: Any) -> Any:
        out = pe.list_accumulator()
        for i in pe.par(a):
            total = pe.accumulator()
            for j in pe.par(a.shape[1]):
                total += a[i, j]
                if a[i, j] < 0.0:
                    out.append(a[i, j])
            for j in pe.par(a.shape[1]):
                total += 10.0 * a[i, j]
            if total > 0.0:
                out.append(total)
        return out

    a = np.arange(-4.0, 5.0).reshape(3, 3)
    assert run_everywhere(f, a, debug=False).tolist() == [-4.0, -3.0, -2.0, -1.0, 99.0]


def test_appending_in_sequential_loops() -> None:
    def primes(n: Any) -> Any:
        out = pe.list_accumulator()
        for i in range(2, n):
            k, prime = 2, True
            while k * k <= i and prime:
                prime = i % k != 0
                k += 1
            if prime:
                out.append(i)
        return out

    assert run_everywhere(primes, 30).tolist() == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
    assert run_everywhere(primes, 0).tolist() == []


def test_a_list_of_an_iteration_and_its_use() -> None:
    def f(a: Any) -> Any:
        def row(i: Any) -> Any:
            out = pe.list_accumulator()
            for j in range(a.shape[1]):
                if a[i, j] > 0.0:
                    out.append(a[i, j])
            return pe.sum(out), len(out)

        return pe.table(row, over=a)

    a = RNG.normal(size=(4, 5))
    sums, counts = run(f, a)
    np.testing.assert_allclose(sums, np.where(a > 0, a, 0).sum(1))
    np.testing.assert_array_equal(counts, (a > 0).sum(1))


def test_filters_are_dex_s() -> None:
    def f(x: Any) -> Any:
        return pe.filter(lambda v: v > 5, x), pe.arg_filter(lambda v: v > 5, x)

    kept, places = run_everywhere(f, np.array([0, 7, -1, 6]))
    assert kept.tolist() == [7, 6] and places.tolist() == [1, 3]


def test_filter_of_several_tables() -> None:
    def f(x: Any, a: Any) -> Any:
        return pe.filter(lambda p: p[0] > 1.5, (x, a))

    a = np.arange(10.0).reshape(5, 2)
    x, rows = run_everywhere(f, X, a)
    np.testing.assert_array_equal(x, X[X > 1.5])
    np.testing.assert_array_equal(rows, a[X > 1.5])


def test_derivatives_pass_through_lists() -> None:
    def f(x: Any) -> Any:
        big = pe.filter(lambda v: v > 1.5, x)
        return pe.sum(lambda k: big[k] ** 2)

    pe.check_grads(f, (X,))
    np.testing.assert_array_equal(pe.grad(f)(X), np.where(X > 1.5, 2 * X, 0.0))


def test_a_list_is_read_after_its_loops() -> None:
    def f(x: Any) -> Any:
        out = pe.list_accumulator()
        for i in pe.par(x):
            out.append(x[i])
            y = len(out)  # here
        return out, y

    check_refused(AccumulatorError, f, (X,), "is read inside a parallel loop")

    def g(x: Any) -> Any:
        out = pe.list_accumulator()
        out.append(x[0])
        n = len(out)
        out.append(x[1])  # here
        return n

    check_refused(AccumulatorError, g, (X,), "written after it was read")


@pytest.mark.parametrize("value", [(1.0,), {"a": 1.0}, ()])
def test_elements_have_one_structure(value: Any) -> None:
    def f(x: Any) -> Any:
        out = pe.list_accumulator()
        out.append(x[0])
        out.append(value)  # here
        return out

    check_refused(KernelTypeError, f, (X,), "structure")


def test_an_empty_list_needs_a_type() -> None:
    def untyped() -> Any:
        out = pe.list_accumulator()  # here
        return out

    check_refused(KernelTypeError, untyped, (), "dtype")
    assert run(lambda: pe.list_accumulator(dtype=float)).shape == (0,)


def test_lists_refuse_other_types_and_uses() -> None:
    def real(x: Any) -> Any:
        out = pe.list_accumulator(dtype=int)  # here
        out.append(x[0])
        return out

    def put(x: Any) -> Any:
        out = pe.list_accumulator()
        out.append(x[0])
        out[0] = 1.0  # here
        return out

    check_refused(KernelTypeError, real, (X,), "float", "dtype=float")
    check_refused(AccumulatorError, put, (X,), "append(v)")
    with pytest.raises(ControlFlowError, match="outside a kernel"):
        pe.list_accumulator()
    with pytest.raises(KernelTypeError, match="no rows"):
        run(lambda x: pe.filter(lambda v: v > 0, 3.0), X)


# --- functions of the user's ---------------------------------------------------------------------


def test_saturating_histogram() -> None:
    def histogram(image: Any, bins: Any) -> Any:
        h = pe.accumulator(bins, op=lambda x, y: min(x + y, 255), empty=0)
        for i, j in pe.par(image.shape[0], image.shape[1]):
            h.combine(image[i, j], 1)
        return h

    image = RNG.integers(0, 3, (30, 20))
    image[:2] = 3
    expected = np.minimum(np.bincount(image.ravel(), minlength=5), 255)
    assert run_everywhere(histogram, image, 5).tolist() == expected.tolist()


def smaller(a: Any, b: Any) -> Any:
    """The first of the smallest, with its place."""
    take = b[0] < a[0]
    return (b[0] if take else a[0], b[1] if take else a[1])


def test_accumulators_and_reductions_of_trees() -> None:
    def f(x: Any) -> Any:
        best = pe.accumulator(op=smaller, empty=(np.inf, -1))
        for i in pe.par(x):
            best.combine((), (x[i], i))
        return best, pe.reduce(lambda i: (x[i], i), smaller, (np.inf, -1))

    by_accumulator, by_reduction = run_everywhere(f, X)
    assert tuple(by_accumulator) == tuple(by_reduction) == (1.0, 1)
    assert tuple(run(f, X[:0])[0]) == (np.inf, -1)


def test_order_is_kept_where_it_matters() -> None:
    def f(x: Any) -> Any:
        last = pe.accumulator(2, op=lambda a, b: 10.0 * a + b, empty=0.0)
        for i in pe.par(x):
            last.combine(i % 2, x[i])
        return last, pe.reduce(x, lambda a, b: 10.0 * a + b, 0.0)

    pairs, whole = run_everywhere(f, X)
    assert pairs.tolist() == [325.0, 11.0] and whole == 31215.0


def test_a_product_of_matrices() -> None:
    def f(m: Any, start: Any) -> Any:
        def product(a: Any, b: Any) -> Any:
            return pe.table(lambda i, j: pe.sum(lambda k: a[i, k] * b[k, j]))

        return pe.reduce(lambda i: m[i], product, start)

    m = RNG.normal(size=(4, 2, 2))
    np.testing.assert_allclose(
        run_everywhere(f, m, np.eye(2), rtol=1e-12), m[0] @ m[1] @ m[2] @ m[3]
    )


def test_derivatives_of_a_user_s_product() -> None:
    def f(x: Any) -> Any:
        h = pe.accumulator(2, op=lambda a, b: a * b, empty=1.0)
        for i in pe.par(x):
            h.combine(i % 2, x[i])
        return h[0] + 2.0 * h[1] + pe.reduce(x, lambda a, b: a * b + b, 0.0)

    pe.check_grads(f, (X,))


def test_loops_go_on_to_do_all_else_in_parallel() -> None:
    def f(x: Any) -> Any:
        h = pe.accumulator(op=lambda a, b: max(a, b), empty=-1e9)
        total = pe.accumulator()
        for i in pe.par(x):
            total += x[i]
            h.combine((), x[i])
        return total, h

    assert tuple(run_everywhere(f, X)) == (12.0, 5.0)
    loops = pe.explain(pe.kernel(f), X).sections["loops"]
    assert "runs in parallel" in loops and "`fold` is serial" in loops


def test_refusals_of_functions() -> None:
    def operator(x: Any) -> Any:
        h = pe.accumulator(2, op=lambda a, b: a * b, empty=1.0)
        for i in pe.par(x):
            h[i % 2] += x[i]  # here
        return h

    def structure(x: Any) -> Any:
        h = pe.accumulator(2, op=lambda a, b: (a, b), empty=1.0)  # here
        return h

    def start(x: Any) -> Any:
        return pe.accumulator(2, op=lambda a, b: a + b)  # here

    def rows(x: Any) -> Any:
        h = pe.accumulator(2, 2, op=lambda a, b: a + b, empty=0.0)
        h.combine(0, x)  # here
        return h

    check_refused(AccumulatorError, operator, (X,), "h.combine(i, v)")
    check_refused(KernelTypeError, structure, (X,), "structure")
    check_refused(KernelTypeError, start, (X,), "`empty` is None")
    check_refused(KernelTypeError, rows, (X,), "2 axes and is given 1")


def test_indices_of_functions_are_tested() -> None:
    def f(x: Any) -> Any:
        h = pe.accumulator(2, op=lambda a, b: a * b, empty=1.0)
        for i in pe.par(x):
            h.combine(i + 1, x[i])
        return h

    kernel: Any = pe.kernel(f)
    for call in (kernel, kernel.debug):
        with pytest.raises(BoundsError, match="index 2 is out of bounds for axis 0"):
            call(X)
