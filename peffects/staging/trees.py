"""Nested arguments and results: tuples, lists, dicts, named tuples and dataclasses of leaves.

`flatten` takes a value apart into leaves and a `TreeDef` that `unflatten` puts together again.  All
other values are leaves, `None` and our own classes too.  Dataclasses are rebuilt field by field,
without their `__init__`, which may want numbers where symbols stand.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from peffects.parallel.index_set import Fin, IndexSet
from peffects.parallel.packed import Packed

__all__ = [
    "LEAF",
    "Leaf",
    "Node",
    "TreeDef",
    "flatten",
    "is_tree",
    "map_leaves",
    "parts_of",
    "size_leaves",
    "static_of",
    "unflatten",
]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value that is not taken apart."""


@dataclass(frozen=True, slots=True)
class Node:
    """A container of type `kind`; `keys` are positions, dict keys or field names.

    Of an index set, names and values of what is no child follow.
    """

    kind: type
    keys: tuple[object, ...]
    children: tuple[TreeDef, ...]


TreeDef: TypeAlias = Leaf | Node
LEAF = Leaf()


def _is_dataclass(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) and not kind.__module__.startswith("peffects.")


def is_tree(value: object) -> bool:
    """Whether `flatten` takes `value` apart."""
    kind: type = type(value)
    return _is_container(kind)


@functools.cache
def _is_container(kind: type) -> bool:
    if kind in (tuple, list, dict) or _is_namedtuple(kind):
        return True
    return _is_dataclass(kind) or _is_set(kind)


def _is_set(kind: type) -> bool:
    """Whether values of `kind` are index sets, or tables over them, that have sizes as leaves."""
    return issubclass(kind, IndexSet | Packed) and kind.is_tree


def static_of(value: object) -> tuple[tuple[str, object], ...]:
    """What a value that is taken apart has besides its children."""
    if not isinstance(value, IndexSet | Packed):
        return ()
    return tuple((name, getattr(value, name)) for name in value.static_fields)


def _is_namedtuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def parts_of(value: object) -> Iterator[tuple[object, object]]:
    """The keys and children of a value that is taken apart."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from enumerate(value)
    elif isinstance(value, IndexSet | Packed):
        for name in value.fields:
            yield name, getattr(value, name)
    else:
        for field in dataclasses.fields(value):  # type: ignore[arg-type]
            yield field.name, getattr(value, field.name)


def flatten(value: object) -> tuple[list[object], TreeDef]:
    """The leaves of `value` from left to right, and how to put them together."""
    leaves: list[object] = []
    return leaves, _flatten(value, leaves)


def _flatten(value: object, leaves: list[object]) -> TreeDef:
    if not is_tree(value):
        leaves.append(value)
        return LEAF
    pairs = list(parts_of(value))
    children = tuple(_flatten(child, leaves) for _, child in pairs)
    return Node(type(value), (*(key for key, _ in pairs), *static_of(value)), children)


def unflatten(tree: TreeDef, leaves: Sequence[object]) -> object:
    """The value that `tree` and as many `leaves` as it has stand for."""
    if isinstance(tree, Leaf):  # by far the most frequent
        (value,) = leaves
        return value
    supply = iter(leaves)
    value = _unflatten(tree, supply)
    assert next(supply, None) is None, "more leaves than the tree has"
    return value


def _unflatten(tree: TreeDef, leaves: Iterator[object]) -> object:
    if isinstance(tree, Leaf):
        return next(leaves)
    values = [_unflatten(child, leaves) for child in tree.children]
    if tree.kind is dict:
        return dict(zip(tree.keys, values, strict=True))
    if tree.kind in (list, tuple):
        return tree.kind(values)
    if _is_namedtuple(tree.kind):
        return tree.kind(*values)
    built: object = object.__new__(tree.kind)
    for name, value in zip(tree.keys, values, strict=False):
        object.__setattr__(built, str(name), _size(value) if tree.kind is Fin else value)
    for static in tree.keys[len(values) :]:
        assert isinstance(static, tuple), "what is no child is a name and a value"
        object.__setattr__(built, *static)
    return built


def _size(value: object) -> object:
    """The size of a set that a kernel gave, as a number of Python."""
    return int(value) if isinstance(value, np.integer) else value


def size_leaves(tree: TreeDef, inside: bool = False) -> list[bool]:
    """For each leaf whether it belongs to an index set: it is a size, and has no derivative."""
    if isinstance(tree, Leaf):
        return [inside]
    inside = inside or issubclass(tree.kind, IndexSet)
    return [known for child in tree.children for known in size_leaves(child, inside)]


def map_leaves(function: Callable[[object], object], value: object) -> object:
    """`value` with `function` applied to each leaf."""
    leaves, tree = flatten(value)
    return unflatten(tree, [function(leaf) for leaf in leaves])
