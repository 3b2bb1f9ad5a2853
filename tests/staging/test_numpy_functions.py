"""Every function of the table of numpy's functions gives what numpy gives."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compiled import assert_equals_evaluate
from staged import call, run, staged

from peffects.errors import ValueRangeError
from peffects.optimize.pipeline import optimize
from peffects.staging.numpy_surface.creation import CREATION
from peffects.staging.numpy_surface.functions import FUNCTIONS, name_of
from peffects.staging.numpy_surface.ufuncs import UFUNCS

RNG = np.random.default_rng(11)
Function = Callable[..., Any]

# What is called, for a vector v, a matrix m, an integer vector k, a number s; by numpy's name.
CASES: dict[str, Function] = {
    # element by element
    "where": lambda v, m, k, s: (
        np.where(v > 0, v, s),
        np.where(k > 1, k, 0),
        np.where(m > v[:, None], m, 0.5),
    ),
    "clip": lambda v, m, k, s: (
        np.clip(v, -0.5, s),
        np.clip(m, None, 0.5),
        np.clip(k, 1, 2),
        np.clip(v[0:], 0.0, v * v),
    ),
    "isclose": lambda v, m, k, s: (np.isclose(v, v + 1e-9), np.isclose(v, 0.0)),
    "nan_to_num": lambda v, m, k, s: np.nan_to_num(np.log(v), nan=2.0),
    "allclose": lambda v, m, k, s: (np.allclose(v, v), np.allclose(m, m + 1)),
    "array_equal": lambda v, m, k, s: (np.array_equal(v, v), np.array_equal(v, -v - 1)),
    "imag": lambda v, m, k, s: np.imag(v),
    "angle": lambda v, m, k, s: np.angle(v),
    "sort": lambda v, m, k, s: (np.sort(v), np.sort(m, axis=0)),
    "argsort": lambda v, m, k, s: (np.argsort(v), np.argsort(m, axis=1)),
    "searchsorted": lambda v, m, k, s: np.searchsorted(np.sort(v), s),
    "median": lambda v, m, k, s: np.median(v),
    "quantile": lambda v, m, k, s: (np.quantile(v, 0.25), np.quantile(m, [0.1, 1.0], axis=1)),
    "percentile": lambda v, m, k, s: (
        np.percentile(v, 30),
        np.percentile(m, [25, 50, 75]),
        np.percentile(m, 12.5 * s, axis=0),
    ),
    "convolve": lambda v, m, k, s: (
        np.convolve(v, k),
        np.convolve(v, np.array([0.25, 0.5, 0.25]), mode="same"),
        np.convolve(v, v[:2], "valid"),
        np.convolve(k[:1], v, "same"),
    ),
    "correlate": lambda v, m, k, s: (
        np.correlate(v, v[:2]),
        np.correlate(v, v[-2:], "same"),
        np.correlate(k[:1], v, "full"),
    ),
    "interp": lambda v, m, k, s: (
        np.interp(s * 0.1, np.sort(v), v),
        np.interp(m, np.sort(v), v, left=9.0),
        np.interp(np.sort(v), np.sort(v), v, right=s),
        np.interp(v + 10.0, np.sort(v), v, right=s),
    ),
    "sinc": lambda v, m, k, s: np.sinc(v),
    "fix": lambda v, m, k, s: np.fix(v * 3.0),
    "around": lambda v, m, k, s: (np.round(v * 3.0), v.round()),
    "isposinf": lambda v, m, k, s: np.isposinf(1.0 / (v * 0.0)),
    "isneginf": lambda v, m, k, s: np.isneginf(1.0 / (v * 0.0)),
    "real": lambda v, m, k, s: np.real(v),
    # reductions
    "sum": lambda v, m, k, s: (
        np.sum(v),
        np.sum(m, axis=0),
        np.sum(m, 1, keepdims=True),
        np.sum(k),
        np.sum(k, dtype=float),
    ),
    "prod": lambda v, m, k, s: (np.prod(v), np.prod(m, axis=(0, 1)), np.prod(k)),
    "min": lambda v, m, k, s: (np.min(m), np.min(m, axis=0), np.amin(m, axis=-1)),
    "max": lambda v, m, k, s: (np.max(m), np.max(m, axis=0), np.amax(m, axis=-1, keepdims=True)),
    "any": lambda v, m, k, s: (np.any(v > 1), np.any(m, axis=0)),
    "all": lambda v, m, k, s: (np.all(v < 9), np.all(m > 0, axis=1)),
    "mean": lambda v, m, k, s: (np.mean(m), np.mean(m, axis=0), np.mean(k + 1)),
    "average": lambda v, m, k, s: (
        np.average(m),
        np.average(m, axis=1),
        np.average(m, weights=m * m + 1),
    ),
    "var": lambda v, m, k, s: (np.var(m), np.var(m, axis=0), np.var(m, axis=1, ddof=1)),
    "std": lambda v, m, k, s: (np.std(m), np.std(m, axis=1, keepdims=True)),
    "ptp": lambda v, m, k, s: np.ptp(m, axis=0),
    "count_nonzero": lambda v, m, k, s: (np.count_nonzero(k), np.count_nonzero(m > 0, axis=1)),
    "argmin": lambda v, m, k, s: (np.argmin(m), np.argmin(m, axis=0)),
    "argmax": lambda v, m, k, s: (np.argmax(m), np.argmax(m, axis=1)),
    "cumsum": lambda v, m, k, s: (
        np.cumsum(v),
        np.cumsum(m),
        np.cumsum(m, axis=0),
        np.cumsum(m, axis=1),
    ),
    "cumprod": lambda v, m, k, s: (np.cumprod(v), np.cumprod(m, axis=1)),
    "nansum": lambda v, m, k, s: np.nansum(np.sqrt(v)),
    "nanprod": lambda v, m, k, s: np.nanprod(np.sqrt(v)),
    # neighbours
    "diff": lambda v, m, k, s: (
        np.diff(v),
        np.diff(v, n=2),
        np.diff(m, axis=0),
        np.diff(m),
        np.diff(v, prepend=s),
        np.diff(m, axis=0, prepend=0.0, append=m[:1]),
        np.diff(v, append=[1.0, s]),
    ),
    "ediff1d": lambda v, m, k, s: (np.ediff1d(v), np.ediff1d(m)),
    "pad": lambda v, m, k, s: (
        np.pad(v, 1),
        np.pad(v, (0, 2), constant_values=s),
        np.pad(m, ((1, 2), (0, 3)), "constant", constant_values=((1, 2), (3, 4))),
        np.pad(k, 2, constant_values=(1, 2)),
    ),
    "trapezoid": lambda v, m, k, s: (
        np.trapezoid(v),
        np.trapezoid(v, dx=0.5),
        np.trapezoid(v, v * v),
    ),
    # shapes
    "transpose": lambda v, m, k, s: (np.transpose(m), np.transpose(v), np.transpose(m, (1, 0))),
    "swapaxes": lambda v, m, k, s: np.swapaxes(m, 0, -1),
    "moveaxis": lambda v, m, k, s: np.moveaxis(m[None], 0, -1),
    "reshape": lambda v, m, k, s: (
        np.reshape(m, -1),
        np.reshape(v, (1, -1)),
        np.reshape(m, (-1, 1, m.shape[0])),
    ),
    "ravel": lambda v, m, k, s: (np.ravel(m), np.ravel(m.T)),
    "expand_dims": lambda v, m, k, s: (np.expand_dims(v, 0), np.expand_dims(m, -1)),
    "squeeze": lambda v, m, k, s: (np.squeeze(v[None], axis=0), np.squeeze(m[:, :1], axis=1)),
    "flip": lambda v, m, k, s: (np.flip(v), np.flip(m), np.flip(m, 1)),
    "fliplr": lambda v, m, k, s: np.fliplr(m),
    "flipud": lambda v, m, k, s: np.flipud(m),
    "roll": lambda v, m, k, s: (
        np.roll(v, 2),
        np.roll(v, -1),
        np.roll(m, 3),
        np.roll(m, 1, axis=1),
        np.roll(v, 17),
        np.roll(m, (1, -2), axis=(0, 1)),
        np.roll(m, 1, axis=(0, 1)),
    ),
    "repeat": lambda v, m, k, s: (np.repeat(v, 3), np.repeat(m, 2, axis=0), np.repeat(m, 2)),
    "tile": lambda v, m, k, s: (np.tile(v, 2), np.tile(m, 3)),
    "take": lambda v, m, k, s: (np.take(v, k), np.take(m, k, axis=1), np.take(m, k)),
    "broadcast_to": lambda v, m, k, s: (
        np.broadcast_to(v, (3, len(v))),
        np.broadcast_to(s, (2, 2)),
    ),
    "meshgrid": lambda v, m, k, s: (*np.meshgrid(v, k), *np.meshgrid(v, k, indexing="ij")),
    "diagonal": lambda v, m, k, s: (
        np.diagonal(m),
        np.diagonal(m, 1),
        np.diagonal(m, -1),
        np.diagonal(m @ m.T),
    ),
    "diag": lambda v, m, k, s: (np.diag(m), np.diag(v)),
    "tril": lambda v, m, k, s: (np.tril(m), np.tril(m, -1)),
    "triu": lambda v, m, k, s: (np.triu(m), np.triu(m, 1)),
    "atleast_1d": lambda v, m, k, s: (np.atleast_1d(v), np.atleast_1d(s)),
    "atleast_2d": lambda v, m, k, s: (np.atleast_2d(v), np.atleast_2d(m)),
    "copy": lambda v, m, k, s: np.copy(v),
    "shape": lambda v, m, k, s: (np.shape(m)[1] * 1, np.size(m) * 1),
    "ndim": lambda v, m, k, s: np.ndim(m) * s,
    "size": lambda v, m, k, s: (np.size(m) * 1, np.size(m, 1) * 1),
    "gradient": lambda v, m, k, s: np.gradient(np.append(v, s), 0.5),
    # in other places
    "select": lambda v, m, k, s: (
        np.select([v > 1, v > 0], [v, v * v], s),
        np.select([k > 1], [k]),
        np.select([m > 0, m > -1], [v[:, None], 1.0], -m),
    ),
    "take_along_axis": lambda v, m, k, s: (
        np.take_along_axis(m, np.argsort(m, axis=1), axis=1),
        np.take_along_axis(m, np.argsort(m, axis=0)[:1], axis=0),
        np.take_along_axis(v, np.argsort(v), axis=-1),
        np.take_along_axis(m, np.argsort(m[:, 0])[:, None] * 0, 1),
    ),
    # several tables
    "concatenate": lambda v, m, k, s: (
        np.concatenate([v, v * 2, k]),
        np.concatenate([k, k > 1]),
        np.stack([k > 1, k]),
        np.concatenate((m, m), axis=1),
        np.concatenate([m, m[1:]]),
        np.concatenate([m, m], axis=None),
        np.concatenate([[0.0], v, [s, 1.0]]),
    ),
    "stack": lambda v, m, k, s: (
        np.stack([v, v + 1]),
        np.stack([m, m, 2 * m], axis=1),
        np.stack([v, v], axis=-1),
    ),
    "vstack": lambda v, m, k, s: (np.vstack([v, v]), np.vstack([m, m])),
    "hstack": lambda v, m, k, s: (np.hstack([v, v]), np.hstack([m, m]), np.hstack([0.0, v, [s]])),
    "column_stack": lambda v, m, k, s: np.column_stack([v, v * v]),
    "append": lambda v, m, k, s: (np.append(v, v), np.append(v, s)),
    # products
    "dot": lambda v, m, k, s: (np.dot(v, v), np.dot(m.T, v), np.dot(m.T, m), np.dot(s, v)),
    "vdot": lambda v, m, k, s: np.vdot(m, m),
    "inner": lambda v, m, k, s: (np.inner(v, v), np.inner(m, m)),
    "outer": lambda v, m, k, s: np.outer(v, k),
    "tensordot": lambda v, m, k, s: (np.tensordot(m, m), np.tensordot(m, v, axes=([0], [0]))),
    "einsum": lambda v, m, k, s: (
        np.einsum("ij,ij->i", m, m),
        np.einsum("ij,kj", m, m),
        np.einsum("ij->ji", m),
        np.einsum("i,ij,ij->", v, m, m),
        np.einsum("ii", m @ m.T),
    ),
    "kron": lambda v, m, k, s: (np.kron(v, k), np.kron(m, m), np.kron(m, v), np.kron(v, m)),
    "trace": lambda v, m, k, s: np.trace(m @ m.T),
    "cross": lambda v, m, k, s: np.cross(np.array([s, 1.0, 2.0]), np.array([0.5, s, -s])),
    # new tables
    "zeros_like": lambda v, m, k, s: (np.zeros_like(v), np.zeros_like(k, dtype=float)),
    "ones_like": lambda v, m, k, s: (np.ones_like(m), np.ones_like(v, shape=(2, 3))),
    "empty_like": lambda v, m, k, s: np.empty_like(v) * 0.0,
    "full_like": lambda v, m, k, s: (np.full_like(v, s), np.full_like(k, 7)),
    "zeros": lambda v, m, k, s: (
        np.zeros(len(v)),
        np.zeros((2, len(k)), dtype=int),
        np.zeros(v.shape),
    ),
    "ones": lambda v, m, k, s: np.ones((len(k), 3), np.float32),
    "empty": lambda v, m, k, s: np.empty(len(v)) * 0.0,
    "full": lambda v, m, k, s: (np.full(len(v), s), np.full((2, 2), 3), np.full(3, 1.5)),
    "arange": lambda v, m, k, s: (
        np.arange(len(v)),
        np.arange(2, len(v) + 2),
        np.arange(0.0, s, 0.25),
        np.arange(len(v), 0, -2),
        np.arange(3),
        np.arange(0, 1, 0.3),
    ),
    "linspace": lambda v, m, k, s: (
        np.linspace(0.0, s, 5),
        np.linspace(1, 2, len(v)),
        np.linspace(0.0, 1.0, len(v), endpoint=False),
    ),
    "tri": lambda v, m, k, s: (np.tri(len(v)), np.tri(2, 3, 1), np.tri(3, 2, -1, dtype=int)),
    "eye": lambda v, m, k, s: (np.eye(len(v)), np.eye(2, 3, 1), np.eye(3, dtype=bool)),
    "identity": lambda v, m, k, s: np.identity(len(k)),
    "array": lambda v, m, k, s: (
        np.array([s, 2.0, v.sum()]),
        np.array([[s, 0.0], [1.0, s]]),
        np.array(v),
    ),
    "asarray": lambda v, m, k, s: (np.asarray(v), np.asarray([s, s], dtype=np.float32)),
    "ascontiguousarray": lambda v, m, k, s: np.ascontiguousarray(m.T),
    "asanyarray": lambda v, m, k, s: np.asanyarray(v),
    "astype": lambda v, m, k, s: np.astype(k, np.float32),
    "linalg.norm": lambda v, m, k, s: (
        np.linalg.norm(v),
        np.linalg.norm(m),
        np.linalg.norm(m, "fro"),
        np.linalg.norm(v, 1),
        np.linalg.norm(m, axis=1),
        np.linalg.norm(v, 0),
        np.linalg.norm(m, axis=0, keepdims=True),
    ),
    "linalg.det": lambda v, m, k, s: np.linalg.det(m @ m.T + np.eye(len(m))),
    "linalg.slogdet": lambda v, m, k, s: np.linalg.slogdet(-(m @ m.T) - np.eye(len(m))),
    "linalg.inv": lambda v, m, k, s: np.linalg.inv(m @ m.T + np.eye(len(m))),
    "linalg.solve": lambda v, m, k, s: (
        np.linalg.solve(m @ m.T + np.eye(len(m)), v),
        np.linalg.solve(m @ m.T + np.eye(len(m)), m),
    ),
    "linalg.cholesky": lambda v, m, k, s: np.linalg.cholesky(m @ m.T + np.eye(len(m))),
    "linalg.qr": lambda v, m, k, s: np.linalg.qr(m),
    "linalg.matrix_power": lambda v, m, k, s: np.linalg.matrix_power(m @ m.T, 3),
}
SAME = {"amin": "min", "amax": "max", "trapz": "trapezoid", "round": "around"}


def arguments(rows: int, columns: int) -> tuple[Any, ...]:
    """A vector, a matrix with as many rows, places in the vector and in a row, a number."""
    places = RNG.integers(0, max(1, min(rows, columns)), min(rows, 4))
    return RNG.normal(size=rows), RNG.normal(size=(rows, columns)), places, 1.25


def assert_close(found: Any, expected: Any) -> None:
    """The same structure, dtypes, shapes, and numbers but for rounding."""
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected)
        for mine, theirs in zip(found, expected, strict=True):
            assert_close(mine, theirs)
        return
    assert np.shape(found) == np.shape(expected)
    assert np.asarray(found).dtype == np.asarray(expected).dtype
    rtol = 1e-5 if np.asarray(expected).dtype == np.float32 else 1e-11
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


def quietly(function: Function, *args: Any) -> Any:
    """What numpy gives, without its warnings."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args)


