"""How many letters must be put in, taken out or changed to make one word another.

Source: the dynamic program of Wagner and Fischer (1974).  Each cell of its matrix needs the cells
above, to the left and above left, so rows are sequential.  The cells of an antidiagonal do not need
each other.

Notice: an antidiagonal is a table, made in parallel from the two before it, which are locals of a
`range` loop.  Nothing says that memory is used again from one diagonal to the next; it is.  The
accesses `before[i - 1]` are tested, and written so that they cannot fail.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import peffects as pe

Letters = NDArray[np.int64]


@pe.kernel
def distance(a: Letters, b: Letters) -> int:
    """The edit distance of two texts, given as arrays of letters."""
    n, m = len(a), len(b)
    # cell (i, j) of diagonal d = i + j: the distance of the first i letters of a and j of b
    before = pe.table(lambda i: 0, over=n + 1)
    last = pe.table(lambda i: 0, over=n + 1)
    for d in range(n + m + 1):
        older, old = before, last

        def cell(i: Any) -> Any:
            j = d - i
            result = 0
            if i == 0:
                result = j
            elif j == 0:
                result = i
            elif 1 <= j <= m:
                same = a[i - 1] == b[j - 1]
                change = older[i - 1] + (0 if same else 1)
                result = min(change, 1 + min(old[i - 1], old[i]))
            return result

        before, last = last, pe.table(cell, over=n + 1)
    return last[n]


def letters(text: str) -> Letters:
    """The code points of a text."""
    return np.array([ord(letter) for letter in text], np.int64)


def main(small: bool = False) -> None:
    """Compare words; compare two long texts."""
    pairs = [("kitten", "sitting"), ("flaw", "lawn"), ("saturday", "sunday"), ("", "abc")]
    for one, other in pairs:
        print(f"{one!r} to {other!r}: {distance(letters(one), letters(other))}")
    n = 200 if small else 10_000
    strands = np.random.default_rng(1).integers(0, 4, (2, n))
    start = time.perf_counter()
    found = distance(*strands)
    print(f"two random strands of {n} bases: {found}")
    if not small:
        seconds = time.perf_counter() - start
        print(f"{n * n / seconds / 1e6:.0f} million cells a second")


if __name__ == "__main__":
    main()
