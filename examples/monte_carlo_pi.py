"""Pi, and the volume of balls in any dimension, by throwing darts.

Source: the first program of many a parallel course, and of Dex's examples.

Notice: `pe.mean` of a function of the dart's number.  The answer has the same bits with one thread
and with many, since partial sums are formed and combined in an order that depends on sizes only.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

import peffects as pe

Array: TypeAlias = NDArray[np.float64]


@pe.kernel
def part_inside(dart: Array) -> float:
    """The part of the darts (n=>d, in the unit cube) that lie in the ball around a corner."""
    inside = lambda n: pe.sum(lambda j: dart[n, j] ** 2) <= 1.0
    return pe.mean(lambda n: 1.0 if inside(n) else 0.0)


def main(small: bool = False) -> None:
    """Estimate, and tell the error."""
    n = 20_000 if small else 5_000_000
    for d in (2, 3, 4):
        dart = np.random.default_rng(d).random((n, d))
        part = float(part_inside(dart))
        volume, error = 2**d * part, 2**d * math.sqrt(part * (1 - part) / n)
        truth = math.pi ** (d / 2) / math.gamma(d / 2 + 1)
        print(f"ball in {d} dimensions: {volume:.4f} +- {error:.4f}, truly {truth:.4f}")
    with pe.threads(1):
        alone = part_inside(dart)
    print(f"one thread and all threads agree in all bits: {alone == part}")


if __name__ == "__main__":
    main()
