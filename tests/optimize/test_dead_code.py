"""What nothing needs goes; what may fail stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from programs import Sketch, num
from sketches import add_to, block, check_positive, dim, loop, ref, with_acc

from peffects.errors import BoundsError, ValueRangeError
from peffects.ir import primitives as p
from peffects.ir.builder import Builder, int_lit
from peffects.ir.evaluate import evaluate
from peffects.ir.print import print_program
from peffects.ir.syntax import (
    BOOL,
    F64,
    I64,
    Accumulate,
    Atom,
    Bounds,
    Cond,
    Fold,
    Program,
    Var,
    While,
)
from peffects.optimize.dead_code import dead_code
from peffects.optimize.passes import run

Golden = Callable[..., None]


def pruned(program: Program) -> str:
    return print_program(run("dead_code", dead_code, program))


def test_nothing_to_do_gives_the_same_program() -> None:
    s = Sketch("plain")
    x = s.scalar("x")
    program = s.done(s.b.prim(p.ADD, x, num(1.0)))
    assert run("dead_code", dead_code, program) is program


def test_unused_results_of_loops_and_branches_disappear(golden: Golden) -> None:
    s = Sketch("results")
    a, c = s.table("a", "n"), s.scalar("c", BOOL)
    i = s.index("i", "n")

    def body(b: Builder) -> list[Atom]:
        x = b.index(a, i)
        return [b.prim(p.SIN, x), b.prim(p.COS, x)]

    _, cosines = loop(s.b, [i], body)

    def side(b: Builder) -> list[Atom]:
        return [b.prim(p.EXP, num(2.0)), b.prim(p.LOG, num(2.0))]

    _, log = s.b.emit(Cond(c, block(s.b, side), block(s.b, side)))
    golden(pruned(s.done(cosines, log)))


def test_carries_stay_if_a_needed_carry_needs_them(golden: Golden) -> None:
    """`first` needs `second`, which needs `third`; nothing needs `fourth` or the output."""
    s = Sketch("carries")
    a = s.table("a", "n")
    i = s.index("i", "n")
    names = ("first", "second", "third", "fourth")
    first, second, third, fourth = carries = tuple(Var(name, F64) for name in names)

    def body(b: Builder) -> list[Atom]:
        x = b.index(a, i)
        steps = [b.prim(p.ADD, first, second), b.prim(p.MUL, second, third), b.prim(p.SIN, third)]
        return [*steps, b.prim(p.MUL, fourth, x), b.prim(p.NEG, x)]

    fold = Fold(i, False, carries, (num(1.0),) * 4, block(s.b, body))
    golden(pruned(s.done(s.b.emit(fold)[0])))


def test_while_keeps_what_its_test_needs(golden: Golden) -> None:
    s = Sketch("while")
    count, value, idle = Var("count", I64), Var("value", F64), Var("idle", F64)
    test = block(s.b, lambda b: [b.prim(p.LT, count, int_lit(3))])
    step = block(
        s.b,
        lambda b: [
            b.prim(p.ADD, count, int_lit(1)), b.prim(p.SIN, value), b.prim(p.COS, idle)
        ],
    )  # fmt: skip
    inits = (int_lit(0), num(1.0), num(1.0))
    found = s.b.emit(While((count, value, idle), inits, test, step))
    s.b.emit(While((count2 := Var("count", I64),), (int_lit(0),),
        block(s.b, lambda b: [b.prim(p.LT, count2, int_lit(3))]),
        block(s.b, lambda b: [b.prim(p.ADD, count2, int_lit(1))])))  # fmt: skip
    golden(pruned(s.done(found[1])))


def test_accumulators_that_nobody_reads_disappear_with_their_updates(golden: Golden) -> None:
    s = Sketch("accumulators")
    a = s.table("a", "n")
    i = s.index("i", "n")
    read, unread = ref("read"), ref("unread", dim(s, "n"))

    def body(b: Builder) -> list[Atom]:
        x = b.index(a, i)
        b.accumulate(unread, [i], b.prim(p.EXP, x))
        return list(add_to(b, read, (), x))

    total, _ = with_acc(s.b, [read, unread], lambda b: loop(b, [i], body))
    golden(pruned(s.done(total)))


def test_update_that_may_fail_stays_with_its_accumulator() -> None:
    s = Sketch("checked")
    s.table("a", "n")
    k, unread = s.scalar("k", I64), ref("unread", dim(s, "n"))

    def body(b: Builder) -> list[Atom]:
        b.emit(Accumulate(unread, (k,), num(1.0), Bounds.CHECKED))
        return []

    with_acc(s.b, [unread], body)
    program = run("dead_code", dead_code, s.done(num(0.0)))
    assert evaluate(program, [[1.0, 2.0], 1]) == (0.0,)
    with pytest.raises(BoundsError):
        evaluate(program, [[1.0, 2.0], 2])


def test_checks_and_checked_reads_stay(golden: Golden) -> None:
    s = Sketch("failures")
    a, k = s.table("a", "n"), s.scalar("k", I64)
    i = s.index("i", "n")

    def body(b: Builder) -> list[Atom]:
        check_positive(b, b.index(a, i))
        return [b.prim(p.SIN, b.index(a, i))]

    loop(s.b, [i], body)
    s.b.index(a, k, bounds=Bounds.CHECKED)
    s.b.index(a, k, bounds=Bounds.UNCHECKED)
    program = s.done(num(0.0))
    golden(pruned(program))
    with pytest.raises(ValueRangeError):
        evaluate(run("dead_code", dead_code, program), [[1.0, -2.0], 0])
