"""Frames that run again for a further world: what is compared, and which `k` is used there."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest

from peffects.errors import ReplayDivergence, ResumptionAlreadyUsed, ResumptionExpired
from peffects.handlers import all_worlds, amb
from peffects.machine.handling.clauses import multi
from peffects.machine.handling.handler import Handler, handle, handler
from peffects.machine.handling.operations import Effect, Operation, effectful
from peffects.parallel import run


class Ask(Effect): ...


class Question(Operation[Ask, Any]): ...


class Log(Effect): ...


class Note(Operation[Log, None]):
    what: Any


class saves(Handler[Ask]):
    """Answers with the question's resumption."""

    def question(self, op: Question, k: Any) -> Any:
        return k


@effectful
def asks_and_chooses() -> Any:
    answer: str = yield from Question()
    return answer, (yield from amb([1, 2]))


def test_in_a_further_world_k_is_as_used_as_in_the_first() -> None:
    class resumes_and_drops(Handler[Ask]):
        def question(self, op: Question, k: Any) -> Any:
            answer = yield from k("once")
            yield from k.drop()  # nothing is left of it
            return answer

    worlds = run(handle(all_worlds(), handle(resumes_and_drops(), asks_and_chooses())))
    assert worlds == [("once", 1), ("once", 2)]


def test_in_a_further_world_k_is_refused_a_second_time_too() -> None:
    class resumes_twice(Handler[Ask]):
        def question(self, op: Question, k: Any) -> Any:
            answer = yield from k("once")
            try:
                return (yield from k("again"))
            except ResumptionAlreadyUsed:
                return answer

    worlds = run(handle(all_worlds(), handle(resumes_twice(), asks_and_chooses())))
    assert worlds == [("once", 1), ("once", 2)]


@pytest.mark.parametrize("make", [lambda: float("nan"), lambda: complex(0.0, float("nan"))])
def test_a_nan_that_is_made_anew_is_the_same(make: Any) -> None:
    @effectful
    def program() -> Any:
        yield from Note(make())
        return (yield from amb([1, 2]))

    silent = handler(Note, lambda op: None)
    assert run(handle(silent, handle(all_worlds(), program()))) == [1, 2]


def test_what_was_dropped_expires_although_it_could_have_many_worlds() -> None:
    class drops_and_resumes(Handler[Ask]):
        @multi
        def question(self, op: Question, k: Any) -> Any:
            yield from k.drop()
            return (yield from k("late"))

    with pytest.raises(ResumptionExpired, match="used after it was dropped"):
        run(handle(drops_and_resumes(), handle(all_worlds(), asks_and_chooses())))


def test_a_body_of_with_that_fails_is_no_resource_that_cannot_be_had_again() -> None:
    runs: list[int] = []

    @effectful
    def program() -> Any:
        with contextlib.nullcontext():
            runs.append(len(runs))
            if runs[-1]:
                raise LookupError("not again")
            return (yield from amb([1, 2]))

    with pytest.raises(ReplayDivergence, match="it raised LookupError"):
        run(handle(all_worlds(), program()))


# --- copies of a resumption ----------------------------------------------------------------------


def test_each_copy_of_a_resumption_that_can_run_again_is_used_once() -> None:
    @effectful
    def asks() -> Any:
        return (yield from Question())

    @effectful
    def program() -> Any:
        k = yield from handle(saves(), asks())
        copied = copy.deepcopy(k)
        answers = (yield from k("original")), (yield from copied("copy"))
        used = copy.deepcopy(k)
        assert repr(used) == repr(k)
        with pytest.raises(ResumptionAlreadyUsed):
            yield from used("late")
        return answers

    assert run(handle(all_worlds(), program())) == [("original", "copy")]


def test_a_resumption_that_cannot_run_again_is_its_own_copy() -> None:
    @effectful
    def program() -> Any:
        k = yield from handle(saves(), asks_and_chooses())
        assert copy.deepcopy(k) is k
        return (yield from k.drop())

    assert run(program()) is None
