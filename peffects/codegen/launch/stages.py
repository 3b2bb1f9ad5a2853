"""The stages of a loop program made ready to run.

Planning happens once for a program; what happens at each launch is kept to a few calls per stage,
as small launches are many.  `arguments.py` does the same for inputs and outputs, `launcher.py` runs
all.
"""

from __future__ import annotations

import ctypes
import sys
from abc import ABC, abstractmethod
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import numpy as np

from peffects.codegen.launch.printing import decoded, print_log
from peffects.codegen.launch.threads import run_team, thread_count
from peffects.codegen.launch.workspace import AnyArray, StageStarted, Workspace, address_of
from peffects.codegen.program.loop_programs import (
    CHUNKS_SLOT,
    FAILED_SLOT,
    FIRST_FREE_SLOT,
    NO_SLOT,
    STATUS_FIELDS,
    TRIP_SLOT,
    Buffer,
    Failure,
    HostLoop,
    Launch,
    LoopProgram,
    OwnFrame,
    Role,
    SlotSize,
    Stage,
)
from peffects.codegen.program.sizes import (
    bytes_of,
    chunk_count,
    shape_function,
    size_function,
    words_function,
)
from peffects.errors import AllocationError, BoundsError, InternalError, OutArgumentError
from peffects.ir.messages import bounds_fix, iteration_notes
from peffects.source import SrcInfo

__all__ = ["CancelledError", "Runnable", "check_shape", "runnable"]

_ALIGNED_BYTES = 4096
"""Buffers from this size on start on a cache line: below, the slower allocation does not pay."""
_ALIGNMENT = 64
_MOST_ITERATIONS = 2**63 - 1
_HOLD_LOCK_NS = 20_000
"""A kernel with less work keeps the interpreter lock: getting it back can take 5 ms."""


class CancelledError(BaseException):
    """Ends a launch between two stages after its caller has left; it never reaches users."""


# --- buffers ----------------------------------------------------------------------------------


class _Allocation:
    """A buffer as it is allocated at each launch."""

    __slots__ = ("_at", "_dtype", "_shape", "slot")

    def __init__(self, buffer: Buffer) -> None:
        dims = buffer.shape
        if buffer.role in (Role.PARTIALS, Role.SCRATCH):
            dims = (SlotSize(CHUNKS_SLOT), *dims)
        self.slot = buffer.slot
        self._dtype = np.dtype(buffer.dtype)
        self._shape = shape_function(dims, self._dtype.itemsize)
        self._at = buffer.at

    def allocate(self, workspace: Workspace) -> None:
        """Make the buffer, unless an earlier iteration of a host loop has left one that fits."""
        words, held, slot = workspace.words, workspace.held, self.slot
        shape, size = self._shape(words)
        if slot in workspace.given:
            self._take(workspace, shape)
            return
        if slot in held:
            array = held[slot]
            if array.shape == shape and array.dtype == self._dtype:
                return
            del array, held[slot]  # before the new one is made
        try:
            if size < _ALIGNED_BYTES:
                array = np.empty(shape, self._dtype)
            else:
                array = _aligned(shape, self._dtype, size)
        except (MemoryError, ValueError) as error:
            raise self._refusal(shape, size) from error
        held[slot] = array
        words[slot] = address_of(array)

    def _take(self, workspace: Workspace, shape: tuple[int, ...]) -> None:
        """Use the caller's array, which has the right dtype and layout."""
        array = workspace.given[self.slot]
        check_shape(array, shape, self._at)
        workspace.held[self.slot] = array
        workspace.words[self.slot] = address_of(array)

    def _refusal(self, shape: tuple[int, ...], size: int) -> AllocationError:
        if min(shape, default=0) < 0:
            return AllocationError(
                f"A table of shape {shape} has a negative size.",
                at=self._at,
                fix="Sizes are 0 or more; look at how this one is computed.",
            )
        return AllocationError(
            f"A table of shape {shape}, {size} bytes, cannot be allocated.",
            at=self._at,
            fix="Reduce where you make it, so that it is never stored, or work on parts.",
        )


