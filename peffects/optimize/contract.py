"""Accumulators that are not needed as such: the value is known, or a loop can tabulate it.

* Nothing is accumulated: the final value is the identity.
* `with_acc r. r += v`: the final value is v, combined with the identity.
* `r[i] += v` and `r[i] += w` in one block: one update by v + w, as x * x gives in its derivative.
* `with_acc r. for i. for j. r[i, j] += v`, the only accumulation: `for i. for j.` gives v as a
  result instead.  So adjoints of tables that are read once become loops that fuse.

Combining with the identity changes no value but one: 0.0 + -0.0 is 0.0, so sums of floats keep it.
"""

from __future__ import annotations

from dataclasses import replace

from peffects.ir import primitives as p
from peffects.ir.builder import Builder, lit_like
from peffects.ir.evaluate import identity_of
from peffects.ir.syntax import (
    BOOL,
    Accumulate,
    Atom,
    Binding,
    Block,
    Bounds,
    For,
    Idx,
    Monoid,
    Program,
    Ref,
    Scalar,
    Table,
    Var,
    WithAcc,
)
from peffects.ir.traverse import blocks_of
from peffects.ir.typing import set_of, tabulate, value_of
from peffects.optimize.rewriting import with_bindings, with_blocks, with_expr


def contract(program: Program) -> Program:
    """Turn accumulators that get at most one update an element into values."""
    walk = _Contractor()
    walk.count(program.body)
    body = walk.block(program.body)
    return program if body is program.body else replace(program, body=body)


class _Contractor:
    """`updates` counts the accumulations into each reference, wherever they stand."""

    def __init__(self) -> None:
        self.updates: dict[Var, int] = {}

    def count(self, block: Block) -> None:
        for binding in block.bindings:
            expr = binding.expr
            if isinstance(expr, Accumulate):
                self.updates[expr.ref] = self.updates.get(expr.ref, 0) + 1
            for inner in blocks_of(expr):
                self.count(inner)

    def block(self, block: Block) -> Block:
        bindings = [self.binding(binding) for binding in block.bindings]
        return with_bindings(block, self.united(bindings))

    def united(self, bindings: list[Binding]) -> list[Binding]:
        """Updates of one element become one; an update that is tested keeps its place instead."""
        out: list[Binding | None] = []
        places: dict[tuple[Var, tuple[Atom, ...]], int] = {}
        for binding in bindings:
            update = binding.expr
            op = _combining(update) if isinstance(update, Accumulate) else None
            if op is not None:
                assert isinstance(update, Accumulate)
                place = (update.ref, update.indices)
                earlier = out[places[place]] if place in places else None
                if earlier is not None:
                    assert isinstance(earlier.expr, Accumulate)
                    out[places[place]] = None
                    self.updates[update.ref] -= 1
                    b = Builder(binding.src)
                    value = b.prim(op, earlier.expr.value, update.value)
                    out += b.bindings
                    binding = Binding((), replace(update, value=value), binding.src)
                places[place] = len(out)
            out.append(binding)
        return [binding for binding in out if binding is not None]

    def binding(self, binding: Binding) -> Binding:
        binding = with_expr(binding, with_blocks(binding.expr, self.block))
        if isinstance(binding.expr, WithAcc):
            return self.region(binding, binding.expr.refs, binding.expr.body)
        return binding

    def region(self, binding: Binding, refs: tuple[Var, ...], body: Block) -> Binding:
        """Final values that the body can give go from the end of `binding.vars` to its results."""
        count = len(body.results)
        results, kept, kept_finals = list(binding.vars[:count]), [], []
        for ref, final in zip(refs, binding.vars[count:], strict=True):
            found = self.without(body, ref)
            if found is None:
                kept.append(ref)
                kept_finals.append(final)
            else:
                block, value = found
                body = Block(block.bindings, (*body.results, value))
                results.append(final)
        if len(kept) == len(refs):
            return binding
        return Binding((*results, *kept_finals), WithAcc(tuple(kept), body), binding.src)

    def without(self, body: Block, ref: Var) -> tuple[Block, Atom] | None:
        """`body` without updates of `ref`, and the final value; None if it cannot be said."""
        updates = self.updates.get(ref, 0)
        if updates == 0:
            return _identity(body, ref)
        return _tabulated(body, ref, ()) if updates == 1 else None


