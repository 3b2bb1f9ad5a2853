"""All passes together: what becomes of gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from programs import (
    guarded_norm,
    histogram,
    largest,
    log_likelihood,
    matmul,
    running_product,
    running_sums,
    triangle,
)

from peffects.differentiate.programs import jvp_program, value_and_grad_program, vjp_program
from peffects.ir.evaluate import Work, evaluate
from peffects.ir.print import print_program
from peffects.ir.syntax import Binding, Block, For, Program, Table, Var
from peffects.ir.traverse import blocks_of, rebuild
from peffects.ir.typing import set_of
from peffects.optimize import pipeline
from peffects.optimize.passes import Pass, run
from peffects.optimize.pipeline import optimize
from peffects.source import SrcInfo

Golden = Callable[..., None]
SIZES = {"n": 4, "m": 3, "p": 2, "d": 3, "K": 2}
PROGRAMS: list[Callable[[], Program]] = [
    matmul, log_likelihood, histogram, running_product, running_sums, guarded_norm, largest,
    triangle,
]  # fmt: skip


def gradient() -> Program:
    return value_and_grad_program(log_likelihood(), [1, 2, 3])


def arguments(program: Program) -> list[Any]:
    rng = np.random.default_rng(0)
    sizes: dict[Any, int] = {size.var: SIZES[size.var.name] for size in program.sizes}
    shapes = [
        tuple(int(getattr(d.size, "value", sizes.get(d.size, 0))) for d in v.type.dims)
        if isinstance(v.type, Table)
        else ()
        for v in program.params
    ]
    return [rng.uniform(0.1, 3.9, size=shape) for shape in shapes]


def derivatives(make: Callable[[], Program]) -> list[Program]:
    program = make()
    which = range(len(program.params))
    return [program, jvp_program(program, which), vjp_program(program, which)]


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_derivatives_keep_their_values_and_cost_no_more(make: Callable[[], Program]) -> None:
    for program in derivatives(make):
        args = arguments(program)
        before, after = Work(), Work()
        expected = evaluate(program, args, work=before)
        found = evaluate(optimize(program), args, work=after)
        for value, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-13)
        assert after.operations <= before.operations
        assert after.accesses <= before.accesses


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_optimized_program_is_left_alone(make: Callable[[], Program]) -> None:
    for program in derivatives(make):
        once = optimize(program)
        assert print_program(optimize(once)) == print_program(once)


def binders_in(block: Block) -> Iterator[Var]:
    for binding in block.bindings:
        if isinstance(binding.expr, For):
            yield from binding.expr.binders
        for inner in blocks_of(binding.expr):
            yield from binders_in(inner)


def sources_in(block: Block) -> Iterator[SrcInfo]:
    for binding in block.bindings:
        yield binding.src
        for inner in blocks_of(binding.expr):
            yield from sources_in(inner)


def test_gradient_of_a_mixture_is_one_loop_over_the_data(golden: Golden) -> None:
    """Value and gradient, with the forward part once: three loops over K in it, two over d."""
    after = optimize(gradient())
    golden(print_program(after))
    assert [set_of(i).label for i in binders_in(after.body)].count("n") == 1
    args = [np.random.default_rng(0).normal(size=shape) for shape in [(9, 3), (2,), (2, 3), (2, 3)]]
    value, both = Work(), Work()
    evaluate(optimize(log_likelihood()), args, work=value)
    evaluate(after, args, work=both)
    assert both.operations < 2 * value.operations


def test_labels_of_index_sets_survive() -> None:
    labels = {set_of(i).label for i in binders_in(optimize(gradient()).body)}
    assert labels == {"n", "K", "d"}


def test_user_lines_survive() -> None:
    """A program whose bindings all have one line has no other line afterwards."""
    line = SrcInfo("model.py", 7)

    def at_line(block: Block) -> Block:
        return Block(
            tuple(
                Binding(b.vars, rebuild(b.expr, lambda a: a, lambda v: v, at_line), line)
                for b in block.bindings
            ),
            block.results,
        )

    program = gradient()
    after = optimize(replace(program, body=at_line(program.body)))
    assert set(sources_in(after.body)) == {line}


def test_passes_run_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Optimizing is part of each first call: no pass is asked again about what it left alone."""
    asked: list[tuple[str, Program]] = []

    def counted(name: str, transform: Pass, program: Program, *options: Any) -> Program:
        asked.append((name, program))
        return run(name, transform, program, *options)

    monkeypatch.setattr(pipeline, "run", counted)
    program = gradient()
    optimize(program)
    assert len(asked) <= 25
    assert len({(name, id(program)) for name, program in asked}) == len(asked)
