"""`break`, `continue` and `return` in staged loops: what Python does, without its idle rounds."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from staged import pe, run, staged, text

from peffects.errors import MergeError
from peffects.ir.evaluate import Work, evaluate
from peffects.kernels.kernel import kernel
from peffects.staging.rewriting.jumps import without_jumps

CASES = [
    np.array(values, float)
    for values in ([], [3.0], [-1.0, 2.0], [1.0, 5.0, -2.0, 7.0], [4.0, 4.0, 4.0, 4.0, 9.0])
]


def find_first(x: Any) -> Any:
    for k in range(len(x)):
        if x[k] > 3.0:
            return k
    return -1


def sum_until_negative(x: Any) -> Any:
    s = 0.0
    for k in range(len(x)):
        if x[k] < 0.0:
            break
        s += x[k]
    return s


def skip_some(x: Any) -> Any:
    s = 0.0
    for k in range(len(x)):
        if x[k] > 4.0:
            continue
        if x[k] < 0.0:
            s -= 1.0
            continue
        s += x[k]
    return s


def all_three(x: Any) -> Any:
    s = 0.0
    for k in range(len(x)):
        if x[k] == 3.0:
            return 100.0
        if x[k] > 6.0:
            break
        elif x[k] < 0.0:
            continue
        s += x[k]
    else:
        s += 1000.0
    return s


def backwards(x: Any) -> Any:
    s = 0.0
    for k in reversed(range(len(x))):
        if x[k] < 0.0:
            break
        s = s * 0.5 + x[k] + k
    return s


def with_start_and_step(x: Any) -> Any:
    s = 0.0
    for k in range(1, len(x), 2):
        if x[k] > 6.0:
            break
        s += x[k] * k
    return s


def over_elements(x: Any) -> Any:
    s = 0.0
    for k, v in enumerate(x):
        if v < 0.0:
            break
        s += v * k
    return s


def nested(x: Any) -> Any:
    count = 0
    for i in range(len(x)):
        for j in range(len(x)):
            if j > i:
                break
            if x[i] * x[j] < -10.0:
                return count * 100
            if x[j] < 0:
                continue
            count += 1
        if count > 9:
            break
    return count


def in_while(x: Any) -> Any:
    k = 0
    s = 0.0
    while k < len(x):
        if x[k] > 6.0:
            break
        k += 1
        if x[k - 1] < 0.0:
            continue
        s += x[k - 1]
    else:
        s += 0.5
    return s


def forever(x: Any) -> Any:
    y = float(len(x)) + 20.0
    n = 0
    while True:
        y = y / 2
        n += 1
        if y < 1.0:
            return n
        if n > 50:
            return -1


def unrolled(x: Any) -> Any:
    s = 0.0
    for c in (1.0, 2.0, 3.0):
        if s > 3.0:
            break
        if c == 3.0:
            return s + 0.25
        s += c * len(x)
    return s


def else_returns(x: Any) -> Any:
    for k, v in enumerate(x):
        if v < 0.0:
            return k
    else:
        return -len(x)


def else_of_a_while_returns(x: Any) -> Any:
    k, s = 0, 0.0
    while k < len(x):
        if x[k] > 6.0:
            return s
        s += x[k]
        k += 1
    else:
        if s > 3.0:
            return -s
        else:
            return 100.0


def pairs(x: Any) -> Any:
    for k in range(len(x)):
        if x[k] < 0:
            return x[k], (k, True)
    return 0.0, (-1, False)


FUNCTIONS = [
    find_first, sum_until_negative, skip_some, all_three, backwards, with_start_and_step,
    over_elements, nested, in_while, forever, unrolled, pairs, else_returns,
    else_of_a_while_returns,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("x", CASES, ids=len)
def test_jumps_are_python_s(function: Callable[..., Any], x: Any) -> None:
    assert run(function, x) == function(x)


def test_conditions_that_are_known_leave_no_trace() -> None:
    def f(x: Any, most: Any, debug: Any) -> Any:
        s = 0.0
        for k in range(len(x)):
            if debug == "stop":
                break
            s += x[k]
        return s

    x = np.ones(3)
    assert run(f, x, 1, "no") == 3.0
    assert "while" not in text(f, x, 1, "no")
    assert run(f, x, 1, "stop") == 0.0


def test_continue_alone_keeps_the_fold() -> None:
    assert "while" not in text(skip_some, CASES[3])
    assert "while" in text(sum_until_negative, CASES[3])


def test_continue_in_parallel_loops() -> None:
    def f(x: Any) -> Any:
        h = pe.accumulator()
        for i in pe.par(x):
            if x[i] < 0.0:
                continue
            h += x[i]
        return h

    assert run(f, CASES[3]) == 13.0


def test_rounds_after_the_exit_cost_nothing() -> None:
    def work(n: int) -> int:
        x = np.full(n, 5.0)
        counted = Work()
        made = staged(find_first, x)
        values = made.arguments((x,), {})
        assert values is not None
        assert evaluate(made.program, values, work=counted)[0] == 0
        return counted.operations + counted.accesses

    assert work(10) == work(10_000)


def test_a_loop_in_a_parallel_loop_stops_by_itself() -> None:
    def f(a: Any) -> Any:
        def first(i: Any) -> Any:
            for j in range(a.shape[1]):
                if a[i, j] > 2.0:
                    return j
            return -1

        return pe.table(first)

    a = np.arange(6.0).reshape(2, 3)
    assert run(f, a).tolist() == [-1, 0]


def test_accumulators_in_loops_that_stop() -> None:
    def f(x: Any) -> Any:
        h = pe.accumulator(x)
        for k in range(len(x)):
            if x[k] > 6.0:
                break
            h[k] += x[k]
        return h

    assert run(f, CASES[3]).tolist() == [1.0, 5.0, -2.0, 0.0]


def test_a_return_of_another_kind_is_refused() -> None:
    def f(x: Any) -> Any:
        for k in range(len(x)):
            if x[k] > 3.0:
                return "found"
        return 0.0

    with pytest.raises(MergeError, match="the result"):
        run(f, CASES[3])

    def g(x: Any) -> Any:
        for k in range(len(x)):
            if x[k] > 3.0:
                return x[k]
        return None

    with pytest.raises(MergeError, match="the result"):
        run(g, CASES[3])


def test_what_follows_is_not_copied_without_end() -> None:
    def loop(ifs: int) -> list[ast.stmt]:
        lines = ["for k in range(n):"]
        for place in range(ifs):
            lines += [f"    if a{place}:", f"        if b{place}: break", "        s += 1"]
        return ast.parse("\n".join(lines)).body

    def has_break(statements: list[ast.stmt]) -> bool:
        return any(isinstance(node, ast.Break) for s in statements for node in ast.walk(s))

    assert not has_break(without_jumps(loop(3)))
    assert has_break(without_jumps(loop(20)))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_compiled_jumps_are_python_s(function: Callable[..., Any]) -> None:
    compiled = kernel(function)
    for x in CASES:
        assert compiled(x) == function(x)
