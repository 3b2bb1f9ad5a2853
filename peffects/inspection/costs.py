"""Operations and bytes of a kernel: what a roofline needs, counted in its loop IR.

An operation is an arithmetic one on data, a comparison or a combination; index arithmetic is none.
Of a transcendental function there are as many as its cost says.  The bytes are those of the
elements that the kernel reads or writes, each array once at most: what has to travel if caches were
perfect.  A loop whose bounds depend on an outer index (a triangle) has its middle length; of two
branches the larger one counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np

from peffects.codegen.program.loop_ir import (
    START,
    STOP,
    STRIP,
    STRIP_STOP,
    STRIP_WIDTH,
    AddTo,
    Apply,
    Assign,
    Branch,
    Combine,
    Expr,
    Fail,
    ForLoop,
    Guard,
    Line,
    Local,
    LoopKernel,
    Memory,
    PutSlot,
    Read,
    Stmt,
    Store,
    Until,
    parts_of,
)
from peffects.ir.syntax import I64, Lit

__all__ = ["Cost", "kernel_cost"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run of a kernel over all its iterations does."""

    operations: int
    bytes: int

    @property
    def intensity(self) -> float:
        """Operations for each byte; inf if nothing is read or written."""
        return self.operations / self.bytes if self.bytes else math.inf


class _Unknown(Exception):
    """A bound that only a run can tell."""


def kernel_cost(
    kernel: LoopKernel, slots: Mapping[int, int], sizes: Mapping[int, int]
) -> Cost | None:
    """The cost of a kernel; None if it depends on what only a run can tell.

    `slots` are the numbers in the frame that are known, `sizes` the bytes of the array whose
    address a slot holds.
    """
    count = _Count({read.target: slots[read.slot] for read in kernel.slots if read.slot in slots})
    try:
        count.body(kernel.prologue, 1.0)
        axes = [count.value(axis.size) for axis in kernel.axes]
        for axis, length in zip(kernel.axes, axes, strict=True):
            count.known[axis.index] = length // 2
        trips = float(math.prod(axes))
        if kernel.strips and axes:
            strips = -(-axes[-1] // STRIP_WIDTH)
            count.known |= {STRIP: 0, STRIP_STOP: axes[-1] // max(strips, 1)}
            trips = float(math.prod(axes[:-1]) * strips)
        count.known |= {START: 0, STOP: math.prod(axes)}
        count.body(kernel.body, trips)
        count.body(kernel.epilogue, 1.0)
    except _Unknown:
        return None
    return Cost(round(count.operations), round(count.bytes(sizes)))


@dataclass(slots=True)
class _Count:
    """Running sums; `known` has the integers that are known at the place that is looked at."""

    known: dict[Local, int]
    operations: float = 0.0
    touched: dict[Memory, float] = field(default_factory=dict)

    def bytes(self, sizes: Mapping[int, int]) -> float:
        """The bytes of all arrays, of each at most its size."""
        return sum(
            min(size, float(sizes.get(memory.slot, math.inf)))
            for memory, size in self.touched.items()
        )

    def value(self, expr: Expr) -> int:
        """The integer that an expression has."""
        match expr:
            case Lit(number):
                return int(number)
            case Local() if expr in self.known:
                return self.known[expr]
            case Apply(op, args, t) if t == I64:
                return int(op.evaluate(*map(self.value, args)))
        raise _Unknown

    def body(self, statements: Sequence[Stmt], times: float) -> None:
        """Count statements that run so many times."""
        for statement in statements:
            self.statement(statement, times)

    def statement(self, statement: Stmt, times: float) -> None:
        """Count a statement that runs so many times."""
        match statement:
            case Assign(target, value):
                self.expr(value, times)
                self.note(target, value)
            case Store(memory, _, value):
                self.expr(value, times)
                self.touch(memory, times)
            case AddTo(memory, low, _, value):
                self.expr(value, times)
                self.touch(memory, times)
                self.operations += times
                if low is not None:  # what rounding took is found, and added to it
                    self.touch(low, times)
                    self.operations += 3 * times
            case PutSlot(_, value):
                self.expr(value, times)
            case ForLoop(index, start, stop, body):
                first, last = self.value(start), self.value(stop)
                self.known[index] = (first + last) // 2
                self.body(body, times * max(last - first, 0))
            case Branch(condition, then, orelse):
                self.expr(condition, times)
                self.larger(then, orelse, times)
            case Until():
                raise _Unknown
            case Guard() | Fail() | Line():
                pass
            case _:
                assert_never(statement)

    def note(self, target: Local, value: Expr) -> None:
        """Remember an integer that is known: loops may run so often."""
        self.known.pop(target, None)
        if target.type == I64:
            with suppress(_Unknown):
                self.known[target] = self.value(value)

    def larger(self, then: Sequence[Stmt], orelse: Sequence[Stmt], times: float) -> None:
        """Count the branch with more operations; both touch memory."""
        before = self.operations
        self.body(then, times)
        first, self.operations = self.operations, before
        self.body(orelse, times)
        self.operations = max(first, self.operations)

    def touch(self, memory: Memory, times: float) -> None:
        """Count an access to an element."""
        width = np.dtype(memory.elem.dtype).itemsize
        self.touched[memory] = self.touched.get(memory, 0.0) + times * width

    def expr(self, expr: Expr, times: float) -> None:
        """Count the evaluation of an expression."""
        match expr:
            case Read(memory, _):
                self.touch(memory, times)
                return  # what is computed for the offset is index arithmetic
            case Apply(op, args, _) if not all(_is_integer(arg) for arg in args):
                self.operations += op.cost * times
            case Combine():
                self.operations += times
            case _:
                pass
        for part in parts_of(expr):
            self.expr(part, times)


def _is_integer(expr: Expr) -> bool:
    """Whether an operand is an i64, as indices are."""
    match expr:
        case Read(memory, _):
            return memory.elem == I64
        case Apply(_, _, t) | Combine(_, _, _, t):
            return t == I64
        case Local() | Lit():
            return expr.type == I64
        case _:
            assert_never(expr)
