"""numpy's functions that put tables together: concatenate, stack, and arrays of numbers."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from peffects.errors import KernelTypeError
from peffects.ir import primitives as op
from peffects.ir.builder import int_lit
from peffects.ir.syntax import Atom, Scalar
from peffects.staging.arrays.whole_tables import matched
from peffects.staging.loops.branches import choose
from peffects.staging.loops.views import Place, tabulate
from peffects.staging.numpy_surface.shapes import (
    atleast_1d,
    atleast_2d,
    expand_dims,
    literal_axis,
    ravel,
)
from peffects.staging.scalars.symbols import binary, compare, convert, is_whole, select
from peffects.staging.structures.accumulators import as_table
from peffects.staging.structures.indices import IndexSetTracer, Origin
from peffects.staging.structures.lengths import Number, known_size, once, plus
from peffects.staging.structures.tables import TableTracer
from peffects.staging.tracing.promotion import join
from peffects.staging.tracing.trace import here, staging

__all__ = ["column_stack", "concatenate", "hstack", "of_numbers", "stack", "table_of", "vstack"]


def table_of(part: Any) -> TableTracer:
    """What numpy takes as an array: a table, or a list of numbers."""
    return as_table(of_numbers(part) if isinstance(part, tuple | list) else part)


def _tables(parts: Any) -> list[TableTracer]:
    if not isinstance(parts, tuple | list) or not parts:
        raise KernelTypeError(
            "tables are joined that are not in a list.", at=here(), fix="`np.stack([x, y])`."
        )
    tables = [table_of(part) for part in parts]
    if len({table.ndim for table in tables}) > 1:
        raise KernelTypeError(
            "tables with different numbers of axes are joined.",
            at=here(),
            fix="Give each as many axes: `x[None]` has one more.",
        )
    return tables


def _other_axes(tables: Sequence[TableTracer], axis: int | None) -> list[IndexSetTracer]:
    """The index sets of the first table, made one with those of the others but for `axis`."""
    sets = list(tables[0].index_sets)
    for table in tables[1:]:
        for k, mine in enumerate(table.index_sets):
            if k != axis:
                sets[k] = matched(sets[k], mine)
    return sets


def concatenate(arrays: Any, axis: int | None = 0) -> object:
    """`np.concatenate`."""
    tables = _tables(arrays)
    if axis is None:
        tables, axis = [as_table(ravel(table)) for table in tables], 0
    k = literal_axis(axis, tables[0].ndim)
    sizes = [table.type.dims[k].size for table in tables]
    elems: list[Scalar] = [table.type.elem for table in tables]
    elem = functools.reduce(lambda x, y: join(x, False, y, False)[0], elems)
    ends = [_end(sizes[: n + 1]) for n in range(len(sizes))]
    sets = _other_axes(tables, k)
    sets[k] = IndexSetTracer(ends[-1], Origin("joined tables", here()), staging().scope)

    def read(places: tuple[Place, ...]) -> object:
        def element(n: int) -> object:
            start: Number = known_size(ends[n - 1]) if n else 0
            place = binary(op.SUB, places[k], start)
            items = (*places[:k], place, *places[k + 1 :])
            return convert(tables[n].element(items, unchecked=True), elem)

        def from_(n: int) -> object:
            if n == len(tables) - 1:
                return element(n)
            is_here = compare(op.LT, places[k], known_size(ends[n]))
            return choose(staging(), is_here, lambda: element(n), lambda: from_(n + 1))

        return from_(0)

    return tabulate(sets, read)


def _end(sizes: Sequence[Atom]) -> Atom:
    """The sum of the lengths of the first tables."""

    def total() -> Number:
        return functools.reduce(plus, map(known_size, sizes))

    return once(("joined", *sizes), sizes, total)


def stack(arrays: Any, axis: int = 0) -> object:
    """`np.stack`."""
    parts = list(arrays) if isinstance(arrays, tuple | list) else arrays
    if isinstance(parts, list) and parts and not any(map(is_whole, parts)):
        return of_numbers(parts)
    tables = _tables(parts)
    k = literal_axis(axis, tables[0].ndim + 1)
    sets = _other_axes(tables, None)
    count = IndexSetTracer(int_lit(len(tables)), Origin("stacked tables", here()), staging().scope)
    sets.insert(k, count)

    def read(places: tuple[Place, ...]) -> object:
        own = (*places[:k], *places[k + 1 :])
        return _pick([table.element(own, unchecked=True) for table in tables], places[k])

    return tabulate(sets, read)


def _pick(values: Sequence[object], place: Place) -> object:
    """The value of a number."""
    last = len(values) - 1
    return functools.reduce(
        lambda rest, n: select(compare(op.EQ, place, n), values[n], rest),
        reversed(range(last)),
        values[last],
    )


def of_numbers(values: Sequence[Any]) -> object:
    """The table of numbers that are known when the kernel runs; `np.array([a, b])`."""
    if not values:
        raise KernelTypeError("a table is made of no numbers.", at=here(), fix="Use `np.zeros(0)`.")
    if any(isinstance(value, tuple | list) or is_whole(value) for value in values):
        return stack(
            [of_numbers(v) if isinstance(v, tuple | list) else as_table(v) for v in values]
        )
    sets = (IndexSetTracer(int_lit(len(values)), Origin("a list", here()), staging().scope),)
    return tabulate(sets, lambda places: _pick(values, places[0]))


def vstack(arrays: Any) -> object:
    """`np.vstack`."""
    return concatenate([atleast_2d(part) for part in arrays], axis=0)


def hstack(arrays: Any) -> object:
    """`np.hstack`."""
    parts = [table_of(part if isinstance(part, list) else atleast_1d(part)) for part in arrays]
    return concatenate(parts, axis=0 if parts[0].ndim == 1 else 1)


def column_stack(arrays: Any) -> object:
    """`np.column_stack`."""
    parts = [table_of(part) for part in arrays]
    return concatenate([expand_dims(p, 1) if p.ndim == 1 else p for p in parts], axis=1)
