"""What a call costs, and what the first one costs.

A call: the dot product of ten numbers, so that there is nothing but overhead, against a function
compiled by numba for the same types, and against numpy.  The first one: a whole process that
computes the gradient of the example `digits_mixture` once and ends, with an empty cache (staging,
differentiating, compiling) and with the machine code in the disk cache; a process that only imports
numpy and loads the data is there to subtract.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit, types
from timing import Row, alone, compare

import peffects as pe

ROOT = Path(__file__).resolve().parent.parent
X, Y = np.arange(10.0), np.ones(10)


@pe.kernel
def dot(x: Any, y: Any) -> Any:
    """The smallest kernel with two arrays."""
    return pe.sum(lambda i: x[i] * y[i])


@pe.kernel
def scaled(x: Any, by: Any) -> Any:
    """An array and a number to an array."""
    return pe.table(lambda i: x[i] * by)


ARRAY, NUMBER = types.float64[::1], types.float64


@njit(NUMBER(ARRAY, ARRAY), error_model="numpy")
def numba_dot(x: Any, y: Any) -> Any:
    """`dot` as a loop."""
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


@njit(ARRAY(ARRAY, NUMBER), error_model="numpy")
def numba_scaled(x: Any, by: float) -> Any:
    """`scaled` as a loop."""
    out = np.empty_like(x)
    for i in range(len(x)):
        out[i] = x[i] * by
    return out


BASE = """
import numpy as np
x = np.loadtxt("examples/data/digits.csv.gz", delimiter=",")[:, :64] / 16.0
"""
FIRST_GRADIENT = """
import sys; sys.path.insert(0, "examples")
import digits_mixture as example
x, _ = example.load()
example.gradient(x, np.zeros(20), x[:20] + 0.1, np.zeros((20, 64)))
"""


def main() -> list[Row]:
    """Calls, then whole processes."""
    gradient = pe.value_and_grad(dot)
    assert dot(X, Y) == numba_dot(X, Y) == np.dot(X, Y)
    rows = [
        compare("dot of 10", lambda: dot(X, Y), lambda: numba_dot(X, Y), against="numba"),
        compare("dot of 10", lambda: dot(X, Y), lambda: np.dot(X, Y), against="numpy"),
        compare("scaled 10", lambda: scaled(X, 2.0), lambda: numba_scaled(X, 2.0), against="numba"),
        alone("value and gradient of dot", lambda: gradient(X, Y)),
    ]
    with tempfile.TemporaryDirectory() as cache:
        rows.append(_process("process, no gradient", BASE, cache, ""))
        rows.append(_process("process, first gradient, empty cache", FIRST_GRADIENT, cache, "rm"))
        rows.append(_process("process, first gradient, disk cache", FIRST_GRADIENT, cache, ""))
    return rows


def _process(name: str, program: str, cache: str, before: str) -> Row:
    """The time of a whole process, with the files of `cache` removed `before` each run or not."""
    environment = os.environ | {"PEFFECTS_CACHE_DIR": cache, "PYTHONPATH": str(ROOT)}

    def run() -> None:
        if before:
            for file in Path(cache).iterdir():
                file.unlink()
        subprocess.run(
            [sys.executable, "-c", BASE + program], env=environment, cwd=ROOT, check=True
        )

    return alone(name, run, rounds=3)
