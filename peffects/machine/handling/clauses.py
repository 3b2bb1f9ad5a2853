"""The clauses of a handler class: their kinds, and the checks made when the class is defined.

Handler classes give their functions to `collect_clauses`, which finds the kind of each clause from
its signature and its mark (`@final`, `@multi`) and refuses what cannot work, with file, line and
the name that was probably meant.  Layer 1, between `operations.py` and `handler.py`.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from types import FunctionType
from typing import Any, Final, NamedTuple, TypeVar

from peffects.errors import HandlerDefinitionError
from peffects.machine.handling.awaiting import awaiting
from peffects.machine.handling.operations import Effect, Operation, operations_of
from peffects.machine.handling.state_changes import rebound_field
from peffects.source import SrcInfo, caller, of_code

__all__ = ["final", "multi"]

F = TypeVar("F", bound=Callable[..., Any])

ANSWER: Final = 0
ANSWER_GENERATOR: Final = 1
FINAL: Final = 2
GENERAL: Final = 3
MULTI: Final = 4


class Clause(NamedTuple):
    """What handles one operation: how (a kind above) and by which function."""

    kind: int
    function: Callable[..., Any]
    is_generator: bool


def final(clause: F) -> F:
    """Mark a clause that never resumes: its value is the handler's answer."""
    clause._pe_kind = FINAL  # type: ignore[attr-defined]
    return clause


def multi(clause: F) -> F:
    """Mark a clause whose `k` may be resumed many times."""
    clause._pe_kind = MULTI  # type: ignore[attr-defined]
    return clause


