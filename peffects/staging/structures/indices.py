"""Symbols that stand for indices and index sets, and which sets are the same.

An index set of the IR is a size.  What a set is besides, a sum, a range, an enum, is its
*structure*: an `IndexSet` whose sizes are symbols.  The label of an axis leads to it
(`Trace.structures`), so tables and rows keep it, and `set_tracer` gives one set one size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar
from typing import cast as cast_

import numpy as np

from peffects.errors import (
    IndexSetMismatchError,
    UnknownIndexSetError,
    ValueRangeError,
)
from peffects.ir import primitives as op
from peffects.ir.builder import int_lit
from peffects.ir.syntax import I64, Atom, Lit, Var
from peffects.parallel.index_sets.dependent import Range
from peffects.parallel.index_sets.index_set import Fin, IndexSet, Product, Sum
from peffects.parallel.index_sets.structures import as_index_set
from peffects.source import UNKNOWN, SrcInfo
from peffects.staging.scalars.arithmetic import Operand, cast
from peffects.staging.scalars.symbols import (
    Arithmetic,
    ScalarTracer,
    Tracer,
    both,
    compare,
    is_symbolic,
    lift,
)
from peffects.staging.scalars.whole_numbers import whole_operand
from peffects.staging.tracing.size_algebra import is_natural, outermost
from peffects.staging.tracing.sizes import Verdict
from peffects.staging.tracing.trace import OpenBlock, here, staging

__all__ = [
    "IndexSetTracer", "IndexTracer", "Mismatch", "Origin", "align", "are_same_sets", "set_tracer",
    "unify",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an index set comes from: "axis 0 of `x`", at a user line."""

    text: str
    src: SrcInfo = UNKNOWN

    def __str__(self) -> str:
        return f"{self.text} ({self.src.short()})" if self.src.line else self.text


class IndexSetTracer(Tracer):
    """The index set of an axis: `x.index`; what `over=`, `par` and `Fin` take."""

    _pe_index_set: ClassVar[bool] = True

    def __init__(self, size: Atom, origin: Origin, scope: OpenBlock, label: str = "") -> None:
        self.atom = size
        self.origin = origin
        self.scope = scope
        self.label = label

    @property
    def size(self) -> ScalarTracer:
        """The number of indices."""
        return ScalarTracer(self.atom, I64, True, staging().home_of(self.atom))

    def operand(self) -> Operand:
        """Its size: what a packed table that leaves a block has of it."""
        return Operand(self.atom, I64, True)

    @property
    def structure(self) -> IndexSet[Any] | None:
        """The sum, range, enum or the like that it is; None of a plain set."""
        return staging().structures.get(self.label)

    @property
    def index_set(self) -> IndexSet[Any]:
        """It as an index set."""
        structure = self.structure
        return Fin(self) if structure is None else structure

    def from_ordinal(self, place: object) -> Any:
        """The index at a place."""
        return self.index_set.from_ordinal(place)

    def ordinal(self, index: object) -> Any:
        """The place of an index."""
        return self.index_set.ordinal(index)

    def __add__(self, other: object) -> IndexSet[Any]:
        return self.index_set + as_index_set(other)

    def __radd__(self, other: object) -> IndexSet[Any]:
        return as_index_set(other) + self.index_set

    def __mul__(self, other: object) -> IndexSet[Any]:
        return self.index_set * as_index_set(other)

    def __rmul__(self, other: object) -> IndexSet[Any]:
        return as_index_set(other) * self.index_set

    def __len__(self) -> int:
        self._refuse("the length")

    def __eq__(self, other: object) -> bool:
        return cast_(bool, are_same_sets(self, other))

    __hash__ = Tracer.__hash__

    def what(self) -> str:
        """What it is, for messages."""
        return f"the index set of {self.origin.text}"


