"""Small dense linear algebra, inside kernels and outside, differentiable.

`pe.linalg.solve(a, b)` is part of the kernel that calls it, also inside its loops, where libraries
cannot be called; `np.linalg.solve` of a kernel's tables is the same.  Outside kernels each function
is compiled at its first call.  For large matrices outside kernels numpy is faster.
"""

import peffects.kernels.kernel as _kernels  # noqa: F401  # outside kernels, these are kernels themselves
from peffects.staging.numpy_surface.linear_algebra import (
    cholesky,
    det,
    dot,
    inv,
    lu,
    matmul,
    matrix_power,
    norm,
    outer,
    qr,
    slogdet,
    solve,
    solve_triangular,
    trace,
)

__all__ = [
    "cholesky",
    "det",
    "dot",
    "inv",
    "lu",
    "matmul",
    "matrix_power",
    "norm",
    "outer",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "trace",
]
