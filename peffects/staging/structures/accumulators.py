"""Accumulators as users hold them, and values made to fit the type that their use wants.

`h[i] += v` is rewritten into `add`; reading an accumulator in any way ends it (`Trace.read`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

import numpy as np

from peffects.errors import AccumulatorError, KernelTypeError
from peffects.ir.builder import index_var
from peffects.ir.syntax import (
    Accumulate,
    Atom,
    Bounds,
    For,
    Index,
    Monoid,
    Ref,
    Scalar,
    Table,
    Var,
)
from peffects.ir.typing import drop_axes
from peffects.staging.scalars.arithmetic import Operand, cast
from peffects.staging.scalars.symbols import (
    ScalarTracer,
    Tracer,
    lift,
    refuse_missing,
    to_bool,
)
from peffects.staging.structures.array_methods import ArrayMethods
from peffects.staging.structures.indices import IndexSetTracer, Mismatch, Origin, unify
from peffects.staging.structures.tables import (
    Item,
    TableTracer,
    place_of,
    refuse_write,
    value_tracer,
)
from peffects.staging.structures.tabular import Tabular
from peffects.staging.tracing.trace import Accumulator, here, staging

__all__ = [
    "AccumulatorTracer",
    "MarkedReference",
    "Reference",
    "Told",
    "UncheckedTracer",
    "as_table",
    "fit",
    "is_table",
]

Told: TypeAlias = Callable[[int], Mismatch]
_OPERATORS = {Monoid.ADD: "+=", Monoid.MUL: "*=", Monoid.AND: "&=", Monoid.OR: "|="}


class Reference(ArrayMethods):
    """What stands for the value that it holds when it is read."""

    type: Scalar | Table | None
    name: str

    @property
    def is_whole(self) -> bool:  # type: ignore[override]
        """Whether it holds a table."""
        return isinstance(self.type, Table)

    @abstractmethod
    def rename(self, name: str) -> None:
        """Take the name of the local that holds it first."""

    @abstractmethod
    def read(self) -> ScalarTracer | TableTracer:
        """The value."""

    def copy(self) -> Any:
        """The value that it holds now: what is written later does not change it."""
        return self.read()


class MarkedReference(Reference):
    """A reference whose writes are marked, and done in a second run when it is read."""

    held: Accumulator
    value: Any = None

    def read(self) -> Any:
        """The final value, a number or table, or a tree of them."""
        trace = staging()
        trace.check_open(self.scope, self.what())
        trace.read(self.held)
        return self.value

    def operand(self) -> Operand:
        """The final value as a number."""
        operand: Operand = self.read().operand()
        return operand

    def __getitem__(self, key: object) -> Any:
        return self.read()[key]

    def __getattr__(self, name: str) -> Any:
        if name in ("index_sets", "index_set", "index", "shape", "ndim", "dtype"):
            return getattr(as_table(self), name)
        return super().__getattr__(name)


def _without_whole_axes(items: tuple[Item, ...], rank: int) -> tuple[Item, ...]:
    """The indices without `:` and `...` at their end, which name axes that are taken whole."""
    if items and items[-1] is ... and len(items) <= rank + 1:
        items = items[:-1]
    while items and len(items) <= rank and _is_whole(items[-1]):
        items = items[:-1]
    return items


def _is_whole(item: object) -> bool:
    return isinstance(item, slice) and item.start is item.stop is item.step is None


class AccumulatorTracer(Reference):
    """A value that loops add to; its final value once it is read."""

    def __init__(self, held: Accumulator, name: str) -> None:
        self.held = held
        self.scope = held.owner
        self.name = name
        assert isinstance(held.ref.type, Ref)
        self.type: Scalar | Table = held.ref.type.value
        self.monoid = held.ref.type.monoid

    def rename(self, name: str) -> None:
        """Take the name of the local that holds it first."""
        if self.name == "acc" and self.held.final is None and not self.held.written_in:
            self.name = name
            self.held.ref = Var(name, self.held.ref.type)

    def what(self) -> str:
        """What it is, for messages."""
        return f"the accumulator `{self.name}`"

    def _shown(self) -> str:
        return f"<accumulator {self.held.ref!r}>"

    def read(self) -> ScalarTracer | TableTracer:
        """The final value."""
        trace = staging()
        trace.check_open(self.scope, self.what())
        final = trace.read(self.held)
        trace.named.add(final)  # each read gives it anew, so no local may rename it
        if isinstance(final.type, Table):
            return TableTracer(final, self.scope, self.name)
        assert isinstance(final.type, Scalar)
        return ScalarTracer(final, final.type, False, self.scope)

    def operand(self) -> Operand:
        """The final value as a number."""
        value = self.read()
        return value.operand()

    def __getitem__(self, key: object) -> Any:
        value = self.read()
        if isinstance(value, ScalarTracer):
            raise KernelTypeError(
                f"{self.what()} holds one number and is indexed.",
                at=here(),
                fix="Read it as it is.",
            )
        return value[key]

    def __setitem__(self, key: object, value: object) -> NoReturn:
        refuse_write(self.name)

    def combine(self, key: object, value: object) -> None:
        """`self[key] += value`, whatever the operation of the accumulator is."""
        self.add(key if isinstance(key, tuple) else (key,), value)

    def update(
        self, symbol: str, items: tuple[Item, ...], value: object, unchecked: bool = False
    ) -> None:
        """`self[items] <symbol> value`, written with the operator of the accumulator."""
        wanted = _OPERATORS.get(self.monoid)
        if symbol != wanted:
            use = f"`{self.name}[i] {wanted} v`" if wanted else f"`{self.name}.combine(i, v)`"
            raise AccumulatorError(
                f"{self.what()} combines with `{self.monoid.value}`, not with `{symbol}`.",
                at=here(),
                fix=f"Write {use}, or make the accumulator with another `op=`.",
            )
        self.add(items, value, unchecked)

    def add(self, items: tuple[Item, ...], value: object, unchecked: bool = False) -> None:
        """Accumulate `value` at `items`."""
        trace = staging()
        trace.check_open(self.scope, self.what())
        items = _without_whole_axes(items, len(self.index_sets))
        indices, bounds = place_of(self.name, self.type, items, unchecked)
        atom = fit(value, drop_axes(self.type, len(indices)), f"what is added to `{self.name}`")
        trace.note_write(self.held)
        trace.emit(Accumulate(self.held.ref, indices, atom, bounds))

    def __iadd__(self, value: object) -> AccumulatorTracer:  # type: ignore[override]
        self.update("+=", (), value)
        return self

    def __imul__(self, value: object) -> AccumulatorTracer:  # type: ignore[override]
        self.update("*=", (), value)
        return self

    def __iand__(self, value: object) -> AccumulatorTracer:  # type: ignore[override]
        self.update("&=", (), value)
        return self

    def __ior__(self, value: object) -> AccumulatorTracer:  # type: ignore[override]
        self.update("|=", (), value)
        return self

    @property
    def index_sets(self) -> tuple[IndexSetTracer, ...]:
        """The index sets of all axes."""
        dims = self.type.dims if isinstance(self.type, Table) else ()
        return tuple(
            IndexSetTracer(dim.size, Origin(f"axis {axis} of `{self.name}`"), self.scope, dim.label)
            for axis, dim in enumerate(dims)
        )

    @property
    def index_set(self) -> IndexSetTracer:
        """The index set of the first axis."""
        return self.index_sets[0]

    index = index_set

    @property
    def shape(self) -> tuple[ScalarTracer, ...]:
        """The sizes of all axes."""
        return tuple(index_set.size for index_set in self.index_sets)


class UncheckedTracer(Tracer):
    """`pe.unchecked(a)`: the table or accumulator `a`, whose indices are not tested.

    They may be of complex numbers or records, too.
    """

    def __init__(self, base: Any) -> None:
        self.base = base
        self.scope = base.scope

    def what(self) -> str:
        """What it is, for messages."""
        return f"`pe.unchecked` of {self.base.what()}"

    def update(self, symbol: str, items: tuple[Item, ...], value: object) -> None:
        """`pe.unchecked(h)[items] += value`."""
        if isinstance(self.base, TableTracer | Tabular):
            refuse_write(self.base.name)
        self.base.update(symbol, items, value, unchecked=True)

    def __getitem__(self, key: object) -> object:
        table = self.base if isinstance(self.base, TableTracer | Tabular) else self.base.read()
        return table.element(key if isinstance(key, tuple) else (key,), unchecked=True)


def is_table(value: object) -> bool:
    """Whether `value` stands for a whole table."""
    if isinstance(value, Reference):
        return value.is_whole
    return isinstance(value, TableTracer) or (isinstance(value, np.ndarray) and value.ndim > 0)


def as_table(value: object) -> TableTracer:
    """`value` as a table."""
    if isinstance(value, Reference):
        value = value.read()
    elif isinstance(value, np.ndarray):
        value = staging().inputs.capture(value)
    if isinstance(value, Tabular):
        raise KernelTypeError(
            f"a table of real numbers is needed, and this is {value.what()}.",
            at=here(),
            fix="Give one of its parts, such as `z.real`; or write it for elements: `pe.table`.",
        )
    if not isinstance(value, TableTracer):
        refuse_missing(value)
        raise KernelTypeError(
            f"a table is needed, and {value!r:.60} is none.",
            at=here(),
            fix="Give an array or a table.",
        )
    return value


def fit(value: object, t: Scalar | Table, role: str, told: Told | None = None) -> Atom:
    """The atom of `value` as a `t`; KernelTypeError, naming its `role`, if it cannot be that.

    `told` says of an axis how it is told that a table has another size there.
    """
    if isinstance(t, Table):
        return _fit_table(value, t, role, told or _told_of(role))
    if is_table(value):
        raise KernelTypeError(f"{role} is a whole table, not a {t}.", at=here(), fix="Index it.")
    if str(t) == "bool":
        return to_bool(value)
    x = lift(value, role)
    if x.type.is_float and not t.is_float:
        raise KernelTypeError(
            f"{role} is a float ({x.type}), and the type wanted is {t}.",
            at=here(),
            fix="Use `dtype=float`, or say how it becomes an integer: `int(...)`.",
        )
    return cast(x, t)


def _told_of(role: str) -> Told:
    return lambda axis: Mismatch(
        f"axis {axis} of {role} has length {{0}}, and {{1}} is needed.",
        "Give a table whose axes agree with those of the one that is there.",
    )


def _fit_table(value: object, t: Table, role: str, told: Told) -> Var:
    if not is_table(value):
        raise KernelTypeError(
            f"{role} is one number, and a table with {len(t.dims)} axes is needed.",
            at=here(),
            fix="Give as many indices as there are axes, or a table of the remaining ones.",
        )
    table = as_table(value)
    if len(table.type.dims) != len(t.dims):
        raise KernelTypeError(
            f"{role} has {len(table.type.dims)} axes, and {len(t.dims)} are needed.",
            at=here(),
            fix="Index it.",
        )
    trace = staging()
    for axis, (own, wanted) in enumerate(zip(table.type.dims, t.dims, strict=True)):
        mine = IndexSetTracer(own.size, Origin(f"axis {axis} of `{table.name}`"), table.scope)
        other = IndexSetTracer(wanted.size, Origin("the table that is needed"), table.scope)
        unify(mine, other, f"`{table.name}`", f"axis {axis} of {role}", told(axis))
    same = all(
        trace.sizes.same(own.size, wanted.size)
        for own, wanted in zip(table.type.dims, t.dims, strict=True)
    )
    if same and table.type.elem == t.elem:
        return table.atom()
    return _convert_table(table, t, role)


def _convert_table(table: TableTracer, t: Table, role: str) -> Var:
    """A copy of `table` whose type is exactly `t`."""
    trace = staging()
    binders = tuple(index_var("i", dim.size, dim.label) for dim in t.dims)
    source = table.atom()
    with trace.inside(trace.scope.kind) as scope:
        (element,) = trace.emit(Index(source, binders, Bounds.PROVED))
        atom = fit(value_tracer(element), t.elem, role)
        body = trace.close(scope, (atom,))
    return trace.emit(For(binders, body), (table.name,))[0]
