"""Exponential, logarithm and cube root without calls and branches: loops of them are vectorized.

LLVM has no vector math library here: a loop that calls libm's `exp` runs one element at a time.
These are polynomials, emitted in place.  Errors, measured against exact values on 10**6 points in
`tests/codegen/test_vector_math.py`: below 1 unit in the last place, for all finite arguments,
denormal results included.  Special values are IEEE 754's.  f32 is computed in f64 and rounded.

Imports numba: only generated source imports this module.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from peffects.codegen.native.instructions import Emitted, bits_of

__all__ = ["cbrt", "exp", "log"]

_F64 = ir.DoubleType()
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""The sum is ln 2; the first has 33 bits, so that its product with an exponent is exact."""
_SHIFT = 1.5 * 2.0**52
"""Adding it rounds a double to an integer, which then stands in its low bits."""


def _polynomial(x: Emitted, coefficients: Sequence[float]) -> Emitted:
    """`c[0] + c[1] x + ..` by Estrin's scheme, whose products do not wait for each other."""
    terms: list[Emitted | float] = list(coefficients)
    power = x
    while len(terms) > 1:
        pairs = [
            power.times_plus(high, low) for low, high in zip(terms[::2], terms[1::2], strict=False)
        ]
        terms = [*pairs, *terms[2 * len(pairs) :]]
        power = power * power
    (result,) = terms
    assert isinstance(result, Emitted)
    return result


# --- exp ----------------------------------------------------------------------------------------
# x = n ln 2 + r with |r| <= ln 2 / 2, so exp x = 2**n exp r.  Taylor's series for exp r to degree
# 13 is off by less than 2**-57.  2**n is two factors, so that large results overflow, and denormal
# ones round, once and only in the last product.  `high` is exact: r alone would add its rounding.


def _exp(x: Emitted) -> Emitted:
    x = x.where("<", -750.0, -750.0).where(">", 710.0, 710.0)
    shifted = x.times_plus(1.0 / math.log(2.0), _SHIFT)
    n = shifted - _SHIFT
    high, low = n.times_plus(-_LN2_HIGH, x), n * -_LN2_LOW
    r = high + low
    tail = _polynomial(r, [1.0 / math.factorial(k) for k in range(2, 14)])
    value = (r * r).times_plus(tail, low) + high + 1.0
    whole = shifted.bits().plus(-bits_of(_SHIFT))
    first = whole.plus(2048).down(1).plus(-1024)
    second = whole.plus(_negated(first))
    for part in (first, second):
        value = value * part.plus(1023).up(52).from_bits()
    return value


def _negated(x: Emitted) -> Emitted:
    return Emitted(x.builder, x.builder.sub(x.value.type(0), x.value))


# --- log ----------------------------------------------------------------------------------------
# x = 2**k m with m in [sqrt 1/2, sqrt 2), f = m - 1, s = f / (2 + f).  Then
# log m = 2 artanh s = f - s (f - R(s**2)) with fdlibm's polynomial R, and log x = k ln 2 + log m,
# summed so that the large parts cancel exactly.

_LOG_COEFFICIENTS = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
    2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
    1.479819860511658591e-01,
)  # fmt: skip
_ROOT_HALF_BITS = 0x3FE6A09E << 32


def _log(x: Emitted) -> Emitted:
    tiny = 2.0**-1022
    scaled = x.where("<", tiny, x * 2.0**54)  # denormal numbers are made normal
    moved = scaled.bits().plus((0x3FF << 52) - _ROOT_HALF_BITS)
    k = moved.down(52).plus(bits_of(2.0**52)).from_bits() - (2.0**52 + 1023.0)
    k = k - (x * 0.0).unless(x, "<", tiny, 54.0)
    f = moved.masked((1 << 52) - 1).plus(_ROOT_HALF_BITS).from_bits() - 1.0
    s = f / (f + 2.0)
    z = s * s
    rest = z * _polynomial(z, _LOG_COEFFICIENTS)
    half = f * f * 0.5
    small = s.times_plus(half + rest, k * _LN2_LOW)
    value = k.times_plus(_LN2_HIGH, f - (half - small))
    value = value.unless(x, "==", math.inf, math.inf).unless(x, "==", 0.0, -math.inf)
    return value.unless(x, "<", 0.0, math.nan).or_nan(x)


# --- cube root ----------------------------------------------------------------------------------
# The upper word of a double is nearly linear in its logarithm, so a third of it, with a constant
# that makes up for the bias and halves the largest error, is that of the root within 5 %.  Two
# steps of Halley's method, e -> 2/3 e**3, leave less than 2**-40.  The last step starts from 26
# bits of that, whose square is exact; it squares the error, and its result is off by less than 0.7
# units.  Small and large numbers are scaled by a cube, so that no part of a step is subnormal or
# overflows.

_THIRD_OF_BIAS = 715094163.0
_SIGN = -(1 << 63)


def _cbrt(x: Emitted) -> Emitted:
    size = x.bits().masked((1 << 63) - 1).from_bits()
    factor = Emitted(x.builder, size.value.type(1.0))
    factor = factor.unless(size, "<", 2.0**-500, 2.0**100).unless(size, ">", 2.0**500, 2.0**-100)
    a = size * factor * factor * factor
    word = a.bits().down(32).plus(bits_of(2.0**52)).from_bits() - 2.0**52
    third = word.times_plus(1.0 / 3.0, _THIRD_OF_BIAS) + _SHIFT
    t = third.bits().plus(-bits_of(_SHIFT)).up(32).from_bits()
    for _ in range(2):
        cube = t * t * t
        t = t * (cube.times_plus(0.25, a * 0.5) / cube.times_plus(0.5, a * 0.25))
    t = t.bits().masked(-(1 << 27)).from_bits()
    rest = a / (t * t)
    value = (t + t * ((rest - t) / (t + t + rest))) / factor
    value = value.unless(size, "==", 0.0, 0.0).unless(size, "==", math.inf, math.inf)
    sign = x.bits().masked(_SIGN)
    return value.bits().joined(sign).from_bits().or_nan(x)


# --- what generated source calls ----------------------------------------------------------------


def _vectorizable(function: Callable[[Emitted], Emitted], x: types.Type) -> Any:
    """The signature and the code of a function of one float."""
    if not isinstance(x, types.Float):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        if x.bitwidth == 64:
            return function(Emitted(builder, args[0])).value
        wide = Emitted(builder, builder.fpext(args[0], _F64))
        return builder.fptrunc(function(wide).value, args[0].type)

    return x(x), codegen


@intrinsic
def exp(typingctx: object, x: types.Type) -> Any:
    """e**x."""
    return _vectorizable(_exp, x)


@intrinsic
def log(typingctx: object, x: types.Type) -> Any:
    """The natural logarithm of x."""
    return _vectorizable(_log, x)


@intrinsic
def cbrt(typingctx: object, x: types.Type) -> Any:
    """The cube root of x."""
    return _vectorizable(_cbrt, x)
