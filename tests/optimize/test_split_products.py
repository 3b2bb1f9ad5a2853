"""Products leave loops that do more, where the memory for that is there; the meaning stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compiled import CompiledProgram, assert_same
from numpy.typing import NDArray

import peffects as pe
from peffects.codegen.launch.threads import threads
from peffects.ir.evaluate import evaluate
from peffects.ir.products import matrix_product
from peffects.ir.syntax import Block, Program, WithAcc
from peffects.kernels.kernel import Kernel
from peffects.optimize.pipeline import LAST, PASSES, optimize
from peffects.optimize.split_products import split_products

Array = NDArray[np.float64]


def program_of(function: Callable[..., Any], *args: object) -> Program:
    """What is staged for a call."""
    return pe.kernel(function).stage(args, {}).program


def fused(program: Program) -> Program:
    """The program as it comes to the pass."""
    for _ in range(4):
        for _, transform in PASSES:
            program = transform(program)
    return program


def products(block: Block) -> int:
    """How many matrix products the spine has."""
    count = 0
    for binding in block.bindings:
        count += matrix_product(binding) is not None
        if isinstance(binding.expr, WithAcc):
            count += products(binding.expr.body)
    return count


def whole(*shape: int, seed: int = 0) -> Array:
    """Small whole numbers: sums are exact, so their order does not show."""
    return np.random.default_rng(seed).integers(-3, 4, size=shape).astype(float)


def plain(a: Any, b: Any) -> Any:
    return pe.table(lambda i, j: pe.sum(lambda k: a[i, k] * b[k, j]))


def layer(a: Any, b: Any) -> Any:
    return pe.table(lambda i, j: pe.maximum(pe.sum(lambda k: a[i, k] * b[k, j]), 0.0))


def shifted(a: Any, b: Any) -> Any:
    """An operand that is computed, over sizes that a table has."""
    return pe.table(lambda i, j: pe.sum(lambda k: (2.0 * a[i, k] + 1.0) * b[k, j]))


def distance(a: Any, b: Any, y: Any) -> Any:
    return pe.sum(lambda i, j: (pe.sum(lambda k: a[i, k] * b[k, j]) - y[i, j]) ** 2)


def nested(a: Any, b: Any) -> Any:
    return pe.table(lambda i: pe.table(lambda j: 2.0 + pe.sum(lambda k: a[i, k] * b[k, j])))


def two_layers(a: Any, b: Any, c: Any) -> Any:
    return layer(layer(a, b), c)


CASES: list[tuple[Callable[..., Any], tuple[Array, ...], int]] = [
    (plain, (whole(5, 9), whole(9, 4)), 1),
    (layer, (whole(5, 9), whole(9, 4)), 1),
    (shifted, (whole(5, 9), whole(9, 4)), 1),
    (distance, (whole(5, 9), whole(9, 4), whole(5, 4)), 1),
    (nested, (whole(5, 9), whole(9, 4)), 1),
    (two_layers, (whole(5, 9), whole(9, 6), whole(6, 11)), 2),
]


@pytest.mark.parametrize(
    ("function", "args", "count"), CASES, ids=lambda x: getattr(x, "__name__", "")
)
def test_products_are_found_and_mean_the_same(
    function: Callable[..., Any], args: tuple[Array, ...], count: int
) -> None:
    program = program_of(function, *args)
    optimized = optimize(program)
    assert products(optimized.body) == count
    (found,), (expected,) = evaluate(optimized, args), evaluate(program, args)
    assert_same(found, expected)
    assert_same(CompiledProgram(optimized)(*args)[0], expected)


def gradient_of(function: Callable[..., Any], args: tuple[Array, ...]) -> Program:
    kernel = pe.grad(function, argnums=tuple(range(len(args))))
    assert isinstance(kernel, Kernel)
    return kernel.stage(args, {}).program


def network(w: Any, v: Any, x: Any, y: Any) -> Any:
    hidden = pe.table(lambda i, j: pe.sum(lambda k: x[i, k] * w[k, j]) ** 2)
    return pe.sum(lambda i, j: (pe.sum(lambda k: hidden[i, k] * v[k, j]) - y[i, j]) ** 2)


def test_the_gradient_of_products_is_made_of_products() -> None:
    """Two forwards, each once; by w and v, and by what is between: all but what nobody asks for."""
    args = whole(9, 6, seed=1), whole(6, 4, seed=2), whole(5, 9, seed=3), whole(5, 4, seed=4)
    program = gradient_of(network, args)
    optimized = optimize(program)
    assert products(optimized.body) == 6
    w, v, x, y = args
    inner = x @ w
    error = 2.0 * (inner**2 @ v - y)
    by_inner = (error @ v.T) * 2.0 * inner
    expected = x.T @ by_inner, (inner**2).T @ error, by_inner @ w.T, -error
    for found, compiled, value in zip(
        evaluate(optimized, args), CompiledProgram(optimized)(*args), expected, strict=True
    ):
        np.testing.assert_array_equal(found, value)
        np.testing.assert_array_equal(compiled, value)


def test_gradients_have_the_same_bits_for_any_number_of_threads() -> None:
    rng = np.random.default_rng(5)
    args = tuple(rng.normal(size=size) for size in ((90, 70), (70, 40), (130, 90), (130, 40)))
    run = CompiledProgram(optimize(gradient_of(network, args)))
    results = []
    for count in (1, 2, 3, 4):
        with threads(count):
            results.append(run(*args))
    for other in results[1:]:
        for found, first in zip(other, results[0], strict=True):
            assert_same(found, first)


# --- what stays as it is --------------------------------------------------------------------------


def without_table(a: Any, b: Any) -> Any:
    """Nothing else has rows and columns: the table would be all the memory there is."""
    return pe.sum(lambda i, j: pe.sum(lambda k: a[i, k] * b[k, j]) ** 2)


def with_vector(a: Any, x: Any) -> Any:
    return pe.table(lambda i: 1.0 + pe.sum(lambda k: a[i, k] * x[k]))


def pairs(x: Any, y: Any) -> Any:
    """The factor depends on rows and columns both."""
    return pe.table(lambda i, j: pe.sum(lambda k: (x[i, k] - y[j, k]) * (x[i, k] - y[j, k])))


def guarded(a: Any, b: Any, c: Any) -> Any:
    """The sum runs on one side of a branch only."""

    def element(i: Any, j: Any) -> Any:
        if c[i, j] > 0.0:
            return pe.sum(lambda k: a[i, k] * b[k, j])
        return 0.0

    return pe.table(element)


def checked_read(a: Any, b: Any) -> Any:
    """A read that may fail, at the place where it does."""
    return pe.table(lambda i, j: 1.0 + pe.sum(lambda k: a[i, k] * b[k + 1, j]), over=(5, 4))


def short(a: Any, b: Any) -> Any:
    return pe.table(lambda i, j: 1.0 + pe.sum(lambda k: a[i, k] * b[k, j], over=pe.Fin(3)))


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (without_table, ((5, 9), (9, 4))),
        (with_vector, ((5, 9), (9,))),
        (pairs, ((5, 9), (4, 9))),
        (guarded, ((5, 9), (9, 4), (5, 4))),
        (checked_read, ((5, 9), (10, 4))),
        (short, ((5, 3), (3, 4))),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_other_loops_are_left_alone(
    function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]
) -> None:
    program = fused(program_of(function, *(whole(*shape) for shape in shapes)))
    assert split_products(program) is program


def test_the_pass_is_the_first_of_the_last() -> None:
    """Those that follow it run only where it has found something."""
    assert LAST[0] == ("split_products", split_products)
