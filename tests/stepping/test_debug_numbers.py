"""In plain Python accumulators and states are the numbers that they are in kernels."""

from __future__ import annotations

import linecache
import math
from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.staging.structures.trees import flatten

X = np.array([0.3, 0.1, 0.2])

USES = (
    "pe.tanh(t)", "np.tanh(t)", "math.tanh(t)", "float(t)", "int(t)", "abs(t)", "round(t)",
    "max(t, 0.5)", "min(0.5, t)", "-t", "2 * t", "t > 0.5", "pe.where(t > 0.5, t, 0.0)", "not t",
    "np.where(t > 0.5, t, 0.0)", "(t if t else 0.0)", "bool(t)", "math.floor(t)", "divmod(t, 2.0)",
    "pe.hypot(t, 1.0)", "np.hypot(t, 1.0)", "pe.floor(t)", "pe.isnan(t)", "np.clip(t, 0.0, 0.5)",
    "sum([t, 1.0])", "np.sum(t)", "np.array([t, 1.0])", "np.full(3, t)", "np.stack([t, t])",
    "x * t", "pe.table(lambda i: pe.tanh(t) * x[i])", "pow(t, 2)",
)  # fmt: skip
MAKERS = {
    "accumulator": ["t = pe.accumulator()", "for i in pe.par(x):", "    t += x[i]"],
    "state": ["t = pe.state(0.0)", "for i in range(len(x)):", "    t.set(t.get() + x[i])"],
}


def kernel_of(lines: list[str]) -> pe.Kernel[Any, Any]:
    """The kernel of `x` with these lines, which can be found."""
    source = "\n    ".join(["def f(x):", *lines]) + "\n"
    file = f"<kernel {hash(source):x}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space: dict[str, Any] = {"math": math, "np": np, "pe": pe}
    exec(compile(source, file, "exec", dont_inherit=True), space)
    return pe.kernel(space["f"])


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("maker", MAKERS)
def test_a_number_that_was_added_up_is_used_as_a_number(maker: str, use: str) -> None:
    kernel = kernel_of([*MAKERS[maker], f"return {use}"])
    np.testing.assert_allclose(kernel.debug(X), kernel(X), rtol=1e-12)


def test_reductions_of_what_loops_gave_are_numbers() -> None:
    @pe.kernel
    def reduced(x: Any) -> Any:
        t = pe.table(lambda i: 2.0 * x[i], over=x)
        return pe.tanh(np.sum(t[1:] - t[:-1])), pe.tanh(np.max(t)), pe.tanh(np.mean(t * t))

    np.testing.assert_allclose(reduced.debug(X), reduced(X), rtol=1e-12)


def test_rows_of_an_accumulator_tell_what_an_index_runs_over() -> None:
    @pe.kernel
    def rows(x: Any, lengths: Any) -> Any:
        pairs = pe.Ragged(lengths)
        h = pe.accumulator(pairs)
        for i, j in pe.par(pairs):
            h[i, j] += x[i] + j
        return pe.sum(lambda i: pe.sum(lambda j: h[i, j] * h[i, j]))

    for lengths in ([1, 2, 0], [0, 0, 0], [0, 3, 1]):
        args = X, np.array(lengths)
        np.testing.assert_allclose(rows.debug(*args), rows(*args), rtol=1e-12)


@pytest.mark.parametrize("lengths", [[0], [0, 0], []])
def test_rows_may_all_be_empty(lengths: list[int]) -> None:
    @pe.kernel
    def of_nothing(n: Any) -> Any:
        pairs = pe.Ragged(n)
        t = pe.table(lambda i, j: 0.5 * j, over=pairs)
        for i, j in pe.par(pairs):
            pe.check(i > j)
        return t, pe.table(lambda i: pe.sum(lambda j: t[i, j]), over=n)

    n = np.array(lengths, int)
    for found, plain in zip(of_nothing(n), of_nothing.debug(n), strict=True):
        assert type(found) is type(plain)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(plain))


def test_what_cannot_be_called_raises_as_in_python() -> None:
    kernel = kernel_of(["return np(x)"])
    with pytest.raises(TypeError, match="'module' object is not callable") as told:
        kernel.debug(X)
    assert "<kernel" in str(told.traceback[-1].path)


TYPED = (
    "q[i] + q[i]", "q[i] * q[i]", "-q[i]", "~q[i]", "abs(q[i])", "round(q[i])", "q[i] ** 2",
    "q[i] & 1", "min(q[i], 3)", "max(1, q[i], 2)", "min([q[i], 3])", "max(q[i], i)",
    "min(q[i], len(q))", "min(q[i], x[i])", "max(q[i], 0.5)", "np.where(x[i] > 0.2, q[i], 2)",
    "np.where(x[i], q[i], q[i])", "np.sqrt(q[i])", "sum([q[i], q[i]])", "q[i] / 2",
    "q[i] * x[i]", "not q[i]", "float(q[i])",
)  # fmt: skip
WHOLE = ("bool", "int8", "uint8", "uint16", "int32", "uint64", "int64")


@pytest.mark.parametrize("use", TYPED)
@pytest.mark.parametrize("dtype", [*WHOLE, "float32", "float64"])
def test_elements_have_the_types_that_they_have_in_kernels(dtype: str, use: str) -> None:
    if dtype.startswith("float") and use in ("~q[i]", "q[i] & 1"):
        return
    q = np.array([1, 0, 7]).astype(dtype)
    kernel = kernel_of(["q, x = x", f"return pe.table(lambda i: {use}, over=x)"])
    found, plain = kernel((q, X)), kernel.debug((q, X))
    assert (found.dtype, found.shape) == (plain.dtype, plain.shape)
    np.testing.assert_allclose(plain, found, rtol=1e-6)


def test_scans_run_over_index_sets() -> None:
    @pe.kernel
    def scanned(x: Any) -> Any:
        first = pe.scan(lambda c, i: (c + x[i], c * 0.5), 0.1, x.index)
        second = pe.scan(lambda c, i: (c + i, c), 0, pe.Fin(2), reverse=True)
        return first, second, pe.fold(lambda c, i: c - i, 0.0, over=pe.Fin(2))

    for found, plain in zip(flatten(scanned(X))[0], flatten(scanned.debug(X))[0], strict=True):
        np.testing.assert_allclose(np.asarray(plain), np.asarray(found), rtol=1e-12)


def test_elements_of_bools_in_loops_and_states() -> None:
    @pe.kernel
    def counted(q: Any) -> Any:
        n, seen = 0, pe.state(q)
        for v in q:
            n = n + v + v
        for i in range(len(q)):
            n = n + seen[i] * seen[i] + (~q[i]) * 1
        return n

    q = np.array([True, False, True])
    assert counted(q) == counted.debug(q) == 7
