"""Where lowering puts values: carries that depend on each other, tables that share or lack a start.

Programs whose compiled code would be wrong if two values met in one place, by hand and small.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from compiled import CompiledProgram, assert_equals_evaluate
from programs import Sketch, num, tabulate

from peffects.codegen.launch.cpu import compile_cpu
from peffects.codegen.lower.accumulate import Strategy
from peffects.ir import primitives as p
from peffects.ir.builder import index_var, int_lit, lit_like
from peffects.ir.syntax import F32, F64, Atom, Bounds, Fold, Program, Ref, Var, WithAcc
from peffects.ir.syntax import Monoid as M


def fold_of_numbers(swap: bool) -> Program:
    """`a, b = b, a`, or `a, b = b, a - b`: the second reads what the first sets."""
    s = Sketch("numbers")
    x = s.table("x", "n")
    i, a, b = s.index("i", "n"), Var("a", F64), Var("b", F64)
    body = s.b.nested()
    second: Atom = a if swap else body.prim(p.SUB, a, b)
    fold = Fold(i, False, (a, b), (num(1.0), num(2.0)), body.block(b, second, body.index(x, i)))
    return s.done(*s.b.emit(fold))


@pytest.mark.parametrize("swap", [True, False])
def test_numbers_that_a_step_exchanges(swap: bool) -> None:
    for n in (0, 1, 2, 5):
        assert_equals_evaluate(fold_of_numbers(swap), np.arange(float(n)))


def test_a_table_that_is_carried_and_collected() -> None:
    """What is overwritten in its place is also a row of a result."""
    s = Sketch("collected")
    x, start = s.table("x", "n"), s.table("start", "m")
    i, carry = s.index("i", "n"), Var("carry", start.type)
    body = s.b.nested()
    new = body.update(carry, [int_lit(1)], body.index(x, i), Bounds.UNCHECKED)
    own = tabulate(s.b, [s.index("j", "m")], lambda q: num(0.5))
    fold = Fold(i, False, (carry,), (own,), body.block(new, new))
    assert_equals_evaluate(s.done(*s.b.emit(fold)), np.arange(4.0), np.ones(3))


def littered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let memory that is allocated hold something."""
    made = np.empty

    def empty(shape: Any, dtype: Any = float) -> Any:
        array = made(shape, dtype)
        array.view(np.uint8).fill(0x5A)
        return array

    monkeypatch.setattr(np, "empty", empty)


def sums_of_some(square: bool) -> Program:
    """Sums in a table of which a loop of fewer iterations fills a part."""
    s = Sketch("some")
    x, y = s.table("x", "n"), s.table("y", "m")
    i, body, loop = s.index("i", "n"), s.b.nested(), s.b.nested()
    ref = Var("r", Ref(M.ADD, y.type))  # type: ignore[arg-type]  # a table
    place: Atom = loop.prim(p.MUL, loop.ordinal(i), loop.ordinal(i)) if square else loop.ordinal(i)
    loop.accumulate(ref, (place,), loop.index(x, i), Bounds.CHECKED)
    body.loop([i], loop.block())
    return s.done(*s.b.emit(WithAcc((ref,), body.block())))


@pytest.mark.parametrize("square", [True, False])
def test_elements_that_no_iteration_adds_to_are_zero(
    square: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = CompiledProgram(sums_of_some(square))
    littered(monkeypatch)
    for n, m in ((3, 9), (0, 2), (3, 5)):
        expected = np.zeros(m)
        expected[[k * k if square else k for k in range(n)]] = np.arange(1.0, n + 1)
        np.testing.assert_array_equal(run(np.arange(1.0, n + 1), np.empty(m))[0], expected)


def test_an_iteration_that_adds_to_its_own_element_and_to_one_of_all_has_a_copy() -> None:
    s = Sketch("both")
    x = s.table("x", "n")
    i, body, loop = s.index("i", "n"), s.b.nested(), s.b.nested()
    ref = Var("r", Ref(M.ADD, x.type))  # type: ignore[arg-type]  # a table
    loop.accumulate(ref, (i,), loop.index(x, i))
    loop.accumulate(ref, (int_lit(0),), loop.index(x, i), Bounds.UNCHECKED)
    body.loop([i], loop.block())
    program = s.done(*s.b.emit(WithAcc((ref,), body.block())))
    assert [d.strategy for d in compile_cpu(program).decisions] == [
        Strategy.PARALLEL,
        Strategy.PRIVATE,
    ]
    assert_equals_evaluate(program, np.arange(5.0))


def test_sums_of_as_many_numbers_as_the_program_says_lose_nothing() -> None:
    """In f32 each one is lost beside 2^26, but not all of them together."""
    s = Sketch("known_length")
    x = s.table("x", "n", elem=F32)
    i, k = s.index("i", "n"), index_var("k", int_lit(1000), "k")
    ref = Var("r", Ref(M.ADD, F32))

    def element(q: Any) -> Atom:
        inner, loop = q.nested(), q.nested()
        inner.accumulate(ref, (), q.index(x, i))
        one = loop.prim(p.MUL, lit_like(1.0, F32), loop.prim(p.CAST[F32], loop.ordinal(k)))
        loop.accumulate(ref, (), loop.prim(p.MIN, one, lit_like(1.0, F32)))
        inner.loop([k], loop.block())
        return q.emit(WithAcc((ref,), inner.block()))[0]  # type: ignore[no-any-return]

    program = s.done(tabulate(s.b, [i], element))
    (found,) = CompiledProgram(program)(np.full(3, 2.0**26, "f4"))
    np.testing.assert_allclose(found, 2.0**26 + 999, rtol=1e-7)
