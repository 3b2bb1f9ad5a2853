"""numpy's universal functions on symbols: of numbers a number, of tables element by element.

The functions of `maths.py` that numpy has under the same name are found by it; the table below has
the operators and what numpy calls otherwise.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from peffects.errors import KernelTypeError
from peffects.ir import primitives as op
from peffects.ir.syntax import F64
from peffects.staging import maths
from peffects.staging.accumulators import as_table
from peffects.staging.numpy_products import matmul
from peffects.staging.numpy_reductions import cumprod, cumsum, reduction
from peffects.staging.numpy_shapes import expand_dims
from peffects.staging.scalars import (
    binary,
    bitwise,
    compare,
    convert,
    invert,
    is_whole,
    logical,
    positive,
    power,
    select,
    unary,
)
from peffects.staging.scalars import test as float_test
from peffects.staging.trace import here

__all__ = ["ufunc"]

Function: TypeAlias = Callable[..., Any]


def _sign(x: Any) -> Any:
    """-1, 0 or 1; nan stays."""
    return select(compare(op.LT, 0, x), 1, select(compare(op.LT, x, 0), -1, x))


def _logaddexp(x: Any, y: Any) -> Any:
    high, low = binary(op.MAX, x, y), binary(op.MIN, x, y)
    gap = select(compare(op.EQ, high, low), 0.0, binary(op.SUB, low, high))
    return binary(op.ADD, high, maths.log1p(maths.exp(gap)))


def _reciprocal(x: Any) -> Any:
    return binary(op.DIV, 1, x)


def _heaviside(x: Any, at_zero: Any) -> Any:
    side = select(compare(op.LT, x, 0), 0.0, 1.0)
    value = select(compare(op.EQ, x, 0), at_zero, side)
    return select(float_test(op.IS_NAN, x), x, value)


def _isinf(x: Any) -> Any:
    finite, nan = float_test(op.IS_FINITE, x), float_test(op.IS_NAN, x)
    return logical(op.NOT, logical(op.OR, finite, nan))


def _scaled(factor: float) -> Function:
    return lambda x: binary(op.MUL, convert_to_float(x), factor)


def convert_to_float(x: Any) -> Any:
    """Integers as float64, floats as they are."""
    return binary(op.DIV, x, 1)


def _one_of(nan_of: Function, otherwise: Function) -> Function:
    """`fmax` and `fmin`: of a nan and a number the number."""

    def function(x: Any, y: Any) -> Any:
        best = otherwise(x, y)
        return select(nan_of(x), y, select(nan_of(y), x, best))

    return function


_NAN = functools.partial(float_test, op.IS_NAN)
_BINARY = {
    "add": op.ADD, "subtract": op.SUB, "multiply": op.MUL, "divide": op.DIV,
    "floor_divide": op.FLOORDIV, "remainder": op.MOD, "maximum": op.MAX, "minimum": op.MIN,
    "left_shift": op.SHIFT_LEFT, "right_shift": op.SHIFT_RIGHT,
}  # fmt: skip
_COMPARE = {"less": op.LT, "less_equal": op.LE, "equal": op.EQ, "not_equal": op.NE}
_LOGICAL = {"logical_and": op.AND, "logical_or": op.OR, "logical_not": op.NOT,
            "logical_xor": op.NE}  # fmt: skip

UFUNCS: dict[str, Function] = {
    "negative": functools.partial(unary, op.NEG),
    "positive": positive,
    "absolute": functools.partial(unary, op.ABS),
    "fabs": lambda x: unary(op.ABS, convert_to_float(x)),
    "invert": invert,
    "power": power,
    "float_power": lambda x, y: power(convert(x, F64), convert(y, F64)),
    "square": lambda x: power(x, 2),
    "reciprocal": _reciprocal,
    "sign": _sign,
    "hypot": lambda x, y: maths.sqrt(binary(op.ADD, power(x, 2), power(y, 2))),
    "log2": lambda x: binary(op.DIV, maths.log(x), math.log(2.0)),
    "log10": lambda x: binary(op.DIV, maths.log(x), math.log(10.0)),
    "exp2": lambda x: power(2.0, convert_to_float(x)),
    "logaddexp": _logaddexp,
    "heaviside": _heaviside,
    "fmax": _one_of(_NAN, functools.partial(binary, op.MAX)),
    "fmin": _one_of(_NAN, functools.partial(binary, op.MIN)),
    "deg2rad": _scaled(math.pi / 180.0), "radians": _scaled(math.pi / 180.0),
    "rad2deg": _scaled(180.0 / math.pi), "degrees": _scaled(180.0 / math.pi),
    "isinf": _isinf,
    "divmod": lambda x, y: (binary(op.FLOORDIV, x, y), binary(op.MOD, x, y)),
    "greater": lambda x, y: compare(op.LT, y, x),
    "greater_equal": lambda x, y: compare(op.LE, y, x),
    "bitwise_and": functools.partial(bitwise, op.AND, op.BIT_AND),
    "bitwise_or": functools.partial(bitwise, op.OR, op.BIT_OR),
    "bitwise_xor": functools.partial(bitwise, op.NE, op.BIT_XOR),
    "matmul": matmul,
    **{name: functools.partial(binary, row) for name, row in _BINARY.items()},
    **{name: functools.partial(compare, row) for name, row in _COMPARE.items()},
    **{name: functools.partial(logical, row) for name, row in _LOGICAL.items()},
    **{name: getattr(maths, name) for name in maths.__all__
       if isinstance(getattr(np, name, None), np.ufunc)},
}  # fmt: skip
_REDUCED = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all",
    "logical_or": "any",
}  # fmt: skip
_ACCUMULATED: dict[str, Function] = {"add": cumsum, "multiply": cumprod}


def _outer(function: Function) -> Function:
    """`np.subtract.outer(x, y)`: every element of x with every element of y."""

    def call(x: Any, y: Any) -> Any:
        if is_whole(x) and is_whole(y):
            for _ in range(as_table(y).ndim):
                x = expand_dims(x, -1)
        return function(x, y)

    return call


def _method(name: str, method: str) -> Function | None:
    """What stands for `np.<name>` or `np.<name>.<method>`; None if nothing does."""
    function = UFUNCS.get(name)
    if function is None or method == "__call__":
        return function
    if method == "reduce" and name in _REDUCED:
        of_axes = reduction(_REDUCED[name])
        return lambda x, axis=0, keepdims=False: of_axes(x, axis=axis, keepdims=keepdims)
    if method == "accumulate" and name in _ACCUMULATED:
        along = _ACCUMULATED[name]
        return lambda x, axis=0: along(x, axis=axis)
    return _outer(function) if method == "outer" else None


def ufunc(
    numpys: object, method: str, args: Sequence[object], kwargs: Mapping[str, object]
) -> object:
    """A universal function of numpy on symbols; KernelTypeError if kernels do not have it."""
    assert isinstance(numpys, np.ufunc)
    name = numpys.__name__
    spelled = f"np.{name}" if method == "__call__" else f"np.{name}.{method}"
    function = _method(name, method)
    if function is None:
        raise KernelTypeError(
            f"kernels have no `{spelled}`.",
            at=here(),
            fix="Write it with the functions of `pe`, element by element: "
            "`pe.table(lambda i: ...)`.",
        )
    options = {key: value for key, value in kwargs.items() if value is not None}
    if (options and method == "__call__") or "out" in options:
        raise KernelTypeError(
            f"`{spelled}` is given `{next(iter(options))}=`, which kernels do not have.",
            at=here(),
            fix="Assign the result: `y = np.exp(x)`; for `where=` use `np.where`, for `dtype=` "
            "`.astype`.",
        )
    return function(*args, **options)
