"""Sums do not lose accuracy with their length: what decision 015 promises, for all ways to add.

The bound is 4 eps log2(n) sum|x| for n terms, which are equal, of random signs, or random.  With
LONGEST in the environment (`make accuracy`), up to so many terms are added.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import peffects as pe
from peffects.codegen.launch.threads import threads
from peffects.handlers import accum, accumulate

Array = NDArray[Any]
Function = Callable[..., Any]
LONGEST = int(float(os.environ.get("LONGEST", "1e6")))
LENGTHS = [10**k for k in range(3, 9) if 10**k <= LONGEST]
TERMS = ("equal", "signs", "random")


@cache
def terms(kind: str, dtype: str, n: int) -> Array:
    """Numbers to add."""
    rng = np.random.default_rng(n)
    match kind:
        case "equal":
            return np.full(n, 0.1, dtype)
        case "signs":
            signs: Array = np.where(rng.integers(0, 2, n, np.int8) == 0, -1, 1).astype(dtype)
            signs *= signs.dtype.type(0.1)
            return signs
        case _:
            found: Array = rng.random(n, np.dtype(dtype))
            return found


@cache
def exact_sum(kind: str, dtype: str, n: int, what: str, part: tuple[int | None, ...]) -> float:
    """The sum of a function of a slice of the terms, rounded once."""
    x = terms(kind, dtype, n)[slice(*part)].astype(np.float64)
    values = {"x": x, "|x|": np.abs(x), "xx": x * x}[what]
    return math.fsum(values)


@dataclass(frozen=True)
class Case:
    """A function that adds up `what` of all terms, or of some of them, in each of its results."""

    function: Function
    what: str = "x"
    scale: Callable[[int], float] = lambda n: 1.0
    parts: Callable[[int], list[tuple[int | None, ...]]] = lambda n: [(None,)]
    seen: Callable[[Any, int], Any] = lambda found, n: found
    root: bool = False


CASES: dict[str, Case] = {}


def case(name: str, function: Function, **kwargs: Any) -> None:
    CASES[name] = Case(function, **kwargs)


def inverse(n: int) -> float:
    return 1.0 / n


def places(n: int) -> list[int]:
    """Some elements of a table of n."""
    return [0, 1, 20, n // 7, n // 2, n - 2, n - 1]


def elements(found: Any, n: int) -> Any:
    return np.asarray(found)[places(n)]


def up_to(n: int) -> list[tuple[int | None, ...]]:
    return [(None, k + 1) for k in places(n)]


def from_on(n: int) -> list[tuple[int | None, ...]]:
    return [(k, None) for k in places(n)]


def fourths(n: int) -> list[tuple[int | None, ...]]:
    return [(k, None, 4) for k in range(4)]


# --- values ---------------------------------------------------------------------------------------


def one_cell(x: Any) -> Any:
    total = pe.accumulator(1, dtype=x.dtype)
    for i in pe.par(x.index):
        total[0] += x[i]
    return total


def one_number(x: Any) -> Any:
    total = pe.accumulator(dtype=x.dtype)
    for i in pe.par(x.index):
        total += x[i]
    return total


def one_number_in_order(x: Any) -> Any:
    total = pe.accumulator(dtype=x.dtype)
    for i in range(len(x)):
        total += x[i]
    return total


def few_bins(x: Any) -> Any:
    bins = pe.accumulator(4, dtype=x.dtype)
    for i in pe.par(x.index):
        bins[i % 4] += x[i]
    return bins


def cells_in_turn(x: Any) -> Any:
    cells = pe.accumulator(3, dtype=x.dtype)
    for j in pe.par(pe.Fin(3)):
        for i in range(len(x)):
            cells[j] += x[i]
    return cells


def by_handler(x: Any) -> Any:
    total, _ = pe.run(
        pe.handle(accumulate(0.0 * x[0], operator.add), pe.pfor(x.index, lambda i: accum(x[i])))
    )
    return total


def totals(x: Any) -> Any:
    return pe.scan(lambda c, i: (c + x[i], c + x[i]), 0.0 * x[0])[1]


def rows(x: Any) -> Any:
    """Prefix sums of rows of two."""
    return np.cumsum(pe.table(lambda i, j: x[i] * (1 - 2 * j), over=(x.index, 2)), axis=0)[:, 0]


case("sum", lambda x: pe.sum(x))
case("sum of a function", lambda x: pe.sum(lambda i: x[i]))
case("np.sum", lambda x: np.sum(x))
case("np.nansum", lambda x: np.nansum(x))
case("mean", lambda x: pe.mean(x), scale=inverse)
case("np.average", lambda x: np.average(x), scale=inverse)
case("dot", lambda x: np.dot(x, x), what="xx")
case("sum of products", lambda x: pe.sum(lambda i: x[i] * x[i]), what="xx")
case("matvec", lambda x: x.reshape(1, -1) @ x, what="xx")
case("matmul", lambda x: x.reshape(1, -1) @ x.reshape(-1, 1), what="xx")
case("columns", lambda x: pe.sum(lambda i: pe.table(lambda j: x[i] + 0.0 * j, over=3)))
case("norm", lambda x: np.linalg.norm(x), what="xx", root=True)
case("norm 1", lambda x: np.linalg.norm(x, 1), what="|x|")
case("one cell", one_cell)
case("one number", one_number)
case("one number in order", one_number_in_order)
case("few bins", few_bins, parts=fourths)
case("cells in turn", cells_in_turn)
case("handler", by_handler)
case("cumsum", lambda x: np.cumsum(x), parts=up_to, seen=elements)
case("cumsum in reverse", lambda x: pe.cumsum(x, reverse=True), parts=from_on, seen=elements)
case("cumsum of rows", rows, parts=up_to, seen=elements)
case("scan", totals, parts=up_to, seen=elements)
case("fold", lambda x: pe.fold(lambda c, i: c + x[i], 0.0 * x[0]))
case("fold that takes away", lambda x: -pe.fold(lambda c, i: c - x[i], 0.0 * x[0]))
case(
    "fold of tables",
    lambda x: pe.fold(lambda c, i: c + x[i], pe.table(lambda j: 0.0 * j * x[0], over=2)),
)
case(
    "fold over two", lambda x: pe.fold(lambda c, i, j: c + j * x[i], 0.0 * x[0], over=(x.index, 2))
)
case("reduce", lambda x: pe.reduce(lambda i: x[i], lambda a, b: a + b, 0.0 * x[0]))


# --- derivatives by numbers that all iterations read ---------------------------------------------


def derivative(
    function: Function, start: Callable[[Any], Any] = lambda x: x.dtype.type(1)
) -> Function:
    gradient = pe.grad(function)
    return lambda x: gradient(start(x), x)


def some(count: int) -> Callable[[Any], Any]:
    return lambda x: np.ones(count, x.dtype)


def by_loop(s: Any, x: Any) -> Any:
    total = 0.0 * s
    for i in range(len(x)):
        total = total + s * x[i]
    return total


def by_loop_of_a_table(s: Any, x: Any) -> Any:
    total = 0.0 * s[0]
    for i in range(len(x)):
        total = total + s[0] * x[i]
    return total


def by_while(s: Any, x: Any) -> Any:
    total, i = 0.0 * s, 0
    while i < len(x):
        total = total + s * x[i]
        i = i + 1
    return total


def by_state(s: Any, x: Any) -> Any:
    y = pe.state(x)
    for i in range(len(x)):
        y[i] = s * x[i]
    return pe.sum(y)


case("d sum", derivative(lambda s, x: pe.sum(lambda i: s * x[i])))
case("d np.sum", derivative(lambda s, x: np.sum(s * x)))
case("d mean", derivative(lambda s, x: np.mean(s * x)), scale=inverse)
case("d dot", derivative(lambda s, x: np.dot(s * x, x)), what="xx")
case("d element", derivative(lambda s, x: pe.sum(lambda i: s[0] * x[i]), some(1)))
case("d bins", derivative(lambda s, x: pe.sum(lambda i: s[i % 4] * x[i]), some(4)), parts=fourths)
case("d bias", derivative(lambda s, x: pe.sum(lambda i: pe.sum(lambda j: s[j] * x[i])), some(2)))
case("d fold", derivative(lambda s, x: pe.fold(lambda c, i: c + s * x[i], 0.0 * x[0])))
case("d loop", derivative(by_loop))
case("d loop of a table", derivative(by_loop_of_a_table, some(1)))
case("d while", derivative(by_while))
case("d state", derivative(by_state))
case(
    "d cumsum",
    derivative(lambda y, x: np.dot(np.cumsum(y), x), lambda x: x),
    parts=from_on,
    seen=elements,
)
case("d cumsum by a factor", derivative(lambda s, x: np.cumsum(s * x)[-1]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_errors_do_not_grow_with_the_length(name: str, dtype: str) -> None:
    made = CASES[name]
    function = made.function if name.startswith("d ") else pe.kernel(made.function)
    eps = float(np.finfo(dtype).eps)
    for n in LENGTHS:
        for kind in TERMS:
            found = np.atleast_1d(made.seen(function(terms(kind, dtype, n)), n)).ravel()
            assert found.dtype == dtype
            size = "xx" if made.what == "xx" else "|x|"
            for place, value in enumerate(found.tolist()):
                parts = made.parts(n)
                part = parts[place % len(parts)]
                exact = exact_sum(kind, dtype, n, made.what, part)
                bound = 4 * eps * math.log2(n) * exact_sum(kind, dtype, n, size, part)
                if made.root:
                    exact, bound = math.sqrt(exact), bound / math.sqrt(exact)
                scale = made.scale(n)
                assert abs(value - exact * scale) <= bound * scale, (n, kind, place)


# --- what is made of sums -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_variances_and_softmax(dtype: str) -> None:
    """Against the formulas in wider arithmetic."""
    eps, variance, deviation = (
        float(np.finfo(dtype).eps),
        pe.kernel(lambda x: np.var(x)),
        pe.kernel(lambda x: np.std(x)),
    )
    log_sum, slope = pe.kernel(lambda x: pe.logsumexp(x)), pe.grad(lambda s, x: pe.logsumexp(s * x))
    softmax = pe.kernel(lambda x: pe.table(lambda i: np.exp(x[i] - pe.logsumexp(x))))
    for n in LENGTHS:
        for kind in TERMS:
            x = terms(kind, dtype, n)
            wide = x.astype(np.longdouble)
            bound = 4 * eps * math.log2(n)
            second = float(np.mean(wide * wide))
            exact = float(np.var(wide)) if kind != "equal" else 0.0
            assert abs(variance(x) - exact) <= bound * second
            assert abs(deviation(x) - math.sqrt(exact)) <= bound * math.sqrt(second)
            powers = np.exp(wide)
            total = np.sum(powers)
            assert abs(log_sum(x) - float(np.log(total))) <= bound * (1 + float(np.log(total)))
            expected = float(np.sum(powers * wide) / total)
            assert (
                abs(slope(x.dtype.type(1), x) - expected)
                <= bound * float(np.sum(powers * abs(wide)) / total) * 2
            )
            if n <= 10**5:
                np.testing.assert_allclose(
                    softmax(x), (powers / total).astype(np.float64), rtol=bound * math.log(n)
                )


# --- bits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_bits_do_not_depend_on_threads(name: str) -> None:
    made = CASES[name]
    function = made.function if name.startswith("d ") else pe.kernel(made.function)
    x = np.random.default_rng(5).normal(size=30_011)
    found = []
    for count in (1, 2, 3, 4, 7):
        with threads(count):
            found.append(np.asarray(function(x)).tobytes())
    assert len(set(found)) == 1


def test_the_machine_agrees_to_rounding() -> None:
    x = terms("random", "float64", 1000)

    def adds(i: Any) -> Generator[Any, Any, None]:
        yield from accum(float(x[int(i)]))

    total, _ = pe.run(pe.handle(accumulate(0.0, operator.add), pe.pfor(pe.Fin(1000), adds)))
    compiled = pe.kernel(by_handler)(x)
    assert abs(total - compiled) <= 1000 * np.finfo(np.float64).eps * total


def test_loops_that_users_write_add_as_they_are_written() -> None:
    x = np.random.default_rng(6).normal(size=1000) * 10.0 ** np.random.default_rng(7).integers(
        -9, 9, 1000
    )

    def in_order(x: Any) -> Any:
        total, lost = 0.0, 0.0
        for i in range(len(x)):
            value = x[i] - lost
            new = total + value
            lost = (new - total) - value
            total = new
        return total, lost

    assert pe.kernel(in_order)(x) == in_order(x.tolist())
