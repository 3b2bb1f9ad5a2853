"""Compiled programs mean what the evaluator says: every form, nesting and size; any threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import programs
import pytest
from compiled import CompiledProgram, assert_equals_evaluate, assert_same
from hypothesis import given, settings
from programs import Sketch, num, reduce, tabulate
from strategies import programs as random_programs

from peffects.codegen.launch.cpu import compile_cpu
from peffects.codegen.launch.threads import threads
from peffects.codegen.lower.accumulate import Strategy
from peffects.codegen.program.loop_programs import MOST_OPERANDS
from peffects.errors import (
    BoundsError,
    InternalError,
    PeffectsError,
    UnboundedTableError,
    ValueRangeError,
)
from peffects.ir import primitives as p
from peffects.ir.builder import Builder, index_var, int_lit, lit_like
from peffects.ir.evaluate import evaluate
from peffects.ir.syntax import (
    BOOL,
    F32,
    F64,
    I64,
    SCALARS,
    Atom,
    Bounds,
    Check,
    Cond,
    FinSet,
    Fold,
    Lit,
    Monoid,
    Program,
    Ref,
    Table,
    Var,
    While,
    WithAcc,
)
from peffects.source import SrcInfo

RNG = np.random.default_rng(5)
SIZES = (0, 1, 7, 10007)  # the last one is cut into chunks
REASSOCIATED = 1e-12  # sums of a thousand terms in another order, with fused products
HERE = SrcInfo("model.py", 12, 4, "step")


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


def positive(*shape: int) -> Any:
    """Sums of these lose no digits."""
    return RNG.uniform(0.5, 1.5, shape)


SHARED: list[tuple[Callable[[], Program], tuple[Any, ...]]] = [
    (programs.matmul, (positive(5, 11), positive(11, 3))),
    (programs.log_likelihood, (normal(7, 3), normal(5), normal(5, 3), normal(5, 3) / 4)),
    (programs.histogram, (RNG.uniform(0, 4, 50), positive(50))),
    (programs.running_product, (2.0, positive(9))),
    (programs.running_sums, (normal(9),)),
    (programs.guarded_norm, (positive(7, 3) * (RNG.random((7, 1)) > 0.5),)),
    (programs.largest, (normal(9), 2.0)),
    (programs.triangle, (positive(9),)),
]


@pytest.mark.parametrize("make, args", SHARED, ids=[make.__name__ for make, _ in SHARED])
def test_shared_programs_equal_the_evaluator(
    make: Callable[[], Program], args: tuple[Any, ...]
) -> None:
    assert_equals_evaluate(make(), *args, rtol=REASSOCIATED)


@settings(max_examples=10)  # each takes numba a second or two
@given(random_programs())
def test_random_programs_equal_the_evaluator(drawn: tuple[Program, list[Any]]) -> None:
    program, args = drawn

    def outcome(run: Callable[[], Any]) -> Any:
        try:
            return run()
        except PeffectsError as error:
            return type(error), error.what, error.at, error.fix

    found = outcome(lambda: CompiledProgram(program)(*args))
    expected = outcome(lambda: evaluate(program, args))
    for x, y in zip(found, expected, strict=True):
        if isinstance(x, np.generic | np.ndarray):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            np.testing.assert_array_equal(x, y)
        else:
            assert x == y


# --- forms --------------------------------------------------------------------------------------


def map_rows() -> Program:
    """A table of rows, each computed by an inner loop from a view."""
    s = Sketch("map_rows")
    x, c = s.table("x", "n", "d"), s.scalar("c")
    i, j = s.index("i", "n"), s.index("j", "d")

    def row(o: Builder) -> Atom:
        view = o.index(x, i)
        return tabulate(o, [j], lambda q: q.prim(p.MUL, c, q.index(view, j)))

    return s.done(tabulate(s.b, [i], row))


def three_axes() -> Program:
    """A loop over three axes, and views of views of its result."""
    s = Sketch("three_axes")
    x, y = s.table("x", "n", "d"), s.table("y", "m")
    i, k, j = s.index("i", "n"), s.index("k", "m"), s.index("j", "d")
    t = tabulate(s.b, [i, k, j], lambda q: q.prim(p.SUB, q.index(x, i, j), q.index(y, k)))
    i2, k2, j2 = s.index("i", "n"), s.index("k", "m"), s.index("j", "d")

    def flipped(q: Builder) -> Atom:
        return q.index(q.index(q.index(t, i2), k2), j2)

    return s.done(t, tabulate(s.b, [j2, k2, i2], flipped))


def outer_results() -> Program:
    """Loops whose results are not computed in them: a whole table, a literal, a parameter."""
    s = Sketch("outer_results")
    x, c = s.table("x", "d"), s.scalar("c")
    y = s.table("y", "n")
    i = s.index("i", "n")
    body = s.b.nested()
    twice = body.prim(p.ADD, body.index(y, i), body.index(y, i))
    return s.done(*s.b.loop([i], body.block(x, num(-0.0), c, twice, twice)), x, c, num(2.5))


def swapping_fold() -> Program:
    """Carries that swap, scalars and tables; outputs that are scalars, rows and carries."""
    s = Sketch("swapping_fold")
    x, y = s.table("x", "n", "d"), s.table("y", "d")
    i, j = s.index("i", "n"), s.index("j", "d")
    a, b = Var("a", F64), Var("b", F64)
    u, v = Var("u", y.type), Var("v", y.type)
    first = s.b.index(x, int_lit(0), int_lit(0), bounds=Bounds.UNCHECKED)
    body = s.b.nested()
    row = body.index(x, i)
    mixed = tabulate(
        body, [j], lambda q: q.prim(p.ADD, q.index(row, j), q.prim(p.MUL, a, q.index(u, j)))
    )
    step = body.prim(p.SUB, b, first)
    block = body.block(b, step, v, mixed, step, mixed, u, row)
    fold = Fold(i, True, (a, b, u, v), (num(1.0), num(2.0), y, y), block)
    return s.done(*s.b.emit(fold))


def fold_in_loop() -> Program:
    """In each iteration a fold whose carried table and outputs live in scratch."""
    s = Sketch("fold_in_loop")
    x, y = s.table("x", "n", "d"), s.table("y", "d")
    i, t, j = s.index("i", "n"), s.index("t", "d"), s.index("j", "d")
    carry, total = Var("state", y.type), Var("total", F64)

    def element(o: Builder) -> Atom:
        body = o.nested()
        scale = body.index(x, i, t)
        moved = tabulate(
            body, [j], lambda q: q.prim(p.SUB, q.index(carry, j), q.prim(p.MUL, scale, num(0.5)))
        )
        more = body.prim(p.ADD, total, body.index(moved, t))
        fold = Fold(t, False, (carry, total), (y, num(0.0)), body.block(moved, more, more))
        last, _, history = o.emit(fold)
        j2 = s.index("j", "d")
        return reduce(
            o, [j2], lambda q: q.prim(p.MUL, q.index(last, j2), q.index(history, j2)), Monoid.MAX
        )

    return s.done(tabulate(s.b, [i], element))


def collatz() -> Program:
    """While loops: one for each element, and one on the spine with a carried table."""
    s = Sketch("collatz")
    x, y = s.table("x", "n", elem=I64), s.table("y", "d")
    i = s.index("i", "n")

    def steps(o: Builder) -> Atom:
        a, count = Var("a", I64), Var("count", I64)
        test, body = o.nested(), o.nested()
        go_on = test.prim(p.NE, a, int_lit(1))
        odd = body.prim(p.EQ, body.prim(p.MOD, a, int_lit(2)), int_lit(1))
        up = body.prim(p.ADD, body.prim(p.MUL, a, int_lit(3)), int_lit(1))
        a_next = body.prim(p.SELECT, odd, up, body.prim(p.FLOORDIV, a, int_lit(2)))
        more = body.prim(p.ADD, count, int_lit(1))
        loop = While((a, count), (o.index(x, i), int_lit(0)), test.block(go_on),
                     body.block(a_next, more))  # fmt: skip
        return o.emit(loop)[1]

    counts = tabulate(s.b, [i], steps)
    v, rounds, j = Var("v", y.type), Var("rounds", I64), s.index("j", "d")
    test, body = s.b.nested(), s.b.nested()
    go_on = test.prim(p.LT, rounds, int_lit(3))
    halved = tabulate(body, [j], lambda q: q.prim(p.MUL, q.index(v, j), num(0.5)))
    more = body.prim(p.ADD, rounds, int_lit(1))
    loop = While((v, rounds), (y, int_lit(0)), test.block(go_on), body.block(halved, more))
    return s.done(counts, *s.b.emit(loop))


def branches() -> Program:
    """Branches that give tables and scalars: one made there, one from outside, nested."""
    s = Sketch("branches")
    x, y = s.table("x", "n", "d"), s.table("y", "d")
    i = s.index("i", "n")

    def row(o: Builder) -> tuple[Atom, ...]:
        j = s.index("j", "d")
        view = o.index(x, i)
        top = reduce(o, [j], lambda q: q.index(view, j), Monoid.MAX)
        then, orelse = o.nested(), o.nested()
        j2 = s.index("j", "d")
        made = tabulate(then, [j2], lambda q: q.prim(p.NEG, q.index(view, j2)))
        inner = orelse.prim(p.LT, top, num(-0.5))
        yes, no = orelse.nested(), orelse.nested()
        chosen = orelse.emit(Cond(inner, yes.block(view, num(1.0)), no.block(y, num(2.0))))
        pred = o.prim(p.LT, num(0.5), top)
        return o.emit(Cond(pred, then.block(made, top), orelse.block(*chosen)))

    inner = s.b.nested()
    results = row(inner)
    loop = s.b.loop([i], inner.block(*results))
    pred = s.b.prim(p.LT, s.b.index(y, int_lit(0)), num(0.0))
    return s.done(*loop, *s.b.emit(Cond(pred, s.b.nested().block(y), s.b.nested().block(y))))


def computed_size() -> Program:
    """A size computed on the spine: the table after it, loops over it, a view at it."""
    s = Sketch("computed_size")
    x, k = s.table("x", "n", "d"), s.scalar("k", I64)
    size = s.b.prim(p.ADD, s.b.prim(p.MUL, k, int_lit(2)), int_lit(1), name="size")
    i, j = index_var("i", size), index_var("j", size)
    squares = tabulate(
        s.b, [i], lambda q: q.prim(p.CAST[F64], q.prim(p.MUL, q.ordinal(i), q.ordinal(i)))
    )
    row = s.b.index(x, k, bounds=Bounds.CHECKED)
    m = s.index("m", "d")
    carry = Var("carry", F64)
    body = s.b.nested()
    step = body.prim(p.ADD, carry, body.index(squares, j))
    total, sums = s.b.emit(Fold(j, False, (carry,), (num(0.0),), body.block(step, step)))
    scaled = tabulate(s.b, [m], lambda q: q.prim(p.MUL, q.index(row, m), total))
    k2 = index_var("k", size)
    mean = reduce(s.b, [k2], lambda q: q.prim(p.MUL, q.index(squares, k2), q.index(sums, k2)))
    return s.done(mean, row, scaled, size)


def narrow_types() -> Program:
    """Sums and tables of f32, i8, u16 and bool, in loops, branches and folds."""
    s = Sketch("narrow_types")
    f, b = s.table("f", "n", elem=F32), s.table("b", "n", elem=BOOL)
    small, u = SCALARS["int8"], SCALARS["uint16"]
    i8, u16 = s.table("i8", "n", elem=small), s.table("u16", "n", elem=u)
    names = {"f": f, "i8": i8, "u16": u16}
    results: list[Atom] = []
    for table in names.values():
        i, i2 = s.index("i", "n"), s.index("i", "n")
        results.append(reduce(s.b, [i], lambda q, i=i, t=table: q.index(t, i)))  # type: ignore[misc]
        results.append(
            tabulate(
                s.b, [i2],
                lambda q, i=i2, t=table: q.prim(p.MUL, q.index(t, i), q.index(t, i)),  # type: ignore[misc]
            )
        )  # fmt: skip
    for monoid in (Monoid.AND, Monoid.OR):
        i = s.index("i", "n")
        results.append(reduce(s.b, [i], lambda q, i=i: q.index(b, i), monoid))  # type: ignore[misc]
    i, carry = s.index("i", "n"), Var("carry", small)
    body = s.b.nested()
    third = body.prim(p.MUL, carry, lit_like(3, small))
    results += s.b.emit(
        Fold(i, False, (carry,), (lit_like(5, small),), body.block(third, body.index(b, i)))
    )
    return s.done(*results)


FORMS: list[tuple[Callable[[], Program], Callable[[int], tuple[Any, ...]], float]] = [
    (map_rows, lambda n: (normal(n, 3), 2.5), 0.0),
    (three_axes, lambda n: (normal(n, 3), normal(4)), 0.0),
    (outer_results, lambda n: (normal(3), 0.5, normal(n)), 0.0),
    (fold_in_loop, lambda n: (normal(n, 3), normal(3)), 0.0),
    (collatz, lambda n: (np.arange(1, n + 1), normal(3)), 0.0),
    (branches, lambda n: (normal(n, 3), normal(3)), 0.0),
    (narrow_types, lambda n: (
        np.arange(n).astype("f4"), np.arange(n) % 3 == 0, np.arange(n).astype("i1"),
        (977 * np.arange(n)).astype("u2")), 1e-6),
]  # fmt: skip


@pytest.mark.parametrize("make, args, rtol", FORMS, ids=[make.__name__ for make, _, _ in FORMS])
def test_forms_equal_the_evaluator(
    make: Callable[[], Program], args: Callable[[int], tuple[Any, ...]], rtol: float
) -> None:
    for n in SIZES[:3]:
        assert_equals_evaluate(make(), *args(n), rtol=rtol)


def test_carries_that_swap_are_replaced_at_once() -> None:
    for n in (1, 2, 5):
        assert_equals_evaluate(swapping_fold(), normal(n, 3), normal(3))


def test_sizes_computed_on_the_spine() -> None:
    assert_equals_evaluate(computed_size(), normal(4, 3), 2)
    with pytest.raises(BoundsError, match="index 4 is out of bounds for axis 0 of `x`"):
        CompiledProgram(computed_size())(normal(4, 3), 4)


# --- accumulations ------------------------------------------------------------------------------


def accumulate_into(
    ref: Var, where: Callable[[Builder, Var, Var], tuple[Atom, ...]], s: Sketch, x: Var
) -> tuple[Var, ...]:
    """`ref[where(i, j)] += x[i, j]` in one parallel loop over i with an inner loop over j."""
    i, j = s.index("i", "n"), s.index("j", "d")
    body, loop, inner = s.b.nested(), s.b.nested(), s.b.nested()
    inner.accumulate(ref, where(inner, i, j), inner.index(x, i, j))
    loop.loop([j], inner.block())
    body.loop([i], loop.block())
    return s.b.emit(WithAcc((ref,), body.block()))


def into_vector(
    where: Callable[[Builder, Var, Var], tuple[Atom, ...]],
    axes: tuple[str, ...],
    monoid: Monoid = Monoid.ADD,
) -> Program:
    """A program whose only loop accumulates into a table with these axes."""
    s = Sketch("into_vector")
    x = s.table("x", "n", "d")
    s.known |= (
        {"bins": s.b.prim(p.ADD, s.known["n"], int_lit(0), name="bins")} if "bins" in axes else {}
    )
    dims = tuple(FinSet(s.known[axis], axis) for axis in axes)
    ref = Var("r", Ref(monoid, Table(dims, F64) if dims else F64))
    return s.done(*accumulate_into(ref, where, s, x))


def reversed_row(b: Builder, i: Var, j: Var) -> tuple[Atom, ...]:
    """The index that turns axis 0 round, in a form that no analysis understands."""
    size = i.type.set.size  # type: ignore[union-attr]
    return (b.prim(p.SUB, b.prim(p.SUB, size, int_lit(1)), b.ordinal(i)),)


ACCUMULATIONS: list[tuple[str, Program, Strategy]] = [
    ("rows", into_vector(lambda b, i, j: (i, j), ("n", "d")), Strategy.DIRECT),
    ("each", into_vector(lambda b, i, j: (i,), ("n",)), Strategy.DIRECT),
    ("ordinal", into_vector(lambda b, i, j: (b.ordinal(i),), ("n",)), Strategy.DIRECT),
    ("columns", into_vector(lambda b, i, j: (j, i), ("d", "n")), Strategy.DIRECT),
    ("scalar", into_vector(lambda b, i, j: (), ()), Strategy.REDUCTION),
    ("product", into_vector(lambda b, i, j: (), (), Monoid.MUL), Strategy.REDUCTION),
    ("smallest", into_vector(lambda b, i, j: (j,), ("d",), Monoid.MIN), Strategy.REDUCTION),
    ("sums", into_vector(lambda b, i, j: (j,), ("d",)), Strategy.REDUCTION),
    ("largest", into_vector(lambda b, i, j: (), (), Monoid.MAX), Strategy.REDUCTION),
    ("scattered", into_vector(reversed_row, ("n",)), Strategy.PRIVATE),
]


@pytest.mark.parametrize("program, strategy", [x[1:] for x in ACCUMULATIONS],
                         ids=[x[0] for x in ACCUMULATIONS])  # fmt: skip
def test_accumulations_of_each_kind(program: Program, strategy: Strategy) -> None:
    run = CompiledProgram(program)
    made = [x.strategy for x in run.compiled.decisions if x.strategy is not Strategy.STRIPS]
    assert made == [Strategy.PARALLEL, strategy]
    for n in SIZES:
        x = RNG.uniform(0.9999, 1.0001, (n, 3))
        results = []
        for count in (1, 2, 4):
            with threads(count):
                results.append(run(x)[0])
        assert_same(results[1], results[0])
        assert_same(results[2], results[0])
        np.testing.assert_allclose(results[0], evaluate(program, (x,))[0], rtol=REASSOCIATED)


def test_accumulators_of_the_spine_meet_loops_and_serial_code() -> None:
    """One scalar and one table: a loop, serial code, a fold, a loop again, in that order."""
    s = Sketch("mixed")
    x, c = s.table("x", "n", elem=I64), s.scalar("c", I64)
    total, bins = Var("total", Ref(Monoid.ADD, I64)), Var("bins", Ref(Monoid.MAX, x.type))  # type: ignore[arg-type]
    unused = Var("unused", Ref(Monoid.MIN, x.type))  # type: ignore[arg-type]
    body = s.b.nested()

    def loop(indexed: bool) -> None:
        i, inner = s.index("i", "n"), s.b.nested()
        inner.accumulate(total, (), inner.index(x, i))
        inner.accumulate(bins, (i if indexed else c,), inner.index(x, i), Bounds.CHECKED)
        body.loop([i], inner.block())

    loop(indexed=True)
    body.accumulate(total, (), c)
    body.accumulate(bins, (c,), int_lit(99), Bounds.CHECKED)
    i, carry = s.index("i", "n"), Var("carry", I64)
    fold = s.b.nested()
    fold.accumulate(total, (), carry)
    fold.accumulate(bins, (i,), carry)
    doubled = fold.prim(p.ADD, carry, carry)
    last = body.emit(Fold(i, False, (carry,), (c,), fold.block(doubled)))
    loop(indexed=False)
    program = s.done(*s.b.emit(WithAcc((total, bins, unused), body.block(*last))))
    assert_equals_evaluate(program, np.array([5, -3, 7, 0, 9]), 2)


def test_a_table_is_accumulated_into_part_of_a_table() -> None:
    s = Sketch("rows")
    x = s.table("x", "n", "d")
    i = s.index("i", "n")
    ref = Var("r", Ref(Monoid.ADD, Table((FinSet(s.known["d"]),), F64)))
    body, loop = s.b.nested(), s.b.nested()
    loop.accumulate(ref, (), loop.index(x, i))
    body.loop([i], loop.block())
    exact = np.arange(15.0).reshape(5, 3) / 8  # blocks round where single additions would not
    assert_equals_evaluate(s.done(*s.b.emit(WithAcc((ref,), body.block()))), exact)


def test_order_is_kept_in_folds() -> None:
    """The terms differ so much that another order gives another sum."""
    s = Sketch("ordered")
    x, n = s.table("x", "n", "d"), s.index("i", "n")
    t = s.index("t", "d")

    def ordered(o: Builder) -> Atom:
        ref = Var("r", Ref(Monoid.ADD, F64))
        body, fold = o.nested(), o.nested()
        fold.accumulate(ref, (), fold.index(x, n, t))
        body.emit(Fold(t, True, (), (), fold.block()))
        return o.emit(WithAcc((ref,), body.block()))[0]

    given_x = RNG.normal(size=(3, 100)) * 10.0 ** RNG.integers(-9, 9, 100)
    (found,) = CompiledProgram(s.done(tabulate(s.b, [n], ordered)))(given_x)
    in_order = np.zeros(3)
    for column in given_x.T[::-1]:
        in_order = in_order + column
    assert_same(found, in_order)


# --- results ------------------------------------------------------------------------------------


def test_results_do_not_share_memory() -> None:
    s = Sketch("same")
    x = s.table("x", "n")
    i = s.index("i", "n")
    y = tabulate(s.b, [i], lambda q: q.prim(p.NEG, q.index(x, i)))
    given_x = normal(4)
    found = CompiledProgram(s.done(x, y, y))(given_x)
    assert [np.shares_memory(found[a], found[b]) for a, b in [(0, 1), (1, 2), (0, 2)]] == [
        False
    ] * 3
    assert not np.shares_memory(found[0], given_x)
    for result, expected in zip(found, [given_x, -given_x, -given_x], strict=True):
        assert_same(result, expected)


# --- failures -----------------------------------------------------------------------------------


def failure(program: Program, *args: Any) -> PeffectsError:
    """What compiled code raises: with any number of threads what the evaluator raises."""
    run, caught = CompiledProgram(program), []
    for count in (1, 2, 4):
        with threads(count), pytest.raises(PeffectsError) as info:
            run(*args)
        caught.append(info.value)
    with pytest.raises(PeffectsError) as expected:
        evaluate(program, args)
    for error in caught:
        assert type(error) is type(expected.value)
        assert str(error) == str(expected.value)
    return caught[0]


def checked_gather() -> Program:
    """out[i] = y[x[i]], tested; and a check with two operands."""
    s = Sketch("gather")
    x, y = s.table("x", "n", elem=I64), s.table("y", "m")
    i = s.index("i", "n")
    body = s.b.nested()
    body.at = HERE
    value = body.index(y, body.index(x, i), bounds=Bounds.CHECKED)
    ok = body.prim(p.LT, value, num(9.0))
    text = "{{x}} of {1} is {0:.2f}, not below {2}."
    body.emit(Check(ok, ValueRangeError, text, (value, body.ordinal(i), num(9.0)), "Mind it."))
    return s.done(*s.b.loop([i], body.block(value)))


def test_the_first_failing_iteration_is_told() -> None:
    n, m = 200_003, 5
    x = RNG.integers(0, m, n)
    x[[170_000, 90_001, 150_000]] = [m + 1, m, -1]
    error = failure_of_large(x, normal(m))
    assert error.what == "index 5 is out of bounds for axis 0 of `y` with size 5."
    assert error.at == HERE


def failure_of_large(x: Any, y: Any) -> PeffectsError:
    """As `failure`, without the evaluator, which takes a second for this many iterations."""
    run = CompiledProgram(checked_gather())
    caught = []
    for count in (1, 2, 4):
        with threads(count), pytest.raises(BoundsError) as info:
            run(x, y)
        caught.append(info.value)
    assert len({str(error) for error in caught}) == 1
    return caught[0]


@pytest.mark.parametrize("index", [5, -1, 2**62, -(2**63)])
def test_indices_out_of_bounds_fail(index: int) -> None:
    failure(checked_gather(), np.array([0, 4, index, 7]), normal(5))


def test_checks_tell_their_operands() -> None:
    error = failure(checked_gather(), np.array([0, 1, 2]), np.array([1.0, 9.125, 10.0]))
    assert error.what == "{x} of 1 is 9.12, not below 9.0."
    assert (error.at, error.fix) == (HERE, "Mind it.")


def test_both_operands_of_a_check_may_be_floats() -> None:
    s = Sketch("two_floats")
    x, y = s.scalar("x"), s.scalar("y", F32)
    s.b.emit(Check(Lit(False, BOOL), ValueRangeError, "{1} and {0}", (x, y)))
    assert failure(s.done(x), 2.5, 0.25).what == "0.25 and 2.5"


def test_a_check_of_too_many_values_is_an_error_of_ours() -> None:
    s = Sketch("many")
    shown = tuple(s.scalar(f"x{k}") for k in range(MOST_OPERANDS + 1))
    s.b.emit(Check(Lit(False, BOOL), ValueRangeError, "", shown))
    with pytest.raises(InternalError, match="shows 15 values"):
        compile_cpu(s.done(shown[0]))


def test_branches_that_are_not_taken_do_not_fail() -> None:
    s = Sketch("guarded")
    x, y = s.table("x", "n", elem=I64), s.table("y", "m")
    i = s.index("i", "n")

    def element(o: Builder) -> Atom:
        at = o.index(x, i)
        then, orelse = o.nested(), o.nested()
        inside = o.prim(p.LT, at, s.known["m"])
        found = then.index(y, at, bounds=Bounds.CHECKED)
        return o.emit(Cond(inside, then.block(found), orelse.block(num(0.0))))[0]

    program = s.done(tabulate(s.b, [i], element))
    assert_equals_evaluate(program, np.array([0, 7, 2, 1000]), normal(3))
    failure(program, np.array([0, 7, -2]), normal(3))


def test_nothing_is_accumulated_before_a_failure_is_told() -> None:
    program = programs.histogram()
    error = failure(program, np.array([0.5, np.nan, 7.0]), normal(3))
    assert error.what == f"index {-(2**63)} is out of bounds for axis 0 of `h` with size 4."


def test_a_table_of_unknown_size_in_a_loop_is_refused() -> None:
    s = Sketch("unbounded")
    x = s.table("x", "n", elem=I64)
    i = s.index("i", "n")

    def element(o: Builder) -> Atom:
        size = o.index(x, i, bounds=Bounds.PROVED)
        j, j2 = index_var("j", size), index_var("j", size)
        t = tabulate(o, [j], lambda q: q.ordinal(j))
        return reduce(o, [j2], lambda q: q.index(t, j2))

    b = s.b
    b.at = HERE
    program = s.done(tabulate(b, [i], element))
    with pytest.raises(UnboundedTableError, match="the size of the table `t`") as info:
        compile_cpu(program)
    assert info.value.at == HERE
    assert "min(size, n)" in info.value.fix
