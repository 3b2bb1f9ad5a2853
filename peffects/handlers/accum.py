"""Accum: values that are combined by a monoid.  Runs around a parallel `for`.

Each iteration accumulates into its own `empty`; the parts are combined in index order, so `combine`
has to be associative and need not be commutative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from peffects.handlers.traversal import pairs_of
from peffects.machine.handling.handler import ParHandler
from peffects.machine.handling.operations import Eff, Effect, Operation
from peffects.parallel.monoid import Monoid

if TYPE_CHECKING:
    from peffects.machine.resuming.parallel_for import Loop
    from peffects.machine.resuming.resumption import Resumption

__all__ = ["Accum", "AccumOp", "accum", "accumulate"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")


class Accum(Effect, Generic[T_co]):
    """Values of type T are accumulated; nobody reads them before the handler ends."""

    @classmethod
    def accum(cls, value: T_co) -> Eff[Self, None]:  # type: ignore[misc]  # written, never read
        """Accumulate into this instance."""
        operation: Any = AccumOp.at(cls)
        return operation(value)  # type: ignore[no-any-return]


class AccumOp(Operation[Accum[T], None]):
    """Combine the value into what is accumulated."""

    value: T


def accum(value: T) -> Eff[Accum[T], None]:
    """Combine `value` into what is accumulated."""
    return AccumOp(value)


class accumulate(ParHandler[Accum[T]]):
    """Accumulates with a monoid: `accumulate("", str.__add__)` or `accumulate(ADD)`.

    The answer is (what was accumulated, result).
    """

    if TYPE_CHECKING:

        @overload
        def __init__(
            self, empty: T, combine: Callable[[T, T], T], at: type[Accum[Any]] = Accum
        ) -> None: ...
        @overload
        def __init__(self, empty: Monoid[T], *, at: type[Accum[Any]] = Accum) -> None: ...

    def __init__(self, empty: Any, combine: Any = None, at: type[Accum[Any]] = Accum) -> None:
        if combine is None:
            empty, combine = empty.empty, empty.combine
        self.empty: T = empty
        self.combine: Callable[[T, T], T] = combine
        self.total: T = empty

    def ret(self, x: R, /) -> tuple[T, R]:
        """What was accumulated comes first."""
        return self.total, x

    def accum(self, op: AccumOp[T]) -> None:
        """Combine one value."""
        self.total = self.combine(self.total, op.value)

    def traverse(self, n: Any, loop: Loop[Any], k: Resumption[Any, Any], /) -> Eff[Any, Any]:
        """Each iteration starts empty; the parts are combined in index order."""
        answers = yield from loop(lambda i: self._with(total=self.empty))
        parts, values = pairs_of(self, answers, loop.place)
        total = self.total
        for part in parts:
            total = self.combine(total, part)
        self.total = total
        return (yield from k(values))
