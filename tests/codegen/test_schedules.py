"""What chunks leave is put together in their order, whatever order they ran in.

The pool here is a script: it runs the chunks of a team in the order that the test asks for, all of
them, as threads that have already taken theirs when another one fails.  So nothing depends on luck.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.codegen.launch import threads as driver
from peffects.codegen.launch.pool import TEAM_WORDS
from peffects.errors import BoundsError

Order = Callable[[range], Sequence[int]]


def forwards(chunks: range) -> Sequence[int]:
    return chunks


def backwards(chunks: range) -> Sequence[int]:
    return chunks[::-1]


def odd_ones_first(chunks: range) -> Sequence[int]:
    return [*chunks[1::2], *chunks[::2]]


ORDERS: list[Order] = [forwards, backwards, odd_ones_first]


class Scripted:
    """A pool that runs the chunks of each team one after the other, in a given order."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.teams: list[int] = []

    def run(self, team: int, threads: int) -> None:
        words = (ctypes.c_int64 * TEAM_WORDS).from_address(team)
        _, chunks, address, frame = words
        self.teams.append(chunks)
        kernel = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(address)
        for chunk in self.order(range(chunks)):
            kernel(chunk, frame)


@pytest.fixture(params=ORDERS, ids=lambda order: order.__name__)
def pool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    scripted = Scripted(request.param)
    monkeypatch.setattr(driver, "current_pool", lambda: scripted)
    yield scripted
    assert scripted.teams and min(scripted.teams) > 3, "the loop was cut into chunks"


N = 400_000


def chunk_starts(count: int) -> list[int]:
    """Where chunks begin, if there are `count` of them."""
    return [N * chunk // count for chunk in range(count)]


def ordered_values(chunks: int) -> np.ndarray:
    """Zeros, but for the first three chunks: 1e16 - 1e16 + 1 is 1, and from behind it is 0."""
    x = np.zeros(N)
    x[chunk_starts(chunks)[:3]] = 1e16, -1e16, 1.0
    assert np.add.reduce([1e16, -1e16, 1.0]) == 1.0 and np.add.reduce([1.0, -1e16, 1e16]) == 0.0
    return x


def chunks_of(pool: Scripted, call: Callable[[], object]) -> int:
    """Into how many chunks the first parallel loop of a call is cut."""
    del pool.teams[:]
    call()
    return pool.teams[0]


@pe.kernel
def total(x):  # type: ignore[no-untyped-def]
    return pe.sum(lambda i: x[i] * 1.0)


@pe.kernel
def histogram(x, bins):  # type: ignore[no-untyped-def]
    h = pe.accumulator(3)
    for i in pe.par(x.index):
        h[bins[i]] += x[i]
    return h


@pe.kernel
def histogram_and_total(x, bins):  # type: ignore[no-untyped-def]
    h, s = pe.accumulator(3), pe.accumulator()
    for i in pe.par(x.index):
        h[bins[i]] += x[i]
        s += x[i]
    return h, s


@pe.kernel
def picked(x, at):  # type: ignore[no-untyped-def]
    return pe.table(lambda i: x[at[i]])


@pe.kernel
def told(x):  # type: ignore[no-untyped-def]
    for i in pe.par(x.index):
        if x[i] > 0.0:
            print("at", i)
    return x[0]


def test_parts_of_a_sum_are_combined_in_order(pool: Scripted) -> None:
    x = ordered_values(chunks_of(pool, lambda: total(np.zeros(N))))
    assert total(x) == 1.0


def test_parts_of_a_table_are_combined_in_order(pool: Scripted) -> None:
    bins = np.ones(N, np.int64)
    x = ordered_values(chunks_of(pool, lambda: histogram(np.zeros(N), bins)))
    assert histogram(x, bins).tolist() == [0.0, 1.0, 0.0]


def test_parts_of_a_table_and_a_number_are_combined_in_order(pool: Scripted) -> None:
    bins = np.ones(N, np.int64)
    x = ordered_values(chunks_of(pool, lambda: histogram_and_total(np.zeros(N), bins)))
    h, s = histogram_and_total(x, bins)
    assert (h.tolist(), s) == ([0.0, 1.0, 0.0], 1.0)


@pytest.mark.parametrize("bad", [(10, N - 10), (N // 2, N - 1), (N // 3, 2 * N // 3)])
def test_first_failing_iteration_is_reported(pool: Scripted, bad: tuple[int, int]) -> None:
    at = np.zeros(N, np.int64)
    at[[*bad]] = 1001, 1002
    with pytest.raises(BoundsError, match="1001"):
        picked(np.zeros(5), at)


def test_printed_lines_are_in_order(pool: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.zeros(N)
    places = [3, N // 3, N // 2, N - 2]
    x[places] = 1.0
    told(x)
    assert capsys.readouterr().out.split() == [w for p in places for w in ("at", str(p))]


# --- the order of combination, which products show -----------------------------------------------


@pe.kernel
def product(x: Any) -> Any:
    return pe.prod(lambda i: x[i])


@pe.kernel
def products(x: Any) -> Any:
    h = pe.accumulator(2, op="mul")
    for i in pe.par(x):
        h[int(i) % 2] *= x[i]
    return h


@pe.kernel
def counts(x: Any) -> Any:
    h = pe.accumulator(2, dtype=int)
    for i in pe.par(x):
        h[int(i) % 2] += 1
    return h


def test_chunks_are_combined_in_index_order() -> None:
    """Large factors first overflow; the other way round, small ones first, all is zero."""
    n = 1_000_002
    x = np.ones(n)
    x[[0, n // 3]], x[[2 * n // 3, n - 1]] = 1e200, 1e-200
    assert product(x) == np.inf
    assert product(x[::-1].copy()) == 0.0
    pairs = np.repeat(x[::2], 2)  # the same factors at even and at odd places
    pairs[[n - 2, n - 1]] = 1e-200
    assert products(pairs).tolist() == [np.inf, np.inf]
    assert products(pairs[::-1].copy()).tolist() == [0.0, 0.0]


def test_each_chunk_is_combined_once() -> None:
    assert counts(np.ones(1_000_001)).tolist() == [500_001, 500_000]
