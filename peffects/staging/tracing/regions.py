"""Puts the accumulations into a reference inside its `with_acc`, after they were emitted.

A user makes an accumulator, runs loops that add to it, and reads it: nothing in the program marks
the region in which it is open.  So staging emits loops and `+=` as they come, and when the
accumulator is first read, `enclose` sorts the bindings of its block into three groups: those that
neither write to the reference nor depend on one that does go before the region, those that write
to it, with all they need of what depends on writers, go into it, and the rest goes after it.
Order within each group is kept.  `export` then makes values that are defined in a region and used
outside results of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from peffects.ir.rename import substitute
from peffects.ir.syntax import Atom, Binding, Block, Var, WithAcc
from peffects.ir.traverse import expr_free_vars, sizes_of
from peffects.source import SrcInfo

__all__ = ["enclose", "export"]

Resolve: TypeAlias = Callable[[Atom], Atom]
"""Gives the variable that a placeholder size stands for."""


def _needs(binding: Binding, resolve: Resolve) -> set[Var]:
    """The variables that a binding mentions, those in the types of its own variables included."""
    atoms: list[Atom] = list(expr_free_vars(binding.expr))
    for atom in (*atoms, *binding.vars):
        atoms.extend(sizes_of(atom.type))
    return {atom for atom in map(resolve, atoms) if isinstance(atom, Var)}


def enclose(
    bindings: Sequence[Binding], ref: Var, final: Var, src: SrcInfo, resolve: Resolve
) -> list[Binding]:
    """`bindings` with a `with_acc` around the writes to `ref`; `final` is bound to its value.

    `src` is the user's line that made the accumulator.
    """
    needs = [_needs(binding, resolve) for binding in bindings]
    tainted: set[Var] = set()
    depends = []
    for binding, used in zip(bindings, needs, strict=True):
        depends.append(ref in used or bool(used & tainted))
        if depends[-1]:
            tainted.update(binding.vars)
    inside = [False] * len(bindings)
    wanted: set[Var] = set()
    for place in range(len(bindings) - 1, -1, -1):
        writes = ref in needs[place]
        inside[place] = writes or (depends[place] and not wanted.isdisjoint(bindings[place].vars))
        if inside[place]:
            wanted |= needs[place]
    groups = list(zip(bindings, depends, inside, strict=True))
    before = [binding for binding, dependent, _ in groups if not dependent]
    after = [binding for binding, dependent, within in groups if dependent and not within]
    region = tuple(binding for binding, _, within in groups if within)
    return [*before, _region(region, ref, final, src), *after]


def _region(bindings: tuple[Binding, ...], ref: Var, final: Var, src: SrcInfo) -> Binding:
    """One `with_acc`; a region that holds nothing but a region is merged with it."""
    if len(bindings) == 1 and isinstance(bindings[0].expr, WithAcc):
        inner = bindings[0]
        assert isinstance(inner.expr, WithAcc)
        merged = WithAcc((*inner.expr.refs, ref), inner.expr.body)
        return Binding((*inner.vars, final), merged, inner.src)
    return Binding((final,), WithAcc((ref,), Block(bindings, ())), src)


def export(
    bindings: Sequence[Binding], results: Sequence[Atom], resolve: Resolve
) -> tuple[Binding, ...]:
    """`bindings` in which every variable that a region defines and others use is its result."""
    used = {atom for atom in map(resolve, results) if isinstance(atom, Var)}
    for atom in results:
        used |= {size for size in map(resolve, sizes_of(atom.type)) if isinstance(size, Var)}
    exported: list[Binding] = []
    for binding in reversed(bindings):
        new = _export_from(binding, used, resolve)
        exported.append(new)
        used |= _needs(new, resolve)
    return tuple(reversed(exported))


def _export_from(binding: Binding, used: set[Var], resolve: Resolve) -> Binding:
    expr = binding.expr
    if not isinstance(expr, WithAcc):
        return binding
    defined = [var for inner in expr.body.bindings for var in inner.vars]
    outputs = [var for var in defined if var in used]
    inner = export(expr.body.bindings, (*expr.body.results, *outputs), resolve)
    if not outputs and inner == expr.body.bindings:
        return binding
    copies = {var: Var(var.name, var.type) for var in outputs}
    renamed = _rename_definitions(Block(inner, (*expr.body.results, *outputs)), copies)
    finals = len(expr.refs)
    own, held = binding.vars[: len(binding.vars) - finals], binding.vars[-finals:]
    return Binding((*own, *outputs, *held), WithAcc(expr.refs, renamed), binding.src)


def _rename_definitions(block: Block, copies: dict[Var, Var]) -> Block:
    """`block` in which the variables of `copies` are renamed, where they are bound too."""
    bindings = tuple(
        Binding(tuple(copies.get(var, var) for var in binding.vars), binding.expr, binding.src)
        for binding in block.bindings
    )
    return substitute(Block(bindings, block.results), copies)
