"""Strip-mining: the last parallel axis becomes the innermost loop where memory lies that way.

In `c[i, j] = sum_k a[i, k] b[k, j]` the inner loop over k jumps through b, while neighbours in j
lie side by side.  So the body runs for a strip of iterations of j at once: its straight parts
become loops over the lanes of the strip, its loops over k stay around them, and what a lane keeps
from one part to the next is a row of memory, one element a lane.  LLVM vectorizes loops over lanes.

This changes the order in which different iterations do things, so it is done only where nobody can
see that: iterations are independent, and none of them can fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from peffects.codegen.lower.kernel import KernelBuilder
from peffects.codegen.program.loop_ir import (
    STRIP,
    STRIP_STOP,
    STRIP_WIDTH,
    AddTo,
    Apply,
    Assign,
    Axis,
    Body,
    Branch,
    Combine,
    Expr,
    Fail,
    ForLoop,
    Guard,
    Line,
    Local,
    Memory,
    PutSlot,
    Read,
    Stmt,
    Store,
    Until,
    literal,
    locals_in,
    parts_of,
    plus,
    times,
    type_of,
)
from peffects.codegen.program.loop_programs import Const, Role
from peffects.codegen.program.strides import segments, straight_parts, stride, values_of
from peffects.codegen.program.sum_blocks import explicit_blocks
from peffects.ir.primitives import SUB
from peffects.ir.syntax import I64, Lit, Monoid

__all__ = ["strip_mine"]


def strip_mine(k: KernelBuilder, axes: Sequence[Axis]) -> bool:
    """Turn the body of a parallel kernel into one for strips, if that pays; whether it did."""
    index, body = axes[-1].index, k.body
    k.body = explicit_blocks(body)
    if not (_may_move(k.body) and _is_uniform(k.body, {index}) and _pays(k, index)):
        k.body = body
        return False
    shared = {stmt.target for stmt in k.prologue if isinstance(stmt, Assign)}
    stripper = _Stripper(k, index, shared)
    k.body = stripper.body(k.body)
    return True


# --- whether it may be done -------------------------------------------------------------------


def _may_move(body: Sequence[Stmt]) -> bool:
    """Whether the body has only statements that can run for several iterations at once."""
    for stmt in body:
        match stmt:
            case ForLoop(_, _, _, inner, _, poll):
                if poll or not _may_move(inner):
                    return False
            case Branch(_, then, orelse):
                if _has_loops(then) or _has_loops(orelse):
                    return False
                if not (_may_move(then) and _may_move(orelse)):
                    return False
            case Until() | Guard() | Fail() | PutSlot():
                return False
            case Assign() | Store() | AddTo() | Line():
                pass
            case _:
                assert_never(stmt)
    return True


def _has_loops(body: Sequence[Stmt]) -> bool:
    return any(isinstance(stmt, ForLoop) for stmt in body) or any(
        _has_loops(stmt.then) or _has_loops(stmt.orelse)
        for stmt in body
        if isinstance(stmt, Branch)
    )


def _is_uniform(body: Sequence[Stmt], varying: set[Local]) -> bool:
    """Whether all lanes go through the same iterations of inner loops."""
    for stmt in body:
        match stmt:
            case Assign(target, _):
                varying.add(target)
            case Branch(_, then, orelse):
                _is_uniform(then, varying)
                _is_uniform(orelse, varying)
            case ForLoop(_, start, stop, inner):
                bounds = {*locals_in(start), *locals_in(stop)}
                reads = isinstance(start, Read) or isinstance(stop, Read)
                if reads or bounds & varying or not _is_uniform(inner, varying):
                    return False
            case _:
                pass
    return True


# --- whether it pays --------------------------------------------------------------------------


def _pays(k: KernelBuilder, index: Local) -> bool:
    """Whether innermost loops jump through memory more often than lanes would."""
    private = _scratch_slots(k)
    loops = list(_innermost(k.body))
    values = values_of(k.body)
    jumps = lane_jumps = 0
    for loop in loops:
        for stmt in loop.body:
            for memory, at in _accesses(stmt):
                jumps += stride(at, loop.index, values) is None
                lanes = stride(at, index, values) is None
                lane_jumps += lanes and memory.slot not in private
    return lane_jumps < jumps


def _innermost(body: Sequence[Stmt]) -> Iterator[ForLoop]:
    """The loops without loops in them."""
    for stmt in body:
        if isinstance(stmt, ForLoop):
            inner = list(_innermost(stmt.body))
            yield from inner or [stmt]


def _accesses(stmt: Stmt) -> Iterator[tuple[Memory, Expr]]:
    match stmt:
        case Store(memory, at, value) | AddTo(memory, _, at, value):
            yield memory, at
            yield from _reads(at)
            yield from _reads(value)
        case Assign(_, value):
            yield from _reads(value)
        case Branch(condition, then, orelse):
            yield from _reads(condition)
            for inner in (*then, *orelse):
                yield from _accesses(inner)
        case _:
            return


def _reads(expr: Expr) -> Iterator[tuple[Memory, Expr]]:
    if isinstance(expr, Read):
        yield expr.memory, expr.at
    for part in parts_of(expr):
        yield from _reads(part)


def _scratch_slots(k: KernelBuilder) -> set[int]:
    return {buffer.slot for buffer in k.buffers if buffer.role is Role.SCRATCH}


# --- doing it ---------------------------------------------------------------------------------


@dataclass(slots=True)
class _Stripper:
    """Rewrites bodies; `rows` are the locals that became memory."""

    k: KernelBuilder
    index: Local
    shared: set[Local]
    rows: dict[Local, Memory] = field(default_factory=dict)
    memories: dict[Memory, Memory] = field(default_factory=dict)
    private: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.private = _scratch_slots(self.k)
        self.k.buffers = [
            replace(buffer, shape=(*buffer.shape, Const(STRIP_WIDTH)))
            if buffer.slot in self.private
            else buffer
            for buffer in self.k.buffers
        ]
        places: Counter[Local] = Counter()
        for segment in segments(self.k.body):
            places.update(list(_mentioned(segment)))
        assigned = {local for part in segments(self.k.body) for local in _assigned(part)}
        for local, count in places.items():
            if count > 1 and local in assigned and local not in self.shared:
                shape = (Const(STRIP_WIDTH),)
                self.rows[local] = self.k.part(
                    f"{local.name}_lanes", local.type, shape, Role.SCRATCH
                )

    def body(self, body: Sequence[Stmt]) -> list[Stmt]:
        """The body for a strip: loops around loops over lanes."""
        result: list[Stmt] = []
        for part in straight_parts(body):
            if isinstance(part, ForLoop):
                result.append(replace(part, body=tuple(self.body(part.body))))
            elif any(not isinstance(stmt, Line) for stmt in part):
                result += self.straight(part)
        return result

    def straight(self, part: Sequence[Stmt]) -> list[Stmt]:
        """A loop over lanes.  What all of them add to one total, they add up before."""
        values = {stmt.target: stmt.value for stmt in part if isinstance(stmt, Assign)}
        before, lanes, after = list[Stmt](), list[Stmt](), list[Stmt]()
        for stmt in part:
            at = self.common(stmt.at, values) if isinstance(stmt, AddTo) else None
            if not isinstance(stmt, AddTo) or at is None or stmt.memory.slot in self.private:
                lanes.append(self.stmt(stmt))
                continue
            t = type_of(stmt.value)
            total = self.k.local("part", t)
            before.append(Assign(total, Lit(0.0, t)))
            more = Combine(Monoid.ADD, total, self.expr(stmt.value), t, False)
            lanes.append(Assign(total, more))
            after.append(replace(stmt, at=at, value=total))
        return [*before, ForLoop(self.index, STRIP, STRIP_STOP, tuple(lanes)), *after]

    def common(self, at: Expr, values: Mapping[Local, Expr]) -> Expr | None:
        """A place that is the same in all lanes, by what is known outside of them."""
        match at:
            case Lit():
                return at
            case Local():
                if at in values and at not in self.rows:
                    return self.common(values[at], values)
                return None if at is self.index or at in self.rows else at
            case Apply(op, args, t):
                parts = [self.common(arg, values) for arg in args]
                known = tuple(part for part in parts if part is not None)
                return Apply(op, known, t) if len(known) == len(args) else None
            case _:
                return None

    def stmt(self, stmt: Stmt) -> Stmt:
        """A statement of one lane."""
        match stmt:
            case Assign(target, value) if target in self.rows:
                return Store(self.rows[target], self.lane(), self.expr(value))
            case Assign(target, value):
                return Assign(target, self.expr(value))
            case Store(memory, at, value):
                place = self.read(memory, self.expr(at))
                return Store(place.memory, place.at, self.expr(value))
            case AddTo(memory, low, at, value):
                at, less = self.expr(at), low
                place = self.read(memory, at)
                if low is not None:
                    less = self.read(low, at).memory
                return AddTo(place.memory, less, place.at, self.expr(value), stmt.names)
            case Branch(condition, then, orelse):
                sides = (tuple(map(self.stmt, side)) for side in (then, orelse))
                return Branch(self.expr(condition), *sides)
            case _:
                return stmt

    def expr(self, expr: Expr) -> Expr:
        """An expression of one lane."""
        match expr:
            case Local():
                return Read(self.rows[expr], self.lane()) if expr in self.rows else expr
            case Lit():
                return expr
            case Apply(op, args, t):
                return Apply(op, tuple(map(self.expr, args)), t)
            case Read(memory, at):
                return self.read(memory, self.expr(at))
            case Combine(monoid, left, right, t, ordered):
                return Combine(monoid, self.expr(left), self.expr(right), t, ordered)
            case _:
                assert_never(expr)

    def read(self, memory: Memory, at: Expr) -> Read:
        """An element; memory that belongs to one iteration has one for each lane."""
        if memory.slot not in self.private:
            return Read(memory, at)
        if memory not in self.memories:
            part = times(memory.part or literal(1), literal(STRIP_WIDTH))
            self.memories[memory] = Memory(
                memory.name, memory.elem, memory.slot, memory.number, part
            )
        return Read(self.memories[memory], plus(times(at, literal(STRIP_WIDTH)), self.lane()))

    def lane(self) -> Expr:
        """The number of the lane in its strip."""
        return Apply(SUB, (self.index, STRIP), I64)


def _mentioned(body: Sequence[Stmt]) -> dict[Local, None]:
    """The locals that are read or set, in order: memory is laid out in it, a set's is random."""
    found = dict.fromkeys(_assigned(body))
    for stmt in body:
        match stmt:
            case Assign(_, value):
                found.update(dict.fromkeys(locals_in(value)))
            case Store(_, at, value) | AddTo(_, _, at, value):
                found.update(dict.fromkeys((*locals_in(at), *locals_in(value))))
            case Branch(condition, then, orelse):
                inner = (*locals_in(condition), *_mentioned(then), *_mentioned(orelse))
                found.update(dict.fromkeys(inner))
            case _:
                pass
    return found


def _assigned(body: Body | Sequence[Stmt]) -> Iterator[Local]:
    for stmt in body:
        if isinstance(stmt, Assign):
            yield stmt.target
        elif isinstance(stmt, Branch):
            yield from _assigned(stmt.then)
            yield from _assigned(stmt.orelse)
