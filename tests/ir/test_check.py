"""The checker finds what a wrong pass does; the printer shows programs; renaming keeps meaning."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from programs import (
    Sketch,
    guarded_norm,
    log_likelihood,
    matmul,
    num,
    reduce,
    running_sums,
    triangle,
)

from peffects.errors import InternalError
from peffects.ir import primitives as p
from peffects.ir.builder import index_var, int_lit
from peffects.ir.check import check_program
from peffects.ir.evaluate import evaluate
from peffects.ir.print import print_program
from peffects.ir.rename import refresh, substitute
from peffects.ir.syntax import (
    BOOL,
    F64,
    I64,
    Accumulate,
    Binding,
    Block,
    Bounds,
    Cond,
    Expr,
    Fold,
    For,
    Index,
    Lit,
    Monoid,
    Prim,
    Program,
    Ref,
    Table,
    Var,
    WithAcc,
)
from peffects.ir.traverse import accumulated_refs, can_fail, free_vars

X = Var("x", F64)
R = Var("r", Ref(Monoid.ADD, F64))
Y = Var("y", F64)
I = index_var("i", int_lit(3))  # noqa: E741


def program(*bindings: Binding, results: tuple[Var, ...] = ()) -> Program:
    return Program("broken", (), (X,), (), Block(bindings, results))


BROKEN: dict[str, tuple[Program, str]] = {
    "not in scope": (program(results=(Y,)), "not in scope"),
    "bound twice": (
        program(*(Binding((Y,), Prim(p.NEG, (X,))) for _ in range(2))), "bound twice",
    ),
    "wrong type": (program(Binding((Var("k", I64),), Prim(p.NEG, (X,)))), "is bound to"),
    "escaping reference": (
        program(Binding((Y, Var("z", F64)), WithAcc((R,), Block((), (R,))))), "escapes",
    ),
    "reference outside its region": (
        program(Binding((), Accumulate(R, (), X, Bounds.PROVED))), "not in scope",
    ),
    "condition of a number": (
        program(Binding((), Cond(X, Block((), ()), Block((), ())))), "is no bool",
    ),
    "branches of two types": (
        program(
            Binding((Y,), Cond(Lit(True, BOOL), Block((), (X,)), Block((), (int_lit(1),))))
        ),
        "branches give",
    ),
    "index of a number": (
        program(Binding((Y,), Index(X, (int_lit(0),), Bounds.CHECKED))), "is no table",
    ),
    "carry of another type": (
        program(Binding((Y,), Fold(I, False, (Y,), (int_lit(0),), Block((), (X,))))), "carries",
    ),
    "loop without an index": (program(Binding((), For((), Block((), ())))), "without an index"),
    "accumulating an integer into floats": (
        program(
            Binding(
                (Var("z", F64),),
                WithAcc((R,), Block(
                    (Binding((), Accumulate(R, (), int_lit(1), Bounds.PROVED)),), ()
                )),
            )
        ),
        "takes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_programs_are_found(name: str) -> None:
    broken, message = BROKEN[name]
    with pytest.raises(InternalError, match=message) as info:
        check_program(broken, "the test")
    assert "the test" in str(info.value)


def test_ragged_results_are_refused() -> None:
    """A table whose inner size depends on the loop's index has no type yet."""
    s = Sketch("ragged")
    s.table("x", "n")
    i = s.index("i", "n")
    inner = s.b.nested()
    j = index_var("j", inner.ordinal(i))
    (row,) = inner.loop([j], inner.nested().block(num(0.0)))
    s.b.bindings.append(
        Binding(
            (Var("t", Table((i.type.set, row.type.dims[0]), F64)),),  # type: ignore[union-attr]
            For((i,), inner.block(row)),
        )
    )
    with pytest.raises(InternalError, match="bound inside the block"):
        s.done()


PROGRAMS = [matmul, log_likelihood, running_sums, guarded_norm, triangle]


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_printed_programs(make: Callable[[], Program], golden: Callable[..., None]) -> None:
    golden(print_program(make()), make.__name__)


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_canonical_text_forgets_names_and_serials(make: Callable[[], Program]) -> None:
    first, second = (print_program(make(), canonical=True) for _ in range(2))
    assert first == second
    assert make.__name__ not in first


def test_canonical_text_keeps_what_matters() -> None:
    def text(value: float) -> str:
        s = Sketch("f")
        return print_program(s.done(s.b.prim(p.ADD, s.scalar("x"), num(value))), canonical=True)

    assert len({text(0.0), text(-0.0), text(float("nan")), text(1.0)}) == 4


def test_refreshed_blocks_share_no_bound_variable_and_mean_the_same() -> None:
    original = running_sums()
    copy = refresh(original.body)
    bound = {v for b in original.body.bindings for v in b.vars}
    assert not bound & {v for b in copy.bindings for v in b.vars}
    renewed = Program("copy", original.sizes, original.params, original.facts, copy)
    x = np.array([0.1, 0.2, 0.3])
    assert evaluate(check_program(renewed), [x]) == evaluate(original, [x])


def test_substitution_reaches_types() -> None:
    s = Sketch("f")
    x = s.table("x", "n")
    i = s.index("i", "n")
    body = s.done(reduce(s.b, [i], lambda o: o.index(x, i))).body
    replaced = substitute(body, {s.known["n"]: int_lit(4)})
    assert s.known["n"] not in free_vars(replaced)


def test_what_may_fail_and_what_writes() -> None:
    update: Expr = Accumulate(R, (), X, Bounds.PROVED)
    region = WithAcc((R,), Block((Binding((), update),), ()))
    assert list(accumulated_refs(Block((Binding((), update),), ()))) == [R]
    assert not can_fail(update)
    assert not can_fail(region)
    checked = Index(Var("t", Table((I.type.set,), F64)), (int_lit(0),), Bounds.CHECKED)  # type: ignore[union-attr]
    assert can_fail(checked)
