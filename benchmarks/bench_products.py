"""Products of square matrices, written as loops, against numpy's `@`, which calls BLAS.

Both use all processors, unless PEFFECTS_NUM_THREADS and OPENBLAS_NUM_THREADS say how many.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from timing import Row, compare

import peffects as pe

SIZES = (10, 100, 500, 1000, 2000)


@pe.kernel
def product(a: Any, b: Any) -> Any:
    """The product of two matrices."""
    return pe.table(lambda i, j: pe.sum(lambda k: a[i, k] * b[k, j]))


def main() -> list[Row]:
    """One row for each size and type."""
    return [_row(n, dtype) for dtype in (np.float64, np.float32) for n in SIZES]


def _row(n: int, dtype: type[np.floating[Any]]) -> Row:
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=(n, n)).astype(dtype), rng.normal(size=(n, n)).astype(dtype)
    np.testing.assert_allclose(product(a, b), a @ b, rtol=1e-4, atol=1e-3 * n**0.5)
    name = f"n={n} {np.dtype(dtype).name}"
    return compare(name, lambda: product(a, b), lambda: a @ b, against="numpy")
