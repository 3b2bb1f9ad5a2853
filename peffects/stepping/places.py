"""Indices of a kernel that runs as plain Python, as places in arrays; loops over pairs.

What staging knows of an axis from its label is known here of accumulators, packed tables and what a
loop gave.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from peffects.errors import BoundsError, IndexSetError, UnknownIndexSetError
from peffects.parallel.index_sets.dependent import Pairs, Range
from peffects.parallel.index_sets.index_set import Fin, Idx, IndexSet, Product
from peffects.parallel.index_sets.packed import Packed
from peffects.parallel.index_sets.structures import Elements, as_index_set
from peffects.staging.tracing.trace import here
from peffects.stepping.values import Accumulator, Index, PastEnd, Row, Set

__all__ = [
    "as_index",
    "items_of",
    "packed_element",
    "packed_rows",
    "pairs_in",
    "pairs_of",
    "structure_of",
]


def items_of(owner: Any, key: Any) -> list[Any]:
    """The items of a subscript, one for each axis."""
    pairs = owner.pairs if isinstance(owner, Accumulator) else None
    items = [part for item in (key if isinstance(key, tuple) else (key,)) for part in _parts(item)]
    if pairs is not None and len(items) > 1:
        _learn_row(pairs, items)
        return [_place(pairs, items[0], items[1]), *items[2:]]
    for place, axis in enumerate(getattr(owner, "axes", ())[: len(items)]):
        if isinstance(axis, Elements) and isinstance(items[place], str):
            items[place] = int(axis.ordinal(items[place]))
    return items


def _parts(item: Any) -> list[Any]:
    if isinstance(item, tuple):
        return [part for inner in item for part in _parts(inner)]
    if isinstance(item, enum.Enum):
        return [int(as_index_set(type(item)).ordinal(item))]
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        return [
            part for field in dataclasses.fields(item) for part in _parts(getattr(item, field.name))
        ]
    if isinstance(item, Idx) and isinstance(item._index_set, Product):
        return list(item)
    return [item]


def _place(pairs: Pairs, i: Any, j: Any) -> int:
    """The place of a pair; BoundsError, as in a kernel, if it is none."""
    try:
        return int(pairs.ordinal((i, j)))
    except IndexSetError as error:
        raise BoundsError(error.what, at=here(), fix="Give a pair of the index set.") from None


def packed_element(table: Packed, key: Any) -> Any:
    """`table[i, j]` or `table[i]`; an open index learns what it runs over."""
    items = key if isinstance(key, tuple) else (key,)
    _learn_row(table.index_set, items)
    try:
        return table[tuple(map(_number, items)) if len(items) > 1 else _number(key)]
    except IndexSetError as error:
        raise BoundsError(error.what, at=here(), fix="Give a pair of the index set.") from None


def _learn_row(pairs: Pairs, items: Sequence[Any]) -> None:
    """What open indices of a packed table run over."""
    if isinstance(items[0], Index):
        _settle(items[0], pairs.outer, "the rows of a packed table")
    if len(items) > 1 and isinstance(items[1], Index) and items[1].set.size is None:
        row = pairs.row(int(items[0]))
        if row.first != row.base.first:
            raise UnknownIndexSetError(
                "an index that nothing gave a set runs over a row of a packed table that does not "
                "begin with the first index.",
                at=here(),
                fix="When debugging, give it: `over=t.index_set.row(i)`.",
            )
        _settle(items[1], row, "a row of a packed table")


def _number(item: Any) -> Any:
    """An index as the number that it is in the whole set; one of pairs as it is."""
    is_pair = isinstance(item, Idx) and isinstance(item._index_set, Pairs)
    return int(item) if isinstance(item, int) and not is_pair else item


def _settle(index: Index, index_set: IndexSet[Any], origin: str) -> None:
    if index.set.size is None:
        index.set.size, index.set.origin = len(index_set), origin
        index.set.structure = None if isinstance(index_set, Fin) else index_set
        if index >= len(index_set):
            raise PastEnd(index.set)


def structure_of(owner: Any, axis: int) -> IndexSet[Any] | None:
    """What an open index that is used on an axis of `owner` runs over, if that is a range."""
    over = owner.over if isinstance(owner, Row) and axis == 0 else None
    return over if over is not None and over.first == over.base.first else None


def as_index(value: Any) -> Any:
    """An index of an index set as one of a kernel; anything else as it is."""
    if isinstance(value, Idx) and not isinstance(value, Index) and value._index_set is not None:
        return Index(int(value), Set.of(value._index_set))
    return value


def pairs_of(over: Any) -> Pairs | None:
    """The set of pairs that a loop runs over, if it does."""
    if isinstance(over, tuple) and len(over) == 1:
        return pairs_of(over[0])
    return over if isinstance(over, Pairs) else None


def pairs_in(pairs: Pairs) -> Iterator[tuple[Index, Index]]:
    """All pairs, row after row."""
    for i in map(as_index, pairs.outer):
        for j in pairs.row(i):
            yield i, as_index(j)


def packed_rows(rows: list[Any]) -> Packed | None:
    """The packed table of rows over ranges of one set of pairs; None of other rows."""
    if not rows or not all(isinstance(row, Row) and isinstance(row.over, Range) for row in rows):
        return None
    pairs: Pairs = rows[0].over.pairs
    return Packed(pairs, np.concatenate([np.asarray(row) for row in rows]))
