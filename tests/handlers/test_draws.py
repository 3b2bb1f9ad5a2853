"""Random: known answers, streams, ranges without bias, orders, instances, and no key twice."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peffects.errors import EffectArgumentError
from peffects.handlers import (
    Random,
    bits,
    choice,
    exponential,
    integers,
    normal,
    permutation,
    prng,
    uniform,
)
from peffects.handlers.random import Bits, Normal, Uniform
from peffects.machine.handling.handler import Handler, handle
from peffects.machine.handling.operations import effectful
from peffects.numerics.threefry import fold_in, new_key, split, to_normal, to_uniform
from peffects.parallel import Executor, Fin, Serial, Shuffled, Threads, pfor, run

EXECUTORS: list[Executor] = [Serial(), Shuffled(3), Threads(2, chunk=1)]


@effectful
def many(count: int, draw: Any) -> Any:
    drawn = []
    for _ in range(count):
        drawn.append((yield from draw()))
    return drawn


def draws(count: int, draw: Any, seed: int = 0) -> list[Any]:
    drawn: list[Any] = run(handle(prng(seed), many(count, draw)))
    return drawn


# From seed 0, computed from the published description of Threefry by a program of its own.
KNOWN: dict[str, tuple[Any, list[Any]]] = {
    "bits": (bits, [0x50AFC2247E1F9C78, 0xD27B7B071BBBC408]),
    "uniform": (uniform, [0.3151818598836357, 0.8221966640810328]),
    "normal": (normal, [0.07185625130671004, -0.7984008379350428]),
    "exponential": (exponential, [0.37860196484954356, 1.727077193879425]),
    "integers": (lambda: integers(0, 100), [31, 82]),
    "permutation": (lambda: permutation(6), [[5, 1, 2, 0, 3, 4], [4, 0, 3, 1, 5, 2]]),
}


@pytest.mark.parametrize(("draw", "expected"), KNOWN.values(), ids=KNOWN)
def test_known_answers(draw: Any, expected: list[Any]) -> None:
    assert draws(2, draw) == expected


def test_streams_are_the_documented_ones() -> None:
    """A draw splits the key: the first half goes on, the second is drawn from."""
    key = new_key(7)
    key, first = split(key)
    key, second = split(key)
    loop, key = split(key)
    _, last = split(key)
    inside = [split(fold_in(loop, i))[1] for i in range(2)]

    @effectful
    def program() -> Any:
        a = yield from uniform()
        b = yield from normal()
        c = yield from pfor(Fin(2), lambda i: bits())
        d = yield from bits()
        return a, b, list(c), d

    expected = (to_uniform(first), to_normal(second), inside, last)
    for executor in EXECUTORS:
        assert run(handle(prng(7), program()), executor=executor) == expected


def test_an_exponential_is_the_logarithm_of_a_uniform() -> None:
    for u, e in zip(draws(50, uniform), draws(50, exponential), strict=True):
        assert e == pytest.approx(-math.log1p(-u), rel=1e-13)


def test_a_permutation_takes_one_draw() -> None:
    @effectful
    def program() -> Any:
        order = yield from permutation(20)
        return order, (yield from bits())

    order, after = run(handle(prng(2), program()))
    assert sorted(order) == list(range(20))
    assert after == draws(2, bits, seed=2)[1]


@given(st.integers(0, 12), st.integers(0, 100))
def test_a_permutation_has_every_number_once(n: int, seed: int) -> None:
    assert sorted(run(handle(prng(seed), permutation(n)))) == list(range(n))


def test_all_permutations_are_equally_likely() -> None:
    counts = Counter(map(tuple, draws(1200, lambda: permutation(3))))
    assert set(counts) == set(itertools.permutations(range(3)))
    assert chi_square(list(counts.values())) < 20.5  # 5 degrees of freedom, 1 in 1000


def chi_square(counts: list[int]) -> float:
    mean = sum(counts) / len(counts)
    return sum((count - mean) ** 2 / mean for count in counts)


@given(st.integers(-(10**30), 10**30), st.integers(1, 10**30), st.integers(0, 1000))
def test_integers_stay_in_their_range(low: int, span: int, seed: int) -> None:
    assert low <= run(handle(prng(seed), integers(low, low + span))) < low + span


def test_integers_and_choices_are_equally_likely() -> None:
    assert chi_square([*Counter(draws(1000, lambda: integers(-3, 4))).values()]) < 22.5
    assert chi_square([*Counter(draws(1000, lambda: choice("abcde"))).values()]) < 18.5
    large = Counter(n >> 98 for n in draws(1000, lambda: integers(0, 7 << 98)))
    assert len(large) == 7
    assert chi_square([*large.values()]) < 22.5


class from_bits(Handler[Random]):
    """Gives these bits, one draw after the other."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers

    def ret(self, x: Any) -> Any:
        return x, len(self.numbers)

    def bits(self, op: Bits) -> int:
        first, *rest = self.numbers
        self.numbers = tuple(rest)
        return first

    def uniform(self, op: Uniform) -> float:
        return to_uniform(self.bits(op))  # type: ignore[arg-type]

    def normal(self, op: Normal) -> float:
        return 0.0


