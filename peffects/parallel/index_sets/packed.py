"""Tables over sets of pairs: triangles and ragged rows, their elements in one array.

`Packed` is an argument and a result of kernels.  Layer 2; see `dependent.py` for the index sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from peffects.errors import IndexSetError
from peffects.parallel.index_sets.dependent import Pairs, Ragged, Triangle
from peffects.parallel.index_sets.index_set import Idx, symbols_for
from peffects.source import caller

__all__ = ["Packed", "pack", "ragged"]


class Packed(NDArrayOperatorsMixin):
    """A table over a set of pairs (i, j): `t[i, j]`, or `t[i]`, a row.

    `packed` is one array with the elements, row after row; axes after the first belong to the
    elements.  `index_set` is the set of pairs.  Arithmetic and numpy's functions work element by
    element, with numbers and with packed tables over the same set.  Raises IndexSetError if the
    parts do not fit; in a kernel IndexSetMismatchError, when it runs.
    """

    __slots__ = ("index_set", "packed")
    fields: ClassVar[tuple[str, ...]] = ("index_set", "packed")
    static_fields: ClassVar[tuple[str, ...]] = ()
    is_tree: ClassVar[bool] = True

    def __init__(self, index_set: Pairs, packed: Any) -> None:
        if not isinstance(index_set, Pairs):
            raise IndexSetError(
                f"a packed table is over a set of pairs, and was given {index_set!r}.",
                at=caller(),
                fix="Use `Upto(n)`, `Below(n)`, `From(n)`, `Above(n)` or `Ragged(lengths)`.",
            )
        symbols = symbols_for(packed, index_set)
        if symbols is None:
            packed = np.asarray(packed)
            if packed.ndim < 1 or len(packed) != len(index_set):
                raise IndexSetError(
                    f"{index_set!r} has {len(index_set)} pairs, and the array has the shape "
                    f"{packed.shape}.",
                    at=caller(),
                    fix="Give one element for each pair, row after row.",
                )
        self.index_set, self.packed = index_set, packed
        if symbols is not None:
            symbols.test_packed(self)

    def __getitem__(self, key: Any) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        symbols = symbols_for(self.packed, *items)
        if symbols is not None:
            return symbols.element(self, items)
        pairs = self.index_set
        if isinstance(key, Idx) and key.index_set == pairs:
            return self.packed[int(key)]
        start = pairs.start_at(pairs.outer.ordinal(items[0]))
        row = pairs.row(items[0])
        if len(items) == 1:
            return self.packed[start : start + row.size]
        return self.packed[(start + row.ordinal(items[1]), *items[2:])]

    def __len__(self) -> int:
        return len(self.index_set.outer)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in self.index_set.outer)

    @property
    def index(self) -> Any:
        """What the first index runs over."""
        return self.index_set.outer

    @property
    def size(self) -> Any:
        """How many pairs there are."""
        return self.index_set.size

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self.packed.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        """The number of pairs, and the axes of an element."""
        return tuple(self.packed.shape)

    def to_dense(self, fill: Any = 0) -> np.ndarray[Any, Any]:
        """A square array for a triangle, one as wide as the longest row for ragged rows.

        What no pair stands for is `fill`.
        """
        rows = [self.index_set.row(i) for i in self.index_set.outer]
        width = len(rows) if isinstance(self.index_set, Triangle) else 0
        width = width or max((len(row) for row in rows), default=0)
        shape = (len(rows), width, *self.packed.shape[1:])
        dense = np.full(shape, fill, np.result_type(self.packed.dtype, type(fill)))
        dense = dense.astype(self.packed.dtype) if fill == 0 else dense
        for place, row in enumerate(rows):
            first = row.first if isinstance(self.index_set, Triangle) else 0
            dense[place, first : first + len(row)] = self[row.at_index]
        return dense

    def mapped(self, function: Callable[..., Any], args: Sequence[Any]) -> Packed:
        """`function` of the elements of `args`, of which this table is one.

        Raises IndexSetError if one of them is over another set.
        """
        for other in args:
            if isinstance(other, Packed) and not self._has_set(other.index_set):
                raise IndexSetError(
                    f"packed tables over {self.index_set!r} and {other.index_set!r} are combined.",
                    at=caller(),
                    fix="Combine tables over one set of pairs.",
                )
        values = [arg.packed if isinstance(arg, Packed) else arg for arg in args]
        return Packed(self.index_set, function(*values))

    def _has_set(self, other: Pairs) -> bool:
        symbols = symbols_for(self.index_set, other)
        if symbols is not None:
            return symbols.are_same(self.index_set, other)
        return self.index_set == other

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """A function of numpy on the elements."""
        arrays = [x for x in inputs if isinstance(x, np.ndarray) and x.ndim]
        if method != "__call__" or kwargs or arrays:
            return NotImplemented
        return self.mapped(ufunc, inputs)

    def __eq__(self, other: object) -> bool:
        """Whether both are over the same set and have the same elements."""
        if not isinstance(other, Packed):
            return NotImplemented
        return self.index_set == other.index_set and np.array_equal(self.packed, other.packed)

    def __ne__(self, other: object) -> bool:
        """Whether they differ."""
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Packed({self.index_set!r}, {self.packed!r})"


def pack(index_set: Pairs, dense: Any) -> Packed:
    """The elements of a dense array that belong to pairs of `index_set`, as a packed table."""
    array = np.asarray(dense)
    rows = [index_set.row(i) for i in index_set.outer]
    if array.ndim < 2 or len(array) != len(rows):
        raise IndexSetError(
            f"an array of shape {array.shape} has not one row for each of the {len(rows)} rows of "
            f"{index_set!r}.",
            at=caller(),
            fix="Give a matrix with as many rows.",
        )
    parts = [array[p, row.first : row.first + len(row)] for p, row in enumerate(rows)]
    if any(len(part) != len(row) for part, row in zip(parts, rows, strict=True)):
        raise IndexSetError(
            f"the rows of an array of shape {array.shape} are too short for {index_set!r}.",
            at=caller(),
            fix="Give a matrix with as many columns as there are indices.",
        )
    empty = np.zeros((0, *array.shape[2:]), array.dtype)
    return Packed(index_set, np.concatenate([empty, *parts]))


def ragged(rows: Sequence[Any]) -> Packed:
    """Rows of any lengths, sequences or arrays, as one packed table."""
    arrays = [np.asarray(row) for row in rows]
    packed = np.concatenate(arrays) if arrays else np.zeros(0)
    return Packed(Ragged([len(array) for array in arrays]), packed)
