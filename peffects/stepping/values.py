"""Values of a kernel that runs as plain Python.

Arrays are numpy's own.  An integer that was computed is an `Int`: unlike a literal, it does not
count from the end of a table.  An index of a loop is an `Index`, which knows its index set; the set
of an open one is told by the first table that it is used on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from peffects.errors import KernelTypeError
from peffects.ir.evaluate import COMBINE, identity_of
from peffects.ir.syntax import Monoid, Scalar
from peffects.parallel.index_sets.dependent import Pairs
from peffects.parallel.index_sets.index_set import Fin, Idx, IndexSet
from peffects.parallel.index_sets.structures import as_index_set
from peffects.staging.scalars.for_user import for_user
from peffects.staging.structures.tables import refuse_write
from peffects.staging.structures.trees import map_leaves
from peffects.staging.tracing.trace import here

__all__ = [
    "Accumulator",
    "Index",
    "Int",
    "PastEnd",
    "Row",
    "Set",
    "State",
    "as_computed",
    "as_element",
    "computed_by",
    "copied",
    "promoted",
    "read",
]

Array = NDArray[np.generic]


class Int(int):
    """An integer that the kernel computed."""

    __slots__ = ()


def _computed(name: str) -> Callable[..., object]:
    plain: Callable[..., object] = getattr(int, name)

    def operate(self: Int, *others: object) -> object:
        return as_computed(plain(self, *others))

    operate.__name__ = name
    return operate


for _name in ("add", "sub", "mul", "pow", "and", "or", "xor", "lshift", "rshift"):
    for _prefix in ("", "r"):
        setattr(Int, f"__{_prefix}{_name}__", _computed(f"__{_prefix}{_name}__"))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(Int, f"__{_name}__", _computed(f"__{_name}__"))


def as_computed(value: Any) -> Any:
    """`value`, as an `Int` if it is one of Python's integers, as a number if an array is that."""
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value[()]
    return Int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def as_element(value: Any) -> Any:
    """An element of a table: bools are numbers, as in Python and not as in numpy."""
    return bool(value) if isinstance(value, np.bool_) else value


