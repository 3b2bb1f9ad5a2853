"""Whole tables against numpy: arithmetic, slices, methods; shapes, dtypes, empty ones too."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compiled import assert_equals_evaluate
from hypothesis import given
from hypothesis import strategies as st
from staged import call, check_refused, pe, run, staged

from peffects.errors import ControlFlowError, DataRaceError, KernelTypeError, PeffectsError
from peffects.optimize.pipeline import optimize

RNG = np.random.default_rng(5)
DTYPES = ("float64", "float32", "int64", "int32", "uint8", "bool")
SHAPES = ((5,), (1,), (0,), (3, 4), (0, 3), (2, 3, 4))

Function = Callable[..., Any]


def values(shape: tuple[int, ...], dtype: str) -> Any:
    """Small numbers of both signs."""
    numbers = RNG.integers(-4 if dtype[0] in "fi" else 0, 5, shape)
    scaled = numbers / 2 if dtype[0] == "f" else numbers
    return scaled.astype(dtype)


def assert_close(found: Any, expected: Any) -> None:
    """The same dtype, shape, and numbers but for rounding."""
    assert np.shape(found) == np.shape(expected)
    assert np.asarray(found).dtype == np.asarray(expected).dtype
    rtol = 1e-5 if np.asarray(expected).dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


def assert_is_numpy_s(function: Function, *args: Any) -> None:
    """Staged and evaluated, `function` gives what numpy gives."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = function(*args)
    found = run(function, *args)
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected)
        for mine, theirs in zip(found, expected, strict=True):
            assert_close(mine, theirs)
    else:
        assert_close(found, expected)


# --- arithmetic ----------------------------------------------------------------------------------

OPERATORS: dict[str, Function] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
    "truediv": lambda x, y: x / (y * y + 1), "floordiv": lambda x, y: x // (y * y + 1),
    "mod": lambda x, y: x % (y * y + 1), "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y, "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y, "square": lambda x, y: x**2 + y, "neg": lambda x, y: -x + y,
    "abs": lambda x, y: abs(x) + abs(y), "pos": lambda x, y: (+x) * y,
    "mask": lambda x, y: np.where((x > 0) & ~(y > 0) | (x == y), x, y),
    "scalars": lambda x, y: 2 * x - y * 3 + 1, "reflected": lambda x, y: 1 - x, 
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_numpy_s(name: str, shape: tuple[int, ...]) -> None:
    for dtype in ("float64", "float32", "int64", "int32"):
        assert_is_numpy_s(OPERATORS[name], values(shape, dtype), values(shape, dtype))


def test_types_meet_as_in_numpy() -> None:
    for left in DTYPES[:-1]:
        for right in DTYPES:
            x, y = values((4,), left), values((4,), right)
            assert_is_numpy_s(lambda x, y: x + y, x, y)
            assert_is_numpy_s(lambda x, y: x * 2.0, x, y)
            assert_is_numpy_s(lambda x, y: np.where(x > 1, x, y), x, y)


def test_integers_have_bits() -> None:
    x, y = values((6,), "int32"), np.abs(values((6,), "int32"))
    assert_is_numpy_s(lambda x, y: (x & y, x | y, x ^ y, ~x, x << y, x >> y), x, y)


def test_axes_go_along_from_the_right() -> None:
    row, matrix, stack = (
        values((4,), "float64"),
        values((3, 4), "float64"),
        values((2, 3, 4), "float64"),
    )
    assert_is_numpy_s(
        lambda r, m, s: (m - r, r * m, s + m, s / (1 + r * r), m + 1.0), row, matrix, stack
    )
    assert_is_numpy_s(lambda r, m, s: m[:, 0][:, None] + r, row, matrix, stack)
    assert_is_numpy_s(lambda r, m, s: r[:, None] * r[None] - r[None, :], row, matrix, stack)
    assert_is_numpy_s(lambda r, m, s: m - m.mean(axis=1, keepdims=True), row, matrix, stack)
    assert_is_numpy_s(lambda r, m, s: np.ones((1, 4)) + m * np.zeros((3, 1)), row, matrix, stack)


def test_host_arrays_go_along() -> None:
    weights = np.array([0.5, 0.25, 2.0])
    assert_is_numpy_s(lambda x: weights * x + np.array([1.0, 2.0, 3.0]), values((3,), "float64"))
    assert_is_numpy_s(lambda x: np.subtract(weights, x[0]), values((3,), "float64"))


