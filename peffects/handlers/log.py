"""Log: messages as data, with a level and named values.  Three handlers say what becomes of them.

`log_list` collects them, in index order around a parallel `for`; `log_to` passes them on to a
logger of the standard library as they come; `log_nothing` drops them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar

from peffects.handlers.traversal import pairs_of
from peffects.machine.handling.handler import BasicHandler, ParHandler
from peffects.machine.handling.operations import Eff, Effect, Operation

if TYPE_CHECKING:
    from peffects.machine.resuming.parallel_for import Loop
    from peffects.machine.resuming.resumption import Resumption

__all__ = [
    "Log",
    "LogOp",
    "Message",
    "debug",
    "error",
    "info",
    "log_at",
    "log_list",
    "log_nothing",
    "log_to",
    "warning",
]

R = TypeVar("R")


@dataclass(frozen=True)
class Message:
    """A text with a level (of the module `logging`) and named values."""

    level: int
    text: str
    data: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join([self.text, *(f"{name}={value!r}" for name, value in self.data.items())])


class Log(Effect):
    """Messages are logged."""

    @classmethod
    def log(cls, level: int, text: str, **data: Any) -> Eff[Self, None]:
        """Log a message at this instance."""
        return LogOp.at(cls)(Message(level, text, data))  # type: ignore[return-value]


class LogOp(Operation[Log, None]):
    """Log a message."""

    message: Message


def log_at(level: int, text: str, **data: Any) -> Eff[Log, None]:
    """Log a text with named values: `log_at(logging.INFO, "fitted", loss=0.3)`."""
    return LogOp(Message(level, text, data))


def debug(text: str, **data: Any) -> Eff[Log, None]:
    """Log for whoever looks for a mistake."""
    return LogOp(Message(logging.DEBUG, text, data))


def info(text: str, **data: Any) -> Eff[Log, None]:
    """Log that something went as it should."""
    return LogOp(Message(logging.INFO, text, data))


def warning(text: str, **data: Any) -> Eff[Log, None]:
    """Log that something looks wrong."""
    return LogOp(Message(logging.WARNING, text, data))


def error(text: str, **data: Any) -> Eff[Log, None]:
    """Log that something failed."""
    return LogOp(Message(logging.ERROR, text, data))


class log_list(ParHandler[Log]):
    """Collects messages from a level on; the answer is (list of messages, result).

    A message costs the same however many there are.
    """

    def __init__(self, level: int = logging.NOTSET, at: type[Log] = Log) -> None:
        self.level = level
        self.newest: Any = None  # a linked list: (what came before, message)

    def ret(self, x: R, /) -> tuple[list[Message], R]:
        """The messages come first."""
        messages: list[Message] = []
        rest = self.newest
        while rest is not None:
            rest, message = rest
            messages.append(message)
        messages.reverse()
        return messages, x

    def log(self, op: LogOp) -> None:
        """Keep it, if it matters enough."""
        if op.message.level >= self.level:
            self.newest = self.newest, op.message

    def traverse(self, n: Any, loop: Loop[Any], k: Resumption[Any, Any], /) -> Eff[Any, Any]:
        """Each iteration has a list of its own; the lists are joined in index order."""
        answers = yield from loop(lambda i: self._with(newest=None))
        parts, values = pairs_of(self, answers, loop.place)
        newest = self.newest
        for messages in parts:
            for message in messages:
                newest = newest, message
        self.newest = newest
        return (yield from k(values))


class log_to(BasicHandler[Log]):
    """Passes messages on to a logger of the standard library, as they come.

    The named values are written behind the text, and are the attribute `data` of the record.  In a
    parallel `for` messages of different iterations come in any order.
    """

    def __init__(self, logger: logging.Logger, at: type[Log] = Log) -> None:
        self.logger = logger

    def log(self, op: LogOp) -> None:
        """Log it."""
        message = op.message
        self.logger.log(message.level, "%s", message, extra={"data": message.data})


class log_nothing(BasicHandler[Log]):
    """Drops all messages."""

    def __init__(self, at: type[Log] = Log) -> None:
        pass

    def log(self, op: LogOp) -> None:
        """Drop it."""
