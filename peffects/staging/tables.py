"""Symbols that stand for indices, index sets, tables and accumulators.

`a[i]` is where index sets meet: an index that comes from the same set as the axis needs no test, an
index whose set is still open takes the axis's, and every other index is an integer that is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np

from peffects.errors import (
    BoundsError,
    DataRaceError,
    IndexSetMismatchError,
    KernelTypeError,
    UnknownIndexSetError,
)
from peffects.ir import primitives as op
from peffects.ir.builder import int_lit
from peffects.ir.messages import bounds_text
from peffects.ir.syntax import I64, Atom, Bounds, Index, Lit, Scalar, Table, Var
from peffects.source import UNKNOWN, SrcInfo
from peffects.staging.arithmetic import Operand, cast
from peffects.staging.array_methods import ArrayMethods
from peffects.staging.scalars import (
    Arithmetic,
    ScalarTracer,
    Tracer,
    is_whole,
    lift,
    renamed,
)
from peffects.staging.sizes import Verdict
from peffects.staging.trace import Scope, here, staging


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an index set comes from: "axis 0 of `x`", at a user line."""

    text: str
    src: SrcInfo = UNKNOWN

    def __str__(self) -> str:
        return f"{self.text} ({self.src.short()})" if self.src.line else self.text


class IndexSetTracer(Tracer):
    """The index set of an axis: `x.index`; what `over=`, `par` and `Fin` take."""

    def __init__(self, size: Atom, origin: Origin, scope: Scope, label: str = "") -> None:
        self.atom = size
        self.origin = origin
        self.scope = scope
        self.label = label

    @property
    def size(self) -> ScalarTracer:
        """The number of indices."""
        return ScalarTracer(self.atom, I64, True, staging().scope)

    def __len__(self) -> int:
        self._refuse("the length")

    def what(self) -> str:
        """What it is, for messages."""
        return f"the index set of {self.origin.text}"


class IndexTracer(Arithmetic):
    """The index of a loop.  Used as a number it is an `int`.

    `exact` is false for the index of a `range`: it may run over a part of an axis, so using it on a
    table makes no two sets one.
    """

    def __init__(
        self, var: Var, index_set: IndexSetTracer, scope: Scope, exact: bool = True
    ) -> None:
        self.var = var
        self.within: Atom | None = (
            None  # for a `range`: the stop that the set's size is clamped from
        )
        self.set = index_set
        self.scope = scope
        self.exact = exact
        self._ordinal: ScalarTracer | None = None

    def operand(self) -> Operand:
        """The index as an integer."""
        trace = staging()
        trace.check_open(self.scope, self.what())
        if self._ordinal is None or not self._ordinal.scope.encloses(trace.scope):
            var = trace.prim(op.ORDINAL, self.var, name=self.var.name)
            self._ordinal = ScalarTracer(var, I64, True, trace.scope)
        return self._ordinal.operand()

    def what(self) -> str:
        """What it is, for messages."""
        return f"the index `{self.var.name}`"

    def __repr__(self) -> str:
        return f"<index {self.var!r}>"


Item: TypeAlias = object


def _items(key: object) -> tuple[Item, ...]:
    return key if isinstance(key, tuple) else (key,)


def place_of(
    name: str, t: Scalar | Table, items: Sequence[Item], unchecked: bool
) -> tuple[tuple[Atom, ...], Bounds]:
    """The atoms of the indices `items` into the value `name`, and why they are in bounds."""
    return _Axes(name, t).place(items, unchecked)


def _is_plain(item: Item) -> bool:
    """Whether `item` is one index: no slice, no new axis, no table of indices."""
    return not (isinstance(item, slice | list) or item is None or item is Ellipsis) and not (
        is_whole(item)
    )


