"""Loops of a kernel that runs as plain Python: one iteration after the other, in index order.

Where a kernel does not say what a loop runs over, staging learns it from all uses of the index.
Here the first use tells it while the loop runs: until then the loop goes on, and the first use past
the end of its table ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peffects.errors import KernelTypeError, UnknownIndexSetError, ValueRangeError
from peffects.parallel.index_sets.index_set import Fin, IndexSet
from peffects.parallel.index_sets.packed import Packed
from peffects.parallel.index_sets.structures import as_index_set, is_index_set
from peffects.staging.loops.parallel_loops import parameter_names
from peffects.staging.structures.domains import Domain
from peffects.staging.structures.records import is_static
from peffects.staging.structures.trees import TreeDef, flatten, unflatten
from peffects.staging.tracing.trace import here
from peffects.stepping.places import packed_rows
from peffects.stepping.records import as_records, records_of
from peffects.stepping.values import Accumulator, Index, PastEnd, Set, State, copied

__all__ = ["Rows", "as_sets", "domain_of", "iterate", "parts_of", "positions"]

_LONGEST_SEARCH = 100


def as_sets(over: object) -> tuple[Set, ...]:
    """The index sets of the axes that `over=` means."""
    return tuple(axis for part in parts_of(over) for axis in _axes(part))


def parts_of(over: object) -> tuple[Set | IndexSet[Any], ...]:
    """The index sets that `over=` means, of which each may have several axes."""
    if isinstance(over, tuple | list):
        return tuple(part for inner in over for part in parts_of(inner))
    if is_index_set(over) and not isinstance(over, Fin | Set):
        return (as_index_set(over),)
    if isinstance(over, Packed):
        return (Set.of(over.index),)
    return _one(over)


def _axes(part: Set | IndexSet[Any]) -> tuple[Set, ...]:
    return (part,) if isinstance(part, Set) else tuple(map(Set.of, part.axes))


def _one(over: object) -> tuple[Set, ...]:
    """The index set of a size or of a table's first axis."""
    if isinstance(over, Set):
        return (over,)
    if isinstance(over, np.ndarray | Accumulator | State) and over.shape:
        return (Set(over.shape[0], "axis 0 of a table"),)
    records = None if isinstance(over, Fin) else as_records(over, 0)
    if records is not None:
        return (Set(records.shape[0], "axis 0 of a table of records"),)
    size = over.given if isinstance(over, Fin) else over
    if isinstance(size, Set):
        return (size,)
    if isinstance(size, bool) or not isinstance(size, int | np.integer):
        raise KernelTypeError(
            f"an index set is made of {size!r:.60}, which is no size.",
            at=here(),
            fix="Give an int, a `Fin`, a table or `x.index`.",
        )
    if size < 0:
        raise ValueRangeError(
            f"the size {size} of an index set is negative.",
            at=here(),
            fix="Use `max(n, 0)` if an empty set is meant.",
        )
    return (Set(int(size), f"`Fin({size})`"),)


def domain_of(operation: str, function: Callable[..., object], over: object) -> Domain:
    """What a loop runs over, open where nothing gives it."""
    names = parameter_names(function)
    if over is None:
        sets = tuple(Set(None, f"the set of `{name}`") for name in names)
        return Domain(sets, sets)  # type: ignore[arg-type]
    parts = parts_of(over)
    axes: Any = tuple(axis for part in parts for axis in _axes(part))
    domain = Domain(parts, axes)  # type: ignore[arg-type]  # its sets are ours
    if domain.arguments([None] * len(domain.axes), len(names)) is None:  # type: ignore[list-item]
        raise KernelTypeError(
            f"the function given to `{operation}` takes {len(names)} indices, and `over` has "
            f"{len(domain.axes)} index sets.",
            at=here(),
            fix="Give one index set for each index: `over=(n, m)`.",
        )
    return domain


def iterate(sets: Sequence[Set], body: Callable[[tuple[Index, ...]], object]) -> Iterator[object]:
    """Yield what `body` gives for each index, the last one fastest."""
    position: list[int] | None = [0] * len(sets)
    if any(index_set.size == 0 for index_set in sets):
        return
    while position is not None:
        axis = len(sets) - 1
        try:
            yield body(tuple(s.index(place) for s, place in zip(sets, position, strict=True)))
        except PastEnd as end:
            if end.set not in sets:
                raise
            axis = sets.index(end.set)
        position = _after(position, sets, axis)


def _after(position: list[int], sets: Sequence[Set], axis: int) -> list[int] | None:
    """The position after `position`, or after all that share its part up to `axis`."""
    new = position[: axis + 1] + [0] * (len(sets) - axis - 1)
    while axis >= 0:
        new[axis] += 1
        size = sets[axis].size
        if size is None and new[axis] > _LONGEST_SEARCH:
            raise UnknownIndexSetError(
                f"nothing says which set the index {axis + 1} of this loop runs over: in "
                f"{_LONGEST_SEARCH} iterations it indexed no table.",
                at=here(),
                fix="Give it: `over=n`, where n is an int, a table or `x.index`.",
            )
        if size is None or new[axis] < size:
            return new
        new[axis] = 0
        axis -= 1
    return None


def positions(sets: Sequence[Set]) -> Iterator[tuple[Index, ...]]:
    """All indices of sets whose sizes are known."""
    for place in np.ndindex(*(index_set.size or 0 for index_set in sets)):
        yield tuple(s.index(at) for s, at in zip(sets, place, strict=True))


class Rows:
    """What a loop body gave in all iterations, leaf by leaf."""

    def __init__(self) -> None:
        self.tree: TreeDef | None = None
        self.columns: list[list[Any]] = []
        self.count = 0

    def add(self, value: object) -> None:
        """Take in the result of one iteration."""
        leaves, tree = flatten(value)
        if self.tree is None:
            self.tree, self.columns = tree, [[] for _ in leaves]
        elif tree != self.tree:
            raise KernelTypeError(
                "the body of a loop gives values of different structure.",
                at=here(),
                fix="Give tuples, dicts or dataclasses of one kind in all iterations.",
            )
        for column, leaf in zip(self.columns, leaves, strict=True):
            column.append(copied(leaf) if isinstance(leaf, Accumulator | State) else leaf)
        self.count += 1

    def map(self, combine: Callable[[NDArray[Any]], Any]) -> Any:
        """Combine each column; a loop without iterations has one column of no floats."""
        if self.tree is None:
            return combine(np.zeros(0))
        return unflatten(self.tree, [_combined(column, combine) for column in self.columns])

    def tables(self, make: Callable[[NDArray[Any]], Any], ndim: int) -> Any:
        """The table of all rows: a packed one where lengths depend on the index."""
        if self.tree is None:
            return make(np.zeros(0))
        found = [packed_rows(column) for column in self.columns]
        pairs = zip(self.columns, found, strict=True)
        tables = [_combined(column, make) if p is None else p for column, p in pairs]
        return records_of(self.tree, ndim, tables)


def _combined(column: list[Any], combine: Callable[[NDArray[Any]], Any]) -> Any:
    """What a column becomes; a leaf that is no number is the same in all rows."""
    return column[0] if is_static(column[0]) else combine(_stacked(column))


def _stacked(values: list[Any]) -> NDArray[Any]:
    """One array of all values; Python's numbers take the type of numpy's."""
    try:
        return np.array(values, np.result_type(*values))
    except ValueError:
        raise KernelTypeError(
            "a loop would make a table whose rows have different lengths.",
            at=here(),
            fix="Tables that a loop body gives must have a size known outside the loop.",
        ) from None
