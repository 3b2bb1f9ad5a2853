"""Streams: a computation as a Python iterator, and a Python iterable as an effect.

`iterate(c)` gives what `c` emits, one by one, and runs `c` only as far as somebody asks; closing
the iterator unwinds `c`.  A parallel `for` may run in `c`, but not emit.  `feed(items)` answers
`take()` with one item after the other; each world takes from where it stands, since an item that
was taken is kept for the others.  It is sequential: a parallel `for` would lose the order.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Self, TypeVar, cast

from peffects.errors import TraverseError
from peffects.machine.checking.debugging import debugging
from peffects.machine.handling.handler import Handler, ParHandler, handle
from peffects.machine.handling.operations import (
    Eff,
    Effect,
    Operation,
    check_computation,
    check_performed,
)
from peffects.machine.resuming.answer_log import Options
from peffects.machine.running.machine import Machine
from peffects.parallel.executors.local import Executor, Serial
from peffects.parallel.running import ExecutorRunner

if TYPE_CHECKING:
    from peffects.machine.resuming.parallel_for import Loop
    from peffects.machine.resuming.resumption import Resumption

__all__ = ["Emit", "EmitOp", "Source", "Take", "emit", "feed", "iterate", "take"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")

_NOTHING: Final[Any] = object()


class Emit(Effect, Generic[T_co]):
    """Values of type T are emitted."""

    @classmethod
    def emit(cls, value: T_co) -> Eff[Self, None]:  # type: ignore[misc]  # written, never read
        """Emit at this instance."""
        operation: Any = EmitOp.at(cls)
        return operation(value)  # type: ignore[no-any-return]


class EmitOp(Operation[Emit[T], None]):
    """Emit a value."""

    value: T


def emit(value: T) -> Eff[Emit[T], None]:
    """Hand `value` to whoever iterates; goes on when the next one is asked for."""
    return EmitOp(value)


class _Emitted(NamedTuple):
    value: Any
    k: Any


class _emits(ParHandler[Emit[T]]):
    """Answers at each emission with the value and the rest."""

    def __init__(self, at: type[Emit[Any]] = Emit) -> None:
        pass

    def emit(self, op: EmitOp[T], k: Any) -> _Emitted:
        return _Emitted(op.value, k)

    def traverse(self, n: Any, loop: Loop[Any], k: Resumption[Any, Any], /) -> Eff[Any, Any]:
        """Loops may run, but nothing is emitted in them."""
        answers = yield from loop()
        if any(isinstance(answer, _Emitted) for answer in answers):
            raise TraverseError(
                "an iteration of a parallel for emitted, which would need an order.",
                fix="Emit after the loop: `for x in table: yield from emit(x)`.",
            )
        return (yield from k(answers))


def iterate(
    c: Eff[Any, R], /, *, at: type[Emit[Any]] = Emit, executor: Executor | None = None
) -> Generator[Any, None, R]:
    """What `c` emits; `c` runs as far as it is asked for, and is unwound when closed.

    All other effects of `c` are handled inside it.  Its result is the value of the generator.
    """
    check_computation(c, "iterate")
    return _steps(c, at, executor or Serial())


def _steps(c: Any, at: type[Emit[Any]], executor: Executor) -> Generator[Any, None, Any]:
    machine = Machine(ExecutorRunner(executor), Options(debugging()))
    pending: Any = handle(_emits(at=at), c)
    try:
        while True:
            answer = machine.perform(pending)
            if not isinstance(answer, _Emitted):
                check_performed(answer, "`iterate`")
                return answer
            yield answer.value
            pending = answer.k(None)
    finally:
        machine.close()


class Source(Effect, Generic[T_co]):
    """Items of type T are taken, one after the other."""

    @classmethod
    def take(cls, default: Any = _NOTHING) -> Eff[Self, T_co]:
        """The next item of this instance."""
        operation: Any = Take.at(cls)
        return operation(default)  # type: ignore[no-any-return]


class Take(Operation[Source[T], T]):
    """Take the next item."""

    default: Any


def take(default: Any = _NOTHING) -> Eff[Source[T], T]:
    """The next item; at the end `default`, or EOFError where there is none."""
    return Take(default)


class _Cell:
    """A place in the stream: knows its item and the next place once somebody took it."""

    __slots__ = ("iterator", "lock", "taken")

    def __init__(self, iterator: Iterator[Any], lock: threading.Lock) -> None:
        self.iterator = iterator
        self.lock = lock
        self.taken: tuple[Any, _Cell] | None = None

    def take(self) -> tuple[Any, _Cell] | None:
        with self.lock:  # worlds may run on several threads
            if self.taken is None:
                item = next(self.iterator, _NOTHING)
                if item is _NOTHING:
                    return None
                self.taken = item, _Cell(self.iterator, self.lock)
            return self.taken


class feed(Handler[Source[T]]):
    """Answers `take()` with the items of an iterable, which is read as far as they are taken."""

    def __init__(self, items: Iterable[T], at: type[Source[Any]] = Source) -> None:
        self._rest = _Cell(iter(items), threading.Lock())

    def take(self, op: Take[T]) -> T:
        """The item here; go on to the next place."""
        taken = self._rest.take()
        if taken is None:
            if op.default is _NOTHING:
                raise EOFError("there is nothing left to take")
            return cast(T, op.default)
        item, self._rest = taken
        return cast(T, item)
