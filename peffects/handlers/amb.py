"""Amb: choosing among options and failing; the handlers follow the choices.

`all_worlds` follows every choice and lists the results, the first choice varying slowest;
`parallel_worlds` gives the same list and runs the options of a choice as iterations of a parallel
`for`; `first_worlds` stops when it has enough results; `weighted_worlds` multiplies probabilities.
Around a parallel `for` each iteration runs once for each of its own choices, the rest for each
combination of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Never, Self, TypeAlias, TypeVar

from peffects.errors import EffectArgumentError
from peffects.handlers.traversal import lists_of
from peffects.machine.handling.clauses import final, multi
from peffects.machine.handling.handler import ParHandler
from peffects.machine.handling.operations import Eff, Effect, Operation, effectful
from peffects.parallel.pfor import pfor
from peffects.source import caller

if TYPE_CHECKING:
    from peffects.machine.resuming.parallel_for import Loop
    from peffects.machine.resuming.resumption import Resumption

__all__ = [
    "Amb",
    "AmbOp",
    "Fail",
    "Weight",
    "all_worlds",
    "amb",
    "distribution",
    "fail",
    "first_worlds",
    "guard",
    "parallel_worlds",
    "weighted_worlds",
]

T = TypeVar("T")
R = TypeVar("R")

Weight: TypeAlias = int | float | Fraction
"""A probability, or a number in proportion to one; fractions stay exact."""


class Amb(Effect):
    """The computation chooses, and may fail."""

    @classmethod
    def amb(cls, options: Iterable[T], weights: Iterable[Weight] | None = None) -> Eff[Self, T]:
        """One of the options, at this instance."""
        return _choose(AmbOp.at(cls), options, weights)  # type: ignore[return-value]

    @classmethod
    def fail(cls) -> Eff[Self, Never]:
        """This world of this instance has no result."""
        return Fail.at(cls)()  # type: ignore[return-value]

    @classmethod
    def guard(cls, condition: bool) -> Eff[Self, None]:
        """Fail, at this instance, unless the condition holds."""
        return _guard(cls, condition)  # type: ignore[return-value]


class AmbOp(Operation[Amb, Any]):
    """Choose one of the options; without weights they are equally likely."""

    options: tuple[Any, ...]
    weights: tuple[Weight, ...] | None = None


class Fail(Operation[Amb, Never]):
    """This world has no result."""


def amb(options: Iterable[T], weights: Iterable[Weight] | None = None) -> Eff[Amb, T]:
    """One of the options: the rest runs once for each.

    `weights` are their probabilities for `weighted_worlds`; other handlers leave them aside.
    """
    if weights is None:
        return AmbOp(tuple(options))
    return _choose(AmbOp, options, weights)


def fail() -> Eff[Amb, Never]:
    """End this world without a result."""
    return Fail()


def guard(condition: bool) -> Eff[Amb, None]:
    """End this world without a result unless the condition holds."""
    return _guard(Amb, condition)


def _choose(
    operation: type[AmbOp], options: Iterable[Any], weights: Iterable[Weight] | None
) -> AmbOp:
    listed = tuple(options)
    if weights is None:
        return operation(listed)
    listed_weights = tuple(weights)
    if len(listed_weights) != len(listed) or not all(w >= 0 for w in listed_weights):
        raise EffectArgumentError(
            f"`amb` was given {len(listed)} options and the weights {listed_weights}.",
            at=caller(),
            fix="Give one weight for each option, zero or more.",
        )
    return operation(listed, listed_weights)


@effectful
def _guard(instance: type[Amb], condition: bool) -> Eff[Amb, None]:
    if not condition:
        yield from instance.fail()


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
            results += yield from k(option)
        return results

    @final
    def fail(self, op: Fail) -> list[Any]:
        """No result."""
        return []

    def traverse(self, n: Any, loop: Loop[Any], k: Resumption[Any, Any], /) -> Eff[Any, Any]:
        """Run the rest for each combination of the iterations' results."""
        answers = yield from loop()
        results: list[Any] = []
        for choice in itertools.product(*lists_of(self, answers, loop.place)):
            results += yield from k(list(choice))
        return results


