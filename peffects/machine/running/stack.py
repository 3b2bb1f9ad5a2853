"""The machine's stack: what happens when a computation returns, raises, suspends or is dropped.

State: the running generator, the frames below it in its segment, the innermost marker (see
`resuming/frames.py`).  `Stack` knows how values and exceptions travel down; `machine.py` adds what
makes them.  An exception in an answering clause is raised where the operation was performed, and so
is one in a traverse clause that has not resumed; one in any other clause goes outward from the
handler.  Layer 1.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import GeneratorType
from typing import Any, Final, cast

from peffects.machine.checking.locations import (
    Site,
    is_users,
    strip_internal,
    suspended_place,
    suspended_site,
)
from peffects.machine.checking.never_performed import NEWEST, abandoning, performed, settled
from peffects.machine.handling.handler import Handled, Handler
from peffects.machine.handling.masking import Masked
from peffects.machine.handling.operations import NONE, Call, Computation, describe_start, start
from peffects.machine.resuming.answer_log import PLAIN, Keep, Options, Raised
from peffects.machine.resuming.frames import (
    TOP,
    ClauseEnd,
    Frames,
    Gen,
    HandlerMarker,
    LoggedFrame,
    Marker,
    MaskMarker,
    OutsideMarker,
    Segment,
    Unwind,
    UnwindMarker,
    is_unwound,
    replace_unwindings,
    unwindings_around,
    unwindings_in,
)
from peffects.machine.resuming.parallel_for import Body, ParFor
from peffects.machine.resuming.refusals import may_catch, never_performed, unresumed
from peffects.machine.resuming.replay import rebuild
from peffects.machine.resuming.resumption import Resumption
from peffects.machine.resuming.swallowing import has_swallowed, suspended_in
from peffects.machine.resuming.unwinding import nothing_to_unwind
from peffects.machine.resuming.variables import left_by, may_be_written
from peffects.source import SrcInfo

__all__ = ["Stack"]


def _references_at_clause_end() -> int:
    end = ClauseEnd(cast("Resumption[Any, Any]", object()), None)
    k = end.k
    return sys.getrefcount(k)


_UNHELD: Final = _references_at_clause_end()
"""References to a resumption at the end of its clause when only the machine has it, as counted
where `_end_clause` counts: how many a local variable makes is the interpreter's affair."""


def _same_kind(a: Handler[Any, Any], b: Handler[Any, Any]) -> bool:
    """Whether one may stand in the place of the other: same clauses, for the same effects."""
    return type(a) is type(b) and a._handled is b._handled


