"""Fit curves by least squares: numpy code that became a kernel by its decorator.

`design`, `fit` and `residuals` are what one writes with numpy, whole arrays and `np.linalg.solve`;
the same functions are run as plain numpy to compare.  The knots of the curve are then found by
following a derivative through all of it, the linear system included.

Notice: the only edits are the decorators.  The residuals of the fit are one loop without
temporaries, and the gradient goes through the factorization of the normal equations.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import peffects as pe

Array: TypeAlias = NDArray[np.float64]


def design(x: Array, knots: Array) -> Any:
    """A column of ones, one of x, and a smooth hinge at each knot."""
    hinges = np.sqrt((x[:, None] - knots) ** 2 + 0.01)
    return np.column_stack([np.ones(len(x)), x, hinges])


def fit(x: Array, y: Array, knots: Array) -> Any:
    """The coefficients with the least squares, a little pulled to zero."""
    a = design(x, knots)
    return np.linalg.solve(a.T @ a + 1e-6 * np.eye(len(knots) + 2), a.T @ y)


def residuals(x: Array, y: Array, knots: Array) -> Any:
    """What the fitted curve leaves of `y`."""
    return y - design(x, knots) @ fit(x, y, knots)


def loss(knots: Array, x: Array, y: Array) -> Any:
    """The mean square of the residuals."""
    return np.mean(residuals(x, y, knots) ** 2)


slope = pe.value_and_grad(pe.kernel(loss))


def main(small: bool = False) -> None:
    """Fit a curve with three bends, first with knots at even distances, then with better ones."""
    n = 200 if small else 20_000
    x = np.linspace(-3.0, 3.0, n)
    y = np.abs(x + 1.5) - 2.0 * np.abs(x - 0.3) + np.abs(x - 2.0) + 0.05 * np.sin(40.0 * x)
    knots = np.array([-2.0, 0.0, 1.2])
    print(f"numpy:  {loss(knots, x, y):.8f}")
    value, gradient = slope(knots, x, y)
    print(f"kernel: {value:.8f}")
    for _ in range(200):
        knots = knots - 0.5 * gradient
        value, gradient = slope(knots, x, y)
    print(f"better: {value:.8f} with knots at {np.round(knots, 3)}")


if __name__ == "__main__":
    main()
