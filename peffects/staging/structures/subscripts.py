"""The items of a subscript as one item for each axis: indices with parts are taken apart."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

from peffects.ir.syntax import FinSet
from peffects.parallel.index_sets.dependent import Pairs
from peffects.parallel.index_sets.index_set import Idx, Product, symbols_for
from peffects.parallel.index_sets.structures import Elements, as_index_set
from peffects.staging.tracing.trace import staging

__all__ = ["atomic_items"]


def atomic_items(items: Sequence[object], dims: Sequence[FinSet]) -> tuple[object, ...]:
    """The indices that `items` stand for, one for each of the axes `dims`, as far as they reach.

    A tuple or a dataclass of indices stands for its parts, an index of a product for one index a
    factor, unless the axis is over the product itself; an enum member and a value for its place.
    Two indices, or a pair, are the one index of an axis over pairs.
    """
    found: list[object] = []
    rest = list(items)
    while rest:
        label = staging().label_of(dims[len(found)]) if len(found) < len(dims) else ""
        axis = staging().structures.get(label)
        item = rest.pop(0)
        if isinstance(axis, Pairs) and isinstance(item, tuple) and len(item) == 2:
            item, rest = item[0], [item[1], *rest]
        if isinstance(axis, Pairs) and rest and not _is_of_pairs(item):
            other = rest.pop(0)
            symbols = symbols_for(item, other, axis)
            item = axis.at(item, other) if symbols is None else symbols.pair(axis, item, other)
        found += _parts(item, label)
    return tuple(found)


def _is_of_pairs(item: Any) -> bool:
    """Whether `item` is an index of a set of pairs itself."""
    of = (
        item.index_set
        if isinstance(item, Idx)
        else getattr(getattr(item, "set", None), "structure", None)
    )
    return isinstance(of, Pairs)


def _parts(item: Any, label: str) -> Sequence[object]:
    axis = staging().structures.get(label)
    if isinstance(item, tuple):
        return [part for inner in item for part in _parts(inner, "")]
    if isinstance(axis, Elements) and isinstance(item, str | enum.Enum):
        return [axis.index(axis.ordinal(item))]
    if isinstance(item, enum.Enum):
        kinds = as_index_set(type(item))
        return [kinds.index(kinds.ordinal(item))]
    if dataclasses.is_dataclass(item) and not isinstance(item, type) and not hasattr(item, "scope"):
        values = [getattr(item, field.name) for field in dataclasses.fields(item)]
        return [part for inner in values for part in _parts(inner, "")]
    if isinstance(item, Idx) and isinstance(item.index_set, Product):
        return list(item.index_set.parts(item))
    of = getattr(item, "set", None)
    structure = getattr(of, "structure", None)
    if isinstance(structure, Product) and getattr(of, "label", "") != label:
        return list(structure.parts(item))
    return [item]
