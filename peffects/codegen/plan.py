"""Loop programs made ready to run: closures for sizes, inputs and outputs, and runnable stages.

Planning happens once for a program; what happens at each launch is kept to a few calls per stage, as
small launches are many.  `launcher.py` runs plans.
"""

from __future__ import annotations

import ctypes
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, TypeAlias, assert_never, cast

import numpy as np

from peffects.codegen.driver import run_team
from peffects.codegen.loops import (
    CHUNKS_SLOT,
    FAILED_SLOT,
    NO_SLOT,
    PARTIALS_BYTES,
    RAISED,
    STATUS_FIELDS,
    TRIP_SLOT,
    Buffer,
    Const,
    Failure,
    HostLoop,
    Input,
    InputArray,
    InputScalar,
    InputSize,
    Launch,
    LoopProgram,
    Output,
    OutputBuffer,
    OutputScalar,
    Product,
    Role,
    SizeExpr,
    SlotSize,
    Stage,
    Sum,
)
from peffects.codegen.workspace import AnyArray, Workspace, address_of
from peffects.errors import AllocationError, InternalError, ValueRangeError

__all__ = [
    "CancelledError",
    "Runnable",
    "input_writer",
    "output_reader",
    "runnable",
    "size_function",
    "work_estimate",
]

Size: TypeAlias = "Callable[[memoryview], int]"

_ALIGNED_BYTES = 4096
"""Buffers from this size on start on a cache line: below, the slower allocation does not pay."""
_ALIGNMENT = 64
_HOLD_LOCK_NS = 20_000
"""A kernel with less work keeps the interpreter lock: getting it back can take 5 ms."""


class CancelledError(BaseException):
    """Ends a launch between two stages after its caller has left; it never reaches users."""


# --- sizes ------------------------------------------------------------------------------------


def size_function(size: SizeExpr) -> Size:
    """A function of the frame's words that evaluates `size`."""
    match size:
        case Const(value):
            return lambda words: value
        case SlotSize(slot):
            return cast(Size, itemgetter(slot))
        case Product(terms):
            factors = [size_function(term) for term in terms]
            return lambda words: math.prod([factor(words) for factor in factors])
        case Sum(terms):
            summands = [size_function(term) for term in terms]
            return lambda words: sum([summand(words) for summand in summands])
        case _:
            assert_never(size)


def work_estimate(stages: Iterable[Stage]) -> SizeExpr:
    """The estimated nanoseconds of one thread that `stages` take, folded where it is constant."""
    terms: list[SizeExpr] = []
    fixed = 0
    for stage in stages:
        if isinstance(stage, Launch):
            work = stage.work_ns
        else:
            work = Product((stage.trip, work_estimate(stage.stages)))
        if isinstance(work, Const):
            fixed += work.value
        else:
            terms.append(work)
    return Sum((Const(fixed), *terms)) if terms else Const(fixed)


# --- inputs and outputs -----------------------------------------------------------------------

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
        if value.dtype != dtype or value.ndim != ndim or not value.flags.c_contiguous:
            raise InternalError(
                f"A kernel for C contiguous {dtype} arrays of rank {ndim} was given {value.dtype} "
                f"of rank {value.ndim}, strides {value.strides}."
            )
        workspace.words[slot] = address_of(value)

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


def output_reader(kind: Output) -> Reader:
    """What reads a result when all stages have run."""
    match kind:
        case OutputBuffer(slot, dtype, dims):
            sizes = [size_function(dim) for dim in dims]
            return partial(_read_buffer, slot, np.dtype(dtype), sizes)
        case OutputScalar(slot, dtype):
            return _scalar_reader(slot, dtype)
        case _:
            assert_never(kind)


def _read_buffer(
    slot: int, dtype: np.dtype[Any], sizes: Sequence[Size], workspace: Workspace
) -> AnyArray:
    words = workspace.words
    array = workspace.held[slot]
    shape = tuple([size(words) for size in sizes])
    if array.shape == shape and array.dtype == dtype:
        return array
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > array.nbytes:
        raise InternalError(f"A result of shape {shape} is larger than its buffer {array.shape}.")
    return np.ndarray(shape, dtype, array.data)


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


