"""Types of arguments: what a program depends on of an argument, in place of its value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from peffects.errors import KernelTypeError
from peffects.source import caller
from peffects.staging.promotion import dtype_name, number_type

__all__ = ["ArgumentType", "ArrayType", "ScalarType", "as_array", "type_of"]


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array: numpy's name of its dtype, and the number of axes.  Sizes do not matter."""

    dtype: str
    ndim: int


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A number; `weak` for Python's own, which take the type of what they meet."""

    dtype: str
    weak: bool = False


ArgumentType: TypeAlias = ArrayType | ScalarType


def as_array(value: object) -> NDArray[np.generic] | None:
    """`value` as a numpy array, sharing its memory; None if it is no array.

    Raises KernelTypeError for a masked array.
    """
    if isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            raise KernelTypeError(
                "a kernel is given a masked array, whose mask it would ignore.",
                at=caller(),
                fix="Pass `x.filled(value)`, or `x.data` and `x.mask` as two arrays.",
            )
        return value
    if isinstance(value, np.generic | type):
        return None
    if hasattr(value, "__array_interface__"):
        return np.asarray(value)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return np.from_dlpack(value)
    return None


def type_of(value: object) -> ArgumentType | None:
    """The type of an array or a number, or of a type itself; None for any other value."""
    if type(value) is np.ndarray and value.ndim:
        return ArrayType(dtype_name(value.dtype), value.ndim)
    if isinstance(value, ArrayType | ScalarType):
        return value
    known = number_type(value)
    if known is not None:
        return ScalarType(known[0].dtype, known[1])
    array = as_array(value)
    if array is None:
        return ScalarType(dtype_name(value.dtype)) if isinstance(value, np.generic) else None
    if array.ndim == 0:
        return ScalarType(dtype_name(array.dtype))
    return ArrayType(dtype_name(array.dtype), array.ndim)
