"""What a kernel may call and read while it is staged: what Python code does would happen once only.

The user's functions are rewritten, and each of their calls is checked.  What is not rewritten is
judged by where it comes from: of the standard library only the modules that compute are let
through, so that a function that nobody thought of is refused rather than run once.
"""

from __future__ import annotations

import io
import operator
import os
import random
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from types import BuiltinMethodType, FunctionType, MethodType
from typing import TypeAlias

import numpy as np

from peffects.errors import SideEffectError
from peffects.staging.rewriting.rewritten import is_users
from peffects.staging.tracing.trace import Kind, Trace, current, here

__all__ = ["change_fix", "check_no_effect", "check_stable"]

Function: TypeAlias = Callable[..., object]

_CHANGE_FIX = (
    "Kernels run once, on symbols. Return what you compute; inside a loop make a table with "
    "`pe.table`, or add to a `pe.accumulator`."
)
_CHANGE_IN_ORDER_FIX = (
    "The body of a loop runs once, on symbols. Before the loop make a state, "
    "`y = pe.state(np.zeros(n))`, whose elements the loop may set; or let `pe.scan` collect a "
    "value of each iteration."
)
_CALL_FIX = "Call it outside the kernel; return what it needs, or pass in what it gives."

_CONTAINERS = (list, dict, set, bytearray, deque, defaultdict, OrderedDict)
_CHANGES = {
    "append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update", "add",
    "discard", "setdefault", "popitem", "appendleft", "extendleft", "popleft", "rotate",
    "difference_update", "intersection_update", "symmetric_difference_update", "move_to_end",
    "subtract", "__setitem__", "__delitem__", "__iadd__", "__imul__", "__ior__",
}  # fmt: skip
_EFFECTS = (
    open, input, exec, eval, compile, breakpoint, setattr, delattr, globals, dir,
    operator.setitem, operator.delitem, operator.iadd, operator.iand, operator.iconcat,
    operator.ifloordiv, operator.ilshift, operator.imatmul, operator.imod, operator.imul,
    operator.ior, operator.ipow, operator.irshift, operator.isub, operator.itruediv,
    operator.ixor,
    np.seterr, np.load, np.loadtxt, np.genfromtxt, np.fromfile, np.random.seed,
)  # fmt: skip
_COMPUTING = {
    "abc", "array", "base64", "binascii", "bisect", "builtins", "calendar", "cmath", "collections",
    "colorsys", "contextlib", "copy", "copyreg", "dataclasses", "datetime", "decimal", "difflib",
    "enum", "fractions", "functools", "hashlib", "inspect", "itertools", "json", "keyword", "math",
    "numbers", "operator", "pprint", "re", "reprlib", "statistics", "string", "struct", "textwrap",
    "types", "typing", "unicodedata", "weakref", "zlib",
}  # fmt: skip
"""Modules of the standard library whose functions compute; those of C are named `_copy` or so."""
_IN_MEMORY = (io.StringIO, io.BytesIO)
_OF_THE_CLOCK = {"now", "today", "utcnow"}


def change_fix(trace: Trace) -> str:
    """What to write instead of changing one of Python's objects."""
    in_order = any(s.kind in (Kind.SEQUENTIAL, Kind.WHILE) for s in trace.scope.up())
    return _CHANGE_IN_ORDER_FIX if in_order else _CHANGE_FIX


def check_no_effect(function: Function) -> None:
    """Raise SideEffectError if calling `function` does something that Python would do each time."""
    trace = current()
    if trace is None:
        return
    owner = getattr(function, "__self__", None)
    name = getattr(function, "__name__", "")
    if isinstance(owner, _CONTAINERS) and name in _CHANGES and not trace.may_change(owner):
        raise SideEffectError(
            f"`{name}` changes a {type(owner).__name__} that was made outside "
            f"{trace.scope.kind.value}.",
            at=here(),
            fix=change_fix(trace),
        )
    if _has_effect(function, owner, name):
        raise SideEffectError(
            f"`{name}` is called in a kernel, where it would run once, while the kernel is staged.",
            at=here(),
            fix=_DRAW_FIX if _is_generator(owner) else _CALL_FIX,
        )


def _is_generator(owner: object) -> bool:
    """Whether `owner` makes random numbers that depend on what was drawn before."""
    return isinstance(owner, random.Random | np.random.Generator | np.random.RandomState)


_DRAW_FIX = (
    "Draw with a key: `pe.random.normal(pe.random.fold_in(key, i))`; or perform `normal()` of "
    "`peffects.handlers` under `prng(seed)`."
)


def _has_effect(function: Function, owner: object, name: str) -> bool:
    """Whether a call may do more than compute, as far as its name and origin tell."""
    if function in _EFFECTS or _is_generator(owner):
        return True
    module = _module_of(function, owner)
    if module not in sys.stdlib_module_names or function in _IN_MEMORY:
        return False
    of_the_clock = module == "datetime" and name in _OF_THE_CLOCK
    return of_the_clock or module.removeprefix("_") not in _COMPUTING


def _module_of(function: Function, owner: object) -> str:
    """The top-level module that a callable comes from; empty if it is the user's."""
    plain = function.__func__ if isinstance(function, MethodType) else function
    if isinstance(plain, FunctionType) and is_users(plain):
        return ""
    module = getattr(plain, "__module__", None)
    if module is None and isinstance(function, BuiltinMethodType):
        module = (owner if isinstance(owner, type) else type(owner)).__module__
    return module.partition(".")[0] if isinstance(module, str) else ""


def check_stable(value: object) -> None:
    """Raise SideEffectError if what `value` tells changes with each look, or from run to run."""
    if value is os.environ:
        raise SideEffectError(
            "`os.environ` is read in a kernel, where it would be read once, while it is staged.",
            at=here(),
            fix="Read the variable outside and pass what it says to the kernel.",
        )
    if isinstance(value, Iterator) and not isinstance(type(value).__next__, FunctionType):
        raise SideEffectError(
            f"a {type(value).__name__} is used in a kernel, which would be advanced or written "
            "once, while the kernel is staged.",
            at=here(),
            fix="Use it outside the kernel; pass in what it gives, a list or an array.",
        )
