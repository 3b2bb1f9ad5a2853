"""The IR that staging makes, as text, for programs that stand for their kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from staged import pe, text

X, A = np.ones(3), np.ones((3, 4))


def matmul(a: Any, b: Any) -> Any:
    return pe.table(lambda i, j: pe.sum(lambda k: a[i, k] * b[k, j]))


def histogram(x: Any, lo: Any, hi: Any, nbins: Any) -> Any:
    h = pe.accumulator(pe.Fin(nbins), dtype=float)
    for i in pe.par(x):
        b = int((x[i] - lo) / (hi - lo) * nbins)
        h[min(max(b, 0), nbins - 1)] += 1.0
    return h


def log_likelihood(x: Any, log_weight: Any, mean: Any, log_scale: Any) -> Any:
    precision = pe.table(lambda k, j: pe.exp(-2.0 * log_scale[k, j]))
    norm = pe.table(lambda k: log_weight[k] - pe.sum(lambda j: log_scale[k, j]))

    def point(n: Any) -> Any:
        t = pe.table(
            lambda k: (
                norm[k] - 0.5 * pe.sum(lambda j: (x[n, j] - mean[k, j]) ** 2 * precision[k, j])
            )
        )
        return pe.logsumexp(lambda k: t[k])

    return pe.sum(point)


def relaxation(x: Any, steps: Any) -> Any:
    change = 1.0
    for _ in range(steps):
        change = 0.0
        if change < 0.5:
            x = pe.table(lambda i: x[i] / 2.0)  # noqa: B023
    while change < 3.0:
        change = change + x[0]
    return x, change


def regions(x: Any) -> Any:
    total, squares = pe.accumulator(), pe.accumulator()
    s = 0.0
    for k in range(len(x)):
        s += x[k]
        total += s
        squares += s * s
    factor = 2.0 * s
    total += factor
    return factor, total, squares


@pytest.mark.parametrize(
    ("kernel", "args"),
    [
        (matmul, (A, A.T)),
        (histogram, (X, 0.0, 1.0, 5)),
        (log_likelihood, (A, X, A, A)),
        (relaxation, (X, 3)),
        (regions, (X,)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_ir(kernel: Callable[..., Any], args: tuple[Any, ...], golden: Callable[..., None]) -> None:
    program = text(kernel, *args)
    lines = [line.split("   (")[0] for line in program.splitlines()]  # without user lines
    golden("\n".join(lines), name=kernel.__name__)
