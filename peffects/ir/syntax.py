"""The typed functional loop IR: what staging makes, passes rewrite and code is emitted from.

    program ::= name(size.. ; x:t..) facts blk       sizes are bound from argument shapes at launch
    fact    ::= axis k of x = size @src              checked at launch; keeps both origins
    set     ::= Fin atom {label}                     an atom of type i64: a size known only at run
                                                     time is an ordinary value; labels survive
                                                     passes
    scalar  ::= f64 | f32 | i64 .. i8 | u64 .. u8 | bool
    t       ::= scalar | set => .. => scalar | Idx set | Ref monoid t
    blk     ::= (x.. = e @src).. -> atom..           A-normal form
    atom    ::= x | literal
    e       ::= op(atom..)                           a row of `ir/primitives.py`
              | a[atom..] {proved|checked|unchecked} fewer indices than axes give a view
              | a[atom..] <- atom {proved|..}        a, but for that element or row: a new value
              | for (i:set).. . blk                  parallel: one table for each result of blk
              | fold {rev} (i:set; c:t = atom..). blk      blk -> next carries, outputs;
                                                     gives last carries, one table an output
              | while (c:t = atom..) blk . blk       condition block, body block -> next carries
              | cond atom blk blk
              | with_acc (r: Ref monoid t).. . blk   gives the results of blk, then the final values
              | r[atom..] += atom {proved|..}        the only write there is; no result
              | check atom error text (atom..)       fails at the user's line; no result
              | tell text (atom..)                   prints a line and goes on; no result

A `for` may run its iterations in any order: its body can write only by `+=` on references, whose
monoid is associative and commutative, so the grammar has no loop that races.  Reductions are not a
form of their own: `sum` is `with_acc r. for i. r += e`, so one rule serves both.  How sums, early
exit and dependent tables are said is in `docs/decisions/003-ir-hard-cases.md`; why overwriting is a
value and yet costs one element, in `docs/decisions/013-overwriting-is-a-value.md`.

Nodes are frozen and hold tuples; variables are compared by identity; every binding knows the user's
line.  Constructors compute nothing: `ir/builder.py` builds, `ir/check.py` checks, `ir/evaluate.py`
says what a program means.
"""

from __future__ import annotations

import enum
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from peffects.source import UNKNOWN, SrcInfo

if TYPE_CHECKING:
    from peffects.errors import PeffectsError
    from peffects.ir.primitives import Primitive

# --- types ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scalar:
    """A machine number; `name` is f64, f32, i64 .. i8, u64 .. u8 or bool."""

    name: str

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type: only such values have tangents."""
        return self.name[0] == "f"

    @property
    def is_integer(self) -> bool:
        """Whether it is a signed or unsigned integer type."""
        return self.name[0] in "iu"

    @property
    def dtype(self) -> str:
        """The name that numpy gives it."""
        return _DTYPES[self.name]

    def __str__(self) -> str:
        return self.name


_DTYPES = {"bool": "bool", "f64": "float64", "f32": "float32"}
_DTYPES |= {f"{kind}{bits}": f"{word}{bits}" for kind, word in (("i", "int"), ("u", "uint"))
            for bits in (8, 16, 32, 64)}  # fmt: skip
SCALARS: dict[str, Scalar] = {dtype: Scalar(name) for name, dtype in _DTYPES.items()}

F64, F32 = SCALARS["float64"], SCALARS["float32"]
I64, I32, BOOL = SCALARS["int64"], SCALARS["int32"], SCALARS["bool"]


@dataclass(frozen=True, slots=True)
class FinSet:
    """The index set 0 .. size-1.  Two sets are the same if their sizes are the same atom."""

    size: Atom
    label: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Table:
    """`dims[0] => dims[1] => .. => elem`, stored row-major; never without axes."""

    dims: tuple[FinSet, ...]
    elem: Scalar


@dataclass(frozen=True, slots=True)
class Idx:
    """An element of an index set: an integer that is in bounds by construction."""

    set: FinSet


class Monoid(enum.Enum):
    """The combining operations of accumulators: associative, commutative, with an identity."""

    ADD = "+"
    MUL = "*"
    MIN = "min"
    MAX = "max"
    AND = "and"
    OR = "or"


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference that can only be accumulated into.

    `once` says that every element is accumulated into exactly once, by construction; a pass that
    does not know that it stays so leaves it out.
    """

    monoid: Monoid
    value: Scalar | Table
    once: bool = field(default=False, compare=False)


Type: TypeAlias = Scalar | Table | Idx | Ref

# --- atoms ---------------------------------------------------------------------------------------

