"""The evaluator says what programs mean: these are the facts that say what it means."""

from __future__ import annotations

import numpy as np
import pytest
from programs import Sketch, histogram, log_likelihood, matmul, num, reduce, tabulate, triangle

from peffects.errors import BoundsError, IndexSetMismatchError, ValueRangeError
from peffects.ir import primitives as p
from peffects.ir.builder import Builder, index_var, int_lit
from peffects.ir.evaluate import Work, evaluate, identity_of
from peffects.ir.syntax import (
    BOOL,
    F32,
    F64,
    I32,
    I64,
    SCALARS,
    Atom,
    Check,
    Cond,
    FinSet,
    Fold,
    Monoid,
    Ref,
    Scalar,
    Table,
    Var,
    While,
    WithAcc,
)
from peffects.source import SrcInfo


def test_matmul_equals_numpy() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 4)), rng.normal(size=(4, 2))
    np.testing.assert_allclose(evaluate(matmul(), [a, b])[0], a @ b, rtol=1e-14)


def test_log_likelihood_equals_numpy() -> None:
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(6, 3)), rng.normal(size=2)
    mean, scale = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    z = (x[:, None] - mean) * np.exp(-scale)
    t = w - scale.sum(1) - 0.5 * (z**2).sum(2)
    expected = np.log(np.exp(t).sum(1)).sum()
    assert evaluate(log_likelihood(), [x, w, mean, scale])[0] == pytest.approx(expected, rel=1e-13)


def test_sizes_that_disagree_are_refused_with_both_tables() -> None:
    with pytest.raises(IndexSetMismatchError, match=r"axis 0 of `b` has length 5.*length 4"):
        evaluate(matmul(), [np.zeros((3, 4)), np.zeros((5, 2))])


def test_checked_index_is_tested() -> None:
    with pytest.raises(
        BoundsError, match=r"index 4 is out of bounds for axis 0 of `h` with size 4"
    ):
        evaluate(histogram(4), [[0.0, 4.5], [1.0, 1.0]])
    with pytest.raises(BoundsError, match="index -1"):
        evaluate(histogram(4), [[-1.5], [1.0]])


def test_triangle_counts_positive_products() -> None:
    x = np.array([1.0, -2.0, 3.0])
    expected = sum(max(x[i] * x[j], 0.0) for i in range(3) for j in range(i + 1))
    assert evaluate(triangle(), [x])[0] == expected


def test_order_of_iterations_is_free() -> None:
    rng = np.random.default_rng(2)
    args = [rng.integers(0, 9, size=(4, 3)).astype(float) for _ in range(1)]
    args = [args[0], np.zeros(2), np.zeros((2, 3)), np.zeros((2, 3))]
    shuffled = evaluate(
        log_likelihood(), args, order=lambda r: np.random.default_rng(0).permutation(len(r))
    )
    assert shuffled[0] == pytest.approx(evaluate(log_likelihood(), args)[0], rel=1e-14)


def test_empty_loops() -> None:
    value = evaluate(matmul(), [np.zeros((0, 4)), np.zeros((4, 2))])[0]
    assert np.shape(value) == (0, 2)
    zero = evaluate(matmul(), [np.zeros((3, 0)), np.zeros((0, 2))])[0]
    np.testing.assert_array_equal(zero, np.zeros((3, 2)))


def test_reverse_fold_runs_backwards() -> None:
    s = Sketch("rof")
    s.table("x", "n")
    i, carry = s.index("i", "n"), Var("c", I64)
    body = s.b.nested()
    step = body.prim(p.ADD, carry, int_lit(1))
    program = s.done(*s.b.emit(Fold(i, True, (carry,), (int_lit(0),), body.block(step, carry))))
    last, seen = evaluate(program, [np.zeros(4)])
    assert last == 4
    np.testing.assert_array_equal(seen, [3, 2, 1, 0])


def test_while_runs_until_its_test_fails() -> None:
    s = Sketch("double")
    x = s.scalar("x")
    carry, (test, body) = Var("c", F64), (s.b.nested(), s.b.nested())
    loop = While(
        (carry,), (x,),
        test.block(test.prim(p.LT, carry, num(100.0))),
        body.block(body.prim(p.MUL, carry, num(2.0))),
    )  # fmt: skip
    program = s.done(*s.b.emit(loop))
    assert evaluate(program, [3.0]) == (192.0,)
    assert evaluate(program, [500.0]) == (500.0,)


def test_check_raises_at_the_users_line() -> None:
    s = Sketch("guarded")
    x = s.scalar("x")
    s.b.at = SrcInfo("model.py", 12)
    ok = s.b.prim(p.LT, num(0.0), x)
    s.b.emit(Check(ok, ValueRangeError, "{0} is not positive.", (x,), "Give more."))
    program = s.done(x)
    assert evaluate(program, [2.0]) == (2.0,)
    with pytest.raises(ValueRangeError, match=r"-2\.0 is not positive") as info:
        evaluate(program, [-2.0])
    assert info.value.at.line == 12


