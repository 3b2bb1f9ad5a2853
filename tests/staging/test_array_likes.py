"""Lists of numbers and of tables, given to numpy's functions in a kernel as numpy takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from staged import run

import peffects as pe
from peffects.staging.numpy_surface.array_likes import takes_arrays
from peffects.staging.numpy_surface.functions import FUNCTIONS

X = np.array([1.0, 2.0, 3.0])

CASES: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: np.sum([x[0], x[1]]),
    "sum along": lambda x: np.sum((x, x), axis=0),
    "max": lambda x: np.max([x[0], x[1]]),
    "mean of tables": lambda x: np.mean([x, 2 * x], axis=0),
    "mean by name": lambda x: np.mean(a=[x[0], x[1]]),
    "std": lambda x: np.std([x, x + 1.0, x * x], axis=0),
    "median": lambda x: np.median([x[2], x[0], x[1]]),
    "prod": lambda x: np.prod([x[0], 2.0]),
    "any": lambda x: np.any([x[0] > 0, x[1] > 5]),
    "argmax": lambda x: np.argmax([x[0], x[1]]),
    "cumsum": lambda x: np.cumsum([x[0], x[1]]),
    "sort": lambda x: np.sort([x[1], x[0]]),
    "diff": lambda x: np.diff([x[0], x[1], x[2]]),
    "flip": lambda x: np.flip([x[0], x[1]]),
    "ravel": lambda x: np.ravel([x, x]),
    "transpose": lambda x: np.transpose([x, x * 2]),
    "shape": lambda x: float(np.shape([x, x])[0]),
    "clip": lambda x: np.clip([x[0], x[1]], 0.0, 1.5),
    "where": lambda x: np.where(x > 1.5, [x[2], x[1], x[0]], 0.0),
    "exp": lambda x: np.exp([x[0], x[1]]),
    "add": lambda x: np.add([x[0], x[1]], 1.0),
    "maximum": lambda x: np.maximum([x[0], 2.0], x[1]),
    "add.reduce": lambda x: np.add.reduce([x[0], x[1]]),
    "add.accumulate": lambda x: np.add.accumulate([x[0], x[1]]),
    "multiply.outer": lambda x: np.multiply.outer([x[0], x[1]], x),
    "dot of numbers": lambda x: np.dot([1.0, 2.0, 3.0], x),
    "dot": lambda x: np.dot([x[0], x[1], 1.0], x),
    "outer": lambda x: np.outer([x[0], x[1]], x),
    "matmul": lambda x: np.matmul([x, x], x),
    "einsum": lambda x: np.einsum("i,i", [x[0], x[1]], [1.0, 2.0]),
    "interp": lambda x: np.interp(x, [0.0, x[1] * 3], [0.0, 1.0]),
    "norm": lambda x: np.linalg.norm([x[0], x[1]]),
    "solve": lambda x: np.linalg.solve([[x[0], 0.0], [0.0, x[1]]], [1.0, 2.0]),
    "average": lambda x: np.average([x[0], x[1]], weights=[x[1], 1.0]),
    "concatenate": lambda x: np.concatenate([x, [x[0], 7.0]]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_list_is_an_array(name: str) -> None:
    function = CASES[name]
    np.testing.assert_allclose(run(function, X), function(X), rtol=1e-13)
    np.testing.assert_allclose(pe.kernel(function).debug(X), function(X), rtol=1e-13)


def test_gradient_of_a_list() -> None:
    gradient = pe.grad(lambda x: np.sum(np.mean([x, x * x], axis=0)))
    np.testing.assert_allclose(gradient(X), (1 + 2 * X) / 2)


def test_every_function_of_an_array_takes_a_list() -> None:
    """What is missing here takes lists itself, or is not of arrays."""
    others = {
        np.select, np.meshgrid, np.concatenate, np.stack, np.vstack, np.hstack, np.column_stack,
        getattr(np, "astype", None),
    }  # fmt: skip
    assert {name for name in FUNCTIONS if not takes_arrays(name)} <= others
