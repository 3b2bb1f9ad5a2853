"""Amb: all, first, weighted and parallel worlds; guards; worlds with other handlers around them."""

from __future__ import annotations

import os
import threading
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest

from peffects.errors import EffectArgumentError, TraverseError
from peffects.handlers import (
    Amb,
    accum,
    accumulate,
    all_worlds,
    amb,
    distribution,
    fail,
    first_worlds,
    get,
    guard,
    parallel_worlds,
    prng,
    run_state,
    uniform,
    weighted_worlds,
)
from peffects.machine.handling.handler import handle
from peffects.machine.handling.operations import effectful, once
from peffects.parallel import (
    ADD,
    JOIN,
    Executor,
    Fin,
    Processes,
    Serial,
    Shuffled,
    Threads,
    pfor,
    run,
)

EXECUTORS: list[Executor] = [Serial(), Shuffled(3), Threads(2, chunk=1)]


@effectful
def pythagoras(n: int) -> Any:
    a: int = yield from amb(range(1, n))
    b: int = yield from amb(range(a, n))
    c: int = yield from amb(range(b, n))
    yield from accum(1)
    yield from guard(a * a + b * b == c * c)
    return a, b, c


def test_first_worlds_are_the_first_of_all_worlds_and_the_rest_never_runs() -> None:
    _, worlds = run(handle(accumulate(ADD), handle(all_worlds(), pythagoras(16))))
    runs_before = 0
    for count in (1, 2, 3):
        runs, first = run(handle(accumulate(ADD), handle(first_worlds(count), pythagoras(16))))
        assert first == worlds[:count]
        assert runs > runs_before
        runs_before = runs
    assert run(handle(accumulate(ADD), handle(first_worlds(100), pythagoras(16))))[1] == worlds


@pytest.mark.parametrize("executor", EXECUTORS, ids=repr)
def test_first_worlds_around_a_loop_stop_after_it(executor: Executor) -> None:
    @effectful
    def program() -> Any:
        digits = yield from pfor(Fin(3), lambda i: amb(range(4)))
        yield from accum(1)
        yield from guard(sum(digits) == 5)
        return tuple(digits)

    runs, first = run(
        handle(accumulate(ADD), handle(first_worlds(2), program())), executor=executor
    )
    assert first == [(0, 2, 3), (0, 3, 2)]
    assert runs == 15  # the combinations up to (0, 3, 2)


def test_no_first_world_is_an_empty_list() -> None:
    assert run(handle(first_worlds(), fail())) == []


def test_first_worlds_refuse_a_count_of_zero() -> None:
    with pytest.raises(EffectArgumentError, match="asked for 0 results") as caught:
        first_worlds(0)
    assert caught.value.at.function == "test_first_worlds_refuse_a_count_of_zero"


@effectful
def dice() -> Any:
    a: int = yield from amb(range(1, 7))
    b: int = yield from amb(range(1, 7))
    return a + b


def test_weights_multiply_and_stay_exact() -> None:
    sums = distribution(run(handle(weighted_worlds(), dice())))
    ways = Counter(a + b for a in range(1, 7) for b in range(1, 7))
    assert sums == {total: Fraction(count, 36) for total, count in ways.items()}


@effectful
def disease() -> Any:
    """A test that is right in 99 of 100 cases, for a disease that 1 in 1000 has."""
    is_ill = yield from amb([True, False], [Fraction(1, 1000), Fraction(999, 1000)])
    right, wrong = Fraction(99, 100), Fraction(1, 100)
    positive = yield from amb([True, False], [right, wrong] if is_ill else [wrong, right])
    yield from guard(positive)
    return is_ill


def test_what_is_left_is_the_posterior() -> None:
    worlds = run(handle(weighted_worlds(), disease()))
    assert distribution(worlds)[True] == Fraction(99, 99 + 999)
    evidence = distribution(worlds, normalize=False)
    assert sum(evidence.values()) == Fraction(99 + 999, 100_000)


@pytest.mark.parametrize("executor", EXECUTORS, ids=repr)
def test_weights_of_a_loop_multiply(executor: Executor) -> None:
    @effectful
    def program() -> Any:
        coins = yield from pfor(Fin(3), lambda i: amb("HT", [Fraction(1, 3), Fraction(2, 3)]))
        return "".join(coins).count("H")

    heads = distribution(run(handle(weighted_worlds(), program()), executor=executor))
    assert heads == {
        3: Fraction(1, 27),
        2: Fraction(6, 27),
        1: Fraction(12, 27),
        0: Fraction(8, 27),
    }


def test_an_option_of_weight_zero_never_runs() -> None:
    @effectful
    def program() -> Any:
        return 1 / (yield from amb([0.0, 2.0], [0, 1]))

    assert run(handle(weighted_worlds(), program())) == [(0.5, 1)]


def test_nothing_is_left_of_a_distribution_where_every_world_fails() -> None:
    assert distribution(run(handle(weighted_worlds(), fail()))) == {}


