"""Derivatives of products, of each order, whatever is zero: polynomials are the oracle."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from compiled import CompiledProgram
from numpy.typing import NDArray
from programs import Sketch, reduce

import peffects as pe
from peffects.differentiate.programs import jvp_program, value_and_grad_program
from peffects.errors import NotDifferentiableError
from peffects.ir import primitives as p
from peffects.ir.builder import int_lit
from peffects.ir.evaluate import evaluate
from peffects.ir.print import print_program
from peffects.ir.syntax import (
    F64,
    I64,
    Block,
    Bounds,
    FinSet,
    Monoid,
    Program,
    Ref,
    Table,
    Var,
    WithAcc,
)
from peffects.optimize.pipeline import optimize
from peffects.source import SrcInfo

Array = NDArray[np.float64]
ORDERS = (1, 2, 3, 4)
KEYS = np.array([0, 1, 0, 0, 1, 0])
SIZE = len(KEYS)


def whole() -> Program:
    """The product of all of x[i]."""
    s = Sketch("product")
    x, i = s.table("x", "n"), s.index("i", "n")
    return s.done(reduce(s.b, [i], lambda b: b.index(x, i), Monoid.MUL))


def scattered() -> Program:
    """The sum over two cells of the product of their x[i]: cell key[i] has x[i]."""
    s = Sketch("cells")
    x, key, i = s.table("x", "n"), s.table("key", "n", elem=I64), s.index("i", "n")
    s.b.at = SrcInfo("products.py", 7)
    cells = Var("cells", Ref(Monoid.MUL, Table((FinSet(int_lit(2)),), F64)))
    body, region = s.b.nested(), s.b.nested()
    body.accumulate(cells, (body.index(key, i),), body.index(x, i), Bounds.CHECKED)
    region.loop([i], body.block())
    (made,) = s.b.emit(WithAcc((cells,), region.block()))
    first, second = (s.b.index(made, at, bounds=Bounds.UNCHECKED) for at in map(int_lit, (0, 1)))
    return s.done(s.b.prim(p.ADD, first, second))


@cache
def gradient(make: Callable[[], Program], order: int) -> Program:
    """From x, keys and directions to the gradient of the derivative along them."""
    program = make()
    for _ in range(order - 1):
        program = last_result(jvp_program(program, [0]))
    return last_result(value_and_grad_program(program, [0]))


def last_result(program: Program) -> Program:
    """The program without its other results."""
    return replace(program, body=Block(program.body.bindings, program.body.results[-1:]))


def expected(x: Array, cells: Sequence[Sequence[int]], directions: Sequence[Array]) -> Array:
    """The same from the definition: distinct factors are replaced by entries of the directions."""
    found = np.zeros(len(x))
    for cell in cells:
        for places in itertools.permutations(cell, len(directions) + 1):
            rest = math.prod(x[k] for k in cell if k not in places)
            slopes = (v[k] for v, k in zip(directions, places[1:], strict=True))
            found[places[0]] += rest * math.prod(slopes)
    return found


def inputs(seed: int, zeros: int, order: int) -> tuple[Array, list[Array]]:
    """Factors, so many of them zero, of either sign, and directions."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=SIZE)
    x[rng.permutation(SIZE)[:zeros]] = rng.choice([0.0, -0.0], size=zeros)
    return x, list(rng.normal(size=(order - 1, SIZE)))


@pytest.mark.parametrize("zeros", range(6))
@pytest.mark.parametrize("order", ORDERS)
def test_derivatives_of_a_product_are_those_of_the_polynomial(order: int, zeros: int) -> None:
    program = gradient(whole, order)
    for seed in range(3):
        x, directions = inputs(seed, zeros, order)
        (found,) = evaluate(program, [x, *directions])
        np.testing.assert_allclose(
            found, expected(x, [range(SIZE)], directions), rtol=1e-12, atol=1e-12
        )


@pytest.mark.parametrize("zeros", range(6))
@pytest.mark.parametrize("order", ORDERS)
def test_cells_of_products_have_zeros_of_their_own(order: int, zeros: int) -> None:
    cells = [np.flatnonzero(key == KEYS).tolist() for key in (0, 1)]
    x, directions = inputs(zeros, zeros, order)
    (found,) = evaluate(gradient(scattered, order), [x, KEYS, *directions])
    np.testing.assert_allclose(found, expected(x, cells, directions), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", [1, 3])
def test_compiled_derivatives_of_a_product_are_the_evaluators(order: int) -> None:
    program = gradient(whole, order)
    compiled = CompiledProgram(optimize(program))
    for zeros in range(5):
        x, directions = inputs(zeros, zeros, order)
        (found,), (meant,) = compiled(x, *directions), evaluate(program, [x, *directions])
        np.testing.assert_allclose(found, meant, rtol=1e-12, atol=1e-12)


def test_a_first_derivative_keeps_no_power_sums() -> None:
    """The optimizer knows their value, which is zero."""
    text = print_program(optimize(gradient(whole, 1)))
    assert "rest" in text and "powers" not in text and "elementary" not in text
    assert "powers" in print_program(optimize(gradient(whole, 2)))


def test_a_fifth_derivative_of_a_product_is_refused() -> None:
    with pytest.raises(NotDifferentiableError) as refusal:
        gradient(scattered, 5)
    text = str(refusal.value)
    assert text.startswith("PE301 ") and "derivative 5 of a product was asked for" in text
    assert refusal.value.at == SrcInfo("products.py", 7)


@pytest.mark.parametrize("inner", [pe.sum, pe.max, pe.prod])
@pytest.mark.parametrize("outer", [pe.prod, pe.max])
def test_what_is_combined_may_be_a_reduction_itself(outer: Any, inner: Any) -> None:
    """Its accumulation runs again where the updates around it do."""
    x = np.random.default_rng(0).uniform(0.5, 1.5, (4, 3))
    pe.check_grads(lambda x: outer(lambda i: inner(lambda j: x[i, j] ** 2)), (x,))
