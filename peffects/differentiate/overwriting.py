"""Tables that are overwritten step by step, and what their derivatives may cost.

`t = s[i] <- v` costs one element, so its derivative must not cost a table.  Forwards it does not.
Backwards the cotangent of t, a table, becomes that of s by setting one element to zero, again an
update; a read `s[i]` adds to one element of it.  That works where the uses of s follow each other,
reads, and at the end the one use that makes another table of it.  Then s is *threaded*, and the
transposition hands on the table of cotangents as a value.  Where it is not, cotangents are
collected in an accumulator like those of any table.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence

from peffects.ir.syntax import Atom, Binding, Block, Cond, Expr, Fold, Index, Update, Var, While
from peffects.ir.traverse import blocks_of, expr_free_vars

__all__ = ["has_update", "is_threaded", "updates"]

Flatten = Callable[[Iterable[Binding]], Iterable[Binding]]
"""Gives the bindings of a scope with those of regions inside it in their places."""


class _Use(enum.Enum):
    """What a block does with a table from outside."""

    NONE = "does not use it"
    READ = "reads elements or rows"
    SPENT = "makes another table of it, after all reads"
    OTHER = "something else"


def updates(block: Block, table: Var) -> bool:
    """Whether `block` makes another table of `table` by updates of elements or rows."""
    return any(_updates(binding.expr, table) for binding in block.bindings)


def _updates(expr: Expr, table: Var) -> bool:
    match expr:
        case Update(source, _, _, _):
            return source is table
        case Fold(_, _, carries, inits, body) | While(carries, inits, _, body):
            pairs = zip(carries, inits, strict=True)
            if any(init is table and updates(body, carry) for carry, init in pairs):
                return True
    return any(updates(block, table) for block in blocks_of(expr))


def has_update(expr: Expr) -> bool:
    """Whether an update is in `expr`, at any depth."""
    inner = (binding for block in blocks_of(expr) for binding in block.bindings)
    return isinstance(expr, Update) or any(has_update(binding.expr) for binding in inner)


def is_threaded(
    table: Var, bindings: Iterable[Binding], results: Sequence[Atom], flatten: Flatten
) -> bool:
    """Whether the uses of `table` in a scope are reads, and then one that hands it on."""
    return _use(table, bindings, results, flatten) is _Use.SPENT


def _use(
    table: Var, bindings: Iterable[Binding], results: Sequence[Atom], flatten: Flatten
) -> _Use:
    found = _Use.NONE
    for binding in bindings:
        if table not in expr_free_vars(binding.expr):
            continue
        if found is _Use.SPENT:
            return _Use.OTHER
        found = _use_in(binding.expr, table, flatten)
        if found is _Use.OTHER:
            return found
    as_result = sum(result is table for result in results)
    if as_result == 0:
        return found
    return _Use.OTHER if as_result > 1 or found is _Use.SPENT else _Use.SPENT


def _use_in(expr: Expr, table: Var, flatten: Flatten) -> _Use:
    def inside(block: Block) -> _Use:
        return _use(table, flatten(block.bindings), block.results, flatten)

    match expr:
        case Index():
            return _Use.READ
        case Update(_, _, value, _):
            return _Use.OTHER if value is table else _Use.SPENT
        case Cond(_, then, orelse):
            sides = {inside(then), inside(orelse)}
            if _Use.OTHER in sides:
                return _Use.OTHER
            return _Use.SPENT if _Use.SPENT in sides else _Use.READ
        case Fold(_, _, _, inits, body):
            read = inside(body)
            if table in inits:
                once = inits.count(table) == 1 and read is _Use.NONE
                return _Use.SPENT if once else _Use.OTHER
            return read if read is _Use.READ else _Use.OTHER
        case _:
            return _Use.OTHER
