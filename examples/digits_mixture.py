"""Fit a mixture of Gaussians to 1797 handwritten digits, from eight random starts at once.

The log-likelihood is a kernel: a parallel loop over the points, compiled to native code.  Its
gradient is `pe.value_and_grad` of it, again one parallel loop.  A restart is an effectful
function: it draws its start from `Random`, tells its log to `Accum`, and throws when a component
is left with almost no points.  The restarts are the iterations of a `pfor`.

Notice: nothing in `restart` says how randomness, logs or failures work, nor that restarts run side
by side.  The handlers say it: `prng` splits its key at the loop, so the numbers do not depend on
the number of threads; `accumulate` joins the logs in the order of the restarts; `attempt` around
the body keeps the other restarts when one fails. (*Parallel Algebraic Effect Handlers*, ICFP 2024;
*Getting to the Point*, ICFP 2021.)
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from operator import add
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

import peffects as pe
from peffects import Eff, Fin, Ok, Par, effectful, handle, pfor, run
from peffects.handlers import (
    Accum,
    Random,
    Result,
    Throw,
    accum,
    accumulate,
    attempt,
    normal,
    prng,
    throw,
)
from peffects.parallel import ProgressBar, Table, Threads, report

Array: TypeAlias = NDArray[np.float64]

DATA = Path(__file__).parent / "data" / "digits.csv.gz"
PICTURE = Path("out") / "digits_means.png"
SMALLEST_SCALE = 0.1  # of pixel values between 0 and 1: many pixels are 0 in all digits of a kind
FEWEST_POINTS = 2.0


@pe.kernel
def log_likelihood(x: Array, log_weight: Array, mean: Array, log_scale: Array) -> float:
    """The log-likelihood of the points `x` (n=>d), up to a constant, under K diagonal Gaussians."""
    precision = pe.table(lambda k, j: pe.exp(-2.0 * log_scale[k, j]))
    offset = pe.table(lambda k: log_weight[k] - pe.sum(lambda j: log_scale[k, j]))

    def of_point(n):
        def of_component(k):
            distance = pe.sum(lambda j: (x[n, j] - mean[k, j]) ** 2 * precision[k, j])
            return offset[k] - 0.5 * distance

        return pe.logsumexp(of_component)

    return pe.sum(of_point)


gradient = pe.value_and_grad(log_likelihood, argnums=(1, 2, 3))


@pe.kernel
def assign(x: Array, log_weight: Array, mean: Array, log_scale: Array) -> NDArray[np.int64]:
    """The most probable component of each point."""
    precision = pe.table(lambda k, j: pe.exp(-2.0 * log_scale[k, j]))

    def of_point(n):
        def of_component(k):
            distance = pe.sum(lambda j: (x[n, j] - mean[k, j]) ** 2 * precision[k, j])
            return log_weight[k] - pe.sum(lambda j: log_scale[k, j]) - 0.5 * distance

        return pe.argmax(of_component)

    return pe.table(of_point)


@dataclass(frozen=True)
class Fit:
    """Where a restart ended."""

    log_likelihood: float
    log_weight: Array
    mean: Array
    log_scale: Array


@dataclass(frozen=True)
class Collapsed:
    """Why a restart was given up: a component that hardly any point belongs to."""

    component: int
    points: float
    step: int

    def __str__(self) -> str:
        return f"component {self.component} has {self.points:.2f} points at step {self.step}"


class Adam:
    """Gradient ascent with a step size for each coordinate (Kingma and Ba, 2015)."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.time = 0
        self.first: list[Array] = []
        self.second: list[Array] = []

    def step(self, params: list[Array], gradients: tuple[Array, ...]) -> list[Array]:
        """The parameters after one step uphill."""
        if not self.time:
            self.first = [np.zeros_like(p) for p in params]
            self.second = [np.zeros_like(p) for p in params]
        self.time += 1
        self.first = [0.9 * m + 0.1 * g for m, g in zip(self.first, gradients, strict=True)]
        self.second = [0.99 * v + 0.01 * g * g for v, g in zip(self.second, gradients, strict=True)]
        m_scale, v_scale = 1 - 0.9**self.time, 1 - 0.99**self.time
        return [
            p + self.rate * (m / m_scale) / (np.sqrt(v / v_scale) + 1e-8)
            for p, m, v in zip(params, self.first, self.second, strict=True)
        ]


