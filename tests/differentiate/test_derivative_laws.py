"""Laws of derivatives on generated programs: forward like differences, reverse like forward."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from strategies import programs

from peffects.differentiate.linearize import has_tangent
from peffects.differentiate.programs import jvp_program, vjp_program
from peffects.errors import NotDifferentiableError, PeffectsError
from peffects.ir.check import check_program
from peffects.ir.evaluate import evaluate
from peffects.ir.print import print_program
from peffects.ir.syntax import Program

Case = tuple[Program, list[Any]]


def floats(program: Program) -> list[int]:
    return [i for i, param in enumerate(program.params) if has_tangent(param.type)]


def away_from_ties(program: Program, args: list[Any], seed: int) -> list[Any]:
    """The arguments moved by noise: generated numbers are often equal, derivatives then jump."""
    rng = np.random.default_rng(seed)
    return [
        np.asarray(arg) + rng.normal(size=np.shape(arg)) * 0.1 if i in floats(program) else arg
        for i, arg in enumerate(args)
    ]


def run(program: Program, args: list[Any]) -> tuple[Any, ...]:
    """Evaluate; a program that fails at this point has no derivative there."""
    try:
        return evaluate(program, args)
    except PeffectsError:
        assume(False)
        raise


def pieces(case: Case) -> tuple[Program, list[Any], list[int], list[Any]]:
    program, args = case
    wrt = floats(program)
    assume(wrt and any(has_tangent(r.type) for r in program.body.results))
    args = away_from_ties(program, args, 0)
    rng = np.random.default_rng(1)
    return program, args, wrt, [rng.normal(size=np.shape(args[i])) for i in wrt]


def derived(make: Any, program: Program, wrt: list[int]) -> Program:
    try:
        return check_program(make(program, wrt), make.__name__)
    except NotDifferentiableError:
        assume(False)
        raise


def dot(xs: Any, ys: Any) -> tuple[float, float]:
    """An inner product, and the size of its terms."""
    terms = [np.asarray(x) * np.asarray(y) for x, y in zip(xs, ys, strict=True)]
    return (
        float(sum(np.sum(t) for t in terms)),
        float(sum(np.sum(np.abs(t)) for t in terms)),
    )


@settings(max_examples=60, report_multiple_bugs=False)
@given(programs())
def test_reverse_is_the_transpose_of_forward(case: Case) -> None:
    program, args, wrt, directions = pieces(case)
    jvp, vjp = derived(jvp_program, program, wrt), derived(vjp_program, program, wrt)
    count = len(program.body.results)
    value = run(program, args)
    forward = run(jvp, [*args, *directions])
    tangents = forward[count:]
    rng = np.random.default_rng(2)
    cotangents = [rng.normal(size=np.shape(t)) for t in tangents]
    backward = run(vjp, [*args, *cotangents])
    for expected, left, right in zip(value, forward, backward, strict=False):
        np.testing.assert_array_equal(left, expected)
        np.testing.assert_array_equal(right, expected)
    (left, scale), (right, other) = dot(cotangents, tangents), dot(backward[count:], directions)
    if np.isfinite(left) and np.isfinite(right):
        assert abs(left - right) <= 1e-9 * (scale + other) + 1e-9


@settings(max_examples=60, report_multiple_bugs=False)
@given(programs())
def test_forward_equals_differences(case: Case) -> None:
    program, args, wrt, directions = pieces(case)
    assume("stop_gradient" not in print_program(program))  # differences do not stop
    jvp = derived(jvp_program, program, wrt)
    tangents = run(jvp, [*args, *directions])[len(program.body.results) :]
    floating = [k for k, r in enumerate(program.body.results) if has_tangent(r.type)]

    def moved(step: float) -> list[Any]:
        out = list(args)
        for i, direction in zip(wrt, directions, strict=True):
            out[i] = out[i] + step * direction
        return [run(program, out)[k] for k in floating]

    for tangent, up, down in zip(tangents, moved(1e-6), moved(-1e-6), strict=True):
        difference = (np.asarray(up) - np.asarray(down)) / 2e-6
        usual = np.isfinite(difference) & (np.abs(up) < 1e6)
        np.testing.assert_allclose(
            np.asarray(tangent)[usual], difference[usual], rtol=1e-4, atol=1e-4
        )
