"""What code without source reads of the objects that it captures.

Where a function cannot be rewritten, its free variables are still recorded, and its attributes are
not: Python reads them by itself.  So all attributes whose names the code mentions are guarded, as
deep as they may be read; another value stages anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType, FunctionType, MethodType, ModuleType

import numpy as np

from peffects.errors import KernelTypeError
from peffects.staging.captures.inputs import KernelInputs
from peffects.staging.captures.reads import Path, StepKind, Unchanged, token_of
from peffects.staging.rewriting.rewritten import is_users
from peffects.staging.scalars.symbols import is_symbolic
from peffects.staging.tracing.argument_types import type_of
from peffects.staging.tracing.trace import here

__all__ = ["is_of_library", "names_in", "watch_attributes"]

_DEEPEST = 4
_CONTAINERS = (list, tuple, dict, set, frozenset)


def names_in(code: CodeType) -> frozenset[str]:
    """The names that `code`, and what is defined in it, reads as globals or attributes."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return frozenset(code.co_names).union(*map(names_in, inner))


def watch_attributes(
    inputs: KernelInputs, owner: object, path: Path, names: Iterable[str], depth: int = 0
) -> None:
    """Guard the attributes of `owner`, which `path` leads to, that have one of these names.

    Raises KernelTypeError if one is an array: a guard cannot tell that its elements changed.
    """
    if depth == _DEEPEST or not _has_attributes(owner):
        return
    for name in sorted(names):
        value = getattr(owner, name, None)
        if value is None or is_symbolic(value):
            continue
        way = path.then(StepKind.ATTRIBUTE, name)
        if isinstance(value, np.ndarray):
            raise KernelTypeError(
                f"the array `{name}` is read as an attribute by a function that has no source.",
                at=here(),
                fix="Pass it as an argument, or define the function where its source is kept.",
            )
        if isinstance(value, MethodType) and value.__self__ is owner:
            inputs.reach(value.__func__, way.then(StepKind.ATTRIBUTE, "__func__"))
            inner = getattr(value.__func__, "__code__", None)
            if inner is not None:
                watch_attributes(inputs, owner, path, names_in(inner), depth + 1)
            continue
        _guard(inputs, value, way)
        watch_attributes(inputs, value, way, names, depth + 1)


def _has_attributes(owner: object) -> bool:
    """Whether attributes of `owner` are the user's: it is no number, function or the like."""
    if isinstance(owner, FunctionType | type | str | bytes | np.ndarray | ModuleType):
        return isinstance(owner, ModuleType) and not is_of_library(owner)
    return type_of(owner) is None and hasattr(owner, "__dict__")


def is_of_library(module: ModuleType) -> bool:
    """Whether a module is not the user's own."""
    file = getattr(module, "__file__", None) or ""
    probe = FunctionType((lambda: None).__code__.replace(co_filename=file), {})
    return not file or not is_users(probe)


def _guard(inputs: KernelInputs, value: object, path: Path) -> None:
    """Guard a value, and what a container holds."""
    if isinstance(value, _CONTAINERS):
        steps = [StepKind.KEYS, *([StepKind.VALUES] if isinstance(value, dict) else [])]
        for step in steps:
            inside = path.then(step)
            inputs.guards.append(Unchanged(inside, token_of(inside.steps[-1].read(value))))
    else:
        inputs.guards.append(Unchanged(path, token_of(value)))
