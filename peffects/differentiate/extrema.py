"""Derivatives of accumulations with min and max: the winners share the cotangent.

Which update wins does not depend on the order of updates, so min and max may be differentiated.
The final value m is known; an update by v has won if v = m.  Where several updates tie, each gets
the same share, so that the derivative does not depend on any order either:

    dm = sum over updates v with v = m of dv / (number of such updates)
"""

from __future__ import annotations

from dataclasses import dataclass, field

from peffects.errors import NotDifferentiableError
from peffects.ir import primitives as p
from peffects.ir.builder import Builder, lit_like
from peffects.ir.rename import refresh
from peffects.ir.syntax import (
    Accumulate,
    Atom,
    Binding,
    Block,
    Bounds,
    Check,
    Expr,
    Monoid,
    Ref,
    Scalar,
    Table,
    Var,
    WithAcc,
)
from peffects.ir.traverse import binders_of, rebuild
from peffects.source import SrcInfo


def is_extremum(ref: Var) -> bool:
    """Whether a reference accumulates with min or max."""
    return isinstance(ref.type, Ref) and ref.type.monoid in (Monoid.MIN, Monoid.MAX)


@dataclass(frozen=True, slots=True)
class Extremum:
    """A min or max accumulator, its final value, and the variable for the number of winners."""

    ref: Var
    final: Var
    count: Var = field(init=False)

    def __post_init__(self) -> None:
        assert isinstance(self.ref.type, Ref)
        object.__setattr__(self, "count", Var(f"{self.ref.name}_ties", self.ref.type.value))

    def share(self, b: Builder, update: Accumulate, tangent: Atom) -> Atom:
        """What `update` contributes to the tangent of the final value."""
        won = self._won(b, update)
        share = b.prim(p.DIV, tangent, _at(b, self.count, update), name="dt")
        return b.prim(p.SELECT, won, share, lit_like(0.0, _elem(self.ref)), name="dt")

    def count_winners(self, body: Block, src: SrcInfo) -> Binding:
        """Bind `count`: run the accumulations of `body` again, and count those that won."""
        assert isinstance(self.ref.type, Ref)
        counter = Var("ties", Ref(Monoid.ADD, self.ref.type.value))
        again = refresh(Block(self._counting(body, counter, frozenset()).bindings, ()))
        return Binding((self.count,), WithAcc((counter,), again), src)

    def _won(self, b: Builder, update: Accumulate) -> Atom:
        if isinstance(update.value.type, Table):
            raise NotDifferentiableError(
                "the derivative of a minimum or maximum of whole rows was asked for.",
                at=b.at,
                fix="Accumulate element by element: `acc[i, j].max(row[j])` in a loop over j.",
            )
        return b.prim(p.EQ, update.value, _at(b, self.final, update))

    def _counting(self, block: Block, counter: Var, inner: frozenset[Var]) -> Block:
        """`block` with nothing but this accumulator's updates, which count their wins."""
        bindings: list[Binding] = []
        for binding in block.bindings:
            expr = binding.expr
            if isinstance(expr, Accumulate) and expr.ref is self.ref:
                b = Builder(binding.src)
                elem = _elem(self.ref)
                won = b.prim(p.SELECT, self._won(b, expr), lit_like(1.0, elem), lit_like(0.0, elem))
                b.accumulate(counter, expr.indices, won, _relaxed(expr.bounds))
                bindings += b.bindings
            elif not isinstance(expr, Check) and not (
                isinstance(expr, Accumulate) and expr.ref not in inner
            ):
                copy = self._counting_expr(expr, counter, inner)
                bindings.append(Binding(binding.vars, copy, binding.src))
        return Block(tuple(bindings), block.results)

    def _counting_expr(self, expr: Expr, counter: Var, inner: frozenset[Var]) -> Expr:
        inner = inner | set(binders_of(expr))
        return rebuild(
            expr, lambda a: a, lambda v: v, lambda block: self._counting(block, counter, inner)
        )


def _relaxed(bounds: Bounds) -> Bounds:
    return Bounds.UNCHECKED if bounds is Bounds.CHECKED else bounds


def _elem(ref: Var) -> Scalar:
    assert isinstance(ref.type, Ref)
    return ref.type.value.elem if isinstance(ref.type.value, Table) else ref.type.value


def _at(b: Builder, table: Var, update: Accumulate) -> Atom:
    """The element of `table` that `update` writes."""
    if not update.indices:
        return table
    return b.index(table, *update.indices, bounds=_relaxed(update.bounds))
