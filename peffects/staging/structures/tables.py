"""Symbols that stand for tables.

`a[i]` is where index sets meet: an index that comes from the same set as the axis needs no test, an
index whose set is still open takes the axis's, and every other index is an integer that is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np

from peffects.errors import BoundsError, DataRaceError, IndexSetMismatchError, KernelTypeError
from peffects.ir import primitives as op
from peffects.ir.builder import int_lit
from peffects.ir.messages import bounds_text
from peffects.ir.syntax import I64, Atom, Bounds, Index, Lit, Scalar, Table, Var
from peffects.parallel.index_sets.index_set import IndexSet
from peffects.staging.scalars.arithmetic import Operand, cast
from peffects.staging.scalars.symbols import ScalarTracer, is_whole, lift, renamed
from peffects.staging.structures.array_methods import ArrayMethods
from peffects.staging.structures.indices import (
    IndexSetTracer,
    IndexTracer,
    Origin,
    align,
    set_tracer,
    unify,
)
from peffects.staging.structures.subscripts import atomic_items
from peffects.staging.tracing.trace import Kind, OpenBlock, here, staging

Item: TypeAlias = object


def _items(key: object) -> tuple[Item, ...]:
    return key if isinstance(key, tuple) else (key,)


def place_of(
    name: str, t: Scalar | Table, items: Sequence[Item], unchecked: bool
) -> tuple[tuple[Atom, ...], Bounds]:
    """The atoms of the indices `items` into the value `name`, and why they are in bounds."""
    return _Axes(name, t).place(items, unchecked)


def is_plain(item: Item) -> bool:
    """Whether `item` is one index: no slice, no new axis, no table of indices."""
    return not (isinstance(item, slice | list) or item is None or item is Ellipsis) and not (
        is_whole(item)
    )


def place_on(
    name: str, t: Table, axis: int, item: Item, unchecked: bool = False
) -> tuple[Atom, bool]:
    """The atom of the index `item` into one axis, and whether it is known to be in bounds."""
    return _Axes(name, t).item(axis, item, unchecked)


class _Axes:
    """Indices against the axes of a value: what reading and accumulating share."""

    def __init__(self, name: str, t: Scalar | Table) -> None:
        self.name = name
        self.dims = t.dims if isinstance(t, Table) else ()

    def place(self, items: Sequence[Item], unchecked: bool) -> tuple[tuple[Atom, ...], Bounds]:
        """The atoms of `items`, and why they are in bounds."""
        items = atomic_items(items, self.dims)
        if len(items) > len(self.dims):
            raise KernelTypeError(
                f"`{self.name}` has {len(self.dims)} axes and is given {len(items)} indices.",
                at=here(),
                fix="Give at most one index for each axis.",
            )
        pairs = [self.item(axis, item, unchecked) for axis, item in enumerate(items)]
        proved = all(known for _, known in pairs)
        unchecked = unchecked or proved
        proved = proved and not any(isinstance(x, IndexTracer) and x.guarded for x in items)
        bounds = Bounds.PROVED if proved else Bounds.UNCHECKED if unchecked else Bounds.CHECKED
        return tuple(atom for atom, _ in pairs), bounds

    def item(self, axis: int, item: Item, unchecked: bool) -> tuple[Atom, bool]:
        """The atom of one index, and whether it is known to be in bounds."""
        if isinstance(item, IndexTracer):
            staging().check_open(item.scope, item.what())
            found = self._proved(axis, item)
            if found is not None:
                return found, True
        if not is_plain(item):
            raise KernelTypeError(
                f"`{self.name}` is indexed with a slice or a table, where only elements can be.",
                at=here(),
                fix="Give one index for each axis; `pe.each` and `pe.par` go over many.",
            )
        x = lift(item, f"the index of axis {axis} of `{self.name}`")
        if not x.type.is_integer:
            raise KernelTypeError(
                f"axis {axis} of `{self.name}` is indexed with a {x.type}.",
                at=here(),
                fix="Use `int(...)`.",
            )
        if isinstance(x.atom, Lit):
            return self._literal(axis, int(x.atom.value), unchecked)
        return cast(x, I64), False

    def _literal(self, axis: int, value: int, unchecked: bool) -> tuple[Atom, bool]:
        """A literal index; a negative one counts from the end, and is tested as it was written."""
        trace = staging()
        size = trace.sizes.representative(self.dims[axis].size)
        if isinstance(size, Lit):
            place = value + int(size.value) if value < 0 else value
            inside = 0 <= place < int(size.value)
            return int_lit(place if inside else value), inside
        if value >= 0:
            return int_lit(value), False
        if not unchecked:
            ok = trace.prim(op.LE, int_lit(-value), size)
            text = bounds_text(self.name, axis).format(value=value, size="{0}")
            trace.check(ok, BoundsError, text, (size,), "Test the length first: `len(x)`.")
        return trace.prim(op.SUB, size, int_lit(-value)), not unchecked

    def _proved(self, axis: int, index: IndexTracer) -> Atom | None:
        """`index` as an index of this axis; None if it is a number that has to be tested.

        A loop index makes its set that of the axis, or raises.
        """
        trace, dim = staging(), self.dims[axis]
        label = trace.label_of(dim)
        if label and label == index.set.label:
            return index.var
        mine, other = trace.structures.get(label), index.set.structure
        if mine is None and other is not None and other.base is not other:
            place = index.place() + (other.first - other.base.first)
            return self._proved(axis, index.moved(place, set_tracer(other.base)))
        if mine is None and trace.sizes.same(dim.size, index.set.atom):
            return index.var
        if not index.exact:
            within = index.within is not None and trace.sizes.same(dim.size, index.within)
            return index.var if within else None
        self._unify(axis, index, mine)
        return index.var

    def _unify(self, axis: int, index: IndexTracer, mine: IndexSet[Any] | None) -> None:
        """Make the sets of an axis and of an index one; raises if their structures differ."""
        trace, dim = staging(), self.dims[axis]
        origin = Origin(f"axis {axis} of `{self.name}`", here())
        is_open = not trace.sizes.is_known(index.set.atom)
        if mine is not None and not is_open:
            other = index.set.structure
            if other is None or not align(other, mine, f"`{index.name}`", origin.text):
                raise IndexSetMismatchError(
                    f"`{index.name}` runs over {index.set.origin}, and is used on {origin.text}, "
                    f"which is over `{trace.label_of(dim)}`.",
                    at=here(),
                    fix="Use an index of the same set, or one that the set makes from a number: "
                    "`s.from_ordinal(k)`, which is tested at run time.",
                )
            return
        target = IndexSetTracer(dim.size, origin, trace.scope, trace.label_of(dim))
        unify(index.set, target, f"`{index.name}`", origin.text)


class TableTracer(ArrayMethods):
    """A table: an array parameter, a result of `table`, a row."""

    is_whole = True

    def __init__(self, var: Var, scope: OpenBlock, name: str = "") -> None:
        assert isinstance(var.type, Table)
        self.held = var
        self.type: Table = var.type
        self.scope = scope
        self.name = name or var.name

    def what(self) -> str:
        """What it is, for messages."""
        return f"the table `{self.name}`"

    def _shown(self) -> str:
        return f"<table {self.held!r}>"

    def rename(self, name: str) -> None:
        """Take the name of the local that holds the table first."""
        var = renamed(self.held, name)
        if var is not self.held:
            self.held, self.name = var, name

    def atom(self) -> Var:
        """The variable; raises if it is out of scope."""
        staging().check_open(self.scope, self.what())
        return self.held

    def __getitem__(self, key: object) -> Any:
        items = _items(key)
        if all(map(is_plain, items)):
            return self.element(items)
        return staging().inputs.arrays.subscript(self, items)

    def operand(self) -> Operand:
        """Raises: a table is no number."""
        raise KernelTypeError(
            f"{self.what()} is a whole table, and one number is needed here.",
            at=here(),
            fix="Index it, `x[i]`; or make one number of it: `.sum()`, `.any()`, `.all()`.",
        )

    def element(
        self, items: tuple[Item, ...], unchecked: bool = False
    ) -> ScalarTracer | TableTracer:
        """An element, or the table of the remaining axes."""
        indices, bounds = place_of(self.name, self.type, items, unchecked)
        (var,) = staging().emit(Index(self.atom(), indices, bounds), (self.name,))
        return value_tracer(var, self.name)

    @property
    def index_sets(self) -> tuple[IndexSetTracer, ...]:
        """The index sets of all axes."""
        trace = staging()
        return tuple(
            IndexSetTracer(
                dim.size, Origin(f"axis {axis} of `{self.name}`"), trace.scope, trace.label_of(dim)
            )
            for axis, dim in enumerate(self.type.dims)
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

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.type.dims)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The type of the elements."""
        elem: Scalar = self.type.elem
        return np.dtype(elem.dtype)

    def __len__(self) -> int:
        self._refuse("the length")

    def __setitem__(self, key: object, value: object) -> NoReturn:
        refuse_write(self.name)