# --- buffers ----------------------------------------------------------------------------------


class _Allocation:
    """A buffer as it is allocated at each launch."""

    __slots__ = ("_at", "_dtype", "_sizes", "slot")

    def __init__(self, buffer: Buffer) -> None:
        dims = buffer.shape
        if buffer.role in (Role.PARTIALS, Role.SCRATCH):
            dims = (SlotSize(CHUNKS_SLOT), *dims)
        self.slot = buffer.slot
        self._dtype = np.dtype(buffer.dtype)
        self._sizes = [size_function(dim) for dim in dims]
        self._at = buffer.at

    def allocate(self, workspace: Workspace) -> None:
        """Make the buffer, unless an earlier iteration of a host loop has left one that fits."""
        words = workspace.words
        shape = tuple([size(words) for size in self._sizes])
        held = workspace.held.get(self.slot)
        if held is not None and held.shape == shape and held.dtype == self._dtype:
            return
        workspace.held.pop(self.slot, None)
        array = self._empty(shape)
        workspace.held[self.slot] = array
        words[self.slot] = address_of(array)

    def _empty(self, shape: tuple[int, ...]) -> AnyArray:
        size = math.prod(shape) * self._dtype.itemsize
        if min(shape, default=0) < 0:
            raise AllocationError(
                f"A table of shape {shape} has a negative size.",
                at=self._at,
                fix="Sizes are 0 or more; look at how this one is computed.",
            )
        try:
            if size < _ALIGNED_BYTES:
                return np.empty(shape, self._dtype)
            if size > sys.maxsize - _ALIGNMENT:
                raise MemoryError
            block = np.empty(size + _ALIGNMENT, np.uint8)
        except (MemoryError, ValueError) as error:  # ValueError: an empty one with huge dimensions
            raise AllocationError(
                f"A table of shape {shape} and {size} bytes cannot be allocated.",
                at=self._at,
                fix="Reduce where you make it, so that it is never stored, or work on parts.",
            ) from error
        skip = -address_of(block) % _ALIGNMENT
        return np.ndarray(shape, self._dtype, block.data, skip)


# --- stages -----------------------------------------------------------------------------------


class Runnable(ABC):
    """A stage that can be run in a workspace."""

    __slots__ = ()

    @abstractmethod
    def run(self, workspace: Workspace) -> None:
        """Run all iterations; raise what the first failing one failed with."""


class _RunnableLoop(Runnable):
    __slots__ = ("_index_slot", "_stages", "_trip")

    def __init__(self, loop: HostLoop, stages: Sequence[Runnable]) -> None:
        self._trip = size_function(loop.trip)
        self._index_slot = loop.index_slot
        self._stages = stages

    def run(self, workspace: Workspace) -> None:
        words, slot = workspace.words, self._index_slot
        for index in range(self._trip(words)):
            words[slot] = index
            for stage in self._stages:
                stage.run(workspace)


