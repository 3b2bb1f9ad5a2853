"""Questions about and rearrangements of syntax trees that the rewriter needs.

Which names a statement assigns, whether it leaves its function, and a form of `if` in which no side
returns early: what follows the `if` goes into the side that does not return.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator, Sequence

__all__ = [
    "RESULT",
    "assigned_names",
    "bound_names",
    "has_any",
    "own_nodes",
    "without_early_returns",
]

RESULT = "_pe_result"
"""The local that holds what a rewritten function returns."""

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def own_nodes(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes inside `nodes` except those of nested functions and classes."""
    for node in nodes:
        yield node
        if not isinstance(node, _SCOPES):
            yield from own_nodes(ast.iter_child_nodes(node))


def has_any(nodes: Iterable[ast.AST], *kinds: type[ast.AST]) -> bool:
    """Whether a node of one of `kinds` is inside `nodes`, outside nested functions."""
    return any(isinstance(node, kinds) for node in own_nodes(nodes))


def assigned_names(statements: Sequence[ast.AST]) -> dict[str, int]:
    """The local names that statements assign, each with the line of its first assignment."""
    found: dict[str, int] = {}
    _collect(statements, found, comprehension=False)
    return found


def _collect(nodes: Iterable[ast.AST], found: dict[str, int], comprehension: bool) -> None:
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and not comprehension:
            found.setdefault(node.id, node.lineno)
        elif isinstance(node, ast.NamedExpr):
            found.setdefault(node.target.id, node.lineno)
            _collect([node.value], found, comprehension)
            continue
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.setdefault(node.name, node.lineno)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                found.setdefault(alias.asname or alias.name.partition(".")[0], node.lineno)
        elif (isinstance(node, ast.ExceptHandler) and node.name) or (
            isinstance(node, ast.MatchAs | ast.MatchStar) and node.name
        ):
            found.setdefault(node.name, node.lineno)
        if not isinstance(node, _SCOPES):
            inner = comprehension or isinstance(node, _COMPREHENSIONS)
            _collect(ast.iter_child_nodes(node), found, inner)


def bound_names(node: ast.AST) -> set[str]:
    """The names that a function or a comprehension binds in its own scope."""
    if isinstance(node, _COMPREHENSIONS):
        targets = [generator.target for generator in node.generators]
        inside = [n for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]
        return {name.id for name in inside if isinstance(name.ctx, ast.Store)}
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    args = node.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    names = {arg.arg for arg in (*every, args.vararg, args.kwarg) if arg is not None}
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    declared = {
        name
        for inner in own_nodes(body)
        if isinstance(inner, ast.Global | ast.Nonlocal)
        for name in inner.names
    }
    return (names | set(assigned_names(body))) - declared


# --- early returns -------------------------------------------------------------------------------

_MOST_COPIES = 16
_OPAQUE = (ast.For, ast.While, ast.With, ast.Try, ast.AsyncFor, ast.AsyncWith, ast.Match)


def without_early_returns(body: list[ast.stmt]) -> list[ast.stmt]:
    """`body` in which a `return` inside an `if` is an assignment; `body` itself if there is none.

    Where both sides may go on, what follows is copied; when that would be too often, nothing
    changes.
    """
    if not any(_returns_inside_if(statement) for statement in body):
        return body
    structurer = _Structurer()
    new = structurer.block(body)
    if structurer.copies > _MOST_COPIES:
        return body
    last = body[-1]
    result = ast.Return(ast.Name(RESULT, ast.Load()))
    return [*new, ast.fix_missing_locations(ast.copy_location(result, last))]


def _returns_inside_if(statement: ast.stmt) -> bool:
    """Whether an `if` that is not inside a loop or the like returns."""
    if not isinstance(statement, ast.If):
        return False
    sides = [*statement.body, *statement.orelse]
    return any(isinstance(s, ast.Return) or _returns_inside_if(s) for s in sides)


def _always_returns(body: Sequence[ast.stmt]) -> bool:
    for statement in body:
        if isinstance(statement, ast.Return | ast.Raise):
            return True
        sides = (statement.body, statement.orelse) if isinstance(statement, ast.If) else ()
        if sides and all(side and _always_returns(side) for side in sides):
            return True
    return False


class _Structurer:
    def __init__(self) -> None:
        self.copies = 0

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """`body` as a block that sets the result and ends; it returns None if it sets nothing."""
        for place, statement in enumerate(body):
            if isinstance(statement, ast.Return):
                return [*body[:place], _set_result(statement, statement.value)]
            if isinstance(statement, ast.Raise):
                return body[: place + 1]
            if _returns_inside_if(statement):
                assert isinstance(statement, ast.If)
                return [*body[:place], self.split(statement, body[place + 1 :])]
        return [*body, _set_result(body[-1], None)] if body else []

    def split(self, statement: ast.If, rest: list[ast.stmt]) -> ast.If:
        then, orelse = statement.body, statement.orelse
        then_ends, orelse_ends = _always_returns(then), _always_returns(orelse)
        if not then_ends and not orelse_ends:
            self.copies += 1
            then = [*then, *(copy.deepcopy(rest) if self.copies <= _MOST_COPIES else rest)]
        elif not then_ends:
            then = [*then, *rest]
        if not orelse_ends:
            orelse = [*orelse, *rest]
        if not orelse:
            orelse = [_set_result(statement, None)]
        new = ast.If(statement.test, self.block(then), self.block(orelse))
        return ast.copy_location(new, statement)


def _set_result(at: ast.stmt, value: ast.expr | None) -> ast.stmt:
    value = value if value is not None else ast.copy_location(ast.Constant(None), at)
    new = ast.Assign([ast.Name(RESULT, ast.Store())], value)
    return ast.fix_missing_locations(ast.copy_location(new, at))
