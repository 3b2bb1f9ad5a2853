"""numpy's reductions of whole tables, over all axes or along some of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from peffects.errors import KernelTypeError, ValueRangeError
from peffects.ir import primitives as op
from peffects.ir.builder import int_lit
from peffects.ir.syntax import Lit, Monoid
from peffects.staging.arrays.slices import UNIT
from peffects.staging.loops import folds, ops
from peffects.staging.loops.parallel_loops import finish_reduction, trace_body
from peffects.staging.loops.views import Place, ViewTracer, tabulate
from peffects.staging.scalars import maths
from peffects.staging.scalars.symbols import (
    binary,
    convert,
    is_whole,
    lift,
    power,
    select,
    weak_int,
)
from peffects.staging.scalars.whole_numbers import known_whole, literal_whole
from peffects.staging.structures.accumulators import as_table
from peffects.staging.structures.array_methods import element_type
from peffects.staging.structures.tables import TableTracer
from peffects.staging.tracing.trace import here, staging

__all__ = [
    "along", "average", "count_nonzero", "cumprod", "cumsum", "mean", "normalized_axes", "ptp",
    "reduction", "std", "var",
]  # fmt: skip

Axes: TypeAlias = "int | Sequence[int] | None"
_MONOIDS = {
    "sum": Monoid.ADD, "prod": Monoid.MUL, "min": Monoid.MIN, "max": Monoid.MAX,
    "any": Monoid.OR, "all": Monoid.AND,
}  # fmt: skip

# --- axes ----------------------------------------------------------------------------------------


def normalized_axes(axis: Axes, ndim: int) -> tuple[int, ...]:
    """The axes that `axis` names, counted from the front; None names all."""
    if axis is None:
        return tuple(range(ndim))
    given = (axis,) if not isinstance(axis, tuple | list) else tuple(axis)
    axes: list[int] = []
    for each in given:
        number = literal_whole(each, "`axis`", "Write the number: `axis=0`.")
        if not -ndim <= number < ndim:
            raise KernelTypeError(
                f"a table with {ndim} axes has no axis {number}.",
                at=here(),
                fix=f"Give a literal from {-ndim} to {ndim - 1}.",
            )
        axes.append(number % ndim)
    if len(set(axes)) < len(axes):
        raise KernelTypeError("an axis is given twice.", at=here(), fix="Give each axis once.")
    return tuple(axes)


def along(
    table: TableTracer,
    axis: Axes,
    keepdims: bool,
    reduce: Callable[[TableTracer], object],
) -> object:
    """`reduce` of each part of `table` along the axes, which must give a number."""
    axes = normalized_axes(axis, table.ndim)
    kept = [k for k in range(table.ndim) if k not in axes]
    dims = table.type.dims

    def part(places: tuple[Place, ...]) -> object:
        def read(inner: tuple[Place, ...]) -> object:
            all_places = dict(zip(kept, places, strict=True)) | dict(zip(axes, inner, strict=True))
            return table.element(tuple(all_places[k] for k in range(table.ndim)), unchecked=True)

        return reduce(ViewTracer([dims[k] for k in axes], table.type.elem, read, table.name))

    if not kept:
        number = reduce(table)
        return number if not keepdims else with_unit_axes(number, table.ndim)
    sets = tuple(table.index_sets[k] for k in kept)
    reduced = tabulate(sets, part)
    if not keepdims:
        return reduced
    whole = as_table(reduced)
    return ViewTracer(
        [dims[k] if k in kept else UNIT for k in range(table.ndim)],
        whole.type.elem,
        lambda places: whole.element(tuple(places[k] for k in kept), unchecked=True),
        whole.name,
    )


def with_unit_axes(number: object, ndim: int) -> TableTracer:
    """A number as a table whose axes have length 1."""
    elem = lift(number).type
    return ViewTracer([UNIT] * ndim, elem, lambda places: number)


def count_along(table: TableTracer, axis: Axes) -> object:
    """The number of elements in each part along the axes."""
    count: object = 1
    for k in normalized_axes(axis, table.ndim):
        count = binary(op.MUL, count, weak_int(table.type.dims[k].size))
    return count


def check_not_empty(operation: str, table: TableTracer, axis: Axes) -> None:
    """ValueRangeError, when the kernel runs, unless the axes that are reduced have elements."""
    trace = staging()
    for k in normalized_axes(axis, table.ndim):
        size = trace.sizes.representative(table.type.dims[k].size)
        if not (isinstance(size, Lit) and size.value):
            some = trace.prim(op.LT, int_lit(0), size)
            text = f"`{operation}` along axis {k} of `{table.name}`, which is empty."
            trace.check(some, ValueRangeError, text, (), "Give a table that has elements.")


# --- reductions by a monoid ----------------------------------------------------------------------


def reduction(name: str) -> Callable[..., object]:
    """`np.sum` and its kin."""
    monoid = _MONOIDS[name]

    def reduce(x: Any, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> object:
        x = x if dtype is None else convert(x, element_type(dtype))
        if not is_whole(x):
            return x
        table = as_table(x)
        if monoid in (Monoid.MIN, Monoid.MAX):
            check_not_empty(name, table, axis)
        return along(table, axis, keepdims, lambda part: _combined(name, part, monoid))

    return reduce


def _combined(name: str, part: TableTracer, monoid: Monoid) -> object:
    with trace_body(name, lambda i: part[i], part.index_sets) as body:
        return finish_reduction(body, monoid)


_sum = reduction("sum")


def mean(x: Any, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> object:
    """`np.mean`; nan if there are no elements."""
    if not is_whole(x):
        return binary(op.DIV, x, 1)
    table = as_table(x)
    total = _sum(_as_float(table), axis=axis, dtype=dtype, keepdims=keepdims)
    return binary(op.DIV, total, count_along(table, axis))


def _as_float(table: TableTracer) -> object:
    """Integers as float64, before they are summed: as numpy does for means."""
    return table if table.type.elem.is_float else binary(op.DIV, table, 1)


def average(x: Any, axis: Axes = None, weights: Any = None, keepdims: bool = False) -> object:
    """`np.average`."""
    if weights is None:
        return mean(x, axis=axis, keepdims=keepdims)
    total = _sum(binary(op.MUL, x, weights), axis=axis, keepdims=keepdims)
    return binary(op.DIV, total, _sum(weights, axis=axis, keepdims=keepdims))


def var(x: Any, axis: Axes = None, ddof: int = 0, keepdims: bool = False) -> object:
    """`np.var`, in two passes."""
    table = as_table(x)
    center = mean(table, axis=axis, keepdims=True)
    squares = power(binary(op.SUB, table, center), 2)
    count = count_along(table, axis)
    if known_whole(ddof) != 0:
        count = binary(op.MAX, binary(op.SUB, count, ddof), 0)
    return binary(op.DIV, _sum(squares, axis=axis, keepdims=keepdims), count)


def std(x: Any, axis: Axes = None, ddof: int = 0, keepdims: bool = False) -> object:
    """`np.std`."""
    return maths.sqrt(var(x, axis=axis, ddof=ddof, keepdims=keepdims))


def ptp(x: Any, axis: Axes = None, keepdims: bool = False) -> object:
    """`np.ptp`: the largest element minus the smallest."""
    high = reduction("max")(x, axis=axis, keepdims=keepdims)
    return binary(op.SUB, high, reduction("min")(x, axis=axis, keepdims=keepdims))


def count_nonzero(x: Any, axis: Axes = None, keepdims: bool = False) -> object:
    """`np.count_nonzero`."""
    return _sum(select(x, 1, 0), axis=axis, keepdims=keepdims)


def first(name: str) -> Callable[..., object]:
    """`np.argmin` and `np.argmax`."""
    find: Callable[[object], object] = getattr(ops, name)

    def function(x: Any, axis: int | None = None, keepdims: bool = False) -> object:
        table = as_table(x)
        if axis is None and table.ndim > 1:
            place = find(table.ravel())
            return place if not keepdims else with_unit_axes(place, table.ndim)
        return along(table, axis, keepdims, find)

    return function


# --- running totals ------------------------------------------------------------------------------


def _running(of_vector: Callable[..., object]) -> Callable[..., object]:
    """`np.cumsum` and `np.cumprod`: sequential along one axis, parallel along the others."""

    def function(x: Any, axis: int | None = None, dtype: Any = None) -> object:
        x = x if dtype is None else convert(x, element_type(dtype))
        table = as_table(x)
        if axis is None or table.ndim == 1:
            return of_vector(table.ravel())
        (k,) = normalized_axes(axis, table.ndim)
        last = as_table(table.swapaxes(k, -1))
        rows = tabulate(last.index_sets[:-1], lambda places: of_vector(last.element(places)))
        return as_table(rows).swapaxes(k, -1)

    return function


cumsum = _running(folds.cumsum)
cumprod = _running(folds.cumprod)
