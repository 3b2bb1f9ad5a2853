"""Tables that are read element by element vanish, if no work is repeated."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from programs import Sketch, num, reduce
from sketches import block, check_positive, loop

from peffects.ir import primitives as p
from peffects.ir.builder import Builder
from peffects.ir.evaluate import Work, evaluate
from peffects.ir.print import print_program
from peffects.ir.syntax import BOOL, F64, I64, Atom, Bounds, Cond, Fold, Program, Var
from peffects.optimize.dead_code import dead_code
from peffects.optimize.inline_tables import inline_tables
from peffects.optimize.passes import run

Golden = Callable[..., None]
ARGS = [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], True, 1]


def inlined(program: Program) -> Program:
    return run("dead_code", dead_code, run("inline_tables", inline_tables, program))


class Case:
    """`t = for i. exp(a[i, 0-th])`, which the tests read in several ways."""

    def __init__(self, cost: p.Primitive = p.EXP) -> None:
        self.s = s = Sketch("case")
        self.a = s.table("a", "n", "m")
        self.c, self.k = s.scalar("c", BOOL), s.scalar("k", I64)
        self.i = s.index("i", "n")
        i, j = s.index("i", "n"), s.index("j", "m")

        def element(b: Builder) -> list[Atom]:
            return [b.prim(cost, reduce(b, [j], lambda q: q.index(self.a, i, j)))]

        (self.t,) = loop(s.b, [i], element)


def once(o: Case) -> Atom:
    return loop(o.s.b, [o.i], lambda b: [b.prim(p.SIN, b.index(o.t, o.i))])[0]


def in_branch(o: Case) -> Atom:
    def body(b: Builder) -> list[Atom]:
        then = block(b, lambda q: [q.index(o.t, o.i)])
        return list(b.emit(Cond(o.c, then, block(b, lambda q: [num(0.0)]))))

    return loop(o.s.b, [o.i], body)[0]


def in_both_loops(o: Case) -> Atom:
    j = o.s.index("j", "m")
    return loop(o.s.b, [o.i, j], lambda b: [b.index(o.t, o.i)])[0]


def in_inner_loop(o: Case) -> Atom:
    def body(b: Builder) -> list[Atom]:
        j = o.s.index("j", "m")
        return [reduce(b, [j], lambda q: q.prim(p.MUL, q.index(o.t, o.i), q.index(o.a, o.i, j)))]

    return loop(o.s.b, [o.i], body)[0]


def twice(o: Case) -> Atom:
    def body(b: Builder) -> list[Atom]:
        return [b.prim(p.ADD, b.index(o.t, o.i), b.index(o.t, o.i))]

    return loop(o.s.b, [o.i], body)[0]


def behind_a_test(o: Case) -> Atom:
    return o.s.b.index(o.t, o.k, bounds=Bounds.CHECKED)


def sequentially(o: Case) -> Atom:
    c = Var("c", F64)
    body = block(o.s.b, lambda b: [b.prim(p.ADD, c, b.index(o.t, o.i))])
    return o.s.b.emit(Fold(o.i, False, (c,), (num(0.0),), body))[0]


def as_result(o: Case) -> Atom:
    once(o)
    return o.t


READS: list[tuple[Callable[[Case], Atom], bool]] = [
    (once, True), (in_branch, True), (in_both_loops, False), (in_inner_loop, False),
    (twice, False), (behind_a_test, False), (sequentially, False), (as_result, False),
]  # fmt: skip


@pytest.mark.parametrize(("read", "expected"), READS, ids=lambda x: getattr(x, "__name__", None))
def test_costly_table_is_inlined_if_no_work_repeats(
    read: Callable[[Case], Atom], expected: bool
) -> None:
    case = Case()
    program = case.s.done(read(case))
    after = inlined(program)
    assert any(case.t in binding.vars for binding in after.body.bindings) != expected
    before_work, after_work = Work(), Work()
    (wanted,) = evaluate(program, ARGS, work=before_work)
    (found,) = evaluate(after, ARGS, work=after_work)
    np.testing.assert_array_equal(found, wanted)
    assert after_work.operations <= before_work.operations
    assert after_work.accesses <= before_work.accesses


def test_producer_becomes_part_of_its_consumer(golden: Golden) -> None:
    case = Case()
    golden(print_program(inlined(case.s.done(once(case)))))


def test_copies_and_fetches_are_read_through(golden: Golden) -> None:
    """However often; rows of a copy are rows of what was copied."""
    s = Sketch("copies")
    a = s.table("a", "n", "m")
    i, j, k = s.index("i", "n"), s.index("j", "m"), s.index("k", "n")
    (turned,) = loop(s.b, [j, i], lambda b: [b.index(a, i, j)])
    (rows,) = loop(s.b, [k], lambda b: [b.index(a, k)])
    i2, j2 = s.index("i", "n"), s.index("j", "m")

    def body(b: Builder) -> list[Atom]:
        product = b.prim(p.MUL, b.index(turned, j2, i2), b.index(turned, j2, i2))
        return [b.prim(p.ADD, product, b.index(rows, i2, j2))]

    golden(print_program(inlined(s.done(*loop(s.b, [i2, j2], body)))))


@pytest.mark.parametrize(("op", "reads", "expected"), [
    (p.NEG, 2, True), (p.NEG, 3, False), (p.SIN, 2, False), (p.SIN, 1, True),
])  # fmt: skip
def test_little_arithmetic_is_done_twice(op: p.Primitive, reads: int, expected: bool) -> None:
    s = Sketch("little")
    a = s.table("a", "n")
    i, i2 = s.index("i", "n"), s.index("i", "n")
    (t,) = loop(s.b, [i], lambda b: [b.prim(op, b.index(a, i))])

    def body(b: Builder) -> list[Atom]:
        total: Atom = num(1.0)
        for _ in range(reads):
            total = b.prim(p.MUL, total, b.index(t, i2))
        return [total]

    program = s.done(*loop(s.b, [i2], body))
    assert (run("inline_tables", inline_tables, program) is not program) == expected


def test_loop_that_may_fail_stays_where_it_fails() -> None:
    s = Sketch("fails")
    a = s.table("a", "n")
    i, i2 = s.index("i", "n"), s.index("i", "n")

    def producer(b: Builder) -> list[Atom]:
        x = b.index(a, i)
        check_positive(b, x)
        return [x]

    (t,) = loop(s.b, [i], producer)
    program = s.done(*loop(s.b, [i2], lambda b: [b.index(t, i2)]))
    assert run("inline_tables", inline_tables, program) is program


def test_sequential_reader_inside_a_parallel_loop_computes_for_itself() -> None:
    s = Sketch("nested")
    a = s.table("a", "n", "m")
    i, j, step, c = s.index("i", "n"), s.index("j", "m"), s.index("j", "m"), Var("c", F64)

    def body(b: Builder) -> list[Atom]:
        (t,) = loop(b, [j], lambda q: [q.prim(p.EXP, q.index(a, i, j))])
        following = block(b, lambda q: [q.prim(p.MUL, c, q.index(t, step))])
        return list(b.emit(Fold(step, False, (c,), (num(1.0),), following)))

    program = s.done(*loop(s.b, [i], body))
    assert run("inline_tables", inline_tables, program) is not program
