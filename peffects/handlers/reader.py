"""Reader: a value that is asked for and never changes; runs around a parallel `for` as it is.

`local(change, c)` runs `c` with another value; after it the old one holds again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, Never, Self, TypeVar

from peffects.machine.checking.never_performed import made_for_all
from peffects.machine.handling.handler import BasicHandler, handle
from peffects.machine.handling.operations import Eff, Effect, Operation, effectful

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    B = DefaultTypeVar("B", default=Never)

__all__ = ["Ask", "Reader", "ask", "local", "reader"]

MYPY: Final = False

E = TypeVar("E")
R = TypeVar("R")
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


_ASK: Any = made_for_all(Ask())


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


if MYPY:

    def local(
        change: Callable[[T], T], c: Eff[E, R], /, *, at: type[Reader[Any]] = Reader
    ) -> Eff[Any, R]:
        """Run `c` with the value `change(value)`."""
elif TYPE_CHECKING:

    def local(
        change: Callable[[T], T], c: Eff[Reader[T] | B, R], /, *, at: type[Reader[Any]] = Reader
    ) -> Eff[Reader[T] | B, R]:
        """Run `c` with the value `change(value)`."""
else:

    @effectful
    def local(change, c, /, *, at=Reader):
        """Run `c` with the value `change(value)`; the old value holds again after it."""
        value = yield from at.ask()
        return (yield from handle(reader(change(value), at=at), c))
