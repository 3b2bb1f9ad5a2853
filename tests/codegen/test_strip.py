"""Strip-mined loops: when, when not, and that they mean the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import programs
import pytest
from compiled import CompiledProgram, assert_same
from hypothesis import given, settings
from programs import Sketch, num, reduce, tabulate
from strategies import programs as random_programs

from peffects.codegen.launch.cpu import compile_cpu
from peffects.codegen.lower import strip_mining as strip
from peffects.codegen.program.loop_ir import STRIP_WIDTH
from peffects.errors import PeffectsError
from peffects.ir import primitives as p
from peffects.ir.builder import Builder, index_var, int_lit
from peffects.ir.evaluate import evaluate
from peffects.ir.syntax import (
    F64,
    Accumulate,
    Atom,
    Bounds,
    Cond,
    FinSet,
    Fold,
    For,
    Monoid,
    Program,
    Ref,
    Table,
    Var,
    WithAcc,
)

RNG = np.random.default_rng(6)
SIZES = (0, 1, STRIP_WIDTH - 1, STRIP_WIDTH, 2 * STRIP_WIDTH + 3)


def column_sums() -> Program:
    """s[j] = sum_i x[i, j]."""
    s = Sketch("column_sums")
    x = s.table("x", "d", "n")
    j, i = s.index("j", "n"), s.index("i", "d")
    return s.done(tabulate(s.b, [j], lambda o: reduce(o, [i], lambda q: q.index(x, i, j))))


def added_across_lanes() -> Program:
    """r[i, q] += b[q, j] a[i, j]: neighbours in j lie side by side, and add to one total."""
    s = Sketch("across")
    a, b = s.table("a", "d", "n"), s.table("b", "k", "n")
    i, j, q = s.index("i", "d"), s.index("j", "n"), s.index("q", "k")
    ref = Var("r", Ref(Monoid.ADD, Table((FinSet(s.known["d"]), FinSet(s.known["k"])), F64)))
    body, row, cell = s.b.nested(), s.b.nested(), s.b.nested()
    product = cell.prim(p.MUL, cell.index(b, q, j), cell.index(a, i, j))
    cell.accumulate(ref, (i, q), product)
    row.loop([q], cell.block())
    body.loop([i, j], row.block())
    return s.done(*s.b.emit(WithAcc((ref,), body.block())))


def column_softmax() -> Program:
    """For each column a scratch table, three loops over it, a branch, and a sum over columns."""
    s = Sketch("column_softmax")
    x = s.table("x", "d", "n")
    j = s.index("j", "n")
    loss = Var("loss", Ref(Monoid.ADD, F64))
    body, column = s.b.nested(), s.b.nested()
    i1, i2, i3, i4 = (s.index("i", "d") for _ in range(4))
    half = tabulate(column, [i1], lambda q: q.prim(p.MUL, num(0.5), q.index(x, i1, j)))
    top = reduce(column, [i2], lambda q: q.index(half, i2), Monoid.MAX)
    total = reduce(column, [i3], lambda q: q.prim(p.EXP, q.prim(p.SUB, q.index(half, i3), top)))
    then, orelse = column.nested(), column.nested()
    then.emit(Accumulate(loss, (), total, Bounds.PROVED))
    log = then.prim(p.LOG, total)
    pred = column.prim(p.LT, num(1.5), total)
    (chosen,) = column.emit(Cond(pred, then.block(log), orelse.block(top)))
    scaled = tabulate(column, [i4], lambda q: q.prim(p.MUL, chosen, q.index(half, i4)))
    rows = body.loop([j], column.block(scaled, chosen))
    return s.done(*s.b.emit(WithAcc((loss,), body.block(*rows))))


def column_recurrence() -> Program:
    """For each column a fold down its rows, backwards, with an output and a carried table."""
    s = Sketch("column_recurrence")
    x, y = s.table("x", "d", "n"), s.table("y", "m")
    j, i = s.index("j", "n"), s.index("i", "d")
    a, u = Var("a", F64), Var("u", y.type)

    def column(o: Builder) -> tuple[Atom, ...]:
        body, k = o.nested(), s.index("k", "m")
        step = body.prim(p.SUB, body.index(x, i, j), body.prim(p.MUL, a, num(0.5)))
        moved = tabulate(body, [k], lambda q: q.prim(p.ADD, q.index(u, k), step))
        return o.emit(Fold(i, True, (a, u), (num(0.0), y), body.block(step, moved, a)))

    inner = s.b.nested()
    results = column(inner)
    return s.done(*s.b.loop([j], inner.block(*results)))


Made = tuple[Callable[[], Program], Callable[[int], tuple[Any, ...]], float]
STRIPPED: list[Made] = [
    (programs.matmul, lambda n: (RNG.normal(size=(3, 4)), RNG.normal(size=(4, n))), 1e-13),
    (column_sums, lambda n: (RNG.integers(-1000, 1000, (5, n)) / 8.0,), 0.0),  # sums are exact
    (
        added_across_lanes,
        lambda n: (RNG.integers(-99, 99, (3, n)) / 8.0, RNG.integers(-99, 99, (4, n)) / 8.0),
        0.0,  # sums are exact
    ),
    (column_softmax, lambda n: (RNG.normal(size=(5, n)),), 1e-13),
    (column_recurrence, lambda n: (RNG.normal(size=(4, n)), RNG.normal(size=2)), 0.0),
]
FORCED = (column_softmax, column_recurrence)  # they write rows, so strips do not pay


@pytest.mark.parametrize("make, args, rtol", STRIPPED, ids=[x[0].__name__ for x in STRIPPED])
def test_strips_mean_what_the_evaluator_says(
    make: Callable[[], Program], args: Callable[[int], tuple[Any, ...]], rtol: float
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if make in FORCED:
            patch.setattr(strip, "_pays", lambda k, index: True)
        run = CompiledProgram(make())
    assert any(kernel.strips for kernel in run.compiled.loops)
    for n in SIZES:
        given_args = args(n)
        for found, expected in zip(run(*given_args), evaluate(make(), given_args), strict=True):
            if rtol == 0.0:
                assert_same(found, expected)
            else:
                np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


@settings(max_examples=10)
@given(random_programs())
def test_strips_of_random_programs(drawn: tuple[Program, list[Any]]) -> None:
    """Every loop that may be strip-mined is, whether it pays or not."""
    program, args = drawn

    def outcome(run: Callable[[], Any]) -> Any:
        try:
            return run()
        except PeffectsError as error:
            return type(error), error.what, error.at, error.fix

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strip, "_pays", lambda k, index: True)
        found = outcome(lambda: CompiledProgram(program)(*args))
    for x, y in zip(found, outcome(lambda: evaluate(program, args)), strict=True):
        np.testing.assert_array_equal(x, y) if isinstance(x, np.generic | np.ndarray) else None
        assert isinstance(x, np.generic | np.ndarray) or x == y


# --- when not -----------------------------------------------------------------------------------


def rows_of_columns(bounds: Bounds, size_of: Callable[[Builder, Var, Atom], Atom]) -> Program:
    """s[j] = sum of x[i, j] over i below a size; the access tested or not."""
    s = Sketch("columns")
    x = s.table("x", "d", "n")
    j = s.index("j", "n")

    def column(o: Builder) -> Atom:
        i = index_var("i", size_of(o, j, s.known["d"]))
        ref = Var("r", Ref(Monoid.ADD, F64))
        body, loop = o.nested(), o.nested()
        loop.accumulate(ref, (), loop.index(x, loop.ordinal(i), j, bounds=bounds))
        body.emit(For((i,), loop.block()))
        return o.emit(WithAcc((ref,), body.block()))[0]

    return s.done(tabulate(s.b, [j], column))


def triangular(b: Builder, j: Var, d: Atom) -> Atom:
    return b.prim(p.MIN, b.ordinal(j), d)


def whole(b: Builder, j: Var, d: Atom) -> Atom:
    return d


@pytest.mark.parametrize(
    "program, strips",
    [
        (rows_of_columns(Bounds.UNCHECKED, whole), True),
        (rows_of_columns(Bounds.CHECKED, lambda b, j, d: b.prim(p.ADD, d, int_lit(0))), False),
        (rows_of_columns(Bounds.UNCHECKED, triangular), False),
        (programs.log_likelihood(), False),
    ],
    ids=["columns", "can_fail", "triangular", "contiguous"],
)
def test_loops_are_stripped_where_that_is_sound_and_pays(program: Program, strips: bool) -> None:
    assert any(kernel.strips for kernel in compile_cpu(program).loops) == strips


def test_source(golden: Callable[..., None]) -> None:
    golden(compile_cpu(programs.matmul()).source, "matmul")
