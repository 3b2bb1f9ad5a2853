"""Putting changed parts together so that what did not change stays the same object.

A pass then knows by `is` that it found nothing to do, and the pipeline stops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from peffects.ir.syntax import Atom, Binding, Block, Expr, Var
from peffects.ir.traverse import blocks_of, rebuild


def with_blocks(expr: Expr, change: Callable[[Block], Block]) -> Expr:
    """`expr` with its blocks changed, each once and in order."""
    blocks = blocks_of(expr)
    new = {id(block): change(block) for block in blocks}
    if all(new[id(block)] is block for block in blocks):
        return expr
    return rebuild(expr, _same_atom, _same_var, lambda block: new[id(block)])


def with_expr(binding: Binding, expr: Expr) -> Binding:
    """`binding` of the same variables to `expr`."""
    return binding if expr is binding.expr else Binding(binding.vars, expr, binding.src)


def with_bindings(block: Block, bindings: Sequence[Binding]) -> Block:
    """`block` with other bindings and the same results."""
    old = block.bindings
    if len(bindings) == len(old) and all(a is b for a, b in zip(bindings, old, strict=True)):
        return block
    return Block(tuple(bindings), block.results)


def _same_atom(atom: Atom) -> Atom:
    return atom


def _same_var(var: Var) -> Var:
    return var
