"""Reader: a value that is asked for and never changes; runs around a parallel `for` as it is."""

from __future__ import annotations

from typing import Any, Generic, Self, TypeVar

from peffects.effects import Eff, Effect, Operation
from peffects.handling import BasicHandler

__all__ = ["Ask", "Reader", "ask", "reader"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Reader(Effect, Generic[T_co]):
    """A value of type T can be asked for."""

    @classmethod
    def ask(cls) -> Eff[Self, T_co]:
        """The value of this instance."""
        return Ask.at(cls)()  # type: ignore[return-value]


class Ask(Operation[Reader[T], T]):
    """Ask for the value."""


_ASK: Any = Ask()


def ask() -> Eff[Reader[T], T]:
    """The value that the handler holds."""
    return _ASK  # type: ignore[no-any-return]


class reader(BasicHandler[Reader[T]]):
    """Answers `ask()` with a value."""

    def __init__(self, value: T, at: type[Reader[Any]] = Reader) -> None:
        self.value = value

    def ask(self, op: Ask[T]) -> T:
        """The value."""
        return self.value
