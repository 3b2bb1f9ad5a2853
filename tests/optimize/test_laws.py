"""Every pass keeps what a program means: values, failures, well-formedness, and its cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from strategies import programs

from peffects.errors import PeffectsError
from peffects.ir.check import check_program
from peffects.ir.evaluate import Work, evaluate
from peffects.ir.syntax import Program
from peffects.optimize.pipeline import LAST, PASSES, optimize

EXACT = 2.0**40
"""Below, random programs compute without rounding, so the order of a sum does not show."""

Case = tuple[Program, list[Any]]


def outcome(program: Program, args: list[Any], work: Work) -> tuple[str, Any]:
    """The values of a program, or the class and line of its failure."""
    try:
        return "values", evaluate(program, args, work=work)
    except PeffectsError as error:
        return "failure", (type(error), error.at.line)


def same(found: tuple[str, Any], expected: tuple[str, Any]) -> None:
    assert found[0] == expected[0], (found, expected)
    if found[0] == "failure":
        assert found[1] == expected[1]
        return
    for value, wanted in zip(found[1], expected[1], strict=True):
        assert value.dtype == wanted.dtype
        if np.all(np.abs(np.nan_to_num(wanted.astype(float))) < EXACT):
            np.testing.assert_array_equal(value, wanted)
        else:
            np.testing.assert_allclose(value, wanted, rtol=1e-12)


@pytest.mark.slow
@given(case=programs())
def test_meaning_is_kept(case: Case) -> None:
    program, args = case
    expected = outcome(program, args, Work())
    passed = program
    for name, transform in (*PASSES, *LAST, ("optimize", optimize)):
        after = check_program(transform(program), name)
        same(outcome(after, args, Work()), expected)
        passed = check_program(transform(passed), name)
        same(outcome(passed, args, Work()), expected)
