"""Records in kernels: what is a table of records, and accumulators of records.

A dataclass of arrays is a table of dataclasses once it is indexed; named tuples and dicts are, too,
where the index is a symbol.  An accumulator of records holds one accumulator for each leaf.
"""

from __future__ import annotations

import dataclasses
import operator
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NoReturn, TypeAlias, cast

import numpy as np

from peffects.errors import KernelTypeError
from peffects.ir.syntax import BOOL, FinSet, Monoid, Ref, Scalar, Table, Var
from peffects.staging.scalars.symbols import Arithmetic, Tracer, is_symbolic
from peffects.staging.structures.accumulators import AccumulatorTracer, as_table, is_table
from peffects.staging.structures.complex_numbers import imaginary_part, real_part
from peffects.staging.structures.indices import IndexSetTracer, unify
from peffects.staging.structures.tables import Item, TableTracer
from peffects.staging.structures.tabular import Tabular, items_of
from peffects.staging.structures.trees import (
    LEAF,
    Composite,
    Leaf,
    Node,
    TreeDef,
    field_names,
    flatten,
    is_array_of_parts,
    leaf_count,
    tabulated,
    unflatten,
)
from peffects.staging.tracing.promotion import number_type, scalar_of
from peffects.staging.tracing.trace import here, staging

__all__ = [
    "ComplexAccumulator", "RecordAccumulator", "accumulator_of_records", "as_tabular",
    "is_record_of_tables", "numbers_among", "record_spec",
    "refuse_complex", "table_of_records", "with_numbers",
]  # fmt: skip

# --- a record of tables is a table of records ----------------------------------------------------


def is_record_of_tables(value: object, key: object) -> bool:
    """Whether `value[key]` is not Python's: it is a record of the elements of tables."""
    kind = type(value)
    if dataclasses.is_dataclass(kind) and not isinstance(value, Tracer | type):
        return not hasattr(kind, "__getitem__")
    named = isinstance(value, dict) or (isinstance(value, tuple) and hasattr(kind, "_fields"))
    return named and any(map(is_symbolic, items_of(key)))


def table_of_records(value: object, ndim: int) -> object:
    """The record `value` of tables as a table of records over their first `ndim` axes."""
    leaves, structure = flatten(staging().inputs.record(value))
    tables = [leaf if is_static(leaf) else _field(value, leaf, ndim) for leaf in leaves]
    held = [table for table in tables if isinstance(table, TableTracer)]
    if not held:
        raise KernelTypeError(
            f"a {type(value).__name__} without tables is indexed.",
            at=here(),
            fix="Give arrays as its fields, or use its fields as they are.",
        )
    for table in held[1:]:
        for axis in range(ndim):
            _unify_axis(held[0], table, axis)
    return tabulated(structure, ndim, tables)


def _field(record: object, leaf: object, ndim: int) -> TableTracer:
    if not is_table(leaf) or as_table(leaf).ndim < ndim:
        raise KernelTypeError(
            f"a {type(record).__name__} is indexed, and one of its fields is no table with "
            f"{ndim} axes: {leaf!r:.40}.",
            at=here(),
            fix="Index the fields: `p.x[i]`.",
        )
    return as_table(leaf)


def _unify_axis(first: TableTracer, other: TableTracer, axis: int) -> None:
    mine, theirs = other.index_sets[axis], first.index_sets[axis]
    unify(mine, theirs, f"a field of the record, `{other.name}`,", f"axis {axis} of `{first.name}`")


def is_static(leaf: object) -> bool:
    """Whether a leaf is the same for all elements: no number, no table, no symbol."""
    return not (is_symbolic(leaf) or is_table(leaf) or number_type(leaf) is not None)


def numbers_among(leaves: Sequence[object]) -> list[object]:
    """The leaves that differ from element to element; all, to be refused, if there are none."""
    return [leaf for leaf in leaves if not is_static(leaf)] or list(leaves)


def with_numbers(leaves: Sequence[object], numbers: Iterable[object]) -> list[object]:
    """`leaves` with other numbers in place of those among them."""
    supply = iter(numbers)
    return [leaf if is_static(leaf) else next(supply) for leaf in leaves]


def as_tabular(value: object) -> Tabular | None:
    """`value` as a table of complex numbers or records; None if it is none."""
    if isinstance(value, RecordAccumulator):
        value = value.read()
    if is_array_of_parts(value):
        value = staging().inputs.capture(value)
    elif dataclasses.is_dataclass(value) and is_record_of_tables(value, 0):
        value = table_of_records(value, 1)
    return value if isinstance(value, Tabular) else None


# --- what a record holds -------------------------------------------------------------------------


Spec: TypeAlias = tuple[TreeDef, list[Scalar | None]]
"""The structure of a record, and the type of each leaf; None for a leaf that is None."""


