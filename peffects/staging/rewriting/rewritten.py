"""Rewritten functions: from a function object to one whose control flow goes through hooks.

Code is rewritten and compiled once per code object, and forgotten with it.  Each function object
gets a function of its own, with the original's globals, defaults and closure cells, and hooks that
know the original.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Callable, Iterator
from types import CellType, CodeType, FunctionType

from peffects.function_trees import find_source, with_qualname
from peffects.remembered import Remembered, remembered
from peffects.source import is_internal_file
from peffects.staging.rewriting.rewrite import HOOKS, rewrite_function

__all__ = ["is_rewritten", "is_users", "rewritten", "with_reads"]

_REWRITTEN: Remembered[CodeType, bool] = Remembered(lambda code: True)
"""The code that was made here."""
_LIBRARIES = tuple(
    {sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
)


_STAGING = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_KERNELS = os.path.join(_STAGING, "numpy_surface", "linear_algebra.py")
"""The module of ours that is written as kernels: it is rewritten as the user's functions are."""


def is_users(function: FunctionType) -> bool:
    """Whether a function is the user's, or ours and written as users write kernels."""
    file = function.__code__.co_filename
    if file == _KERNELS:
        return True
    return not (file.startswith(("<frozen", *_LIBRARIES)) or is_internal_file(file))


def is_rewritten(function: FunctionType) -> bool:
    """Whether a function was made by rewritten code, and needs no rewriting."""
    return function.__code__ in _REWRITTEN


def rewritten(function: FunctionType, hooks: object) -> FunctionType:
    """The rewritten `function`, which calls `hooks`; `function` itself if it has no source."""
    code = _rewritten_code(function.__code__)
    if code is None:
        return function
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[HOOKS] = CellType(hooks)
    closure = tuple(cells[name] for name in code.co_freevars)
    name, defaults = function.__name__, function.__defaults__
    new = FunctionType(code, function.__globals__, name, defaults, closure)
    new.__kwdefaults__ = function.__kwdefaults__
    new.__qualname__ = function.__qualname__
    new.__module__ = function.__module__
    return new


def with_reads(function: FunctionType, read: Callable[[str, object], object]) -> FunctionType:
    """`function`, which has no source, with `read(name, value)` in place of each free variable."""
    code, space = function.__code__, function.__globals__
    names = {name for inner in _all_codes(code) for name in inner.co_names if name in space}
    globals_ = {**space, **{name: read(name, space[name]) for name in names}}
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    closure = tuple(CellType(read(name, cell.cell_contents)) for name, cell in cells)
    new = FunctionType(code, globals_, function.__name__, function.__defaults__, closure)
    new.__kwdefaults__ = function.__kwdefaults__
    return new


def _all_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in _inner_codes(code):
        yield from _all_codes(inner)


@remembered
def _rewritten_code(code: CodeType) -> CodeType | None:
    source = find_source(code)
    if source is None:
        return None
    module = compile(
        rewrite_function(source, code.co_freevars), code.co_filename, "exec", dont_inherit=True
    )
    (factory,) = _inner_codes(module)
    found = [inner for inner in _inner_codes(factory) if inner.co_name == code.co_name]
    assert len(found) == 1, "the factory defines one function"
    made = with_qualname(found[0], code.co_qualname)
    _mark(made)
    return made


def _inner_codes(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _mark(code: CodeType) -> None:
    """Remember `code` and all inside it as rewritten."""
    _REWRITTEN(code)
    for inner in _inner_codes(code):
        _mark(inner)
