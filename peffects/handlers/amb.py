"""Amb: choosing among options and failing; `all_worlds` follows every choice.

The answer lists the results of all worlds, the first choice varying slowest.  Around a parallel
`for` each iteration runs once for each of its own choices, the rest for each combination of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Never, Self, TypeVar

from peffects.clauses import final, multi
from peffects.effects import Eff, Effect, Operation
from peffects.handling import ParHandler

if TYPE_CHECKING:
    from peffects.loops import Loop
    from peffects.resumption import Resumption

__all__ = ["Amb", "AmbOp", "Fail", "all_worlds", "amb", "fail"]

T = TypeVar("T")
R = TypeVar("R")


class Amb(Effect):
    """The computation chooses, and may fail."""

    @classmethod
    def amb(cls, options: Iterable[T]) -> Eff[Self, T]:
        """One of the options, at this instance."""
        return AmbOp.at(cls)(tuple(options))  # type: ignore[return-value]

    @classmethod
    def fail(cls) -> Eff[Self, Never]:
        """This world of this instance has no result."""
        return Fail.at(cls)()  # type: ignore[return-value]


class AmbOp(Operation[Amb, Any]):
    """Choose one of the options."""

    options: tuple[Any, ...]


class Fail(Operation[Amb, Never]):
    """This world has no result."""


def amb(options: Iterable[T]) -> Eff[Amb, T]:
    """One of the options: the rest runs once for each."""
    return AmbOp(tuple(options))


def fail() -> Eff[Amb, Never]:
    """End this world without a result."""
    return Fail()


class all_worlds(ParHandler[Amb]):
    """Follows every choice; the answer is the list of all results."""

    def __init__(self, at: type[Amb] = Amb) -> None:
        pass

    def ret(self, x: R, /) -> list[R]:
        """One world, one result."""
        return [x]

    @multi
    def amb(self, op: AmbOp, k: Resumption[Any, list[Any]]) -> Eff[Any, list[Any]]:
        """Run the rest for each option."""
        results: list[Any] = []
        for option in op.options:
            results = results + (yield from k(option))
        return results

    @final
    def fail(self, op: Fail) -> list[Any]:
        """No result."""
        return []

    def traverse(self, n: Any, loop: Loop[Any], k: Resumption[Any, Any], /) -> Eff[Any, Any]:
        """Run the rest for each combination of the iterations' results."""
        answers = yield from loop()
        results: list[Any] = []
        for choice in itertools.product(*answers):
            results = results + (yield from k(list(choice)))
        return results
