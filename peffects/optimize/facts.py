"""What passes must know about an expression before they move, merge or drop it.

Order matters between bindings in four cases only, and every pass that moves code keeps to them:

* a binding comes after those whose variables it uses;
* the final value of an accumulator comes after everything that accumulates into it;
* what may fail stays in order, so that a program fails with the same error whatever was optimized;
* what nobody tests (`trusts`: an unchecked access, an integer division) stays behind the tests that
  came before it: they may be the reason why it is in bounds, and the divisor not zero.

Accumulations commute, and nothing reads an accumulator, so they need no order among themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from peffects.ir import primitives as p
from peffects.ir.syntax import (
    Accumulate,
    Atom,
    Bounds,
    Check,
    Expr,
    Idx,
    Index,
    Lit,
    Prim,
    Scalar,
    Table,
    Type,
    Update,
    Var,
    While,
)
from peffects.ir.traverse import binders_of, blocks_of, operands_of, sizes_of
from peffects.ir.typing import value_of


@dataclass(frozen=True, slots=True)
class Footprint:
    """Variables that an expression uses from outside, references it writes, how it may go wrong.

    `total` says that it may run where it did not run before: it ends, it cannot fail, and each
    index is an element of the index set of its axis.
    """

    uses: frozenset[Var]
    writes: frozenset[Var]
    fails: bool
    trusts: bool
    total: bool

    def joined(self, other: Footprint, made: Iterable[Var]) -> Footprint:
        """The facts of one loop that does what two did, where the first made `made`."""
        return Footprint(
            (self.uses | other.uses).difference(made),
            self.writes | other.writes,
            self.fails or other.fails,
            self.trusts or other.trusts,
            self.total and other.total,
        )

    @property
    def movable(self) -> bool:
        """Whether it only computes its results, so that it may run anywhere below its operands."""
        return not self.writes and not self.fails


class FactTable:
    """The facts of expressions, each worked out once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Expr, Footprint]] = {}  # holds the expression: an id is reused

    def of(self, expr: Expr) -> Footprint:
        """The facts of `expr`."""
        known = self._known.get(id(expr))
        if known is None:
            known = (expr, self._find(expr))
            self._known[id(expr)] = known
        return known[1]

    def _find(self, expr: Expr) -> Footprint:
        match expr:
            case Prim(op, args):
                guarded = _is_guarded(op, args)
                return Footprint(_variables(args), _NONE, False, guarded, not guarded)
            case Index(table, indices, bounds):
                total = bounds is Bounds.PROVED and _fits(table.type, indices)
                uses = _variables((table, *indices))
                checked, trusted = bounds is Bounds.CHECKED, bounds is Bounds.UNCHECKED
                return Footprint(uses, _NONE, checked, trusted, total)
            case Accumulate(ref, indices, value, bounds):
                total = bounds is Bounds.PROVED and _fits(value_of(ref), indices)
                uses = _variables((ref, *indices, value))
                checked, trusted = bounds is Bounds.CHECKED, bounds is Bounds.UNCHECKED
                return Footprint(uses, frozenset((ref,)), checked, trusted, total)
            case Update(table, indices, value, bounds):
                total = bounds is Bounds.PROVED and _fits(table.type, indices)
                uses = _variables((table, *indices, value))
                checked, trusted = bounds is Bounds.CHECKED, bounds is Bounds.UNCHECKED
                return Footprint(uses, _NONE, checked, trusted, total)
            case Check(ok, _, _, operands, _):
                return Footprint(_variables((ok, *operands)), _NONE, True, False, False)
            case _:
                return self._of_blocks(expr)

    def _of_blocks(self, expr: Expr) -> Footprint:
        uses = set(_variables(operands_of(expr)))
        writes: set[Var] = set()
        bound = list(binders_of(expr))
        fails, trusts, total = False, False, not isinstance(expr, While)
        for binder in bound:
            uses.update(_variables(sizes_of(binder.type)))
        for block in blocks_of(expr):
            for binding in block.bindings:
                facts = self.of(binding.expr)
                uses |= facts.uses
                if facts.writes:
                    writes |= facts.writes
                fails, trusts = fails or facts.fails, trusts or facts.trusts
                total = total and facts.total
                bound += binding.vars
            uses |= _variables(block.results)
        return Footprint(
            frozenset(uses.difference(bound)),
            frozenset(writes.difference(bound)) if writes else _NONE,
            fails,
            trusts,
            total,
        )


_NONE: frozenset[Var] = frozenset()


def _variables(atoms: Iterable[Atom]) -> frozenset[Var]:
    return frozenset([atom for atom in atoms if isinstance(atom, Var)])


def _is_guarded(op: p.Primitive, args: tuple[Atom, ...]) -> bool:
    """Whether `op` has no value for some operands, so that a test or a branch stands before it.

    Integers are not divided by zero, nor the smallest by -1, nor raised to a negative power.
    """
    if op not in (p.FLOORDIV, p.MOD, p.POW) or _is_float(args[0].type):
        return False
    by = args[1]
    return not isinstance(by, Lit) or by.value < 0 or (by.value == 0 and op is not p.POW)


def _is_float(t: Type) -> bool:
    return isinstance(t, Scalar) and t.is_float


def _fits(t: Type, indices: tuple[Atom, ...]) -> bool:
    """Whether each index is in bounds because of what it is, not because of where it stands."""
    dims = t.dims if isinstance(t, Table) else ()
    return all(
        isinstance(index.type, Idx)
        or (
            isinstance(index, Lit)
            and isinstance(dim.size, Lit)
            and 0 <= index.value < dim.size.value
        )
        for index, dim in zip(indices, dims, strict=False)
    )
