"""Handler classes for staging: their clauses are rewritten, so that they may branch on symbols."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from peffects.machine.handling.handler import Handler
from peffects.parallel import monoid
from peffects.source import is_internal_file
from peffects.staging.effects.random_keys import KEY_CALLS, STAGED_GENERATORS
from peffects.staging.hooks.hooks import Hooks, resolve
from peffects.staging.rewriting.rewritten import is_rewritten, rewritten
from peffects.staging.tracing.trace import STAGED_MARK

__all__ = ["is_staged", "staged_callee", "staged_class", "staged_function"]


_STAGED = "_pe_staged_class"


class _OwnHooks(Hooks):
    """The hooks of a handler of ours: what it reads are constants of the library."""

    def free(self, name: str, value: object) -> object:
        """The value as it is."""
        return value

    def callee(self, function: Callable[..., object]) -> Callable[..., object]:
        """What is called in place of `function`."""
        return staged_callee(function)


def staged_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """The rewritten form of a generator function or clause."""
    function = STAGED_GENERATORS.get(function, function)
    if not isinstance(function, FunctionType) or is_rewritten(function):
        return function
    ours = is_internal_file(function.__code__.co_filename)
    return rewritten(function, (_OwnHooks if ours else Hooks)(function))


def is_staged(kind: type) -> bool:
    """Whether `kind` was made here: its instances belong to a program that is being staged."""
    return STAGED_MARK in vars(kind)


def staged_callee(function: Callable[..., Any]) -> Callable[..., Any]:
    """What is called in place of a function that a handler holds; monoids of ours are rewritten."""
    if function in KEY_CALLS:
        return KEY_CALLS[function]
    if getattr(function, "__module__", None) == monoid.__name__:
        return staged_function(function)
    return resolve(function)


def staged_class(kind: type[Handler[Any, Any]]) -> type[Handler[Any, Any]]:
    """A subclass of `kind` with rewritten clauses and otherwise the same; `kind` keeps it."""
    if is_staged(kind):
        return kind
    if _STAGED not in vars(kind):
        setattr(kind, _STAGED, _staged_class(kind))
    return vars(kind)[_STAGED]  # type: ignore[no-any-return]


def _staged_class(kind: type[Handler[Any, Any]]) -> type[Handler[Any, Any]]:
    staged: Any = type(kind.__name__, (kind,), {"__module__": kind.__module__, STAGED_MARK: True})
    staged.__qualname__ = kind.__qualname__
    staged._clauses = {
        name: clause._replace(function=staged_function(clause.function))
        for name, clause in kind._clauses.items()
    }
    if kind._ret is not None:
        staged._ret = staticmethod(staged_function(kind._ret))
    if kind._traverse is not None:
        staged._traverse = staticmethod(staged_function(kind._traverse))
    return staged  # type: ignore[no-any-return]
