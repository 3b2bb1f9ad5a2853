"""Accumulators with at most one update an element become values, bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from programs import Sketch, num
from sketches import add_to, block, dim, loop, ref, with_acc

from peffects.ir.builder import Builder, lit_like
from peffects.ir.evaluate import evaluate
from peffects.ir.print import print_program
from peffects.ir.syntax import (
    BOOL,
    F64,
    I64,
    Atom,
    Bounds,
    Cond,
    FinSet,
    Idx,
    Lit,
    Monoid,
    Program,
    Ref,
    Scalar,
    Table,
    Var,
    WithAcc,
)
from peffects.optimize.contract import contract
from peffects.optimize.passes import run

Golden = Callable[..., None]


def contracted(program: Program) -> Program:
    return run("contract", contract, program)


def test_single_update_over_its_own_axes_is_a_result(golden: Golden) -> None:
    """By one loop and by nested ones; what else the loops do stays."""
    s = Sketch("single")
    a = s.table("a", "n", "m")
    rows, cells, total = ref("rows", dim(s, "n")), ref("cells", dim(s, "n"), dim(s, "m")), ref("t")
    i, j = s.index("i", "n"), s.index("j", "m")

    def inner(b: Builder) -> list[Atom]:
        x = b.index(a, i, j)
        b.accumulate(total, (), x)
        return list(add_to(b, cells, (i, j), x, x))

    def outer(b: Builder) -> list[Atom]:
        (row,) = loop(b, [j], inner)
        return list(add_to(b, rows, (i,), num(1.0), row))

    results = with_acc(s.b, [rows, cells, total], lambda b: loop(b, [i], outer))
    golden(print_program(contracted(s.done(*results))))


def test_accumulator_without_updates_is_the_identity(golden: Golden) -> None:
    s = Sketch("identity")
    s.table("a", "n")
    refs = [ref("number", monoid=Monoid.MAX), ref("table", dim(s, "n"))]
    golden(print_program(contracted(s.done(*with_acc(s.b, refs, lambda b: [])))))


def test_updates_of_one_element_are_one_update(golden: Golden) -> None:
    """Which then may be all there is; other places, and what is tested, stay."""
    s = Sketch("squares")
    a, k = s.table("a", "n"), s.scalar("k", I64)
    squares, places, most = ref("squares", dim(s, "n")), ref("places", dim(s, "n")), ref("most")
    i = s.index("i", "n")

    def body(b: Builder) -> list[Atom]:
        x = b.index(a, i)
        for value in (x, num(1.0), x):
            b.accumulate(squares, [i], value)
        b.accumulate(places, [i], x)
        for bounds in (Bounds.CHECKED, Bounds.UNCHECKED, Bounds.CHECKED):
            b.accumulate(places, [k], x, bounds)
        return list(add_to(b, most, (), x))

    results = with_acc(s.b, [squares, places, most], lambda b: loop(b, [i], body))
    golden(print_program(contracted(s.done(*results))))


@pytest.mark.parametrize("monoid", list(Monoid))
def test_united_updates_combine_as_the_accumulator_does(monoid: Monoid) -> None:
    elem = BOOL if monoid in (Monoid.AND, Monoid.OR) else F64
    s = Sketch("united")
    x, y = s.scalar("x", elem), s.scalar("y", elem)
    acc = Var("acc", Ref(monoid, elem))

    def body(b: Builder) -> list[Atom]:
        b.accumulate(acc, [], x)
        return list(add_to(b, acc, (), y))

    program = s.done(*with_acc(s.b, [acc], body))
    for args in [(0, 0), (0, 1), (1, 0), (2, 3)]:
        assert evaluate(contracted(program), args) == evaluate(program, args)


def refused(case: str) -> Program:
    s = Sketch(case)
    s.table("a", "n")
    c, k = s.scalar("c", BOOL), s.scalar("k", I64)
    acc = ref("acc", dim(s, "n"))
    grid = ref("grid", dim(s, "n"), dim(s, "n"))
    i, j = s.index("i", "n"), s.index("j", "n")

    def branch(b: Builder) -> list[Atom]:
        b.emit(Cond(c, block(b, lambda q: add_to(q, acc, (i,), num(1.0))), block(b, lambda q: [])))
        return []

    def twice(b: Builder) -> list[Atom]:
        loop(b, [i], lambda q: add_to(q, acc, (i,), num(1.0)))
        loop(b, [j], lambda q: add_to(q, acc, (j,), num(1.0)))
        return []

    def deep(b: Builder) -> list[Atom]:
        loop(b, [j], lambda q: add_to(q, acc, (j,), num(1.0)))
        return []

    bodies: dict[str, tuple[Var, Callable[[Builder], object]]] = {
        "in a branch": (acc, lambda b: loop(b, [i], branch)),
        "twice, in two loops": (acc, twice),
        "more loops than axes": (acc, lambda b: loop(b, [i], deep)),
        "one place": (acc, lambda b: loop(b, [i], lambda q: add_to(q, acc, (k,), num(1.0)))),
        "a transposed place": (
            grid, lambda b: loop(b, [i, j], lambda q: add_to(q, grid, (j, i), num(1.0))),
        ),
        "a diagonal": (grid, lambda b: loop(b, [i], lambda q: add_to(q, grid, (i, i), num(1.0)))),
    }  # fmt: skip
    target, body = bodies[case]

    def scope(b: Builder) -> list[Atom]:
        body(b)
        return []

    return s.done(*with_acc(s.b, [target], scope))


@pytest.mark.parametrize(
    "case",
    ["in a branch", "twice, in two loops", "more loops than axes", "one place",
     "a transposed place", "a diagonal"],
)  # fmt: skip
def test_other_updates_need_the_accumulator(case: str) -> None:
    program = refused(case)
    assert contracted(program) is program


def test_loop_over_a_part_of_the_axis_needs_the_accumulator() -> None:
    s = Sketch("part")
    half, whole = FinSet(Lit(2, I64)), FinSet(Lit(4, I64))
    acc = Var("acc", Ref(Monoid.ADD, Table((whole,), F64)))
    i = Var("i", Idx(half))
    program = s.done(
        *with_acc(s.b, [acc], lambda b: loop(b, [i], lambda q: add_to(q, acc, (i,), num(1.0))))
    )
    assert contracted(program) is program


@pytest.mark.parametrize("monoid", [Monoid.ADD, Monoid.MUL, Monoid.MIN, Monoid.MAX])
@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan")])
def test_update_that_replaces_the_identity_has_its_bits(monoid: Monoid, value: float) -> None:
    s = Sketch("bits")
    x = s.scalar("x")
    acc = ref("acc", monoid=monoid)
    program = s.done(*with_acc(s.b, [acc], lambda b: add_to(b, acc, (), x)))
    after = contracted(program)
    assert not any(isinstance(b.expr, WithAcc) and b.expr.refs for b in after.body.bindings)
    (expected,), (found,) = evaluate(program, [value]), evaluate(after, [value])
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("elem", [BOOL, I64])
def test_logical_accumulators_contract_if_they_hold_truth_values(elem: Scalar) -> None:
    s = Sketch("logical")
    acc = Var("acc", Ref(Monoid.OR, elem))
    value = lit_like(1, elem)
    program = s.done(*with_acc(s.b, [acc], lambda b: add_to(b, acc, (), value)))
    assert (contracted(program) is not program) == (elem == BOOL)
