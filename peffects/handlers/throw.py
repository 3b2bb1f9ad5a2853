"""Throw: ending early with an error; the handlers answer `Ok` or `Err`.

`weak_exceptions` answers the first error.  "Weak": a throw in an iteration of a parallel `for` ends
that iteration only; all others run, then the first error in index order ends the rest.
`collect_errors` answers all errors of a loop, `combine_errors` combines them.  `attempt` inside the
body gives results and errors side by side.  For `catch` and Python exceptions see `catching.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Never, Self, TypeAlias, TypeVar

from peffects.handlers.traversal import foreign_answer
from peffects.machine.handling.clauses import final
from peffects.machine.handling.handler import Handler, ParHandler, handle
from peffects.machine.handling.operations import Eff, Effect, Operation
from peffects.source import SrcInfo

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    from peffects.machine.resuming.parallel_for import Loop
    from peffects.machine.resuming.resumption import Resumption

    B = DefaultTypeVar("B", default=Never)

__all__ = [
    "Err",
    "Ok",
    "Result",
    "Throw",
    "ThrowOp",
    "attempt",
    "collect_errors",
    "combine_errors",
    "throw",
    "weak_exceptions",
]

MYPY: Final = False

E = TypeVar("E")
X = TypeVar("X")
Y = TypeVar("Y")
X_co = TypeVar("X_co", covariant=True)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Ok(Generic[R_co]):
    """The computation returned `value`."""

    value: R_co


@dataclass(frozen=True, slots=True)
class Err(Generic[X_co]):
    """The computation ended early with `error`."""

    error: X_co


Result: TypeAlias = "Ok[R] | Err[X]"
"""What `attempt` gives: a value or an error."""


class Throw(Effect, Generic[X_co]):
    """The computation may end early with an error of type X."""

    @classmethod
    def throw(cls, error: X_co) -> Eff[Self, Never]:  # type: ignore[misc]  # written, never read
        """End early at the handler of this instance."""
        operation: Any = ThrowOp.at(cls)
        return operation(error)  # type: ignore[no-any-return]


class ThrowOp(Operation[Throw[X], Never]):
    """End early with an error."""

    error: X


def throw(error: X) -> Eff[Throw[X], Never]:
    """End early: the handler's answer is `Err(error)`."""
    return ThrowOp(error)


class _EndsWithErr(Generic[X]):
    """The clauses of handlers whose answer is `Ok(result)` or `Err(error)`."""

    def ret(self, x: R, /) -> Ok[R] | Err[X]:
        """The computation returned."""
        return Ok(x)

    @final
    def throw(self, op: ThrowOp[X]) -> Err[X]:
        """The computation ends."""
        return Err(op.error)

    def _raised(self, error: BaseException) -> Err[BaseException]:
        return Err(error)


def _values(handler: Handler[Any, Any], answers: Sequence[Any], place: SrcInfo) -> list[Any]:
    try:
        return [answer.value for answer in answers]
    except AttributeError:
        wrong = next(answer for answer in answers if not isinstance(answer, Ok))
        raise foreign_answer(handler, wrong, place) from None


class weak_exceptions(_EndsWithErr[X], ParHandler[Throw[X]]):
    """Answers `Ok(result)` or `Err(error)`: of a loop's errors the first in index order.

    Python exceptions pass, except those of the classes in `catch`, which become `Err(exception)`.
    """

    def __init__(
        self, catch: tuple[type[BaseException], ...] = (), at: type[Throw[Any]] = Throw
    ) -> None:
        self._catches = catch

    if MYPY:

        def handle(self, c: Eff[E, R], /) -> Eff[Any, Any]:
            """Run `c`; the answer is `Ok` or `Err`."""
    elif TYPE_CHECKING:
        _row: None  # type: ignore[assignment]  # so that `handle` below gives the answer's type

        def handle(self, c: Eff[Throw[Y] | B, R], /) -> Eff[B, Ok[R] | Err[Y]]:
            """Run `c`; the answer is `Ok` or `Err`."""

        def _alone(self, c: Eff[Throw[Y], R], /) -> Eff[Never, Ok[R] | Err[Y]]: ...

    def traverse(self, n: Any, loop: Loop[Any], k: Resumption[Any, Any], /) -> Eff[Any, Any]:
        """Every iteration runs to its end or its own error; the first error ends the rest."""
        answers = yield from loop()
        for answer in answers:
            if isinstance(answer, Err):
                return answer
        return (yield from k(_values(self, answers, loop.place)))


