"""Random numbers of effects in kernels: bit for bit those of the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from staged import run as evaluated
from staged import staged

import peffects as pe
from peffects import Fin, effectful, handle, pfor, run
from peffects.errors import KernelEffectError, ValueRangeError
from peffects.handlers import (
    Random,
    choice,
    exponential,
    integers,
    normal,
    permutation,
    prng,
    uniform,
)


@effectful
def walk(steps: Any) -> Any:
    place = 0.0
    for _ in range(steps):
        if (yield from uniform()) > 0.5:
            place = place + (yield from normal())
    return place


@effectful
def sample(options: Any, n: Any) -> Any:
    @effectful
    def body(i: Any) -> Any:
        option = yield from choice(options)
        number = yield from integers(-5, 10)
        return option, number, (yield from walk(3))

    each = yield from pfor(Fin(n), body)
    return each, (yield from exponential()), (yield from uniform())


OPTIONS = np.arange(10.0)


@pytest.mark.parametrize("seed", [0, 7, -3, 2**62])
def test_numbers_drawn_in_a_kernel_are_those_of_the_machine(seed: int) -> None:
    @pe.kernel
    def kernel(seed: Any, n: Any) -> Any:
        return pe.run(handle(prng(seed), sample(OPTIONS, n)))

    for n in (1, 5):
        (options, numbers, walks), *found = kernel(seed, n)
        each, *expected = run(handle(prng(seed), sample(OPTIONS, n)))
        assert list(zip(options, numbers, walks, strict=True)) == list(each)
        assert found == expected


def test_a_generator_from_outside_is_read_at_each_call() -> None:
    generator = prng(5)

    @pe.kernel
    def kernel(n: Any) -> Any:
        return pe.run(handle(generator, walk(n)))

    assert kernel(4) == run(handle(generator, walk(4)))
    generator = prng(6)
    assert kernel(4) == run(handle(generator, walk(4)))


def test_an_instance_draws_for_itself() -> None:
    class Other(Random): ...

    @effectful
    def both() -> Any:
        a = yield from uniform()
        b = yield from Other.uniform()
        c: Any = yield from Other.integers(0, 1000)
        return a, b, c

    def program(x: Any) -> Any:
        return handle(prng(1), handle(prng(2, at=Other), both()))

    assert evaluated(lambda x: pe.run(program(x)), 0.0) == run(program(0.0))


def test_spans_are_tested_and_permutations_refused() -> None:
    def draw(low: Any, high: Any) -> Any:
        return pe.run(handle(prng(1), integers(low, high)))

    assert evaluated(draw, 3, 900) == run(handle(prng(1), integers(3, 900)))
    with pytest.raises(ValueRangeError, match="the span 0"):
        evaluated(draw, 3, 3)
    with pytest.raises(KernelEffectError, match=r"pe\.random\.permutation"):
        staged(lambda n: pe.run(handle(prng(1), permutation(n))), 3)
    with pytest.raises(KernelEffectError, match="Give an array"):
        staged(lambda x: pe.run(handle(prng(1), choice([x, 2.0]))), 3.0)
