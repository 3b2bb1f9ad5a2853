"""Nested values: tuples, lists, dicts, named tuples and dataclasses of leaves, and tables of them.

`flatten` takes a value apart into leaves and a `TreeDef` that `unflatten` puts together again.  All
other values are leaves, `None` too.  Dataclasses are rebuilt field by field, without their
`__init__`, which may want numbers where symbols stand.

Complex numbers and arrays are taken apart, too, into real and imaginary part, and arrays with named
fields into those.  So a program has parameters and results of real numbers only, and whatever is
done leaf by leaf (branches, carries, sums, derivatives) is done to complex numbers and records.

`RecordTable` is a table whose elements are such values: a structure of arrays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from peffects.errors import KernelTypeError
from peffects.parallel.index_sets.index_set import Fin, IndexSet
from peffects.parallel.index_sets.packed import Packed
from peffects.remembered import remembered
from peffects.staging.scalars.symbols import Tracer, is_symbolic
from peffects.staging.structures.complex_numbers import ComplexTable, ComplexTracer, complex_of
from peffects.staging.structures.tables import Item, TableTracer, is_plain
from peffects.staging.structures.tabular import Tabular, items_of, make_one, rows
from peffects.staging.tracing.argument_types import ArrayType, ScalarType
from peffects.staging.tracing.trace import here

__all__ = [
    "LEAF",
    "ComplexParts",
    "Composite",
    "Leaf",
    "Node",
    "RecordTable",
    "TreeDef",
    "columns_of",
    "field_names",
    "flatten",
    "flatten_as",
    "is_array_of_parts",
    "is_tree",
    "leaf_count",
    "map_leaves",
    "parts_of",
    "size_leaves",
    "static_of",
    "tabulated",
    "unflatten",
    "with_complex",
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


class Composite:
    """Base of our own classes that are taken apart."""

    def take_apart(self) -> tuple[tuple[object, ...], tuple[object, ...]]:
        """The keys that say what kind of value it is, and the leaves."""
        raise NotImplementedError

    @classmethod
    def put_together(cls, keys: tuple[Any, ...], leaves: Sequence[object]) -> object:
        """The value again, with other leaves."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class ComplexParts:
    """Stands for a complex number whose parts are placeholders."""

    real: object
    imag: object


_REAL_OF = {"complex64": "float32", "complex128": "float64"}
_COMPLEX = (complex, np.complex64, np.complex128, ComplexTracer, ComplexTable, ComplexParts)


@dataclass(frozen=True, slots=True)
class Parts:
    """How a class of ours is taken apart into named parts, themselves nested, and made of them."""

    keys: tuple[str, ...]
    take: Callable[[Any], tuple[object, ...]]
    make: Callable[..., object]


OWN: dict[type, Parts] = {}
"""Our own classes that have nested parts."""


def _is_dataclass(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) and not kind.__module__.startswith("peffects.")


def is_tree(value: object) -> bool:
    """Whether `flatten` takes `value` apart."""
    kind: type = type(value)
    return _is_container(kind) or is_array_of_parts(value)


@remembered
def _is_container(kind: type) -> bool:
    plain = kind in (tuple, list, dict, *_COMPLEX)
    ours = issubclass(kind, Composite) or kind in OWN or _is_set(kind)
    return plain or ours or _is_namedtuple(kind) or _is_dataclass(kind)


def _is_set(kind: type) -> bool:
    """Whether values of `kind` are index sets, or tables over them, that have sizes as leaves."""
    return issubclass(kind, IndexSet | Packed) and kind.is_tree


def static_of(value: object) -> tuple[tuple[str, object], ...]:
    """What a value that is taken apart has besides its children."""
    if not isinstance(value, IndexSet | Packed):
        return ()
    return tuple((name, getattr(value, name)) for name in value.static_fields)


def is_array_of_parts(value: object) -> bool:
    """Whether `value` is an array of complex numbers, or has named fields; or its type."""
    if isinstance(value, ArrayType | ScalarType):
        return value.dtype in _REAL_OF
    if not isinstance(value, np.ndarray | np.void) or isinstance(value, np.ma.MaskedArray):
        return False
    dtype = value.dtype
    return dtype.names is not None or (dtype.kind == "c" and dtype.itemsize <= 16)


def _is_namedtuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _is_complex(value: object) -> bool:
    if isinstance(value, ArrayType | ScalarType):
        return value.dtype in _REAL_OF
    return type(value) in _COMPLEX or (isinstance(value, np.ndarray) and value.dtype.kind == "c")


