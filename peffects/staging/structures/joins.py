"""The structure in which two values meet, and the leaves of a value in that structure.

Most values meet in their own structure, real and complex numbers in a complex one.  An `Ok` and an
`Err` meet in an `Outcome`, and what is not set yet takes the structure of what it meets, with unset
leaves.  A dataclass of tables and a table of such dataclasses are the same arrays, and meet in the
former.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from peffects.staging.structures.records import is_record_of_tables
from peffects.staging.structures.results import UNSET, Outcome, is_outcome, parts_of_outcome
from peffects.staging.structures.trees import (
    Composite,
    Node,
    RecordTable,
    TreeDef,
    flatten,
    flatten_as,
    is_tree,
    leaf_count,
    parts_of,
    static_of,
    with_complex,
)

__all__ = ["common_structure", "leaves_in"]

_PARTS = ("ok", "value", "error")


def common_structure(left: object, right: object) -> TreeDef | None:
    """The structure that has room for both values; None if there is none."""
    if left is UNSET or right is UNSET:
        return flatten(right if left is UNSET else left)[1]
    if is_outcome(left) and is_outcome(right) and type(left) is not type(right):
        pairs = zip(parts_of_outcome(left), parts_of_outcome(right), strict=True)
        return _node(Outcome, _PARTS, (common_structure(x, y) for x, y in pairs))
    if type(left) is type(right) and (_may_be_partial(left) or _may_be_partial(right)):
        return _common_parts(left, right)
    if isinstance(left, RecordTable) != isinstance(right, RecordTable):
        return _record_of(left, right) or _record_of(right, left)
    tree, other = flatten(left)[1], flatten(right)[1]
    tree = with_complex(tree, other)
    return tree if tree == with_complex(other, tree) else None


def _record_of(record: object, table: object) -> TreeDef | None:
    """The structure of `record`, if it is a record of tables, and `table` has such elements."""
    if not isinstance(table, RecordTable) or not dataclasses.is_dataclass(record):
        return None
    tree = flatten(record)[1]
    return tree if tree == table.structure and is_record_of_tables(record, 0) else None


def _may_be_partial(value: object) -> bool:
    """Whether parts of `value` are outcomes, or not set: then it may meet other structures."""
    if is_outcome(value) or value is UNSET:
        return True
    if not is_tree(value) or isinstance(value, Composite):
        return False
    return any(_may_be_partial(part) for _, part in parts_of(value))


def _common_parts(left: object, right: object) -> TreeDef | None:
    first, second = list(parts_of(left)), list(parts_of(right))
    keys = (*(key for key, _ in first), *static_of(left))
    if keys != (*(key for key, _ in second), *static_of(right)):
        return None
    pairs = zip((value for _, value in first), (value for _, value in second), strict=True)
    return _node(type(left), keys, (common_structure(x, y) for x, y in pairs))


def _node(
    kind: type, keys: tuple[object, ...], children: Iterator[TreeDef | None]
) -> TreeDef | None:
    known = tuple(children)
    found = tuple(child for child in known if child is not None)
    return Node(kind, keys, found) if len(found) == len(known) else None


def leaves_in(value: object, structure: TreeDef) -> list[object]:
    """The leaves of `value` in a structure that has room for it; those not there are UNSET."""
    if value is UNSET:
        return [UNSET] * leaf_count(structure)
    if not isinstance(structure, Node) or not _may_be_partial(value):
        return flatten_as(value, structure)
    parts = (
        list(parts_of_outcome(value))
        if structure.kind is Outcome
        else [part for _, part in parts_of(value)]
    )
    pairs = zip(parts, structure.children, strict=True)
    return [leaf for part, child in pairs for leaf in leaves_in(part, child)]
