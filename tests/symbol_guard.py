"""A guard against Python's `==`, `in`, `if`, `for` and `hash` on symbols in the package's code.

Where our code asks Python whether a symbol equals something, the answer is a symbol or an error
that the user did not make: `s[:n] = 2.0` failed since a slice of symbols was compared.  So in the
whole test run each special method by which Python compares, tests, iterates or hashes a symbol
raises if the code that asked is the package's.  What the user wrote reaches the hooks, which call
explicit functions (`staging/scalars/comparisons.py`).
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import peffects.staging
from peffects.machine.checking.locations import is_standard_file

__all__ = ["GUARDED", "SymbolIsComparedError", "install", "symbol_classes"]

ASKS_FOR_THE_USER = ("peffects.staging.scalars.for_user",)
"""What gives symbols to Python's operators since the user wrote them."""

GUARDED = (
    "__array__", "__bool__", "__complex__", "__contains__", "__eq__", "__float__", "__format__",
    "__ge__", "__gt__", "__hash__", "__index__", "__int__", "__iter__", "__le__", "__len__",
    "__lt__", "__ne__", "__reversed__", "__str__",
)  # fmt: skip


class SymbolIsComparedError(BaseException):
    """The package's own code asks Python about a symbol; no `except Exception` hides it."""


def _guarded(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: object, *args: object, **kwargs: object) -> Any:
        asking = _asking()
        if asking is not None and is_the_packages(asking):
            _complain(asking, name, self)
        return original(self, *args, **kwargs)

    # It stands for the method that it guards: messages look for the user's line past both.
    code = method.__code__.replace(co_filename=peffects.staging.__file__)
    guarded: Any = functools.wraps(original)(method)
    guarded.__code__ = code
    guarded._pe_guarded = True
    return method


def is_the_packages(frame: FrameType) -> bool:
    """Whether the package's own code runs in `frame`, and not what asks for the user."""
    module: str = frame.f_globals.get("__name__", "")
    return module.partition(".")[0] == "peffects" and module not in ASKS_FOR_THE_USER


def _asking() -> FrameType | None:
    """Whose code asks: the function that called the method, past those of Python's library."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and is_standard_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _complain(asking: FrameType, name: str, symbol: object) -> None:
    code = asking.f_code
    raise SymbolIsComparedError(
        f"{code.co_filename}:{asking.f_lineno} in {code.co_name} calls `{name}` of a "
        f"{type(symbol).__name__}."
    )


def symbol_classes() -> list[type]:
    """All classes of the package whose instances are symbols."""
    found: dict[type, None] = {}
    for info in pkgutil.walk_packages(peffects.staging.__path__, "peffects.staging."):
        for value in vars(importlib.import_module(info.name)).values():
            if isinstance(value, type) and getattr(value, "_pe_symbolic", False) is True:
                found.update(dict.fromkeys(reversed(value.__mro__[:-1])))
    return [kind for kind in found if kind.__module__.startswith("peffects.")]


def install() -> None:
    """Guard all symbols of the package, once in a process."""
    for kind in symbol_classes():
        for name in GUARDED:
            original = getattr(kind, name, None)
            if original is None or hasattr(original, "_pe_guarded"):
                continue
            setattr(kind, name, _guarded(name, original))
