"""Tables of records in a kernel that runs as plain Python: a structure of arrays, read by element.

The counterpart of `RecordTable` in `staging/structures/trees.py`.  Complex numbers need none: numpy
has them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from peffects.errors import KernelTypeError
from peffects.ir.syntax import F64
from peffects.parallel.index_sets.packed import Packed
from peffects.staging.structures.records import is_record_of_tables
from peffects.staging.structures.tabular import items_of
from peffects.staging.structures.trees import (
    Composite,
    Leaf,
    Node,
    TreeDef,
    field_names,
    flatten,
    leaf_count,
    unflatten,
)
from peffects.staging.tracing.trace import here
from peffects.stepping.values import Accumulator, Int

__all__ = ["RecordSums", "Records", "as_records", "records_of", "without_records"]


class Records(Composite):
    """A table of records: `t[i]` is a record, `t.x` the array of a field."""

    def __init__(self, structure: Node, ndim: int, leaves: Sequence[Any]) -> None:
        self.structure = structure
        self.ndim = ndim
        self.leaves = tuple(leaves)

    @property
    def first(self) -> Any:
        """The array of the first leaf that is one: all have its first axes."""
        return next(leaf for leaf in self.leaves if isinstance(leaf, np.ndarray))

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return tuple(self.first.shape[: self.ndim])

    def take_apart(self) -> tuple[tuple[object, ...], tuple[object, ...]]:
        """Its structure, and the arrays of its leaves."""
        return (self.structure, self.ndim), self.leaves

    @classmethod
    def put_together(cls, keys: tuple[Any, ...], leaves: Sequence[object]) -> object:
        """A table again; of numbers, one record."""
        structure, ndim = keys
        if any(isinstance(leaf, np.ndarray) for leaf in leaves):
            return records_of(structure, ndim, leaves)
        return unflatten(structure, leaves)

    def at(self, place: tuple[Any, ...]) -> object:
        """The record at a tested place, or the table of the remaining axes."""
        leaves = [leaf[place] if isinstance(leaf, np.ndarray) else leaf for leaf in self.leaves]
        return records_of(self.structure, self.ndim - len(place), leaves)

    def field(self, key: object) -> object:
        """The table of a field."""
        place = 0
        for name, child in zip(field_names(self.structure), self.structure.children, strict=True):
            count = leaf_count(child)
            if name == key:
                return records_of(child, self.ndim, self.leaves[place : place + count])
            place += count
        raise AttributeError(f"a table of records has no field {key!r}")

    def __getitem__(self, key: str) -> object:
        return self.field(key)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.field(name)

    def __iter__(self) -> Iterator[object]:
        return iter([self.field(name) for name in field_names(self.structure)])

    def __len__(self) -> int:
        return self.shape[0]


def records_of(structure: TreeDef, ndim: int, leaves: Sequence[Any]) -> Any:
    """The table over `ndim` axes of values of `structure`; without axes, the value itself."""
    if isinstance(structure, Leaf) or structure.kind is complex or ndim == 0:
        return unflatten(structure, leaves)
    if structure.kind is Records:
        inner, more = structure.keys
        return records_of(inner, ndim + more, leaves)  # type: ignore[arg-type,operator]
    if any(isinstance(leaf, Packed) for leaf in leaves) or not leaves:
        return unflatten(structure, leaves)
    return Records(structure, ndim, leaves)


def as_records(owner: Any, key: object) -> Records | None:
    """The table of records that `owner[key]` reads; None if that is Python's own subscript."""
    if isinstance(owner, Records):
        return None if isinstance(key, str) else owner
    items = items_of(key)
    named = isinstance(owner, dict) or (isinstance(owner, tuple) and hasattr(owner, "_fields"))
    computed = named and any(isinstance(item, Int) for item in items)
    missing = isinstance(owner, dict) and isinstance(key, int) and key not in owner
    if not (computed or missing or is_record_of_tables(owner, key)):
        return None
    leaves, structure = flatten(owner)
    assert isinstance(structure, Node), "records are taken apart"
    return Records(structure, len(items), leaves)


def without_records(tree: TreeDef) -> TreeDef:
    """The structure that the caller gets: records of arrays in place of tables of records."""
    if isinstance(tree, Leaf):
        return tree
    if tree.kind is Records:
        return without_records(tree.keys[0])  # type: ignore[arg-type]
    return dataclasses.replace(tree, children=tuple(map(without_records, tree.children)))


class RecordSums(Accumulator):
    """An accumulator of records: one for each leaf that is a number."""

    def __init__(self, structure: Node, parts: Sequence[Accumulator | None]) -> None:
        first = next(part for part in parts if part is not None)
        super().__init__(first.shape, F64, first.monoid)
        self.structure = structure
        self.parts = tuple(parts)

    def value(self) -> Any:
        """Its value so far: a table of records, or a record."""
        leaves = [None if part is None else part.value() for part in self.parts]
        return records_of(self.structure, len(self.shape), leaves)

    def put(self, place: tuple[Any, ...], value: Any) -> None:
        """Combine the record at `place` with `value`, leaf by leaf."""
        leaves, tree = flatten(value)
        if without_records(tree) != self.structure:
            raise KernelTypeError(
                f"what is added to {self.name} is no {self.structure.kind.__name__} of the same "
                "structure.",
                at=here(),
                fix="Add a record with the fields that `dtype=` gave.",
            )
        for part, leaf in zip(self.parts, leaves, strict=True):
            if part is not None:
                part.put(place, leaf)

    def field(self, name: str) -> Any:
        """The accumulator of a field that is a number; else what is in the value."""
        for key, child, part in zip(
            field_names(self.structure), self.structure.children, self.parts, strict=False
        ):
            if not isinstance(child, Leaf):
                break
            if key == name:
                return part
        return getattr(self.value(), name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "parts" not in vars(self):
            raise AttributeError(name)
        return self.field(name)
