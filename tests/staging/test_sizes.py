"""Which index sets become one, and what the launch checks of it."""

from __future__ import annotations

from peffects.ir.builder import int_lit
from peffects.ir.syntax import I64, Fact, SizeParam, Var
from peffects.source import SrcInfo
from peffects.staging.tracing.sizes import Sizes, Verdict

HERE, THERE = SrcInfo("f.py", 1), SrcInfo("f.py", 2)


def test_placeholders_take_over_the_other_side() -> None:
    sizes = Sizes()
    i, j, axis = sizes.placeholder("i"), sizes.placeholder("j"), sizes.axis(0, 1, "x")
    assert not sizes.is_known(i)
    assert sizes.unify(i, j, HERE) is Verdict.SAME
    assert not sizes.is_known(j)
    assert sizes.unify(axis, j, HERE) is Verdict.SAME
    assert sizes.same(i, axis) and sizes.representative(i) is axis
    found = sizes.resolve()
    assert found.mapping == {i: axis, j: axis}
    assert found.sizes == (SizeParam(axis, 0, 1),)
    assert found.facts == ()


def test_axes_that_meet_are_checked_at_launch() -> None:
    sizes = Sizes()
    x, y = sizes.axis(0, 0, "x"), sizes.axis(1, 0, "y")
    assert sizes.unify(y, x, THERE) is Verdict.SAME
    found = sizes.resolve()
    (kept,), (fact,) = found.sizes, found.facts
    assert {kept.param, fact.param} == {0, 1}
    assert fact.size is kept.var and fact.src == THERE
    assert set(found.mapping) == {x, y} - {kept.var}


def test_literals_are_preferred_and_checked() -> None:
    sizes = Sizes()
    x = sizes.axis(0, 0, "x")
    sizes.unify(x, int_lit(3), HERE)
    assert sizes.representative(x) == int_lit(3)
    assert sizes.unify(int_lit(3), int_lit(3), HERE) is Verdict.SAME
    assert sizes.unify(x, int_lit(4), HERE) is Verdict.DIFFERENT
    assert sizes.resolve().facts == (Fact(0, 0, int_lit(3), "`Fin(3)`", HERE),)


def test_integer_parameters_are_checked_against_an_axis() -> None:
    sizes = Sizes()
    n, m, x = Var("n", I64), Var("m", I64), sizes.axis(2, 0, "x")
    sizes.scalar(n)
    sizes.scalar(m)
    assert sizes.unify(n, m, HERE) is Verdict.TEST
    assert not sizes.same(n, m)
    assert sizes.unify(n, x, HERE) is Verdict.SAME
    assert sizes.unify(m, x, HERE) is Verdict.SAME
    assert {(fact.param, fact.size) for fact in sizes.resolve().facts} == {(2, n), (2, m)}


def test_computed_sizes_need_a_test_at_run_time() -> None:
    sizes = Sizes()
    computed, x, i = Var("t", I64), sizes.axis(0, 0, "x"), sizes.placeholder("i")
    assert sizes.unify(computed, x, HERE) is Verdict.TEST
    assert sizes.unify(i, computed, HERE) is Verdict.SAME
    assert sizes.representative(i) is computed
    assert sizes.is_length(x) and not sizes.is_length(computed)


def test_scalars_that_equal_an_axis_are_replaced_by_it() -> None:
    sizes = Sizes()
    n, x = Var("n", I64), sizes.axis(1, 0, "x")
    sizes.scalar(n)
    sizes.unify(x, n, HERE)
    assert sizes.resolve().mapping == {n: x}