class IndexTracer(Arithmetic):
    """An index: of a loop, or made from one (`n.left(i)`).  Used as a number it is an `int`.

    `exact` is false for the index of a `range`: it may run over a part of an axis, so using it on a
    table makes no two sets one.  `guarded` is true for one that is in its set only in the branch
    where it was made.
    """

    def __init__(
        self,
        var: Atom,
        index_set: IndexSetTracer,
        scope: OpenBlock,
        exact: bool = True,
        guarded: bool = False,
    ) -> None:
        self.var = var
        self.within: Atom | None = (
            None  # for a `range`: the stop that the set's size is clamped from
        )
        self.set = index_set
        self.scope = scope
        self.exact = exact
        self.guarded = guarded
        self._ordinal: ScalarTracer | None = None

    def operand(self) -> Operand:
        """The index as an integer: of a range, its number in the set that it is a part of."""
        structure = self.set.structure
        if structure is None or (isinstance(structure.first, int) and structure.first == 0):
            return self.place().operand()
        return lift(self.place() + structure.first)

    def place(self) -> ScalarTracer:
        """The ordinal of the index in its own set."""
        trace = staging()
        trace.check_open(self.scope, self.what())
        if not isinstance(self.var, Var) or self.var.type == I64:
            return ScalarTracer(self.var, I64, True, trace.scope)
        if self._ordinal is None or not self._ordinal.scope.encloses(trace.scope):
            var = trace.prim(op.ORDINAL, self.var, name=self.var.name)
            trace.named.add(var)  # it is kept here, so no local may rename it
            self._ordinal = ScalarTracer(var, I64, True, trace.scope)
        return self._ordinal

    def moved(self, place: object, index_set: IndexSetTracer) -> IndexTracer:
        """The index at `place` of another set, which is known to have one there."""
        atom = lift(place).atom
        return IndexTracer(atom, index_set, self.scope, True, self.guarded)

    @property
    def index_set(self) -> IndexSet[Any]:
        """The index set that it is an index of."""
        return self.set.index_set

    @property
    def name(self) -> str:
        """Its name, for messages."""
        return self.var.name if isinstance(self.var, Var) else str(self.var.value)

    def __getattr__(self, name: str) -> Any:
        """What its index set says of its indices: `k.is_left`, `i.upto()`."""
        if name.startswith("_"):
            raise AttributeError(name)
        return self.set.index_set.about(self, name)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        if self.set.structure is None:
            self._refuse("the parts")
        return iter(self.set.index_set.parts(self))

    def what(self) -> str:
        """What it is, for messages."""
        return f"the index `{self.name}`"

    def _shown(self) -> str:
        return f"<index {self.var!r}>"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """How it is told that two sets differ: `{0}` is the size of the first, `{1}` of the second."""

    text: str
    fix: str


def unify(
    index_set: IndexSetTracer,
    other: IndexSetTracer,
    index: str,
    axis: str,
    told: Mismatch | None = None,
) -> None:
    """Make the set that `index` runs over that of `axis`; raises, or emits a test, if need be."""
    trace = staging()
    src = trace.place or here()
    if told is None:
        told = Mismatch(
            f"{index} runs over {index_set.origin}, of size {{0}}, and is used on {axis}, of "
            "size {1}.",
            "Give tables whose axes agree; or use `int(i)`, which is tested at run time.",
        )
    sizes = trace.sizes
    if not sizes.is_known(index_set.atom):
        _check_in_scope(index_set, other, index, axis)
        index_set.origin, index_set.label = other.origin, other.label
        trace.open_labels[index_set.atom] = other.label
    match sizes.unify(index_set.atom, other.atom, src):
        case Verdict.SAME:
            return
        case Verdict.DIFFERENT:
            mine, theirs = sizes.representative(index_set.atom), sizes.representative(other.atom)
            assert isinstance(mine, Lit) and isinstance(theirs, Lit)
            text = told.text.format(mine.value, theirs.value)
            raise IndexSetMismatchError(text, at=src, fix=told.fix)
        case Verdict.TEST:
            equal = trace.prim(op.EQ, index_set.atom, other.atom)
            sizes_ = index_set.atom, other.atom
            trace.check(equal, IndexSetMismatchError, told.text, sizes_, told.fix)


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


