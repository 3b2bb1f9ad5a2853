"""Functions of numbers made of others: what numpy and `math` have and the IR need not.

Each takes numbers of which at least one is a symbol, and emits into the current trace.  A choice
between formulas is a select, whose derivative is that of the formula chosen; operands that only
choose have none.  `maths.py` has the public forms, `ufuncs.py` says which function of numpy each
serves.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from peffects.errors import KernelTypeError, ValueRangeError
from peffects.ir import primitives as op
from peffects.ir.builder import lit_like
from peffects.ir.primitives import CAST, Primitive
from peffects.ir.syntax import F64, I64, SCALARS, Scalar
from peffects.staging.scalars import arithmetic
from peffects.staging.scalars.arithmetic import Operand, cast
from peffects.staging.scalars.comparisons import eq, ge, gt, le, lt, ne
from peffects.staging.scalars.symbols import (
    ScalarTracer,
    binary,
    convert,
    lift,
    logical,
    make,
    pointwise,
    select,
    test,
    unary,
    unary_float,
)
from peffects.staging.scalars.whole_numbers import literal_whole
from peffects.staging.tracing.promotion import join, true_division_type
from peffects.staging.tracing.trace import here, staging

Number = Any
"""A symbol or a plain number."""

_TINY = 2.0**-1022
_MOST_ROOT = 3037000499
"""The largest whole number whose square fits in 64 bits."""


# --- operands ------------------------------------------------------------------------------------


def _met(values: Sequence[Number]) -> tuple[list[Operand], Scalar, bool]:
    """The numbers, the type in which they meet, and whether it is weak."""
    operands = [lift(value) for value in values]
    t, weak = operands[0].type, operands[0].weak
    for x in operands[1:]:
        t, weak = join(t, weak, x.type, x.weak)
    return operands, t, weak


def as_floats(*values: Number) -> tuple[Any, ...]:
    """The numbers in the float type in which they meet."""
    operands, t, weak = _met(values)
    t = true_division_type(t)
    return tuple(make(Operand(cast(x, t), t, weak)) for x in operands)


def as_integers(name: str, *values: Number) -> tuple[Any, ...]:
    """The numbers in the integer type in which they meet; bools are refused as floats are."""
    operands, t, weak = _met(values)
    if not t.is_integer:
        raise KernelTypeError(
            f"`{name}` takes integers, not {t}.", at=here(), fix="Convert it: `int(x)`."
        )
    return tuple(make(Operand(cast(x, t), t, weak)) for x in operands)


def _apply(primitive: Primitive, *values: ScalarTracer) -> Any:
    """A primitive of numbers that have its types, with no test of what they are."""
    atoms = tuple(value.operand().atom for value in values)
    found = arithmetic.emit(primitive, atoms, values[0].weak)
    return make(Operand(found.atom, found.type, found.weak and found.type == values[0].type))


def literal_like(x: ScalarTracer, value: float) -> Any:
    """A literal number of the type of `x`."""
    return make(Operand(lit_like(value, x.type), x.type, x.weak))


def _constant(x: ScalarTracer) -> Any:
    """The number as a constant for derivatives."""
    return unary(op.STOP_GRADIENT, x)


def is_float(x: Number) -> bool:
    """Whether a number is a float."""
    return lift(x).type.is_float


def word_of(x: ScalarTracer) -> Any:
    """The bits of a float as an unsigned integer."""
    return _apply(op.TO_BITS, x)


# --- signs and parts -----------------------------------------------------------------------------


@pointwise
def signbit(x: Number) -> Any:
    """Whether the sign is set: of -0.0 and of some nans, too."""
    if not is_float(x):
        return lt(make(lift(x)), 0)
    (value,) = as_floats(x)
    word = word_of(value)
    signed = SCALARS["int64" if value.type == F64 else "int32"]
    return lt(_apply(CAST[signed], word), 0)


@pointwise
def copysign(x: Number, y: Number) -> Any:
    """`x` with the sign of `y`."""
    x, y = as_floats(x, y)
    return select(eq(signbit(x), signbit(y)), x, -x)


@pointwise
def sign(x: Number) -> Any:
    """-1, 0 or 1; nan of nan."""
    x = unary(op.STOP_GRADIENT, x)
    if not x.type.is_float:
        down = 0 if x.type.name[0] == "u" else -1
        return select(gt(x, 0), 1, select(lt(x, 0), down, x))
    return select(gt(x, 0), 1.0, select(lt(x, 0), -1.0, select(eq(x, 0), 0.0, x)))


@pointwise
def heaviside(x: Number, middle: Number) -> Any:
    """0 below 0, `middle` at 0, 1 above; nan of nan."""
    x, middle = as_floats(x, middle)
    x = _constant(x)
    return select(eq(x, 0), middle, select(lt(x, 0), 0.0, select(gt(x, 0), 1.0, x)))


@pointwise
def fabs(x: Number) -> Any:
    """The absolute value as a float."""
    return unary_float(op.ABS, x)


@pointwise
def is_infinite(x: Number) -> Any:
    """Whether x is inf or -inf."""
    return eq(fabs(x), math.inf)


@pointwise
def modf(x: Number) -> tuple[Any, Any]:
    """The fraction and the whole part, both with the sign of `x`."""
    (x,) = as_floats(x)
    whole = unary(op.TRUNC, x)
    return copysign(select(is_infinite(x), 0.0, x - whole), x), whole


@pointwise
def frexp(x: Number) -> tuple[Any, Any]:
    """`m, e` with `x = m * 2**e` and 0.5 <= |m| < 1; of 0, inf and nan `x, 0`."""
    (value,) = as_floats(x)
    wide = convert(value, F64)
    small = lt(abs(wide), _TINY)  # subnormal numbers, and 0: they are made normal
    word = word_of(select(small, wide * 2.0**54, wide))
    field = convert((word >> 52) & 0x7FF, I64)
    plain = logical(op.AND, test(op.IS_FINITE, wide), ne(wide, 0.0))
    exponent = select(plain, field - 1022 - select(small, 54, 0), 0)
    mantissa = _apply(op.LDEXP, wide, -exponent)
    return _narrow(mantissa, value), make(Operand(exponent.atom, I64, True))


def _narrow(wide: ScalarTracer, like: ScalarTracer) -> Any:
    return make(Operand(cast(wide.operand(), like.type), like.type, like.weak))


@pointwise
def ldexp(x: Number, exponent: Number) -> Any:
    """`x * 2**exponent`, rounded once."""
    (value,) = as_floats(x)
    (power,) = as_integers("ldexp", exponent)
    return _narrow(_apply(op.LDEXP, convert(value, F64), convert(power, I64)), value)


@pointwise
def nextafter(x: Number, y: Number) -> Any:
    """The float next to `x` in the direction of `y`."""
    return _apply(op.NEXTAFTER, *as_floats(x, y))


@pointwise
def spacing(x: Number) -> Any:
    """The distance to the next float away from 0, with the sign of `x`."""
    (x,) = as_floats(x)
    size = abs(_constant(x))
    step = nextafter(size, math.inf) - size
    return select(lt(x, 0), -step, step)


@pointwise
def ulp(x: Number) -> Any:
    """The unit in the last place, as `math.ulp` has it."""
    (x,) = as_floats(x)
    size = abs(_constant(x))
    up = nextafter(size, math.inf)
    step = select(is_infinite(up), size - nextafter(size, 0.0), up - size)
    return select(is_infinite(size), size, step)


@pointwise
def nan_to_num(
    x: Number, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Any:
    """`x`, with numbers for nan and infinities; those become the largest numbers."""
    if not is_float(x):
        return make(lift(x))
    (x,) = as_floats(x)
    largest = float(_limits(x.type))
    high = largest if posinf is None else posinf
    low = -largest if neginf is None else neginf
    y = select(test(op.IS_NAN, x), nan, x)
    return select(eq(y, math.inf), high, select(eq(y, -math.inf), low, y))


def _limits(t: Scalar) -> float:
    return 1.7976931348623157e308 if t == F64 else 3.4028234663852886e38


# --- rounding ------------------------------------------------------------------------------------


@pointwise
def rounding(primitive: Primitive, x: Number) -> Any:
    """`floor` and its kin: floats stay floats, integers are whole."""
    return unary(primitive, x) if is_float(x) else make(lift(x))


@pointwise
def rounded(x: Number, digits: int = 0) -> Any:
    """Numpy's `round`: to a number of decimal digits, halves to even."""
    fix = "Write the number: `round(x, 2)`."
    digits = literal_whole(digits, "the number of digits of `round`", fix)
    if not is_float(x):
        if digits < 0:
            raise KernelTypeError(
                "an integer is rounded to tens.", at=here(), fix="`(x + 5) // 10 * 10`."
            )
        return make(lift(x))
    if digits == 0:
        return unary(op.RINT, x)
    scale = 10.0 ** abs(digits)
    (x,) = as_floats(x)
    return unary(op.RINT, x * scale) / scale if digits > 0 else unary(op.RINT, x / scale) * scale


