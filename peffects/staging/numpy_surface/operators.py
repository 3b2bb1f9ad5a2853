"""What whole tables do, for the symbols that lie below."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from peffects.staging.arrays import slices, whole_tables
from peffects.staging.arrays.complex_tables import of_dtype, rule_for
from peffects.staging.numpy_surface import functions as numpy_functions
from peffects.staging.numpy_surface import ufuncs as numpy_ufuncs
from peffects.staging.structures.accumulators import as_table

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
        rule = rule_for(function, args)
        if rule is not None:
            return rule(self.call, function, args, kwargs)
        if function is np.matmul:
            return self.ufunc(function, "__call__", args, kwargs)
        return numpy_functions.call(function, args, kwargs)

    def convert(self, value: object, dtype: object) -> object:
        """The elements of a table as numbers of another type."""
        return of_dtype(value, dtype)

    def ufunc(
        self, function: object, method: str, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> object:
        """A universal function of numpy, or a method such as `np.add.reduce`, on symbols."""
        if function is np.matmul and (rule := rule_for(np.matmul, args)) is not None:
            return rule(self.call, np.matmul, args, kwargs)
        return numpy_ufuncs.ufunc(function, method, args, kwargs)