@pytest.mark.parametrize("weights", [[1], [1, -1], [1, float("nan")]])
def test_weights_that_cannot_be_are_refused(weights: list[float]) -> None:
    with pytest.raises(EffectArgumentError, match="`amb` was given 2 options") as caught:
        amb("HT", weights)
    assert caught.value.at.function == "test_weights_that_cannot_be_are_refused"


def test_other_handlers_leave_weights_aside() -> None:
    for handler in (all_worlds(), parallel_worlds(), first_worlds(9)):
        assert run(handle(handler, amb("HT", [0, 1]))) == ["H", "T"]


# --- parallel worlds -----------------------------------------------------------------------------


@effectful
def queens(n: int) -> Any:
    rows: tuple[int, ...] = ()
    for _ in range(n):
        row = yield from amb(range(n))
        yield from guard(all(row not in (r, r + d, r - d) for d, r in enumerate(rows, 1)))
        rows = (row, *rows)
    return rows


@pytest.mark.parametrize("executor", EXECUTORS, ids=repr)
def test_parallel_worlds_are_all_worlds(executor: Executor) -> None:
    expected = run(handle(all_worlds(), queens(5)))
    assert len(expected) == 10
    assert run(handle(parallel_worlds(), queens(5)), executor=executor) == expected


def test_worlds_run_side_by_side_on_threads() -> None:
    meet = threading.Barrier(2, timeout=30)

    @effectful
    def program() -> Any:
        side = yield from amb("LR")
        meet.wait()  # each world waits for the other one
        return side

    assert run(handle(parallel_worlds(), program()), executor=Threads(2, chunk=1)) == ["L", "R"]


@pytest.mark.parametrize("executor", EXECUTORS, ids=repr)
def test_handlers_around_traverse_the_worlds(executor: Executor) -> None:
    @effectful
    def program() -> Any:
        coin = yield from amb("HT")
        yield from accum(coin)
        number = yield from uniform()
        other = yield from amb("ht")
        yield from accum(other)
        return coin + other, number

    worlds = handle(parallel_worlds(), program())
    log, found = run(handle(accumulate(JOIN), handle(prng(1), worlds)), executor=executor)
    assert log == "HhtTht"
    names, numbers = zip(*found, strict=True)
    assert names == ("Hh", "Ht", "Th", "Tt")
    assert numbers[0] == numbers[1] != numbers[2] == numbers[3]


def test_worlds_run_in_other_processes() -> None:
    """What was suspended travels, rebuilds its frames there, and goes on choosing."""
    pytest.importorskip("cloudpickle", reason="an optional extra")
    here = os.getpid()

    @effectful
    def program() -> Any:
        first = yield from amb([1, 2, 3])
        yield from accum(str(first))
        elsewhere = yield from once(os.getpid)
        coins = yield from pfor(Fin(2), lambda i: amb("HT"))
        yield from guard(first != 2)
        return first, "".join(coins), here != elsewhere

    @effectful
    def fails() -> Any:
        if (yield from amb([0, 1])):
            raise ValueError("world 1")

    found = [(first, coins, True) for first in (1, 3) for coins in ("HH", "HT", "TH", "TT")]
    c = handle(accumulate(JOIN), handle(parallel_worlds(), program()))
    with Processes(2) as executor:
        assert run(handle(parallel_worlds(), queens(5)), executor=executor) == run(
            handle(all_worlds(), queens(5))
        )
        assert run(c, executor=executor) == ("123", found)
        with pytest.raises(ValueError, match="world 1") as caught:
            run(handle(parallel_worlds(), fails()), executor=executor)
    assert any("in iteration 1 of the parallel for" in note for note in caught.value.__notes__)


def test_state_cannot_stand_around_parallel_worlds_but_inside() -> None:
    @effectful
    def program() -> Any:
        yield from amb("HT")
        return (yield from get())

    with pytest.raises(TraverseError, match="run_state"):
        run(handle(run_state(1), handle(parallel_worlds(), program())))
    assert run(handle(parallel_worlds(), handle(run_state(1), program()))) == [(1, 1), (1, 1)]


def test_a_loop_inside_parallel_worlds() -> None:
    @effectful
    def program() -> Any:
        a = yield from amb("ab")
        coins = yield from pfor(Fin(2), lambda i: amb("HT"))
        return a + "".join(coins)

    for executor in EXECUTORS:
        worlds = run(handle(parallel_worlds(), program()), executor=executor)
        assert worlds == run(handle(all_worlds(), program()))


def test_instances_branch_apart() -> None:
    class Other(Amb): ...

    @effectful
    def program() -> Any:
        a = yield from amb("ab")
        b = yield from Other.amb("xy", [1, 2])
        yield from Other.guard(a + b != "ax")
        return a + b

    inner = handle(all_worlds(at=Other), program())
    assert run(handle(all_worlds(), inner)) == [["ay"], ["bx", "by"]]
