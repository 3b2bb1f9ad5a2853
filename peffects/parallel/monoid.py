"""Monoids: what an accumulation combines with.  `combine` is associative, `empty` its unit.

Results are combined in index order, so `combine` need not be commutative.  It gives a new value and
leaves its arguments alone.  `dict_of`, `tuple_of` and `arrays` build monoids from others or from a
shape; a monoid of one's own is `Monoid(empty, combine)`.  Layer 2.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = [
    "ADD",
    "ALL",
    "ANY",
    "CONCATENATE",
    "JOIN",
    "LIST",
    "MAX",
    "MIN",
    "MULTIPLY",
    "Monoid",
    "arrays",
    "dict_of",
    "tuple_of",
]

K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Monoid(Generic[T]):
    """`combine(empty, x) == x == combine(x, empty)`, and `combine` is associative."""

    empty: T
    combine: Callable[[T, T], T]


def _larger(x: Any, y: Any) -> Any:
    """The larger one, and NaN if there is one: `max` would make that depend on the order."""
    return x if x >= y or x != x else y


def _smaller(x: Any, y: Any) -> Any:
    return x if x <= y or x != x else y


ADD: Final[Monoid[Any]] = Monoid(0, operator.add)
"""Sums of numbers, or of arrays of one shape; see `arrays` for an empty sum with that shape."""
MULTIPLY: Final[Monoid[Any]] = Monoid(1, operator.mul)
"""Products of numbers, or elementwise of arrays."""
MAX: Final[Monoid[Any]] = Monoid(-math.inf, _larger)
"""The largest number; minus infinity where there is none, NaN where there is one."""
MIN: Final[Monoid[Any]] = Monoid(math.inf, _smaller)
"""The smallest number; infinity where there is none, NaN where there is one."""
ALL: Final = Monoid(True, operator.and_)
"""Whether all are true."""
ANY: Final = Monoid(False, operator.or_)
"""Whether any is true."""
JOIN: Final = Monoid("", operator.add)
"""Strings, one after the other."""
LIST: Final[Monoid[list[Any]]] = Monoid([], operator.add)
"""Lists, one after the other.  Each step copies: for long logs see `peffects.handlers.log_list`."""
CONCATENATE: Final[Monoid[tuple[Any, ...]]] = Monoid((), operator.add)
"""Tuples, one after the other."""


def dict_of(values: Monoid[T]) -> Monoid[dict[Any, T]]:
    """Dicts, combined key by key; keys stand in the order in which they came.

    >>> dict_of(ADD).combine({"a": 1, "b": 2}, {"b": 3, "c": 4})
    {'a': 1, 'b': 5, 'c': 4}
    """

    def combine(x: dict[K, T], y: dict[K, T]) -> dict[K, T]:
        both = dict(x)
        for key, value in y.items():
            both[key] = values.combine(both[key], value) if key in both else value
        return both

    return Monoid({}, combine)


def tuple_of(*parts: Monoid[Any]) -> Monoid[tuple[Any, ...]]:
    """Tuples with a monoid for each place.

    >>> tuple_of(ADD, MAX).combine((1, 7), (2, 5))
    (3, 7)
    """

    def combine(x: tuple[Any, ...], y: tuple[Any, ...]) -> tuple[Any, ...]:
        triples = zip(parts, x, y, strict=True)
        return tuple(part.combine(a, b) for part, a, b in triples)

    return Monoid(tuple(part.empty for part in parts), combine)


def arrays(
    shape: int | tuple[int, ...], dtype: DTypeLike = float, of: Monoid[Any] = ADD
) -> Monoid[NDArray[Any]]:
    """Arrays of a shape, combined elementwise: sums, or `of` another monoid of numbers.

    >>> arrays(2).combine(arrays(2).empty, np.array([1.0, 2.0]))
    array([1., 2.])
    """
    empty = np.full(shape, of.empty, dtype)
    empty.setflags(write=False)
    combine: Any = np.maximum if of is MAX else np.minimum if of is MIN else of.combine
    return Monoid(empty, combine)
