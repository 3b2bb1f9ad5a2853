"""The scalar types of Python and numpy values, and numpy's promotion rules for them.

Python's own numbers are *weak* (NEP 50): `x[i] * 2.0` has the type of `x[i]` if that is a float.
"""

from __future__ import annotations

import functools

import numpy as np

from peffects.ir.syntax import BOOL, F32, F64, I64, SCALARS, Scalar

__all__ = ["dtype_name", "function_type", "join", "number_type", "scalar_of", "true_division_type"]


@functools.lru_cache(maxsize=256)  # there is no end of structured dtypes
def dtype_name(dtype: np.dtype[np.generic]) -> str:
    """The name of a dtype, which numpy itself puts together anew each time."""
    return dtype.name


def scalar_of(dtype: object) -> Scalar | None:
    """The scalar type of a dtype (or `float`, `int`, `bool`); None if kernels have no such type."""
    try:
        return SCALARS.get(np.dtype(dtype).name)  # type: ignore[call-overload]
    except TypeError:
        return None


def number_type(value: object) -> tuple[Scalar, bool] | None:
    """The type of a number and whether it is weak; None if `value` is no number kernels know."""
    if isinstance(value, np.generic):
        scalar = SCALARS.get(dtype_name(value.dtype))
        return None if scalar is None else (scalar, False)
    if isinstance(value, bool):
        return BOOL, False
    if isinstance(value, int):
        return I64, True
    return (F64, True) if isinstance(value, float) else None


def _rank(scalar: Scalar) -> int:
    return 2 if scalar.is_float else 1 if scalar.is_integer else 0


def join(left: Scalar, left_weak: bool, right: Scalar, right_weak: bool) -> tuple[Scalar, bool]:
    """The type in which two numbers meet, and whether it is weak."""
    if left == right:
        return left, left_weak and right_weak
    if left_weak and right_weak:
        return max(left, right, key=_rank), True
    if left_weak or right_weak:
        weak, strong = (left, right) if left_weak else (right, left)
        if _rank(weak) <= _rank(strong):
            return strong, False
        return (F64 if weak.is_float else I64), strong == BOOL
    return SCALARS[np.result_type(left.dtype, right.dtype).name], False


def true_division_type(scalar: Scalar) -> Scalar:
    """The type of quotients: that of a float, else f64."""
    return scalar if scalar.is_float else F64


def function_type(scalar: Scalar) -> Scalar:
    """The type of functions like `exp`: that of a float; of integers the one that holds them.

    numpy computes with 16 bits for integers of 8, which kernels do not have: they use 32.
    """
    return F32 if scalar.name in ("i8", "u8", "i16", "u16") else true_division_type(scalar)
