"""Scan: running sums in sequences, loops and loops of loops; what two phases cannot do."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peffects.errors import ScanDependenceError
from peffects.handlers import Scan, accum, accumulate, prefix_sums, scan
from peffects.machine.handling.handler import handle
from peffects.machine.handling.operations import effectful
from peffects.parallel import (
    ADD,
    JOIN,
    LIST,
    MAX,
    Executor,
    Fin,
    Serial,
    Shuffled,
    Threads,
    arrays,
    pfor,
    run,
    tuple_of,
)

EXECUTORS: list[Executor] = [Serial(), Shuffled(3), Threads(2, chunk=1)]


@given(st.lists(st.integers()))
def test_a_loop_gives_the_sums_before_each(values: list[int]) -> None:
    expected = list(itertools.accumulate(values, initial=0))
    for executor in EXECUTORS:
        total, before = run(handle(prefix_sums(ADD), pfor(values, scan)), executor=executor)
        assert [*before, total] == expected


@given(st.lists(st.floats(allow_nan=True)))
def test_running_extremes(values: list[float]) -> None:
    total, before = run(handle(prefix_sums(MAX), pfor(values, scan)))
    for i, found in enumerate([*before, total]):
        expected = MAX.empty
        for value in values[:i]:
            expected = MAX.combine(expected, value)
        assert found == expected or (found != found and expected != expected)


@pytest.mark.parametrize("executor", EXECUTORS, ids=repr)
def test_before_and_after_a_loop_and_in_nested_loops(executor: Executor) -> None:
    @effectful
    def cell(i: int, j: int) -> Any:
        first = yield from scan(f"{i}{j}")
        return first, (yield from scan("."))

    @effectful
    def program() -> Any:
        start = yield from scan("a")
        cells = yield from pfor(Fin(2), lambda i: pfor(Fin(2), lambda j: cell(i, j)))
        return start, cells, (yield from scan("z"))

    total, (start, cells, end) = run(handle(prefix_sums(JOIN), program()), executor=executor)
    assert (start, end, total) == ("", "a00.01.10.11.", "a00.01.10.11.z")
    assert [list(row) for row in cells] == [
        [("a", "a00"), ("a00.", "a00.01")],
        [("a00.01.", "a00.01.10"), ("a00.01.10.", "a00.01.10.11")],
    ]


def test_where_things_go_when_some_are_left_out() -> None:
    """Stream compaction: each kept value learns its place."""

    @effectful
    def place(x: int) -> Any:
        return (yield from scan(1)) if x > 5 else None

    kept, places = run(handle(prefix_sums(ADD), pfor([0, 7, -1, 6], place)))
    assert (kept, places) == (2, [None, 0, None, 1])


def test_arrays_add_up() -> None:
    total, before = run(
        handle(prefix_sums(arrays(2)), pfor(Fin(3), lambda i: scan(np.full(2, float(i)))))
    )
    assert [row.tolist() for row in before] == [[0, 0], [0, 0], [1, 1]]
    assert total.tolist() == [3, 3]


def test_effects_outside_happen_twice_and_inside_once() -> None:
    @effectful
    def body(i: int) -> Any:
        yield from accum([int(i)])
        return (yield from scan(1))

    outside = handle(accumulate(LIST), handle(prefix_sums(ADD), pfor(Fin(2), body)))
    assert run(outside) == ([0, 1, 0, 1], (2, [0, 1]))
    inside = handle(prefix_sums(ADD), handle(accumulate(LIST), pfor(Fin(2), body)))
    assert run(inside) == (2, ([0, 1], [0, 1]))


def test_a_sum_that_depends_on_the_sums_before_is_refused() -> None:
    @effectful
    def doubles(i: int) -> Any:
        before = yield from scan(1)
        yield from scan(before)

    with pytest.raises(ScanDependenceError, match="iteration 1 added 1 when it ran first, and 2"):
        run(handle(prefix_sums(ADD), pfor(Fin(3), doubles)))

    @effectful
    def sequentially() -> Any:
        for i in Fin(3):
            yield from doubles(i)

    assert run(handle(prefix_sums(ADD), sequentially())) == (7, None)


def test_arrays_that_depend_on_the_sums_before_are_refused() -> None:
    @effectful
    def doubles(i: int) -> Any:
        before = yield from scan(np.ones(2))
        yield from scan(before)

    with pytest.raises(ScanDependenceError):
        run(handle(prefix_sums(arrays(2)), pfor(Fin(2), doubles)))


def test_instances_add_up_apart() -> None:
    class Other(Scan[int]): ...

    @effectful
    def program() -> Any:
        return (yield from scan(1)), (yield from Other.scan(10)), (yield from scan(1))

    inner = handle(prefix_sums(0, int.__add__), program())
    assert run(handle(prefix_sums(ADD, at=Other), inner)) == (10, (2, (0, 0, 1)))


def test_two_running_sums_of_one_loop_are_one_of_pairs() -> None:
    """The inner of two handlers would run the loop twice, and the outer one count it twice."""
    total, before = run(
        handle(prefix_sums(tuple_of(ADD, MAX)), pfor([3, 1, 5], lambda x: scan((x, x))))
    )
    assert total == (9, 5)
    assert before == [(0, MAX.empty), (3, 3), (4, 3)]
