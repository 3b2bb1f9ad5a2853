"""How exact compiled functions are, in units in the last place, against wider arithmetic.

The bounds are those that `docs/kernels.md` states.  numpy's functions of 80-bit floats are the
reference, where the machine has them; for digamma and trigamma it is their series in 60 decimal
digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from compiled import CompiledProgram
from programs import Sketch, tabulate

from peffects.ir import primitives as p
from peffects.ir.primitives import Primitive

POINTS = 200_000
EXTENDED = np.finfo(np.longdouble).nmant >= 63

# The function, its reference, the interval of the arguments, the bound in units.
BOUNDS: list[tuple[Primitive, Callable[..., Any], float, float, float]] = [
    (p.SQRT, np.sqrt, 0.0, 1e300, 0.51),
    (p.CBRT, np.cbrt, -1e5, 1e5, 0.7),
    (p.CBRT, np.cbrt, 1e-300, 1e300, 0.7),
    (p.EXP, np.exp, -700.0, 700.0, 0.9),
    (p.EXP2, np.exp2, -1000.0, 1000.0, 1.0),
    (p.EXPM1, np.expm1, -30.0, 30.0, 1.5),
    (p.LOG, np.log, 1e-300, 1e300, 0.9),
    (p.LOG, np.log, 0.5, 2.0, 0.9),
    (p.LOG2, np.log2, 0.5, 2.0, 1.0),
    (p.LOG2, np.log2, 2.0, 1e300, 1.0),
    (p.LOG10, np.log10, 0.5, 2.0, 2.0),
    (p.LOG10, np.log10, 2.0, 1e300, 2.0),
    (p.LOG1P, np.log1p, -0.99, 10.0, 1.5),
    (p.SIN, np.sin, -100.0, 100.0, 1.0),
    (p.COS, np.cos, -100.0, 100.0, 1.0),
    (p.TAN, np.tan, -100.0, 100.0, 1.0),
    (p.ARCSIN, np.arcsin, -1.0, 1.0, 1.0),
    (p.ARCCOS, np.arccos, -1.0, 1.0, 1.0),
    (p.ARCTAN, np.arctan, -50.0, 50.0, 1.0),
    (p.SINH, np.sinh, -700.0, 700.0, 2.0),
    (p.COSH, np.cosh, -700.0, 700.0, 2.0),
    (p.TANH, np.tanh, -20.0, 20.0, 2.5),
    (p.ARCSINH, np.arcsinh, -1e3, 1e3, 2.5),
    (p.ARCCOSH, np.arccosh, 1.0, 1e3, 2.5),
    (p.ARCTANH, np.arctanh, -1.0, 1.0, 2.5),
    (p.EXPIT, lambda x: 1.0 / (1.0 + np.exp(-x)), -700.0, 700.0, 2.5),
    (p.EXPIT, lambda x: 1.0 / (1.0 + np.exp(-x)), -2.0, 2.0, 2.5),
]


def units(found: Any, exact: Any) -> Any:
    """Differences in units in the last place of the exact values."""
    unit = np.spacing(np.abs(exact).astype(np.float64)).astype(np.longdouble)
    return np.abs(found.astype(np.longdouble) - exact) / unit


def mapped(op: Primitive) -> CompiledProgram:
    """y[i] = op(x[i])."""
    s = Sketch(op.name)
    x = s.table("x", "n")
    i = s.index("i", "n")
    return CompiledProgram(s.done(tabulate(s.b, [i], lambda q: q.prim(op, q.index(x, i)))))


@pytest.mark.skipif(not EXTENDED, reason="no 80-bit floats to compare with")
@pytest.mark.parametrize(
    ("op", "exact", "low", "high", "bound"), BOUNDS, ids=[f"{row[0]} {row[2]:g}" for row in BOUNDS]
)
def test_functions_are_as_exact_as_stated(
    op: Primitive, exact: Callable[..., Any], low: float, high: float, bound: float
) -> None:
    x = np.random.default_rng(3).uniform(low, high, POINTS)
    if high >= 1e300:
        x = np.exp(np.random.default_rng(3).uniform(np.log(max(low, 1e-300)), np.log(high), POINTS))
    (found,) = mapped(op)(x)
    assert units(found, exact(x.astype(np.longdouble))).max() <= bound


@pytest.mark.skipif(not EXTENDED, reason="no 80-bit floats to compare with")
def test_the_hypotenuse_is_as_exact_as_stated() -> None:
    s = Sketch("hypot")
    x, y = s.table("x", "n"), s.table("y", "n")
    i = s.index("i", "n")
    body = s.b.nested()
    out = body.prim(p.HYPOT, body.index(x, i), body.index(y, i))
    run = CompiledProgram(s.done(*s.b.loop([i], body.block(out))))
    a, b = np.exp(np.random.default_rng(4).uniform(-300, 300, (2, POINTS)))
    (found,) = run(a, b)
    exact = np.hypot(a.astype(np.longdouble), b.astype(np.longdouble))
    assert units(found, exact).max() <= 1.0


# --- polygamma functions -------------------------------------------------------------------------


@cache
def bernoulli(n: int) -> Fraction:
    """The Bernoulli number, by the recurrence over all before it."""
    if n == 0:
        return Fraction(1)
    terms = (math.comb(n + 1, k) * bernoulli(k) for k in range(n))
    return -sum(terms, Fraction(0)) / (n + 1)


def exact_psi(x: float, order: int) -> Decimal:
    """Digamma (order 0) or trigamma (1) of a positive number, to more than 40 digits."""
    with localcontext() as context:
        context.prec = 60
        y, total = Decimal(x), Decimal(0)
        while y < 50:
            total += 1 / y if order == 0 else 1 / y**2
            y += 1
        tail = Decimal(0)
        for k in range(1, 20):
            number = bernoulli(2 * k)
            factor = Decimal(number.numerator) / Decimal(number.denominator)
            tail += factor / (2 * k * y ** (2 * k)) if order == 0 else factor / y ** (2 * k + 1)
        if order == 0:
            return y.ln() - 1 / (2 * y) - tail - total
        return 1 / y + 1 / (2 * y * y) + tail + total


@pytest.mark.parametrize(("op", "order"), [(p.DIGAMMA, 0), (p.TRIGAMMA, 1)])
def test_derivatives_of_lgamma_are_as_exact_as_stated(op: Primitive, order: int) -> None:
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.uniform(0.0, 12.0, 1500), 10.0 ** rng.uniform(-6.0, 6.0, 500)])
    (found,) = mapped(op)(x)
    for argument, value in zip(x.tolist(), found.tolist(), strict=True):
        exact = exact_psi(argument, order)
        least = 1.0 if op is p.DIGAMMA else 0.0
        unit = math.ulp(max(abs(float(exact)), least))
        assert abs(Decimal(value) - exact) <= Decimal(unit) * 6


def test_digamma_below_zero_is_its_reflection() -> None:
    x = np.array([-0.5, -1.25, -7.3, -100.9])
    (found,) = mapped(p.DIGAMMA)(x)
    (mirrored,) = mapped(p.DIGAMMA)(1.0 - x)
    np.testing.assert_allclose(found, mirrored - np.pi / np.tan(np.pi * x), rtol=1e-12)
    assert np.isnan(mapped(p.DIGAMMA)(np.array([-1.0, -2.0, -1e300, -np.inf]))[0]).all()
    assert mapped(p.TRIGAMMA)(np.array([0.0, -3.0, np.inf]))[0].tolist() == [np.inf, np.inf, 0.0]