class _RunnableLaunch(Runnable):
    __slots__ = (
        "_address",
        "_allocations",
        "_call",
        "_call_locked",
        "_chunk_bytes",
        "_chunks_slot",
        "_failures",
        "_kernel",
        "_rule",
        "_scratch",
        "_trip",
        "_work",
    )

    def __init__(
        self, launch: Launch, address: int, failures: Sequence[Failure], repeated: bool
    ) -> None:
        arguments = (ctypes.c_int64, ctypes.c_int64)
        self._address = address
        self._call = ctypes.CFUNCTYPE(None, *arguments)(address)
        self._call_locked = ctypes.PYFUNCTYPE(None, *arguments)(address)
        self._kernel = launch.kernel
        self._failures = failures
        self._trip = size_function(launch.trip)
        self._work = size_function(launch.work_ns)
        self._rule = launch.chunks
        self._chunks_slot = launch.chunks_slot
        self._allocations = [_Allocation(buffer) for buffer in launch.buffers]
        self._chunk_bytes = _chunk_bytes(launch.buffers)
        self._scratch = [b.slot for b in launch.buffers if b.role is Role.SCRATCH and not repeated]

    def run(self, workspace: Workspace) -> None:
        words = workspace.words
        trip = max(self._trip(words), 0)
        work = self._work(words)
        chunks = 1 if self._rule.most == 1 else self._chunk_count(words, trip, work)
        words[TRIP_SLOT] = trip
        words[CHUNKS_SLOT] = chunks
        if self._chunks_slot != NO_SLOT:
            words[self._chunks_slot] = chunks
        for allocation in self._allocations:
            allocation.allocate(workspace)
        if workspace.watched:
            self._begin_watched(workspace, chunks, work)
        if chunks > 1:
            self._run_chunks(workspace, chunks)
        elif work < _HOLD_LOCK_NS:
            self._call_locked(0, workspace.frame_address)
        else:
            self._call(0, workspace.frame_address)
        if words[FAILED_SLOT]:
            self._raise_failure(workspace, chunks)
        for slot in self._scratch:
            del workspace.held[slot]

    def _chunk_count(self, words: memoryview, trip: int, work: int) -> int:
        """A function of sizes only: see `ChunkRule`."""
        rule = self._rule
        count = min(rule.most, trip, work // rule.grain_ns)
        part = self._chunk_bytes(words)
        if part * count > PARTIALS_BYTES:
            count = PARTIALS_BYTES // part
        return max(count, 1)

    def _run_chunks(self, workspace: Workspace, chunks: int) -> None:
        words, team = workspace.words, workspace.team_at
        words[team] = 0
        words[team + 1] = chunks
        words[team + 2] = self._address
        words[team + 3] = workspace.frame_address
        run_team(workspace.team_address, min(workspace.threads, chunks), workspace)

    def _begin_watched(self, workspace: Workspace, chunks: int, work: int) -> None:
        if workspace.words[workspace.cancel_at]:
            raise CancelledError
        workspace.done_ns += workspace.stage_ns
        workspace.stage_ns = 0
        workspace.ticks[:] = 0
        workspace.kernel = self._kernel
        workspace.stage_ns = work

    def _raise_failure(self, workspace: Workspace, chunks: int) -> None:
        """Raise the failure of the first chunk that has one: it is the first in index order."""
        words = workspace.words
        for chunk in range(chunks):
            at = workspace.status_at + chunk * STATUS_FIELDS
            number, index, value, size = words[at : at + STATUS_FIELDS]
            if number == RAISED:
                raise InternalError(f"The kernel {self._kernel} raised a Python exception.")
            if number:
                failure = self._failures[number - 1]
                shown = workspace.doubles[at + 2] if failure.float_value else value
                text = failure.text.format(index=index, value=shown, size=size)
                raise failure.error(text, at=failure.at, fix=failure.fix)
        raise InternalError(f"The kernel {self._kernel} failed without saying how.")


def _chunk_bytes(buffers: Sequence[Buffer]) -> Size:
    """The bytes that one chunk needs in PARTIALS and SCRATCH."""
    parts = tuple(
        Product((Const(np.dtype(buffer.dtype).itemsize), *buffer.shape))
        for buffer in buffers
        if buffer.role in (Role.PARTIALS, Role.SCRATCH)
    )
    return size_function(Sum(parts) if parts else Const(0))


def runnable(
    stage: Stage, addresses: Mapping[str, int], program: LoopProgram, repeated: bool = False
) -> Runnable:
    """Make a stage ready to run; `repeated` says that it is inside a host loop."""
    match stage:
        case Launch():
            return _RunnableLaunch(stage, addresses[stage.kernel], program.failures, repeated)
        case HostLoop():
            inner = [runnable(part, addresses, program, True) for part in stage.stages]
            return _RunnableLoop(stage, inner)
        case _:
            assert_never(stage)
