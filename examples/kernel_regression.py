"""Smooth noisy points by weighted means of their neighbors; find the bandwidth by gradient descent.

Nadaraya-Watson kernel regression (1964).  The bandwidth minimizes the error of each point's
prediction from all others (leave one out), whose derivative nobody needs to work out.

Notice: the n x n weights are written as a function of two indices and are never stored, neither in
the loss nor in its gradient.  The code is the formula.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import peffects as pe

Array: TypeAlias = NDArray[np.float64]

PICTURE = Path("out") / "kernel_regression.png"


@pe.kernel
def left_out_error(log_width: float, x: Array, y: Array) -> float:
    """The mean squared error of each point's prediction from all others."""

    def of_point(i: Any) -> Any:
        def weight(j: Any) -> Any:
            z = (x[j] - x[i]) * pe.exp(-log_width)
            return 0.0 if int(i) == int(j) else pe.exp(-0.5 * z * z)

        total = pe.sum(lambda j: weight(j))
        return (y[i] - pe.sum(lambda j: weight(j) * y[j]) / (total + 1e-300)) ** 2

    return pe.mean(of_point)


@pe.kernel
def predict(at: Array, log_width: float, x: Array, y: Array) -> Array:
    """The weighted means of `y` at other places."""

    def of_place(p: Any) -> Any:
        weight = lambda j: pe.exp(-0.5 * ((x[j] - at[p]) * pe.exp(-log_width)) ** 2)
        return pe.sum(lambda j: weight(j) * y[j]) / pe.sum(weight)

    return pe.table(of_place)


slope = pe.value_and_grad(left_out_error)


def fit(x: Array, y: Array, rounds: int) -> tuple[float, list[tuple[float, float]]]:
    """The best logarithm of the bandwidth, and widths and errors on the way."""
    log_width, history = np.log(1.0), []
    for _ in range(rounds):
        error, gradient = slope(log_width, x, y)
        history.append((float(np.exp(log_width)), float(error)))
        log_width = log_width - 2.0 * float(gradient)
    return float(log_width), history


def points(n: int) -> tuple[Array, Array]:
    """Noisy values of a smooth function."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-3.0, 3.0, n))
    return x, np.sin(2.0 * x) + 0.5 * x + rng.normal(0.0, 0.3, n)


def draw(x: Array, y: Array, log_width: float) -> None:
    """Write the points and the curve."""
    import matplotlib.pyplot as plt

    at = np.linspace(-3.0, 3.0, 400)
    figure, axes = plt.subplots(figsize=(8, 5))
    axes.plot(x, y, ".", alpha=0.4)
    axes.plot(at, predict(at, log_width, x, y))
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=120)
    print(f"the curve: {PICTURE}")


def main(small: bool = False) -> None:
    """Find the bandwidth, and predict."""
    x, y = points(60 if small else 1000)
    log_width, history = fit(x, y, 25)
    for width, error in history[::6]:
        print(f"bandwidth {width:.4f}: left-out error {error:.5f}")
    at = np.array([-2.0, 0.0, 2.0])
    for place, value in zip(at, predict(at, log_width, x, y), strict=True):
        print(f"f({place:+.1f}) = {value:+.4f}, truly {np.sin(2 * place) + 0.5 * place:+.4f}")
    if not small:
        draw(x, y, log_width)


if __name__ == "__main__":
    main()
