"""How answers are kept in the logs of frames that run again for further worlds.

As they are; with a fingerprint, so that debug mode finds one that was changed since; or apart from
what the frame gets, where `run(..., copy_answers=copy.deepcopy)` asks for copies.  Layer 1; used by
`running/stack.py` when it logs and by `replay.py` when a frame runs again.
"""

from __future__ import annotations

import enum
import functools
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from peffects.errors import AnswerMutated
from peffects.machine.handling.operations import NONE
from peffects.source import SrcInfo

__all__: list[str] = []

CopyAnswers: TypeAlias = Callable[[Any], Any]
"""Gives a copy of an answer, with nothing in common with it that can be changed."""

Keep: TypeAlias = Callable[[Any], tuple[Any, Any]]
"""For an answer: what the frame gets, and what its log keeps."""


class Raised:
    """An answer that was an exception."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


_AS_THEY_ARE = (int, float, complex, str, bytes, bool, type(None), type(NONE), enum.Enum, Raised)


class Kept:
    """Base of what a log keeps in place of an answer."""

    __slots__ = ("value",)

    def again(self, item: object, place: Callable[[], SrcInfo]) -> Any:
        """The answer to `item`, which was performed at `place`, for a further world."""
        raise NotImplementedError


class Fingerprinted(Kept):
    """A logged answer with what it looked like when it was given."""

    __slots__ = ("fingerprint",)

    def __init__(self, value: Any, fingerprint: bytes) -> None:
        self.value = value
        self.fingerprint = fingerprint

    def again(self, item: object, place: Callable[[], SrcInfo]) -> Any:
        """The answer, or the error that it changed."""
        if _fingerprint(self.value) != self.fingerprint:
            raise AnswerMutated(
                f"the answer to {item!r} was changed after it was given (it is {self.value!r} now),"
                " and a further world would see the change.",
                at=place(),
                fix="Worlds share answers: make a new object (`xs + [x]`), or let each world have"
                " its own: `run(..., copy_answers=copy.deepcopy)`.",
            )
        return self.value


class Copied(Kept):
    """A logged answer that no frame has: each world gets a copy."""

    __slots__ = ("copy",)

    def __init__(self, value: Any, copy: CopyAnswers) -> None:
        self.value = value
        self.copy = copy

    def again(self, item: object, place: Callable[[], SrcInfo]) -> Any:
        """A copy for the world."""
        return self.copy(self.value)


@dataclass(frozen=True, slots=True)
class Options:
    """What a `run` does besides performing; its iterations do the same."""

    debug: bool = False
    copy_answers: CopyAnswers | None = None

    def keep(self) -> Keep | None:
        """How answers are logged, unless it is just as they are."""
        if self.copy_answers is not None:
            return functools.partial(_copied, self.copy_answers)
        return _fingerprinted if self.debug else None


PLAIN = Options()


def _fingerprinted(value: Any) -> tuple[Any, Any]:
    if isinstance(value, _AS_THEY_ARE):
        return value, value
    fingerprint = _fingerprint(value)
    return value, value if fingerprint is None else Fingerprinted(value, fingerprint)


def _fingerprint(value: Any) -> bytes | None:
    try:
        return pickle.dumps(value)
    except Exception:  # a part of the user's may raise anything
        return None  # what has no bytes cannot be compared


def _copied(copy: CopyAnswers, value: Any) -> tuple[Any, Any]:
    if isinstance(value, _AS_THEY_ARE):
        return value, value
    try:
        return copy(value), Copied(value, copy)
    except Exception as error:
        error.add_note(
            f"`copy_answers` was to copy the answer {value!r}: give it a function that can copy"
            " all answers of the program, or leave it out and do not change answers."
        )
        raise