def record_spec(dtype: object) -> Spec | None:
    """The structure and the types of a record that `dtype` describes; None if it describes none.

    `complex`, a dataclass or named tuple whose annotations are types, a dtype with named fields, or
    a record that holds types: `Particle(x=float, charge=int)`, `(float, int)`, `{"x": float}`.
    """
    types: list[Scalar | None] = []
    tree = _spec(dtype, types)
    return None if tree is None or isinstance(tree, Leaf) else (tree, types)


def _spec(dtype: Any, types: list[Scalar | None]) -> TreeDef | None:
    if dtype is None:
        types.append(None)
        return LEAF
    scalar = None if isinstance(dtype, dict | list | tuple) else scalar_of(dtype)
    if scalar is not None:
        types.append(scalar)
        return LEAF
    if isinstance(dtype, type) and dtype in (complex, np.complex128, np.complex64):
        part = scalar_of(np.float32 if dtype is np.complex64 else np.float64)
        assert part is not None
        types.extend((part, part))
        return Node(complex, ("real", "imag"), (LEAF, LEAF))
    fields = _fields_of(dtype)
    if fields is None:
        return None
    kind, keys, parts = fields
    children = [_spec(part, types) for part in parts]
    if any(child is None for child in children):
        return None
    return Node(kind, keys, tuple(child for child in children if child is not None))


def _fields_of(dtype: Any) -> tuple[type, tuple[object, ...], list[object]] | None:
    """The kind, keys and parts of a description of a record."""
    if isinstance(dtype, str) and dtype in ("complex64", "complex128"):
        dtype = np.dtype(dtype)
    if isinstance(dtype, np.dtype):
        if dtype.kind == "c":
            return None if dtype.itemsize > 16 else (complex, ("real", "imag"), _halves(dtype))
        names = dtype.names
        return None if names is None else (dict, names, [dtype[name] for name in names])
    if isinstance(dtype, type):
        if not dataclasses.is_dataclass(dtype) and not hasattr(dtype, "_fields"):
            return None
        hints = typing.get_type_hints(dtype)
        if dataclasses.is_dataclass(dtype):
            names = tuple(field.name for field in dataclasses.fields(dtype))
            return dtype, names, [hints[name] for name in names]
        fields: tuple[str, ...] = dtype._fields
        return dtype, tuple(range(len(fields))), [hints.get(name) for name in fields]
    leaves, tree = flatten(dtype)
    if isinstance(tree, Leaf) or not leaves:
        return None
    counts = [leaf_count(child) for child in tree.children]
    supply = iter(leaves)
    groups = [[next(supply) for _ in range(count)] for count in counts]
    parts = [unflatten(child, group) for child, group in zip(tree.children, groups, strict=True)]
    return tree.kind, tree.keys, parts


def _halves(dtype: np.dtype[Any]) -> list[object]:
    part = np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)
    return [part, part]


# --- accumulators --------------------------------------------------------------------------------


def accumulator_of_records(
    spec: Spec, sets: Sequence[IndexSetTracer], monoid: Monoid
) -> RecordAccumulator:
    """An accumulator that combines records leaf by leaf."""
    structure, types = spec
    assert isinstance(structure, Node)
    logical = monoid in (Monoid.AND, Monoid.OR)
    if any(logical != (elem == BOOL) for elem in types if elem) or (
        _holds_complex(structure) and monoid is not Monoid.ADD
    ):
        raise KernelTypeError(
            f"an accumulator of {structure.kind.__name__} cannot combine with `{monoid.value}`.",
            at=here(),
            fix="Complex numbers and records of several types are added (`op='add'`).",
        )
    dims = tuple(FinSet(index_set.atom, index_set.label) for index_set in sets)
    held: list[AccumulatorTracer | None] = []
    for elem in types:
        if elem is None:
            held.append(None)
            continue
        ref = Ref(monoid, Table(dims, elem) if dims else elem)
        held.append(AccumulatorTracer(staging().accumulator(Var("acc", ref)), "acc"))
    kind = ComplexAccumulator if structure.kind is complex else RecordAccumulator
    return kind(structure, len(dims), held)


def _holds_complex(tree: TreeDef) -> bool:
    if isinstance(tree, Leaf):
        return False
    if issubclass(tree.kind, Composite):
        inner = tree.keys[0]
        return isinstance(inner, Leaf | Node) and _holds_complex(inner)
    return tree.kind is complex or any(map(_holds_complex, tree.children))


def refuse_complex(tree: TreeDef, operation: str) -> None:
    """Raise KernelTypeError if what `operation` combines holds complex numbers."""
    if _holds_complex(tree):
        raise KernelTypeError(
            f"`{operation}` is given complex numbers, which it cannot combine.",
            at=here(),
            fix="Use `abs(z)` or `z.real`; for a product a `for` loop over `range`, or `pe.fold`.",
        )