_serial = itertools.count()


@dataclass(frozen=True, slots=True, eq=False)
class Var:
    """A variable: bound once, compared by identity; `name` is a hint for printing only."""

    name: str
    type: Type
    serial: int = field(default_factory=lambda: next(_serial))

    def __repr__(self) -> str:
        return f"{self.name}#{self.serial}"


@dataclass(frozen=True, slots=True, eq=False)
class Lit:
    """A literal scalar.  Equal literals have equal bits and types: 0.0 is not -0.0, nan is nan."""

    value: float | int | bool
    type: Scalar

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lit) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Scalar, str]:
        return self.type, repr(self.value)


Atom: TypeAlias = Var | Lit

# --- expressions ---------------------------------------------------------------------------------


class Bounds(enum.Enum):
    """Why an index is in bounds: by its index set, by a test at run time, or by the user's word."""

    PROVED = "proved"
    CHECKED = "checked"
    UNCHECKED = "unchecked"

    @property
    def again(self) -> Bounds:
        """The bounds of the same access made again: a test that passed is not repeated."""
        return Bounds.UNCHECKED if self is Bounds.CHECKED else self


@dataclass(frozen=True, slots=True)
class Prim:
    """A primitive applied to scalars."""

    op: Primitive
    args: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """`table[indices]`: an element, or the remaining axes as a view that copies nothing."""

    table: Var
    indices: tuple[Atom, ...]
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class Update:
    """`table` with `value` at `indices`; with fewer indices than axes, `value` is a table."""

    table: Var
    indices: tuple[Atom, ...]
    value: Atom
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class For:
    """A parallel loop over the product of the binders' sets; a table for each result of `body`."""

    binders: tuple[Var, ...]
    body: Block


@dataclass(frozen=True, slots=True)
class Fold:
    """A sequential loop.  `body` gives the next carries, then outputs that are tabulated.

    In a `running` one, carries that only grow are sums of ours, not additions that the user wrote:
    they are held as sums are, see `ir/running.py`.
    """

    binder: Var
    reverse: bool
    carries: tuple[Var, ...]
    inits: tuple[Atom, ...]
    body: Block
    running: bool = False


@dataclass(frozen=True, slots=True)
class While:
    """A sequential loop of unknown length; `test` gives one bool, `body` the next carries."""

    carries: tuple[Var, ...]
    inits: tuple[Atom, ...]
    test: Block
    body: Block


@dataclass(frozen=True, slots=True)
class Cond:
    """Runs one of two blocks, never both."""

    pred: Atom
    then: Block
    orelse: Block


@dataclass(frozen=True, slots=True)
class WithAcc:
    """Makes accumulators that start at their monoid's identity and live for `body`."""

    refs: tuple[Var, ...]
    body: Block


@dataclass(frozen=True, slots=True)
class Accumulate:
    """`ref[indices] += value`; with fewer indices than axes, `value` is a table of the rest."""

    ref: Var
    indices: tuple[Atom, ...]
    value: Atom
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class Check:
    """Stops the program with `error` unless `ok`; `text` is formatted with the operands.

    With `tells` it prints the text instead and goes on.  Like all that may fail, it is never
    dropped, doubled or moved across another one.
    """

    ok: Atom
    error: type[PeffectsError]
    text: str
    operands: tuple[Atom, ...]
    fix: str = ""
    tells: bool = False


Expr: TypeAlias = Prim | Index | Update | For | Fold | While | Cond | WithAcc | Accumulate | Check

# --- blocks and programs -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Binding:
    """`vars = expr`, written by the user at `src`."""

    vars: tuple[Var, ...]
    expr: Expr
    src: SrcInfo = UNKNOWN


@dataclass(frozen=True, slots=True)
class Block:
    """Bindings in order, then the results."""

    bindings: tuple[Binding, ...]
    results: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class SizeParam:
    """A size variable, bound at launch to the length of one axis of one parameter."""

    var: Var
    param: int
    axis: int


@dataclass(frozen=True, slots=True)
class Fact:
    """At launch, axis `axis` of parameter `param` must have length `size`.

    `src` is the use that made the two index sets one, `other` names where `size` comes from.
    """

    param: int
    axis: int
    size: Atom
    other: str
    src: SrcInfo


@dataclass(frozen=True, slots=True)
class Program:
    """A closed function from arrays and scalars to the results of `body`."""

    name: str
    sizes: tuple[SizeParam, ...]
    params: tuple[Var, ...]
    facts: tuple[Fact, ...]
    body: Block
    src: SrcInfo = UNKNOWN

    grammar: ClassVar[str] = __doc__ or ""
