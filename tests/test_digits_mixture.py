"""The main job gives the same numbers whatever runs it, and the gradient that numpy gives."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects import Err, Ok

PATH = Path(__file__).resolve().parent.parent / "examples" / "digits_mixture.py"


@cache
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("digits_mixture", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["digits_mixture"] = module
    spec.loader.exec_module(module)
    return module


@cache
def fitted(threads: int, native: int) -> tuple[list[str], list[Any]]:
    x, _ = example().load()
    with pe.threads(native):
        log, results = example().fit_all(x[:200], 3, 8, 30, threads, bar=False)
    return log, results


@pytest.mark.parametrize(("threads", "native"), [(1, 2), (2, 1), (3, 4)])
def test_same_seed_same_bits_whatever_the_threads(threads: int, native: int) -> None:
    log, results = fitted(threads, native)
    expected_log, expected = fitted(1, 1)
    assert log == expected_log
    for left, right in zip(results, expected, strict=True):
        assert type(left) is type(right)
        if isinstance(left, Ok):
            assert left.value.log_likelihood == right.value.log_likelihood
            np.testing.assert_array_equal(left.value.mean, right.value.mean)
        else:
            assert left == right


def test_results_and_failures_stand_side_by_side() -> None:
    """With so few points some component starves in one of the restarts."""
    x, _ = example().load()
    _, results = example().fit_all(x[:60], 4, 12, 40, 2, bar=False)
    assert {type(result) for result in results} == {Ok, Err}
    failed = next(result for result in results if isinstance(result, Err))
    assert str(failed.error).startswith("component ")


def test_gradient_is_numpys() -> None:
    x, _ = example().load()
    rng = np.random.default_rng(0)
    args = (
        x,
        rng.normal(size=20),
        x.mean(0) + 0.2 * rng.normal(size=(20, 64)),
        rng.normal(size=(20, 64)) * 0.1 - 1.0,
    )
    value, ours = example().gradient(*args)
    expected, theirs = example().numpy_gradient(*args)
    assert value == pytest.approx(expected, rel=1e-12)
    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9 * np.abs(right).max())


def test_gradient_is_that_of_the_value() -> None:
    x, _ = example().load()
    rng = np.random.default_rng(1)
    args = (x[:50], np.zeros(4), x.mean(0) + 0.2 * rng.normal(size=(4, 64)), np.full((4, 64), -1.0))
    pe.check_grads(example().log_likelihood, args, rtol=1e-4)


def test_forward_and_reverse_of_a_point_are_one_loop() -> None:
    """The optimized gradient has one loop over the points, and stores nothing for a point."""
    x, _ = example().load()
    args = (x, np.zeros(3), np.zeros((3, 64)), np.zeros((3, 64)))
    program = pe.explain(example().gradient, *args).sections["optimized program"]
    over_points = [line for line in program.splitlines() if "for n:" in line]
    assert len(over_points) == 1
    assert not over_points[0].strip().partition("for n:")[0]  # it has no results, so no tables