def parts_of(value: object) -> Iterator[tuple[object, object]]:
    """The keys and children of a value that is taken apart."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from enumerate(value)
    elif isinstance(value, Composite):
        yield from enumerate(value.take_apart()[1])
    elif isinstance(value, IndexSet | Packed):
        for name in value.fields:
            yield name, getattr(value, name)
    elif type(value) in OWN:
        parts = OWN[type(value)]
        yield from zip(parts.keys, parts.take(value), strict=True)
    elif isinstance(value, ArrayType | ScalarType):
        part = dataclasses.replace(value, dtype=_REAL_OF[value.dtype])
        yield from (("real", part), ("imag", part))
    elif _is_complex(value):
        yield "real", value.real  # type: ignore[attr-defined]
        yield "imag", value.imag  # type: ignore[attr-defined]
    elif isinstance(value, np.ndarray | np.void):
        for name in value.dtype.names or ():
            yield name, value[name]
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
    if isinstance(value, Composite):
        keys, parts = value.take_apart()
        leaves.extend(parts)
        return Node(type(value), keys, (LEAF,) * len(parts))
    if isinstance(value, np.ndarray) and value.dtype.names:
        return _flatten_fields(value, leaves)
    pairs = list(parts_of(value))
    children = tuple(_flatten(child, leaves) for _, child in pairs)
    keys = (*(key for key, _ in pairs), *static_of(value))
    return Node(_kind_of(value), keys, children)


def _flatten_fields(value: Any, leaves: list[object]) -> TreeDef:
    """An array with named fields is a table of dicts."""
    first = len(leaves)
    pairs = list(parts_of(value))
    children = tuple(_flatten(child, leaves) for _, child in pairs)
    if not value.ndim:
        return Node(dict, tuple(key for key, _ in pairs), children)
    element = Node(dict, tuple(key for key, _ in pairs), tuple(map(_element_of, children)))
    return Node(RecordTable, (element, value.ndim), (LEAF,) * (len(leaves) - first))


def _element_of(tree: TreeDef) -> TreeDef:
    """The structure of an element of a field, which may have fields itself."""
    if isinstance(tree, Node) and tree.kind is RecordTable:
        inner: TreeDef = tree.keys[0]  # type: ignore[assignment]
        return inner
    return tree


def _kind_of(value: object) -> type:
    if _is_complex(value):
        return complex
    return dict if isinstance(value, np.void) else type(value)


# --- where real and complex numbers meet ---------------------------------------------------------


def with_complex(tree: TreeDef, other: TreeDef) -> TreeDef:
    """`tree` with complex numbers where it has leaves and `other` has complex numbers."""
    if isinstance(other, Leaf) or tree == other:
        return tree
    if isinstance(tree, Leaf):
        return other if other.kind is complex else tree
    if (tree.kind, tree.keys) != (other.kind, other.keys):
        return tree
    pairs = zip(tree.children, other.children, strict=True)
    return dataclasses.replace(tree, children=tuple(with_complex(x, y) for x, y in pairs))


def flatten_as(value: object, tree: TreeDef) -> list[object]:
    """The leaves of `value`; a real number has an imaginary part where `tree` has a complex one."""
    leaves, own = flatten(value)
    if own == tree:
        return leaves
    return _leaves_as(own, iter(leaves), tree)


def _leaves_as(own: TreeDef, leaves: Iterator[object], tree: TreeDef) -> list[object]:
    if isinstance(own, Leaf):
        return [next(leaves), *([0.0] if isinstance(tree, Node) and tree.kind is complex else [])]
    alike = isinstance(tree, Node) and (tree.kind, tree.keys) == (own.kind, own.keys)
    children = tree.children if alike and isinstance(tree, Node) else own.children
    found: list[object] = []
    for child, wanted in zip(own.children, children, strict=True):
        found += _leaves_as(child, leaves, wanted)
    return found


# --- putting together ----------------------------------------------------------------------------


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
    if tree.kind is complex:
        return _complex(tree, values)
    if issubclass(tree.kind, Composite):
        return tree.kind.put_together(tree.keys, values)
    if _is_namedtuple(tree.kind):
        return tree.kind(*values)
    if tree.kind in OWN:
        return OWN[tree.kind].make(*values)
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


def _complex(tree: Node, values: list[Any]) -> object:
    """A complex number or array; of leaves that are no numbers, the pair as it is."""
    if any(isinstance(value, Packed) for value in values):
        raise KernelTypeError(
            "a packed table of complex numbers is made, and those hold real numbers.",
            at=here(),
            fix="Make two of them: `pe.table` of a tuple, `(z.real, z.imag)`.",
        )
    numbers = all(isinstance(v, int | float | np.generic | np.ndarray | Tracer) for v in values)
    return complex_of(*values) if numbers else ComplexParts(*values)


def map_leaves(function: Callable[[object], object], value: object) -> object:
    """`value` with `function` applied to each leaf."""
    leaves, tree = flatten(value)
    return unflatten(tree, [function(leaf) for leaf in leaves])


# --- tables of nested values ---------------------------------------------------------------------


class RecordTable(Tabular, Composite):
    """A table of records: tables of their leaves.

    `t[i]` is a record, `t.x` (of a dict `t["x"]`) the table of a field, and `a, b = t` takes a
    table of tuples apart.  Leaves that are no numbers, `None` too, are the same for all elements.
    """

    __array_ufunc__ = None

    def __init__(self, structure: Node, ndim: int, leaves: Sequence[object]) -> None:
        super().__init__([leaf for leaf in leaves if isinstance(leaf, TableTracer)], ndim)
        make_one(self.tables, ndim)
        self.structure = structure
        self.leaves = tuple(leaves)

    def what(self) -> str:
        """What it is, for messages."""
        return f"the table of {self.structure.kind.__name__}"

    def _shown(self) -> str:
        return f"<table of {self.structure.kind.__name__}: {self.tables!r}>"

    def take_apart(self) -> tuple[tuple[object, ...], tuple[object, ...]]:
        """Its structure, and the tables of its leaves."""
        return (self.structure, self.ndim), self.leaves

    @classmethod
    def put_together(cls, keys: tuple[Any, ...], leaves: Sequence[object]) -> object:
        """A table again; of arrays, the record that holds them."""
        structure, ndim = keys
        if any(map(is_symbolic, leaves)):
            return tabulated(structure, ndim, leaves)
        return unflatten(structure, leaves)

    def element(self, items: tuple[Item, ...], unchecked: bool = False) -> object:
        """A record, or the table of the remaining axes."""
        if not all(map(is_plain, items)):
            return self._part(items)
        found = iter(rows(self.tables, self.ndim, items, unchecked))
        return self._with([next(found) for _ in self.tables], self.ndim - len(items))

    def _part(self, items: tuple[Item, ...]) -> object:
        """A slice, of each leaf."""
        found = [table[items] for table in self.tables]
        dropped = self.tables[0].ndim - found[0].ndim if isinstance(found[0], TableTracer) else 0
        return self._with(found, self.ndim - dropped)

    def _with(self, found: Sequence[object], ndim: int) -> object:
        """Of the same structure, with other tables or elements."""
        supply = iter(found)
        leaves = [next(supply) if isinstance(x, TableTracer) else x for x in self.leaves]
        return tabulated(self.structure, ndim, leaves)

    def field(self, key: object) -> object:
        """The table of a field; of a field that is the same everywhere, that value."""
        place = 0
        names = field_names(self.structure)
        for name, child in zip(names, self.structure.children, strict=True):
            count = leaf_count(child)
            if name == key:
                return tabulated(child, self.ndim, self.leaves[place : place + count])
            place += count
        known = ", ".join(map(str, names))
        raise KernelTypeError(
            f"{self.what()} has no field `{key}`.",
            at=here(),
            fix=f"Its fields are {known}. Methods and properties are those of an element: `t[i]`.",
        )

    def __getitem__(self, key: object) -> object:
        return self.field(key) if isinstance(key, str) else self.element(items_of(key))

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") or (
            name.startswith("_") and name not in field_names(self.structure)
        ):
            raise AttributeError(name)
        return self.field(name)

    def __iter__(self) -> Iterator[object]:  # type: ignore[override]
        if not issubclass(self.structure.kind, tuple):
            self._refuse("the elements")
        return iter(columns_of(self))


def columns_of(table: Any) -> tuple[Any, ...]:
    """The tables of the fields of a table of tuples; a tuple as it is."""
    if isinstance(table, RecordTable):
        return tuple(table.field(name) for name in field_names(table.structure))
    return tuple(table)


def field_names(structure: Node) -> tuple[object, ...]:
    """The names of the fields of a record; of tuples, the positions."""
    return getattr(structure.kind, "_fields", structure.keys)


def leaf_count(tree: TreeDef) -> int:
    """The number of leaves."""
    return 1 if isinstance(tree, Leaf) else sum(map(leaf_count, tree.children))


def tabulated(structure: TreeDef, ndim: int, leaves: Sequence[object]) -> object:
    """The table over `ndim` axes of values of `structure`, from the tables of their leaves.

    Without axes, or without tables among the leaves, the value itself.
    """
    if ndim == 0 or not any(isinstance(leaf, TableTracer) for leaf in leaves):
        return unflatten(structure, leaves)
    if isinstance(structure, Leaf):
        (leaf,) = leaves
        return leaf
    if structure.kind is complex:
        return complex_of(*leaves)
    if issubclass(structure.kind, Composite):
        inner, more = structure.keys
        assert isinstance(inner, Leaf | Node) and isinstance(more, int)
        return tabulated(inner, ndim + more, leaves)
    return RecordTable(structure, ndim, leaves)
