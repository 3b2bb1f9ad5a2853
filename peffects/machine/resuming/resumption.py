"""`k`: the rest of a computation up to a handler, as a value that a clause resumes.

`k(value)`, `k.throw(error)` and `k.drop()` describe computations; performing them is the machine's
work.  A resumption holds a segment of the stack and a state: fresh, used or dropped.  A one-shot
resumption gives its segment away; one of a `@multi` clause gives a twin each time.  Layer 1, above
`frames.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from peffects.errors import (
    PeffectsError,
    ResumedConcurrently,
    ResumptionAlreadyUsed,
    ResumptionExpired,
)
from peffects.machine.checking.locations import Site, place_of_site
from peffects.machine.checking.never_performed import NEWEST, late, made
from peffects.machine.handling.operations import (
    DROP,
    NONE,
    RESUME,
    Computation,
    Eff,
    Operation,
    operation_name,
)
from peffects.machine.resuming.frames import Segment
from peffects.source import SrcInfo

if TYPE_CHECKING:
    from peffects.machine.handling.handler import Handler

__all__ = ["Resumption"]

V = TypeVar("V", contravariant=True)
R = TypeVar("R", covariant=True)


class Run(Protocol):
    """What a resumption knows of the machine that runs it: whether that is over, and who waits."""

    finished: bool
    live: dict[Resumption[Any, Any], None] | None


class Resumption(Generic[V, R]):
    """The rest of a computation.  `yield from k(value)` runs it and gives its handler's answer."""

    __slots__ = (
        "_dropped",
        "_final",
        "_fresh",
        "_handler",
        "_item",
        "_machine",
        "_multi",
        "_segment",
        "_token",
        "_used_at",
        "_used_by",
    )

    def __init__(
        self,
        segment: Segment,
        handler: Handler[Any, Any],
        machine: Run,
        item: Computation,
        multi: bool,
    ) -> None:
        self._segment: Segment | None = segment
        self._handler = handler
        self._machine = machine
        self._item = item
        self._multi = multi
        self._token = [None]
        self._fresh = True
        self._dropped = False
        self._final = False
        self._used_at: Site | None = None
        self._used_by: tuple[int, Run] | None = None

    @property
    def _what(self) -> str:
        item = self._item
        name = operation_name(item) if isinstance(item, Operation) else "the parallel for"
        return f"`{name}` in handler `{type(self._handler).__name__}`"

    def __call__(self, value: V) -> Eff[Any, R]:
        """Resume with `value`, under a fork of the clause's handler."""
        return made(Resume(self, value, None))  # type: ignore[arg-type]

    def throw(self, error: BaseException) -> Eff[Any, R]:
        """Resume by raising `error` where the operation was performed."""
        return made(Resume(self, None, error))  # type: ignore[arg-type]

    def drop(self) -> Eff[Any, None]:
        """Unwind what is held now: `finally` and `with` of its frames run."""
        return made(Drop(self))  # type: ignore[arg-type]

    def _take(self, user: Callable[[], SrcInfo], by: Run) -> Segment:
        """Give the segment to resume, or say why there is none.

        `user` is the place of the use, `by` the machine that resumes.
        """
        if self._machine.finished:
            raise ResumptionExpired(
                f"the resumption of {self._what} is used after the iteration or `run` that it"
                " belongs to has ended.",
                at=user(),
                fix="Resume it inside the same iteration or `run`.",
            )
        if not self._multi or self._dropped:
            try:
                self._token.pop()  # an atomic step: of two threads one gets it
            except IndexError:
                raise self._spent(user()) from None
            self._used_by = get_ident(), by
        self._fresh = False
        segment = self._segment
        assert segment is not None, "invariant: only a taken token empties a resumption"
        if not segment.mark.logging:
            self._segment = None
        return segment

    def _spent(self, user: SrcInfo) -> PeffectsError:
        if self._used_by is not None:
            thread, machine = self._used_by
            if thread != get_ident() and not machine.finished:
                return ResumedConcurrently(
                    f"the resumption of {self._what} is resumed by two threads at once.",
                    at=user,
                    fix="Let one of them resume it, or mark the clause with `@multi`, so that each"
                    " runs a world of its own.",
                )
        if self._dropped:
            return ResumptionExpired(
                f"the resumption of {self._what} is used after it was dropped: its frames are"
                " unwound.",
                at=user,
                fix="Keep `k` where the clause's answer or a field holds it, or resume it first.",
            )
        return ResumptionAlreadyUsed(
            f"the resumption of {self._what} is one-shot and is used a second time.",
            at=user,
            notes=(f"first used at {place_of_site(self._used_at)}",) if self._used_at else (),
            fix="Mark the clause with `@multi` if it is to resume several times.",
        )

    def _mark_dropped(self) -> None:
        self._dropped = True
        self._token.clear()

    def __deepcopy__(self, memo: object) -> Resumption[V, R]:
        """For a world of its own: what can run again may be resumed by each copy as by this one.

        Where it cannot, there are no further worlds, and the copy is this one.
        """
        segment = self._segment
        if segment is None or not segment.mark.logging:
            return self
        copied: Resumption[V, R] = self._twin(self._handler)
        copied._fresh, copied._dropped, copied._final = self._fresh, self._dropped, self._final
        copied._used_at, copied._used_by = self._used_at, self._used_by
        copied._token = self._token.copy()
        return copied

    def _twin(self, handler: Handler[Any, Any]) -> Resumption[V, R]:
        """The resumption as a rebuilt clause gets it: fresh again, its segment as it was."""
        segment = self._segment
        assert segment is not None, "invariant: logged resumptions keep their segment"
        return Resumption(segment, handler, self._machine, self._item, self._multi)

    def __repr__(self) -> str:
        state = "fresh" if self._fresh else "dropped" if self._dropped else "used"
        return f"<resumption of {self._what}, {state}>"


class Resume(Computation):
    """`k(value)` or `k.throw(error)`, not performed yet."""

    __slots__ = ("error", "resumption", "value")
    _tag = RESUME

    def __init__(
        self, resumption: Resumption[Any, Any], value: Any, error: BaseException | None
    ) -> None:
        self.resumption = resumption
        self.value = value
        self.error = error

    if not TYPE_CHECKING:

        def __iter__(self):
            # As in `Computation`, with the tag known: worlds are resumed often.
            if NEWEST.last is self:
                NEWEST.last = None
            elif NEWEST.settling or NEWEST.armed:
                late(self)
            answer = yield RESUME, self
            if answer is None:
                self._misused("a loop, an unpacking or a call iterates over")
            return None if answer is NONE else answer

    def _name(self) -> str:
        return "k(...)"

    def __repr__(self) -> str:
        given = self.value if self.error is None else self.error
        return f"<k({given!r}) of {self.resumption._what}, not performed>"


class Drop(Computation):
    """`k.drop()`, not performed yet."""

    __slots__ = ("resumption",)
    _tag = DROP

    def __init__(self, resumption: Resumption[Any, Any]) -> None:
        self.resumption = resumption

    def _name(self) -> str:
        return "k.drop()"

    def __repr__(self) -> str:
        return f"<k.drop() of {self.resumption._what}, not performed>"