def _sized(size: object) -> IndexSetTracer:
    """The set of `size` indices; the size is tested where it may be negative."""
    trace = staging()
    if isinstance(size, IndexSetTracer):
        return size
    if isinstance(size, IndexSet):
        return set_tracer(size)
    atom: Atom = whole_operand(size, "the size of an index set").atom
    home = size.scope if isinstance(size, ScalarTracer) and atom is size.atom else trace.scope
    atom, home = outermost(atom, home)
    if isinstance(atom, Lit):
        if int(atom.value) < 0:
            raise ValueRangeError(
                f"the size {atom.value} is negative.", at=here(), fix="Sizes count from 0."
            )
        return IndexSetTracer(atom, Origin(f"`Fin({atom.value})`", here()), trace.scope)
    trace.size_homes.setdefault(atom, home)
    text = _text_of_set(atom)
    return IndexSetTracer(_natural(atom, home), Origin(text, here()), trace.scope)


def _natural(size: Var, home: OpenBlock) -> Atom:
    """`size` as one that is not negative: tested here, and known to be so where it is computed."""
    trace = staging()
    _check_size(size)
    if home is trace.scope or is_natural(size) or trace.sizes.is_given(size):
        return size
    key = ("natural", size)
    known = trace.lengths.get(key)
    if known is not None and known[0].encloses(trace.scope):
        return known[1]
    with trace.at(home):  # where the test of the inner block may not be made
        made = trace.prim(op.MAX, size, int_lit(0), name=size.name)
    trace.size_homes[made] = home
    home.nonnegative.add(made)
    trace.lengths[key] = home, made
    return made


def _text_of_set(size: Var) -> str:
    """What a set of this size is called: by the size, if the user has given it a name."""
    trace = staging()
    known = size in trace.named or not trace.sizes.is_computed(size)
    return f"`Fin({size.name})`" if known else "a set whose size is computed"


def _check_size(size: Atom) -> None:
    trace = staging()
    tested = any(size in scope.nonnegative for scope in trace.scope.up())
    if tested or trace.sizes.is_length(size) or is_natural(size):
        return
    trace.scope.nonnegative.add(size)
    ok = trace.prim(op.LE, int_lit(0), size)
    text = "the size {0} of an index set is negative."
    trace.check(ok, ValueRangeError, text, (size,), "Use `max(n, 0)` if an empty set is meant.")


def are_same_sets(one: object, other: object) -> object:
    """`one == other` of index sets: a bool, or a symbol where their sizes decide."""
    left, right = (x.index_set if isinstance(x, IndexSetTracer) else x for x in (one, other))
    if not isinstance(left, IndexSet) or type(left) is not type(right):
        return False
    if isinstance(left, Fin):
        return _are_equal(left.size, right.size)
    parts = left.made_of, right.made_of
    if len(parts[0]) != len(parts[1]):
        return False
    found: object = True
    for x, y in zip(*parts, strict=True):
        is_set = isinstance(x, IndexSet | IndexSetTracer)
        found = both(found, are_same_sets(x, y) if is_set else _are_equal(x, y))
    return found


def _are_equal(x: object, y: object) -> object:
    if not is_symbolic(x) and not is_symbolic(y):
        return bool(np.array_equal(x, np.asarray(y))) if isinstance(x, np.ndarray) else x == y
    if isinstance(x, ScalarTracer) and isinstance(y, ScalarTracer):
        same = x.atom == y.atom or staging().sizes.same(x.atom, y.atom)
        return True if same else compare(op.EQ, x, y)
    return compare(op.EQ, x, y)


# --- sets with structure -------------------------------------------------------------------------


