"""`print` in kernels: each time that it is reached, in order of indices, with any threads."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import pytest
from staged import check_refused, run

import peffects as pe
from peffects.errors import CheckFailedError, KernelTypeError


def printed(call: Any, *args: Any) -> str:
    """What a call prints."""
    out = io.StringIO()
    with redirect_stdout(out):
        call(*args)
    return out.getvalue()


def everywhere(function: Any, *args: Any) -> str:
    """What a kernel prints; the evaluator and a debugging run print the same."""
    kernel = pe.kernel(function)
    found = printed(kernel, *args)
    assert printed(lambda: run(function, *args)) == found
    assert printed(lambda: kernel.debug(*args)) == found
    return found


def loops(x: Any) -> Any:
    print("start")

    def double(i: Any, j: Any) -> Any:
        if x[i] > 1.0:
            print("big", i, f"{x[i] + j:.2f}", x[i] > 2.0, sep=" | ")
        return 2.0 * x[i] + j

    table = pe.table(double, over=(x, 2))
    for k in range(len(x)):
        print(k, end="; ")
    print("end", len(x))
    return pe.sum(table)


def test_lines_come_in_the_order_of_the_program() -> None:
    assert everywhere(loops, np.array([0.5, 1.5, 3.0])) == (
        "start\n"
        "big | 1 | 1.50 | False\nbig | 1 | 2.50 | False\nbig | 2 | 3.00 | True\n"
        "big | 2 | 4.00 | True\n"
        "0; 1; 2; end 3\n"
    )


def test_values_of_all_types_are_printed_as_python_prints_them() -> None:
    def f(x: Any, n: Any, u: Any, b: Any) -> Any:
        print(x, n, u, b, 1.5, "text {}", None, f"{n:>4}")
        return x

    args = np.float32(0.5), np.int8(-7), np.uint64(2**64 - 1), True
    wanted = "0.5 -7 18446744073709551615 True 1.5 text {} None   -7\n"
    assert printed(pe.kernel(f), *args) == printed(lambda: run(f, *args)) == wanted


def test_two_loops_do_not_mix_their_lines() -> None:
    """Though they could be one loop."""

    def f(x: Any) -> Any:
        def first(i: Any) -> Any:
            print("a", i)
            return x[i]

        def second(i: Any) -> Any:
            print("b", i)
            return x[i] + 1.0

        return pe.table(first), pe.table(second)

    assert everywhere(f, np.ones(2)) == "a 0\na 1\nb 0\nb 1\n"


def test_what_is_printed_twice_is_printed_twice() -> None:
    def f(x: Any) -> Any:
        print(x)
        print(x)
        pe.table(lambda i: [print("in an unused loop"), x][1], over=1)
        return x

    assert everywhere(f, 1.5) == "1.5\n1.5\nin an unused loop\n"


@pe.kernel
def counted(x: Any) -> Any:
    def f(i: Any) -> Any:
        print(i)
        return x[i]

    return pe.sum(f)


def test_any_number_of_threads_prints_the_same_and_says_what_is_cut() -> None:
    x = np.ones(300_000)
    found = []
    for threads in (1, 2, 3, 4):
        with pe.threads(threads):
            found.append(printed(counted, x))
    assert len(set(found)) == 1
    lines = found[0].splitlines()
    notes = [int(line.split()[0][1:]) for line in lines if line.endswith("were not kept]")]
    numbers = [int(line) for line in lines if not line.startswith("[")]
    assert len(numbers) > 2000 and numbers == sorted(set(numbers))
    assert sum(notes) + len(numbers) == len(x)


def test_lines_before_a_failure_are_printed() -> None:
    @pe.kernel
    def f(x: Any) -> Any:
        def root(i: Any) -> Any:
            print(i)
            pe.check(x[i] >= 0.0, "negative")
            return pe.sqrt(x[i])

        return pe.table(root)

    def call() -> None:
        with pytest.raises(CheckFailedError, match="i = 2"):
            f(np.array([1.0, 2.0, -1.0, 3.0]))

    assert printed(call) == "0\n1\n2\n"


def test_a_derivative_prints_what_the_function_prints() -> None:
    def f(x: Any) -> Any:
        y, rounds = x, 0
        while y < 10.0:
            y = y * 2.0
            rounds += 1
            print("round", rounds)
        for k in range(2):
            print("step", k)
            y = y * x
        print(y)
        return y

    gradient = pe.grad(f)
    assert printed(lambda: gradient(3.0)) == printed(lambda: pe.kernel(f)(3.0))
    assert gradient(3.0) == 108.0


def test_what_print_cannot_do_in_a_kernel() -> None:
    def table(x: Any) -> Any:
        print(x)  # here

    def file(x: Any) -> Any:
        print(x[0], file=io.StringIO())  # here

    def many(x: Any) -> Any:
        print(*(x[k] for k in [0] * 15))  # here

    x = np.ones(2)
    check_refused(KernelTypeError, table, (x,), "stands in a text")
    check_refused(KernelTypeError, file, (x,), "`file=`")
    check_refused(KernelTypeError, many, (x,), "shows 15 numbers")
