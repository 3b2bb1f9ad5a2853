"""Kernels as the source of a Python module that numba compiles.

A kernel is `f(chunk, frame)`.  Its parallel loop becomes nested loops over the chunk's range: the
last axis is a contiguous range, the axes before it are decoded once for each of its rows.  Between
iterations, or between strips of them where iterations are short, the kernel polls the cancel flag
and counts.  The source depends on nothing but the kernels, so it can be a cache key; with `lines`
it also shows the user's lines, for people.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isinf, isnan
from typing import assert_never

from peffects.codegen.emit.rules import emit_rules
from peffects.codegen.program.loop_ir import (
    SHORT_STEPS,
    STRIP_WIDTH,
    AddTo,
    Apply,
    Assign,
    Axis,
    Blocks,
    Body,
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
    literal,
    times,
    type_of,
)
from peffects.codegen.program.source_names import IMPORTS, NUMBERS
from peffects.codegen.program.sum_blocks import added, block_width, is_innermost
from peffects.ir.primitives import MUL, NEG, NOT, SCALE
from peffects.ir.syntax import BOOL, F32, F64, I64, Lit, Monoid, Scalar

__all__ = ["emit_cpu"]

_MOST_SCOPES = 64

_WIDE = (F64, F32, I64, BOOL)
"""The types whose arithmetic numba gives the same type."""
_REDUCERS = {
    Monoid.ADD: ("reduce_add", "+"),
    Monoid.MUL: ("reduce_mul", "*"),
    Monoid.MIN: ("reduce_min", "minimum"),
    Monoid.MAX: ("reduce_max", "maximum"),
}


def emit_cpu(kernels: Sequence[LoopKernel], *, lines: bool = False) -> str:
    """The source of a module that defines `kernels`."""
    texts = [_KernelText(kernel, lines) for kernel in kernels]
    accessors = sorted({line for text in texts for line in text.accessors})
    body = "\n\n\n".join("\n".join(text.lines) for text in texts)
    head = _imports("\n".join([*accessors, body]))
    return "\n".join([*head, "", *accessors, "", "", body]) + "\n"


def _imports(body: str) -> Iterator[str]:
    words = set(re.findall(r"(?<![\w.])[a-zA-Z_]\w*", body))
    if "math" in words:
        yield "import math"
    for module, names in IMPORTS.items():
        if found := [name for name in names if name in words]:
            yield f"from {module} import {', '.join(found)}"
    for name, number in NUMBERS.items():
        if name in words:
            yield f"from numba import {number} as {name}"


class _KernelText:
    """The lines of one kernel, and the accessors that it uses."""

    def __init__(self, kernel: LoopKernel, show_lines: bool) -> None:
        self.kernel, self.show_lines = kernel, show_lines
        self.lines: list[str] = []
        self.accessors: set[str] = set()
        self.memories: dict[str, Memory] = {}
        self.depth = 1
        self.varying: frozenset[Local] | None = None  # what the innermost loop changes
        self._kernel()

    # --- the function -------------------------------------------------------------------------

    def _kernel(self) -> None:
        kernel = self.kernel
        self.body(kernel.prologue)
        if kernel.axes:
            self._range(kernel.axes)
        else:
            self.body(kernel.body)
        self.body(kernel.epilogue)
        inner, self.lines = self.lines, []
        self.lines.append(f"def {kernel.name}(chunk, frame):")
        addresses = [self._address(memory) for memory in self.memories.values()]
        words = set(re.findall(r"\w+", "\n".join([*addresses, *inner])))
        for read in kernel.slots:
            if read.target.name in words:
                getter = self.getter(read.target.type)
                self.put(f"{read.target.name} = {getter}(frame, {read.slot})")
        if words & {"start", "stop"}:
            self.put("start, stop = i64(chunk_start(frame, chunk)), i64(chunk_stop(frame, chunk))")
        for address in addresses:
            self.put(address)
        self.lines += inner
        if len(self.lines) == 1:
            self.put("pass")

    def _address(self, memory: Memory) -> str:
        address = f"{self.getter(I64)}(frame, {memory.slot})"
        if memory.part is not None:
            address += f" + {self.expr(times(literal(_width(memory.elem)), memory.part))} * chunk"
        return f"{memory.name} = {address}"

    def _range(self, axes: Sequence[Axis]) -> None:
        """The loops over the chunk's part of the parallel loop."""
        last = axes[-1].index.name
        if len(axes) == 1:
            self._counted(last, "start", "stop")
            return
        size = self.expr(axes[-1].size)
        self.put(f"rows = max({size}, 1)")
        self.put("for row in range(start // rows, (stop + rows - 1) // rows):")
        self.depth += 1
        rest = "row"
        for position in range(len(axes) - 2, 0, -1):
            axis = axes[position]
            self.put(f"{axis.index.name} = {rest} % {self.expr(axis.size)}")
            rest = f"({rest} // {self.expr(axis.size)})"
        self.put(f"{axes[0].index.name} = {rest}")
        first, end = "max(start - row * rows, 0)", "min(stop - row * rows, rows)"
        self._counted(last, first, end)
        self.depth -= 1

    def _counted(self, index: str, first: str, end: str) -> None:
        """A loop that polls and counts, after each iteration or after each strip of them."""
        if not (self.kernel.cheap or self.kernel.strips):
            self.put(f"for {index} in range({first}, {end}):")
            self.depth += 1
            self.poll()
            self.body(self.kernel.body)
            self.body(self.kernel.flush)
            self.put("tick(frame, chunk, 1)")
            self.depth -= 1
            return
        width = STRIP_WIDTH if self.kernel.strips else SHORT_STEPS
        self.put(f"for strip in range({first}, {end}, {width}):")
        self.depth += 1
        self.poll()
        self.put(f"strip_stop = min(strip + {width}, {end})")
        if self.kernel.strips:
            self.body(self.kernel.body)
            self.body(self.kernel.flush)
        elif self.kernel.flush:
            width = block_width(self.kernel.body, self.kernel.axes[-1].index, 1)
            self.put(f"for block in range(strip, strip_stop, {width}):")
            self.depth += 1
            self.put(f"block_stop = min(block + {width}, strip_stop)")
            self.put(f"for {index} in range(block, block_stop):")
            self.nested(self.kernel.body)
            self.body(self.kernel.flush)
            self.depth -= 1
        else:
            self.put(f"for {index} in range(strip, strip_stop):")
            self.nested(self.kernel.body)
        self.put("tick(frame, chunk, strip_stop - strip)")
        self.depth -= 1

    def poll(self) -> None:
        self.put("if cancelled(frame):")
        self.put("    return")

    def put(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    # --- statements ---------------------------------------------------------------------------

    def body(self, body: Body) -> None:
        for stmt in body:
            self.stmt(stmt)

    def nested(self, body: Body) -> None:
        self.depth += 1
        before = len(self.lines)
        self.body(body)
        if all(line.lstrip().startswith("#") for line in self.lines[before:]):
            self.put("pass")
        self.depth -= 1

    def stmt(self, stmt: Stmt) -> None:
        match stmt:
            case Assign(target, value):
                self.put(f"{target.name} = {self.bare(value)}")
            case Store(memory, at, value):
                where = f"{self.address(memory)}, {self.bare(at)}"
                self.put(f"{self.accessor('store', memory)}({where}, {self.bare(value)})")
            case AddTo():
                self.body(tuple(added(stmt)))
            case PutSlot(slot, value):
                self.put(f"{self.setter(type_of(value))}(frame, {slot}, {self.bare(value)})")
            case ForLoop():
                self.loop(stmt)
            case Until(test, go_on, body):
                self.put("while True:")
                self.depth += 1
                self.poll()
                self.body(test)
                self.put(f"if not {self.expr(go_on)}:")
                self.put("    break")
                self.body(body)
                self.depth -= 1
            case Branch(condition, then, orelse):
                self.branch(condition, then, orelse)
            case Guard(index, size, number, more):
                self.put(f"if u64({self.bare(index)}) >= u64({self.bare(size)}):")
                self.nested((Fail(number, index, size, more),))
            case Fail(number, value, size, more):
                for place, operand in enumerate(more, start=2):
                    self.put(f"note(frame, chunk, {place}, {self.word(operand)})")
                operands = f"{self.word(value)}, {self.word(size)}"
                self.put(f"fail(frame, chunk, {number}, {self.flat()}, {operands})")
                self.put("return")
            case Line(src):
                if self.show_lines:
                    self.put(f"# {src.short()}   {src.snippet()}".rstrip())
            case _:
                assert_never(stmt)

    def blocks(self, loop: ForLoop, blocks: Blocks) -> None:
        """A loop of blocks, around a loop; a short innermost loop runs as one block."""
        index, block, size = loop.index.name, blocks.index.name, self.bare(loop.stop)
        width = block_width(loop.body, loop.index, blocks.adds)
        if is_innermost(loop.body):
            self.put(f"if {size} <= {width}:")
            self.depth += 1
            self.loop(replace(loop, blocks=None))
            self.depth -= 1
            self.put("else:")
            self.depth += 1
        self.put(f"for {block} in range(0, {size}, {width}):")
        self.depth += 1
        self.body(blocks.flush)
        self.put(f"for {index} in range({block}, min({block} + {width}, {size})):")
        self.nested(loop.body)
        self.depth -= 1 + is_innermost(loop.body)

    def loop(self, loop: ForLoop) -> None:
        if loop.blocks is not None:
            self.blocks(loop, loop.blocks)
            return
        start, stop = self.bare(loop.start), self.bare(loop.stop)
        if loop.reverse:
            span = f"{self.expr(loop.stop)} - 1, {self.expr(loop.start)} - 1, -1"
        else:
            span = stop if start == "0" else f"{start}, {stop}"
        index = loop.index.name
        around, self.varying = self.varying, _assigned(loop)
        self.put(f"for {index} in range({span}):")
        if loop.poll == 1:
            self.put("    if cancelled(frame):")
            self.put("        return")
        elif loop.poll:
            self.put(f"    if {index} & {loop.poll - 1} == 0 and cancelled(frame):")
            self.put("        return")
        self.nested(loop.body)
        self.varying = around

    def branch(self, condition: Expr, then: Body, orelse: Body) -> None:
        if not then:
            self.put(f"if not {self.expr(condition)}:")
            self.nested(orelse)
            return
        self.put(f"if {self.bare(condition)}:")
        self.nested(then)
        if orelse:
            self.put("else:")
            self.nested(orelse)

    def flat(self) -> str:
        """The number of the iteration that fails."""
        flat = "0"
        for position, axis in enumerate(self.kernel.axes):
            name = axis.index.name
            flat = name if position == 0 else f"({flat} * {self.expr(axis.size)} + {name})"
        return flat

    def word(self, value: Expr) -> str:
        """An operand of a status record."""
        t, text = type_of(value), self.bare(value)
        if t.is_float:
            return f"bits_of_f64({text if t == F64 else f'f64({text})'})"
        return text if t == I64 else f"i64({text})"

    # --- expressions --------------------------------------------------------------------------

    def bare(self, expr: Expr) -> str:
        """The text of an expression where it stands alone."""
        text = self.expr(expr)
        return text[1:-1] if text.startswith("(") and _closes_at_end(text) else text

    def expr(self, expr: Expr) -> str:
        """The text of an expression as an operand."""
        match expr:
            case Local():
                return expr.name
            case Lit():
                return _literal(expr)
            case Apply(op, args, t) if op is SCALE:
                return self.scaled("scale", args)
            case Apply(op, args, t):
                rule = emit_rules[op]
                bare = len(args) == 1 and op not in _PREFIX
                texts = [self.bare(arg) for arg in args] if bare else None
                simple = rule(type_of(args[-1]), *(texts or map(self.expr, args)))
                return simple if t in _WIDE else _narrowed(t, simple)
            case Read(memory, at):
                return f"{self.accessor('load', memory)}({self.address(memory)}, {self.bare(at)})"
            case Combine():
                return self.combine(expr)
            case _:
                assert_never(expr)

    def combine(self, expr: Combine) -> str:
        """Two values of an accumulator made one."""
        left, right, t = self.bare(expr.left), self.bare(expr.right), expr.type
        if expr.monoid in (Monoid.AND, Monoid.OR):
            sign = "&" if expr.monoid is Monoid.AND else "|"
            if t == BOOL:
                return f"({self.expr(expr.left)} {sign} {self.expr(expr.right)})"
            return f"{t}(({self.expr(expr.left)} != 0) {sign} ({self.expr(expr.right)} != 0))"
        loose, strict = _REDUCERS[expr.monoid]
        if t.is_float and not expr.ordered:
            product = expr.right
            if expr.monoid is Monoid.ADD and isinstance(product, Apply):
                if product.op is MUL:
                    right = f"contract_mul({', '.join(map(self.bare, product.args))})"
                elif product.op is SCALE:
                    right = self.scaled("contract_scale", product.args)
            return f"{loose}({left}, {right})"
        if len(strict) > 1:
            return f"{strict}({left}, {right})"
        text = f"({self.expr(expr.left)} {strict} {self.expr(expr.right)})"
        return text if t in _WIDE else _narrowed(t, text)

    def scaled(self, name: str, args: Sequence[Expr]) -> str:
        """A product in which 0 times anything is 0; quick if one factor stays what it is."""
        x, y = args
        for left, right in ((x, y), (y, x)):
            if self.varying is not None and isinstance(right, Local) and right not in self.varying:
                return f"{name}_by({self.bare(left)}, {self.bare(right)})"
        return f"{name}({self.bare(x)}, {self.bare(y)})"

    # --- accessors ----------------------------------------------------------------------------

    def address(self, memory: Memory) -> str:
        self.memories.setdefault(memory.name, memory)
        return memory.name

    def accessor(self, kind: str, memory: Memory) -> str:
        """The name of what loads from, or stores to, a memory."""
        dtype = memory.elem.dtype
        if memory.number >= _MOST_SCOPES:
            name = f"{kind}_{memory.elem}"
            self.accessors.add(f'{name} = {kind}("{dtype}")')
        else:
            name = f"{kind}_{memory.elem}_{memory.number}"
            self.accessors.add(f'{name} = {kind}("{dtype}", {memory.number})')
        return name

    def getter(self, t: Scalar) -> str:
        self.accessors.add(f'get_{t} = frame_get("{t.dtype}")')
        return f"get_{t}"

    def setter(self, t: Scalar) -> str:
        self.accessors.add(f'set_{t} = frame_set("{t.dtype}")')
        return f"set_{t}"


def _assigned(loop: ForLoop) -> frozenset[Local] | None:
    """The locals that a loop changes; None if loops are in it."""
    found = [loop.index]
    pending: list[Stmt] = [*loop.body]
    while pending:
        stmt = pending.pop()
        if isinstance(stmt, ForLoop | Until):
            return None
        if isinstance(stmt, Assign):
            found.append(stmt.target)
        elif isinstance(stmt, Branch):
            pending += [*stmt.then, *stmt.orelse]
    return frozenset(found)


_PREFIX = frozenset([NEG, NOT])
"""Operators in front of an operand, which binds tighter than what the operand may hold."""


def _width(t: Scalar) -> int:
    return 1 if t == BOOL else int(t.name[1:]) // 8


def _narrowed(t: Scalar, text: str) -> str:
    if text.startswith(f"{t}(") or text.startswith(f"convert({t}"):
        return text
    return f"{t}{text}" if text.startswith("(") and _closes_at_end(text) else f"{t}({text})"


def _closes_at_end(text: str) -> bool:
    """Whether the parenthesis that opens `text` is closed by its last character."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return position == len(text) - 1
    return False


def _literal(lit: Lit) -> str:
    if lit.type == BOOL:
        return str(bool(lit.value))
    if lit.type.is_float:
        value = float(lit.value)
        text = (
            "nan"
            if isnan(value)
            else ("-inf" if value < 0 else "inf")
            if isinf(value)
            else repr(value)
        )
        text = f"({text})" if text.startswith("-") else text
        return text if lit.type == F64 else f"f32({text.strip('()')})"
    text = str(int(lit.value))
    if lit.type == I64:
        return f"({text})" if text.startswith("-") else text
    return f"{lit.type}({text})"
