"""Equal values are computed once, equal tests made once, and only where the first is in scope."""

from __future__ import annotations

from collections.abc import Callable

from programs import Sketch, num, reduce
from sketches import add_to, block, check_positive, dim, loop, ref, with_acc

from peffects.ir import primitives as p
from peffects.ir.builder import Builder
from peffects.ir.print import print_program
from peffects.ir.syntax import (
    BOOL,
    F64,
    I64,
    Accumulate,
    Atom,
    Block,
    Bounds,
    Cond,
    Fold,
    For,
    Index,
    Monoid,
    Prim,
    Program,
    Var,
    While,
    WithAcc,
)
from peffects.ir.traverse import blocks_of
from peffects.optimize.common_subexpressions import common_subexpressions
from peffects.optimize.dead_code import dead_code
from peffects.optimize.passes import run

Golden = Callable[..., None]


def shared(program: Program) -> Program:
    return run("common_subexpressions", common_subexpressions, program)


def count(program: Program, kind: type, op: p.Primitive | None = None) -> int:
    def visit(block: Block) -> int:
        found = 0
        for binding in block.bindings:
            expr = binding.expr
            found += isinstance(expr, kind) and (not isinstance(expr, Prim) or expr.op is op)
            found += sum(map(visit, blocks_of(expr)))
        return found

    return visit(program.body)


def test_outer_values_serve_inner_blocks_and_not_the_other_way(golden: Golden) -> None:
    s = Sketch("scopes")
    x, c = s.scalar("x"), s.scalar("c", BOOL)
    s.table("a", "n")
    i = s.index("i", "n")
    sine = s.b.prim(p.SIN, x)
    (inner,) = s.b.emit(
        Cond(c, block(s.b, lambda b: [b.prim(p.COS, x)]), block(s.b, lambda b: [b.prim(p.SIN, x)]))
    )
    after = s.b.prim(p.COS, x)
    (table,) = loop(s.b, [i], lambda b: [b.prim(p.ADD, b.prim(p.SIN, x), b.prim(p.COS, x))])
    golden(print_program(shared(s.done(sine, inner, after, table))))


def test_operands_of_commutative_primitives_have_no_order_and_minimum_has() -> None:
    s = Sketch("commutative")
    x, y = s.scalar("x"), s.scalar("y")
    sums = [s.b.prim(p.ADD, x, y), s.b.prim(p.ADD, y, x)]
    least = [s.b.prim(p.MIN, x, y), s.b.prim(p.MIN, y, x)]
    after = shared(s.done(*sums, *least))
    assert count(after, Prim, p.ADD) == 1
    assert count(after, Prim, p.MIN) == 2  # min(0.0, -0.0) may depend on the order


def test_zeros_of_both_signs_are_different() -> None:
    s = Sketch("zeros")
    x = s.scalar("x")
    program = s.done(s.b.prim(p.ADD, x, num(0.0)), s.b.prim(p.ADD, x, num(-0.0)))
    assert shared(program) is program


def test_equal_reductions_are_one_wherever_they_stand(golden: Golden) -> None:
    """One is in a loop that gives a table besides."""
    s = Sketch("reductions")
    a = s.table("a", "n", "m")
    i, i2 = s.index("i", "n"), s.index("i", "n")

    def squares(b: Builder, i: Var) -> Atom:
        j = s.index("j", "m")
        return reduce(b, [j], lambda q: q.prim(p.MUL, q.index(a, i, j), q.index(a, i, j)))

    def both(b: Builder) -> list[Atom]:
        acc, j = ref("acc"), s.index("j", "m")

        def body(q: Builder) -> list[Atom]:
            x = q.index(a, i2, j)
            square = q.prim(p.MUL, x, x)
            q.accumulate(acc, (), square)
            return [square]

        table, total = with_acc(b, [acc], lambda q: loop(q, [j], body))
        again = squares(b, i2)
        return [table, b.prim(p.ADD, total, again)]

    first = loop(s.b, [i], lambda b: [squares(b, i)])
    second = loop(s.b, [i2], both)
    golden(print_program(run("dead_code", dead_code, shared(s.done(*first, *second)))))


def test_folds_and_whiles_are_compared_as_a_whole() -> None:
    s = Sketch("sequential")
    x = s.scalar("x")
    s.table("a", "n")

    def fold(reverse: bool, start: float) -> Var:
        i, c = s.index("i", "n"), Var("c", F64)
        body = block(s.b, lambda b: [b.prim(p.MUL, c, x)])
        return s.b.emit(Fold(i, reverse, (c,), (num(start),), body))[0]

    def loop_until(most: float) -> Var:
        c = Var("c", F64)
        test = block(s.b, lambda b: [b.prim(p.LT, c, num(most))])
        body = block(s.b, lambda b: [b.prim(p.ADD, c, x)])
        return s.b.emit(While((c,), (num(0.0),), test, body))[0]

    results = [fold(False, 1.0), fold(False, 1.0), fold(True, 1.0), fold(False, 2.0)]
    results += [loop_until(1.0), loop_until(1.0), loop_until(2.0)]
    after = shared(s.done(*results))
    assert count(after, Fold) == 3
    assert count(after, While) == 2


