"""Index sets that depend on an index of another set, and the pairs that they make.

`i.upto()` is the range of the indices up to `i`, `i.below()`, `i.from_()` and `i.above()` are like
it.  Their indices are indices of the set that `i` belongs to: as an int each is the number there.
`Upto(n)` is the set of all pairs (i, j) with j in `i.upto()`: the index set of a packed triangle.
`Ragged(lengths)` has rows of any lengths, `tile(n, w)` cuts a set into rows of `w` indices.  Rows
follow each other without gaps, so the pair (i, j) is at `start(i)` plus the place of j in its row.
Layer 2; next: `packed.py`, tables over such sets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np

from peffects.errors import IndexSetError
from peffects.notices import abridged
from peffects.parallel.index_sets.index_set import (
    Fin,
    Idx,
    IndexSet,
    about_indices,
    for_symbols,
    is_less,
    is_symbol,
    symbols_for,
)
from peffects.parallel.index_sets.structures import Maybe, as_index_set
from peffects.source import caller

__all__ = [
    "Above", "Below", "From", "Pairs", "Ragged", "Range", "Tiles", "Triangle", "Upto", "inject",
    "tile",
]  # fmt: skip


class Pairs(IndexSet[Any]):
    """The pairs (i, j) of an index i of `outer` and an index j of the row that belongs to i."""

    __slots__ = ()

    @property
    def outer(self) -> IndexSet[Any]:
        """What the first part of a pair runs over."""
        raise NotImplementedError

    def start_at(self, p: Any) -> Any:
        """The place of the first pair of row number `p`."""
        raise NotImplementedError

    def size_at(self, p: Any) -> Any:
        """The length of row number `p`."""
        raise NotImplementedError

    def first_at(self, p: Any) -> Any:
        """The number of the first index of row number `p`."""
        return 0

    def row_base(self) -> IndexSet[Any] | None:
        """The set that the rows are parts of; None if each row is a set of its own."""
        return None

    def row(self, i: Any) -> Range:
        """The set that the second part runs over if the first part is `i`."""
        place = self.outer.ordinal(i)
        return Range(self, i if is_symbol(i) and place is not i else self.outer.index(place))

    def parts(self, index: Any) -> tuple[Any, Any]:
        """The pair that an index stands for, found by bisection among the rows."""
        place = self.ordinal(index)
        p = self._row_number(place)
        row = Range(self, self.outer.index(p))
        return row.at_index, row.index(place - self.start_at(p))

    def _row_number(self, place: Any) -> Any:
        """The last row that starts at `place` or before: rows of no length are passed over."""
        symbols = symbols_for(place, self)
        if symbols is not None:
            return symbols.row_of(place, self)
        low, high = 0, len(self.outer)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.start_at(middle) <= place else (low, middle)
        return low

    def _of_parts(self, key: tuple[Any, ...]) -> Any:
        if len(key) != 2:
            raise IndexSetError(
                f"{len(key)} positions were given for an index of {self!r}, which is a pair.",
                at=caller(),
                fix="Give two: `t[i, j]`.",
            )
        i, j = key
        symbols = symbols_for(i, j, self)
        if symbols is not None:
            return self.ordinal(symbols.pair(self, i, j))
        row = self.row(i)
        return self.start_at(self.outer.ordinal(i)) + row.ordinal(j)

    def accepts(self, other: IndexSet[Any]) -> bool:
        """Whether `other` is the same set."""
        return other is self or other == self


class Range(IndexSet[Any]):
    """A row of a set of pairs: the indices that go with `at_index`."""

    __slots__ = ("at_index", "pairs")
    fields = ("pairs", "at_index")

    def __init__(self, pairs: Pairs, at_index: Any) -> None:
        self.pairs, self.at_index = pairs, at_index

    @property
    def place(self) -> Any:
        """The number of the row."""
        return self.pairs.outer.ordinal(self.at_index)

    @property
    def size(self) -> Any:
        """The length of the row."""
        return self.pairs.size_at(self.place)

    @property
    def first(self) -> Any:
        """The number of the first index in the set that the range is a part of."""
        return self.pairs.first_at(self.place)

    @property
    def base(self) -> IndexSet[Any]:
        """The set that the range is a part of."""
        base = self.pairs.row_base()
        return self if base is None else base

    def index(self, place: Any) -> Any:
        """The index at `place`; as an int it is the number in the set of which it is a part."""
        if symbols_for(place, self) is not None:
            return super().index(place)
        index: Idx[Any] = int.__new__(Idx, self.first + place)
        index._index_set = self
        return index

    def project(self, i: Any) -> Any:
        """An index of the whole set as one of `Maybe(self)`: nothing if it is outside the range.

        Use it with `match(r.project(i), just=..., nothing=...)`.
        """
        from_start = self.base.ordinal(i) - self.first
        inside = is_less(-1, from_start) & is_less(from_start, self.size)
        return Maybe(self).index(_select(inside, from_start, self.size))

    def __repr__(self) -> str:
        return f"{self.pairs!r}.row({self.at_index!r})"


def _select(condition: Any, then: Any, orelse: Any) -> Any:
    symbols = symbols_for(condition, then, orelse)
    if symbols is not None:
        return symbols.select(condition, then, orelse)
    return then if condition else orelse


def inject(j: Any) -> Any:
    """An index of a range as an index of the set of which the range is a part.

    Tables over that set take `j` as it is; `inject` is for what asks which set an index is from.
    """
    index_set: IndexSet[Any] = j.index_set
    return index_set.base.index(index_set.ordinal(j) + index_set.first - index_set.base.first)


# --- triangles -----------------------------------------------------------------------------------


class Triangle(Pairs):
    """Pairs of indices of one set, of which the second is on one side of the first."""

    __slots__ = ("of",)
    fields = ("of",)
    is_tree = True

    def __init__(self, of: IndexSet[Any] | int) -> None:
        self.of = as_index_set(of)

    @property
    def outer(self) -> IndexSet[Any]:
        """The set that both parts are from."""
        return self.of

    def row_base(self) -> IndexSet[Any]:
        """The set that both parts are from."""
        return self.of.base

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.of!r})"


class Upto(Triangle):
    """Pairs (i, j) with j <= i, row after row: (0, 0), (1, 0), (1, 1), (2, 0) and so on."""

    __slots__ = ()

    @property
    def size(self) -> Any:
        """N (n + 1) / 2."""
        return self.of.size * (self.of.size + 1) // 2

    def start_at(self, p: Any) -> Any:
        """P (p + 1) / 2."""
        return p * (p + 1) // 2

    def size_at(self, p: Any) -> Any:
        """One more with each row, from 1 on."""
        return p + 1

    def first_at(self, p: Any) -> Any:
        """The first of all."""
        return self.of.first


class Below(Triangle):
    """Pairs (i, j) with j < i: (1, 0), (2, 0), (2, 1) and so on."""

    __slots__ = ()

    @property
    def size(self) -> Any:
        """N (n - 1) / 2."""
        return self.of.size * (self.of.size - 1) // 2

    def start_at(self, p: Any) -> Any:
        """P (p - 1) / 2."""
        return p * (p - 1) // 2

    def size_at(self, p: Any) -> Any:
        """One more with each row, from 0 on."""
        return p + 0

    def first_at(self, p: Any) -> Any:
        """The first of all."""
        return self.of.first


class From(Triangle):
    """Pairs (i, j) with j >= i: (0, 0), (0, 1) .. (0, n - 1), (1, 1) and so on."""

    __slots__ = ()

    @property
    def size(self) -> Any:
        """N (n + 1) / 2."""
        return self.of.size * (self.of.size + 1) // 2

    def start_at(self, p: Any) -> Any:
        """The rows before have n, n - 1 .. n - p + 1 pairs."""
        return p * (2 * self.of.size - p + 1) // 2

    def size_at(self, p: Any) -> Any:
        """One less with each row, from n on."""
        return self.of.size - p

    def first_at(self, p: Any) -> Any:
        """The index of the row itself."""
        return self.of.first + p


class Above(Triangle):
    """Pairs (i, j) with j > i: (0, 1) .. (0, n - 1), (1, 2) and so on."""

    __slots__ = ()

    @property
    def size(self) -> Any:
        """N (n - 1) / 2."""
        return self.of.size * (self.of.size - 1) // 2

    def start_at(self, p: Any) -> Any:
        """The rows before have n - 1, n - 2 .. n - p pairs."""
        return p * (2 * self.of.size - p - 1) // 2

    def size_at(self, p: Any) -> Any:
        """One less with each row, from n - 1 on."""
        return self.of.size - p - 1

    def first_at(self, p: Any) -> Any:
        """The index after that of the row."""
        return self.of.first + p + 1


def _about_ranges() -> None:
    for name, kind in (("upto", Upto), ("below", Below), ("from_", From), ("above", Above)):
        about_indices[name] = IndexSet, _range_of(kind)


def _range_of(kind: type[Triangle]) -> Any:
    return lambda index_set, i: lambda: Range(kind(index_set), i)


_about_ranges()

# --- rows of any length --------------------------------------------------------------------------


class Ragged(Pairs):
    """Pairs (i, j) with j < lengths[i]: rows of any lengths, one after the other.

    `offsets` has the place where each row starts, and the end of the last; `longest` is the length
    of the longest row.  In a kernel the lengths may be a table of integers.  Raises IndexSetError
    if a length is negative or no integer.
    """

    __slots__ = ("longest", "offsets", "rows")
    fields = ("rows", "longest", "offsets")
    is_tree = True

    rows: Any
    longest: Any
    offsets: Any

    def __init__(self, lengths: Iterable[int]) -> None:
        if isinstance(lengths, np.ndarray):  # a kernel reads it at each call
            lengths = for_symbols(lengths)
        symbols = symbols_for(lengths)
        if symbols is not None:
            self.rows, self.longest, self.offsets = symbols.ragged(lengths)
            return
        found = np.asarray(lengths if isinstance(lengths, np.ndarray) else list(lengths))
        if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
            raise IndexSetError(
                f"`Ragged` takes the lengths of rows, and was given {lengths!r:.60}.",
                at=caller(),
                fix="Give integers, one for each row: `Ragged([3, 1, 2])`.",
            )
        if found.size and found.min() < 0:
            raise IndexSetError(
                f"`Ragged` was given the length {found.min()}, which is negative.",
                at=caller(),
                fix="Rows have 0 elements or more.",
            )
        self.rows = Fin(len(found))
        self.longest = int(found.max(initial=0))
        self.offsets = np.concatenate([[0], np.cumsum(found)]).astype(np.int64)
        self.offsets.flags.writeable = False  # kernels rely on what was tested here
        self.offsets = for_symbols(self.offsets)

    @property
    def outer(self) -> IndexSet[Any]:
        """The rows."""
        return cast("IndexSet[Any]", self.rows)

    @property
    def size(self) -> Any:
        """The sum of the lengths."""
        return self._number(self.offsets[self.rows.size])

    @property
    def lengths(self) -> Any:
        """The length of each row."""
        return np.diff(self.offsets)

    def start_at(self, p: Any) -> Any:
        """The sum of the lengths before."""
        return self._number(self.offsets[p])

    def size_at(self, p: Any) -> Any:
        """As it was given."""
        length = self._number(self.offsets[p + 1]) - self.start_at(p)
        symbols = symbols_for(length)
        # a kernel sees by the bound how much memory a row can need
        return length if symbols is None else symbols.least(length, self.longest)

    def _number(self, value: Any) -> Any:
        return value if is_symbol(value) else int(value)

    @property
    def is_symbolic(self) -> bool:
        """Whether the offsets are a table of a kernel."""
        return is_symbol(self.offsets)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ragged) and np.array_equal(self.offsets, other.offsets)

    def __hash__(self) -> int:
        return hash((Ragged, self.offsets.tobytes()))

    def __repr__(self) -> str:
        return (
            "Ragged(..)"
            if is_symbol(self.offsets)
            else f"Ragged({abridged(self.lengths.tolist())})"
        )


class Tiles(Pairs):
    """`tile(n, w)`: the indices of a set in rows of `w`, of which the last may be shorter."""

    __slots__ = ("_outer", "of", "width")
    fields = ("of",)
    static_fields = ("width",)
    is_tree = True

    def __init__(self, of: IndexSet[Any], width: int) -> None:
        self.of, self.width = of, width

    @property
    def outer(self) -> IndexSet[Any]:
        """The tiles."""
        if not hasattr(self, "_outer"):  # once, so that a kernel computes it once
            self._outer: Fin[Any] = Fin((self.of.size + (self.width - 1)) // self.width)
        return self._outer

    @property
    def size(self) -> Any:
        """That of the set."""
        return self.of.size

    def row_base(self) -> IndexSet[Any]:
        """The set."""
        return self.of.base

    def start_at(self, p: Any) -> Any:
        """After `p` whole tiles."""
        return p * self.width

    def size_at(self, p: Any) -> Any:
        """The width, but for the last."""
        rest = self.of.size - p * self.width
        return _select(is_less(rest, self.width), rest, self.width)

    def first_at(self, p: Any) -> Any:
        """After `p` whole tiles."""
        return self.of.first + p * self.width

    def __repr__(self) -> str:
        return f"tile({self.of!r}, {self.width})"


def tile(of: IndexSet[Any] | int, width: int) -> Tiles:
    """The set `of` cut into rows of `width` indices: `t.row(k)` is the k-th, a range of `of`.

    `width` is an int; the last row may be shorter.  Raises IndexSetError if it is not positive.
    """
    given: object = width
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1:
        raise IndexSetError(
            f"`tile` takes a width, and was given {width!r}.",
            at=caller(),
            fix="Give a positive int, which does not depend on values: `pe.tile(x, 64)`.",
        )
    return Tiles(as_index_set(of), int(width))
