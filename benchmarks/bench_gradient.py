"""Gradients of two mixtures of Gaussians, against the same gradients by hand with numpy.

`digits`: diagonal covariances, 1797 points, 64 dimensions, 20 components, from the example
`digits_mixture`.  `ADBench`: full lower triangular covariance factors (`gmm.py`).  Ours is
`pe.value_and_grad` of a pointful kernel; numpy's is derived by hand and made of matrix products,
which is the best that numpy can do.  Both use all processors and both give value and gradient.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import gmm
import numpy as np
from timing import Row, compare

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
NUMPY = "numpy, by hand"
SIZES = ((1_000, 10, 5), (10_000, 10, 25), (1_000, 32, 25))


def main() -> list[Row]:
    """One row for each problem."""
    rows = [_row("digits, n=1797 d=64 K=20", *_digits())]
    for n, d, components in SIZES:
        args = gmm.random_mixture(n, d, components).args
        name = f"ADBench, n={n} d={d} K={components}"
        rows.append(_row(name, gmm.gradient, gmm.numpy_gradient, args))
    return rows


def _row(
    name: str, ours: Callable[..., Any], theirs: Callable[..., Any], args: tuple[Any, ...]
) -> Row:
    (value, gradient), (expected, by_hand) = ours(*args), theirs(*args)
    np.testing.assert_allclose(value, expected, rtol=1e-9)
    for found, other in zip(gradient, by_hand, strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-6, atol=1e-8 * np.abs(other).max())
    return compare(name, lambda: ours(*args), lambda: theirs(*args), against=NUMPY)


def _digits() -> tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]:
    example = _example("digits_mixture")
    x, _ = example.load()
    rng = np.random.default_rng(0)
    mean = x[rng.choice(len(x), 20, replace=False)] + 0.1
    return example.gradient, example.numpy_gradient, (x, np.zeros(20), mean, np.zeros((20, 64)))


def _example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
