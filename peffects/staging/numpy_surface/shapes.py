"""numpy's functions that put elements in other places: views of the table where possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from peffects.errors import KernelTypeError, ValueRangeError
from peffects.ir import primitives as op
from peffects.ir.builder import int_lit
from peffects.ir.syntax import I64, FinSet
from peffects.staging.arrays.slices import UNIT
from peffects.staging.arrays.whole_tables import matched
from peffects.staging.loops.views import Place, ViewTracer, tabulate
from peffects.staging.numpy_surface.reductions import normalized_axes
from peffects.staging.scalars import arithmetic
from peffects.staging.scalars.symbols import binary, compare, is_whole, lift, make, select
from peffects.staging.scalars.whole_numbers import known_whole, literal_whole, whole_number
from peffects.staging.structures.accumulators import as_table
from peffects.staging.structures.domains import as_sets
from peffects.staging.structures.lengths import (
    Number,
    is_unit,
    known_size,
    least,
    minus,
    most,
    once,
    sizes_product,
    times,
)
from peffects.staging.structures.tables import TableTracer
from peffects.staging.tracing.trace import here, staging

__all__ = [
    "atleast_1d", "atleast_2d", "broadcast_to", "diag", "diagonal", "expand_dims", "flip",
    "literal_axis", "meshgrid", "moveaxis", "quotient", "ravel", "repeat", "reshape", "roll",
    "shape_of", "squeeze", "swapaxes", "take", "tile", "transpose", "tril", "triu",
]  # fmt: skip

Where: TypeAlias = Callable[[tuple[Place, ...]], Sequence[object]]


def remapped(table: TableTracer, dims: Sequence[FinSet], where: Where) -> ViewTracer:
    """The view with axes `dims` whose element at `places` is that of `table` at `where(places)`."""
    return ViewTracer(
        dims,
        table.type.elem,
        lambda places: table.element(tuple(where(places)), unchecked=True),
        table.name,
    )


def literal_axis(axis: object, ndim: int) -> int:
    """One axis, counted from the front."""
    return normalized_axes(literal_whole(axis, "`axis`", "Write the number: `axis=0`."), ndim)[0]


def shape_of(shape: object) -> tuple[FinSet, ...]:
    """The axes that a shape means: one size or several."""
    return tuple(FinSet(s.atom, s.label) for s in as_sets(shape))


def quotient(primitive: op.Primitive, x: object, y: Number) -> object:
    """`x // y` or `x % y` where y cannot be 0: an element is read, so the table has some."""
    if isinstance(y, int) and y == 1:
        return x if primitive is op.FLOORDIV else 0
    atoms = tuple(arithmetic.cast(lift(part), I64) for part in (x, y))
    return make(arithmetic.emit(primitive, atoms, True))


# --- axes in another order -----------------------------------------------------------------------


def transpose(x: Any, axes: Sequence[int] | None = None) -> object:
    """`np.transpose`."""
    table = as_table(x)
    order = tuple(reversed(range(table.ndim))) if axes is None else axes
    order = normalized_axes(tuple(order), table.ndim)
    if len(order) != table.ndim:
        raise KernelTypeError(
            f"{len(order)} axes are given for a table that has {table.ndim}.",
            at=here(),
            fix="Give each axis once.",
        )
    if order == tuple(range(table.ndim)):
        return table
    places_of = [order.index(axis) for axis in range(table.ndim)]
    dims = [table.type.dims[axis] for axis in order]
    return remapped(table, dims, lambda places: [places[k] for k in places_of])


def swapaxes(x: Any, axis1: int, axis2: int) -> object:
    """`np.swapaxes`."""
    ndim = as_table(x).ndim
    one, two = literal_axis(axis1, ndim), literal_axis(axis2, ndim)
    order = list(range(ndim))
    order[one], order[two] = two, one
    return transpose(x, order)


def moveaxis(x: Any, source: int, destination: int) -> object:
    """`np.moveaxis`, of one axis."""
    ndim = as_table(x).ndim
    order = [axis for axis in range(ndim) if axis != literal_axis(source, ndim)]
    order.insert(literal_axis(destination, ndim), literal_axis(source, ndim))
    return transpose(x, order)


def expand_dims(x: Any, axis: int) -> object:
    """`np.expand_dims`, of one axis."""
    table = as_table(x)
    place = literal_axis(axis, table.ndim + 1)
    dims = list(table.type.dims)
    dims.insert(place, UNIT)
    return remapped(table, dims, lambda places: places[:place] + places[place + 1 :])


def squeeze(x: Any, axis: int | Sequence[int] | None = None) -> object:
    """`np.squeeze`: without axes of length 1 (those that have it for sure, or that are given)."""
    table = as_table(x)
    dims = table.type.dims
    if axis is None:
        gone = [k for k, dim in enumerate(dims) if is_unit(dim.size)]
    else:
        gone = list(normalized_axes(axis, table.ndim))
    items = tuple(0 if k in gone else slice(None) for k in range(table.ndim))
    for k in gone:
        _check_unit(table, k)
    return table[items] if gone else table


def _check_unit(table: TableTracer, axis: int) -> None:
    size = table.type.dims[axis].size
    if is_unit(size):
        return
    trace = staging()
    ok = trace.prim(op.EQ, size, int_lit(1))
    text = f"axis {axis} of `{table.name}` has length {{0}} and is squeezed."
    trace.check(ok, ValueRangeError, text, (size,), "Squeeze axes of length 1.")


def atleast_1d(x: Any) -> object:
    """`np.atleast_1d`."""
    if is_whole(x):
        return x
    return ViewTracer([UNIT], lift(x).type, lambda places: make(lift(x)))


def atleast_2d(x: Any) -> object:
    """`np.atleast_2d`."""
    table = as_table(atleast_1d(x))
    return table if table.ndim > 1 else expand_dims(table, 0)


# --- other axes ----------------------------------------------------------------------------------


def reshape(x: Any, shape: Any) -> object:
    """`np.reshape`; ValueRangeError, when the kernel runs, if the sizes do not fit."""
    table = as_table(x)
    sizes = list(shape) if isinstance(shape, tuple | list) else [shape]
    dims = _reshaped_dims(table, sizes)
    old = [dim for dim in table.type.dims if not is_unit(dim.size)]
    new = [dim for dim in dims if not is_unit(dim.size)]
    same = staging().sizes.same
    if len(old) == len(new) and all(same(a.size, b.size) for a, b in zip(old, new, strict=True)):
        return remapped(table, dims, _along_units(table, dims))
    strides = [known_size(dim.size) for dim in dims]
    return remapped(table, dims, lambda places: _unflat(table, _flat(places, strides)))


def _along_units(table: TableTracer, dims: Sequence[FinSet]) -> Where:
    """Where places lead if only axes of length 1 differ."""
    kept = [k for k, dim in enumerate(dims) if not is_unit(dim.size)]

    def where(places: tuple[Place, ...]) -> Sequence[object]:
        rest = iter([places[k] for k in kept])
        return [0 if is_unit(dim.size) else next(rest) for dim in table.type.dims]

    return where


def _reshaped_dims(table: TableTracer, sizes: Sequence[Any]) -> list[FinSet]:
    """The axes of a new shape, of which one may be left open by -1."""

    def elements() -> Number:
        return sizes_product([known_size(dim.size) for dim in table.type.dims])

    is_open = [known_whole(size) == -1 for size in sizes]
    if sum(is_open) > 1:
        raise KernelTypeError(
            "more than one size of a shape is -1.", at=here(), fix="Leave at most one open."
        )
    dims = [None if free else shape_of(size)[0] for size, free in zip(sizes, is_open, strict=True)]

    def wanted() -> Number:
        return sizes_product([known_size(dim.size) for dim in dims if dim is not None])

    known = wanted()
    rest: Number = 1
    if any(is_open):
        atoms = [dim.size for dim in (*dims, *table.type.dims) if dim is not None]
        key = ("rest", *atoms)
        size = once(key, atoms, lambda: _whole_quotient(elements(), most(wanted(), 1)))
        dims = [FinSet(size) if dim is None else dim for dim in dims]
        rest = known_size(size)
    if not (isinstance(known, int) and known == 1 and any(is_open)):
        _check_total(table, elements(), times(known, rest))
    return [dim for dim in dims if dim is not None]


def _whole_quotient(x: Number, y: Number) -> Number:
    if isinstance(x, int) and isinstance(y, int):
        return x // y
    return quotient(op.FLOORDIV, x, y)  # type: ignore[return-value]


def _check_total(table: TableTracer, total: Number, wanted: Number) -> None:
    """The number of elements must not change."""
    what = f"`{table.name}`"
    fix = "Give sizes whose product is the number of elements; one of them may be -1."
    if isinstance(total, int) and isinstance(wanted, int):
        if total != wanted:
            raise ValueRangeError(
                f"{what} has {total} elements, and the new shape {wanted}.", at=here(), fix=fix
            )
        return
    trace = staging()
    operands = tuple(arithmetic.cast(lift(number), I64) for number in (total, wanted))
    if operands[0] == operands[1]:
        return
    text = f"{what} has {{0}} elements, and the new shape {{1}}."
    trace.check(trace.prim(op.EQ, *operands), ValueRangeError, text, operands, fix)


def _flat(places: Sequence[object], sizes: Sequence[Number]) -> object:
    """The number of an element in row-major order."""
    flat = places[0]
    for place, size in zip(places[1:], sizes[1:], strict=True):
        flat = binary(op.ADD, binary(op.MUL, flat, size), place)
    return flat


def _unflat(table: TableTracer, flat: object) -> list[object]:
    """The indices of the element of a number."""
    places: list[object] = []
    for dim in reversed(table.type.dims[1:]):
        size = known_size(dim.size)
        places.append(quotient(op.MOD, flat, size))
        flat = quotient(op.FLOORDIV, flat, size)
    if isinstance(flat, int):
        return [flat, *reversed(places)]
    # A number, even where `flat` is the index of a loop: its index set is not the axis's.
    return [make(lift(flat)), *reversed(places)]


def ravel(x: Any) -> object:
    """`np.ravel`: all elements along one axis."""
    table = as_table(x)
    return table if table.ndim == 1 else reshape(table, (-1,))


def broadcast_to(x: Any, shape: Any) -> object:
    """`np.broadcast_to`."""
    dims = shape_of(shape)
    if not is_whole(x):
        return ViewTracer(dims, lift(x).type, lambda places: make(lift(x)))
    table = as_table(x)
    if table.ndim > len(dims):
        raise KernelTypeError(
            f"{table.what()} has {table.ndim} axes, and the shape {len(dims)}.",
            at=here(),
            fix="Give at least as many sizes as there are axes.",
        )
    missing = len(dims) - table.ndim
    frame = ViewTracer(dims, table.type.elem, lambda places: 0, "the shape")
    for mine, wanted in zip(table.index_sets, frame.index_sets[missing:], strict=True):
        if not is_unit(mine.atom):
            matched(mine, wanted)

    def where(places: tuple[Place, ...]) -> Sequence[object]:
        own = zip(table.type.dims, places[missing:], strict=True)
        return [0 if is_unit(dim.size) else place for dim, place in own]

    return remapped(table, dims, where)


def meshgrid(*tables: Any, indexing: str = "xy") -> list[object]:
    """`np.meshgrid` of tables with one axis."""
    axes = [as_table(table) for table in tables]
    order = list(range(len(axes)))
    if indexing == "xy" and len(axes) > 1:
        order[:2] = [1, 0]
    dims: list[Any] = [None] * len(axes)
    for table, axis in zip(axes, order, strict=True):
        dims[axis] = table.type.dims[0]

    def along(table: TableTracer, axis: int) -> object:
        return remapped(table, dims, lambda places: (places[axis],))

    return [along(table, axis) for table, axis in zip(axes, order, strict=True)]


# --- other places --------------------------------------------------------------------------------


def flip(x: Any, axis: int | Sequence[int] | None = None) -> object:
    """`np.flip`."""
    table = as_table(x)
    axes = normalized_axes(axis, table.ndim)
    key = tuple(slice(None, None, -1) if k in axes else slice(None) for k in range(table.ndim))
    return table[key]


def roll(x: Any, shift: Any, axis: int | Sequence[int] | None = None) -> object:
    """`np.roll`, along some axes or, without `axis`, of all elements in their order."""
    table = as_table(x)
    if axis is None and table.ndim > 1:
        return reshape(roll(ravel(table), shift), table.shape)
    if isinstance(axis, tuple | list) or isinstance(shift, tuple | list):
        axes = list(axis) if isinstance(axis, tuple | list) else [axis]
        shifts = list(shift) if isinstance(shift, tuple | list) else [shift]
        for k in range(max(len(axes), len(shifts))):
            table = as_table(roll(table, shifts[k % len(shifts)], axes[k % len(axes)]))
        return table
    k = literal_axis(0 if axis is None else axis, table.ndim)
    size = known_size(table.type.dims[k].size)
    by = whole_number(shift, "the shift of `np.roll`")
    forward = quotient(op.MOD, by, most(size, 1))

    def where(places: tuple[Place, ...]) -> Sequence[object]:
        moved = binary(op.SUB, places[k], forward)
        moved = select(compare(op.LT, moved, 0), binary(op.ADD, moved, size), moved)
        return [*places[:k], moved, *places[k + 1 :]]

    return remapped(table, table.type.dims, where)


def repeat(x: Any, repeats: Any, axis: int | None = None) -> object:
    """`np.repeat`: each element so many times."""
    table = as_table(x if axis is not None else ravel(x))
    k = 0 if axis is None else axis
    return _longer(table, repeats, k, "repeat", lambda p, n: quotient(op.FLOORDIV, p, n))


def tile(x: Any, reps: Any) -> object:
    """`np.tile`, along the last axis."""
    table = as_table(x)
    size = known_size(table.type.dims[-1].size)
    return _longer(table, reps, -1, "tile", lambda p, n: quotient(op.MOD, p, size))


def _longer(
    table: TableTracer, times_: Any, axis: int, name: str, where: Callable[[object, Any], object]
) -> object:
    """A table with so many times as many elements along an axis."""
    k = literal_axis(axis, table.ndim)
    if is_whole(times_) or isinstance(times_, tuple | list):
        raise KernelTypeError(
            f"`np.{name}` is given several numbers.",
            at=here(),
            fix="Give one number; for others write `pe.table(lambda i: x[...], over=n)`.",
        )
    count = shape_of(times_)[0].size
    sizes = (table.type.dims[k].size, count)
    length = once((name, *sizes), sizes, lambda: sizes_product([known_size(s) for s in sizes]))
    dims = [FinSet(length) if axis == k else dim for axis, dim in enumerate(table.type.dims)]
    number = known_size(count)
    return remapped(table, dims, lambda p: [*p[:k], where(p[k], number), *p[k + 1 :]])


def take(x: Any, indices: Any, axis: int | None = None) -> object:
    """`np.take`."""
    table = as_table(x if axis is not None else ravel(x))
    k = literal_axis(0 if axis is None else axis, table.ndim)
    return table[(*(slice(None) for _ in range(k)), indices)]


# --- diagonals and triangles ---------------------------------------------------------------------


def diagonal(x: Any, offset: Any = 0) -> object:
    """`np.diagonal` of a matrix."""
    table = _matrix(x, "diagonal")
    rows, columns = (dim.size for dim in table.type.dims)
    offset = literal_whole(offset, "the offset of a diagonal", "Write the number: `offset=1`.")
    if offset == 0 and staging().sizes.same(rows, columns):
        return remapped(table, table.type.dims[:1], lambda places: (places[0], places[0]))
    down, right = max(-offset, 0), max(offset, 0)

    def count() -> Number:
        height, width = minus(known_size(rows), down), minus(known_size(columns), right)
        return most(least(height, width), 0)

    length = once(("diagonal", rows, columns, offset), (rows, columns), count)
    dims = [FinSet(length)]
    return remapped(
        table,
        dims,
        lambda places: [_shifted(places[0], down), _shifted(places[0], right)],
    )


def _shifted(place: Place, by: int) -> object:
    """A place as an integer, moved: its index set is not the axis's."""
    number = make(place.operand())
    return number if by == 0 else binary(op.ADD, number, by)


