"""The products of derivatives, in which 0 times anything is 0, in each form that loops have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from compiled import CompiledProgram, assert_same
from numpy.typing import NDArray
from programs import Sketch, reduce, tabulate

from peffects.codegen.launch.threads import threads
from peffects.codegen.program.loop_programs import Launch
from peffects.codegen.program.product_frame import DEPTH
from peffects.ir import primitives as p
from peffects.ir.evaluate import evaluate
from peffects.ir.syntax import F32, F64, Atom, Monoid, Program, Ref, Scalar, Table, Var, WithAcc
from peffects.ir.typing import set_of

Array = NDArray[Any]
SPECIAL = [0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan]


def inner_product(by: bool) -> Program:
    """The sum over j of x[j] times y[j], or times y[i], which the inner loop does not change."""
    s = Sketch("inner")
    x, y = s.table("x", "n"), s.table("y", "n" if not by else "m")
    i, j = s.index("i", "m" if by else "n"), s.index("j", "n")

    def element(o: Any) -> Atom:
        return o.prim(p.SCALE, o.index(x, j), o.index(y, i if by else j))  # type: ignore[no-any-return]

    return s.done(tabulate(s.b, [i], lambda o: reduce(o, [j], element)))


@pytest.mark.parametrize("other", SPECIAL, ids=str)
def test_sums_with_a_factor_that_stays(other: float) -> None:
    program = inner_product(by=True)
    y = np.array(SPECIAL)
    x = np.where(np.arange(37) % 5 == 3, other, 0.5)
    (expected,) = evaluate(program, [x, y])
    assert_same(CompiledProgram(program)(x, y)[0], expected)


def test_sums_of_products_of_numbers_that_both_change() -> None:
    program = inner_product(by=False)
    run = CompiledProgram(program)
    for other in SPECIAL:
        x = np.zeros(41)
        x[7] = 2.0
        y = np.where(np.arange(41) == 7, 3.0, other)
        assert_same(run(x, y)[0], np.full(41, 6.0))
        assert_same(run(y, x)[0], np.full(41, 6.0))


def test_updates_of_a_table_with_a_factor_that_stays() -> None:
    s = Sketch("updates")
    x, y = s.table("x", "n"), s.table("y", "m")
    i, j = s.index("i", "m"), s.index("j", "n")
    ref = Var("sums", Ref(Monoid.ADD, Table((set_of(j),), F64)))
    region, body = s.b.nested(), s.b.nested()
    body.accumulate(ref, (j,), body.prim(p.SCALE, body.index(y, i), body.index(x, j)))
    outer = region.nested()
    outer.loop([j], body.block())
    region.loop([i], outer.block())
    program = s.done(*s.b.emit(WithAcc((ref,), region.block())))
    run = CompiledProgram(program)
    for other in SPECIAL:
        args = np.array([0.0, 2.0, *([other] * 19), -0.0]), np.array([0.0, 1.0, 0.0, 3.0])
        (expected,) = evaluate(program, args)
        assert_same(run(*args)[0], expected)


# --- matrix products ------------------------------------------------------------------------------


def matrix_product(elem: Scalar, into: bool = False) -> CompiledProgram:
    """A b, whose elements `scale` multiplies; `into` adds it to an accumulator of two products."""
    s = Sketch("scaled")
    a, b = s.table("a", "m", "k", elem=elem), s.table("b", "k", "n", elem=elem)
    i, j, k = (s.index(name, name) for name in "mnk")
    if not into:
        made = tabulate(
            s.b,
            [i, j],
            lambda o: reduce(o, [k], lambda e: e.prim(p.SCALE, e.index(a, i, k), e.index(b, k, j))),
        )
        return CompiledProgram(s.done(made))
    ref = Var("c", Ref(Monoid.ADD, Table((set_of(i), set_of(j)), elem)))
    region = s.b.nested()
    for _ in range(2):
        i, j, k = (s.index(name, name) for name in "mnk")
        body = region.nested()
        factors = body.index(a, i, k), body.index(b, k, j)
        body.accumulate(ref, (i, j), body.prim(p.SCALE, *factors))
        region.loop([i, j, k], body.block())
    return CompiledProgram(s.done(*s.b.emit(WithAcc((ref,), region.block()))))


def meant(a: Array, b: Array) -> Array:
    """The product, where 0 times anything is 0."""
    with np.errstate(all="ignore"):
        terms = a.astype(float)[:, :, None] * b.astype(float)[None]
    nothing = (a == 0)[:, :, None] | (b == 0)[None]
    result: Array = np.where(nothing, 0.0, terms).sum(axis=1)
    return result


SHAPES = [(8, DEPTH, 24), (50, 2 * DEPTH + 3, 41), (9, 300, 1), (1, 700, 60)]


@pytest.mark.parametrize("into", [False, True], ids=["table", "accumulator"])
@pytest.mark.parametrize("elem", [F64, F32], ids=str)
def test_zeros_of_matrix_products_annihilate(elem: Scalar, into: bool) -> None:
    run = matrix_product(elem, into)
    assert any(isinstance(s, Launch) and s.own_frame for s in run.compiled.loop_program.stages)
    rng = np.random.default_rng(0)
    for m, k, n in SHAPES:
        a = rng.integers(-3, 4, (m, k)).astype(elem.dtype)
        b = rng.integers(-3, 4, (k, n)).astype(elem.dtype)
        b[k // 2], a[:, k // 2] = rng.choice([np.inf, np.nan, -np.inf], n), 0.0
        b[3, 0], a[0, 3], a[m - 1, 3] = np.inf, 2.0, 0.0
        a[0, k - 1], b[k - 1] = np.nan, np.where(np.arange(n) % 2 == 0, 0.0, 1.0)
        expected = meant(a, b) * (2.0 if into else 1.0)
        assert np.isnan(expected).any() or n == 1
        assert np.isfinite(expected).any()
        for count in (1, 3):
            with threads(count):
                np.testing.assert_array_equal(run(a, b)[0], expected)


def test_without_nan_the_bits_are_those_of_the_plain_product() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(97, 301)), rng.normal(size=(301, 53))
    s = Sketch("plain")
    x, y = s.table("a", "m", "k"), s.table("b", "k", "n")
    i, j, k = (s.index(name, name) for name in "mnk")

    def element(o: Any) -> Atom:
        return o.prim(p.MUL, o.index(x, i, k), o.index(y, k, j))  # type: ignore[no-any-return]

    plain = CompiledProgram(s.done(tabulate(s.b, [i, j], lambda o: reduce(o, [k], element))))
    assert_same(matrix_product(F64)(a, b)[0], plain(a, b)[0])
