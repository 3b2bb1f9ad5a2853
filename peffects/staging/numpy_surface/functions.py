"""The table of numpy's functions on symbols: what each becomes, and why others are refused.

numpy asks here (`__array_function__`) when one of its functions is called on a symbol.  What is
in the table takes numpy's arguments as far as it has them; anything else is an error at the user's
line that names the function and what to write.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from peffects.errors import KernelTypeError
from peffects.ir import primitives as op
from peffects.staging.arrays import sorting
from peffects.staging.loops import ops
from peffects.staging.numpy_surface import linear_algebra, norms
from peffects.staging.numpy_surface.array_likes import takes_arrays, with_tables
from peffects.staging.numpy_surface.choices import (
    choices,
    kron,
    percentile,
    quantile,
    take_along_axis,
)
from peffects.staging.numpy_surface.creation import like
from peffects.staging.numpy_surface.joins import (
    column_stack,
    concatenate,
    hstack,
    of_numbers,
    stack,
    vstack,
)
from peffects.staging.numpy_surface.neighbours import (
    convolve,
    correlate,
    diff,
    gradient,
    interp,
    pad,
    trapezoid,
)
from peffects.staging.numpy_surface.products import (
    cross,
    dot,
    einsum,
    inner,
    outer,
    tensordot,
    trace_of,
    vdot,
)
from peffects.staging.numpy_surface.reductions import (
    average,
    count_nonzero,
    cumprod,
    cumsum,
    first,
    mean,
    ptp,
    reduction,
    std,
    var,
)
from peffects.staging.numpy_surface.shapes import (
    atleast_1d,
    atleast_2d,
    broadcast_to,
    diag,
    diagonal,
    expand_dims,
    flip,
    literal_axis,
    meshgrid,
    moveaxis,
    ravel,
    repeat,
    reshape,
    roll,
    squeeze,
    swapaxes,
    take,
    tile,
    transpose,
    tril,
    triu,
)
from peffects.staging.scalars import elementary
from peffects.staging.scalars.symbols import (
    binary,
    compare,
    convert,
    is_symbolic,
    is_whole,
    logical,
    select,
    unary,
)
from peffects.staging.scalars.symbols import test as float_test
from peffects.staging.structures.accumulators import as_table
from peffects.staging.structures.array_methods import element_type
from peffects.staging.structures.complex_numbers import imaginary_part, phase, real_part
from peffects.staging.tracing.trace import here

__all__ = ["FUNCTIONS", "call"]

Function: TypeAlias = Callable[..., Any]


def where(condition: Any, x: Any = None, y: Any = None) -> object:
    """`np.where` with three arguments: both values are computed, in every element."""
    if x is None or y is None:
        raise KernelTypeError(
            "`np.where(condition)` gives places, and how many is not known before the kernel runs.",
            at=here(),
            fix="Give both values, `np.where(condition, x, y)`; or count: `condition.sum()`.",
        )
    return select(condition, x, y)


def clip(a: Any, a_min: Any = None, a_max: Any = None, min: Any = None, max: Any = None) -> object:
    """`np.clip`."""
    low, high = min if a_min is None else a_min, max if a_max is None else a_max
    above = a if low is None else binary(op.MAX, a, low)
    return above if high is None else binary(op.MIN, above, high)


def isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> object:
    """`np.isclose`."""
    room = binary(op.ADD, atol, binary(op.MUL, rtol, unary(op.ABS, b)))
    near = compare(op.LE, unary(op.ABS, binary(op.SUB, a, b)), room)
    near = logical(op.AND, near, float_test(op.IS_FINITE, b))
    near = logical(op.OR, near, compare(op.EQ, a, b))
    if not equal_nan:
        return near
    both = logical(op.AND, float_test(op.IS_NAN, a), float_test(op.IS_NAN, b))
    return logical(op.OR, near, both)


def _all(value: Any) -> object:
    return ops.all(value) if is_whole(value) else value


def sorted_along(order: Function) -> Function:
    """`np.sort` and `np.argsort`, which are stable here whatever `kind` says."""

    def function(a: Any, axis: int | None = -1, kind: Any = None, stable: Any = None) -> object:
        if axis is None:
            return order(ravel(a))
        k = literal_axis(axis, as_table(a).ndim)
        return moveaxis(order(moveaxis(a, k, -1)), -1, k)

    return function


def statistic(of_last_axis: Function) -> Function:
    """`np.median` and `np.quantile`: of all elements, or along an axis."""

    def function(a: Any, *args: Any, axis: int | None = None) -> object:
        if axis is None:
            return of_last_axis(ravel(a), *args)
        return of_last_axis(moveaxis(a, literal_axis(axis, as_table(a).ndim), -1), *args)

    return function


def _without_nan(name: str, neutral: float) -> Function:
    """`np.nansum` and `np.nanprod`."""
    reduce = reduction(name)

    def function(a: Any, axis: Any = None, keepdims: bool = False) -> object:
        filled = select(float_test(op.IS_NAN, a), neutral, a)
        return reduce(filled, axis=axis, keepdims=keepdims)

    return function


def size(a: Any, axis: int | None = None) -> object:
    """`np.size`."""
    table = as_table(a)
    return table.size if axis is None else table.shape[literal_axis(axis, table.ndim)]


FUNCTIONS: dict[object, Function] = {
    # element by element
    np.where: where, np.select: choices, np.clip: clip, np.isclose: isclose,
    np.nan_to_num: elementary.nan_to_num, np.sinc: elementary.sinc,
    np.round: elementary.rounded, np.around: elementary.rounded,
    np.fix: functools.partial(elementary.rounding, op.TRUNC),
    np.isposinf: lambda x: compare(op.EQ, x, np.inf),
    np.isneginf: lambda x: compare(op.EQ, x, -np.inf),
    np.allclose: lambda a, b, rtol=1e-5, atol=1e-8, equal_nan=False: _all(
        isclose(a, b, rtol, atol, equal_nan)),
    np.array_equal: lambda a1, a2: _all(compare(op.EQ, a1, a2)),
    np.real: real_part, np.imag: imaginary_part, np.angle: phase,
    # reductions
    **{getattr(np, name): reduction(name) for name in ("sum", "prod", "min", "max", "any", "all")},
    np.amin: reduction("min"), np.amax: reduction("max"), np.mean: mean,
    np.average: average, np.var: var, np.std: std, np.ptp: ptp,
    np.count_nonzero: count_nonzero, np.argmin: first("argmin"), np.argmax: first("argmax"),
    np.cumsum: cumsum, np.cumprod: cumprod, np.nansum: _without_nan("sum", 0.0),
    np.nanprod: _without_nan("prod", 1.0),
    # neighbours
    np.pad: pad, np.gradient: gradient, np.convolve: convolve, np.correlate: correlate,
    np.interp: interp, np.ediff1d: lambda ary: diff(ravel(ary)),
    np.diff: diff, **{getattr(np, name): trapezoid for name in ("trapezoid", "trapz")
                      if name in np.__all__},
    # shapes
    np.transpose: transpose, np.swapaxes: swapaxes, np.moveaxis: moveaxis, np.reshape: reshape,
    np.ravel: ravel, np.expand_dims: expand_dims, np.squeeze: squeeze, np.flip: flip,
    np.fliplr: lambda m: flip(m, 1), np.flipud: lambda m: flip(m, 0), np.roll: roll,
    np.repeat: repeat, np.tile: tile, np.take: take,
    np.take_along_axis: take_along_axis, np.broadcast_to: broadcast_to,
    np.meshgrid: meshgrid, np.diagonal: diagonal, np.diag: diag, np.tril: tril, np.triu: triu,
    np.atleast_1d: atleast_1d, np.atleast_2d: atleast_2d,
    np.copy: lambda a: a.copy() if is_symbolic(a) else a,
    np.shape: lambda a: as_table(a).shape if is_whole(a) else (),
    np.ndim: lambda a: as_table(a).ndim if is_whole(a) else 0, np.size: size,
    # in order
    np.sort: sorted_along(sorting.sort), np.argsort: sorted_along(sorting.argsort),
    np.searchsorted: sorting.searchsorted, np.median: statistic(sorting.median),
    np.quantile: quantile, np.percentile: percentile,
    # several tables
    np.concatenate: concatenate, np.stack: stack, np.vstack: vstack, np.hstack: hstack,
    np.column_stack: column_stack,
    np.append: lambda arr, values, axis=None: concatenate(
        [atleast_1d(arr), atleast_1d(values)], axis=axis),
    # products
    np.dot: dot, np.vdot: vdot, np.inner: inner, np.outer: outer, np.tensordot: tensordot,
    np.einsum: einsum, np.kron: kron, np.trace: trace_of,
    np.cross: lambda a, b: of_numbers(cross(a, b)),
    # linear algebra
    np.linalg.norm: norms.norm, np.linalg.det: linear_algebra.det,
    np.linalg.slogdet: linear_algebra.slogdet, np.linalg.inv: linear_algebra.inv,
    np.linalg.solve: linear_algebra.solve, np.linalg.cholesky: linear_algebra.cholesky,
    np.linalg.qr: linear_algebra.qr, np.linalg.matrix_power: linear_algebra.matrix_power,
    # new tables
    np.zeros_like: like(0), np.ones_like: like(1), np.empty_like: like(0),
    np.full_like: lambda a, fill_value, dtype=None, shape=None: like(None)(
        a, fill_value, dtype=dtype, shape=shape),
}  # fmt: skip
if hasattr(np, "astype"):  # numpy 2.1
    FUNCTIONS[np.astype] = lambda x, dtype: convert(x, element_type(dtype))

_FIRST = ("a", "x", "m", "arr", "ary", "array", "v")
"""What numpy calls the first argument of a function."""

_LENGTH_UNKNOWN = "How long its result is depends on values; do it before the kernel."
_ADVICE = {
    "unique": _LENGTH_UNKNOWN, "nonzero": _LENGTH_UNKNOWN, "argwhere": _LENGTH_UNKNOWN,
    "flatnonzero": _LENGTH_UNKNOWN, "delete": _LENGTH_UNKNOWN, "compress": _LENGTH_UNKNOWN,
    "extract": _LENGTH_UNKNOWN,
    "bincount": "Add to an accumulator: `h[x[i]] += 1` in a loop over `pe.par(x)`.",
    "histogram": "Add to an accumulator: `h[bin] += 1` in a loop over `pe.par(x)`.",
    "svd": "Take it before the kernel; kernels have `qr`, `cholesky` and `solve`.",
    "eigh": "Take it before the kernel; kernels have `qr`, `cholesky` and `solve`.",
    "lstsq": "Solve the normal equations, `np.linalg.solve(a.T @ a, a.T @ b)`, or use `qr`.",
    "vectorize": "Call the function for each element: `pe.table(lambda i: f(x[i]))`.",
    "apply_along_axis": "Call the function for each row: `pe.table(lambda i: f(x[i]))`.",
    "copyto": "Kernels do not write to arrays: make a new table.",
    "put": "Kernels do not write to arrays: make a new table.",
    "fill_diagonal": "Make a new table: `np.where(np.eye(n, dtype=bool), v, x)`.",
}  # fmt: skip
_ELEMENTS = (
    "Write it for elements, with `pe.table`, `pe.sum` and so on; or call it before the kernel."
)


def name_of(function: Callable[..., object]) -> str:
    """How users write a function of numpy."""
    module = getattr(function, "__module__", None) or "numpy"
    return f"{module.replace('numpy', 'np', 1)}.{function.__name__}"


def _first_by_place(
    args: tuple[object, ...], kwargs: dict[str, object], signature: inspect.Signature
) -> tuple[tuple[object, ...], dict[str, object]]:
    """The array that is given by numpy's name for it, where ours is another."""
    for name in _FIRST:
        if not args and name in kwargs and name not in signature.parameters:
            args = (kwargs.pop(name),)
    return args, kwargs


def call(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> object:
    """A function of numpy on symbols; KernelTypeError if kernels do not have it so."""
    name = name_of(function)
    found = FUNCTIONS.get(function)
    if found is None:
        raise KernelTypeError(
            f"kernels have no `{name}`.",
            at=here(),
            fix=_ADVICE.get(function.__name__, _ELEMENTS),
        )
    if takes_arrays(function):
        args, kwargs = with_tables(function, tuple(args), dict(kwargs))
    signature = inspect.signature(found)
    args, kwargs = _first_by_place(tuple(args), dict(kwargs), signature)
    # The layout of memory is no matter of kernels; what is None was left out.
    options = {
        key: value
        for key, value in kwargs.items()
        if key in signature.parameters or not (value is None or key in ("order", "subok"))
    }
    try:
        signature.bind(*args, **options)
    except TypeError as error:
        raise KernelTypeError(
            f"`{name}` in a kernel does not take these arguments: {error}.",
            at=here(),
            fix="Leave out what kernels do not have, such as `out=`, `where=` and `initial=`.",
        ) from None
    return found(*args, **options)
