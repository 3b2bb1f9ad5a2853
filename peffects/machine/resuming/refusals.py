"""What the machine says when it refuses something: the errors with their texts, and `may_catch`.

Kept apart from `running/machine.py`, so that the machine reads as what it does.  Layer 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from peffects.errors import (
    AwaitError,
    MissingYieldFromError,
    NotReplayable,
    PeffectsError,
    ResourceNotReplayable,
    ResumedConcurrently,
    TraverseError,
    UnhandledEffectError,
    UnresumedResumption,
)
from peffects.machine.checking.locations import place_of_error, place_of_site, suspended_place
from peffects.machine.checking.never_performed import performed
from peffects.machine.handling.awaiting import Await
from peffects.machine.handling.operations import (
    Computation,
    Operation,
    is_computation,
    operation_name,
)
from peffects.machine.resuming.frames import (
    HandlerMarker,
    Marker,
    Unwind,
    handlers_in_scope,
    masks_in_scope,
)
from peffects.source import SrcInfo, of_code

if TYPE_CHECKING:
    from peffects.machine.resuming.resumption import Resumption

__all__: list[str] = []


def unhandled(
    op: Operation[Any, Any],
    owner: HandlerMarker | None,
    mark: Marker,
    place: SrcInfo,
    forgotten: Resumption[Any, Any] | None = None,
) -> UnhandledEffectError | AwaitError:
    """No handler in scope for `op`, or (`owner`) one that lacks its clause.

    `forgotten` is the resumption whose frames unwind at the end of the run, if it is that far.
    """
    effect, name = op._effect, operation_name(op)
    if isinstance(op, Await):
        return AwaitError(
            "`await_` was performed under `run`, which cannot wait.",
            at=place,
            fix="Inside a coroutine write `await run_async(program())`, outside"
            " `asyncio.run(run_async(program()))`; in a test handle `Async`.",
        )
    if owner is not None:
        handler = type(owner.handler).__name__
        return UnhandledEffectError(
            f"handler `{handler}` of `{effect.__name__}` has no clause `{op._clause}` for the"
            f" operation `{name}`, which was defined after it.",
            at=place,
            notes=(f"handler installed at {place_of_site(owner.site).short()}",),
            fix=f"Add `def {op._clause}(self, op)` to the handler.",
        )
    if forgotten is not None:
        return UnhandledEffectError(
            f"`{name}` is performed in a `finally` or `with` at the end of the `run` (or of the"
            f" iteration): nobody resumed {forgotten._what}, so its frames are unwound there, and"
            f" the handler of `{effect.__name__}` around them has ended.",
            at=place,
            fix="Resume it, or unwind it while the handlers are there: `yield from k.drop()`; or"
            " perform nothing in that `finally`.",
        )
    scope = [
        f"in scope: `{type(m.handler).__name__}`, handles `{_name(m)}`, installed at"
        f" {place_of_site(m.site).short()}"
        for m in handlers_in_scope(mark)
    ]
    if effect in masks_in_scope(mark):
        scope.append(f"masked: the innermost handler of `{effect.__name__}` is skipped")
    return UnhandledEffectError(
        f"no handler handles the effect `{effect.__name__}` of the operation `{name}`.",
        at=place,
        notes=scope or ("no handler is in scope",),
        fix=_handle_it(op, mark),
    )


def _handle_it(op: Operation[Any, Any], mark: Marker) -> str:
    effect = op._effect
    for marker in handlers_in_scope(mark):
        handled = marker.handler._handled
        if any(issubclass(h, effect) or issubclass(effect, h) for h in handled if h is not effect):
            return (
                f"A handler handles one effect class exactly: write"
                f" `{type(marker.handler).__name__}(..., at={effect.__name__})` for this one."
            )
    return f"Put the computation under a handler of `{effect.__name__}`: `handle(..., program())`."


def _name(marker: HandlerMarker) -> str:
    return "`, `".join(effect.__name__ for effect in marker.handler._handled)


def no_traverse(owner: HandlerMarker, place: SrcInfo) -> TraverseError:
    """A sequential handler stands around the parallel `for` at `place`."""
    return TraverseError(
        f"handler `{type(owner.handler).__name__}` has no traverse clause, so it cannot run around"
        " a parallel for.",
        at=place,
        notes=(f"handler installed at {place_of_site(owner.site).short()}",),
        fix="Do one of: handle the effect inside the loop body; use `accumulate` if the updates"
        " only accumulate; write the loop sequentially: `for i in n: yield from body(i)`.",
    )


def refuse_bare(gen: Any, yielded: object) -> NoReturn:
    """A generator yielded something by itself: `yield` stands where `yield from` is due."""
    if is_computation(yielded):
        if isinstance(yielded, Computation):
            performed(yielded)
        what = f"`yield` instead of `yield from`: {yielded!r} was yielded, not performed."
    else:
        what = f"an effectful function yielded {yielded!r}, which is no computation."
    raise MissingYieldFromError(
        what,
        at=suspended_place(gen),
        fix="Wrong: `x = yield f()`.  Right: `x = yield from f()`.",
    )


def never_performed(value: Computation, handler: str, item: object) -> MissingYieldFromError:
    """A clause ended with a computation as its answer."""
    performed(value)
    clause = item._clause if isinstance(item, Operation) else "traverse"
    return MissingYieldFromError(
        f"missing `yield from`: clause `{clause}` of `{handler}` returned {value!r}, which was"
        " never performed.",
        fix="Write `return (yield from k(...))`.",
    )


def unlogged(what: str, place: SrcInfo) -> NotReplayable:
    """A computation suspended outside every `@multi` handler is resumed inside one."""
    return NotReplayable(
        f"the resumption of {what} was captured outside every handler with a `@multi` clause, and"
        " is resumed inside one, which could not run it again for a further world.",
        at=place,
        fix="Resume it outside that handler, or start it inside.",
    )


def not_replayable_resource(error: BaseException) -> ResourceNotReplayable:
    """A frame that is rebuilt could not enter its `with` again."""
    return ResourceNotReplayable(
        f"a frame that runs again for a further world cannot enter its `with` again: {error!r}.",
        at=place_of_error(error),
        fix="Make the resource inside, so that each world has its own, or share one:"
        " `file = yield from shared(lambda: open(path))`.",
    )


def running_elsewhere(gen: Any) -> ResumedConcurrently:
    """A generator is performed while another thread, or a frame below, runs it."""
    return ResumedConcurrently(
        f"two threads run one computation at once: the generator `{gen.__name__}` is running.",
        at=of_code(gen.gi_code),
        fix="Decorate its function with @effectful, and pass a call of it to each of them.",
    )


def unresumed(k: Resumption[Any, Any], place: SrcInfo) -> UnresumedResumption:
    """A clause ended, and nobody will resume `k`, whose frames have something to unwind."""
    return UnresumedResumption(
        f"nobody resumed {k._what}, and a `finally` or `with` is unwound with its frames.",
        at=place,
        fix="Resume it: `return (yield from k(value))`; where it is not to go on, mark the clause"
        " with `@final` or say `yield from k.drop()`.",
    )


def may_catch(error: BaseException) -> bool:
    """Whether a handler that takes in exceptions may have this one: not our own, not unwindings."""
    return not isinstance(error, PeffectsError | Unwind)
