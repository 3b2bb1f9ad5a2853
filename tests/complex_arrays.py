"""Complex arrays for tests, and comparisons of what kernels make of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from staged import run

import peffects as pe
from peffects.staging.structures.trees import flatten

Z = np.array([1 + 2j, 3 - 1j, -0.5j, -2.0 + 0.25j])
W = np.array([0.5 - 1j, -1.5j, 2.0 + 0j, -1 - 1j])
C = np.arange(6).reshape(2, 3) * (1 - 0.5j)


def both(function: Callable[..., Any], *args: Any, rtol: float = 2e-15) -> Any:
    """What the compiled kernel gives, which is what the evaluator gives, within rounding."""
    found, expected = pe.kernel(function)(*args), run(function, *args)
    leaves, tree = flatten(found)
    others, same = flatten(expected)
    assert tree == same
    for x, y in zip(leaves, others, strict=True):
        assert np.asarray(x).dtype == np.asarray(y).dtype
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=rtol, atol=1e-300)
    return found


def close(found: Any, expected: Any) -> None:
    """Real and imaginary parts are equal within rounding; nan and infinities are the same."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype
    for part in ("real", "imag"):
        x, y = getattr(found, part), getattr(expected, part)
        np.testing.assert_allclose(x, y, rtol=4e-15, atol=1e-15)
