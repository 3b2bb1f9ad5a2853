"""Loop programs run: results, failures, memory, and the same bits for any number of threads."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from loop_programs import (
    HERE,
    dot,
    executable,
    gather,
    negate,
    row_medians,
    scaled_sum,
    steps,
)

from peffects.codegen.launch.launcher import Executable
from peffects.codegen.launch.threads import threads
from peffects.codegen.launch.workspace import AnyArray
from peffects.codegen.program import sizes
from peffects.codegen.program.loop_programs import (
    SERIAL,
    Buffer,
    Const,
    Failure,
    InputSize,
    Launch,
    OutputBuffer,
    Role,
    SlotSize,
)
from peffects.errors import (
    AllocationError,
    BoundsError,
    DivisionError,
    InternalError,
    PeffectsError,
    ValueRangeError,
)

MUCH = 100_000
"""Nanoseconds an iteration said to take, for many chunks from few iterations."""


@pytest.fixture(params=[1, 2, 4])
def some_threads(request: pytest.FixtureRequest) -> Iterator[int]:
    with threads(request.param):
        yield request.param


# --- results ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("some_threads")
@pytest.mark.parametrize("work_ns", [1, MUCH])
@pytest.mark.parametrize("n", [0, 1, 7, 1000])
def test_chunks_cover_all_iterations(n: int, work_ns: int) -> None:
    x, y = np.arange(n, dtype=float), np.ones(n)
    (out,) = scaled_sum(work_ns)(x, y, 2.0, n)
    assert out.dtype == np.float64
    np.testing.assert_array_equal(out, 2.0 * x + y)


def test_any_number_of_threads_gives_the_same_bits() -> None:
    random = np.random.default_rng(1)
    n = 100_003
    x, y = random.normal(size=(2, n))
    results = set()
    for count in (1, 2, 4):
        with threads(count):
            (total,) = dot(work_ns=100)(x, y, n)
            assert isinstance(total, np.float64)
            results.add(total.tobytes())
    assert len(results) == 1
    assert float(np.frombuffer(results.pop())[0]) == pytest.approx(float(x @ y), rel=1e-12)


def test_partial_results_of_no_iterations_are_initialised() -> None:
    empty = np.empty(0)
    assert dot()(empty, empty, 0) == (0.0,)


@pytest.mark.usefixtures("some_threads")
@pytest.mark.parametrize("work_ns", [1, MUCH])
def test_host_loop_runs_stages_in_order_with_its_index(work_ns: int) -> None:
    x = np.arange(100.0)
    (out,) = steps(work_ns)(x, 100, 5)
    expected = x.copy()
    for step in range(5):
        expected = expected / 2 + step
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(x, np.arange(100.0))


def test_host_loop_of_no_or_negative_trips_runs_nothing() -> None:
    x = np.arange(4.0)
    for trip in (0, -3):
        np.testing.assert_array_equal(steps()(x, 4, trip)[0], x)


@pytest.mark.usefixtures("some_threads")
def test_scratch_is_private_to_a_chunk() -> None:
    x = np.random.default_rng(2).normal(size=(300, 31))
    (out,) = row_medians(MUCH)(x, 300, 31)
    np.testing.assert_array_equal(out, np.median(x, axis=1))


def test_results_are_the_caller_s_own_memory() -> None:
    f = scaled_sum()
    x, y = np.arange(3.0), np.zeros(3)
    (first,) = f(x, y, 1.0, 3)
    (second,) = f(x, y, 2.0, 3)
    np.testing.assert_array_equal(first, x)
    np.testing.assert_array_equal(second, 2 * x)
    assert first.flags.writeable


def test_read_only_and_empty_arguments_are_welcome() -> None:
    x = np.arange(3.0)
    x.flags.writeable = False
    np.testing.assert_array_equal(scaled_sum()(x, x, 1.0, 3)[0], 2 * x)


def test_result_may_be_the_start_of_its_buffer() -> None:
    """A kernel may find out how much of a buffer it needs: its size is then a slot."""
    state = Buffer(12, "float64", (Const(4), Const(5)), Role.OUTPUT)
    f = executable(
        ["start_state"],
        13,
        (scaled_sum().program.inputs[0], InputSize(9)),
        (Launch("start_state", Const(20), SERIAL, (state,), Const(20)),),
        (OutputBuffer(12, "float64", (SlotSize(9),)),),
    )
    x = np.arange(20.0)
    np.testing.assert_array_equal(f(x, 7)[0], x[:7])
    with pytest.raises(InternalError, match=re.escape("shape (21,) is larger")):
        f(x, 21)


def test_large_buffers_start_on_cache_lines() -> None:
    n = 5000
    (out,) = scaled_sum()(np.ones(n), np.ones(n), 1.0, n)
    assert out.ctypes.data % 64 == 0


def test_result_that_is_no_buffer_is_refused_when_planned() -> None:
    with pytest.raises(InternalError, match="slot 8 is no buffer"):
        executable(["negate"], 10, (), (), (OutputBuffer(8, "float64", (Const(1),)),))


# --- failures ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("some_threads")
@pytest.mark.parametrize("work_ns", [1, MUCH])
def test_first_failure_in_index_order_is_raised_at_the_user_s_line(work_ns: int) -> None:
    f = gather(work_ns)
    x = np.arange(10.0)
    index = np.zeros(1000, np.int64)
    for _ in range(20):
        index[[411, 412, 950]] = 17, -1, 12
        with pytest.raises(BoundsError, match=r"Iteration 411: index 17, size 10\.") as caught:
            f(x, index, 10, 1000)
    assert caught.value.at == HERE
    assert caught.value.fix == "Mind it."
    assert isinstance(caught.value, IndexError)
    index[:] = 9
    assert f(x, index, 10, 1000)[0].sum() == 9000.0, "a failure leaves nothing behind"


def test_failure_with_float_operands_shows_floats() -> None:
    with pytest.raises(ValueRangeError, match=r"x is nan at 1, not 0\.5\.") as caught:
        gather()(np.array([0.0, math.nan]), np.array([0, 1]), 2, 2)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (BoundsError, IndexError),
        (DivisionError, ZeroDivisionError),
        (ValueRangeError, ValueError),
    ],
)
def test_failure_is_the_error_that_its_program_names(
    error: type[PeffectsError], builtin: type[Exception]
) -> None:
    program = replace(gather().program, failures=(Failure(error, "At {index}.", HERE),))
    f = Executable(program, gather().module)
    with pytest.raises(builtin, match=r"At 1\.") as caught:
        f(np.zeros(1), np.array([0, 3]), 1, 2)
    assert type(caught.value) is error


@pytest.mark.parametrize(
    "array",
    [np.zeros(4, np.float32), np.zeros((2, 2)), np.zeros(8)[::2], np.zeros(4, ">f8")],
    ids=["dtype", "rank", "strides", "byte order"],
)
def test_array_of_another_form_never_reaches_a_kernel(array: AnyArray) -> None:
    with pytest.raises(InternalError, match="C contiguous float64 arrays of rank 1"):
        scaled_sum()(array, np.zeros(4), 1.0, 4)


def test_number_of_arguments_is_checked() -> None:
    with pytest.raises(ValueError, match="shorter"):
        scaled_sum()(np.zeros(1), np.zeros(1))


# --- memory -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "message"),
    [
        (-3, r"shape \(-3,\) has a negative size"),
        (1 << 55, r"bytes, cannot be allocated"),
        (1 << 62, r"bytes, cannot be allocated"),
        ((1 << 63) - 1, r"shape \(9223372036854775807,\), \d{20} bytes, cannot be allocated"),
    ],
)
def test_impossible_buffers_are_errors_at_the_user_s_line(n: int, message: str) -> None:
    x = np.zeros(1)
    with pytest.raises(AllocationError, match=message) as caught:
        scaled_sum()(x, x, 1.0, n)
    assert isinstance(caught.value, MemoryError)
    assert caught.value.at == HERE


def test_two_negative_dimensions_are_no_table() -> None:
    buffer = Buffer(9, "float64", (SlotSize(8), SlotSize(8)))
    f = executable(
        ["negate"], 10, (InputSize(8),), (Launch("negate", Const(1), SERIAL, (buffer,)),), ()
    )
    for n in (-3, -100):
        with pytest.raises(AllocationError, match="negative size"):
            f(n)


def test_chunks_are_fewer_when_their_buffers_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the number of chunks must not depend on threads: it is read from the frame."""
    f = row_medians(MUCH)
    x = np.ones((64, 10))
    assert _chunks_of(f, x) == 64
    monkeypatch.setattr(sizes, "PARTIALS_BYTES", 8 * 10 * 5)
    assert _chunks_of(f, x) == 5
    monkeypatch.setattr(sizes, "PARTIALS_BYTES", 1)
    assert _chunks_of(f, x) == 1


def _chunks_of(f: Executable, x: AnyArray) -> int:
    counts = set()
    for count in (1, 2, 4):
        with threads(count):
            f(x, len(x), 10)
        counts.add(int(f._idle[-1].words[3]))
    assert len(counts) == 1
    return counts.pop()


def test_small_work_is_one_chunk() -> None:
    f = scaled_sum(work_ns=10)
    x = np.ones(100)
    f(x, x, 1.0, 100)
    assert f._idle[-1].words[3] == 1


def test_launches_of_one_program_use_their_memory_again() -> None:
    f = negate()
    assert [f(float(k)) for k in range(3)] == [(-0.0,), (-1.0,), (-2.0,)]
    assert len(f._idle) == 1
    assert not f._idle[0].held
    assert f._idle[0].inputs == ()
