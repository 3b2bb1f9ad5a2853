"""Clock: the time, and waiting.  `system_clock` is real; `fake_clock` is for tests, and instant.

With `fake_clock` a parallel `for` takes as long as its longest iteration, and the same loop written
sequentially the sum of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Self, TypeVar

from peffects.errors import EffectArgumentError
from peffects.handlers.traversal import pairs_of
from peffects.machine.handling.handler import BasicHandler, CollectHandler
from peffects.machine.handling.operations import Eff, Effect, Operation
from peffects.source import caller

__all__ = ["Clock", "Now", "Sleep", "fake_clock", "now", "sleep", "system_clock"]

R = TypeVar("R")


class Clock(Effect):
    """The time is read, and passes."""

    @classmethod
    def now(cls) -> Eff[Self, float]:
        """The time of this instance, in seconds."""
        return Now.at(cls)()  # type: ignore[return-value]

    @classmethod
    def sleep(cls, duration_s: float) -> Eff[Self, None]:
        """Wait, by the clock of this instance."""
        return _sleeping(Sleep.at(cls), duration_s)  # type: ignore[return-value]


class Now(Operation[Clock, float]):
    """Read the time."""


class Sleep(Operation[Clock, None]):
    """Wait."""

    duration_s: float


def now() -> Eff[Clock, float]:
    """The time in seconds, from an arbitrary start; only differences mean something."""
    return Now()


def sleep(duration_s: float) -> Eff[Clock, None]:
    """Wait so many seconds."""
    return _sleeping(Sleep, duration_s)


def _sleeping(operation: type[Sleep], duration_s: float) -> Sleep:
    if not duration_s >= 0:
        raise EffectArgumentError(
            f"`sleep` was asked to wait {duration_s} seconds.",
            at=caller(),
            fix="Wait 0 seconds or more.",
        )
    return operation(duration_s)


class system_clock(BasicHandler[Clock]):
    """The computer's clock."""

    def __init__(self, at: type[Clock] = Clock) -> None:
        pass

    def now(self, op: Now) -> float:
        """Read it."""
        return time.monotonic()

    def sleep(self, op: Sleep) -> None:
        """Block the thread."""
        time.sleep(op.duration_s)


class fake_clock(CollectHandler[Clock]):
    """A clock that moves by `sleep` only; the answer is (time at the end, result)."""

    def __init__(self, start_s: float = 0.0, at: type[Clock] = Clock) -> None:
        self.time_s = start_s

    def ret(self, x: R, /) -> tuple[float, R]:
        """The time comes first."""
        return self.time_s, x

    def now(self, op: Now) -> float:
        """Read it."""
        return self.time_s

    def sleep(self, op: Sleep) -> None:
        """Move on."""
        self.time_s = self.time_s + op.duration_s

    def collect(self, answers: list[Any]) -> Sequence[Any]:
        """The iterations started together; the rest starts when the last one has ended."""
        times_s, values = pairs_of(self, answers)
        self.time_s = max([self.time_s, *times_s])
        return values
