"""numpy's functions that look at neighbours: pad, gradient, diff, convolve, interp and kin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from peffects.errors import KernelTypeError, ValueRangeError
from peffects.ir import primitives as op
from peffects.ir.syntax import F64, FinSet
from peffects.staging.arrays.sorting import number_before
from peffects.staging.arrays.whole_tables import matched
from peffects.staging.loops import ops
from peffects.staging.loops.branches import choose
from peffects.staging.loops.views import Place, ViewTracer, over_dims, tabulate
from peffects.staging.numpy_surface.joins import concatenate, table_of
from peffects.staging.numpy_surface.reductions import normalized_axes
from peffects.staging.numpy_surface.shapes import broadcast_to, literal_axis, quotient, shape_of
from peffects.staging.scalars.symbols import (
    binary,
    compare,
    convert,
    is_whole,
    lift,
    logical,
    make,
    pointwise,
    select,
    test,
)
from peffects.staging.scalars.whole_numbers import literal_whole
from peffects.staging.structures.accumulators import as_table
from peffects.staging.structures.indices import IndexSetTracer
from peffects.staging.structures.lengths import (
    Number,
    known_size,
    least,
    minus,
    most,
    once,
    plus,
    times,
)
from peffects.staging.structures.tables import TableTracer
from peffects.staging.tracing.trace import here, staging

__all__ = ["convolve", "correlate", "diff", "gradient", "interp", "pad", "trapezoid"]


def _if(condition: object, then: Callable[[], object], orelse: Callable[[], object]) -> Any:
    """One of two values; the other is not computed."""
    return choose(staging(), condition, then, orelse)


def _check_some(name: str, size: Number, least_: int = 1) -> None:
    """A function of numpy needs so many elements along an axis."""
    trace, text = staging(), f"`np.{name}` of {{0}} elements, and it needs {least_}."
    fix = "Give a longer table."
    if isinstance(size, int):
        if size < least_:
            raise ValueRangeError(text.format(size), at=here(), fix=fix)
        return
    trace.check(compare(op.LE, least_, size).atom, ValueRangeError, text, (size.atom,), fix)


# --- pad -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Rim:
    """What is put before and after an axis of `size` elements."""

    size: Number
    before: Number
    after: Number

    @property
    def is_none(self) -> bool:
        """Whether the axis stays as it is."""
        return (
            isinstance(self.before, int)
            and isinstance(self.after, int)
            and not (self.before or self.after)
        )

    def inner(self, place: Place) -> Any:
        """The place on the axis, which may be outside of it."""
        return binary(op.SUB, place, self.before)


def _constant(rim: _Rim, at: Any) -> Any:
    return at


def _edge(rim: _Rim, at: Any) -> Any:
    return most(least(at, minus(rim.size, 1)), 0)


def _folded(rim: _Rim, at: Any, period: Number, back: Number) -> Any:
    """A place outside brought back by going on periodically, forwards and then backwards."""

    def outside() -> object:
        round_ = quotient(op.MOD, at, most(period, 1))
        return select(compare(op.LT, round_, rim.size), round_, binary(op.SUB, back, round_))

    inside = logical(op.AND, compare(op.LE, 0, at), compare(op.LT, at, rim.size))
    return _if(inside, lambda: at, outside)


def _wrap(rim: _Rim, at: Any) -> Any:
    return _folded(rim, at, rim.size, 0)


def _reflect(rim: _Rim, at: Any) -> Any:
    period = most(times(minus(rim.size, 1), 2), 1)
    return _folded(rim, at, period, period)


def _symmetric(rim: _Rim, at: Any) -> Any:
    period = times(rim.size, 2)
    return _folded(rim, at, period, minus(period, 1))


_MODES: dict[str, Callable[[_Rim, Any], Any]] = {
    "constant": _constant, "empty": _constant, "edge": _edge, "wrap": _wrap,
    "reflect": _reflect, "symmetric": _symmetric,
}  # fmt: skip


def pad(array: Any, pad_width: Any, mode: Any = "constant", constant_values: Any = 0) -> object:
    """`np.pad`, in the modes that need no other number than the elements."""
    table = table_of(array)
    bring = _MODES.get(mode) if isinstance(mode, str) else None
    if bring is None:
        raise KernelTypeError(
            f"`np.pad` with mode={mode!r:.40}.",
            at=here(),
            fix=f"Kernels have {', '.join(map(repr, _MODES))}; write others as tables.",
        )
    widths = _pairs(pad_width, table.ndim, "pad_width")
    values = _pairs(constant_values, table.ndim, "constant_values")
    rims, dims = [], []
    for dim, pair in zip(table.type.dims, widths, strict=True):
        before, after = (_width(width) for width in pair)
        rim = _Rim(known_size(dim.size), before, after)
        if bring is not _constant and not rim.is_none:
            _check_some("pad", rim.size)
        rims.append(rim)
        dims.append(dim if rim.is_none else FinSet(_padded_size(dim.size, before, after)))

    def read(places: tuple[Place, ...]) -> object:
        inner = [
            place if rim.is_none else rim.inner(place)
            for rim, place in zip(rims, places, strict=True)
        ]
        if bring is _constant:
            return _or_constant(table, rims, inner, values)
        own = [at if rim.is_none else bring(rim, at) for rim, at in zip(rims, inner, strict=True)]
        return table.element(tuple(own), unchecked=True)

    if bring is _constant:
        return tabulate(over_dims(dims, "a padded table"), read)
    return ViewTracer(dims, table.type.elem, read, f"{table.name} padded")


def _or_constant(
    table: TableTracer, rims: Sequence[_Rim], places: Sequence[Any], values: Sequence[Any]
) -> object:
    """The element at places that may be outside; of a corner the last axis tells its constant."""

    def from_(axis: int) -> object:
        if axis < 0:
            return table.element(tuple(places), unchecked=True)
        rim, at = rims[axis], places[axis]
        if rim.is_none:
            return from_(axis - 1)
        low, high = (convert(value, table.type.elem) for value in values[axis])
        after = compare(op.LE, rim.size, at)
        outside = logical(op.OR, compare(op.LT, at, 0), after)
        return _if(outside, lambda: select(after, high, low), lambda: from_(axis - 1))

    return from_(len(rims) - 1)


def _pairs(given: Any, ndim: int, name: str) -> list[tuple[Any, Any]]:
    """What is given for the two ends of each axis: one for all, two, or two for each axis."""
    if not isinstance(given, tuple | list):
        return [(given, given)] * ndim
    parts = [tuple(part) if isinstance(part, tuple | list) else part for part in given]
    if not any(isinstance(part, tuple) for part in parts):
        if len(parts) in (1, 2):
            return [(parts[0], parts[-1])] * ndim
    elif all(isinstance(part, tuple) and len(part) in (1, 2) for part in parts):
        pairs = [(part[0], part[-1]) for part in parts]
        if len(pairs) in (1, ndim):
            return pairs * (ndim if len(pairs) == 1 else 1)
    raise KernelTypeError(
        f"`{name}` of `np.pad` does not fit a table with {ndim} axes.",
        at=here(),
        fix="Give one value, a pair `(before, after)`, or a pair for each axis.",
    )


def _width(width: Any) -> Number:
    (dim,) = shape_of(width)
    return known_size(dim.size)


def _padded_size(size: Any, before: Number, after: Number) -> Any:
    atoms = [size, *(width.atom for width in (before, after) if not isinstance(width, int))]
    keys = [width if isinstance(width, int) else width.atom for width in (before, after)]
    return once(("padded", size, *keys), atoms, lambda: plus(plus(known_size(size), before), after))


# --- differences ---------------------------------------------------------------------------------


def _shifted(ndim: int, axis: int, part: slice) -> tuple[slice, ...]:
    return (*(slice(None) for _ in range(axis)), part)


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> object:
    """`np.diff`."""
    table = table_of(a)
    k = literal_axis(axis, table.ndim)
    ends = [_end_of(table, k, end) for end in (prepend, append)]
    if any(end is not None for end in ends):
        parts = [ends[0], table, ends[1]]
        table = as_table(concatenate([part for part in parts if part is not None], axis=k))
    for _ in range(literal_whole(n, "`n` of `np.diff`", "Write the number: `n=2`.")):
        later = table[_shifted(table.ndim, k, slice(1, None))]
        table = as_table(binary(op.SUB, later, table[_shifted(table.ndim, k, slice(None, -1))]))
    return table


def _end_of(table: TableTracer, axis: int, end: Any) -> object | None:
    """What is put before or after a table along an axis: one number goes along with all."""
    if end is None or is_whole(end) or isinstance(end, tuple | list):
        return None if end is None else table_of(end)
    shape: list[Any] = list(table.shape)
    shape[axis] = 1
    return broadcast_to(end, tuple(shape))


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0) -> object:
    """`np.trapezoid` of a vector."""
    table = as_table(y)
    steps = dx if x is None else diff(x)
    sums = binary(op.ADD, table[1:], table[:-1])
    return ops.sum(binary(op.MUL, binary(op.MUL, sums, 0.5), steps))


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> object:
    """`np.gradient`: differences of neighbours on both sides, at the ends of one side."""
    table = table_of(f)
    axes = normalized_axes(axis, table.ndim)
    if len(varargs) not in (0, 1, len(axes)) or edge_order not in (1, 2):
        raise KernelTypeError(
            f"`np.gradient` along {len(axes)} axes is given {len(varargs)} distances and "
            f"edge_order={edge_order!r:.20}.",
            at=here(),
            fix="Give one distance, or one for each axis; `edge_order` is 1 or 2.",
        )
    steps = varargs if len(varargs) == len(axes) else (varargs or (1.0,)) * len(axes)
    found = [_along(table, k, h, edge_order) for k, h in zip(axes, steps, strict=True)]
    return found[0] if len(found) == 1 else tuple(found)


At: TypeAlias = Callable[[object], Any]


def _along(table: TableTracer, k: int, step: Any, edge_order: int) -> object:
    """The derivative along one axis; `step` is a distance, or the table of coordinates."""
    size = known_size(table.type.dims[k].size)
    _check_some("gradient", size, edge_order + 1)
    sets = list(table.index_sets)
    where = table_of(step) if is_whole(step) or isinstance(step, list) else None
    if where is not None:
        sets[k] = matched(sets[k], where.index_set)
    elem = table.type.elem if table.type.elem.is_float else F64

    def read(places: tuple[Place, ...]) -> object:
        def value(at: object) -> Any:
            items = (*places[:k], at, *places[k + 1 :])
            return convert(table.element(items, unchecked=True), elem)

        def coordinate(at: object) -> Any:
            return (
                binary(op.MUL, at, step) if where is None else where.element((at,), unchecked=True)
            )

        middle = make(places[k].operand())
        last = minus(size, 1)
        low, high = most(minus(middle, 1), 0), least(plus(middle, 1), last)
        uneven = where is not None
        if edge_order == 1 and not uneven:
            width = binary(op.MUL, binary(op.SUB, high, low), step)
            return binary(op.DIV, binary(op.SUB, value(high), value(low)), width)
        ends = _one_sided if edge_order == 1 else _three_points
        at_end = logical(op.OR, compare(op.EQ, middle, 0), compare(op.EQ, middle, last))
        return _if(
            at_end,
            lambda: ends(value, coordinate, low, middle, high, last),
            lambda: _slope(value, coordinate, (low, middle, high), middle),
        )

    return tabulate(sets, read)


def _one_sided(value: At, x: At, low: Any, middle: Any, high: Any, last: Number) -> object:
    change = binary(op.SUB, value(high), value(low))
    return binary(op.DIV, change, binary(op.SUB, x(high), x(low)))


def _three_points(value: At, x: At, low: Any, middle: Any, high: Any, last: Number) -> object:
    """At an end, the slope of the parabola through the three points there."""
    first = least(low, minus(last, 2))
    return _slope(value, x, (first, plus(first, 1), plus(first, 2)), middle)


def _slope(value: At, x: At, points: tuple[Any, Any, Any], at: Any) -> object:
    """The slope at the place `at` of the parabola through three points.

    With distances r = x - a and so on it is f(a) (r_b + r_c) / ((a - b)(a - c)) + ... .
    """
    total: Any = None
    for k, own in enumerate(points):
        others = [point for n, point in enumerate(points) if n != k]
        near = [binary(op.SUB, x(at), x(other)) for other in others]
        far = [binary(op.SUB, x(own), x(other)) for other in others]
        weight = binary(op.DIV, binary(op.ADD, *near), binary(op.MUL, *far))
        term = binary(op.MUL, value(own), weight)
        total = term if total is None else binary(op.ADD, total, term)
    return total


# --- convolve ------------------------------------------------------------------------------------


def _vector(x: Any, name: str) -> TableTracer:
    table = table_of(x)
    if table.ndim != 1:
        raise KernelTypeError(
            f"`np.{name}` takes vectors, and {table.what()} has {table.ndim} axes.",
            at=here(),
            fix="Write it for elements: `pe.table(lambda i, j: pe.sum(lambda k: ...))`.",
        )
    return table


def _convolution(a: Any, v: Any, mode: Any, name: str, backwards: bool) -> object:
    """All sums of `a[k - j] * v[j]`; `backwards` takes v from its end."""
    x, w = _vector(a, name), _vector(v, name)
    n, m = (known_size(table.type.dims[0].size) for table in (x, w))
    for size in (n, m):
        _check_some(name, size)
    if mode not in ("full", "same", "valid"):
        raise KernelTypeError(
            f"`np.{name}` with mode={mode!r:.20}.",
            at=here(),
            fix='Give "full", "same" or "valid".',
        )
    atoms = tuple(table.type.dims[0].size for table in (x, w))

    def length() -> Number:
        longer, shorter = most(*map(known_size, atoms)), least(*map(known_size, atoms))
        if mode == "same":
            return longer
        return (
            minus(plus(longer, shorter), 1) if mode == "full" else plus(minus(longer, shorter), 1)
        )

    total = once((mode, "convolved", *atoms), atoms, length)
    spare = minus(least(n, m), 1)  # so many places of "full" are not in "valid", at each end
    first: Number = {"full": 0, "same": _half(spare), "valid": spare}[mode]
    sets = (IndexSetTracer(total, x.index_set.origin, staging().scope),)

    def read(places: tuple[Place, ...]) -> object:
        k = binary(op.ADD, make(places[0].operand()), first)
        low, high = most(minus(plus(k, 1), n), 0), least(m, plus(k, 1))

        def term(t: Any) -> object:
            j = binary(op.ADD, low, t)
            place = binary(op.SUB, minus(m, 1), j) if backwards else j
            own = x.element((binary(op.SUB, k, j),), unchecked=True)
            return binary(op.MUL, own, w.element((place,), unchecked=True))

        return ops.sum(lambda t: term(t), over=most(minus(high, low), 0))

    return tabulate(sets, read)


def _half(x: Number) -> Number:
    return x // 2 if isinstance(x, int) else binary(op.SHIFT_RIGHT, x, 1)


def convolve(a: Any, v: Any, mode: Any = "full") -> object:
    """`np.convolve`."""
    return _convolution(a, v, mode, "convolve", False)


def correlate(a: Any, v: Any, mode: Any = "valid") -> object:
    """`np.correlate` of real vectors, of which the first is not the shorter one."""
    if mode != "full":
        n, m = (known_size(_vector(x, "correlate").type.dims[0].size) for x in (a, v))
        _check_longer(n, m)
    return _convolution(a, v, mode, "correlate", True)


def _check_longer(n: Number, m: Number) -> None:
    """Numpy turns the result of a shorter first vector around; that is not wanted by accident."""
    text, fix = "`np.correlate` of {0} elements with {1}.", "Give the longer vector first."
    if isinstance(n, int) and isinstance(m, int):
        if n < m:
            raise ValueRangeError(text.format(n, m), at=here(), fix=fix)
        return
    atoms = tuple(lift(size).atom for size in (n, m))
    staging().check(compare(op.LE, m, n).atom, ValueRangeError, text, atoms, fix)


# --- interp --------------------------------------------------------------------------------------


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None) -> object:
    """`np.interp`: on the line between the two points around x."""
    places, values = _vector(xp, "interp"), _vector(fp, "interp")
    index_set = matched(places.index_set, values.index_set)
    size = known_size(index_set.atom)
    _check_some("interp", size)
    last = minus(size, 1)

    def point(table: TableTracer, at: object) -> Any:
        found = make(lift(at)) if not isinstance(at, int) else at
        return convert(table.element((found,), unchecked=True), F64)

    def outside(given: Any, at: Number) -> Any:
        return point(values, at) if given is None else convert(given, F64)

    def at(value: Any) -> object:
        before = number_before(places, value, "right")

        def line() -> object:
            x0, x1 = point(places, before - 1), point(places, before)
            y0, y1 = point(values, before - 1), point(values, before)
            slope = binary(op.DIV, y1 - y0, x1 - x0)
            return slope * binary(op.SUB, value, x0) + y0

        def beyond() -> object:
            above = compare(op.LT, point(places, last), value)
            found = select(above, outside(right, last), point(values, last))
            return select(test(op.IS_NAN, value), value, found)

        return _if(
            compare(op.EQ, before, 0),
            lambda: outside(left, 0),
            lambda: _if(compare(op.EQ, before, size), beyond, line),
        )

    if isinstance(x, tuple | list):
        x = table_of(x)
    return pointwise(lambda value: at(convert(value, F64)))(x)
