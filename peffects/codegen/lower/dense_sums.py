"""Sums over whole tables in blocks: private copies to which each iteration adds everywhere.

Where every iteration of a parallel loop adds once to each element of a chunk's private copy, such
as a gradient by the parameters of a model, 128 iterations are added plainly, to a table of one
number an element.  Then that is added to the totals, which keep what rounding takes (decision 015).
So the hot loop has one load, one addition and one store, as a sum that is local to an iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from peffects.codegen.lower.block import BlockLowering
from peffects.codegen.lower.facts import Uses
from peffects.codegen.lower.kernel import TablePlace
from peffects.codegen.lower.partials import Partial
from peffects.codegen.lower.sums import add_to_memory
from peffects.codegen.program.loop_ir import (
    SUM_BLOCK,
    AddTo,
    Apply,
    Branch,
    Combine,
    ForLoop,
    Local,
    Memory,
    Read,
    Stmt,
    Store,
    Until,
    literal,
)
from peffects.codegen.program.loop_programs import Role
from peffects.ir import primitives as p
from peffects.ir.syntax import BOOL, I64, Accumulate, Block, Fold, For, Lit, Monoid, Var, While
from peffects.ir.traverse import blocks_of

__all__ = ["add_in_blocks", "is_dense"]


def is_dense(ref: Var, body: Block, facts: Uses) -> bool:
    """Whether `body`, of a parallel loop, adds to each element of `ref` once, or a few times.

    That is so where the indices of each accumulation are those of parallel loops around it.
    """
    found: list[bool] = []
    _visit(ref, body, frozenset(), False, facts, found)
    return bool(found) and all(found)


def _visit(
    ref: Var, body: Block, binders: frozenset[Var], repeats: bool, facts: Uses, found: list[bool]
) -> None:
    for binding in body.bindings:
        expr = binding.expr
        if isinstance(expr, Accumulate) and expr.ref is ref:
            indices = [facts.same_index(index) for index in expr.indices]
            distinct = len(set(indices)) == len(indices) == len(binders)
            found.append(not repeats and distinct and binders.issuperset(indices))
        inner = binders | set(expr.binders) if isinstance(expr, For) else binders
        again = repeats or isinstance(expr, Fold | While)
        for block in blocks_of(expr):
            _visit(ref, block, inner, again, facts, found)


def add_in_blocks(ref: Var, partial: Partial, index: Local, lowering: BlockLowering) -> None:
    """Add up `ref` in a block in place of the totals; flush it where `index` has filled it."""
    k, accumulator = lowering.k, partial.accumulator
    value = accumulator.value
    assert isinstance(value, TablePlace), "a number is added up in a local"
    elem = accumulator.elem
    block = k.part(f"{ref.name}_block", elem, partial.shape, Role.SCRATCH)
    place, zero = TablePlace(block, literal(0), value.dims), Lit(0.0, elem)
    k.body = _redirected(k.body, partial.parts, block)
    with k.into(k.prologue):
        lowering.fill(place, zero)

    def flush(into: list[Stmt]) -> None:
        def body(i: Local) -> list[Stmt]:
            found = list[Stmt]()
            with k.into(found):
                add_to_memory(k, partial.parts, partial.lows, i, Read(block, i))
                k.emit(Store(block, i, zero))
            return found

        with k.into(into):
            lowering.each_element(value.dims, body)

    full = list[Stmt]()
    flush(full)
    flush(k.epilogue)
    at = Apply(p.BIT_AND, (index, literal(SUM_BLOCK - 1)), I64)
    k.body.append(Branch(Apply(p.EQ, (at, literal(SUM_BLOCK - 1)), BOOL), tuple(full), ()))


def _redirected(body: Sequence[Stmt], totals: Memory, block: Memory) -> list[Stmt]:
    """`body` with plain additions to `block` in place of those to `totals`."""

    def all_of(statements: Sequence[Stmt]) -> tuple[Stmt, ...]:
        return tuple(_redirected(statements, totals, block))

    found: list[Stmt] = []
    for stmt in body:
        match stmt:
            case AddTo(memory, _, at, value) if memory.slot == totals.slot:
                total = Combine(Monoid.ADD, Read(block, at), value, block.elem, False)
                found.append(Store(block, at, total))
            case ForLoop():
                found.append(replace(stmt, body=all_of(stmt.body)))
            case Branch(condition, then, orelse):
                found.append(Branch(condition, all_of(then), all_of(orelse)))
            case Until(test, go_on, inner):
                found.append(Until(all_of(test), go_on, all_of(inner)))
            case _:
                found.append(stmt)
    return found
