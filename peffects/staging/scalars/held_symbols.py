"""Symbols inside of what a kernel returns as it is: slices, iterators, functions, objects.

A kernel returns numbers, tables and nests of them; what is neither, such as a string, comes out as
it was while the kernel was staged.  If it held a symbol, the symbol would come out with it.
"""

from __future__ import annotations

import gc
import types

from peffects.errors import KernelTypeError
from peffects.parallel.index_sets.index_set import is_symbol
from peffects.staging.scalars.symbols import Tracer
from peffects.staging.tracing.trace import Trace, staging

__all__ = ["check_holds_none", "holds_symbol"]

_DEEPEST = 6
_MOST = 1000
_PLAIN = (str, bytes, type, types.ModuleType, types.CodeType, type(None), int, float, complex)


def check_holds_none(value: object) -> None:
    """Raise KernelTypeError if what a kernel returns as it is has a symbol in it."""
    if holds_symbol(value):
        raise KernelTypeError(
            f"the kernel returns a {type(value).__name__} that holds values of the kernel.",
            at=staging().root.src,
            fix="Return numbers, tables, and tuples, lists, dicts or dataclasses of them.",
        )


def holds_symbol(value: object) -> bool:
    """Whether `value` is a symbol, or holds one: not far away, as objects hold much."""
    seen: set[int] = set()
    level = [value]
    for _ in range(_DEEPEST):
        below: list[object] = []
        for found in level:
            if is_symbol(found) or isinstance(found, Tracer):
                return True
            if isinstance(found, (*_PLAIN, Trace)) or id(found) in seen or len(seen) > _MOST:
                continue
            seen.add(id(found))
            below += _held_by(found)
        level = below
    return any(map(is_symbol, level))


def _held_by(value: object) -> list[object]:
    """What an object holds; of a function what it closes over, not all that its module has."""
    if isinstance(value, types.FunctionType):
        return [*(value.__closure__ or ()), value.__defaults__, value.__kwdefaults__]
    return gc.get_referents(value)
