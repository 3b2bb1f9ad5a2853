"""From a program to stages and kernels.

The *spine* of a program is its outermost bindings, those of outermost `with_acc` regions among
them.  Each `for` on the spine becomes a parallel stage; runs of other bindings become serial stages
of one chunk.  What crosses stages, scalars in slots and tables in buffers, is what later kernels
ask for.  Accumulations into references of the spine follow `lower_accumulate.py`; partial results
of chunks are combined, in the order of the chunks, by a stage after the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from peffects.codegen.loop_ir import (
    START,
    STOP,
    Apply,
    Assign,
    Axis,
    Branch,
    Combine,
    Expr,
    Kernel,
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
    NO_SLOT,
    REDUCING,
    SERIAL,
    Buffer,
    ChunkRule,
    Const,
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
    Sum,
)
from peffects.codegen.lower_accumulate import Choice, Decision, Strategy, choose
from peffects.codegen.lower_block import BlockLowering, Scope, Target, Value
from peffects.codegen.lower_facts import Facts, work_of
from peffects.codegen.lower_kernel import INPUT, Frame, KernelBuilder, Place
from peffects.ir import primitives as p
from peffects.ir.evaluate import identity_of
from peffects.ir.syntax import (
    BOOL,
    I64,
    Atom,
    Binding,
    Block,
    Fold,
    For,
    Index,
    Lit,
    Monoid,
    Program,
    Ref,
    Scalar,
    Table,
    Var,
    While,
    WithAcc,
)
from peffects.ir.traverse import accumulated_refs, blocks_of, expr_free_vars
from peffects.ir.typing import set_of, value_of

__all__ = ["Lowered", "lower"]

_BETWEEN = -2
"""The number of the current kernel between two stages: all values are known."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A loop program and its kernels, not yet text; what was decided on the way."""

    loop_program: LoopProgram
    kernels: tuple[Kernel, ...]
    decisions: tuple[Decision, ...]


@dataclass(slots=True)
class _Accumulator:
    """A reference of the spine: its value so far, a scalar or a table in memory."""

    monoid: Monoid
    identity: Lit
    value: Local | Lit | Place
    fresh: bool = True

    @property
    def elem(self) -> Scalar:
        """The type of its elements."""
        return self.identity.type


@dataclass(slots=True)
class _Partial:
    """What the chunks of a loop leave for an accumulator."""

    accumulator: _Accumulator
    parts: Memory
    shape: tuple[SizeExpr, ...]


@dataclass(slots=True)
class _Stage:
    """A stage whose kernel may still get exports."""

    k: KernelBuilder
    axes: tuple[Axis, ...] = ()
    cheap: bool = False
    trip: SizeExpr = Const(1)
    rule: ChunkRule = SERIAL
    work: tuple[SizeExpr, ...] = ()
    chunks_slot: int = NO_SLOT


def lower(program: Program) -> Lowered:
    """Lower a checked program.  The inputs are its parameters, then its sizes."""
    spine = _Spine(program)
    for binding in program.body.bindings:
        spine.binding(binding)
    return spine.finish()