def test_accumulators_are_equal_if_their_monoids_and_updates_are() -> None:
    s = Sketch("accumulators")
    a = s.table("a", "n")

    def total(monoid: Monoid, update: Callable[[Builder, Atom], Atom]) -> Var:
        i = s.index("i", "n")
        return reduce(s.b, [i], lambda b: update(b, b.index(a, i)), monoid)

    plain: Callable[[Builder, Atom], Atom] = lambda b, x: x  # noqa: E731
    sine: Callable[[Builder, Atom], Atom] = lambda b, x: b.prim(p.SIN, x)  # noqa: E731
    results = [
        total(monoid, update)
        for update in (plain, sine)
        for monoid in (Monoid.ADD, Monoid.MAX, Monoid.ADD)
    ]
    assert count(shared(s.done(*results)), WithAcc) == 4


def test_updates_are_not_shared() -> None:
    s = Sketch("updates")
    x = s.scalar("x")
    acc = ref("acc")

    def body(b: Builder) -> list[Atom]:
        b.accumulate(acc, (), x)
        return list(add_to(b, acc, (), x))

    program = s.done(*with_acc(s.b, [acc], body))
    assert shared(program) is program


def test_tests_are_made_once(golden: Golden) -> None:
    """Checks, accesses to one table, and to two tables with one index set."""
    s = Sketch("tests")
    a, b, k = s.table("a", "n"), s.table("b", "n"), s.scalar("k", I64)
    acc = ref("acc", dim(s, "n"))
    x = s.b.index(a, k, bounds=Bounds.CHECKED)
    check_positive(s.b, x)
    check_positive(s.b, s.b.index(a, k, bounds=Bounds.CHECKED))
    y = s.b.index(b, k, bounds=Bounds.CHECKED)
    z = s.b.index(a, k, bounds=Bounds.UNCHECKED)

    def body(q: Builder) -> list[Atom]:
        q.emit(Accumulate(acc, (k,), y, Bounds.CHECKED))
        return []

    (total,) = with_acc(s.b, [acc], body)
    golden(print_program(shared(s.done(x, y, z, total))))


def test_test_in_a_branch_or_a_loop_is_none_behind_it() -> None:
    s = Sketch("maybe")
    a, k, c = s.table("a", "n"), s.scalar("k", I64), s.scalar("c", BOOL)
    i = s.index("i", "n")

    def access(b: Builder) -> list[Atom]:
        return [b.index(a, k, bounds=Bounds.CHECKED)]

    branch = s.b.emit(Cond(c, block(s.b, access), block(s.b, lambda b: [num(0.0)])))
    table = loop(s.b, [i], access)
    program = s.done(*branch, *table, *access(s.b))
    assert shared(program) is program


def test_tested_read_is_not_replaced_by_an_untested_one() -> None:
    s = Sketch("untested")
    a, k = s.table("a", "n"), s.scalar("k", I64)
    reads = [s.b.index(a, k, bounds=b) for b in (Bounds.UNCHECKED, Bounds.CHECKED)]
    after = shared(s.done(*reads))
    bounds = [b.expr.bounds for b in after.body.bindings if isinstance(b.expr, Index)]
    assert bounds == [Bounds.UNCHECKED, Bounds.CHECKED]


def test_loop_that_tests_more_is_kept_and_one_that_tests_less_is_not() -> None:
    s = Sketch("loops")
    a, where = s.table("a", "n"), s.table("where", "m", elem=I64)

    def gather(bounds: Bounds) -> Var:
        j = s.index("j", "m")
        return loop(s.b, [j], lambda b: [b.index(a, b.index(where, j), bounds=bounds)])[0]

    kinds = (Bounds.UNCHECKED, Bounds.CHECKED, Bounds.UNCHECKED, Bounds.CHECKED)
    after = shared(s.done(*map(gather, kinds)))
    assert count(after, For) == 2


def test_sizes_tell_loops_apart() -> None:
    s = Sketch("sizes")
    s.table("a", "n", "m")
    tables = [loop(s.b, [s.index("i", axis)], lambda b: [num(1.0)])[0] for axis in "nmn"]
    assert count(shared(s.done(*tables)), For) == 2
