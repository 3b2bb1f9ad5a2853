"""Loop IR: kernels as statements, between the functional IR and source text.

    kernel ::= name, slots read, prologue, axes, body, epilogue
    stmt   ::= local = expr | mem[expr] = expr | slot = expr | for local in expr..expr: stmt..
             | while stmt.. expr: stmt.. | if expr: stmt.. else: stmt.. | fail | # line
    expr   ::= local | literal | prim(expr..) | mem[expr] | combine(expr, expr)

What `lower*.py` makes and the emitters print.  The `axes` of a kernel are its parallel loop; how a
chunk of it becomes loops, when it polls and counts, is the emitter's choice.  All index arithmetic
is i64.  Memory is flat: an offset counts elements from the start of a buffer's part.

Locals belong to one kernel.  A local of another kernel travels through a slot of the frame, which
`lower/program.py` arranges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from peffects.ir.primitives import ADD, MUL, Primitive
from peffects.ir.syntax import I64, Lit, Monoid, Scalar
from peffects.source import SrcInfo

__all__ = [
    "CHUNK",
    "SHORT_STEPS",
    "START",
    "STOP",
    "STRIP",
    "STRIP_STOP",
    "STRIP_WIDTH",
    "SUM_BLOCK",
    "AddTo",
    "Apply",
    "Assign",
    "Axis",
    "Blocks",
    "Body",
    "Branch",
    "Combine",
    "Expr",
    "Fail",
    "ForLoop",
    "Guard",
    "Line",
    "Local",
    "LoopKernel",
    "Memory",
    "Operand",
    "PutSlot",
    "Read",
    "SlotRead",
    "Stmt",
    "Store",
    "Until",
    "literal",
    "locals_in",
    "parts_of",
    "plus",
    "size_of_tree",
    "times",
    "type_of",
]

# --- values -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """A local variable of the kernel with this number."""

    name: str
    type: Scalar
    kernel: int


SHORT_STEPS = 4096
"""Iterations between two polls where an iteration has no loops in it."""

STRIP_WIDTH = 128
"""Iterations that a kernel made by `lower/strip_mining.py` runs at once."""

SUM_BLOCK = 128
"""Numbers that are added plainly, in any order, before their sum is added with care."""

CHUNK, START, STOP = (Local(name, I64, -1) for name in ("chunk", "start", "stop"))
"""Of every kernel: the number of its chunk, and the range of iterations that the chunk runs."""


STRIP, STRIP_STOP = Local("strip", I64, -1), Local("strip_stop", I64, -1)
"""In the body of a kernel that runs strips: the range of the strip in the last axis."""


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """A buffer, or each chunk's part of one: `part` elements further on for each chunk.

    `slot` has its address.  Two memories with different `number` never overlap.
    """

    name: str
    elem: Scalar
    slot: int
    number: int
    part: Expr | None = None


@dataclass(frozen=True, slots=True)
class Apply:
    """A primitive with the meaning that `ir/primitives.py` gives it."""

    op: Primitive
    args: tuple[Expr, ...]
    type: Scalar


@dataclass(frozen=True, slots=True)
class Read:
    """The element at an offset."""

    memory: Memory
    at: Expr


@dataclass(frozen=True, slots=True)
class Combine:
    """`left` and `right` combined; unless `ordered`, the compiler may regroup a chain of these."""

    monoid: Monoid
    left: Expr
    right: Expr
    type: Scalar
    ordered: bool


Operand: TypeAlias = Local | Lit
Expr: TypeAlias = Local | Lit | Apply | Read | Combine

# --- statements -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Assign:
    """`target = value`."""

    target: Local
    value: Expr


@dataclass(frozen=True, slots=True)
class Store:
    """`memory[at] = value`."""

    memory: Memory
    at: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class AddTo:
    """`memory[at] += value`, where the element is a total: what rounding takes goes to `low[at]`.

    Without `low` the total is an f64 and the value an f32.  `names` are locals for the emitter.
    """

    memory: Memory
    low: Memory | None
    at: Expr
    value: Expr
    names: tuple[Local, ...]


@dataclass(frozen=True, slots=True)
class PutSlot:
    """Write a scalar to the frame."""

    slot: int
    value: Expr


@dataclass(frozen=True, slots=True)
class ForLoop:
    """`for index in start .. stop-1`, downwards with `reverse`.

    Polls every `poll` iterations, a power of two; 0 means never.  With `blocks`, which start at 0,
    something runs between blocks of iterations.
    """

    index: Local
    start: Expr
    stop: Expr
    body: Body
    reverse: bool = False
    poll: int = 0
    blocks: Blocks | None = None


@dataclass(frozen=True, slots=True)
class Blocks:
    """Between blocks of the iterations of a loop, and as often as it pleases, `flush` runs.

    An iteration adds up to `adds` numbers to a sum; how many may come together `sum_blocks.py`
    says.  `index` counts the blocks.
    """

    index: Local
    adds: int
    flush: Body


@dataclass(frozen=True, slots=True)
class Until:
    """Run `test`; while `go_on`, run `body` and `test` again.  Polls."""

    test: Body
    go_on: Expr
    body: Body


@dataclass(frozen=True, slots=True)
class Branch:
    """One of two bodies."""

    condition: Expr
    then: Body
    orelse: Body


@dataclass(frozen=True, slots=True)
class Guard:
    """Unless `0 <= index < size`, fail with number `number`, these two operands, and `more`."""

    index: Expr
    size: Expr
    number: int
    more: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Fail:
    """Record failure `number` with two operands, and `more`, and leave the kernel."""

    number: int
    value: Expr
    size: Expr
    more: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """The following statements come from this user line."""

    src: SrcInfo


Stmt: TypeAlias = Assign | Store | AddTo | PutSlot | ForLoop | Until | Branch | Guard | Fail | Line
Body: TypeAlias = tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class SlotRead:
    """At its start the kernel reads a scalar, or an address, from a slot into a local."""

    target: Local
    slot: int


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of the parallel loop."""

    index: Local
    size: Expr


