"""How accesses move through memory from one iteration of a loop to the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from peffects.codegen.program.loop_ir import (
    Apply,
    Assign,
    Combine,
    Expr,
    ForLoop,
    Local,
    Read,
    Stmt,
)
from peffects.ir.primitives import ADD
from peffects.ir.syntax import Lit

__all__ = ["segments", "straight_parts", "stride", "values_of"]


def values_of(body: Sequence[Stmt]) -> dict[Local, Expr]:
    """What locals are set to; carried ones, which are set twice, count as constant."""
    found: dict[Local, Expr] = {}
    twice: set[Local] = set()
    for part in segments(body):
        for stmt in part:
            if isinstance(stmt, Assign):
                twice |= {stmt.target} & found.keys()
                found[stmt.target] = stmt.value
    return {local: value for local, value in found.items() if local not in twice}


def stride(at: Expr, index: Local, values: Mapping[Local, Expr]) -> int | None:
    """0 or 1, by how much `at` grows with `index`; None if it is anything else."""
    match at:
        case Lit():
            return 0
        case Local():
            if at is index:
                return 1
            return stride(values[at], index, values) if at in values else 0
        case Apply(op, (left, right)) if op is ADD:
            a, b = stride(left, index, values), stride(right, index, values)
            return None if a is None or b is None or a + b > 1 else a + b
        case Apply(_, args):
            return 0 if all(stride(arg, index, values) == 0 for arg in args) else None
        case Read(_, place):
            return 0 if stride(place, index, values) == 0 else None
        case Combine(_, left, right):
            both = (stride(left, index, values), stride(right, index, values))
            return 0 if both == (0, 0) else None
        case _:
            assert_never(at)


def straight_parts(body: Sequence[Stmt]) -> Iterator[ForLoop | list[Stmt]]:
    """Loops, and the straight parts between them."""
    straight: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, ForLoop):
            yield straight
            yield stmt
            straight = []
        else:
            straight.append(stmt)
    yield straight


def segments(body: Sequence[Stmt]) -> Iterator[list[Stmt]]:
    """All straight parts, in loops too."""
    for part in straight_parts(body):
        if isinstance(part, ForLoop):
            yield from segments(part.body)
        else:
            yield part
