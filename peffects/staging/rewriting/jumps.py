"""Rearranges statements so that `return`, `break` and `continue` only stand where a block ends.

What follows an `if` goes into the side that does not jump, so both sides can be staged:

    if c: return a           if c: result = a        for i in xs:
    B; return b              else: B; result = b         if not stop:
                             return result                   if c: result = a; back = stop = True
                                                             else: B
    for i in xs:                                     if back: return result
        if c: return a
        B

A loop that is left early has a local that says so, `stop`; a loop that runs while staging leaves
itself once it is a plain True, a staged one carries it.  Inner loops are rearranged first, so a
`return` becomes one of the loop around, and at last one of the function.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from peffects.staging.rewriting.performing import with_performing_statements
from peffects.staging.rewriting.syntax import HOOKS, RESULT, has_any, own_nodes

__all__ = ["Stop", "stop_of", "without_jumps"]

_MOST_COPIES = 16
_STOP_FIELD = "_pe_stop"

Loop = ast.For | ast.While
Node = TypeVar("Node", bound=ast.stmt | ast.expr)
_JUMPS = (ast.Return, ast.Break, ast.Continue)


@dataclass(frozen=True)
class Stop:
    """How a loop is left early: the local that says so, and the statement that did it first."""

    name: str
    what: str
    line: int


def stop_of(loop: ast.For) -> Stop | None:
    """How `loop`, which was rearranged, is left early."""
    stop = getattr(loop, _STOP_FIELD, None)
    assert stop is None or isinstance(stop, Stop)
    return stop


def without_jumps(body: list[ast.stmt]) -> list[ast.stmt]:
    """`body`, of a function, without jumps out of the middle of a loop or an `if`.

    Where both sides of an `if` may go on, what follows is copied; what would be copied too often
    stays as it is, as do jumps out of `with`, `try` and `match`.
    """
    return _without_early_returns(_LoopJumps().block(with_performing_statements(body)))


# --- functions -----------------------------------------------------------------------------------


def _without_early_returns(body: list[ast.stmt]) -> list[ast.stmt]:
    if not any(_jumps_inside_if(statement, (ast.Return,)) for statement in body):
        return body
    try:
        new = _Structurer().block(body)
    except _TooManyCopies:
        return body
    return [*new, _at(body[-1], ast.Return(_load(RESULT)))]


def _jumps_inside_if(statement: ast.stmt, kinds: tuple[type[ast.stmt], ...]) -> bool:
    """Whether an `if` that is not inside a loop or the like jumps."""
    if not isinstance(statement, ast.If):
        return False
    sides = [*statement.body, *statement.orelse]
    return any(isinstance(s, kinds) or _jumps_inside_if(s, kinds) for s in sides)


class _TooManyCopies(Exception):
    """What follows an `if` would have to be copied too often."""


class _Structurer:
    """Moves what follows an `if` into it; a block of a function sets the result and ends."""

    jumps: tuple[type[ast.stmt], ...] = (ast.Return,)

    def __init__(self) -> None:
        self.copies = 0

    def jump(self, statement: ast.stmt) -> list[ast.stmt]:
        """What stands in place of a jump."""
        assert isinstance(statement, ast.Return)
        return [_set(statement, RESULT, statement.value)]

    def end(self, last: ast.stmt) -> list[ast.stmt]:
        """What follows a block that ends without a jump: the function returns None."""
        return [_set(last, RESULT, None)]

    def failed(self, last: ast.stmt) -> list[ast.stmt]:
        """What follows a statement that always fails: a result that fits any other."""
        return [_set(last, RESULT, _unset())]

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """`body` as a block that ends where it jumped."""
        for place, statement in enumerate(body):
            if isinstance(statement, self.jumps):
                return [*body[:place], *self.jump(statement)]
            if isinstance(statement, ast.Raise):
                return body[: place + 1]
            if _always_fails(statement):
                return [*body[: place + 1], *self.failed(statement)]
            if _jumps_inside_if(statement, self.jumps):
                assert isinstance(statement, ast.If)
                return [*body[:place], self.split(statement, body[place + 1 :])]
        return [*body, *self.end(body[-1])] if body else []

    def split(self, statement: ast.If, rest: list[ast.stmt]) -> ast.If:
        then, orelse = statement.body, statement.orelse
        then_ends, orelse_ends = self.always_jumps(then), self.always_jumps(orelse)
        if not then_ends and not orelse_ends and rest:
            self.copies += 1
            if self.copies > _MOST_COPIES:
                raise _TooManyCopies
            then = [*then, *copy.deepcopy(rest)]
        elif not then_ends:
            then = [*then, *rest]
        if not orelse_ends:
            orelse = [*orelse, *rest]
        new_orelse = self.block(orelse) if orelse else self.end(statement)
        new_then = self.block(then) or [_at(statement, ast.Pass())]
        return _at(statement, ast.If(statement.test, new_then, new_orelse))

    def always_jumps(self, body: Sequence[ast.stmt]) -> bool:
        for statement in body:
            if isinstance(statement, (*self.jumps, ast.Raise)) or _always_fails(statement):
                return True
            sides = (statement.body, statement.orelse) if isinstance(statement, ast.If) else ()
            if sides and all(side and self.always_jumps(side) for side in sides):
                return True
        return False


# --- loops ---------------------------------------------------------------------------------------


class _LoopStructurer(_Structurer):
    """The same for a round of a loop: `break` and `return` set `stop`, `return` also `back`."""

    jumps = _JUMPS

    def __init__(self, stop: str, back: str) -> None:
        super().__init__()
        self.stop, self.back = stop, back

    def jump(self, statement: ast.stmt) -> list[ast.stmt]:
        true = ast.Constant(True)
        stop = _set(statement, self.stop, true)
        if isinstance(statement, ast.Return):
            result = _set(statement, RESULT, statement.value)
            return [result, _set(statement, self.back, true), stop]
        return [stop] if isinstance(statement, ast.Break) else []

    def end(self, last: ast.stmt) -> list[ast.stmt]:
        return []

    def failed(self, last: ast.stmt) -> list[ast.stmt]:
        return []


class _LoopJumps:
    """Rearranges the loops of a function, innermost first."""

    def __init__(self) -> None:
        self.serial = itertools.count(1)

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [new for statement in body for new in self.statement(statement)]

    def statement(self, statement: ast.stmt) -> list[ast.stmt]:
        match statement:
            case ast.If() | ast.For() | ast.While():
                statement.body = self.block(statement.body)
                statement.orelse = self.block(statement.orelse)
            case ast.With():
                statement.body = self.block(statement.body)
        return self.loop(statement) if isinstance(statement, Loop) else [statement]

    def loop(self, loop: Loop) -> list[ast.stmt]:
        jumps = list(_jumps_of(loop.body))
        leaving = [jump for jump in jumps if not isinstance(jump, ast.Continue)]
        if not jumps or any(_is_opaque(s) for s in loop.body):
            return [loop]
        if isinstance(loop, ast.While) and has_any([loop.test], ast.NamedExpr):
            return [loop]
        number = next(self.serial)
        structurer = _LoopStructurer(f"_pe_stop_{number}", f"_pe_back_{number}")
        try:
            loop.body = structurer.block(loop.body) or [_at(loop, ast.Pass())]
        except _TooManyCopies:
            return [loop]
        if not leaving:
            return [loop]
        return self.stoppable(loop, structurer, leaving)

    def stoppable(
        self, loop: Loop, names: _LoopStructurer, leaving: list[ast.stmt]
    ) -> list[ast.stmt]:
        """`loop`, whose body sets `stop`, with what stands before and after it."""
        returns = any(isinstance(jump, ast.Return) for jump in leaving)
        breaks = any(isinstance(jump, ast.Break) for jump in leaving)
        forever = isinstance(loop, ast.While) and _is_true(loop.test)
        only_returns = not breaks and (forever or names.always_jumps(loop.orelse))
        before: list[ast.stmt] = [_set(loop, names.stop, ast.Constant(False))]
        after: list[ast.stmt] = []
        if isinstance(loop, ast.While):
            loop.test = _at(loop.test, ast.BoolOp(ast.And(), [_not(names.stop), loop.test]))
        else:
            loop.body = [_at(loop, ast.If(_not(names.stop), loop.body, []))]
            first = leaving[0]
            what = "return" if isinstance(first, ast.Return) else "break"
            setattr(loop, _STOP_FIELD, Stop(names.stop, what, first.lineno))
        if loop.orelse:
            after.append(_at(loop, ast.If(_not(names.stop), loop.orelse, [])))
            loop.orelse = []
        if returns:
            before += [_set(loop, names.back, ast.Constant(False)), _set(loop, RESULT, _unset())]
            leave: ast.stmt = _at(loop, ast.Return(_load(RESULT)))
            after.append(
                leave if only_returns else _at(loop, ast.If(_load(names.back), [leave], []))
            )
        return [*before, loop, *after]


def _jumps_of(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The jumps out of a round of a loop that stand in its body or in `if`s there."""
    for statement in body:
        if isinstance(statement, _JUMPS):
            yield statement
        elif isinstance(statement, ast.If):
            yield from _jumps_of([*statement.body, *statement.orelse])


