"""How sums are added, so that their error does not grow with their length.

Up to SUM_BLOCK numbers are added plainly, in any order, into a `part`; then the part is added to a
total that is wider than its terms.  Of f32 numbers the total is an f64; of f64 numbers it is two,
`at` and `low`, where `low` collects what rounding took from `at` (Knuth's two-sum).  An element of
a table that may get many numbers is such a total by itself.  What is promised, and why it is done
this way, is in `docs/decisions/015-how-reductions-add.md`.

The part of block lowering that knows accumulators.  Next: `block.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence

from peffects.codegen.lower.accumulate import piles_up
from peffects.codegen.lower.kernel import KernelBuilder, TablePlace
from peffects.codegen.lower.values import Target, ValueLowering
from peffects.codegen.program.loop_ir import (
    SUM_BLOCK,
    AddTo,
    Apply,
    Assign,
    Blocks,
    Branch,
    Combine,
    Expr,
    ForLoop,
    Local,
    Memory,
    Operand,
    Read,
    Stmt,
    Store,
    literal,
    plus,
    type_of,
)
from peffects.codegen.program.sum_blocks import as_f64
from peffects.ir import primitives as p
from peffects.ir.evaluate import identity_of
from peffects.ir.syntax import (
    BOOL,
    F32,
    F64,
    I64,
    Accumulate,
    Block,
    Bounds,
    Fold,
    For,
    Lit,
    Monoid,
    Ref,
    Scalar,
    Var,
    While,
)
from peffects.ir.traverse import accumulated_refs, binders_of, blocks_of
from peffects.ir.typing import set_of, value_of
from peffects.source import SrcInfo

__all__ = ["SumLowering", "add_to_memory", "add_wide", "adds_in", "is_wide_sum", "rounded"]

_ZERO = Lit(0.0, F64)
_SMALL = 16
"""Loops of at most so many iterations are part of the loop around them, which LLVM unrolls."""


def is_wide_sum(monoid: Monoid, elem: Scalar) -> bool:
    """Whether values of this type lose digits when many are combined."""
    return monoid is Monoid.ADD and elem.is_float


def rounded(total: Expr, low: Expr | None, elem: Scalar) -> Expr:
    """A total as one number.  One that overflowed or is not a number has lost nothing."""
    if low is None:
        return total if elem == type_of(total) else Apply(p.CAST[elem], (total,), elem)
    both = _add(total, low)
    return Apply(p.SELECT, (Apply(p.EQ, (both, both), BOOL), both, total), F64)


def add_wide(k: KernelBuilder, total: Local, low: Local | None, value: Expr) -> None:
    """Add `value` to a total in locals."""
    if low is None:
        k.emit(Assign(total, _add(total, as_f64(value))))
        return
    value = k.operand("v", value)
    new = k.assign("t", _add(total, value))
    more = k.assign("z", _sub(new, total))
    lost = _add(_sub(total, _sub(new, more)), _sub(value, more))
    k.emit(Assign(low, _add(low, lost)))
    k.emit(Assign(total, new))


def add_to_memory(
    k: KernelBuilder, memory: Memory, low: Memory | None, at: Operand, value: Expr
) -> None:
    """Add `value` to an element of a table of totals."""
    if low is None and memory.elem == type_of(value):
        k.emit(Store(memory, at, Apply(p.ADD, (Read(memory, at), value), memory.elem)))
        return
    names = tuple(k.local(name, F64) for name in ("v", "old", "t"))
    k.emit(AddTo(memory, low, at, value, names))


def _sub(left: Expr, right: Expr) -> Expr:
    return Apply(p.SUB, (left, right), F64)


def _add(left: Expr, right: Expr) -> Expr:
    return Apply(p.ADD, (left, right), F64)


class SumLowering(ValueLowering):
    """Lowers accumulations into the kernel `k`."""

    # --- accumulators -------------------------------------------------------------------------

    def new_target(self, ref: Var, body: Block, place: TablePlace | None) -> Target:
        """An accumulator at its monoid's identity, for the accumulations in `body`."""
        assert isinstance(ref.type, Ref)
        held, monoid = value_of(ref), ref.type.monoid
        elem = held if isinstance(held, Scalar) else held.elem
        piles = is_wide_sum(monoid, elem) and piles_up(ref, body, self.scope.facts)
        if isinstance(held, Scalar):
            if piles:
                return self.new_sum(ref.name, held)
            return Target(monoid, self.k.assign(ref.name, Lit(identity_of(monoid, held), held)))
        dims, low = tuple(dim.size for dim in held.dims), None
        if piles and elem == F64:
            low = self.memory(f"{ref.name}_low", F64, dims)
            self.fill(TablePlace(low, literal(0), dims), _ZERO)
        if piles and elem == F32:
            place, elem = TablePlace(self.memory(ref.name, F64, dims), literal(0), dims), F64
        if place is None or (low is not None and place.offset != literal(0)):
            place = TablePlace(self.memory(ref.name, elem, dims), literal(0), dims)
        self.fill(place, Lit(identity_of(monoid, elem), elem))
        return Target(monoid, place, low=low)

    def new_sum(self, name: str, elem: Scalar) -> Target:
        """A total of many numbers, in locals."""
        total = self.k.assign(f"{name}_total", _ZERO)
        low = self.k.assign(f"{name}_low", _ZERO) if elem == F64 else None
        part = self.k.assign(name, Lit(0.0, elem))
        return Target(Monoid.ADD, total, low=low, part=part, depth=self._depth)

    def finished(
        self, target: Target, elem: Scalar, wanted: TablePlace | None
    ) -> Expr | TablePlace:
        """The final value of an accumulator."""
        if isinstance(target.at, Local):
            if target.part is None:
                return target.at
            low = target.low
            assert not isinstance(low, Memory)
            total = self.k.assign("total", _add(target.at, as_f64(target.part)))
            return self.k.assign("total", rounded(total, low, elem))
        place, low = target.at, target.low
        assert not isinstance(low, Local)
        if low is None and place.memory.elem == elem:
            return place
        wide = place
        if wanted is not None:
            place = wanted
        elif low is None:
            place = TablePlace(self.memory("total", elem, wide.dims), literal(0), wide.dims)
        self.round_table(place, wide, low, elem)
        return place

    def round_table(
        self,
        place: TablePlace,
        wide: TablePlace,
        low: Memory | None,
        elem: Scalar,
        span: tuple[Expr, Expr] | None = None,
    ) -> None:
        """Set the elements of `place`, all or those of `span`, to the totals `wide` and `low`."""

        def body(i: Local) -> list[Stmt]:
            there, at = plus(wide.offset, i), plus(place.offset, i)
            total, less = Read(wide.memory, there), None if low is None else Read(low, there)
            return [Store(place.memory, at, rounded(total, less, elem))]

        if span is None:
            self.each_element(place.dims, body)
            return
        index = self.k.local("e", I64)
        self.k.emit(ForLoop(index, *span, tuple(body(index))))

    def flush(self, target: Target) -> None:
        """Add the part of a total to it."""
        assert isinstance(target.at, Local) and target.part is not None
        assert not isinstance(target.low, Memory)
        add_wide(self.k, target.at, target.low, target.part)
        self.k.emit(Assign(target.part, Lit(0.0, target.part.type)))

    # --- loops that add -----------------------------------------------------------------------

    def sums_in(self, body: Block) -> dict[Var, Target]:
        """The totals in locals that `body`, of a loop, adds to."""
        found = {}
        for ref in accumulated_refs(body):
            target = self.scope.values[ref]
            if isinstance(target, Target) and target.part is not None:
                found[ref] = target
        return found

    def flush_all(self, targets: Iterable[Target]) -> None:
        """Flush each."""
        for target in targets:
            self.flush(target)

    def add_loop(
        self, index: Local, size: Expr, body: Sequence[Stmt], sums: Collection[Target], adds: int
    ) -> None:
        """A loop whose iterations add up to `adds` numbers to each of `sums`, in blocks."""
        if not sums or (isinstance(size, Lit) and size.value * adds <= SUM_BLOCK):
            self.k.emit(ForLoop(index, literal(0), size, tuple(body)))
            return
        size, flushes = self.k.operand("size", size), list[Stmt]()
        with self.k.into(flushes):
            self.flush_all(sums)
        blocks = Blocks(self.k.local("block", I64), adds, tuple(flushes))
        self.k.emit(ForLoop(index, literal(0), size, tuple(body), blocks=blocks))

    def flush_in_order(self, body: Block, index: Local) -> None:
        """Flush what `body`, of a sequential loop over `index`, adds to: once for each block."""
        sums = self.sums_in(body)
        adds = adds_in(body, sums)
        if adds is None:
            self.flush_all(sums.values())
        elif sums:
            flushes = list[Stmt]()
            with self.k.into(flushes):
                self.flush_all(sums.values())
            width = 1 << ((SUM_BLOCK // max(adds, 1)).bit_length() - 1)
            place = Apply(p.BIT_AND, (index, literal(width - 1)), I64)
            is_full = Apply(p.EQ, (place, literal(width - 1)), BOOL)
            self.k.emit(Branch(is_full, tuple(flushes), ()))

    def hoist(self, body: Block, index: Var) -> list[tuple[Accumulate, Target, Target]]:
        """Give totals in locals to elements that all iterations over `index` add to.

        Gives the accumulations, the tables and the totals.
        """
        inside = {index} | _bound_in(body)
        exprs = [b.expr for b in body.bindings if isinstance(b.expr, Accumulate)]
        refs = accumulated_refs(Block(tuple(b for b in body.bindings if blocks_of(b.expr)), ()))
        found = []
        for expr in exprs:
            target = self.scope.values[expr.ref]
            once = expr.ref not in refs and [e.ref for e in exprs].count(expr.ref) == 1
            if (
                once
                and expr.bounds is Bounds.PROVED
                and isinstance(target, Target)
                and isinstance(target.at, TablePlace)
                and not target.fresh
                and isinstance(expr.value.type, Scalar)
                and is_wide_sum(target.monoid, expr.value.type)
                and not inside.intersection(expr.indices)
            ):
                total = self.new_sum(expr.ref.name, expr.value.type)
                self.scope.values[expr.ref] = total
                found.append((expr, target, total))
        return found

    def put_hoisted(self, hoisted: Sequence[tuple[Accumulate, Target, Target]]) -> None:
        """Add totals in locals to their elements."""
        for expr, target, total in hoisted:
            self.scope.values[expr.ref] = target
            assert isinstance(target.at, TablePlace) and isinstance(expr.value.type, Scalar)
            value = self.finished(total, expr.value.type, None)
            assert not isinstance(value, TablePlace)
            place = TablePlace(target.at.memory, self.k.use(target.at.offset), target.at.dims)
            there = self.offset(place, expr.ref, expr.indices, Bounds.PROVED, self.k.at)
            self.add_to(target, self.k.operand("at", there), value, True)

    # --- accumulations ------------------------------------------------------------------------

    def accumulate(self, expr: Accumulate, src: SrcInfo) -> None:
        """`ref[indices] += value`."""
        target = self.scope.values[expr.ref]
        assert isinstance(target, Target), "references are bound to targets"
        if isinstance(target.at, Local):
            local = target.part or target.at
            value = self.scalar(expr.value)
            total = Combine(target.monoid, local, value, local.type, self._ordered)
            self.k.emit(Assign(local, total))
            return
        place = TablePlace(target.at.memory, self.k.use(target.at.offset), target.at.dims)
        at = self.k.operand("at", self.offset(place, expr.ref, expr.indices, expr.bounds, src))
        rest = place.dims[len(expr.indices) :]
        if not rest:
            self.add_to(target, at, self.scalar(expr.value), self._ordered)
            return
        assert isinstance(expr.value, Var)
        source = self.place(expr.value)

        def body(i: Local) -> list[Stmt]:
            found = list[Stmt]()
            with self.k.into(found):
                there = self.k.operand("there", plus(at, i))
                self.add_to(target, there, Read(source.memory, plus(source.offset, i)), False)
            return found

        self.each_element(rest, body)

    def add_to(self, target: Target, at: Operand, value: Expr, ordered: bool) -> None:
        """Combine an element of a table with `value`."""
        assert isinstance(target.at, TablePlace)
        memory, monoid = target.at.memory, target.monoid
        elem, before = memory.elem, Read(memory, at)
        if target.low is not None or type_of(value) != elem:
            assert not isinstance(target.low, Local)
            add_to_memory(self.k, memory, target.low, at, value)
            return
        first: Expr = before
        if target.fresh:  # added to, not copied: 0.0 + -0.0 is 0.0
            first, ordered = Lit(identity_of(monoid, elem), elem), True
        self.k.emit(Store(memory, at, Combine(monoid, first, value, elem, ordered)))


def adds_in(body: Block, refs: Container[Var]) -> int | None:
    """How many numbers `body` adds at most to one of `refs`; None if it may be many."""
    most = 0
    for binding in body.bindings:
        expr = binding.expr
        inner = [adds_in(block, refs) for block in blocks_of(expr)]
        if any(count is None for count in inner):
            return None
        adds = sum(count for count in inner if count is not None)
        match expr:
            case Accumulate(ref) if ref in refs:
                adds = 1
            case For(binders):
                for binder in binders:
                    size = set_of(binder).size
                    adds *= int(size.value) if isinstance(size, Lit) else _SMALL + 1
            case Fold() | While():
                adds *= _SMALL + 1
            case _:
                pass
        if adds > _SMALL:
            return None
        most += adds
    return most


def _bound_in(body: Block) -> set[object]:
    found: set[object] = set()
    for binding in body.bindings:
        found.update(binding.vars)
        found.update(binders_of(binding.expr))
        for inner in blocks_of(binding.expr):
            found |= _bound_in(inner)
    return found
