"""Sorting and searching, made of folds: `sort`, `argsort`, `searchsorted`, `median`, `quantile`.

A merge sort from runs of one element upwards: each pass is one sequential loop that writes a table
from left to right, so it takes O(n log n) steps, and it is stable.  What is sorted are integers
that order as the elements do, and the elements' places; the elements are then gathered.  So the
derivative of sorting is that of a gather.  A sort runs in one thread; sorts in a parallel loop run
in parallel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from peffects.errors import KernelTypeError, ValueRangeError
from peffects.ir import primitives as op
from peffects.ir.syntax import BOOL, F64, I64, SCALARS
from peffects.staging.loops.folds import fold, scan
from peffects.staging.loops.ops import loop_operation, table
from peffects.staging.scalars import elementary
from peffects.staging.scalars.comparisons import eq, ge, lt
from peffects.staging.scalars.symbols import (
    ScalarTracer,
    binary,
    compare,
    convert,
    lift,
    logical,
    pointwise,
    select,
    test,
    unary,
)
from peffects.staging.structures.accumulators import as_table, is_table
from peffects.staging.structures.tables import TableTracer
from peffects.staging.structures.trees import columns_of
from peffects.staging.tracing.trace import here, staging

__all__ = ["argsort", "median", "number_before", "quantile", "searchsorted", "sort"]


def _table_of(operation: str, x: object) -> TableTracer:
    if not is_table(x):
        raise KernelTypeError(
            f"`{operation}` takes a table, not {x!r:.60}.",
            at=here(),
            fix=f"Make one: `pe.{operation}(pe.table(lambda i: ...))`.",
        )
    return as_table(x)


def _rows(function: Callable[[TableTracer], object], x: TableTracer) -> object:
    """`function` of a vector; of a table with more axes, of each row."""
    if x.ndim == 1:
        return function(x)
    return table(lambda place: function(as_table(x[place])), over=x.index_sets[:-1])


# --- sorting -------------------------------------------------------------------------------------


@loop_operation
def argsort(x: Any) -> Any:
    """The places of the elements in ascending order; along the last axis of several.

    Stable: equal elements keep their order.  nan comes last, -0.0 equals 0.0.  O(n log n).
    """
    return _rows(_order, _table_of("argsort", x))


@loop_operation
def sort(x: Any) -> Any:
    """The elements in ascending order, nan last; along the last axis of several.  O(n log n)."""

    def ordered(row: TableTracer) -> object:
        places = as_table(_order(row))
        return table(lambda i: row.element((places[i],), unchecked=True), over=row.index_sets)

    return _rows(ordered, _table_of("sort", x))


def _key(value: ScalarTracer) -> object:
    """An integer that orders as the value does.

    The bits of a float that is not negative do, as unsigned numbers; those of a negative one do in
    the opposite order.  Adding 0.0 makes 0.0 of -0.0.
    """
    if value.type == BOOL:
        return convert(value, SCALARS["uint8"])
    if not value.type.is_float:
        return value
    wide = value.type == F64
    word = elementary.word_of(value + 0.0)
    top, ones = (1 << 63, 2**64 - 1) if wide else (1 << 31, 2**32 - 1)
    negative = compare(op.LT, _constant(value), 0.0)
    flipped = binary(
        op.BIT_XOR,
        word,
        select(negative, _unsigned(word, ones), _unsigned(word, top)),
    )
    return select(test(op.IS_NAN, value), _unsigned(word, ones), flipped)


def _constant(value: Any) -> Any:
    return unary(op.STOP_GRADIENT, value)


def _unsigned(like: Any, value: int) -> Any:
    return elementary.literal_like(like, value)


def _order(x: TableTracer) -> object:
    """The places of the elements of a vector in ascending order."""
    (index_set,) = x.index_sets
    keys = table(lambda i: _key(_element(x, i)), over=index_set)
    places = table(lambda i: convert(i, I64), over=index_set)
    size = binary(op.ADD, index_set.size, 0)

    def double(runs: Any, step: Any) -> object:
        return _merged(runs, size, binary(op.SHIFT_LEFT, 1, step))

    passes = _bits_of_size(binary(op.SUB, size, 1))
    _, order = fold(double, (keys, places), over=passes)
    return order


def _element(x: TableTracer, place: object) -> Any:
    return x.element((place,), unchecked=True)


def _merged(runs: tuple[Any, Any], size: Any, width: Any) -> tuple[Any, Any]:
    """Runs of twice the width, each merged of two neighbours.

    Element k of the result is in the run that starts at `base`; its left half has been read up to
    `left`, the right one up to `right`, and together these are k - base elements.
    """
    keys, places = runs

    def step(left: Any, k: Any) -> tuple[Any, tuple[Any, Any]]:
        base = k & -(2 * width)
        middle = binary(op.MIN, base + width, size)
        end = binary(op.MIN, middle + width, size)
        left = select(eq(k, base), base, left)
        right = k - left + middle
        at_left = binary(op.MIN, left, size - 1)
        at_right = binary(op.MIN, right, size - 1)
        x, y = _element(keys, at_left), _element(keys, at_right)
        from_left = logical(
            op.AND, lt(left, middle), logical(op.OR, ge(right, end), compare(op.LE, x, y))
        )
        place = _element(places, select(from_left, at_left, at_right))
        return left + convert(from_left, I64, weak=True), (select(from_left, x, y), place)

    _, found = scan(step, 0, over=keys.index_sets)
    sorted_keys, order = columns_of(found)
    return sorted_keys, order


def _bits_of_size(size: Any) -> Any:
    """How many bits a whole number from 0 on has."""
    return elementary.frexp(convert(size, F64))[1]


# --- searching -----------------------------------------------------------------------------------


def _comes_before(x: Any, y: Any) -> Any:
    """Whether x < y in the order of sorting, whose last element is nan."""
    less = compare(op.LT, x, y)
    if not (lift(x).type.is_float or lift(y).type.is_float):
        return less
    return logical(
        op.OR, less, logical(op.AND, test(op.IS_NAN, y), logical(op.NOT, test(op.IS_NAN, x)))
    )


@loop_operation
def searchsorted(a: Any, value: Any, side: str = "left") -> Any:
    """Where `value`, a number or a table of them, is to be inserted into the sorted vector `a`.

    With `side="left"` before elements that are equal to it, with `"right"` after them.  O(log n)
    for each value.  What it gives where `a` is not sorted is unspecified, but in 0 .. n.
    """
    vector = _table_of("searchsorted", a)
    if vector.ndim != 1 or side not in ("left", "right"):
        raise KernelTypeError(
            f"`searchsorted` in {vector.ndim} axes with side={side!r}.",
            at=here(),
            fix='Give a vector, and "left" or "right".',
        )
    return pointwise(lambda v: number_before(vector, v, side))(value)


def number_before(vector: TableTracer, value: Any, side: str) -> Any:
    """How many elements of a sorted vector come before `value`, with "right" also its equals.

    By bisection: the place is in low .. high, of which each round keeps at most a half.
    """
    value = _constant(value)
    size = binary(op.ADD, vector.index_set.size, 0)

    def halve(bounds: Any, _: Any) -> tuple[Any, Any]:
        low, high = bounds
        middle = (low + high) >> 1
        element = _constant(_element(vector, binary(op.MIN, middle, size - 1)))
        before = _comes_before(element, value)
        if side == "right":
            before = logical(op.NOT, _comes_before(value, element))
        before = logical(op.AND, before, lt(low, high))
        return select(before, middle + 1, low), select(before, high, middle)

    low, _ = fold(halve, (0, size), over=_bits_of_size(size))
    return low


# --- order statistics ----------------------------------------------------------------------------


def _not_empty(operation: str, x: TableTracer) -> None:
    trace = staging()
    some = compare(op.LT, 0, x.index_set.size)
    text = f"`{operation}` of an empty table."
    trace.check(some.atom, ValueRangeError, text, (), "Give a table that has elements.")


@loop_operation
def median(x: Any) -> Any:
    """The middle of the sorted elements, the mean of two middle ones; nan if there is a nan.

    Along the last axis of several; of integers too it is a float.  O(n log n).
    """

    def middle(row: TableTracer) -> object:
        _not_empty("median", row)
        ordered, size = as_table(sort(row)), row.index_set.size
        low = _element(ordered, binary(op.SUB, size, 1) >> 1)
        high = _element(ordered, binary(op.ADD, size, 0) >> 1)
        value = binary(op.DIV, low + high, 2)
        return _with_nan(ordered, size, value)

    return _rows(middle, _table_of("median", x))


def _with_nan(ordered: TableTracer, size: Any, value: Any) -> Any:
    """The value, or nan if the sorted table ends with one."""
    last = _element(ordered, binary(op.SUB, size, 1))
    return select(test(op.IS_NAN, last), last, value) if last.type.is_float else value


@loop_operation
def quantile(x: Any, q: Any) -> Any:
    """The value below which the fraction `q` of the elements lies, between elements by a line.

    As numpy's method "linear"; along the last axis of several; nan if there is a nan.  Raises
    ValueRangeError for q outside [0, 1].
    """
    trace = staging()
    (fraction,) = elementary.as_floats(q)
    inside = logical(op.AND, compare(op.LE, 0.0, fraction), compare(op.LE, fraction, 1.0))
    text, fix = "the quantile {0} was asked for.", "Give a number from 0 to 1."
    trace.check(inside.atom, ValueRangeError, text, (lift(fraction).atom,), fix)

    def between(row: TableTracer) -> object:
        _not_empty("quantile", row)
        ordered, size = as_table(sort(row)), row.index_set.size
        last = binary(op.SUB, size, 1)
        place = binary(op.MUL, fraction, convert(last, F64))
        whole = unary(op.FLOOR, place)
        low = convert(whole, I64)
        share = place - whole
        x0 = convert(_element(ordered, low), F64)
        x1 = convert(_element(ordered, binary(op.MIN, low + 1, last)), F64)
        step = x1 - x0
        value = select(lt(share, 0.5), x0 + step * share, x1 - step * (1.0 - share))
        return _with_nan(ordered, size, value)

    return _rows(between, _table_of("quantile", x))
