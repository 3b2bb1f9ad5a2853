"""The source of kernels: golden texts, and what it may and may not depend on."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import programs
import pytest
from compiled import CompiledProgram, assert_equals_evaluate
from programs import Sketch, num, reduce, tabulate

from peffects.codegen.launch.cpu import compile_cpu
from peffects.codegen.launch.launcher import launch_options
from peffects.codegen.program.loop_programs import TICK_STRIDE
from peffects.errors import LaunchTimeoutError
from peffects.ir import primitives as p
from peffects.ir.builder import Builder, index_var
from peffects.ir.rename import refresh
from peffects.ir.syntax import (
    F64,
    I64,
    Atom,
    Fold,
    Monoid,
    Program,
    Ref,
    Var,
    While,
    WithAcc,
)
from peffects.source import SrcInfo


def mixture_gradient() -> Program:
    """The log-likelihood of a mixture and its gradient, forward and reverse in one loop."""
    s = Sketch("mixture_gradient")
    x, norm = s.table("x", "n", "d"), s.table("norm", "K")
    mean, precision = s.table("mean", "K", "d"), s.table("precision", "K", "d")
    ct_norm, ct_mean, ct_precision = (
        Var(f"ct_{v.name}", Ref(Monoid.ADD, v.type))  # type: ignore[arg-type]
        for v in (norm, mean, precision)
    )
    ll = Var("ll", Ref(Monoid.ADD, F64))
    n, o = s.index("n", "n"), s.b.nested()

    def component(q: Builder, k: Var) -> Atom:
        j = s.index("j", "d")

        def square(r: Builder) -> Atom:
            diff = r.prim(p.SUB, r.index(x, n, j), r.index(mean, k, j))
            return r.prim(p.MUL, r.prim(p.MUL, diff, diff), r.index(precision, k, j))

        return q.prim(p.SUB, q.index(norm, k), q.prim(p.MUL, num(0.5), reduce(q, [j], square)))

    k1, k2, k3, k4, k = (s.index("k", "K") for _ in range(5))
    t = tabulate(o, [k1], lambda q: component(q, k1))
    top = reduce(o, [k2], lambda q: q.index(t, k2), Monoid.MAX)
    e = tabulate(o, [k3], lambda q: q.prim(p.EXP, q.prim(p.SUB, q.index(t, k3), top)))
    total = reduce(o, [k4], lambda q: q.index(e, k4))
    o.accumulate(ll, (), o.prim(p.ADD, top, o.prim(p.LOG, total)))
    body, j = o.nested(), s.index("j", "d")
    weight = body.prim(p.DIV, body.index(e, k), total, name="weight")
    body.accumulate(ct_norm, (k,), weight)
    inner = body.nested()
    diff = inner.prim(p.SUB, inner.index(x, n, j), inner.index(mean, k, j), name="diff")
    pull = inner.prim(p.MUL, weight, diff, name="pull")
    inner.accumulate(ct_mean, (k, j), inner.prim(p.MUL, pull, inner.index(precision, k, j)))
    half = inner.prim(p.MUL, num(-0.5), pull)
    inner.accumulate(ct_precision, (k, j), inner.prim(p.MUL, half, diff))
    body.loop([j], inner.block())
    o.loop([k], body.block())
    outer = s.b.nested()
    outer.loop([n], o.block())
    return s.done(*s.b.emit(WithAcc((ll, ct_norm, ct_mean, ct_precision), outer.block())))


@pytest.mark.parametrize("make", [mixture_gradient, programs.triangle, programs.histogram])
def test_source(make: Callable[[], Program], golden: Callable[..., None]) -> None:
    golden(compile_cpu(make()).source, make.__name__)


def test_mixture_gradient_equals_numpy() -> None:
    rng = np.random.default_rng(1)
    x, norm, mean = rng.normal(size=(300, 5)), rng.normal(size=4), rng.normal(size=(4, 5))
    precision = rng.uniform(0.5, 2.0, (4, 5))
    diff = x[:, None, :] - mean
    t = norm - 0.5 * (diff**2 * precision).sum(-1)
    top = t.max(1, keepdims=True)
    e = np.exp(t - top)
    w = e / e.sum(1, keepdims=True)
    expected = (
        (top[:, 0] + np.log(e.sum(1))).sum(),
        w.sum(0),
        (w[:, :, None] * diff * precision).sum(0),
        (-0.5 * w[:, :, None] * diff**2).sum(0),
    )
    for found, value in zip(
        CompiledProgram(mixture_gradient())(x, norm, mean, precision), expected, strict=True
    ):
        np.testing.assert_allclose(found, value, rtol=1e-11)


# --- what the source depends on -------------------------------------------------------------------


def test_source_depends_on_no_serial_numbers_and_no_lines() -> None:
    program = mixture_gradient()
    moved = [replace(b, src=SrcInfo("models/model.py", 40)) for b in program.body.bindings]
    again = replace(mixture_gradient(), body=replace(program.body, bindings=tuple(moved)))
    again = replace(again, sizes=program.sizes, params=program.params)
    assert compile_cpu(again).source == compile_cpu(program).source
    fresh = replace(program, body=refresh(program.body))
    assert compile_cpu(fresh).source == compile_cpu(program).source


def test_the_annotated_source_shows_lines_and_is_the_same_code() -> None:
    s = Sketch("lines")
    x = s.table("x", "n")
    i, body = s.index("i", "n"), s.b.nested()
    body.at = SrcInfo("models/model.py", 3)
    y = body.prim(p.EXP, body.index(x, i))
    body.at = SrcInfo("models/model.py", 4)
    compiled = compile_cpu(s.done(*s.b.loop([i], body.block(y, body.prim(p.NEG, y)))))
    assert "# model.py:3\n" in compiled.annotated
    assert "# model.py:4\n" in compiled.annotated
    assert "model.py" not in compiled.source
    assert ast.dump(ast.parse(compiled.annotated)) == ast.dump(ast.parse(compiled.source))


@pytest.mark.parametrize(
    "hint",
    ["for", "2nd", "chunk", "load_f64_0", "x_at", "i64", "exp", "select", "tick", "é", "", "a.b"],
)
def test_names_that_cannot_be_used_are_changed(hint: str) -> None:
    s = Sketch(hint or "empty")
    x = s.table(hint or "x", "n")
    i = s.index(hint, "n")
    body = s.b.nested()
    value = body.index(x, i)
    twice = body.prim(p.ADD, value, value, name=hint)
    program = s.done(*s.b.loop([i], body.block(twice, twice), (hint, hint)))
    assert_equals_evaluate(program, np.arange(3.0))


def test_programs_may_have_more_tables_than_alias_scopes() -> None:
    s = Sketch("many")
    x = s.table("x", "n")
    results: list[Atom] = []
    i, body = s.index("i", "n"), s.b.nested()
    value: Atom = body.index(x, i)
    for _ in range(70):
        value = body.prim(p.ADD, value, num(1.0))
        results.append(value)
    assert_equals_evaluate(s.done(*s.b.loop([i], body.block(*results))), np.arange(5.0))


# --- polling and counting -------------------------------------------------------------------------


def test_loops_that_never_end_can_be_stopped() -> None:
    s = Sketch("endless")
    x = s.table("x", "n")
    i = s.index("i", "n")

    def spin(o: Builder) -> Atom:
        v = Var("v", F64)
        test, body = o.nested(), o.nested()
        go_on = test.prim(p.LT, v, num(np.inf))
        half = body.prim(p.MUL, v, num(0.5))
        return o.emit(While((v,), (o.index(x, i),), test.block(go_on), body.block(half)))[0]

    run = CompiledProgram(s.done(tabulate(s.b, [i], spin)))
    with launch_options(timeout_s=0.1), pytest.raises(LaunchTimeoutError):
        run(np.ones(3))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("inner_loop", [False, True])
def test_long_folds_can_be_stopped(reverse: bool, inner_loop: bool) -> None:
    s = Sketch("long")
    x, steps = s.table("x", "n"), s.scalar("steps", I64)
    i, carry, body = index_var("i", steps), Var("v", F64), s.b.nested()
    value: Atom = body.prim(p.SIN, carry)
    if inner_loop:
        j = s.index("j", "n")
        value = body.prim(p.ADD, value, reduce(body, [j], lambda q: q.index(x, j)))
    fold = Fold(i, reverse, (carry,), (num(1.0),), body.block(value))
    run = CompiledProgram(s.done(*s.b.emit(fold)))
    with launch_options(timeout_s=0.1), pytest.raises(LaunchTimeoutError):
        run(np.ones(3), 10**12)


def test_decisions_say_what_runs_how() -> None:
    (loop, accumulation) = compile_cpu(programs.histogram()).decisions
    assert (loop.strategy.value, loop.subject) == ("parallel loop", "for i")
    assert (accumulation.strategy.value, accumulation.subject) == ("private copies", "h +=")
    assert "each chunk has its own copy" in accumulation.reason
    (product, _, strips) = compile_cpu(programs.matmul()).decisions
    assert (product.strategy.value, product.subject) == ("matrix product", "for i, j, k")
    assert "rows i, columns j, sums over k" in product.reason
    assert (strips.strategy.value, strips.subject) == ("strips", "for i, j")
    (fold, *_) = compile_cpu(programs.running_sums()).decisions
    assert (fold.strategy.value, fold.subject) == ("serial", "fold")


@pytest.mark.parametrize("make", [programs.matmul, programs.histogram, programs.triangle])
def test_every_iteration_is_counted(make: Callable[[], Program]) -> None:
    """Each of these programs has one parallel loop; its chunks count all its iterations."""
    args: dict[str, tuple[Any, ...]] = {
        "matmul": (np.ones((7, 3)), np.ones((3, 5))),
        "histogram": (np.linspace(0, 3, 11), np.ones(11)),
        "triangle": (np.ones(9),),
    }
    counts = {"matmul": 35, "histogram": 11, "triangle": 9}
    run = CompiledProgram(make())
    run(*args[make.__name__])
    (workspace,) = run.executable._idle
    assert workspace.ticks[::TICK_STRIDE].sum() == counts[make.__name__]