@effectful
def restart(
    i: int, x: Array, components: int, steps: int
) -> Eff[Random | Accum[list[str]] | Throw[Collapsed], Fit]:
    """Fit from one random start: the mean of all points, and noise for each component."""
    n, d = x.shape
    noise = np.empty((components, d))
    for k in range(components):
        for j in range(d):
            noise[k, j] = yield from normal()
    params = [
        np.full(components, -np.log(components)),
        x.mean(0) + 0.25 * noise,
        np.full((components, d), np.log(0.3)),
    ]
    ascent = Adam(rate=0.05)
    for step in range(steps):
        # the derivative by log_weight[k] is the number of points that belong to k
        value, (points, d_mean, d_log_scale) = gradient(x, *params)
        if step >= 20 and points.min() < FEWEST_POINTS:
            yield from throw(Collapsed(int(points.argmin()), float(points.min()), step))
        if step % 50 == 0:
            yield from accum([f"restart {i}, step {step:3}: log-likelihood {value:.1f}"])
        d_log_weight = points - n * np.exp(params[0])  # weights stay normalized
        params = ascent.step(params, (d_log_weight / n, d_mean / n, d_log_scale / n))
        params[0] -= np.logaddexp.reduce(params[0])
        params[2] = np.maximum(params[2], np.log(SMALLEST_SCALE))
        report((step + 1) / steps)
    return Fit(float(log_likelihood(x, *params)), *params)


@effectful
def all_restarts(
    x: Array, restarts: int, components: int, steps: int
) -> Eff[Random | Accum[list[str]] | Par, Table[int, Result[Fit, Collapsed]]]:
    """Results and failures, side by side."""
    return (yield from pfor(Fin(restarts), lambda i: attempt(restart(i, x, components, steps))))


def fit_all(
    x: Array, restarts: int, components: int, steps: int, threads: int, *, bar: bool
) -> tuple[list[str], list[Result[Fit, Collapsed]]]:
    """Run the restarts; the log, and what each came to."""
    program = all_restarts(x, restarts, components, steps)
    handled = handle(accumulate([], add), handle(prng(seed=1), program))
    on_tick = ProgressBar(label="fitting", force=True) if bar else None
    log, results = run(handled, executor=Threads(threads), on_tick=on_tick)
    return log, list(results)


def purity(component: NDArray[np.int64], label: NDArray[np.int64]) -> float:
    """The fraction of points whose label is the most frequent one of their component."""
    agreeing = sum(np.bincount(label[component == k]).max() for k in np.unique(component))
    return float(agreeing / len(label))


def load() -> tuple[Array, NDArray[np.int64]]:
    """Pixels between 0 and 1 (1797=>64), and labels."""
    table = np.loadtxt(DATA, delimiter=",")
    return np.ascontiguousarray(table[:, :64]) / 16.0, table[:, 64].astype(np.int64)


# --- the same gradient in numpy ------------------------------------------------------------------


def numpy_gradient(
    x: Array, log_weight: Array, mean: Array, log_scale: Array
) -> tuple[float, tuple[Array, Array, Array]]:
    """By hand, with matrix products: what a careful person writes without peffects."""
    precision = np.exp(-2.0 * log_scale)
    square = (mean**2 * precision).sum(1)
    distance = (x**2) @ precision.T - 2.0 * x @ (mean * precision).T + square
    t = log_weight - log_scale.sum(1) - 0.5 * distance
    top = t.max(1, keepdims=True)
    e = np.exp(t - top)
    total = e.sum(1, keepdims=True)
    belongs = e / total
    points = belongs.sum(0)
    first, second = belongs.T @ x, belongs.T @ x**2
    spread = second - 2.0 * mean * first + points[:, None] * mean**2
    value = float((top + np.log(total)).sum())
    d_mean = precision * (first - points[:, None] * mean)
    return value, (points, d_mean, spread * precision - points[:, None])


