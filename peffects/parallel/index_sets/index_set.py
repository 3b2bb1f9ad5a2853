"""Index sets and their indices.

`Fin(n)` is 0..n-1; `a * b` is the product of two sets, in row-major order, and `a + b` their sum,
all of `a` and then all of `b`.  An index is an `Idx`: an int that knows its index set, so a table
can tell an index of its own set from another.  Arithmetic on an index gives a plain int.

Every set has `size`, `ordinal` (from an index to its place in the set) and `from_ordinal` (back).
They are arithmetic on sizes, so they work in kernels too, where sizes and indices are symbols: what
a symbol needs beyond arithmetic, staging gives as `Symbols`.  Layer 2; next: `dependent.py`, for
sets that depend on an index; `structures.py`, for enums, dataclasses, posts; `table.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, SupportsIndex, cast

from peffects.errors import IndexSetError
from peffects.source import caller

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import TypeVar

    N = TypeVar("N", default=Any)
    M = TypeVar("M", default=Any)
else:
    from typing import TypeVar

    N = TypeVar("N")
    M = TypeVar("M")

__all__ = [
    "Fin", "Idx", "IndexSet", "Product", "Sum", "Symbols", "for_symbols", "is_symbol",
    "make_index", "symbols_for", "understand_symbols",
]  # fmt: skip

# --- symbols -------------------------------------------------------------------------------------


class Symbols(Protocol):
    """What index sets ask of symbols of a kernel that is being staged."""

    def index(self, place: Any, index_set: IndexSet[Any]) -> Any:
        """The index at `place`, which is in `index_set` for sure."""

    def tested(self, place: Any, index_set: IndexSet[Any]) -> Any:
        """`place`, after a test when the kernel runs that it is in `index_set`."""

    def ordinal(self, key: Any, index_set: IndexSet[Any]) -> Any:
        """The place of `key`, an index or a number, in `index_set`."""

    def refuse(self, what: str, index_set: IndexSet[Any]) -> None:
        """Raise ControlFlowError: Python asks for what only the running kernel knows."""

    def select(self, condition: Any, then: Any, orelse: Any) -> Any:
        """`then` if `condition` else `orelse`."""

    def least(self, left: Any, right: Any) -> Any:
        """The lesser of two numbers."""

    def is_equal(self, left: Any, right: Any) -> Any:
        """Whether two numbers are equal."""

    def is_less(self, left: Any, right: Any) -> Any:
        """Whether a number is less than another."""

    def is_same_set(self, one: Any, other: Any) -> Any:
        """Whether two index sets are equal, as `==` has it."""

    def as_index_set(self, value: Any) -> IndexSet[Any] | None:
        """The index set that a symbol stands for; None if it stands for none."""

    def match(self, index: Any, cases: Mapping[str, Any]) -> Any:
        """Stage all cases of an index of a sum; the one that holds runs."""

    def row_of(self, place: Any, pairs: Any) -> Any:
        """The last row of a set of pairs that starts at `place` or before it."""

    def pair(self, pairs: Any, i: Any, j: Any) -> Any:
        """The index of a set of pairs that stands for (i, j)."""

    def constant(self, array: Any) -> Any:
        """An array of a set that is made now, as a kernel indexes it with symbols."""

    def ragged(self, lengths: Any) -> tuple[Any, Any, Any]:
        """The rows, the longest length and the offsets of rows of these lengths."""

    def are_same(self, one: Any, other: Any) -> bool:
        """Whether two sets of pairs are of one kind; that their sizes agree is tested."""

    def test_packed(self, table: Any) -> None:
        """Test when the kernel runs that the parts of a packed table fit."""

    def element(self, table: Any, key: tuple[Any, ...]) -> Any:
        """An element or a row of a packed table."""


_understood: list[Symbols] = []


def understand_symbols(symbols: Symbols) -> None:
    """Say what symbols are; staging calls it when it is imported."""
    _understood[:] = [symbols]


def is_symbol(value: object) -> bool:
    """Whether `value` is a symbol of a kernel, or a set or an index made of symbols."""
    if isinstance(value, IndexSet):
        return value.is_symbolic
    return getattr(type(value), "_pe_symbolic", False) is True


def symbols_for(*values: object) -> Symbols | None:
    """What understands `values`; None if they are ordinary."""
    return _understood[0] if any(map(is_symbol, values)) else None


def for_symbols(array: Any) -> Any:
    """`array`, which symbols may index; while a kernel is staged a table of it."""
    return _understood[0].constant(array) if _understood else array


def is_less(left: Any, right: Any) -> Any:
    """`left < right`; of symbols another symbol."""
    symbols = symbols_for(left, right)
    return left < right if symbols is None else symbols.is_less(left, right)


# --- indices -------------------------------------------------------------------------------------


class Idx(int, Generic[N]):
    """An index of an index set: an int.  One of a product unpacks: `i, j = p`.

    Of most sets the int is the ordinal; of a range within another set it is the number there.
    """

    _index_set: IndexSet[Any] | None = None

    @property
    def index_set(self) -> IndexSet[N]:
        """The index set that the index belongs to."""
        return cast("IndexSet[N]", self._index_set)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.index_set.parts(self))

    def __getattr__(self, name: str) -> Any:
        """What the index set says of its indices: `k.is_left`, `c.value`, `i.upto()`."""
        if not name.startswith("_") and self._index_set is not None:
            return self._index_set.about(self, name)
        raise AttributeError(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return make_index, (int(self), self._index_set)

    if TYPE_CHECKING:
        is_left: bool
        is_just: bool
        value: Any

        def upto(self) -> IndexSet[N]:
            """The indices up to this one."""

        def below(self) -> IndexSet[N]:
            """The indices before this one."""

        def from_(self) -> IndexSet[N]:
            """The indices from this one on."""

        def above(self) -> IndexSet[N]:
            """The indices after this one."""


def make_index(number: int, index_set: IndexSet[Any]) -> Idx[Any]:
    """The index that is `number` as an int; not checked."""
    index: Idx[Any] = int.__new__(Idx, number)
    index._index_set = index_set
    return index


# --- index sets ----------------------------------------------------------------------------------

about_indices: dict[str, tuple[type, Any]] = {}
"""Attributes of indices: for each name the class of index sets that have it, and what it is."""


class IndexSet(Generic[N]):
    """Base of index sets: ordered, finite, iterable; iterating it is the sequential loop."""

    __slots__ = ()
    fields: ClassVar[tuple[str, ...]] = ()
    """The attributes that it is made of: sets of one class with equal ones are equal."""
    static_fields: ClassVar[tuple[str, ...]] = ()
    """Those that a kernel is made for: they are no symbols in it."""
    is_tree: ClassVar[bool] = False
    """Whether a kernel that is given such a set has symbols for its sizes."""

    @property
    def size(self) -> Any:
        """How many indices there are; a symbol in a kernel where a size is one."""
        raise NotImplementedError

    @property
    def made_of(self) -> tuple[Any, ...]:
        """What it is made of: sizes and other sets."""
        found = [getattr(self, name) for name in (*self.fields, *self.static_fields)]
        return tuple(x for part in found for x in (part if isinstance(part, tuple) else (part,)))

    @property
    def is_symbolic(self) -> bool:
        """Whether it is made of symbols of a kernel."""
        return any(map(is_symbol, self.made_of))

    def __eq__(self, other: object) -> bool:
        symbols = symbols_for(self, other)
        if symbols is not None:
            return cast(bool, symbols.is_same_set(self, other))
        return type(other) is type(self) and self.made_of == cast("Self", other).made_of

    def __hash__(self) -> int:
        made_of = self.made_of
        self._known("its hash", made_of)
        return hash((type(self), made_of))

    def __len__(self) -> int:
        self._known("its length", self.made_of)
        return cast(int, self.size)

    def _known(self, what: str, made_of: tuple[Any, ...]) -> None:
        """Refuse what Python asks for, if it is known only when a kernel runs."""
        symbols = symbols_for(*made_of)
        if symbols is not None:
            symbols.refuse(what, self)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes of its axes."""
        return tuple(axis.size for axis in self.axes)

    @property
    def axes(self) -> tuple[IndexSet[Any], ...]:
        """The axes of a table over it: of a product one for each factor, else the set itself."""
        return (self,)

    @property
    def first(self) -> Any:
        """The number of its first index: not 0 in a range within another set."""
        return 0

    @property
    def base(self) -> IndexSet[Any]:
        """The set that its indices are indices of: of a range the set that it is a part of."""
        return self

    def __iter__(self) -> Iterator[Any]:
        self._known("its elements", self.made_of)
        return (self.index(place) for place in range(len(self)))

    def __mul__(self, other: IndexSet[M]) -> Product[tuple[N, M]]:
        if not isinstance(other, IndexSet):
            return NotImplemented
        return Product((*_factors(self), *_factors(other)))

    def __add__(self, other: IndexSet[M]) -> Sum[N | M]:
        if not isinstance(other, IndexSet):
            return NotImplemented
        return Sum(self, other)

    # --- indices ---------------------------------------------------------------------------------

    def index(self, place: Any) -> Any:
        """The index at `place`, which must be in 0..size-1: not checked."""
        symbols = symbols_for(place)
        return make_index(place, self) if symbols is None else symbols.index(place, self)

    def from_ordinal(self, place: Any) -> Any:
        """The index at `place`.  Raises IndexSetError if there is none; in a kernel BoundsError."""
        symbols = symbols_for(place, self)
        if symbols is None:
            return self.index(self._checked(place, len(self)))
        return self.index(symbols.tested(place, self))

    def at(self, *position: Any) -> Any:
        """The index at an ordinal, or at one position for each axis; checked."""
        if len(position) == 1:
            return self.from_ordinal(position[0])
        return self.index(self._of_parts(position))

    def ordinal(self, key: Any) -> Any:
        """The place of `key` in the set: of an index of it, an int in range, or a tuple of parts.

        Raises IndexSetError for what is no index of the set.
        """
        symbols = symbols_for(key, self) if not isinstance(key, tuple) else None
        if symbols is not None:
            return symbols.ordinal(key, self)
        if isinstance(key, Idx) and key._index_set is not None:
            self._check_same(key._index_set)
            if key._index_set is self or type(key) is not Idx:
                return int(key) - self.first
        if isinstance(key, tuple):
            return self._of_parts(key)
        return self._checked(key, len(self), self.first)

    def parts(self, index: Any) -> tuple[Any, ...]:
        """The parts that an index of the set unpacks into."""
        raise TypeError(f"an index of {self!r} has no parts to unpack")

    def about(self, index: Any, name: str) -> Any:
        """The attribute `name` of an index of the set."""
        known = about_indices.get(name)
        if known is None or not isinstance(self, known[0]):
            raise AttributeError(f"an index of {self!r} has no attribute {name!r}")
        return known[1](self, index)

    def accepts(self, other: IndexSet[Any]) -> bool:
        """Whether indices of `other` are indices of this set, or may be."""
        return other is self or other == self or other.base == self.base

    def _of_parts(self, key: tuple[Any, ...]) -> Any:
        """The place of the index with these parts."""
        if len(key) != len(self.axes):
            raise IndexSetError(
                f"{len(key)} positions were given for an index of {self!r}, which has"
                f" {len(self.axes)} factors.",
                at=caller(),
                fix="Give one position for each factor, or one ordinal.",
            )
        return join(key, self.axes)

    def _check_same(self, other: IndexSet[Any]) -> None:
        if not self.accepts(other):
            raise IndexSetError(
                f"a table over {self!r} is indexed by an index of {other!r}.",
                at=caller(),
                fix="Use an index of the table's own index set, or `int(i)` if you mean the"
                " number.",
            )

    def _checked(self, value: object, size: int, first: int = 0) -> int:
        try:
            number = operator.index(cast(Any, value))
        except TypeError:
            raise IndexSetError(
                f"{value!r} is no index of {self!r}.", at=caller(), fix="Use an int or an index."
            ) from None
        if not first <= number < first + size:
            hint = (
                "Negative indices are refused, since in a loop they are slips: write"
                " `t[len(t) - 1]` for the last element."
            )
            raise IndexSetError(
                f"index {number} is outside {self!r}: it has {size} elements.",
                at=caller(),
                fix=hint
                if number < 0
                else "Indices count from 0."
                if not first
                else f"Its indices count from {first}.",
            )
        return number - first


