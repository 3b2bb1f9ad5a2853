"""Forward mode and unzip: from a block to its primal part and its linear part.

`linearize_block` walks a block once.  It gives the block again, with residuals as further results
of its loops, and beside it a *linear block*: from the tangents of the active inputs to the
tangents of the results.  The linear block stands after the primal one, in the same scope, and uses
its values; it holds nonlinear bindings too (coefficients, and what is recomputed), which depend on
no tangent.  Inside a loop the linear part is a loop of its own, whose body gets what it needs by
the choice of `residuals.py`.

Paper: You Only Linearize Once, sections 5 (J) and 6 (unzip), here in one walk; for loops,
references and accumulations, Getting to the Point, section 5 and `differentiate/` there.  Differs
from both: the linear part may recompute, and only outermost loops must.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from peffects.differentiate.accumulations import Recorded, recorded, refuse_rows
from peffects.differentiate.counted import counted
from peffects.differentiate.linearize_rules import Tangent, linearize_rules
from peffects.differentiate.overwriting import updates
from peffects.differentiate.residuals import Slice, slice_for
from peffects.errors import NotDifferentiableError
from peffects.ir import primitives as p
from peffects.ir.builder import Builder, fresh_like, zeros
from peffects.ir.rename import Renamer, refresh
from peffects.ir.syntax import (
    Accumulate,
    Atom,
    Binding,
    Block,
    Check,
    Cond,
    Expr,
    Fold,
    For,
    Idx,
    Index,
    Monoid,
    Prim,
    Ref,
    Scalar,
    Table,
    Type,
    Update,
    Var,
    While,
    WithAcc,
)
from peffects.ir.traverse import accumulated_refs, expr_free_vars, free_vars, sizes_of
from peffects.ir.typing import result_types


@dataclass(frozen=True, slots=True)
class Linearized:
    """A block, and its linear part with a tangent (or None: zero) for each result."""

    primal: Block
    linear: tuple[Binding, ...]
    tangents: tuple[Tangent, ...]


def has_tangent(t: Type) -> bool:
    """Whether values of type `t` have tangents: floats, tables of them, references to them."""
    match t:
        case Scalar():
            return t.is_float
        case Table(_, elem):
            return elem.is_float
        case Ref(_, value):
            return has_tangent(value)
        case Idx():
            return False
        case _:
            assert_never(t)


def tangent_var(var: Var) -> Var:
    """A variable for the tangent of `var`; the tangent of a reference accumulates with `+`."""
    t = var.type
    return Var(f"d_{var.name}", Ref(Monoid.ADD, t.value) if isinstance(t, Ref) else t)


def linearize_block(block: Block, tangents: dict[Var, Var]) -> Linearized:
    """Linearize `block`, given the tangents of its active free variables."""
    return _Linearizer(dict(tangents), False, {}).block(block)


class _Linearizer:
    """Walks one scope.  `env` has the tangents of active variables; it grows with the bindings."""

    def __init__(
        self,
        env: dict[Var, Var],
        in_loop: bool,
        records: dict[Var, Recorded],
        overwritten: frozenset[Var] = frozenset(),
    ) -> None:
        self.env = env
        self.in_loop = in_loop
        self.records = records
        self.overwritten = overwritten  # carried tables of which a round changes a part
        self.primal: list[Binding] = []
        self.linear = Builder()

    def block(self, block: Block) -> Linearized:
        for binding in block.bindings:
            self.linear.at = binding.src
            self.binding(binding)
        primal = Block(tuple(self.primal), block.results)
        tangents = tuple(map(self.tangent, block.results))
        return Linearized(primal, tuple(self.linear.bindings), tangents)

    def tangent(self, atom: Atom) -> Tangent:
        return self.env.get(atom) if isinstance(atom, Var) else None

    def is_active(self, binding: Binding) -> bool:
        return any(var in self.env for var in expr_free_vars(binding.expr))

    def inside(
        self, body: Block, env: dict[Var, Var], overwritten: frozenset[Var] = frozenset()
    ) -> Linearized:
        """Linearize the body of a loop or branch of this scope."""
        known = self.overwritten | overwritten
        return _Linearizer(dict(env), True, self.records, known).block(body)

    def keep(self, binding: Binding) -> None:
        self.primal.append(binding)

    def set_tangents(self, variables: Sequence[Var], tangents: Sequence[Tangent]) -> None:
        for var, tangent in zip(variables, tangents, strict=True):
            if tangent is None or not has_tangent(var.type):
                continue
            assert isinstance(tangent, Var), "rules give variables"
            self.env[var] = tangent

    def binding(self, binding: Binding) -> None:
        expr = binding.expr
        if not self.is_active(binding):
            self.keep(binding)
            return
        match expr:
            case Prim(op, args):
                self.keep(binding)
                self.prim(binding, op, args)
            case Index(table, indices, bounds):
                self.keep(binding)
                tangent = self.env.get(table)
                if tangent is not None and has_tangent(binding.vars[0].type):
                    out = self.linear.index(tangent, *indices, bounds=bounds.again)
                    self.set_tangents(binding.vars, (out,))
            case Update():
                self.keep(binding)
                self.update(binding.vars[0], expr)
            case For(binders, body):
                self.for_loop(binding, binders, body)
            case Fold():
                self.fold(binding, expr)
            case While():
                self.while_loop(binding, expr)
            case Cond(pred, then, orelse):
                self.cond(binding, pred, then, orelse)
            case WithAcc(refs, body):
                self.with_acc(binding, refs, body)
            case Accumulate():
                self.keep(binding)
                self.accumulate(expr)
            case Check():
                self.keep(binding)
            case _:
                assert_never(expr)

    def prim(self, binding: Binding, op: p.Primitive, args: tuple[Atom, ...]) -> None:
        (out,) = binding.vars
        if not has_tangent(out.type):
            return
        tangents = tuple(map(self.tangent, args))
        if op not in linearize_rules and (why := linearize_rules.refusal(op)) is not None:
            raise NotDifferentiableError(
                f"the derivative of `{op.name}` was asked for: {why}.",
                at=binding.src,
                fix="Take it out of the differentiated part, or stop the gradient before it: "
                f"`{op.name}(pe.stop_gradient(x))`.",
            )
        self.set_tangents((out,), (linearize_rules[op](self.linear, args, out, tangents),))

    def update(self, var: Var, expr: Update) -> None:
        """The tangent of a table with another element or row."""
        table, value = self.env.get(expr.table), self.tangent(expr.value)
        if table is None and value is None:
            return
        whole = zeros(self.linear, var.type) if table is None else table
        part = zeros(self.linear, expr.value.type) if value is None else value
        assert isinstance(whole, Var), "there are no literal tables"
        new = self.linear.update(whole, expr.indices, part, expr.bounds.again)
        self.set_tangents((var,), (new,))

    # --- loops -----------------------------------------------------------------------------------

    def for_loop(self, binding: Binding, binders: tuple[Var, ...], body: Block) -> None:
        inner = self.inside(body, self.env)
        linear, tangents = _linear_block(inner)
        if not linear.bindings and not linear.results:
            self.keep(binding)
            return
        needed = slice_for(
            free_vars(linear), inner.primal.bindings, (), self.in_loop, self.overwritten
        )
        tables = self.keep_for(binding, binders, inner.primal, needed)
        fresh = tuple(map(fresh_like, binders))
        block = self.loop_body(
            dict(zip(binders, fresh, strict=True)), fresh, needed, tables, linear
        )
        found = self.linear.loop(fresh, block, [f"d_{v.name}" for v in binding.vars])
        self.set_tangents(binding.vars, _spread(tangents, found))

    def keep_for(
        self, binding: Binding, binders: tuple[Var, ...], body: Block, needed: Slice
    ) -> tuple[Var, ...]:
        """Keep a parallel loop with the saved values as further results; the tables of those."""
        return self.keep_saving(
            binding, For(binders, Block(body.bindings, body.results + needed.saved)), needed
        )

    def keep_fold(
        self, binding: Binding, fold: Fold, body: Block, needed: Slice
    ) -> tuple[Var, ...]:
        """The same for a sequential loop."""
        block = Block(body.bindings, body.results + needed.saved)
        expr = replace(fold, body=block)
        return self.keep_saving(binding, expr, needed)

    def keep_saving(self, binding: Binding, expr: Expr, needed: Slice) -> tuple[Var, ...]:
        types = result_types(expr)[len(binding.vars) :]
        tables = tuple(Var(v.name, t) for v, t in zip(needed.saved, types, strict=True))
        self.keep(Binding(binding.vars + tables, expr, binding.src))
        return tables

    def loop_body(
        self,
        mapping: dict[Var, Var],
        place: tuple[Var, ...],
        needed: Slice,
        tables: tuple[Var, ...],
        linear: Block,
    ) -> Block:
        """The body of a linear loop: read what is saved, recompute the rest, then the tangents."""
        b = self.linear.nested()
        renamer = Renamer(mapping, fresh=True)
        for var, table in zip(needed.saved, tables, strict=True):
            renamer.mapping[var] = b.index(table, *place)
        b.bindings.extend(map(renamer.binding, needed.recomputed))
        return b.block(*b.append(renamer.block(linear)))

    def fold(self, binding: Binding, fold: Fold) -> None:
        """A sequential loop: what the linear part needs of the carries is saved, step by step."""
        count = len(fold.carries)
        active = {c for c, init in zip(fold.carries, fold.inits, strict=True) if self.tangent(init)}
        overwritten = frozenset(c for c in fold.carries if updates(fold.body, c))
        while True:
            env = dict(self.env) | {c: tangent_var(c) for c in fold.carries if c in active}
            inner = self.inside(fold.body, env, overwritten)
            grown = {
                c for c, t in zip(fold.carries, inner.tangents, strict=False)
                if t is not None and has_tangent(c.type)
            } - active  # fmt: skip
            if not grown:
                break
            active |= grown
        carried = tuple(c for c in fold.carries if c in active)
        linear, tangents = self.fold_step(inner, fold, active)
        if not linear.results and not linear.bindings:
            self.keep(binding)
            return
        needed = slice_for(
            free_vars(linear),
            inner.primal.bindings,
            fold.carries,
            can_save=True,
            costly=self.overwritten | overwritten,
        )
        tables = self.keep_fold(binding, fold, inner.primal, needed)
        step = Var(fold.binder.name, fold.binder.type)
        starts = tuple(env[c] for c in carried)
        block = self.loop_body({fold.binder: step}, (step,), needed, tables, linear)
        inits = tuple(
            self.tangent(init) or zeros(self.linear, c.type)
            for c, init in zip(fold.carries, fold.inits, strict=True)
            if c in active
        )
        expr = Fold(step, fold.reverse, starts, inits, block, fold.running)
        found = iter(self.linear.emit(expr, [f"d_{c.name}" for c in carried]))
        ends = [next(found) if c in active else None for c in fold.carries]
        outputs = [None if t is None else next(found) for t in tangents[count:]]
        self.set_tangents(binding.vars, (*ends, *outputs))

    def fold_step(
        self, inner: Linearized, fold: Fold, active: set[Var]
    ) -> tuple[Block, tuple[Tangent, ...]]:
        """The linear block of one step: next tangents of active carries, then of outputs."""
        b = Builder(self.linear.at)
        b.bindings.extend(inner.linear)
        count = len(fold.carries)
        results: list[Atom] = []
        for carry, tangent in zip(fold.carries, inner.tangents[:count], strict=True):
            if carry in active:
                results.append(zeros(b, carry.type) if tangent is None else tangent)
        results += [t for t in inner.tangents[count:] if t is not None]
        return b.block(*results), inner.tangents

    def while_loop(self, binding: Binding, loop: While) -> None:
        """A loop of unknown length: its rounds are counted first, and then run as a fold."""
        if not any(has_tangent(carry.type) for carry in loop.carries):
            writes = accumulated_refs(Block((binding,), ()))
            if not any(ref in self.env for ref in writes):
                self.keep(binding)
                return
        before, fold = counted(binding, loop)
        for extra in before:
            self.keep(extra)
        assert isinstance(fold.expr, Fold)
        self.fold(fold, fold.expr)

    # --- branches --------------------------------------------------------------------------------

    def cond(self, binding: Binding, pred: Atom, then: Block, orelse: Block) -> None:
        sides = [self.inside(side, self.env) for side in (then, orelse)]
        active = [
            a is not None or b is not None
            for a, b in zip(*(s.tangents for s in sides), strict=True)
        ]
        if not any(active) and not any(s.linear for s in sides):
            expr = Cond(pred, sides[0].primal, sides[1].primal)
            self.keep(Binding(binding.vars, expr, binding.src))
            return
        parts = [self.cond_side(side, active) for side in sides]
        saved = [needed.saved for _, needed in parts]
        known = self.keep_cond(binding, pred, [side.primal for side in sides], saved)
        blocks = [
            refresh(Block(needed.recomputed + linear.bindings, linear.results), known)
            for linear, needed in parts
        ]
        found = iter(self.linear.emit(Cond(pred, *blocks), [f"d_{v.name}" for v in binding.vars]))
        self.set_tangents(binding.vars, [next(found) if is_on else None for is_on in active])

    def cond_side(self, side: Linearized, active: Sequence[bool]) -> tuple[Block, Slice]:
        """One side's tangents, and what they need: it is recomputed, as only this side may run.

        What it read of a table that is overwritten afterwards is saved.
        """
        b = self.linear.nested()
        b.bindings.extend(side.linear)
        results = [
            zeros(b, atom.type) if tangent is None else tangent
            for atom, tangent, is_on in zip(side.primal.results, side.tangents, active, strict=True)
            if is_on
        ]
        linear = b.block(*results)
        bindings, wanted = side.primal.bindings, free_vars(linear)
        needed = slice_for(wanted, bindings, (), can_save=False)
        read = {var for again in needed.recomputed for var in expr_free_vars(again.expr)}
        if not read.isdisjoint(self.overwritten):
            needed = slice_for(wanted, bindings, (), can_save=True, costly=self.overwritten)
        return linear, needed

    def keep_cond(
        self,
        binding: Binding,
        pred: Atom,
        sides: Sequence[Block],
        saved: Sequence[tuple[Var, ...]],
    ) -> dict[Var, Atom]:
        """Keep a branch with the saved values as further results, zero on the other side."""
        blocks = []
        for mine, side in enumerate(sides):
            b = Builder(binding.src)
            more = [
                var if owner == mine else zeros(b, var.type)
                for owner, variables in enumerate(saved)
                for var in variables
            ]
            bindings = side.bindings + tuple(b.bindings)
            blocks.append(Block(bindings, (*side.results, *more)))
        everything = [var for variables in saved for var in variables]
        leaving = tuple(map(fresh_like, everything))
        expr = Cond(pred, blocks[0], blocks[1])
        self.keep(Binding(binding.vars + leaving, expr, binding.src))
        return dict(zip(everything, leaving, strict=True))

    # --- accumulators ----------------------------------------------------------------------------

    def with_acc(self, binding: Binding, refs: tuple[Var, ...], body: Block) -> None:
        """The body is in the same scope, run once: what its linear part needs becomes a result."""
        finals = dict(zip(refs, binding.vars[len(body.results) :], strict=True))
        floats = [ref for ref in refs if has_tangent(ref.type)]
        records = {ref: record for ref in floats if (record := recorded(ref, finals[ref]))}
        env = self.env | {ref: tangent_var(ref) for ref in floats}
        inner = _Linearizer(env, self.in_loop, self.records | records, self.overwritten)
        found = inner.block(body)
        used = [ref for ref in floats if env[ref] in accumulated_refs(Block(found.linear, ()))]
        linear, tangents = _linear_block(found)
        linear = self.keep_exporting(binding, refs, found.primal, linear)
        if not linear.bindings and not linear.results:
            return
        for ref in used:
            if ref in records:
                self.linear.bindings.append(records[ref].helpers(body, binding.src))
        names = [f"d_{v.name}" for v in binding.vars]
        emitted = iter(self.linear.emit(WithAcc(tuple(env[ref] for ref in used), linear), names))
        results = [None if t is None else next(emitted) for t in tangents]
        ends = [next(emitted) if ref in used else None for ref in refs]
        self.set_tangents(binding.vars, (*results, *ends))

    def keep_exporting(
        self, binding: Binding, refs: tuple[Var, ...], body: Block, linear: Block
    ) -> Block:
        """Keep the region with what `linear` needs as further results; `linear` in terms of them.

        A value whose size is computed inside the region cannot leave it and is recomputed.
        """
        inside = {var for b in body.bindings for var in b.vars}
        wanted = [var for var in free_vars(linear) if var in inside]
        stuck = [v for v in wanted if any(size in inside for size in sizes_of(v.type))]
        again = slice_for(stuck, body.bindings, (), can_save=False).recomputed
        linear = Block(again + linear.bindings, linear.results)
        again_vars = {var for b in again for var in b.vars}
        leaving = tuple(v for v in free_vars(linear) if v in inside and v not in again_vars)
        exported = tuple(map(fresh_like, leaving))
        count = len(body.results)
        variables = (*binding.vars[:count], *exported, *binding.vars[count:])
        expr = WithAcc(refs, Block(body.bindings, body.results + leaving))
        self.keep(Binding(variables, expr, binding.src))
        return refresh(linear, dict(zip(leaving, exported, strict=True)))

    def accumulate(self, expr: Accumulate) -> None:
        tangent, ref = self.tangent(expr.value), self.env.get(expr.ref)
        if tangent is None or ref is None:
            return
        if expr.ref in self.records:
            refuse_rows(expr, self.linear.at)
            tangent = self.records[expr.ref].share(self.linear, expr, tangent)
        self.linear.accumulate(ref, expr.indices, tangent, expr.bounds.again)


def _linear_block(found: Linearized) -> tuple[Block, tuple[Tangent, ...]]:
    """The linear part as a block whose results are the tangents that are not zero."""
    results = tuple(t for t in found.tangents if t is not None)
    return Block(found.linear, results), found.tangents


def _spread(tangents: Sequence[Tangent], found: Sequence[Var]) -> tuple[Tangent, ...]:
    """`found` in the places of the tangents that are not zero."""
    supply = iter(found)
    return tuple(None if t is None else next(supply) for t in tangents)
