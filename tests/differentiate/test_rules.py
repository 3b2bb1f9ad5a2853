"""The rule tables are complete, and each rule is the derivative of its primitive."""

from __future__ import annotations

import numpy as np
import pytest
from programs import Sketch, num

from peffects.differentiate.linearize_rules import linearize_rules
from peffects.differentiate.programs import jvp_program, value_and_grad_program
from peffects.differentiate.transpose_rules import transpose_rules
from peffects.errors import InternalError, MissingRuleError
from peffects.ir import primitives as p
from peffects.ir.evaluate import evaluate
from peffects.ir.primitives import PRIMITIVES, Primitive
from peffects.ir.rules import RuleTable
from peffects.ir.syntax import BOOL, F32, F64, I64

POINTS: dict[str, list[tuple[float, ...]]] = {
    "arctan2": [(0.7, -1.3), (-0.2, 0.4)],
    "arcsin": [(0.3,), (-0.9,)],
    "arccos": [(0.3,), (-0.9,)],
    "pow": [(1.7, 2.5), (0.4, -1.5)],
    "sqrt": [(2.3,)],
    "log": [(0.3,), (7.0,)],
    "log1p": [(0.3,), (-0.5,)],
    "div": [(1.5, -0.7)],
    "mod": [(7.3, 2.0), (-7.3, 2.2)],
    "fmod": [(7.3, 2.0), (-7.3, 2.2)],
    "remainder": [(7.3, 2.0), (-7.4, 2.2), (0.0, 2.2)],
    "log2": [(0.3,), (7.0,)],
    "log10": [(0.3,), (7.0,)],
    "cbrt": [(2.3,), (-0.4,)],
    "arccosh": [(1.7,), (40.0,)],
    "arctanh": [(0.3,), (-0.9,)],
    "lgamma": [(0.3,), (17.0,), (-2.6,)],
    "gamma": [(0.3,), (7.0,), (-2.6,)],
    "digamma": [(0.3,), (17.0,), (-2.6,)],
    "logaddexp": [(0.3, -0.2), (-3.0, 4.0)],
    "floordiv": [(7.3, 2.0), (-7.3, 2.2)],
}
CASTS = set(p.CAST.values())
SPECIAL = {p.SELECT, p.STOP_GRADIENT, p.ELEMENTARY, p.LDEXP, *CASTS}  # with tests of their own
RULES = [op for op in PRIMITIVES.values() if op in linearize_rules and op not in SPECIAL]


@pytest.mark.parametrize("op", PRIMITIVES.values(), ids=str)
@pytest.mark.parametrize("table", [linearize_rules, transpose_rules], ids=lambda t: t.name)
def test_each_primitive_has_a_rule_or_a_reason(op: Primitive, table: RuleTable[object]) -> None:
    assert (op in table) != bool(table.refusal(op))


