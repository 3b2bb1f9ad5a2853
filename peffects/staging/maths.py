"""Mathematical functions of numbers that work on symbols and on plain numbers alike.

On plain numbers they give what the reference evaluation of their primitive gives, as a float.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from peffects.errors import KernelTypeError
from peffects.ir import primitives as prims
from peffects.ir.primitives import Primitive
from peffects.staging.promotion import number_type
from peffects.staging.scalars import binary, is_symbolic, unary_float
from peffects.staging.scalars import test as float_test
from peffects.staging.trace import current, here

__all__ = [
    "arccos", "arcsin", "arctan", "arctan2", "ceil", "cos", "cosh", "erf", "exp", "expm1",
    "floor", "isfinite", "isnan", "lgamma", "log", "log1p", "maximum", "minimum", "sin", "sinh",
    "sqrt", "tan", "tanh", "trunc",
]  # fmt: skip


def _apply(primitive: Primitive, *values: object) -> object:
    symbolic = [value for value in values if is_symbolic(value) or isinstance(value, np.ndarray)]
    if symbolic and current() is not None:
        return unary_float(primitive, *values)
    return _evaluate(primitive, *values)


def _evaluate(primitive: Primitive, *values: Any) -> float | np.generic:
    """The value of a primitive on plain numbers: a Python float unless one of them is numpy's."""
    known = [number_type(value) for value in values]
    if any(kind is None for kind in known):
        raise KernelTypeError(
            f"`{primitive.name}` takes numbers, not {values[0]!r:.60}.",
            at=here(),
            fix=f"For an array: `pe.table(lambda i: pe.{primitive.name}(x[i]))`.",
        )
    dtype = np.result_type(*values)
    dtype = dtype if dtype.kind == "f" else np.dtype(np.float64)
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


def floor(x: Any) -> Any:
    """The largest whole number not above x, as a float."""
    return _apply(prims.FLOOR, x)


def ceil(x: Any) -> Any:
    """The smallest whole number not below x, as a float."""
    return _apply(prims.CEIL, x)


def trunc(x: Any) -> Any:
    """X without its fraction, as a float."""
    return _apply(prims.TRUNC, x)


def isfinite(x: Any) -> Any:
    """Whether x is neither infinite nor nan."""
    return float_test(prims.IS_FINITE, x) if is_symbolic(x) else bool(np.isfinite(x))


def isnan(x: Any) -> Any:
    """Whether x is nan."""
    return float_test(prims.IS_NAN, x) if is_symbolic(x) else bool(np.isnan(x))


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
