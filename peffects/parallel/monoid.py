"""Monoids: what an accumulation combines with.  `combine` is associative, `empty` its unit.

Results are combined in index order, so `combine` need not be commutative.  Layer 2.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

__all__ = ["ADD", "ALL", "ANY", "CONCATENATE", "JOIN", "MULTIPLY", "Monoid"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Monoid(Generic[T]):
    """`combine(empty, x) == x == combine(x, empty)`, and `combine` is associative."""

    empty: T
    combine: Callable[[T, T], T]


ADD: Final[Monoid[Any]] = Monoid(0, operator.add)
"""Sums of numbers, or of arrays."""
MULTIPLY: Final[Monoid[Any]] = Monoid(1, operator.mul)
"""Products of numbers, or elementwise of arrays."""
ALL: Final = Monoid(True, operator.and_)
"""Whether all are true."""
ANY: Final = Monoid(False, operator.or_)
"""Whether any is true."""
JOIN: Final = Monoid("", operator.add)
"""Strings, one after the other."""
CONCATENATE: Final[Monoid[tuple[Any, ...]]] = Monoid((), operator.add)
"""Tuples, one after the other."""
