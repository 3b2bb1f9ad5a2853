"""`catch`, the scoped operation of `Throw`, and `raise_errors`, which makes errors exceptions.

`attempt(c)` puts a handler around `c`: what the handlers around it saw stays.  `catch(c, on_error)`
is an operation of the `Throw` handler around it: when `c` throws, the handlers between are put back
to where they were when `c` began.  So a state inside the `Throw` handler is rolled back, and one
outside keeps what the failed scope did.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Never, TypeVar

from peffects.handlers.throw import Ok, Throw, collect_errors, weak_exceptions
from peffects.machine.handling.handler import handle
from peffects.machine.handling.operations import Eff, effectful, is_computation
from peffects.machine.running.scopes import restore_states, states_up_to
from peffects.source import SrcInfo

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    B = DefaultTypeVar("B", default=Never)
    C = DefaultTypeVar("C", default=Never)

__all__ = ["Thrown", "catch", "raise_errors"]

MYPY: Final = False

E = TypeVar("E")
X = TypeVar("X")
R = TypeVar("R")
R2 = TypeVar("R2")


class Thrown(Exception):
    """What `raise_errors` raises for a thrown value that is no exception itself."""

    def __init__(self, error: object) -> None:
        super().__init__(error)
        self.error = error


if MYPY:

    def catch(
        c: Eff[E, R], on_error: Callable[[Any], Any], /, *, at: type[Throw[Any]] = Throw
    ) -> Eff[Any, Any]:
        """Run `c`; if it throws, put the handlers between back, and run `on_error(error)`."""

    def raise_errors(
        c: Eff[E, R],
        /,
        *,
        catch: tuple[type[BaseException], ...] = (),
        message: str = "errors were thrown",
        at: type[Throw[Any]] = Throw,
    ) -> Eff[Any, R]:
        """Run `c`, and raise what it threw as an `ExceptionGroup`."""

elif TYPE_CHECKING:

    def catch(
        c: Eff[Throw[X] | B, R],
        on_error: Callable[[X], Eff[C, R2]],
        /,
        *,
        at: type[Throw[Any]] = Throw,
    ) -> Eff[Throw[X] | B | C, R | R2]:
        """Run `c`; if it throws, put the handlers between back, and run `on_error(error)`."""

    def raise_errors(
        c: Eff[Throw[X] | B, R],
        /,
        *,
        catch: tuple[type[BaseException], ...] = (),
        message: str = "errors were thrown",
        at: type[Throw[Any]] = Throw,
    ) -> Eff[B, R]:
        """Run `c`, and raise what it threw as an `ExceptionGroup`."""

else:

    def catch(c, on_error, /, *, at=Throw):
        """Run `c`; if it throws, put the handlers between back, and run `on_error(error)`.

        Needs a handler of `Throw` around it: "between" are the handlers inside that one.
        `on_error` gives a computation or a value.
        """
        frame = sys._getframe(1)
        place = SrcInfo(frame.f_code.co_filename, frame.f_lineno, 0, frame.f_code.co_name)
        return _catching(c, on_error, at, place)

    @effectful
    def raise_errors(c, /, *, catch=(), message="errors were thrown", at=Throw):
        """Run `c`, and raise what it threw as an `ExceptionGroup`, all errors of a loop together.

        A thrown value that is no exception is raised as `Thrown(value)`.  Python exceptions of the
        classes in `catch` join the group; others pass as they are.
        """
        answer = yield from handle(collect_errors(catch, at=at), c)
        if isinstance(answer, Ok):
            return answer.value
        raise BaseExceptionGroup(message, [_exception(error) for error in answer.error])


@effectful
def _catching(
    c: Any, on_error: Callable[[Any], Any], at: type[Throw[Any]], place: SrcInfo
) -> Eff[Any, Any]:
    before = yield from states_up_to(at, "catch", place)
    answer = yield from handle(weak_exceptions(at=at), c)
    if isinstance(answer, Ok):
        return answer.value
    yield from restore_states(at, "catch", place, before)
    instead = on_error(answer.error)
    return (yield from instead) if is_computation(instead) else instead


def _exception(error: object) -> BaseException:
    return error if isinstance(error, BaseException) else Thrown(error)
