"""Checks of a handler class beside those of its operation clauses, made when it is defined.

The return and traverse clauses, `collect` and `split`: there, once, with the parameters that the
machine gives them.  Python keeps the last of two methods with one name; here that is an error.
Layer 1, between `clauses.py` and `handler.py`.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from types import CodeType, FrameType, FunctionType
from typing import Final

from peffects.errors import HandlerDefinitionError
from peffects.function_trees import Source, find_source
from peffects.machine.handling.clauses import Clause, bare, positional_parameters
from peffects.machine.handling.state_changes import rebound_field
from peffects.source import caller, is_internal_file, of_code

__all__: list[str] = []

_PARAMETERS: Final = {
    "ret": ("self", "x"),
    "traverse": ("self", "n", "loop", "k"),
    "collect": ("self", "answers"),
    "split": ("self", "n"),
}


def check_shapes(cls: type, names: Iterable[str]) -> None:
    """Refuse one of these methods that is no plain method or takes other parameters."""
    for name in names:
        value = getattr(cls, name, None)
        if name not in _PARAMETERS or value is None:
            continue
        wanted = f"`def {name}({', '.join(_PARAMETERS[name])})`"
        if not isinstance(value, FunctionType):
            raise HandlerDefinitionError(
                f"`{name}` of handler `{cls.__name__}` is no plain method.",
                at=caller(),
                fix=f"Write {wanted}.",
            )
        count = positional_parameters(bare(value))
        if count != len(_PARAMETERS[name]):
            raise HandlerDefinitionError(
                f"`{name}` of handler `{cls.__name__}` takes {count}"
                f" parameter{'' if count == 1 else 's'}.",
                at=of_code(bare(value).__code__),
                fix=f"Write {wanted}.",
            )


def check_given(cls: type, base: type, name: str) -> None:
    """Refuse a handler that leaves out the one method that its base asks for."""
    if issubclass(cls, base) and getattr(cls, name) is getattr(base, name):
        raise HandlerDefinitionError(
            f"handler `{cls.__name__}` is a {base.__name__} without `{name}`.",
            at=caller(),
            fix=f"Define `def {name}({', '.join(_PARAMETERS[name])})`.",
        )


def check_collected(cls: type, clauses: Iterable[Clause]) -> None:
    """Refuse a CollectHandler whose iterations change a state that their answers do not hold."""
    for clause in clauses:
        if rebound_field(cls, clause.function):
            name = clause.function.__name__
            raise HandlerDefinitionError(
                f"handler `{cls.__name__}` changes its state in `{name}` and has no `ret`: what"
                " the iterations of a parallel for do to their states would be lost.",
                at=of_code(clause.function.__code__),
                fix="Define `def ret(self, x): return self.state, x`, and take the states out of"
                " the answers in `collect`.",
            )


def check_defined_once(cls: type, names: AbstractSet[str]) -> None:
    """Refuse a class body with two definitions of a clause, of which Python keeps the last."""
    body = _body_of(cls)
    if body is None:
        return
    codes = [const for const in body.co_consts if isinstance(const, CodeType)]
    twice = [name for name, n in Counter(c.co_name for c in codes).items() if n > 1]
    for name in twice:
        if name in names and not _chooses(codes, name):
            first, second = [code for code in codes if code.co_name == name][:2]
            raise HandlerDefinitionError(
                f"handler `{cls.__name__}` defines `{name}` twice.",
                at=of_code(second),
                notes=(f"the first one is at {of_code(first).short()}",),
                fix="Remove one of them: Python keeps the last.",
            )


def _body_of(cls: type) -> CodeType | None:
    """The code of the class statement, of which the running frame of the user is in the middle."""
    methods = {value.__code__ for value in vars(cls).values() if isinstance(value, FunctionType)}
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_internal_file(frame.f_code.co_filename):
        frame = frame.f_back
    for const in () if frame is None else frame.f_code.co_consts:
        if isinstance(const, CodeType) and methods.intersection(
            c for c in const.co_consts if isinstance(c, CodeType)
        ):
            return const
    return None


def _chooses(codes: Iterable[CodeType], name: str) -> bool:
    """Whether there may be a reason for two definitions: an `if` or `try`, or overloads."""
    sources = [find_source(code) for code in codes if code.co_name == name]
    return any(source is None or not source.direct or _overloads(source) for source in sources)


def _overloads(source: Source) -> bool:
    names = [n for d in getattr(source.node, "decorator_list", ()) for n in ast.walk(d)]
    return any("overload" in (getattr(n, "id", ""), getattr(n, "attr", "")) for n in names)
