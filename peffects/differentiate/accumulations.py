"""Derivatives of accumulations with min, max and `*`, whatever the order of the updates.

The final value alone does not say what an update contributed, so the updates run once more, into
helper accumulators, and the linear part weighs each update's tangent by what it finds there:

* min, max: an update by v has won if v is the final value m; winners share, so that nothing
  depends on an order: dm = sum over updates v with v = m of dv / (number of such updates);
* product: the factor of dv is the product of all others: the product of those that are not zero,
  over v unless v is zero itself, times the product of the zeros among the others.  The latter is 0
  or 1, and has derivatives: it is written by the power sums of the zeros (Newton's identities),
  whose number bounds how often a product can be differentiated.  Whatever is zero, derivatives of
  order 1 to POWER_SUMS + 1 are exact, and higher ones are refused.

When the derivative is not used, neither are the helpers, and dead code elimination takes them away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from peffects.differentiate.linearize_rules import elementary, scale, unscale
from peffects.errors import NotDifferentiableError
from peffects.ir import primitives as p
from peffects.ir.builder import Builder, int_lit, lit_like
from peffects.ir.rename import refresh
from peffects.ir.syntax import (
    I64,
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

POWER_SUMS = 3
"""Power sums of zero factors that the derivative of a product keeps."""


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
        share = unscale(b, tangent, _at(b, self.ties, update))
        return b.prim(p.SELECT, self.won(b, update), share, _lit(0.0, _elem(self.ref)), name="dt")

    def won(self, b: Builder, update: Accumulate) -> Atom:
        """Whether `update` gave the final value."""
        return b.prim(p.EQ, update.value, _at(b, self.final, update))


@dataclass(frozen=True, slots=True)
class ProductAccumulator:
    """A product accumulator: how many factors are zero, their power sums, the product of the rest.

    The sum of the k-th powers of zeros is 0, and so are its first k - 1 derivatives.
    """

    ref: Var
    zeros: Var
    rest: Var
    sums: tuple[Var, ...]

    def helpers(self, body: Block, src: SrcInfo) -> Binding:
        """Bind `zeros`, `rest` and `sums`."""
        elem = _elem(self.ref)

        def split(b: Builder, update: Accumulate) -> tuple[Atom, ...]:
            is_zero, powers = self.powers(b, update.value)
            nonzero = b.prim(p.SELECT, is_zero, _lit(1.0, elem), update.value)
            return b.prim(p.CAST[I64], is_zero), nonzero, *powers

        helpers = {
            Var("zeros", Ref(Monoid.ADD, self.zeros.type)): self.zeros,  # type: ignore[arg-type]  # no index
            Var("rest", Ref(Monoid.MUL, _held(self.ref))): self.rest,
        }
        for held in self.sums:
            helpers[Var("powers", Ref(Monoid.ADD, _held(self.ref)))] = held
        return _replay(self.ref, body, helpers, split, src)

    def powers(self, b: Builder, value: Atom) -> tuple[Atom, list[Atom]]:
        """Whether `value` is zero, and what it adds to each of the power sums."""
        zero = _lit(0.0, _elem(self.ref))
        is_zero = b.prim(p.EQ, value, zero)
        first = b.prim(p.SELECT, is_zero, value, zero)
        powers: list[Atom] = [first]
        for _ in self.sums[1:]:
            powers.append(b.prim(p.MUL, powers[-1], first))
        return is_zero, powers

    def share(self, b: Builder, update: Accumulate, tangent: Atom) -> Atom:
        """What `update` contributes to the tangent of the final value: the product of the others.

        That of the zeros among the others is an elementary symmetric polynomial of theirs, whose
        degree is their number, so it has the right value and the right derivatives.
        """
        value = update.value
        is_zero, powers = self.powers(b, value)
        degree = b.prim(p.SUB, _at(b, self.zeros, update), b.prim(p.CAST[I64], is_zero))
        sums = [
            b.prim(p.SUB, _at(b, table, update), power)
            for table, power in zip(self.sums, powers, strict=True)
        ]
        of_zeros = elementary(b, degree, int_lit(len(sums)), sums)
        divisor = b.prim(p.SELECT, is_zero, _lit(1.0, _elem(self.ref)), value)
        of_rest = b.prim(p.DIV, _at(b, self.rest, update), divisor)
        return scale(b, b.prim(p.MUL, of_rest, of_zeros), tangent)


Recorded: TypeAlias = Extremum | ProductAccumulator
"""What must be known about an accumulation to differentiate it."""


def recorded(ref: Var, final: Var) -> Recorded | None:
    """The record that the derivative of an accumulator needs; None for `+`, which needs none."""
    assert isinstance(ref.type, Ref)
    match ref.type.monoid:
        case Monoid.MIN | Monoid.MAX:
            return Extremum(ref, final, Var(f"{ref.name}_ties", _held(ref)))
        case Monoid.MUL:
            held = _held(ref)
            counts = Table(held.dims, I64) if isinstance(held, Table) else I64
            sums = (Var(f"{ref.name}_powers_{k + 1}", held) for k in range(POWER_SUMS))
            zeros, rest = Var(f"{ref.name}_zeros", counts), Var(f"{ref.name}_rest", held)
            return ProductAccumulator(ref, zeros, rest, tuple(sums))
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
