"""Atoms to values: scalars to expressions, tables to places, indices to offsets; memory.

The part of block lowering that knows no control flow.  Next: `block.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from peffects.codegen.lower.facts import Uses, upper_bound
from peffects.codegen.lower.kernel import KernelBuilder, TablePlace
from peffects.codegen.program.loop_ir import (
    Apply,
    Expr,
    ForLoop,
    Guard,
    Local,
    Memory,
    Operand,
    Read,
    Stmt,
    Store,
    literal,
    plus,
    size_of_tree,
    times,
)
from peffects.codegen.program.loop_programs import MOST_OPERANDS, Failure, SizeExpr, SizeProduct
from peffects.errors import BoundsError, InternalError, UnboundedTableError
from peffects.ir import primitives as p
from peffects.ir.messages import bounds_text
from peffects.ir.syntax import (
    I64,
    Atom,
    Bounds,
    Idx,
    Lit,
    Monoid,
    Scalar,
    Table,
    Var,
)
from peffects.source import SrcInfo

__all__ = ["ProgramScope", "Target", "Value", "ValueLowering"]

_LARGEST_TREE = 16
"""Nodes of an expression that is written in one piece; larger ones are hard to read."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a reference is in a kernel: a local, or a place in memory.

    A `fresh` place holds nothing yet, and each element is accumulated into once.  A sum of many
    numbers is held by more than one, see `sums.py`: by `at` and `low`, and by `part` what is
    not yet added to them.  `depth` counts the loops around it.
    """

    monoid: Monoid
    at: Local | TablePlace
    fresh: bool = False
    low: Local | Memory | None = None
    part: Local | None = None
    depth: int = 0


Value: TypeAlias = Expr | TablePlace | Target


@dataclass(slots=True)
class ProgramScope:
    """What all kernels of a program share: facts, values of variables, failures."""

    facts: Uses
    values: dict[Var, Value] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    around: list[Var] = field(default_factory=list)
    """The indices of the loops whose bodies are being lowered, outermost first."""

    @contextmanager
    def inside(self, binders: Sequence[Var]) -> Iterator[None]:
        """What is lowered here is in the body of a loop over `binders`."""
        self.around += binders
        yield
        del self.around[len(self.around) - len(binders) :]

    def failure(self, failure: Failure) -> int:
        """The number of a failure."""
        if failure not in self.failures:
            self.failures.append(failure)
        return self.failures.index(failure)


class ValueLowering:
    """Lowers values into the kernel `k`."""

    def __init__(
        self, scope: ProgramScope, k: KernelBuilder, leaf: Callable[[Atom], SizeExpr | None]
    ) -> None:
        self.scope, self.k, self.leaf = scope, k, leaf
        self._ordered = True  # whether the innermost loop around runs in order, or there is none
        self._depth = 0  # how many loops are around

    # --- atoms --------------------------------------------------------------------------------

    def scalar(self, atom: Atom) -> Expr:
        """The expression of a scalar or index."""
        if isinstance(atom, Lit):
            return atom
        value = self.scope.values[atom]
        if isinstance(value, TablePlace | Target):
            raise InternalError(f"lowering: {atom!r} is no scalar.")
        return self.k.use(value) if isinstance(value, Local) else value

    def operand(self, atom: Atom) -> Operand:
        """A scalar that can be used twice."""
        hint = "t" if isinstance(atom, Lit) else atom.name
        return self.k.operand(hint, self.scalar(atom))

    def place(self, var: Var) -> TablePlace:
        """Where the table `var` is, its offset as this kernel reads it."""
        value = self.scope.values[var]
        if not isinstance(value, TablePlace):
            raise InternalError(f"lowering: {var!r} is no table.")
        return TablePlace(value.memory, self.k.use(value.offset), value.dims)

    def bind(self, var: Var, value: Value) -> None:
        """Set the value of `var`; an expression that is used once, nearby, is not stored."""
        if not isinstance(value, TablePlace | Target | Local | Lit):
            nearby = var in self.scope.facts.used_once_nearby
            if not (nearby and size_of_tree(value) <= _LARGEST_TREE):
                value = self.k.assign(var.name, value)
        self.scope.values[var] = value

    def elements(self, dims: Sequence[Atom]) -> Expr:
        """How many elements a table of these sizes has."""
        total: Expr = literal(1)
        for dim in dims:
            total = times(total, self.scalar(dim))
        return total

    # --- scalars and views --------------------------------------------------------------------

    def prim(self, op: p.Primitive, args: tuple[Atom, ...], result: Var) -> Expr:
        """A primitive; one that gives its operand unchanged disappears."""
        if op is p.PACKED:
            return plus(self.scalar(args[1]), self.scalar(args[2]))
        operands = tuple(map(self.scalar, args))
        if op in (p.ORDINAL, p.STOP_GRADIENT, p.ELEMENTARY):
            return operands[0]
        assert isinstance(result.type, Scalar)
        return Apply(op, operands, result.type)

    def index(self, table: Var, indices: tuple[Atom, ...], bounds: Bounds, src: SrcInfo) -> Value:
        """An element, or the place of a view."""
        place = self.place(table)
        at = self.offset(place, table, indices, bounds, src)
        rest = place.dims[len(indices) :]
        if not rest:
            return Read(place.memory, at)
        return TablePlace(place.memory, self.k.operand(f"{table.name}_row", at), rest)

    def offset(
        self, place: TablePlace, name: Var, indices: tuple[Atom, ...], bounds: Bounds, src: SrcInfo
    ) -> Expr:
        """The offset of an element or view, its indices tested where `bounds` says so."""
        flat: Expr = literal(0)
        for axis, (index, size) in enumerate(zip(indices, place.dims, strict=False)):
            value = self.scalar(index)
            if bounds is Bounds.CHECKED and not self._is_of(index, size):
                text = bounds_text(name.name, axis)
                number, around = self.failure(Failure(BoundsError, text, src))
                value = self.k.operand("index", value)
                self.k.emit(Guard(value, self.scalar(size), number, around))
            flat = plus(times(flat, self.scalar(size)), value)
        rest = self.elements(place.dims[len(indices) :])
        return plus(place.offset, times(flat, rest))

    def failure(self, failure: Failure) -> tuple[int, tuple[Expr, ...]]:
        """The number of a failure, and the indices of the loops around it, which it shows.

        As many as there is room for, the innermost ones.
        """
        room = MOST_OPERANDS - failure.loops_at
        around = self.scope.around[max(len(self.scope.around) - room, 0) :]
        named = replace(failure, loops=tuple(binder.name for binder in around))
        return self.scope.failure(named), tuple(map(self.scalar, around))

    def _is_of(self, index: Atom, size: Atom) -> bool:
        """Whether an index is from the set of an axis."""
        found = self.scope.facts.same_index(index)
        return isinstance(found.type, Idx) and found.type.set.size == size

    # --- memory -------------------------------------------------------------------------------

    def memory(self, name: str, elem: Scalar, dims: Sequence[Atom]) -> Memory:
        """Memory for a local table."""
        bounds: list[SizeExpr] = []
        for dim in dims:
            bound = upper_bound(dim, self.scope.facts, self.leaf)
            if bound is None:
                raise UnboundedTableError(
                    f"the size of the table `{name}` is computed inside a loop from data, so how "
                    "much memory it needs is not known before the loop starts.",
                    at=self.k.at,
                    fix="Bound the size: `min(size, n)`; or reduce without storing the table. Of a "
                    "`while` that is differentiated, bound the rounds: `for _ in range(n)`.",
                )
            bounds.append(bound)
        return self.k.scratch(name, elem, SizeProduct(tuple(bounds)))

    def new_place(self, var: Var, wanted: dict[Var, TablePlace]) -> TablePlace | None:
        """Where the table `var` shall be: where it is wanted, or in memory of its own."""
        if not isinstance(var.type, Table):
            return None
        if var in wanted:
            return wanted[var]
        dims = tuple(dim.size for dim in var.type.dims)
        return TablePlace(self.memory(var.name, var.type.elem, dims), literal(0), dims)

    def copy(self, target: TablePlace, source: TablePlace) -> None:
        """Copy a table."""
        self.each_element(
            target.dims,
            lambda i: [
                Store(
                    target.memory,
                    plus(target.offset, i),
                    Read(source.memory, plus(source.offset, i)),
                )
            ],
        )

    def fill(self, place: TablePlace, value: Lit) -> None:
        """Set all elements of a table."""
        self.each_element(place.dims, lambda i: [Store(place.memory, plus(place.offset, i), value)])

    def each_element(self, dims: Sequence[Atom], body: Callable[[Local], list[Stmt]]) -> None:
        """A loop over the elements of a table of these sizes."""
        index = self.k.local("e", I64)
        self.k.emit(ForLoop(index, literal(0), self.elements(dims), tuple(body(index))))