def best_ms(function: Callable[[], object], calls: int = 5) -> float:
    """The time of the fastest of some calls, in milliseconds: others may use the machine too."""
    time.sleep(0.05)  # the threads of numpy's BLAS look for work for a while before they sleep
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def in_turns(ours: Callable[[], object], theirs: Callable[[], object], rounds: int = 20) -> str:
    """The best times of both, and their ratio with that of the worst and the best round."""
    ours(), theirs()  # the first calls compile, and fill caches
    times = [(best_ms(ours), best_ms(theirs)) for _ in range(rounds)]
    mine, other = (min(column) for column in zip(*times, strict=True))
    ratios = [b / a for a, b in times]
    return (
        f"{mine:.2f} ms compiled, {other:.2f} ms in numpy: {other / mine:.1f} times as fast "
        f"({min(ratios):.1f} to {max(ratios):.1f} in {rounds} rounds)"
    )


# --- what is shown -------------------------------------------------------------------------------


def show_results(results: list[Result[Fit, Collapsed]], x: Array, label: NDArray[np.int64]) -> Fit:
    """Print a table of the restarts; the best fit."""
    print("restart  log-likelihood  purity")
    fits = []
    for i, result in enumerate(results):
        if isinstance(result, Ok):
            fit = result.value
            found = purity(assign(x, fit.log_weight, fit.mean, fit.log_scale), label)
            print(f"{i:7}  {fit.log_likelihood:14.1f}  {found:6.1%}")
            fits.append(fit)
        else:
            print(f"{i:7}  given up: {result.error}")
    return max(fits, key=lambda fit: fit.log_likelihood)


def show_times(x: Array, fit: Fit, threads: int) -> None:
    """Print the time of a gradient, compiled and with numpy, after checking that they agree."""
    args = (x, fit.log_weight, fit.mean, fit.log_scale)
    value, ours = gradient(*args)
    expected, theirs = numpy_gradient(*args)
    np.testing.assert_allclose(value, expected, rtol=1e-9)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-6)
    blas = os.environ.get("OPENBLAS_NUM_THREADS", str(os.cpu_count()))
    print(f"one gradient, on {threads} threads of ours, up to {blas} of numpy's BLAS:")
    with pe.threads(threads):
        print("  " + in_turns(lambda: gradient(*args), lambda: numpy_gradient(*args)))


def draw_means(mean: Array) -> None:
    """Write the means as pictures of 8 x 8 pixels."""
    import matplotlib.image

    rows, columns = 4, len(mean) // 4
    tiles = np.pad(mean.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    sheet = tiles.reshape(rows, columns, 10, 10).transpose(0, 2, 1, 3).reshape(10 * rows, -1)
    PICTURE.parent.mkdir(exist_ok=True)
    large = np.kron(sheet.clip(0.0, 1.0), np.ones((16, 16)))
    matplotlib.image.imsave(PICTURE, large, cmap="gray_r", vmin=0.0, vmax=1.0)
    print(f"the means of the best fit: {PICTURE}")


def main(small: bool = False) -> None:
    """Fit, and show what came of it."""
    x, label = load()
    restarts, components, steps = 8, 20, 150
    if small:
        x, label, restarts, components, steps = x[:300], label[:300], 4, 8, 40
    start = time.perf_counter()
    threads = os.cpu_count() or 1
    log, results = fit_all(x, restarts, components, steps, threads, bar=not small)
    print("\n".join(log[:4]), f"... ({len(log)} lines)", sep="\n")
    best = show_results(results, x, label)
    if not small:
        print(f"fitted in {time.perf_counter() - start:.1f} s")
        show_times(x, best, threads)
        draw_means(best.mean)


if __name__ == "__main__":
    main()
