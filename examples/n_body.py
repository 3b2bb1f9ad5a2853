"""Aim a probe at a planet: gradient descent through a simulation of gravity.

A star, three planets and a probe attract each other.  Which velocity at the start brings the probe
to the outer planet?  The miss is a function of the velocity, and the simulation between them is
differentiated as it stands (leapfrog steps; Verlet, 1967).

Notice: the accelerations are a function of two indices, and no array of all pairs is ever made.
The time loop is a plain `range`; the tables of positions and velocities are its local variables.
`pe.value_and_grad` runs it backwards.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import peffects as pe

Array: TypeAlias = NDArray[np.float64]

PICTURE = Path("out") / "n_body.png"
SOFTENING = 1e-3
STEP = 0.01
PROBE, TARGET = 4, 3


@pe.kernel
def accelerations(position: Array, mass: Array) -> Array:
    """What all bodies do to each (n=>2=>f64)."""

    def of_body(i: Any, axis: Any) -> Any:
        def pull(j: Any) -> Any:
            square = pe.sum(lambda a: (position[j, a] - position[i, a]) ** 2) + SOFTENING
            return mass[j] * (position[j, axis] - position[i, axis]) / (square * pe.sqrt(square))

        return pe.sum(pull)

    return pe.table(of_body)


@pe.kernel
def simulate(position: Array, velocity: Array, mass: Array, steps: int) -> tuple[Array, Array]:
    """Positions and velocities after `steps` leapfrog steps."""
    x, v = position, velocity
    for _ in range(steps):
        middle, speed = x, v
        x = pe.table(lambda i, a: middle[i, a] + 0.5 * STEP * speed[i, a])
        half, force = x, accelerations(x, mass)
        v = pe.table(lambda i, a: speed[i, a] + STEP * force[i, a])
        faster = v
        x = pe.table(lambda i, a: half[i, a] + 0.5 * STEP * faster[i, a])
    return x, v


@pe.kernel
def miss(aim: Array, position: Array, velocity: Array, mass: Array, steps: int) -> float:
    """The squared distance between probe and target at the end, if the probe starts with `aim`."""
    start = pe.table(lambda i, a: aim[a] if int(i) == PROBE else velocity[i, a])
    end, _ = simulate(position, start, mass, steps)
    return pe.sum(lambda a: (end[PROBE, a] - end[TARGET, a]) ** 2)


slope = pe.value_and_grad(miss)


@pe.kernel
def energy(position: Array, velocity: Array, mass: Array) -> float:
    """Kinetic and potential energy."""
    kinetic = pe.sum(lambda i: 0.5 * mass[i] * pe.sum(lambda a: velocity[i, a] ** 2))

    def of_pair(i: Any, j: Any) -> Any:
        square = pe.sum(lambda a: (position[i, a] - position[j, a]) ** 2) + SOFTENING
        return mass[i] * mass[j] / pe.sqrt(square) if int(i) < int(j) else 0.0

    return kinetic - pe.sum(of_pair)


def system() -> tuple[Array, Array, Array]:
    """Positions, velocities on circles, masses: star, three planets, probe."""
    radius = np.array([0.0, 0.7, 1.0, 1.6, 1.03])
    angle = np.array([0.0, 1.0, 0.0, 1.9, 0.0])
    mass = np.array([1.0, 1e-4, 3e-4, 1e-4, 0.0])
    around = np.stack([np.cos(angle), np.sin(angle)], 1)
    across = np.stack([-np.sin(angle), np.cos(angle)], 1)
    speed = np.where(radius > 0, 1 / np.sqrt(np.maximum(radius, 0.1)), 0.0)
    return radius[:, None] * around, speed[:, None] * across, mass


def aim_probe(steps: int, rounds: int) -> tuple[Array, list[float]]:
    """The velocity of the probe after some rounds of descent, and the misses on the way."""
    position, velocity, mass = system()
    aim, part = velocity[PROBE] * 1.1, 1.0
    square, gradient = slope(aim, position, velocity, mass, steps)
    misses = [float(np.sqrt(square))]
    for _ in range(rounds):
        # where the tangent of the squared miss is zero, or a part of the way; less if that is worse
        trial = aim - part * square * gradient / (gradient @ gradient)
        new_square, new_gradient = slope(trial, position, velocity, mass, steps)
        if new_square < square:
            aim, square, gradient = trial, new_square, new_gradient
            part = min(1.0, 1.5 * part)
        else:
            part *= 0.5
        misses.append(float(np.sqrt(square)))
    return aim, misses


def draw(aim: Array, steps: int) -> None:
    """Write a picture of the orbits."""
    import matplotlib.pyplot as plt

    position, velocity, mass = system()
    velocity[PROBE] = aim
    trail = [position]
    for _ in range(steps):
        position, velocity = simulate(position, velocity, mass, 1)
        trail.append(position)
    figure, axes = plt.subplots(figsize=(6, 6))
    for body, name in enumerate(["star", "inner", "middle", "target", "probe"]):
        path = np.array(trail)[:, body]
        axes.plot(*path.T, label=name)
        axes.plot(*path[-1], "o", color=axes.lines[-1].get_color())
    axes.set_aspect("equal")
    axes.legend()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=120)
    print(f"the orbits: {PICTURE}")


def main(small: bool = False) -> None:
    """Aim, and check that energy is conserved."""
    steps, rounds = (60, 15) if small else (200, 60)
    aim, misses = aim_probe(steps, rounds)
    for number, distance in list(enumerate(misses))[:: max(rounds // 5, 1)]:
        print(f"round {number:2}: the probe misses by {distance:.5f}")
    position, velocity, mass = system()
    velocity[PROBE] = aim
    end = simulate(position, velocity, mass, steps)
    before, after = energy(position, velocity, mass), energy(*end, mass)
    print(f"energy {before:.6f}, after {steps} steps {after:.6f}")
    if not small:
        draw(aim, steps)


if __name__ == "__main__":
    main()
