"""Cluster handwritten digits by k-means.

Source: Lloyd's algorithm (1957), as in Rodinia's kmeans and Dex's benchmark of it.

Notice: the new centers are an accumulation over the points: each adds itself to the center that is
nearest.  Written with `+=` in a parallel loop this would race in most systems; an accumulator
cannot, and any number of threads gives the same bits.  Nearest is `pe.argmin` of a function.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import peffects as pe

Array: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

DATA = Path(__file__).parent / "data" / "digits.csv.gz"
PICTURE = Path("out") / "k_means.png"


@pe.kernel
def nearest(x: Array, center: Array) -> Ints:
    """The center next to each point (x: n=>d, center: k=>d)."""

    def of_point(n: Any) -> Any:
        return pe.argmin(lambda k: pe.sum(lambda j: (x[n, j] - center[k, j]) ** 2))

    return pe.table(of_point)


@pe.kernel
def improve(x: Array, center: Array) -> tuple[Array, float]:
    """The means of the points of each center; the mean squared distance to the centers."""
    k, d = center.shape
    total = pe.accumulator(k, d, dtype=float)
    count = pe.accumulator(k, dtype=float)
    distortion = pe.accumulator(dtype=float)
    mine = nearest(x, center)
    for n in pe.par(x):
        for j in range(d):
            total[mine[n], j] += x[n, j]
            distortion += (x[n, j] - center[mine[n], j]) ** 2
        count[mine[n]] += 1.0
    new = pe.table(lambda c, j: total[c, j] / count[c] if count[c] > 0.0 else center[c, j])
    return new, distortion / len(x)


def load() -> tuple[Array, Ints]:
    """Pixels between 0 and 1 (1797=>64), and labels."""
    table = np.loadtxt(DATA, delimiter=",")
    return np.ascontiguousarray(table[:, :64]) / 16.0, table[:, 64].astype(np.int64)


def cluster(x: Array, k: int) -> tuple[Array, list[float]]:
    """Centers at which nothing changes any more; the distortions on the way."""
    center, distortions = x[np.random.default_rng(4).choice(len(x), k, replace=False)], []
    while True:
        new, distortion = improve(x, center)
        distortions.append(float(distortion))
        if np.array_equal(new, center):
            return center, distortions
        center = new


def draw(center: Array) -> None:
    """Write the centers as pictures of 8 x 8 pixels."""
    import matplotlib.image

    tiles = np.pad(center.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    sheet = tiles.transpose(1, 0, 2).reshape(10, -1)
    PICTURE.parent.mkdir(exist_ok=True)
    matplotlib.image.imsave(PICTURE, np.kron(sheet, np.ones((16, 16))), cmap="gray_r")
    print(f"the centers: {PICTURE}")


def main(small: bool = False) -> None:
    """Cluster; count how many digits lie in a cluster of their kind."""
    x, label = load()
    if small:
        x, label = x[:300], label[:300]
    center, distortions = cluster(x, 10)
    for number, distortion in list(enumerate(distortions))[:: max(len(distortions) // 4, 1)]:
        print(f"round {number:2}: mean squared distance {distortion:.5f}")
    mine = nearest(x, center)
    agreeing = sum(np.bincount(label[mine == k]).max() for k in np.unique(mine))
    print(f"{agreeing} of {len(x)} digits are in a cluster that is mostly of their kind")
    if not small:
        draw(center)


if __name__ == "__main__":
    main()