# --- division ------------------------------------------------------------------------------------


@pointwise
def fmod(x: Number, y: Number) -> Any:
    """The rest of a division that rounds towards 0, with the sign of `x`."""
    return binary(op.FMOD, x, y)


@pointwise
def ieee_remainder(x: Number, y: Number) -> Any:
    """`x - n * y` for the whole number n next to `x / y`: `math.remainder`."""
    return _apply(op.REMAINDER, *as_floats(x, y))


@pointwise
def reciprocal(x: Number) -> Any:
    """`1 / x`, rounded towards 0 for integers."""
    if is_float(x):
        return binary(op.DIV, 1.0, x)
    (x,) = as_integers("reciprocal", x)
    whole = binary(op.FLOORDIV, 1, x)  # tests x
    return select(eq(abs(x), 1), x, select(eq(x, 0), whole, 0))


@pointwise
def gcd(*values: Number) -> Any:
    """The greatest common divisor, not negative."""
    if len(values) < 2:
        return abs(as_integers("gcd", *values)[0]) if values else 0
    return functools.reduce(lambda x, y: _apply(op.GCD, x, y), as_integers("gcd", *values))


@pointwise
def lcm(*values: Number) -> Any:
    """The least common multiple, not negative; 0 if one is 0."""
    if len(values) < 2:
        return abs(as_integers("lcm", *values)[0]) if values else 1
    return functools.reduce(_lcm, as_integers("lcm", *values))


