"""Loops whose iterations add something in order: they run once more, one iteration after the other.

A list that grows, or an accumulator that combines by a function of the user's, cannot be written by
iterations that run in any order.  So what a loop adds is only *marked* while it is staged, by an
accumulation into a reference that stands for nothing.  When the result is asked for, the bindings
with marks are copied: parallel loops become folds, all loops and branches carry what is built up,
and a mark becomes a step of it.  The copy has no other effects, and its tests have passed in the
original, from which the marks are taken away: it goes on to run in parallel for all else it does.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import TypeAlias

from peffects.ir.builder import Builder
from peffects.ir.recompute import without_effects
from peffects.ir.rename import Renamer
from peffects.ir.syntax import (
    Accumulate,
    Atom,
    Binding,
    Block,
    Check,
    Cond,
    Fold,
    For,
    Scalar,
    Table,
    Var,
    While,
    WithAcc,
)
from peffects.ir.traverse import accumulated_refs, rebuild

__all__ = ["in_order", "without_marks"]

Step: TypeAlias = Callable[[Builder, Sequence[Atom], Accumulate], Sequence[Atom]]
"""Emits what a mark means: from what was built up before it to what is after it."""


def without_marks(bindings: Iterable[Binding], marks: Container[Var]) -> list[Binding]:
    """`bindings` without the accumulations into the references `marks`."""

    def block(block: Block) -> Block:
        return Block(tuple(without_marks(block.bindings, marks)), block.results)

    return [
        Binding(b.vars, rebuild(b.expr, lambda a: a, lambda v: v, block), b.src)
        for b in bindings
        if not (isinstance(b.expr, Accumulate) and b.expr.ref in marks)
    ]


def in_order(
    b: Builder,
    bindings: Iterable[Binding],
    marks: Container[Var],
    start: Sequence[Atom],
    step: Step,
) -> Sequence[Atom]:
    """Emit the bindings that have marks once more, in order; what is built up from `start` on."""
    walk = _InOrder(marks, step)
    marked = [binding for binding in bindings if walk.is_marked(binding)]
    return walk.bindings(b, marked, start)


class _InOrder(Renamer):
    """Copies blocks; all that they bind is new."""

    def __init__(self, marks: Container[Var], step: Step) -> None:
        super().__init__({}, fresh=True)
        self.marks, self.step = marks, step
        self.own: set[Var] = set()  # references that were copied, too

    def is_marked(self, binding: Binding) -> bool:
        return any(ref in self.marks for ref in accumulated_refs(Block((binding,), ())))

    def bindings(
        self, b: Builder, bindings: Iterable[Binding], carried: Sequence[Atom]
    ) -> Sequence[Atom]:
        """Emit copies into `b`; what is carried after them."""
        for binding in bindings:
            b.at = binding.src
            if self.is_marked(binding):
                carried = self.marked(b, binding, carried)
            elif not self.is_effect(binding):
                b.bindings.append(self.binding(without_effects(binding, self.own)))
        return carried

    def is_effect(self, binding: Binding) -> bool:
        """Whether a binding is a check, or accumulates into a reference that was not copied."""
        if isinstance(binding.expr, Accumulate):
            return binding.expr.ref not in self.own
        return isinstance(binding.expr, Check)

    def inside(
        self, b: Builder, block: Block, carried: Sequence[Atom]
    ) -> tuple[Builder, tuple[Atom, ...], Sequence[Atom]]:
        """A copy of a block: its builder, its results, and what is carried at its end."""
        inner = b.nested()
        ends = self.bindings(inner, block.bindings, carried)
        return inner, tuple(map(self.atom, block.results)), ends

    def marked(self, b: Builder, binding: Binding, carried: Sequence[Atom]) -> Sequence[Atom]:
        """Emit a copy of a binding that has marks inside."""
        match binding.expr:
            case Accumulate() as mark:
                copy = self.renamed(mark)
                return self.step(b, carried, copy)
            case For(binders, body):
                return self.loop(b, binding, binders, body, carried)
            case Fold(binder, reverse, carries, inits, body, running):
                starts = tuple(map(self.atom, inits))
                index, own = self.bind(binder), tuple(map(self.bind, carries))
                held = _held(carried)
                inner, results, ends = self.inside(b, body, held)
                count = len(own)
                block = inner.block(*results[:count], *ends, *results[count:])
                fold = Fold(index, reverse, (*own, *held), (*starts, *carried), block, running)
                return self.bound(b, binding, b.emit(fold), count, len(held))
            case While(carries, inits, test, body):
                starts = tuple(map(self.atom, inits))
                own, held = tuple(map(self.bind, carries)), _held(carried)
                testing, tests, _ = self.inside(b, test, held)
                inner, results, ends = self.inside(b, body, held)
                loop = While(
                    (*own, *held),
                    (*starts, *carried),
                    testing.block(*tests),
                    inner.block(*results, *ends),
                )
                return self.bound(b, binding, b.emit(loop), len(own), len(held))
            case Cond(pred, then, orelse):
                sides = []
                for side in (then, orelse):
                    inner, results, ends = self.inside(b, side, carried)
                    sides.append(inner.block(*results, *ends))
                made = b.emit(Cond(self.atom(pred), *sides))
                return self.bound(b, binding, made, len(binding.vars), len(carried))
            case WithAcc(refs, body):
                self.own.update(refs)
                own = tuple(map(self.bind, refs))
                inner, results, ends = self.inside(b, body, carried)
                made = b.emit(WithAcc(own, inner.block(*results, *ends)))
                return self.bound(b, binding, made, len(results), len(carried))
            case other:
                raise AssertionError(f"no mark can be inside {other}")

    def renamed(self, mark: Accumulate) -> Accumulate:
        """A mark with the copies of its operands."""
        indices = tuple(map(self.atom, mark.indices))
        return Accumulate(mark.ref, indices, self.atom(mark.value), mark.bounds)

    def loop(
        self,
        b: Builder,
        binding: Binding,
        binders: tuple[Var, ...],
        body: Block,
        carried: Sequence[Atom],
    ) -> Sequence[Atom]:
        """A parallel loop as a fold for each of its indices, the last one innermost."""
        index, held = self.bind(binders[0]), _held(carried)
        inner = b.nested()
        if len(binders) > 1:
            rest = Binding(tuple(Var(v.name, _row(v)) for v in binding.vars), binding.expr)
            ends = self.loop(inner, rest, binders[1:], body, held)
            results = tuple(map(self.atom, rest.vars))
        else:
            inner, results, ends = self.inside(b, body, held)
        fold = Fold(index, False, held, tuple(carried), inner.block(*ends, *results))
        made = b.emit(fold)
        self.mapping.update(zip(binding.vars, made[len(held) :], strict=True))
        return made[: len(held)]

    def bound(
        self, b: Builder, binding: Binding, made: Sequence[Var], first: int, count: int
    ) -> Sequence[Atom]:
        """Map the variables of `binding`; `made` has `count` carried values after `first` ones."""
        own = (*made[:first], *made[first + count :])
        self.mapping.update(zip(binding.vars, own, strict=True))
        return made[first : first + count]


def _held(carried: Sequence[Atom]) -> tuple[Var, ...]:
    """Variables for what a loop carries."""
    return tuple(Var(a.name if isinstance(a, Var) else "c", a.type) for a in carried)


def _row(table: Var) -> Scalar | Table:
    assert isinstance(table.type, Table)
    dims = table.type.dims[1:]
    return Table(dims, table.type.elem) if dims else table.type.elem
