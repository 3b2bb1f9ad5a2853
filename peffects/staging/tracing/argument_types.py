"""Types of arguments: what a program depends on of an argument, in place of its value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVarTuple, cast

import numpy as np
from numpy.typing import NDArray

from peffects.errors import KernelTypeError
from peffects.source import caller
from peffects.staging.tracing.promotion import dtype_name, number_type, scalar_of

__all__ = [
    "ArgumentType",
    "Array",
    "ArrayType",
    "ScalarType",
    "abstract",
    "as_array",
    "type_of",
]

_Axes = TypeVarTuple("_Axes")


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array: numpy's name of its dtype, and the number of axes.  Sizes do not matter."""

    dtype: str
    ndim: int

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(':' * self.ndim)}]"


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A number; `weak` for Python's own, which take the type of what they meet."""

    dtype: str
    weak: bool = False

    def __str__(self) -> str:
        if self.weak:
            return "float" if self.dtype == "float64" else "int"
        return self.dtype


ArgumentType: TypeAlias = ArrayType | ScalarType


class Array(Generic[*_Axes]):
    """The type of an array argument: `Array[n, m, float]` has two axes and holds doubles.

    The last item is `float`, `int`, `bool` or a dtype of numpy.  Those before it, one for each
    axis, are names for readers (strings, type variables, numbers): compiled code takes any size.
    Raises KernelTypeError for what is no type of elements.
    """

    def __class_getitem__(cls, items: Any) -> Any:
        """The type with these axes and elements."""
        *axes, elem = items if isinstance(items, tuple) else (items,)
        name = _element_name(elem)
        if elem is None or name is None:  # numpy would take None for float64
            raise KernelTypeError(
                f"`Array[...]` ends in {elem!r}, which is no type of a kernel's numbers.",
                at=caller(),
                fix="Write one item for each axis and then the type: `pe.Array[n, m, float]`.",
            )
        return ArrayType(name, len(axes)) if axes else ScalarType(name)


def _element_name(elem: Any) -> str | None:
    """The name of the dtype of a kernel's numbers, real or complex; None if it is none."""
    scalar = scalar_of(elem)
    if scalar is not None:
        return scalar.dtype
    try:
        dtype = np.dtype(elem)
    except TypeError:
        return None
    return dtype.name if dtype.kind == "c" and dtype.itemsize <= 16 else None


def abstract(value: object) -> object:
    """The type that a type or a value stands for; what is neither number nor array stays."""
    if isinstance(value, type):
        weak = value in (float, int, complex)
        known = value in (float, int, bool, complex) or issubclass(value, np.generic)
        name = _element_name(value) if known else None
        return value if name is None else ScalarType(name, weak)
    kind = type_of(value)
    if kind is None and hasattr(value, "shape") and hasattr(value, "dtype"):
        dtype, ndim = dtype_name(np.dtype(value.dtype)), len(value.shape)
        return ArrayType(dtype, ndim) if ndim else ScalarType(dtype)
    return value if kind is None else kind


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
    if isinstance(getattr(value, "__array_interface__", None), dict):
        return np.asarray(value)
    kind = type(value)  # an instance may answer to any name
    if hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__"):
        return _from_dlpack(cast(Any, value))
    return None


def _from_dlpack(value: Any) -> NDArray[np.generic]:
    """The array that another library exports; raises KernelTypeError if this process has it not."""
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise KernelTypeError(
            f"numpy cannot read an array of the class {type(value).__name__}: {error}",
            at=caller(),
            fix="Kernels take arrays in the memory of this computer, without gradients to record: "
            "copy it there first.",
        ) from error


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
