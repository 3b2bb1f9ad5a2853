"""The memory of one running launch: frame, cancel flag, team, status records, tick counters.

They lie in one array, so that making a workspace is one allocation, and are written through
memoryviews, which is the fastest way that Python has.  Workspaces are used again by later launches;
slots of programs then hold what earlier launches left there, and kernels never rely on it.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from peffects.codegen.launch.pool import TEAM_WORDS
from peffects.codegen.program.loop_programs import (
    CANCEL_SLOT,
    STATUS_FIELDS,
    STATUS_SLOT,
    TICK_STRIDE,
    TICKS_SLOT,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NOT_STARTED", "AnyArray", "StageStarted", "Workspace", "address_of"]

AnyArray: TypeAlias = "NDArray[Any]"

_LINE_WORDS = 8
"""A cache line in words: the parts that different threads write to start on lines of their own."""

_from_buffer = ctypes.c_char.from_buffer
_addressof = ctypes.addressof


def address_of(array: AnyArray) -> int:
    """Where the elements of `array` start, which must be C contiguous: BufferError if it is not.

    Four times as fast as `ndarray.ctypes`, and refuses by itself what is not contiguous.
    """
    try:
        return _addressof(_from_buffer(array))  # type: ignore[arg-type]  # arrays are buffers
    except (TypeError, ValueError):  # read-only, empty, or not contiguous
        if not array.flags.c_contiguous:
            raise BufferError("not C contiguous") from None
        address: int = array.__array_interface__["data"][0]
        return address


def _lines(words: int) -> int:
    return -(-words // _LINE_WORDS) * _LINE_WORDS


class StageStarted(NamedTuple):
    """Where a watched launch is: what the stages before did, and what the running one has to do."""

    done_ns: int
    work_ns: int
    trip: int
    ticks_before: int
    kernel: str


NOT_STARTED = StageStarted(0, 0, 1, 0, "")


class Workspace:
    """Memory for launches of one program, used by one launch at a time.

    `words`, `unsigned`, `doubles`, `floats` are views of the same memory, which starts with the
    frame; the `*_at` attributes are positions in `words`.  `ticks` has one counter a chunk, `held`
    the buffers by slot, `given` those of the caller among them; `threads` is 0 where the running
    thread's context says how many.
    """

    __slots__ = (
        "cancel_at",
        "doubles",
        "floats",
        "frame_address",
        "given",
        "held",
        "inputs",
        "memory",
        "stage",
        "status_at",
        "team_address",
        "team_at",
        "threads",
        "ticks",
        "ticks_at",
        "unsigned",
        "watched",
        "words",
    )

    def __init__(self, slots: int, most_chunks: int) -> None:
        self.cancel_at = _lines(slots)
        self.team_at = self.cancel_at + _LINE_WORDS
        self.status_at = self.team_at + _lines(TEAM_WORDS)
        self.ticks_at = self.status_at + most_chunks * STATUS_FIELDS
        self.ticks_at = _lines(self.ticks_at)
        total = self.ticks_at + most_chunks * TICK_STRIDE
        block = np.zeros(total + _LINE_WORDS, np.int64)
        skip = -address_of(block) % 64 // 8
        self.memory = block[skip : skip + total]
        self.words = memoryview(self.memory)  # type: ignore[arg-type]  # arrays are buffers
        octets = self.words.cast("B")
        self.unsigned = octets.cast("Q")
        self.doubles = octets.cast("d")
        self.floats = octets.cast("f")
        self.frame_address = address_of(self.memory)
        self.team_address = self.frame_address + 8 * self.team_at
        self.ticks = self.memory[self.ticks_at :: TICK_STRIDE]
        words = self.words
        words[STATUS_SLOT] = self.frame_address + 8 * self.status_at
        words[CANCEL_SLOT] = self.frame_address + 8 * self.cancel_at
        words[TICKS_SLOT] = self.frame_address + 8 * self.ticks_at
        self.held: dict[int, AnyArray] = {}
        self.given: dict[int, AnyArray] = {}
        self.inputs: tuple[object, ...] = ()
        self.threads = 0
        self.watched = False
        self.stage = NOT_STARTED
