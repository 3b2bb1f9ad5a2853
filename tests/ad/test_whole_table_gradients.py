"""Derivatives of whole tables: slices, gathers, broadcasting, `where`, products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import peffects as pe

RNG = np.random.default_rng(9)


@pe.kernel
def slices_and_gathers(x: Any, k: Any) -> Any:
    """Overlapping slices, a reversed one, and places that are gathered twice."""
    steps = (x[1:] - x[:-1]) ** 3
    return np.sum(steps * x[::-1][1:]) + np.sum(x[k] ** 2) + x[::2].prod() + np.roll(x, 2)[0]


@pe.kernel
def rows_and_columns(a: Any, x: Any) -> Any:
    """Axes that go along with each other, means, choices, products and running sums."""
    centered = a - a.mean(axis=1, keepdims=True)
    scores = np.exp(centered * x) / np.sum(np.exp(centered * x), axis=0)
    chosen = np.where(a > 0.0, a * x, np.sin(a))
    joined = np.concatenate([x, chosen[:, 1]])
    return (
        np.sum(scores * chosen)
        + np.sum(np.cumsum(joined) ** 2)
        + np.trace(a.T @ a)
        + a.T[0] @ a[:, 1]
    )


def test_slices_and_gathers() -> None:
    pe.check_grads(slices_and_gathers, (RNG.normal(size=6), np.array([0, 3, 3])))


@pytest.mark.slow
def test_rows_and_columns() -> None:
    pe.check_grads(rows_and_columns, (RNG.normal(size=(3, 4)), RNG.normal(size=4)))
