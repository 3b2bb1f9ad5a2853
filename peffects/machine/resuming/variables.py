"""Variables that a function shares with the functions made in it, where worlds are rebuilt.

Each world has the variables of its frames to itself.  So a frame that runs again takes its lambdas
and nested functions from the frame that made them, rebuilt for the same world, wherever one of
their variables is bound more than once; and a log keeps what a call that is over has bound with
`nonlocal`.  The source tells where that can be: most functions have no such variable, and cost
nothing.  Layer 1; used by `replay.py` and `running/stack.py`.
"""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from types import CellType, CodeType, FunctionType
from typing import Any

from peffects.function_trees import functions_around
from peffects.machine.handling.operations import Computation, Operation
from peffects.remembered import remembered
from peffects.source import is_internal_file

__all__: list[str] = []


class _Unbound:
    """What a variable holds that has no value yet."""


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_AGAIN = 2
"""Bindings of a variable that is bound anew in each round of a loop."""


class Variables:
    """What the variables of the functions in an item held at some time."""

    __slots__ = ("held", "tops")

    def __init__(self, item: object) -> None:
        self.tops = list(functions_in(item))
        self.held = [(f, [_content(c) for c in f.__closure__ or ()]) for f in _reach(self.tops)]

    def put_into(self, item: object) -> None:
        """Bind the variables of the functions in `item`, which is asked for again, to the same."""
        held = {id(function): values for function, values in self.held}
        waiting = list(zip(functions_in(item), self.tops, strict=False))
        while waiting:
            new, old = waiting.pop()
            if new.__code__ != old.__code__:
                continue
            values = held.pop(id(old), ())  # once: functions may hold each other
            for cell, value in zip(new.__closure__ or (), values, strict=False):
                now = _content(cell)
                if isinstance(now, FunctionType) and isinstance(value, FunctionType):
                    waiting.append((now, value))
                elif value is _Unbound:
                    _empty(cell)
                elif now is not value:
                    cell.cell_contents = value


class Left:
    """A logged answer with what the variables of the functions in its item held then."""

    __slots__ = ("answer", "variables")

    def __init__(self, answer: Any, variables: Variables) -> None:
        self.answer = answer
        self.variables = variables


def left_by(item: object, answer: Any) -> Any:
    """What a log keeps of the answer to an item whose functions may have bound variables."""
    variables = Variables(item)
    return Left(answer, variables) if variables.tops else answer


def _empty(cell: CellType) -> None:
    try:
        del cell.cell_contents
    except ValueError:  # it is
        return


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _Unbound


def functions_in(item: object) -> Iterator[FunctionType]:
    """The functions that a computation holds, in the same order for another one of its kind."""
    if isinstance(item, FunctionType):
        yield item
    elif isinstance(item, functools.partial):
        yield from _in_all((item.func, *item.args, *item.keywords.values()))
    elif isinstance(item, tuple | list):
        yield from _in_all(item)
    elif isinstance(item, dict):
        yield from _in_all(item.values())
    elif isinstance(item, Operation):
        yield from _in_all(item._values())
    elif isinstance(item, Computation):
        names = [name for kind in type(item).__mro__ for name in getattr(kind, "__slots__", ())]
        yield from _in_all(getattr(item, name, None) for name in sorted(names))


def _in_all(parts: Iterable[object]) -> Iterator[FunctionType]:
    for part in parts:
        yield from functions_in(part)


def _reach(functions: Iterable[FunctionType]) -> Iterator[FunctionType]:
    """These functions, and those that their variables hold."""
    waiting, seen = list(functions), set()
    while waiting:
        function = waiting.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        yield function
        for cell in function.__closure__ or ():
            value = _content(cell)
            if isinstance(value, FunctionType):
                waiting.append(value)


def depends_on_maker(item: object) -> bool:
    """Whether a function in `item` shares a variable that is bound more than once."""
    return any(f.__closure__ and _varies(f.__code__) for f in _reach(functions_in(item)))


def may_be_written(frame: Any) -> bool:
    """Whether what a generator performs may bind variables of functions that it has."""
    return _is_written_to(frame.gi_code)


@remembered
def _is_written_to(code: CodeType) -> bool:
    if not (code.co_cellvars or code.co_freevars) or is_internal_file(code.co_filename):
        return False
    around = functions_around(code)
    return around is None or any(isinstance(node, ast.Nonlocal) for node in ast.walk(around[0]))


@remembered
def _varies(code: CodeType) -> bool:
    if not code.co_freevars or is_internal_file(code.co_filename):
        return False
    around = functions_around(code)
    return around is None or any(_Bindings(node).shares_varying() for node in ast.walk(around[0]))


class _Bindings(ast.NodeVisitor):
    """How often a function binds each of its variables, and what the functions in it read.

    A node that is no function is a scope without variables.
    """

    def __init__(self, node: ast.AST) -> None:
        self.bound: Counter[str] = Counter()
        self.reads: set[str] = set()
        self.shared: set[str] = set()
        self.outer: set[str] = set()
        self.written: set[str] = set()
        self._weight = 1
        if isinstance(node, _SCOPES):
            if not isinstance(node, ast.ClassDef):
                self.visit(node.args)
            for part in node.body if isinstance(node.body, list) else [node.body]:
                self.visit(part)

    def shares_varying(self) -> bool:
        """Whether a function made here may see one of the variables bound anew."""
        own = self.bound.keys() - self.outer
        varying = {name for name in own if self.bound[name] > 1} | (self.written & own)
        return bool(varying & self.shared)

    def free(self) -> set[str]:
        """The names that are read here, or in functions made here, and are variables of others."""
        return (self.reads | self.shared) - (self.bound.keys() - self.outer)

    def _bind(self, name: str, weight: int | None = None) -> None:
        self.bound[name] += weight or self._weight

    def _nested(self, node: ast.AST) -> None:
        inner = _Bindings(node)
        self.shared |= inner.free()
        self.written |= inner.outer | (inner.written - inner.bound.keys())

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._bind(node.name)
        for part in (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults):
            if part is not None:
                self.visit(part)
        self._nested(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for part in (*node.args.defaults, *node.args.kw_defaults):
            if part is not None:
                self.visit(part)
        self._nested(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._bind(node.name)
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        self._nested(node)

    def visit_arg(self, node: ast.arg) -> None:
        self._bind(node.arg)

    def visit_arguments(self, node: ast.arguments) -> None:
        every = (*node.posonlyargs, *node.args, node.vararg, *node.kwonlyargs, node.kwarg)
        for argument in every:
            if argument is not None:
                self.visit_arg(argument)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.reads.add(node.id)
        else:
            self._bind(node.id, _AGAIN if isinstance(node.ctx, ast.Del) else None)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.outer |= set(node.names)
        self.reads |= set(node.names)

    def visit_Global(self, node: ast.Global) -> None:
        for name in node.names:
            self._bind(name)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name is not None:
            self._bind(node.name, _AGAIN)  # it is bound, and unbound at the end
        self.generic_visit(node)

    def visit_alias(self, node: ast.alias) -> None:
        self._bind(node.asname or node.name.partition(".")[0])

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if node.name is not None:
            self._bind(node.name)
        self.generic_visit(node)

    visit_MatchStar = visit_MatchAs

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest is not None:
            self._bind(node.rest)
        self.generic_visit(node)

    def visit_For(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        before, self._weight = self._weight, _AGAIN
        self.generic_visit(node)
        self._weight = before

    visit_AsyncFor = visit_While = visit_For
