"""`copy_answers`: worlds with answers of their own, where a program changes what it was given."""

from __future__ import annotations

import asyncio
import copy
import threading
from typing import Any

import pytest

from peffects.errors import AnswerMutated
from peffects.handlers import all_worlds, amb, get, parallel_worlds, run_state
from peffects.machine.checking.debugging import debug_checks
from peffects.machine.handling.clauses import multi
from peffects.machine.handling.handler import Handler, handle
from peffects.machine.handling.operations import Effect, Operation, effectful, once
from peffects.machine.running.pickling import pickled, unpickled
from peffects.parallel import Fin, Serial, Threads, pfor, run, run_async
from peffects.parallel.executors.processes import Processes


@effectful
def makes() -> Any:
    yield from ()
    return [0]


@effectful
def changes_a_result(_: int = 0) -> Any:
    """Changes what a finished call returned, which worlds share unless they get copies."""
    xs: list[int] = yield from makes()
    xs.append((yield from amb([1, 2])))
    xs.append((yield from amb([3, 4])))
    return xs


WORLDS = [[0, 1, 3], [0, 1, 4], [0, 2, 3], [0, 2, 4]]


def test_worlds_share_answers_unless_they_get_copies() -> None:
    shared = run(handle(all_worlds(), changes_a_result()))
    assert all(world is shared[0] for world in shared)
    own = run(handle(all_worlds(), changes_a_result()), copy_answers=copy.deepcopy)
    assert own == WORLDS


def test_what_once_gives_is_an_answer() -> None:
    @effectful
    def program() -> Any:
        xs: list[int] = yield from once(list)
        xs.append((yield from amb([1, 2])))
        return xs

    assert run(handle(all_worlds(), program()), copy_answers=copy.deepcopy) == [[1], [2]]
    with debug_checks(), pytest.raises(AnswerMutated, match=r"the answer to <once"):
        run(handle(all_worlds(), program()))


def test_an_answer_in_a_handlers_state_is_not_changed_by_the_worlds() -> None:
    @effectful
    def program() -> Any:
        xs: list[int] = yield from get()
        xs.append((yield from amb([1, 2])))
        return xs, (yield from get())

    start: list[int] = []
    c = handle(run_state(start), handle(all_worlds(), program()))
    assert run(c, copy_answers=list.copy) == ([], [([1], []), ([2], [])])
    assert start == []


def test_values_that_cannot_be_changed_are_not_copied() -> None:
    copied: list[Any] = []

    def note(answer: Any) -> Any:
        copied.append(answer)
        return copy.copy(answer)

    @effectful
    def program() -> Any:
        yield from get()
        return (yield from amb(["a", 2, None, (3,)]))

    c = handle(run_state(1.5), handle(all_worlds(), program()))
    assert run(c, copy_answers=note) == (1.5, ["a", 2, None, (3,)])
    assert copied == [(3,)]


def test_without_worlds_nothing_is_copied() -> None:
    def refuse(answer: Any) -> Any:
        raise AssertionError("invariant: no log, no copies")

    assert run(handle(run_state([1]), get()), copy_answers=refuse) == ([1], [1])


@pytest.mark.parametrize("executor", [Serial(), Threads(2), Processes(2)], ids=repr)
@pytest.mark.parametrize("worlds", [all_worlds, parallel_worlds])
def test_iterations_and_parallel_worlds_copy_too(executor: Any, worlds: Any) -> None:
    loop = pfor(Fin(3), lambda i: handle(worlds(), changes_a_result(i)))
    assert list(run(loop, executor=executor, copy_answers=copy.deepcopy)) == [WORLDS] * 3
    c = handle(worlds(), changes_a_result())
    assert run(c, executor=executor, copy_answers=copy.deepcopy) == WORLDS
    if isinstance(executor, Processes):
        executor.close()


def test_a_program_that_waits_copies_too() -> None:
    c = handle(all_worlds(), changes_a_result())
    assert asyncio.run(run_async(c, copy_answers=copy.deepcopy)) == WORLDS


def test_copies_need_no_fingerprints() -> None:
    with debug_checks():
        assert run(handle(all_worlds(), changes_a_result()), copy_answers=copy.deepcopy) == WORLDS


@pytest.mark.parametrize("before_a_call_ends", [False, True])
def test_what_cannot_be_copied_fails_where_it_was_asked_for(before_a_call_ends: bool) -> None:
    @effectful
    def locks() -> Any:
        yield from ()
        return threading.Lock()

    @effectful
    def program() -> Any:
        try:
            lock: Any = yield from (locks() if before_a_call_ends else get())
        except TypeError as error:
            return (yield from amb([1, 2])), error.__notes__[0]
        return lock

    c = handle(all_worlds(), handle(run_state(threading.Lock()), program()))
    answers = run(c, copy_answers=copy.deepcopy)
    assert [n for _, (n, _) in answers] == [1, 2]
    assert answers[0][1][1].startswith("`copy_answers` was to copy the answer <unlocked")


class Ask(Effect): ...


class Question(Operation[Ask, int]): ...


class keeps(Handler[Ask]):
    @multi
    def question(self, op: Question, k: Any) -> Any:
        return pickled(k)


def test_a_suspended_computation_takes_its_copies_along() -> None:
    @effectful
    def program() -> Any:
        xs: list[int] = yield from makes()
        xs.append((yield from Question()))
        return xs

    @effectful
    def twice(data: bytes) -> Any:
        k = unpickled(data)
        first: list[int] = yield from k(1)
        second: list[int] = yield from k(2)
        return first, second

    data = run(handle(keeps(), program()), copy_answers=copy.deepcopy)
    assert run(twice(data)) == ([0, 1], [0, 2])