class parallel_worlds(ParHandler[Amb]):
    """Follows every choice like `all_worlds`, the worlds of a choice in parallel.

    The clauses issue a parallel `for` over the options, so handlers around this one traverse it:
    each world of `Random` outside has numbers of its own, and `State` cannot be outside.
    """

    def __init__(self, at: type[Amb] = Amb) -> None:
        pass

    def ret(self, x: R, /) -> list[R]:
        """One world, one result."""
        return [x]

    @multi
    def amb(self, op: AmbOp, k: Resumption[Any, list[Any]]) -> Eff[Any, list[Any]]:
        """Run the rest for each option, in parallel."""
        worlds = yield from pfor(op.options, k)
        return list(itertools.chain.from_iterable(worlds))

    @final
    def fail(self, op: Fail) -> list[Any]:
        """No result."""
        return []

    def traverse(self, n: Any, loop: Loop[Any], k: Resumption[Any, Any], /) -> Eff[Any, Any]:
        """Run the rest for each combination of the iterations' results, in parallel."""
        answers = yield from loop()
        choices = [
            list(choice) for choice in itertools.product(*lists_of(self, answers, loop.place))
        ]
        worlds = yield from pfor(choices, k)
        return list(itertools.chain.from_iterable(worlds))


class first_worlds(ParHandler[Amb]):
    """Follows choices until it has `count` results; the answer is the list of them.

    They are the first ones of `all_worlds`.  What comes after the last of them never runs; the
    iterations of a parallel `for` follow all their own choices.
    """

    def __init__(self, count: int = 1, at: type[Amb] = Amb) -> None:
        if count < 1:
            raise EffectArgumentError(
                f"`first_worlds` was asked for {count} results.",
                at=caller(),
                fix="Ask for 1 or more.",
            )
        self.missing: float = count

    def ret(self, x: R, /) -> list[R]:
        """One world, one result."""
        return [x]

    @multi
    def amb(self, op: AmbOp, k: Resumption[Any, list[Any]]) -> Eff[Any, list[Any]]:
        """Run the rest for one option after the other, until there are enough results."""
        return (yield from self._enough(op.options, k))

    @final
    def fail(self, op: Fail) -> list[Any]:
        """No result."""
        return []

    def traverse(self, n: Any, loop: Loop[Any], k: Resumption[Any, Any], /) -> Eff[Any, Any]:
        """Run the rest for one combination after the other, until there are enough results."""
        answers = yield from loop(lambda i: self._with(missing=math.inf))
        lists = lists_of(self, answers, loop.place)
        return (yield from self._enough(map(list, itertools.product(*lists)), k))

    def _enough(self, choices: Iterable[Any], k: Resumption[Any, list[Any]]) -> Eff[Any, list[Any]]:
        results: list[Any] = []
        for choice in choices:
            found = yield from k(choice)
            results += found
            self.missing = self.missing - len(found)  # the next `k` resumes with a fork of this
            if self.missing <= 0:
                break
        return results


class weighted_worlds(ParHandler[Amb]):
    """Follows every choice; the answer is a list of (result, probability), one for each world.

    The probabilities along a world multiply.  Fractions, and options without weights, stay exact.
    Worlds that fail are missing, so what is left adds up to the probability of not failing; see
    `distribution`.
    """

    def __init__(self, at: type[Amb] = Amb) -> None:
        self.weight: Weight = Fraction(1)

    def ret(self, x: R, /) -> list[tuple[R, Weight]]:
        """One world, one result."""
        return [(x, self.weight)]

    @multi
    def amb(self, op: AmbOp, k: Resumption[Any, list[Any]]) -> Eff[Any, list[Any]]:
        """Run the rest for each option that is possible at all."""
        equal = Fraction(1, max(1, len(op.options)))
        weights = [equal] * len(op.options) if op.weights is None else op.weights
        before = self.weight
        results: list[Any] = []
        for option, weight in zip(op.options, weights, strict=True):
            if weight != 0:
                self.weight = before * weight
                results += yield from k(option)
        return results

    @final
    def fail(self, op: Fail) -> list[Any]:
        """No result."""
        return []

    def traverse(self, n: Any, loop: Loop[Any], k: Resumption[Any, Any], /) -> Eff[Any, Any]:
        """Run the rest for each combination of the iterations' results."""
        answers = yield from loop(lambda i: self._with(weight=Fraction(1)))
        before = self.weight
        results: list[Any] = []
        for choice in itertools.product(*lists_of(self, answers, loop.place)):
            self.weight = before * math.prod(weight for _, weight in choice)
            results += yield from k([value for value, _ in choice])
        return results


def distribution(worlds: Sequence[tuple[T, Weight]], *, normalize: bool = True) -> dict[T, Weight]:
    """The probability of each result, of the worlds that did not fail.

    >>> distribution([("H", Fraction(1, 4)), ("T", Fraction(1, 8)), ("H", Fraction(1, 8))])
    {'H': Fraction(3, 4), 'T': Fraction(1, 4)}
    """
    total = sum(weight for _, weight in worlds) if normalize else 1
    found: dict[T, Weight] = {}
    for result, weight in worlds:
        found[result] = found.get(result, 0) + weight
    return {result: weight / total for result, weight in found.items()} if total else found
