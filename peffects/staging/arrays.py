"""What whole tables do, for the symbols that lie below."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from peffects.staging import numpy_functions, numpy_ufuncs, slices, whole_tables
from peffects.staging.accumulators import as_table
from peffects.staging.complex_numbers import OF_PARTS, ComplexTable, complex_of
from peffects.staging.records import as_tabular

__all__ = ["NumpyArrays"]


class NumpyArrays:
    """Whole tables behave as numpy's arrays do."""

    def pointwise(self, function: Callable[..., object], args: Sequence[object]) -> object:
        """The table of `function` of the elements of the tables among `args`."""
        return whole_tables.pointwise(function, args)

    def subscript(self, table: object, items: tuple[object, ...]) -> object:
        """`table[items]` with slices, `None`, `...` or tables among the items."""
        return slices.subscript(as_table(table), items, whole_tables.aligned)

    def call(
        self,
        function: Callable[..., object],
        args: Sequence[object],
        kwargs: Mapping[str, object],
    ) -> object:
        """A function of numpy on symbols."""
        table = as_tabular(args[0]) if args else None
        if isinstance(table, ComplexTable) and function in OF_PARTS:
            parts = ((table.real, *args[1:]), (table.imag, *args[1:]))
            return complex_of(*(numpy_functions.call(function, part, kwargs) for part in parts))
        return numpy_functions.call(function, args, kwargs)

    def ufunc(
        self, function: object, method: str, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> object:
        """A universal function of numpy, or a method such as `np.add.reduce`, on symbols."""
        return numpy_ufuncs.ufunc(function, method, args, kwargs)
