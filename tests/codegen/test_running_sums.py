"""Running sums are bit for bit what the evaluator makes of them, whatever is added to them how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compiled import CompiledProgram, assert_same
from hypothesis import given, settings
from hypothesis import strategies as st
from staged import staged

import peffects as pe
from peffects.codegen.lower import host as lower_host
from peffects.differentiate.programs import value_and_grad_program
from peffects.ir.evaluate import evaluate
from peffects.ir.running import widen
from peffects.ir.syntax import Fold, Program
from peffects.ir.traverse import blocks_of
from peffects.optimize.pipeline import optimize

Array = Any
Function = Callable[..., Any]


def both(x: Any) -> Any:
    """Two sums and a product, of which one sum is read in each round."""

    def step(carry: Any, i: Any) -> Any:
        total, squares, product = carry
        total = (total + x[i]) - 0.5
        return (total, squares + x[i] * x[i], product * x[i]), (total, squares)

    return pe.scan(step, (x[0], 0.0 * x[0], x[0]), over=x.index)


def recurrence(x: Any) -> Any:
    return pe.scan(lambda c, i: (c + 0.25 * c * x[i], c), x[0], over=x.index)


def rows(x: Any) -> Any:
    row = pe.table(lambda j: x[0] * j, over=3)
    return pe.scan(lambda c, i: (pe.table(lambda j: c[j] + x[i] * j), c[1]), row, over=x.index)


def inside(x: Any) -> Any:
    """Each round adds what a parallel loop has summed."""
    return pe.scan(lambda c, i: (c + pe.max(lambda j: x[j] * x[i]), c), x[0], over=x.index)


def nested(x: Any) -> Any:
    return pe.fold(lambda c, i, j, k: c + x[i] * (j - x[k]), x[0], over=(x.index, 3, x.index))


def short(x: Any) -> Any:
    return pe.fold(lambda c, i: c + x[0] * i, x[0], over=16)


WAYS: dict[str, Function] = {
    "cumsum": lambda x: pe.cumsum(x),
    "reverse": lambda x: pe.cumsum(x, reverse=True),
    "rows": rows,
    "numpy": lambda x: np.cumsum(pe.table(lambda i, j: x[i] - j, over=(x.index, 3)), axis=0),
    "both": both,
    "recurrence": recurrence,
    "inside": inside,
    "nested": nested,
    "short": short,
    "minus": lambda x: pe.fold(lambda c, i: c - x[i], 0.0),
    "reduce": lambda x: pe.reduce(lambda i: x[i], lambda a, b: a + b, x[0]),
}
NUMBERS = st.one_of(
    st.floats(-1e300, 1e300),
    st.floats(-2.0, 2.0),
    st.sampled_from([0.0, -0.0, np.inf, -np.inf, np.nan, 1.7e308, -1.7e308, 1e-310, 0.1]),
)


def programs(name: str, dtype: str) -> list[Program]:
    program = staged(WAYS[name], np.ones(3, dtype)).program
    return [program, optimize(program)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", WAYS)
def test_native_code_is_the_evaluator(name: str, dtype: str) -> None:
    compiled = [CompiledProgram(program) for program in programs(name, dtype)]

    @settings(max_examples=30)
    @given(st.lists(NUMBERS, min_size=1, max_size=40))
    def check(numbers: list[float]) -> None:
        with np.errstate(over="ignore"):
            x = np.array(numbers, dtype)
        for run in compiled:
            for found, expected in zip(run(x), evaluate(run.program, (x,)), strict=True):
                assert_same(found, expected)

    check()


@pytest.mark.parametrize("name", ["inside", "rows", "numpy"])
def test_loops_of_stages_are_the_evaluator(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower_host, "HOSTED_FROM_NS", 0)
    monkeypatch.setattr(lower_host, "FEW", 0)
    x = np.random.default_rng(1).normal(size=70) * 10.0 ** np.arange(70)
    for program in programs(name, "float64"):
        for found, expected in zip(
            CompiledProgram(program)(x), evaluate(program, (x,)), strict=True
        ):
            assert_same(found, expected)


@pytest.mark.parametrize(
    "read",
    [
        lambda x: pe.cumsum(x)[7],
        lambda x: pe.sum(lambda i: pe.cumsum(x, reverse=True)[i] ** 2),
        lambda x: both(x)[0][1] + both(x)[1][3][0],
        lambda x: rows(x)[0][2],
        lambda x: nested(x) * x[1],
        lambda x: WAYS["minus"](x),
        lambda x: WAYS["reduce"](x),
    ],
    ids=["cumsum", "reverse", "both", "rows", "nested", "minus", "reduce"],
)
def test_derivatives_are_the_evaluator(read: Function) -> None:
    """In all that is carried; so terms are such that unordered sums are exact."""
    x = np.random.default_rng(2).integers(-8, 8, 20) / 4.0
    program = value_and_grad_program(staged(read, x).program, (0,))
    for made in (program, optimize(program)):
        for found, expected in zip(CompiledProgram(made)(x), evaluate(made, (x,)), strict=True):
            assert_same(found, expected)


def folds(program: Program) -> list[Fold]:
    found, pending = [], [program.body]
    while pending:
        for binding in pending.pop().bindings:
            if isinstance(binding.expr, Fold):
                found.append(binding.expr)
            pending += blocks_of(binding.expr)
    return found


@pytest.mark.parametrize(
    ("name", "carries"),
    [("cumsum", 2), ("both", 5), ("recurrence", 1), ("rows", 2), ("short", 1), ("minus", 2)],
)
def test_what_is_carried(name: str, carries: int) -> None:
    """Sums of f64 are carried in two numbers, or two tables; what is no sum, as it is."""
    (fold,) = folds(widen(programs(name, "float64")[1]))
    assert len(fold.carries) == carries and not fold.running


def test_no_carry_of_a_users_loop_is_wide() -> None:
    def total(x: Any) -> Any:
        result = 0.0
        for i in range(len(x)):
            result = result + x[i]
        return result

    program = staged(total, np.ones(3)).program
    assert widen(program) is program
