"""Formulas of complex functions on real symbols.

Each takes and gives real and imaginary parts.  Special values are those of C99 (Annex G), which
numpy follows; where a formula would meet inf - inf or 0 * inf on the way, a `select` takes the
limit.  Derivatives go through these formulas, too: so a `select` replaces a formula only where it
fails, not where the limit happens to be the same number, and what a side that is not taken computes
is kept finite.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from peffects.ir import primitives as op
from peffects.staging.scalars.comparisons import eq, ge, gt, lt
from peffects.staging.scalars.symbols import logical, select, test, unary, unary_float

__all__ = [
    "Parts", "Real", "absolute", "cos", "cosh", "divide", "equal", "exp", "inverse", "log",
    "multiply", "power", "sin", "sinh", "sqrt", "tan", "tanh",
]  # fmt: skip

Real: TypeAlias = Any
"""A real symbol, or a number."""
Parts: TypeAlias = tuple[Real, Real]
"""Real and imaginary part."""

_TANH_IS_ONE = 22.0
"""From here on tanh is 1 in doubles."""


def _abs(x: Real) -> Real:
    return unary(op.ABS, x)


def _is_negative(x: Real) -> Real:
    """Whether the sign of `x` is minus, of a zero too."""
    return logical(op.OR, lt(x, 0.0), logical(op.AND, eq(x, 0.0), lt(1.0 / x, 0.0)))


def _with_sign(x: Real, sign: Real) -> Real:
    """`x`, which is not negative, with the sign of `sign`."""
    return select(_is_negative(sign), -x, x)


def _is_inf(x: Real) -> Real:
    return eq(_abs(x), math.inf)


def _is_finite(x: Real) -> Real:
    return test(op.IS_FINITE, x)


def _scaled(x: Real, y: Real) -> tuple[Real, Real]:
    """The larger of |x| and |y|, and the smaller divided by it: no square overflows."""
    x, y = _abs(x), _abs(y)
    large, small = select(lt(x, y), y, x), select(lt(x, y), x, y)
    return large, small / select(logical(op.OR, eq(large, 0.0), _is_inf(large)), 1.0, large)


# --- arithmetic ----------------------------------------------------------------------------------


def multiply(a: Parts, b: Parts) -> Parts:
    """(ac - bd) + (ad + bc)i."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def divide(a: Parts, b: Parts) -> Parts:
    """Smith's method, as numpy has it: the parts of `b` are divided by the larger one first.

    Algorithm 116, Communications of the ACM 5(8), 1962.  Division by zero divides both parts.
    """
    wide = ge(_abs(b[0]), _abs(b[1]))
    large, small = select(wide, b[0], b[1]), select(wide, b[1], b[0])
    zero = logical(op.AND, eq(b[0], 0.0), eq(b[1], 0.0))
    ratio = small / select(zero, 1.0, large)
    scale = 1.0 / (large + small * ratio)
    first, second = select(wide, a[0], a[1]), select(wide, a[1], a[0])
    product, at_zero = first * ratio, _abs(b[0])
    plus, minus = select(wide, second, product), select(wide, product, second)
    return (
        select(zero, a[0] / at_zero, (first + second * ratio) * scale),
        select(zero, a[1] / at_zero, (plus - minus) * scale),
    )


def inverse(a: Parts) -> Parts:
    """1 / a."""
    return divide((1.0, 0.0), a)


def equal(a: Parts, b: Parts) -> Real:
    """Whether both parts are equal."""
    return logical(op.AND, eq(a[0], b[0]), eq(a[1], b[1]))


def absolute(a: Parts) -> Real:
    """sqrt(x^2 + y^2), scaled; inf if one part is, whatever the other."""
    large, ratio = _scaled(*a)
    found = large * unary_float(op.SQRT, 1.0 + ratio * ratio)
    return select(logical(op.OR, _is_inf(a[0]), _is_inf(a[1])), math.inf, found)


# --- functions -----------------------------------------------------------------------------------


def exp(a: Parts) -> Parts:
    """e^x (cos y + i sin y)."""
    x, y = a
    size = unary_float(op.EXP, x)
    undirected = logical(op.NOT, _is_finite(y))
    vanishes = logical(op.AND, eq(x, -math.inf), undirected)
    grows = logical(op.AND, eq(x, math.inf), undirected)
    real = select(vanishes, 0.0, size * unary_float(op.COS, y))
    imag = select(vanishes, 0.0, size * unary_float(op.SIN, y))
    return select(grows, math.inf, real), _of_line(y, size, imag)


def _of_line(y: Real, factor: Real, product: Real) -> Real:
    """`product`, which is `factor` * sin y, where the factor is not finite and y is 0, too."""
    return select(logical(op.AND, eq(y, 0.0), logical(op.NOT, _is_finite(factor))), y, product)


