"""Random programs of the IR, well-formed by construction, for laws that all passes must keep.

Sizes are small and may be zero, loops nest, bindings repeat (as fresh copies, with and without
their tests, as derivatives make them), accesses and checks may fail, and every binding has a line
of its own.  Numbers are small multiples of 1/4 and arithmetic is exact while they stay small, so
that sums do not depend on their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from peffects.errors import ValueRangeError
from peffects.ir import primitives as p
from peffects.ir.builder import Builder, bool_lit, int_lit, lit_like
from peffects.ir.check import check_program
from peffects.ir.recompute import without_effects
from peffects.ir.rename import Renamer
from peffects.ir.syntax import (
    BOOL,
    F64,
    I64,
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
    Monoid,
    Program,
    Ref,
    Scalar,
    SizeParam,
    Table,
    Type,
    Update,
    Var,
    While,
    WithAcc,
)
from peffects.ir.typing import drop_axes, value_of
from peffects.source import SrcInfo

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[T]], T]

FLOATS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -3.25)
FLOAT_OPS = (p.ADD, p.SUB, p.MUL, p.NEG, p.ABS, p.MIN, p.MAX, p.SELECT, p.STOP_GRADIENT)
INT_OPS = (p.ADD, p.SUB, p.MUL, p.NEG, p.FLOORDIV, p.MOD, p.MIN, p.BIT_AND)
TESTS = (p.LT, p.LE, p.EQ, p.NE)
MONOIDS = (Monoid.ADD, Monoid.MAX, Monoid.MIN, Monoid.MUL)
MAX_DEPTH = 4


@dataclass
class Scope:
    """What a block may use, and how it is built."""

    b: Builder
    values: list[Var]
    refs: tuple[Var, ...] = ()
    depth: int = 0
    own: list[Binding] = field(default_factory=list)

    def inner(self, *binders: Var) -> Scope:
        """The scope of a block inside."""
        refs = tuple(v for v in binders if isinstance(v.type, Ref))
        values = [v for v in binders if not isinstance(v.type, Ref)]
        return Scope(self.b.nested(), self.values + values, self.refs + refs, self.depth + 1)


class Generator:
    """Draws statements until its budget is spent."""

    def __init__(self, draw: Draw[Any], sizes: Sequence[Atom], budget: int) -> None:
        self.draw, self.sizes, self.budget = draw, sizes, budget
        self.line = 0

    def choose(self, items: Sequence[T]) -> T:
        place: int = self.draw(st.integers(0, len(items) - 1))
        return items[place]

    def flip(self, out_of: int = 2) -> bool:
        return bool(self.draw(st.integers(0, out_of - 1)) == 0)

    # --- atoms -----------------------------------------------------------------------------------

    def atom(self, s: Scope, t: Scalar) -> Atom:
        known = [v for v in s.values if v.type == t][-6:]
        if known and not self.flip(5):
            return self.choose(known)
        if t == F64:
            return lit_like(self.choose(FLOATS), F64)
        return bool_lit(self.flip()) if t == BOOL else int_lit(self.choose((-1, 0, 1, 2)))

    def table(self, s: Scope) -> Var | None:
        tables = [v for v in s.values if isinstance(v.type, Table)]
        return self.choose(tables[-3:] if self.flip() else tables) if tables else None

    def places(self, s: Scope, dims: Sequence[FinSet]) -> tuple[tuple[Atom, ...], Bounds]:
        """Indices for these axes: of their index sets, or integers that are tested."""
        chosen: list[Atom] = []
        for dim in dims:
            fitting = [v for v in s.values if v.type == Idx(dim)]
            if fitting and not self.flip(12):
                chosen.append(self.choose(fitting[-3:]))
        if len(chosen) == len(dims):
            return tuple(chosen), Bounds.PROVED
        if not self.flip(8):
            return tuple(int_lit(self.choose((0, 0, 0, 1))) for _ in dims), Bounds.CHECKED
        return tuple(self.atom(s, I64) for _ in dims), Bounds.CHECKED

    # --- statements ------------------------------------------------------------------------------

    def emit(self, s: Scope, expr: Expr, names: Sequence[str] = ()) -> tuple[Var, ...]:
        self.line += 1
        s.b.at = SrcInfo("user.py", self.line)
        made = s.b.emit(expr, names)
        s.values += made
        return made

    def statements(self, s: Scope, most: int = 4) -> None:
        for _ in range(self.draw(st.integers(1, most))):
            if self.budget <= 0:
                return
            self.budget -= 1
            self.statement(s)

    def statement(self, s: Scope) -> None:
        plain = [self.arithmetic, self.arithmetic, self.access, self.access, self.repeat]
        plain += [self.update]
        if s.refs:
            plain += [self.accumulate] * 3
        if s.depth < MAX_DEPTH:
            plain += [self.loop] * 2 + [self.reduction] * 3 + [self.accumulator]
            plain += [self.consumer] * 5
            plain += [self.fold, self.branch, self.while_loop, self.scope_of_many]
            plain += [self.overwriting_fold, self.overwriting_fold, self.overwriting_branch]
        if self.flip(15):
            self.check(s)
        self.choose(plain)(s)

    def arithmetic(self, s: Scope) -> None:
        kind = self.draw(st.integers(0, 5))
        if kind == 0:
            t = self.choose((F64, I64))
            op = self.choose(TESTS)
            self.emit(s, p_(op, self.atom(s, t), self.atom(s, t)))
        elif kind == 1:
            op = self.choose(INT_OPS)
            args = [self.atom(s, I64) for _ in range(op.arity)]
            self.emit(s, p_(op, *args))
        elif kind == 2 and (indices := [v for v in s.values if isinstance(v.type, Idx)]):
            self.emit(s, p_(p.ORDINAL, self.choose(indices)))
        else:
            op = self.choose(FLOAT_OPS)
            args = [self.atom(s, F64) for _ in range(op.arity)]
            if op is p.SELECT:
                args[0] = self.atom(s, BOOL)
            self.emit(s, p_(op, *args))

    def access(self, s: Scope) -> None:
        table = self.table(s)
        if table is None:
            return
        assert isinstance(table.type, Table)
        count = self.draw(st.integers(1, len(table.type.dims)))
        indices, bounds = self.places(s, table.type.dims[:count])
        s.b.at = SrcInfo("user.py", self.line)
        self.emit(s, index_(table, indices, bounds))

    def update(self, s: Scope) -> None:
        """Another element or row of a table; the newest of its type, more often than not."""
        table = self.table(s)
        if table is None:
            return
        assert isinstance(table.type, Table)
        dims, t = table.type.dims, table.type
        if not self.flip(3):
            table = [v for v in s.values if v.type == t][-1]
        count = self.draw(st.integers(1, len(dims)))
        indices, bounds = self.places(s, dims[:count])
        rest = drop_axes(t, count)
        rows = [v for v in s.values if v.type == rest]
        if isinstance(rest, Table) and not rows:
            return
        value = self.choose(rows) if isinstance(rest, Table) else self.atom(s, rest)
        self.emit(s, Update(table, indices, value, bounds))

    def accumulate(self, s: Scope) -> None:
        ref = self.choose(s.refs)
        held = value_of(ref)
        dims = held.dims if isinstance(held, Table) else ()
        indices, bounds = self.places(s, dims)
        self.emit(s, Accumulate(ref, indices, self.atom(s, F64), bounds))

    def check(self, s: Scope) -> None:
        most = lit_like(self.choose((3.0, 100.0, 100.0, 100.0)), F64)
        ok = self.emit(s, p_(p.LE, self.atom(s, F64), most))[0]
        self.emit(s, Check(ok, ValueRangeError, "too large", ()))

    def repeat(self, s: Scope) -> None:
        """A copy of an earlier binding of the block, with its effects or without."""
        earlier = [x for x in s.b.bindings if x.vars]
        if not earlier:
            return
        binding = self.choose(earlier[-5:])
        if self.flip():
            binding = without_effects(binding)
        copy = Renamer({}, fresh=True).binding(binding)
        s.b.bindings.append(copy)
        s.values += copy.vars

    # --- statements with blocks ------------------------------------------------------------------

    def binders(self, count: int) -> tuple[Var, ...]:
        return tuple(
            Var("i", Idx(FinSet(self.choose(self.sizes), f"axis{k}"))) for k in range(count)
        )

    def block(self, s: Scope, types: Sequence[Type], more: Sequence[Atom] = ()) -> Block:
        self.statements(s)
        return s.b.block(*(self.result(s, t) for t in types), *more)

    def result(self, s: Scope, t: Type) -> Atom:
        if isinstance(t, Scalar):
            return self.atom(s, t)
        return self.choose([v for v in s.values if v.type == t])

    def loop(self, s: Scope) -> None:
        binders = self.binders(self.choose((1, 1, 2)))
        types = [F64] * self.draw(st.integers(0 if s.refs else 1, 2))
        body = self.block(s.inner(*binders), types)
        self.emit(s, For(binders, body))

    def consumer(self, s: Scope) -> None:
        """A loop that reads some table element by element."""
        table = self.table(s)
        if table is None:
            return
        assert isinstance(table.type, Table)
        binders = tuple(Var("i", Idx(dim)) for dim in table.type.dims)
        loop = s.inner(*binders)
        self.emit(loop, index_(table, binders, Bounds.PROVED))
        self.statements(loop, 3)
        self.emit(s, For(binders, loop.b.block(self.atom(loop, F64))))

    def reduction(self, s: Scope) -> None:
        ref = Var("acc", Ref(self.choose(MONOIDS), F64))
        region, binders = s.inner(ref), self.binders(1)
        loop = region.inner(*binders)
        loop.depth = s.depth + 1
        self.statements(loop)
        self.emit(loop, Accumulate(ref, (), self.atom(loop, F64), Bounds.PROVED))
        results = [self.atom(loop, F64)] if self.flip(3) else []
        tables = self.emit(region, For(binders, loop.b.block(*results)))
        self.emit(s, WithAcc((ref,), region.b.block(*tables)))

    def accumulator(self, s: Scope) -> None:
        """A table that is accumulated into by loops over its own axes, or others."""
        axes = self.binders(self.choose((1, 2)))
        dims = tuple(i.type.set for i in axes if isinstance(i.type, Idx))
        ref = Var("table", Ref(self.choose(MONOIDS), Table(dims, F64)))
        region = s.inner(ref)
        for _ in range(self.choose((1, 1, 2))):
            binders = tuple(Var("j", i.type) for i in axes)
            loop = region.inner(*binders)
            self.statements(loop)
            place = self.choose((binders, binders, binders[::-1]))
            if tuple(i.type for i in place) != tuple(i.type for i in axes):
                place = binders
            self.emit(loop, Accumulate(ref, place, self.atom(loop, F64), Bounds.PROVED))
            self.emit(region, For(binders, loop.b.block()))
        self.emit(s, WithAcc((ref,), region.b.block()))

    def scope_of_many(self, s: Scope) -> None:
        """Accumulators of all shapes, used or not, with results beside."""
        refs = tuple(
            Var("r", Ref(self.choose(MONOIDS), self.held())) for _ in range(self.choose((1, 2)))
        )
        region = s.inner(*refs)
        self.emit(s, WithAcc(refs, self.block(region, [F64] * self.choose((0, 1)))))

    def held(self) -> Scalar | Table:
        return F64 if self.flip() else Table((FinSet(self.choose(self.sizes)),), F64)

    def fold(self, s: Scope) -> None:
        (binder,) = self.binders(1)
        carries = tuple(Var("c", F64) for _ in range(self.choose((1, 2))))
        inits = tuple(self.atom(s, F64) for _ in carries)
        types = [F64] * (len(carries) + self.choose((0, 1)))
        body = self.block(s.inner(binder, *carries), types)
        if self.flip(4):
            body = replace(body, results=(carries[0], *body.results[1:]))
        self.emit(s, Fold(binder, self.flip(), carries, inits, body))

    def overwriting(self, s: Scope, t: Type) -> Block:
        """A block that updates tables, mostly those of type `t`, and gives one of that type."""
        self.statements(s, 3)
        for _ in range(self.choose((0, 1, 2))):
            self.update(s)
            self.statements(s, 1)
        fitting = [v for v in s.values if v.type == t]
        return s.b.block(fitting[-1] if not self.flip(3) else self.choose(fitting))

    def overwriting_fold(self, s: Scope) -> None:
        table = self.table(s)
        if table is None:
            return
        (binder,) = self.binders(1)
        carry = Var("s", table.type)
        body = self.overwriting(s.inner(binder, carry), table.type)
        self.emit(s, Fold(binder, self.flip(), (carry,), (table,), body))

    def overwriting_branch(self, s: Scope) -> None:
        table, pred = self.table(s), self.atom(s, BOOL)
        if table is None:
            return
        sides = [self.overwriting(s.inner(), table.type) for _ in range(2)]
        self.emit(s, Cond(pred, *sides))

    def branch(self, s: Scope) -> None:
        pred, types = self.atom(s, BOOL), [F64] * self.draw(st.integers(0, 2))
        self.emit(s, Cond(pred, self.block(s.inner(), types), self.block(s.inner(), types)))

    def while_loop(self, s: Scope) -> None:
        """Three steps at most."""
        count, value = Var("count", I64), Var("value", F64)
        test = s.inner(count, value)
        going = self.emit(test, p_(p.LT, count, int_lit(3)))[0]
        body = s.inner(count, value)
        self.statements(body, 2)
        following = self.emit(body, p_(p.ADD, count, int_lit(1)))[0]
        result = self.atom(body, F64)
        inits = (int_lit(0), self.atom(s, F64))
        loop = While((count, value), inits, test.b.block(going), body.b.block(following, result))
        self.emit(s, loop)


def p_(op: p.Primitive, *args: Atom) -> Expr:
    """A primitive applied."""
    from_prim = Builder()
    from_prim.prim(op, *args)
    return from_prim.bindings[0].expr


def index_(table: Var, indices: tuple[Atom, ...], bounds: Bounds) -> Expr:
    """An access."""
    b = Builder()
    b.index(table, *indices, bounds=bounds)
    return b.bindings[0].expr


@st.composite
def programs(draw: Draw[Any], budget: int = 30) -> tuple[Program, list[Any]]:
    """A program and arguments for it."""
    n, m = Var("n", I64), Var("m", I64)
    rows, columns = FinSet(n, "rows"), FinSet(m, "columns")
    params = (
        Var("x", Table((rows, columns), F64)),
        Var("y", Table((rows,), F64)),
        Var("where", Table((columns,), I64)),
        Var("c", F64),
        Var("k", I64),
    )
    generator = Generator(draw, (n, m, n, m, int_lit(2)), budget)
    scope = Scope(Builder(), list(params))
    while generator.budget > 0:
        generator.statements(scope)
    results = [v for v in scope.values[len(params) :] if not isinstance(v.type, Ref)]
    wanted = [v for v in results if draw(st.integers(0, 3)) == 0] + results[-1:]
    sizes = (SizeParam(n, 0, 0), SizeParam(m, 0, 1))
    program = Program("random", sizes, params, (), scope.b.block(*wanted))
    check_program(program, "the strategy")
    lengths = st.sampled_from((3, 2, 1, 3, 2, 0))
    shape = draw(lengths), draw(lengths)
    rng = np.random.default_rng(draw(st.integers(0, 3)))
    args = [
        rng.integers(-8, 9, shape) / 4,
        rng.integers(-8, 9, shape[0]) / 4,
        rng.integers(0, 2, shape[1]),
        rng.integers(-8, 9) / 4,
        rng.integers(0, 2),
    ]
    return program, args
