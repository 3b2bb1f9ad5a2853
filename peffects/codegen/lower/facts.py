"""What lowering asks about a program: how often variables are used, how large sizes can become.

Sizes of local tables must be known before a stage runs, as expressions of slots.  One that depends
on inner variables is replaced by an upper bound, found by interval reasoning: an index of a set is
below the set's size, sums and products of bounds bound sums and products.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

from peffects.codegen.lower.updates import Overwriting, find_overwriting
from peffects.codegen.program.loop_programs import (
    UNBOUNDED_NS,
    Const,
    Natural,
    SizeExpr,
    SizeProduct,
    SizeSum,
)
from peffects.ir import primitives as p
from peffects.ir.syntax import (
    BOOL,
    I64,
    Accumulate,
    Atom,
    Block,
    Check,
    Cond,
    Expr,
    Fold,
    For,
    Idx,
    Index,
    Lit,
    Prim,
    Program,
    Table,
    Type,
    Update,
    Var,
    While,
    WithAcc,
)
from peffects.ir.traverse import binders_of, blocks_of, operands_of, sizes_of
from peffects.ir.typing import set_of, value_of

__all__ = ["Leaf", "Uses", "has_no_loops", "upper_bound", "work_of"]

Leaf = Callable[[Atom], "SizeExpr | None"]
"""The size that an atom is before the stage runs, or None if it is only known inside."""

_UNIT_NS = 0.15
"""Time of one unit of a primitive's cost, and of one access to memory, in vectorized loops."""


@dataclass(slots=True)
class Uses:
    """Uses and definitions of the variables of a program."""

    definitions: dict[Var, Expr] = field(default_factory=dict)
    used_once_nearby: set[Var] = field(default_factory=set)
    sizes: set[Var] = field(default_factory=set)
    overwriting: Overwriting = field(default_factory=Overwriting)

    @staticmethod
    def of(program: Program) -> Uses:
        """Walk the program once."""
        counts: Counter[Var] = Counter()
        nearby: dict[Var, bool] = {}
        facts = Uses()

        def use(atom: Atom, here: set[Var], times: int = 1) -> None:
            if isinstance(atom, Var):
                counts[atom] += times
                nearby[atom] = atom in here

        def sizes(t: Type, here: set[Var]) -> None:
            for size in sizes_of(t):
                use(size, here, times=2)
                if isinstance(size, Var):
                    facts.sizes.add(size)

        def visit(block: Block) -> None:
            here: set[Var] = set()
            for binding in block.bindings:
                for atom in operands_of(binding.expr):
                    use(atom, here)
                for binder in binders_of(binding.expr):
                    sizes(binder.type, here)
                for inner in blocks_of(binding.expr):
                    visit(inner)
                here.update(binding.vars)
                for var in binding.vars:
                    facts.definitions[var] = binding.expr
                    sizes(var.type, here)
            for atom in block.results:
                use(atom, here)

        for param in program.params:
            sizes(param.type, set())
        visit(program.body)
        facts.overwriting = find_overwriting(program)
        once = {v for v, n in counts.items() if n == 1 and nearby[v]}
        facts.used_once_nearby = once - facts.overwriting.reads
        return facts

    def same_index(self, atom: Atom) -> Atom:
        """The index variable that `atom` is the ordinal of, or `atom` itself."""
        expr = self.definitions.get(atom) if isinstance(atom, Var) else None
        match expr:
            case Prim(p.ORDINAL | p.STOP_GRADIENT, (inner,)):
                return self.same_index(inner)
            case _:
                return atom

    def row_of(self, atom: Atom) -> Atom:
        """The row in which a place of a packed table is; `atom` itself if it is no such place."""
        expr = self.definitions.get(atom) if isinstance(atom, Var) else None
        return expr.args[0] if isinstance(expr, Prim) and expr.op is p.PACKED else atom

    def parts_of(self, atom: Atom) -> tuple[Atom, ...]:
        """The indices that a place tells apart: of a packed table the row and the place in it."""
        expr = self.definitions.get(atom) if isinstance(atom, Var) else None
        if isinstance(expr, Prim) and expr.op is p.PACKED:
            return self.same_index(expr.args[0]), self.same_index(expr.args[2])
        return (self.same_index(atom),)


# --- upper bounds -----------------------------------------------------------------------------


def upper_bound(atom: Atom, facts: Uses, leaf: Leaf) -> SizeExpr | None:
    """A size, at least 0, that `atom` never exceeds; None if none is found."""
    known = leaf(atom)
    if known is not None:
        return known if is_natural(atom, facts) else _at_least_zero(known)
    assert isinstance(atom, Var), "literals are known"
    if isinstance(atom.type, Idx):
        return upper_bound(atom.type.set.size, facts, leaf)
    match facts.definitions.get(atom):
        case Prim(op, args):
            return _prim_bound(op, args, facts, leaf)
        case _:
            return None


