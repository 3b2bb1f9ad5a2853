"""Rebuilding a frame for a further world: run it again with the answers that it got before.

A log is a linked list, newest entry last: `(None, start)`, then alternately what the frame yielded
and the answer; the last entry is the item that the frame waits for.  Only the frame itself runs
again, not the calls it made: their results are answers.  Layer 1.
"""

from __future__ import annotations

import dis
import enum
import functools
from collections.abc import Collection
from types import GeneratorType
from typing import Any

from peffects.awaiting import Await
from peffects.debugging import Fingerprinted
from peffects.effects import Call, Computation, Operation
from peffects.errors import NotReplayable, ReplayDivergence
from peffects.frames import Gen, Log, Marker, OutsideMarker
from peffects.handling import Handled, Handler
from peffects.loops import Loop
from peffects.places import suspended_place
from peffects.refusals import not_replayable_resource
from peffects.resumption import Drop, Resume, Resumption
from peffects.source import of_code

__all__: list[str] = []

_PLAIN = (int, float, complex, str, bytes, bool, type(None), enum.Enum)


class Raised:
    """An answer that was an exception."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


class AnswerStart:
    """How to start a generator clause without `k` again, on the handler of its world."""

    __slots__ = ("function", "operation", "state")

    def __init__(self, function: Any, handler: Handler[Any, Any], operation: Any) -> None:
        self.function = function
        self.operation = operation
        self.state = dict(handler.__dict__)

    def restart(self, mark: Marker) -> Gen:
        """Start on the handler that `mark` answers for, put back to the state it had then."""
        assert isinstance(mark, OutsideMarker), "invariant: such a clause stands on its marker"
        handler = mark.owner.handler
        handler.__dict__.clear()
        handler.__dict__.update(self.state)
        mark.handler = handler
        gen: Gen = self.function(handler, self.operation)
        return gen


class ClauseStart:
    """How to start a clause with `k` again: with a fork of its handler, a fresh `k` and `loop`."""

    __slots__ = ("arguments", "function", "handler")

    def __init__(
        self, function: Any, handler: Handler[Any, Any], arguments: tuple[Any, ...]
    ) -> None:
        self.function = function
        self.handler = handler._fork()
        self.arguments = arguments

    def restart(self, _: Marker) -> Gen:
        """Start the clause for another world."""
        handler = self.handler._fork()
        arguments = [
            a._twin(handler) if isinstance(a, Resumption | Loop) else a for a in self.arguments
        ]
        gen: Gen = self.function(handler, *arguments)
        return gen


def rebuild(log: Log, mark: Marker) -> Gen:
    """A generator that stands where the frame with this log stood."""
    entries = entries_of(log)
    root = entries[0]
    if isinstance(root, GeneratorType):
        raise NotReplayable(
            f"`{root.__name__}` has to run again for a further world, but it is a bare generator"
            " object.",
            at=of_code(root.gi_code),
            fix="Decorate its function with @effectful, and pass the call.",
        )
    gen: Gen = root.restart(mark)
    answer: Any = None
    for position in range(1, len(entries), 2):
        expected = entries[position]
        try:
            raised = answer.__class__ is Raised
            yielded = gen.throw(answer.error) if raised else gen.send(answer)
        except StopIteration as stop:
            raise _divergence(root, expected, f"it returned {stop.value!r}") from None
        except BaseException as error:
            if _enters(error):
                raise not_replayable_resource(error) from error
            raise _divergence(root, expected, f"it raised {error!r}") from error
        found = yielded[1] if type(yielded) is tuple else yielded
        if found is not expected:
            if not _same(found, expected):
                raise _divergence(gen, expected, repr(found))
            if isinstance(found, Resume | Drop):
                _mark_used(found.resumption)
            elif isinstance(found, Await):
                found.forget()
        if position + 1 < len(entries):
            answer = entries[position + 1]
            if answer.__class__ is Fingerprinted:
                answer = answer.unchanged(expected, functools.partial(suspended_place, gen))
    return gen


def _enters(error: BaseException) -> bool:
    """Whether the error came out of entering a `with`."""
    entry = error.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code.co_code
        if dis.opname[code[entry.tb_lasti]] == "BEFORE_WITH":
            return True
        entry = entry.tb_next
    return False


def log_of(entries: list[Any]) -> Log:
    """The log with these entries, oldest first."""
    log: Any = None
    for entry in entries:
        log = log, entry
    return log  # type: ignore[no-any-return]


def entries_of(log: Log) -> list[Any]:
    """What is in a log, oldest first."""
    entries = []
    rest: Any = log
    while rest is not None:
        rest, entry = rest
        entries.append(entry)
    entries.reverse()
    return entries


def _mark_used(k: Resumption[Any, Any]) -> None:
    k._fresh = False
    if not k._multi:
        k._token.clear()


def _divergence(where: Any, expected: object, found: str) -> ReplayDivergence:
    """`where` is the generator where it stands now, or what started it when it has ended."""
    error = ReplayDivergence(
        f"a frame that runs again for a further world did something else: before it performed"
        f" {expected!r}, now {found}.",
        fix="Code between operations must give the same each time: make what varies an operation"
        " (`uniform()`), or wrap it: `yield from once(lambda: ...)`.",
    )
    if isinstance(where, GeneratorType):
        error.at = suspended_place(where)
    elif hasattr(where, "function"):
        error.at = of_code(where.function.__code__)
    return error


def _same(found: Any, expected: Any) -> bool:
    """Whether a frame asks again for what it asked for: class, callee and plain arguments."""
    if type(found) is not type(expected):
        return False
    if isinstance(found, Call):
        return _same_function(found.function, expected.function) and _same_values(
            found.args, expected.args
        )
    if isinstance(found, Operation):
        return _same_values(found._values(), expected._values())
    if isinstance(found, Handled):
        return type(found.handler) is type(expected.handler)
    return isinstance(found, Computation)


def _same_function(a: Any, b: Any) -> bool:
    """A frame that defines functions makes new ones of the same code when it runs again."""
    return a is b or (a.__code__ == b.__code__ and a.__qualname__ == b.__qualname__)


def _same_values(found: Collection[Any], expected: Collection[Any]) -> bool:
    """Compares plain values; others may be fresh objects of each world and are taken as equal."""
    return len(found) == len(expected) and all(map(_same_value, found, expected))


def _same_value(a: Any, b: Any) -> bool:
    if a is b or not (isinstance(a, _PLAIN) and isinstance(b, _PLAIN)):
        return True
    return bool(a == b) or (a != a and b != b)  # two NaNs are the same answer
