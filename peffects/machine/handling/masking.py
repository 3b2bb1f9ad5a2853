"""`mask`: a computation whose operations of one effect skip the innermost handler of that effect.

A handler that runs a computation of somebody else under a handler of its own, for its own use,
masks the effect in that computation, so that the operations of others reach the handler that they
were meant for.  Layer 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from peffects.errors import NotAComputationError
from peffects.machine.checking.never_performed import made, performed
from peffects.machine.handling.operations import HANDLE, Computation, Eff, Effect, check_computation
from peffects.source import caller

__all__ = ["mask"]

MYPY: Final = False

E = TypeVar("E")
R = TypeVar("R")
A = TypeVar("A", bound=Effect)


class Masked(Computation):
    """A computation in which the innermost handler of each of `effects` is skipped, in turn."""

    __slots__ = ("computation", "effects")
    _tag = HANDLE

    def __init__(self, effects: tuple[type[Effect], ...], computation: Any) -> None:
        self.effects = effects
        self.computation = computation

    def _name(self) -> str:
        return f"mask({', '.join(effect.__name__ for effect in self.effects)}, ...)"

    def __repr__(self) -> str:
        names = ", ".join(effect.__name__ for effect in self.effects)
        return f"<mask({names}, {self.computation!r}), not performed>"


if MYPY:

    def mask(effect: type[Effect], c: Eff[E, R], /) -> Eff[Any, R]:
        """Run `c`; its operations of `effect` skip the innermost handler of it."""
elif TYPE_CHECKING:

    def mask(effect: type[A], c: Eff[E, R], /) -> Eff[A | E, R]:
        """Run `c`; its operations of `effect` skip the innermost handler of it."""
else:

    def mask(effect, c, /):
        """Run `c`; its operations of `effect` skip the innermost handler of it.

        Masking twice skips two handlers.  Around a parallel `for` each iteration is masked.
        """
        if not (isinstance(effect, type) and issubclass(effect, Effect)):
            raise NotAComputationError(
                f"`mask` takes an effect first, and was given {effect!r}.",
                at=caller(),
                fix="Name the effect: `mask(State, c)`.",
            )
        check_computation(c, "mask")
        if isinstance(c, Computation):
            performed(c)
        return made(Masked((effect,), c))
