"""Computations as bytes: `pickled` and `unpickled`, of suspended ones too.

A computation pickles when its parts do: its function by name, arguments, handlers.  A resumption
pickles as what its frames did so far, which the machine keeps where a handler with a `@multi`
clause is in scope; unpickled, it rebuilds each frame when control returns into it.  Functions that
cannot be found by name (lambdas, functions in functions) need cloudpickle, an optional extra.
Layer 1, above `resuming/replay.py` and `by_value.py`.
"""

from __future__ import annotations

import contextlib
import copyreg
import pickle
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from peffects.errors import MissingExtraError, NotPicklable
from peffects.machine.checking.locations import place_of_site
from peffects.machine.checking.never_performed import abandoning
from peffects.machine.resuming.frames import (
    ClauseEnd,
    Frames,
    HandlerMarker,
    LoggedFrame,
    Marker,
    MaskMarker,
    OutsideMarker,
    Segment,
    TopMarker,
    markers_down_to,
)
from peffects.machine.resuming.replay import entries_of, log_of
from peffects.machine.resuming.resumption import Resumption
from peffects.machine.running.by_value import pickled_by_value
from peffects.machine.running.stack import Stack
from peffects.notices import shown, told
from peffects.source import caller

__all__ = ["Travelling", "pickled", "pickled_by_value", "unpickled"]


def pickled(c: object) -> bytes:
    """A computation, or a resumption, as bytes; `unpickled` gives it back, in any process."""
    try:
        return _pickled(c)
    except NotPicklable as error:  # from a resumption somewhere inside
        error.at = caller()
        raise


def _pickled(c: object) -> bytes:
    try:
        return pickle.dumps(c)
    except Exception as error:  # a part of the user's may raise anything
        plain = error
    try:
        return pickled_by_value(c)
    except MissingExtraError:
        raise NotPicklable(
            f"{shown(c)} cannot be pickled: {told(plain)}.",
            at=caller(),
            fix="Use functions of modules, and parts that pickle; lambdas and functions defined in"
            " functions need the extra: `pip install 'peffects[processes]'`.",
        ) from plain
    except NotPicklable:
        raise
    except Exception as error:
        raise not_picklable(c, error) from error


def unpickled(data: bytes) -> Any:
    """What `pickled` made `data` from.  As with pickle: only from whom you trust."""
    return pickle.loads(data)


def not_picklable(what: object, error: BaseException) -> NotPicklable:
    """A part of `what` cannot be pickled, not even by cloudpickle."""
    return NotPicklable(
        f"{shown(what)} cannot be pickled: {told(error)}.",
        at=caller(),
        fix="Give it parts that pickle: a path and not the open file, a key and not the lock.",
    )


_MOST_YIELDS = 1000
"""So often a frame that is closed may ask for something; what asks for ever is left alone."""


class Travelling:
    """The resumptions that go to another process with the body of a loop.

    There they are resumed, and here they are then: `entered` tells which, and `note_entered` says
    so here.  Otherwise their frames would be unwound here, too, as those that nobody has entered.
    """

    __slots__ = ("resumptions",)

    def __init__(self) -> None:
        self.resumptions: dict[int, Resumption[Any, Any]] = {}

    def __enter__(self) -> Travelling:
        """What is pickled or unpickled in this thread until the exit belongs to it."""
        _travelling.now = self
        return self

    def __exit__(self, *_: object) -> None:
        _travelling.now = None

    def entered(self) -> list[int]:
        """The numbers of those that were resumed or dropped here; each is told once."""
        found = [number for number, k in self.resumptions.items() if not k._fresh]
        for number in found:
            del self.resumptions[number]
        return found

    def note_entered(self, numbers: Iterable[int]) -> None:
        """Take these as resumed."""
        for number in numbers:
            k = self.resumptions[number]
            if k._fresh:
                k._fresh = False
                _close_frames(k)
            if not k._multi:
                k._token.clear()


def _close_frames(k: Resumption[Any, Any]) -> None:
    """End the frames that `k` holds, which go on in another process: what they entered, they exit.

    What they would perform there is performed in the other process.
    """
    segment = k._segment
    assert segment is not None, "invariant: what travels keeps its segment"
    with abandoning():
        for frame in _frames_above(segment):
            gen = frame.take() if isinstance(frame, LoggedFrame) else None
            for _ in range(_MOST_YIELDS):
                if gen is None or gen.gi_frame is None:  # type: ignore[attr-defined]
                    break
                with contextlib.suppress(Exception):  # of those that go on there it is told
                    gen.close()