def set_tracer(index_set: IndexSet[Any]) -> IndexSetTracer:
    """The symbol for an index set with one axis: the same one as before for a set met before."""
    if isinstance(index_set, Fin):
        return _sized(index_set.given)
    trace = staging()
    key = _key(index_set)
    known = trace.known_sets.get(key)
    if known is not None and known[1].encloses(trace.scope):
        found = known[0]
        assert isinstance(found, IndexSetTracer)
        return found
    home = _home(index_set)
    with trace.at(home):  # as far out as it can be, so that loops and branches share it
        atom = cast(lift(index_set.size, "the size of an index set"), I64)
    if isinstance(atom, Var):
        trace.size_homes.setdefault(atom, home)
        home.nonnegative.add(atom)
    text = describe(index_set)
    label = text
    while label in trace.structures:
        label += "'"
    trace.structures[label] = index_set
    tracer = IndexSetTracer(atom, Origin(f"`{text}`", here()), home, label)
    trace.known_sets[key] = tracer, home
    return tracer


def _home(index_set: IndexSet[Any]) -> OpenBlock:
    """The outermost scope in which all that a set is made of is known."""
    trace = staging()
    found = trace.root
    for part in index_set.made_of:
        match part:
            case IndexSetTracer(atom=Var() as atom):
                scope = trace.home_of(atom)
            case IndexSet():
                scope = _home(part)
            case Tracer():
                scope = part.scope
            case _:
                continue
        found = scope if found.encloses(scope) else found
    return found


def _key(part: Any) -> object:
    """What tells whether two sets are the same, as far as is known now."""
    sizes = staging().sizes
    match part:
        case Fin():
            return Fin, _key(part.size)
        case IndexSet():
            return type(part), tuple(map(_key, part.made_of))
        case IndexTracer():
            return part.var
        case ScalarTracer():
            return sizes.representative(part.atom)
        case int() | np.integer():
            return int_lit(int(part))
        case IndexSetTracer():
            return sizes.representative(part.atom)
        case Tracer():
            return getattr(part, "held", id(part))  # of a table its variable
        case np.ndarray():
            return id(part)
        case _:
            return part


_AXIS = re.compile(r"axis (\d+) of `(\w+)`")


def describe(part: Any) -> str:
    """An index set, or what it is made of, in a message."""
    match part:
        case Fin(given=IndexSetTracer() as axis):
            found = _AXIS.fullmatch(axis.origin.text)
            if found is None:
                return f"Fin({describe(axis.size)})"
            return f"{found[2]}.index" if found[1] == "0" else f"{found[2]}.index_sets[{found[1]}]"
        case Fin():
            return f"Fin({describe(part.size)})"
        case Product():
            return " * ".join(map(describe, part.factors))
        case Range():
            name = {"Upto": "upto", "Below": "below", "From": "from_", "Above": "above"}
            method = name.get(type(part.pairs).__name__)
            at = describe(part.at_index)
            return f"{at}.{method}()" if method else f"{describe(part.pairs)}.row({at})"
        case Sum() if type(part) is Sum:
            return f"{describe(part.then)} + {describe(part.orelse)}"
        case IndexTracer():
            return part.name
        case ScalarTracer(atom=Var(name=name)):
            return name
        case ScalarTracer(atom=Lit(value=value)):
            return str(value)
        case IndexSet() if part.is_symbolic:
            return f"{type(part).__name__}({', '.join(map(describe, part.made_of))})"
        case Tracer():
            return str(getattr(part, "name", "?"))
        case _:
            return repr(part)


def align(mine: Any, other: Any, what: str, axis: str) -> bool:
    """Whether two structures are of one kind; their sizes are made the same, or an error tells."""
    if isinstance(mine, Fin) and isinstance(other, Fin):
        unify(_sized(mine.given), _sized(other.given), what, axis)
        return True
    if type(mine) is not type(other):
        return False
    if not isinstance(mine, IndexSet):
        return _key(mine) == _key(other)
    parts = mine.made_of, other.made_of
    return len(parts[0]) == len(parts[1]) and all(
        align(x, y, what, axis) for x, y in zip(*parts, strict=True)
    )
