"""How fast the points of the plane escape under z -> z*z + c.

Source: the escape-time picture of the Mandelbrot set (Brooks and Matelski, 1981), which every array
language shows.

Notice: a pixel is a function of its row and column, with an ordinary `while` loop whose length
depends on the pixel.  `pe.table` makes the picture of it; rows run in parallel.  Array libraries
iterate the whole picture until the last pixel has escaped, or mask.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import peffects as pe

PICTURE = Path("out") / "mandelbrot.png"
SHADES = " .:-=+*#%@"


@pe.kernel
def escape_times(
    left: float, right: float, bottom: float, top: float, rows: int, columns: int, limit: int
) -> NDArray[np.int64]:
    """How many steps each pixel stays within radius 2 of the origin (rows=>columns=>i64)."""

    def of_pixel(row: Any, column: Any) -> Any:
        x = left + (column + 0.5) * (right - left) / columns
        y = top - (row + 0.5) * (top - bottom) / rows
        c, z, steps = complex(x, y), 0j, 0
        while steps < limit and z.real**2 + z.imag**2 <= 4.0:  # cheaper than abs(z) <= 2.0
            z = z * z + c
            steps += 1
        return steps

    return pe.table(of_pixel, over=(rows, columns))


def draw(times: NDArray[np.int64], limit: int) -> None:
    """Write the picture, dark where points never escape."""
    import matplotlib.image

    PICTURE.parent.mkdir(exist_ok=True)
    brightness = np.where(times == limit, 0.0, np.log1p(times) / np.log1p(limit))
    matplotlib.image.imsave(PICTURE, brightness, cmap="magma")
    print(f"the picture: {PICTURE}")


def main(small: bool = False) -> None:
    """Print the set in letters; draw it."""
    limit = 100
    times = escape_times(-2.0, 0.6, -1.2, 1.2, 21, 64, limit)
    for row in times:
        print("".join(SHADES[int(t * 9 / limit)] for t in row).rstrip())
    print(f"area of the set: about {(times == limit).mean() * 2.6 * 2.4:.2f}")
    if not small:
        limit = 1000
        draw(escape_times(-2.0, 0.6, -1.2, 1.2, 1200, 1300, limit), limit)


if __name__ == "__main__":
    main()
