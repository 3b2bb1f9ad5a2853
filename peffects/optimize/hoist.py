"""Loop-invariant code moves out of loops, to where the last of its operands is known.

Only what is total moves: it may then run although the loop never does.  Whole loops and reductions
move like scalars.  Nothing leaves a branch that may not be taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from peffects.ir.syntax import Binding, Block, Cond, Expr, Program, Var, WithAcc
from peffects.ir.traverse import binders_of
from peffects.optimize.facts import FactTable
from peffects.optimize.rewriting import with_bindings, with_blocks, with_expr


def hoist(program: Program) -> Program:
    """Move total bindings out of the loops that they do not depend on."""
    walk = _Hoister()
    body = walk.scope(program.body, (), floor=0)
    return replace(program, body=body) if walk.changed else program


@dataclass(slots=True)
class _Level:
    """What runs as often as one block: `out` is filled in front of the binding at hand.

    `floor` is the outermost level that code may move to from here.
    """

    floor: int
    out: list[Binding] = field(default_factory=list)


class _Hoister:
    """`levels` are the blocks around; an accumulator's scope is on the level of its block."""

    def __init__(self) -> None:
        self.facts = FactTable()
        self.levels: list[_Level] = []
        self.level_of: dict[Var, int] = {}
        self.changed = False

    def scope(self, block: Block, binders: tuple[Var, ...], floor: int) -> Block:
        """The block of a new level, with what came to it from inside."""
        self.levels.append(_Level(floor))
        new = self.block(block, binders)
        self.levels.pop()
        return new

    def block(self, block: Block, binders: tuple[Var, ...]) -> Block:
        here = len(self.levels) - 1
        level = self.levels[here]
        around, level.out = level.out, []
        self.level_of.update((binder, here) for binder in binders)
        for binding in block.bindings:
            self.binding(binding, here)
        out, level.out = level.out, around
        return with_bindings(block, out)

    def binding(self, binding: Binding, here: int) -> None:
        """Put `binding` on the outermost level that it may run on."""
        expr = self.inside(binding.expr, here)
        facts = self.facts.of(binding.expr)
        place = here
        if facts.total and not facts.writes:
            needed = max((self.level_of.get(var, 0) for var in facts.uses), default=0)
            place = max(needed, self.levels[here].floor)
        if place < here:
            self.changed = True
        self.level_of.update((var, place) for var in binding.vars)
        self.levels[place].out.append(with_expr(binding, expr))

    def inside(self, expr: Expr, here: int) -> Expr:
        binders = binders_of(expr)
        floor = here + 1 if isinstance(expr, Cond) else self.levels[here].floor

        def inner(block: Block) -> Block:
            if isinstance(expr, WithAcc):
                return self.block(block, binders)
            return self.scope(block, binders, floor)

        return with_blocks(expr, inner)
