"""What the machine's stack is made of: suspended frames, and markers that delimit segments.

A *frame* below the running generator is the pair `(generator, frames below)`, or, where a `@multi`
clause is in scope, a `LoggedFrame`, which can be rebuilt.  A *segment* is a chain of frames that
ends at a marker; the *markers* form the stack of segments: a handler, a clause that runs "outside"
its handler, an unwinding, the top.  Every marker knows the evidence map (effect -> handler) that
holds above it.  Capturing a resumption therefore costs the same at any depth.  Layer 1.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from peffects.machine.checking.locations import Site, suspended_place, suspended_site
from peffects.machine.checking.never_performed import NEWEST, abandoning
from peffects.machine.handling.operations import Effect
from peffects.source import UNKNOWN, SrcInfo

if TYPE_CHECKING:
    from peffects.machine.handling.clauses import Clause
    from peffects.machine.handling.handler import Handler
    from peffects.machine.handling.state_changes import Watch
    from peffects.machine.resuming.resumption import Resumption

__all__: list[str] = []

Gen: TypeAlias = Generator[Any, Any, Any]
Evidence: TypeAlias = "dict[type[Effect], HandlerMarker]"
Answers: TypeAlias = "dict[type[Any], tuple[Callable[..., Any], HandlerMarker] | None]"
"""For operation classes that were performed before: the answering clause, if it is one, and its
handler."""

Log: TypeAlias = "tuple[Any, Any]"
"""What a frame did, newest last: `(None, call)`, then alternately an item and its answer."""


class LoggedFrame:
    """A suspended frame that several worlds may return into.

    The first one takes the live generator out of `live` (an atomic pop); later ones rebuild it from
    the log, whose last entry is the item that the frame waits for.  `script` is the log made ready
    for that, and `unguarded` says that neither it nor a frame below has something to unwind, each
    once it is known.
    """

    __slots__ = ("below", "live", "log", "script", "unguarded")

    def __init__(self, gen: Gen | None, log: Log, below: Frames) -> None:
        self.live = [] if gen is None else [gen]
        self.log = log
        self.below = below
        self.script: Any = None
        self.unguarded = False

    def __del__(self) -> None:
        if NEWEST.armed and self.live:
            with abandoning():  # no world returned here: what the frame holds waits for nothing
                self.live.clear()

    def take(self) -> Gen | None:
        """The live generator, for the first world that returns here."""
        try:
            return self.live.pop() if self.live else None
        except IndexError:  # another thread was quicker
            return None


class ClauseEnd:
    """Below the frame of a clause that got the resumption `k`: what to do with `k` when it ends."""

    __slots__ = ("below", "k")

    def __init__(self, k: Resumption[Any, Any], below: Frames) -> None:
        self.k = k
        self.below = below


Frames: TypeAlias = "tuple[Gen, Frames] | LoggedFrame | ClauseEnd | None"


class Marker:
    """The lower end of a segment.  `frames` is what lies below it, down to the marker `below`."""

    __slots__ = ("answers", "below", "evidence", "frames", "logging")

    answers: Answers
    below: Marker | None
    evidence: Evidence
    frames: Frames
    logging: bool

    def placed(self, frames: Frames, below: Marker) -> Marker:
        """Put the marker there, and find what holds above it."""
        self.frames = frames
        self.below = below
        self.relink(below)
        return self

    def relink(self, below: Marker) -> None:
        """Find evidence and logging anew from those of `below`."""
        self.evidence = below.evidence
        self.answers = below.answers
        self.logging = below.logging

    def twin(self, twins: dict[Marker, Marker]) -> Marker:
        """An unplaced copy for another world; `twins` maps the markers copied so far."""
        raise NotImplementedError


class TopMarker(Marker):
    """The bottom of every stack: no handler is in scope."""

    __slots__ = ()

    def __init__(self) -> None:
        self.below = None
        self.frames = None
        self.evidence = {}
        self.answers = {}
        self.logging = False


TOP = TopMarker()

NOTHING: Evidence = {}
"""The evidence of a handler that has ended."""


class HandlerMarker(Marker):
    """An installed handler.

    `spares` is where the marker goes when it has ended, for the next world of its segment; it is
    forgotten when something that may outlive the world refers to the marker.  `watch` says what has
    to hold of the handler at its end.
    """

    __slots__ = ("clauses", "handler", "site", "spares", "watch")

    def __init__(self, handler: Handler[Any, Any], site: Site | SrcInfo) -> None:
        self.handler = handler
        self.clauses: dict[str, Clause] = handler._clauses
        self.site = site
        self.spares: Spares | None = None
        self.watch: Watch | None = None

    def relink(self, below: Marker) -> None:
        self.evidence = evidence = below.evidence.copy()
        for effect in self.handler._handled:
            evidence[effect] = self
        self.answers = {}
        self.logging = below.logging or self.handler._has_multi

    def ended(self) -> None:
        """Break the cycles from what holds above the marker to the marker itself."""
        spares = self.spares
        if spares is not None:
            assert self.below is not None, "invariant: a handler marker is never the bottom"
            self.frames = self.spares = None
            spares.append((self, self.evidence, self.answers, self.below.evidence))
        self.evidence = NOTHING
        self.answers = {}

    def kept(self) -> None:
        """It stands in a captured segment, for twins, which find what holds above them anew."""
        self.spares = None
        self.ended()

    def twin(self, twins: dict[Marker, Marker]) -> Marker:
        made = HandlerMarker(self.handler._fork(), self.site)
        made.watch = self.watch
        return made


Spare: TypeAlias = tuple[HandlerMarker, Evidence, Answers, Evidence]
"""A marker that has ended, what held above it, and the evidence that it was built on."""


class Spares(list[Spare]):
    """Markers that have ended, for what is installed next in their place."""

    def take(self, below: Marker) -> HandlerMarker | None:
        """A marker that stood on `below`; with its evidence."""
        try:
            marker, evidence, answers, base = self.pop() if self else _NO_SPARE
        except IndexError:  # another thread was quicker
            return None
        if marker is None or marker.below is not below or base is not below.evidence:
            return None
        marker.evidence, marker.answers = evidence, answers
        return marker

    def __reduce__(self) -> tuple[object, ...]:
        return Spares, ()


_NO_SPARE: tuple[None, Evidence, Answers, Evidence] = None, NOTHING, {}, NOTHING


class OutsideMarker(Marker):
    """A clause of `owner` that answers by performing effects: they go outward from `owner`.

    `handler` is the object that the running clause knows as `self`.
    """

    __slots__ = ("handler", "owner")

    def __init__(self, owner: HandlerMarker, handler: Handler[Any, Any]) -> None:
        self.owner = owner
        self.handler = handler
        owner.spares = None

    def adopt(self) -> None:
        """The clause goes on in this world: install its `self` with the state of this world."""
        installed = self.owner.handler
        if installed is not self.handler:
            self.handler.__dict__.clear()
            self.handler.__dict__.update(installed.__dict__)
            self.owner.handler = self.handler

    def relink(self, below: Marker) -> None:
        outside = self.owner.below
        assert outside is not None, "invariant: a handler marker is never the bottom"
        self.evidence = outside.evidence
        self.answers = outside.answers
        self.logging = outside.logging

    def twin(self, twins: dict[Marker, Marker]) -> Marker:
        owner = twins.get(self.owner, self.owner)
        assert isinstance(owner, HandlerMarker), "invariant: twins keep their class"
        return OutsideMarker(owner, self.handler)


class MaskMarker(Marker):
    """Above it operations of `effect` skip the innermost handler of that effect."""

    __slots__ = ("effect",)

    def __init__(self, effect: type[Effect]) -> None:
        self.effect = effect

    def relink(self, below: Marker) -> None:
        self.logging = below.logging
        self.answers = {}
        self.evidence = evidence = dict(below.evidence)
        skipped = evidence.pop(self.effect, None)
        if skipped is not None:
            assert skipped.below is not None, "invariant: a handler marker is never the bottom"
            outer = skipped.below.evidence.get(self.effect)
            if outer is not None:
                evidence[self.effect] = outer

    def twin(self, twins: dict[Marker, Marker]) -> Marker:
        return MaskMarker(self.effect)


class Suspended(NamedTuple):
    """Where a generator is suspended, and what the names outside of it mean."""

    code: CodeType
    offset: int
    names: Mapping[str, Any]


class Unwind(BaseException):
    """Thrown into the frames of a dropped resumption, so that their `finally` and `with` run.

    `thrown_into` is where the last of those frames was suspended.
    """

    thrown_into: tuple[Suspended, ...] = ()


class UnwindMarker(Marker):
    """Below a dropped segment that unwinds; holds what goes on when that is done.

    Another exit or exception out of a `finally` or `with` of the segment may replace the one that
    unwinds it, as in Python: it is `replaced` then, and what the segment gives goes on.
    """

    __slots__ = ("error", "may_be_replaced", "replaced", "unwind", "value")

    def __init__(
        self,
        unwind: Unwind,
        value: Any,
        error: BaseException | None,
        may_be_replaced: bool = True,
    ) -> None:
        self.unwind = unwind
        self.value = value
        self.error = error
        self.may_be_replaced = may_be_replaced
        self.replaced = False

    def twin(self, twins: dict[Marker, Marker]) -> Marker:
        made = UnwindMarker(self.unwind, self.value, self.error, self.may_be_replaced)
        made.replaced = self.replaced
        return made


_CONTEXTS: Final = 100
"""So far back contexts are followed; they may run in circles."""


def unwindings_around(error: BaseException) -> set[BaseException]:
    """The unwindings in progress in the frame that `error` has left.

    Python notes in `__context__` what a `finally`, `except` or `with` was handling when an
    exception left it.
    """
    found: set[BaseException] = set()
    seen = error.__context__
    for _ in range(_CONTEXTS):
        if seen is None:
            break
        if isinstance(seen, Unwind) and seen is not error:
            found.add(seen)
        seen = seen.__context__
    return found


def unwindings_in(log: Log | None) -> set[BaseException]:
    """The unwindings that were thrown into a frame with this log."""
    found: set[BaseException] = set()
    while log is not None:
        log, entry = log
        error = getattr(entry, "error", None)
        if isinstance(error, Unwind):
            found.add(error)
    return found


def replace_unwindings(unwindings: set[BaseException], mark: Marker) -> None:
    """A frame above `mark`, in which these unwindings were in progress, is left otherwise."""
    at: Marker | None = mark if unwindings else None
    while at is not None:
        if isinstance(at, UnwindMarker) and at.unwind in unwindings and at.may_be_replaced:
            at.replaced = True
        at = at.below


def is_unwound(mark: Marker) -> bool:
    """Whether an unwinding is in progress down to somewhere below `mark`."""
    at: Marker | None = mark
    while at is not None:
        if isinstance(at, UnwindMarker) and not at.replaced:
            return True
        at = at.below
    return False


def innermost_handler(mark: Marker) -> HandlerMarker | None:
    """The handler that a parallel `for` performed above `mark` meets first."""
    at: Marker | None = mark
    while at is not None and not isinstance(at, HandlerMarker):
        at = at.owner.below if isinstance(at, OutsideMarker) else at.below
    return at


def masked_effects(mark: Marker) -> tuple[type[Effect], ...]:
    """The effects masked between `mark` and the innermost handler, outermost mask first."""
    found: list[type[Effect]] = []
    at: Marker | None = mark
    while at is not None and not isinstance(at, HandlerMarker):
        if isinstance(at, MaskMarker):
            found.append(at.effect)
        at = at.owner.below if isinstance(at, OutsideMarker) else at.below
    return tuple(reversed(found))


def masks_in_scope(mark: Marker) -> list[type[Effect]]:
    """All effects that are masked for operations performed above `mark`."""
    found = list(masked_effects(mark))
    for handler in handlers_in_scope(mark):
        assert handler.below is not None, "invariant: a handler marker is never the bottom"
        found += masked_effects(handler.below)
    return found


def handlers_in_scope(mark: Marker) -> list[HandlerMarker]:
    """The handlers that see operations performed above `mark`, innermost first."""
    found = []
    handler = innermost_handler(mark)
    while handler is not None:
        found.append(handler)
        assert handler.below is not None, "invariant: a handler marker is never the bottom"
        handler = innermost_handler(handler.below)
    return found


def markers_down_to(mark: Marker, bottom: Marker) -> list[Marker]:
    """The markers from `mark` down to `bottom`, both included."""
    found = [mark]
    while found[-1] is not bottom:
        below = found[-1].below
        assert below is not None, "invariant: a segment ends at its handler"
        found.append(below)
    return found


class Segment:
    """A captured piece of the stack: from the frames on top down to the marker `owner`."""

    __slots__ = ("frames", "mark", "owner", "spares")

    def __init__(self, frames: Frames, mark: Marker, owner: HandlerMarker) -> None:
        self.frames = frames
        self.mark = mark
        self.owner = owner
        self.spares = Spares()

    def place_world(self, handler: Handler[Any, Any], frames: Frames, below: Marker) -> Marker:
        """Put a twin on top of `frames` and `below`, its handler replaced; gives its top."""
        if self.mark is not self.owner:
            return self.twin().place_back(handler, frames, below)
        marker = self.spares.take(below)
        if marker is None:
            marker = HandlerMarker(handler, self.owner.site)
            marker.watch = self.owner.watch
            marker.placed(frames, below)
        else:
            marker.handler = handler
            marker.frames = frames
        marker.spares = self.spares
        return marker

    def place_back(self, handler: Handler[Any, Any], frames: Frames, below: Marker) -> Marker:
        """Put the segment on top of `frames` and `below`, its handler replaced; gives its top."""
        owner = self.owner
        before = owner.below
        assert before is not None, "invariant: a handler marker is never the bottom"
        owner.handler = handler
        owner.frames = frames
        owner.below = below
        if before.evidence is not below.evidence or before.logging != below.logging:
            owner.relink(below)
            for mark in reversed(markers_down_to(self.mark, owner)[:-1]):
                assert mark.below is not None, "invariant: above the owner"
                mark.relink(mark.below)
        return self.mark

    def forget_evidence(self) -> None:
        """It only serves to make twins, which find evidence anew: break the cycles through it."""
        for mark in markers_down_to(self.mark, self.owner):
            if isinstance(mark, HandlerMarker):
                mark.kept()

    def place(self) -> SrcInfo:
        """The user's line at which the top frame is suspended, if it is still there."""
        frames = self.frames
        if isinstance(frames, tuple):
            return suspended_place(frames[0])
        if isinstance(frames, LoggedFrame) and frames.live:
            return suspended_place(frames.live[0])
        return UNKNOWN

    def site(self) -> Site | None:
        """The user's code in which the top frame is suspended, if it is still there."""
        frames = self.frames
        if isinstance(frames, tuple):
            return suspended_site(frames[0])
        if isinstance(frames, LoggedFrame) and frames.live:
            return suspended_site(frames.live[0])
        return None

    def has_running_clause(self) -> bool:
        """Whether a clause in it will go on and change the state of its handler."""
        mark: Marker | None = self.mark
        while mark is not self.owner and mark is not None:
            if isinstance(mark, OutsideMarker):
                return True
            mark = mark.below
        return False

    def twin(self) -> Segment:
        """A copy for another world: own markers and handler states, the same frames."""
        below, owner = self.owner.below, self.owner
        assert below is not None, "invariant: a handler marker is never the bottom"
        twins: dict[Marker, Marker] = {}
        for mark in reversed(markers_down_to(self.mark, self.owner)):
            twins[mark] = below = mark.twin(twins).placed(mark.frames, below)
        owner_twin = twins[owner]
        assert isinstance(owner_twin, HandlerMarker), "invariant: twins keep their class"
        return Segment(self.frames, twins[self.mark], owner_twin)
