"""Accumulators of the spine: what each chunk of a parallel loop leaves, and how it is combined.

A chunk accumulates into a local, or into its own copy of the table, starting from the identity.
After the loop the chunks are combined in their order.  Scalars alone are combined in the serial
stage that follows, together with tables in a parallel stage over all elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from peffects.codegen.lower.block import BlockLowering
from peffects.codegen.lower.kernel import INPUT, KernelBuilder, TablePlace
from peffects.codegen.lower.stages import StageBuilder, Stages
from peffects.codegen.lower.sums import add_to_memory, add_wide, is_wide_sum, rounded
from peffects.codegen.lower.values import Target
from peffects.codegen.program.loop_ir import (
    START,
    STOP,
    Apply,
    Assign,
    Branch,
    Combine,
    Expr,
    ForLoop,
    Local,
    Memory,
    PutSlot,
    Read,
    Stmt,
    Store,
    literal,
    plus,
    times,
)
from peffects.codegen.program.loop_programs import (
    FREE,
    MOST_PARTIALS,
    Const,
    Role,
    SizeExpr,
    SizeProduct,
    SizeSum,
    SlotSize,
)
from peffects.ir import primitives as p
from peffects.ir.evaluate import identity_of
from peffects.ir.syntax import BOOL, F64, I64, Lit, Monoid, Scalar, Var

__all__ = ["Accumulator", "Partial", "combine", "start_partial"]


@dataclass(slots=True)
class Accumulator:
    """A reference of the spine: its value so far, a scalar or a table in memory.

    A `fresh` table has not been written to.  A sum of floats is held as `sums.py` says:
    the value may be wider than `elem`, the type of the result, or have a `low` part.
    """

    monoid: Monoid
    elem: Scalar
    value: Local | Lit | TablePlace
    low: Local | Lit | TablePlace | None = None
    fresh: bool = True

    @property
    def identity(self) -> Lit:
        """What a sum, or an element of one, starts from."""
        value = self.value
        held = value.memory.elem if isinstance(value, TablePlace) else value.type
        return Lit(identity_of(self.monoid, held), held)

    def initialize(self, lowering: BlockLowering) -> None:
        """Set a fresh table to the identity."""
        if self.fresh and isinstance(self.value, TablePlace):
            lowering.fill(self.value, self.identity)
            if isinstance(self.low, TablePlace):
                lowering.fill(self.low, self.identity)
            self.fresh = False

    @property
    def target(self) -> Target:
        """The table as kernels accumulate into it."""
        assert isinstance(self.value, TablePlace)
        low = self.low.memory if isinstance(self.low, TablePlace) else None
        return Target(self.monoid, self.value, low=low)


@dataclass(frozen=True, slots=True)
class Partial:
    """What the chunks of a loop leave for an accumulator."""

    accumulator: Accumulator
    parts: Memory
    lows: Memory | None
    shape: tuple[SizeExpr, ...]

    @property
    def is_wide_table(self) -> bool:
        """Whether it is a table of totals, which keep what rounding takes."""
        is_wider = self.parts.elem != self.accumulator.elem
        return isinstance(self.accumulator.value, TablePlace) and (
            self.lows is not None or is_wider
        )


def start_partial(
    ref: Var, accumulator: Accumulator, piles: bool, stages: Stages, lowering: BlockLowering
) -> Partial:
    """Let each chunk of the kernel accumulate into `ref` on its own.

    With `piles`, one element may get many values.
    """
    k, value, elem = lowering.k, accumulator.value, accumulator.elem
    if not isinstance(value, TablePlace):
        return _start_scalar(ref, accumulator, lowering)
    name, shape = f"{ref.name}_part", stages.shape(value.dims)
    is_wide = piles and is_wide_sum(accumulator.monoid, elem)
    held = F64 if is_wide else elem
    lows = k.part(f"{ref.name}_low", F64, shape, Role.PARTIALS) if is_wide and elem == F64 else None
    parts = k.part(name, held, shape, Role.PARTIALS)
    at = TablePlace(parts, literal(0), value.dims)
    identity = Lit(identity_of(accumulator.monoid, held), held)
    with k.into(k.prologue):
        lowering.fill(at, identity)
        if lows is not None:
            lowering.fill(TablePlace(lows, literal(0), value.dims), identity)
    stages.scope.values[ref] = Target(accumulator.monoid, at, low=lows)
    return Partial(accumulator, parts, lows, shape)


def _start_scalar(ref: Var, accumulator: Accumulator, lowering: BlockLowering) -> Partial:
    k, elem, name = lowering.k, accumulator.elem, f"{ref.name}_part"
    if not is_wide_sum(accumulator.monoid, elem):
        parts = k.part(name, elem, (), Role.PARTIALS)
        at = k.local(ref.name, elem)
        k.prologue.append(Assign(at, accumulator.identity))
        k.epilogue.append(Store(parts, literal(0), at))
        lowering.scope.values[ref] = Target(accumulator.monoid, at)
        return Partial(accumulator, parts, None, ())
    parts = k.part(name, F64, (), Role.PARTIALS)
    lows = k.part(f"{ref.name}_low", F64, (), Role.PARTIALS) if elem == F64 else None
    with k.into(k.prologue):
        target = lowering.new_sum(ref.name, elem)
    with k.into(k.flush):
        lowering.flush(target)
    assert isinstance(target.at, Local)
    k.epilogue.append(Store(parts, literal(0), target.at))
    if lows is not None:
        assert isinstance(target.low, Local)
        k.epilogue.append(Store(lows, literal(0), target.low))
    lowering.scope.values[ref] = target
    return Partial(accumulator, parts, lows, ())


def combine(partials: Sequence[Partial], loop: StageBuilder, stages: Stages) -> None:
    """Combine the parts that the chunks of `loop` left, in the order of the chunks."""
    if any(isinstance(partial.accumulator.value, TablePlace) for partial in partials):
        _combine_in_parallel(partials, loop, stages)
        return
    stage = stages.serial()
    chunks = stage.k.read_slot(loop.chunks_slot, "chunks", I64)
    for partial in partials:
        partial.accumulator.value, partial.accumulator.low = _total(partial, chunks, stage.k)
    stage.work += (Const(MOST_PARTIALS),)


def _combine_in_parallel(partials: Sequence[Partial], loop: StageBuilder, stages: Stages) -> None:
    """A stage over the elements of all accumulators, one after the other."""
    stage = stages.open(loop.k.at)
    k = stage.k
    chunks = k.read_slot(loop.chunks_slot, "chunks", I64)
    base: Expr = literal(0)
    for partial in partials:
        size = k.size(SizeProduct(partial.shape))
        first = k.assign("first", Apply(p.MAX, (_minus(START, base), literal(0)), I64))
        last = k.assign("last", Apply(p.MIN, (_minus(STOP, base), size), I64))
        if isinstance(partial.accumulator.value, TablePlace):
            _combine_elements(partial, chunks, first, last, k)
        else:
            total = list[Stmt]()
            with k.into(total):
                value, low = (_in_frame(x, k) for x in _total(partial, chunks, k))
            k.emit(Branch(Apply(p.LT, (first, last), BOOL), tuple(total), ()))
            assert value is not None
            partial.accumulator.value, partial.accumulator.low = value, low
        base = plus(base, size)
    stage.trip = SizeSum(tuple(SizeProduct(partial.shape) for partial in partials))
    stage.work = (SizeProduct((stage.trip, SlotSize(loop.chunks_slot))),)
    stage.rule = FREE
    stages.close()


def _in_frame(value: Local | None, k: KernelBuilder) -> Local | None:
    """A scalar that one chunk of this kernel writes, so that it is in the frame like an input."""
    if value is None:
        return None
    slot = k.frame.new_slot()
    k.emit(PutSlot(slot, value))
    held = Local("total", value.type, INPUT)
    k.frame.local_slots[held] = slot
    return held


def _total(partial: Partial, chunks: Local, k: KernelBuilder) -> tuple[Local, Local | None]:
    """All parts of a scalar, and what it was before."""
    accumulator = partial.accumulator
    value, less = accumulator.value, accumulator.low
    assert not isinstance(value, TablePlace) and not isinstance(less, TablePlace)
    total = k.assign("total", k.use(value))
    low = None if less is None else k.assign("low", k.use(less))
    chunk, body = k.local("c", I64), list[Stmt]()
    part = Read(_all_parts(partial.parts), chunk)
    with k.into(body):
        if not is_wide_sum(accumulator.monoid, accumulator.elem):
            more = Combine(accumulator.monoid, total, part, accumulator.elem, True)
            k.emit(Assign(total, more))
        else:
            add_wide(k, total, low, part)
        if low is not None and partial.lows is not None:
            rest = Read(_all_parts(partial.lows), chunk)
            k.emit(Assign(low, Apply(p.ADD, (low, rest), F64)))
    k.emit(ForLoop(chunk, literal(0), chunks, tuple(body)))
    return total, low


def _combine_elements(
    partial: Partial, chunks: Local, first: Local, last: Local, k: KernelBuilder
) -> None:
    """Combine the parts of the elements first .. last-1 of a table."""
    accumulator, place = partial.accumulator, partial.accumulator.value
    assert isinstance(place, TablePlace)
    parts, out = _all_parts(partial.parts), place.memory
    e, chunk, size = k.local("e", I64), k.local("c", I64), k.size(SizeProduct(partial.shape))
    at = plus(times(chunk, size), e)
    if partial.lows is not None or accumulator.low is not None or parts.elem != out.elem:
        _combine_wide(
            partial, ForLoop(chunk, literal(1), chunks, ()), ForLoop(e, first, last, ()), at, k
        )
    else:
        if accumulator.fresh:
            k.emit(ForLoop(e, first, last, (Store(out, e, Read(parts, e)),)))
        total = Combine(accumulator.monoid, Read(out, e), Read(parts, at), accumulator.elem, True)
        elements = ForLoop(e, first, last, (Store(out, e, total),))
        k.emit(ForLoop(chunk, literal(int(accumulator.fresh)), chunks, (elements,)))
    accumulator.fresh = False


def _combine_wide(
    partial: Partial, others: ForLoop, elements: ForLoop, at: Expr, k: KernelBuilder
) -> None:
    """Add the parts of the other chunks to those of the first, and these to the table."""
    accumulator, place, e = partial.accumulator, partial.accumulator.value, elements.index
    assert isinstance(place, TablePlace)
    out, parts = place.memory, _all_parts(partial.parts)
    lows = None if partial.lows is None else _all_parts(partial.lows)
    low = accumulator.low.memory if isinstance(accumulator.low, TablePlace) else None
    more, final = list[Stmt](), list[Stmt]()
    with k.into(more):
        there = k.assign("at", at)
        add_to_memory(k, parts, lows, e, Read(parts, there))
        if lows is not None:
            k.emit(Store(lows, e, Apply(p.ADD, (Read(lows, e), Read(lows, there)), F64)))
    k.emit(replace(others, body=(replace(elements, body=tuple(more)),)))
    with k.into(final):
        if accumulator.fresh:
            for memory in (out, *(() if low is None else (low,))):
                k.emit(Store(memory, e, accumulator.identity))
        total, less = Read(parts, e), None if lows is None else Read(lows, e)
        if low is None and out.elem == accumulator.elem:
            add_to_memory(k, out, None, e, rounded(total, less, accumulator.elem))
        else:
            add_to_memory(k, out, low, e, total)
            if low is not None and less is not None:
                k.emit(Store(low, e, Apply(p.ADD, (Read(low, e), less), F64)))
    k.emit(replace(elements, body=tuple(final)))


def _all_parts(memory: Memory) -> Memory:
    """The parts of all chunks, one after the other."""
    return Memory(memory.name, memory.elem, memory.slot, memory.number)


def _minus(left: Expr, right: Expr) -> Expr:
    return left if right == literal(0) else Apply(p.SUB, (left, right), I64)