@dataclass(frozen=True, slots=True)
class LoopKernel:
    """The function that a stage runs for each chunk.

    `cheap` says that an iteration takes so little time that polling each would show.  With
    `strips`, `body` runs up to STRIP_WIDTH iterations of the last axis.  `flush` runs after each
    SUM_BLOCK iterations at most: it brings sums of blocks to their totals.
    """

    name: str
    slots: tuple[SlotRead, ...]
    prologue: Body
    axes: tuple[Axis, ...]
    body: Body
    epilogue: Body
    cheap: bool
    strips: bool = False
    flush: Body = ()


# --- building and looking at expressions ------------------------------------------------------


def literal(value: int) -> Lit:
    """An i64 literal."""
    return Lit(value, I64)


def type_of(expr: Expr) -> Scalar:
    """The scalar type of an expression."""
    return expr.memory.elem if isinstance(expr, Read) else expr.type


def plus(left: Expr, right: Expr) -> Expr:
    """`left + right` in i64, folded where a side is 0 or both are literals."""
    if isinstance(left, Lit) and isinstance(right, Lit):
        return literal(int(left.value) + int(right.value))
    if left == literal(0):
        return right
    if right == literal(0):
        return left
    return Apply(ADD, (left, right), I64)


def times(left: Expr, right: Expr) -> Expr:
    """`left * right` in i64, folded where a side is 0 or 1 or both are literals."""
    if isinstance(left, Lit) and isinstance(right, Lit):
        return literal(int(left.value) * int(right.value))
    if literal(0) in (left, right):
        return literal(0)
    if left == literal(1):
        return right
    if right == literal(1):
        return left
    return Apply(MUL, (left, right), I64)


def parts_of(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside `expr`."""
    match expr:
        case Local() | Lit():
            return ()
        case Apply(_, args):
            return args
        case Read(_, at):
            return (at,)
        case Combine(_, left, right):
            return (left, right)
        case _:
            assert_never(expr)


def locals_in(expr: Expr) -> Iterator[Local]:
    """The locals that `expr` reads."""
    if isinstance(expr, Local):
        yield expr
    for part in parts_of(expr):
        yield from locals_in(part)


def size_of_tree(expr: Expr) -> int:
    """How many nodes `expr` has; an access to memory counts as three."""
    if isinstance(expr, Read):
        return 3
    return 1 + sum(map(size_of_tree, parts_of(expr)))
