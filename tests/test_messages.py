"""What messages say beside the code: the iteration, what to write instead, and not too much."""

from __future__ import annotations

import importlib
import linecache
import pickle
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.errors import (
    BoundsError,
    DataRaceError,
    KernelTypeError,
    PeffectsError,
    UnsupportedSyntaxError,
)
from peffects.ir.evaluate import evaluate
from peffects.notices import abridged
from peffects.staging.numpy_surface import ufuncs as numpy_ufuncs

X = np.arange(4.0)


def error_of(call: Callable[..., Any], *args: Any) -> PeffectsError:
    with pytest.raises(PeffectsError) as caught:
        call(*args)
    return caught.value


# --- in which iteration it was -------------------------------------------------------------------


def stencil(x: Any) -> Any:
    return pe.table(lambda i: x[i] - x[i - 1], over=len(x))


def nested(x: Any) -> Any:
    def row(i: Any) -> Any:
        total = 0.0
        for k in range(1, 5, 2):
            for m in range(3):
                total += x[i + k + m]
        return total

    return pe.table(row, over=len(x))


def product(x: Any) -> Any:
    return pe.table(lambda i, j: x[i + j], over=(len(x), 2))


def stages(x: Any) -> Any:
    v = pe.table(lambda i: x[i] + 1.0)
    for step in range(len(x)):
        old = v
        v = pe.table(lambda p: old[p + step // 2] * 2.0, over=len(x))  # noqa: B023
    return v


def divided(x: Any) -> Any:
    return pe.sum(lambda i: 7 // (int(i) - 2), over=len(x))


def gathered(x: Any) -> Any:
    h = pe.accumulator(2)
    for i in pe.par(x):
        h[int(x[i])] += 1.0
    return h


ITERATIONS = {
    stencil: "i = 0", nested: "i = 0, k = 1, m = 1", product: "i = 3, j = 1",
    stages: "step = 2, p = 3", divided: "i = 2", gathered: "i = 2",
}  # fmt: skip
DEBUGGED = {  # where the steps of a `range` are Python's own
    stencil: ("in iteration 0 of `table`",), nested: ("in iteration 0 of `table`",),
    product: ("in iteration 3, 1 of `table`",), stages: ("in iteration 3 of `table`",),
    divided: ("in iteration 2 of `sum`",), gathered: ("in iteration 2 of `par`",),
}  # fmt: skip


@pytest.mark.parametrize("function", ITERATIONS)
def test_failures_say_in_which_iteration(function: Callable[..., Any]) -> None:
    kernel = pe.kernel(function)
    expected = (f"in the iteration {ITERATIONS[function]} (counted from 0)",)
    assert error_of(kernel, X).notes == expected
    program = kernel.lower(X).ir
    assert error_of(evaluate, program, [X]).notes == expected
    assert error_of(kernel.debug, X).notes == DEBUGGED[function]


def test_a_long_loop_reports_the_iteration() -> None:
    kernel = pe.kernel(lambda x: pe.table(lambda i: x[i + 1], over=len(x)))
    n = 400_000
    for _ in range(3):
        expected = f"in the iteration i = {n - 1} (counted from 0)"
        assert error_of(kernel, np.ones(n)).notes == (expected,)


def test_deep_nests_show_the_innermost_loops() -> None:
    """A record of a failure has room for few numbers."""
    source = ["def deep(x):", "    s = 0.0"]
    for depth in range(16):
        source.append("    " * (depth + 1) + f"for q{depth} in range(2):")
    source.append("    " * 17 + "s += x[q15 + 4]")
    source.append("    return s")
    name = "<deep nest>"
    text = "\n".join(source)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {}
    exec(compile(text, name, "exec"), namespace)
    (note,) = error_of(pe.kernel(namespace["deep"]), X).notes
    assert note.endswith("q14 = 0, q15 = 0 (counted from 0)")
    assert note.count("=") == 12


# --- what to write instead -----------------------------------------------------------------------


def test_a_computed_negative_index_does_not_wrap() -> None:
    for way in (pe.kernel(stencil), pe.kernel(stencil).debug):
        error = error_of(way, X)
        assert isinstance(error, BoundsError)
        assert "does not count from the end" in error.fix
        assert "(i - 1) % n" in error.fix


def test_an_index_beyond_the_end_and_an_empty_axis() -> None:
    beyond = pe.kernel(product)
    assert error_of(beyond, X).fix.startswith("The last index is 3. Keep it there: `min(i + 1")
    first = pe.kernel(lambda x, k: x[k])
    assert error_of(first, np.zeros(0), 0).fix == "The axis is empty: test its length first."
    literal = pe.kernel(lambda x: x[-3])
    assert "Test the length first" in error_of(literal, np.ones(2)).fix


def in_order(y: Any, n: Any) -> Any:
    for i in range(n):
        y[i] = 1.0
    return y


def augmented(y: Any, n: Any) -> Any:
    for i in range(n):
        y[i] += 1.0
    return y


def at_once(y: Any, n: Any) -> Any:
    y[0] = 1.0
    return y


def in_parallel(y: Any, n: Any) -> Any:
    for i in pe.par(y):
        y[i] = 1.0
    return y


@pytest.mark.parametrize("function", [in_order, augmented, at_once])
def test_a_sequential_write_is_not_called_a_race(function: Callable[..., Any]) -> None:
    for way in (pe.kernel(function), pe.kernel(function).debug):
        error = error_of(way, X.copy(), 2)
        assert isinstance(error, DataRaceError)
        assert "race" not in error.what
        assert "`new = pe.state(y)`" in error.fix
        assert error.fix.index("pe.state") < error.fix.index("pe.table")


def test_a_parallel_write_is() -> None:
    for way in (pe.kernel(in_parallel), pe.kernel(in_parallel).debug):
        error = error_of(way, X.copy(), 2)
        assert isinstance(error, DataRaceError)
        assert "could race" in error.what


def test_what_they_say_to_write_is_right() -> None:
    @pe.kernel
    def states(y: Any, n: Any) -> Any:
        new = pe.state(y)
        for i in range(n):
            new[i] = 1.0
        return new

    @pe.kernel
    def kept(x: Any) -> Any:
        return pe.table(lambda i: x[i] - (x[i - 1] if i > 0 else 0.0), over=len(x))

    assert states(X, 2).tolist() == [1.0, 1.0, 2.0, 3.0]
    assert kept(X).tolist() == [0.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("ours", ["lgamma", None])
def test_universal_functions_of_others(monkeypatch: pytest.MonkeyPatch, ours: str | None) -> None:
    """They are called what their users call them, and what is ours is named where there is one."""
    function = importlib.import_module("numpy.linalg._umath_linalg").inv
    assert isinstance(function, np.ufunc)
    module = types.ModuleType("elsewhere.special")
    vars(module)["inv"] = function
    monkeypatch.setitem(sys.modules, "elsewhere.special", module)
    if ours:
        monkeypatch.setitem(numpy_ufuncs.OF_OTHERS, "inv", ours)
    error = error_of(pe.kernel(lambda x: function(x)), X)
    assert isinstance(error, KernelTypeError)
    assert error.what == "kernels have no `elsewhere.special.inv`."
    assert (f"Write `pe.{ours}`" if ours else "element by element") in error.fix


def test_what_is_ours_exists() -> None:
    assert all(callable(getattr(pe, name)) for name in numpy_ufuncs.OF_OTHERS.values())


def test_a_vectorized_function_of_the_user() -> None:
    function = np.frompyfunc(abs, 1, 1)
    error = error_of(pe.kernel(lambda x: function(x)), X)
    assert error.what == "kernels have no `abs (vectorized)`."


# --- not too much --------------------------------------------------------------------------------


def test_long_lists_are_abridged() -> None:
    assert abridged([1, 2]) == "[1, 2]"
    assert abridged(range(40)) == repr(list(range(40)))
    assert abridged(range(41)) == "[0, 1, 2, 3, 4, ..., 36, 37, 38, 39, 40]"
    assert abridged([]) == "[]"


def test_representations_are_short() -> None:
    ragged = pe.Ragged([3] * 20_000)
    table = pe.table(lambda p: 1.0, over=ragged)
    for value in (ragged, table, table.index_set):
        assert len(repr(value)) < 400
        assert "..." in repr(value)
    assert repr(pe.Ragged([3, 1])) == "Ragged([3, 1])"


# --- shells --------------------------------------------------------------------------------------


def test_a_syntax_error_has_what_shells_show() -> None:
    """IPython shows the fields of a SyntaxError, and not its `str`."""

    def tries(x: Any) -> Any:
        try:
            return x[0]
        finally:
            pass

    with pytest.raises(UnsupportedSyntaxError) as caught:
        pe.kernel(tries)(X)
    error = caught.value
    assert error.msg == str(error)
    assert error.code in error.msg
    assert error.fix in error.msg
    assert (error.filename, error.lineno, error.text) == (__file__, error.at.line, "try:")
    again = pickle.loads(pickle.dumps(error))
    assert (again.msg, again.lineno) == (error.msg, error.lineno)


def test_code_without_source_says_so() -> None:
    namespace: dict[str, Any] = {}
    exec("def decided(x):\n    return 1.0 if x > 1.0 else 2.0", namespace)
    assert error_of(pe.kernel(namespace["decided"]), 3.0).fix.startswith("The source of <string>")


def filled(x: Any) -> Any:
    y = [0.0] * 4
    for i in range(len(x)):
        y[i] = x[i]
    return y[0]


def collected(x: Any) -> Any:
    y: list[Any] = []
    for i in range(len(x)):
        y.append(x[i])
    return y[0]


@pytest.mark.parametrize("function", [filled, collected])
def test_containers_in_sequential_loops(function: Callable[..., Any]) -> None:
    fix = error_of(pe.kernel(function), X).fix
    assert "pe.state(np.zeros(n))" in fix
    assert "pe.scan" in fix
