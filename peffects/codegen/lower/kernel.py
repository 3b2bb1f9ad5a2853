"""What lowering builds kernels with: names, locals, statements, the frame's slots, buffers.

A `KernelBuilder` collects the statements of one kernel.  The `Frame` hands out slots; a local that
another kernel wants gets one, and the kernel that computes it writes it there when it ends.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import assert_never

from peffects.codegen.program.loop_ir import (
    Apply,
    Assign,
    Axis,
    Body,
    Branch,
    Expr,
    Line,
    Local,
    LoopKernel,
    Memory,
    Operand,
    PutSlot,
    Read,
    SlotRead,
    Stmt,
    Store,
    literal,
    plus,
    times,
    type_of,
)
from peffects.codegen.program.loop_programs import (
    FIRST_FREE_SLOT,
    LOG_WORDS,
    Buffer,
    Const,
    Natural,
    Role,
    SizeExpr,
    SizeProduct,
    SizeQuotient,
    SizeSum,
    SlotSize,
    Within,
)
from peffects.codegen.program.source_names import IMPORTS, NUMBERS
from peffects.errors import InternalError
from peffects.ir.primitives import LE, MAX
from peffects.ir.syntax import BOOL, I64, Atom, Lit, Scalar
from peffects.source import UNKNOWN, SrcInfo

__all__ = ["INPUT", "Frame", "KernelBuilder", "TablePlace", "identifier"]

INPUT = 0
"""The kernel number of what is in the frame before the first stage: arguments and sizes."""

_LOG_START = 2
_RESERVED = frozenset(
    {"abs", "chunk", "frame", "math", "max", "min", "range", "row", "rows", "start", "stop"}
    | {"block", "block_stop", "strip", "strip_stop", *NUMBERS}
    | {name for names in IMPORTS.values() for name in names}
)
_RESERVED_PATTERN = re.compile(r"(load|store|get|set)_")  # what emit/source.py calls accessors
_NOT_A_NAME = re.compile(r"\W+", re.ASCII)


@dataclass(frozen=True, slots=True)
class TablePlace:
    """Where a table is: its elements follow each other from `offset` on; `dims` are its sizes."""

    memory: Memory
    offset: Operand
    dims: tuple[Atom, ...]


@dataclass(slots=True)
class Frame:
    """The slots of a program, and the names that kernels must not use for locals."""

    slots: int = FIRST_FREE_SLOT
    local_slots: dict[Local, int] = field(default_factory=dict)
    exports: dict[int, list[Local]] = field(default_factory=dict)
    memories: int = 0
    memory_names: set[str] = field(default_factory=set)
    local_names: set[str] = field(default_factory=set)

    def new_slot(self) -> int:
        """A slot that nothing else uses."""
        self.slots += 1
        return self.slots - 1

    def new_slots(self, count: int) -> int:
        """The first of `count` slots that nothing else uses."""
        self.slots += count
        return self.slots - count

    def input(self, name: str, t: Scalar) -> Local:
        """A scalar that is in the frame before the first stage."""
        local = Local(name, t, INPUT)
        self.local_slots[local] = self.new_slot()
        return local

    def slot_of(self, local: Local) -> int:
        """The slot of a local, which its kernel writes when it ends."""
        if local not in self.local_slots:
            self.local_slots[local] = self.new_slot()
            self.exports.setdefault(local.kernel, []).append(local)
        return self.local_slots[local]

    def memory(self, hint: str, elem: Scalar, part: Expr | None = None) -> Memory:
        """A buffer, with a slot for its address."""
        name = _unused(identifier(hint) + "_at", self.memory_names | self.local_names)
        self.memory_names.add(name)
        self.memories += 1
        return Memory(name, elem, self.new_slot(), self.memories - 1, part)


def identifier(hint: str) -> str:
    """A Python name that looks like `hint`."""
    name = _NOT_A_NAME.sub("_", hint).strip("_") or "t"
    if name[0].isdigit() or keyword.iskeyword(name):
        name = f"v_{name}"
    return f"{name}_" if name in _RESERVED or _RESERVED_PATTERN.match(name) else name


def _unused(name: str, taken: set[str]) -> str:
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


class KernelBuilder:
    """Collects the statements, slots and buffers of one kernel."""

    def __init__(self, frame: Frame, number: int, at: SrcInfo = UNKNOWN) -> None:
        self.frame = frame
        self.number = number
        self.at = at
        self.prologue: list[Stmt] = []
        self.body: list[Stmt] = []
        self.epilogue: list[Stmt] = []
        self.flush: list[Stmt] = []
        self.buffers: list[Buffer] = []
        self._slots: dict[int, SlotRead] = {}
        self._taken: set[str] = set()
        self._line = UNKNOWN
        self.log_memory: Memory | None = None
        self._idle: dict[tuple[Scalar, SizeExpr], list[Memory]] = {}
        self._scopes: list[list[tuple[tuple[Scalar, SizeExpr], Memory]]] = [[]]

    # --- locals and statements ----------------------------------------------------------------

    def local(self, hint: str, t: Scalar) -> Local:
        """A new local variable, named like `hint`."""
        name = _unused(identifier(hint), self._taken | self.frame.memory_names)
        self._taken.add(name)
        self.frame.local_names.add(name)
        return Local(name, t, self.number)

    def emit(self, stmt: Stmt) -> None:
        """Append a statement."""
        self.body.append(stmt)

    def assign(self, hint: str, value: Expr) -> Local:
        """A new local with this value."""
        local = self.local(hint, type_of(value))
        self.emit(Assign(local, value))
        return local

    def operand(self, hint: str, value: Expr) -> Operand:
        """`value` in a form that costs nothing to use twice."""
        return value if isinstance(value, Local | Lit) else self.assign(hint, value)

    def line(self, src: SrcInfo) -> None:
        """Say that what follows comes from the user line `src`."""
        if src.line and (src.file, src.line) != (self._line.file, self._line.line):
            self._line = src
            self.emit(Line(src))

    @contextmanager
    def into(self, body: list[Stmt]) -> Iterator[None]:
        """Append to `body` for a while; what is allocated meanwhile is free afterwards."""
        outer, self.body = self.body, body
        self._scopes.append([])
        yield
        for key, memory in self._scopes.pop():
            self._idle.setdefault(key, []).append(memory)
        self.body = outer

    # --- the frame ----------------------------------------------------------------------------

    def use(self, operand: Operand) -> Operand:
        """`operand` as this kernel reads it: a local of another kernel comes through a slot."""
        if isinstance(operand, Lit) or operand.kernel in (self.number, -1):
            return operand
        return self.read_slot(self.frame.slot_of(operand), operand.name, operand.type)

    def read_slot(self, slot: int, hint: str, t: Scalar) -> Local:
        """The scalar in a slot, read once when the kernel starts."""
        if slot not in self._slots:
            self._slots[slot] = SlotRead(self.local(hint, t), slot)
        return self._slots[slot].target

    def size(self, size: SizeExpr) -> Expr:
        """A size expression as an expression of this kernel."""
        match size:
            case Const(value):
                return literal(value)
            case SlotSize(slot):
                return self.read_slot(slot, self._size_hint(slot), I64)
            case SizeProduct(terms):
                product: Expr = literal(1)
                for term in terms:
                    product = times(product, self.size(term))
                return product
            case SizeSum(terms):
                total: Expr = literal(0)
                for term in terms:
                    total = plus(total, self.size(term))
                return total
            case Natural(inner):
                return Apply(MAX, (self.size(inner), literal(0)), I64)
            case SizeQuotient() | Within():
                raise InternalError("lowering: such sizes are for the launcher, not for kernels.")
            case _:
                assert_never(size)

    def _size_hint(self, slot: int) -> str:
        names = (local.name for local, held in self.frame.local_slots.items() if held == slot)
        return next(names, "size")

    # --- memory -------------------------------------------------------------------------------

    def part(self, hint: str, elem: Scalar, shape: Sequence[SizeExpr], role: Role) -> Memory:
        """A part for each chunk of a new buffer; `shape` is that of one part."""
        memory = self.frame.memory(hint, elem, self.size(SizeProduct(tuple(shape))))
        self.buffers.append(Buffer(memory.slot, elem.dtype, tuple(shape), role, self.at))
        return memory

    def log(self) -> Memory:
        """Where each chunk keeps what it prints, which the kernel empties when it starts."""
        if self.log_memory is None:
            self.log_memory = self.part("log", I64, (Const(LOG_WORDS),), Role.PARTIALS)
            self.prologue += [
                Store(self.log_memory, literal(0), literal(_LOG_START)),
                Store(self.log_memory, literal(1), literal(0)),
            ]
        return self.log_memory

    def tell(self, number: int, words: Sequence[Expr]) -> Body:
        """Append a line to the log, or count it where that is full."""
        log = self.log()
        used = self.local("used", I64)
        record = (literal(number), *words)
        stores = [Store(log, plus(used, literal(k)), word) for k, word in enumerate(record)]
        moved = Store(log, literal(0), plus(used, literal(len(record))))
        missed = Store(log, literal(1), plus(Read(log, literal(1)), literal(1)))
        fits = Apply(LE, (used, literal(LOG_WORDS - len(record))), BOOL)
        return (
            Assign(used, Read(log, literal(0))),
            Branch(fits, (*stores, moved), (missed,)),
        )

    def scratch(self, hint: str, elem: Scalar, size: SizeExpr) -> Memory:
        """Memory for a local table of the running block, given back when the block ends."""
        key = (elem, size)
        idle = self._idle.get(key)
        memory = idle.pop() if idle else self.part(hint, elem, (size,), Role.SCRATCH)
        self._scopes[-1].append((key, memory))
        return memory

    # --- the end ------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether the kernel would do nothing."""
        return not any(not isinstance(stmt, Line) for stmt in self.body)

    def kernel(
        self, name: str, axes: Sequence[Axis] = (), cheap: bool = False, strips: bool = False
    ) -> LoopKernel:
        """The finished kernel, which writes the locals that others want to their slots."""
        wanted = self.frame.exports.get(self.number, [])
        exports: Body = tuple(PutSlot(self.frame.slot_of(local), local) for local in wanted)
        return LoopKernel(
            name,
            tuple(self._slots.values()),
            tuple(self.prologue),
            tuple(axes),
            tuple(self.body),
            (*self.epilogue, *exports),
            cheap,
            strips,
            tuple(self.flush),
        )
