"""The mixture of Gaussians of ADBench: the objective as a kernel, and its gradient in numpy.

Written from the formulas (Srajer, Kukelova, Fitzgibbon, *A benchmark of selected algorithmic
differentiation tools*, 2018).  A component k has a weight alpha_k, a mean mu_k (d numbers) and an
inverse covariance factor: `icf[k]` holds the logarithms q of the diagonal of a lower triangular
matrix Q_k, then what is strictly below it, column by column.  With y = Q_k (x_n - mu_k),

    t_nk = alpha_k + sum(q_k) - |y|^2 / 2
    F    = sum_n logsumexp_k(t_nk) - n logsumexp(alpha) - n d log(2 pi) / 2 + prior,

and the prior of Wishart type has gamma and m.  `bench_gradient.py` times both gradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import peffects as pe

__all__ = ["Mixture", "gradient", "log_posterior", "numpy_gradient", "random_mixture", "read"]

Array: TypeAlias = NDArray[np.float64]
DATA = Path(__file__).parent / "data" / "adbench"
PI = 3.14159265359  # the literal of ADBench


@dataclass(frozen=True, slots=True)
class Mixture:
    """Parameters, points and prior."""

    alpha: Array
    mu: Array
    icf: Array
    x: Array
    gamma: float
    m: int

    @property
    def args(self) -> tuple[Any, ...]:
        """What `log_posterior` and `gradient` take."""
        return self.alpha, self.mu, self.icf, self.x, self.gamma, self.m


@pe.kernel
def log_posterior(alpha: Array, mu: Array, icf: Array, x: Array, gamma: float, m: int) -> Any:
    """F, pointfully."""
    n, d = x.shape
    components = len(alpha)

    def factor(k: Any, j: Any, i: Any) -> Any:
        """Q_k[j, i]."""
        below = d + i * (d - 1) - i * (i - 1) // 2 + (j - i - 1)
        return icf[k, below] if i < j else pe.exp(icf[k, int(j)]) if i == j else 0.0

    q_factor = pe.table(factor, over=(components, d, d))
    q_sum = pe.table(lambda k: pe.sum(lambda j: icf[k, int(j)], over=d), over=components)

    def of_point(p: Any) -> Any:
        def of_component(k: Any) -> Any:
            centered = pe.table(lambda i: x[p, i] - mu[k, i])

            def squared(j: Any) -> Any:
                y = pe.sum(lambda i: q_factor[k, j, i] * centered[i])
                return y * y

            return alpha[k] + q_sum[k] - 0.5 * pe.sum(squared)

        return pe.logsumexp(of_component)

    squares = pe.sum(lambda k, j, i: q_factor[k, j, i] ** 2)
    log_gamma = 0.25 * d * (d - 1) * math.log(PI) + pe.sum(
        lambda j: pe.lgamma(0.5 * (d + m + 1 - j)), over=d
    )
    constant = (d + m + 1) * d * (math.log(gamma) - 0.5 * math.log(2.0)) - log_gamma
    prior = 0.5 * gamma**2 * squares - m * pe.sum(lambda k: q_sum[k]) - components * constant
    normalization = n * (pe.logsumexp(lambda k: alpha[k]) + 0.5 * d * math.log(2.0 * PI))
    return pe.sum(of_point) - normalization + prior


gradient = pe.value_and_grad(log_posterior, argnums=(0, 1, 2))


def numpy_gradient(
    alpha: Array, mu: Array, icf: Array, x: Array, gamma: float, m: int
) -> tuple[float, tuple[Array, Array, Array]]:
    """By hand: matrix products over all points, one component after the other."""
    (count, d), components = x.shape, len(alpha)
    columns, rows = np.triu_indices(d, 1)  # column by column of the lower triangle
    factor = np.zeros((components, d, d))
    factor[:, rows, columns] = icf[:, d:]
    diagonal = np.exp(icf[:, :d])
    factor[:, range(d), range(d)] = diagonal
    centered = [x - mean for mean in mu]
    y = [c @ f.T for c, f in zip(centered, factor, strict=True)]
    square = np.stack([np.einsum("nj,nj->n", part, part) for part in y], 1)
    t = alpha + icf[:, :d].sum(1) - 0.5 * square
    top = t.max(1, keepdims=True)
    e = np.exp(t - top)
    total = e.sum(1, keepdims=True)
    weight = e / total
    points = weight.sum(0)
    log_weights = np.logaddexp.reduce(alpha)
    value = (top + np.log(total)).sum() - count * (log_weights + 0.5 * d * math.log(2 * PI))
    value += 0.5 * gamma**2 * (factor**2).sum() - m * icf[:, :d].sum()
    value -= components * _prior_constant(gamma, m, d)
    d_mu, d_factor = np.empty_like(mu), gamma**2 * factor
    for k in range(components):
        weighted = weight[:, k, None] * y[k]
        d_mu[k] = weighted.sum(0) @ factor[k]
        d_factor[k] -= weighted.T @ centered[k]
    d_icf = np.empty_like(icf)
    d_icf[:, :d] = points[:, None] - m + diagonal * d_factor[:, range(d), range(d)]
    d_icf[:, d:] = d_factor[:, rows, columns]
    return float(value), (points - count * np.exp(alpha - log_weights), d_mu, d_icf)


def _prior_constant(gamma: float, m: int, d: int) -> float:
    log_gamma = 0.25 * d * (d - 1) * math.log(PI)
    log_gamma += sum(math.lgamma(0.5 * (d + m + 1 - j)) for j in range(d))
    return (d + m + 1) * d * (math.log(gamma) - 0.5 * math.log(2.0)) - log_gamma


def read(name: str) -> Mixture:
    """The mixture in a file of ADBench."""
    numbers = np.array((DATA / name).read_text().split(), float)
    d, components, n = (int(number) for number in numbers[:3])
    shapes = [(components,), (components, d), (components, d * (d + 1) // 2), (n, d)]
    parts, place = [], 3
    for shape in shapes:
        parts.append(numbers[place : place + math.prod(shape)].reshape(shape))
        place += math.prod(shape)
    alpha, mu, icf, x = parts
    return Mixture(alpha, mu, icf, x, float(numbers[place]), int(numbers[place + 1]))


def random_mixture(n: int, d: int, components: int) -> Mixture:
    """A mixture of the same kind, as large as wanted."""
    rng = np.random.default_rng(n + d + components)
    return Mixture(
        rng.normal(size=components),
        rng.uniform(size=(components, d)),
        rng.normal(size=(components, d * (d + 1) // 2)),
        rng.normal(size=(n, d)),
        1.0,
        0,
    )
