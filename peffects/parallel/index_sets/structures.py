"""Index sets with structure: enums, values, dataclasses, optional indices, posts of a fence.

Each is a size and a way from an index to its place and back; a table over it is an ordinary table.
`match` runs the case that an index of a sum, a `Maybe` or an enum belongs to.  Layer 2.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from peffects.errors import IndexSetError
from peffects.notices import abridged
from peffects.parallel.index_sets.index_set import (
    Fin,
    Idx,
    IndexSet,
    Product,
    Sum,
    about_indices,
    join,
    split,
    symbols_for,
)
from peffects.source import caller

__all__ = [
    "Bool", "Elements", "Maybe", "Post", "Struct", "Unit", "as_index_set", "check_cases",
    "index_set", "is_index_set", "match",
]  # fmt: skip


class Elements(IndexSet[Any]):
    """An index set of values, which need not be numbers: `Elements.of(["b", "a"])`, an enum class.

    `t["a"]` and `names.ordinal("a")` take a value, `i.value` gives that of an index.
    """

    __slots__ = ("_places", "name", "values")
    fields = ("values",)

    def __init__(self, values: Iterable[Any], name: str = "") -> None:
        self.values = tuple(values)
        self.name = name
        self._places = {value: place for place, value in enumerate(self.values)}

    @classmethod
    def of(cls, values: Iterable[Any]) -> Elements:
        """The set of `values`: each once, sorted."""
        return cls(sorted(set(values)))

    @property
    def size(self) -> int:
        """How many values there are."""
        return len(self.values)

    @property
    def is_symbolic(self) -> bool:
        """Never: what it is made of is known."""
        return False

    @property
    def cases(self) -> tuple[tuple[str, IndexSet[Any]], ...]:
        """The names of the values, which `match` uses; each is a case without parts."""
        return tuple((_case_name(value), Unit) for value in self.values)

    def ordinal(self, key: Any) -> Any:
        """The place of an index, or of a value that is no int."""
        plain = isinstance(key, int) and not isinstance(key, enum.Enum)
        if plain or isinstance(key, tuple | np.integer) or symbols_for(key):
            return super().ordinal(key)
        try:
            return self._places[key]
        except (KeyError, TypeError):
            raise IndexSetError(
                f"{key!r} is not in {self!r}.", at=caller(), fix="Use one of its values."
            ) from None

    def __reduce__(self) -> tuple[Any, ...]:
        if self.name and isinstance(self.values[0], enum.Enum):
            return index_set, (type(self.values[0]),)
        return Elements, (self.values, self.name)

    def __repr__(self) -> str:
        return self.name or f"Elements({abridged(self.values)})"


def _case_name(value: Any) -> str:
    return value.name if isinstance(value, enum.Enum) else str(value).lower()


def _value_of(elements: Elements, index: Any) -> Any:
    place = elements.ordinal(index)
    if symbols_for(place) is not None:
        raise AttributeError("the value of an index is not known while a kernel is staged")
    return elements.values[place]


about_indices["value"] = (Elements, _value_of)

Bool = Elements((False, True), "Bool")
"""The index set of False and True; its indices are 0 and 1."""
Unit = Elements(((),), "Unit")
"""The index set that has one index."""


class Maybe(Sum[Any]):
    """The indices of a set, and one more, which stands for none of them."""

    __slots__ = ()

    def __init__(self, then: IndexSet[Any] | int, orelse: IndexSet[Any] | None = None) -> None:
        super().__init__(as_index_set(then), Unit)

    @property
    def cases(self) -> tuple[tuple[str, IndexSet[Any]], ...]:
        """`just` an index, or `nothing`."""
        return ("just", self.then), ("nothing", Unit)

    def just(self, i: Any) -> Any:
        """The index that stands for the index `i`."""
        return self.left(i)

    @property
    def nothing(self) -> Any:
        """The index that stands for none."""
        return self.index(self.then.size)

    def __repr__(self) -> str:
        return f"Maybe({self.then!r})"


about_indices["is_just"] = (Maybe, Sum.is_left)


class Post(IndexSet[Any]):
    """The n + 1 posts of a fence with the n fields of a set between them.

    For stencils and dynamic programs: field i is between `left_post(i)` and `right_post(i)`, and
    none of these needs a test.
    """

    __slots__ = ("of",)
    fields = ("of",)
    is_tree = True

    def __init__(self, of: IndexSet[Any] | int) -> None:
        self.of = as_index_set(of)

    @property
    def size(self) -> Any:
        """One more than there are fields."""
        return self.of.size + 1

    def left_post(self, i: Any) -> Any:
        """The post before field `i`."""
        return self.index(self.of.ordinal(i) + 0)

    def right_post(self, i: Any) -> Any:
        """The post after field `i`."""
        return self.index(self.of.ordinal(i) + 1)

    def left_field(self, p: Any) -> Any:
        """The field before post `p`, as an index of `Maybe(of)`: nothing before the first post."""
        place = self.ordinal(p)
        symbols = symbols_for(place)
        if symbols is not None:
            at_start = symbols.is_equal(place, 0)
            return Maybe(self.of).index(symbols.select(at_start, self.of.size, place - 1))
        return Maybe(self.of).index(place - 1 if place else self.of.size)

    def right_field(self, p: Any) -> Any:
        """The field after post `p`, as an index of `Maybe(of)`: nothing after the last post."""
        return Maybe(self.of).index(self.ordinal(p) + 0)

    def __repr__(self) -> str:
        return f"Post({self.of!r})"


class Struct(IndexSet[Any]):
    """A dataclass whose fields are index sets: row-major, the last field varies fastest.

    An index of it is an instance of the same class whose fields are indices.
    """

    __slots__ = ("template",)

    def __init__(self, template: Any) -> None:
        self.template = template

    @property
    def made_of(self) -> tuple[Any, ...]:
        """The class and its index sets."""
        return type(self.template), *self.factors

    @property
    def factors(self) -> tuple[IndexSet[Any], ...]:
        """The index sets of the fields."""
        return tuple(as_index_set(value) for _, value in _fields_of(self.template))

    @property
    def size(self) -> Any:
        """The product of the sizes."""
        return Product(self.factors).size

    @property
    def axes(self) -> tuple[IndexSet[Any], ...]:
        """The axes of its fields."""
        return Product(self.factors).axes

    def index(self, place: Any) -> Any:
        """The instance whose fields are the indices at `place`."""
        return self.of_indices(split(place, self.factors))

    def of_indices(self, indices: Iterable[Any]) -> Any:
        """The instance with these indices as fields."""
        built: Any = object.__new__(type(self.template))
        for (name, _), index in zip(_fields_of(self.template), indices, strict=True):
            object.__setattr__(built, name, index)
        return built

    def parts(self, index: Any) -> tuple[Any, ...]:
        """The fields of an index."""
        return tuple(value for _, value in _fields_of(index))

    def ordinal(self, key: Any) -> Any:
        """The place of an instance with indices as fields, of a tuple of them, or of an int."""
        if type(key) is type(self.template):
            return join(self.parts(key), self.factors)
        if isinstance(key, tuple) and len(key) == len(self.factors):
            return join(key, self.factors)
        return super().ordinal(key)

    def __iter__(self) -> Iterator[Any]:
        return map(self.index, range(len(self)))

    def __repr__(self) -> str:
        return repr(self.template)


def _fields_of(value: Any) -> list[tuple[str, Any]]:
    return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]


def is_struct(value: object) -> bool:
    """Whether `value` is a dataclass whose fields are index sets, as `Struct` takes it."""
    return (
        dataclasses.is_dataclass(value)
        and not isinstance(value, type)
        and bool(_fields_of(value))
        and all(is_index_set(part) for _, part in _fields_of(value))
    )


def is_index_set(value: object) -> bool:
    """Whether `value` is an index set, or an enum class or a dataclass that stands for one."""
    if isinstance(value, IndexSet) or getattr(type(value), "_pe_index_set", False):
        return True
    return _is_enum(value) or is_struct(value)


def _is_enum(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, enum.Enum)


def as_index_set(value: Any) -> IndexSet[Any]:
    """The index set that `value` stands for: a set, a size, an enum class, a dataclass, a tuple.

    Raises IndexSetError if it stands for none.
    """
    if isinstance(value, IndexSet):
        return value
    if getattr(type(value), "_pe_index_set", False):
        own: IndexSet[Any] = value.index_set
        return own
    symbols = symbols_for(value)
    if symbols is not None:
        found = symbols.as_index_set(value)
        return Fin(value) if found is None else found
    if _is_enum(value):
        return Elements(value, value.__name__)
    if is_struct(value):
        return Struct(value)
    if isinstance(value, tuple):
        return Product([as_index_set(part) for part in value])
    if isinstance(value, np.ndarray) and value.ndim:
        return Fin(len(value))
    return Fin(value)


def index_set(value: Any) -> IndexSet[Any]:
    """The index set that an enum class, a dataclass of index sets, a tuple or a size stands for."""
    return as_index_set(value)


def match(index: Any, **cases: Callable[..., Any]) -> Any:
    """Run the case that `index` belongs to: `match(k, left=lambda i: x[i], right=lambda j: y[j])`.

    The cases of `a + b` are left and right, of `Maybe(a)` just and nothing, of an enum or `Bool`
    the names of their values.  A case gets the index of its part, or nothing if that has only one.
    In a kernel all cases are staged; only the one that holds runs.  Raises IndexSetError if cases
    are missing or there is no such case.
    """
    symbols = symbols_for(index)
    if symbols is not None:
        return symbols.match(index, cases)
    of: Any = index.index_set if isinstance(index, Idx) else None
    check_cases(of, cases)
    place = of.ordinal(index)
    for name, part in of.cases:
        if place < part.size:
            return cases[name]() if part is Unit else cases[name](part.index(place))
        place -= part.size
    raise AssertionError("an index is in one of the parts")


def check_cases(index_set: Any, cases: Iterable[str]) -> None:
    """Raise IndexSetError unless `cases` are the cases of `index_set`."""
    wanted = [name for name, _ in getattr(index_set, "cases", ())]
    if not wanted:
        raise IndexSetError(
            f"`match` takes an index of a sum, a `Maybe` or an enum, not one of {index_set!r}.",
            at=caller(),
            fix="Use `if` to compare other values.",
        )
    if set(cases) != set(wanted):
        raise IndexSetError(
            f"`match` on an index of {index_set!r} has the cases {', '.join(cases) or 'none'}.",
            at=caller(),
            fix=f"Give all of these, by name: {', '.join(wanted)}.",
        )