def test_every_function_of_the_table_has_a_case() -> None:
    names = {name_of(function).removeprefix("np.") for function in (*FUNCTIONS, *CREATION)}  # type: ignore[arg-type]
    assert {SAME.get(name, name) for name in names} == set(CASES) & {SAME.get(n, n) for n in names}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sizes", [(3, 4), (5, 2), (1, 1)], ids=str)
def test_function_is_numpy_s(name: str, sizes: tuple[int, int]) -> None:
    args = arguments(*sizes)
    assert_close(run(CASES[name], *args), quietly(CASES[name], *args))


NEEDS_ELEMENTS = {
    "median",
    "quantile",
    "average",
    "min",
    "max",
    "ptp",
    "argmin",
    "argmax",
    "take",
    "reshape",
    "cross",
    "percentile",
    "convolve",
    "correlate",
    "interp",
    "gradient",
}


@pytest.mark.parametrize("name", sorted(set(CASES) - NEEDS_ELEMENTS))
def test_function_of_empty_tables_is_numpy_s(name: str) -> None:
    args = arguments(0, 3)
    assert_close(run(CASES[name], *args), quietly(CASES[name], *args))


FEW = np.array([2.0, 3.0, 5.0, 9.0])
LONGER: dict[str, Function] = {
    "gradient": lambda v, m: (
        np.gradient(v),
        np.gradient(v, 0.5),
        np.gradient(v, edge_order=2),
        np.gradient(v, 0.5, edge_order=2),
        np.gradient(v, v * v + np.arange(len(v))),
        np.gradient(v, v * v + np.arange(len(v)), edge_order=2),
        np.gradient(m)[0],
        np.gradient(m)[1],
        np.gradient(m, 2.0, 0.5)[1],
        np.gradient(m, axis=0),
        np.gradient(m, 0.1, axis=(1, 0))[1],
    ),
    "modes": lambda v, m: tuple(
        np.pad(x, width, mode)
        for mode in ("edge", "wrap", "reflect", "symmetric")
        for x, width in ((v, 1), (v, (9, 11)), (m, 2), (m, ((0, 1), (7, 0))))
    ),
    "ends": lambda v, m: np.interp(np.array([-9.0, np.nan, 99.0, 5.0, 2.0, 9.0]), FEW, v[:4]),
}