class Stack:
    """A stack of suspended computations, with the one that runs on top."""

    # Class-level defaults, since there is a machine for every iteration of a loop.
    gen: Gen | None = None
    log: Any = None
    frames: Frames = None
    mark: Marker = TOP
    sent: Any = None
    error: BaseException | None = None
    options: Options = PLAIN
    keep: Keep | None = None
    live: dict[Resumption[Any, Any], None] | None = None
    unwound = False
    """Whether frames were ever unwound; most programs never do that."""
    done = False
    finished = False
    failure: BaseException | None = None
    result: Any = None

    def _here(self) -> SrcInfo:
        """The user's line that the running computation stands at."""
        return suspended_place(self.gen)

    def _site_of(self, node: ParFor) -> Site | SrcInfo | None:
        """Where the user asked for a loop that is performed now.

        Where a clause of ours has made the loop, it is what the clause answers.
        """
        if is_users(node.place):
            return node.place
        site, frames = suspended_site(self.gen), self.frames
        while site is None and frames is not None:
            if isinstance(frames, ClauseEnd):
                segment = frames.k._segment
                return None if segment is None else segment.site()
            if isinstance(frames, tuple):
                gen, frames = frames
                site = suspended_site(gen)
            else:
                live, frames = frames.live[:], frames.below
                site = suspended_site(live[0]) if live else None
        return site

    def _begin(self, gen: Gen, root: object) -> None:
        """Make `gen` the running generator of a new frame; `root` says how to start it again."""
        self.gen = gen
        self.log = (None, describe_start(root)) if self.mark.logging else None
        self.sent = None
        self.error = None

    def _suspend(self, item: object) -> None:
        """Put the running generator, which waits for the answer to `item`, on the frames."""
        gen = self.gen
        assert gen is not None, "invariant: what is suspended was running"
        if self.log is None:
            self.frames = (gen, self.frames)
        else:
            self.frames = LoggedFrame(gen, (self.log, item), self.frames)
        self.gen = self.log = None

    def _answer(self, item: object, value: Any) -> None:
        """Answer the running generator at once."""
        self.sent = NONE if value is None else value
        self.error = None
        if self.log is not None:
            self.log = ((self.log, item), self._kept(self.sent))

    def _kept(self, answer: Any) -> Any:
        """What a log keeps of an answer; what the frame gets may be a copy."""
        if self.keep is None:
            return answer
        self.sent, kept = self.keep(answer)
        return kept

    def _top_frame(self, answer: Any) -> bool:
        """Make the top frame of the segment the running one; false if there is none."""
        frames = self.frames
        if isinstance(frames, tuple):
            self.gen, self.frames = frames
            self.log = None
            return True
        if isinstance(frames, LoggedFrame):
            kept = self._kept(answer)
            self.frames = frames.below
            self.gen = frames.take()
            if self.gen is None:
                self.gen, frames = rebuild(frames, self.mark)
                self.frames = frames.below
            elif isinstance(self.mark, OutsideMarker) and frames.below is None:
                self.mark.adopt()
            if may_be_written(self.gen):
                kept = left_by(frames.log[1], kept)
            self.log = (frames.log, kept)
            return True
        return False

    def _return(self, value: Any) -> None:
        """Give `value` to what lies below the generator that ended."""
        while True:
            sent = NONE if value is None else value
            self.sent = sent
            if self._top_frame(sent):
                self.error = None
                return
            if isinstance(self.frames, ClauseEnd):
                if self._end_clause(self.frames, value, None):
                    return
                continue
            mark = self.mark
            if mark.below is None:
                self.result = value
                self.done = True
                return
            self.frames, self.mark = mark.frames, mark.below
            if isinstance(mark, HandlerMarker):
                value = self._answer_under(mark, value)
                if self.gen is not None:  # the return clause performs
                    return
            elif isinstance(mark, UnwindMarker) and self._goes_on_unwinding(mark):
                if mark.error is not None:
                    raise mark.error
                value = mark.value

    def _goes_on_unwinding(self, mark: UnwindMarker) -> bool:
        """Whether what a segment that unwinds gives is of no account.

        It is if a frame has swallowed the unwinding.  It counts if another exit replaced that, or
        an exception that the same frame caught.
        """
        if mark.replaced or not mark.may_be_replaced:
            return not mark.replaced
        return has_swallowed(mark.unwind.thrown_into)

    def _answer_under(self, mark: HandlerMarker, value: Any) -> Any:
        """End the handler of `mark`: its answer for `value`, or its return clause begins."""
        handler, ret, watch = mark.handler, mark.handler._ret, mark.watch
        mark.ended()
        if watch is not None:
            lost = watch.lost(handler)
            if lost is not None:
                raise lost
        if ret is None:
            return value
        if handler._ret_is_generator:
            call = Call(ret, (handler, value), {})
            self._begin(start(call), call)
            return None
        return ret(handler, value)

    def _deliver(self, error: BaseException) -> None:
        """Raise `error` in the running generator, or in what lies below it."""
        if self.unwound and self.gen is None and error.__context__ is not None:
            replace_unwindings(unwindings_around(error), self.mark)
        while self.gen is None:
            if isinstance(error, Unwind) and self._pass_over_dead_frame(error):
                continue
            if self._top_frame(Raised(error)):
                break
            if isinstance(self.frames, ClauseEnd):
                if self._end_clause(self.frames, None, error):
                    return
                continue
            mark = self.mark
            if mark.below is None:
                self.failure = error
                self.done = True
                return
            self.frames, self.mark = mark.frames, mark.below
            if isinstance(mark, HandlerMarker):
                if self._caught_under(mark, error):
                    return
            elif isinstance(mark, UnwindMarker) and error is mark.unwind:
                error.__traceback__ = None  # it has frames, and they have it: a cycle
                if mark.error is None:
                    self._return(mark.value)
                    return
                error = mark.error
        self.error = error
        if isinstance(error, Unwind):
            error.thrown_into = suspended_in(self.gen)

    def _caught_under(self, mark: HandlerMarker, error: BaseException) -> bool:
        """End the handler of `mark`; true if it takes `error` in, and answers."""
        handler = mark.handler
        mark.ended()
        if not (isinstance(error, handler._catches) and may_catch(error)):
            return False
        self._return(handler._raised(error))
        return True

    def _pass_over_dead_frame(self, unwind: Unwind) -> bool:
        """In an unwinding: a frame that this world never rebuilt holds nothing to unwind."""
        frame = self.frames
        if isinstance(frame, LoggedFrame) and not frame.live:
            self.frames = frame.below
            if is_unwound(self.mark):
                others = unwindings_in(frame.log)
                others.discard(unwind)
                replace_unwindings(others, self.mark)
            return True
        return False

    def _enter(self, computation: Any) -> None:
        """Install the handlers around a computation and start it."""
        root = computation
        while True:
            kind = type(computation)
            if kind is Handled:
                self.mark = self._installed(computation)
                self.frames = None
                root = computation = computation.computation
            elif kind is Masked:
                for effect in computation.effects:
                    self.mark = MaskMarker(effect).placed(self.frames, self.mark)
                    self.frames = None
                root = computation = computation.computation
            elif kind is Body:
                computation = computation.body(computation.index)
                if type(computation) is Call:  # performed when it starts
                    root = computation
                elif isinstance(computation, Computation):
                    performed(computation)
                    root = computation
                elif not isinstance(computation, GeneratorType):
                    self._return(computation)
                    return
            else:
                break
        self._begin(self._started(computation), root)

    _started = staticmethod(start)
    """Makes the generator that performs a computation."""

    def _installed(self, item: Handled) -> Marker:
        handler = item.handler if item.unshared else item.handler._fork()
        if item.spares is None:
            alone = HandlerMarker(handler, item.site)
            alone.watch = item.watch
            return alone.placed(self.frames, self.mark)
        marker = item.spares.take(self.mark)
        if marker is None or not _same_kind(marker.handler, handler):
            marker = HandlerMarker(handler, item.site)
            marker.placed(self.frames, self.mark)
        else:
            marker.handler, marker.frames = handler, self.frames
        marker.spares = item.spares
        marker.watch = item.watch
        return marker

    def _capture(
        self, owner: HandlerMarker, item: Computation, multi: bool
    ) -> Resumption[Any, Any]:
        """Take the stack down to `owner` away; a clause of its handler is about to run."""
        self._suspend(item)
        segment = Segment(self.frames, self.mark, owner)
        if self.mark.logging:
            if segment.has_running_clause():
                captured, segment = segment, segment.twin()
                captured.forget_evidence()
            segment.forget_evidence()
        k: Resumption[Any, Any] = Resumption(segment, owner.handler, self, item, multi)
        assert owner.below is not None, "invariant: a handler marker is never the bottom"
        self.frames, self.mark = ClauseEnd(k, owner.frames), owner.below
        return k

    def _place(self, segment: Segment, handler: Handler[Any, Any]) -> None:
        """Put a captured segment, or a world of one that is kept, on top of the stack."""
        if segment.mark.logging:
            self.mark = segment.place_world(handler, self.frames, self.mark)
        else:
            self.mark = segment.place_back(handler, self.frames, self.mark)
        self.frames = segment.frames

    def _end_clause(self, end: ClauseEnd, value: Any, error: BaseException | None) -> bool:
        """A clause that got a resumption has ended; true if there is something to run now."""
        self.frames = end.below
        k = end.k
        if error is None and isinstance(value, Computation):
            error = never_performed(value, type(k._handler).__name__, k._item)
            if not k._fresh:
                raise error
        if not k._fresh:
            return False
        if NEWEST.last is not None:
            settled()  # `k(value)` that nobody performed may hold it
        if error is not None and isinstance(k._item, ParFor):
            self._place(k._take(self._here, self), k._handler._fork())
            self._deliver(error)
            return True
        if error is not None or sys.getrefcount(k) <= _UNHELD:
            if error is None and k._segment is not None and k._segment.owner.watch is not None:
                error = k._segment.owner.watch.lost(k._handler)
            if self.options.debug and error is None and not k._final:
                self._warn_unresumed(k)
            self._drop(k, value, error)
            return True
        if self.live is None:
            self.live = {}
        self.live[k] = None
        return False

    def _warn_unresumed(self, k: Resumption[Any, Any]) -> None:
        """In debug mode: tell that `k` is dropped, if that makes any difference."""
        segment = k._segment
        if segment is None or isinstance(k._item, ParFor):
            return
        if not nothing_to_unwind(None, segment.frames, segment.mark, segment.owner):
            warnings.warn(unresumed(k, segment.place()), stacklevel=2)

    def _leave(self, owner: HandlerMarker, final: Callable[..., Any], op: Any) -> None:
        """Run a `@final` clause; its value is the answer of `owner`, all above it is unwound."""
        handler, value = owner.handler, None
        failure: BaseException | None = None
        try:
            value = final(handler, op)
            if isinstance(value, Computation):
                failure = never_performed(value, type(handler).__name__, op)
            elif owner.watch is not None:
                failure = owner.watch.lost(handler)
        except BaseException as error:
            strip_internal(error, None)
            failure = error
        below = owner.below
        assert below is not None, "invariant: a handler marker is never the bottom"
        unwound = self.unwound and is_unwound(below)
        if not unwound and nothing_to_unwind(self.gen, self.frames, self.mark, owner):
            if NEWEST.armed:
                with abandoning():
                    self._forget_down_to(owner, below)
            else:
                self._forget_down_to(owner, below)
            if failure is None:
                self._return(value)
            else:
                self._deliver(failure)
            return
        unwind = Unwind()
        self.unwound = True
        owner.below = UnwindMarker(unwind, value, failure).placed(owner.frames, below)
        owner.frames = None
        if self.log is not None:
            self.log = ((self.log, op), Raised(unwind))
        unwind.thrown_into = suspended_in(self.gen)
        self.error = unwind

    def _forget_down_to(self, owner: HandlerMarker, below: Marker) -> None:
        self.gen = self.log = None
        self.frames, self.mark = owner.frames, below
        owner.ended()

    def _drop(
        self,
        k: Resumption[Any, Any],
        value: Any,
        error: BaseException | None,
        may_be_replaced: bool = True,
    ) -> None:
        """Unwind what `k` holds, then go on with `value` or `error` below."""
        segment = k._take(self._here, self)
        k._mark_dropped()
        unwind = Unwind()
        self.unwound = True
        marker = UnwindMarker(unwind, value, error, may_be_replaced)
        self.mark = marker.placed(self.frames, self.mark)
        self.frames = None
        self._place(segment, k._handler)
        self._deliver(unwind)
