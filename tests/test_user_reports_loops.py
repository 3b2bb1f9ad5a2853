"""Groups B and C of what users of other libraries report, as forward programs.

Loops with carried values, dynamic bounds and exits; races, reductions, determinism.  Each runs by
the evaluator, as compiled code on 1 to 4 threads, and as plain Python.  Derivatives of these cases
are in `tests/ad/test_user_reports.py`, `test_overwriting.py` and `test_early_exit.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from everywhere import run_everywhere
from kernel_checks import refused

import peffects as pe
from peffects.errors import BoundsError, CheckFailedError, DataRaceError

# --- B: carried values, dynamic bounds, nesting, control flow ------------------------------------


def test_b2_an_inner_loop_that_accumulates() -> None:
    def f(y: Any, n: Any) -> Any:
        x = pe.accumulator(n)
        for i in pe.par(n):
            for j in range(len(y)):
                x[i] += y[j]
        return x

    assert run_everywhere(f, np.array([1.0, 2.0, 4.0]), 5).tolist() == [7.0] * 5


def test_b3_two_loops_in_a_loop() -> None:
    def f(x: Any) -> Any:
        y = 0.0
        for _ in range(2):
            for _ in range(3):
                y += x
            for _ in range(3):
                y += x
        return y

    assert run_everywhere(f, 1.5) == 18.0


def test_b4_three_loops_into_one_number() -> None:
    def f(x: Any) -> Any:
        loss = pe.accumulator()
        for _, _ in pe.par(2, 3):
            for _ in range(3):
                loss += pe.sin(x)
        return loss

    assert run_everywhere(f, 0.5, rtol=1e-14) == pytest.approx(18 * np.sin(0.5))


def test_b5_long_inner_loops() -> None:
    def f(x: Any) -> Any:
        def row(i: Any) -> Any:
            total = 0.0
            for j in range(x.shape[1]):
                total += x[i, j]
            return total

        return pe.table(row, over=x)

    x = np.arange(5000.0).reshape(10, 500)
    assert run_everywhere(f, x).tolist() == x.sum(1).tolist()


def test_b6_a_product_of_unknown_length_and_a_weighted_mean() -> None:
    def f(x: Any, w: Any) -> Any:
        product = 1.0
        for i in range(len(x)):
            product *= x[i]
        return product, pe.sum(lambda i: w[i] * x[i]) / pe.sum(w)

    assert tuple(run_everywhere(f, np.full(3, 2.0), np.ones(3))) == (8.0, 2.0)


def test_b7_and_b11_sums_as_factors() -> None:
    def f(x: Any, s: Any, c: Any, w: Any, a: Any, p: Any) -> Any:
        acc = 0.0
        for k in range(len(s)):
            acc += s[k]
        prefix = 0.0
        for j in range(p + 1):
            prefix += w[j] * a[j]
        return x * x * acc, c * prefix

    ramp = np.arange(1.0, 6.0)
    assert tuple(run_everywhere(f, 3.0, ramp[:3], 1.0, ramp, ramp, 4)) == (54.0, 55.0)


@pytest.mark.parametrize("rounds", [0, 1, 40])
def test_b12_and_b16_an_iterated_map(rounds: int) -> None:
    def f(x: Any, n: Any) -> Any:
        for _ in range(n):
            x = 3.7 * x * (1.0 - x)
        return x

    assert run_everywhere(f, 0.3, rounds) == f(0.3, rounds)


def test_b13_and_b14_while_break_and_continue() -> None:
    def f(x: Any, limit: Any) -> Any:
        total, i = 0.0, 0
        while True:
            if i == len(x):
                break
            i += 1
            if x[i - 1] < 0.0:
                continue
            total += x[i - 1]
            if total > limit:
                return total, i
        return -total, i

    x = np.array([1.0, -5.0, 2.0, -1.0, 4.0, 8.0])
    for limit, expected in ((2.5, (3.0, 3)), (100.0, (-15.0, 6))):
        assert tuple(run_everywhere(f, x, limit)) == expected == f(x, limit)


def test_b19_a_chain_through_accumulators() -> None:
    def f(x: Any) -> Any:
        first = pe.accumulator(x.index)
        for i in pe.par(x):
            first[i] += 2.0 * x[i]
        loss = pe.accumulator()
        for i in pe.par(x):
            loss += first[i] + 1.0
        return loss

    assert run_everywhere(f, np.array([1.0, 2.0])) == 8.0


# --- C: races, reductions, determinism -----------------------------------------------------------


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


def test_c10_python_lists_of_iterations_are_private() -> None:
    def f(n: Any) -> Any:
        def body(i: Any) -> Any:
            held = [0]
            before = held[0]
            held[0] = i + 1
            return 10 * before + held[0]

        return pe.table(body, over=n)

    assert run_everywhere(f, 4).tolist() == [1, 2, 3, 4]


def test_c4_many_iterations_into_one_element_and_one_row() -> None:
    def f(x: Any) -> Any:
        y, rows = pe.accumulator((2, 2)), pe.accumulator((2, x.shape[1]))
        cubes = pe.accumulator((1, 2, x.shape[1]))
        twice = pe.table(lambda k, j: x[0, j], over=(2, x.shape[1]))
        for i in pe.par(x):
            for j in range(x.shape[1]):
                if i != j:
                    y[0, 1] += x[i, j]
            rows[i % 2, :] += x[i]
            cubes[0, i % 2, ...] += x[i]
            cubes[0, :, :] += twice
        return y, rows, cubes

    x = np.arange(900.0).reshape(30, 30)
    y, rows, cubes = run_everywhere(f, x)
    assert y.tolist() == [[0.0, x.sum() - np.trace(x)], [0.0, 0.0]]
    assert rows.tolist() == [x[::2].sum(0).tolist(), x[1::2].sum(0).tolist()]
    assert cubes.tolist() == [(rows + len(x) * x[0]).tolist()]


def test_c9_a_merge_of_the_user_s_keeps_the_order() -> None:
    """Sorted runs of two are merged: an associative function that does not commute."""

    def f(x: Any) -> Any:
        def merged(a: Any, b: Any) -> Any:
            (a0, a1), (b0, b1) = a, b
            low, high = min(a0, b0), max(min(a0, b1), min(b0, a1))
            return low, high

        def joined(a: Any, b: Any) -> Any:  # an affine map after another
            return a[0] * b[0], b[0] * a[1] + b[1]

        smallest = pe.reduce(lambda i: (x[i], np.inf), merged, (np.inf, np.inf))
        return smallest, pe.reduce(lambda i: (2.0, x[i]), joined, (1.0, 0.0))

    x = np.array([5.0, 1.0, 4.0, 2.0])
    smallest, (scale, shift) = run_everywhere(f, x)
    assert tuple(smallest) == (1.0, 2.0)
    assert (scale, shift) == (16.0, ((5.0 * 2 + 1) * 2 + 4) * 2 + 2)


@pytest.mark.parametrize("threads", [1, 4])
def test_c12_failures_inside_parallel_loops_surface(threads: int) -> None:
    def outside(x: Any, at: Any) -> Any:
        h = pe.accumulator(3)
        for i in pe.par(at):
            h[at[i]] += x[i]
        return h

    def checked(x: Any, at: Any) -> Any:
        def body(i: Any) -> Any:
            pe.check(at[i] < 3, f"bin {at[i]}")
            return x[i]

        return pe.sum(body, over=at)

    x, at = np.ones(50_000), np.zeros(50_000, int)
    at[[30_000, 40_000]] = 7, 9
    with pe.threads(threads):
        with pytest.raises(BoundsError, match="index 7"):
            pe.kernel(outside)(x, at)
        with pytest.raises(CheckFailedError, match=r"bin 7 \(i = 30000\)"):
            pe.kernel(checked)(x, at)


def test_c13_seeded_draws_are_the_same_for_any_number_of_threads() -> None:
    def f(key: Any, n: Any) -> Any:
        draws = pe.table(lambda i: pe.random.normal(pe.random.fold_in(key, i)), over=n)
        return draws, pe.sum(draws)

    first = run_everywhere(f, pe.random.key(3), 5000, rtol=1e-13, debug=False)
    again = pe.kernel(f)(pe.random.key(3), 5000)
    other = pe.kernel(f)(pe.random.key(4), 5000)
    assert first[0].tolist() == again[0].tolist() != other[0].tolist()
    assert first[1] == again[1]


@pytest.mark.parametrize("dtype", ["int64", "float32", "float64"])
def test_c17_all_iterations_meet_at_one_element(dtype: str) -> None:
    def f(n: Any) -> Any:
        shared = pe.accumulator(1, dtype=dtype)
        lowest = pe.accumulator(1, dtype=dtype, op="min")
        for i in pe.par(n):
            shared[0] += 1
            lowest.combine(0, 5 - i)
        return shared, lowest

    shared, lowest = run_everywhere(f, 2)
    assert shared.dtype == lowest.dtype == dtype
    assert (shared.tolist(), lowest.tolist()) == ([2], [4])
    assert pe.kernel(f)(100_000)[0].tolist() == [100_000]


def test_c18_rows_that_are_added_to_one_of_many_targets() -> None:
    def f(rows: Any, at: Any, n: Any) -> Any:
        total = pe.accumulator((n, rows.shape[1]), dtype=np.float32)
        for r in pe.par(rows):
            total[at[r], :] += rows[r]
        return total

    rows = np.ones((40_960, 4), np.float32)
    for at in (np.zeros(len(rows), int), np.arange(len(rows)) % 399):
        expected = np.zeros((399, 4), np.float32)
        np.add.at(expected, at, rows)
        assert run_everywhere(f, rows, at, 399, debug=False).tolist() == expected.tolist()


def test_a_plain_write_to_what_is_shared_is_refused() -> None:
    def f(x: Any, y: Any) -> Any:
        for i in pe.par(x):
            y[0] += x[i]
        return y

    refused(DataRaceError, f, np.ones(3), np.zeros(1))
