"""The stages of a program while it is lowered: which kernel runs when, and what it allocates.

Serial statements go to one open stage until a parallel one closes it.  A stage is finished only
when all are known, since a later kernel may want a scalar that an earlier one computes.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from peffects.codegen.loop_ir import Axis, Kernel, Local, literal
from peffects.codegen.loops import (
    NO_SLOT,
    SERIAL,
    Buffer,
    ChunkRule,
    Const,
    Launch,
    OwnFrame,
    Role,
    SizeExpr,
    SlotSize,
    Sum,
    Within,
)
from peffects.codegen.lower_facts import work_of
from peffects.codegen.lower_kernel import Frame, KernelBuilder, Place
from peffects.codegen.lower_values import Scope
from peffects.ir.syntax import I64, Atom, Block, Lit, Scalar, Table, Var
from peffects.source import SrcInfo

__all__ = ["StageBuilder", "Stages"]

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


class Stages:
    """The stages so far, the frame, and the values that cross them."""

    def __init__(self, scope: Scope, frame: Frame, at: SrcInfo) -> None:
        self.scope, self.frame, self.at = scope, frame, at
        self._stages: list[StageBuilder] = []
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
        return None if atom in self.scope.facts.definitions else self.leaf(atom)

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

    # --- buffers ------------------------------------------------------------------------------

    def table(self, var: Var, stage: StageBuilder | None = None) -> Place:
        """A buffer for a table of the spine."""
        assert isinstance(var.type, Table)
        dims = tuple(dim.size for dim in var.type.dims)
        return self.buffer(var.name, var.type.elem, dims, stage)

    def buffer(
        self, name: str, elem: Scalar, dims: tuple[Atom, ...], stage: StageBuilder | None = None
    ) -> Place:
        """A buffer that lives until the program ends, made by `stage` or by the next one."""
        stage = stage or self._serial
        memory = self.frame.memory(name, elem)
        at = stage.k.at if stage else self.at
        buffer = Buffer(memory.slot, elem.dtype, self.shape(dims), Role.TEMPORARY, at)
        (stage.k.buffers if stage else self._waiting).append(buffer)
        return Place(memory, literal(0), dims)

    def is_whole_buffer(self, place: Place) -> bool:
        """Whether a place is all of a buffer that the program allocates."""
        owned = [buffer for stage in self._stages for buffer in stage.k.buffers]
        shapes = {buffer.slot: buffer.shape for buffer in owned}
        whole = shapes.get(place.memory.slot) == self.shape(place.dims)
        return whole and place.offset == literal(0)

    # --- the end ------------------------------------------------------------------------------

    def finish(
        self, name: str, returned: Container[int]
    ) -> tuple[tuple[Launch, ...], tuple[Kernel, ...]]:
        """Launches and kernels; the buffers in the slots `returned` are results."""
        launches, kernels = [], []
        for number, stage in enumerate(self._stages):
            label, own = stage.library or (f"{name}_{number}", None)
            buffers = tuple(
                replace(buffer, role=Role.OUTPUT) if buffer.slot in returned else buffer
                for buffer in stage.k.buffers
            )
            work: SizeExpr = Sum(stage.work)
            if stage.only is not None:
                work = stage.only.times(work)
            slot = stage.chunks_slot
            launches.append(
                Launch(
                    label, stage.trip, stage.rule, buffers, work, slot, stage.k.at, own, stage.only
                )
            )
            if own is None:
                kernel = stage.k.kernel(label, stage.axes, stage.cheap, stage.strips)
                kernels.append(kernel)
        return tuple(launches), tuple(kernels)
