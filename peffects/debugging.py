"""Debug mode: checks that cost too much to be always on.

`with debug_checks():` or the environment variable `PEFFECTS_DEBUG=1` make the machine remember what
each logged answer looked like, so that one which was changed since is an error instead of a world
that sees the change of another; and warn when a clause forgets a `k` whose frames have a `finally`
to run.  Layer 1.
"""

from __future__ import annotations

import enum
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from peffects.errors import AnswerMutated
from peffects.source import SrcInfo

__all__ = ["debug_checks"]

_debugging: ContextVar[bool] = ContextVar(
    "peffects_debug", default=os.environ.get("PEFFECTS_DEBUG", "") not in ("", "0")
)

_IMMUTABLE = (int, float, complex, str, bytes, bool, type(None), enum.Enum)
_UNPICKLABLE = (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError)


@contextmanager
def debug_checks(on: bool = True) -> Iterator[None]:
    """Every `run` that starts inside checks more, and is slower."""
    token = _debugging.set(on)
    try:
        yield
    finally:
        _debugging.reset(token)


def debugging() -> bool:
    """Whether a `run` that starts now is to check more."""
    return _debugging.get()


class Fingerprinted:
    """A logged answer with what it looked like when it was given."""

    __slots__ = ("fingerprint", "value")

    def __init__(self, value: Any, fingerprint: bytes) -> None:
        self.value = value
        self.fingerprint = fingerprint

    def unchanged(self, item: object, place: Callable[[], SrcInfo]) -> Any:
        """The answer to `item`, which was performed at `place`, or the error that it changed."""
        if _fingerprint(self.value) != self.fingerprint:
            raise AnswerMutated(
                f"the answer to {item!r} was changed after it was given (it is {self.value!r} now),"
                " and a further world would see the change.",
                at=place(),
                fix="Worlds share answers: make a new object (`xs + [x]`), or copy it first.",
            )
        return self.value


def fingerprinted(value: Any) -> Any:
    """`value`, with its fingerprint if it can be changed and has one."""
    if isinstance(value, _IMMUTABLE):
        return value
    fingerprint = _fingerprint(value)
    return value if fingerprint is None else Fingerprinted(value, fingerprint)


def _fingerprint(value: Any) -> bytes | None:
    try:
        return pickle.dumps(value)
    except _UNPICKLABLE:
        return None  # what has no bytes cannot be compared
