"""Arguments into the frame, results out of it.

For each input a function that writes a value to its slot, for each output one that reads it; they
are made once for a program.  `launcher.py` calls them at each launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias, assert_never

import numpy as np

from peffects.codegen.launch.workspace import AnyArray, Workspace, address_of
from peffects.codegen.program.loop_programs import (
    Buffer,
    Input,
    InputArray,
    InputScalar,
    InputSize,
    Output,
    OutputBuffer,
    OutputScalar,
    Role,
)
from peffects.codegen.program.sizes import Shape, shape_function
from peffects.errors import InternalError, ValueRangeError

__all__ = ["Reader", "Writer", "input_writer", "output_reader"]

Writer: TypeAlias = "Callable[[Workspace, Any], None]"
Reader: TypeAlias = "Callable[[Workspace], Any]"


def input_writer(kind: Input) -> Writer:
    """What writes an argument to its slot."""
    match kind:
        case InputArray():
            return _array_writer(kind)
        case InputSize(slot):

            def write_size(workspace: Workspace, value: Any) -> None:
                workspace.words[slot] = value

            return write_size
        case InputScalar(slot, dtype):
            return _scalar_writer(slot, dtype)
        case _:
            assert_never(kind)


def _array_writer(kind: InputArray) -> Writer:
    slot, ndim, dtype = kind.slot, kind.ndim, np.dtype(kind.dtype)

    def write_array(workspace: Workspace, value: Any) -> None:
        try:
            if value.dtype != dtype or value.ndim != ndim:
                raise BufferError("another type")
            workspace.words[slot] = address_of(value)
        except BufferError as error:
            raise InternalError(
                f"A kernel for C contiguous {dtype} arrays of rank {ndim} was given {value.dtype} "
                f"of rank {value.ndim} with strides {value.strides}."
            ) from error

    return write_array


def _scalar_writer(slot: int, dtype: str) -> Writer:
    if dtype == "float64":

        def write_double(workspace: Workspace, value: Any) -> None:
            workspace.doubles[slot] = value

        return write_double
    if dtype == "float32":

        def write_float(workspace: Workspace, value: Any) -> None:
            workspace.words[slot] = 0
            workspace.floats[2 * slot] = value

        return write_float
    if dtype == "bool":

        def write_bool(workspace: Workspace, value: Any) -> None:
            workspace.words[slot] = 1 if value else 0

        return write_bool
    return _integer_writer(slot, dtype)


def _integer_writer(slot: int, dtype: str) -> Writer:
    limits = np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)

    def write_integer(workspace: Workspace, value: Any) -> None:
        if not low <= value <= high:
            raise ValueRangeError(
                f"{value} is no {dtype}.", fix=f"Give a number from {low} to {high}."
            )
        words = workspace.unsigned if low == 0 else workspace.words
        words[slot] = value

    return write_integer


def output_reader(kind: Output, buffers: Iterable[Buffer]) -> Reader:
    """What reads a result when all stages have run; `buffers` are those of the program."""
    match kind:
        case OutputBuffer(slot, dtype, dims):
            owner = next((buffer for buffer in buffers if buffer.slot == slot), None)
            if owner is None or owner.role in (Role.PARTIALS, Role.SCRATCH):
                raise InternalError(f"The result in slot {slot} is no buffer of its program.")
            if owner.shape == dims and owner.dtype == dtype:
                return lambda workspace: workspace.held[slot]
            shape = shape_function(dims, np.dtype(dtype).itemsize)
            return partial(_read_part, slot, np.dtype(dtype), shape)
        case OutputScalar(slot, dtype):
            return _scalar_reader(slot, dtype)
        case _:
            assert_never(kind)


def _read_part(slot: int, dtype: np.dtype[Any], shape: Shape, workspace: Workspace) -> AnyArray:
    """The start of a buffer in another shape: a result whose size only the kernel knew."""
    array = workspace.held[slot]
    dims, size = shape(workspace.words)
    if min(dims, default=0) < 0 or size > array.nbytes:
        raise InternalError(f"A result of shape {dims} is larger than its buffer {array.shape}.")
    return np.ndarray(dims, dtype, array.data)


def _scalar_reader(slot: int, dtype: str) -> Reader:
    kind = np.dtype(dtype).type
    if dtype == "float64":
        return lambda workspace: kind(workspace.doubles[slot])
    if dtype == "float32":
        return lambda workspace: kind(workspace.floats[2 * slot])
    if dtype == "bool":
        return lambda workspace: kind(workspace.words[slot] & 0xFF)
    bits = np.iinfo(dtype).bits
    if dtype.startswith("uint"):
        return lambda workspace: kind(workspace.unsigned[slot] & ((1 << bits) - 1))
    half = 1 << (bits - 1)
    return lambda workspace: kind(((workspace.words[slot] + half) & ((1 << bits) - 1)) - half)
