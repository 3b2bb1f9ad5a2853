"""Transposition: a linear block run backwards, from cotangents of results to those of inputs.

The nonlinear bindings of the block run first, in order; then each linear binding is transposed,
last one first.  Where the cotangent of a linear variable is collected depends on the variable:

* a scalar used at its own level: cotangents are added as atoms, nothing is written;
* a scalar used inside a loop, or a table: into an accumulator with `+`, opened around the
  transposes of everything that follows the variable's binding, and read just before that binding
  is transposed.  So a parallel loop that reads a table becomes a parallel loop that accumulates
  into one;
* a view `x[i]`: into the place `[i]` of the accumulator of x; no zeros are made for the rest;
* a table that is overwritten step by step: its cotangent is a table that is handed on as a value,
  and overwritten, too (`overwriting.py`).

A loop that accumulates becomes a loop that reads the cotangent of what was accumulated.  The linear
block is used up: its variables stand in the result.

Paper: You Only Linearize Once, section 7; references as in Getting to the Point, section 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

from peffects.differentiate.linearity import linear_vars
from peffects.differentiate.overwriting import has_update, is_threaded
from peffects.differentiate.transpose_rules import transpose_rules
from peffects.ir import primitives as p
from peffects.ir.builder import Builder, zeros
from peffects.ir.syntax import (
    Accumulate,
    Atom,
    Binding,
    Block,
    Bounds,
    Check,
    Cond,
    Fold,
    For,
    Idx,
    Index,
    Monoid,
    Prim,
    Ref,
    Scalar,
    Table,
    Update,
    Var,
    While,
    WithAcc,
)
from peffects.ir.traverse import expr_free_vars, free_vars, operands_of

Cotangent: TypeAlias = Atom | None


@dataclass(frozen=True, slots=True)
class CotangentPlace:
    """An accumulator, and where in it."""

    ref: Var
    indices: tuple[Atom, ...] = ()


@dataclass(frozen=True, slots=True)
class _Region:
    """An open region: the builders outside and inside it, and a reference for each variable."""

    outer: Builder
    inner: Builder
    refs: dict[Var, Var]


def transpose_block(
    b: Builder, block: Block, inputs: Sequence[Var], cotangents: Sequence[Cotangent]
) -> tuple[Cotangent, ...]:
    """Emit the transpose of `block`, linear in `inputs`, into `b`; the cotangents of `inputs`.

    `cotangents` are those of the block's results; None stands for zero.  Raises LinearityError if
    the block is not linear in `inputs`.  The work is that of the block itself, but for the zeros
    that accumulators start from.
    """
    linear = linear_vars(block, inputs)
    return _Transposer(b, linear, {}, {}).block(block, inputs, cotangents)


class _Transposer:
    """Transposes the bindings of one scope into `b`."""

    def __init__(
        self,
        b: Builder,
        linear: set[Var],
        places: dict[Var, CotangentPlace],
        sources: dict[Var, Cotangent],
    ) -> None:
        self.b = b
        self.linear = linear
        self.places = places  # variables whose cotangents go into accumulators
        self.sources = sources  # linear references, with the cotangents of their final values
        self.atoms: dict[Var, Atom] = {}  # cotangents collected as atoms

    # --- one scope -------------------------------------------------------------------------------

    def block(
        self, block: Block, inputs: Sequence[Var], cotangents: Sequence[Cotangent]
    ) -> tuple[Cotangent, ...]:
        """Transpose a block whose linear `inputs` are bound around it; their cotangents."""
        placed = self.placed_vars(block)
        tasks: list[Binding | _Region] = []
        for binding in self.flatten(block.bindings):
            if self.is_linear(binding):
                tasks.append(binding)
            else:
                self.b.bindings.append(binding)
        tasks = self.open_regions(tasks, inputs, placed)
        for atom, ct in zip(block.results, cotangents, strict=True):
            self.contribute(atom, ct)
        for task in reversed(tasks):
            if isinstance(task, _Region):
                self.close(task)
            else:
                self.binding(task)
        return tuple(self.take(v) for v in inputs)

    def is_linear(self, binding: Binding) -> bool:
        """Whether a binding has anything to do with linear values."""
        return any(v in self.linear for v in (*binding.vars, *expr_free_vars(binding.expr)))

    def flatten(self, bindings: Iterable[Binding]) -> Iterator[Binding]:
        """The bindings of a scope, with those inside linear `with_acc` regions in front of them.

        The region's own binding then stands for its end: it names results and final values.
        """
        for binding in bindings:
            if isinstance(binding.expr, WithAcc) and self.is_linear(binding):
                yield from self.flatten(binding.expr.body.bindings)
            yield binding

    def open_regions(
        self, bindings: Sequence[Binding | _Region], inputs: Sequence[Var], placed: set[Var]
    ) -> list[Binding | _Region]:
        """`bindings` with an accumulator opened behind each binding whose variables need one."""
        tasks: list[Binding | _Region] = []

        def open_for(variables: Sequence[Var]) -> None:
            wanted = [v for v in variables if v in placed and v in self.linear]
            if wanted:
                tasks.append(self.open(wanted))

        open_for(inputs)
        for binding in bindings:
            assert isinstance(binding, Binding)
            tasks.append(binding)
            if (
                isinstance(binding.expr, Index)
                and isinstance(binding.vars[0].type, Table)
                and binding.expr.table in self.places
            ):
                self.places[binding.vars[0]] = self.view(binding.expr)
            else:
                open_for(binding.vars)
        return tasks

    def placed_vars(self, block: Block) -> set[Var]:
        """The linear variables of a scope whose cotangents need an accumulator.

        Scalars used inside loops; tables, but for those whose one use is as a result: their
        cotangent comes as a whole.
        """
        threaded = self.threaded_vars(block)
        uses: Counter[Var] = Counter()
        inside: set[Var] = set()
        as_results: Counter[Var] = Counter(v for v in block.results if isinstance(v, Var))
        for binding in self.flatten(block.bindings):
            expr = binding.expr
            uses.update(v for v in operands_of(expr) if isinstance(v, Var))
            if isinstance(expr, For | Fold):
                inside.update(expr_free_vars(expr))
            elif isinstance(expr, Cond):
                for side in (expr.then, expr.orelse):
                    inside.update(self.placed_vars(side))
                    uses.update(list(free_vars(side)))
            elif isinstance(expr, WithAcc) and self.is_linear(binding):
                as_results.update(v for v in expr.body.results if isinstance(v, Var))
        uses.update(inside)
        tables = {v for v in uses if isinstance(v.type, Table)}
        tables |= {v for v, count in as_results.items() if isinstance(v.type, Table) and count > 1}
        return (inside | tables) - threaded

    def threaded_vars(self, block: Block) -> set[Var]:
        """The linear tables of a scope whose cotangents are handed on as values."""
        bindings = list(self.flatten(block.bindings))
        found: dict[Var, None] = {}
        for binding in bindings:
            if has_update(binding.expr):
                found.update(dict.fromkeys(expr_free_vars(binding.expr)))
                found.update(dict.fromkeys(binding.vars))
        return {
            var
            for var in found
            if var in self.linear
            and isinstance(var.type, Table)
            and is_threaded(var, bindings, block.results, self.flatten)
        }

    # --- cotangents ------------------------------------------------------------------------------

    def open(self, variables: Sequence[Var]) -> _Region:
        refs = {}
        for var in variables:
            assert isinstance(var.type, Scalar | Table)
            refs[var] = Var(f"ct_{var.name}", Ref(Monoid.ADD, var.type))
            self.places[var] = CotangentPlace(refs[var])
        region = _Region(self.b, self.b.nested(), refs)
        self.b = region.inner
        return region

    def close(self, region: _Region) -> None:
        """End a region: cotangents in it leave it as results, final values become atoms."""
        assert self.b is region.inner, "regions are closed in the order of a stack"
        inside = {var for binding in region.inner.bindings for var in binding.vars}
        held: list[tuple[dict[Var, Any], Var]] = [
            (where, var)
            for where in (self.atoms, self.sources)
            for var, atom in where.items()
            if atom in inside
        ]
        block = region.inner.block(*(where[var] for where, var in held))
        self.b = region.outer
        refs = tuple(region.refs.values())
        names = [f"ct_{v.name}" for _, v in held] + [ref.name for ref in refs]
        made = self.b.emit(WithAcc(refs, block), names)
        for (where, var), new in zip(held, made, strict=False):
            where[var] = new
        self.atoms.update(zip(region.refs, made[len(held) :], strict=True))
        for var in region.refs:
            del self.places[var]

    def take(self, var: Var) -> Cotangent:
        """The cotangent of `var`, once everything behind its binding is transposed."""
        return self.atoms.pop(var, None)

    def contribute(self, atom: Atom, ct: Cotangent) -> None:
        """Add `ct` to the cotangent of `atom`."""
        if ct is None or not isinstance(atom, Var) or atom not in self.linear:
            return
        place = self.places.get(atom)
        if place is not None:
            self.b.accumulate(place.ref, place.indices, ct)
        elif atom in self.atoms:
            self.atoms[atom] = self.add(self.atoms[atom], ct)
        else:
            self.atoms[atom] = ct

    def contribute_at(self, expr: Index, ct: Atom) -> None:
        """Add `ct` to a part of the cotangent of a threaded table."""
        table, indices, bounds = expr.table, expr.indices, expr.bounds
        held = self.atoms.get(table) or zeros(self.b, table.type)
        assert isinstance(held, Var), "there are no literal tables"
        total = self.add(self.b.index(held, *indices, bounds=bounds), ct)
        self.atoms[table] = self.b.update(held, indices, total, bounds)

    def add(self, x: Atom, y: Atom) -> Atom:
        """The sum of two cotangents, numbers or tables."""
        if not isinstance(x.type, Table):
            return self.b.prim(p.ADD, x, y, name="ct")
        binders = tuple(Var("i", Idx(dim)) for dim in x.type.dims)
        inner = self.b.nested()
        assert isinstance(x, Var)
        assert isinstance(y, Var)
        total = inner.prim(p.ADD, inner.index(x, *binders), inner.index(y, *binders), name="ct")
        return self.b.loop(binders, inner.block(total), ("ct",))[0]

    def view(self, expr: Index) -> CotangentPlace:
        """Where the cotangent of a view, or of an element, goes."""
        base = self.places[expr.table]
        return CotangentPlace(base.ref, base.indices + expr.indices)

    def read(self, table: Atom, indices: tuple[Atom, ...], bounds: Bounds = Bounds.PROVED) -> Atom:
        """An element or row of a cotangent."""
        if not indices:
            return table
        assert isinstance(table, Var)
        return self.b.index(table, *indices, bounds=bounds)

    # --- bindings --------------------------------------------------------------------------------

    def binding(self, binding: Binding) -> None:
        self.b.at = binding.src
        expr = binding.expr
        match expr:
            case Prim(op, args):
                self.prim(binding, op, args)
            case Index():
                self.index(binding, expr)
            case Update():
                self.update(binding.vars[0], expr)
            case For(binders, body):
                self.for_loop(binding, binders, body)
            case Fold():
                self.fold(binding, expr)
            case Cond(pred, then, orelse):
                self.cond(binding, pred, then, orelse)
            case WithAcc(refs, body):
                cts = [self.take(v) for v in binding.vars]
                self.sources.update(zip(refs, cts[len(body.results) :], strict=True))
                for result, ct in zip(body.results, cts, strict=False):
                    self.contribute(result, ct)
            case Accumulate(ref, indices, value, bounds):
                source = self.sources[ref]
                if source is not None:
                    self.contribute(value, self.read(source, indices, bounds))
            case While() | Check():
                raise AssertionError("never linear")
            case _:
                assert_never(expr)

    def prim(self, binding: Binding, op: p.Primitive, args: tuple[Atom, ...]) -> None:
        ct = self.take(binding.vars[0])
        if ct is None:
            return
        is_linear = tuple(isinstance(arg, Var) and arg in self.linear for arg in args)
        for arg, arg_ct in zip(args, transpose_rules[op](self.b, args, is_linear, ct), strict=True):
            self.contribute(arg, arg_ct)

    def index(self, binding: Binding, expr: Index) -> None:
        (var,) = binding.vars
        if var in self.places:  # a view: its cotangents went straight into those of the table
            self.places.pop(var)
            return
        ct = self.take(var)
        if ct is None:
            return
        if expr.table in self.places:
            place = self.view(expr)
            self.b.accumulate(place.ref, place.indices, ct, expr.bounds)
        else:
            self.contribute_at(expr, ct)

    def update(self, var: Var, expr: Update) -> None:
        """The cotangent of the new part, and that of the old table: zero there."""
        ct = self.take(var)
        if ct is None:
            return
        assert isinstance(ct, Var), "there are no literal tables"
        self.contribute(expr.value, self.read(ct, expr.indices, expr.bounds))
        none = zeros(self.b, expr.value.type)
        self.contribute(expr.table, self.b.update(ct, expr.indices, none, expr.bounds))

    # --- loops and branches ----------------------------------------------------------------------

    def nested(self) -> _Transposer:
        """For the inside of a loop or branch of this scope."""
        return _Transposer(self.b.nested(), self.linear, dict(self.places), self.sources)

    def for_loop(self, binding: Binding, binders: tuple[Var, ...], body: Block) -> None:
        cts = [self.take(v) for v in binding.vars]
        inner = self.nested()
        inner.block(body, (), [None if ct is None else inner.read(ct, binders) for ct in cts])
        self.b.loop(binders, inner.b.block())

    def fold(self, binding: Binding, fold: Fold) -> None:
        """The steps run backwards; the cotangents of the carries are carried."""
        count = len(fold.carries)
        ends = [self.take(v) for v in binding.vars[:count]]
        outputs = [self.take(v) for v in binding.vars[count:]]
        inner = self.nested()
        unused = self.zeros_of_read(fold)
        handed = self.hand_on(fold.body) | unused
        through = {v: Var(f"ct_{v.name}", v.type) for v in handed}
        inner.atoms.update(through)
        cts = tuple(Var(f"ct_{c.name}", c.type) for c in fold.carries)
        out_cts = [None if ct is None else inner.read(ct, (fold.binder,)) for ct in outputs]
        found = inner.block(fold.body, fold.carries, [*cts, *out_cts])
        before = [
            zeros(inner.b, c.type) if ct is None else ct for c, ct in zip(cts, found, strict=True)
        ]
        inits = tuple(
            zeros(self.b, c.type) if ct is None else ct for c, ct in zip(cts, ends, strict=True)
        )
        body = inner.b.block(*before, *(inner.atoms[v] for v in handed))
        carries, starts = (*cts, *through.values()), (*inits, *handed.values())
        made = self.b.emit(Fold(fold.binder, not fold.reverse, carries, starts, body, True))
        for init, ct in zip((*fold.inits, *handed), made, strict=True):
            self.contribute(init, ct)

    def hand_on(self, *blocks: Block) -> dict[Var, Atom]:
        """The cotangents of tables that `blocks` read, and that they are to add to.

        They are cotangents that are there already, because the tables are handed on afterwards.
        """
        read = dict.fromkeys(var for block in blocks for var in free_vars(block))
        tables = [v for v in read if isinstance(v.type, Table) and v in self.atoms]
        return {var: self.atoms.pop(var) for var in tables}

    def zeros_of_read(self, fold: Fold) -> dict[Var, Atom]:
        """Zeros for each threaded table that a loop reads, if what uses it later adds nothing."""
        tables = [v for v in free_vars(fold.body) if isinstance(v.type, Table) and v in self.linear]
        known = {*self.places, *self.atoms, *fold.carries}
        read = [v for v in tables if v not in known]
        return {var: zeros(self.b, var.type) for var in read}

    def cond(self, binding: Binding, pred: Atom, then: Block, orelse: Block) -> None:
        """The same branch runs; cotangents of scalars from outside leave it as results."""
        cts = [self.take(v) for v in binding.vars]
        sides = [self.nested(), self.nested()]
        handed = self.hand_on(then, orelse)
        for inner in sides:
            inner.atoms.update(handed)
        for inner, block in zip(sides, (then, orelse), strict=True):
            inner.block(block, (), cts)
        leaving = list(dict.fromkeys(v for inner in sides for v in inner.atoms))
        blocks = []
        for inner in sides:
            results = [inner.atoms.get(v) or zeros(inner.b, v.type) for v in leaving]
            blocks.append(inner.b.block(*results))
        made = self.b.emit(Cond(pred, *blocks), [f"ct_{v.name}" for v in leaving])
        for var, ct in zip(leaving, made, strict=True):
            self.contribute(var, ct)
