"""Tables: the values of a parallel `for`, one for each index of an index set.

A table is an immutable sequence in index order; `t[i]` takes an index of its index set, an int in
range, or for a product one position a factor (`t[i, j]`).  Layer 2; made by `pfor.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast, overload

import numpy as np

from peffects.notices import abridged
from peffects.parallel.index_sets.index_set import Fin, Idx, IndexSet

__all__ = ["Table"]

MYPY: Final = False

N = TypeVar("N")
M = TypeVar("M")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Table(Sequence[T_co], Generic[N, T_co]):
    """A value for each index of `index_set`."""

    __slots__ = ("_values", "index_set")

    def __init__(self, index_set: IndexSet[N], values: Sequence[T_co]) -> None:
        self.index_set = index_set
        self._values = list(values)

    @classmethod
    def of(cls, values: Sequence[T]) -> Table[Any, T]:
        """A table over `Fin(len(values))`."""
        return cast("Table[Any, T]", cls(Fin(len(values)), cast(Any, values)))

    if MYPY:

        @overload
        def __getitem__(self, i: Idx[M] | int | tuple[int, ...], /) -> T_co: ...
        @overload
        def __getitem__(self, i: slice, /) -> Sequence[T_co]: ...
        def __getitem__(self, i: Any, /) -> Any: ...
    elif TYPE_CHECKING:

        @overload
        def __getitem__(self, i: Idx[N] | int | tuple[int, ...], /) -> T_co: ...
        @overload
        def __getitem__(self, i: slice, /) -> Sequence[T_co]: ...
        def __getitem__(self, i: Any, /) -> Any: ...
    else:

        def __getitem__(self, i, /):
            if isinstance(i, slice):
                return self._values[i]
            return self._values[self.index_set.ordinal(i)]

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[T_co]:
        return iter(self._values)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Table):
            return self.index_set == other.index_set and self._values == other._values
        if isinstance(other, list | tuple):
            return self._values == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def numpy(self) -> np.ndarray[Any, np.dtype[Any]]:
        """The values as an array, with one axis for each factor of the index set."""
        array = np.asarray(self._values)
        return array.reshape(self.index_set.shape + array.shape[1:])

    def __repr__(self) -> str:
        return f"Table({self.index_set!r}, {abridged(self._values)})"
