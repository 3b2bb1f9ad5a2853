"""Every primitive, on each type that it takes, gives what the evaluator gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from compiled import CompiledProgram, assert_same
from programs import Sketch

from peffects.codegen.emit.rules import emit_rules
from peffects.errors import InternalError
from peffects.ir import primitives as p
from peffects.ir.primitives import PRIMITIVES, Primitive
from peffects.ir.syntax import BOOL, F64, I64, SCALARS, Program, Scalar

# numpy's scalar functions and the C library may round differently: units in the last place.
# CPython has an algorithm of its own for lgamma, which loses digits near the zeros.
ROUNDED = {
    p.EXP: 1, p.EXPM1: 2, p.LOG: 1, p.LOG1P: 2, p.SIN: 2, p.COS: 2, p.TAN: 3, p.ARCSIN: 2,
    p.ARCCOS: 2, p.ARCTAN: 2, p.ARCTAN2: 2, p.SINH: 3, p.COSH: 2, p.TANH: 3, p.ERF: 1,
    p.POW: 2, p.LGAMMA: 128, p.EXP2: 2, p.LOG2: 2, p.LOG10: 2, p.CBRT: 2, p.HYPOT: 1,
    p.ARCSINH: 2, p.ARCCOSH: 2, p.ARCTANH: 2, p.ERFC: 2, p.GAMMA: 4, p.DIGAMMA: 4, p.TRIGAMMA: 4,
    p.EXPIT: 2, p.LOGADDEXP: 2,
}  # fmt: skip


# Defined on part of their type, or for one type of each operand: with tests of their own.
OF_PART = {p.ORDINAL, p.LOG_UNIT, p.COS_TURN}


def special_values(t: Scalar) -> list[Any]:
    if t == BOOL:
        return [False, True]
    if t.is_float:
        limits = np.finfo(t.dtype)
        plain = [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 3.0, 7.25, 100.5, 300.0, 70000.0]
        large = [3e9, 5e9, 1e15, 2.0**31, 2.0**32, 2.0**62, 2.0**63, 1e19, float(limits.max)]
        small = [float(limits.tiny), float(limits.tiny) / 8, float(limits.eps), np.inf]
        values = [*plain, *large, *small]
        return [*values, *[-x for x in values], np.nan]
    info = np.iinfo(t.dtype)
    whole = {0, 1, 2, 3, 5, 7, 8, 13, 31, 63, 64, 100, info.max, info.max - 1, info.min}
    if info.min < 0:
        whole |= {-1, -2, -3, -7, -64, info.min + 1}
    return sorted(whole)


def operand_types(op: Primitive, t: Scalar) -> tuple[Scalar, ...] | None:
    """Types of operands for `op` on `t`; None if it does not take that type."""
    types = (BOOL, t, t) if op is p.SELECT else (t,) * op.arity
    try:
        op.result_type(types)
    except InternalError:
        return None
    return types


def all_on(t: Scalar) -> tuple[Program, list[Primitive]]:
    """A loop that applies every primitive to x[i], y[i] (and c[i]) of type `t`."""
    s = Sketch(f"all_on_{t}")
    x, y = s.table("x", "n", elem=t), s.table("y", "n", elem=t)
    c = s.table("c", "n", elem=BOOL)
    i = s.index("i", "n")
    body = s.b.nested()
    a, b, choice = body.index(x, i), body.index(y, i), body.index(c, i)
    ops, results = [], []
    for op in PRIMITIVES.values():
        if op in OF_PART or operand_types(op, t) is None:
            continue
        args = (choice, a, b) if op is p.SELECT else (a, b, a)[: op.arity]
        ops.append(op)
        results.append(body.prim(op, *args))
    return s.done(*s.b.loop([i], body.block(*results))), ops


def expected_of(op: Primitive, x: Any, y: Any, c: Any) -> Any:
    """The evaluator's results, one by one."""
    columns = (c, x, y) if op is p.SELECT else (x, y, x)[: op.arity]
    with np.errstate(all="ignore"):
        return np.array([op.evaluate(*row) for row in zip(*columns, strict=True)])


def assert_rounded(op: Primitive, found: Any, expected: Any) -> None:
    """Equal up to the last places that `ROUNDED` allows; special values are equal."""
    fine = np.isfinite(expected) & np.isfinite(found)
    np.testing.assert_array_equal(found[~fine], expected[~fine], err_msg=op.name)
    np.testing.assert_array_max_ulp(found[fine], expected[fine], maxulp=ROUNDED[op])


def defined(op: Primitive, x: Any, y: Any) -> Any:
    """Where the evaluator gives a value that is not an accident of numpy.

    It refuses negative integer exponents (staging tests for them), and the gamma function and its
    logarithm overflow with an error.
    """
    if op is p.POW and x.dtype.kind != "f":
        return y >= 0
    if op in (p.LGAMMA, p.GAMMA):
        return np.abs(x.astype(float)) < 1e300
    return np.ones(len(x), bool)


@pytest.mark.parametrize("t", SCALARS.values(), ids=str)
def test_primitives_give_what_the_evaluator_gives(t: Scalar) -> None:
    values = np.array(special_values(t), t.dtype)
    x, y = (grid.ravel() for grid in np.meshgrid(values, values))
    c = np.arange(len(x)) % 3 == 0
    program, ops = all_on(t)
    for op, found in zip(ops, CompiledProgram(program)(x, y, c), strict=True):
        where = defined(op, x, y)
        expected = expected_of(op, x[where], y[where], c[where])
        if t.is_float and op in ROUNDED:
            assert_rounded(op, found[where], expected)
        else:
            assert_same(found[where], expected, op.name)


def test_scaling_by_powers_of_two_rounds_once() -> None:
    s = Sketch("scaled")
    x, n = s.table("x", "k"), s.table("n", "k", elem=I64)
    i = s.index("i", "k")
    body = s.b.nested()
    result = body.prim(p.LDEXP, body.index(x, i), body.index(n, i))
    run = CompiledProgram(s.done(*s.b.loop([i], body.block(result))))
    exponents = np.array([0, 1, -1, 60, -60, 1100, -1100, 2100, 2**40, -(2**40)])
    values, powers = (g.ravel() for g in np.meshgrid(np.array(special_values(F64)), exponents))
    with np.errstate(all="ignore"):
        assert_same(run(values, powers)[0], np.ldexp(values, np.clip(powers, -9999, 9999)))


def test_negative_integer_exponents_give_the_integral_part() -> None:
    s = Sketch("powers")
    x, y = s.table("x", "n", elem=I64), s.table("y", "n", elem=I64)
    i = s.index("i", "n")
    body = s.b.nested()
    result = body.prim(p.POW, body.index(x, i), body.index(y, i))
    run = CompiledProgram(s.done(*s.b.loop([i], body.block(result))))
    (found,) = run(np.array([1, -1, -1, 2, 0]), np.array([-3, -3, -2, -1, -1]))
    assert found.tolist() == [1, -1, 1, 0, 0]


def test_every_primitive_has_a_rule_or_a_refusal() -> None:
    assert set(emit_rules.covered()) == set(PRIMITIVES.values())
