"""Groups D and E of what users of other libraries report, as forward programs.

Values at kinks and invalid branches, compile time, messages.  Groups B and C are in
`test_user_reports_loops.py`, derivatives of all in `tests/ad/test_user_reports.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.codegen.load import loader
from peffects.errors import DataRaceError, KernelTypeError, SideEffectError
from peffects.ir.print import print_program

X = np.arange(4.0)


# --- D: values at kinks, ties, invalid branches --------------------------------------------------


def test_d1_a_root_that_is_not_taken_is_not_computed() -> None:
    """J5798: `where(x < 1, x, sqrt(x))`; an `if` runs one side only."""
    kernel = pe.kernel(lambda x: pe.table(lambda i: x[i] if x[i] < 1.0 else pe.sqrt(x[i])))
    x = np.array([-4.0, 0.0, 0.5, 1.0, 4.0])
    with np.errstate(all="raise"):
        assert kernel(x).tolist() == [-4.0, 0.0, 0.5, 1.0, 2.0]
    evaluated = pe.kernel(lambda x: pe.table(lambda i: pe.where(x[i] < 1.0, x[i], pe.sqrt(x[i]))))
    assert evaluated(x).tolist() == [-4.0, 0.0, 0.5, 1.0, 2.0]


def test_d1_masked_rows_and_angles() -> None:
    """J347: norms of rows, one of them zero and masked; J1052: `arctan2(0, 0)` masked."""

    @pe.kernel
    def norms(a: Any) -> Any:
        def norm(i: Any) -> Any:
            square = pe.sum(lambda j: a[i, j] ** 2)
            return 0.0 if square == 0.0 else pe.sqrt(square)

        return pe.table(norm)

    assert norms(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist() == [5.0, 0.0]
    angle = pe.kernel(lambda y, x: pe.arctan2(y, x) if x != 0.0 or y != 0.0 else 0.0)
    assert angle(0.0, 0.0) == 0.0
    assert angle(1.0, 0.0) == math.pi / 2


def test_d1_infinity_on_the_side_that_is_not_taken() -> None:
    """J2630: `where(x > 0, 0, x * inf)` is 0 for positive x."""
    kernel = pe.kernel(lambda x: pe.table(lambda i: 0.0 if x[i] >= 0.0 else x[i] * math.inf))
    assert kernel(np.array([0.0, 1.0, -1.0])).tolist() == [0.0, 0.0, -math.inf]


def test_d1_a_side_that_fails_is_not_run() -> None:
    """Neither an index out of bounds nor a division by zero, where the other side is taken."""

    @pe.kernel
    def guarded(x: Any, n: Any) -> Any:
        return pe.table(lambda i: x[i + 1] // n[i] if i + 1 < len(x) and n[i] != 0 else -1)

    x, n = np.array([4, 6, 8]), np.array([2, 0, 2])
    assert guarded(x, n).tolist() == [3, -1, -1]


def test_d2_the_square_of_a_norm_of_zero() -> None:
    """J3058, J4177: `norm(x) ** 2` at 0; a rotation by no angle, guarded as bundle adjusters do."""

    @pe.kernel
    def square(x: Any) -> Any:
        return np.linalg.norm(x) ** 2

    @pe.kernel
    def sinc(theta: Any) -> Any:
        return 1.0 if theta == 0.0 else pe.sin(theta) / theta

    assert square(np.zeros(3)) == 0.0
    assert square(np.array([3.0, 4.0, 0.0])) == 25.0
    assert sinc(0.0) == 1.0
    assert sinc(0.5) == pytest.approx(math.sin(0.5) / 0.5)


# --- E: compile time, memory, messages -----------------------------------------------------------


def test_e1_trip_counts_change_neither_the_program_nor_what_is_compiled() -> None:
    """J772, J4924, J1223: minutes to compile loops that others unroll; here a size is a number."""

    @pe.kernel
    def iterated(x: Any, steps: Any) -> Any:
        for _ in range(steps):
            x = 0.5 * (x + 2.0 / x)
        return x

    assert iterated(1.0, 3) == pytest.approx(math.sqrt(2.0), abs=1e-5)
    made = loader.statistics.compiled + loader.statistics.from_disk
    for steps in (0, 1, 80, 100_000):
        iterated(1.0, steps)
    assert loader.statistics.compiled + loader.statistics.from_disk == made
    assert len(iterated._specializations) == 1


def lines_of(kernel: Any, *types: Any) -> int:
    """How long the program of a kernel is."""
    return len(print_program(kernel.lower(*types).ir).splitlines())


def test_e1_a_loop_is_as_long_as_its_body_and_an_unrolled_one_grows_linearly() -> None:
    """J2777: exponential in the unrolled length; J3596: quadratic."""

    def unrolled(rounds: tuple[None, ...]) -> int:
        @pe.kernel
        def nested(x: Any) -> Any:
            for _ in rounds:  # a Python sequence: while staging, round by round
                x = pe.sin(x) * x if x > 0.0 else x
            return x

        return lines_of(nested, float)

    lengths = [unrolled((None,) * depth) for depth in (4, 8, 12)]
    assert lengths[2] - lengths[1] == lengths[1] - lengths[0]


def test_e3_a_kernel_that_was_compiled_before_is_loaded() -> None:
    """N8085: 2 s to load a cached parallel function; here machine code is read as it is."""
    function = lambda x: pe.sum(lambda i: x[i] * 1.0625)  # noqa: E731
    assert pe.kernel(function)(X) == 6.375
    before = loader.statistics.compiled
    again = pe.kernel(function)
    assert again(X) == 6.375
    assert loader.statistics.compiled == before


def test_e6_a_forgotten_name_is_python_s_error_at_its_line() -> None:
    """N4195, N5633: a forgotten import, and a message about an undefined type."""

    @pe.kernel
    def summed(x: Any) -> Any:
        total = pe.accumulator()
        for i in prange(x):  # type: ignore[name-defined]  # noqa: F821
            total += x[i]
        return total

    with pytest.raises(NameError, match="prange"):
        summed(X)


def test_e6_an_unknown_type_is_named_with_what_to_do() -> None:
    """N4857."""
    kernel = pe.kernel(lambda x: pe.sum(x))
    with pytest.raises(KernelTypeError, match="dtype object") as caught:
        kernel(np.array([object()]))
    assert caught.value.fix


def test_e6_python_side_effects_are_refused() -> None:
    """J1708: effects of a traced body happen once; `u[0] += 1` stays 1."""
    u = [0]

    @pe.kernel
    def counting(x: Any) -> Any:
        for _ in pe.par(x):
            u[0] += 1
        return pe.sum(x)

    @pe.kernel
    def counting_in_an_array(x: Any, n: Any) -> Any:
        for i in pe.par(x):
            n[0] += x[i]
        return n

    with pytest.raises(SideEffectError, match="list"):
        counting(X)
    assert u == [0]
    n = np.zeros(1)
    with pytest.raises(DataRaceError):
        counting_in_an_array(X, n)
    assert n.tolist() == [0.0]
