"""Replacing variables: substitution, and copies in which every bound variable is new.

A variable is bound once in a program, so a pass that duplicates code must `refresh` the copy.
Types mention sizes, so a binder whose type mentions a replaced size is itself replaced.
"""

from __future__ import annotations

from collections.abc import Mapping

from peffects.ir.syntax import Atom, Binding, Block, Expr, Var
from peffects.ir.traverse import rebuild, rebuild_type


class Renamer:
    """Rewrites blocks under a growing mapping; with `fresh` every binder gets a new variable."""

    def __init__(self, mapping: Mapping[Var, Atom], *, fresh: bool) -> None:
        self.mapping: dict[Var, Atom] = dict(mapping)
        self.fresh = fresh

    def atom(self, atom: Atom) -> Atom:
        """What stands for `atom` now."""
        return self.mapping.get(atom, atom) if isinstance(atom, Var) else atom

    def bind(self, var: Var) -> Var:
        """The variable that is bound in place of `var`."""
        t = rebuild_type(var.type, self.atom)
        if not self.fresh and t is var.type:
            return var
        new = Var(var.name, t)
        self.mapping[var] = new
        return new

    def expr(self, expr: Expr) -> Expr:
        """`expr` under the mapping."""
        return rebuild(expr, self.atom, self.bind, self.block)

    def binding(self, binding: Binding) -> Binding:
        """`binding` under the mapping; its variables are bound."""
        expr = self.expr(binding.expr)
        return Binding(tuple(map(self.bind, binding.vars)), expr, binding.src)

    def block(self, block: Block) -> Block:
        """`block` under the mapping."""
        bindings = tuple(map(self.binding, block.bindings))
        return Block(bindings, tuple(map(self.atom, block.results)))


def substitute(block: Block, mapping: Mapping[Var, Atom]) -> Block:
    """`block` with the variables of `mapping` replaced, in types too."""
    return Renamer(mapping, fresh=False).block(block)


def refresh(block: Block, mapping: Mapping[Var, Atom] = {}) -> Block:
    """A copy of `block` under `mapping` whose bound variables are all new."""
    return Renamer(mapping, fresh=True).block(block)
