"""The price of an Asian option, and what it depends on, by simulating Brownian motion.

The price of a share follows a geometric Brownian motion; the option pays how much its mean over a
year exceeds a strike.  Its price is the mean payoff over many paths.  The derivatives of the price
(delta, vega, rho) are the means of the derivatives of the payoffs, path by path (Broadie and
Glasserman, 1996).

Notice: a path is a `range` loop with two local variables, and no path is ever stored, not even for
the gradient of a million of them: the loop of a path runs forward and backward in scratch memory of
its own.  The random numbers come in as an array, so a run can be repeated.
"""

from __future__ import annotations

import time
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import peffects as pe

Array: TypeAlias = NDArray[np.float64]


@pe.kernel
def price(spot: float, volatility: float, rate: float, strike: float, normal: Array) -> float:
    """The discounted mean payoff (normal: paths=>steps=>f64), over one year."""
    steps = normal.shape[1]
    dt = 1.0 / steps
    drift = (rate - 0.5 * volatility * volatility) * dt
    noise = volatility * pe.sqrt(dt)

    def payoff(p: Any) -> Any:
        logarithm, total = pe.log(spot), 0.0
        for t in range(steps):
            logarithm += drift + noise * normal[p, t]
            total += pe.exp(logarithm)
        return max(total / steps - strike, 0.0)

    return pe.exp(-rate) * pe.mean(payoff, over=normal)


greeks = pe.value_and_grad(price, argnums=(0, 1, 2))


@pe.kernel
def chance_of_reaching(level: float, normal: Array) -> tuple[float, float]:
    """How often a standard motion reaches `level` at a step; twice how often it ends above it.

    The two agree for a motion in continuous time (reflection principle).  One that is looked at in
    steps reaches as often as if the level were higher by 0.5826 steps (Broadie et al., 1997).
    """
    steps = normal.shape[1]
    scale = pe.sqrt(1.0 / steps)
    raised = level + 0.5826 * scale

    def of_path(p: Any) -> Any:
        x, highest = 0.0, 0.0
        for t in range(steps):
            x += scale * normal[p, t]
            highest = max(highest, x)
        return (1.0 if highest >= level else 0.0), (2.0 if x >= raised else 0.0)

    return pe.mean(of_path, over=normal)


def main(small: bool = False) -> None:
    """Price the option; test the reflection principle."""
    paths, steps = (4_000, 32) if small else (500_000, 128)
    normal = np.random.default_rng(11).normal(size=(paths, steps))
    start = time.perf_counter()
    value, (delta, vega, rho) = greeks(100.0, 0.2, 0.05, 100.0, normal)
    seconds = time.perf_counter() - start
    print(f"price {value:.4f}  delta {delta:.4f}  vega {vega:.3f}  rho {rho:.3f}")
    bump = 1e-4
    up, down = (price(100.0, 0.2 + s * bump, 0.05, 100.0, normal) for s in (1, -1))
    print(f"vega by differences {(up - down) / (2 * bump):.3f}")
    reached, expected = chance_of_reaching(1.0, normal)
    print(f"reaches 1 with probability {reached:.4f}, by reflection {expected:.4f}")
    if not small:
        print(f"price and derivatives of {paths} paths: {seconds:.2f} s, compilation included")


if __name__ == "__main__":
    main()
