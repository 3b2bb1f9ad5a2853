"""The linear type checker accepts what is linear and refuses the rest, at the user's line."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from programs import Sketch, num, reduce, tabulate

from peffects.differentiate.linearity import linear_vars
from peffects.errors import LinearityError
from peffects.ir import primitives as p
from peffects.ir.builder import Builder
from peffects.ir.syntax import F64, Atom, Block, Cond, Fold, Monoid, Ref, Var, WithAcc
from peffects.source import SrcInfo

X = Var("x", F64)
Y = Var("y", F64)
Make = Callable[[Builder], Atom | tuple[Atom, ...]]


def build(make: Make) -> Block:
    b = Builder(SrcInfo("model.py", 7))
    results = make(b)
    return b.block(*(results if isinstance(results, tuple) else (results,)))


ACCEPTED: dict[str, Make] = {
    "identity": lambda b: X,
    "scaled": lambda b: b.prim(p.MUL, X, num(2.0)),
    "scaled from the left": lambda b: b.prim(p.MUL, num(2.0), X),
    "used twice in a sum": lambda b: b.prim(p.ADD, X, X),
    "used twice as results": lambda b: (X, X),
    "not used": lambda b: (),
    "zero": lambda b: num(0.0),
    "divided": lambda b: b.prim(p.DIV, X, Y),
    "scaled by an expression": lambda b: b.prim(p.MUL, b.prim(p.EXP, Y), X),
    "selected": lambda b: b.prim(p.SELECT, b.prim(p.LT, Y, num(0.0)), X, num(0.0)),
}

REFUSED: dict[str, tuple[Make, str]] = {
    "squared": (lambda b: b.prim(p.MUL, X, X), "spent twice"),
    "squared by another name": (
        lambda b: b.prim(p.MUL, b.prim(p.NEG, X), X), "spent twice",
    ),
    "shifted": (lambda b: b.prim(p.ADD, X, num(1.0)), "mixes a linear value"),
    "constant": (lambda b: num(1.0), "does not depend linearly"),
    "divisor": (lambda b: b.prim(p.DIV, num(1.0), X), "as a divisor"),
    "condition": (
        lambda b: b.prim(p.SELECT, b.prim(p.LT, X, num(0.0)), X, num(0.0)), "in `lt`",
    ),
    "nonlinear function": (lambda b: b.prim(p.EXP, X), "in `exp`"),
    "selected against a constant": (
        lambda b: b.prim(p.SELECT, b.prim(p.LT, Y, num(0.0)), X, num(1.0)), "a selection between",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_linear_blocks_are_accepted(name: str) -> None:
    linear_vars(build(ACCEPTED[name]), [X])


@pytest.mark.parametrize("name", REFUSED)
def test_other_blocks_are_refused(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(LinearityError, match=message) as info:
        linear_vars(build(make), [X])
    if name != "constant":
        assert info.value.at.line == 7


def test_one_linear_factor_is_enough() -> None:
    block = build(lambda b: b.prim(p.MUL, X, Y))
    linear_vars(block, [X])
    linear_vars(block, [Y])
    with pytest.raises(LinearityError, match="spent twice"):
        linear_vars(block, [X, Y])


def test_tables_and_sums_of_linear_values_are_linear() -> None:
    s = Sketch("f")
    x, c = s.table("x", "n"), s.table("c", "n")
    i, j = s.index("i", "n"), s.index("j", "n")
    y = tabulate(s.b, [i], lambda o: o.prim(p.MUL, o.index(x, i), o.index(c, i)))
    program = s.done(reduce(s.b, [j], lambda o: o.index(y, j)))
    assert y in linear_vars(program.body, [x])


def test_two_tells_of_a_linear_value_are_fine_and_a_product_is_not() -> None:
    def block(last: Callable[[Builder, Var], Atom]) -> Block:
        b, ref = Builder(), Var("r", Ref(Monoid.ADD, F64))
        inner = b.nested()
        inner.accumulate(ref, (), X)
        inner.accumulate(ref, (), X)
        (y,) = b.emit(WithAcc((ref,), inner.block()))
        return b.block(last(b, y))

    linear_vars(block(lambda b, y: b.prim(p.ADD, y, X)), [X])
    with pytest.raises(LinearityError, match="spent twice"):
        linear_vars(block(lambda b, y: b.prim(p.MUL, y, X)), [X])


def test_an_accumulator_does_not_mix_colors() -> None:
    b, ref = Builder(), Var("r", Ref(Monoid.ADD, F64))
    inner = b.nested()
    inner.accumulate(ref, (), X)
    inner.accumulate(ref, (), Y)
    b.emit(WithAcc((ref,), inner.block()))
    with pytest.raises(LinearityError, match="linear and other values"):
        linear_vars(b.block(), [X])


def test_a_linear_value_is_accumulated_with_plus_only() -> None:
    b, ref = Builder(), Var("r", Ref(Monoid.MAX, F64))
    inner = b.nested()
    inner.accumulate(ref, (), X)
    b.emit(WithAcc((ref,), inner.block()))
    with pytest.raises(LinearityError, match="accumulated with `max`"):
        linear_vars(b.block(), [X])


def test_branches_agree_on_color() -> None:
    def block(other: Atom) -> Block:
        b = Builder()
        pred = b.prim(p.LT, Y, num(0.0))
        (z,) = b.emit(Cond(pred, b.nested().block(X), b.nested().block(other)))
        return b.block(z)

    linear_vars(block(num(0.0)), [X])
    with pytest.raises(LinearityError, match="one branch"):
        linear_vars(block(Y), [X])


def test_a_loop_of_no_steps_gives_its_linear_start() -> None:
    """The step forgets the carry, but the result may be what it started from."""
    s = Sketch("f")
    s.table("c", "n")
    i, carry = s.index("i", "n"), Var("s", F64)
    (last,) = s.b.emit(Fold(i, False, (carry,), (X,), s.b.nested().block(num(0.0))))
    assert last in linear_vars(s.b.block(last), [X])


def test_a_carry_that_becomes_linear_starts_from_zero() -> None:
    def block(start: Atom) -> Block:
        s = Sketch("f")
        s.table("c", "n")
        i, carry = s.index("i", "n"), Var("s", F64)
        body = s.b.nested()
        step = body.prim(p.ADD, carry, X)
        s.b.emit(Fold(i, False, (carry,), (start,), body.block(step)))
        return s.b.block()

    linear_vars(block(num(0.0)), [X])
    with pytest.raises(LinearityError, match="in some steps only"):
        linear_vars(block(num(1.0)), [X])
