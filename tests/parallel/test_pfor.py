"""`pfor` and `run`: what is looped over, which bodies, and the same results on every executor."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from peffects.errors import IndexSetError, NotAComputationError, TraverseError
from peffects.handlers import accum, accumulate, get, prng, run_state, uniform
from peffects.machine.handling.handler import ParHandler, handle
from peffects.machine.handling.operations import Effect, Operation, effectful
from peffects.parallel import ADD, Executor, Fin, Idx, Serial, Shuffled, Table, Threads, pfor, run

EXECUTORS = [Serial(), Shuffled(5), Threads(1), Threads(3, chunk=1), Threads(3)]
executors = pytest.mark.parametrize("executor", EXECUTORS, ids=repr)


@executors
def test_index_sets_give_indices(executor: Executor) -> None:
    kinds = run(pfor(Fin(2), lambda i: (i, type(i), i.index_set)), executor=executor)
    assert kinds == [(0, Idx, Fin(2)), (1, Idx, Fin(2))]


@executors
def test_sequences_and_arrays_give_elements(executor: Executor) -> None:
    assert run(pfor(["a", "b"], str.upper), executor=executor) == ["A", "B"]
    assert run(pfor(np.array([1.5, 2.5]), float), executor=executor) == [1.5, 2.5]
    rows = run(pfor(np.arange(6).reshape(2, 3), lambda row: int(row.sum())), executor=executor)
    assert rows == [3, 12]
    assert run(pfor(Table.of([1, 2]), lambda x: x + 1), executor=executor) == [2, 3]


@executors
def test_an_empty_loop_gives_an_empty_table(executor: Executor) -> None:
    assert run(pfor(Fin(0), lambda i: 1 // 0), executor=executor) == []


@executors
def test_bodies_may_be_effectful_plain_or_bare_generators(executor: Executor) -> None:
    @effectful
    def calls(i: int) -> Any:
        return (yield from twice(i))

    @effectful
    def twice(i: int) -> Any:
        yield from ()
        return 2 * i

    def bare(i: int) -> Any:
        return (yield from twice(i))

    for body in (calls, twice, bare, lambda i: 2 * i, lambda i: calls(i)):
        assert run(pfor(Fin(3), body), executor=executor) == [0, 2, 4]


@executors
def test_loops_nest(executor: Executor) -> None:
    @effectful
    def row(i: int) -> Any:
        yield from accum(100)
        columns = yield from pfor(Fin(3), lambda j: handle_one(i, j))
        return list(columns)

    @effectful
    def handle_one(i: int, j: int) -> Any:
        yield from accum(1)
        return i * j

    total, rows = run(handle(accumulate(ADD), pfor(Fin(2), row)), executor=executor)
    assert total == 206
    assert rows == [[0, 0, 0], [0, 1, 2]]


@executors
def test_handlers_inside_the_body_are_each_iteration_s_own(executor: Executor) -> None:
    @effectful
    def body(i: int) -> Any:
        return (yield from get()) + i

    answers = run(pfor(Fin(3), lambda i: handle(run_state(10 * i), body(i))), executor=executor)
    assert answers == [(0, 0), (10, 11), (20, 22)]


def test_random_numbers_are_a_function_of_seed_and_place() -> None:
    draws = [
        list(run(handle(prng(3), pfor(Fin(5), lambda i: uniform())), executor=executor))
        for executor in EXECUTORS
    ]
    assert all(d == draws[0] for d in draws)


def test_the_sequential_loop_runs_under_state() -> None:
    @effectful
    def program() -> Any:
        for i in Fin(4):
            yield from accum(i)
        return "done"

    assert run(handle(accumulate(ADD), program())) == (6, "done")


def test_what_is_no_index_set_is_refused() -> None:
    with pytest.raises(IndexSetError) as caught:
        pfor(5, lambda i: i)  # type: ignore[call-overload,unused-ignore]
    assert "Write `pfor(Fin(5), ...)`" in str(caught.value)
    with pytest.raises(IndexSetError):
        pfor({1, 2}, lambda i: i)  # type: ignore[call-overload,unused-ignore]


def test_a_computation_in_place_of_the_body_is_refused() -> None:
    body: Any = accum(1)
    with pytest.raises(NotAComputationError, match="made already"):
        pfor(Fin(2), body)


def test_traverse_errors_name_the_outer_sequential_handler() -> None:
    program = handle(run_state(0), handle(accumulate(ADD), pfor(Fin(2), accum)))
    with pytest.raises(TraverseError, match="handler `run_state`"):
        run(program)


def test_order_of_combination_is_index_order() -> None:
    letters = [a + b for a, b in itertools.product("abc", repeat=2)]
    for executor in EXECUTORS:
        log, _ = run(handle(accumulate("", str.__add__), pfor(letters, accum)), executor=executor)
        assert log == "".join(letters)


def test_iterations_may_start_with_handlers_of_different_kinds() -> None:
    class Name(Effect): ...

    class Say(Operation[Name, str]): ...

    class low(ParHandler[Name]):
        def say(self, op: Say) -> str:
            return "low"

        def traverse(self, n: Any, loop: Any, k: Any) -> Any:
            values = yield from loop(lambda i: high() if i % 2 else self._with())
            return (yield from k(values))

    class high(low):
        def say(self, op: Say) -> str:
            return "high"

    @effectful
    def says(i: int) -> Any:
        return (yield from Say()), (yield from Say())

    for executor in (Serial(), Threads(2)):
        found = run(handle(low(), pfor(Fin(4), says)), executor=executor)
        assert list(found) == [("low", "low"), ("high", "high")] * 2
