"""Sibling loops meet and become one; what stands between them keeps its place, or them apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from programs import Sketch, num, reduce
from sketches import add_to, block, check_positive, dim, loop, ref, with_acc

from peffects.errors import ValueRangeError
from peffects.ir import primitives as p
from peffects.ir.builder import Builder
from peffects.ir.evaluate import evaluate
from peffects.ir.print import print_program
from peffects.ir.syntax import BOOL, I64, Atom, Bounds, Cond, FinSet, Idx, Program, Var
from peffects.optimize.fuse_loops import fuse_loops
from peffects.optimize.passes import run

Golden = Callable[..., None]


def fused(program: Program) -> Program:
    return run("fuse_loops", fuse_loops, program)


def loops(program: Program) -> int:
    return print_program(program).count("for ")


def doubled(b: Builder, x: Atom) -> list[Atom]:
    return [b.prim(p.MUL, x, num(2.0))]


def test_maps_reductions_and_scatters_fuse(golden: Golden) -> None:
    """Also when the second reads what the first tabulates at the same index."""
    s = Sketch("siblings")
    a = s.table("a", "n", "m")
    rows, total = ref("rows", dim(s, "m")), ref("total")
    first, second, third, j = *(s.index("i", "n") for _ in range(3)), s.index("j", "m")
    weights = s.table("weights", "n")
    doubles, views = loop(
        s.b, [first], lambda b: [*doubled(b, b.index(weights, first)), b.index(a, first)]
    )

    def reads(b: Builder) -> list[Atom]:
        x = b.index(doubles, second)
        return list(add_to(b, total, (), x, b.prim(p.SIN, x)))

    sines, sums = with_acc(s.b, [total], lambda b: loop(b, [second], reads))

    def scatter(b: Builder) -> list[Atom]:
        loop(b, [j], lambda q: add_to(q, rows, (j,), q.index(views, third, j)))
        return []

    (columns,) = with_acc(s.b, [rows], lambda b: loop(b, [third], scatter))
    golden(print_program(fused(s.done(doubles, sines, sums, columns))))


def test_what_can_move_moves_out_from_between(golden: Golden) -> None:
    """Before the loops if the second needs it, else behind; no scope is longer than it must be."""
    s = Sketch("between")
    a, x = s.table("a", "n"), s.scalar("x")
    i, j = s.index("i", "n"), s.index("j", "n")
    one, two = ref("one"), ref("two")

    def first(b: Builder) -> list[Atom]:
        before = b.prim(p.SIN, x)
        loop(b, [i], lambda q: add_to(q, one, (), q.index(a, i)))
        return [b.prim(p.COS, before)]

    cosine, total = with_acc(s.b, [one], first)
    behind = s.b.prim(p.LOG, total)
    needed = s.b.prim(p.EXP, cosine)

    def second(b: Builder) -> list[Atom]:
        y = b.prim(p.MUL, b.index(a, j), needed)
        return list(add_to(b, two, (), y))

    (other,) = with_acc(s.b, [two], lambda b: loop(b, [j], second))
    golden(print_program(fused(s.done(behind, other))))


def test_loop_that_needs_the_other_ones_sum_stays_behind() -> None:
    s = Sketch("normalized")
    a = s.table("a", "n")
    i, j = s.index("i", "n"), s.index("j", "n")
    total = reduce(s.b, [i], lambda b: b.index(a, i))
    program = s.done(*loop(s.b, [j], lambda b: [b.prim(p.DIV, b.index(a, j), total)]))
    assert fused(program) is program


@pytest.mark.parametrize("use", ["another index", "a view", "whole", "computed between"])
def test_loop_that_needs_more_than_its_own_element_stays_behind(use: str) -> None:
    s = Sketch("more")
    a, c = s.table("a", "n"), s.scalar("c", BOOL)
    i, j, k, l2, i2 = (s.index(name, "n") for name in "ijkli")
    (t,) = loop(s.b, [i, k], lambda b: [b.prim(p.ADD, b.index(a, i), b.index(a, k))])
    between = reduce(s.b, [i2], lambda b: b.index(t, i2, i2))

    def body(b: Builder) -> list[Atom]:
        if use == "another index":
            return [b.index(t, l2, j)]
        if use == "a view":
            return [b.index(b.index(t, j), l2)]
        if use == "whole":
            sides = [block(b, lambda q: [t]), block(b, lambda q: [t])]
            return list(b.emit(Cond(c, *sides)))
        return [between]

    program = s.done(*loop(s.b, [j, l2], body))
    assert fused(program) is program


def test_different_sets_do_not_fuse() -> None:
    s = Sketch("sets")
    s.table("a", "n", "m")
    tables = [loop(s.b, [s.index("i", axis)], lambda b: [num(1.0)])[0] for axis in "nm"]
    program = s.done(*tables)
    assert fused(program) is program


def guarded(first: bool, second: bool) -> Program:
    """Two loops; each checks, or not, that its table is positive."""
    s = Sketch("guarded")
    tables = [s.table("a", "n"), s.table("b", "n")]
    made: list[Var] = []
    for table, is_checked in zip(tables, (first, second), strict=True):
        i = s.index("i", "n")

        def body(b: Builder, t: Var = table, i: Var = i, check: bool = is_checked) -> list[Atom]:
            x = b.index(t, i)
            if check:
                check_positive(b, x)
            return doubled(b, x)

        made += loop(s.b, [i], body)
    return s.done(*made)


@pytest.mark.parametrize("checks", [(True, False), (False, True)])
def test_loop_that_may_fail_fuses_with_one_that_may_not(checks: tuple[bool, bool]) -> None:
    assert loops(fused(guarded(*checks))) == 1


def test_two_loops_that_may_fail_keep_their_order() -> None:
    program = guarded(True, True)
    assert fused(program) is program


def test_untested_read_stays_behind_the_test_before_it() -> None:
    s = Sketch("trust")
    a, k = s.table("a", "n"), s.scalar("k", I64)
    i, j = s.index("i", "n"), s.index("j", "n")
    loop(s.b, [i], lambda b: doubled(b, b.index(a, i)))
    tested = s.b.index(a, k, bounds=Bounds.CHECKED)
    program = s.done(tested, *loop(s.b, [j], lambda b: [b.index(a, k, bounds=Bounds.UNCHECKED)]))
    text = print_program(fused(program))
    assert text.count("for ") == 1
    assert text.index("a[k]?") < text.index("a[k]!")


def test_scopes_nest_where_a_final_value_is_needed_in_another(golden: Golden) -> None:
    """`late` gets the sum that `early` ends with, and the rest from the loop that both share."""
    s = Sketch("overlap")
    a, b_ = s.table("a", "n"), s.table("b", "n")
    i, j = s.index("i", "n"), s.index("j", "n")
    early, late = ref("early"), ref("late")

    def body(b: Builder) -> list[Atom]:
        def inner(q: Builder) -> list[Atom]:
            loop(q, [i], lambda r: add_to(r, early, (), r.index(a, i)))
            loop(q, [j], lambda r: add_to(r, late, (), r.index(b_, j)))
            return list(add_to(q, early, (), num(1.0)))

        (total,) = with_acc(b, [early], inner)
        return list(add_to(b, late, (), total))

    program = s.done(*with_acc(s.b, [late], body))
    after = fused(program)
    golden(print_program(after))
    args = [np.arange(3.0), np.arange(3.0)]
    assert evaluate(after, args) == evaluate(program, args)


def test_value_made_in_a_scope_and_used_behind_it_is_a_result(golden: Golden) -> None:
    s = Sketch("export")
    a = s.table("a", "n")
    i, j, k = (s.index(name, "n") for name in "ijk")
    acc = ref("acc")

    def body(b: Builder) -> list[Atom]:
        def first(q: Builder) -> list[Atom]:
            x = q.index(a, i)
            return list(add_to(q, acc, (), x, *doubled(q, x)))

        (doubles,) = loop(b, [i], first)
        most = reduce(b, [j], lambda q: q.index(doubles, j))
        b.accumulate(acc, (), most)
        return [doubles, b.prim(p.NEG, most)]

    doubles, most, total = with_acc(s.b, [acc], body)
    (last,) = loop(s.b, [k], lambda b: [b.prim(p.ADD, b.index(doubles, k), most)])
    golden(print_program(fused(s.done(last, total))))


def test_size_that_would_leave_its_scope_keeps_the_block_as_it_is() -> None:
    """The size of the exported table is a value of the fused loop, so both scopes would need it."""
    s = Sketch("size")
    a = s.table("a", "n", elem=I64)
    i, j, at = s.index("i", "n"), s.index("j", "n"), s.scalar("at", I64)
    one, two = ref("one"), ref("two")

    def first(b: Builder) -> list[Atom]:
        x = b.index(a, i)
        return list(add_to(b, one, (), num(1.0), x))

    sizes, total = with_acc(s.b, [one], lambda b: loop(b, [i], first))
    size = s.b.index(sizes, at, bounds=Bounds.CHECKED)
    k = Var("k", Idx(FinSet(size)))
    (table,) = loop(s.b, [k], lambda b: [num(1.0)])

    def second(b: Builder) -> list[Atom]:
        loop(b, [j], lambda q: add_to(q, two, (), num(1.0)))
        return list(add_to(b, two, (), b.index(table, at, bounds=Bounds.CHECKED)))

    (other,) = with_acc(s.b, [two], second)
    last = s.b.index(table, at, bounds=Bounds.CHECKED)
    program = s.done(total, other, last)
    assert fused(program) is program


def test_order_of_failures_is_kept() -> None:
    program = guarded(True, True)
    with pytest.raises(ValueRangeError):
        evaluate(fused(program), [[1.0, -1.0], [-1.0, 1.0]])


def test_inner_loops_meet_when_outer_ones_fuse(golden: Golden) -> None:
    s = Sketch("nested")
    a = s.table("a", "n", "m")

    def sums(op: p.Primitive) -> Atom:
        i, j = s.index("i", "n"), s.index("j", "m")
        return reduce(
            s.b, [i],
            lambda b: reduce(b, [j], lambda q: q.prim(op, q.index(a, i, j))),
        )  # fmt: skip

    golden(print_program(fused(s.done(sums(p.SIN), sums(p.COS)))))
