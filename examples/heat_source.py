"""Where was the plate heated?  Run the heat equation backwards, as far as noise allows.

A plate of which we see the temperature at the end; explicit steps of a five-point stencil with
insulated edges lead there.  Gradient descent on the start, through all steps, recovers the spots
(an inverse problem; the forward part is Rodinia's hotspot).

Notice: the stencil reads its neighbors, and its transpose adds to them; peffects keeps that a
parallel loop.  Edges are ordinary `max` and `min` of an index.  The loop over the steps is a plain
`range`, and running it backwards is not the user's work.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import peffects as pe

Array: TypeAlias = NDArray[np.float64]

PICTURE = Path("out") / "heat_source.png"
RATE = 0.2  # of diffusion: below 0.25, or the steps are unstable


@pe.kernel
def diffuse(start: Array, steps: int) -> Array:
    """The temperatures after `steps` steps (rows=>columns=>f64)."""
    t = start
    rows, columns = start.shape
    for _ in range(steps):
        old = t

        def cell(i: Any, j: Any) -> Any:
            up, down = old[max(i - 1, 0), j], old[min(i + 1, rows - 1), j]
            left, right = old[i, max(j - 1, 0)], old[i, min(j + 1, columns - 1)]
            return old[i, j] + RATE * (up + down + left + right - 4.0 * old[i, j])

        t = pe.table(cell)
    return t


@pe.kernel
def misfit(start: Array, seen: Array, steps: int) -> float:
    """Half the squared difference between what `start` leads to and what was seen."""
    end = diffuse(start, steps)
    return 0.5 * pe.sum(lambda i, j: (end[i, j] - seen[i, j]) ** 2)


slope = pe.value_and_grad(misfit)


def plate(size: int) -> Array:
    """Two hot spots, each of one cell."""
    start = np.zeros((size, size))
    start[size // 4, size // 3] = 8.0
    start[2 * size // 3, 3 * size // 4] = 12.0
    return start


def recover(seen: Array, steps: int, rounds: int) -> tuple[Array, list[float]]:
    """A start that leads to what was seen, nowhere below zero; the misfits on the way."""
    guess, ahead, misfits = np.zeros_like(seen), np.zeros_like(seen), []
    for number in range(rounds):  # projected gradient steps with momentum (Nesterov, 1983)
        value, gradient = slope(ahead, seen, steps)
        misfits.append(float(value))
        before, guess = guess, np.maximum(ahead - gradient, 0.0)
        ahead = guess + number / (number + 3.0) * (guess - before)
    return guess, misfits


def draw(start: Array, seen: Array, found: Array) -> None:
    """Write the three plates side by side, each with colors of its own: what is seen has faded."""
    import matplotlib.pyplot as plt

    figure, all_axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    plates = {"heated": start, "seen": seen, "recovered": found}
    for axes, (title, temperatures) in zip(all_axes, plates.items(), strict=True):
        image = axes.imshow(temperatures, cmap="inferno", vmin=0.0)
        axes.set_title(f"{title}: up to {temperatures.max():.2f} degrees")
        figure.colorbar(image, ax=axes, shrink=0.85)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=120)
    print(f"the plates: {PICTURE}")


def main(small: bool = False) -> None:
    """Heat, look, and find the spots again."""
    size, steps, rounds = (12, 4, 80) if small else (24, 16, 2000)
    start = plate(size)
    end = diffuse(start, steps)
    print(f"heat before {start.sum():.4f}, after {steps} steps {end.sum():.4f}")
    found, misfits = recover(end, steps, rounds)
    for number in range(0, rounds, rounds // 4):
        print(f"round {number:3}: misfit {misfits[number]:.6f}")
    for spot in np.argsort(found, axis=None)[:-3:-1]:
        i, j = divmod(int(spot), size)
        print(f"spot at {i}, {j}: {found[i, j]:.3f}, truly {start[i, j]:.1f}")
    if not small:
        draw(start, end, found)


if __name__ == "__main__":
    main()