class _Axes:
    """Indices against the axes of a value: what reading and accumulating share."""

    def __init__(self, name: str, t: Scalar | Table) -> None:
        self.name = name
        self.dims = t.dims if isinstance(t, Table) else ()

    def place(self, items: Sequence[Item], unchecked: bool) -> tuple[tuple[Atom, ...], Bounds]:
        """The atoms of `items`, and why they are in bounds."""
        if len(items) > len(self.dims):
            raise KernelTypeError(
                f"`{self.name}` has {len(self.dims)} axes and is given {len(items)} indices.",
                at=here(),
                fix="Give at most one index for each axis.",
            )
        pairs = [self._item(axis, item, unchecked) for axis, item in enumerate(items)]
        proved = all(known for _, known in pairs)
        bounds = Bounds.PROVED if proved else Bounds.UNCHECKED if unchecked else Bounds.CHECKED
        return tuple(atom for atom, _ in pairs), bounds

    def _item(self, axis: int, item: Item, unchecked: bool) -> tuple[Atom, bool]:
        if isinstance(item, IndexTracer):
            staging().check_open(item.scope, item.what())
            if self._same_set(axis, item):
                return item.var, True
        if not _is_plain(item):
            raise KernelTypeError(
                f"`{self.name}` is indexed with a slice or a table, where only elements can be.",
                at=here(),
                fix="Give one index for each axis; `pe.each` and `pe.par` go over many.",
            )
        x = lift(item, f"the index of axis {axis} of `{self.name}`")
        if not x.type.is_integer:
            raise KernelTypeError(
                f"axis {axis} of `{self.name}` is indexed with a {x.type}.",
                at=here(),
                fix="Use `int(...)`.",
            )
        if isinstance(x.atom, Lit):
            return self._literal(axis, int(x.atom.value), unchecked)
        return cast(x, I64), False

    def _literal(self, axis: int, value: int, unchecked: bool) -> tuple[Atom, bool]:
        """A literal index; a negative one counts from the end, and is tested as it was written."""
        trace = staging()
        size = trace.sizes.representative(self.dims[axis].size)
        if isinstance(size, Lit):
            place = value + int(size.value) if value < 0 else value
            inside = 0 <= place < int(size.value)
            return int_lit(place if inside else value), inside
        if value >= 0:
            return int_lit(value), False
        if not unchecked:
            ok = trace.prim(op.LE, int_lit(-value), size)
            text = bounds_text(self.name, axis).format(value=value, size="{0}")
            trace.check(ok, BoundsError, text, (size,))
        return trace.prim(op.SUB, size, int_lit(-value)), not unchecked

    def _same_set(self, axis: int, index: IndexTracer) -> bool:
        """Whether `index` runs over this axis; for a loop index, make it so or raise."""
        trace = staging()
        own, other = self.dims[axis].size, index.set.atom
        if trace.sizes.same(own, other):
            return True
        if not index.exact:
            return index.within is not None and trace.sizes.same(own, index.within)
        origin = Origin(f"axis {axis} of `{self.name}`", here())
        unify(
            index.set, IndexSetTracer(own, origin, trace.scope), f"`{index.var.name}`", origin.text
        )
        return True


def unify(index_set: IndexSetTracer, other: IndexSetTracer, index: str, axis: str) -> None:
    """Make the set that `index` runs over that of `axis`; raises, or emits a test, if need be."""
    trace, src = staging(), here()
    sizes = trace.sizes
    if not sizes.is_known(index_set.atom):
        _check_in_scope(index_set, other, index, axis)
        index_set.origin = other.origin
    match sizes.unify(index_set.atom, other.atom, src):
        case Verdict.SAME:
            return
        case Verdict.DIFFERENT:
            mine, theirs = sizes.representative(index_set.atom), sizes.representative(other.atom)
            assert isinstance(mine, Lit) and isinstance(theirs, Lit)
            raise IndexSetMismatchError(
                f"{index} runs over {index_set.origin}, of size {mine.value}, and is used on "
                f"{axis}, of size {theirs.value}.",
                at=src,
                fix="Give tables whose axes agree; or use `int(i)`, which is tested at run time.",
            )
        case Verdict.TEST:
            equal = trace.prim(op.EQ, index_set.atom, other.atom)
            text = (
                f"{index} runs over {index_set.origin}, of size {{0}}, and is used on {axis}, "
                "of size {1}."
            )
            fix = "Give tables whose axes agree; or use `int(i)`, which is tested at run time."
            trace.check(equal, IndexSetMismatchError, text, (index_set.atom, other.atom), fix)


