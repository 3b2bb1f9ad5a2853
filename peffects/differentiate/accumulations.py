"""Derivatives of accumulations with min, max and `*`, whatever the order of the updates.

The final value alone does not say what an update contributed, so the updates run once more, into
helper accumulators, and the linear part weighs each update's tangent by what it finds there:

* min, max: an update by v has won if v is the final value m; winners share, so that nothing
  depends on an order: dm = sum over updates v with v = m of dv / (number of such updates);
* product: the factor of dv is the product of all others: the product of those that are not zero,
  over v unless v is zero itself, times the product of the zeros among the others (see `share`).
  Exact for first and second derivatives, whatever is zero.

When the derivative is not used, neither are the helpers, and dead code elimination takes them away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from peffects.errors import NotDifferentiableError
from peffects.ir import primitives as p
from peffects.ir.builder import Builder, lit_like
from peffects.ir.rename import refresh
from peffects.ir.syntax import (
    Accumulate,
    Atom,
    Binding,
    Block,
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


@dataclass(frozen=True, slots=True)
class Extremum:
    """A min or max accumulator: its final value, and the number of updates that won."""

    ref: Var
    final: Var
    ties: Var

    def helpers(self, body: Block, src: SrcInfo) -> Binding:
        """Bind `ties`."""
        counter = Var("ties", Ref(Monoid.ADD, _held(self.ref)))

        def won(b: Builder, update: Accumulate) -> tuple[Atom, ...]:
            elem = _elem(self.ref)
            return (b.prim(p.SELECT, self.won(b, update), _lit(1.0, elem), _lit(0.0, elem)),)

        return _replay(self.ref, body, {counter: self.ties}, won, src)

    def share(self, b: Builder, update: Accumulate, tangent: Atom) -> Atom:
        """What `update` contributes to the tangent of the final value."""
        share = b.prim(p.DIV, tangent, _at(b, self.ties, update), name="dt")
        return b.prim(p.SELECT, self.won(b, update), share, _lit(0.0, _elem(self.ref)), name="dt")

    def won(self, b: Builder, update: Accumulate) -> Atom:
        """Whether `update` gave the final value."""
        return b.prim(p.EQ, update.value, _at(b, self.final, update))


@dataclass(frozen=True, slots=True)
class Product:
    """A product accumulator: how many factors are zero, their sum, and the product of the rest."""

    ref: Var
    zeros: Var
    zero_sum: Var
    rest: Var

    def helpers(self, body: Block, src: SrcInfo) -> Binding:
        """Bind `zeros`, `zero_sum` and `rest`."""
        counter = Var("zeros", Ref(Monoid.ADD, _held(self.ref)))
        total = Var("zero_sum", Ref(Monoid.ADD, _held(self.ref)))
        others = Var("rest", Ref(Monoid.MUL, _held(self.ref)))

        def split(b: Builder, update: Accumulate) -> tuple[Atom, ...]:
            zero, one = _lit(0.0, _elem(self.ref)), _lit(1.0, _elem(self.ref))
            is_zero = b.prim(p.EQ, update.value, zero)
            return (
                b.prim(p.SELECT, is_zero, one, zero),
                b.prim(p.SELECT, is_zero, update.value, zero),
                b.prim(p.SELECT, is_zero, one, update.value),
            )

        helpers = {counter: self.zeros, total: self.zero_sum, others: self.rest}
        return _replay(self.ref, body, helpers, split, src)

    def share(self, b: Builder, update: Accumulate, tangent: Atom) -> Atom:
        """What `update` contributes to the tangent of the final value.

        The product of the zero factors, and of those but one, is written with their sum, so that
        it has the right value and the right derivative: with one zero it is that sum; with two,
        leaving out one of them, it is the other.
        """
        elem = _elem(self.ref)
        zero, one, two = _lit(0.0, elem), _lit(1.0, elem), _lit(2.0, elem)
        count, value = _at(b, self.zeros, update), update.value
        zero_sum, rest = _at(b, self.zero_sum, update), _at(b, self.rest, update)
        is_zero = b.prim(p.EQ, value, zero)
        has_one = b.prim(p.EQ, count, one)
        of_all = b.prim(p.SELECT, has_one, zero_sum, zero)
        of_all = b.prim(p.SELECT, b.prim(p.EQ, count, zero), one, of_all)
        other = b.prim(p.SUB, zero_sum, value)
        of_others = b.prim(p.SELECT, b.prim(p.EQ, count, two), other, zero)
        of_others = b.prim(p.SELECT, has_one, one, of_others)
        divisor = b.prim(p.SELECT, is_zero, one, value)
        factor = b.prim(p.SELECT, is_zero, of_others, of_all)
        others = b.prim(p.MUL, b.prim(p.DIV, rest, divisor), factor)
        return b.prim(p.MUL, others, tangent, name="dt")


Recorded: TypeAlias = Extremum | Product
"""What must be known about an accumulation to differentiate it."""


def recorded(ref: Var, final: Var) -> Recorded | None:
    """The record that the derivative of an accumulator needs; None for `+`, which needs none."""
    assert isinstance(ref.type, Ref)
    match ref.type.monoid:
        case Monoid.MIN | Monoid.MAX:
            return Extremum(ref, final, Var(f"{ref.name}_ties", _held(ref)))
        case Monoid.MUL:
            names = ("zeros", "zero_sum", "rest")
            return Product(ref, *(Var(f"{ref.name}_{name}", _held(ref)) for name in names))
        case _:
            return None


def _replay(
    ref: Var,
    body: Block,
    helpers: dict[Var, Var],
    values: Callable[[Builder, Accumulate], Sequence[Atom]],
    src: SrcInfo,
) -> Binding:
    """Run the updates of `ref` in `body` again, accumulating `values` into the `helpers`."""

    def block(block: Block, inner: frozenset[Var]) -> Block:
        bindings: list[Binding] = []
        for binding in block.bindings:
            expr = binding.expr
            if isinstance(expr, Accumulate) and expr.ref is ref:
                b = Builder(binding.src)
                for helper, value in zip(helpers, values(b, expr), strict=True):
                    b.accumulate(helper, expr.indices, value, expr.bounds.again)
                bindings += b.bindings
            elif not isinstance(expr, Check) and not (
                isinstance(expr, Accumulate) and expr.ref not in inner
            ):
                bindings.append(Binding(binding.vars, copy(expr, inner), binding.src))
        return Block(tuple(bindings), block.results)

    def copy(expr: Expr, inner: frozenset[Var]) -> Expr:
        inner = inner | set(binders_of(expr))
        return rebuild(expr, lambda a: a, lambda v: v, lambda nested: block(nested, inner))

    again = refresh(Block(block(body, frozenset()).bindings, ()))
    return Binding(tuple(helpers.values()), WithAcc(tuple(helpers), again), src)


def refuse_rows(update: Accumulate, src: SrcInfo) -> None:
    """Refuse updates by whole tables: the helpers would need a loop over the rest of the axes."""
    if isinstance(update.value.type, Table):
        raise NotDifferentiableError(
            "the derivative of a minimum, maximum or product of whole rows was asked for.",
            at=src,
            fix="Accumulate element by element, in a loop over the row's index.",
        )


def _held(ref: Var) -> Scalar | Table:
    assert isinstance(ref.type, Ref)
    return ref.type.value


def _elem(ref: Var) -> Scalar:
    held = _held(ref)
    return held.elem if isinstance(held, Table) else held


def _lit(value: float, elem: Scalar) -> Atom:
    return lit_like(value, elem)


def _at(b: Builder, table: Var, update: Accumulate) -> Atom:
    """The element of `table` that `update` writes."""
    if not update.indices:
        return table
    return b.index(table, *update.indices, bounds=update.bounds.again)
