"""Random: numbers that are a function of the seed and the place, never of thread or order.

A draw splits the key: one half is drawn from, the other goes on.  Around a parallel `for` the key
is split once for the loop and once for the rest, and iteration i starts with the loop's key folded
with i; so a loop and the same draws in sequence differ, by design.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar

from peffects.effects import Eff, Effect, Operation
from peffects.handling import ParHandler
from peffects.threefry import fold_in, new_key, split, to_normal, to_uniform

if TYPE_CHECKING:
    from peffects.loops import Loop
    from peffects.resumption import Resumption

__all__ = ["Normal", "Random", "Uniform", "normal", "prng", "uniform"]

R = TypeVar("R")


class Random(Effect):
    """Random numbers are drawn."""

    @classmethod
    def uniform(cls) -> Eff[Self, float]:
        """A number in [0, 1) from this instance."""
        return Uniform.at(cls)()  # type: ignore[return-value]

    @classmethod
    def normal(cls) -> Eff[Self, float]:
        """A standard normal from this instance."""
        return Normal.at(cls)()  # type: ignore[return-value]


class Uniform(Operation[Random, float]):
    """Draw a number in [0, 1)."""


class Normal(Operation[Random, float]):
    """Draw a standard normal."""


_UNIFORM: Any = Uniform()
_NORMAL: Any = Normal()


def uniform() -> Eff[Random, float]:
    """A random number in [0, 1)."""
    return _UNIFORM  # type: ignore[no-any-return]


def normal() -> Eff[Random, float]:
    """A random number from the standard normal distribution."""
    return _NORMAL  # type: ignore[no-any-return]


class prng(ParHandler[Random]):
    """Draws from a counter-based generator (Threefry-2x32) that starts from a seed."""

    def __init__(self, seed: int, at: type[Random] = Random) -> None:
        self.key = new_key(seed)

    if TYPE_CHECKING:

        def ret(self, x: R, /) -> R:
            """The answer is the result."""

    def uniform(self, op: Uniform) -> float:
        """Draw from one half of the key, go on with the other."""
        self.key, drawn = split(self.key)
        return to_uniform(drawn)

    def normal(self, op: Normal) -> float:
        """Draw from one half of the key, go on with the other."""
        self.key, drawn = split(self.key)
        return to_normal(drawn)

    def traverse(self, n: Any, loop: Loop[Any], k: Resumption[Any, Any], /) -> Eff[Any, Any]:
        """Iteration i starts with its own key; the rest goes on with a key of its own."""
        inner, self.key = split(self.key)
        values = yield from loop(lambda i: self._with(key=fold_in(inner, i)))
        return (yield from k(values))
