"""Sequential loops of the spine with much work inside: the launcher runs them, stage by stage.

A `fold` or `while` whose body has parallel loops is lowered twice.  As one serial kernel, which is
best while a body takes less time than launching its stages; and as a loop of the launcher over the
stages of the body, each of which runs in parallel.  Sizes say, before it starts, which of the two
runs: both leave their results in the same slots and buffers.

What an iteration hands to the next one has slots of its own.  Of tables, the addresses are swapped
at the end of an iteration, so nothing is copied: the buffer that the body filled becomes the
carried one, and what was carried is filled next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from peffects.codegen.lower.accumulate import Decision, Strategy
from peffects.codegen.lower.block import BlockLowering
from peffects.codegen.lower.kernel import INPUT, KernelBuilder, TablePlace
from peffects.codegen.lower.partials import Accumulator
from peffects.codegen.lower.stages import LoopBuilder, StageBuilder, Stages
from peffects.codegen.lower.values import Value
from peffects.codegen.program.loop_ir import Expr, Local, PutSlot, Store, literal, plus, times
from peffects.codegen.program.loop_programs import (
    NO_SLOT,
    UNBOUNDED_NS,
    Const,
    HostLoop,
    SizeProduct,
    SizeSum,
    Within,
)
from peffects.ir.syntax import (
    BOOL,
    I64,
    Atom,
    Binding,
    Block,
    Fold,
    For,
    Idx,
    Lit,
    Scalar,
    Table,
    Var,
    While,
    WithAcc,
)
from peffects.ir.traverse import accumulated_refs
from peffects.ir.typing import set_of

__all__ = ["FEW", "HOSTED_FROM_NS", "HostLowering"]

Held: TypeAlias = Local | Lit | TablePlace | None
"""A part of an accumulator."""
HOSTED_FROM_NS = 500_000
"""Bodies with at least this much work are run by the launcher.  It takes up to 20 microseconds for
each of their stages, which two threads then have saved."""
FEW = 64
"""Parallel loops of fewer iterations, where that is known, are not worth a launch."""


class HostLowering(ABC):
    """Lowers sequential loops of the spine; what else the spine has, `program.py` does."""

    def __init__(self, stages: Stages) -> None:
        self.stages, self.scope = stages, stages.scope
        self.accumulators: dict[Var, Accumulator] = {}
        self.decisions: list[Decision] = []

    @abstractmethod
    def binding(self, binding: Binding) -> None:
        """Put one binding of the spine into stages."""

    @abstractmethod
    def serially(self, binding: Binding, places: Mapping[Var, TablePlace]) -> None:
        """Append a binding to the serial stage; its tables go to `places`, where there are any."""

    def lowering(self, k: KernelBuilder) -> BlockLowering:
        """What lowers blocks into the kernel `k`."""
        return BlockLowering(self.scope, k, self.stages.leaf)

    def decide(self, strategy: Strategy, subject: str, reason: str, binding: Binding) -> None:
        """Note a choice for `explain`."""
        self.decisions.append(Decision(strategy, subject, reason, binding.src))

    # --- loops --------------------------------------------------------------------------------

    def can_be_hosted(self, binding: Binding) -> bool:
        """Whether a sequential loop may run as stages."""
        expr = binding.expr
        if not isinstance(expr, Fold | While):
            return False
        types = [var.type for var in binding.vars]
        return _has_parallel_loops(expr.body) and not any(isinstance(t, Idx) for t in types)

    def hosted(self, binding: Binding) -> None:
        """Lower a sequential loop in both ways."""
        loop, stages = binding.expr, self.stages
        assert isinstance(loop, Fold | While)
        subject = "fold" if isinstance(loop, Fold) else "while"
        reason = "each iteration needs the one before; with much work, its loops run in parallel"
        self.decide(Strategy.HOSTED, subject, reason, binding)
        refs = list(accumulated_refs(Block((binding,), ())))
        stages.close()
        before = stages.serial()
        results = [self.result(var, before) for var in binding.vars]
        for ref in refs:
            self.share(ref, before)
        stages.close()
        work = SizeSum((stages.work(loop.body), *self.test_work(loop)))
        self.serial_way(binding, results, refs, Within(work, HOSTED_FROM_NS, UNBOUNDED_NS))
        _Hosted(self, binding, results, refs, Within(work, HOSTED_FROM_NS, UNBOUNDED_NS)).run()
        self.scope.values.update(zip(binding.vars, results, strict=True))

    def test_work(self, loop: Fold | While) -> Iterable[SizeSum]:
        """The work of the test of a `while`."""
        return (SizeSum((self.stages.work(loop.test),)),) if isinstance(loop, While) else ()

    def fixed(self, name: str, t: Scalar) -> Local:
        """A scalar in a slot that several stages write."""
        local = Local(name, t, INPUT)
        self.stages.frame.local_slots[local] = self.stages.frame.new_slot()
        return local

    def result(self, var: Var, stage: StageBuilder) -> Local | TablePlace:
        """Where both ways leave a result of the loop."""
        if isinstance(var.type, Table):
            return self.overwritten(var) or self.stages.table(var, stage)
        assert isinstance(var.type, Scalar)
        return self.fixed(var.name, var.type)

    def overwritten(self, var: Var) -> TablePlace | None:
        """The table in whose place `var`, a carry or a result, lies, if that is a buffer's start.

        A view begins at a place that is known in one kernel only.
        """
        source = self.scope.facts.overwriting.source.get(var)
        place = None if source is None else self.scope.values[source]
        return place if isinstance(place, TablePlace) and isinstance(place.offset, Lit) else None

    def share(self, ref: Var, stage: StageBuilder) -> None:
        """Bring an accumulator to where both ways, and all iterations, find it."""
        accumulator = self.accumulators[ref]
        lowering = self.lowering(stage.k)
        if isinstance(accumulator.value, TablePlace):
            accumulator.initialize(lowering)
            return
        value, low = accumulator.value, accumulator.low
        accumulator.value = self.fixed(ref.name, value.type)
        self.put(accumulator.value, value, stage.k)
        if low is not None:
            assert isinstance(low, Local | Lit)
            accumulator.low = self.fixed(f"{ref.name}_low", low.type)
            self.put(accumulator.low, low, stage.k)

    def put(self, local: Local, value: Value, k: KernelBuilder) -> None:
        """Write a scalar to its slot."""
        assert isinstance(value, Local | Lit)
        k.emit(PutSlot(self.stages.frame.slot_of(local), k.use(value)))

    def held(self, refs: Sequence[Var]) -> list[tuple[Held, Held]]:
        """Where accumulators are."""
        return [(self.accumulators[ref].value, self.accumulators[ref].low) for ref in refs]

    def put_back(
        self, refs: Sequence[Var], fixed: Sequence[tuple[Held, Held]], k: KernelBuilder
    ) -> None:
        """Write the accumulators that are scalars to their slots, where they were read."""
        for ref, (local, low) in zip(refs, fixed, strict=True):
            accumulator = self.accumulators[ref]
            if isinstance(local, Local):
                self.put(local, accumulator.value, k)
                accumulator.value = local
            if isinstance(low, Local):
                assert accumulator.low is not None
                self.put(low, accumulator.low, k)
                accumulator.low = low

    def serial_way(
        self,
        binding: Binding,
        results: Sequence[Local | TablePlace],
        refs: Sequence[Var],
        much: Within,
    ) -> None:
        """One kernel, for bodies with little work."""
        stages = self.stages
        fixed = self.held(refs)
        stage = stages.serial()
        stage.only = Within(much, 0, 1)
        pairs = list(zip(binding.vars, results, strict=True))
        self.serially(binding, {v: place for v, place in pairs if isinstance(place, TablePlace)})
        for var, result in pairs:
            if isinstance(result, Local):
                self.put(result, self.scope.values[var], stage.k)
        self.put_back(refs, fixed, stage.k)
        stages.close()


class _Hosted:
    """One sequential loop as a loop of the launcher."""

    def __init__(
        self,
        spine: HostLowering,
        binding: Binding,
        results: Sequence[Local | TablePlace],
        refs: Sequence[Var],
        only: Within,
    ) -> None:
        assert isinstance(binding.expr, Fold | While)
        self.spine, self.stages, self.scope = spine, spine.stages, spine.scope
        self.binding, self.loop = binding, binding.expr
        self.results, self.refs, self.only = results, refs, only
        self.carried: list[Local | TablePlace] = []

    def run(self) -> None:
        """Append the stages."""
        stages, loop = self.stages, self.loop
        fixed = self.spine.held(self.refs)
        self.start()
        builder = LoopBuilder(self.host_loop())
        binders = () if isinstance(loop, While) else (loop.binder,)
        with stages.looping(builder), self.scope.inside(binders):
            since = stages.count
            self.scope.values.update(zip(loop.carries, self.carried, strict=True))
            if isinstance(loop, While):
                self.test(loop, builder)
            for inner in loop.body.bindings:
                self.spine.binding(inner)
            stage = stages.serial()
            self.spine.put_back(self.refs, fixed, stage.k)
            self.next(stage, since)
        self.finish()

    def host_loop(self) -> HostLoop:
        """The loop without its stages."""
        loop, at = self.loop, self.binding.src
        self.stages.repeated.update(loop.carries)
        if isinstance(loop, While):
            slot = self.stages.frame.slot_of(self.spine.fixed("go_on", BOOL))
            return HostLoop(Const(0), NO_SLOT, (), at, go_on_slot=slot, only=self.only)
        index = self.spine.fixed(loop.binder.name, I64)
        self.scope.values[loop.binder] = index
        self.stages.repeated.add(loop.binder)
        (trip,) = self.stages.shape([set_of(loop.binder).size])
        slot = self.stages.frame.slot_of(index)
        return HostLoop(trip, slot, (), at, loop.reverse, only=self.only)

    def start(self) -> None:
        """A stage that sets what is carried to its start."""
        stage = self.stages.serial()
        stage.only = self.only
        lowering = self.spine.lowering(stage.k)
        for carry, init in zip(self.loop.carries, self.loop.inits, strict=True):
            if isinstance(carry.type, Table):
                assert isinstance(init, Var)
                place = self.spine.overwritten(carry)
                if place is None:
                    place = self.stages.table(carry, stage)
                    lowering.copy(place, lowering.place(init))
                    stage.work += (SizeProduct(self.stages.shape(place.dims)),)
                self.carried.append(place)
            else:
                t = I64 if isinstance(carry.type, Idx) else carry.type
                assert isinstance(t, Scalar)
                local = self.spine.fixed(carry.name, t)
                self.spine.put(local, self.value(init), stage.k)
                self.carried.append(local)
        self.stages.close()

    def value(self, atom: Atom) -> Value:
        return self.scope.values[atom] if isinstance(atom, Var) else atom

    def test(self, loop: While, builder: LoopBuilder) -> None:
        """The stages that say whether there is another iteration."""
        for inner in loop.test.bindings:
            self.spine.binding(inner)
        stage = self.stages.serial()
        (go_on,) = loop.test.results
        value = self.value(go_on)
        assert isinstance(value, Local | Lit)
        stage.k.emit(PutSlot(builder.loop.go_on_slot, stage.k.use(value)))
        self.stages.tested(builder)

    def next(self, stage: StageBuilder, since: int) -> None:
        """The end of an iteration: outputs are stored, and the next values are carried."""
        loop, k = self.loop, stage.k
        lowering = self.spine.lowering(k)
        count = len(loop.carries)
        outputs = zip(loop.body.results[count:], self.results[count:], strict=True)
        for atom, result in outputs:
            self.output(atom, result, lowering)
        taken: set[int] = set()
        writes: list[PutSlot] = []
        for carry, atom in zip(self.carried, loop.body.results[:count], strict=True):
            if isinstance(carry, Local):
                value = self.value(atom)
                assert isinstance(value, Local | Lit)
                writes.append(PutSlot(self.stages.frame.slot_of(carry), k.use(value)))
                continue
            assert isinstance(atom, Var)
            source = self.scope.values[atom]
            assert isinstance(source, TablePlace)
            if source == carry:
                continue
            if source.memory.slot in taken or not self.stages.is_new(source, since):
                copy = self.stages.buffer(atom.name, source.memory.elem, source.dims, stage)
                lowering.copy(copy, lowering.place(atom))
                source = copy
            taken.add(source.memory.slot)
            writes += self.swapped(carry, source, k)
        k.body += writes

    def swapped(self, carry: TablePlace, new: TablePlace, k: KernelBuilder) -> list[PutSlot]:
        """Exchange the addresses of two buffers."""
        slots = (carry.memory.slot, new.memory.slot)
        first, second = (k.read_slot(slot, "at", I64) for slot in slots)
        return [PutSlot(slots[0], second), PutSlot(slots[1], first)]

    def output(self, atom: Atom, result: Local | TablePlace, lowering: BlockLowering) -> None:
        """Store what an iteration gives into its row of a result."""
        loop, k = self.loop, lowering.k
        assert isinstance(loop, Fold) and isinstance(result, TablePlace)
        index = lowering.scalar(loop.binder)
        if isinstance(atom.type, Table):
            assert isinstance(atom, Var)
            rest = result.dims[1:]
            at: Expr = times(index, lowering.elements(rest))
            row = TablePlace(result.memory, k.operand("row", at), rest)
            lowering.copy(row, lowering.place(atom))
        else:
            k.emit(Store(result.memory, plus(literal(0), index), lowering.scalar(atom)))

    def finish(self) -> None:
        """A stage that brings what was carried last to where the results are."""
        stage = self.stages.serial()
        stage.only = self.only
        lowering = self.spine.lowering(stage.k)
        for carry, result in zip(self.carried, self.results, strict=False):
            if isinstance(result, TablePlace):
                assert isinstance(carry, TablePlace)
                if result == carry:
                    continue
                lowering.copy(result, carry)
                stage.work += (SizeProduct(self.stages.shape(result.dims)),)
            else:
                self.spine.put(result, carry, stage.k)
        self.stages.close()


def _has_parallel_loops(block: Block) -> bool:
    """Whether the spine of a loop's body has parallel loops that may be long."""
    for binding in block.bindings:
        match binding.expr:
            case For(binders, _):
                sizes = [set_of(binder).size for binder in binders]
                if not all(isinstance(size, Lit) and size.value < FEW for size in sizes):
                    return True
            case WithAcc(_, body) | Fold(body=body) | While(body=body):
                if _has_parallel_loops(body):
                    return True
            case _:
                pass
    return False
