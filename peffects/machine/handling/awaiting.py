"""`await_`: waiting for an awaitable of asyncio, as an effect.

`run_async` waits, and so does a clause written `async def`; a handler of `Async` may answer in its
place, in a test for instance.  Layer 1, between `operations.py` and `clauses.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar, cast

from peffects.machine.handling.operations import Eff, Effect, Operation

__all__ = ["Async", "Await", "await_"]

T = TypeVar("T")


class Async(Effect):
    """The computation waits for awaitables; `run_async` does that."""


class Await(Operation[Async, Any]):
    """Wait for an awaitable."""

    awaitable: Awaitable[Any]

    def forget(self) -> None:
        """Nobody is going to wait: a coroutine that never runs would complain."""
        if isinstance(self.awaitable, Coroutine):
            self.awaitable.close()


def await_(awaitable: Awaitable[T]) -> Eff[Async, T]:
    """What the awaitable gives; raises what it raises."""
    return cast("Eff[Async, T]", Await(awaitable))


def awaiting(clause: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Any]:
    """The clause `async def` as a generator that performs `await_`."""

    @functools.wraps(clause)
    def performing(self: Any, op: Any) -> Generator[Any, Any, Any]:
        return (yield from await_(clause(self, op)))

    return performing