@pytest.mark.parametrize("name", LONGER)
@pytest.mark.parametrize("sizes", [(4, 3), (7, 5)], ids=str)
def test_function_of_neighbours_is_numpy_s(name: str, sizes: tuple[int, int]) -> None:
    args = arguments(*sizes)[:2]
    assert_close(run(LONGER[name], *args), quietly(LONGER[name], *args))


@pytest.mark.parametrize("size", [0, 1, 2])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.gradient(x),
        lambda x: np.gradient(x, edge_order=2),
        lambda x: np.pad(x, 1, "edge"),
        lambda x: np.pad(x, 3, "wrap"),
        lambda x: np.pad(x, (2, 0), "reflect"),
        lambda x: np.pad(x, 2, "symmetric"),
        lambda x: np.convolve(x, np.ones(2)),
        lambda x: np.interp(x, x, x),
        lambda x: np.correlate(x, np.ones(2)),
    ],
)
def test_few_elements_are_refused_where_numpy_does(function: Function, size: int) -> None:
    x = np.arange(float(size))
    try:
        expected = quietly(function, x)
    except ValueError:
        with pytest.raises(ValueRangeError) as caught:
            run(function, x)
        assert caught.value.at.line
    else:
        if size == 1 and "correlate" in function.__code__.co_names:  # numpy swaps the two
            with pytest.raises(ValueRangeError, match="longer vector first"):
                run(function, x)
        else:
            assert_close(run(function, x), expected)