def _check_in_scope(
    index_set: IndexSetTracer, other: IndexSetTracer, index: str, axis: str
) -> None:
    """An open set may only become one whose size is known where its loop starts."""
    size = staging().sizes.representative(other.atom)
    if isinstance(size, Var) and not staging().is_defined_around(size, index_set.scope):
        raise UnknownIndexSetError(
            f"{index} takes its index set from {axis}, which is made inside the loop over {index}.",
            at=here(),
            fix="Say which set it runs over: `over=`.",
        )


class TableTracer(ArrayMethods):
    """A table: an array parameter, a result of `table`, a row."""

    is_whole = True

    def __init__(self, var: Var, scope: Scope, name: str = "") -> None:
        assert isinstance(var.type, Table)
        self.held = var
        self.type: Table = var.type
        self.scope = scope
        self.name = name or var.name

    def what(self) -> str:
        """What it is, for messages."""
        return f"the table `{self.name}`"

    def __repr__(self) -> str:
        return f"<table {self.held!r}>"

    def rename(self, name: str) -> None:
        """Take the name of the local that holds the table first."""
        var = renamed(self.held, name)
        if var is not self.held:
            self.held, self.name = var, name

    def atom(self) -> Var:
        """The variable; raises if it is out of scope."""
        staging().check_open(self.scope, self.what())
        return self.held

    def __getitem__(self, key: object) -> Any:
        items = _items(key)
        if all(map(_is_plain, items)):
            return self.element(items)
        return staging().inputs.arrays.subscript(self, items)

    def operand(self) -> Operand:
        """Raises: a table is no number."""
        raise KernelTypeError(
            f"{self.what()} is a whole table, and one number is needed here.",
            at=here(),
            fix="Index it, `x[i]`; or make one number of it: `.sum()`, `.any()`, `.all()`.",
        )

    def element(
        self, items: tuple[Item, ...], unchecked: bool = False
    ) -> ScalarTracer | TableTracer:
        """An element, or the table of the remaining axes."""
        indices, bounds = place_of(self.name, self.type, items, unchecked)
        (var,) = staging().emit(Index(self.atom(), indices, bounds), (self.name,))
        return value_tracer(var, self.name)

    @property
    def index_sets(self) -> tuple[IndexSetTracer, ...]:
        """The index sets of all axes."""
        scope = staging().scope
        return tuple(
            IndexSetTracer(dim.size, Origin(f"axis {axis} of `{self.name}`"), scope, dim.label)
            for axis, dim in enumerate(self.type.dims)
        )

    @property
    def index_set(self) -> IndexSetTracer:
        """The index set of the first axis."""
        return self.index_sets[0]

    index = index_set

    @property
    def shape(self) -> tuple[ScalarTracer, ...]:
        """The sizes of all axes."""
        return tuple(index_set.size for index_set in self.index_sets)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.type.dims)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The type of the elements."""
        elem: Scalar = self.type.elem
        return np.dtype(elem.dtype)

    def __len__(self) -> int:
        self._refuse("the length")

    def __setitem__(self, key: object, value: object) -> NoReturn:
        refuse_write(self.name)


def refuse_write(name: str) -> NoReturn:
    """Raise the error for `name[i] = v` in a kernel."""
    raise DataRaceError(
        f"an element of `{name}` is assigned; iterations of a parallel loop could race for it.",
        at=here(),
        fix=f"Make a table, `pe.table(lambda i: ...)`, or make `{name} = pe.accumulator(...)` and "
        f"write `{name}[i] += ...`.",
    )


def value_tracer(var: Atom, name: str = "", weak: bool = False) -> ScalarTracer | TableTracer:
    """The tracer of a variable of the innermost open block."""
    scope = staging().scope
    if isinstance(var, Var) and isinstance(var.type, Table):
        return TableTracer(var, scope, name)
    assert isinstance(var.type, Scalar)
    return ScalarTracer(var, var.type, weak, scope)
