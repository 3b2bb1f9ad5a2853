"""The passes in their order: what runs between derivatives and lowering.

Each pass may make room for another, so they run in rounds until none finds anything; a pass that
left a program as it was is not asked again about the same program.
"""

from __future__ import annotations

from peffects.ir.syntax import Program
from peffects.optimize.common_subexpressions import common_subexpressions
from peffects.optimize.contract import contract
from peffects.optimize.dead_code import dead_code
from peffects.optimize.fuse_loops import fuse_loops
from peffects.optimize.hoist import hoist
from peffects.optimize.inline_tables import inline_tables
from peffects.optimize.passes import Pass, PassResult, run
from peffects.optimize.simplify import simplify
from peffects.optimize.split_products import split_products

ROUNDS = 4

PASSES: tuple[tuple[str, Pass], ...] = (
    ("simplify", simplify),  # fewer forms for all that follow; takes away copies
    ("common_subexpressions", common_subexpressions),  # equal reductions must be one before fusion
    ("dead_code", dead_code),  # unused results would keep loops alive and tables stored
    ("contract", contract),  # an adjoint that is a loop's result can be inlined and fused
    ("inline_tables", inline_tables),  # a table with one reader is not made; what is left may fuse
    ("fuse_loops", fuse_loops),  # brings the copies of the forward part into one body
    ("hoist", hoist),  # last: it moves whole loops, which fusion and sharing have made few
)

LAST: tuple[tuple[str, Pass], ...] = (
    ("split_products", split_products),  # takes apart what fusion has brought together
    ("common_subexpressions", common_subexpressions),  # one product for value and derivative
    ("dead_code", dead_code),  # what is left of loops whose products are elsewhere
)
"""These run once, when the rounds are over; the others where the first has found something."""


def optimize(program: Program, steps: list[PassResult] | None = None) -> Program:
    """The program with its meaning unchanged, loops fused, nothing computed twice or in vain.

    `steps` gets each pass that changed the program, with the program before and after it.
    """
    clean: dict[str, Program] = {}
    for _ in range(ROUNDS):
        start = program
        for name, transform in PASSES:
            if clean.get(name) is program:
                continue
            before, program = program, run(name, transform, program, steps)
            if program is before:
                clean[name] = program
        if program is start:
            break
    (name, split), *after = LAST
    before, program = program, run(name, split, program, steps)
    if program is not before:
        for name, transform in after:
            program = run(name, transform, program, steps)
    return program
