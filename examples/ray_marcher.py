"""A picture of a scene that is given by a function: the distance to the nearest surface.

Sphere tracing (Hart, 1996), a translation of Dex's raytracer.  Each ray goes on by the distance to
the scene until that is almost nothing.

Notice: a normal is the gradient of the distance.  `pe.grad` of the sum of all pixels' distances
gives all normals in one parallel loop, since a pixel's distance depends on its own point only.
`scene` is a plain function; kernels call it with symbols.  The `while` loop of a ray has a length
of its own; no ray waits for another.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import peffects as pe

Array: TypeAlias = NDArray[np.float64]
Point: TypeAlias = tuple[Array, Array, Array]  # coordinates, an array each

PICTURE = Path("out") / "ray_marcher.png"
SHADES = " .:-=+*#%@"
FAR = 200.0
NEAR = 1e-4
TILT = 0.7  # how far the camera looks down


def length(x: Any, y: Any, z: Any) -> Any:
    """Of a vector."""
    return pe.sqrt(x * x + y * y + z * z)


def smooth_min(a: Any, b: Any, width: float) -> Any:
    """The smaller of two distances, with a fillet where they are alike."""
    h = max(width - abs(a - b), 0.0) / width
    return min(a, b) - 0.25 * h * h * width


def scene(x: Any, y: Any, z: Any) -> Any:
    """The distance from a point to the nearest surface: two balls, a ring, the floor."""
    balls = smooth_min(length(x + 0.5, y, z) - 0.8, length(x - 0.6, y - 0.5, z) - 0.5, 0.4)
    ring = length(pe.sqrt(x * x + z * z + 1e-12) - 1.7, y + 0.6, 0.0) - 0.2
    return min(min(balls, ring), y + 0.8)


@pe.kernel
def march(eye: Array, rows: int, columns: int, limit: int) -> tuple[Point, Array]:
    """Where the ray of each pixel ends (rows=>columns=>f64), and how far that is."""

    def of_pixel(row: Any, column: Any) -> Any:
        u = (2.0 * column + 1.0 - columns) / rows
        v = (rows - 2.0 * row - 1.0) / rows
        size = length(u, v - TILT, 2.0)
        dx, dy, dz = u / size, (v - TILT) / size, 2.0 / size  # of length 1, as distances are
        far, steps, gap = 0.0, 0, 1.0
        while steps < limit and far < FAR and gap > NEAR:
            gap = scene(eye[0] + far * dx, eye[1] + far * dy, eye[2] + far * dz)
            far += gap
            steps += 1
        return (eye[0] + far * dx, eye[1] + far * dy, eye[2] + far * dz), far

    point, far = pe.table(of_pixel, over=(rows, columns))
    return point, far


@pe.kernel
def total_distance(x: Array, y: Array, z: Array) -> float:
    """The sum of the distances of all points to the scene."""
    return pe.sum(lambda i, j: scene(x[i, j], y[i, j], z[i, j]))


normals = pe.grad(total_distance, argnums=(0, 1, 2))


@pe.kernel
def shade(normal: Point, point: Point, far: Array) -> Array:
    """The brightness of each pixel: diffuse light, and shadows."""
    (nx, ny, nz), (x, y, z) = normal, point
    lx, ly, lz = 0.48, 0.8, -0.36

    def of_pixel(i: Any, j: Any) -> Any:
        light = max(nx[i, j] * lx + ny[i, j] * ly + nz[i, j] * lz, 0.0)
        way, steps, open_ = 0.02, 0, 1.0
        while steps < 60 and way < 6.0 and open_ > 0.01:
            gap = scene(x[i, j] + way * lx, y[i, j] + way * ly, z[i, j] + way * lz)
            open_ = min(open_, 12.0 * gap / way)
            way += max(gap, 0.02)
            steps += 1
        lit = 0.15 + 0.85 * light * max(open_, 0.0)
        return 1.0 if far[i, j] >= FAR else lit

    return pe.table(of_pixel)


def render(rows: int, columns: int) -> Array:
    """The picture."""
    point, far = march(np.array([0.0, 1.2, -4.5]), rows, columns, 400)
    return shade(normals(*point), point, far)


def main(small: bool = False) -> None:
    """Print a small picture; draw a large one."""
    for row in render(20, 48):
        print("".join(SHADES[int(min(max(b, 0.0), 1.0) * 9)] for b in row).rstrip())
    if not small:
        import matplotlib.image

        PICTURE.parent.mkdir(exist_ok=True)
        matplotlib.image.imsave(PICTURE, render(600, 960), cmap="gray", vmin=0.0, vmax=1.0)
        print(f"the picture: {PICTURE}")


if __name__ == "__main__":
    main()
