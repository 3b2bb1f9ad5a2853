"""Scalars go through the frame bit for bit, or are refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peffects.codegen.launch.arguments import input_writer, output_reader
from peffects.codegen.launch.workspace import Workspace
from peffects.codegen.program.loop_programs import InputScalar, InputSize, OutputScalar
from peffects.errors import ValueRangeError

SLOT = 9
INTEGERS = ["int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"]


def through_the_frame(dtype: str, value: Any) -> Any:
    """Write `value` as an input and read the slot as an output."""
    workspace = Workspace(SLOT + 1, 1)
    workspace.words[SLOT] = -1
    input_writer(InputScalar(SLOT, dtype))(workspace, value)
    return output_reader(OutputScalar(SLOT, dtype), ())(workspace)


@given(st.floats())
def test_doubles_keep_their_bits(value: float) -> None:
    result = through_the_frame("float64", value)
    assert type(result) is np.float64
    assert result.tobytes() == np.float64(value).tobytes()


@given(st.floats(width=32))
def test_floats_keep_their_value(value: float) -> None:
    result = through_the_frame("float32", np.float32(value))
    assert type(result) is np.float32
    np.testing.assert_array_equal(result, np.float32(value))
    assert math.copysign(1, result) == math.copysign(1, value) or math.isnan(value)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_keep_their_value_and_type(dtype: str) -> None:
    limits = np.iinfo(dtype)
    for value in (0, 1, int(limits.min), int(limits.max), np.dtype(dtype).type(7)):
        result = through_the_frame(dtype, value)
        assert type(result) is np.dtype(dtype).type
        assert result == value


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_out_of_range_are_refused(dtype: str) -> None:
    limits = np.iinfo(dtype)
    for value in (int(limits.min) - 1, int(limits.max) + 1):
        with pytest.raises(ValueRangeError, match=f"{value} is no {dtype}"):
            through_the_frame(dtype, value)


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_])
def test_bools_keep_their_value(value: object) -> None:
    result = through_the_frame("bool", value)
    assert type(result) is np.bool_
    assert result == value


@pytest.mark.parametrize(("dtype", "expected"), [("int8", -2), ("uint8", 254), ("bool", True)])
def test_only_low_bytes_of_a_slot_count(dtype: str, expected: int) -> None:
    """A kernel may have written the low bytes only."""
    workspace = Workspace(SLOT + 1, 1)
    workspace.words[SLOT] = 0x1234_5678_9ABC_DEFE
    reader = output_reader(OutputScalar(SLOT, dtype), ())
    assert reader(workspace) == expected
    workspace.words[SLOT] = 0x1234_5678_9ABC_DE00
    assert reader(workspace) == 0


def test_a_float_leaves_nothing_of_what_was_in_its_slot() -> None:
    workspace = Workspace(SLOT + 1, 1)
    workspace.words[SLOT] = -1
    input_writer(InputScalar(SLOT, "float32"))(workspace, 0.0)
    assert workspace.words[SLOT] == 0


def test_sizes_are_written_as_they_are() -> None:
    workspace = Workspace(SLOT + 1, 1)
    input_writer(InputSize(SLOT))(workspace, 1 << 40)
    assert workspace.words[SLOT] == 1 << 40
    with pytest.raises(TypeError):
        input_writer(InputSize(SLOT))(workspace, 2.5)