def _is_true(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and bool(test.value)


def _always_fails(statement: ast.stmt) -> bool:
    """Whether this is `assert False`."""
    return (
        isinstance(statement, ast.Assert)
        and isinstance(statement.test, ast.Constant)
        and not statement.test.value
    )


def _is_opaque(statement: ast.stmt) -> bool:
    """Whether a jump is hidden in a statement that is not taken apart."""
    if isinstance(statement, ast.If):
        return any(map(_is_opaque, [*statement.body, *statement.orelse]))
    if isinstance(statement, _JUMPS):
        return False
    if isinstance(statement, Loop):
        return has_any(statement.body, ast.Return) or any(map(_is_opaque, statement.orelse))
    return any(isinstance(node, _JUMPS) for node in own_nodes([statement]))


# --- making nodes --------------------------------------------------------------------------------


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _unset() -> ast.expr:
    return ast.Attribute(_load(HOOKS), "unset", ast.Load())


def _not(name: str) -> ast.expr:
    return ast.UnaryOp(ast.Not(), _load(name))


def _at(place: ast.stmt | ast.expr, node: Node) -> Node:
    return ast.fix_missing_locations(ast.copy_location(node, place))


def _set(place: ast.stmt, name: str, value: ast.expr | None) -> ast.stmt:
    """`name = value`, at `place`."""
    value = value if value is not None else ast.Constant(None)
    return _at(place, ast.Assign([ast.Name(name, ast.Store())], value))
