"""What an accumulation in a parallel loop becomes, by rule: never a data race.

*direct*: each iteration writes to elements of its own, because all parallel indices stand at fixed
places of the index.  *reduction*: the places do not depend on the parallel indices, so each chunk
sums up on its own and the chunks are combined.  *private copies*: anything else; each chunk has a
copy of the whole table, and the copies are combined.  Chunks are combined in their order.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from enum import Enum
from math import inf

from peffects.codegen.lower.facts import Uses
from peffects.codegen.program.loop_ir import SUM_BLOCK
from peffects.ir import primitives as p
from peffects.ir.syntax import (
    Accumulate,
    Atom,
    Block,
    Fold,
    For,
    Idx,
    Lit,
    Prim,
    Ref,
    Var,
    While,
    WithAcc,
)
from peffects.ir.traverse import binders_of, blocks_of, free_vars
from peffects.ir.typing import set_of
from peffects.source import UNKNOWN, SrcInfo

__all__ = ["Decision", "Strategy", "choose", "piles_up"]


class Strategy(Enum):
    """How a loop of the spine, or an accumulation in it, is carried out."""

    PARALLEL = "parallel loop"
    STRIPS = "strips"
    SERIAL = "serial"
    HOSTED = "loop of stages"
    DIRECT = "direct"
    REDUCTION = "reduction"
    PRIVATE = "private copies"
    PRODUCT = "matrix product"
    IN_PLACE = "in place"
    COPIED = "copied"


@dataclass(frozen=True, slots=True)
class Decision:
    """Something that lowering chose, for `explain`."""

    strategy: Strategy
    subject: str
    reason: str
    src: SrcInfo = UNKNOWN


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy; of a direct accumulation, at which axis each parallel index stands.

    With `once` every element of the table is written by one iteration, which needs no start value.
    """

    strategy: Strategy
    reason: str
    axes: tuple[int, ...] = ()
    once: bool = False


def choose(ref: Var, loop: For, facts: Uses) -> Choice:
    """The strategy for accumulations into `ref` in the parallel `loop`."""
    found = list(_accumulations(ref, loop.body))
    positions = {_positions(expr, loop, facts) for expr in found}
    (first, *others) = positions
    names = ", ".join(binder.name for binder in loop.binders)
    if not others and first is not None:
        reason = f"every iteration of {names} has elements of its own"
        return Choice(Strategy.DIRECT, reason, first, _is_written_once(ref, loop, facts))
    outside = free_vars(loop.body)
    indices = (facts.same_index(index) for expr in found for index in expr.indices)
    if all(_is_independent(index, loop, outside) for index in indices):
        return Choice(Strategy.REDUCTION, f"all iterations of {names} add to the same elements")
    return Choice(
        Strategy.PRIVATE,
        f"iterations of {names} may meet at one element; each chunk has its own copy",
    )


def _is_written_once(ref: Var, loop: For, facts: Uses) -> bool:
    """Whether the one accumulation into a table of which each element gets one is still that.

    It must run in each iteration of its loops, and each of their indices must be in its place.
    """
    if not (isinstance(ref.type, Ref) and ref.type.once):
        return False
    found = list(_unconditional(ref, loop.body, loop.binders))
    if len(found) != 1 or len(list(_accumulations(ref, loop.body))) != 1:
        return False
    ((accumulation, binders),) = found
    parts = {part for index in accumulation.indices for part in facts.parts_of(index)}
    return parts.issuperset(binders)


def _unconditional(
    ref: Var, block: Block, binders: tuple[Var, ...]
) -> Iterator[tuple[Accumulate, tuple[Var, ...]]]:
    """Accumulations that are in no branch, with the indices of the parallel loops around them."""
    for binding in block.bindings:
        match binding.expr:
            case Accumulate(found) as accumulation if found is ref:
                yield accumulation, binders
            case For(more, body):
                yield from _unconditional(ref, body, (*binders, *more))
            case WithAcc(_, body):
                yield from _unconditional(ref, body, binders)
            case _:
                pass


def _is_independent(index: Atom, loop: For, outside: Container[Atom]) -> bool:
    """Whether `index` is the same in all parallel iterations, or runs through an inner loop."""
    if index in loop.binders:
        return False
    return isinstance(index, Lit) or isinstance(index.type, Idx) or index in outside


def _accumulations(ref: Var, block: Block) -> Iterator[Accumulate]:
    for binding in block.bindings:
        if isinstance(binding.expr, Accumulate) and binding.expr.ref is ref:
            yield binding.expr
        for inner in blocks_of(binding.expr):
            yield from _accumulations(ref, inner)


def _positions(expr: Accumulate, loop: For, facts: Uses) -> tuple[int, ...] | None:
    """Where the parallel indices stand among the indices; None if one of them does not.

    Places in rows of different parallel indices are different, so such a place stands for its row.
    """
    plain = [facts.same_index(facts.row_of(index)) for index in expr.indices]
    if all(binder in plain for binder in loop.binders):
        return tuple(plain.index(binder) for binder in loop.binders)
    return None


# --- how many values one element gets ----------------------------------------------------------


def piles_up(ref: Var, block: Block, facts: Uses, around: tuple[Var, ...] = ()) -> bool:
    """Whether one element may get more than SUM_BLOCK values in the loops of `block`.

    `around` are the indices of a loop of which `block` is the body.
    """
    return _most_values(ref, block, facts, around, set(around)) > SUM_BLOCK


def _most_values(
    ref: Var, block: Block, facts: Uses, loops: tuple[Var, ...], bound: set[Atom]
) -> float:
    """How many values an element gets at most; `bound` grows by the variables of `block`."""
    most = 0.0
    for binding in block.bindings:
        expr, more = binding.expr, loops
        bound.update(binders_of(expr))
        match expr:
            case Accumulate(found, indices) if found is ref:
                most += _meetings(indices, facts, loops, bound)
            case For(binders):
                more = (*loops, *binders)
            case Fold(binder):
                more = (*loops, binder)
            case _:
                pass
        times = inf if isinstance(expr, While) else 1
        for inner in blocks_of(expr):
            values = _most_values(ref, inner, facts, more, bound)
            most += values and values * times
        bound.update(binding.vars)
    return most


def _meetings(
    indices: tuple[Atom, ...], facts: Uses, loops: tuple[Var, ...], bound: Container[Atom]
) -> float:
    """How many iterations of `loops` may have the same indices."""
    parts = [part for index in indices for part in facts.parts_of(index)]
    most = 1.0
    for binder in loops:
        if not any(_moves_with(part, binder, facts, bound) for part in parts):
            size = set_of(binder).size
            most *= float(size.value) if isinstance(size, Lit) else inf
    return most


def _moves_with(index: Atom, binder: Var, facts: Uses, bound: Container[Atom]) -> bool:
    """Whether `index` is the loop index `binder`, shifted by what is the same in all loops."""
    index = facts.same_index(index)
    if index is binder:
        return True
    expr = facts.definitions.get(index) if isinstance(index, Var) else None
    match expr:
        case Prim(p.ADD | p.SUB, (left, right)):
            return any(
                _moves_with(one, binder, facts, bound)
                and (isinstance(other, Lit) or other not in bound)
                for one, other in ((left, right), (right, left))
            )
        case _:
            return False
