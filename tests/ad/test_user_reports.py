"""In-place updates, loops and kinks that users of other libraries got wrong derivatives for.

Group letters and numbers are those of the collection of reports; each case stands for its kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.errors import DataRaceError


def test_a1_copy_then_increment() -> None:
    def loss(src: Any) -> Any:
        arr = pe.table(lambda i: src[i])
        arr = pe.table(lambda i: arr[i] + 1.0)
        return pe.sum(lambda i: arr[i])

    np.testing.assert_array_equal(pe.grad(loss)(np.zeros(3)), np.ones(3))


def test_a2_overwriting_drops_the_first_value() -> None:
    def f(xa: Any, xb: Any) -> Any:
        y = 2.0 * xa
        y = 3.0 * xb
        return y

    assert pe.grad(f, (0, 1))(1.0, 1.0) == (0.0, 3.0)


def test_a4_repeated_reassignment_counts_each_once() -> None:
    def f(x: Any) -> Any:
        m = 0.0
        m = m + x
        m = m + x
        m = m + x
        m = m + x
        return m

    assert pe.grad(f)(1.0) == 4.0


def test_a7_accumulate_then_scale() -> None:
    def f(x1: Any, x2: Any) -> Any:
        loss = 2.0
        loss += x1 * x1
        loss *= x2
        return loss

    assert pe.grad(f, (0, 1))(1.0, 2.0) == (4.0, 3.0)


def test_a_write_to_an_argument_is_refused() -> None:
    def f(x: Any) -> Any:
        for i in pe.par(x):
            x[i] = x[i] + 1.0
        return pe.sum(lambda i: x[i])

    with pytest.raises(DataRaceError):
        pe.grad(f)(np.ones(3))


def test_b2_inner_loop_accumulates() -> None:
    def f(y: Any, n: Any) -> Any:
        x = pe.accumulator(pe.Fin(n), dtype=float)
        for i in pe.par(n):
            for j in range(len(y)):
                x[i] += y[j]
        return pe.sum(lambda i: x[i])

    np.testing.assert_array_equal(pe.grad(f)(np.zeros(3), 5), [5.0, 5.0, 5.0])


def test_b3_two_accumulating_loops_in_a_loop() -> None:
    def f(x: Any) -> Any:
        y = 0.0
        for _ in range(2):
            for _ in range(3):
                y += x
            for _ in range(3):
                y += x
        return y

    assert pe.grad(f)(1.0) == 12.0


def test_b6_product_in_a_loop_of_runtime_length() -> None:
    def carried(x: Any) -> Any:
        p = 1.0
        for i in range(len(x)):
            p = p * x[i]
        return p

    def reduced(x: Any) -> Any:
        return pe.prod(lambda i: x[i])

    for f in (carried, reduced):
        np.testing.assert_array_equal(pe.grad(f)(np.full(3, 2.0)), [4.0, 4.0, 4.0])


def test_b6_weighted_mean() -> None:
    def f(w: Any, x: Any) -> Any:
        return pe.sum(lambda i: w[i] * x[i]) / pe.sum(lambda i: w[i])

    np.testing.assert_allclose(pe.grad(f, 1)(np.ones(3), np.ones(3)), np.full(3, 1 / 3))


def test_b7_a_sum_used_as_a_factor() -> None:
    def f(x: Any, s: Any) -> Any:
        u = x * x
        acc = 0.0
        for k in range(len(s)):
            acc += s[k]
        return u * acc

    dx, ds = pe.grad(f, (0, 1))(3.0, np.array([1.0, 2.0, 3.0]))
    assert dx == 36.0
    np.testing.assert_array_equal(ds, [9.0, 9.0, 9.0])


def test_b11_a_scaled_prefix_sum() -> None:
    def f(c: Any, w: Any, a: Any, p: Any) -> Any:
        s = 0.0
        for j in range(p + 1):
            s += w[j] * a[j]
        return c * s

    values = np.arange(1.0, 6.0)
    assert pe.grad(f)(1.0, values, values, 4) == 55.0


def test_b12_a_loop_that_overwrites_equals_the_unrolled_one() -> None:
    def looped(x: Any) -> Any:
        for _ in range(3):
            x = pe.sin(x) * 2.0
        return x

    def unrolled(x: Any) -> Any:
        return pe.sin(pe.sin(pe.sin(x) * 2.0) * 2.0) * 2.0

    assert pe.grad(looped)(0.7) == pytest.approx(pe.grad(unrolled)(0.7), rel=1e-14)


def test_d1_only_the_taken_side_counts() -> None:
    def root(x: Any) -> Any:
        return x if x < 1.0 else pe.sqrt(x)

    assert pe.grad(root)(0.0) == 1.0

    def norms(x: Any) -> Any:
        def row(i: Any) -> Any:
            square = pe.sum(lambda j: x[i, j] ** 2)
            return pe.sqrt(square) if square > 0.0 else 0.0

        return pe.sum(row)

    x = np.array([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(pe.grad(norms)(x), [[0.6, 0.8], [0.0, 0.0]], rtol=1e-15)


def test_d1_a_masked_infinity_does_not_leak() -> None:
    def f(x: Any) -> Any:
        return x * np.inf if x > 0.0 else 0.0

    assert pe.grad(f)(-1.0) == 0.0
    assert pe.grad(f)(0.0) == 0.0
