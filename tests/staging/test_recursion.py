"""Functions that call themselves in kernels, and staging that would not come to an end."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from staged import run

import peffects as pe
from peffects import BasicHandler, Effect, Fin, Operation, effectful, handle, pfor
from peffects.errors import KernelRecursionError, PeffectsError, StagingLimitError
from peffects.handlers import accum, accumulate, catch, weak_exceptions


def factorial(n: Any) -> Any:
    return 1.0 if n <= 1 else n * factorial(n - 1)


def is_even(n: Any) -> Any:
    return True if n == 0 else is_odd(n - 1)


def is_odd(n: Any) -> Any:
    return False if n == 0 else is_even(n - 1)


class Object:
    def method(self, n: Any) -> Any:
        return 1.0 if n < 0 else n + self.method(n - 1)

    def __call__(self, n: Any) -> Any:
        return 1.0 if n < 0 else self(n - 1)

    @effectful
    def effects(self, n: Any) -> Any:
        yield from accum(1.0)
        return (yield from self.effects(n - 1))


@dataclass
class Vector:
    x: Any

    def __add__(self, other: Vector) -> Vector:
        return self + Vector(other.x - 1)


def by_lambda(a: Any) -> Any:
    f: Any = lambda n: 1.0 if n < 0 else n * f(n - 1)  # noqa: E731
    return f(a)


def by_fixed_point(a: Any) -> Any:
    fix: Any = lambda f: (lambda x: x(x))(lambda x: f(lambda n: x(x)(n)))  # noqa: E731
    return fix(lambda me: lambda n: 1.0 if n < 0 else n * me(n - 1))(a)


def by_closure(a: Any) -> Any:
    def again(m: Any, n: Any) -> Any:
        return 1.0 if n < 0 else functools.partial(again, m)(n - 1)

    return again(1, a)


def in_a_loop(a: Any) -> Any:
    def f(n: Any) -> Any:
        total = 0.0
        for k in range(3):
            total = total + f(n - k)
        return total

    return f(a)


def in_a_while(a: Any) -> Any:
    def f(n: Any) -> Any:
        while n > 0:
            n = f(n - 1)
        return n

    return f(a)


def through_table(a: Any) -> Any:
    def f(n: Any) -> Any:
        return pe.table(lambda i: f(n - 1)[i], over=3)

    return f(a)


def through_sum(a: Any) -> Any:
    def f(n: Any) -> Any:
        return pe.sum(lambda i: f(n - 1), over=3)

    return f(a)


def through_fold(a: Any) -> Any:
    def f(n: Any) -> Any:
        return pe.fold(lambda i, c: c + f(c - 1), n, over=3)

    return f(a)


def through_library(a: Any) -> Any:
    def f(n: Any) -> Any:
        return functools.reduce(lambda x, y: x + f(y - 1), [n, n])

    return f(a)


def through_map(a: Any) -> Any:
    def f(n: Any) -> Any:
        return sum(map(f, [n - 1, n - 2]))

    return f(a)


def through_comprehension(a: Any) -> Any:
    def f(n: Any) -> Any:
        return sum(f(n - k) for k in (1, 2))

    return f(a)


@pe.kernel
def a_kernel(a: Any) -> Any:
    return a_kernel(a - 1)


# --- with effects --------------------------------------------------------------------------------


@effectful
def effects(n: Any) -> Any:
    yield from accum(1.0)
    return (yield from effects(n - 1))


@effectful
def first(n: Any) -> Any:
    yield from accum(1.0)
    return (yield from second(n - 1))


@effectful
def second(n: Any) -> Any:
    if n > 0.0:
        yield from first(n - 1)
    return n


@effectful
def by_name(n: Any) -> Any:
    yield from accum(1.0)
    go: Any = lambda k: by_name(k - 1)  # noqa: E731
    return (yield from go(n))


@effectful
def by_argument(n: Any, again: Any) -> Any:
    yield from accum(1.0)
    return (yield from again(n - 1, again))


@effectful
def in_pfor(n: Any) -> Any:
    yield from pfor(Fin(3), lambda i: in_pfor(n))
    return n


@effectful
def in_catch(n: Any) -> Any:
    return (yield from catch(in_catch(n - 1), lambda e: 0.0))


class Asking(Effect): ...


class Ask(Operation[Asking, float]):
    n: Any


class Answers(BasicHandler[Asking]):
    def ask(self, op: Ask) -> Any:
        return self._help(op.n)

    def _help(self, n: Any) -> Any:
        return 1.0 if n < 0 else self._help(n - 1)


def counted(computation: Any) -> Any:
    return pe.run(handle(accumulate(0.0, operator.add), computation))


@effectful
def asking(n: Any) -> Any:
    return (yield from Ask(n))


ENDLESS: dict[str, Callable[[Any], Any]] = {
    "function": factorial,
    "mutual": is_even,
    "method": lambda a: Object().method(a),
    "call": lambda a: Object()(a),
    "operator": lambda a: (Vector(a) + Vector(a)).x,
    "lambda": by_lambda,
    "fixed point": by_fixed_point,
    "partial": by_closure,
    "for": in_a_loop,
    "while": in_a_while,
    "in table": lambda a: pe.table(lambda i: factorial(a + i), over=3),
    "table": through_table,
    "sum": through_sum,
    "fold": through_fold,
    "reduce": through_library,
    "map": through_map,
    "comprehension": through_comprehension,
    "kernel": lambda a: a_kernel(a),
    "effects": lambda a: counted(effects(a)),
    "mutual effects": lambda a: counted(first(a)),
    "effects by a lambda": lambda a: counted(by_name(a)),
    "effects by an argument": lambda a: counted(by_argument(a, by_argument)),
    "method with effects": lambda a: counted(Object().effects(a)),
    "pfor": lambda a: counted(in_pfor(a)),
    "catch": lambda a: pe.run(handle(weak_exceptions(), in_catch(a))),
    "clause": lambda a: pe.run(handle(Answers(), asking(a))),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_recursion_that_depends_on_values_is_refused(name: str) -> None:
    with pytest.raises(KernelRecursionError, match="calls itself") as caught:
        run(ENDLESS[name], 3.0)
    assert caught.value.code == "PE210"
    assert caught.value.fix and caught.value.at.file == __file__


@pytest.mark.parametrize("name", ["for", "table", "sum", "fold", "reduce", "map", "comprehension"])
def test_recursion_without_an_end_is_told_by_debug(name: str) -> None:
    with pytest.raises(KernelRecursionError, match="calls itself") as caught:
        pe.kernel(ENDLESS[name]).debug(3.0)
    assert caught.value.at.file == __file__


def test_debug_follows_a_recursion_to_its_end() -> None:
    assert pe.kernel(factorial).debug(5.0) == 120.0
    assert pe.kernel(ENDLESS["clause"]).debug(3.0) == 1.0


def test_recursion_on_pythons_numbers_is_staged_to_its_end() -> None:
    def power(x: Any, n: int) -> Any:
        return 1.0 if n == 0 else x * power(x, n - 1)

    @effectful
    def times(x: Any, n: int) -> Any:
        yield from accum(x)
        if n > 1:
            yield from times(x, n - 1)

    assert run(lambda x: power(x, 20), 1.5) == pytest.approx(1.5**20)
    assert run(lambda x: counted(times(x, 20)), 1.5)[0] == pytest.approx(30.0)


# --- the bound on steps --------------------------------------------------------------------------


def unrolled(x: Any) -> Any:
    for k in [1] * 10_000:
        x = x * 1.5 + k
    return x


def counting(x: Any) -> Any:
    for _ in itertools.count():
        x = x * 1.5
    return x


def idle(x: Any) -> Any:
    for _ in itertools.count():
        pass
    return x


def forever(x: Any) -> Any:
    k = 0
    while True:
        k += 1
        if k < 0:
            return x


@pytest.mark.parametrize("kernel", [unrolled, counting, idle, forever], ids=lambda f: f.__name__)
def test_staging_has_a_bound_on_its_steps(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEFFECTS_STAGING_STEPS", "3000")
    with pytest.raises(StagingLimitError, match="not staged after 3000 steps") as caught:
        run(kernel, 1.0)
    assert caught.value.code == "PE214"
    assert "PEFFECTS_STAGING_STEPS" in caught.value.fix
    assert caught.value.at.file == __file__


def test_the_bound_on_steps_can_be_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(x: Any) -> Any:
        for _ in [1] * 3:
            x = x + 1.0
        return x

    monkeypatch.setenv("PEFFECTS_STAGING_STEPS", "2")
    with pytest.raises(PeffectsError, match="2 steps"):
        run(short, 1.0)
    monkeypatch.setenv("PEFFECTS_STAGING_STEPS", "2000")
    assert run(short, 1.0) == 4.0
