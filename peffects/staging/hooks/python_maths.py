"""What stands for the functions of Python's `math` in a kernel.

Floats follow IEEE 754 where `math` raises: the root of -1 is nan.  A test walks all functions of
`math` and finds each in one of the tables.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from peffects.errors import KernelTypeError
from peffects.ir import primitives as op
from peffects.ir.syntax import F64, I64
from peffects.machine.checking.locations import speaks_for_users
from peffects.staging.loops import ops
from peffects.staging.scalars import elementary
from peffects.staging.scalars import maths as pe
from peffects.staging.scalars.for_user import for_user
from peffects.staging.scalars.symbols import binary, convert, is_symbolic, is_whole, unary_float
from peffects.staging.tracing.trace import here, staging

__all__ = ["MATH", "REFUSED_MATH"]

Function: TypeAlias = Callable[..., Any]


def _whole(primitive: op.Primitive) -> Function:
    """`math.floor` and its kin, which give an int."""
    return lambda x: convert(elementary.rounding(primitive, x), I64, weak=True)


def _log(x: Any, base: Any = math.e) -> Any:
    if base is math.e:
        return pe.log(x)
    return binary(op.DIV, pe.log(x), pe.log(base))


@speaks_for_users
def _prod(values: Iterable[Any], *, start: Any = 1) -> Any:
    if is_whole(values):
        return binary(op.MUL, start, ops.prod(values))
    numbers = for_user(iter, values)
    return functools.reduce(lambda x, y: binary(op.MUL, x, y), numbers, start)


@speaks_for_users
def _dist(p: Any, q: Any) -> Any:
    if not (is_symbolic(p) or is_symbolic(q)):
        return elementary.dist(for_user(tuple, p), for_user(tuple, q))
    for point in (p, q):
        if not is_whole(point):
            raise KernelTypeError(
                "`math.dist` of a table and what is none.", at=here(), fix="Give two tables."
            )
    x, y = (convert(point, F64) for point in (p, q))
    return staging().inputs.arrays.call(np.linalg.norm, (binary(op.SUB, x, y),), {})


def _modf(x: Any) -> tuple[Any, Any]:
    return elementary.modf(x)


MATH: dict[Function, Function] = {
    math.exp: pe.exp, math.exp2: pe.exp2, math.expm1: pe.expm1, math.log: _log,
    math.log2: pe.log2, math.log10: pe.log10, math.log1p: pe.log1p, math.sqrt: pe.sqrt,
    math.cbrt: pe.cbrt, math.sin: pe.sin, math.cos: pe.cos, math.tan: pe.tan,
    math.asin: pe.arcsin, math.acos: pe.arccos, math.atan: pe.arctan, math.atan2: pe.arctan2,
    math.sinh: pe.sinh, math.cosh: pe.cosh, math.tanh: pe.tanh, math.asinh: pe.arcsinh,
    math.acosh: pe.arccosh, math.atanh: pe.arctanh, math.hypot: elementary.hypot,
    math.dist: _dist, math.degrees: pe.degrees, math.radians: pe.radians,
    math.erf: pe.erf, math.erfc: pe.erfc, math.gamma: pe.gamma, math.lgamma: pe.lgamma,
    math.floor: _whole(op.FLOOR), math.ceil: _whole(op.CEIL), math.trunc: _whole(op.TRUNC),
    math.isnan: pe.isnan, math.isfinite: pe.isfinite, math.isinf: pe.isinf,
    math.isclose: elementary.is_close_symmetric,
    math.fabs: lambda x: abs(convert(x, F64, weak=True)),
    math.copysign: pe.copysign, math.nextafter: pe.nextafter, math.ulp: elementary.ulp,
    math.frexp: pe.frexp, math.ldexp: pe.ldexp, math.modf: _modf,
    math.fmod: lambda x, y: unary_float(op.FMOD, x, y),
    math.remainder: elementary.ieee_remainder,
    math.pow: lambda x, y: unary_float(op.POW, x, y),
    math.gcd: elementary.gcd, math.lcm: elementary.lcm, math.isqrt: elementary.isqrt,
    math.prod: _prod,
}  # fmt: skip

_TOO_LARGE = "its results soon pass 64 bits"
_SUMS = "it adds Python sequences with more digits than a float has"
REFUSED_MATH: dict[str, tuple[str, str]] = {
    "factorial": (_TOO_LARGE, "`pe.gamma(n + 1.0)`, or `pe.lgamma(n + 1.0)` for its logarithm."),
    "comb": (_TOO_LARGE, "`pe.exp(...)` of three `pe.lgamma`, of which two are subtracted."),
    "perm": (_TOO_LARGE, "`pe.exp(pe.lgamma(n + 1.0) - pe.lgamma(n - k + 1.0))`."),
    "fsum": (_SUMS, "`sum(xs)`; of a table `pe.sum(x)`."),
    "sumprod": (_SUMS, "`sum(x * y for x, y in zip(xs, ys))`; of tables `pe.sum`."),
    "fma": ("products and sums are rounded one by one, on all machines alike", "`x * y + z`."),
}  # fmt: skip
"""Functions of `math` that kernels do not have: why, and what to write."""


def _refusal(name: str) -> Function:
    def refuse(*args: object, **kwargs: object) -> Any:
        why, fix = REFUSED_MATH[name]
        raise KernelTypeError(f"kernels have no `math.{name}`: {why}.", at=here(), fix=fix)

    return refuse


MATH.update({getattr(math, name): _refusal(name) for name in REFUSED_MATH if hasattr(math, name)})
