"""Random: numbers that are a function of the seed and the place, never of thread or order.

A draw splits the key: one half is drawn from, the other goes on, so no key is used twice, and no
program ever sees one.  Around a parallel `for` the key is split once for the loop and once for the
rest, and iteration i starts with the loop's key folded with i; so a loop and the same draws in
sequence differ, by design.

The operations are `bits`, `uniform` and `normal`, one key each.  The rest is made of `bits`:
`exponential` and `permutation` take one draw, `integers` one for each 64 bits, and again in the
rare case (for a span s: less than s in 2**64) that would favour some numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from peffects.errors import EffectArgumentError
from peffects.machine.checking.never_performed import made_for_all
from peffects.machine.handling.handler import SplitHandler
from peffects.machine.handling.operations import Eff, Effect, Operation, effectful
from peffects.numerics.threefry import (
    fold_in,
    hash_key,
    log_unit,
    new_key,
    split,
    to_normal,
    to_uniform,
)
from peffects.source import caller

__all__ = [
    "Bits",
    "Normal",
    "Random",
    "Uniform",
    "bits",
    "choice",
    "exponential",
    "integers",
    "normal",
    "permutation",
    "prng",
    "uniform",
]

T = TypeVar("T")
R = TypeVar("R")


class Random(Effect):
    """Random numbers are drawn."""

    @classmethod
    def bits(cls) -> Eff[Self, int]:
        """A number of 64 random bits from this instance."""
        return Bits.at(cls)()  # type: ignore[return-value]

    @classmethod
    def uniform(cls) -> Eff[Self, float]:
        """A number in [0, 1) from this instance."""
        return Uniform.at(cls)()  # type: ignore[return-value]

    @classmethod
    def normal(cls) -> Eff[Self, float]:
        """A standard normal from this instance."""
        return Normal.at(cls)()  # type: ignore[return-value]

    @classmethod
    def exponential(cls) -> Eff[Self, float]:
        """A standard exponential from this instance."""
        return _exponential(cls)  # type: ignore[return-value]

    @classmethod
    def integers(cls, low: int, high: int) -> Eff[Self, int]:
        """An integer in [low, high) from this instance."""
        return _integers(cls, low, high)  # type: ignore[return-value]

    @classmethod
    def choice(cls, options: Sequence[T]) -> Eff[Self, T]:
        """One of the options, from this instance."""
        return _choice(cls, options)  # type: ignore[return-value]

    @classmethod
    def permutation(cls, n: int) -> Eff[Self, list[int]]:
        """The numbers below n in a random order, from this instance."""
        return _permutation(cls, n)  # type: ignore[return-value]


class Bits(Operation[Random, int]):
    """Draw 64 random bits, as a number."""


class Uniform(Operation[Random, float]):
    """Draw a number in [0, 1)."""


class Normal(Operation[Random, float]):
    """Draw a standard normal."""


_BITS: Any = made_for_all(Bits())
_UNIFORM: Any = made_for_all(Uniform())
_NORMAL: Any = made_for_all(Normal())


def bits() -> Eff[Random, int]:
    """64 random bits, as a number."""
    return _BITS  # type: ignore[no-any-return]


def uniform() -> Eff[Random, float]:
    """A random number in [0, 1)."""
    return _UNIFORM  # type: ignore[no-any-return]


def normal() -> Eff[Random, float]:
    """A random number from the standard normal distribution."""
    return _NORMAL  # type: ignore[no-any-return]


def exponential() -> Eff[Random, float]:
    """A random number from the standard exponential distribution."""
    return Random.exponential()


def integers(low: int, high: int) -> Eff[Random, int]:
    """A random integer in [low, high), of any size, all equally likely."""
    return _integers(Random, low, high)


def choice(options: Sequence[T]) -> Eff[Random, T]:
    """One of the options, all equally likely."""
    return _choice(Random, options)


def permutation(n: int) -> Eff[Random, list[int]]:
    """The numbers below n in a random order, all orders equally likely."""
    return _permutation(Random, n)


def _is_symbol(value: object) -> bool:
    """Whether `value` is known only when a kernel runs: then the kernel tests it."""
    return getattr(type(value), "_pe_symbolic", False) is True


def _integers(instance: type[Random], low: int, high: int) -> Eff[Random, int]:
    if not (_is_symbol(low) or _is_symbol(high)) and high <= low:
        raise EffectArgumentError(
            f"no integer is in [{low}, {high}).",
            at=caller(),
            fix="The upper end is left out: `integers(0, 6)` gives 0 to 5.",
        )
    return _integer_from(instance, low, high)


def _choice(instance: type[Random], options: Sequence[T]) -> Eff[Random, T]:
    if not _is_symbol(options) and len(options) == 0:
        raise EffectArgumentError(
            "`choice` was given no options.", at=caller(), fix="Test for the empty case before."
        )
    return _option_from(instance, options)


def _permutation(instance: type[Random], n: int) -> Eff[Random, list[int]]:
    if not _is_symbol(n) and n < 0:
        raise EffectArgumentError(
            f"there is no permutation of {n} numbers.", at=caller(), fix="Give a size of 0 or more."
        )
    return _order_of(instance, n)


@effectful
def _exponential(instance: type[Random]) -> Eff[Random, float]:
    drawn = yield from instance.bits()
    return -log_unit(1.0 - to_uniform(drawn))


@effectful
def _integer_from(instance: type[Random], low: int, high: int) -> Eff[Random, int]:
    span = high - low
    words = _words(span)
    while True:
        drawn = 0
        for _ in range(words):
            drawn = drawn << 64 | (yield from instance.bits())
        offset = _offset(drawn, span, 64 * words)
        if offset is not None:
            return low + offset


@effectful
def _option_from(instance: type[Random], options: Sequence[T]) -> Eff[Random, T]:
    return options[(yield from _integer_from(instance, 0, len(options)))]


@effectful
def _order_of(instance: type[Random], n: int) -> Eff[Random, list[int]]:
    return permutation_of((yield from instance.bits()), n)


def _words(span: int) -> int:
    """How many words of 64 bits hold the numbers below `span`."""
    return max(1, -(-(span - 1).bit_length() // 64))


def _offset(drawn: int, span: int, width: int) -> int | None:
    """A number below `span` from `width` random bits, or None where it would favour some.

    drawn * span >> width takes each value floor or ceil(2**width / span) times; leaving out the
    (2**width mod span) draws with the smallest lower parts makes that the same for all (Lemire).
    """
    product = drawn * span
    mask = (1 << width) - 1
    return None if product & mask < (1 << width) % span else product >> width


def permutation_of(key: int, n: int) -> list[int]:
    """The permutation of a key: Fisher-Yates, with the numbers `hash(key, i)` for i = 0, 1, …."""
    order = list(range(n))
    count = 0
    for last in range(n - 1, 0, -1):
        other = None
        while other is None:
            other = _offset(hash_key(key, count), last + 1, 64)
            count += 1
        order[last], order[other] = order[other], order[last]
    return order


class prng(SplitHandler[Random]):
    """Draws from a counter-based generator (Threefry-2x32) that starts from a seed."""

    def __init__(self, seed: int, at: type[Random] = Random) -> None:
        self.key = new_key(seed)

    if TYPE_CHECKING:

        def ret(self, x: R, /) -> R:
            """The answer is the result."""

    def bits(self, op: Bits) -> int:
        """Draw from one half of the key, go on with the other."""
        self.key, drawn = split(self.key)
        return drawn

    def uniform(self, op: Uniform) -> float:
        """Draw from one half of the key, go on with the other."""
        self.key, drawn = split(self.key)
        return to_uniform(drawn)

    def normal(self, op: Normal) -> float:
        """Draw from one half of the key, go on with the other."""
        self.key, drawn = split(self.key)
        return to_normal(drawn)

    def split(self, n: Any) -> Callable[[Any], Self]:
        """Iteration i starts with its own key; the rest goes on with a key of its own."""
        inner, self.key = split(self.key)
        return lambda i: self._with(key=fold_in(inner, i))
