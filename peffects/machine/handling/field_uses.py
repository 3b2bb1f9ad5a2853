"""Which fields of `self` a method reads and sets, where its source leaves no doubt.

A method that gives `self` away, or does something to it that cannot be followed, may use them all.
Methods and properties that it uses are followed.  Layer 1; used by `handler.py`, with
`state_changes.py`, which finds assignments also where there is doubt.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType
from typing import Any, Final

from peffects.function_trees import FunctionNode, find_source

__all__: list[str] = []

_REACH_ALL: Final = frozenset({"super", "__class__", "exec", "eval", "locals", "vars", "dir"})
"""Names of what gets at `self` or its fields without naming them."""

_READING: Final = ("__getattribute__", "__getattr__")
_SETTING: Final = ("__setattr__", "__delattr__")


def fields_read(cls: type, function: Callable[..., Any]) -> frozenset[str] | None:
    """The fields of `self` that a method reads; None if it may be all of them."""
    uses = _Uses(cls)
    known = not _has_own(cls, _READING) and uses.follow(function)
    return frozenset(uses.read) if known else None


def fields_set(cls: type, functions: Iterable[Callable[..., Any]]) -> frozenset[str] | None:
    """The fields of `self` that these methods set; None if it may be all of them."""
    uses = _Uses(cls)
    known = not _has_own(cls, _READING + _SETTING) and all(map(uses.follow, functions))
    return frozenset(uses.set) if known else None


def _has_own(cls: type, hooks: Iterable[str]) -> bool:
    return any(getattr(cls, hook, None) is not getattr(object, hook, None) for hook in hooks)


class _Uses:
    """Collects what methods of one class do to the fields of `self`."""

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.read: set[str] = set()
        self.set: set[str] = set()
        self.seen: set[CodeType] = set()

    def follow(self, function: object) -> bool:
        """Collect what `function` does; false if that cannot be known."""
        if not isinstance(function, FunctionType) or hasattr(function, "__wrapped__"):
            return False
        if function.__code__ in self.seen:
            return True
        self.seen.add(function.__code__)
        source = find_source(function.__code__)
        if source is None or not function.__code__.co_argcount:
            return False
        name = function.__code__.co_varnames[0]
        fields = _attributes_of(source.node, name)
        names = [n.id for n in ast.walk(source.node) if isinstance(n, ast.Name)]
        if names.count(name) != len(fields) or not _REACH_ALL.isdisjoint(names):
            return False
        called = {id(n.func) for n in ast.walk(source.node) if isinstance(n, ast.Call)}
        return all(self._use(field, id(field) in called) for field in fields)

    def _use(self, field: ast.Attribute, is_called: bool) -> bool:
        name = field.attr
        if name.startswith("__"):
            return False
        found = inspect.getattr_static(self.cls, name, None)
        loads = isinstance(field.ctx, ast.Load)
        if isinstance(found, property):
            return self.follow(found.fget if loads else found.fset)
        if loads and isinstance(found, FunctionType):
            # `_with` and its kin read all fields, in a way that is not followed.
            return is_called and self.follow(getattr(found, "_pe_function", found))
        if isinstance(found, staticmethod | classmethod):
            return loads  # they get what they are given
        if hasattr(type(found), "__get__"):
            return False
        (self.read if loads else self.set).add(name)
        return True


def _attributes_of(function: FunctionNode, name: str) -> list[ast.Attribute]:
    """The places that name a field."""
    return [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
    ]
