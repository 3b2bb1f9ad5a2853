"""Subscripts with slices, new axes, `...` and tables of indices: views of the table.

`x[1:]`, `x[::-1]`, `x[:, 0]`, `x[None]`, `x[..., k]`, `x[idx]`.  Bounds of slices are clipped, as
Python does.  Slices of one length have one index set: the length of a slice is computed once, in
the block that knows the size of the axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from peffects.errors import KernelTypeError, ValueRangeError
from peffects.ir import primitives as op
from peffects.ir.builder import int_lit
from peffects.ir.syntax import BOOL, I64, Atom, FinSet, Lit
from peffects.staging.loops.views import Place, ViewTracer, checked
from peffects.staging.scalars.symbols import (
    ScalarTracer,
    binary,
    compare,
    is_symbolic,
    make,
    select,
    weak_int,
)
from peffects.staging.scalars.whole_numbers import literal_whole, whole_number
from peffects.staging.structures.accumulators import as_table, is_table
from peffects.staging.structures.lengths import Number, known_size, least, minus, most, once
from peffects.staging.structures.tables import Item, TableTracer
from peffects.staging.tracing.size_algebra import is_natural, outermost
from peffects.staging.tracing.trace import here, staging

__all__ = ["UNIT", "sliced", "subscript"]

UNIT = FinSet(int_lit(1))
"""The axis that `None` makes: it goes along with any other."""

At: TypeAlias = Callable[[tuple[Place, ...]], object]


# --- slices --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sliced:
    """What a slice takes of an axis: `count` elements from `start`."""

    start: Number
    step: int
    count: Atom

    def at(self, place: Place) -> object:
        """The place on the axis."""
        number = make(place.operand())  # an index of the slice is none of the axis
        scaled = number if self.step == 1 else binary(op.MUL, number, self.step)
        if isinstance(self.start, int) and self.start == 0:
            return scaled
        return binary(op.ADD, scaled, self.start)


def sliced(size: Atom, key: slice) -> Sliced | None:
    """What `key` takes of an axis of `size`; None if that is the whole axis as it is."""
    size = staging().sizes.representative(size)
    step = _step(key.step)
    key = slice(_bound(key.start), _bound(key.stop), step)
    if step == 1 and key.stop is None and (key.start is None or _is_literal(key.start, 0)):
        return None
    bounds = [b for b in (key.start, key.stop) if b is not None]
    if isinstance(size, Lit) and all(isinstance(b, int) for b in bounds):
        start, stop, step = slice(key.start, key.stop, step).indices(int(size.value))
        return Sliced(start, step, int_lit(len(range(start, stop, step))))
    if step == 1 and all(isinstance(b, int) for b in bounds):
        trimmed = _trimmed(size, key.start or 0, key.stop)
        if trimmed is not None:
            return trimmed
    return _general(size, key, step)


def _trimmed(size: Atom, start: int, stop: int | None) -> Sliced | None:
    """`x[2:]`, `x[:-1]`, `x[1:-1]`: the axis without so many elements at its ends."""
    if start < 0 or (stop is not None and stop >= 0):
        return None
    less = start - (stop or 0)

    def count() -> Number:
        return most(minus(known_size(size), less), 0)

    return Sliced(start, 1, once(("without", size, less), (size,), count))


def _is_literal(number: object, value: int) -> bool:
    return isinstance(number, int) and number == value


def _step(step: object) -> int:
    if step is None:
        return 1
    fix = "Use a literal step; or `pe.table(lambda i: x[i * step], over=n)`."
    found = literal_whole(step, "the step of a slice", fix)
    if found == 0:
        raise ValueRangeError("the step of a slice is 0.", at=here(), fix="Use 1 or -1.")
    return found


def _general(size: Atom, key: slice, step: int) -> Sliced:
    """Any slice: both bounds clipped, then the number of steps between them."""
    bounds: tuple[Number | None, ...] = (key.start, key.stop)
    atoms = [b.atom for b in bounds if isinstance(b, ScalarTracer)]
    sizes = [size, *atoms]
    keys = [b.atom if isinstance(b, ScalarTracer) else b for b in bounds]
    n = known_size(size)

    def first() -> Number:
        default = 0 if step > 0 else minus(n, 1)
        return default if bounds[0] is None else _clipped(bounds[0], n, step)

    def count() -> Number:
        default: Number = n if step > 0 else -1
        stop = default if bounds[1] is None else _clipped(bounds[1], n, step)
        start = first()
        span = minus(stop, start) if step > 0 else minus(start, stop)
        if abs(step) > 1:
            span = binary(op.FLOORDIV, binary(op.ADD, span, abs(step) - 1), abs(step))
        return most(span, 0)

    length = once(("slice", size, step, *keys), sizes, count)
    origin = once(("start", size, step, keys[0]), sizes, first, natural=step > 0)
    start = int(origin.value) if isinstance(origin, Lit) else weak_int(origin)
    return Sliced(start, step, length)


def _bound(bound: object) -> Number | None:
    if bound is None:
        return None
    number = whole_number(bound, "the bound of a slice")
    if isinstance(number, int):
        return number
    atom, home = outermost(number.atom, number.scope)
    if isinstance(atom, Lit):
        return int(atom.value)
    staging().size_homes.setdefault(atom, home)  # a length is computed where its bounds are known
    return ScalarTracer(atom, I64, True, home)


def _clipped(bound: Number, n: Number, step: int) -> Number:
    """A bound counted from the front, and within the axis."""
    low: Number = 0 if step > 0 else -1
    high = n if step > 0 else minus(n, 1)
    if isinstance(bound, int):
        from_front: Number = bound if bound >= 0 else binary(op.ADD, n, bound)
        return least(from_front, high) if bound >= 0 else most(from_front, low)
    counted: Number = bound
    if not is_natural(bound.atom):
        counted = select(compare(op.LT, bound, 0), binary(op.ADD, bound, n), bound)
    return most(least(counted, high), low)


# --- subscripts ----------------------------------------------------------------------------------


@dataclass
class _Subscript:
    """A subscript that is being taken apart: the axes of the result, and where they lead to.

    `at[k]` gives the place on axis k of the table from the places on the axes of the result.
    """

    table: TableTracer
    dims: list[FinSet] = field(default_factory=list)
    at: list[At] = field(default_factory=list)

    def take(self, item: Item, gathered: Gathered | None) -> None:
        """Use up one item."""
        if item is None:
            self.dims.append(UNIT)
        elif isinstance(item, slice):
            self.slice(item)
        elif gathered is not None:
            self.gather(item, gathered)
        else:
            self.fix(item)

    def slice(self, key: slice) -> None:
        """One axis of the table becomes one of the result."""
        dim, place = self.table.type.dims[len(self.at)], len(self.dims)
        part = sliced(dim.size, key)
        self.dims.append(dim if part is None else FinSet(part.count))
        self.at.append(
            (lambda places: places[place])
            if part is None
            else (lambda places: part.at(places[place]))
        )

    def fix(self, item: Item) -> None:
        """One axis of the table is at one place."""
        axis = len(self.at)
        found = _place_at(self.table, axis, item)
        self.at.append(lambda places: found)

    def gather(self, item: Item, gathered: Gathered) -> None:
        """One axis of the table is at the places that a table of indices gives."""
        axis, table = len(self.at), self.table
        if gathered.start is None:
            gathered.start = len(self.dims)
            self.dims += gathered.dims
        elif gathered.start + len(gathered.dims) != len(self.dims):
            raise KernelTypeError(
                f"{table.what()} is indexed with tables on axes that are not side by side.",
                at=here(),
                fix="Write it for elements: `pe.table(lambda i, j: x[a[i], j, b[i]])`.",
            )
        first, count = gathered.start, len(gathered.dims)

        def at(places: tuple[Place, ...]) -> object:
            index = gathered.read(item, places[first : first + count])
            (place,) = checked(table.name, table.type, (index,), first=axis)
            return place

        self.at.append(at)

    def view(self) -> object:
        """The view of the table."""
        table, at = self.table, self.at

        def read(places: tuple[Place, ...]) -> object:
            return table.element(tuple(where(places) for where in at), unchecked=True)

        if not self.dims:
            return read(())
        return ViewTracer(self.dims, table.type.elem, read, f"{table.name}[..]")


class Gathered:
    """The tables of indices of one subscript, which go along with each other."""

    def __init__(self, tables: Sequence[TableTracer], aligned: Aligned) -> None:
        self.dims, self._read = aligned(tables)
        self.start: int | None = None

    def read(self, item: Item, places: tuple[Place, ...]) -> object:
        """The index that `item` stands for at places along the tables' axes."""
        return self._read(as_table(item), places) if is_table(item) else item


