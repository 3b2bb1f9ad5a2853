"""Lists where numpy takes an array: `np.mean([x, y], axis=0)`, `np.dot([a, b], v)`.

numpy would make an array of a list by itself, and asks the elements for one, which symbols are not.
So a list becomes a table before numpy is asked.  Functions that take a list of arrays, such as
`np.concatenate`, are not among these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from peffects.staging.numpy_surface.joins import table_of
from peffects.staging.scalars.for_user import has_symbols

__all__ = ["takes_arrays", "with_tables"]

Function = Callable[..., object]

_ONE, _TWO, _THREE = 1, 2, 3
_LEADING: dict[Any, int] = {
    **dict.fromkeys((
        np.sum, np.prod, np.min, np.max, np.amin, np.amax, np.any, np.all, np.mean, np.var, np.std,
        np.ptp, np.count_nonzero, np.argmin, np.argmax, np.cumsum, np.cumprod, np.nansum,
        np.nanprod, np.average, np.pad, np.gradient, np.ediff1d, np.diff, np.transpose,
        np.swapaxes, np.moveaxis, np.reshape, np.ravel, np.expand_dims, np.squeeze, np.flip,
        np.fliplr, np.flipud, np.roll, np.repeat, np.tile, np.take, np.broadcast_to, np.diagonal,
        np.diag, np.tril, np.triu, np.atleast_1d, np.atleast_2d, np.copy, np.shape, np.ndim,
        np.size, np.sort, np.argsort, np.median, np.quantile, np.percentile, np.trace, np.round,
        np.around, np.nan_to_num, np.sinc, np.fix, np.isposinf, np.isneginf, np.real, np.imag,
        np.angle, np.linalg.norm, np.linalg.det, np.linalg.slogdet, np.linalg.inv,
        np.linalg.cholesky, np.linalg.qr, np.linalg.matrix_power, np.zeros_like, np.ones_like,
        np.empty_like, np.full_like,
    ), _ONE),
    **dict.fromkeys((
        np.dot, np.vdot, np.inner, np.outer, np.tensordot, np.kron, np.cross, np.isclose,
        np.allclose, np.array_equal, np.searchsorted, np.convolve, np.correlate, np.append,
        np.take_along_axis, np.linalg.solve,
        *(getattr(np, name) for name in ("trapezoid", "trapz") if name in np.__all__),
    ), _TWO),
    **dict.fromkeys((np.where, np.clip, np.interp), _THREE),
}  # fmt: skip
"""How many of the leading arguments of a function are arrays."""
_NAMES = frozenset({"a", "x", "y", "arr", "ary", "m", "v", "weights", "array"})


def takes_arrays(function: object) -> bool:
    """Whether lists among the arguments of `function` stand for arrays."""
    is_ufunc = isinstance(function, np.ufunc) or _is_method(function)
    return is_ufunc or _is_leading(function) or function is np.einsum


def _is_method(function: object) -> bool:
    """Whether it is `np.add.reduce` or another method of a universal function."""
    return isinstance(getattr(function, "__self__", None), np.ufunc)


def _is_leading(function: object) -> bool:
    try:
        return function in _LEADING
    except TypeError:  # it has no hash
        return False


def with_tables(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], symbols_only: bool = False
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with tables in place of lists; with `symbols_only`, of lists of symbols."""

    def table(value: Any) -> Any:
        is_list = isinstance(value, list | tuple) and len(value) > 0
        return table_of(value) if is_list and (not symbols_only or has_symbols(value)) else value

    if function is np.einsum:
        return (*args[:1], *map(table, args[1:])), kwargs
    if isinstance(function, np.ufunc):
        count = len(args)
    elif _is_method(function):
        count = _TWO if function.__name__ == "outer" else _ONE
    else:
        count = _LEADING[function]
    named = {key: table(value) if key in _NAMES else value for key, value in kwargs.items()}
    return (*map(table, args[:count]), *args[count:]), named
