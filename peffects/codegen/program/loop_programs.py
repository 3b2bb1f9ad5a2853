"""Loop programs: what lowering hands to the launcher, as plain data.

A `LoopProgram` is a straight list of stages that run one after the other over one *frame*, a C
contiguous int64 array whose elements are called slots.  A slot holds a size, a scalar value (in the
low bytes) or the address of a buffer.  A stage names a compiled kernel, a C function `void(int64
chunk, int64 frame_address)`, and says over how many iterations it runs and into how many chunks
these are cut.  Kernels reach everything through the frame: `native/intrinsics.py` has the
accessors, among them those of the reserved slots, whose layout is told here and nowhere else.

Sizes, chunks and strategies are functions of the program and of sizes, never of timing or of the
number of threads: that is why any number of threads gives the same bits.

Nothing here computes: `sizes.py` evaluates sizes, `launch/stages.py` and `launch/launcher.py` run
programs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeAlias

from peffects.errors import PeffectsError
from peffects.source import UNKNOWN, SrcInfo

__all__ = [
    "CANCEL_SLOT",
    "CHUNKS_SLOT",
    "FAILED_SLOT",
    "FIRST_FREE_SLOT",
    "FREE",
    "LOG_WORDS",
    "MOST_FREE_CHUNKS",
    "MOST_OPERANDS",
    "MOST_PARTIALS",
    "NO_SLOT",
    "PARTIALS_BYTES",
    "REDUCING",
    "SERIAL",
    "STATUS_FIELDS",
    "STATUS_SLOT",
    "TICKS_SLOT",
    "TICK_STRIDE",
    "TRIP_SLOT",
    "UNBOUNDED_NS",
    "UNLIMITED",
    "Buffer",
    "ChunkRule",
    "Const",
    "Failure",
    "HostLoop",
    "Input",
    "InputArray",
    "InputScalar",
    "InputSize",
    "Launch",
    "LoopProgram",
    "Output",
    "OutputBuffer",
    "OutputScalar",
    "OwnFrame",
    "Role",
    "SizeExpr",
    "SizeProduct",
    "SizeQuotient",
    "SizeSum",
    "SlotSize",
    "Stage",
    "Within",
]

STATUS_SLOT = 0
"""Address of the status array: int64 [chunks, STATUS_FIELDS], all zero when a stage starts.

