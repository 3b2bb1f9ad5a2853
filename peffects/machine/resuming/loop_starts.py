"""What the iterations of a loop start with: the handlers as they are when the clause calls `loop`.

A handler further out may run the loop again when the traverse clause has gone on, and has rebound
fields of `self` and variables that the function given to `loop` reads.  Layer 1, below
`parallel_for.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from peffects.errors import LoopValuesError, NotAComputationError
from peffects.function_trees import find_source
from peffects.machine.handling.handler import Handler
from peffects.machine.handling.state_changes import PLAIN
from peffects.remembered import remembered
from peffects.source import SrcInfo, caller

__all__: list[str] = []

_FIX: Final = "Give a function of the index or a sequence: `loop(lambda i: self._with(...))`."


def starts(
    start_at: Callable[[Any], Handler[Any, Any]] | Sequence[Handler[Any, Any]],
    size: int,
    live: Handler[Any, Any],
    fork: Handler[Any, Any],
) -> Callable[[Any], Handler[Any, Any]]:
    """The handler of each iteration as it is now, whatever becomes of `live`, of which `fork` is.

    A function that reads handlers, plain values and such functions only is copied with what it
    reads, and called by whoever runs the iteration.  Any other is called here, for each index.
    """
    forks: dict[int, Any] = {id(live): fork}
    if callable(start_at):
        try:
            return copied(start_at, forks, _refuse)  # type: ignore[no-any-return]
        except _CannotBeCopiedError:
            firsts = [start_at(i) for i in range(size)]
    else:
        if not isinstance(start_at, Iterable):
            raise NotAComputationError(
                f"`loop` takes the handlers that iterations start with, and was given"
                f" {start_at!r:.80}.",
                at=caller(),
                fix=_FIX,
            )
        firsts = list(start_at)
        if len(firsts) != size:
            raise LoopValuesError(
                f"a traverse clause gives {len(firsts)} handlers to start the iterations of a loop"
                f" with, which has {size}.",
                at=caller(),
                fix="Give one for each index, in index order.",
            )
    return [copied(first, forks, as_it_is) for first in firsts].__getitem__


def no_start(i: object, first: object, place: SrcInfo) -> NotAComputationError:
    """Something else than a handler was given for iteration `i`."""
    return NotAComputationError(
        f"a traverse clause starts iteration {i} of its loop with {first!r:.80}, which is no"
        " handler.",
        at=place,
        fix=_FIX,
    )


class _CannotBeCopiedError(Exception):
    """What a function reads may be changed by others, or it changes that itself."""


def _refuse(value: object) -> Any:
    raise _CannotBeCopiedError


def as_it_is(value: Any) -> Any:
    """For `copied`: take it, whatever it is."""
    return value


def copied(value: Any, known: dict[int, Any], other: Callable[[Any], Any]) -> Any:
    """`value` with what it reads, where handlers are forks; `known` has what was copied so far.

    `other` says what is taken for values that are neither handlers, functions nor plain.
    """
    if id(value) in known:
        return known[id(value)]
    if isinstance(value, Handler):
        new: Any = value._fork()
    elif isinstance(value, MethodType):
        function = copied(value.__func__, known, other)
        return MethodType(function, copied(value.__self__, known, other))
    elif isinstance(value, FunctionType):
        return _copied_function(value, known, other)
    elif _is_fixed(value):
        return value
    elif type(value) is tuple:
        new = tuple(copied(part, known, other) for part in value)
    else:
        return other(value)
    known[id(value)] = new
    return new


def _is_fixed(value: object) -> bool:
    """Whether it says the same for ever: a plain value, or what a module defines."""
    if isinstance(value, type):
        return "<locals>" not in value.__qualname__
    if isinstance(value, BuiltinFunctionType):  # a bound method of a container is one, too
        return value.__self__ is None or isinstance(value.__self__, ModuleType)
    return isinstance(value, ModuleType) or type(value) in PLAIN


def _copied_function(
    value: FunctionType, known: dict[int, Any], other: Callable[[Any], Any]
) -> Any:
    if _assigns_outside(value.__code__) or vars(value):
        other(value)  # which may refuse: a copy does not assign to the variables of the original
    if not (value.__closure__ or value.__defaults__ or value.__kwdefaults__):
        return value  # it reads nothing of the clause
    cells = tuple(CellType() for _ in value.__closure__ or ())
    new = FunctionType(value.__code__, value.__globals__, value.__name__, None, cells)
    known[id(value)] = new  # before its cells: functions may refer to each other
    for cell, old in zip(cells, value.__closure__ or (), strict=True):
        try:
            cell.cell_contents = copied(old.cell_contents, known, other)
        except ValueError:  # not yet bound
            continue
    new.__defaults__ = copied(value.__defaults__, known, other)
    if value.__kwdefaults__:
        new.__kwdefaults__ = {
            name: copied(default, known, other) for name, default in value.__kwdefaults__.items()
        }
    new.__qualname__, new.__module__ = value.__qualname__, value.__module__
    vars(new).update(vars(value))
    return new


@remembered
def _assigns_outside(code: CodeType) -> bool:
    """Whether a function may assign to variables that it shares with others."""
    source = find_source(code)
    return source is None or any(
        isinstance(node, ast.Global | ast.Nonlocal) for node in ast.walk(source.node)
    )