def check_shape(array: AnyArray, shape: tuple[int, ...], at: SrcInfo) -> None:
    """Refuse an array of the caller for a result of another shape, which is made at `at`."""
    if array.shape != shape:
        raise OutArgumentError(
            f"an array in `out` has shape {array.shape}, but its result has shape {shape}.",
            at=at,
            fix="Give an array of the result's shape; or leave `out` away.",
        )


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> AnyArray:
    """An uninitialised array that starts on a cache line."""
    if size > sys.maxsize - _ALIGNMENT:
        raise MemoryError
    block = np.empty(size + _ALIGNMENT, np.uint8)
    return np.ndarray(shape, dtype, block.data, -address_of(block) % _ALIGNMENT)


# --- stages -----------------------------------------------------------------------------------


class Runnable(ABC):
    """A stage that can be run in a workspace."""

    __slots__ = ()

    @abstractmethod
    def run(self, workspace: Workspace) -> None:
        """Run all iterations; raise what the first failing one failed with."""


class _RunnableLoop(Runnable):
    __slots__ = ("_index_slot", "_only", "_reverse", "_stages", "_trip")

    def __init__(self, loop: HostLoop, stages: Sequence[Runnable]) -> None:
        self._trip = size_function(loop.trip)
        self._only = None if loop.only is None else size_function(loop.only)
        self._index_slot = loop.index_slot
        self._reverse = loop.reverse
        self._stages = stages

    def run(self, workspace: Workspace) -> None:
        words, slot = workspace.words, self._index_slot
        if self._only is not None and not self._only(words):
            return
        numbers = range(self._trip(words))
        for index in reversed(numbers) if self._reverse else numbers:
            words[slot] = index
            for stage in self._stages:
                stage.run(workspace)


class _RunnableWhile(Runnable):
    __slots__ = ("_go_on_slot", "_only", "_stages", "_test")

    def __init__(
        self, loop: HostLoop, test: Sequence[Runnable], stages: Sequence[Runnable]
    ) -> None:
        self._only = None if loop.only is None else size_function(loop.only)
        self._go_on_slot = loop.go_on_slot
        self._test = test
        self._stages = stages

    def run(self, workspace: Workspace) -> None:
        words, slot = workspace.words, self._go_on_slot
        if self._only is not None and not self._only(words):
            return
        while True:
            for stage in self._test:
                stage.run(workspace)
            if not words[slot]:
                return
            for stage in self._stages:
                stage.run(workspace)