def test_draws_that_would_favour_some_integers_are_drawn_again() -> None:
    """2**64 = 1 mod 3: exactly one of 2**64 draws is left out, the one with the lower part 0."""
    last = 2**64 - 1
    assert run(handle(from_bits(0, last), integers(0, 3))) == (2, 0)
    assert run(handle(from_bits(1, last), integers(0, 3))) == (0, 1)
    assert run(handle(from_bits(0), integers(5, 6))) == (5, 0)
    assert run(handle(from_bits(0), integers(0, 2**64))) == (0, 0)
    assert run(handle(from_bits(last, 5), integers(0, 2**128))) == (last << 64 | 5, 0)


def test_no_key_is_drawn_from_twice() -> None:
    @effectful
    def program(depth: int) -> Any:
        first = yield from bits()
        inner: Any = []
        if depth:
            inner = yield from pfor(Fin(3), lambda i: program(depth - 1))
        last = yield from bits()
        return [first, last, *itertools.chain.from_iterable(inner)]

    drawn = run(handle(prng(0), program(4)))
    assert len(drawn) == 2 * (1 + 3 + 9 + 27 + 81) == len(set(drawn))


@pytest.mark.parametrize("executor", EXECUTORS, ids=repr)
def test_every_draw_is_the_same_on_every_executor(executor: Executor) -> None:
    @effectful
    def body(i: int) -> Any:
        order = yield from permutation(5)
        number = yield from integers(0, 10**20)
        return order, number, (yield from choice("abc")), (yield from exponential())

    first = run(handle(prng(3), pfor(Fin(6), body)))
    assert run(handle(prng(3), pfor(Fin(6), body)), executor=executor) == first


def test_instances_have_streams_of_their_own() -> None:
    class Noise(Random): ...

    @effectful
    def program() -> Any:
        yield from Noise.integers(0, 10)
        yield from Noise.permutation(3)
        yield from Noise.choice("ab")
        yield from Noise.exponential()
        yield from Noise.uniform()
        yield from Noise.normal()
        return (yield from bits()), (yield from Noise.bits())

    plain, noise = run(handle(prng(1, at=Noise), handle(prng(1), program())))
    assert plain == draws(1, bits, seed=1)[0]
    assert noise == draws(7, bits, seed=1)[6]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: integers(5, 5), r"no integer is in \[5, 5\)"),
        (lambda: choice([]), "`choice` was given no options"),
        (lambda: permutation(-1), "no permutation of -1 numbers"),
    ],
)
def test_what_cannot_be_drawn_is_refused_at_the_line(make: Any, text: str) -> None:
    with pytest.raises(EffectArgumentError, match=text) as caught:
        make()
    assert caught.value.at.file == __file__
