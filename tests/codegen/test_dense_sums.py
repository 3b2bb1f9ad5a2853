"""Private copies to which each iteration adds everywhere: in blocks, as exact as all sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import peffects as pe


def rows(x: Any) -> Any:
    return pe.sum(lambda i: x[i])


def outer(x: Any) -> Any:
    h = pe.accumulator(x.shape[1], x.shape[1])
    for i in pe.par(len(x)):
        for j, k in pe.par((x.shape[1], x.shape[1])):
            h[j, k] += x[i, j] * x[i, k]
    return h


def twice(x: Any) -> Any:
    h = pe.accumulator(x.shape[1])
    for i in pe.par(len(x)):
        for j in pe.par(x.shape[1]):
            h[j] += x[i, j]
            if x[i, j] > 0.0:
                h[j] += x[i, j]
    return h


def gradient(x: Any) -> Any:
    def loss(w: Any) -> Any:
        return pe.sum(lambda i: pe.sum(lambda j: pe.sin(w[j] * x[i, j])))

    return pe.grad(loss)(np.zeros(x.shape[1]))


X = np.ones((1000, 40))

DENSE: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "rows": (rows, lambda x: x.sum(0)),
    "outer": (outer, lambda x: x.T @ x),
    "twice": (twice, lambda x: (x + np.maximum(x, 0.0)).sum(0)),
}


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("n", [0, 1, 127, 128, 129, 1000, 200_000])
def test_blocks_lose_nothing(name: str, n: int) -> None:
    function, reference = DENSE[name]
    x = np.random.default_rng(n).integers(-8, 9, (n, 3)) / 16  # sums of these are exact
    kernel = pe.kernel(function)
    with pe.threads(1):
        found = kernel(x)
    np.testing.assert_array_equal(found, reference(x))
    for threads in (2, 4):
        with pe.threads(threads):
            np.testing.assert_array_equal(kernel(x), found)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_error_does_not_grow_with_length(dtype: type) -> None:
    n = 1_000_000
    x: Any = np.full((n, 2), 0.1, dtype)
    expected = n * float(dtype(0.1))
    bound = 4 * np.finfo(dtype).eps * np.log2(n) * expected
    for function in (rows, twice):
        found = pe.kernel(function)(x) / (2 if function is twice else 1)
        assert np.abs(found - expected).max() <= bound


def test_gradients_by_parameters() -> None:
    x = np.random.default_rng(0).normal(size=(1000, 4))
    np.testing.assert_allclose(gradient(x), x.sum(0), rtol=1e-13)


def test_the_hot_loop_adds_plainly() -> None:
    text = str(pe.explain(lambda x: pe.sum(lambda i: pe.table(lambda j: pe.sin(x[i, j]))), X))
    source = text[text.index("== generated source") :]
    loop = source[source.index("for i in range(start, stop)") : source.index("& 127")]
    assert "sum_block_at" in loop
    assert "sum_low_at" not in loop
