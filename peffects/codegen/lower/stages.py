"""The stages of a program while it is lowered: which kernel runs when, and what it allocates.

Serial statements go to one open stage until a parallel one closes it.  A stage is finished only
when all are known, since a later kernel may want a scalar that an earlier one computes.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from peffects.codegen.lower.facts import work_of
from peffects.codegen.lower.kernel import Frame, KernelBuilder, TablePlace
from peffects.codegen.lower.values import ProgramScope
from peffects.codegen.program.loop_ir import Axis, Local, LoopKernel, literal
from peffects.codegen.program.loop_programs import (
    NO_SLOT,
    SERIAL,
    Buffer,
    ChunkRule,
    Const,
    HostLoop,
    Launch,
    OwnFrame,
    Role,
    SizeExpr,
    SizeSum,
    SlotSize,
    Stage,
    Within,
)
from peffects.ir.syntax import I64, Atom, Block, Lit, Scalar, Table, Var
from peffects.source import SrcInfo

__all__ = ["LoopBuilder", "StageBuilder", "Stages"]

_BETWEEN = -2
"""The number of the current kernel between two stages: all values are known."""
_ONCE = Const(1)


@dataclass(slots=True)
class StageBuilder:
    """A stage whose kernel may still get exports."""

    k: KernelBuilder
    axes: tuple[Axis, ...] = ()
    cheap: bool = False
    strips: bool = False
    trip: SizeExpr = _ONCE
    rule: ChunkRule = SERIAL
    work: tuple[SizeExpr, ...] = ()
    chunks_slot: int = NO_SLOT
    library: tuple[str, OwnFrame] | None = None
    """A kernel that is made elsewhere, and its frame."""
    only: Within | None = None

    def share_buffers(self, other: StageBuilder) -> None:
        """Make what `other` makes for later stages, too: sizes say which of the two runs."""
        lasting = (Role.TEMPORARY, Role.OUTPUT)
        self.k.buffers += [buffer for buffer in other.k.buffers if buffer.role in lasting]


@dataclass(slots=True)
class LoopBuilder:
    """A loop of the launcher, whose stages are being made; `loop` has everything but these."""

    loop: HostLoop
    test: list[StageBuilder | LoopBuilder] = field(default_factory=list)
    stages: list[StageBuilder | LoopBuilder] = field(default_factory=list)


class Stages:
    """The stages so far, the frame, and the values that cross them."""

    def __init__(self, scope: ProgramScope, frame: Frame, at: SrcInfo) -> None:
        self.scope, self.frame, self.at = scope, frame, at
        self._stages: list[StageBuilder] = []
        self._top: list[StageBuilder | LoopBuilder] = []
        self._list = self._top  # where stages are appended
        self.repeated: set[Var] = set()  # what another iteration of a loop of stages sets anew
        self._serial: StageBuilder | None = None
        self._current = _BETWEEN
        self._waiting: list[Buffer] = []

    # --- sizes --------------------------------------------------------------------------------

    def leaf(self, atom: Atom) -> SizeExpr | None:
        """The size that `atom` is before the current stage runs, if it is known then."""
        value = atom if isinstance(atom, Lit) else self.scope.values.get(atom)
        if isinstance(value, Lit):
            return Const(int(value.value))
        if isinstance(value, Local) and value.kernel not in (self._current, -1):
            return SlotSize(self.frame.slot_of(value))
        return None

    def shape(self, dims: Sequence[Atom]) -> tuple[SizeExpr, ...]:
        """The shape of a table of the spine."""
        found = [size for size in map(self.leaf, dims) if size is not None]
        assert len(found) == len(dims), "sizes on the spine are computed by earlier stages"
        return tuple(found)

    def work(self, block: Block) -> SizeExpr:
        """The estimated time of one run of `block`."""
        return work_of(block, self.scope.facts, self.leaf_at_launch)

    def leaf_at_launch(self, atom: Atom) -> SizeExpr | None:
        """The size that `atom` is before any stage runs: work is estimated for a whole launch."""
        is_computed = atom in self.scope.facts.definitions or atom in self.repeated
        return None if is_computed else self.leaf(atom)

    def close_if_computed(self, atoms: Sequence[Atom]) -> None:
        """Close the serial stage if it computes one of these: what follows needs them as sizes."""
        for atom in atoms:
            value = self.scope.values.get(atom) if isinstance(atom, Var) else None
            if self._serial is None or not isinstance(value, Local):
                continue
            if value.type == I64 and value.kernel == self._serial.k.number:
                self.close()

    # --- stages -------------------------------------------------------------------------------

    def open(self, at: SrcInfo) -> StageBuilder:
        """A new stage, which runs after all others."""
        self.close()
        self._current = len(self._stages) + 1
        stage = StageBuilder(KernelBuilder(self.frame, self._current, at))
        self._stages.append(stage)
        self._list.append(stage)
        stage.k.buffers, self._waiting = self._waiting, []
        return stage

    def serial(self) -> StageBuilder:
        """The serial stage that runs after all others, and is open for more statements."""
        if self._serial is None:
            self._serial = self.open(self.at)
        self._current = self._serial.k.number
        return self._serial

    def close(self) -> None:
        """Whatever comes next is another stage."""
        self._serial = None
        self._current = _BETWEEN

    @contextmanager
    def looping(self, loop: LoopBuilder) -> Iterator[None]:
        """Append stages to a loop of the launcher: first those of `test`, if it has one."""
        self.close()
        outer, self._list = (
            self._list,
            loop.test if loop.loop.go_on_slot != NO_SLOT else loop.stages,
        )
        outer.append(loop)
        yield
        self.close()
        self._list = outer

    def tested(self, loop: LoopBuilder) -> None:
        """What follows are the stages of the loop's body."""
        self.close()
        self._list = loop.stages

    def is_new(self, place: TablePlace, since: int) -> bool:
        """Whether a place is all of a buffer that one of the stages from `since` on makes."""
        recent = {buffer.slot for stage in self._stages[since:] for buffer in stage.k.buffers}
        return place.memory.slot in recent and self.is_whole_buffer(place)

    @property
    def count(self) -> int:
        """How many stages there are."""
        return len(self._stages)

    # --- buffers ------------------------------------------------------------------------------

    def table(self, var: Var, stage: StageBuilder | None = None) -> TablePlace:
        """A buffer for a table of the spine."""
        assert isinstance(var.type, Table)
        dims = tuple(dim.size for dim in var.type.dims)
        return self.buffer(var.name, var.type.elem, dims, stage)

    def buffer(
        self, name: str, elem: Scalar, dims: tuple[Atom, ...], stage: StageBuilder | None = None
    ) -> TablePlace:
        """A buffer that lives until the program ends, made by `stage` or by the next one."""
        stage = stage or self._serial
        memory = self.frame.memory(name, elem)
        at = stage.k.at if stage else self.at
        buffer = Buffer(memory.slot, elem.dtype, self.shape(dims), Role.TEMPORARY, at)
        (stage.k.buffers if stage else self._waiting).append(buffer)
        return TablePlace(memory, literal(0), dims)

    def is_whole_buffer(self, place: TablePlace) -> bool:
        """Whether a place is all of a buffer that the program allocates."""
        owned = [buffer for stage in self._stages for buffer in stage.k.buffers]
        shapes = {buffer.slot: buffer.shape for buffer in owned}
        whole = shapes.get(place.memory.slot) == self.shape(place.dims)
        return whole and place.offset == literal(0)

    # --- the end ------------------------------------------------------------------------------

    def finish(
        self, name: str, returned: Container[int]
    ) -> tuple[tuple[Stage, ...], tuple[LoopKernel, ...]]:
        """Stages and kernels; the buffers in the slots `returned` are results."""
        kernels: list[LoopKernel] = []
        names = {id(stage): f"{name}_{number}" for number, stage in enumerate(self._stages)}

        def launch(stage: StageBuilder) -> Launch:
            label, own = stage.library or (names[id(stage)], None)
            buffers = tuple(
                replace(buffer, role=Role.OUTPUT) if buffer.slot in returned else buffer
                for buffer in stage.k.buffers
            )
            work: SizeExpr = SizeSum(stage.work)
            if stage.only is not None:
                work = stage.only.times(work)
            if own is None:
                kernels.append(stage.k.kernel(label, stage.axes, stage.cheap, stage.strips))
            slot, at, only = stage.chunks_slot, stage.k.at, stage.only
            log = NO_SLOT if stage.k.log_memory is None else stage.k.log_memory.slot
            return Launch(label, stage.trip, stage.rule, buffers, work, slot, at, own, only, log)

        def stages(items: Sequence[StageBuilder | LoopBuilder]) -> tuple[Stage, ...]:
            return tuple(
                launch(item)
                if isinstance(item, StageBuilder)
                else replace(item.loop, stages=stages(item.stages), test=stages(item.test))
                for item in items
            )

        return stages(self._top), tuple(kernels)
