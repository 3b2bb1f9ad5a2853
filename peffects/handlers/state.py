"""State: a value that is read and written.  `run_state` is sequential: it has no traverse clause.

Forking state into the iterations of a parallel `for` would lose updates; what only accumulates is
`accumulate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from peffects.machine.checking.never_performed import made_for_all
from peffects.machine.handling.handler import Handler
from peffects.machine.handling.operations import Eff, Effect, Operation

__all__ = ["Get", "Put", "State", "get", "put", "run_state"]

S = TypeVar("S")
R = TypeVar("R")


class State(Effect, Generic[S]):
    """A value of type S that is read and written."""

    @classmethod
    def get(cls) -> Eff[Self, S]:
        """The value of this instance."""
        return Get.at(cls)()  # type: ignore[return-value]

    @classmethod
    def put(cls, value: S) -> Eff[Self, None]:
        """Replace the value of this instance."""
        operation: Any = Put.at(cls)
        return operation(value)  # type: ignore[no-any-return]


class Get(Operation[State[S], S]):
    """Read the state."""


class Put(Operation[State[S], None]):
    """Replace the state."""

    value: S


_GET: Any = made_for_all(Get())


def get() -> Eff[State[S], S]:
    """The state."""
    return _GET  # type: ignore[no-any-return]


if TYPE_CHECKING:

    def put(value: S) -> Eff[State[S], None]:
        """Replace the state."""
else:
    put = Put  # an operation for each call anyway: no function in between


class run_state(Handler[State[S]]):
    """State that starts with a value; the answer is (state at the end, result)."""

    def __init__(self, s: S, at: type[State[Any]] = State) -> None:
        self.s = s

    def ret(self, x: R, /) -> tuple[S, R]:
        """The state comes first."""
        return self.s, x

    def get(self, op: Get[S]) -> S:
        """Read."""
        return self.s

    def put(self, op: Put[S]) -> None:
        """Rebind."""
        self.s = op.value