# --- subscripts ----------------------------------------------------------------------------------

SUBSCRIPTS: dict[str, Function] = {
    "from": lambda x: x[1:], "to": lambda x: x[:-1], "inner": lambda x: x[1:-1],
    "every second": lambda x: x[::2], "backwards": lambda x: x[::-1], "first two": lambda x: x[:2],
    "last two": lambda x: x[-2:], "negative step": lambda x: x[-2::-2], "far": lambda x: x[3:100],
    "nothing": lambda x: x[3:2], "all": lambda x: x[:], "dots": lambda x: x[...],
    "new axis": lambda x: x[None], "new last axis": lambda x: x[..., None],
    "twice": lambda x: x[1:][:-1][::2], "stop from the end": lambda x: x[-3:-1],
    "to negative": lambda x: x[:-4:-1], "list": lambda x: x[[0, 0]],
}  # fmt: skip


@pytest.mark.parametrize("name", SUBSCRIPTS)
def test_slices_are_numpy_s(name: str) -> None:
    for shape in SHAPES:
        if name != "list":
            assert_is_numpy_s(SUBSCRIPTS[name], values(shape, "float64"))
    assert_is_numpy_s(SUBSCRIPTS["list"], values((3, 2), "float64"))


def test_subscripts_of_several_axes() -> None:
    a, s = values((4, 5), "float64"), values((2, 3, 4), "int64")
    assert_is_numpy_s(lambda a, s: (a[:, 0], a[1, 1:], a[1:, -1], a[::-1, ::2], a[2]), a, s)
    assert_is_numpy_s(lambda a, s: (s[..., 1], s[0, ..., None], s[:, None, 1:], s[1, 2, 3]), a, s)
    index = np.array([3, 0, 3])
    assert_is_numpy_s(lambda a, k: (a[k], a[k, k], a[:, k], a[k][:, k], a[k, 1:]), a, index)
    assert_is_numpy_s(lambda a, k: (a[k[:, None], k], a[k, 2], a[1, k]), a, index)


STEPS: dict[int, Function] = {
    1: lambda x, start, stop: (x[start:stop], x[start:], x[:stop]),
    2: lambda x, start, stop: (x[start:stop:2], x[start::2], x[:stop:2]),
    -1: lambda x, start, stop: (x[start:stop:-1], x[start::-1], x[:stop:-1]),
    -3: lambda x, start, stop: (x[start:stop:-3], x[start::-3], x[:stop:-3]),
}


@given(st.integers(0, 6), st.integers(-8, 8), st.integers(-8, 8), st.sampled_from(sorted(STEPS)))
def test_bounds_are_clipped_as_python_does(n: int, start: int, stop: int, step: int) -> None:
    assert_is_numpy_s(STEPS[step], np.arange(float(n)), start, stop)


def test_slices_of_rows_in_loops() -> None:
    a = values((3, 4), "float64")
    found = run(lambda a: pe.table(lambda i: pe.sum(a[i, 1:] * a[i][:-1])), a)
    np.testing.assert_allclose(found, (a[:, 1:] * a[:, :-1]).sum(1))
    found = run(lambda a: pe.table(lambda i: pe.sum(a[i, : i + 1]), over=a), a)
    np.testing.assert_allclose(found, np.tril(a).sum(1))


# --- methods -------------------------------------------------------------------------------------