def diag(x: Any, k: int = 0) -> object:
    """`np.diag`: of a matrix its diagonal, of a vector the matrix that has it there."""
    table = as_table(x)
    if table.ndim == 2:
        return diagonal(table, k)
    if known_whole(k) != 0:
        raise KernelTypeError(
            "`np.diag` of a vector is given `k`.", at=here(), fix="Use the main diagonal."
        )
    (index_set,) = table.index_sets
    return tabulate(
        (index_set, index_set),
        lambda p: select(compare(op.EQ, p[0], p[1]), table.element((p[0],)), 0),
    )


def _triangle(x: Any, k: Any, keeps: Callable[[object, object], object]) -> object:
    table = as_table(x)
    if table.ndim < 2:
        table = _matrix(x, "tril")
    k = whole_number(k, "`k`")
    return tabulate(
        table.index_sets,
        lambda p: select(keeps(p[-1], binary(op.ADD, p[-2], k)), table.element(p), 0),
    )


def tril(x: Any, k: Any = 0) -> object:
    """`np.tril`: with zeros above the diagonal."""
    return _triangle(x, k, lambda column, row: compare(op.LE, column, row))


def triu(x: Any, k: Any = 0) -> object:
    """`np.triu`: with zeros below the diagonal."""
    return _triangle(x, k, lambda column, row: compare(op.LE, row, column))


def _matrix(x: Any, name: str) -> TableTracer:
    table = as_table(x)
    if table.ndim != 2:
        raise KernelTypeError(
            f"`np.{name}` needs a matrix, and {table.what()} has {table.ndim} axes.",
            at=here(),
            fix="Give a table with two axes.",
        )
    return table
