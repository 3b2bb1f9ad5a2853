"""`explain`: every section is right, for kernels, derivatives and plain functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.errors import KernelTypeError

X = np.arange(1000.0)
SECTIONS = ["program", "optimized program", "loops", "stages", "generated source"]


@pe.kernel
def histogram(x: Any, bins: Any) -> Any:
    h: Any = pe.accumulator(pe.Fin(bins), dtype=float)
    for i in pe.par(x):
        h[int(x[i])] += 1.0
    return h


@pe.kernel
def smoothed(x: Any, steps: Any) -> Any:
    mean = pe.mean(lambda i: x[i])
    for _ in range(steps):
        mean = 0.5 * mean + pe.max(lambda i: x[i] * mean)  # noqa: B023
    return pe.table(lambda i: x[i] - mean)


def test_sections_of_a_histogram(golden: Callable[..., None]) -> None:
    explanation = pe.explain(histogram, X, 3)
    assert list(explanation.sections) == SECTIONS
    assert explanation.name == "histogram"
    golden(f"{explanation.sections['loops']}\n\n{explanation.sections['stages']}")


def test_loops_say_what_is_parallel_and_why() -> None:
    loops = pe.explain(smoothed, X, 3).sections["loops"]
    assert "`for i` runs in parallel: iterations run in any order" in loops
    assert "is a reduction: all iterations of i add to the same elements" in loops
    assert "`fold` is serial: each iteration needs the one before" in loops
    assert "test_explanation.py" in loops


def test_stages_have_numbers_for_the_sizes_of_the_call() -> None:
    few = pe.explain(pe.grad(smoothed_sum), X).sections["stages"]
    many = pe.explain(pe.grad(smoothed_sum), np.zeros(2_000_000)).sections["stages"]
    assert "1,000 iterations in one chunk, as it is small" in few
    assert "2,000,000 iterations in" in many and "ms of one thread" in many
    assert "µs" in few or "less than" in few


def smoothed_sum(x: Any) -> Any:
    return pe.sum(lambda i: pe.exp(x[i]))


def test_unknown_work_is_said_to_be_unknown() -> None:
    def halved(x: Any) -> Any:
        while x > 1.0:
            x = x / 2
        return x

    assert "work known at run time only" in pe.explain(halved, 8.0).sections["stages"]


def test_nothing_runs_and_nothing_is_compiled_twice() -> None:
    kernel = pe.kernel(smoothed_sum)
    first = pe.explain(kernel, X)
    assert repr(kernel) == "<kernel smoothed_sum, 1 specialization>"
    assert str(pe.explain(kernel, X)) == str(first) == repr(first)
    assert repr(kernel) == "<kernel smoothed_sum, 1 specialization>"
    with pytest.raises(TypeError):
        pe.explain(kernel)


def test_derivatives_and_plain_functions() -> None:
    gradient = pe.explain(pe.value_and_grad(smoothed_sum), X)
    assert gradient.name == "grad_smoothed_sum"
    assert "exp(" in gradient.sections["program"]
    source = pe.explain(lambda x: x * 2.0, 3.0).sections["generated source"]
    assert "* 2.0" in source and "# test_explanation.py:" in source


def test_the_program_that_is_shown_is_the_one_that_runs() -> None:
    explanation = pe.explain(smoothed_sum, X)
    assert "for i:" in explanation.sections["program"]
    assert "def smoothed_sum_0(chunk, frame):" in explanation.sections["generated source"]


def test_text_and_file(tmp_path: Path) -> None:
    explanation = pe.explain(smoothed_sum, X)
    text = str(explanation)
    assert [line for line in text.splitlines() if line.startswith("==")] == [
        f"== {title} of smoothed_sum ==" for title in SECTIONS
    ]
    explanation.save(tmp_path / "explanation.txt")
    assert (tmp_path / "explanation.txt").read_text("utf-8") == text + "\n"


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(KernelTypeError, match=r"which is no function(.|\n)*pe\.explain\(f, x\)"):
        pe.explain(smoothed_sum(X))
