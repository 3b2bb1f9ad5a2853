"""What loops over tables leave, refuse and copy: loop variables, sizes that change, states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_checks import check
from staged import run

import peffects as pe
from peffects.errors import IndexSetMismatchError, MergeError

# --- what a loop leaves --------------------------------------------------------------------------


def last_index(x: Any) -> Any:
    i = -1
    for i in range(len(x)):
        if x[i] > 2.0:
            break
    return i


def last_items(x: Any) -> Any:
    k, v = 7, 0.5
    for k, v in enumerate(x):  # noqa: B007
        k = k * 10
    return k, v


def last_of_two(x: Any) -> Any:
    i = j = -1
    for i in range(2, 9, 3):
        for j in reversed(range(len(x))):
            if x[j] < i:
                break
    return i, j


@pytest.mark.parametrize("function", [last_index, last_items, last_of_two])
@pytest.mark.parametrize("x", [np.array([1.0, 3.0, 0.0]), np.ones(2), np.zeros(0)], ids=str)
def test_a_loop_variable_keeps_its_value(function: Callable[..., Any], x: Any) -> None:
    np.testing.assert_array_equal(check(function, x), function(x))


def test_a_loop_variable_without_value_before_says_so() -> None:
    def f(n: Any) -> Any:
        for i in range(n):  # noqa: B007
            pass
        return i

    with pytest.raises(MergeError, match="may run zero times"):
        run(f, 2)


def changes(x: Any, n: Any) -> Any:
    y = x * 1.0
    for _ in range(n):
        y = y[1:]  # here
    return y


def grows(x: Any, n: Any) -> Any:
    y = x * 1.0
    while n > 0:
        y = np.append(y, 1.0)  # here
        n -= 1
    return y


@pytest.mark.parametrize("function", [changes, grows])
def test_a_size_that_changes_is_refused_with_both_places(function: Callable[..., Any]) -> None:
    assert run(function, np.ones(3), 0).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(IndexSetMismatchError) as caught:
        run(function, np.ones(3), 2)
    assert "# here" in caught.value.at.snippet()
    line = function.__code__.co_firstlineno + 1
    assert (
        f"`y` comes into a loop with 3 elements along axis 0 (test_loop_values.py:{line})"
        in str(caught.value)
    )
    assert "keeps its size" in caught.value.fix


def test_sizes_change_in_rounds_that_are_staged_one_by_one() -> None:
    def f(x: Any) -> Any:
        for step in (1, 2):
            x = x[::step][1:]
        return x

    x = np.arange(8.0)
    assert run(f, x).tolist() == f(x).tolist()


def test_a_table_that_is_missing_says_why_whatever_is_asked() -> None:
    def f(x: Any, n: Any, ask: Callable[[Any], Any]) -> Any:
        y = None
        for _ in range(n):
            ask(y)
            y = x
        return x

    for ask in (lambda y: y is None, lambda y: isinstance(y, float), lambda y: y == 1.0):
        with pytest.raises(MergeError, match="it is None on one way"):
            run(lambda x, n, ask=ask: f(x, n, ask), np.ones(2), 2)


# --- states --------------------------------------------------------------------------------------


@pytest.mark.parametrize("copy", [lambda u: u.copy(), np.copy, np.array, lambda u: u[:]])
def test_a_copy_of_a_state_stays(copy: Callable[[Any], Any]) -> None:
    def f(x: Any) -> Any:
        u = pe.state(x)
        old = copy(u)
        u[0] = 9.0
        return old, u

    old, new = run(f, np.ones(2))
    assert (old.tolist(), new.tolist()) == ([1.0, 1.0], [9.0, 1.0])


def test_a_copy_of_an_accumulator_is_its_value() -> None:
    def f(x: Any) -> Any:
        h = pe.accumulator(len(x))
        for i in pe.par(x):
            h[i] += x[i]
        g = h.copy()
        return g + h

    assert check(f, np.ones(2)).tolist() == [2.0, 2.0]


def test_states_exchanged_in_a_loop() -> None:
    def f(x: Any, n: Any) -> Any:
        u, v, w = pe.state(x), pe.state(2 * x), pe.state(3 * x)
        for _ in range(n):
            w[1:-1] = u[:-2] + v[2:]
            u, v, w = v, w, u
        return u, v, w

    x = np.arange(5.0)
    u, v, w = x.copy(), 2 * x, 3 * x
    for _ in range(4):
        w[1:-1] = u[:-2] + v[2:]
        u, v, w = v, w, u
    for found, expected in zip(check(f, x, 4), (u, v, w), strict=True):
        assert found.tolist() == expected.tolist()


def test_a_state_under_another_name_is_refused() -> None:
    def known_twice(x: Any, n: Any) -> Any:
        u, v = pe.state(x), pe.state(x)
        w = u
        for _ in range(n):
            u, v = v, u
        return u, v, w

    def taken_over(x: Any, n: Any) -> Any:
        u, v = pe.state(x), pe.state(x)
        for _ in range(n):
            u = v
        return u, v

    for function in (known_twice, taken_over):
        with pytest.raises(MergeError, match="another state under the name `u`"):
            run(function, np.ones(2), 2)


def test_a_carry_that_is_two_results_of_a_round_is_copied() -> None:
    def f(x: Any, n: Any) -> Any:
        u, v = pe.state(x), pe.state(x * 2)
        for _ in range(n):
            v[1:-1] = 0.5
            u[:] = v
        return u, v

    for size in (4, 300_000):  # as one kernel, and as a loop of stages
        u, v = pe.kernel(f)(np.ones(size), 3)
        assert u.tolist() == v.tolist() == [2.0, *[0.5] * (size - 2), 2.0]
