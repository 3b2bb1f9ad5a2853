"""From a program to stages and kernels.

The *spine* of a program is its outermost bindings, those of outermost `with_acc` regions among
them.  Each `for` on the spine becomes a parallel stage; runs of other bindings become serial stages
of one chunk.  What crosses stages, scalars in slots and tables in buffers, is what later kernels
ask for.  Accumulations into references of the spine follow `accumulate.py`; partial results
of chunks are combined by `partials.py`.  What happens inside a stage is `block.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from peffects.codegen.lower.accumulate import Choice, Decision, Strategy, choose, piles_up
from peffects.codegen.lower.block import BlockLowering
from peffects.codegen.lower.dense_sums import add_in_blocks, is_dense
from peffects.codegen.lower.facts import Uses, has_no_loops
from peffects.codegen.lower.host import HostLowering
from peffects.codegen.lower.kernel import Frame, TablePlace, identifier
from peffects.codegen.lower.partials import Accumulator, combine, start_partial
from peffects.codegen.lower.products import (
    LEAST_OPERATIONS,
    multiply,
    operations,
)
from peffects.codegen.lower.stages import StageBuilder, Stages
from peffects.codegen.lower.strip_mining import strip_mine
from peffects.codegen.lower.sums import is_wide_sum, rounded
from peffects.codegen.lower.values import ProgramScope, Target, Value
from peffects.codegen.program.loop_ir import (
    START,
    STOP,
    Axis,
    Expr,
    Local,
    LoopKernel,
    Memory,
    Store,
    literal,
    plus,
    times,
)
from peffects.codegen.program.loop_programs import (
    FREE,
    REDUCING,
    UNLIMITED,
    Input,
    InputArray,
    InputScalar,
    InputSize,
    LoopProgram,
    Output,
    OutputBuffer,
    OutputScalar,
    SizeProduct,
    Within,
)
from peffects.ir.evaluate import identity_of
from peffects.ir.products import MatrixProduct, matrix_product
from peffects.ir.running import widen
from peffects.ir.syntax import (
    F64,
    I64,
    Atom,
    Binding,
    Block,
    Cond,
    Fold,
    For,
    Index,
    Lit,
    Program,
    Ref,
    Scalar,
    Table,
    Update,
    Var,
    While,
    WithAcc,
)
from peffects.ir.traverse import accumulated_refs, blocks_of, expr_free_vars
from peffects.ir.typing import set_of, value_of

__all__ = ["LoweredProgram", "lower"]


@dataclass(frozen=True, slots=True)
class LoweredProgram:
    """A loop program and its kernels, not yet text; what was decided on the way."""

    loop_program: LoopProgram
    kernels: tuple[LoopKernel, ...]
    decisions: tuple[Decision, ...]


def lower(program: Program) -> LoweredProgram:
    """Lower a checked program.  The inputs are its parameters, then its sizes."""
    program = widen(program)
    frame = Frame()
    scope = ProgramScope(Uses.of(program))
    inputs = _bind_inputs(program, scope, frame)
    spine = _Spine(Stages(scope, frame, program.src))
    for binding in program.body.bindings:
        spine.binding(binding)
    outputs = tuple(spine.output(atom) for atom in program.body.results)
    launches, kernels = spine.stages.finish(identifier(program.name), spine.returned)
    loop_program = LoopProgram(
        program.name,
        frame.slots,
        inputs,
        launches,
        outputs,
        tuple(scope.failures),
        program.src,
        tuple(spine.product_dtypes),
    )
    return LoweredProgram(loop_program, kernels, tuple(spine.decisions))


def _bind_inputs(program: Program, scope: ProgramScope, frame: Frame) -> tuple[Input, ...]:
    found: list[Input] = []
    for param in program.params:
        if isinstance(param.type, Table):
            memory = frame.memory(param.name, param.type.elem)
            dims = tuple(dim.size for dim in param.type.dims)
            scope.values[param] = TablePlace(memory, literal(0), dims)
            found.append(InputArray(memory.slot, param.type.elem.dtype, len(dims)))
            continue
        assert isinstance(param.type, Scalar)
        local = frame.input(param.name, param.type)
        scope.values[param] = local
        found.append(InputScalar(frame.slot_of(local), param.type.dtype))
    for size in program.sizes:
        local = frame.input(size.var.name, I64)
        scope.values[size.var] = local
        found.append(InputSize(frame.slot_of(local)))
    return tuple(found)


_NO_PLACES: Mapping[Var, TablePlace] = {}


class _Spine(HostLowering):
    def __init__(self, stages: Stages) -> None:
        super().__init__(stages)
        self.returned: set[int] = set()
        self.product_dtypes: dict[str, None] = {}

    # --- bindings -----------------------------------------------------------------------------

    def binding(self, binding: Binding) -> None:
        """Put one binding of the spine into stages."""
        if not isinstance(binding.expr, WithAcc):
            self.decide_updates(binding)
        product = matrix_product(binding)
        if product is not None:
            self.product(product, binding)
            return
        match binding.expr:
            case For() as loop:
                self.parallel(loop, binding)
            case WithAcc(refs, body):
                self.with_acc(refs, body, binding)
            case Fold() | While() if self.can_be_hosted(binding):
                self.hosted(binding)
            case _:
                self.serially(binding)

    def serially(self, binding: Binding, places: Mapping[Var, TablePlace] = _NO_PLACES) -> None:
        """Append a binding to the serial stage; its tables go to `places`, where there are any."""
        expr = binding.expr
        if blocks_of(expr):
            self.stages.close_if_computed(list(expr_free_vars(expr)))
        stage = self.stages.serial()
        lowering = self.lowering(stage.k)
        refs = accumulated_refs(Block((binding,), ()))
        for ref in refs:
            self.scope.values[ref] = self.serial_target(ref, lowering)
        placed = self.scope.facts.overwriting.source
        made = () if isinstance(expr, Index) else [v for v in binding.vars if v not in placed]
        wanted = {
            v: places.get(v) or self.stages.table(v, stage)
            for v in made
            if isinstance(v.type, Table)
        }
        lowering.binding(binding, wanted)
        for var in binding.vars:
            value = self.scope.values[var]
            if var in places and isinstance(value, TablePlace) and value != places[var]:
                lowering.copy(places[var], lowering.place(var))
            if not isinstance(value, Local | Lit | TablePlace | Target):
                self.scope.values[var] = stage.k.assign(var.name, value)
        for ref in refs:
            target = self.scope.values[ref]
            assert isinstance(target, Target)
            if target.part is not None:
                assert not isinstance(target.low, Memory)
                lowering.flush(target)
                self.accumulators[ref].low = target.low
            self.accumulators[ref].value = target.at
        stage.work += (self.stages.work(Block((binding,), ())),)
        if isinstance(expr, Fold | While) and not self.can_be_hosted(binding):
            reason = "each iteration needs the one before; loops in it run in the same thread"
            self.decide(
                Strategy.SERIAL, "fold" if isinstance(expr, Fold) else "while", reason, binding
            )
        elif isinstance(expr, Cond) and not has_no_loops(Block((binding,), ())):
            reason = "loops in branches run in one thread"
            self.decide(Strategy.SERIAL, "cond", reason, binding)

    def serial_target(self, ref: Var, lowering: BlockLowering) -> Target:
        """The accumulator `ref` as the serial stage sees it."""
        accumulator, k = self.accumulators[ref], lowering.k
        value, low = accumulator.value, accumulator.low
        if isinstance(value, TablePlace):
            accumulator.initialize(lowering)
            return accumulator.target
        if is_wide_sum(accumulator.monoid, accumulator.elem):
            assert not isinstance(low, TablePlace)
            total = k.assign(f"{ref.name}_total", k.use(value))
            less = None if low is None else k.assign(f"{ref.name}_low", k.use(low))
            part = k.assign(ref.name, Lit(0.0, accumulator.elem))
            return Target(accumulator.monoid, total, low=less, part=part)
        if not (isinstance(value, Local) and value.kernel == k.number):
            value = k.assign(ref.name, k.use(value))
        return Target(accumulator.monoid, value)

    def with_acc(self, refs: tuple[Var, ...], body: Block, binding: Binding) -> None:
        """The references become slots and buffers; the body is more of the spine."""
        for ref in refs:
            self.accumulators[ref] = self.accumulator(ref, body)
        for inner in body.bindings:
            self.binding(inner)
        results = [self.scope.values[x] if isinstance(x, Var) else x for x in body.results]
        for ref in refs:
            results.append(self.final(ref))
        self.scope.values.update(zip(binding.vars, results, strict=True))

    def accumulator(self, ref: Var, body: Block) -> Accumulator:
        """A reference of the spine that nothing was accumulated into."""
        assert isinstance(ref.type, Ref)
        held, monoid = value_of(ref), ref.type.monoid
        elem = held if isinstance(held, Scalar) else held.elem
        is_wide, low = is_wide_sum(monoid, elem), None
        if isinstance(held, Scalar):
            zero = Lit(identity_of(monoid, F64 if is_wide else elem), F64 if is_wide else elem)
            return Accumulator(monoid, elem, zero, zero if is_wide and elem == F64 else None)
        dims = tuple(dim.size for dim in held.dims)
        self.stages.close_if_computed(dims)
        is_wide = is_wide and self.piles_up_in_place(ref, body)
        place = self.stages.buffer(ref.name, F64 if is_wide else elem, dims)
        if is_wide and elem == F64:
            low = self.stages.buffer(f"{ref.name}_low", F64, dims)
        return Accumulator(monoid, elem, place, low)

    def piles_up_in_place(self, ref: Var, body: Block) -> bool:
        """Whether elements may get many values in other ways than by chunks that are combined."""
        held, found = value_of(ref), False
        for binding in body.bindings:
            if ref not in accumulated_refs(Block((binding,), ())):
                continue
            product = matrix_product(binding)
            match binding.expr:
                case _ if product is not None:
                    if isinstance(held, Table) and held.elem != F64:
                        return False  # its kernels add to numbers of their own type
                case For(binders, inner) as loop:
                    choice = choose(ref, loop, self.scope.facts)
                    if choice.strategy is Strategy.DIRECT:
                        found |= piles_up(ref, inner, self.scope.facts, binders)
                case WithAcc(_, inner):
                    found |= self.piles_up_in_place(ref, inner)
                case _:
                    found |= piles_up(ref, Block((binding,), ()), self.scope.facts)
        return found

    def final(self, ref: Var) -> Local | Lit | TablePlace:
        """The final value of a reference of the spine."""
        accumulator = self.accumulators[ref]
        value, low, elem = accumulator.value, accumulator.low, accumulator.elem
        if not isinstance(value, TablePlace):
            if isinstance(value, Lit):
                return Lit(value.value, elem)
            k = self.stages.serial().k
            assert not isinstance(low, TablePlace)
            lost = None if low is None else k.use(low)
            return k.operand(ref.name, rounded(k.use(value), lost, elem))
        if accumulator.fresh:
            accumulator.initialize(self.lowering(self.stages.serial().k))
        if low is None and value.memory.elem == elem:
            return value
        assert isinstance(low, TablePlace | None)
        stage = self.stages.open(self.stages.at)
        place = value if low is not None else self.stages.buffer(ref.name, elem, value.dims, stage)
        less = None if low is None else low.memory
        self.lowering(stage.k).round_table(place, value, less, elem, (START, STOP))
        stage.trip = SizeProduct(self.stages.shape(value.dims))
        stage.work, stage.rule = (stage.trip,), FREE
        self.stages.close()
        return place

    # --- matrix products ----------------------------------------------------------------------

    def product(self, product: MatrixProduct, binding: Binding) -> None:
        """Two stages for a matrix product, into a new table or into an accumulator."""
        names = ", ".join(index.name for index in (*product.out, product.inner))
        reason = (
            f"rows {product.row.name}, columns {product.column.name}, sums over "
            f"{product.inner.name}; tiles stay in registers, parallel over blocks"
        )
        self.decide(Strategy.PRODUCT, f"for {names}", reason, binding)
        if product.ref is None:
            place = self.table_product(product, binding)
        else:
            accumulator = self.accumulators[product.ref]
            assert isinstance(accumulator.value, TablePlace), "products have axes"
            place = accumulator.value
            multiply(product, self.stages, place, accumulator.fresh, binding.src)
            accumulator.fresh = False
        self.product_dtypes.setdefault(place.memory.elem.dtype)

    def table_product(self, product: MatrixProduct, binding: Binding) -> TablePlace:
        """The product as a table of its own: a small one is computed by plain loops."""
        assert isinstance(binding.expr, For)
        self.stages.close()
        count = operations(product, self.stages)
        loops = self.parallel(binding.expr, binding)
        loops.only = Within(count, 0, LEAST_OPERATIONS)
        place = self.scope.values[binding.vars[0]]
        assert isinstance(place, TablePlace)
        only = Within(count, LEAST_OPERATIONS, UNLIMITED)
        stages = multiply(product, self.stages, place, True, binding.src, only)
        stages[0].share_buffers(loops)
        return place

    def decide_updates(self, binding: Binding) -> None:
        """Note for `explain` which updates copy their table."""
        if isinstance(binding.expr, Update):
            strategy, reason = Strategy.IN_PLACE, "nobody uses the table from before"
            if binding.vars[0] not in self.scope.facts.overwriting.source:
                strategy = Strategy.COPIED
                reason = "the table from before is used afterwards, or belongs to somebody else"
            subject = f"{binding.vars[0].name}[..] ="
            decision = Decision(strategy, subject, reason, binding.src)
            if decision not in self.decisions:  # a loop of stages is lowered in two ways
                self.decisions.append(decision)
        for block in blocks_of(binding.expr):
            for inner in block.bindings:
                self.decide_updates(inner)

    # --- parallel loops -----------------------------------------------------------------------

    def parallel(self, loop: For, binding: Binding) -> StageBuilder:
        """A parallel stage for a loop of the spine, and one that combines what chunks leave."""
        names = ", ".join(binder.name for binder in loop.binders)
        self.decide(Strategy.PARALLEL, f"for {names}", "iterations run in any order", binding)
        choices = self.choices(loop, binding)
        stage = self.stages.open(binding.src)
        lowering = self.lowering(stage.k)
        sizes = [set_of(binder).size for binder in loop.binders]
        stage.axes = tuple(
            Axis(stage.k.local(binder.name, I64), lowering.scalar(size))
            for binder, size in zip(loop.binders, sizes, strict=True)
        )
        for binder, axis in zip(loop.binders, stage.axes, strict=True):
            self.scope.values[binder] = axis.index
        stage.trip = SizeProduct(self.stages.shape(sizes))
        stage.work = (SizeProduct((stage.trip, self.stages.work(loop.body))),)
        stage.cheap = has_no_loops(loop.body)
        places = [self.stages.table(var, stage) for var in binding.vars]
        piling = [ref for ref, choice in choices.items() if choice.strategy is not Strategy.DIRECT]
        partials = [
            start_partial(
                ref,
                self.accumulators[ref],
                piles_up(ref, loop.body, self.scope.facts, loop.binders),
                self.stages,
                lowering,
            )
            for ref in piling
        ]
        stage.rule = REDUCING if partials else FREE
        with lowering.looping(False, stage.k.body, loop.binders):
            for ref, choice in choices.items():
                if choice.once:
                    self.start_once(ref)
                elif choice.strategy is Strategy.DIRECT:
                    self.start_direct(ref, stage.axes, lowering)
            offsets = [_row(place, stage.axes, lowering) for place in places]
            lowering.rows(loop.body, offsets, places, len(stage.axes))
        self.scope.values.update(zip(binding.vars, places, strict=True))
        # What prints runs in order.
        stage.strips = stage.k.log_memory is None and strip_mine(stage.k, stage.axes)
        if not stage.strips and len(stage.axes) == 1:
            for ref, partial in zip(piling, partials, strict=True):
                if partial.is_wide_table and is_dense(ref, loop.body, self.scope.facts):
                    add_in_blocks(ref, partial, stage.axes[0].index, lowering)
        if stage.strips:
            reason = (
                f"neighbours in {loop.binders[-1].name} lie side by side, those of inner loops not"
            )
            self.decide(Strategy.STRIPS, f"for {names}", reason, binding)
        self.stages.close()
        if partials:
            stage.chunks_slot = self.stages.frame.new_slot()
            combine(partials, stage, self.stages)
        return stage

    def choices(self, loop: For, binding: Binding) -> dict[Var, Choice]:
        """The strategy of each accumulation in `loop`; tables that need it are initialised."""
        found = {}
        for ref in accumulated_refs(loop.body):
            choice, accumulator = choose(ref, loop, self.scope.facts), self.accumulators[ref]
            subject = f"{ref.name} {accumulator.monoid.value}="
            self.decide(choice.strategy, subject, choice.reason, binding)
            if not (choice.once and accumulator.fresh):
                choice = replace(choice, once=False)
                if choice.strategy is Strategy.DIRECT and not _covers(choice, loop, accumulator):
                    accumulator.initialize(self.lowering(self.stages.serial().k))
            found[ref] = choice
        return found

    def start_once(self, ref: Var) -> None:
        """Let iterations write the elements of a fresh table, each of them once."""
        accumulator = self.accumulators[ref]
        assert isinstance(accumulator.value, TablePlace), "what is written once has places"
        assert accumulator.low is None, "what is written once does not pile up"
        self.scope.values[ref] = Target(accumulator.monoid, accumulator.value, fresh=True)
        accumulator.fresh = False

    def start_direct(self, ref: Var, axes: Sequence[Axis], lowering: BlockLowering) -> None:
        """Let iterations accumulate in place; they set the rows of a fresh table themselves."""
        accumulator = self.accumulators[ref]
        place = accumulator.value
        assert isinstance(place, TablePlace), "a direct accumulation has indices"
        self.scope.values[ref] = accumulator.target
        if not accumulator.fresh:
            return
        accumulator.fresh = False
        at, rest = _row(place, axes, lowering), place.dims[len(axes) :]
        for held in (place, accumulator.low):
            if isinstance(held, TablePlace) and rest:
                assert isinstance(at, Local | Lit)
                lowering.fill(TablePlace(held.memory, at, rest), accumulator.identity)
            elif isinstance(held, TablePlace):
                lowering.k.emit(Store(held.memory, at, accumulator.identity))

    # --- results ------------------------------------------------------------------------------

    def output(self, atom: Atom) -> Output:
        """One result of the program."""
        value: Value = self.scope.values[atom] if isinstance(atom, Var) else atom
        if isinstance(value, TablePlace):
            assert isinstance(atom, Var)
            place = self.own(value, atom)
            memory = place.memory
            self.returned.add(memory.slot)
            return OutputBuffer(memory.slot, memory.elem.dtype, self.stages.shape(place.dims))
        assert isinstance(value, Local | Lit)
        if isinstance(value, Lit):
            value = self.stages.serial().k.assign("result", value)
        return OutputScalar(self.stages.frame.slot_of(value), value.type.dtype)

    def own(self, place: TablePlace, atom: Var) -> TablePlace:
        """A place that only this result has: the table's own, if it has one, or a copy."""
        if place.memory.slot not in self.returned and self.stages.is_whole_buffer(place):
            return place
        copy = self.stages.buffer(atom.name, place.memory.elem, place.dims)
        lowering = self.lowering(self.stages.serial().k)
        lowering.copy(copy, lowering.place(atom))
        return copy


def _row(place: TablePlace, axes: Sequence[Axis], lowering: BlockLowering) -> Expr:
    """Where the row of a table that belongs to an iteration starts."""
    rest = place.dims[len(axes) :]
    flat: Expr = literal(0)
    for axis in axes:
        flat = plus(times(flat, axis.size), axis.index)
    at = times(flat, lowering.elements(rest))
    return lowering.k.operand("base", at) if rest else at


def _covers(choice: Choice, loop: For, accumulator: Accumulator) -> bool:
    """Whether each iteration owns one row of the table, and each row is one's."""
    if not isinstance(accumulator.value, TablePlace):
        return False
    sizes = tuple(set_of(binder).size for binder in loop.binders)
    dims = accumulator.value.dims[: len(sizes)]
    return choice.axes == tuple(range(len(sizes))) and dims == sizes