def _prim_bound(
    op: p.Primitive, args: tuple[Atom, ...], facts: Uses, leaf: Leaf
) -> SizeExpr | None:
    def bounds(*atoms: Atom) -> list[SizeExpr] | None:
        found = [upper_bound(atom, facts, leaf) for atom in atoms]
        return None if None in found else found  # type: ignore[return-value]  # mypy: None is out

    def are_natural(*atoms: Atom) -> bool:
        return all(is_natural(atom, facts) for atom in atoms)

    match op:
        case p.ORDINAL | p.STOP_GRADIENT:
            return upper_bound(args[0], facts, leaf)
        case p.PACKED:
            return _prim_bound(p.ADD, args[1:], facts, leaf)
        case p.ADD | p.MAX:
            both = bounds(*args)
            return None if both is None else SizeSum(tuple(both))
        case p.MUL if are_natural(*args):
            both = bounds(*args)
            return None if both is None else SizeProduct(tuple(both))
        case p.SUB | p.FLOORDIV if are_natural(args[1]):
            return upper_bound(args[0], facts, leaf)
        case p.MIN:
            left, right = (upper_bound(arg, facts, leaf) for arg in args)
            return right if left is None or isinstance(right, Const) else left
        case p.MOD if are_natural(args[1]):
            return upper_bound(args[1], facts, leaf)
        case p.SELECT:
            both = bounds(*args[1:])
            return None if both is None else SizeSum(tuple(both))
        case _ if op is p.CAST[I64] and args[0].type == BOOL:
            return Const(1)
        case _:
            return None


def _at_least_zero(size: SizeExpr) -> SizeExpr:
    """A negative number of the user's would make a sum of bounds too small."""
    return Const(max(0, size.value)) if isinstance(size, Const) else Natural(size)


def is_natural(atom: Atom, facts: Uses) -> bool:
    """Whether `atom` is certainly an integer of 0 or more."""
    if isinstance(atom, Lit):
        return atom.value >= 0
    if isinstance(atom.type, Idx) or atom in facts.sizes:
        return True
    match facts.definitions.get(atom):
        case Prim(p.ORDINAL | p.STOP_GRADIENT | p.PACKED, _):
            return True
        case Prim(p.ADD | p.MUL | p.MIN | p.FLOORDIV, args):
            return all(is_natural(arg, facts) for arg in args)
        case Prim(p.MAX, args):
            return any(is_natural(arg, facts) for arg in args)
        case Prim(p.MOD, (_, divisor)):
            return is_natural(divisor, facts)
        case _:
            return atom.type == BOOL


# --- work -------------------------------------------------------------------------------------


def work_of(block: Block, facts: Uses, leaf: Leaf) -> SizeExpr:
    """An estimate of the nanoseconds that one run of `block` takes, at least 1."""

    def size(atom: Atom) -> SizeExpr:
        bound = upper_bound(atom, facts, leaf)
        return Const(UNBOUNDED_NS) if bound is None else bound

    def inner(block: Block, *binders: Var) -> SizeExpr:
        times = [size(set_of(binder).size) for binder in binders]
        return SizeProduct((*times, work_of(block, facts, leaf)))

    written: list[Type] = [atom.type for atom in block.results]
    units, terms = 0, list[SizeExpr]()
    for binding in block.bindings:
        match binding.expr:
            case Prim(op, _):
                units += op.cost
            case Index() | Check():
                units += 1
            case Accumulate(_, _, value, _) | Update(_, _, value, _):
                written.append(value.type)
            case For(binders, body):
                terms.append(inner(body, *binders))
            case Fold(binder, _, _, _, body):
                terms.append(inner(body, binder))
            case While():
                terms.append(Const(UNBOUNDED_NS))
            case Cond(_, then, orelse):
                terms += [inner(then), inner(orelse)]
            case WithAcc(refs, body):
                written += [value_of(ref) for ref in refs]
                terms.append(inner(body))
            case other:
                assert_never(other)
    for t in written:
        if isinstance(t, Table):
            terms.append(SizeProduct(tuple(map(size, sizes_of(t)))))
        else:
            units += 1
    return SizeSum((Const(max(round(units * _UNIT_NS), 1)), *terms))


def has_no_loops(block: Block) -> bool:
    """Whether `block` takes only a short time: it loops over nothing, and makes no table."""
    return not any(
        isinstance(binding.expr, For | Fold | While)
        or (blocks_of(binding.expr) and any(isinstance(v.type, Table) for v in binding.vars))
        or (
            isinstance(binding.expr, Accumulate | Update)
            and isinstance(binding.expr.value.type, Table)
        )
        or not all(has_no_loops(inner) for inner in blocks_of(binding.expr))
        for binding in block.bindings
    )
