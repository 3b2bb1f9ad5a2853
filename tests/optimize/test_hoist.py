"""What does not depend on a loop leaves it, unless it might go wrong where it did not run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from programs import Sketch, num, reduce
from sketches import add_to, block, loop, ref, with_acc

from peffects.errors import ValueRangeError
from peffects.ir import primitives as p
from peffects.ir.builder import Builder, bool_lit, int_lit
from peffects.ir.evaluate import evaluate
from peffects.ir.print import print_program
from peffects.ir.syntax import (
    BOOL,
    F64,
    I64,
    Atom,
    Bounds,
    Check,
    Cond,
    FinSet,
    Fold,
    Lit,
    Program,
    Table,
    Var,
    While,
)
from peffects.optimize.hoist import hoist
from peffects.optimize.passes import run

Golden = Callable[..., None]


def hoisted(program: Program) -> Program:
    return run("hoist", hoist, program)


def test_scalars_reductions_and_tables_go_as_far_out_as_they_can(golden: Golden) -> None:
    """Out of loops of all kinds and the scopes of accumulators inside them."""
    s = Sketch("far")
    a, x = s.table("a", "n", "m"), s.scalar("x")
    i, j, c, w = s.index("i", "n"), s.index("j", "m"), Var("c", F64), Var("w", F64)
    acc = ref("acc")

    def row(b: Builder, j: Var) -> Atom:
        return reduce(b, [j], lambda q: q.prim(p.MUL, q.index(a, i, j), q.prim(p.SIN, x)))

    def step(b: Builder) -> list[Atom]:
        k, k2 = s.index("k", "m"), s.index("k", "m")
        (squares,) = loop(b, [k], lambda q: [q.prim(p.MUL, q.index(a, i, k), q.index(a, i, k))])
        until = block(b, lambda q: [q.prim(p.LT, w, q.prim(p.COS, x))])
        following = block(b, lambda q: [q.prim(p.ADD, w, q.index(squares, j))])
        (most,) = b.emit(While((w,), (c,), until, following))
        return [b.prim(p.ADD, most, row(b, k2))]

    def body(b: Builder) -> list[Atom]:
        (last,) = b.emit(Fold(j, False, (c,), (num(0.0),), block(b, step)))
        return list(add_to(b, acc, (), last))

    golden(print_program(hoisted(s.done(*with_acc(s.b, [acc], lambda b: loop(b, [i], body))))))


def test_nothing_leaves_a_branch(golden: Golden) -> None:
    """But a branch as a whole moves, and loops inside a branch are left for the branch."""
    s = Sketch("branch")
    x, c = s.scalar("x"), s.scalar("c", BOOL)
    s.table("a", "n")
    i, j = s.index("i", "n"), s.index("j", "n")

    def costly(b: Builder) -> list[Atom]:
        return [reduce(b, [j], lambda q: q.prim(p.EXP, x))]

    def body(b: Builder) -> list[Atom]:
        sides = block(b, costly), block(b, lambda q: [num(0.0)])
        return list(b.emit(Cond(c, *sides)))

    golden(print_program(hoisted(s.done(*loop(s.b, [i], body)))))


def checked_read(b: Builder, a: Var, k: Var) -> Atom:
    return b.index(a, k, bounds=Bounds.CHECKED)


def unchecked_read(b: Builder, a: Var, k: Var) -> Atom:
    return b.index(a, k, bounds=Bounds.UNCHECKED)


def read_proved_by_its_place(b: Builder, a: Var, k: Var) -> Atom:
    return b.index(a, int_lit(0))


def check(b: Builder, a: Var, k: Var) -> Atom:
    b.emit(Check(bool_lit(False), ValueRangeError, "never", ()))
    return num(1.0)


def division(b: Builder, a: Var, k: Var) -> Atom:
    return b.prim(p.CAST[F64], b.prim(p.FLOORDIV, int_lit(1), k))


def power(b: Builder, a: Var, k: Var) -> Atom:
    return b.prim(p.CAST[F64], b.prim(p.POW, int_lit(2), k))


def endless_loop(b: Builder, a: Var, k: Var) -> Atom:
    w = Var("w", I64)
    going = block(b, lambda q: [q.prim(p.LT, w, k)])
    return b.prim(p.CAST[F64], b.emit(While((w,), (k,), going, block(b, lambda q: [w])))[0])


@pytest.mark.parametrize(
    "expression",
    [checked_read, unchecked_read, read_proved_by_its_place, check, division, power, endless_loop],
)
def test_what_may_go_wrong_stays_in_its_loop(
    expression: Callable[[Builder, Var, Var], Atom],
) -> None:
    s = Sketch("wrong")
    a, k = s.table("a", "n"), s.scalar("k", I64)
    s.table("b", "m")
    i = s.index("i", "m")
    loop(s.b, [i], lambda b: [expression(b, a, k)])
    program = s.done(num(0.0))
    after = hoisted(program)
    assert len(after.body.bindings) == 1
    assert evaluate(after, [[], -1, []]) == (0.0,)


def test_division_by_a_literal_and_a_literal_place_leave_the_loop() -> None:
    s = Sketch("literal")
    t = Var("t", Table((FinSet(Lit(2, I64)),), F64))
    s.params.append(t)
    k = s.scalar("k", I64)
    s.table("b", "m")

    def body(b: Builder) -> list[Atom]:
        return [b.index(t, int_lit(1)), b.prim(p.MOD, k, int_lit(3))]

    after = hoisted(s.done(*loop(s.b, [s.index("i", "m")], body)))
    assert len(after.body.bindings) == 3


def test_accumulation_stays_in_its_loop() -> None:
    s = Sketch("count")
    s.table("a", "n")
    acc, i = ref("acc"), s.index("i", "n")
    program = s.done(
        *with_acc(s.b, [acc], lambda b: loop(b, [i], lambda q: add_to(q, acc, (), num(1.0))))
    )
    assert hoisted(program) is program
