"""Computations as bytes: `pickled` and `unpickled`, of suspended ones too.

A computation pickles when its parts do: its function by name, arguments, handlers.  A resumption
pickles as what its frames did so far, which the machine keeps where a handler with a `@multi`
clause is in scope; unpickled, it rebuilds each frame when control returns into it.  Functions that
cannot be found by name (lambdas, functions in functions) need cloudpickle, an optional extra.
Layer 1, above `replay.py`.
"""

from __future__ import annotations

import copyreg
import functools
import io
import pickle
from collections import ChainMap
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

from peffects.errors import MissingExtraError, NotPicklable
from peffects.frames import (
    TOP,
    ClauseEnd,
    Frames,
    HandlerMarker,
    LoggedFrame,
    Marker,
    MaskMarker,
    OutsideMarker,
    Segment,
    markers_down_to,
)
from peffects.places import place_of_site
from peffects.replay import entries_of, log_of
from peffects.resumption import Resumption
from peffects.source import caller
from peffects.stack import Stack

__all__ = ["pickled", "unpickled"]

_UNPICKLABLE = (pickle.PicklingError, TypeError, AttributeError, RecursionError)


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
    except _UNPICKLABLE as error:
        plain = error
    try:
        return pickled_by_value(c)
    except MissingExtraError:
        raise NotPicklable(
            f"{c!r} cannot be pickled: {plain}.",
            at=caller(),
            fix="Use functions of modules, and parts that pickle; lambdas and functions defined in"
            " functions need the extra: `pip install 'peffects[processes]'`.",
        ) from plain
    except _UNPICKLABLE as error:
        raise not_picklable(c, error) from error


def unpickled(data: bytes) -> Any:
    """What `pickled` made `data` from.  As with pickle: only from whom you trust."""
    return pickle.loads(data)


def not_picklable(what: object, error: BaseException) -> NotPicklable:
    """A part of `what` cannot be pickled, not even by cloudpickle."""
    return NotPicklable(
        f"{what!r} cannot be pickled: {error}.",
        at=caller(),
        fix="Give it parts that pickle: a path and not the open file, a key and not the lock.",
    )


def cloudpickle() -> ModuleType:
    """The optional extra that pickles functions by value."""
    try:
        import cloudpickle as found
    except ModuleNotFoundError:
        raise MissingExtraError(
            "pickling lambdas and functions defined in functions needs cloudpickle.",
            at=caller(),
            fix="Install it: `pip install 'peffects[processes]'`.",
        ) from None
    return found  # type: ignore[no-any-return]


def pickled_by_value(what: object) -> bytes:
    """As bytes, with the functions and classes in it that no module has."""
    buffer = io.BytesIO()
    _pickler(cloudpickle())(buffer).dump(what)
    return buffer.getvalue()


@functools.cache
def _pickler(module: ModuleType) -> Any:
    """Cloudpickle's pickler, but code keeps its file, so that tracebacks show the user's lines.

    Kernels of a script go by value, as its functions do: a worker's `__main__` is another one.
    """
    base = module.Pickler

    def reducer_override(self: Any, value: Any) -> Any:
        if getattr(value, "__module__", "") == "__main__" and hasattr(value, "__pe_function__"):
            reduced = value.__reduce__()
            by_name = isinstance(reduced, str)
            return (type(value), (value.__pe_function__,)) if by_name else reduced
        return base.reducer_override(self, value)

    def reduce_code(code: CodeType) -> tuple[Any, ...]:
        make, args, *_ = base.dispatch_table[CodeType](code)
        return _code_in_file, (code.co_filename, make, args)

    table = ChainMap({CodeType: reduce_code}, base.dispatch_table)
    members = {"dispatch_table": table, "reducer_override": reducer_override}
    return type("Pickler", (base,), members)


def _code_in_file(filename: str, make: Callable[..., CodeType], args: tuple[Any, ...]) -> CodeType:
    return make(*args).replace(co_filename=filename)


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
    return _make_resumption, (levels, k._handler, k._item, k._multi, state)


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


def _make_resumption(
    levels: list[tuple[Any, Any]],
    handler: Any,
    item: Any,
    multi: bool,
    state: tuple[bool, bool, bool],
) -> Resumption[Any, Any]:
    below: Marker = TOP
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
