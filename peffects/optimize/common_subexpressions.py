"""Computes equal things once: value numbering over scopes.

Each value gets a number; equal numbers mean equal values.  A loop's index is numbered by its index
set and by how deeply loops are nested *inside* the loop, so equal loops have equal bodies wherever
they stand, and variables that are in scope together have different numbers.  Results of a loop are
numbered one by one; the final value of an accumulator by the accumulations into it.

A binding goes if it writes nothing, all its results are known in the scope, and every test in it
has been made before.  A test of `0 <= i < size` is made once for all tables with such an axis.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never

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
    FinSet,
    Fold,
    For,
    Idx,
    Index,
    Prim,
    Program,
    Ref,
    Scalar,
    Table,
    Type,
    Update,
    Var,
    While,
    WithAcc,
)
from peffects.ir.traverse import binders_of, blocks_of

Number: TypeAlias = int

COMMUTATIVE = frozenset(
    (p.ADD, p.MUL, p.SCALE, p.EQ, p.NE, p.AND, p.OR, p.BIT_AND, p.BIT_OR, p.BIT_XOR)
)  # not min and max: they may choose between 0.0 and -0.0 by position


def common_subexpressions(program: Program) -> Program:
    """Replace each value that is known where it is computed; drop tests that were made before."""
    heights: dict[int, int] = {}
    _measure(program.body, heights)
    walk = _Numbering(heights)
    body = walk.block(program.body)
    return replace(program, body=body) if walk.changed else program


def _measure(block: Block, heights: dict[int, int]) -> int:
    """How deeply binders nest in `block`; fills in the same for the expressions inside."""
    highest = 0
    for binding in block.bindings:
        expr = binding.expr
        blocks = blocks_of(expr)
        if blocks:
            inner = max(_measure(inner, heights) for inner in blocks)
            heights[id(expr)] = inner + 1 if isinstance(expr, For | Fold | While) else inner
            highest = max(highest, heights[id(expr)])
    return highest


@dataclass(slots=True)
class _Summary:
    """What running something gives: its values, what it accumulates where, which tests it makes."""

    values: list[Number] = field(default_factory=list)
    writes: dict[Var, list[Number]] = field(default_factory=dict)
    tests: list[Number] = field(default_factory=list)


class _Numbering(Renamer):
    """Walks the program forwards, replacing variables by equal ones that are in scope."""

    def __init__(self, heights: dict[int, int]) -> None:
        super().__init__({}, fresh=False)
        self.heights = heights
        self.numbers: dict[Hashable, Number] = {}
        self.of_var: dict[Var, Number] = {}
        self.available: dict[Number, Var] = {}
        self.tested: set[Number] = set()
        self.inner: list[_Summary] = []
        self.log: list[tuple[Number, bool]] = []
        self.changed = False

    # --- numbers ---------------------------------------------------------------------------------

    def intern(self, *key: Hashable) -> Number:
        return self.numbers.setdefault(key, len(self.numbers))

    def number(self, atom: Atom) -> Number:
        if isinstance(atom, Var):
            known = self.of_var.get(atom)
            return self.intern(atom) if known is None else known
        return self.intern(atom)

    def all(self, atoms: Iterable[Atom]) -> tuple[Number, ...]:
        return tuple(map(self.number, atoms))

    def type_key(self, t: Type) -> Hashable:
        match t:
            case Scalar():
                return t
            case Table(dims, elem):
                return (*self.all(d.size for d in dims), elem)
            case Idx(FinSet(size)):
                return "index", self.number(size)
            case Ref(monoid, value):
                return monoid, self.type_key(value)
            case _:
                assert_never(t)

    def atom(self, atom: Atom) -> Atom:
        new = super().atom(atom)
        if new is not atom:
            self.changed = True
        return new

    def bind(self, var: Var) -> Var:
        new = super().bind(var)
        if new is not var:
            self.of_var[new] = self.number(var)
        return new

    def number_binders(self, expr: Expr) -> None:
        height = self.heights.get(id(expr), 0)
        for place, binder in enumerate(binders_of(expr)):
            if isinstance(binder.type, Ref):
                continue
            key = self.type_key(binder.type)
            self.of_var[binder] = self.intern("binder", height, place, key)

    # --- scopes ----------------------------------------------------------------------------------

    def block(self, block: Block) -> Block:
        start = len(self.log)
        summary = _Summary()
        kept = [b for binding in block.bindings for b in self.step(binding, summary)]
        results = tuple(map(self.atom, block.results))
        summary.values = list(self.all(results))
        self.inner.append(summary)
        while len(self.log) > start:
            number, is_test = self.log.pop()
            if is_test:
                self.tested.remove(number)
            else:
                del self.available[number]
        return Block(tuple(kept), results)

    def step(self, binding: Binding, outer: _Summary) -> tuple[Binding, ...]:
        """Keep, relax or drop one binding; add what it does to the summary of its block."""
        self.number_binders(binding.expr)
        saved, self.inner = self.inner, []
        expr = self.expr(binding.expr)
        inner, self.inner = self.inner, saved
        found = self.summary(expr, inner)
        for ref, writes in found.writes.items():
            outer.writes.setdefault(ref, []).extend(writes)
        outer.tests.extend(found.tests)
        known = [self.available.get(number) for number in found.values]
        is_tested = self.tested.issuperset(found.tests)
        if is_tested and not found.writes and None not in known:
            self.changed = True
            for var, other, number in zip(binding.vars, known, found.values, strict=True):
                assert other is not None
                self.mapping[var] = other
                self.of_var[var] = number
            return ()
        accesses = isinstance(expr, Index | Update | Accumulate) and expr.bounds is Bounds.CHECKED
        if is_tested and accesses:
            assert isinstance(expr, Index | Update | Accumulate)
            self.changed = True
            expr = replace(expr, bounds=Bounds.UNCHECKED)
        return (self.keep(Binding(binding.vars, expr, binding.src), found),)

    def keep(self, binding: Binding, found: _Summary) -> Binding:
        """Make known what `binding` gives; what was known already gets its older name."""
        new = Binding(tuple(map(self.bind, binding.vars)), binding.expr, binding.src)
        for old, var, number in zip(binding.vars, new.vars, found.values, strict=True):
            self.of_var[var] = number
            other = self.available.get(number)
            if other is None:
                self.available[number] = var
                self.log.append((number, False))
            else:
                self.mapping[old] = other
        for number in found.tests:
            if number not in self.tested:
                self.tested.add(number)
                self.log.append((number, True))
        return new

    # --- what expressions do ---------------------------------------------------------------------

    def summary(self, expr: Expr, inner: list[_Summary]) -> _Summary:
        match expr:
            case Prim(op, args):
                numbers = self.all(args)
                if op in COMMUTATIVE:
                    numbers = tuple(sorted(numbers))
                return _Summary([self.intern(op, numbers)])
            case Index(table, indices, bounds):
                value = self.intern("index", self.number(table), self.all(indices))
                return _Summary([value], {}, self.bounds_tests(table.type, indices, bounds))
            case Update(table, indices, value, bounds):
                new = self.intern(
                    "update", self.number(table), self.all(indices), self.number(value)
                )
                return _Summary([new], {}, self.bounds_tests(table.type, indices, bounds))
            case Accumulate(ref, indices, value, bounds):
                write = self.intern("+=", self.all(indices), self.number(value))
                assert isinstance(ref.type, Ref)
                tests = self.bounds_tests(ref.type.value, indices, bounds)
                return _Summary([], {ref: [write]}, tests)
            case Check(ok, _, _, _, _, tells):
                parts = ("tell", id(expr)) if tells else ("check", self.number(ok))
                return _Summary([], {}, [self.intern(*parts)])
            case For(binders, _):
                key = self.intern("for", self.all(binders))
                values = [self.intern("table", key, value) for value in inner[0].values]
                return self.wrapped(key, inner[0], values)
            case Fold():
                return self.fold(expr, inner[0])
            case While(carries, inits, _, _):
                test, body = inner
                key = self.intern(
                    "while", self.all(carries), self.all(inits), *test.values, *body.values
                )
                values = [self.intern("last", key, place) for place in range(len(carries))]
                return self.merged(
                    values,
                    self.wrapped(self.intern("test of", key), test, []),
                    self.wrapped(key, body, []),
                )
            case Cond(pred, _, _):
                return self.cond(self.number(pred), *inner)
            case WithAcc(refs, _):
                return self.with_acc(refs, inner[0])
            case _:
                assert_never(expr)

    def bounds_tests(self, t: Type, indices: tuple[Atom, ...], bounds: Bounds) -> list[Number]:
        if bounds is not Bounds.CHECKED:
            return []
        dims = t.dims if isinstance(t, Table) else ()
        return [
            self.intern("bounds", self.number(dim.size), self.number(index))
            for dim, index in zip(dims, indices, strict=False)
        ]

    def wrapped(self, key: Number, body: _Summary, values: list[Number]) -> _Summary:
        """What a loop does: what its body does, for each index."""
        writes = {ref: [self.intern("each", key, *many)] for ref, many in body.writes.items()}
        return _Summary(values, writes, [self.intern("test", key, test) for test in body.tests])

    def merged(self, values: list[Number], *parts: _Summary) -> _Summary:
        merged = _Summary(values)
        for part in parts:
            for ref, writes in part.writes.items():
                merged.writes.setdefault(ref, []).extend(writes)
            merged.tests.extend(part.tests)
        return merged

    def fold(self, fold: Fold, body: _Summary) -> _Summary:
        count = len(fold.carries)
        bound = self.all((fold.binder, *fold.carries))
        nexts, outputs = tuple(body.values[:count]), body.values[count:]
        key = self.intern("fold", fold.reverse, bound, self.all(fold.inits), nexts)
        values = [self.intern("last", key, place) for place in range(count)]
        values += [self.intern("out", key, output) for output in outputs]
        return self.wrapped(key, body, values)

    def cond(self, pred: Number, then: _Summary, orelse: _Summary) -> _Summary:
        values = [
            self.intern("cond", pred, *pair)
            for pair in zip(then.values, orelse.values, strict=True)
        ]
        refs = {**then.writes, **orelse.writes}
        writes = {
            ref: [
                self.intern("cond", pred, *(tuple(s.writes.get(ref, ())) for s in (then, orelse)))
            ]
            for ref in refs
        }
        tests = [self.intern("then", pred, test) for test in then.tests]
        tests += [self.intern("else", pred, test) for test in orelse.tests]
        return _Summary(values, writes, tests)

    def with_acc(self, refs: tuple[Var, ...], body: _Summary) -> _Summary:
        finals = [
            self.intern("final", self.type_key(ref.type), *body.writes.get(ref, ())) for ref in refs
        ]
        writes = {ref: many for ref, many in body.writes.items() if ref not in refs}
        return _Summary(body.values + finals, writes, body.tests)
