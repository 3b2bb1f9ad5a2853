"""Derivatives of kernels that overwrite: cases that users of other libraries got wrong, and costs.

Group letters and numbers are those of the collection of reports in `test_user_reports.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.differentiate.programs import value_and_grad_program
from peffects.ir.evaluate import Work, evaluate
from peffects.optimize.pipeline import optimize

RNG = np.random.default_rng(3)
X = RNG.uniform(0.5, 1.5, 6)
M = RNG.normal(size=(4, 3))


def zeros(n: Any) -> Any:
    return pe.table(lambda i: 0.0, over=n)


def a1_increment_in_place(src: Any) -> Any:
    arr = pe.state(src)
    for i in range(len(src)):
        arr[i] = arr[i] + 1.0
    return pe.sum(lambda i: arr[i])


def test_a1() -> None:
    np.testing.assert_array_equal(pe.grad(a1_increment_in_place)(X), np.ones(6))


def test_a2_what_was_overwritten_has_no_cotangent() -> None:
    def f(xa: Any, xb: Any) -> Any:
        y = pe.state(0.0)
        y.set(2 * xa)
        y.set(3 * xb)
        return y

    assert pe.grad(f, (0, 1))(1.0, 1.0) == (0.0, 3.0)


@pytest.mark.parametrize("form", ["set", "+="])
def test_a4_both_forms_of_self_update_agree(form: str) -> None:
    def f(x: Any) -> Any:
        m = pe.state(0.0)
        for _ in range(4):
            if form == "set":
                m.set(m.get() + x)
            else:
                m += x
        return m

    assert pe.grad(f)(3.0) == 4.0


def test_a7_a_value_that_was_read_is_not_changed_by_a_later_write() -> None:
    def first(x1: Any, b: Any) -> Any:
        s = pe.state(b)
        loss = x1 * s.get()
        s += 100.0
        return loss

    def second(x1: Any, x2: Any) -> Any:
        loss = pe.state(2.0)
        loss += x1 * x1
        loss *= x2
        return loss

    assert pe.grad(first)(1.0, 10.0) == 10.0
    assert pe.grad(second, (0, 1))(1.0, 2.0) == (4.0, 3.0)


def test_a9_blocks_and_elements() -> None:
    def block(a: Any) -> Any:
        b = pe.state(pe.table(lambda i, j: 0.0, over=(4, 4)))
        b[:2, :2] = a
        return pe.sum(lambda i, j: b[i, j])

    def elements(p: Any) -> Any:
        res = pe.state(zeros(p))
        for m in range(len(p)):
            res[m] = p[m] * p[0]
        return pe.sum(lambda i: res[i])

    np.testing.assert_array_equal(pe.grad(block)(np.ones((2, 2))), np.ones((2, 2)))
    expected = np.full(6, X[0])
    expected[0] = X.sum() + X[0]
    np.testing.assert_allclose(pe.grad(elements)(X), expected)


@pytest.mark.parametrize("form", ["assign", "*="])
def test_a10_both_forms_of_scaling_agree(form: str) -> None:
    def f(x: Any, v: Any) -> Any:
        s = pe.state(x)
        if form == "assign":
            s[0] = s[0] * v
        else:
            s[0] *= v
        return pe.sum(lambda i: s[i])

    dx, dv = pe.grad(f, (0, 1))(X, 2.0)
    np.testing.assert_array_equal(dx, [2.0, 1, 1, 1, 1, 1])
    assert dv == X[0]


def test_a10_in_place_sine() -> None:
    def f(x: Any) -> Any:
        s = pe.state(x)
        s.set(pe.sin(s.get()))
        return s

    assert pe.grad(f)(1.2) == pytest.approx(np.cos(1.2))


def test_b6_product_in_a_loop_of_unknown_length() -> None:
    def f(x: Any, n: Any) -> Any:
        p = pe.state(1.0)
        for i in range(n):
            p *= x[i]
        return p

    np.testing.assert_array_equal(pe.grad(f)(np.full(3, 2.0), 3), [4.0, 4.0, 4.0])


def test_b7_and_b11_carried_sums() -> None:
    def b7(x: Any, s: Any) -> Any:
        acc = pe.state(0.0)
        for k in range(len(s)):
            acc += s[k]
        return x * x * acc.get()

    def b11(c: Any, a: Any, w: Any) -> Any:
        s = pe.state(0.0)
        for j in range(len(w)):
            s += w[j] * a[j]
        return c * s.get()

    dx, ds = pe.grad(b7, (0, 1))(3.0, np.array([1.0, 2.0, 3.0]))
    assert dx == 36.0 and ds.tolist() == [9.0, 9.0, 9.0]
    assert pe.grad(b11)(2.0, np.arange(1.0, 6), np.arange(1.0, 6)) == 55.0


@pytest.mark.parametrize("rounds", [0, 1, 5, 40])
def test_b12_and_b16_an_iterated_map_is_right_for_any_count(rounds: int) -> None:
    def f(x: Any, n: Any) -> Any:
        s, k = pe.state(x), 0
        while k < n:
            s.set(3.7 * s.get() * (1.0 - s.get()))
            k += 1
        return s

    value, slope = 0.3, 1.0
    for _ in range(rounds):
        value, slope = 3.7 * value * (1 - value), 3.7 * (1 - 2 * value) * slope
    found, gradient = pe.value_and_grad(f)(0.3, rounds)
    assert found == pytest.approx(value) and gradient == pytest.approx(slope, rel=1e-9)


def test_b14_break_and_continue() -> None:
    def f(x: Any) -> Any:
        s = pe.state(x)
        for i in range(1, len(x)):
            if s[i] < 0.6:
                continue
            s[i] = s[i] * s[i - 1]
            if s[i] > 1.9:
                break
        return pe.sum(lambda i: s[i] * s[i])

    pe.check_grads(f, (np.array([1.0, 0.5, 1.3, 1.4, 1.2, 1.1]),))


def test_b19_a_chain_through_state() -> None:
    def f(x: Any) -> Any:
        acc, loss = pe.state(0.0), pe.state(0.0)
        acc.set(x)
        loss.set(acc.get())
        return loss

    assert pe.grad(f)(2.0) == 1.0


def test_dex_51_an_element_of_a_matrix() -> None:
    def f(x: Any) -> Any:
        m = pe.state(pe.table(lambda i, j: 0.0, over=(3, 3)))
        for i in range(3):
            m[i, i] = x
        return m[1, 1]

    assert pe.grad(f)(2.0) == 1.0


def recurrence(x: Any) -> Any:
    s = pe.state(x)
    for k in range(2):
        for i in range(1, len(x)):
            s[i] = pe.sin(s[i - 1]) * s[i] + 0.1 * x[k]
            if i % 2 == 0:
                s[i - 1] = s[i] * s[i - 1]
    return pe.sum(lambda i: s[i] ** 2)


def branching_product(x: Any) -> Any:
    s = pe.state(x)
    for i in range(1, len(x)):
        if x[i] > 1.0:
            s[i] = s[i - 1] * s[i]
        elif x[i] > 0.7:
            s[i] = pe.sin(s[i - 1]) * s[i] * s[i]
    return pe.sum(lambda i: s[i])


def rows(a: Any) -> Any:
    s = pe.state(a)

    def row(i: Any) -> Any:
        return pe.table(lambda j: pe.sin(s[i - 1, j]) * a[i, j])

    for i in range(1, len(a)):
        s[i, :] = row(i)
    return pe.sum(lambda i, j: s[i, j])


def cholesky(a: Any) -> Any:
    low = pe.state(a)
    for i in range(len(a)):
        for j in range(i + 1):
            acc = low[i, j]
            for k in range(j):
                acc -= low[i, k] * low[j, k]
            low[i, j] = pe.sqrt(acc) if i == j else acc / low[j, j]
    return pe.sum(lambda i: pe.log(low[i, i]))


def snapshot(x: Any) -> Any:
    s = pe.state(x)
    before = s.get()
    for i in range(len(x)):
        s[i] = before[len(x) - 1 - i] * s[i]
    return pe.sum(lambda i: s[i] * before[i])


def in_parallel(a: Any) -> Any:
    def row(i: Any) -> Any:
        s = pe.state(a[i])
        for j in range(1, a.shape[1]):
            s[j] += s[j - 1] * s[j]
        return s[a.shape[1] - 1]

    return pe.sum(row, over=a)


def read_after_write(x: Any) -> Any:
    s, loss = pe.state(x), pe.state(0.0)
    for i in range(1, len(x)):
        s[i] = s[i] * s[i - 1]
        loss += s[i] * s[0]
    return loss


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (recurrence, X), (rows, M), (snapshot, X), (in_parallel, M), (read_after_write, X),
        (branching_product, X),
        (cholesky, M @ M.T + 2 * np.eye(4)),
    ],
)  # fmt: skip
def test_derivatives_agree_with_differences(f: Any, x: Any) -> None:
    pe.check_grads(f, (x,))


# --- cost ----------------------------------------------------------------------------------------


def chain(x: Any) -> Any:
    s = pe.state(x)
    for i in range(1, len(x)):
        s[i] = s[i - 1] * 0.5 + s[i] * s[i]
    return s[len(x) - 1]


def branching(x: Any) -> Any:
    s = pe.state(x)
    for i in range(1, len(x)):
        if x[i] > 1.0:
            s[i] = s[i - 1] + 0.5 * s[i]
    return pe.sum(lambda i: s[i])


@pytest.mark.parametrize("f", [chain, branching, branching_product, read_after_write])
def test_reverse_mode_touches_elements_and_not_tables(f: Any) -> None:
    """Twice the length costs twice the work, forwards and backwards: no table a round."""

    def work(n: int) -> int:
        x = RNG.uniform(0.5, 1.2, n)
        kernel: Any = pe.kernel(f)
        program = optimize(value_and_grad_program(kernel.stage((x,), {}).program, [0]))
        counted = Work()
        evaluate(program, (x,), work=counted)
        return counted.operations + counted.accesses

    assert work(80) < 2.3 * work(40)
