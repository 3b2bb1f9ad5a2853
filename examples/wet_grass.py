"""Was it the rain? One probabilistic program, answered exactly and by sampling.

The grass is wet.  It may have rained, and the sprinkler may have been on (less likely when it
rains).  `garden` says how such days come about, and `guard` that the grass was seen to be wet.  It
chooses with `amb(options, weights)`, and does not say what choosing means.

Notice: `weighted_worlds` follows every choice and multiplies the probabilities, as fractions, so
the posterior is exact.  `sampled`, written here, draws each choice from `Random` instead, and
days on which the grass stays dry have no answer.  The program is the same; and since `prng` splits
its key at the parallel loop, the samples are the same on any number of threads. (Wet grass:
Pearl, *Probabilistic Reasoning in Intelligent Systems*, 1988.)
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from peffects import (
    Eff,
    Fin,
    Loop,
    Par,
    ParHandler,
    Resumption,
    effectful,
    final,
    handle,
    pfor,
    run,
)
from peffects.handlers import (
    Amb,
    AmbOp,
    Fail,
    Random,
    amb,
    distribution,
    guard,
    prng,
    uniform,
    weighted_worlds,
)
from peffects.parallel import Table, Threads


@effectful
def happens(percent: int) -> Eff[Amb, bool]:
    """Whether something with this probability happens."""
    return (yield from amb([True, False], [Fraction(percent, 100), Fraction(100 - percent, 100)]))


@effectful
def garden() -> Eff[Amb, tuple[bool, bool]]:
    """A day on which the grass was wet: whether it rained, and whether the sprinkler was on."""
    rain: bool = yield from happens(20)
    sprinkler: bool = yield from happens(1 if rain else 40)
    wet: bool = yield from happens({(0, 0): 0, (0, 1): 90, (1, 0): 80, (1, 1): 99}[rain, sprinkler])
    yield from guard(wet)
    return rain, sprinkler


class sampled(ParHandler[Amb, Random]):
    """Draws each choice; the answer is a list with the result, or an empty one after a failure."""

    def ret(self, x: Any) -> list[Any]:
        """It did not fail."""
        return [x]

    def amb(self, op: AmbOp) -> Eff[Random, Any]:
        """Draw by weight: the effects of a clause go to handlers further out."""
        cumulated = list(itertools.accumulate(op.weights or [1] * len(op.options)))
        u = yield from uniform()
        return op.options[bisect.bisect(cumulated, u * float(cumulated[-1]))]

    @final
    def fail(self, op: Fail) -> list[Any]:
        """No result."""
        return []

    def traverse(self, n: Any, loop: Loop[Any], k: Resumption[Any, Any], /) -> Eff[Any, Any]:
        """If an iteration fails, all fail."""
        answers = yield from loop()
        if not all(answers):
            return []
        return (yield from k([answer for (answer,) in answers]))


@effectful
def days(count: int) -> Eff[Random | Par, Table[Any, list[tuple[bool, bool]]]]:
    """Many days, as iterations of a parallel loop: each a list with one result or none."""
    return (yield from pfor(Fin(count), lambda i: handle(sampled(), garden())))


def estimate(count: int, threads: int) -> tuple[int, dict[tuple[bool, bool], float]]:
    """How many of `count` sampled days had wet grass, and how often each explanation held."""
    table: Sequence[list[tuple[bool, bool]]] = run(
        handle(prng(seed=0), days(count)), executor=Threads(threads)
    )
    wet = [result for results in table for result in results]
    return len(wet), {cause: n / len(wet) for cause, n in Counter(wet).items()}


def main(small: bool = False) -> None:
    """Compare the exact posterior with a sampled one."""
    count = 2_000 if small else 10_000
    exact = distribution(run(handle(weighted_worlds(), garden())))
    wet, sampled_days = estimate(count, threads=4)
    print(f"of {count} sampled days, {wet} had wet grass")
    print("rain   sprinkler  exact                      sampled")
    for cause, probability in sorted(exact.items(), reverse=True):
        rain, sprinkler = ("yes" if it else "no" for it in cause)
        shown = f"{probability} = {float(probability):.4f}"
        print(f"{rain:5}  {sprinkler:9}  {shown:25}  {sampled_days.get(cause, 0.0):.4f}")
    rained: Any = sum(probability for (rain, _), probability in exact.items() if rain)
    print(f"it rained with probability {rained} = {float(rained):.4f}")


if __name__ == "__main__":
    main()
