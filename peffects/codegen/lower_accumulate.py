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

from peffects.codegen.lower_facts import Facts
from peffects.ir.syntax import Accumulate, Atom, Block, For, Idx, Lit, Ref, Var, WithAcc
from peffects.ir.traverse import blocks_of, free_vars
from peffects.source import UNKNOWN, SrcInfo

__all__ = ["Decision", "Strategy", "choose"]


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


def choose(ref: Var, loop: For, facts: Facts) -> Choice:
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


def _is_written_once(ref: Var, loop: For, facts: Facts) -> bool:
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


def _positions(expr: Accumulate, loop: For, facts: Facts) -> tuple[int, ...] | None:
    """Where the parallel indices stand among the indices; None if one of them does not.

    Places in rows of different parallel indices are different, so such a place stands for its row.
    """
    plain = [facts.same_index(facts.row_of(index)) for index in expr.indices]
    if all(binder in plain for binder in loop.binders):
        return tuple(plain.index(binder) for binder in loop.binders)
    return None