METHODS: dict[str, Function] = {
    "T": lambda x: x.T, "transpose": lambda x: x.transpose(), "ravel": lambda x: x.ravel(),
    "flatten": lambda x: x.flatten(), "copy": lambda x: x.copy(), "sum": lambda x: x.sum(),
    "prod": lambda x: x.prod(), "mean": lambda x: x.mean(), "std": lambda x: x.std(),
    "var": lambda x: x.var(ddof=1), "any": lambda x: (x > 1).any(), "all": lambda x: (x < 9).all(),
    "cumsum": lambda x: x.cumsum(), "astype": lambda x: x.astype(np.float32),
    "clip": lambda x: x.clip(0, 1), "reshape": lambda x: x.reshape(-1),
    "column": lambda x: x.reshape(-1, 1), "size": lambda x: x.size * 1,
    "last": lambda x: x.sum(axis=-1), "first": lambda x: x.sum(axis=0, keepdims=True),
    "kept": lambda x: x.mean(keepdims=True), "means": lambda x: x.mean(axis=0),
    "stds": lambda x: x.std(axis=-1), "cumsums": lambda x: x.cumsum(axis=0),
    "repeat": lambda x: x.repeat(2), "shape": lambda x: x.shape[0] * 1,
}  # fmt: skip
OF_SOME: dict[str, Function] = {
    "min": lambda x: x.min(), "max": lambda x: x.max(axis=0), "argmin": lambda x: x.argmin(),
    "argmax": lambda x: x.argmax(axis=-1), "ptp": lambda x: np.ptp(x, axis=0),
    "mins": lambda x: x.min(axis=-1, keepdims=True),
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_numpy_s(name: str) -> None:
    for shape in SHAPES:
        for dtype in DTYPES if name not in ("clip",) else DTYPES[:-1]:
            assert_is_numpy_s(METHODS[name], values(shape, dtype))


@pytest.mark.parametrize("name", OF_SOME)
def test_methods_of_tables_with_elements_are_numpy_s(name: str) -> None:
    for shape in ((5,), (1,), (3, 4), (2, 3, 4)):
        for dtype in DTYPES[:-1]:
            assert_is_numpy_s(OF_SOME[name], values(shape, dtype))


def test_attributes_are_known_while_staging() -> None:
    found = run(lambda x: (x.ndim, str(x.dtype), len(x), x.shape), values((2, 3), "int32"))
    assert found == (2, "int32", 2, (2, 3))


PRODUCTS = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (5, 3, 4)), ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((4, 2, 3), (3,)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "uint8"])
def test_products_are_numpy_s(dtype: str) -> None:
    for left, right in PRODUCTS:
        assert_is_numpy_s(lambda a, b: a @ b, values(left, dtype), values(right, dtype))
    a, b = values((4, 2, 3), dtype), values((5, 3, 2), dtype)
    assert_is_numpy_s(lambda a, b: a[:, None] @ b, a, b)


# --- compiled ------------------------------------------------------------------------------------


def everything(x: Any, y: Any, a: Any, k: Any) -> Any:
    """Many whole tables in one program."""
    masked = np.where(x > 0.0, x * y, -y)
    return (
        (x[1:] - x[:-1]) ** 2, a - a.mean(axis=1, keepdims=True), a.T @ a, x[::-2], x[k] * 2.0,
        a[:, 1] + x[: len(a)], np.cumsum(masked), np.concatenate([x, y[1:]]), np.roll(x, 3),
        masked.sum(), a.reshape(-1)[::2], np.stack([x, y]), a.argmax(axis=1), np.outer(x, y),
    )  # fmt: skip


@pytest.mark.parametrize("n", [0, 1, 7, 200])
def test_compiled_is_evaluated(n: int) -> None:
    a = RNG.normal(size=(min(n, 3), 5))
    args = (RNG.normal(size=n), RNG.normal(size=n), a, RNG.integers(0, max(n, 1), min(n, 4)))
    made = staged(everything, *args)
    assert_equals_evaluate(optimize(made.program), *(made.arguments(args, {}) or ()), rtol=1e-12)
    expected = everything(*args) if n else None
    for mine, theirs in zip(call(made, *args), expected or (), strict=n > 0):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-13)


# --- what Python asks of a whole table -----------------------------------------------------------


def unpacked(x: Any) -> Any:
    a, b = x  # here
    return a + b


def overwritten(x: Any) -> Any:
    x[1:] = 0.0  # here
    return x


@pytest.mark.parametrize(
    "error, function, advice",
    [
        (KernelTypeError, lambda x: not x, "`.any()`"),  # here
        (ControlFlowError, lambda x: [2.0 * v for v in x], "`pe.table(lambda i: f(x[i]))`"),  # here
        (ControlFlowError, unpacked, "`a, b = x[0], x[1]`"),
        (ControlFlowError, lambda x: np.r_[x, x], "`np.concatenate`"),  # here
        (DataRaceError, overwritten, "`new = pe.state(x)`"),
    ],
)
def test_what_a_whole_table_cannot_tell_python_is_refused_with_advice(
    error: type[PeffectsError], function: Function, advice: str
) -> None:
    check_refused(error, function, (np.ones(2),), advice)
