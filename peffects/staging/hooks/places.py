"""Comparisons of the index of a set of values, such as an enum class, with a value: by place.

`c == Color.RED` and `c is Color.RED` ask whether an index `c` of `Color` is that of the member.
"""

from __future__ import annotations

import enum

from peffects.parallel.index_sets.structures import Elements
from peffects.staging.scalars.symbols import ScalarTracer, is_symbolic, lift
from peffects.staging.structures.constants import ConstantTracer
from peffects.staging.structures.indices import IndexTracer
from peffects.staging.tracing.trace import staging

__all__ = ["Position", "as_place", "is_told_apart"]


class Position(ScalarTracer):
    """The place of a value, or of an index, in a set of values."""


def as_place(value: object, other: object) -> object:
    """`value` as a place, if of it and `other` one is a member and one an index of such a set."""
    for index, member in ((value, other), (other, value)):
        if not isinstance(index, IndexTracer) or is_symbolic(member):
            continue
        values = index.index_set
        if isinstance(values, Elements) and isinstance(member, str | enum.Enum):
            place = lift(index.place() if index is value else values.ordinal(member))
            return Position(place.atom, place.type, place.weak, staging().scope)
    return value


def is_told_apart(value: object) -> bool:
    """Whether `is` means `==`: of places, and of constants of which it is not known which."""
    return isinstance(value, Position | ConstantTracer)
