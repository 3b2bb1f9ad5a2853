"""numpy's functions that choose among elements: select, take_along_axis, percentiles; and kron."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from peffects.errors import KernelTypeError
from peffects.ir import primitives as op
from peffects.ir.syntax import FinSet
from peffects.staging.arrays import sorting
from peffects.staging.arrays.slices import UNIT
from peffects.staging.arrays.whole_tables import broadcast, element_at
from peffects.staging.loops.views import Place, ViewTracer, checked, over_dims, tabulate
from peffects.staging.numpy_surface.joins import stack, table_of
from peffects.staging.numpy_surface.shapes import literal_axis, moveaxis, quotient, ravel
from peffects.staging.scalars.symbols import binary, is_whole, make, select
from peffects.staging.structures.accumulators import as_table
from peffects.staging.structures.lengths import known_size, once, times
from peffects.staging.structures.tables import TableTracer
from peffects.staging.tracing.trace import here

__all__ = ["choices", "kron", "percentile", "quantile", "take_along_axis"]


def choices(condlist: Any, choicelist: Any, default: Any = 0) -> object:
    """`np.select`: of each element the first choice whose condition holds."""
    if len(condlist) != len(choicelist) or not condlist:
        raise KernelTypeError(
            f"`np.select` is given {len(condlist)} conditions and {len(choicelist)} choices.",
            at=here(),
            fix="Give one choice for each condition, and at least one.",
        )
    rest = default
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        rest = select(condition, choice, rest)
    return rest


def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> object:
    """`np.take_along_axis`: along one axis the elements that a table of places names."""
    table, places = table_of(arr), table_of(indices)
    if axis is None:
        table, axis = as_table(ravel(table)), 0
    k = literal_axis(axis, table.ndim)
    if places.ndim != table.ndim or not places.type.elem.is_integer:
        raise KernelTypeError(
            f"`np.take_along_axis` takes integers along {table.ndim} axes, as many as the table "
            f"has, and is given {places.type.elem} along {places.ndim}.",
            at=here(),
            fix="Give places with an axis for each of the table: `places[:, None]` has one more.",
        )
    dims = [UNIT if axis == k else dim for axis, dim in enumerate(table.type.dims)]
    frame = ViewTracer(dims, table.type.elem, lambda own: 0, table.name)
    sets = broadcast([frame, places])

    def read(own: tuple[Place, ...]) -> object:
        (place,) = checked(table.name, table.type, (element_at(places, own),), first=k)
        row = ViewTracer(
            dims,
            table.type.elem,
            lambda items: table.element((*items[:k], place, *items[k + 1 :]), unchecked=True),
        )
        return element_at(row, own)

    return tabulate(sets, read)


def kron(a: Any, b: Any) -> object:
    """`np.kron`: each element of the first table times the whole second one."""
    x, y = table_of(a), table_of(b)
    ndim = max(x.ndim, y.ndim)
    first, second = _with_axes(x, ndim), _with_axes(y, ndim)
    dims = []
    for left, right in zip(first, second, strict=True):
        sizes = (left.size, right.size)
        dims.append(FinSet(once(("product", *sizes), sizes, lambda s=sizes: _product(s))))  # type: ignore[misc]

    def read(places: tuple[Place, ...]) -> object:
        numbers = [make(place.operand()) for place in places]
        widths = [known_size(dim.size) for dim in second]
        pairs = list(zip(numbers, widths, strict=True))
        outer = [quotient(op.FLOORDIV, place, width) for place, width in pairs]
        inner = [quotient(op.MOD, place, width) for place, width in pairs]
        return binary(
            op.MUL,
            x.element(tuple(outer[ndim - x.ndim :]), unchecked=True),
            y.element(tuple(inner[ndim - y.ndim :]), unchecked=True),
        )

    return tabulate(over_dims(dims, "a Kronecker product"), read)


def _product(sizes: Sequence[Any]) -> Any:
    return times(*map(known_size, sizes))


def _with_axes(table: TableTracer, ndim: int) -> list[FinSet]:
    return [UNIT] * (ndim - table.ndim) + list(table.type.dims)


# --- order statistics ----------------------------------------------------------------------------


def quantile(a: Any, q: Any, axis: int | None = None) -> object:
    """`np.quantile`, of one fraction or of a list of them."""
    if isinstance(q, tuple | list):
        return stack([quantile(a, part, axis) for part in q])
    if is_whole(q):
        raise KernelTypeError(
            "`np.quantile` is given a table of fractions.",
            at=here(),
            fix="Give a list of numbers; or `pe.table(lambda k: pe.quantile(x, q[k]))`.",
        )
    table = table_of(a)
    if axis is None:
        return sorting.quantile(ravel(table), q)
    return sorting.quantile(moveaxis(table, literal_axis(axis, table.ndim), -1), q)


def percentile(a: Any, q: Any, axis: int | None = None) -> object:
    """`np.percentile`: quantiles in hundredths."""
    if isinstance(q, tuple | list):
        return stack([percentile(a, part, axis) for part in q])
    return quantile(a, q if is_whole(q) else binary(op.DIV, q, 100.0), axis)
