"""The methods and operators that a whole table has in common with a numpy array.

They are spelled here and done elsewhere: operators work element by element (`scalars/symbols.py`),
methods are the functions of numpy of the same name (`numpy_surface/functions.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from peffects.errors import KernelTypeError
from peffects.ir import primitives as op
from peffects.staging.scalars.symbols import Arithmetic, binary, weak_int
from peffects.staging.tracing.promotion import scalar_of
from peffects.staging.tracing.trace import here, staging

if TYPE_CHECKING:
    from peffects.ir.syntax import Table

__all__ = ["ArrayMethods", "element_type"]

_ADVICE = {
    "sort": "Use `pe.sort`, where there is one; or sort before the kernel.",
    "argsort": "Use `pe.argsort`, where there is one; or sort before the kernel.",
    "item": "An element is a number already: leave `.item()` out.",
    "tolist": "Loop over the table: `for k in range(len(x))`.",
    "fill": "Make a new table: `np.full(shape, value)`.",
    "nonzero": "Its length is not known before: count with `.sum()`, select with `np.where`.",
    "flat": "Use `.ravel()`.",
}


def element_type(dtype: Any) -> Any:
    """The scalar type that `dtype` names; KernelTypeError if kernels have no such type."""
    scalar = scalar_of(dtype)
    if scalar is None:
        raise KernelTypeError(
            f"kernels have no dtype {dtype!r}.",
            at=here(),
            fix="Use a float of 32 or 64 bits, an integer or bool.",
        )
    return scalar


def _function(name: str, numpys: Callable[..., object]) -> Callable[..., Any]:
    """The method that calls a function of numpy with the table before its arguments."""

    def method(self: ArrayMethods, *args: Any, **kwargs: Any) -> Any:
        return staging().inputs.arrays.call(numpys, (self, *args), kwargs)

    method.__name__ = name
    method.__doc__ = f"`np.{name}` of the table."
    return method


class ArrayMethods(Arithmetic):
    """What a whole table does as numpy's arrays do it."""

    type: Any  # of a table, a `Table`

    @property
    def T(self) -> Any:
        """The table with its axes in reverse order."""
        return self.transpose()

    def transpose(self, *axes: Any) -> Any:
        """The table with its axes in another order; by default reversed."""
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], tuple | list) else axes or None
        return staging().inputs.arrays.call(np.transpose, (self, order), {})

    def reshape(self, *shape: Any) -> Any:
        """The same elements in the same order with other axes."""
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        return staging().inputs.arrays.call(np.reshape, (self, sizes), {})

    @property
    def size(self) -> Any:
        """The number of elements, as an int."""
        sizes = [weak_int(dim.size) for dim in self._dims]
        count = sizes[0]
        for size in sizes[1:]:
            count = binary(op.MUL, count, size)
        return count

    @property
    def _dims(self) -> Any:
        held: Table = self.type
        return held.dims

    def astype(self, dtype: Any) -> Any:
        """The table with its elements converted; floats that become integers are tested."""
        return staging().inputs.arrays.convert(self, dtype)

    @property
    def real(self) -> Any:
        """The table itself: its numbers are real."""
        return self

    @property
    def imag(self) -> Any:
        """Zeros."""
        return staging().inputs.arrays.call(np.imag, (self,), {})

    def conjugate(self) -> Any:
        """The table itself: its numbers are real."""
        return self

    conj = conjugate

    def copy(self) -> Any:
        """The table itself: nothing changes it."""
        return self

    def flatten(self) -> Any:
        """All elements along one axis."""
        return staging().inputs.arrays.call(np.ravel, (self,), {})

    sum = _function("sum", np.sum)
    prod = _function("prod", np.prod)
    mean = _function("mean", np.mean)
    std = _function("std", np.std)
    var = _function("var", np.var)
    min = _function("min", np.min)
    max = _function("max", np.max)
    argmin = _function("argmin", np.argmin)
    argmax = _function("argmax", np.argmax)
    any = _function("any", np.any)
    all = _function("all", np.all)
    cumsum = _function("cumsum", np.cumsum)
    cumprod = _function("cumprod", np.cumprod)
    dot = _function("dot", np.dot)
    clip = _function("clip", np.clip)
    ravel = _function("ravel", np.ravel)
    squeeze = _function("squeeze", np.squeeze)
    swapaxes = _function("swapaxes", np.swapaxes)
    diagonal = _function("diagonal", np.diagonal)
    trace = _function("trace", np.trace)
    repeat = _function("repeat", np.repeat)
    take = _function("take", np.take)
    round = _function("round", np.round)
    ptp = _function("ptp", np.ptp)

    def __matmul__(self, other: object) -> Any:
        return staging().inputs.arrays.ufunc(np.matmul, "__call__", (self, other), {})

    def __rmatmul__(self, other: object) -> Any:
        return staging().inputs.arrays.ufunc(np.matmul, "__call__", (other, self), {})

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise KernelTypeError(
            f"`.{name}` of {self.what()}: tables in kernels do not have it.",
            at=here(),
            fix=_ADVICE.get(name, "Do it before the kernel, or write it for elements."),
        )
