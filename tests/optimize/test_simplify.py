"""Identities are exact, bit for bit; branches, carries, repeats, views and scopes simplify."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from programs import Sketch, num
from sketches import add_to, block, loop, ref, with_acc

from peffects.errors import InternalError, ValueRangeError
from peffects.ir import primitives as p
from peffects.ir.builder import Builder, bool_lit, int_lit, lit_like
from peffects.ir.evaluate import evaluate
from peffects.ir.print import print_program
from peffects.ir.syntax import (
    BOOL,
    F64,
    I64,
    Atom,
    Block,
    Bounds,
    Check,
    Cond,
    FinSet,
    Fold,
    Idx,
    Program,
    Scalar,
    Table,
    Var,
    While,
)
from peffects.optimize.algebra import simplify_rules
from peffects.optimize.passes import run
from peffects.optimize.simplify import simplify

Golden = Callable[..., None]

VALUES: dict[Scalar, tuple[float, ...]] = {
    F64: (0.0, -0.0, 1.0, -1.0, 2.0, -2.5, math.inf, -math.inf, math.nan, 5e-324),
    I64: (0, 1, -1, 2, 3, -7, 2**63 - 1, -(2**63)),
    BOOL: (False, True),
}
LITERALS: dict[Scalar, tuple[float, ...]] = {
    F64: (0.0, -0.0, 1.0, -1.0, 2.0, math.nan),
    I64: (0, 1, -1, 2),
    BOOL: (False, True),
}


def operand_types(op: p.Primitive) -> Iterator[tuple[Scalar, ...]]:
    for t in (F64, I64, BOOL):
        for types in ((t,) * op.arity, (BOOL, *(t,) * (op.arity - 1))):
            with contextlib.suppress(InternalError):
                op.result_type(types)
                yield types


def applications(op: p.Primitive, types: tuple[Scalar, ...]) -> Iterator[Program]:
    """`op` on parameters, equal parameters, literals, negations and products in all positions."""
    forms: list[tuple[object, ...]] = [
        ("x", "neg x", *LITERALS[t], *(("y", "scaled x", "abs x") if op.arity < 3 else ()))
        for t in types
    ]
    for chosen in itertools.product(*forms):
        s = Sketch("identity")
        yield s.done(s.b.prim(op, *(operand(s, f, t) for f, t in zip(chosen, types, strict=True))))


def operand(s: Sketch, form: object, t: Scalar) -> Atom:
    if not isinstance(form, str):
        assert isinstance(form, float | int)
        return lit_like(form, t)
    declared = {(v.name, v.type): v for v in s.params}
    name = form[-1]
    x = declared.get((name, t)) or s.scalar(name, t)
    match form:
        case "neg x":
            return s.b.prim(p.NOT if t == BOOL else p.NEG, x)
        case "abs x" if t != BOOL:
            return s.b.prim(p.ABS, x)
        case "scaled x" if t != BOOL:
            return s.b.prim(p.MUL, x, lit_like(2, t))
        case _:
            return x


def bits(value: np.generic) -> object:
    return "nan" if value != value else value.tobytes()


@pytest.mark.parametrize("op", [op for op in simplify_rules.covered() if op is not p.ORDINAL])
def test_identities_are_exact(op: p.Primitive) -> None:
    for types in operand_types(op):
        for program in applications(op, types):
            after = run("simplify", simplify, program)
            if after is program:
                continue
            columns = [VALUES[v.type] for v in program.params if isinstance(v.type, Scalar)]
            for args in itertools.product(*columns):
                (expected,) = evaluate(program, args)
                (found,) = evaluate(after, args)
                assert bits(found) == bits(expected), (print_program(program), args)


def simplified(program: Program) -> str:
    return print_program(run("simplify", simplify, program))


def test_constants_fold_through_the_primitives_own_evaluation() -> None:
    s = Sketch("constants")
    total = s.b.prim(p.ADD, num(1.5), s.b.prim(p.MUL, num(2.0), num(4.0)))
    program = run("simplify", simplify, s.done(total))
    assert program.body == Block((), (num(9.5),))


def test_integer_power_without_a_value_does_not_fold() -> None:
    s = Sketch("power")
    program = s.done(s.b.prim(p.POW, int_lit(2), int_lit(-1)))
    assert run("simplify", simplify, program) is program


def test_nothing_to_do_gives_the_same_program() -> None:
    s = Sketch("plain")
    x = s.scalar("x")
    program = s.done(s.b.prim(p.ADD, x, num(1.0)))
    assert run("simplify", simplify, program) is program


def test_sum_forgets_what_only_changes_the_sign_of_zero(golden: Golden) -> None:
    s = Sketch("update")
    x = s.scalar("x")
    acc = ref("acc")
    (total,) = with_acc(s.b, [acc], lambda b: add_to(b, acc, (), b.prim(p.ADD, x, num(0.0))))
    golden(simplified(s.done(total)))


@pytest.mark.parametrize("known", [True, False])
def test_known_branch_takes_the_place_of_the_branch(known: bool) -> None:
    s = Sketch("known")
    x = s.scalar("x")
    then, orelse = block(s.b, lambda b: [b.prim(p.SIN, x)]), block(s.b, lambda b: [num(0.0)])
    program = run("simplify", simplify, s.done(*s.b.emit(Cond(bool_lit(known), then, orelse))))
    assert evaluate(program, [0.5])[0] == (math.sin(0.5) if known else 0.0)
    assert not any(isinstance(b.expr, Cond) for b in program.body.bindings)


def test_branches_simplify(golden: Golden) -> None:
    """A negated condition, equal results, and sides that compute nothing."""
    s = Sketch("branches")
    x, y, c = s.scalar("x"), s.scalar("y"), s.scalar("c", BOOL)
    no = s.b.prim(p.NOT, c)
    sine = block(s.b, lambda b: [b.prim(p.SIN, x), y])
    cosine = block(s.b, lambda b: [b.prim(p.COS, x), y])
    one = s.b.emit(Cond(no, sine, cosine))
    two = s.b.emit(Cond(no, Block((), (x,)), Block((), (y,))))
    golden(simplified(s.done(*one, *two)))


def test_carries_that_never_change_are_what_they_were(golden: Golden) -> None:
    s = Sketch("carries")
    x = s.scalar("x")
    s.table("a", "n")
    i = s.index("i", "n")
    idle, moving = Var("idle", F64), Var("moving", F64)
    body = block(s.b, lambda b: [idle, b.prim(p.MUL, moving, idle)])
    fold = s.b.emit(Fold(i, False, (idle, moving), (x, num(1.0)), body))
    w_idle, count = Var("w_idle", F64), Var("count", F64)
    test = block(s.b, lambda b: [b.prim(p.LT, count, w_idle)])
    step = block(s.b, lambda b: [w_idle, b.prim(p.ADD, count, num(1.0))])
    loop_ = s.b.emit(While((w_idle, count), (x, num(0.0)), test, step))
    golden(simplified(s.done(*fold, *loop_)))


def test_result_given_twice_is_one_table(golden: Golden) -> None:
    s = Sketch("twice")
    a = s.table("a", "n")
    i = s.index("i", "n")

    def body(b: Builder) -> list[Atom]:
        y = b.prim(p.SIN, b.index(a, i))
        return [y, y]

    golden(simplified(s.done(*loop(s.b, [i], body))))


def test_view_of_view_is_one_access(golden: Golden) -> None:
    """A tested view stays, and is not tested again by what reads it."""
    s = Sketch("views")
    a, k = s.table("a", "n", "m", "p"), s.scalar("k", I64)
    i, j, k2 = s.index("i", "n"), s.index("j", "m"), s.index("k", "p")

    def body(b: Builder) -> list[Atom]:
        proved = b.index(b.index(b.index(a, i), j), k2)
        tested = b.index(b.index(a, k, bounds=Bounds.CHECKED), j, k2)
        return [proved, tested]

    golden(simplified(s.done(*loop(s.b, [i, j, k2], body))))


def test_scope_without_accumulators_vanishes(golden: Golden) -> None:
    s = Sketch("scopes")
    x = s.scalar("x")
    y, _ = with_acc(s.b, [], lambda b: [b.prim(p.SIN, x), x])
    acc = ref("acc")
    outside, total = with_acc(s.b, [acc], lambda b: add_to(b, acc, (), x, y))
    golden(simplified(s.done(outside, total)))


def test_check_that_holds_vanishes_and_one_that_fails_stays() -> None:
    s = Sketch("checks")
    s.b.emit(Check(bool_lit(True), ValueRangeError, "", ()))
    s.b.emit(Check(bool_lit(False), ValueRangeError, "no", ()))
    program = run("simplify", simplify, s.done(num(1.0)))
    assert len(program.body.bindings) == 1
    with pytest.raises(ValueRangeError, match="no"):
        evaluate(program, [])


def test_sizes_are_replaced_in_types() -> None:
    s = Sketch("sizes")
    size = s.b.prim(p.ADD, int_lit(1), int_lit(2))
    i = Var("i", Idx(FinSet(size)))
    (table,) = loop(s.b, [i], lambda b: [num(1.0)])
    program = s.done(s.b.index(table, int_lit(0), bounds=Bounds.CHECKED))
    after = run("simplify", simplify, program)
    (table,) = after.body.bindings[-2].vars
    assert table.type == Table((FinSet(int_lit(3)),), F64)


def test_every_primitive_has_an_identity_or_a_reason_why_not() -> None:
    assert set(simplify_rules.covered()) == set(p.PRIMITIVES.values())
    assert simplify_rules.refusal(p.SIN) == "it has no exact identity"
