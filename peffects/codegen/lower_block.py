"""Blocks to statements: what one thread does, one binding after the other.

Values are expressions for scalars, places for tables, targets for references.  A table result is
written straight into its final place: whoever lowers a block says where its results shall go, and
the binding that makes one writes there.  Views are places with another offset; only what lies
elsewhere is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from peffects.codegen.loop_ir import (
    Apply,
    Assign,
    Branch,
    Combine,
    Expr,
    Fail,
    Guard,
    Local,
    Loop,
    Memory,
    Operand,
    Read,
    Stmt,
    Store,
    Until,
    literal,
    locals_in,
    plus,
    size_of_tree,
    times,
    type_of,
)
from peffects.codegen.loops import Failure, Product, SizeExpr
from peffects.codegen.lower_checks import check_failure
from peffects.codegen.lower_facts import Facts, upper_bound
from peffects.codegen.lower_kernel import KernelBuilder, Place
from peffects.errors import BoundsError, InternalError, UnboundedTableError
from peffects.ir import primitives as p
from peffects.ir.evaluate import identity_of
from peffects.ir.messages import bounds_text
from peffects.ir.syntax import (
    I64,
    Accumulate,
    Atom,
    Binding,
    Block,
    Bounds,
    Check,
    Cond,
    Fold,
    For,
    Idx,
    Index,
    Lit,
    Monoid,
    Prim,
    Ref,
    Scalar,
    Table,
    Var,
    While,
    WithAcc,
)
from peffects.ir.typing import set_of, value_of
from peffects.source import SrcInfo

__all__ = ["BlockLowering", "Scope", "Target", "Value"]

_LARGEST_TREE = 16
"""Nodes of an expression that is written in one piece; larger ones are hard to read."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a reference is in a kernel: a local, or a place in memory."""

    monoid: Monoid
    at: Local | Place


Value: TypeAlias = Expr | Place | Target


@dataclass(slots=True)
class Scope:
    """What all kernels of a program share: facts, values of variables, failures."""

    facts: Facts
    values: dict[Var, Value] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def failure(self, failure: Failure) -> int:
        """The number of a failure."""
        if failure not in self.failures:
            self.failures.append(failure)
        return self.failures.index(failure)