def test_only_one_branch_runs() -> None:
    s = Sketch("branch")
    x = s.scalar("x")
    then, orelse = s.b.nested(), s.b.nested()
    orelse.emit(Check(s.b.prim(p.LT, x, x), ValueRangeError, "never", ()))
    pred = s.b.prim(p.LT, x, num(1.0))
    program = s.done(*s.b.emit(Cond(pred, then.block(x), orelse.block(x))))
    assert evaluate(program, [0.0]) == (0.0,)
    with pytest.raises(ValueRangeError):
        evaluate(program, [2.0])


@pytest.mark.parametrize("monoid", Monoid)
@pytest.mark.parametrize("elem", SCALARS.values(), ids=str)
def test_identity_is_one(monoid: Monoid, elem: Scalar) -> None:
    logical = monoid in (Monoid.AND, Monoid.OR)
    if logical != (elem == BOOL):
        return
    s = Sketch("fold")
    x = s.table("x", "n", elem=elem)
    i = s.index("i", "n")
    program = s.done(reduce(s.b, [i], lambda o: o.index(x, i), monoid))
    for value in (0, 1):
        array = np.array([value], elem.dtype)
        assert evaluate(program, [array])[0] == array[0]
    empty = evaluate(program, [np.zeros(0, elem.dtype)])[0]
    assert empty == np.array(identity_of(monoid, elem), elem.dtype)


@pytest.mark.parametrize(
    ("op", "args", "expected"),
    [
        (p.FLOORDIV, (-7, 2), -4),
        (p.MOD, (-7, 2), 1),
        (p.MOD, (7, -2), -1),
        (p.POW, (3, 4), 81),
        (p.BIT_XOR, (6, 3), 5),
        (p.SHIFT_LEFT, (3, 2), 12),
    ],
)
def test_integer_primitives_have_pythons_signs(
    op: p.Primitive, args: tuple[int, int], expected: int
) -> None:
    s = Sketch("ints")
    x, y = s.scalar("x", I64), s.scalar("y", I64)
    assert evaluate(s.done(s.b.prim(op, x, y)), args) == (expected,)


def test_narrow_types_stay_narrow() -> None:
    s = Sketch("narrow")
    x, k = s.scalar("x", F32), s.scalar("k", I32)
    program = s.done(s.b.prim(p.MUL, x, x), s.b.prim(p.ADD, k, k))
    square, double = evaluate(program, [1.1, 2**31 - 1])
    assert (square.dtype, double.dtype) == (np.float32, np.int32)
    assert double == -2


def test_minimum_and_maximum_propagate_nan() -> None:
    s = Sketch("nan")
    x, y = s.scalar("x"), s.scalar("y")
    program = s.done(s.b.prim(p.MIN, x, y), s.b.prim(p.MAX, x, y))
    assert all(np.isnan(v) for v in evaluate(program, [np.nan, 1.0]))
    assert all(np.isnan(v) for v in evaluate(program, [1.0, np.nan]))


def test_work_counts_operations_and_accesses() -> None:
    work = Work()
    evaluate(matmul(), [np.ones((2, 3)), np.ones((3, 4))], work=work)
    assert work.operations == 2 * 3 * 4 * 2  # a multiplication and an addition
    assert work.accesses == 2 * 3 * 4 * 3 + 2 * 4


def test_two_results_of_one_loop() -> None:
    s = Sketch("pair")
    x = s.table("x", "n")
    i = s.index("i", "n")

    def body(o: Builder) -> tuple[Atom, ...]:
        value = o.index(x, i)
        return value, o.prim(p.NEG, value)

    tabulate(s.b, [i], body)
    binding = s.b.bindings[-1]
    plus, minus = evaluate(s.done(*binding.vars), [[1.0, 2.0]])
    np.testing.assert_array_equal(plus, [1.0, 2.0])
    np.testing.assert_array_equal(minus, [-1.0, -2.0])


@pytest.mark.parametrize("row", [3, 2])
def test_what_gets_one_value_for_each_element_is_checked(row: int) -> None:
    """Rows of the length `row`, that follow each other without gaps if it is 3."""
    s = Sketch("packed")
    i, j = index_var("i", int_lit(2)), index_var("j", int_lit(row))
    ref = Var("r", Ref(Monoid.ADD, Table((FinSet(int_lit(6)),), F64), once=True))
    inner = s.b.nested()
    start = inner.prim(p.MUL, inner.ordinal(i), int_lit(3))
    body = inner.nested()
    place = body.prim(p.PACKED, inner.ordinal(i), start, body.ordinal(j))
    body.accumulate(ref, (place,), num(1.5))
    inner.loop([j], body.block())
    outer = s.b.nested()
    outer.loop([i], inner.block())
    program = s.done(*s.b.emit(WithAcc((ref,), outer.block())))
    if row == 3:
        assert evaluate(program, [])[0].tolist() == [1.5] * 6
    else:
        with pytest.raises(AssertionError, match="do not get one value each"):
            evaluate(program, [])