class _RunnableLaunch(Runnable):
    __slots__ = (
        "_address",
        "_allocations",
        "_at",
        "_call",
        "_call_locked",
        "_chunks_slot",
        "_failures",
        "_kernel",
        "_least_split_ns",
        "_log_slot",
        "_only",
        "_own_bytes",
        "_own_frame",
        "_partials_bytes",
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
        self._at = launch.at
        self._trip = size_function(launch.trip)
        self._work = size_function(launch.work_ns)
        self._rule = launch.chunks
        self._least_split_ns = 2 * launch.chunks.grain_ns
        self._chunks_slot = launch.chunks_slot
        self._log_slot = launch.log_slot
        self._allocations = [_Allocation(buffer) for buffer in launch.buffers]
        self._partials_bytes = size_function(bytes_of(launch.buffers, Role.PARTIALS))
        self._own_bytes = size_function(bytes_of(launch.buffers, Role.PARTIALS, Role.SCRATCH))
        self._only = None if launch.only is None else size_function(launch.only)
        self._own_frame = None if launch.own_frame is None else _OwnWords(launch.own_frame)
        self._scratch = [b.slot for b in launch.buffers if b.role is Role.SCRATCH and not repeated]

    def run(self, workspace: Workspace) -> None:
        words = workspace.words
        if self._only is not None and not self._only(words):
            return
        trip = self._trip(words)
        if trip < 0:
            trip = 0
        work = self._work(words)
        chunks = 1 if work < self._least_split_ns else self._chunk_count(words, trip, work)
        if trip > _MOST_ITERATIONS:
            raise AllocationError(
                f"A loop of {trip} iterations was asked for, more than an index can count.",
                at=self._at,
                fix="Check the sizes that you give.",
            )
        words[TRIP_SLOT] = trip
        words[CHUNKS_SLOT] = chunks
        if self._chunks_slot != NO_SLOT:
            words[self._chunks_slot] = chunks
        for allocation in self._allocations:
            allocation.allocate(workspace)
        if workspace.watched:
            self._begin_watched(workspace, trip, work)
        frame = workspace.frame_address
        if self._own_frame is not None:
            frame += self._own_frame.fill(words)
        if chunks > 1:
            self._run_chunks(workspace, chunks, frame)
        elif work < _HOLD_LOCK_NS:
            self._call_locked(0, frame)
        else:
            self._call(0, frame)
        failing = self._first_failing(workspace, chunks) if words[FAILED_SLOT] else None
        if self._log_slot != NO_SLOT:
            last = chunks if failing is None else failing + 1
            print_log(workspace, self._log_slot, last, self._failures)
        if failing is not None:
            self._raise_failure(workspace, failing)
        for slot in self._scratch:
            del workspace.held[slot]

    def _chunk_count(self, words: memoryview, trip: int, work: int) -> int:
        """How many chunks, a function of sizes only: see `ChunkRule`."""
        partials, own = self._partials_bytes(words), self._own_bytes(words)
        return chunk_count(self._rule, trip, work, partials, own)

    def _run_chunks(self, workspace: Workspace, chunks: int, frame: int) -> None:
        words, team = workspace.words, workspace.team_at
        words[team] = 0
        words[team + 1] = chunks
        words[team + 2] = self._address
        words[team + 3] = frame
        threads = workspace.threads or thread_count()
        run_team(workspace.team_address, min(threads, chunks))

    def _begin_watched(self, workspace: Workspace, trip: int, work: int) -> None:
        """Tell the watching thread, by one assignment, that this stage begins."""
        if workspace.words[workspace.cancel_at]:
            raise CancelledError
        before = workspace.stage
        done, ticks = before.done_ns + before.work_ns, int(workspace.ticks.sum())
        workspace.stage = StageStarted(done, work, trip, ticks, self._kernel)

    def _first_failing(self, workspace: Workspace, chunks: int) -> int:
        """The first chunk that has a failure: it is the first in index order."""
        for chunk in range(chunks):
            if workspace.words[workspace.status_at + chunk * STATUS_FIELDS]:
                return chunk
        raise InternalError(f"The kernel {self._kernel} failed without saying how.")

    def _raise_failure(self, workspace: Workspace, chunk: int) -> None:
        words, doubles = workspace.words, workspace.doubles
        at = workspace.status_at + chunk * STATUS_FIELDS
        number, index = words[at : at + 2]
        failure = self._failures[number - 1]
        shown = [
            decoded(words[at + place], doubles[at + place], dtype)
            for place, dtype in enumerate(failure.operands, start=2)
        ]
        named = dict(zip(("value", "size"), shown, strict=False))
        text = failure.text.format(*shown, index=index, **named)
        fix = failure.fix
        if failure.error is BoundsError and not fix:
            fix = bounds_fix(int(named["value"]), int(named["size"]))
        first = at + 2 + failure.loops_at
        notes = iteration_notes(failure.loops, words[first : first + len(failure.loops)].tolist())
        raise failure.error(text, at=failure.at, notes=notes, fix=fix)


class _OwnWords:
    """Fills the frame of a kernel that has one of its own."""

    __slots__ = ("_start", "_words")

    def __init__(self, frame: OwnFrame) -> None:
        self._start = frame.start
        self._words = words_function(frame.words)

    def fill(self, words: memoryview) -> int:
        """Write it; how many bytes behind the program's frame it starts."""
        start, first = self._start, self._start + FIRST_FREE_SLOT
        words[start:first] = words[:FIRST_FREE_SLOT]
        own = array(words.format, self._words(words))
        words[first : first + len(own)] = own
        return 8 * start


def runnable(
    stage: Stage, addresses: Mapping[str, int], program: LoopProgram, repeated: bool = False
) -> Runnable:
    """Make a stage ready to run; `repeated` says that it is inside a host loop."""
    match stage:
        case Launch():
            return _RunnableLaunch(stage, addresses[stage.kernel], program.failures, repeated)
        case HostLoop():
            test, inner = (
                [runnable(part, addresses, program, True) for part in parts]
                for parts in (stage.test, stage.stages)
            )
            return _RunnableWhile(stage, test, inner) if test else _RunnableLoop(stage, inner)
        case _:
            assert_never(stage)