class BlockLowering:
    """Lowers blocks into the kernel `k`."""

    def __init__(
        self, scope: Scope, k: KernelBuilder, leaf: Callable[[Atom], SizeExpr | None]
    ) -> None:
        self.scope, self.k, self.leaf = scope, k, leaf
        self._ordered = True  # whether the innermost loop around runs in order, or there is none

    # --- atoms --------------------------------------------------------------------------------

    def scalar(self, atom: Atom) -> Expr:
        """The expression of a scalar or index."""
        if isinstance(atom, Lit):
            return atom
        value = self.scope.values[atom]
        if isinstance(value, Place | Target):
            raise InternalError(f"lowering: {atom!r} is no scalar.")
        return self.k.use(value) if isinstance(value, Local) else value

    def operand(self, atom: Atom) -> Operand:
        """A scalar that can be used twice."""
        hint = "t" if isinstance(atom, Lit) else atom.name
        return self.k.operand(hint, self.scalar(atom))

    def place(self, var: Var) -> Place:
        """Where the table `var` is, its offset as this kernel reads it."""
        value = self.scope.values[var]
        if not isinstance(value, Place):
            raise InternalError(f"lowering: {var!r} is no table.")
        return Place(value.memory, self.k.use(value.offset), value.dims)

    def bind(self, var: Var, value: Value) -> None:
        """Set the value of `var`; an expression that is used once, nearby, is not stored."""
        if isinstance(value, Place | Target | Local | Lit) or (var in self.scope.facts.used_once_nearby and size_of_tree(value) <= _LARGEST_TREE):
            self.scope.values[var] = value
        else:
            self.scope.values[var] = self.k.assign(var.name, value)

    def elements(self, dims: Sequence[Atom]) -> Expr:
        """How many elements a table of these sizes has."""
        total: Expr = literal(1)
        for dim in dims:
            total = times(total, self.scalar(dim))
        return total

    # --- blocks -------------------------------------------------------------------------------

    def block(self, block: Block, places: Sequence[Place | None]) -> list[Value]:
        """Lower `block`; the tables among its results go to `places`, where there are any."""
        wanted: dict[Var, Place] = {}
        for atom, place in zip(block.results, places, strict=True):
            if place is not None and isinstance(atom, Var):
                wanted.setdefault(atom, place)
        for binding in block.bindings:
            self.binding(binding, wanted)
        return [self.result(a, place) for a, place in zip(block.results, places, strict=True)]

    def result(self, atom: Atom, place: Place | None) -> Value:
        """The value of a block's result, brought to its place."""
        if isinstance(atom.type, Scalar | Idx):
            return self.scalar(atom)
        assert isinstance(atom, Var), "there are no literal tables"
        found = self.place(atom)
        if place is None or found == place:
            return found
        self.copy(place, found)
        return place

    def binding(self, binding: Binding, wanted: dict[Var, Place]) -> None:
        """Lower one binding; `wanted` says where tables shall go."""
        self.k.line(binding.src)
        variables = binding.vars
        match binding.expr:
            case Prim(op, args):
                self.bind(variables[0], self.prim(op, args, variables[0]))
            case Index(table, indices, bounds):
                self.bind(variables[0], self.index(table, indices, bounds, binding.src))
            case For() as loop:
                self.loop(loop, variables, wanted)
            case Fold() as fold:
                self.fold(fold, variables, wanted)
            case While() as loop:
                self.while_loop(loop, variables, wanted)
            case Cond() as cond:
                self.cond(cond, variables, wanted)
            case WithAcc() as with_acc:
                self.with_acc(with_acc, variables, wanted)
            case Accumulate() as accumulation:
                self.accumulate(accumulation, binding.src)
            case Check() as check:
                self.check(check, binding.src)
            case other:
                assert_never(other)

    # --- scalars and views --------------------------------------------------------------------

    def prim(self, op: p.Primitive, args: tuple[Atom, ...], result: Var) -> Expr:
        """A primitive; one that gives its operand unchanged disappears."""
        operands = tuple(map(self.scalar, args))
        if op in (p.ORDINAL, p.STOP_GRADIENT):
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
        return Place(place.memory, self.k.operand(f"{table.name}_row", at), rest)

    def offset(
        self, place: Place, name: Var, indices: tuple[Atom, ...], bounds: Bounds, src: SrcInfo
    ) -> Expr:
        """The offset of an element or view, its indices tested where `bounds` says so."""
        flat: Expr = literal(0)
        for axis, (index, size) in enumerate(zip(indices, place.dims, strict=False)):
            value = self.scalar(index)
            if bounds is Bounds.CHECKED and not self._is_of(index, size):
                text = bounds_text(name.name, axis)
                number = self.scope.failure(Failure(BoundsError, text, src))
                value = self.k.operand("index", value)
                self.k.emit(Guard(value, self.scalar(size), number))
            flat = plus(times(flat, self.scalar(size)), value)
        rest = self.elements(place.dims[len(indices) :])
        return plus(place.offset, times(flat, rest))

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
                    fix="Bound the size: `min(size, n)`; or reduce without storing the table.",
                )
            bounds.append(bound)
        return self.k.scratch(name, elem, Product(tuple(bounds)))

    def new_place(self, var: Var, wanted: dict[Var, Place]) -> Place | None:
        """Where the table `var` shall be: where it is wanted, or in memory of its own."""
        if not isinstance(var.type, Table):
            return None
        if var in wanted:
            return wanted[var]
        dims = tuple(dim.size for dim in var.type.dims)
        return Place(self.memory(var.name, var.type.elem, dims), literal(0), dims)

    def copy(self, target: Place, source: Place) -> None:
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

    def fill(self, place: Place, value: Lit) -> None:
        """Set all elements of a table."""
        self.each_element(place.dims, lambda i: [Store(place.memory, plus(place.offset, i), value)])

    def each_element(self, dims: Sequence[Atom], body: Callable[[Local], list[Stmt]]) -> None:
        """A loop over the elements of a table of these sizes."""
        index = self.k.local("e", I64)
        self.k.emit(Loop(index, literal(0), self.elements(dims), tuple(body(index))))

    # --- loops --------------------------------------------------------------------------------

    @contextmanager
    def looping(self, ordered: bool, body: list[Stmt]) -> Iterator[None]:
        """Append to the body of a loop whose iterations run in order, or in any order."""
        outer, self._ordered = self._ordered, ordered
        with self.k.into(body):
            yield
        self._ordered = outer

    def loop(self, loop: For, variables: tuple[Var, ...], wanted: dict[Var, Place]) -> None:
        """A parallel loop inside a kernel: nested serial loops."""
        places = [self.new_place(var, wanted) for var in variables]
        self._axis(loop, 0, [None if x is None else x.offset for x in places], places)
        for var, place in zip(variables, places, strict=True):
            assert place is not None, "a loop makes tables"
            self.scope.values[var] = place

    def _axis(
        self,
        loop: For,
        axis: int,
        rows: Sequence[Operand | None],
        places: Sequence[Place | None],
    ) -> None:
        """The loop over one binder, or the body after the last; `rows` are offsets in results."""
        if axis == len(loop.binders):
            self.rows(loop.body, rows, places, axis)
            return
        binder = loop.binders[axis]
        size = self.scalar(set_of(binder).size)
        index, body = self.k.local(binder.name, I64), list[Stmt]()
        self.scope.values[binder] = index
        with self.looping(False, body):
            inner = [
                None
                if place is None or row is None
                else self.row(row, index, place.dims[axis + 1 :], axis == len(loop.binders) - 1)
                for row, place in zip(rows, places, strict=True)
            ]
            self._axis(loop, axis + 1, inner, places)
        self.k.emit(Loop(index, literal(0), size, tuple(body)))

    def row(self, base: Expr, index: Local, rest: Sequence[Atom], last: bool) -> Operand:
        """The offset of row `index` of a table at `base` whose rows have the sizes `rest`."""
        at = plus(base, times(index, self.elements(rest)))
        return at if last and not rest else self.k.operand("row", at)  # type: ignore[return-value]

    def rows(
        self,
        body: Block,
        offsets: Sequence[Expr | None],
        places: Sequence[Place | None],
        axes: int,
    ) -> None:
        """Lower the body of a loop over `axes` axes; its results go to rows of `places`."""
        rows = [
            Place(place.memory, offset, place.dims[axes:])  # type: ignore[arg-type]
            if place is not None and offset is not None and place.dims[axes:]
            else None
            for offset, place in zip(offsets, places, strict=True)
        ]
        values = self.block(body, rows)
        for value, offset, place in zip(values, offsets, places, strict=True):
            if not isinstance(value, Place | Target):
                assert place is not None and offset is not None, "a loop makes tables"
                self.k.emit(Store(place.memory, offset, value))

    def fold(self, fold: Fold, variables: tuple[Var, ...], wanted: dict[Var, Place]) -> None:
        """A sequential loop."""
        count = len(fold.carries)
        places = [self.new_place(var, wanted) for var in variables[count:]]
        size = self.scalar(set_of(fold.binder).size)
        carried = self.start(fold.carries, fold.inits)
        index, body = self.k.local(fold.binder.name, I64), list[Stmt]()
        self.scope.values[fold.binder] = index
        with self.looping(True, body):
            rows: list[Place | None] = [self.other_half(carry) for carry in carried]
            offsets = []
            for place in places:
                assert place is not None, "outputs are tables"
                rest = place.dims[1:]
                offset = self.row(place.offset, index, rest, True)
                offsets.append(offset)
                rows.append(Place(place.memory, offset, rest) if rest else None)
            values = self.block(fold.body, rows)
            for value, offset, place in zip(values[count:], offsets, places, strict=True):
                if not isinstance(value, Place | Target):
                    assert place is not None, "outputs are tables"
                    self.k.emit(Store(place.memory, offset, value))
            self.advance(carried, values[:count])
        self.k.emit(Loop(index, literal(0), size, tuple(body), fold.reverse))
        self.finish(variables[:count], carried, wanted)
        for var, place in zip(variables[count:], places, strict=True):
            assert place is not None, "outputs are tables"
            self.scope.values[var] = place

    def while_loop(self, loop: While, variables: tuple[Var, ...], wanted: dict[Var, Place]) -> None:
        """A loop of unknown length."""
        carried = self.start(loop.carries, loop.inits)
        test, body = list[Stmt](), list[Stmt]()
        with self.looping(True, test):
            (go_on,) = self.block(loop.test, [None])
            assert not isinstance(go_on, Place | Target), "the test gives a bool"
        with self.looping(True, body):
            values = self.block(loop.body, [self.other_half(carry) for carry in carried])
            self.advance(carried, values)
        self.k.emit(Until(tuple(test), go_on, tuple(body)))
        self.finish(variables, carried, wanted)

    # --- carried values -----------------------------------------------------------------------
    # A scalar is a local.  A table has memory for two: the loop reads one half and writes the
    # other, and the local that holds the offset of the current half flips.

    def start(self, carries: tuple[Var, ...], inits: tuple[Atom, ...]) -> list[Local | Place]:
        """Storage for carried values, set to their start."""
        starts = [self.scalar(x) if not isinstance(x.type, Table) else None for x in inits]
        carried: list[Local | Place] = []
        for carry, init, value in zip(carries, inits, starts, strict=True):
            if value is not None:
                local = self.k.local(carry.name, type_of(value))
                self.k.emit(Assign(local, value))
                carried.append(local)
                self.scope.values[carry] = local
                continue
            assert isinstance(carry.type, Table) and isinstance(init, Var)
            dims = tuple(dim.size for dim in carry.type.dims)
            memory = self.memory(carry.name, carry.type.elem, (Lit(2, I64), *dims))
            offset = self.k.assign(f"{carry.name}_half", literal(0))
            place = Place(memory, offset, dims)
            self.copy(Place(memory, literal(0), dims), self.place(init))
            carried.append(place)
            self.scope.values[carry] = place
        return carried

    def other_half(self, carry: Local | Place) -> Place | None:
        """Where the next value of a carried table goes."""
        if isinstance(carry, Local):
            return None
        size = self.elements(carry.dims)
        other = self.k.assign("other", Apply(p.SUB, (size, carry.offset), I64))
        return Place(carry.memory, other, carry.dims)

    def advance(self, carried: Sequence[Local | Place], values: Sequence[Value]) -> None:
        """Make `values` the carried ones, all at once."""
        pairs: list[tuple[Local, Expr]] = []
        for carry, value in zip(carried, values, strict=True):
            if isinstance(carry, Local):
                assert not isinstance(value, Place | Target)
                pairs.append((carry, value))
            else:
                assert isinstance(value, Place) and isinstance(carry.offset, Local)
                pairs.append((carry.offset, value.offset))
        changed: set[Local] = set()
        ready: list[tuple[Local, Expr]] = []
        for local, value in pairs:
            if changed.intersection(locals_in(value)):
                value = self.k.assign(f"{local.name}_next", value)
            ready.append((local, value))
            changed.add(local)
        for local, value in ready:
            if local is not value:
                self.k.emit(Assign(local, value))

    def finish(
        self,
        variables: Sequence[Var],
        carried: Sequence[Local | Place],
        wanted: dict[Var, Place],
    ) -> None:
        """Bind the last carried values."""
        for var, carry in zip(variables, carried, strict=True):
            if var in wanted and isinstance(carry, Place):
                self.copy(wanted[var], carry)
                self.scope.values[var] = wanted[var]
            else:
                self.scope.values[var] = carry

    # --- branches -----------------------------------------------------------------------------

    def cond(self, cond: Cond, variables: tuple[Var, ...], wanted: dict[Var, Place]) -> None:
        """One of two blocks; both write their results to the same places."""
        pred = self.scalar(cond.pred)
        results: list[Local | Place] = []
        for var in variables:
            place = self.new_place(var, wanted)
            t = I64 if isinstance(var.type, Idx) else var.type
            results.append(self.k.local(var.name, t) if isinstance(t, Scalar) else place)  # type: ignore[arg-type]
        sides = []
        for block in (cond.then, cond.orelse):
            body = list[Stmt]()
            with self.k.into(body):
                values = self.block(block, [x if isinstance(x, Place) else None for x in results])
                for result, value in zip(results, values, strict=True):
                    if isinstance(result, Local) and not isinstance(value, Place | Target):
                        self.k.emit(Assign(result, value))
            sides.append(tuple(body))
        self.k.emit(Branch(pred, *sides))
        self.scope.values.update(zip(variables, results, strict=True))

    # --- accumulators -------------------------------------------------------------------------

    def with_acc(self, expr: WithAcc, variables: tuple[Var, ...], wanted: dict[Var, Place]) -> None:
        """Accumulators: scalars are locals, tables lie where their final value is wanted."""
        count = len(expr.body.results)
        targets = [
            self.new_target(ref, wanted.get(var))
            for ref, var in zip(expr.refs, variables[count:], strict=True)
        ]
        self.scope.values.update(zip(expr.refs, targets, strict=True))
        values = self.block(expr.body, [wanted.get(var) for var in variables[:count]])
        for var, value in zip(variables[:count], values, strict=True):
            self.bind(var, value)
        for var, target in zip(variables[count:], targets, strict=True):
            self.scope.values[var] = target.at

    def new_target(self, ref: Var, place: Place | None) -> Target:
        """An accumulator at its monoid's identity."""
        assert isinstance(ref.type, Ref)
        held, monoid = value_of(ref), ref.type.monoid
        if isinstance(held, Scalar):
            return Target(monoid, self.k.assign(ref.name, Lit(identity_of(monoid, held), held)))
        if place is None:
            dims = tuple(dim.size for dim in held.dims)
            place = Place(self.memory(ref.name, held.elem, dims), literal(0), dims)
        self.fill(place, Lit(identity_of(monoid, held.elem), held.elem))
        return Target(monoid, place)

    def accumulate(self, expr: Accumulate, src: SrcInfo) -> None:
        """`ref[indices] += value`."""
        target = self.scope.values[expr.ref]
        assert isinstance(target, Target), "references are bound to targets"
        monoid, ordered = target.monoid, self._ordered
        if isinstance(target.at, Local):
            value = self.scalar(expr.value)
            total = Combine(monoid, target.at, value, target.at.type, ordered)
            self.k.emit(Assign(target.at, total))
            return
        place = Place(target.at.memory, self.k.use(target.at.offset), target.at.dims)
        at = self.k.operand("at", self.offset(place, expr.ref, expr.indices, expr.bounds, src))
        rest = place.dims[len(expr.indices) :]
        elem, memory = place.memory.elem, place.memory
        if not rest:
            value = self.scalar(expr.value)
            total = Combine(monoid, Read(memory, at), value, elem, ordered)
            self.k.emit(Store(memory, at, total))
            return
        assert isinstance(expr.value, Var)
        source = self.place(expr.value)

        def body(i: Local) -> list[Stmt]:
            value = Read(source.memory, plus(source.offset, i))
            there = plus(at, i)
            return [Store(memory, there, Combine(monoid, Read(memory, there), value, elem, False))]

        self.each_element(rest, body)

    # --- checks -------------------------------------------------------------------------------

    def check(self, check: Check, src: SrcInfo) -> None:
        """Stop with the user's error unless the condition holds."""
        translated = check_failure(check, src)
        number = self.scope.failure(translated.failure)
        shown: list[Expr] = [*map(self.scalar, translated.shown), literal(0), literal(0)]
        fail = Fail(number, shown[0], shown[1])
        self.k.emit(Branch(self.scalar(check.ok), (), (fail,)))
