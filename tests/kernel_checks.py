"""Checks of kernels as users call them: against the evaluator, on several numbers of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compiled import assert_same
from staged import call
from staged import run as evaluated

import peffects as pe
from peffects.errors import PeffectsError
from peffects.staging.structures.trees import flatten


def check(function: Callable[..., Any], *args: Any) -> Any:
    """The value of a kernel: what the evaluator gives, and the same bits on 1 to 4 threads."""
    meant, tree = flatten(evaluated(function, *args))
    kernel = pe.kernel(function)
    with pe.threads(1):
        first, same = flatten(kernel(*args))
    assert same == tree
    for x, y in zip(first, meant, strict=True):
        assert np.asarray(x).dtype == np.asarray(y).dtype
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-14)
    for threads in (2, 3, 4):
        with pe.threads(threads):
            found, _ = flatten(kernel(*args))
        for x, y in zip(found, first, strict=True):
            assert_same(x, y, f"{threads} threads")
    return kernel(*args)


def refused(error: type[PeffectsError], function: Callable[..., Any], *args: Any) -> str:
    """The message of the error that a kernel raises."""
    with pytest.raises(error) as caught:
        pe.kernel(function)(*args)
    assert caught.value.fix
    return str(caught.value)


def check_slope(program: Callable[[Any], Any], reference: Callable[[Any], Any], u: Any) -> None:
    """The gradient of the sum of squares, by the evaluator, is the slope of a numpy reference."""

    def squares(u: Any) -> Any:
        return np.sum(program(u) ** 2)

    gradient: Any = pe.grad(squares)
    found = call(gradient.lower(u).callee, u)
    direction = np.random.default_rng(1).normal(size=u.shape)
    above, below = (np.sum(reference(u + h * direction) ** 2) for h in (1e-6, -1e-6))
    slope = (above - below) / 2e-6
    np.testing.assert_allclose(np.sum(found * direction), slope, rtol=1e-6, atol=1e-7)
