"""Replaces expressions by equal ones that are simpler: one walk forwards, with a substitution.

Primitives by the identities of `algebra.py`, branches whose condition is known, carries that never
change, results that are given twice, views of views, accumulators that are no more.  Afterwards no
variable is a copy of another.
"""

from __future__ import annotations

from dataclasses import replace

from peffects.ir import primitives as p
from peffects.ir.rename import Renamer
from peffects.ir.syntax import (
    Accumulate,
    Atom,
    Binding,
    Block,
    Bounds,
    Check,
    Cond,
    Expr,
    Fold,
    For,
    Index,
    Lit,
    Prim,
    Program,
    Ref,
    Scalar,
    Update,
    Var,
    While,
    WithAcc,
)
from peffects.optimize.algebra import simplified, update_simplify


def simplify(program: Program) -> Program:
    """Apply exact identities, take known branches, replace copies."""
    walk = _Simplifier()
    body = walk.block(program.body)
    return replace(program, body=body) if walk.changed else program


class _Simplifier(Renamer):
    """`mapping` has the copies found so far, `defs` the expression of each variable kept."""

    def __init__(self) -> None:
        super().__init__({}, fresh=False)
        self.defs: dict[Var, Expr] = {}
        self.changed = False

    def block(self, block: Block) -> Block:
        out: list[Binding] = []
        for binding in block.bindings:
            self.step(binding, out)
        return Block(tuple(out), tuple(map(self.atom, block.results)))

    def step(self, binding: Binding, out: list[Binding]) -> None:
        """Append what `binding` becomes to `out`; copies go to the mapping."""
        current = self.without_idle_carries(binding)
        current = Binding(current.vars, self.expr(current.expr), current.src)
        while True:
            new = self.rewritten(current, out)
            if new is current:
                break
            self.changed = True
            if new is None:
                return
            current = new
        kept = Binding(tuple(map(self.bind, current.vars)), current.expr, current.src)
        self.defs.update((var, kept.expr) for var in kept.vars)
        out.append(kept)

    def rewritten(self, binding: Binding, out: list[Binding]) -> Binding | None:
        """One step: the same binding, a simpler one, or None when its variables are copies."""
        match binding.expr:
            case Prim(op, args):
                new = simplified(self.defs, op, args)
                if new is None:
                    return binding
                if isinstance(new, Prim):
                    return replace(binding, expr=new)
                self.mapping[binding.vars[0]] = new
                return None
            case Index() as access:
                put = self.defs.get(access.table)
                if isinstance(put, Update) and put.indices == access.indices:
                    self.mapping[binding.vars[0]] = put.value
                    return None
                return self.index(binding, access)
            case Check(ok, _, _, _, _):
                return None if isinstance(ok, Lit) and ok.value else binding
            case Cond() as branch:
                return self.cond(binding, branch, out)
            case Accumulate(ref, _, value, _):
                assert isinstance(ref.type, Ref)
                update = update_simplify(self.defs, ref.type.monoid, value)
                if update is value:
                    return binding
                return replace(binding, expr=replace(binding.expr, value=update))
            case WithAcc(refs, body):
                if not refs:
                    self.splice(binding, body, out)
                    return None
                inside = {var for inner in body.bindings for var in inner.vars}
                same = [None if atom in inside else atom for atom in body.results]
                return self.without(binding, [*same, *(None for _ in refs)])
            case For(_, body):
                return self.without_repeats(binding, body, 0)
            case Fold(_, _, carries, _, body):
                return self.without_repeats(binding, body, len(carries))
            case _:
                return binding

    def splice(self, binding: Binding, block: Block, out: list[Binding]) -> None:
        """Put a block that runs exactly once in place of the expression that holds it."""
        out.extend(block.bindings)
        self.mapping.update(zip(binding.vars, block.results, strict=True))

    def index(self, binding: Binding, access: Index) -> Binding:
        """`a[i][j] = a[i, j]`; what has been tested in a view's own access is not tested again."""
        view = self.defs.get(access.table)
        if not isinstance(view, Index) or access.bounds is Bounds.CHECKED:
            return binding
        is_proved = view.bounds is access.bounds is Bounds.PROVED
        bounds = Bounds.PROVED if is_proved else Bounds.UNCHECKED
        return replace(binding, expr=Index(view.table, view.indices + access.indices, bounds))

    # --- branches --------------------------------------------------------------------------------

    def cond(self, binding: Binding, branch: Cond, out: list[Binding]) -> Binding | None:
        pred, then, orelse = branch.pred, branch.then, branch.orelse
        if isinstance(pred, Lit):
            self.splice(binding, then if pred.value else orelse, out)
            return None
        test = self.defs.get(pred)
        if isinstance(test, Prim) and test.op is p.NOT:
            return replace(binding, expr=Cond(test.args[0], orelse, then))
        is_empty = not then.bindings and not orelse.bindings
        values: list[Atom | None] = []
        for var, x, y in zip(binding.vars, then.results, orelse.results, strict=True):
            if x == y:
                values.append(x)
            elif is_empty and isinstance(x.type, Scalar):
                chosen = Var(var.name, x.type)
                out.append(Binding((chosen,), Prim(p.SELECT, (pred, x, y)), binding.src))
                values.append(chosen)
            else:
                values.append(None)
        new = self.without(binding, values)
        return None if is_empty and not new.vars else new

    # --- results ---------------------------------------------------------------------------------

    def without(self, binding: Binding, values: list[Atom | None]) -> Binding:
        """`binding` without the results that are known by another name."""
        if all(value is None for value in values):
            return binding
        keep = [k for k, value in enumerate(values) if value is None]
        for var, value in zip(binding.vars, values, strict=True):
            if value is not None:
                self.mapping[var] = value
        return Binding(
            tuple(binding.vars[k] for k in keep), _project(binding.expr, keep), binding.src
        )

    def without_repeats(self, binding: Binding, body: Block, start: int) -> Binding:
        """A loop that tabulates one value twice gives one table; carries before `start` stay."""
        first: dict[Atom, Var] = {}
        values: list[Atom | None] = [None] * start
        for var, atom in zip(binding.vars[start:], body.results[start:], strict=True):
            other = first.setdefault(atom, var)
            values.append(None if other is var else other)
        if any(value is not None for value in values):
            bound = {var: self.bind(var) for var in first.values()}
            values = [bound[v] if isinstance(v, Var) else None for v in values]
            binding = replace(binding, vars=tuple(bound.get(v, v) for v in binding.vars))
        return self.without(binding, values)

    def without_idle_carries(self, binding: Binding) -> Binding:
        """A carry that each step gives on unchanged is what it was at the start."""
        expr = binding.expr
        if not isinstance(expr, Fold | While):
            return binding
        count = len(expr.carries)
        idle = [expr.body.results[k] is carry for k, carry in enumerate(expr.carries)]
        if not any(idle):
            return binding
        self.changed = True
        keep = [k for k in range(len(binding.vars)) if k >= count or not idle[k]]
        for k, init in enumerate(expr.inits):
            if idle[k]:
                self.mapping[expr.carries[k]] = self.mapping[binding.vars[k]] = self.atom(init)
        return Binding(tuple(binding.vars[k] for k in keep), _project(expr, keep), binding.src)


def _project(expr: Expr, keep: list[int]) -> Expr:
    """`expr` with some of its results; an accumulator's final value stays."""
    match expr:
        case For(binders, body):
            return For(binders, _results(body, keep))
        case Cond(pred, then, orelse):
            return Cond(pred, _results(then, keep), _results(orelse, keep))
        case WithAcc(refs, body):
            return WithAcc(refs, _results(body, [k for k in keep if k < len(body.results)]))
        case Fold(binder, reverse, carries, inits, body, running):
            kept = [k for k in keep if k < len(carries)]
            return Fold(
                binder,
                reverse,
                tuple(carries[k] for k in kept),
                tuple(inits[k] for k in kept),
                _results(body, keep),
                running,
            )
        case While(carries, inits, test, body):
            return While(
                tuple(carries[k] for k in keep),
                tuple(inits[k] for k in keep),
                test,
                _results(body, keep),
            )
        case _:
            raise TypeError(f"{expr} has one result")


def _results(block: Block, keep: list[int]) -> Block:
    return Block(block.bindings, tuple(block.results[k] for k in keep))
