"""Binding a program's sizes from its arguments, and the launch-time check of its facts.

Used by the evaluator and by the launcher alike, so both refuse the same arguments with the same
words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from peffects.errors import IndexSetMismatchError
from peffects.ir.syntax import Fact, Lit, Program, Var


def bind_sizes(
    program: Program, shapes: Sequence[tuple[int, ...]], scalars: Mapping[Var, int]
) -> dict[Var, int]:
    """The value of each size variable; `scalars` has the integer parameters that facts mention.

    Raises IndexSetMismatchError, naming both tables, when a fact does not hold.
    """
    sizes = {size.var: shapes[size.param][size.axis] for size in program.sizes}
    for fact in program.facts:
        expected = _value(fact, {**scalars, **sizes})
        found = shapes[fact.param][fact.axis]
        if found != expected:
            raise mismatch(program, fact, found, expected)
    return sizes


def _value(fact: Fact, values: Mapping[Var, int]) -> int:
    return int(fact.size.value) if isinstance(fact.size, Lit) else int(values[fact.size])


def mismatch(program: Program, fact: Fact, found: int, expected: int) -> IndexSetMismatchError:
    """The error for a fact that does not hold."""
    name = program.params[fact.param].name
    has = "is" if fact.size in program.params else "has length"  # a number that the user gave
    fix = (
        "Give arrays whose axes agree; or index with `int(i)` if the tables really have "
        "different index sets (such an index is tested at run time)."
    )
    if 1 in (found, expected):
        fix = (
            "An axis of an argument does not go along with another because its length happens to "
            "be 1: leave it out and write `x[:, None]`, or `np.broadcast_to`."
        )
    return IndexSetMismatchError(
        f"axis {fact.axis} of `{name}` has length {found} and {fact.other} {has} {expected}, but "
        "one index runs over both.",
        at=fact.src,
        fix=fix,
    )
