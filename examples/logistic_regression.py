"""Is a digit a 3 or an 8?  Logistic regression by Newton's method, without a matrix of derivatives.

Newton steps need Hessian-vector products only: `pe.hvp` gives them, and conjugate gradients
(Hestenes and Stiefel, 1952) solve with them.

Notice: the loss is three lines, and the data are what it closes over.  Its gradient and its
Hessian-vector product come from it, each one parallel loop over the digits, compiled once for all
steps.  `solve` knows the matrix as a function only.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import peffects as pe

Array: TypeAlias = NDArray[np.float64]

DATA = Path(__file__).parent / "data" / "digits.csv.gz"
PENALTY = 1e-2


def loss_on(x: Array, sign: Array) -> pe.Kernel[[Array], float]:
    """The mean of log(1 + exp(-margin)), and a penalty on large weights, as a function of these."""

    @pe.kernel
    def loss(weight: Array) -> float:
        def of_digit(n: Any) -> Any:
            margin = sign[n] * pe.sum(lambda j: weight[j] * x[n, j])
            return pe.log1p(pe.exp(-margin))

        return pe.mean(of_digit) + 0.5 * PENALTY * pe.sum(lambda j: weight[j] ** 2)

    return loss


@pe.kernel
def right(weight: Array, x: Array, sign: Array) -> int:
    """How many digits are on the right side."""
    return pe.sum(lambda n: sign[n] * pe.sum(lambda j: weight[j] * x[n, j]) > 0.0)


def solve(product: Callable[[Array], Array], b: Array, most: int) -> Array:
    """The solution of A x = b by conjugate gradients, where `product(v)` is A v."""
    x, residual = np.zeros_like(b), b
    direction, square = residual, residual @ residual
    for _ in range(most):
        if square < 1e-20:
            break
        image = product(direction)
        step = square / (direction @ image)
        x, residual = x + step * direction, residual - step * image
        before, square = square, residual @ residual
        direction = residual + square / before * direction
    return x


def load(few: bool) -> tuple[Array, Array]:
    """Pixels of threes and eights with a constant 1 (n=>65), and -1 or 1 for each."""
    table = np.loadtxt(DATA, delimiter=",", max_rows=600 if few else None)
    chosen = table[np.isin(table[:, 64], (3, 8))]
    x = np.concatenate([chosen[:, :64] / 16.0, np.ones((len(chosen), 1))], 1)
    return x, np.where(chosen[:, 64] == 3, 1.0, -1.0)


def main(small: bool = False) -> None:
    """Fit to four fifths, test on the rest."""
    x, sign = load(few=small)
    cut = 4 * len(x) // 5
    train, test = (x[:cut], sign[:cut]), (x[cut:], sign[cut:])
    loss, weight = loss_on(*train), np.zeros(x.shape[1])
    slope = pe.value_and_grad(loss)
    for step in range(8):
        value, gradient = slope(weight)
        print(f"step {step}: loss {value:.6f}, gradient {np.linalg.norm(gradient):.2e}")
        if np.linalg.norm(gradient) < 1e-8:
            break
        product = lambda v: pe.hvp(loss, (weight,), (v,))
        weight = weight - solve(product, gradient, most=60)
    seen, unseen = right(weight, *train), right(weight, *test)
    print(f"right: {seen} of {cut}, and {unseen} of {len(x) - cut} that it has not seen")


if __name__ == "__main__":
    main()