def _lcm(x: ScalarTracer, y: ScalarTracer) -> Any:
    divisor = _apply(op.GCD, x, y)
    # gcd(0, 0) = 0, by which the primitive divides to 0
    return _apply(op.FLOORDIV, abs(x), divisor) * abs(y)


@pointwise
def isqrt(n: Number) -> Any:
    """The whole part of the square root of an integer."""
    (n,) = as_integers("isqrt", n)
    n = convert(n, I64, weak=True)
    trace = staging()
    text, fix = "the integer root of {0} was asked for.", "Give an integer that is not negative."
    trace.check((ge(n, 0)).atom, ValueRangeError, text, (n.atom,), fix)
    # The root of the rounded number is off by one at most.
    root = binary(op.MIN, make(Operand(_apply(CAST[I64], _root(n)).atom, I64, True)), _MOST_ROOT)
    root = select(gt(root * root, n), root - 1, root)
    more = binary(op.MIN, root + 1, _MOST_ROOT)
    return select(le(more * more, n), more, root)


def _root(n: ScalarTracer) -> ScalarTracer:
    return unary(op.SQRT, convert(n, F64))


@pointwise
def bit_count(x: Number) -> Any:
    """How many bits of |x| are ones."""
    (x,) = as_integers("bit_count", x)
    return convert(_apply(op.BIT_COUNT, x), I64, weak=True)


