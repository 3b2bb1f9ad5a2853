"""What scoped operations need of the machine: states of handlers, kept and put back.

The scope of `catch(c, on_error)` runs in the middle of a computation.  When it fails, the handlers
between it and the handler of its effect are put back to the states that they had at its start, as
if the failed scope had never run; handlers further out keep what they saw.  Layer 1; used by
`handlers/throw.py`.
"""

from __future__ import annotations

from typing import Any, Never, TypeAlias, cast

from peffects.errors import UnhandledEffectError
from peffects.machine.handling.handler import Handler
from peffects.machine.handling.operations import SCOPE, Computation, Eff, Effect
from peffects.machine.resuming.frames import HandlerMarker, Marker, handlers_in_scope
from peffects.source import SrcInfo

__all__ = ["States", "restore_states", "states_up_to"]

States: TypeAlias = tuple[Handler[Any, Any], ...]
"""Forks of handlers, innermost first."""


class HandlerScope(Computation):
    """Base of what looks at the handlers between here and the handler of `effect`."""

    __slots__ = ("effect", "operation", "place")
    _tag = SCOPE

    def __init__(self, effect: type[Effect], operation: str, place: SrcInfo) -> None:
        self.effect = effect
        self.operation = operation
        self.place = place

    def between(self, mark: Marker) -> list[HandlerMarker]:
        """The handlers inside the one of the effect."""
        inside: list[HandlerMarker] = []
        owner = mark.evidence.get(self.effect)
        for marker in handlers_in_scope(mark):
            if marker is owner:
                return inside
            inside.append(marker)
        effect, operation = self.effect.__name__, self.operation
        raise UnhandledEffectError(
            f"no handler handles the effect `{effect}` of the scoped operation `{operation}`.",
            at=self.place,
            fix=f"Put the computation under a handler of `{effect}`: `handle(..., program())`.",
        )

    def act(self, mark: Marker) -> object:
        """What the machine does for it; the result is the answer."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{self.operation} of {self.effect.__name__}, not performed>"


class KeepStates(HandlerScope):
    """Answers the states of the handlers."""

    __slots__ = ()

    def act(self, mark: Marker) -> object:
        """Fork them."""
        return tuple(marker.handler._fork() for marker in self.between(mark))


class RestoreStates(HandlerScope):
    """Puts the handlers back to states that were kept at the same place."""

    __slots__ = ("states",)

    def __init__(
        self, effect: type[Effect], operation: str, place: SrcInfo, states: States
    ) -> None:
        super().__init__(effect, operation, place)
        self.states = states

    def act(self, mark: Marker) -> object:
        """Install forks of them."""
        for marker, state in zip(self.between(mark), self.states, strict=True):
            marker.handler = state._fork()
        return None


def states_up_to(effect: type[Effect], operation: str, place: SrcInfo) -> Eff[Never, States]:
    """The states of the handlers between here and the handler of `effect`.

    `operation` and `place` are the scoped operation and the user's line of it, for messages.
    """
    return cast("Eff[Never, States]", KeepStates(effect, operation, place))


def restore_states(
    effect: type[Effect], operation: str, place: SrcInfo, states: States
) -> Eff[Never, None]:
    """Put those handlers back to `states`, which were kept at the same place."""
    return cast("Eff[Never, None]", RestoreStates(effect, operation, place, states))
