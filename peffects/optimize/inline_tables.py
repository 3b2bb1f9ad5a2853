"""Producer into consumer: a table that is only read element by element need not be made.

`t = for i. e(i)` is inlined where `t[j]` is read if that repeats no work: the read is the only one
and happens at most once an element, because the index of each loop around it (inside the scope
of `t`) is one of its indices; or `e` only fetches one thing; or `e` is a little arithmetic and
there are two such reads.  The loop that makes `t` fails nowhere and writes nowhere, so it may run
later.

What stays of the loop, if nothing reads `t` any more, `dead_code` takes away.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from peffects.ir import primitives as p
from peffects.ir.rename import Renamer, refresh
from peffects.ir.syntax import (
    Atom,
    Binding,
    Block,
    Bounds,
    Expr,
    Fold,
    For,
    Idx,
    Index,
    Prim,
    Program,
    Var,
    While,
)
from peffects.ir.traverse import blocks_of, operands_of
from peffects.optimize.facts import FactTable

LITTLE = 2 * p.CHEAP
"""The most arithmetic that is done twice in order not to store a table."""
_MUCH = 10**9


def inline_tables(program: Program) -> Program:
    """Inline loops into the reads of their results where that repeats no work."""
    tables = _Tables()
    tables.block(program.body)
    chosen = {made.var: made for made in tables.made.values() if made.is_worth_inlining()}
    if not chosen:
        return program
    return replace(program, body=_Inliner(chosen).block(program.body))


@dataclass(slots=True)
class _Made:
    """A table that a loop makes, in a scope inside `depth` loops, and how it is used.

    `reads` says of each read of an element whether it happens at most once an element.
    """

    var: Var
    loop: For
    place: int
    depth: int
    is_alone: bool
    reads: list[bool] = field(default_factory=list)
    escapes: bool = False
    serial: bool = False

    def is_worth_inlining(self) -> bool:
        """Whether inlining repeats no work, or hardly any."""
        if self.escapes or not self.reads or not FactTable().of(self.loop).movable:
            return False
        body = self.slice(self.loop)
        cost = sum(_cost(b.expr) for b in body.bindings)
        if cost == 0 and len(body.bindings) <= 1:
            return True
        if cost <= LITTLE and len(self.reads) <= 2:
            return all(self.reads)
        return self.is_alone and self.reads == [True] and not self.serial

    def slice(self, loop: For) -> Block:
        """What of the loop's body computes an element of this table."""
        result = loop.body.results[self.place]
        facts, needed, kept = FactTable(), {result}, []
        for binding in reversed(loop.body.bindings):
            if not needed.isdisjoint(binding.vars):
                needed.update(facts.of(binding.expr).uses)
                kept.append(binding)
        return Block(tuple(kept[::-1]), (result,))


def _cost(expr: Expr) -> int:
    match expr:
        case Prim(op, _):
            return op.cost
        case Index():
            return 0
        case _:
            return _MUCH


class _Tables:
    """Finds the tables that loops make, and their uses."""

    def __init__(self) -> None:
        self.made: dict[Var, _Made] = {}
        self.loops: list[Expr] = []

    def block(self, block: Block) -> None:
        for binding in block.bindings:
            self.binding(binding)
        self.escape(block.results)

    def escape(self, atoms: tuple[Atom, ...]) -> None:
        for atom in atoms:
            if isinstance(atom, Var) and atom in self.made:
                self.made[atom].escapes = True

    def binding(self, binding: Binding) -> None:
        expr = binding.expr
        if isinstance(expr, Index) and expr.table in self.made:
            self.read(self.made[expr.table], expr)
            return
        self.escape(operands_of(expr))
        is_loop = isinstance(expr, For | Fold | While)
        if is_loop:
            self.loops.append(expr)
        for inner in blocks_of(expr):
            self.block(inner)
        if is_loop:
            self.loops.pop()
        if isinstance(expr, For):
            for place, var in enumerate(binding.vars):
                is_alone = len(binding.vars) == 1
                self.made[var] = _Made(var, expr, place, len(self.loops), is_alone)

    def read(self, made: _Made, access: Index) -> None:
        count = len(made.loop.binders)
        indices = access.indices[:count]
        is_element = len(indices) == count and all(isinstance(i.type, Idx) for i in indices)
        if not is_element or access.bounds is Bounds.CHECKED:
            made.escapes = True
            return
        between = self.loops[made.depth :]
        made.reads.append(all(_runs_over(loop, indices) for loop in between))
        # A parallel loop is not made part of a sequential one, unless it is inside a parallel one.
        is_parallel = any(isinstance(loop, For) for loop in self.loops[: made.depth])
        if not is_parallel and any(isinstance(loop, Fold) for loop in between):
            made.serial = True


def _runs_over(loop: Expr, indices: tuple[Atom, ...]) -> bool:
    """Whether each iteration of `loop` has other `indices`."""
    match loop:
        case For(binders, _):
            return all(binder in indices for binder in binders)
        case Fold(binder, _, _, _, _):
            return binder in indices
        case _:
            return False


class _Inliner(Renamer):
    """Replaces reads by copies of the body; `ready` has the loops as they are after that."""

    def __init__(self, chosen: dict[Var, _Made]) -> None:
        super().__init__({}, fresh=False)
        self.chosen = chosen
        self.ready: dict[Var, Block] = {}

    def block(self, block: Block) -> Block:
        out: list[Binding] = []
        for binding in block.bindings:
            expr = binding.expr
            if isinstance(expr, Index) and expr.table in self.chosen:
                self.inline(binding, expr, out)
                continue
            new = self.binding(binding)
            out.append(new)
            for old, var in zip(binding.vars, new.vars, strict=True):
                if old in self.chosen:
                    assert isinstance(new.expr, For)
                    made = replace(self.chosen[old], var=var, loop=new.expr)
                    self.chosen[old] = made
                    self.ready[old] = made.slice(new.expr)
        return Block(tuple(out), tuple(map(self.atom, block.results)))

    def inline(self, binding: Binding, access: Index, out: list[Binding]) -> None:
        """Append what computes `access`; its variable becomes a copy."""
        binders = self.chosen[access.table].loop.binders
        indices = tuple(map(self.atom, access.indices))
        body = refresh(self.ready[access.table], dict(zip(binders, indices, strict=False)))
        out.extend(body.bindings)
        (value,), rest = body.results, indices[len(binders) :]
        if rest:
            assert isinstance(value, Var)
            read = Binding(binding.vars, Index(value, rest, access.bounds), binding.src)
            out.append(self.binding(read))
        else:
            self.mapping[binding.vars[0]] = value
