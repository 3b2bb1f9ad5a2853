"""Which locals are read later: those that must have one value where ways of control flow meet.

A local that every way assigns before it is read again is *dead*: it need have no common value
after an `if`, and no round of a loop hands it on.  A program may so use one name for tables of
different sizes, as long as it reads each of them before the next one is made.

Functions inside read locals when they are called.  One that stands in a call, as in
`pe.table(lambda i: p[i])`, is taken to be called there, which is wrong where the callee keeps it;
all others may be called at any time.  So a dead local is merged where that costs nothing, and has
a value that raises where it is used otherwise.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from peffects.staging.rewriting.syntax import assigned_names, own_nodes

__all__ = ["live_where_ways_meet"]

Live: TypeAlias = frozenset[str]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.GeneratorExp)
_READ_ALL = frozenset({"locals", "vars", "dir", "eval", "exec"})
_NONE: Live = frozenset()


def live_where_ways_meet(body: Sequence[ast.stmt]) -> dict[ast.stmt, Live]:
    """For each `if` and loop in the body of a function, the locals that are read later.

    After an `if`, that is; at the start of a round and after the last one of a loop.
    """
    liveness = _Liveness(_read_at_any_time(body))
    liveness.block(body, _NONE)
    return liveness.met


def _reads(nodes: Iterable[ast.AST | None]) -> Live:
    """The names that `nodes` read, in functions inside, too."""
    return frozenset(
        inner.id
        for node in nodes
        if node is not None
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Store)
    )


def _read_at_any_time(body: Sequence[ast.stmt]) -> Live:
    """What functions inside that may be kept read, and names that are not the function's own."""
    found = set(_reads(_kept_functions(body)))
    for node in own_nodes(body):
        if isinstance(node, ast.Global | ast.Nonlocal):
            found.update(node.names)
    return frozenset(found if _READ_ALL.isdisjoint(_reads(body)) else assigned_names(body))


def _kept_functions(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The functions inside `nodes` that do not stand in a call."""
    for node in nodes:
        if isinstance(node, _FUNCTIONS):
            yield node
        elif isinstance(node, ast.Call):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            rest = [value for value in given if not isinstance(value, _FUNCTIONS)]
            yield from _kept_functions([node.func, *rest])
        else:
            yield from _kept_functions(ast.iter_child_nodes(node))


def _stored(target: ast.expr) -> Live:
    """The locals that an assignment to `target` sets."""
    match target:
        case ast.Name():
            return frozenset({target.id})
        case ast.Tuple() | ast.List():
            return _NONE.union(*map(_stored, target.elts))
        case ast.Starred():
            return _stored(target.value)
        case _:
            return _NONE


class _Liveness:
    """Goes backwards: from the locals that are live after a statement to those before it."""

    def __init__(self, always: Live) -> None:
        self.always = always
        self.met: dict[ast.stmt, Live] = {}
        self.loops: list[tuple[Live, Live]] = []
        """For each loop around, what is live where `continue` and `break` lead to."""

    def block(self, statements: Sequence[ast.stmt], after: Live) -> Live:
        for statement in reversed(statements):
            after = self.statement(statement, after)
        return after

    def statement(self, node: ast.stmt, after: Live) -> Live:
        match node:
            case ast.Assign():
                for target in node.targets:
                    after -= _stored(target)
                return after | _reads([*node.targets, node.value])
            case ast.AnnAssign():
                stored = _NONE if node.value is None else _stored(node.target)
                return (after - stored) | _reads([node.target, node.value])
            case ast.AugAssign():
                return after | _stored(node.target) | _reads([node.target, node.value])
            case ast.Return() | ast.Raise():
                return _reads([node])
            case ast.Continue():
                return self.loops[-1][0]
            case ast.Break():
                return self.loops[-1][1]
            case ast.Expr() | ast.Assert() | ast.Pass():
                return after | _reads([node])
            case ast.If():
                self.met[node] = after | self.always
                sides = self.block(node.body, after) | self.block(node.orelse, after)
                return sides | _reads([node.test])
            case ast.For() | ast.While():
                return self.loop(node, after)
            case _:
                return self.opaque(node, after)

    def loop(self, node: ast.For | ast.While, after: Live) -> Live:
        """What is live before a round is what is so before the first one, or after any other."""
        exit_ = self.block(node.orelse, after)
        if isinstance(node, ast.While):
            exit_ |= _reads([node.test])
        targets = _stored(node.target) if isinstance(node, ast.For) else _NONE
        head = exit_
        for _ in range(2):  # reads of a round do not depend on what follows: the second time is all
            self.loops.append((head, after))
            head = exit_ | (self.block(node.body, head) - targets)
            self.loops.pop()
        self.met[node] = head | self.always
        return head | _reads([node.iter, node.target]) if isinstance(node, ast.For) else head

    def opaque(self, node: ast.stmt, after: Live) -> Live:
        """A statement that may be left anywhere, as `try` is: all it reads is live all the time."""
        live = after | _reads([node])
        always, self.always = self.always, self.always | live
        for part in ast.iter_child_nodes(node):
            parts = [part] if isinstance(part, ast.stmt) else getattr(part, "body", [])
            if not isinstance(node, _FUNCTIONS) and isinstance(parts, list):
                self.block(parts, live)
        self.always = always
        return live - {node.name} if isinstance(node, ast.FunctionDef) else live
