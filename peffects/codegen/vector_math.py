"""Exponential, logarithm and cube root without calls and branches: loops of them are vectorized.

LLVM has no vector math library here: a loop that calls libm's `exp` runs one element at a time.
These are polynomials, emitted in place.  Errors, measured against exact values on 10**6 points in
`tests/codegen/test_vector_math.py`: below 1 unit in the last place, for all finite arguments,
denormal results included.  Special values are IEEE 754's.  f32 is computed in f64 and rounded.

Imports numba: only generated source imports this module.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["cbrt", "exp", "log"]

_F64, _I64 = ir.DoubleType(), ir.IntType(64)
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""The sum is ln 2; the first has 33 bits, so that its product with an exponent is exact."""
_SHIFT = 1.5 * 2.0**52
"""Adding it rounds a double to an integer, which then stands in its low bits."""


@dataclass(frozen=True, slots=True)
class _Value:
    """A double, or an i64, with operators that append instructions."""

    builder: ir.IRBuilder
    value: ir.Value

    def _other(self, other: _Value | float) -> ir.Value:
        return other.value if isinstance(other, _Value) else self.value.type(other)

    def _made(self, value: ir.Value) -> _Value:
        return _Value(self.builder, value)

    def __add__(self, other: _Value | float) -> _Value:
        return self._made(self.builder.fadd(self.value, self._other(other)))

    def __sub__(self, other: _Value | float) -> _Value:
        return self._made(self.builder.fsub(self.value, self._other(other)))

    def __mul__(self, other: _Value | float) -> _Value:
        return self._made(self.builder.fmul(self.value, self._other(other)))

    def __truediv__(self, other: _Value | float) -> _Value:
        return self._made(self.builder.fdiv(self.value, self._other(other)))

    def times_plus(self, factor: _Value | float, term: _Value | float) -> _Value:
        """`self * factor + term`, in one instruction where the machine has it."""
        kind = ir.FunctionType(_F64, [_F64] * 3)
        fused = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.fmuladd.f64")
        args = [self.value, self._other(factor), self._other(term)]
        return self._made(self.builder.call(fused, args))

    def where(self, test: str, bound: _Value | float, chosen: _Value | float) -> _Value:
        """`chosen` where `self test bound` holds, else `self`; a NaN stays."""
        condition = self.builder.fcmp_ordered(test, self.value, self._other(bound))
        return self._made(self.builder.select(condition, self._other(chosen), self.value))

    def unless(self, x: _Value, test: str, bound: float, chosen: _Value | float) -> _Value:
        """`chosen` where `x test bound` holds, else `self`."""
        condition = self.builder.fcmp_ordered(test, x.value, x.value.type(bound))
        return self._made(self.builder.select(condition, self._other(chosen), self.value))

    def or_nan(self, x: _Value) -> _Value:
        """`x` where that is a NaN, else `self`."""
        condition = self.builder.fcmp_unordered("uno", x.value, x.value)
        return self._made(self.builder.select(condition, x.value, self.value))

    def bits(self) -> _Value:
        """The i64 with the bits of a double."""
        return self._made(self.builder.bitcast(self.value, _I64))

    def from_bits(self) -> _Value:
        """The double with the bits of an i64."""
        return self._made(self.builder.bitcast(self.value, _F64))

    def plus(self, other: _Value | int) -> _Value:
        """The sum of two i64."""
        return self._made(self.builder.add(self.value, self._other(other)))

    def masked(self, mask: int) -> _Value:
        """Some bits of an i64."""
        return self._made(self.builder.and_(self.value, self.value.type(mask)))

    def joined(self, other: _Value) -> _Value:
        """The bits of two i64 together."""
        return self._made(self.builder.or_(self.value, other.value))

    def up(self, count: int) -> _Value:
        """An i64 shifted left."""
        return self._made(self.builder.shl(self.value, self.value.type(count)))

    def down(self, count: int) -> _Value:
        """An i64 shifted right, zeros coming in."""
        return self._made(self.builder.lshr(self.value, self.value.type(count)))


def _bits(x: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", x))[0])


def _polynomial(x: _Value, coefficients: Sequence[float]) -> _Value:
    """`c[0] + c[1] x + ..` by Estrin's scheme, whose products do not wait for each other."""
    terms: list[_Value | float] = list(coefficients)
    power = x
    while len(terms) > 1:
        pairs = [
            power.times_plus(high, low) for low, high in zip(terms[::2], terms[1::2], strict=False)
        ]
        terms = [*pairs, *terms[2 * len(pairs) :]]
        power = power * power
    (result,) = terms
    assert isinstance(result, _Value)
    return result


# --- exp ----------------------------------------------------------------------------------------
# x = n ln 2 + r with |r| <= ln 2 / 2, so exp x = 2**n exp r.  Taylor's series for exp r to degree
# 13 is off by less than 2**-57.  2**n is two factors, so that large results overflow, and denormal
# ones round, once and only in the last product.  `high` is exact: r alone would add its rounding.


def _exp(x: _Value) -> _Value:
    x = x.where("<", -750.0, -750.0).where(">", 710.0, 710.0)
    shifted = x.times_plus(1.0 / math.log(2.0), _SHIFT)
    n = shifted - _SHIFT
    high, low = n.times_plus(-_LN2_HIGH, x), n * -_LN2_LOW
    r = high + low
    tail = _polynomial(r, [1.0 / math.factorial(k) for k in range(2, 14)])
    value = (r * r).times_plus(tail, low) + high + 1.0
    whole = shifted.bits().plus(-_bits(_SHIFT))
    first = whole.plus(2048).down(1).plus(-1024)
    second = whole.plus(_negated(first))
    for part in (first, second):
        value = value * part.plus(1023).up(52).from_bits()
    return value


def _negated(x: _Value) -> _Value:
    return _Value(x.builder, x.builder.sub(x.value.type(0), x.value))


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


def _log(x: _Value) -> _Value:
    tiny = 2.0**-1022
    scaled = x.where("<", tiny, x * 2.0**54)  # denormal numbers are made normal
    moved = scaled.bits().plus((0x3FF << 52) - _ROOT_HALF_BITS)
    k = moved.down(52).plus(_bits(2.0**52)).from_bits() - (2.0**52 + 1023.0)
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


def _cbrt(x: _Value) -> _Value:
    size = x.bits().masked((1 << 63) - 1).from_bits()
    factor = _Value(x.builder, size.value.type(1.0))
    factor = factor.unless(size, "<", 2.0**-500, 2.0**100).unless(size, ">", 2.0**500, 2.0**-100)
    a = size * factor * factor * factor
    word = a.bits().down(32).plus(_bits(2.0**52)).from_bits() - 2.0**52
    third = word.times_plus(1.0 / 3.0, _THIRD_OF_BIAS) + _SHIFT
    t = third.bits().plus(-_bits(_SHIFT)).up(32).from_bits()
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


def _vectorizable(function: Callable[[_Value], _Value], x: types.Type) -> Any:
    """The signature and the code of a function of one float."""
    if not isinstance(x, types.Float):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        if x.bitwidth == 64:
            return function(_Value(builder, args[0])).value
        wide = _Value(builder, builder.fpext(args[0], _F64))
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