COMPILED = [name for name in CASES if not name.startswith("linalg.")]


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(COMPILED), 16))
def test_compiled_functions_are_evaluated(start: int) -> None:
    chosen = [CASES[name] for name in COMPILED[start : start + 16]]

    def all_of_them(v: Any, m: Any, k: Any, s: Any) -> Any:
        return tuple(function(v, m, k, s) for function in chosen)

    args = arguments(7, 5)
    made = staged(all_of_them, *args)
    program = optimize(made.program)
    assert_equals_evaluate(program, *(made.arguments(args, {}) or ()), rtol=1e-12)
    assert_close(call(made, *args), quietly(all_of_them, *args))


# --- universal functions -------------------------------------------------------------------------

_INTEGERS = {
    "left_shift",
    "right_shift",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "invert",
    "bitwise_count",
    "gcd",
    "lcm",
}
_PLACES = {"arccosh": 1.5, "arccos": 0.0, "arcsin": 0.0, "arctanh": 0.0}


def operands(name: str) -> list[Any]:
    """Vectors that the function is defined for."""
    ufunc = getattr(np, name)
    if name in _INTEGERS:
        return [RNG.integers(0, 6, 5) for _ in range(ufunc.nin)]
    if name == "matmul":
        return [RNG.normal(size=(2, 3)), RNG.normal(size=(3, 2))]
    if name == "ldexp":
        return [RNG.normal(size=5), RNG.integers(0, 6, 5)]
    center = _PLACES.get(name, 1.2)
    return [center + RNG.uniform(-0.5, 0.5, 5) for _ in range(ufunc.nin)]


@pytest.mark.parametrize("name", sorted(UFUNCS))
def test_universal_function_goes_over_elements(name: str) -> None:
    ufunc = getattr(np, name)
    args = operands(name)
    assert_close(run(lambda *xs: ufunc(*xs), *args), ufunc(*args))
    if name != "matmul":
        first = [x[0] for x in args]
        assert_close(run(lambda *xs: ufunc(*xs), *first), ufunc(*first))


def test_methods_of_universal_functions() -> None:
    m, v = RNG.normal(size=(3, 4)), RNG.normal(size=4)
    for function in (
        lambda m, v: (np.add.reduce(m), np.multiply.reduce(v), np.maximum.reduce(m, axis=1)),
        lambda m, v: (np.minimum.reduce(m, axis=None), np.add.accumulate(m), np.add.accumulate(v)),
        lambda m, v: (np.subtract.outer(v, v), np.multiply.outer(m, v)),
        lambda m, v: (np.logical_or.reduce(m > 1), np.multiply.accumulate(v)),
    ):
        assert_close(run(function, m, v), function(m, v))
