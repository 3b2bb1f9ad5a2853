"""`fold`, `scan`, running reductions, and what a `for` statement may run over."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from everywhere import run_everywhere
from hypothesis import given
from hypothesis import strategies as st
from staged import check_refused, run

import peffects as pe
from peffects.errors import (
    ControlFlowError,
    KernelTypeError,
    MergeError,
    UnknownIndexSetError,
    UnsupportedSyntaxError,
)

X = np.array([1.0, -2.0, 3.0, 0.5, 2.0])
INTEGERS = np.arange(12, dtype=np.int8).reshape(4, 3)


# --- fold and scan -------------------------------------------------------------------------------


def test_fold_is_functools_reduce() -> None:
    def horner(x: Any) -> Any:
        return pe.fold(lambda c, i: 10.0 * c + x[i], 0.0)

    def backwards(x: Any) -> Any:
        return pe.fold(lambda c, i: 10.0 * c + x[i], 0.0, over=x, reverse=True)

    assert run_everywhere(horner, X) == np.polyval(X, 10.0)
    assert run_everywhere(backwards, X) == np.polyval(X[::-1], 10.0)
    assert run_everywhere(horner, X[:0]) == 0.0


def test_fold_carries_trees_whose_types_meet() -> None:
    def swapped(x: Any) -> Any:
        start = {"sum": 0, "row": (x, 1)}
        return pe.fold(
            lambda c, i: {"sum": c["sum"] + x[i], "row": (c["row"][0], -c["row"][1])},
            start,
            over=x,
        )

    found = run_everywhere(swapped, X)
    assert found["sum"] == X.sum() and found["row"][1] == -1
    np.testing.assert_array_equal(found["row"][0], X)


def test_fold_over_several_indices_runs_the_last_fastest() -> None:
    def digits(n: Any) -> Any:
        return pe.fold(lambda c, i, j: c * 10 + (3 * i + j), 0, over=(n, 3))

    assert run_everywhere(digits, 2) == 12345


def test_scan_gives_carry_and_outputs() -> None:
    def dex(x: Any) -> Any:
        return pe.scan(lambda c, v: (c + v, c + v + 1), 0, x)

    last, table = run_everywhere(dex, np.array([1, 2, 3]))
    assert last == 6 and table.tolist() == [2, 4, 7]


def test_scan_backwards_puts_outputs_at_their_places() -> None:
    def later(x: Any) -> Any:
        return pe.scan(lambda c, v: (c + v, c), 0.0, x, reverse=True)

    last, table = run_everywhere(later, X)
    assert last == X[::-1].cumsum()[-1]
    np.testing.assert_array_equal(table, [*np.cumsum(X[::-1])[-2::-1], 0.0])


def test_scan_over_rows_pairs_and_ranges() -> None:
    def rows(a: Any, x: Any, n: Any) -> Any:
        def step(c: Any, p: Any) -> Any:
            row, v = p
            return c + v * row[0], {"first": row[0], "row": row}

        total, outputs = pe.scan(step, 0.0, (a, x))
        return total, outputs, pe.scan(lambda c, k: (c + k, c), 0, range(2, n))

    a = np.arange(10.0).reshape(5, 2)
    total, outputs, (count, table) = run_everywhere(rows, a, X, 6)
    assert total == a[:, 0] @ X and count == 14 and table.tolist() == [0, 2, 5, 9]
    np.testing.assert_array_equal(outputs["row"], a)


def test_scan_inside_parallel_loops_and_over_several_indices() -> None:
    def rows(a: Any) -> Any:
        inner = pe.table(lambda i: pe.scan(lambda c, v: (c + v, c), 0, a[i])[1])
        _, grid = pe.scan(lambda c, i, j: (c + a[i, j], c), 0)
        return inner, grid

    inner, grid = run_everywhere(rows, INTEGERS)
    before = np.cumsum(INTEGERS, axis=1) - INTEGERS
    np.testing.assert_array_equal(inner, before)
    np.testing.assert_array_equal(grid, (INTEGERS.cumsum() - INTEGERS.ravel()).reshape(4, 3))


def test_a_carry_of_another_kind_is_refused() -> None:
    def pair(x: Any) -> Any:
        return pe.fold(lambda c, i: (c, x[i]), 0.0)  # here

    check_refused(MergeError, pair, (X,), "`fold`", "carry", "the tuple")


def test_scan_wants_a_pair() -> None:
    def single(x: Any) -> Any:
        return pe.scan(lambda c, v: c + v, 0.0, x)  # here

    check_refused(KernelTypeError, single, (X,), "`scan`", "pair")


def test_an_index_set_that_nothing_tells_is_refused() -> None:
    def unknown() -> Any:
        return pe.fold(lambda c, i: c + i, 0)  # here

    check_refused(UnknownIndexSetError, unknown, (), "`i`")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: pe.fold(lambda c: c, 0.0, over=x), ("0 indices", "1 index set")),
        (lambda x: pe.fold(3.0, 0.0, over=x), ("takes a function",)),
        (lambda x: pe.scan(lambda c, v: (c, v), 0.0, x, over=x), ("both",)),
        (lambda x: pe.scan(lambda c, v: (c, v), 0.0, {"a": 1.0}), ("no rows",)),
        (lambda x: pe.fold(lambda c, i: c, 0.0, over=x, reverse=x[0] > 0), ("`reverse`",)),
        (lambda x: pe.cumsum(lambda i, j: x[i] * x[j]), ("one index",)),
    ],
)
def test_wrong_arguments_are_refused(call: Any, words: tuple[str, ...]) -> None:
    with pytest.raises(KernelTypeError) as caught:
        run(call, X)
    assert all(word in str(caught.value) for word in words)
    assert caught.value.fix


# --- running reductions --------------------------------------------------------------------------

RUNNING = [
    ("cumsum", np.cumsum),
    ("cumprod", np.cumprod),
    ("cummax", np.maximum.accumulate),
    ("cummin", np.minimum.accumulate),
]


@pytest.mark.parametrize(("name", "numpys"), RUNNING)
def test_running_reductions_are_numpy_s(name: str, numpys: Any) -> None:
    operation = getattr(pe, name)

    def both(x: Any, a: Any) -> Any:
        halves = operation(lambda i: 0.5 * x[i])
        return operation(x), halves, operation(a), operation(x, reverse=True)

    whole, halves, rows, back = run_everywhere(both, X, INTEGERS)
    np.testing.assert_array_equal(whole, numpys(X))
    np.testing.assert_array_equal(halves, numpys(0.5 * X))
    np.testing.assert_array_equal(rows, numpys(INTEGERS, axis=0))
    assert rows.dtype == numpys(INTEGERS, axis=0).dtype
    np.testing.assert_array_equal(back, numpys(X[::-1])[::-1])


def test_a_running_maximum_keeps_a_nan() -> None:
    x = np.array([1.0, np.nan, 2.0])
    found = pe.kernel(lambda x: pe.cummax(x))(x)
    np.testing.assert_array_equal(found, np.maximum.accumulate(x))


def test_operations_run_outside_kernels_whatever_is_imported_first() -> None:
    program = "import numpy, peffects as pe; print(pe.cumsum(numpy.ones(3), reverse=True))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[3. 2. 1.]", done.stderr


FLOATS = st.lists(st.integers(-8, 8).map(lambda k: k / 4), max_size=6)


@given(FLOATS, st.sampled_from([False, True]), st.sampled_from(["cumsum", "cummax"]))
def test_derivatives_of_scans(values: list[float], reverse: bool, name: str) -> None:
    """Forward mode, reverse mode and, away from ties, differences agree."""
    x = np.array(values) + 0.01 * np.arange(len(values)) ** 2
    weights = np.linspace(1.0, 2.0, len(x))

    def f(x: Any) -> Any:
        running = getattr(pe, name)(lambda i: x[i] * x[i], over=x, reverse=reverse)
        _, table = pe.scan(lambda c, v: (c * 0.5 + v, pe.sin(c) * v), 1.0, running)
        return pe.sum(lambda i: table[i] * weights[i])

    _, slope = pe.jvp(f, (x,), (weights,))
    gradient = pe.grad(f)(x)
    assert slope == pytest.approx(float(gradient @ weights), abs=1e-12)
    step = 1e-6
    difference = (f_value(f, x + step * weights) - f_value(f, x - step * weights)) / (2 * step)
    squares = np.sort(x * x)
    if name == "cumsum" or (np.diff(squares) > 1e-4).all():
        assert slope == pytest.approx(difference, rel=1e-5, abs=1e-6)


def f_value(f: Any, x: Any) -> float:
    return float(pe.value_and_grad(f)(x)[0])


# --- what `for` runs over ------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 3, 5])
def test_zip_enumerate_and_reversed_are_python_s(n: int) -> None:
    def mixed(x: Any, y: Any, n: Any) -> Any:
        t = 0.0
        for k, (i, a, b) in enumerate(zip(range(1, n), x, y, strict=False)):
            t = t * 2 + k + i * a * b
        for k, a in enumerate(x, 3):
            t += k * a
        for k, i in enumerate(reversed(range(n))):
            t += (k + 1) * i * x[i]
        for a in reversed(x):
            t = 0.5 * t + a
        return t

    assert run_everywhere(mixed, X, 2 * X, n) == mixed(X, 2 * X, n)


@pytest.mark.parametrize("what", ["reversed", "enumerate", "zip"])
def test_iterations_of_a_parallel_loop_have_no_order(what: str) -> None:
    def turned(x: Any) -> None:
        for _ in reversed(pe.par(x)):  # type: ignore[call-overload]  # here
            pass

    def numbered(x: Any) -> None:
        for _ in enumerate(pe.par(x)):  # here
            pass

    def paired(x: Any) -> None:
        for _ in zip(pe.par(x), x, strict=True):  # here
            pass

    call = {"reversed": turned, "enumerate": numbered, "zip": paired}[what]
    check_refused(UnsupportedSyntaxError, call, (X,), f"`{what}` of `pe.par`", "no order")


def test_membership_is_refused_with_the_reduction_to_write() -> None:
    def among(x: Any) -> Any:
        return 1.0 if 2.0 in x else 0.0  # here

    check_refused(ControlFlowError, among, (X,), "`in`", "pe.any")


def test_zip_of_a_symbol_with_a_list_is_refused() -> None:
    def paired(x: Any) -> Any:
        t = 0.0
        for a, b in zip(x, [1.0, 2.0], strict=False):  # here
            t += a * b
        return t

    check_refused(KernelTypeError, paired, (X,), "`zip`", "Zip tables and ranges")
