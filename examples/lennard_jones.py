"""Molecular dynamics of argon-like particles, with forces that nobody derived by hand.

Particles in a periodic square attract at a distance and repel when near (Lennard-Jones potential).
Velocity-Verlet steps; a small JAX-MD (Schoenholz and Cubuk, 2020), which Dex has, too.

Notice: only the energy is written.  `pe.grad` of a sum over pairs is a loop over particles in which
each gathers its own force, without atomic additions and without an array of pairs.  `floor` has no
derivative, and peffects says so; `pe.stop_gradient` answers that the number of boxes between the
two is meant as a constant.  The distribution of distances is a histogram: `h[bin] += 1.0` on an
accumulator, inside the loop over pairs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import peffects as pe

Array: TypeAlias = NDArray[np.float64]

PICTURE = Path("out") / "lennard_jones.png"
STEP = 0.004


@pe.kernel
def squared_distance(x: Array, i: int, j: int, side: float) -> float:
    """Between i and the nearest image of j in a box of length `side`."""

    def along(axis: Any) -> Any:
        d = x[i, axis] - x[j, axis]
        boxes = pe.floor(pe.stop_gradient(d / side + 0.5))
        return (d - side * boxes) ** 2

    return pe.sum(along)


@pe.kernel
def potential(x: Array, side: float) -> float:
    """The potential energy of all pairs (x: n=>2=>f64)."""

    def of_pair(i: Any, j: Any) -> Any:
        same = int(i) == int(j)
        square = 1.0 if same else squared_distance(x, i, j, side)
        attraction = 1.0 / square**3
        return 0.0 if same else 2.0 * (attraction * attraction - attraction)  # each pair twice

    return pe.sum(lambda i: pe.sum(lambda j: of_pair(i, j), over=x), over=x)


slope = pe.value_and_grad(potential)


@pe.kernel
def distances(x: Array, side: float, bins: int) -> Array:
    """How often each distance occurs between two particles, relative to an ideal gas."""
    n = len(x)
    h = pe.accumulator(bins, dtype=float)
    for i, j in pe.par(x, x):
        r = pe.sqrt(squared_distance(x, i, j, side))
        b = int(r / (0.5 * side) * bins)
        if int(i) != int(j) and b < bins:
            h[b] += 1.0
    width = 0.5 * side / bins
    ring = lambda b: np.pi * width * width * (2.0 * b + 1.0)
    return pe.table(lambda b: h[b] / (ring(b) * n * (n - 1) / (side * side)))


def start(per_side: int, density: float) -> tuple[Array, Array, float]:
    """Particles on a grid with random velocities, and the length of their box."""
    n = per_side**2
    side = float(np.sqrt(n / density))
    grid = np.stack(np.meshgrid(*2 * [np.arange(per_side)], indexing="ij"), -1).reshape(n, 2)
    velocity = np.random.default_rng(3).normal(size=(n, 2)) * 0.8
    return (grid + 0.5) * side / per_side, velocity - velocity.mean(0), side


def simulate(
    x: Array, v: Array, side: float, steps: int, report: int
) -> tuple[Array, Array, list[tuple[float, float]]]:
    """Positions and velocities at the end; potential and kinetic energies every `report` steps."""
    energies = []
    value, gradient = slope(x, side)
    for step in range(steps + 1):
        if step % report == 0:
            energies.append((float(value), 0.5 * float((v * v).sum())))
        v = v - 0.5 * STEP * gradient
        x = (x + STEP * v) % side
        value, gradient = slope(x, side)
        v = v - 0.5 * STEP * gradient
    return x, v, energies


def draw(x: Array, side: float, profile: Array) -> None:
    """Write the particles and the distribution of their distances."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 5))
    left.plot(*x.T, "o", markersize=5)
    left.set(aspect="equal", xlim=(0, side), ylim=(0, side), title="particles")
    right.plot((np.arange(len(profile)) + 0.5) * 0.5 * side / len(profile), profile)
    right.set(title="density at a distance", xlabel="distance")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=120)
    print(f"the particles: {PICTURE}")


def main(small: bool = False) -> None:
    """Simulate, show that energy is conserved and how the distances are distributed."""
    per_side, steps = (6, 40) if small else (24, 1000)
    x, v, side = start(per_side, density=0.7)
    x, v, energies = simulate(x, v, side, steps, steps // 4)
    print("potential   kinetic     total")
    for potential_energy, kinetic in energies:
        total = potential_energy + kinetic
        print(f"{potential_energy:9.3f} {kinetic:9.3f} {total:9.3f}")
    profile = distances(x, side, 8 if small else 100)
    print("density at a distance:", " ".join(f"{value:.3f}" for value in profile[:8]))
    if not small:
        draw(x, side, profile)


if __name__ == "__main__":
    main()