def refuse_write(name: str, parallel: bool | None = None) -> NoReturn:
    """Raise the error for `name[i] = v` in a kernel.

    `parallel` says whether this is in a parallel loop; by default the trace knows.
    """
    if parallel is None:
        scopes = staging().scope.up()
        parallel = any(scope.kind is Kind.PARALLEL for scope in scopes)
    if not parallel:
        raise DataRaceError(
            f"an element of `{name}` is assigned, and a table of a kernel keeps its values.",
            at=here(),
            fix=f"To set it step by step, make `new = pe.state({name})` before the loop and write "
            "`new[i] = ...`; or make the new table at once, `new = pe.table(lambda i: ...)`. "
            "Return it: what a kernel is given stays as it is.",
        )
    raise DataRaceError(
        f"an element of `{name}` is assigned; iterations of a parallel loop could race for it.",
        at=here(),
        fix=f"Make a table, `pe.table(lambda i: ...)`, or make `{name} = pe.accumulator(...)` and "
        f"write `{name}[i] += ...`; outside of parallel loops `{name} = pe.state({name})` may be "
        "overwritten.",
    )


def value_tracer(var: Atom, name: str = "", weak: bool = False) -> ScalarTracer | TableTracer:
    """The tracer of a variable of the innermost open block."""
    scope = staging().scope
    if isinstance(var, Var) and isinstance(var.type, Table):
        return TableTracer(var, scope, name)
    assert isinstance(var.type, Scalar)
    return ScalarTracer(var, var.type, weak, scope)