def bare(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself, where it was decorated with `@effectful`."""
    plain: Callable[..., Any] = getattr(function, "_pe_function", function)
    if plain is not function and hasattr(function, "_pe_kind"):
        plain._pe_kind = function._pe_kind  # type: ignore[attr-defined]
    return plain


def collect_clauses(
    cls: type, effects: Sequence[type[Effect]], reserved: AbstractSet[str]
) -> dict[str, Clause]:
    """The clauses of handler class `cls` by name, checked against the operations of `effects`.

    `reserved` are the public names of handlers that are no operation clauses.
    """
    operations = _operations_of_all(cls, effects)
    names = " and ".join(f"`{effect.__name__}`" for effect in effects)
    of_effects = f"effect {names}" if len(effects) == 1 else f"the effects {names}"
    clauses: dict[str, Clause] = {}
    for base in reversed(cls.__mro__):
        for name, value in base.__dict__.items():
            if name.startswith("_") or name in reserved:
                continue
            if name in operations:
                clauses[name] = _clause(cls, operations[name], value)
            elif _is_method(value):
                raise _unknown_clause(cls, of_effects, name, value, operations, reserved)
    missing = [name for name in operations if name not in clauses]
    if missing:
        raise HandlerDefinitionError(
            f"handler `{cls.__name__}` has no clause for {_quoted(missing)} of {of_effects}.",
            at=class_place(cls),
            fix=f"Define {', '.join(f'`def {name}(self, op)`' for name in missing)}.",
        )
    return clauses


def _operations_of_all(
    cls: type, effects: Sequence[type[Effect]]
) -> dict[str, type[Operation[Any, Any]]]:
    operations: dict[str, type[Operation[Any, Any]]] = {}
    for effect in effects:
        for name, operation in operations_of(effect).items():
            other = operations.setdefault(name, operation)
            if other is not operation:
                raise HandlerDefinitionError(
                    f"handler `{cls.__name__}` cannot handle `{other._effect.__name__}` and"
                    f" `{effect.__name__}` at once: both have an operation with the clause"
                    f" `{name}`.",
                    at=caller(),
                    fix="Write a handler for each of them.",
                )
    return operations


def _is_method(value: object) -> bool:
    return isinstance(value, FunctionType | staticmethod | classmethod | property)


def _clause(cls: type, operation: type[Operation[Any, Any]], value: object) -> Clause:
    if not isinstance(value, FunctionType):
        raise HandlerDefinitionError(
            f"clause `{operation._clause}` of handler `{cls.__name__}` is no plain method.",
            at=class_place(cls),
            fix=f"Write `def {operation._clause}(self, op)`.",
        )
    function = bare(value)
    count = positional_parameters(function)
    kind = getattr(function, "_pe_kind", None)
    if inspect.iscoroutinefunction(function):
        if count == 3:
            raise HandlerDefinitionError(
                f"clause `{operation._clause}` of handler `{cls.__name__}` is `async def` and takes"
                " `k`, which only a generator can resume.",
                at=of_code(function.__code__),
                fix="Write `def` and wait with `yield from await_(...)`.",
            )
        function = awaiting(function)
    is_generator = inspect.isgeneratorfunction(function)
    wanted = {FINAL: (2,), MULTI: (3,), None: (2, 3)}[kind]
    if count not in wanted:
        parameters = "(self, op, k)" if wanted == (3,) else "(self, op)"
        also = ", or `(self, op, k)` to resume by hand" if wanted == (2, 3) else ""
        raise HandlerDefinitionError(
            f"clause `{operation._clause}` of handler `{cls.__name__}` takes {count} parameters.",
            at=of_code(function.__code__),
            fix=f"Its parameters are `{parameters}`{also}.",
        )
    if kind is None:
        kind = GENERAL if count == 3 else ANSWER_GENERATOR if is_generator else ANSWER
    if operation._never and kind in (ANSWER, ANSWER_GENERATOR):
        raise HandlerDefinitionError(
            f"clause `{operation._clause}` of handler `{cls.__name__}` would answer an operation"
            " that answers `Never`.",
            at=of_code(function.__code__),
            fix="Mark it with `@final` of peffects (its value is then the handler's answer), or"
            " let it take `k`.",
        )
    return Clause(kind, function, is_generator)


def check_basic(cls: type, clauses: dict[str, Clause], ret: Callable[..., Any] | None) -> None:
    """Refuse a BasicHandler that does more than answer from a state that never changes."""
    wrong = [
        (name, clause.function)
        for name, clause in clauses.items()
        if clause.kind not in (ANSWER, ANSWER_GENERATOR) or rebound_field(cls, clause.function)
    ]
    if ret is not None:
        wrong.append(("ret", ret))
    for name, function in wrong:
        raise HandlerDefinitionError(
            f"handler `{cls.__name__}` is a BasicHandler, and its `{name}` does more than answer"
            " from a state that never changes.",
            at=of_code(function.__code__),
            fix="Derive from `CollectHandler`, `SplitHandler` or `ParHandler` and say what happens"
            " around a parallel for.",
        )


def positional_parameters(function: Callable[..., Any]) -> int:
    """How many parameters have to be given by position."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return sum(p.kind in kinds and p.default is p.empty for p in parameters)


def _unknown_clause(
    cls: type,
    of_effects: str,
    name: str,
    value: object,
    operations: Iterable[str],
    reserved: Iterable[str],
) -> HandlerDefinitionError:
    close = difflib.get_close_matches(name, [*operations, *reserved], n=1)
    meant = f"  Did you mean `{close[0]}`?" if close else ""
    place = of_code(value.__code__) if isinstance(value, FunctionType) else class_place(cls)
    return HandlerDefinitionError(
        f"handler `{cls.__name__}` has a method `{name}`, and {of_effects} has no such"
        f" operation.{meant}",
        at=place,
        notes=(f"its operations: {_quoted(operations) or 'none yet'}",),
        fix=f"Name a helper `_{name}`.",
    )


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def class_place(cls: type) -> SrcInfo:
    """The place of a class that is being defined: its first function, else the running line."""
    from_functions = [v for v in cls.__dict__.values() if isinstance(v, FunctionType)]
    return of_code(from_functions[0].__code__) if from_functions else caller()