def computed_by(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What a function of a library gives; kernels have no floats of 16 bits."""
    args = [read(arg) for arg in args]
    value = for_user(function, *args, **kwargs)
    if getattr(value, "dtype", None) == np.float16:
        value = for_user(function, *map(_wider, args), **kwargs)
    return as_computed(value)


def _wider(arg: Any) -> Any:
    dtype = np.asarray(arg).dtype
    if dtype.kind == "b":
        return np.float64(arg)
    return np.float32(arg) if dtype.itemsize == 1 and dtype.kind in "iu" else arg


def promoted(value: Any, among: Sequence[Any]) -> Any:
    """`value`, one of these numbers, in the type that all of them have together."""
    if any(isinstance(number, np.generic) for number in among):
        plain = [n if isinstance(n, np.generic | float | bool) else int(n) for n in among]
        return np.asarray(value).astype(np.result_type(*plain))[()]
    if any(isinstance(number, float) for number in among):
        return float(value)
    return value if all(isinstance(number, bool) for number in among) else as_computed(int(value))


class Set:
    """An index set; `size` is None until the first use of one of its indices tells it.

    `structure` is the sum, range, enum or the like that it is.
    """

    __slots__ = ("origin", "size", "structure")
    _pe_index_set = True

    def __init__(
        self, size: int | None, origin: str, structure: IndexSet[Any] | None = None
    ) -> None:
        self.size = size
        self.origin = origin
        self.structure = structure

    @classmethod
    def of(cls, index_set: IndexSet[Any]) -> Set:
        """An index set with one axis."""
        if isinstance(index_set, Fin) and isinstance(index_set.given, Set):
            return index_set.given
        structure = None if isinstance(index_set, Fin) else index_set
        return cls(len(index_set), f"`{index_set!r}`", structure)

    @property
    def index_set(self) -> IndexSet[Any]:
        """It as an index set of its own."""
        return Fin(self.size or 0) if self.structure is None else self.structure

    def index(self, place: int) -> Index:
        """The index at `place`."""
        first = 0 if self.structure is None else self.structure.first
        return Index(first + place, self)

    def __iter__(self) -> Iterator[Index]:
        return map(self.index, range(self.size or 0))

    def __add__(self, other: object) -> IndexSet[Any]:
        return self.index_set + as_index_set(other)

    def __mul__(self, other: object) -> IndexSet[Any]:
        return self.index_set * as_index_set(other)


class Index(Int, Idx[Any]):
    """An index of a loop."""

    set: Set

    @property
    def _index_set(self) -> IndexSet[Any] | None:  # type: ignore[override]
        return None if self.set.size is None else self.set.index_set

    def __new__(cls, value: int, index_set: Set) -> Index:
        """The index number `value` of a set."""
        index = super().__new__(cls, value)
        index.set = index_set
        return index


class Row(np.ndarray[Any, np.dtype[Any]]):
    """A table that a loop gave, and the index sets of its axes; over a range, a packed row."""

    axes: tuple[IndexSet[Any] | None, ...] = ()

    def __array_wrap__(self, array: Any, *args: Any) -> Any:
        """What numpy makes of a result: a reduction to one number is that number."""
        return super().__array_wrap__(array, *args) if array.ndim else array[()]

    @property
    def over(self) -> IndexSet[Any] | None:
        """What its first axis runs over."""
        return self.axes[0] if self.axes else None


class PastEnd(Exception):
    """An open index turns out to be past the end of its set: this iteration does not exist."""

    def __init__(self, index_set: Set) -> None:
        self.set = index_set


class Accumulator(NDArrayOperatorsMixin):
    """What `pe.accumulator` makes: an array that is changed by combining only."""

    def __init__(
        self,
        shape: tuple[int, ...],
        elem: Scalar,
        monoid: Monoid,
        pairs: Pairs | None = None,
        axes: tuple[IndexSet[Any] | None, ...] = (),
    ) -> None:
        self.pairs = pairs
        self.axes = axes
        self.array: Array = np.full(shape, identity_of(monoid, elem), elem.dtype)
        self.monoid = monoid
        self.name = "the accumulator"

    def __repr__(self) -> str:
        return f"<accumulator {self.array!r}>"

    def __len__(self) -> int:
        return len(self.array)

    def __bool__(self) -> bool:
        return bool(self.array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Its value so far."""
        return np.array(self.array, dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Arithmetic on its value so far."""
        values = [x.value() if isinstance(x, Accumulator) else x for x in inputs]
        return getattr(ufunc, method)(*values, **kwargs)

    def value(self) -> Any:
        """Its value so far: an array, or a number."""
        return self.array.copy() if self.array.ndim else self.array[()]

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its axes."""
        return self.array.shape

    def put(self, place: tuple[Any, ...], value: Any) -> None:
        """Combine the element or row at `place` with `value`."""
        if np.asarray(value).dtype.kind == "f" and self.array.dtype.kind in "iu":
            raise KernelTypeError(
                f"what is added to {self.name} is a float, and the type wanted is "
                f"{self.array.dtype}.",
                at=here(),
                fix="Use `dtype=float`, or say how it becomes an integer: `int(...)`.",
            )
        self.array[place] = COMBINE[self.monoid](self.array[place], value)

    def __setitem__(self, key: object, value: object) -> NoReturn:
        refuse_write(self.name)


def read(value: Any) -> Any:
    """What a function of a library is given: of an accumulator or a state of a number, that."""
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(map(read, value))
    if isinstance(value, Accumulator | State) and not value.shape:
        return value.value() if isinstance(value, Accumulator) else value.held
    return value


def copied(leaf: Any) -> Any:
    """The value of a leaf, which nobody else changes."""
    if isinstance(leaf, Accumulator):
        return leaf.value()
    if isinstance(leaf, State):
        return leaf.get()
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


class State(NDArrayOperatorsMixin):
    """What `pe.state` makes: a value that is replaced, or a table that is changed in place."""

    def __init__(self, value: Any) -> None:
        self.name = "the state"
        self.held: Any = None
        self.set(value)

    def get(self) -> Any:
        """The value now; what is set later does not change it."""
        return map_leaves(copied, self.held)

    def set(self, value: Any) -> None:
        """Replace the value."""
        self.held = map_leaves(copied, value.held if isinstance(value, State) else value)

    def __getitem__(self, key: Any) -> Any:
        return copied(self.held[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.held[key] = value

    def __len__(self) -> int:
        return len(self.held)

    def __bool__(self) -> bool:
        return bool(self.held)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The value now."""
        return np.array(self.held, dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Arithmetic on the value now."""
        values = [x.held if isinstance(x, State) else x for x in inputs]
        return getattr(ufunc, method)(*values, **kwargs)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its axes."""
        return np.shape(self.held)
