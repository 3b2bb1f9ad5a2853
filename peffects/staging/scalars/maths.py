"""Mathematical functions of numbers that work on symbols and on plain numbers alike.

On plain numbers they give what the reference evaluation of their primitive gives, as a float; those
that are made of several primitives give what numpy's or `math`'s function of that name gives.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from peffects.errors import KernelTypeError
from peffects.ir import primitives as prims
from peffects.ir.primitives import Primitive
from peffects.parallel.index_sets.packed import Packed
from peffects.staging.scalars import elementary
from peffects.staging.scalars.for_user import has_symbols
from peffects.staging.scalars.symbols import binary, is_complex, is_symbolic, unary_float
from peffects.staging.scalars.symbols import test as float_test
from peffects.staging.tracing.promotion import number_type
from peffects.staging.tracing.trace import current, here

__all__ = [
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "bit_count",
    "cbrt",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "degrees",
    "digamma",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expit",
    "expm1",
    "floor",
    "fmax",
    "fmin",
    "fmod",
    "frexp",
    "gamma",
    "gcd",
    "heaviside",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "isqrt",
    "lcm",
    "ldexp",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "maximum",
    "minimum",
    "modf",
    "nextafter",
    "radians",
    "rint",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "softplus",
    "spacing",
    "sqrt",
    "tan",
    "tanh",
    "trigamma",
    "trunc",
]  # fmt: skip


def _are_symbols(values: Iterable[object]) -> bool:
    """Whether one of the values is a symbol, or becomes one in the kernel that is staged."""
    return current() is not None and any(
        is_symbolic(value) or isinstance(value, np.ndarray | Packed) for value in values
    )


def _no_numbers(name: str, value: object) -> KernelTypeError:
    return KernelTypeError(
        f"`{name}` takes numbers, not {value!r:.60}.",
        at=here(),
        fix=f"For an array: `pe.table(lambda i: pe.{name}(x[i]))`.",
    )


def _apply(primitive: Primitive, *values: object) -> object:
    if _are_symbols(values):
        return unary_float(primitive, *values)
    return _evaluate(primitive, *values)


def _evaluate(primitive: Primitive, *values: Any) -> object:
    """The value of a primitive on plain numbers: one of Python's unless one of them is numpy's."""
    if any(number_type(value) is None and not is_complex(value) for value in values):
        raise _no_numbers(primitive.name, values[0])
    dtype = np.result_type(*values)
    dtype = dtype if dtype.kind in "fc" else np.dtype(np.float64)
    with np.errstate(all="ignore"):
        result = primitive.evaluate(*(dtype.type(value) for value in values))
    return result if any(isinstance(value, np.generic) for value in values) else result.item()


def exp(x: Any) -> Any:
    """The exponential function."""
    return _apply(prims.EXP, x)


def expm1(x: Any) -> Any:
    """`exp(x) - 1`, accurate for small x."""
    return _apply(prims.EXPM1, x)


def log(x: Any) -> Any:
    """The natural logarithm; -inf at 0, nan below."""
    return _apply(prims.LOG, x)


def log1p(x: Any) -> Any:
    """`log(1 + x)`, accurate for small x."""
    return _apply(prims.LOG1P, x)


def sqrt(x: Any) -> Any:
    """The square root; nan below 0."""
    return _apply(prims.SQRT, x)


def sin(x: Any) -> Any:
    """The sine."""
    return _apply(prims.SIN, x)


def cos(x: Any) -> Any:
    """The cosine."""
    return _apply(prims.COS, x)


def tan(x: Any) -> Any:
    """The tangent."""
    return _apply(prims.TAN, x)


def arcsin(x: Any) -> Any:
    """The inverse sine."""
    return _apply(prims.ARCSIN, x)


def arccos(x: Any) -> Any:
    """The inverse cosine."""
    return _apply(prims.ARCCOS, x)


def arctan(x: Any) -> Any:
    """The inverse tangent."""
    return _apply(prims.ARCTAN, x)


def arctan2(y: Any, x: Any) -> Any:
    """The angle of the point (x, y)."""
    return _apply(prims.ARCTAN2, y, x)


def sinh(x: Any) -> Any:
    """The hyperbolic sine."""
    return _apply(prims.SINH, x)


def cosh(x: Any) -> Any:
    """The hyperbolic cosine."""
    return _apply(prims.COSH, x)


def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return _apply(prims.TANH, x)


def erf(x: Any) -> Any:
    """The error function."""
    return _apply(prims.ERF, x)


def lgamma(x: Any) -> Any:
    """The logarithm of the absolute value of the gamma function."""
    return _apply(prims.LGAMMA, x)


def exp2(x: Any) -> Any:
    """2 to the power x."""
    return _apply(prims.EXP2, x)


def log2(x: Any) -> Any:
    """The logarithm to base 2."""
    return _apply(prims.LOG2, x)


def log10(x: Any) -> Any:
    """The logarithm to base 10."""
    return _apply(prims.LOG10, x)


def cbrt(x: Any) -> Any:
    """The cube root, of negative numbers too."""
    return _apply(prims.CBRT, x)


def arcsinh(x: Any) -> Any:
    """The inverse hyperbolic sine."""
    return _apply(prims.ARCSINH, x)


def arccosh(x: Any) -> Any:
    """The inverse hyperbolic cosine; nan below 1."""
    return _apply(prims.ARCCOSH, x)


def arctanh(x: Any) -> Any:
    """The inverse hyperbolic tangent; nan outside [-1, 1]."""
    return _apply(prims.ARCTANH, x)


def hypot(x: Any, y: Any) -> Any:
    """`sqrt(x * x + y * y)` without overflow; its gradient at (0, 0) is taken to be 0."""
    return _apply(prims.HYPOT, x, y)


def erfc(x: Any) -> Any:
    """`1 - erf(x)`, accurate for large x."""
    return _apply(prims.ERFC, x)


def gamma(x: Any) -> Any:
    """The gamma function; inf or -inf at 0, nan at the other poles."""
    return _apply(prims.GAMMA, x)


def digamma(x: Any) -> Any:
    """The derivative of `lgamma`."""
    return _apply(prims.DIGAMMA, x)


def trigamma(x: Any) -> Any:
    """The second derivative of `lgamma`, whose own derivative is refused."""
    return _apply(prims.TRIGAMMA, x)


def expit(x: Any) -> Any:
    """`1 / (1 + exp(-x))`, the logistic sigmoid."""
    return _apply(prims.EXPIT, x)


def softplus(x: Any) -> Any:
    """`log(1 + exp(x))` without overflow."""
    return _derived(elementary.softplus, lambda x: np.logaddexp(x, x * 0.0), x)


def logaddexp(x: Any, y: Any) -> Any:
    """`log(exp(x) + exp(y))` without overflow; where it is -inf its gradient is taken to be 0."""
    return _apply(prims.LOGADDEXP, x, y)


def sinc(x: Any) -> Any:
    """`sin(pi x) / (pi x)`, 1 at 0."""
    return _derived(elementary.sinc, np.sinc, x)


def degrees(x: Any) -> Any:
    """An angle in degrees."""
    return _derived(functools.partial(elementary.scaled, factor=180.0 / math.pi), np.degrees, x)


def radians(x: Any) -> Any:
    """An angle in radians."""
    return _derived(functools.partial(elementary.scaled, factor=math.pi / 180.0), np.radians, x)


def floor(x: Any) -> Any:
    """The largest whole number not above x, as a float; like all rounding, of derivative 0."""
    return _apply(prims.FLOOR, x)


def ceil(x: Any) -> Any:
    """The smallest whole number not below x, as a float."""
    return _apply(prims.CEIL, x)


def trunc(x: Any) -> Any:
    """X without its fraction, as a float."""
    return _apply(prims.TRUNC, x)


def rint(x: Any) -> Any:
    """The whole number next to x, as a float; of two, the even one."""
    return _apply(prims.RINT, x)


def fmod(x: Any, y: Any) -> Any:
    """The rest of a division that rounds towards 0; it has the sign of x, as in C."""
    return _derived(elementary.fmod, np.fmod, x, y)


def modf(x: Any) -> Any:
    """The fraction and the whole part of x, both with its sign."""
    return _derived(elementary.modf, np.modf, x)


def frexp(x: Any) -> Any:
    """`m, e` with `x = m * 2**e` and 0.5 <= |m| < 1; of 0, inf and nan `x, 0`."""
    return _derived(elementary.frexp, np.frexp, x)


def ldexp(x: Any, exponent: Any) -> Any:
    """`x * 2**exponent`, rounded once."""
    return _derived(elementary.ldexp, np.ldexp, x, exponent)


def copysign(x: Any, y: Any) -> Any:
    """X with the sign of y."""
    return _derived(elementary.copysign, np.copysign, x, y)


def nextafter(x: Any, y: Any) -> Any:
    """The float next to x in the direction of y."""
    return _apply(prims.NEXTAFTER, x, y)


def spacing(x: Any) -> Any:
    """The distance from x to the next float away from 0, with the sign of x."""
    return _derived(elementary.spacing, np.spacing, x)


def sign(x: Any) -> Any:
    """-1, 0 or 1 as x is; nan of nan."""
    return _derived(elementary.sign, np.sign, x)


def heaviside(x: Any, middle: Any) -> Any:
    """0 where x is negative, `middle` where it is 0, 1 where it is positive."""
    return _derived(elementary.heaviside, np.heaviside, x, middle)


def signbit(x: Any) -> Any:
    """Whether the sign of x is set, as it is for -0.0."""
    return _derived(elementary.signbit, np.signbit, x)


def isfinite(x: Any) -> Any:
    """Whether x is neither infinite nor nan."""
    return float_test(prims.IS_FINITE, x) if has_symbols((x,)) else bool(np.isfinite(x))


def isinf(x: Any) -> Any:
    """Whether x is inf or -inf."""
    return elementary.is_infinite(x) if has_symbols((x,)) else bool(np.isinf(x))


def isnan(x: Any) -> Any:
    """Whether x is nan."""
    return float_test(prims.IS_NAN, x) if has_symbols((x,)) else bool(np.isnan(x))


def gcd(x: Any, y: Any) -> Any:
    """The greatest common divisor of integers."""
    return _derived(elementary.gcd, np.gcd, x, y)


def lcm(x: Any, y: Any) -> Any:
    """The least common multiple of integers."""
    return _derived(elementary.lcm, np.lcm, x, y)


def isqrt(n: Any) -> Any:
    """The whole part of the square root of an integer; ValueRangeError below 0."""
    return _derived(elementary.isqrt, math.isqrt, n)


def bit_count(x: Any) -> Any:
    """How many bits of |x|, an integer, are ones."""
    return _derived(elementary.bit_count, lambda x: abs(int(x)).bit_count(), x)


def maximum(x: Any, y: Any) -> Any:
    """The larger of two numbers; nan if one is nan."""
    return _binary(prims.MAX, x, y)


def minimum(x: Any, y: Any) -> Any:
    """The smaller of two numbers; nan if one is nan."""
    return _binary(prims.MIN, x, y)


def _binary(primitive: Primitive, x: object, y: object) -> object:
    if is_symbolic(x) or is_symbolic(y):
        return binary(primitive, x, y)
    return primitive.evaluate(x, y)


def fmax(x: Any, y: Any) -> Any:
    """The larger of two numbers; the other one where one is nan."""
    return _derived(functools.partial(elementary.ignoring_nan, prims.MAX), np.fmax, x, y)


def fmin(x: Any, y: Any) -> Any:
    """The smaller of two numbers; the other one where one is nan."""
    return _derived(functools.partial(elementary.ignoring_nan, prims.MIN), np.fmin, x, y)


def _derived(on_symbols: Callable[..., Any], on_numbers: Callable[..., Any], *values: Any) -> Any:
    """A function made of several primitives, or on plain numbers the reference."""
    if _are_symbols(values):
        return on_symbols(*values)
    if any(number_type(value) is None for value in values):
        raise _no_numbers(getattr(on_numbers, "__name__", "f"), values[0])
    with np.errstate(all="ignore"):
        result = on_numbers(*values)
    if any(isinstance(value, np.generic) for value in values):
        return result
    return tuple(map(_plain, result)) if isinstance(result, tuple) else _plain(result)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