def _frames_above(segment: Segment) -> Iterator[Frames]:
    """All frames of a segment, from the top down."""
    markers = markers_down_to(segment.mark, segment.owner)
    for frames in (segment.frames, *(mark.frames for mark in markers[:-1])):
        while isinstance(frames, LoggedFrame | ClauseEnd):
            yield frames
            frames = frames.below


class _Now(threading.local):
    now: Travelling | None = None


_travelling = _Now()


def _number_of(k: Resumption[Any, Any]) -> int | None:
    travelling = _travelling.now
    if travelling is None or not k._fresh:
        return None
    number = len(travelling.resumptions)
    travelling.resumptions[number] = k
    return number


def _reduce_resumption(k: Resumption[Any, Any]) -> tuple[Any, ...]:
    segment = k._segment
    if segment is None:
        raise _refusal(k, "it is used up", "Pickle it before it is resumed.")
    if not segment.mark.logging:
        raise _refusal(
            k,
            "what its frames did is not kept, since no handler with a `@multi` clause is in scope",
            "Mark the clause with `@multi`, or run the computation under such a handler.",
        )
    markers = markers_down_to(segment.mark, segment.owner)
    # The frames of a segment lie above its marker: each marker knows those below itself.
    above = [segment.frames, *(mark.frames for mark in markers[:-1])]
    levels = [
        (_describe(k, mark, markers), _frames_of(k, frames))
        for mark, frames in zip(markers, above, strict=True)
    ]
    # A used one may be in the log of a clause, which gets it anew when it is rebuilt.
    state = k._fresh, k._dropped, bool(k._token)
    return _make_resumption, (levels, k._handler, k._item, k._multi, state, _number_of(k))


def _refusal(k: Resumption[Any, Any], why: str, fix: str) -> NotPicklable:
    return NotPicklable(f"the resumption of {k._what} cannot be pickled: {why}.", fix=fix)


def _describe(k: Resumption[Any, Any], mark: Marker, markers: list[Marker]) -> tuple[Any, ...]:
    if isinstance(mark, HandlerMarker):
        return "handler", mark.handler, place_of_site(mark.site)
    if isinstance(mark, OutsideMarker):
        return "outside", markers.index(mark.owner), mark.handler
    if isinstance(mark, MaskMarker):
        return "mask", mark.effect
    raise _refusal(k, "it is being unwound", "Pickle it before something drops it.")


def _frames_of(k: Resumption[Any, Any], frames: Frames) -> list[Any]:
    """What the frames did, from the top down; a clause that waits for its `k` gives that."""
    found: list[Any] = []
    while frames is not None:
        if isinstance(frames, LoggedFrame):
            found.append(entries_of(frames.log))
        elif isinstance(frames, ClauseEnd):
            found.append(frames.k)
        else:
            raise _refusal(k, "a frame is not kept", "Start it under the `@multi` handler.")
        frames = frames.below
    return found


_LOGGED = TopMarker()
_LOGGED.logging = True
"""What a resumption stands on that was kept with what its frames did: it still can run again,
although the handler with a `@multi` clause for which that was kept may not be in its segment."""


def _make_resumption(
    levels: list[tuple[Any, Any]],
    handler: Any,
    item: Any,
    multi: bool,
    state: tuple[bool, bool, bool],
    number: int | None = None,
) -> Resumption[Any, Any]:
    below: Marker = _LOGGED
    owner: HandlerMarker | None = None
    made: dict[int, Marker] = {}
    frames: Frames = None
    for position in reversed(range(len(levels))):
        description, logs = levels[position]
        below = made[position] = _marker(description, made).placed(frames, below)
        if owner is None:
            assert isinstance(below, HandlerMarker), "invariant: a segment ends at a handler"
            owner = below
        frames = _frames(logs)
    assert owner is not None, "invariant: a segment has an owner"
    k: Resumption[Any, Any] = Resumption(
        Segment(frames, below, owner), handler, Stack(), item, multi
    )
    k._fresh, k._dropped, unused = state
    if not unused:
        k._token.clear()
    if number is not None and _travelling.now is not None:
        _travelling.now.resumptions[number] = k
    return k


def _marker(description: tuple[Any, ...], made: dict[int, Marker]) -> Marker:
    kind, *parts = description
    if kind == "handler":
        return HandlerMarker(*parts)
    if kind == "mask":
        return MaskMarker(*parts)
    owner = made[parts[0]]
    assert isinstance(owner, HandlerMarker), "invariant: a clause runs outside a handler"
    return OutsideMarker(owner, parts[1])


def _frames(logs: list[Any]) -> Frames:
    frames: Frames = None
    for log in reversed(logs):
        if isinstance(log, Resumption):
            frames = ClauseEnd(log, frames)
        else:
            frames = LoggedFrame(None, log_of(log), frames)
    return frames


copyreg.pickle(Resumption, _reduce_resumption)
