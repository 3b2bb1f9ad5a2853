"""How many numbers are added before their sum goes to a total, and loops that do so.

In a loop that LLVM vectorizes, a block is spread over 16 or more lanes, so it may be longer.
Read `lower/sums.py` first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from peffects.codegen.program.loop_ir import (
    SUM_BLOCK,
    AddTo,
    Apply,
    Assign,
    Branch,
    Expr,
    ForLoop,
    Line,
    Local,
    Read,
    Stmt,
    Store,
    literal,
    parts_of,
    plus,
    times,
    type_of,
)
from peffects.codegen.program.strides import stride, values_of
from peffects.ir import primitives as p
from peffects.ir.syntax import BOOL, F64, I64

__all__ = ["added", "as_f64", "block_width", "explicit_blocks", "is_innermost"]

_LANES = 4
"""By so much blocks are longer in vectorized loops, of 16 lanes at least."""
_VECTORIZED = {
    p.ADD, p.SUB, p.MUL, p.DIV, p.NEG, p.NOT, p.AND, p.OR, p.EQ, p.NE, p.LT, p.LE, p.MIN, p.MAX,
    p.SELECT, p.ABS, p.SQRT, p.EXP, p.LOG, *p.CAST.values(),
}  # fmt: skip


def block_width(body: Sequence[Stmt], index: Local, adds: int) -> int:
    """How many iterations of a loop over `index`, of this body, make a block."""
    width = max(SUM_BLOCK // adds, 1)
    return width * _LANES if _is_vectorized(body, index) else width


def _is_vectorized(body: Sequence[Stmt], index: Local) -> bool:
    values = values_of(body)

    def is_plain(expr: Expr) -> bool:
        if isinstance(expr, Read) and stride(expr.at, index, values) is None:
            return False
        if isinstance(expr, Apply) and expr.op not in _VECTORIZED:
            return False
        return all(map(is_plain, parts_of(expr)))

    return all(
        isinstance(stmt, Line) or (isinstance(stmt, Assign) and is_plain(stmt.value))
        for stmt in body
    )


def as_f64(value: Expr) -> Expr:
    """A number as an f64."""
    return value if type_of(value) == F64 else Apply(p.CAST[F64], (value,), F64)


def added(stmt: AddTo) -> list[Stmt]:
    """What adding to a total does.

    What rounding took is exact where the total is the larger one (Dekker's fast two-sum); where it
    is the smaller one, it is off by eps / 2 of the value at most.
    """
    (value, old, new), at = stmt.names, stmt.at
    before = Read(stmt.memory, at)
    if stmt.low is None:
        return [Store(stmt.memory, at, _f64(p.ADD, before, as_f64(stmt.value)))]
    lost = _f64(p.SUB, value, _f64(p.SUB, new, old))
    return [
        Assign(value, as_f64(stmt.value)),
        Assign(old, before),
        Assign(new, _f64(p.ADD, old, value)),
        Store(stmt.low, at, _f64(p.ADD, Read(stmt.low, at), lost)),
        Store(stmt.memory, at, new),
    ]


def _f64(op: p.Primitive, left: Expr, right: Expr) -> Expr:
    return Apply(op, (left, right), F64)


def is_innermost(body: Sequence[Stmt]) -> bool:
    """Whether there is no loop in `body`."""
    return not any(
        isinstance(stmt, ForLoop)
        or (
            isinstance(stmt, Branch) and not (is_innermost(stmt.then) and is_innermost(stmt.orelse))
        )
        for stmt in body
    )


def explicit_blocks(body: Sequence[Stmt]) -> list[Stmt]:
    """`body` with blocks of SUM_BLOCK iterations as loops around loops."""
    found: list[Stmt] = []
    for stmt in body:
        match stmt:
            case ForLoop(body=inner, blocks=None):
                found.append(replace(stmt, body=tuple(explicit_blocks(inner))))
            case ForLoop(index, _, stop, inner, blocks=blocks):
                assert blocks is not None
                width = literal(max(SUM_BLOCK // blocks.adds, 1))
                first = times(blocks.index, width)
                last = Apply(p.MIN, (plus(first, width), stop), I64)
                begun = Apply(p.LT, (literal(0), blocks.index), BOOL)
                flush = Branch(begun, blocks.flush, ())
                block = ForLoop(index, first, last, tuple(explicit_blocks(inner)))
                count = Apply(p.FLOORDIV, (plus(stop, plus(width, literal(-1))), width), I64)
                found.append(ForLoop(blocks.index, literal(0), count, (flush, block)))
            case Branch(condition, then, orelse):
                sides = (tuple(explicit_blocks(side)) for side in (then, orelse))
                found.append(Branch(condition, *sides))
            case _:
                found.append(stmt)
    return found
