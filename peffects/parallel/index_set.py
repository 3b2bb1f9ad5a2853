"""Index sets and their indices.

`Fin(n)` is 0..n-1; `Fin(3) * Fin(5)` is their product, in row-major order.  An index is an `Idx`:
an int (its ordinal) that knows its index set, so a table can tell an index of its own set from
another.  Arithmetic on an index gives a plain int.  Layer 2; next: `table.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, SupportsIndex, cast

from peffects.errors import IndexSetError
from peffects.source import caller

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    N = TypeVar("N", default=Any)
    M = TypeVar("M", default=Any)
else:
    from typing import TypeVar

    N = TypeVar("N")
    M = TypeVar("M")

__all__ = ["Fin", "Idx", "IndexSet", "Product"]


class Idx(int, Generic[N]):
    """An index of an index set: an int, its ordinal.  One of a product unpacks: `i, j = p`."""

    _index_set: IndexSet[Any] | None = None

    @property
    def index_set(self) -> IndexSet[N]:
        """The index set that the index belongs to."""
        return cast("IndexSet[N]", self._index_set)

    def __iter__(self) -> Iterator[Idx[Any]]:
        index_set = self._index_set
        if not isinstance(index_set, Product):
            raise TypeError(f"an index of {index_set!r} has no parts to unpack")
        return iter(index_set.parts(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return _make_index, (int(self), self._index_set)


def _make_index(ordinal: int, index_set: IndexSet[Any]) -> Idx[Any]:
    index: Idx[Any] = int.__new__(Idx, ordinal)
    index._index_set = index_set
    return index


class IndexSet(Generic[N]):
    """Base of index sets: ordered, finite, iterable; iterating it is the sequential loop."""

    __slots__ = ()

    def __len__(self) -> int:
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its factors."""
        return (len(self),)

    def __iter__(self) -> Iterator[Idx[N]]:
        for ordinal in range(len(self)):
            yield _make_index(ordinal, self)

    def __mul__(self, other: IndexSet[M]) -> Product[tuple[N, M]]:
        if not isinstance(other, IndexSet):
            return NotImplemented
        return Product((*_factors(self), *_factors(other)))

    def at(self, *position: int) -> Idx[N]:
        """The index at an ordinal, or at one position for each factor; checked."""
        sizes = (len(self),) if len(position) == 1 else self.shape
        if len(position) != len(sizes):
            raise IndexSetError(
                f"{len(position)} positions were given for an index of {self!r}, which has"
                f" {len(sizes)} factors.",
                at=caller(),
                fix="Give one position for each factor, or one ordinal.",
            )
        ordinal = 0
        for value, size in zip(position, sizes, strict=True):
            ordinal = ordinal * size + self._checked(value, size)
        return _make_index(ordinal, self)

    def ordinal(self, key: object) -> int:
        """The ordinal that `key` stands for: an index of this set, an int in range, or a tuple."""
        if isinstance(key, Idx) and key._index_set is not None:
            if key._index_set is not self and key._index_set != self:
                raise IndexSetError(
                    f"a table over {self!r} is indexed by an index of {key._index_set!r}.",
                    at=caller(),
                    fix="Use an index of the table's own index set, or `int(i)` if you mean the"
                    " number.",
                )
            return int(key)
        if isinstance(key, tuple):
            return int(self.at(*key))
        return self._checked(key, len(self))

    def _checked(self, value: object, size: int) -> int:
        try:
            number = operator.index(cast(Any, value))
        except TypeError:
            raise IndexSetError(
                f"{value!r} is no index of {self!r}.", at=caller(), fix="Use an int or an index."
            ) from None
        if not 0 <= number < size:
            hint = (
                "Negative indices are refused, since in a loop they are slips: write"
                " `t[len(t) - 1]` for the last element."
            )
            raise IndexSetError(
                f"index {number} is outside {self!r}: it has {size} elements.",
                at=caller(),
                fix=hint if number < 0 else "Indices count from 0.",
            )
        return number


class Fin(IndexSet[N]):
    """The index set 0..size-1.  `size` may be a tracer, which is kept as it is."""

    __slots__ = ("size",)

    def __init__(self, size: SupportsIndex) -> None:
        symbolic = getattr(type(size), "_pe_symbolic", False)
        self.size: int = cast(int, size) if symbolic else _checked_size(size)

    def __len__(self) -> int:
        return self.size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fin) and bool(self.size == other.size)

    def __hash__(self) -> int:
        return hash((Fin, self.size))

    def __repr__(self) -> str:
        return f"Fin({self.size!r})"


def _checked_size(size: object) -> int:
    if isinstance(size, bool) or not hasattr(type(size), "__index__"):
        raise IndexSetError(
            f"`Fin` takes a size, and was given {size!r}.",
            at=caller(),
            fix="Give an int: `Fin(5)`; for the indices of a sequence: `Fin(len(xs))`.",
        )
    number = operator.index(cast(Any, size))
    if number < 0:
        raise IndexSetError(
            f"`Fin({number})`: a size is not negative.",
            at=caller(),
            fix="Use `Fin(max(0, n))` if an empty index set is meant.",
        )
    return number


class Product(IndexSet[N]):
    """The product of index sets, row-major: the last factor varies fastest."""

    __slots__ = ("factors",)

    def __init__(self, factors: Sequence[IndexSet[Any]]) -> None:
        self.factors = tuple(factors)

    def __len__(self) -> int:
        size = 1
        for factor in self.factors:
            size *= len(factor)
        return size

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its factors."""
        return tuple(len(factor) for factor in self.factors)

    def parts(self, index: int) -> tuple[Idx[Any], ...]:
        """The index of each factor."""
        rest = int(index)
        found: list[Idx[Any]] = []
        for factor in reversed(self.factors):
            rest, ordinal = divmod(rest, len(factor))
            found.append(_make_index(ordinal, factor))
        return tuple(reversed(found))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Product) and self.factors == other.factors

    def __hash__(self) -> int:
        return hash((Product, self.factors))

    def __repr__(self) -> str:
        return " * ".join(map(repr, self.factors))


def _factors(index_set: IndexSet[Any]) -> tuple[IndexSet[Any], ...]:
    return index_set.factors if isinstance(index_set, Product) else (index_set,)
