"""Sorting and searching in kernels: what numpy gives, in O(n log n), with derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from staged import check_refused, run, staged

import peffects as pe
from peffects.errors import KernelTypeError, ValueRangeError
from peffects.ir.evaluate import Work, evaluate

ELEMENTS = st.one_of(
    st.floats(-3, 3).map(round).map(float), st.sampled_from([np.nan, np.inf, -np.inf, -0.0])
)
vectors = arrays(float, st.integers(0, 40), elements=ELEMENTS)
both = pe.kernel(lambda x: (pe.argsort(x), pe.sort(x)))


@given(vectors)
def test_vectors_are_sorted_as_numpy_sorts_them_stably(x: Any) -> None:
    places, ordered = both(x)
    np.testing.assert_array_equal(places, np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(ordered, np.sort(x, kind="stable"))
    np.testing.assert_array_equal(np.signbit(ordered), np.signbit(x[places]))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "float32", "bool"])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 64, 65, 1000])
def test_all_types_are_sorted(dtype: str, size: int) -> None:
    rng = np.random.default_rng(size)
    x = rng.integers(0, 50, size)
    x = (x - 25 if dtype[0] in "if" else x).astype(dtype)
    if dtype == "uint64" and size > 3:
        x[:3] = 2**64 - 1, 2**63, 2**63 - 1
    places, ordered = both(x)
    assert (places.dtype, ordered.dtype) == (np.int64, x.dtype)
    np.testing.assert_array_equal(places, np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(ordered, np.sort(x))


def test_the_evaluator_agrees_with_compiled_code() -> None:
    x = np.array([2.0, np.nan, -1.0, -0.0, 0.0, -1.0])
    for found, wanted in zip(run(lambda x: (pe.argsort(x), pe.sort(x)), x), both(x), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_sorting_takes_n_log_n_steps() -> None:
    """Counted by the evaluator; four times as many elements, about 4 log(4n) / log(n) the work."""
    program = staged(lambda x: pe.sort(x), np.ones(2)).program
    counts = []
    for size in (64, 256):
        work = Work()
        evaluate(program, [np.random.default_rng(0).random(size)], work=work)
        counts.append(work.operations)
    assert counts[1] < counts[0] * 4 * 8 / 6 * 1.05


def test_rows_are_sorted_along_the_last_axis_in_a_parallel_loop() -> None:
    x = np.random.default_rng(1).random((50, 4, 33))
    np.testing.assert_array_equal(pe.sort(x), np.sort(x))
    np.testing.assert_array_equal(pe.argsort(x[0]), np.argsort(x[0]))
    rows = pe.kernel(lambda x: pe.table(lambda i: pe.sort(x[i])[0] + pe.median(x[i])))
    np.testing.assert_array_equal(rows(x[0]), x[0].min(axis=1) + np.median(x[0], axis=1))


def test_any_number_of_threads_gives_the_same() -> None:
    x = np.random.default_rng(2).random((200, 65))
    for count in (1, 2, 3, 4):
        with pe.threads(count):
            np.testing.assert_array_equal(pe.sort(x), np.sort(x))


def test_numpys_functions_and_sorted_are_these() -> None:
    x = np.random.default_rng(3).random((5, 7))
    assert run(lambda x: np.sort(x, axis=0), x).tolist() == np.sort(x, axis=0).tolist()
    assert run(lambda x: np.argsort(x, axis=None), x).tolist() == np.argsort(x, axis=None).tolist()
    assert run(lambda x: sorted(x[0]), x).tolist() == sorted(x[0].tolist())
    assert run(lambda x: np.median(x), x) == np.median(x)
    found = run(lambda x: np.quantile(x, 0.3, axis=1), x)
    np.testing.assert_allclose(found, np.quantile(x, 0.3, axis=1), rtol=1e-15)
    assert run(lambda x: np.searchsorted(np.sort(x[0]), 0.5), x) == np.searchsorted(
        np.sort(x[0]), 0.5
    )


def test_debugging_runs_sort_too() -> None:
    x = np.array([3.0, 1.0, 2.0])
    assert pe.kernel(lambda x: pe.sort(x)).debug(x).tolist() == [1.0, 2.0, 3.0]


# --- searching -----------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["left", "right"])
@given(x=vectors, values=vectors)
def test_places_of_values_are_numpys(side: str, x: Any, values: Any) -> None:
    x = np.sort(x)
    found = SEARCH[side](x, values)
    np.testing.assert_array_equal(found, np.searchsorted(x, values, side))  # type: ignore[call-overload]


SEARCH: dict[str, Any] = {
    "left": pe.kernel(lambda x, v: pe.searchsorted(x, v)),
    "right": pe.kernel(lambda x, v: pe.table(lambda i: pe.searchsorted(x, v[i], "right"))),
}


def test_integers_are_searched_among_floats() -> None:
    assert pe.searchsorted(np.array([0.5, 1.5, 2.5]), 2) == 2
    assert pe.searchsorted(np.array([1, 2, 3]), 2.5) == 2


def test_searching_refuses_what_it_cannot() -> None:
    def matrix(x: Any) -> Any:
        return pe.searchsorted(x, 1.0)  # here

    def middle(x: Any) -> Any:
        return pe.searchsorted(x[0], 1.0, side="middle")  # here

    check_refused(KernelTypeError, matrix, (np.ones((2, 2)),), "in 2 axes")
    check_refused(KernelTypeError, middle, (np.ones((2, 2)),), "side='middle'")


def test_sorting_a_number_is_refused() -> None:
    def f(x: Any) -> Any:
        return pe.sort(x[0])  # here

    check_refused(KernelTypeError, f, (np.ones(2),), "`sort` takes a table")


def test_sorted_with_a_key_is_refused() -> None:
    def f(x: Any) -> Any:
        return sorted(x, key=abs)  # here

    check_refused(KernelTypeError, f, (np.ones(2),), "`sorted`", "key")


# --- order statistics ----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_medians_and_quantiles_are_numpys(size: int) -> None:
    x = np.random.default_rng(size).normal(size=size)
    assert pe.median(x) == np.median(x)
    for q in (0.0, 0.25, 0.3, 0.5, 0.9, 1.0):
        assert pe.quantile(x, q) == pytest.approx(np.quantile(x, q), rel=1e-15, abs=1e-16)
    assert np.isnan(pe.median(np.append(x, np.nan))) and np.isnan(
        pe.quantile(np.append(x, np.nan), 0.1)
    )
    assert pe.median(np.arange(4)) == 1.5


def test_order_statistics_of_nothing_and_outside_are_errors() -> None:
    with pytest.raises(ValueRangeError, match="`median` of an empty table"):
        pe.median(np.ones(0))
    with pytest.raises(ValueRangeError, match=r"the quantile 1\.5 was asked for"):
        pe.quantile(np.ones(3), 1.5)
    with pytest.raises(ValueRangeError, match="the quantile nan was asked for"):
        pe.quantile(np.ones(3), np.nan)


# --- derivatives ---------------------------------------------------------------------------------

WEIGHTS = np.array([1.0, -2.0, 0.5, 3.0, 0.25])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: pe.sum(lambda i: pe.sort(x)[i] * WEIGHTS[i]),
        lambda x: pe.sum(lambda i: x[pe.argsort(x)[i]] ** 2 * WEIGHTS[i]),
        lambda x: pe.median(x) ** 2,
        lambda x: pe.quantile(x, 0.3) * pe.quantile(x, 0.8),
        lambda x: x[pe.searchsorted(pe.sort(x), 0.4)] ** 2,
    ],
)
def test_derivatives_are_gathers_and_scatters(function: Any) -> None:
    x = np.array([0.3, -1.2, 2.5, 0.9, -0.4])
    pe.check_grads(function, (x,))


def test_the_derivative_of_sort_puts_cotangents_where_elements_came_from() -> None:
    x = np.array([0.3, -1.2, 2.5, 0.9, -0.4])
    found = pe.grad(lambda x: pe.sum(lambda i: pe.sort(x)[i] * WEIGHTS[i]))(x)
    wanted = np.empty(5)
    wanted[np.argsort(x)] = WEIGHTS
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(
        pe.jvp(lambda x: pe.sort(x), (x,), (WEIGHTS,))[1], WEIGHTS[np.argsort(x)]
    )