class RecordAccumulator(Tracer, Composite):
    """A value of records that loops add to; its final value once it is read."""

    def __init__(
        self, structure: Node, ndim: int, held: Sequence[AccumulatorTracer | None]
    ) -> None:
        self.structure = structure
        self.ndim = ndim
        self.held = tuple(held)
        self.first = next(part for part in held if part is not None)
        self.scope = self.first.scope

    def rename(self, name: str) -> None:
        """Take the name of the local that holds it first."""
        for part in self.held:
            if part is not None:
                part.rename(name)

    def what(self) -> str:
        """What it is, for messages."""
        return self.first.what()

    def _shown(self) -> str:
        return f"<accumulator of {self.structure.kind.__name__}>"

    def take_apart(self) -> tuple[tuple[object, ...], tuple[object, ...]]:
        """Its structure, and the accumulators of its leaves."""
        return (self.structure, self.ndim), self.held

    @classmethod
    def put_together(cls, keys: tuple[Any, ...], leaves: Sequence[object]) -> object:
        """An accumulator again; of what they held in the end, the table or the record."""
        structure, ndim = keys
        if any(isinstance(leaf, AccumulatorTracer) for leaf in leaves):
            return cls(structure, ndim, cast(Sequence[AccumulatorTracer | None], leaves))
        return tabulated(structure, ndim, leaves)

    def read(self) -> object:
        """The final value."""
        values = [None if part is None else part.read() for part in self.held]
        return tabulated(self.structure, self.ndim, values)

    def update(
        self, symbol: str, items: tuple[Item, ...], value: object, unchecked: bool = False
    ) -> None:
        """`self[items] <symbol> value`, leaf by leaf."""
        for part, leaf in self._pairs(value):
            part.update(symbol, items, leaf, unchecked)

    def combine(self, key: object, value: object) -> None:
        """`self[key] += value`, whatever the operation of the accumulator is."""
        for part, leaf in self._pairs(value):
            part.combine(key, leaf)

    def _pairs(self, value: object) -> list[tuple[AccumulatorTracer, object]]:
        """The leaves of what is added, with their accumulators; KernelTypeError if they differ."""
        leaves, structure = flatten(_as(value, self.structure))
        if isinstance(structure, Node) and issubclass(structure.kind, Composite):
            inner = structure.keys[0]  # a table of the remaining axes
            assert isinstance(inner, Leaf | Node)
            structure = inner
        if structure != self.structure or any(
            (part is None) != (leaf is None) for part, leaf in zip(self.held, leaves, strict=True)
        ):
            raise KernelTypeError(
                f"what is added to {self.what()} is no {self.structure.kind.__name__} of the same "
                f"structure: {value!r:.60}.",
                at=here(),
                fix="Add a record with the fields that `dtype=` gave.",
            )
        pairs = zip(self.held, leaves, strict=True)
        return [(part, leaf) for part, leaf in pairs if part is not None]

    def _augment(self, symbol: str, value: object) -> RecordAccumulator:
        self.update(symbol, (), value)
        return self

    def __iadd__(self, value: object) -> RecordAccumulator:
        return self._augment("+=", value)

    def __imul__(self, value: object) -> RecordAccumulator:
        return self._augment("*=", value)

    def __iand__(self, value: object) -> RecordAccumulator:
        return self._augment("&=", value)

    def __ior__(self, value: object) -> RecordAccumulator:
        return self._augment("|=", value)

    def __getitem__(self, key: object) -> object:
        return self.read()[key]  # type: ignore[index]

    def __setitem__(self, key: object, value: object) -> NoReturn:
        self.first[key] = value

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") or "structure" not in vars(self):
            raise AttributeError(name)
        return self._field(name)

    def _field(self, name: str) -> object:
        """The accumulator of a field; of what is read, the attribute."""
        place = 0
        for key, child in zip(field_names(self.structure), self.structure.children, strict=True):
            count = leaf_count(child)
            if key == name:
                part = self.held[place : place + count]
                if isinstance(child, Leaf):
                    return part[0]
                kind = ComplexAccumulator if child.kind is complex else RecordAccumulator
                return kind(child, self.ndim, part)
            place += count
        return getattr(self.read(), name)

    @property
    def index_sets(self) -> tuple[IndexSetTracer, ...]:
        """The index sets of all axes."""
        return self.first.index_sets

    @property
    def index_set(self) -> IndexSetTracer:
        """The index set of the first axis."""
        return self.index_sets[0]

    index = index_set


def _as(value: object, structure: Node) -> object:
    """A real number as a complex one, where that is wanted."""
    if structure.kind is not complex or isinstance(value, Tabular):
        return value
    if is_table(value) or (not is_symbolic(value) and number_type(value) is None):
        return value
    return unflatten(structure, (real_part(value), imaginary_part(value)))


def _of_what_is_read(name: str) -> Callable[..., object]:
    """An operator of the record that was accumulated."""
    operation: Callable[..., object] = getattr(operator, name)
    return lambda self, *others: operation(self.read(), *others)


for _name in ("add", "sub", "mul", "truediv", "matmul", "neg", "pos", "abs"):
    setattr(RecordAccumulator, f"__{_name}__", _of_what_is_read(_name))


class ComplexAccumulator(RecordAccumulator, Arithmetic):
    """An accumulator of complex numbers; read, it is a complex number or a table of them."""

    _pe_complex: ClassVar[bool] = True