def log(a: Parts) -> Parts:
    """Logarithm of |a|, and angle; the branch cut, the negative reals, follows the sign of y."""
    large, ratio = _scaled(*a)
    found = unary_float(op.LOG, large) + 0.5 * unary_float(op.LOG1P, ratio * ratio)
    infinite = logical(op.OR, _is_inf(a[0]), _is_inf(a[1]))
    return select(infinite, math.inf, found), unary_float(op.ARCTAN2, a[1], a[0])


def sqrt(a: Parts) -> Parts:
    """The root in the right half-plane, on the side of the sign of y."""
    x, y = a
    right = logical(op.NOT, _is_negative(x))
    size = absolute((0.5 * x, 0.5 * y))
    root = unary_float(op.SQRT, 0.5 * select(right, x, -x) + size)
    zero = eq(root, 0.0)
    other = 0.5 * y / select(logical(op.OR, zero, _is_inf(root)), 1.0, root)
    tall = _is_inf(y)
    flat = logical(op.AND, _is_inf(x), _is_finite(y))
    root = select(zero, 0.0, select(logical(op.OR, tall, flat), math.inf, root))
    other = select(flat, _with_sign(0.0, y), select(tall, y, other))
    return select(right, root, _abs(other)), select(right, other, _with_sign(root, y))


def power(a: Parts, b: Parts) -> Parts:
    """e^(b log a); a^0 is 1, of zero too, and 0^b is 0 where the real part of b is positive."""
    zero = logical(op.AND, eq(a[0], 0.0), eq(a[1], 0.0))
    logarithm = log((select(zero, 1.0, a[0]), a[1]))
    x, y = exp(multiply(b, logarithm))
    improper = logical(op.OR, zero, logical(op.NOT, _is_finite(logarithm[0])))
    is_one = logical(op.AND, improper, logical(op.AND, eq(b[0], 0.0), eq(b[1], 0.0)))
    of_zero = select(gt(b[0], 0.0), 0.0, math.nan)
    return (
        select(is_one, 1.0, select(zero, of_zero, x)),
        select(is_one, 0.0, select(zero, of_zero, y)),
    )


def sinh(a: Parts) -> Parts:
    """(sinh x cos y) + i (cosh x sin y)."""
    x, y = a
    high = unary_float(op.COSH, x)
    real = unary_float(op.SINH, x) * unary_float(op.COS, y)
    undirected = logical(op.NOT, _is_finite(y))
    real = select(undirected, select(eq(x, 0.0), x, select(_is_inf(x), math.inf, real)), real)
    return real, _of_line(y, high, high * unary_float(op.SIN, y))


def cosh(a: Parts) -> Parts:
    """(cosh x cos y) + i (sinh x sin y)."""
    x, y = a
    high = unary_float(op.SINH, x)
    real = unary_float(op.COSH, x) * unary_float(op.COS, y)
    undirected = logical(op.NOT, _is_finite(y))
    real = select(logical(op.AND, undirected, _is_inf(x)), math.inf, real)
    imag = select(logical(op.AND, undirected, eq(x, 0.0)), x, high * unary_float(op.SIN, y))
    return real, _of_line(select(_is_negative(x), -y, y), high, imag)


def tanh(a: Parts) -> Parts:
    """Kahan's formula, which neither cancels nor overflows.

    Branch cuts for complex elementary functions, in The State of the Art in Numerical Analysis,
    1987.
    """
    x, y = a
    far = ge(_abs(x), _TANH_IS_ONE)
    near = select(far, 0.0, x)
    tangent, height = unary_float(op.TAN, y), unary_float(op.SINH, near)
    slope = 1.0 + tangent * tangent
    bottom = 1.0 + slope * height * height
    real = slope * unary_float(op.SQRT, 1.0 + height * height) * height / bottom
    real = select(logical(op.AND, eq(x, 0.0), logical(op.NOT, _is_finite(y))), x, real)
    small = unary_float(op.EXP, -2.0 * _abs(select(far, x, _TANH_IS_ONE)))
    there = 4.0 * unary_float(op.SIN, y) * unary_float(op.COS, y) * small
    there = select(_is_inf(x), _with_sign(0.0, there), there)
    one = select(logical(op.OR, _is_finite(y), _is_inf(x)), _with_sign(1.0, x), math.nan)
    return select(far, one, real), select(far, there, _of_line(y, bottom, tangent / bottom))


def sin(a: Parts) -> Parts:
    """-i sinh(i a)."""
    real, imag = sinh((-a[1], a[0]))
    return imag, -real


def cos(a: Parts) -> Parts:
    """cosh(i a)."""
    return cosh((-a[1], a[0]))


def tan(a: Parts) -> Parts:
    """-i tanh(i a)."""
    real, imag = tanh((-a[1], a[0]))
    return imag, -real
