"""Accumulators of the spine: what each chunk of a parallel loop leaves, and how it is combined.

A chunk accumulates into a local, or into its own copy of the table, starting from the identity.
After the loop the chunks are combined in their order.  Scalars alone are combined in the serial
stage that follows, together with tables in a parallel stage over all elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from peffects.codegen.loop_ir import (
    START,
    STOP,
    Apply,
    Assign,
    Branch,
    Combine,
    Expr,
    Local,
    Loop,
    Memory,
    PutSlot,
    Read,
    Stmt,
    Store,
    literal,
    plus,
    times,
)
from peffects.codegen.loops import (
    FREE,
    MOST_PARTIALS,
    Const,
    Product,
    Role,
    SizeExpr,
    SlotSize,
    Sum,
)
from peffects.codegen.lower_block import BlockLowering
from peffects.codegen.lower_kernel import INPUT, KernelBuilder, Place
from peffects.codegen.lower_stages import StageBuilder, Stages
from peffects.codegen.lower_values import Target
from peffects.ir import primitives as p
from peffects.ir.syntax import BOOL, I64, Lit, Monoid, Scalar, Var

__all__ = ["Accumulator", "Partial", "combine", "start_partial"]


@dataclass(slots=True)
class Accumulator:
    """A reference of the spine: its value so far, a scalar or a table in memory.

    A `fresh` table has not been written to.
    """

    monoid: Monoid
    identity: Lit
    value: Local | Lit | Place
    fresh: bool = True

    @property
    def elem(self) -> Scalar:
        """The type of its elements."""
        return self.identity.type

    def initialize(self, lowering: BlockLowering) -> None:
        """Set a fresh table to the identity."""
        if self.fresh and isinstance(self.value, Place):
            lowering.fill(self.value, self.identity)
            self.fresh = False


@dataclass(frozen=True, slots=True)
class Partial:
    """What the chunks of a loop leave for an accumulator."""

    accumulator: Accumulator
    parts: Memory
    shape: tuple[SizeExpr, ...]


def start_partial(
    ref: Var, accumulator: Accumulator, stages: Stages, lowering: BlockLowering
) -> Partial:
    """Let each chunk of the kernel accumulate into `ref` on its own."""
    k, value, elem = lowering.k, accumulator.value, accumulator.elem
    name, identity = f"{ref.name}_part", accumulator.identity
    at: Local | Place
    if isinstance(value, Place):
        shape = stages.shape(value.dims)
        parts = k.part(name, elem, shape, Role.PARTIALS)
        at = Place(parts, literal(0), value.dims)
        with k.into(k.prologue):
            lowering.fill(at, identity)
    else:
        shape = ()
        parts = k.part(name, elem, shape, Role.PARTIALS)
        at = k.local(ref.name, elem)
        k.prologue.append(Assign(at, identity))
        k.epilogue.append(Store(parts, literal(0), at))
    stages.scope.values[ref] = Target(accumulator.monoid, at)
    return Partial(accumulator, parts, shape)


def combine(partials: Sequence[Partial], loop: StageBuilder, stages: Stages) -> None:
    """Combine the parts that the chunks of `loop` left, in the order of the chunks."""
    if any(isinstance(partial.accumulator.value, Place) for partial in partials):
        _combine_in_parallel(partials, loop, stages)
        return
    stage = stages.serial()
    chunks = stage.k.read_slot(loop.chunks_slot, "chunks", I64)
    for partial in partials:
        partial.accumulator.value = _total(partial, chunks, stage.k)
    stage.work += (Const(MOST_PARTIALS),)


def _combine_in_parallel(partials: Sequence[Partial], loop: StageBuilder, stages: Stages) -> None:
    """A stage over the elements of all accumulators, one after the other."""
    stage = stages.open(loop.k.at)
    k = stage.k
    chunks = k.read_slot(loop.chunks_slot, "chunks", I64)
    base: Expr = literal(0)
    for partial in partials:
        size = k.size(Product(partial.shape))
        first = k.assign("first", Apply(p.MAX, (_minus(START, base), literal(0)), I64))
        last = k.assign("last", Apply(p.MIN, (_minus(STOP, base), size), I64))
        if isinstance(partial.accumulator.value, Place):
            _combine_elements(partial, chunks, first, last, k)
        else:
            slot = stages.frame.new_slot()
            total = list[Stmt]()
            with k.into(total):
                k.emit(PutSlot(slot, _total(partial, chunks, k)))
            k.emit(Branch(Apply(p.LT, (first, last), BOOL), tuple(total), ()))
            # one chunk writes it, so it is in the frame like an input
            partial.accumulator.value = Local("total", partial.accumulator.elem, INPUT)
            stages.frame.local_slots[partial.accumulator.value] = slot
        base = plus(base, size)
    stage.trip = Sum(tuple(Product(partial.shape) for partial in partials))
    stage.work = (Product((stage.trip, SlotSize(loop.chunks_slot))),)
    stage.rule = FREE
    stages.close()


def _total(partial: Partial, chunks: Local, k: KernelBuilder) -> Local:
    """All parts of a scalar, and what it was before."""
    accumulator = partial.accumulator
    assert not isinstance(accumulator.value, Place)
    total = k.assign("total", k.use(accumulator.value))
    chunk, parts = k.local("c", I64), _all_parts(partial.parts)
    more = Combine(accumulator.monoid, total, Read(parts, chunk), accumulator.elem, True)
    k.emit(Loop(chunk, literal(0), chunks, (Assign(total, more),)))
    return total


def _combine_elements(
    partial: Partial, chunks: Local, first: Local, last: Local, k: KernelBuilder
) -> None:
    """Combine the parts of the elements first .. last-1 of a table."""
    accumulator, place = partial.accumulator, partial.accumulator.value
    assert isinstance(place, Place)
    parts, out = _all_parts(partial.parts), place.memory
    e = k.local("e", I64)
    if accumulator.fresh:
        k.emit(Loop(e, first, last, (Store(out, e, Read(parts, e)),)))
    chunk, size = k.local("c", I64), k.size(Product(partial.shape))
    value = Read(parts, plus(times(chunk, size), e))
    total = Combine(accumulator.monoid, Read(out, e), value, accumulator.elem, True)
    elements = Loop(e, first, last, (Store(out, e, total),))
    k.emit(Loop(chunk, literal(int(accumulator.fresh)), chunks, (elements,)))
    accumulator.fresh = False


def _all_parts(memory: Memory) -> Memory:
    """The parts of all chunks, one after the other."""
    return Memory(memory.name, memory.elem, memory.slot, memory.number)


def _minus(left: Expr, right: Expr) -> Expr:
    return left if right == literal(0) else Apply(p.SUB, (left, right), I64)
