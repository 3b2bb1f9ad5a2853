"""`import peffects` is cheap: nothing heavy or optional loads, numpy takes most of the time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("numba", "llvmlite", "mypy", "cloudpickle", "tqdm", "matplotlib", "multiprocessing.pool")
LIMIT_S = 0.060
TRIES = 9

TIMED_IMPORT = """
import time
import numpy
start = time.perf_counter()
import peffects
print(time.perf_counter() - start)
"""


def python(program: str) -> str:
    """The standard output of `program` in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "module",
    ["peffects", "peffects.handlers", "peffects.parallel", "peffects.ad"],
)
def test_import_loads_nothing_heavy(module: str) -> None:
    loaded = python(f"import sys, {module}\nprint(*sys.modules, sep='\\n')").split()
    assert module in loaded
    assert [name for name in HEAVY if name in loaded] == []


def test_import_adds_little_to_numpy() -> None:
    """The best of several: other processes can only make a run slower."""
    times = []
    for _ in range(TRIES):
        times.append(float(python(TIMED_IMPORT)))
        if times[-1] < LIMIT_S:
            break
    assert min(times) < LIMIT_S
