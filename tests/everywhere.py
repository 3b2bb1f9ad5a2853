"""One kernel by every way that runs it: the evaluator, compiled code on 1 to 4 threads, `debug`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import peffects as pe
from peffects.ir.evaluate import evaluate
from peffects.staging.structures.trees import flatten


def run_everywhere(
    function: Callable[..., Any], *args: Any, rtol: float = 0.0, debug: bool = True
) -> Any:
    """The compiled value; the evaluator and `debug` give the same, up to `rtol`.

    Compiled code gives the same bits for any number of threads.
    """
    kernel: Any = pe.kernel(function)
    callee = kernel.stage(args, {})
    expected = callee.results(evaluate(callee.program, callee.arguments(args, {})))
    found = []
    for count in (1, 2, 3, 4):
        with pe.threads(count):
            found.append(kernel(*args))
    for other in found[1:]:
        assert_same_tree(other, found[0], 0.0)
    assert_same_tree(found[0], expected, rtol)
    if debug:
        assert_same_tree(kernel.debug(*args), expected, rtol, dtypes=False)
    return found[0]


def assert_same_tree(found: Any, expected: Any, rtol: float, *, dtypes: bool = True) -> None:
    """The leaves of two results agree, in shape and, if `dtypes`, in type too."""
    leaves, tree = flatten(found)
    others, other_tree = flatten(expected)
    assert tree == other_tree
    for leaf, other in zip(leaves, others, strict=True):
        x, y = np.asarray(leaf), np.asarray(other)
        assert x.shape == y.shape
        if dtypes:
            assert x.dtype == y.dtype
        np.testing.assert_allclose(
            x.astype(float), y.astype(float), rtol=rtol, atol=1e-300 if rtol else 0.0
        )
