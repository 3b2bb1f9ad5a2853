"""Views: tables that are not stored, whose elements are computed anew at each use.

Slices, transposes, gathers and `pe.view` are views.  A view is read like any table, and becomes a
stored one (`atom`) where one is needed, as when a kernel returns it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from peffects.errors import BoundsError, KernelTypeError
from peffects.ir import primitives as op
from peffects.ir.builder import int_lit
from peffects.ir.messages import bounds_text
from peffects.ir.syntax import I64, Atom, FinSet, Lit, Scalar, Table, Var
from peffects.staging.loops.parallel_loops import LoopBody, bind_index, finish_table
from peffects.staging.scalars.arithmetic import Operand, cast
from peffects.staging.scalars.symbols import ScalarTracer, lift, make
from peffects.staging.structures.indices import IndexSetTracer, IndexTracer, Origin
from peffects.staging.structures.subscripts import atomic_items
from peffects.staging.structures.tables import Item, TableTracer, place_on
from peffects.staging.tracing.trace import Kind, OpenBlock, here, staging

__all__ = ["Place", "Read", "ViewTracer", "checked", "identity", "over_dims", "tabulate"]

Place: TypeAlias = "IndexTracer | ScalarTracer"
"""An index that is in bounds: of a loop over the axis, or an integer that was tested."""
Read: TypeAlias = Callable[[tuple[Place, ...]], object]

_NAMES = "ijklmnpq"


class ViewTracer(TableTracer):
    """A table that is not stored: `read` gives the element at a place for each axis."""

    def __init__(self, dims: Sequence[FinSet], elem: Scalar, read: Read, name: str = "") -> None:
        self.type = Table(tuple(dims), elem)
        self.read = read
        self.name = name or "a view"
        self.scope = staging().scope
        self.src = here()
        self._stored: tuple[OpenBlock, Var] | None = None

    def _shown(self) -> str:
        return f"<view {self.name}>"

    def rename(self, name: str) -> None:
        """Take the name of the local that holds the view first."""
        if self.name == "a view":
            self.name = name

    def atom(self) -> Var:
        """The table, stored."""
        trace = staging()
        trace.check_open(self.scope, self.what())
        if self._stored is None or not self._stored[0].encloses(trace.scope):
            with trace.located(self.src):
                table = tabulate(self.index_sets, self.read)
            assert isinstance(table, TableTracer)
            self._stored = trace.scope, table.atom()
        return self._stored[1]

    def element(
        self, items: tuple[Item, ...], unchecked: bool = False
    ) -> ScalarTracer | TableTracer:
        """An element, or a view of the remaining axes."""
        staging().check_open(self.scope, self.what())
        places = checked(self.name, self.type, items, unchecked)
        rest = self.type.dims[len(places) :]
        if rest:
            return ViewTracer(rest, self.type.elem, lambda more: self.read(places + more))
        number = lift(self.read(places), "an element of a view")
        elem = self.type.elem
        return make(Operand(cast(number, elem), elem, False))


def checked(
    name: str, t: Table, items: Sequence[Item], unchecked: bool = False, first: int = 0
) -> tuple[Place, ...]:
    """The indices into a table of type `t`, from axis `first`, tested here and now if need be."""
    items = atomic_items(items, t.dims[first:])
    if len(items) > len(t.dims) - first:
        raise KernelTypeError(
            f"`{name}` has {len(t.dims)} axes and is given {len(items)} indices.",
            at=here(),
            fix="Give at most one index for each axis.",
        )
    places: list[Place] = []
    for axis, item in enumerate(items, first):
        atom, is_proved = place_on(name, t, axis, item, unchecked)
        if isinstance(item, IndexTracer) and item.var is atom:
            places.append(item)
            continue
        if not (is_proved or unchecked):
            _check_bounds(name, axis, atom, t.dims[axis].size)
        places.append(make(Operand(atom, I64, True)))
    return tuple(places)


def _check_bounds(name: str, axis: int, index: Atom, size: Atom) -> None:
    trace = staging()
    known = trace.sizes.representative(size)
    if isinstance(index, Lit) and isinstance(known, Lit) and 0 <= index.value < known.value:
        return
    low = trace.prim(op.LE, int_lit(0), index)
    ok = trace.prim(op.AND, low, trace.prim(op.LT, index, size))
    text = bounds_text(name, axis).format(value="{0}", size="{1}")
    trace.check(ok, BoundsError, text, (index, size), "Index within the table.")


def tabulate(sets: Sequence[IndexSetTracer], read: Read, operation: str = "table") -> object:
    """The stored table of `read(i, j, ..)` for all indices of `sets`."""
    trace = staging()
    with trace.inside(Kind.PARALLEL) as scope:
        hints = _NAMES[: len(sets)].ljust(len(sets), "i")
        pairs = [
            bind_index(index_set, hint, scope) for index_set, hint in zip(sets, hints, strict=True)
        ]
        value = read(tuple(index for _, index in pairs))
        return finish_table(LoopBody(operation, tuple(var for var, _ in pairs), value, scope))


def over_dims(dims: Sequence[FinSet], text: str) -> tuple[IndexSetTracer, ...]:
    """The axes of a table as index sets to loop over; `text` says whose they are."""
    scope = staging().scope
    return tuple(
        IndexSetTracer(dim.size, Origin(f"axis {axis} of {text}", here()), scope, dim.label)
        for axis, dim in enumerate(dims)
    )


def identity(table: TableTracer) -> Read:
    """How to read `table` at places that are in bounds."""
    return lambda places: table.element(places, unchecked=True)
