"""Whether a frame that went on after an unwinding was thrown into it has swallowed that.

A frame may swallow it (`except BaseException: pass`), which stops no exit.  Or a `finally`, a
`with` or an `except` of it raised an exception, which replaced the unwinding, and which the same
frame caught.  Python does not tell which; the source does.  Layer 1; used by `running/stack.py`.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, GeneratorType
from typing import Any, TypeAlias

from peffects.function_trees import FunctionNode, find_source
from peffects.machine.checking.locations import place_of_site
from peffects.machine.resuming.frames import Suspended, Unwind

__all__: list[str] = []

_Guard: TypeAlias = ast.Try | ast.TryStar | ast.With


def suspended_in(gen: object) -> tuple[Suspended, ...]:
    """Where `gen`, and each generator that it delegates to, is suspended; the outermost first."""
    found = []
    while isinstance(gen, GeneratorType) and gen.gi_frame is not None:
        frame = gen.gi_frame
        found.append(Suspended(gen.gi_code, frame.f_lasti, frame.f_globals))
        gen = gen.gi_yieldfrom
    return tuple(found)


def has_swallowed(thrown_into: tuple[Suspended, ...]) -> bool:
    """Whether frames that an unwinding was thrown into, and that went on, have swallowed it.

    Yes, if one of their statements may do that, or none can catch what another one inside raises.
    """
    may_have_raised = may_have_caught = False
    for place in reversed(thrown_into):
        source = find_source(place.code)
        if source is None:
            return True
        for guard, applies in _guards(source.node, place_of_site(place[:2]).line):
            if _swallows(guard, applies, place.names):
                return True
            catches = isinstance(guard, ast.With) or (applies and bool(guard.handlers))
            may_have_caught = may_have_caught or (catches and may_have_raised)
            may_have_raised |= isinstance(guard, ast.With) or bool(guard.finalbody)
    return not may_have_caught


def _guards(function: FunctionNode, line: int) -> Iterator[tuple[_Guard, bool]]:
    """The guards around a line, innermost first; and whether the handlers of a `try` apply."""
    around: list[tuple[_Guard, bool]] = []
    pending: list[ast.AST] = [] if isinstance(function, ast.Lambda) else [*function.body]
    while pending:
        node = pending.pop()
        if isinstance(node, FunctionNode | ast.ClassDef):
            continue
        if isinstance(node, _Guard) and _is_in(node.body, line):
            around.append((node, True))
        elif isinstance(node, ast.Try | ast.TryStar):
            handlers = [part for handler in node.handlers for part in handler.body]
            if _is_in(handlers, line) or _is_in(node.orelse, line):
                around.append((node, False))
        pending.extend(ast.iter_child_nodes(node))
    # One around another starts before it; of two on one line, the outer one is found first.
    return iter(sorted(reversed(around), key=lambda g: (g[0].lineno, g[0].col_offset))[::-1])


def _is_in(body: list[ast.stmt], line: int) -> bool:
    return any(part.lineno <= line <= (part.end_lineno or line) for part in body)


def _swallows(guard: _Guard, applies: bool, names: Mapping[str, Any]) -> bool:
    """Whether it may take an unwinding in."""
    if isinstance(guard, ast.With):
        return any(_manager_swallows(item.context_expr, names) for item in guard.items)
    if any(map(_leaves, guard.finalbody)):
        return True
    types = [h.type for h in guard.handlers] if applies else []
    return any(kind is None or _takes_in(kind, names) for kind in types)


def _leaves(node: ast.AST, in_loop: bool = False) -> bool:
    """Whether a statement of a `finally` may leave it: an exception in progress is lost then."""
    if isinstance(node, FunctionNode | ast.ClassDef):
        return False
    if isinstance(node, ast.Return) or (isinstance(node, ast.Break | ast.Continue) and not in_loop):
        return True
    in_loop = in_loop or isinstance(node, ast.For | ast.While)
    return any(_leaves(child, in_loop) for child in ast.iter_child_nodes(node))


def _takes_in(kind: ast.expr, names: Mapping[str, Any]) -> bool:
    """Whether these are classes of exceptions to which an unwinding belongs."""
    if isinstance(kind, ast.Tuple):
        return any(_takes_in(part, names) for part in kind.elts)
    meant = _meaning(kind, names)
    kinds = meant if isinstance(meant, tuple) else (meant,)
    return any(isinstance(k, type) and issubclass(Unwind, k) for k in kinds)


def _meaning(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """What a name outside the function means, or an attribute of it; None if that is not known."""
    if isinstance(node, ast.Name):
        return names.get(node.id, getattr(builtins, node.id, None))
    if isinstance(node, ast.Attribute):
        return getattr(_meaning(node.value, names), node.attr, None)
    return None


def _manager_swallows(node: ast.expr, names: Mapping[str, Any]) -> bool:
    """Whether the `__exit__` of this may give something true for an unwinding."""
    meant = _meaning(node.func if isinstance(node, ast.Call) else node, names)
    if isinstance(node, ast.Call) and meant is contextlib.suppress:
        return any(_takes_in(argument, names) for argument in node.args)
    if isinstance(meant, FunctionType) and isinstance(node, ast.Call):
        return _generator_swallows(getattr(meant, "__wrapped__", None))
    kind = meant if isinstance(meant, type) else type(meant)
    leave = getattr(kind, "__exit__", None)
    if not isinstance(leave, FunctionType):
        return leave is None and not isinstance(meant, BuiltinFunctionType)  # files, locks: never
    source = find_source(leave.__code__)
    return source is None or any(
        isinstance(part, ast.Return) and not _is_false(part.value) for part in ast.walk(source.node)
    )


def _generator_swallows(function: object) -> bool:
    """Whether a function that `contextmanager` decorates may catch an unwinding."""
    source = find_source(function.__code__) if isinstance(function, FunctionType) else None
    return source is None or any(
        _swallows(part, True, function.__globals__)  # type: ignore[attr-defined]
        for part in ast.walk(source.node)
        if isinstance(part, _Guard)
    )


def _is_false(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and not value.value)
