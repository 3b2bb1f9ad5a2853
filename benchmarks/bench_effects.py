"""The machine against `stateless` and `effectful`, and against itself.

A loop of `get` and `put` under one state handler: each library in its plainest style, handlers
installed once, 2000 pairs a call.  `stateless` drives generators like us; in `effectful` operations
are calls that look their handler up.  Then what an operation costs under a thousand calls against
under one, multi-shot search against the same search in hand-written continuation-passing style,
and what an iteration of a parallel `for` costs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import bare_replay
from bare_replay import Request
from effectful.ops.semantics import handler as effectful_handler
from effectful.ops.syntax import defop
from stateless import Ability
from stateless import handle as stateless_handle
from stateless import run as stateless_run
from timing import Row, alone, compare

from peffects import Fin, effectful, handle, pfor, run
from peffects.handlers import accum, accumulate, all_worlds, amb, fail, get, put, run_state
from peffects.parallel import ADD

PAIRS = 2000
PAIRS_BELOW = 20_000  # so many that the calls above them do not count
ITERATIONS = 2000
QUEENS = 8


@effectful
def ours(pairs: int) -> Any:
    """The loop with peffects."""
    for _ in range(pairs):
        n: int = yield from get()
        yield from put(n + 1)


@dataclass(frozen=True)
class Get(Ability[int]):
    """Read, with stateless."""


@dataclass(frozen=True)
class Put(Ability[None]):
    """Write, with stateless."""

    value: int


def with_stateless(pairs: int) -> int:
    """The loop with stateless."""
    state = 0

    def on_get(_: Get) -> int:
        return state

    def on_put(ability: Put) -> None:
        nonlocal state
        state = ability.value

    def counts() -> Generator[Any, Any, None]:
        for _ in range(pairs):
            n: int = yield from Get()
            yield from Put(n + 1)

    stateless_run(stateless_handle(on_put)(stateless_handle(on_get)(counts))())
    return state


@defop
def read() -> int:
    """Read, with effectful."""
    raise NotImplementedError


@defop
def write(value: int) -> None:
    """Write, with effectful."""
    raise NotImplementedError


def with_effectful(pairs: int) -> int:
    """The loop with effectful."""
    state = 0

    def on_write(value: int) -> None:
        nonlocal state
        state = value

    with effectful_handler({read: lambda: state, write: on_write}):
        for _ in range(pairs):
            write(read() + 1)
    return state


@effectful
def below(depth: int, pairs: int) -> Any:
    """The loop, `depth` calls below."""
    if depth == 0:
        return (yield from ours(pairs))
    return (yield from below(depth - 1, pairs))


def safe(queen: int, queens: tuple[int, ...]) -> bool:
    """Whether no queen attacks the new one."""
    return all(queen not in (q, q + d, q - d) for d, q in enumerate(queens, 1))


@effectful
def place(column: int) -> Any:
    """Queens on the first columns, or failure; recursive as in effect-handlers-bench."""
    if column == 0:
        return ()
    queens = yield from place(column - 1)
    queen: int = yield from amb(range(1, QUEENS + 1))
    if not safe(queen, queens):
        yield from fail()
    return (queen, *queens)


def place_cps(column: int, k: Callable[[tuple[int, ...]], list[Any]]) -> list[Any]:
    """The same with explicit continuations."""
    if column == 0:
        return k(())

    def with_queens(queens: tuple[int, ...]) -> list[Any]:
        results = []
        for queen in range(1, QUEENS + 1):
            if safe(queen, queens):
                results += k((queen, *queens))
        return results

    return place_cps(column - 1, with_queens)


def place_bare(column: int) -> Generator[Any, Any, tuple[int, ...]]:
    """The same for `bare_replay`."""
    if column == 0:
        return ()
    queens = yield from Request(place_bare, (column - 1,))
    queen: int = yield from Request(None, tuple(range(1, QUEENS + 1)))
    if not safe(queen, queens):
        yield from Request(None, ())
    return (queen, *queens)


@effectful
def empty(i: int) -> Any:
    """An effectful body that does nothing."""
    return i
    yield


@effectful
def tells(i: int) -> Any:
    """An effectful body that accumulates once."""
    yield from accum(i)


def main() -> list[Row]:
    """Check that all agree, then time."""
    assert run(handle(run_state(0), ours(PAIRS)))[0] == with_stateless(PAIRS) == PAIRS
    assert with_effectful(PAIRS) == PAIRS
    solutions = run(handle(all_worlds(), place(QUEENS)))
    assert solutions == place_cps(QUEENS, lambda queens: [queens])
    assert solutions == bare_replay.all_worlds(Request(place_bare, (QUEENS,)))

    def count() -> object:
        return run(handle(run_state(0), ours(PAIRS)))

    def count_below(depth: int) -> object:
        return run(handle(run_state(0), below(depth, PAIRS_BELOW)))

    numbers = Fin(ITERATIONS)
    return [
        compare("state pairs", count, lambda: with_stateless(PAIRS), against="stateless"),
        compare("state pairs", count, lambda: with_effectful(PAIRS), against="effectful", rounds=7),
        compare(
            "under 1000 calls",
            lambda: count_below(1000),
            lambda: count_below(1),
            against="under 1",
        ),
        compare(
            "queens, all worlds",
            lambda: run(handle(all_worlds(), place(QUEENS))),
            lambda: place_cps(QUEENS, lambda queens: [queens]),
            against="by hand, CPS",
        ),
        compare(
            "queens, bare replay",
            lambda: bare_replay.all_worlds(Request(place_bare, (QUEENS,))),
            lambda: place_cps(QUEENS, lambda queens: [queens]),
            against="by hand, CPS",
        ),
        alone("2000 empty iterations", lambda: run(pfor(numbers, empty))),
        alone(
            "2000 accumulating",
            lambda: run(handle(accumulate(ADD), pfor(numbers, tells))),
        ),
    ]
