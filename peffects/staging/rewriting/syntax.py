"""Questions about syntax trees that the rewriter asks.

Which names a statement assigns, and which kinds of nodes it has.  `jumps.py` rearranges statements.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

__all__ = [
    "HOOKS",
    "RESULT",
    "assigned_names",
    "bound_names",
    "has_any",
    "own_nodes",
]

HOOKS = "_pe"
"""The name of the hooks in rewritten code."""
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
