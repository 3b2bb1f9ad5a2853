"""`out=`: results in arrays of the caller, whatever their layout and whatever they overlap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import peffects as pe
from peffects.errors import BoundsError, OutArgumentError

X = np.arange(6.0)
A = np.arange(12.0).reshape(3, 4)


@pe.kernel
def neighbours(x: Any) -> Any:
    """Needs elements that an overlapping result would have overwritten."""
    return pe.table(lambda i: x[max(i - 1, 0)] + x[min(i + 1, len(x) - 1)], over=x)


@pe.kernel
def transposed(a: Any) -> Any:
    return pe.table(lambda i, j: a[j, i])


class Both(NamedTuple):
    table: Any
    total: Any


@pe.kernel
def both(x: Any) -> Any:
    return Both(pe.table(lambda i: 2.0 * x[i]), pe.sum(x))


def test_the_result_is_the_array_itself() -> None:
    out = np.full(6, np.nan)
    for _ in range(2):
        assert both(X, out=(Both(out, None))).table is out
        np.testing.assert_array_equal(out, 2.0 * X)
        out[:] = np.nan


def test_kernels_write_straight_into_an_array_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    large = np.arange(100_000.0)
    out = np.empty_like(large)
    neighbours(large, out=out)
    monkeypatch.setattr("peffects.codegen.launch.stages._aligned", None)  # allocating would fail
    assert neighbours(large, out=out) is out
    np.testing.assert_array_equal(out[1:-1], 2.0 * large[1:-1])


LAYOUTS: dict[str, Callable[[], Any]] = {
    "contiguous": lambda: np.empty((4, 3)),
    "Fortran order": lambda: np.empty((4, 3), order="F"),
    "strided": lambda: np.empty((8, 9))[::2, ::3],
    "reversed": lambda: np.empty((4, 3))[::-1, ::-1],
    "unaligned": lambda: np.frombuffer(bytearray(97), np.float64, offset=1).reshape(4, 3),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_of_any_layout(layout: str) -> None:
    out = LAYOUTS[layout]()
    assert transposed(A, out=out) is out
    np.testing.assert_array_equal(out, A.T)


def test_only_the_view_is_written() -> None:
    frame = np.full((6, 5), -1.0)
    transposed(A, out=frame[1:5, 1:4])
    np.testing.assert_array_equal(frame[1:5, 1:4], A.T)
    assert (frame == -1.0).sum() == 30 - 12


def test_arrays_that_overlap_arguments_or_captures() -> None:
    expected = neighbours(X)
    x = X.copy()
    np.testing.assert_array_equal(neighbours(x, out=x), expected)
    buffer = np.concatenate([X, [0.0]])
    np.testing.assert_array_equal(neighbours(buffer[:6], out=buffer[1:]), expected)
    captured = X.copy()
    kernel = pe.kernel(lambda: pe.table(lambda i: captured[i] + captured[5 - int(i)]))
    np.testing.assert_array_equal(kernel(out=captured), np.full(6, 5.0))


@given(st.integers(1, 8), st.data())
def test_any_overlap_gives_what_a_fresh_array_gives(n: int, data: st.DataObject) -> None:
    memory = np.arange(40.0)
    starts, steps = st.integers(0, 8), st.sampled_from([1, 2, 3])
    views = [
        memory[start : start + n * step : step][:: data.draw(st.sampled_from([1, -1]))]
        for start, step in [(data.draw(starts), data.draw(steps)) for _ in range(2)]
    ]
    expected = neighbours(views[0].copy())
    np.testing.assert_array_equal(neighbours(views[0], out=views[1]), expected)


def test_numbers_go_to_arrays_without_axes() -> None:
    total = np.empty(())
    result = both(X, out=Both(None, total))
    assert result.total is total and total == 15.0
    assert type(both(X).total) is np.float64


def test_empty_results() -> None:
    out = np.empty((0, 3))
    assert transposed(np.empty((3, 0)), out=out) is out


def test_interleaved_arrays_do_not_overlap() -> None:
    memory = np.empty(12)
    pair = pe.kernel(lambda x: (pe.table(lambda i: x[i] + 1.0), pe.table(lambda i: x[i] - 1.0)))
    pair(X, out=(memory[::2], memory[1::2]))
    assert memory.tolist() == [v for x in X for v in (x + 1.0, x - 1.0)]


def test_one_result_in_two_places() -> None:
    twice = pe.kernel(lambda x: (x, x))
    one, other = np.empty(6), np.empty(6)
    twice(X, out=(one, other))
    assert one.tolist() == other.tolist() == X.tolist()


def test_tables_of_sequential_loops() -> None:
    def smoothed(x: Any, rounds: Any) -> Any:
        t = x
        for _ in range(rounds):
            old = t
            t = pe.table(lambda i: 0.5 * (old[max(i - 1, 0)] + old[i]))  # noqa: B023
        return t

    kernel = pe.kernel(smoothed)
    for rounds in range(4):
        out = np.full(6, np.nan)
        np.testing.assert_array_equal(kernel(X, rounds, out=out), kernel(X, rounds))
        assert not np.isnan(out).any()


def test_accumulators_start_anew() -> None:
    @pe.kernel
    def counted(at: Any) -> Any:
        h = pe.accumulator(3, dtype=int)
        for i in pe.par(at):
            h[at[i]] += 1
        return h

    out = np.full(3, 77)
    for _ in range(2):
        assert counted(np.array([0, 2, 2]), out=out).tolist() == [1, 0, 2]


def test_derivatives_take_out_too() -> None:
    slope = np.empty(6)
    cubes: Any = pe.kernel(lambda x: pe.sum(lambda i: x[i] ** 3))
    gradient: Any = pe.grad(cubes)
    assert gradient(X, out=slope) is slope
    np.testing.assert_allclose(slope, 3.0 * X**2)


def test_a_parameter_of_that_name_is_the_kernel_s() -> None:
    @pe.kernel
    def kernel(x: Any, out: Any = 1.0) -> Any:
        return x + out

    assert kernel(1.0) == 2.0
    assert kernel(1.0, out=3.0) == 4.0


def test_a_parameter_for_any_name_is_the_kernel_s() -> None:
    @pe.kernel
    def named(x: Any, **more: Any) -> Any:
        return x + more["out"]

    assert named(1.0, out=5.0) == 6.0


REFUSED = {
    "another shape": (Both(np.empty(5), None), r"has shape \(5,\), .* has shape \(6,\)"),
    "another dtype": (Both(np.empty(6, "f4"), None), r"`out\['?0'?\]` .*float32 .*is float64"),
    "another byte order": (Both(np.empty(6, ">f8"), None), "dtype >f8"),
    "more axes": (Both(np.empty((6, 1)), None), "2 axes, but the result is float64 with 1 axis"),
    "an axis for a number": (Both(None, np.empty(1)), "one number of dtype float64"),
    "read-only": (Both(np.broadcast_to(0.0, 6), None), "is read-only"),
    "a list": (Both([0.0] * 6, None), "is of type list, not an ordinary"),
    "masked": (Both(np.ma.masked_array(X), None), "is of type MaskedArray"),
    "one array for two results": (np.empty(6), "is one array, but the result is a Both of 2"),
    "another container": ((np.empty(6), None), "`out` is a tuple of 2, but"),
    "overlap": (Both(X[:], X[1:2].reshape(())), "overlap"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused(what: str) -> None:
    out, message = REFUSED[what]
    with pytest.raises(OutArgumentError, match=message) as caught:
        both(X.copy(), out=out)
    assert caught.value.fix
    assert "test_outputs.py" in caught.value.at.file


def test_one_element_is_not_spread_over_an_array() -> None:
    with pytest.raises(OutArgumentError, match=r"has shape \(6,\), .* has shape \(1,\)"):
        both(X[:1].copy(), out=Both(np.empty(12)[::2], None))


def test_what_is_no_array_in_the_result_takes_none() -> None:
    kernel = pe.kernel(lambda x: (x, "name"))
    out = np.empty(6)
    assert kernel(X, out=(out, None)) == (out, "name")
    with pytest.raises(OutArgumentError, match=r"`out\[1\]` is given for 'name'"):
        kernel(X, out=(out, out))


def test_a_kernel_inside_another_has_no_out() -> None:
    @pe.kernel
    def outer(x: Any, y: Any) -> Any:
        return neighbours(x, out=y)

    with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
        outer(X, X.copy())


def test_a_failing_call_leaves_the_kernel_usable() -> None:
    kernel = pe.kernel(lambda x, k: pe.table(lambda i: x[i + k], over=x))
    out = np.empty(6)
    with pytest.raises(BoundsError):
        kernel(X, 1, out=out)
    result = kernel(X, 0)
    assert result is not out and result.tolist() == X.tolist()