A kernel that fails writes (failure number + 1, flat loop index, operands) into the row of its chunk
and returns; see `intrinsics.fail`.
"""
CANCEL_SLOT = 1
"""Address of the cancel flag, an int64: a kernel that finds it nonzero returns."""
TICKS_SLOT = 2
"""Address of the tick counters: a chunk adds the iterations it finished; see `intrinsics.tick`."""
CHUNKS_SLOT = 3
"""Number of chunks of the running stage."""
TRIP_SLOT = 4
"""Number of iterations of the running stage; chunk c of n runs [trip*c//n, trip*(c+1)//n)."""
FAILED_SLOT = 5
"""Becomes nonzero when a chunk fails."""
FIRST_FREE_SLOT = 8
"""Slots below this one belong to the launcher; programs use this one and those that follow."""
NO_SLOT = -1

LOG_WORDS = 4096
"""Size in int64 of what one chunk may print: words in use, lines left out, and then the lines, each
(failure number, operands), whose text is that of a failure."""

STATUS_FIELDS = 16
MOST_OPERANDS = STATUS_FIELDS - 2
"""Values that the message of one failure can show."""
TICK_STRIDE = 8
"""Distance of two chunks' tick counters in int64: a cache line each, so counting is not shared."""

MOST_PARTIALS = 64
MOST_FREE_CHUNKS = 512
PARTIALS_BYTES = 256 << 20
"""What the per-chunk buffers of one stage may take together; the chunk rule cuts fewer chunks."""
UNBOUNDED_NS = 1 << 60
"""The `work_ns` of a stage that may run for any time (a `while` loop): it can be interrupted."""
UNLIMITED = 1 << 62
"""Above all sizes that a choice between stages asks about."""


# --- sizes ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Const:
    """A size known when the program was made."""

    value: int


@dataclass(frozen=True, slots=True)
class SlotSize:
    """The integer in a slot: of an `InputSize`, of a `HostLoop`'s index, or one a kernel wrote."""

    slot: int


@dataclass(frozen=True, slots=True)
class SizeProduct:
    """The product of the terms; of none: 1.  Exact, however large."""

    terms: tuple[SizeExpr, ...]


@dataclass(frozen=True, slots=True)
class SizeSum:
    """The sum of the terms; of none: 0."""

    terms: tuple[SizeExpr, ...]


@dataclass(frozen=True, slots=True)
class SizeQuotient:
    """How many parts of `divisor` a size has, the last of which may be smaller."""

    size: SizeExpr
    divisor: int


@dataclass(frozen=True, slots=True)
class Natural:
    """`size`, or 0 if it is negative, as a number of the user's may be."""

    size: SizeExpr


@dataclass(frozen=True, slots=True)
class Within:
    """`value` if `least` <= `size` < `below`, and else 0: what depends on a choice by sizes."""

    size: SizeExpr
    least: int
    below: int
    value: SizeExpr = Const(1)

    def times(self, value: SizeExpr) -> Within:
        """The same choice with another value."""
        return Within(self.size, self.least, self.below, value)


SizeExpr: TypeAlias = Const | SlotSize | SizeProduct | SizeSum | SizeQuotient | Natural | Within


# --- buffers ----------------------------------------------------------------------------------


class Role(Enum):
    """What a buffer is for, and with it how long it lives."""

    OUTPUT = auto()
    """Returned to the caller; one that is not named in `LoopProgram.outputs` is a temporary."""
    TEMPORARY = auto()
    """Lives until the program ends: written by one stage, read by later ones."""
    PARTIALS = auto()
    """A part for each chunk of its stage, which later stages combine; lives like a temporary."""
    SCRATCH = auto()
    """A part for each chunk of its stage that nobody reads later; freed with the stage."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory that the launcher allocates, uninitialised, and whose address it writes to `slot`.

    The `shape` of a PARTIALS or SCRATCH buffer is that of one chunk's part: the launcher adds a
    leading dimension, the number of chunks.  `dtype` is numpy's name (`float64`, `bool`, ...).
    Addresses are multiples of 64 where a buffer has 4 KiB or more, and else of 16.
    """

    slot: int
    dtype: str
    shape: tuple[SizeExpr, ...]
    role: Role = Role.TEMPORARY
    at: SrcInfo = UNKNOWN


# --- stages -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChunkRule:
    """Into how many chunks a stage is cut: a function of its sizes alone.

    At most `most`; none of less than `grain_ns` of estimated work, so tiny loops are one chunk;
    never more than iterations; and the stage's PARTIALS and SCRATCH never above PARTIALS_BYTES.
    A loop that does little for each byte of PARTIALS is cut into few chunks, or is one: see
    `sizes.chunk_count`.
    """

    most: int
    grain_ns: int = 20_000


SERIAL = ChunkRule(most=1)
"""One chunk: the stage runs in one thread."""
REDUCING = ChunkRule(most=MOST_PARTIALS)
"""For stages with PARTIALS."""
FREE = ChunkRule(most=MOST_FREE_CHUNKS)
"""For stages whose chunks share nothing: more of them, for balance."""


@dataclass(frozen=True, slots=True)
class OwnFrame:
    """The frame of a kernel that is not made for one program, such as those of matrix products.

    It lies in the program's frame, from slot `start` on: the launcher's slots, which are copied
    there, then `words`, which are evaluated just before the launch.
    """

    start: int
    words: tuple[SizeExpr, ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """Run `kernel` over `trip` iterations (none if negative) in chunks.

    `buffers` are those first needed here, allocated just before.  `work_ns` estimates the work of
    the whole stage in nanoseconds of one thread.  `chunks_slot` keeps the number of chunks for the
    later stages that combine partial results.  A stage of no iterations still runs its kernel,
    once, with one empty chunk, so that kernels can initialise what they accumulate into.  With an
    `own_frame`, the kernel is one that `loader.load_products` gives.  A launch with `only` is left
    out, and its buffers not allocated, where that is 0: so one of several ways is chosen by sizes.
    """

    kernel: str
    trip: SizeExpr
    chunks: ChunkRule = SERIAL
    buffers: tuple[Buffer, ...] = ()
    work_ns: SizeExpr = Const(UNBOUNDED_NS)
    chunks_slot: int = NO_SLOT
    at: SrcInfo = UNKNOWN
    own_frame: OwnFrame | None = None
    only: Within | None = None
    log_slot: int = NO_SLOT
    """Of the buffer that has what chunks print: see LOG_WORDS."""


@dataclass(frozen=True, slots=True)
class HostLoop:
    """Run `stages` one after the other, `trip` times, with the iteration's number in `index_slot`.

    With `reverse` the numbers fall.  With a `test`, those stages run before each iteration, and the
    loop ends when the slot `go_on_slot` is 0 behind them.  `only` is as in a `Launch`.

    Buffers of the stages inside are allocated in the first iteration and used again by the others;
    they are allocated anew (and lose what they hold) when their shape changes with the index.
    """

    trip: SizeExpr
    index_slot: int
    stages: tuple[Stage, ...]
    at: SrcInfo = UNKNOWN
    reverse: bool = False
    test: tuple[Stage, ...] = ()
    go_on_slot: int = NO_SLOT
    only: Within | None = None

    @property
    def parts(self) -> tuple[Stage, ...]:
        """All stages inside."""
        return self.test + self.stages


Stage: TypeAlias = Launch | HostLoop


# --- inputs, outputs, failures ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InputArray:
    """An argument whose address goes into `slot`: a C contiguous array of this dtype and rank."""

    slot: int
    dtype: str
    ndim: int


@dataclass(frozen=True, slots=True)
class InputScalar:
    """An argument whose bits go into the low bytes of `slot`."""

    slot: int
    dtype: str


@dataclass(frozen=True, slots=True)
class InputSize:
    """An argument that is a size."""

    slot: int


Input: TypeAlias = InputArray | InputScalar | InputSize


@dataclass(frozen=True, slots=True)
class OutputBuffer:
    """A result that is the buffer at `slot`, as an array of this shape; not copied."""

    slot: int
    dtype: str
    shape: tuple[SizeExpr, ...]


@dataclass(frozen=True, slots=True)
class OutputScalar:
    """A result that is the scalar in `slot`."""

    slot: int
    dtype: str


Output: TypeAlias = OutputBuffer | OutputScalar


@dataclass(frozen=True, slots=True)
class Failure:
    """What to raise when a kernel reports this failure.

    `text` says what happened; `{index}` in it stands for the flat loop index, `{0}`, `{1}` and so
    on for the operands of the status record, whose types are `operands`.  The first two may be
    called `{value}` and `{size}`.  A float is held as the bits of a double.  Behind the operands,
    of which there is room for two at least, are the indices of the loops around, called `loops`.
    """

    error: type[PeffectsError]
    text: str
    at: SrcInfo = UNKNOWN
    fix: str = ""
    operands: tuple[str, ...] = ("int64", "int64")
    loops: tuple[str, ...] = ()

    @property
    def loops_at(self) -> int:
        """Where the indices of the loops begin among the operands."""
        return max(len(self.operands), 2)


@dataclass(frozen=True, slots=True)
class LoopProgram:
    """A compiled loop nest as the launcher runs it.

    `slots` is the length of the frame.  The values given to a launch are those of `inputs`, in
    order; what it returns are `outputs`, in order.  `product_dtypes` are the types of elements of
    its matrix products.
    """

    name: str
    slots: int
    inputs: tuple[Input, ...]
    stages: tuple[Stage, ...]
    outputs: tuple[Output, ...]
    failures: tuple[Failure, ...] = ()
    at: SrcInfo = field(default=UNKNOWN)
    product_dtypes: tuple[str, ...] = ()