class combine_errors(_EndsWithErr[X], ParHandler[Throw[X]]):
    """Answers `Ok(result)` or `Err(error)`: the errors of a loop are combined in index order.

    `combine` is associative.  Python exceptions of the classes in `catch` are errors too.
    """

    def __init__(
        self,
        combine: Callable[[X, X], X],
        catch: tuple[type[BaseException], ...] = (),
        at: type[Throw[Any]] = Throw,
    ) -> None:
        self.combine = combine
        self._catches = catch

    if MYPY:

        def handle(self, c: Eff[E, R], /) -> Eff[Any, Any]:
            """Run `c`; the answer is `Ok` or `Err`."""
    elif TYPE_CHECKING:

        def handle(self, c: Eff[Throw[X] | B, R], /) -> Eff[B, Ok[R] | Err[X]]:
            """Run `c`; the answer is `Ok` or `Err`."""

    def traverse(self, n: Any, loop: Loop[Any], k: Resumption[Any, Any], /) -> Eff[Any, Any]:
        """Every iteration runs to its end or its own error; errors end the rest, combined."""
        answers = yield from loop()
        errors = [answer.error for answer in answers if isinstance(answer, Err)]
        if errors:
            return Err(functools.reduce(self.combine, errors))
        return (yield from k(_values(self, answers, loop.place)))


class collect_errors(ParHandler[Throw[X]]):
    """Answers `Ok(result)` or `Err(errors)`: the list of all errors of a loop, in index order.

    Python exceptions of the classes in `catch` are errors too.
    """

    def __init__(
        self, catch: tuple[type[BaseException], ...] = (), at: type[Throw[Any]] = Throw
    ) -> None:
        self._catches = catch

    if MYPY:

        def handle(self, c: Eff[E, R], /) -> Eff[Any, Any]:
            """Run `c`; the answer is `Ok` or `Err`."""
    elif TYPE_CHECKING:
        _row: None  # type: ignore[assignment]  # so that `handle` below gives the answer's type

        def handle(self, c: Eff[Throw[Y] | B, R], /) -> Eff[B, Ok[R] | Err[list[Y]]]:
            """Run `c`; the answer is `Ok` or `Err`."""

        def _alone(self, c: Eff[Throw[Y], R], /) -> Eff[Never, Ok[R] | Err[list[Y]]]: ...

    def ret(self, x: R, /) -> Ok[R] | Err[list[X]]:
        """The computation returned."""
        return Ok(x)

    @final
    def throw(self, op: ThrowOp[X]) -> Err[list[X]]:
        """The computation ends, with one error."""
        return Err([op.error])

    def _raised(self, error: BaseException) -> Err[list[BaseException]]:
        return Err([error])

    def traverse(self, n: Any, loop: Loop[Any], k: Resumption[Any, Any], /) -> Eff[Any, Any]:
        """Every iteration runs to its end or its own error; errors end the rest, all of them."""
        answers = yield from loop()
        errors = [error for answer in answers if isinstance(answer, Err) for error in answer.error]
        if errors:
            return Err(errors)
        return (yield from k(_values(self, answers, loop.place)))


if MYPY:

    def attempt(
        c: Eff[E, R], /, *, catch: tuple[type[BaseException], ...] = ()
    ) -> Eff[Any, Ok[R] | Err[Any]]:
        """Run `c`; gives `Ok(result)` or `Err(error)`."""
elif TYPE_CHECKING:

    def attempt(
        c: Eff[Throw[X] | B, R], /, *, catch: tuple[type[BaseException], ...] = ()
    ) -> Eff[B, Ok[R] | Err[X]]:
        """Run `c`; gives `Ok(result)` or `Err(error)`."""
else:

    def attempt(c, /, *, catch=()):
        """Run `c`; gives `Ok(result)` or `Err(error)`.  `catch` takes in Python exceptions."""
        return handle(weak_exceptions(catch), c)