class _Spine:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.scope = Scope(Facts.of(program))
        self.frame = Frame()
        self.stages: list[_Stage] = []
        self.serial: _Stage | None = None
        self.current = _BETWEEN
        self.accumulators: dict[Var, _Accumulator] = {}
        self.decisions: list[Decision] = []
        self.returned: set[int] = set()
        self.waiting: list[Buffer] = []
        self.inputs = self._inputs()

    def _inputs(self) -> tuple[Input, ...]:
        found: list[Input] = []
        for param in self.program.params:
            if isinstance(param.type, Table):
                memory = self.frame.memory(param.name, param.type.elem)
                dims = tuple(dim.size for dim in param.type.dims)
                self.scope.values[param] = Place(memory, literal(0), dims)
                found.append(InputArray(memory.slot, param.type.elem.dtype, len(dims)))
                continue
            assert isinstance(param.type, Scalar)
            local = self.frame.input(param.name, param.type)
            self.scope.values[param] = local
            found.append(InputScalar(self.frame.slot_of(local), param.type.dtype))
        for size in self.program.sizes:
            local = self.frame.input(size.var.name, I64)
            self.scope.values[size.var] = local
            found.append(InputSize(self.frame.slot_of(local)))
        return tuple(found)

    # --- sizes --------------------------------------------------------------------------------

    def leaf(self, atom: Atom) -> SizeExpr | None:
        """The size that `atom` is before the current stage runs, if it is known then."""
        value = atom if isinstance(atom, Lit) else self.scope.values.get(atom)
        if isinstance(value, Lit):
            return Const(int(value.value))
        if isinstance(value, Local) and value.kernel not in (self.current, -1):
            return SlotSize(self.frame.slot_of(value))
        return None

    def shape(self, dims: Sequence[Atom]) -> tuple[SizeExpr, ...]:
        """The shape of a table of the spine."""
        found = tuple(map(self.leaf, dims))
        assert None not in found, "sizes on the spine are computed by earlier stages"
        return found  # type: ignore[return-value]  # none is None

    def work(self, block: Block) -> SizeExpr:
        """The estimated time of one run of `block`."""
        return work_of(block, self.scope.facts, self.leaf)

    # --- stages -------------------------------------------------------------------------------

    def open(self, at: Binding | None = None) -> _Stage:
        """A new stage."""
        self.flush()
        self.current = len(self.stages) + 1
        k = KernelBuilder(self.frame, self.current, at.src if at else self.program.src)
        stage = _Stage(k)
        self.stages.append(stage)
        k.buffers, self.waiting = self.waiting, []
        return stage

    def serial_stage(self) -> _Stage:
        """The serial stage that runs next, which is open for more statements."""
        if self.serial is None:
            self.serial = self.open()
        self.current = self.serial.k.number
        return self.serial

    def flush(self) -> None:
        """Close the open serial stage: what follows runs after it."""
        self.serial = None
        self.current = _BETWEEN

    def table(self, var: Var, stage: _Stage) -> Place:
        """A buffer for a table of the spine, allocated when `stage` starts."""
        assert isinstance(var.type, Table)
        dims = tuple(dim.size for dim in var.type.dims)
        return self.buffer(var.name, var.type.elem, dims, stage)

    def buffer(
        self, name: str, elem: Scalar, dims: tuple[Atom, ...], stage: _Stage | None
    ) -> Place:
        """A buffer that lives until the program ends, made by `stage` or by the next one."""
        memory = self.frame.memory(name, elem)
        at = stage.k.at if stage else self.program.src
        buffer = Buffer(memory.slot, elem.dtype, self.shape(dims), Role.TEMPORARY, at)
        (stage.k.buffers if stage else self.waiting).append(buffer)
        return Place(memory, literal(0), dims)

    # --- bindings -----------------------------------------------------------------------------

    def binding(self, binding: Binding) -> None:
        """Put one binding of the spine into stages."""
        match binding.expr:
            case For() as loop:
                self.parallel(loop, binding)
            case WithAcc(refs, body):
                self.with_acc(refs, body, binding)
            case _:
                self.serially(binding)

    def serially(self, binding: Binding) -> None:
        """Append a binding to the serial stage."""
        expr = binding.expr
        if blocks_of(expr) and any(self._is_open(var) for var in expr_free_vars(expr)):
            self.flush()  # sizes must be known before the stage that needs them
        stage = self.serial_stage()
        lowering = BlockLowering(self.scope, stage.k, self.leaf)
        refs = accumulated_refs(Block((binding,), ()))
        for ref in refs:
            self.scope.values[ref] = self.serial_target(ref, lowering)
        made = () if isinstance(expr, Index) else binding.vars
        wanted = {v: self.table(v, stage) for v in made if isinstance(v.type, Table)}
        lowering.binding(binding, wanted)
        for var in binding.vars:
            value = self.scope.values[var]
            if not isinstance(value, Local | Lit | Place | Target):
                self.scope.values[var] = stage.k.assign(var.name, value)
        for ref in refs:
            target = self.scope.values[ref]
            assert isinstance(target, Target)
            self.accumulators[ref].value = target.at
            self.accumulators[ref].fresh = False
        stage.work += (self.work(Block((binding,), ())),)
        if isinstance(expr, Fold | While):
            reason = "each iteration needs the one before"
            name = binding.vars[0].name if binding.vars else ""
            self.decisions.append(Decision(Strategy.SERIAL, name, reason, binding.src))

    def _is_open(self, var: Var) -> bool:
        value = self.scope.values.get(var)
        return (
            self.serial is not None
            and isinstance(value, Local)
            and value.type == I64
            and value.kernel == self.serial.k.number
        )

    def serial_target(self, ref: Var, lowering: BlockLowering) -> Target:
        """The accumulator `ref` as the serial stage sees it."""
        accumulator = self.accumulators[ref]
        value = accumulator.value
        if isinstance(value, Place):
            self.initialize(accumulator, lowering)
            return Target(accumulator.monoid, value)
        if not (isinstance(value, Local) and value.kernel == lowering.k.number):
            value = lowering.k.assign(ref.name, lowering.k.use(value))
        return Target(accumulator.monoid, value)

    def initialize(self, accumulator: _Accumulator, lowering: BlockLowering) -> None:
        """Set a table that nothing was accumulated into to the identity."""
        if accumulator.fresh and isinstance(accumulator.value, Place):
            lowering.fill(accumulator.value, accumulator.identity)
            accumulator.fresh = False

    def with_acc(self, refs: tuple[Var, ...], body: Block, binding: Binding) -> None:
        """The references become slots and buffers; the body is more of the spine."""
        for ref in refs:
            assert isinstance(ref.type, Ref)
            held, monoid = value_of(ref), ref.type.monoid
            elem = held if isinstance(held, Scalar) else held.elem
            identity = Lit(identity_of(monoid, elem), elem)
            value: Lit | Place = identity
            if isinstance(held, Table):
                dims = tuple(dim.size for dim in held.dims)
                if any(self._is_open(x) for x in dims if isinstance(x, Var)):
                    self.flush()
                value = self.buffer(ref.name, elem, dims, self.serial)
            self.accumulators[ref] = _Accumulator(monoid, identity, value)
        for inner in body.bindings:
            self.binding(inner)
        results = [self.scope.values[x] if isinstance(x, Var) else x for x in body.results]
        for ref in refs:
            accumulator = self.accumulators[ref]
            if isinstance(accumulator.value, Place) and accumulator.fresh:
                k = self.serial_stage().k
                self.initialize(accumulator, BlockLowering(self.scope, k, self.leaf))
            results.append(accumulator.value)
        self.scope.values.update(zip(binding.vars, results, strict=True))

    # --- parallel loops -----------------------------------------------------------------------

    def parallel(self, loop: For, binding: Binding) -> None:
        """A parallel stage for a loop of the spine, and one that combines what chunks leave."""
        refs = list(accumulated_refs(loop.body))
        choices = {ref: choose(ref, loop, self.scope.facts) for ref in refs}
        for ref, choice in choices.items():
            reason = f"{choice.reason}"
            subject = f"{ref.name} {self.accumulators[ref].monoid.value}="
            self.decisions.append(Decision(choice.strategy, subject, reason, binding.src))
            self._initialize_scattered(ref, choice, loop)
        stage = self.open(binding)
        k = stage.k
        lowering = BlockLowering(self.scope, k, self.leaf)
        sizes = [set_of(binder).size for binder in loop.binders]
        stage.axes = tuple(
            Axis(k.local(b.name, I64), lowering.scalar(n))
            for b, n in zip(loop.binders, sizes, strict=True)
        )
        self.scope.values.update(
            (binder, axis.index) for binder, axis in zip(loop.binders, stage.axes, strict=True)
        )
        stage.trip = Product(self.shape(sizes))
        stage.work = (Product((stage.trip, self.work(loop.body))),)
        stage.cheap = _is_cheap(loop.body)
        places = [self.table(var, stage) for var in binding.vars]
        partials = [
            self._reduced(ref, lowering)
            for ref, choice in choices.items()
            if choice.strategy is not Strategy.DIRECT
        ]
        stage.rule = REDUCING if partials else FREE
        with lowering.looping(False, k.body):
            self._initialize_rows(choices, loop, lowering, stage.axes)
            offsets = self._row_offsets(places, stage.axes, lowering)
            lowering.rows(loop.body, offsets, places, len(stage.axes))
        self.scope.values.update(zip(binding.vars, places, strict=True))
        self.current = _BETWEEN
        if partials:
            stage.chunks_slot = self.frame.new_slot()
            self.combine(partials, stage, binding)

    def _row_offsets(
        self, places: Sequence[Place], axes: Sequence[Axis], lowering: BlockLowering
    ) -> list[Expr | None]:
        """Where the results of an iteration go."""
        offsets: list[Expr | None] = []
        for place in places:
            rest = place.dims[len(axes) :]
            at = times(_flat(axes), lowering.elements(rest))
            offsets.append(lowering.k.operand("row", at) if rest else at)
        return offsets

    # --- accumulations in parallel loops ------------------------------------------------------

    def _initialize_scattered(self, ref: Var, choice: Choice, loop: For) -> None:
        """Before a direct accumulation that leaves elements out, set all to the identity."""
        accumulator = self.accumulators[ref]
        if choice.strategy is Strategy.DIRECT and not _covers(choice, loop, accumulator):
            k = self.serial_stage().k
            self.initialize(accumulator, BlockLowering(self.scope, k, self.leaf))

    def _initialize_rows(
        self,
        choices: dict[Var, Choice],
        loop: For,
        lowering: BlockLowering,
        axes: Sequence[Axis],
    ) -> None:
        """Bind references of direct accumulations; iterations set rows of new tables themselves."""
        for ref, choice in choices.items():
            accumulator = self.accumulators[ref]
            place = accumulator.value
            if choice.strategy is not Strategy.DIRECT:
                continue
            assert isinstance(place, Place), "a direct accumulation has indices"
            self.scope.values[ref] = Target(accumulator.monoid, place)
            if accumulator.fresh:
                accumulator.fresh = False
                rest = place.dims[len(axes) :]
                at = times(_flat(axes), lowering.elements(rest))
                if rest:
                    row = Place(place.memory, lowering.k.operand("row", at), rest)
                    lowering.fill(row, accumulator.identity)
                else:
                    lowering.k.emit(Store(place.memory, at, accumulator.identity))

    def _reduced(self, ref: Var, lowering: BlockLowering) -> _Partial:
        """Let each chunk accumulate on its own: in a local, or in its own copy of the table."""
        k, accumulator = lowering.k, self.accumulators[ref]
        name, elem, identity = f"{ref.name}_part", accumulator.elem, accumulator.identity
        value = accumulator.value
        if isinstance(value, Place):
            shape = self.shape(value.dims)
            parts = k.part(name, elem, shape, Role.PARTIALS)
            place = Place(parts, literal(0), value.dims)
            with k.into(k.prologue):
                lowering.fill(place, identity)
            self.scope.values[ref] = Target(accumulator.monoid, place)
            return _Partial(accumulator, parts, shape)
        parts = k.part(name, elem, (), Role.PARTIALS)
        total = k.local(ref.name, elem)
        k.prologue.append(Assign(total, identity))
        k.epilogue.append(Store(parts, literal(0), total))
        self.scope.values[ref] = Target(accumulator.monoid, total)
        return _Partial(accumulator, parts, ())

    # --- combining ----------------------------------------------------------------------------

    def combine(self, partials: list[_Partial], loop: _Stage, binding: Binding) -> None:
        """Combine the parts that the chunks of `loop` left, in the order of the chunks."""
        if not any(isinstance(partial.accumulator.value, Place) for partial in partials):
            stage = self.serial_stage()
            chunks = stage.k.read_slot(loop.chunks_slot, "chunks", I64)
            for partial in partials:
                partial.accumulator.value = self._total(partial, chunks, stage.k)
            stage.work += (Const(MOST_PARTIALS),)
            return
        stage = self.open(binding)
        k = stage.k
        chunks = k.read_slot(loop.chunks_slot, "chunks", I64)
        base: Expr = literal(0)
        for partial in partials:
            size = k.size(Product(partial.shape))
            first = k.assign("first", Apply(p.MAX, (_minus(START, base), literal(0)), I64))
            last = k.assign("last", Apply(p.MIN, (_minus(STOP, base), size), I64))
            self._combine_range(partial, chunks, first, last, k)
            base = plus(base, size)
        stage.trip = Sum(tuple(Product(partial.shape) for partial in partials))
        stage.work = (Product((stage.trip, SlotSize(loop.chunks_slot))),)
        stage.rule = FREE
        self.current = _BETWEEN

    def _total(self, partial: _Partial, chunks: Local, k: KernelBuilder) -> Local:
        """All parts of a scalar, and what it was before."""
        accumulator = partial.accumulator
        assert not isinstance(accumulator.value, Place)
        total = k.assign("total", k.use(accumulator.value))
        chunk, parts = k.local("c", I64), _all_parts(partial.parts)
        more = Combine(accumulator.monoid, total, Read(parts, chunk), accumulator.elem, True)
        k.emit(Loop(chunk, literal(0), chunks, (Assign(total, more),)))
        return total

    def _combine_range(
        self, partial: _Partial, chunks: Local, first: Local, last: Local, k: KernelBuilder
    ) -> None:
        """Combine the parts of the elements first .. last-1."""
        accumulator, place = partial.accumulator, partial.accumulator.value
        if not isinstance(place, Place):
            body = list[Stmt]()
            slot = self.frame.new_slot()
            with k.into(body):
                k.emit(PutSlot(slot, self._total(partial, chunks, k)))
            k.emit(Branch(Apply(p.LT, (first, last), BOOL), tuple(body), ()))
            total = Local("total", accumulator.elem, INPUT)
            self.frame.local_slots[total] = slot
            accumulator.value = total
            return
        parts, out = _all_parts(partial.parts), place.memory
        if accumulator.fresh:
            e = k.local("e", I64)
            k.emit(Loop(e, first, last, (Store(out, e, Read(parts, e)),)))
        size = k.size(Product(partial.shape))
        chunk, e = k.local("c", I64), k.local("e", I64)
        value = Read(parts, plus(times(chunk, size), e))
        total = Combine(accumulator.monoid, Read(out, e), value, accumulator.elem, True)
        body = [Loop(e, first, last, (Store(out, e, total),))]
        k.emit(Loop(chunk, literal(int(accumulator.fresh)), chunks, tuple(body)))
        accumulator.fresh = False

    # --- results ------------------------------------------------------------------------------

    def finish(self) -> Lowered:
        """Bring the results to slots and buffers, and put all together."""
        outputs = [self.output(atom) for atom in self.program.body.results]
        launches, kernels = [], []
        for number, stage in enumerate(self.stages):
            kernel = stage.k.kernel(f"{_kernel_name(self.program.name)}_{number}", stage.axes,
                                    stage.cheap)  # fmt: skip
            kernels.append(kernel)
            launches.append(self._launch(stage, kernel.name))
        loop_program = LoopProgram(
            self.program.name,
            self.frame.slots,
            self.inputs,
            tuple(launches),
            tuple(outputs),
            tuple(self.scope.failures),
            self.program.src,
        )
        return Lowered(loop_program, tuple(kernels), tuple(self.decisions))

    def _launch(self, stage: _Stage, kernel: str) -> Launch:
        buffers = tuple(
            replace(buffer, role=Role.OUTPUT) if buffer.slot in self.returned else buffer
            for buffer in stage.k.buffers
        )
        return Launch(
            kernel, stage.trip, stage.rule, buffers, Sum(stage.work), stage.chunks_slot, stage.k.at
        )

    def output(self, atom: Atom) -> Output:
        """One result of the program."""
        value: Value = self.scope.values[atom] if isinstance(atom, Var) else atom
        if isinstance(value, Place):
            assert isinstance(atom.type, Table)
            place = self._own(value, atom)
            self.returned.add(place.memory.slot)
            return OutputBuffer(place.memory.slot, atom.type.elem.dtype, self.shape(place.dims))
        assert isinstance(value, Local | Lit)
        if isinstance(value, Lit):
            value = self.serial_stage().k.assign("result", value)
        return OutputScalar(self.frame.slot_of(value), value.type.dtype)

    def _own(self, place: Place, atom: Atom) -> Place:
        """A place that only this result has: the table's own, if it has one, or a copy."""
        slot = place.memory.slot
        owned = [buffer for stage in self.stages for buffer in stage.k.buffers]
        shape = next((buffer.shape for buffer in owned if buffer.slot == slot), None)
        if (
            slot not in self.returned
            and place.offset == literal(0)
            and shape == self.shape(place.dims)
        ):
            return place
        assert isinstance(atom, Var)
        if any(self._is_open(x) for x in place.dims if isinstance(x, Var)):
            self.flush()
        stage = self.serial_stage()
        copy = self.buffer(atom.name, place.memory.elem, place.dims, stage)
        lowering = BlockLowering(self.scope, stage.k, self.leaf)
        lowering.copy(copy, lowering.place(atom))
        return copy


