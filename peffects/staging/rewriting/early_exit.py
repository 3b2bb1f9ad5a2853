"""A fold that ends early: the `while` loop that does the same rounds until one of them stops it.

Staging traces the body of a `range` loop over an index.  If the body has a `break` or a `return`,
the loop that is emitted counts by itself: what the index proved is then known by the loop's test.
"""

from __future__ import annotations

from dataclasses import replace

from peffects.ir import primitives as op
from peffects.ir.builder import Builder, int_lit
from peffects.ir.rename import substitute
from peffects.ir.syntax import (
    I64,
    Accumulate,
    Atom,
    Binding,
    Block,
    Bounds,
    Expr,
    Fold,
    Index,
    Prim,
    Update,
    Var,
    While,
)
from peffects.ir.traverse import rebuild
from peffects.ir.typing import set_of
from peffects.source import SrcInfo

__all__ = ["until"]


def until(fold: Fold, stop: Var, src: SrcInfo) -> While:
    """The rounds of `fold` up to the first that ends with its carry `stop` true.

    The first carry of the loop counts the rounds; the others are those of `fold`, which has no
    outputs.
    """
    assert len(fold.body.results) == len(fold.carries), "staging makes no outputs of folds"
    size = set_of(fold.binder).size
    count = Var("count", I64)
    test = Builder(src)
    more = test.prim(op.LT, count, size)
    on = test.prim(op.AND, test.prim(op.NOT, stop), more)
    body = Builder(src)
    place: Atom = count
    if fold.reverse:
        place = body.prim(op.SUB, body.prim(op.SUB, size, int_lit(1)), count, name="place")
    results = body.append(_with_integer(fold.body, fold.binder, place))
    following = body.prim(op.ADD, count, int_lit(1), name="count")
    return While(
        (count, *fold.carries),
        (int_lit(0), *fold.inits),
        test.block(on),
        body.block(following, *results),
    )


def _with_integer(block: Block, index: Var, place: Atom) -> Block:
    """`block` with the integer `place`, which is in bounds, in place of `index`."""
    return substitute(_without_ordinals(block, index, place), {index: place})


def _without_ordinals(block: Block, index: Var, place: Atom) -> Block:
    known: dict[Var, Atom] = {}

    def visit(inner: Block) -> Block:
        bindings = []
        for binding in inner.bindings:
            match binding.expr:
                case Prim(op.ORDINAL, (atom,)) if atom is index:
                    known[binding.vars[0]] = place
                case expr:
                    new = rebuild(_trusting(expr, index), lambda a: a, lambda v: v, visit)
                    bindings.append(Binding(binding.vars, new, binding.src))
        return Block(tuple(bindings), inner.results)

    return substitute(visit(block), known)


def _trusting(expr: Expr, index: Var) -> Expr:
    """An access that `index` proves, among others, as one that is not tested again."""
    match expr:
        case Index(table, indices, Bounds.PROVED) if index in indices:
            return Index(table, indices, Bounds.UNCHECKED)
        case Accumulate(_, indices, _, Bounds.PROVED) | Update(_, indices, _, Bounds.PROVED):
            return replace(expr, bounds=Bounds.UNCHECKED) if index in indices else expr
        case _:
            return expr
