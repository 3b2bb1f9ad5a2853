"""Facts of Dex's tests, its sections Loops, State and Accum, in our form; numbers are those facts'.

Each runs by the evaluator, as compiled code on 1 to 4 threads, and as plain Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from everywhere import run_everywhere

import peffects as pe

# --- loops and tables ----------------------------------------------------------------------------


def test_10_sums_and_products() -> None:
    def f(n: Any, m: Any) -> Any:
        return pe.sum(lambda i: i, over=n), pe.prod(lambda i: i + 1, over=m)

    assert tuple(run_everywhere(f, 10, 3)) == (45, 6)


def test_12_transpose() -> None:
    def f(a: Any) -> Any:
        return pe.table(lambda i, j: a[j, i])

    assert run_everywhere(f, np.array([[0, 1], [2, 3]])).tolist() == [[0, 2], [1, 3]]


def test_13_sums_over_pairs_and_triples() -> None:
    def f(xs: Any, ys: Any, zs: Any) -> Any:
        pairs = pe.sum(lambda i, j: xs[i] + ys[j])
        return pairs, pe.sum(lambda i, j, k: xs[i] + ys[j] + zs[k])

    found = run_everywhere(f, np.array([10, 20]), np.array([1, 2, 3]), np.array([1]))
    assert tuple(found) == (102, 108)


def test_14_and_15_rows_and_slices() -> None:
    def f(a: Any, x: Any) -> Any:
        return pe.table(lambda j: a[1, j]), pe.table(lambda i: x[i + 2], over=3)

    row, part = run_everywhere(f, np.arange(4).reshape(2, 2), np.arange(1, 6))
    assert row.tolist() == [2, 3] and part.tolist() == [3, 4, 5]


def test_16_functions_in_tables() -> None:
    def f(n: Any) -> Any:
        def make(i: Any) -> Any:
            return lambda y: i + y

        return pe.table(lambda i: make(i)(i), over=n)

    assert run_everywhere(f, 4).tolist() == [0, 2, 4, 6]


def test_17_scan() -> None:
    def f(x: Any) -> Any:
        return pe.scan(lambda c, v: (c + v, c + v + 1), 0, x)[1]

    assert run_everywhere(f, np.array([1, 2, 3])).tolist() == [2, 4, 7]


def test_19_sizes_that_depend_on_data() -> None:
    def f(x: Any) -> Any:
        zs = pe.table(lambda i: i, over=pe.sum(x))
        return pe.sum(zs) + pe.sum(zs)

    assert run_everywhere(f, np.array([1, 1, 2])) == 12


def test_20_empty_and_extremal() -> None:
    def f(x: Any, none: Any) -> Any:
        nothing = pe.any(lambda i: none[i] > 0), pe.all(lambda i: none[i] > 0)

        def closer(a: Any, b: Any) -> Any:
            return b if b * b < a * a else a

        return nothing, pe.argmin(x), pe.reduce(x, closer, 1e9)

    nothing, place, smallest = run_everywhere(f, np.array([1, 2, 0.4, 5]), np.zeros(0))
    assert tuple(nothing) == (False, True) and place == 2 and smallest == 0.4


def test_21_polynomials() -> None:
    def f(c: Any, x: Any) -> Any:
        return pe.fold(lambda y, i: y * x + c[i], 0)

    assert run_everywhere(f, np.array([2, 3, 4]), 10) == 234


# --- state ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("backwards", "seen"), [(False, [0, 1, 2, 3]), (True, [3, 2, 1, 0])])
def test_23_a_counter_in_a_loop(backwards: bool, seen: list[int]) -> None:
    def f(n: Any) -> Any:
        count = pe.state(0)
        out = pe.state(pe.table(lambda i: 0, over=n))
        for i in reversed(range(n)) if backwards else range(n):
            out[i] = count.get()
            count.set(count.get() + 1)
        return out, count

    out, count = run_everywhere(f, 4)
    assert out.tolist() == seen and count == 4


def test_24_two_updates() -> None:
    def f(x: Any) -> Any:
        s = pe.state(x)
        s.set(s.get() + 2)
        s.set(s.get() * 3)
        return s

    assert run_everywhere(f, 1) == 9


def test_27_a_closure_reads_what_is_set_later() -> None:
    def f(y: Any) -> Any:
        s = pe.state(1)
        x = s.get()

        def g(y: Any) -> Any:
            return y + 10 * x + 100 * s.get()

        s.set(4)
        return g(y)

    assert run_everywhere(f, 5) == 415


# --- accumulators --------------------------------------------------------------------------------


def test_28_accumulating_in_and_outside_loops() -> None:
    def f(n: Any) -> Any:
        twice, around = pe.accumulator(dtype=int), pe.accumulator(dtype=int)
        for _ in pe.par(n):
            twice += 1
            twice += 1
            around += 1
        around += 1
        return twice, around

    assert tuple(run_everywhere(f, 2)) == (4, 3)


def test_29_whole_arrays() -> None:
    def f(a: Any) -> Any:
        total = pe.accumulator(a.shape[1], dtype=int)
        for i in pe.par(a):
            total += a[i]
        return total

    assert run_everywhere(f, np.array([[1, 2, 3], [2, 4, 5]])).tolist() == [3, 6, 8]


def test_30_two_accumulators() -> None:
    def f() -> Any:
        w1, w2 = pe.accumulator(dtype=int), pe.accumulator(dtype=int)
        w1 += 1
        w2 += 3
        w1 += 1
        return w1, w2

    assert tuple(run_everywhere(f)) == (2, 3)


def test_32_accumulating_on_one_side() -> None:
    def f(is_right: Any, value: Any) -> Any:
        total = pe.accumulator()
        for i in pe.par(value):
            if is_right[i]:
                total += 1.0 + value[i]
        return total

    right = np.array([False, True, False, False])
    assert run_everywhere(f, right, np.array([1.0, 3.5, 123.0, 456.0])) == 4.5


def test_34_adjacency_lists() -> None:
    def f(a: Any) -> Any:
        out = pe.list_accumulator()
        for i in pe.par(a.shape[0]):
            for j in pe.par(a.shape[1]):
                if a[i, j]:
                    out.append((i, j))
        return out

    a = np.array([[0, 0, 1, 0], [1, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0]], bool)
    found = list(zip(*map(np.ndarray.tolist, run_everywhere(f, a)), strict=True))
    assert found == [(0, 2), (1, 0), (1, 2), (1, 3), (2, 1), (2, 3)]


def test_35_filters() -> None:
    def f(x: Any) -> Any:
        return pe.filter(lambda v: v > 5, x), pe.arg_filter(lambda v: v > 5, x)

    kept, places = run_everywhere(f, np.array([0, 7, -1, 6]))
    assert kept.tolist() == [7, 6] and places.tolist() == [1, 3]


# --- reports of others: races and reductions -----------------------------------------------------


def test_c1_updates_on_both_sides_of_a_test() -> None:
    def f(n: Any) -> Any:
        c = pe.accumulator(dtype=int)
        for i in pe.par(n):
            c += 1
            if i > 10:
                c += 1
        return c

    assert run_everywhere(f, 10) == 10 and run_everywhere(f, 20) == 29


def test_c5_two_loops_into_one_accumulator() -> None:
    def f(n: Any) -> Any:
        c = pe.accumulator(dtype=int)
        for _ in pe.par(n):
            c += 2
        for _ in pe.par(n):
            c += 2
        return c

    assert run_everywhere(f, 5) == 20


def test_c8_what_is_not_associative_is_sequential() -> None:
    def f(x: Any) -> Any:
        s = pe.state(x)
        for _ in range(4):
            s //= 2
        return s

    assert run_everywhere(f, 10000) == 625


def test_c10_buffers_of_iterations_are_private() -> None:
    def f(n: Any) -> Any:
        def body(i: Any) -> Any:
            buffer = pe.state(pe.table(lambda k: 0, over=3))
            buffer[i % 3] = i
            buffer[0] += 1
            return buffer

        return pe.table(body, over=n)

    expected = np.zeros((6, 3), int)
    expected[np.arange(6), np.arange(6) % 3] = np.arange(6)
    expected[:, 0] += 1
    np.testing.assert_array_equal(run_everywhere(f, 6), expected)
