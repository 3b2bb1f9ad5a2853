"""numpy's universal functions on symbols: of numbers a number, of tables element by element.

The functions of `scalars/maths.py` that numpy has under the same name are found by it; the table
below has the operators and what numpy calls otherwise.  A test walks numpy's functions and finds
each of them there, or among the refused ones.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from peffects.errors import KernelTypeError
from peffects.ir import primitives as op
from peffects.ir.syntax import SCALARS
from peffects.staging.numpy_surface.array_likes import with_tables
from peffects.staging.numpy_surface.products import matmul
from peffects.staging.numpy_surface.reductions import cumprod, cumsum, reduction
from peffects.staging.numpy_surface.shapes import expand_dims
from peffects.staging.scalars import elementary, maths
from peffects.staging.scalars.symbols import (
    binary,
    bitwise,
    compare,
    conjugate,
    convert,
    invert,
    is_whole,
    logical,
    positive,
    power,
    unary,
)
from peffects.staging.structures.accumulators import as_table
from peffects.staging.structures.trees import columns_of
from peffects.staging.tracing.trace import here

__all__ = ["ufunc"]

Function: TypeAlias = Callable[..., Any]


def _frexp(x: Any) -> tuple[Any, Any]:
    mantissa, exponent = columns_of(elementary.frexp(x))
    return mantissa, convert(exponent, SCALARS["int32"])


_BINARY = {
    "add": op.ADD, "subtract": op.SUB, "multiply": op.MUL, "divide": op.DIV,
    "floor_divide": op.FLOORDIV, "remainder": op.MOD, "maximum": op.MAX, "minimum": op.MIN,
    "left_shift": op.SHIFT_LEFT, "right_shift": op.SHIFT_RIGHT,
}  # fmt: skip
_COMPARE = {"less": op.LT, "less_equal": op.LE, "equal": op.EQ, "not_equal": op.NE}
_LOGICAL = {"logical_and": op.AND, "logical_or": op.OR, "logical_not": op.NOT,
            "logical_xor": op.NE}  # fmt: skip

_ROUNDING = {"floor": op.FLOOR, "ceil": op.CEIL, "trunc": op.TRUNC, "rint": op.RINT}

UFUNCS: dict[str, Function] = {
    **{name: getattr(maths, name) for name in maths.__all__
       if isinstance(getattr(np, name, None), np.ufunc)},
    "negative": functools.partial(unary, op.NEG),
    "positive": positive,
    "conjugate": conjugate,
    "absolute": functools.partial(unary, op.ABS),
    "fabs": elementary.fabs,
    "invert": invert,
    "power": power,
    "float_power": elementary.float_power,
    "square": lambda x: power(x, 2),
    "reciprocal": elementary.reciprocal,
    "frexp": _frexp,
    "logaddexp2": elementary.logaddexp2,
    "deg2rad": maths.radians,
    "rad2deg": maths.degrees,
    "bitwise_count": lambda x: convert(elementary.bit_count(x), SCALARS["uint8"]),
    "divmod": lambda x, y: (binary(op.FLOORDIV, x, y), binary(op.MOD, x, y)),
    "greater": lambda x, y: compare(op.LT, y, x),
    "greater_equal": lambda x, y: compare(op.LE, y, x),
    "bitwise_and": functools.partial(bitwise, op.AND, op.BIT_AND),
    "bitwise_or": functools.partial(bitwise, op.OR, op.BIT_OR),
    "bitwise_xor": functools.partial(bitwise, op.NE, op.BIT_XOR),
    "matmul": matmul,
    **{name: functools.partial(elementary.rounding, row) for name, row in _ROUNDING.items()},
    **{name: functools.partial(binary, row) for name, row in _BINARY.items()},
    **{name: functools.partial(compare, row) for name, row in _COMPARE.items()},
    **{name: functools.partial(logical, row) for name, row in _LOGICAL.items()},
}  # fmt: skip
_SUMS_OF_PRODUCTS = ("use `@`", "`np.matmul(a, b)`, or `pe.sum(lambda k: a[i, k] * b[k, j])`.")
REFUSED: dict[str, tuple[str, str]] = {
    "isnat": ("they have no dates", "Convert dates to numbers before the kernel."),
    "matvec": _SUMS_OF_PRODUCTS,
    "vecmat": _SUMS_OF_PRODUCTS,
    "vecdot": _SUMS_OF_PRODUCTS,
}
"""Universal functions that kernels do not have: why, and what to write."""
OF_OTHERS = {"gammaln": "lgamma", "loggamma": "lgamma", "psi": "digamma"}
"""What universal functions of scipy are called here, where the name differs."""
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


def _spelled(function: np.ufunc) -> str:
    """What users call a universal function that is not numpy's: `scipy.special.expit`."""
    name = function.__name__
    homes = [
        module
        for module, contents in list(sys.modules.items())
        if not any(part.startswith("_") for part in module.split("."))
        and vars(contents).get(name) is function
    ]
    return f"{min(homes, key=len)}.{name}" if homes else name


def ufunc(
    numpys: object, method: str, args: Sequence[object], kwargs: Mapping[str, object]
) -> object:
    """A universal function of numpy on symbols; KernelTypeError if kernels do not have it."""
    assert isinstance(numpys, np.ufunc)
    name = numpys.__name__
    is_numpys = getattr(np, name, None) is numpys
    spelled = f"np.{name}" if is_numpys else _spelled(numpys)
    if method != "__call__":
        spelled += f".{method}"
    function = _method(name, method) if is_numpys else None
    if is_numpys and name in REFUSED:
        why, fix = REFUSED[name]
        raise KernelTypeError(f"kernels have no `{spelled}`: {why}.", at=here(), fix=fix)
    if function is None:
        ours = None if is_numpys else OF_OTHERS.get(name, name if name in maths.__all__ else None)
        raise KernelTypeError(
            f"kernels have no `{spelled}`.",
            at=here(),
            fix=f"Write `pe.{ours}`."
            if ours is not None
            else "Write it with the functions of `pe`, element by element: "
            "`pe.table(lambda i: ...)`.",
        )
    args, kwargs = with_tables(numpys, tuple(args), dict(kwargs))
    options = {k: value for k, value in kwargs.items() if value is not None or k == "axis"}
    if (options and method == "__call__") or "out" in options:
        raise KernelTypeError(
            f"`{spelled}` is given `{next(iter(options))}=`, which kernels do not have.",
            at=here(),
            fix="Assign the result: `y = np.exp(x)`; for `where=` use `np.where`, for `dtype=` "
            "`.astype`.",
        )
    return function(*args, **options)