# --- minima and maxima ---------------------------------------------------------------------------


@pointwise
def ignoring_nan(primitive: Primitive, x: Number, y: Number) -> Any:
    """The smaller or larger number; the other one where one is nan."""
    if not (is_float(x) or is_float(y)):
        return binary(primitive, x, y)
    x, y = as_floats(x, y)
    found = binary(primitive, x, y)
    return select(test(op.IS_NAN, x), y, select(test(op.IS_NAN, y), x, found))


# --- exponentials and trigonometry ---------------------------------------------------------------


@pointwise
def logaddexp2(x: Number, y: Number) -> Any:
    """`log2(2**x + 2**y)` without overflow."""
    x, y = as_floats(x, y)
    wide = (convert(value, F64) * math.log(2.0) for value in (x, y))
    return _narrow(_apply(op.LOGADDEXP, *wide) * (1.0 / math.log(2.0)), x)


@pointwise
def softplus(x: Number) -> Any:
    """`log(1 + exp(x))` without overflow."""
    (x,) = as_floats(x)
    return _apply(op.LOGADDEXP, x, literal_like(x, 0.0))


@pointwise
def float_power(x: Number, y: Number) -> Any:
    """`x ** y` in float64."""
    return unary_float(op.POW, convert(x, F64), convert(y, F64))


@pointwise
def scaled(x: Number, factor: float) -> Any:
    """`x * factor` as a float: degrees and radians."""
    return as_floats(x)[0] * factor


@pointwise
def sinc(x: Number) -> Any:
    """`sin(pi x) / (pi x)`, 1 at 0.

    Near 0 by its series, whose derivatives do not cancel as those of the quotient do: for
    y = pi x, y**2 < 0.1, the first term left out is below 2**-60.
    """
    (x,) = as_floats(x)
    y = x * math.pi
    z = y * y
    near = lt(z, 0.1)
    series = literal_like(x, 0.0)
    for k in range(8, -1, -1):
        series = series * z + (-1.0) ** k / math.factorial(2 * k + 1)
    away = select(near, 1.0, y)
    return select(near, series, unary(op.SIN, away) / away)


@pointwise
def hypot(*values: Number) -> Any:
    """The length of a vector, without overflow."""
    if not values:
        return 0.0
    if len(values) == 1:
        return fabs(values[0])
    return functools.reduce(lambda x, y: _apply(op.HYPOT, *as_floats(x, y)), values)


def dist(left: Sequence[Number], right: Sequence[Number]) -> Any:
    """The distance of two points, sequences of numbers, which are floats: as integers they wrap."""
    if len(left) != len(right):
        raise KernelTypeError(
            f"`dist` of points with {len(left)} and {len(right)} coordinates.",
            at=here(),
            fix="Give points of one space.",
        )
    points = zip(left, right, strict=True)
    return hypot(*(binary(op.SUB, *as_floats(x, y)) for x, y in points))


# --- nearness ------------------------------------------------------------------------------------


@pointwise
def is_close_symmetric(x: Number, y: Number, *, rel_tol: float = 1e-9, abs_tol: float = 0.0) -> Any:
    """`math.isclose`: |x - y| <= max(rel_tol max(|x|, |y|), abs_tol)."""
    x, y = as_floats(x, y)
    allowed = binary(op.MAX, rel_tol * binary(op.MAX, abs(x), abs(y)), abs_tol)
    finite = logical(op.NOT, logical(op.OR, is_infinite(x), is_infinite(y)))
    near = logical(op.AND, le(abs(x - y), allowed), finite)
    return logical(op.OR, near, eq(x, y))