class Fin(IndexSet[N]):
    """The index set 0..size-1.

    In a kernel the size may be a symbol, or the index set of an axis: `Fin(x.index)`.
    """

    __slots__ = ("given",)
    fields = ("given",)
    is_tree = True

    def __init__(self, size: SupportsIndex | IndexSet[Any]) -> None:
        self.given: Any = size if is_symbol(size) else _checked_size(size)

    @property
    def size(self) -> Any:
        """How many indices there are."""
        return getattr(self.given, "size", self.given) if is_symbol(self.given) else self.given

    def __repr__(self) -> str:
        return f"Fin({self.size!r})"


def _checked_size(size: object) -> int:
    try:
        number = operator.index(cast(Any, None if isinstance(size, bool) else size))
    except TypeError:
        raise IndexSetError(
            f"`Fin` takes a size, and was given {size!r:.60}.",
            at=caller(),
            fix="Give an int: `Fin(5)`; for the indices of a sequence: `Fin(len(xs))`.",
        ) from None
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
    fields = ("factors",)
    is_tree = True

    def __init__(self, factors: Sequence[IndexSet[Any]]) -> None:
        self.factors = tuple(factors)

    @property
    def size(self) -> Any:
        """The product of the sizes."""
        size: Any = 1
        for factor in self.factors:
            size = size * factor.size
        return size

    @property
    def axes(self) -> tuple[IndexSet[Any], ...]:
        """The axes of its factors."""
        return tuple(axis for factor in self.factors for axis in factor.axes)

    def parts(self, index: Any) -> tuple[Any, ...]:
        """The index of each factor."""
        return split(self.ordinal(index), self.factors)

    def _of_parts(self, key: tuple[Any, ...]) -> Any:
        if len(key) == len(self.factors):
            return join(key, self.factors)
        return super()._of_parts(key)

    def __repr__(self) -> str:
        return " * ".join(
            f"({factor!r})" if isinstance(factor, Sum) else repr(factor) for factor in self.factors
        )