def _kernel_name(name: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name).strip("_") or "kernel"


def _all_parts(memory: Memory) -> Memory:
    """The parts of all chunks, one after the other."""
    return Memory(memory.name, memory.elem, memory.slot, memory.number)


def _minus(left: Expr, right: Expr) -> Expr:
    return left if right == literal(0) else Apply(p.SUB, (left, right), I64)


def _flat(axes: Sequence[Axis]) -> Expr:
    """The row-major number of an iteration."""
    flat: Expr = literal(0)
    for axis in axes:
        flat = plus(times(flat, axis.size), axis.index)
    return flat


def _covers(choice: Choice, loop: For, accumulator: _Accumulator) -> bool:
    """Whether each iteration owns one row of the table, and each row is one's."""
    if not isinstance(accumulator.value, Place):
        return False
    sizes = tuple(set_of(binder).size for binder in loop.binders)
    return choice.axes == tuple(range(len(sizes))) and accumulator.value.dims[: len(sizes)] == sizes


def _is_cheap(body: Block) -> bool:
    """Whether an iteration has no loops in it."""
    return not any(
        isinstance(binding.expr, For | Fold | While)
        or any(isinstance(var.type, Table | Ref) for var in binding.vars)
        or not all(_is_cheap(block) for block in blocks_of(binding.expr))
        for binding in body.bindings
    )
