"""Which tables are overwritten in place: an update makes a new table, and need not copy the old.

An update may write into the memory of the table that it takes if nobody uses that table afterwards,
and if the memory belongs to the block that does it: to a table made there, or to what a sequential
loop carries.  Arguments, and tables from outside a parallel loop, are copied.  So

    fold i; s = start.  t = s[i] <- v;  -> t

writes one element a step: the carry `s` is *kept*, it lies in one place in all rounds, and that is
the place of `start` if that may be overwritten, too.  Branches of a `cond` and scopes of
accumulators are part of the block that they stand in.

Every decision here only saves a copy: to copy always would be right, too.  What is read of a table
that is overwritten later must be read at once (`reads`), as an expression may otherwise wait.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field

from peffects.ir.syntax import (
    Atom,
    Binding,
    Block,
    Cond,
    Fold,
    For,
    Index,
    Program,
    Table,
    Update,
    Var,
    While,
    WithAcc,
)
from peffects.ir.traverse import expr_free_vars, free_vars

__all__ = ["Overwriting", "find_overwriting"]


@dataclass(slots=True)
class Overwriting:
    """`source` has, for each table that lies in the memory of another one, that other one.

    These are results of updates that happen in place, carries and results of loops, and results of
    branches and scopes.  `kept` has the carries that never change their place.
    """

    source: dict[Var, Var] = field(default_factory=dict)
    kept: set[Var] = field(default_factory=set)
    reads: set[Var] = field(default_factory=set)


def find_overwriting(program: Program) -> Overwriting:
    """Walk the program once."""
    walk = _Walk()
    walk.block(program.body, frozenset())
    overwritten = {walk.root(var) for var in walk.overwritten}
    walk.found.reads = {v for v, table in walk.scalars if walk.root(table) in overwritten}
    return walk.found


@dataclass(slots=True)
class _Level:
    """A block that is walked through: the roots that it owns, and until when each is used."""

    mine: set[Var]
    until: dict[Var, float]
    place: int = 0

    def may_overwrite(self, root: Var) -> bool:
        """Whether the memory `root` belongs to this block, which does not use it any more."""
        return root in self.mine and self.until.get(root, -1) <= self.place


class _Walk:
    """`roots` joins tables that share memory; a table that is in no pair is a root."""

    def __init__(self) -> None:
        self.found = Overwriting()
        self.roots: dict[Var, Var] = {}
        self.overwritten: set[Var] = set()
        self.scalars: list[tuple[Var, Var]] = []

    def root(self, var: Var) -> Var:
        while var in self.roots:
            var = self.roots[var]
        return var

    def share(self, level: _Level, var: Var, other: Var) -> None:
        """Say that `var`, which is a root, lies in the memory of `other`."""
        root = self.root(other)
        self.roots[var] = root
        level.until[root] = max(level.until.get(root, -1), level.until.get(var, -1))

    # --- blocks ----------------------------------------------------------------------------------

    def block(self, block: Block, owned: Set[Var]) -> set[Var]:
        """Decide for `block`, which may overwrite the roots `owned`; all that it owns then."""
        last: dict[Var, float] = {}
        for place, binding in enumerate(block.bindings):
            last.update(dict.fromkeys(_tables(expr_free_vars(binding.expr)), place))
        last.update(dict.fromkeys(_tables(block.results), math.inf))
        level = _Level(set(owned), {})
        for var, use in last.items():
            root = self.root(var)
            level.until[root] = max(level.until.get(root, -1), use)
        for place, binding in enumerate(block.bindings):
            level.place = place
            self.binding(binding, level)
        return level.mine

    def binding(self, binding: Binding, level: _Level) -> None:
        """Decide for one binding."""
        variables = binding.vars
        match binding.expr:
            case Index(table, _, _):
                if isinstance(variables[0].type, Table):
                    self.share(level, variables[0], table)
                else:
                    self.scalars.append((variables[0], table))
            case Update(table, _, _, _):
                if level.may_overwrite(self.root(table)):
                    self.overwritten.add(table)
                    self.lies_in(level, variables[0], table)
                else:
                    level.mine.add(variables[0])
            case For(_, body):
                self.block(body, frozenset())
                level.mine.update(_tables(variables))
            case Fold(_, _, carries, inits, body):
                self.loop(variables, carries, inits, (body,), level)
            case While(carries, inits, test, body):
                self.loop(variables, carries, inits, (body, test), level)
            case Cond(_, then, orelse):
                self.cond(variables, (then, orelse), level)
            case WithAcc(_, body):
                level.mine |= self.block(body, self.given(level))
                for var, atom in zip(variables, body.results, strict=False):
                    if isinstance(atom, Var) and isinstance(atom.type, Table):
                        self.lies_in(level, var, atom)
                level.mine.update(_tables(variables[len(body.results) :]))
            case _:
                pass

    def given(self, level: _Level) -> set[Var]:
        """What a block inside that runs at most once may overwrite."""
        return {root for root in level.mine if level.may_overwrite(root)}

    def lies_in(self, level: _Level, var: Var, other: Var) -> None:
        self.found.source[var] = other
        self.share(level, var, other)

    # --- loops and branches ----------------------------------------------------------------------

    def loop(
        self,
        variables: Sequence[Var],
        carries: Sequence[Var],
        inits: Sequence[Atom],
        blocks: Sequence[Block],
        level: _Level,
    ) -> None:
        """A sequential loop owns what it carries; `blocks` are its body, and its test."""
        self.block(blocks[0], set(_tables(carries)))
        for test in blocks[1:]:
            self.block(test, frozenset())
        inside = {self.root(var) for block in blocks for var in _tables(free_vars(block))}
        starts = [self.root(init) for init in _tables(inits)]
        level.mine.update(_tables(variables))
        for carry, init, end, var in zip(
            carries, inits, blocks[0].results, variables, strict=False
        ):
            if not isinstance(carry.type, Table):
                continue
            assert isinstance(init, Var) and isinstance(end, Var), "there are no literal tables"
            if self.root(end) is not carry:
                continue
            self.found.kept.add(carry)
            root = self.root(init)
            alone = starts.count(root) == 1 and root not in inside
            if alone and level.may_overwrite(root):
                self.lies_in(level, carry, init)
                self.lies_in(level, var, init)
            else:
                self.share(level, carry, var)

    def cond(self, variables: Sequence[Var], sides: Sequence[Block], level: _Level) -> None:
        """One of the sides runs, so both may overwrite what is not used after them."""
        given = self.given(level)
        for side in sides:
            self.block(side, given)
        ends = [[self.root(x) if isinstance(x, Var) else None for x in s.results] for s in sides]
        for place, var in enumerate(variables):
            if not isinstance(var.type, Table):
                continue
            left, right = (results[place] for results in ends)
            alone = all(results.count(left) == 1 for results in ends)
            if left is right and left in given and alone and _is_whole(left, var):
                self.lies_in(level, var, self.outside(sides[0], place))
            else:
                level.mine.add(var)

    def outside(self, side: Block, place: int) -> Var:
        """The table from outside in whose memory result `place` of a branch lies."""
        made = {var for binding in side.bindings for var in binding.vars}
        atom = side.results[place]
        assert isinstance(atom, Var), "there are no literal tables"
        while atom in made:
            atom = self.found.source[atom]
        return atom


def _is_whole(root: Var, var: Var) -> bool:
    """Whether `var`, which lies in the memory of `root`, is all of it and not a row."""
    assert isinstance(root.type, Table) and isinstance(var.type, Table)
    return len(root.type.dims) == len(var.type.dims)


def _tables(atoms: Iterable[Atom]) -> list[Var]:
    return [atom for atom in atoms if isinstance(atom, Var) and isinstance(atom.type, Table)]
