"""Random numbers by key against numpy's generators, and sorting against numpy's sorts.

A million numbers each.  numpy draws one stream in one thread; a kernel hashes a key for each,
in all threads, and gives the same bits with any number of them.  Sorting is stable on both sides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from timing import Row, compare

import peffects as pe

SIZE = 1_000_000
KEY = pe.random.key(0)


@pe.kernel
def uniforms(key: Any, n: Any) -> Any:
    """Numbers in [0, 1)."""
    return pe.table(lambda i: pe.random.uniform(pe.random.fold_in(key, i)), over=n)


@pe.kernel
def normals(key: Any, n: Any) -> Any:
    """Standard normals."""
    return pe.table(lambda i: pe.random.normal(pe.random.fold_in(key, i)), over=n)


@pe.kernel
def mean_of_normals(key: Any, n: Any) -> Any:
    """Their mean, of which no table is made."""
    return pe.mean(lambda i: pe.random.normal(pe.random.fold_in(key, i)), over=n)


def main() -> list[Row]:
    """Draws, then sorts."""
    philox = np.random.Generator(np.random.Philox(0))
    pcg = np.random.default_rng(0)
    x = pcg.random(SIZE)
    rows = pcg.random((SIZE // 100, 100))
    assert np.array_equal(pe.sort(x), np.sort(x))
    return [
        compare("uniform", lambda: uniforms(KEY, SIZE), lambda: pcg.random(SIZE), against="PCG64"),
        compare(
            "uniform", lambda: uniforms(KEY, SIZE), lambda: philox.random(SIZE), against="Philox"
        ),
        compare(
            "normal",
            lambda: normals(KEY, SIZE),
            lambda: pcg.standard_normal(SIZE),
            against="PCG64, ziggurat",
        ),
        compare(
            "mean of normals",
            lambda: mean_of_normals(KEY, SIZE),
            lambda: pcg.standard_normal(SIZE).mean(),
            against="PCG64, ziggurat",
        ),
        compare("sort", lambda: pe.sort(x), lambda: np.sort(x, kind="stable"), against="numpy"),
        compare(
            "argsort", lambda: pe.argsort(x), lambda: np.argsort(x, kind="stable"), against="numpy"
        ),
        compare(
            "sort of rows of 100",
            lambda: pe.sort(rows),
            lambda: np.sort(rows, kind="stable"),
            against="numpy",
        ),
    ]
