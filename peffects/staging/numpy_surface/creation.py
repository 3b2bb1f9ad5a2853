"""numpy's functions that make arrays: inside a kernel they make tables, of sizes it computes.

They are found by the hook of calls (`hooks/callees.py`), since numpy itself would ask for their
sizes.  What has a formula is a view: `np.arange(n)[i]` is `i`, and `np.zeros(n)` is stored only if
needed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from peffects.errors import ValueRangeError
from peffects.ir import primitives as op
from peffects.ir.primitives import Primitive
from peffects.ir.syntax import F64, I64, FinSet, Scalar
from peffects.machine.checking.locations import speaks_for_users
from peffects.staging.arrays.complex_tables import complex_part, of_dtype
from peffects.staging.loops.views import Place, ViewTracer
from peffects.staging.numpy_surface.joins import of_numbers
from peffects.staging.numpy_surface.shapes import shape_of
from peffects.staging.scalars import maths
from peffects.staging.scalars.for_user import for_user
from peffects.staging.scalars.symbols import (
    binary,
    compare,
    convert,
    is_complex,
    is_symbolic,
    is_whole,
    lift,
    logical,
    select,
)
from peffects.staging.scalars.whole_numbers import Number, known_whole, literal_whole, whole_number
from peffects.staging.structures.accumulators import Reference, as_table
from peffects.staging.structures.array_methods import element_type
from peffects.staging.structures.complex_numbers import complex_of, imaginary_part, real_part
from peffects.staging.structures.domains import as_sets
from peffects.staging.structures.lengths import known_size
from peffects.staging.tracing.trace import current, here

__all__ = ["CREATION", "array", "full", "like"]

Function: TypeAlias = Callable[..., Any]


def _filled(shape: Any, value: Any, elem: Scalar) -> object:
    """A table of one number; the number itself for the shape `()`."""
    number = convert(value, elem)
    dims = shape_of(shape)
    return ViewTracer(dims, elem, lambda places: number) if dims else number


def _of_dtype(shape: Any, value: Any, dtype: Any) -> object:
    """A table of one number of the type that `dtype` names, which may be complex."""
    part = complex_part(dtype)
    if part is None:
        return _filled(shape, value, element_type(dtype))
    return complex_of(*(_filled(shape, half(value), part) for half in (real_part, imaginary_part)))


def full(shape: Any, fill_value: Any, dtype: Any = None) -> object:
    """`np.full`."""
    if dtype is not None:
        return _of_dtype(shape, fill_value, dtype)
    if is_complex(fill_value):
        return _of_dtype(shape, fill_value, getattr(fill_value, "dtype", complex))
    return _filled(shape, fill_value, lift(fill_value).type)


def _of(value: int) -> Function:
    """`np.zeros` and `np.ones`."""
    return lambda shape, dtype=float: _of_dtype(shape, value, dtype)


def like(value: int | None) -> Function:
    """`np.zeros_like` and its kin; with None `np.full_like`."""

    def function(a: Any, *args: Any, dtype: Any = None, shape: Any = None) -> object:
        fill: Any = args[0] if value is None else value
        elem = lift(a).type if not is_whole(a) else as_table(a).type.elem
        elem = elem if dtype is None else element_type(dtype)
        if shape is not None:
            return _filled(shape, fill, elem)
        return convert(fill, elem) if not is_whole(a) else _filled(as_table(a).shape, fill, elem)

    return function


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> object:
    """`np.arange`; of floats, too."""
    first, last = (0, start) if stop is None else (start, stop)
    numbers = [lift(number, "an argument of `np.arange`") for number in (first, last, step)]
    is_float = any(number.type.is_float for number in numbers)
    elem = element_type(dtype) if dtype is not None else F64 if is_float else I64
    count = _count(first, last, step, is_float)
    (index_set,) = as_sets(count)

    def read(places: tuple[Place, ...]) -> object:
        scaled = places[0] if known_whole(step) == 1 else binary(op.MUL, places[0], step)
        return convert(binary(op.ADD, scaled, first), elem)

    return ViewTracer([FinSet(index_set.atom)], elem, read)


def _count(first: Any, last: Any, step: Any, is_float: bool) -> object:
    """The number of steps from `first` to before `last`."""
    if all(isinstance(number, int | float) for number in (first, last, step)):
        return len(np.arange(first, last, step))
    span = binary(op.SUB, last, first)
    if is_float:
        return binary(op.MAX, convert(maths.ceil(binary(op.DIV, span, step)), I64, weak=True), 0)
    step = literal_whole(step, "the step of `np.arange`", "Write a literal other than 0.")
    if step == 0:
        raise ValueRangeError(
            "the step of `np.arange` is 0.", at=here(), fix="Write a literal other than 0."
        )
    first, last = (whole_number(x, "an argument of `np.arange`") for x in (first, last))
    if step < 0:
        span, step = binary(op.SUB, first, last), -step
    if step > 1:
        span = binary(op.FLOORDIV, binary(op.ADD, span, step - 1), step)
    return span if isinstance(first, int) and first == 0 and step == 1 else binary(op.MAX, span, 0)


def linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None
) -> object:
    """`np.linspace` between two numbers."""
    (dim,) = shape_of(num)
    number = known_size(dim.size)
    gaps: Any = binary(op.SUB, number, 1) if endpoint else number
    step = binary(op.DIV, binary(op.SUB, stop, start), binary(op.MAX, gaps, 1))
    elem = element_type(float if dtype is None else dtype)

    def read(places: tuple[Place, ...]) -> object:
        value: Any = binary(op.ADD, binary(op.MUL, places[0], step), start)
        if endpoint:  # the last number is exactly `stop`, whatever rounding does
            is_last = logical(op.AND, compare(op.EQ, places[0], gaps), compare(op.LT, 0, places[0]))
            value = select(is_last, stop, value)
        return convert(value, elem)

    return ViewTracer([dim], elem, read)


def eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = float) -> object:
    """`np.eye`."""
    return _of_places(op.EQ, (N, M), whole_number(k, "`k` of `np.eye`"), dtype)


def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = float) -> object:
    """`np.tri`."""
    return _of_places(op.LE, (N, M), whole_number(k, "`k` of `np.tri`"), dtype)


def _of_places(relation: Primitive, sizes: tuple[Any, Any], k: Number, dtype: Any) -> object:
    """A matrix that is 1 where the column has a relation to the row, k columns further."""
    elem = element_type(dtype)
    rows, columns = sizes

    def read(places: tuple[Place, ...]) -> object:
        row, column = places
        moved = row if isinstance(k, int) and k == 0 else binary(op.ADD, row, k)
        return convert(compare(relation, column, moved), elem)

    return ViewTracer(shape_of((rows, rows if columns is None else columns)), elem, read)


def array(value: Any, dtype: Any = None) -> object:
    """`np.array` and `np.asarray` of symbols: of a table itself, of a list of numbers a table."""
    made = of_numbers(value) if isinstance(value, tuple | list) else value
    return made if dtype is None else of_dtype(made, dtype)


def array_copy(value: Any, dtype: Any = None) -> object:
    """`np.array`, which holds what a state or an accumulator holds now."""
    return array(value.read() if isinstance(value, Reference) else value, dtype)


def _has_symbols(value: object) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_has_symbols, value))
    return is_symbolic(value)


def _while_staging(original: Function, new: Function, of_symbols: bool = False) -> Function:
    """`new` in a kernel (if `of_symbols`, of symbols only), `original` elsewhere."""

    @speaks_for_users
    @functools.wraps(original, assigned=("__name__", "__doc__"), updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs = {key: value for key, value in kwargs.items() if key not in ("order", "copy")}
        if current() is None or (of_symbols and not _has_symbols((*args, *kwargs.values()))):
            return original(*args, **kwargs)
        return for_user(new, *args, **kwargs)

    return call


_MAKERS: list[tuple[Function, Function]] = [
    (np.zeros, _of(0)), (np.ones, _of(1)), (np.empty, _of(0)), (np.full, full),
    (np.arange, arange), (np.linspace, linspace), (np.eye, eye), (np.tri, tri),
    (np.identity, lambda n, dtype=float: eye(n, dtype=dtype)),
]  # fmt: skip
_CONVERTERS: list[tuple[Function, Function]] = [
    (np.array, array_copy), (np.asarray, array), (np.ascontiguousarray, array),
    (np.asanyarray, array),
]  # fmt: skip

CREATION: dict[object, Function] = {
    **{original: _while_staging(original, new) for original, new in _MAKERS},
    **{original: _while_staging(original, new, True) for original, new in _CONVERTERS},
}