_COMBINING = {
    Monoid.ADD: p.ADD,
    Monoid.MUL: p.MUL,
    Monoid.MIN: p.MIN,
    Monoid.MAX: p.MAX,
    Monoid.AND: p.AND,
    Monoid.OR: p.OR,
}


def _combining(update: Accumulate) -> p.Primitive | None:
    """The primitive that does to scalars what the accumulator does, if the update may move."""
    assert isinstance(update.ref.type, Ref)
    monoid, t = update.ref.type.monoid, update.value.type
    if update.bounds is Bounds.CHECKED or not isinstance(t, Scalar):
        return None
    return None if monoid in (Monoid.AND, Monoid.OR) and t != BOOL else _COMBINING[monoid]


def _elem(ref: Var) -> Scalar:
    held = value_of(ref)
    return held.elem if isinstance(held, Table) else held


def _identity(body: Block, ref: Var) -> tuple[Block, Atom]:
    assert isinstance(ref.type, Ref)
    lit = lit_like(identity_of(ref.type.monoid, _elem(ref)), _elem(ref))
    held = ref.type.value
    if not isinstance(held, Table):
        return body, lit
    b = Builder()
    binders = tuple(Var("i", Idx(dim)) for dim in held.dims)
    (table,) = b.loop(binders, Block((), (lit,)), (ref.name,))
    return Block((*body.bindings, *b.bindings), body.results), table


def _tabulated(block: Block, ref: Var, binders: tuple[Var, ...]) -> tuple[Block, Atom] | None:
    """Find the one update in `block`, inside loops only, over the axes in their order."""
    for k, binding in enumerate(block.bindings):
        expr = binding.expr
        if isinstance(expr, Accumulate) and expr.ref is ref:
            if not _is_elementwise(expr, binders):
                return None
            b = Builder(binding.src)
            value = _combined(b, ref, expr.value)
            return _replaced(block, k, b.bindings), value
        if isinstance(expr, For):
            found = _tabulated(expr.body, ref, binders + expr.binders)
            if found is not None:
                body, value = found
                loop = For(expr.binders, Block(body.bindings, (*body.results, value)))
                table = Var(ref.name, tabulate(tuple(map(set_of, expr.binders)), value.type))
                new = Binding((*binding.vars, table), loop, binding.src)
                return _replaced(block, k, [new]), table
    return None


def _replaced(block: Block, k: int, new: list[Binding]) -> Block:
    return Block((*block.bindings[:k], *new, *block.bindings[k + 1 :]), block.results)


def _is_elementwise(update: Accumulate, binders: tuple[Var, ...]) -> bool:
    """Whether each element gets exactly one update, and that is a scalar that may replace it."""
    held, monoid = value_of(update.ref), update.ref.type.monoid  # type: ignore[union-attr]
    if monoid in (Monoid.AND, Monoid.OR) and _elem(update.ref) != BOOL:
        return False
    if isinstance(update.value.type, Table) or update.indices != binders:
        return False
    dims = held.dims if isinstance(held, Table) else ()
    return all(set_of(i).size == dim.size for i, dim in zip(binders, dims, strict=True))


def _combined(b: Builder, ref: Var, value: Atom) -> Atom:
    assert isinstance(ref.type, Ref)
    if ref.type.monoid is Monoid.ADD and _elem(ref).is_float:
        return b.prim(p.ADD, value, lit_like(0.0, _elem(ref)), name=ref.name)
    return value
