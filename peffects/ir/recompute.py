"""Copies of code that has run: they compute the same once more, and have no effects.

Their tests have passed, so an access is not tested again; what they would add to references from
outside has been added.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from peffects.ir.syntax import Accumulate, Binding, Block, Bounds, Check, Expr, Index, Update, Var
from peffects.ir.traverse import binders_of, rebuild

__all__ = ["without_effects"]


def without_effects(binding: Binding, own: Iterable[Var] = ()) -> Binding:
    """`binding` as a recomputation: no checks, no accumulations into references from outside.

    `own` are references from outside that are recomputed with it.
    """
    return Binding(binding.vars, _pure_copy(binding.expr, frozenset(own)), binding.src)


def _pure_copy(expr: Expr, inner: frozenset[Var]) -> Expr:
    inner = inner | set(binders_of(expr))
    if isinstance(expr, Index) and expr.bounds is Bounds.CHECKED:
        return Index(expr.table, expr.indices, Bounds.UNCHECKED)
    if isinstance(expr, Accumulate | Update) and expr.bounds is Bounds.CHECKED:
        return replace(expr, bounds=Bounds.UNCHECKED)

    def block(block: Block) -> Block:
        kept = (b for b in block.bindings if not _is_effect(b.expr, inner))
        return Block(
            tuple(Binding(b.vars, _pure_copy(b.expr, inner), b.src) for b in kept), block.results
        )

    return rebuild(expr, lambda a: a, lambda v: v, block)


def _is_effect(expr: Expr, inner: frozenset[Var]) -> bool:
    return isinstance(expr, Check) or (isinstance(expr, Accumulate) and expr.ref not in inner)
