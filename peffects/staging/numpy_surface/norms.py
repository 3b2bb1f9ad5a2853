"""Norms of vectors and matrices, as far as they need no singular values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from peffects.errors import KernelTypeError
from peffects.ir import primitives as op
from peffects.staging.numpy_surface.reductions import Axes, normalized_axes, reduction
from peffects.staging.scalars import maths
from peffects.staging.scalars.symbols import compare, is_whole, power, select, unary
from peffects.staging.structures.accumulators import as_table
from peffects.staging.tracing.trace import here

__all__ = ["norm"]

Norm: TypeAlias = Callable[[Any, Axes, bool], Any]

_sum, _max, _min = reduction("sum"), reduction("max"), reduction("min")


def _euclidean(x: Any, axis: Axes, keepdims: bool) -> Any:
    return maths.sqrt(_sum(power(x, 2), axis=axis, keepdims=keepdims))


def _absolutes(reduce: Callable[..., Any]) -> Norm:
    """A reduction of absolute values."""
    return lambda x, axis, keepdims: reduce(unary(op.ABS, x), axis=axis, keepdims=keepdims)


def _nonzeros(x: Any, axis: Axes, keepdims: bool) -> Any:
    ones = select(compare(op.EQ, x, 0), 0.0, 1.0)
    return _sum(ones, axis=axis, keepdims=keepdims)


def _largest_sum(summed: int) -> Norm:
    """The largest sum of absolute values: of a column (axis 0 is summed) or of a row."""

    def of_matrix(x: Any, axis: Axes, keepdims: bool) -> Any:
        sums = _sum(unary(op.ABS, x), axis=summed, keepdims=True)
        return _max(sums, axis=axis, keepdims=keepdims)

    return of_matrix


_VECTOR: dict[object, Norm] = {
    2: _euclidean, 1: _absolutes(_sum), 0: _nonzeros, math.inf: _absolutes(_max),
    -math.inf: _absolutes(_min),
}  # fmt: skip
_MATRIX: dict[object, Norm] = {"fro": _euclidean, 1: _largest_sum(0), math.inf: _largest_sum(1)}


def norm(x: Any, ord: Any = None, axis: Axes = None, keepdims: bool = False) -> object:
    """The norm that `ord` names, of all elements, of a matrix or of the vectors along `axis`."""
    if not is_whole(x):
        return unary(op.ABS, x)
    ndim = as_table(x).ndim
    over = normalized_axes(axis, ndim)
    if ord is None:
        return _euclidean(x, axis, keepdims)
    known = {1: _VECTOR, 2: _MATRIX}.get(len(over), {})
    if ord not in known or (len(over) == 2 and ndim > 2):
        raise KernelTypeError(
            f"`norm` along {len(over)} of {ndim} axes has no `ord={ord!r}` in kernels.",
            at=here(),
            fix="Vectors have 2, 1, 0, inf and -inf, matrices 'fro', 1 and inf.",
        )
    return known[ord](x, axis, keepdims)