@pytest.mark.parametrize("op", RULES, ids=str)
def test_rule_equals_finite_differences(op: Primitive) -> None:
    for point in POINTS.get(op.name, [(0.4, -0.8)[: op.arity], (-1.3, 0.6)[: op.arity]]):
        s = Sketch(op.name)
        params = [s.scalar(f"x{i}") for i in range(op.arity)]
        program = s.done(s.b.prim(op, *params))
        gradient = value_and_grad_program(program, range(op.arity))
        _, *found = evaluate(gradient, point)
        for i, partial in enumerate(found):
            step = np.zeros(op.arity)
            step[i] = 1e-6
            up, down = (evaluate(program, list(np.add(point, sign * step)))[0] for sign in (1, -1))
            assert float(partial) == pytest.approx((up - down) / 2e-6, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("op", RULES, ids=str)
def test_forward_equals_reverse(op: Primitive) -> None:
    point = POINTS.get(op.name, [(0.4, -0.8)[: op.arity]])[0]
    s = Sketch(op.name)
    params = [s.scalar(f"x{i}") for i in range(op.arity)]
    program = s.done(s.b.prim(op, *params))
    _, *reverse = evaluate(value_and_grad_program(program, range(op.arity)), point)
    directions = [1.5, -0.25][: op.arity]
    (_, forward) = evaluate(jvp_program(program, range(op.arity)), [*point, *directions])
    assert float(forward) == pytest.approx(np.dot(reverse, directions), rel=1e-13)


@pytest.mark.parametrize(
    ("op", "args", "expected"),
    [
        (p.POW, (0.0, 0.0), 0.0),
        (p.POW, (0.0, 1.0), 1.0),
        (p.POW, (0.0, 2.0), 0.0),
        (p.ABS, (0.0,), 0.0),
        (p.MAX, (1.0, 1.0), 0.5),
        (p.MIN, (1.0, 1.0), 0.5),
        (p.MIN, (0.0, 1.0), 1.0),
        (p.MAX, (0.0, 1.0), 0.0),
        (p.LESSER, (1.0, 1.0), 0.5),
        (p.GREATER, (1.0, 1.0), 0.5),
        (p.LESSER, (1.0, np.nan), 1.0),
        (p.GREATER, (1.0, np.nan), 1.0),
        (p.LESSER, (0.0, 1.0), 1.0),
        (p.GREATER, (0.0, 1.0), 0.0),
        (p.HYPOT, (0.0, 0.0), 0.0),
        (p.LOGADDEXP, (2.0, 2.0), 0.5),
        (p.LOGADDEXP, (-np.inf, -np.inf), 0.0),
        (p.LOGADDEXP, (np.inf, np.inf), 0.5),
        (p.LOGADDEXP, (np.inf, 0.0), 1.0),
        (p.LOGADDEXP, (-np.inf, 0.0), 0.0),
        (p.CBRT, (0.0,), np.inf),
        (p.EXPIT, (-700.0,), np.exp(-700.0)),
    ],
)
def test_rule_at_kinks(op: Primitive, args: tuple[float, ...], expected: float) -> None:
    """With respect to the first operand."""
    s = Sketch("kink")
    params = [s.scalar(f"x{i}") for i in range(op.arity)]
    program = s.done(s.b.prim(op, *params))
    assert evaluate(value_and_grad_program(program, [0]), args)[1] == expected


def test_kinks_that_cancel_leave_the_derivative_of_a_smooth_function() -> None:
    """max(-x, 0) + log1p(exp(-|x|)) is log(1 + exp(-x)), whose slope at 0 is -1/2."""
    s = Sketch("softplus")
    x = s.scalar("x")
    tail = s.b.prim(p.LOG1P, s.b.prim(p.EXP, s.b.prim(p.NEG, s.b.prim(p.ABS, x))))
    program = s.done(s.b.prim(p.ADD, s.b.prim(p.MAX, s.b.prim(p.NEG, x), num(0.0)), tail))
    for place, slope in [
        (0.0, -0.5),
        (-0.0, -0.5),
        (1.0, -1 / (1 + np.e)),
        (-1.0, -np.e / (1 + np.e)),
    ]:
        assert evaluate(value_and_grad_program(program, [0]), [place])[1] == pytest.approx(slope)


def test_power_of_zero_has_a_derivative_in_its_exponent() -> None:
    s = Sketch("power")
    x, y = s.scalar("x"), s.scalar("y")
    program = s.done(s.b.prim(p.POW, x, y))
    assert evaluate(value_and_grad_program(program, [1]), (0.0, 2.0))[1] == 0.0


def test_select_passes_to_the_chosen_side() -> None:
    s = Sketch("choose")
    c, x, y = s.scalar("c", BOOL), s.scalar("x"), s.scalar("y")
    gradient = value_and_grad_program(s.done(s.b.prim(p.SELECT, c, x, y)), [1, 2])
    assert evaluate(gradient, [True, 2.0, 3.0]) == (2.0, 1.0, 0.0)
    assert evaluate(gradient, [False, 2.0, 3.0]) == (3.0, 0.0, 1.0)


def test_ldexp_scales_the_tangent() -> None:
    s = Sketch("scaled")
    x, n = s.scalar("x"), s.scalar("n", I64)
    gradient = value_and_grad_program(s.done(s.b.prim(p.LDEXP, x, n)), [0])
    assert evaluate(gradient, [0.75, -3]) == (0.09375, 0.125)


def test_cast_between_floats_casts_the_cotangent_back() -> None:
    s = Sketch("narrow")
    x = s.scalar("x", F32)
    program = s.done(s.b.prim(p.MUL, s.b.prim(p.CAST[F64], x), s.b.prim(p.CAST[F64], x)))
    value, ct = evaluate(value_and_grad_program(program, [0]), [1.5])
    assert (value, ct, ct.dtype) == (2.25, 3.0, np.float32)


def test_table_refuses_a_second_rule() -> None:
    table: RuleTable[str] = RuleTable("test")
    table.register(p.ADD)("rule")
    with pytest.raises(InternalError, match="two rules for `add`"):
        table.refuse(p.ADD, why="")


def test_missing_rule_says_which() -> None:
    table: RuleTable[str] = RuleTable("test")
    with pytest.raises(MissingRuleError, match="test has no rule for `add`"):
        table[p.ADD]