Aligned: TypeAlias = Callable[
    [Sequence[TableTracer]],
    tuple[Sequence[FinSet], Callable[[TableTracer, tuple[Place, ...]], object]],
]


def _place_at(table: TableTracer, axis: int, item: Item) -> Place:
    (place,) = checked(table.name, table.type, (item,), first=axis)
    return place


def subscript(table: TableTracer, items: Sequence[Item], aligned: Aligned) -> object:
    """`table[items]`, a view.  Raises KernelTypeError for masks and for too many indices."""
    items = [_index_table(table, item) for item in items]
    items = _without_ellipsis(table, items)
    found = _Subscript(table)
    tables = [as_table(item) for item in items if is_table(item)]
    gathered = Gathered(tables, aligned) if tables else None
    for item in items:
        found.take(item, gathered)
    return found.view()


def _index_table(table: TableTracer, item: Item) -> Item:
    """Lists of integers as arrays; masks and floats are refused."""
    if isinstance(item, list) and not any(map(is_symbolic, item)):
        item = np.array(item)
    if not is_table(item):
        return item
    whole = as_table(item)
    if whole.type.elem == BOOL:
        raise KernelTypeError(
            f"{table.what()} is indexed with a mask; how many elements it takes is not known "
            "before the kernel runs.",
            at=here(),
            fix="Keep the shape: `np.where(mask, x, 0.0)`; count with `mask.sum()`.",
        )
    if not whole.type.elem.is_integer:
        raise KernelTypeError(
            f"{table.what()} is indexed with a table of {whole.type.elem}.",
            at=here(),
            fix="Convert it: `.astype(int)`.",
        )
    return whole


def _without_ellipsis(table: TableTracer, items: Sequence[Item]) -> list[Item]:
    """One item for each axis: `...` written out, missing ones at the end added."""
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > table.ndim or sum(item is Ellipsis for item in items) > 1:
        raise KernelTypeError(
            f"`{table.name}` has {table.ndim} axes and is given {used} indices.",
            at=here(),
            fix="Give at most one index for each axis, and `...` at most once.",
        )
    rest: list[Item] = [slice(None)] * (table.ndim - used)
    where = next((k for k, item in enumerate(items) if item is Ellipsis), len(items))
    return [*items[:where], *rest, *items[where + 1 :]]
