"""The key of a program is the same in every process, whatever else that has done before.

Each process has other hashes of strings and other addresses of objects, and stages the programs in
another order, so what is put in the order of a set shows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

KEYS = """
import json, random, sys
order = random.Random(sys.argv[1])
others = [bytes(order.randrange(1, 5000)) for _ in range(order.randrange(1000, 20000))]
del others[::2]

import numpy as np
import peffects as pe
from peffects.kernels import pipeline
from peffects.codegen.load.loader import digest_of
from examples import kernel_regression, lennard_jones, logistic_regression
from fuzz.choices import Seeded
from fuzz.kernel_programs import arguments, kernel_program
from fuzz.sources import load
from peffects.handlers import accum, accumulate, get, put, run_state

class Found(Exception):
    pass

def find(source, kernels, key="", name=""):
    raise Found(digest_of(source, kernels, key))

pipeline.load = find
X = np.linspace(0.1, 1.0, 8).reshape(4, 2)

def random_kernel(seed):
    drawn = kernel_program(Seeded(seed), smooth=True)
    return pe.kernel(load(drawn.text)["kernel"]), arguments(drawn, 5, 3)

def programs():
    yield "energy", lennard_jones.potential, (X, 3.0)
    yield "distances", lennard_jones.distances, (X, 3.0, 4)
    yield "pairs", lambda x: pe.sum(lambda i: pe.sum(lambda j: x[i, 0] * x[j, 1], over=i)), (X,)
    yield "sorted", lambda x: np.sort(x[:, 0]) @ np.cumsum(x[:, 1]), (X,)
    yield "solved", lambda x: np.linalg.solve(x.T @ x + np.eye(2), x[0]), (X,)
    yield "products", lambda x: pe.sum(lambda i: pe.sum(lambda j: (x @ x.T)[i, j] ** 2)), (X,)
    yield "handled", lambda x: pe.run(pe.handle(run_state(x[0, 0]), adds(x))), (X,)
    for seed in range(3):
        yield f"random {seed}", *random_kernel(seed)

@pe.effectful
def adds(x):
    for v in x[:, 1]:
        yield from put((yield from get()) + v)
    return (yield from get())

def key(call):
    try:
        call()
    except Found as found:
        return str(found)
    except pe.PeffectsError as error:
        return type(error).__name__
    raise AssertionError("it was not compiled")

keys = {}
found = [*programs()]
order.shuffle(found)
for name, function, args in found:
    function = pe.kernel(function) if not isinstance(function, pe.Kernel) else function
    ways = {
        "value": lambda: function(*args),
        "vjp": lambda: pe.vjp(function, *args),
        "jvp": lambda: pe.jvp(function, args, args),
        "value and gradient": lambda: pe.value_and_grad(function)(*args),
    }
    for way in order.sample(list(ways), len(ways)):
        keys[f"{way} of {name}"] = key(ways[way])
print(json.dumps(keys))
"""


def keys_in_a_process(number: int, script: Path) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": str(number)}
    result = subprocess.run(
        [sys.executable, str(script), str(number)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert result.returncode == 0, result.stderr
    found: dict[str, str] = json.loads(result.stdout)
    return found


PROCESSES = 6


@pytest.mark.slow
def test_every_process_has_the_same_keys(tmp_path: Path) -> None:
    script = tmp_path / "keys.py"
    script.write_text(KEYS)
    with ThreadPoolExecutor(2) as pool:
        numbers = range(1, PROCESSES + 1)
        first, *others = pool.map(lambda number: keys_in_a_process(number, script), numbers)
    assert sum(len(key) == 64 for key in first.values()) >= 30
    for other in others:
        assert {name for name in first if other[name] != first[name]} == set()
