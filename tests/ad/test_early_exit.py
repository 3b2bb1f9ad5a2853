"""Derivatives of loops that end early: right for any number of rounds, at their cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.differentiate.programs import value_and_grad_program
from peffects.ir.evaluate import Work, evaluate
from peffects.staging.stage import stage

X = np.array([0.6, 1.5, 0.28, 0.75, 2.0])


def until_large(x: Any) -> Any:
    s = 1.0
    for k in range(len(x)):
        if s > 2.0:
            break
        s = s * (1.0 + x[k] * x[k])
    return s


def first_crossing(x: Any) -> Any:
    s = 0.0
    for k in range(len(x)):
        s = s + x[k]
        if s > 2.0:
            return s * x[k]
    return -s


def newton(a: Any) -> Any:
    y = a
    while abs(y * y - a) > 1e-13:
        y = 0.5 * (y + a / y)
    return y


def counted_while(x: Any) -> Any:
    k, s = 0, 1.0
    while k < len(x) and s < 2.0:
        s = s * (1.0 + x[k] * x[k])
        k += 1
    return s


def counted_from_one(x: Any) -> Any:
    k, s = 1, 1.0
    while k < len(x) and s < 9.0:
        s = s * (1.0 + x[k] * x[k])
        k += 1
    return s * k


def counted_by_two(x: Any) -> Any:
    k, s = 0, 1.0
    while k < len(x) and s < 9.0:
        s = s * (1.0 + x[k] * x[k])
        k += 2
    return s * k


def without_a_counter(x: Any) -> Any:
    s = x[0]
    while s < 9.0:
        s = s * (1.0 + x[1]) + x[3]
    return s


def skipping(x: Any) -> Any:
    s = 0.0
    for k in range(len(x)):
        if x[k] > 1.0:
            continue
        s = s * x[k] + x[k] * x[k]
    return s


def rows(a: Any) -> Any:
    def row(i: Any) -> Any:
        s = 1.0
        for j in range(a.shape[1]):
            if s > 2.0:
                break
            s = s * (1.0 + a[i, j] * a[i, j])
        return s

    return pe.sum(row, over=a)


def accumulating(x: Any) -> Any:
    h = pe.accumulator(x)
    for k in range(len(x)):
        if x[k] > 1.9:
            break
        h[k] += x[k] * x[k]
    return pe.sum(lambda i: h[i] * (i + 1.0))


def reversed_exit(x: Any) -> Any:
    s = 1.0
    for k in reversed(range(len(x))):
        if x[k] < 0.3:
            break
        s = s * x[k] + k
    return s


def exits_inside_a_loop(x: Any) -> Any:
    s = 1.0
    for i in range(len(x)):
        for j in range(i + 1):
            s = s * (0.4 + x[j])
            if s > 2.0:
                break
        if s > 3.0:
            return s * x[i]
    return s


def shrinking_rounds(x: Any) -> Any:
    s = 1.0
    for i in range(len(x)):
        for j in range(len(x) - 1 - i):
            for k in range(j, len(x), 2):
                s = 0.5 * s * (1.0 + x[k]) + x[j]
    return s


def bubble_sort(x: Any) -> Any:
    s = pe.state(x)
    for i in range(len(x)):
        done = True
        for j in range(len(x) - 1 - i):
            if s[j] > s[j + 1]:
                low = s[j + 1]
                s[j + 1] = s[j]
                s[j] = low
                done = False
        if done:
            break
    return pe.sum(lambda i: s[i] ** 2 * (i + 1.0), over=x)


def iterations_with_exits(a: Any) -> Any:
    return pe.sum(lambda i: exits_inside_a_loop(a[i]), over=a)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (until_large, (X,)),
        (first_crossing, (X,)),
        (first_crossing, (0.1 * X,)),
        (newton, (3.0,)),
        (counted_while, (X,)),
        (counted_from_one, (X,)),
        (counted_by_two, (X,)),
        (without_a_counter, (X,)),
        (skipping, (X,)),
        (rows, (np.stack([X, X[::-1].copy(), 0.1 * X]),)),
        (accumulating, (X,)),
        (reversed_exit, (X,)),
        (exits_inside_a_loop, (X,)),
        (exits_inside_a_loop, (0.2 * X,)),
        (shrinking_rounds, (X,)),
        (bubble_sort, (X,)),
        (bubble_sort, (X[:0],)),
        (iterations_with_exits, (np.stack([X, X[::-1].copy(), 0.1 * X]),)),
    ],
)
def test_derivatives_of_loops_that_end_early(function: Any, args: tuple[Any, ...]) -> None:
    pe.check_grads(function, args, order=2, rtol=1e-4)


def test_values_are_those_of_python() -> None:
    for function in (until_large, first_crossing, counted_while, skipping, reversed_exit):
        assert pe.kernel(function)(X) == function(X), function.__name__


def test_the_gradient_of_a_loop_without_rounds_is_that_of_its_start() -> None:
    np.testing.assert_array_equal(pe.grad(until_large)(np.zeros(0)), np.zeros(0))


def test_reverse_mode_does_not_pay_for_the_longest_length() -> None:
    def work(n: int) -> int:
        x = np.full(n, 1.1)
        program = value_and_grad_program(stage(run_until, (x, 2.0), {}).program, [1])
        counted = Work()
        evaluate(program, [x, 2.0], work=counted)
        return counted.operations + counted.accesses

    def run_until(x: Any, c: Any) -> Any:
        s = c
        for k in range(len(x)):
            if s > 10.0:
                break
            s = s * x[k]
        return s

    assert work(50) == work(5000)