def _factors(index_set: IndexSet[Any]) -> tuple[IndexSet[Any], ...]:
    return index_set.factors if isinstance(index_set, Product) else (index_set,)


def split(place: Any, factors: Sequence[IndexSet[Any]]) -> tuple[Any, ...]:
    """The indices of `factors` that stand for the place `place` in their product."""
    found: list[Any] = []
    for factor in reversed(factors[1:]):
        found.append(factor.index(place % factor.size))
        place = place // factor.size
    found += [factor.index(place) for factor in factors[:1]]
    return tuple(reversed(found))


def join(indices: Sequence[Any], factors: Sequence[IndexSet[Any]]) -> Any:
    """The place in the product of `factors` of an index with these parts."""
    place: Any = 0
    for index, factor in zip(indices, factors, strict=True):
        place = place * factor.size + factor.ordinal(index)
    return place


class Sum(IndexSet[N]):
    """`a + b`: the indices of `a`, then those of `b`."""

    __slots__ = ("orelse", "then")
    fields = ("then", "orelse")
    is_tree = True

    def __init__(self, then: IndexSet[Any], orelse: IndexSet[Any]) -> None:
        self.then, self.orelse = then, orelse

    @property
    def size(self) -> Any:
        """The sum of the sizes."""
        return self.then.size + self.orelse.size

    @property
    def cases(self) -> tuple[tuple[str, IndexSet[Any]], ...]:
        """The names of its parts, which `match` uses, and the parts."""
        return ("left", self.then), ("right", self.orelse)

    def left(self, i: Any) -> Any:
        """The index that stands for the index `i` of `a`."""
        return self.index(self.then.ordinal(i))

    def is_left(self, k: Any) -> Any:
        """Whether the index `k` stands for one of the first part."""
        return is_less(self.ordinal(k), self.then.size)

    def right(self, j: Any) -> Any:
        """The index that stands for the index `j` of `b`."""
        return self.index(self.then.size + self.orelse.ordinal(j))

    def __repr__(self) -> str:
        right = f"({self.orelse!r})" if type(self.orelse) is Sum else repr(self.orelse)
        return f"{self.then!r} + {right}"


about_indices["is_left"] = (Sum, Sum.is_left)
