"""Sequential loops of the spine as loops of stages: both ways give the evaluator's values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from compiled import CompiledProgram, assert_same
from hypothesis import given, settings
from numpy.typing import NDArray
from strategies import programs as random_programs

import peffects as pe
from peffects.codegen.launch.threads import threads
from peffects.codegen.lower import host as lower_host
from peffects.codegen.program.loop_programs import UNBOUNDED_NS, HostLoop, Launch, Stage
from peffects.errors import PeffectsError
from peffects.ir.evaluate import evaluate
from peffects.ir.syntax import Program
from peffects.kernels.kernel import Kernel
from peffects.optimize.pipeline import optimize

Array = NDArray[np.float64]
HOSTED, SERIAL = 0, UNBOUNDED_NS - 1


def compiled(program: Program, least_ns: int) -> CompiledProgram:
    """The program, whose loops run as stages from this much work on."""
    with (
        mock.patch.object(lower_host, "HOSTED_FROM_NS", least_ns),
        mock.patch.object(lower_host, "FEW", 0),
    ):
        return CompiledProgram(program)


def whole(*shape: int, seed: int = 0) -> Array:
    """Small whole numbers: no order of a sum shows."""
    return np.random.default_rng(seed).integers(-3, 4, size=shape).astype(float)


def program_of(function: Callable[..., Any], *args: object) -> Program:
    kernel = function if isinstance(function, Kernel) else pe.kernel(function)
    return optimize(kernel.stage(args, {}).program)


def host_loops(stages: tuple[Stage, ...]) -> int:
    """How many loops of stages there are, the nested ones too."""
    return sum(1 + host_loops(s.parts) for s in stages if isinstance(s, HostLoop))


def smooth(u: Any, steps: Any) -> Any:
    """A carried table that each step replaces."""
    for _ in range(steps):
        u = pe.table(lambda i, u=u: 2.0 * u[i] - u[0])
    return u


def exchange(x: Any, y: Any, steps: Any) -> Any:
    """Carried tables change places, and one of them is computed."""
    for _ in range(steps):
        x, y = y, pe.table(lambda i, x=x, y=y: x[i] - y[i])
    return x, y


def same_twice(x: Any, y: Any, steps: Any) -> Any:
    """Two carried tables become one."""
    for _ in range(steps):
        x = y = pe.table(lambda i, x=x, y=y: x[i] + y[i])
    return x, y


def kept(x: Any, y: Any, steps: Any) -> Any:
    """A carried table that stays, a number that counts, and one that is reduced."""
    count, total = 0, 0.0
    for _ in range(steps):
        total = total + pe.sum(lambda i, y=y: x[i] * y[i])
        y = pe.table(lambda i, y=y: y[i] + 1.0)
        count += 1
    return count, total, x, y


def row_by_row(a: Any) -> Any:
    """Starts from a view, and reads rows at the number of the step, backwards."""
    s = a[0]
    for i in reversed(range(a.shape[0])):
        s = pe.table(lambda j, s=s, i=i: a[i, j] - s[j])
    return s


def collected(x: Any, steps: Any) -> Any:
    """Accumulators from outside the loop: a number, a table by index, a table by value."""
    total = pe.accumulator()
    same = pe.accumulator(x.index)
    bins = pe.accumulator(pe.Fin(3))
    for t in range(steps):
        for i in pe.par(x):
            total += x[i] * t
            same[i] += x[i] + t
            bins[(i + t) % 3] += x[i]
    return total, same, bins


def nested(x: Any, steps: Any) -> Any:
    """A loop of stages in a loop of stages, whose length depends on the outer step."""
    for t in range(steps):
        for _ in range(t):
            x = pe.table(lambda i, x=x: x[i] + x[0])
        x = pe.table(lambda i, x=x: x[i] - 1.0)
    return x


def until(x: Any, limit: Any) -> Any:
    """A `while` whose test looks at the whole table."""
    rounds = 0
    while pe.max(lambda i, x=x: abs(x[i])) < limit:
        x = pe.table(lambda i, x=x: 2.0 * x[i] + 1.0)
        rounds += 1
    return x, rounds


def growing(x: Any, steps: Any) -> Any:
    """A table inside, whose size is another one in each step."""
    total = 0.0
    for t in range(steps):
        v = pe.table(lambda j, t=t: x[0] * j, over=t + 1)
        total = total + pe.sum(lambda j, v=v: v[j] * v[j])
    return total


CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (smooth, (whole(7), 0)),
    (smooth, (whole(7), 1)),
    (smooth, (whole(7), 4)),
    (smooth, (whole(0), 4)),
    (exchange, (whole(5), whole(5, seed=1), 3)),
    (same_twice, (whole(5), whole(5, seed=1), 3)),
    (kept, (whole(5), whole(5, seed=1), 3)),
    (row_by_row, (whole(4, 3),)),
    (collected, (whole(5), 4)),
    (nested, (whole(5), 4)),
    (until, (whole(5), 40.0)),
    (growing, (whole(5), 4)),
]


@pytest.mark.parametrize("least_ns", [HOSTED, SERIAL], ids=["stages", "serial"])
@pytest.mark.parametrize(("function", "args"), CASES, ids=lambda x: getattr(x, "__name__", ""))
def test_both_ways_are_the_meaning(
    function: Callable[..., Any], args: tuple[Any, ...], least_ns: int
) -> None:
    program = program_of(function, *args)
    run = compiled(program, least_ns)
    assert host_loops(run.compiled.loop_program.stages)
    for _ in range(2):  # slots and buffers hold what the first run left
        for found, expected in zip(run(*args), evaluate(program, args), strict=True):
            assert_same(found, expected)
    for count in (1, 2, 3, 4):
        with threads(count):
            assert_same(run(*args)[0], evaluate(program, args)[0])


def test_inputs_are_not_written_to() -> None:
    """Buffers are exchanged, but never with those of the caller."""
    x, y = whole(5), whole(5, seed=1)
    before = x.copy(), y.copy()
    compiled(program_of(exchange, x, y, 3), HOSTED)(x, y, 3)
    assert_same(x, before[0])
    assert_same(y, before[1])


@pytest.mark.parametrize("least_ns", [HOSTED, SERIAL], ids=["stages", "serial"])
def test_gradients_of_loops_of_stages(least_ns: int) -> None:
    """Reverse mode runs them backwards, with saved carries and accumulators of weights."""

    def recurrent(w: Any, s: Any, steps: Any) -> Any:
        for _ in range(steps):
            s = pe.table(lambda i, s=s: pe.sum(lambda j: w[i, j] * s[j]) + s[i] * s[i])
        return pe.sum(lambda i: s[i])

    args = (whole(3, 3), whole(3, seed=1), 3)
    program = program_of(pe.grad(recurrent, argnums=(0, 1)), *args)
    run = compiled(program, least_ns)
    assert host_loops(run.compiled.loop_program.stages) == 2
    for found, expected in zip(run(*args), evaluate(program, args), strict=True):
        assert_same(found, expected)


def test_a_failure_in_a_late_iteration_is_raised_at_its_line() -> None:
    def failing(x: Any, steps: Any) -> Any:
        for t in range(steps):
            x = pe.table(lambda i, x=x, t=t: x[i] + x[t])
        return x

    run = compiled(program_of(failing, whole(4), 9), HOSTED)
    with pytest.raises(PeffectsError, match=r"index 4") as failure:
        run(whole(4), 9)
    assert "x[i] + x[t]" in failure.value.at.snippet()


def test_little_work_stays_in_one_kernel() -> None:
    """The choice is made by sizes, when the loop starts."""
    run = CompiledProgram(program_of(smooth, whole(7), 3))
    (loop,) = (s for s in run.compiled.loop_program.stages if isinstance(s, HostLoop))
    others = [s for s in run.compiled.loop_program.stages if isinstance(s, Launch) and s.only]
    assert loop.only is not None
    assert any(other.only != loop.only for other in others)
    large = np.arange(2_000_000.0)
    assert_same(run(large, 2)[0], 2.0 * (2.0 * large - large[0]) - (2.0 * large[0] - large[0]))


@settings(max_examples=10)  # each takes numba a second or two
@given(random_programs())
def test_random_programs_equal_the_evaluator(drawn: tuple[Program, list[Any]]) -> None:
    program, args = drawn

    def outcome(run: Callable[[], Any]) -> Any:
        try:
            return run()
        except PeffectsError as error:
            return type(error), error.what, error.at, error.fix

    found = outcome(lambda: compiled(program, HOSTED)(*args))
    expected = outcome(lambda: evaluate(program, args))
    for x, y in zip(found, expected, strict=True):
        if isinstance(x, np.generic | np.ndarray):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            np.testing.assert_array_equal(x, y)
        else:
            assert x == y
