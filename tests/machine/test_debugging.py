"""Debug mode: answers that were changed, and resumptions that a clause forgot."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from typing import Any, cast

import pytest

from peffects.errors import AnswerMutated, UnresumedResumption
from peffects.handlers import all_worlds, amb, get, run_state, weak_exceptions
from peffects.handlers.throw import throw
from peffects.machine.checking.debugging import debug_checks, debugging
from peffects.machine.handling.clauses import final, multi
from peffects.machine.handling.handler import Handler, ParHandler, handle
from peffects.machine.handling.operations import Effect, Operation, effectful
from peffects.parallel import Fin, Threads, pfor, run


class Ask(Effect): ...


class Question(Operation[Ask, Any]): ...


class forgets(Handler[Ask]):
    def question(self, op: Question, k: Any) -> Any:
        return "forgotten"


class keeps(Handler[Ask]):
    def question(self, op: Question, k: Any) -> Any:
        return k


class drops(Handler[Ask]):
    def question(self, op: Question, k: Any) -> Any:
        yield from k.drop()
        return "dropped"


class leaves(Handler[Ask]):
    @final
    def question(self, op: Question) -> Any:
        yield from ()
        return "left"


class forgets_worlds(Handler[Ask]):
    @multi
    def question(self, op: Question, k: Any) -> Any:
        return "forgotten"


@effectful
def changes_an_answer(change: bool) -> Any:
    xs: list[int] = yield from get()
    if change:
        xs.append(0)
    yield from amb([1, 2])
    return len(xs)


@pytest.mark.parametrize("inner_first", [True, False])
def test_a_changed_answer_is_found_when_its_frame_is_rebuilt(inner_first: bool) -> None:
    def program(change: bool) -> Any:
        if inner_first:
            return handle(all_worlds(), handle(run_state([]), changes_an_answer(change)))
        return handle(run_state([]), handle(all_worlds(), changes_an_answer(change)))

    with debug_checks():
        run(program(False))
        with pytest.raises(AnswerMutated, match=r"answer to Get\(\) was changed") as caught:
            run(program(True))
    assert "(it is [0] now)" in str(caught.value)
    assert caught.value.at.function == "changes_an_answer"


def test_changed_answers_of_calls_and_iterations_are_found_too() -> None:
    @effectful
    def makes() -> Any:
        yield from ()
        return []

    @effectful
    def program() -> Any:
        xs: list[int] = yield from makes()
        xs.append((yield from amb([1, 2])))
        yield from amb([3])
        return xs

    with debug_checks(), pytest.raises(AnswerMutated, match=r"<makes\(\), not performed>"):
        run(handle(all_worlds(), program()))
    with debug_checks(), pytest.raises(AnswerMutated):
        run(pfor(Fin(2), lambda i: handle(all_worlds(), program())), executor=Threads(2))


def test_an_answer_without_bytes_is_left_alone() -> None:
    @effectful
    def program() -> Any:
        f: Any = yield from get()
        n: int = yield from amb([1, 2])
        return f(n)

    with debug_checks():
        under = handle(run_state(lambda n: n + 1), handle(all_worlds(), program()))
        assert run(cast(Any, under))[1] == [2, 3]


@effectful
def guarded() -> Any:
    try:
        yield from Question()
    finally:
        pass


@effectful
def plain() -> Any:
    try:
        yield from ()
    finally:
        pass
    yield from Question()


@effectful
def keeps_k() -> Any:
    yield from handle(keeps(), guarded())
    return "kept"


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        (lambda: handle(forgets(), guarded()), "forgotten"),
        (lambda: handle(forgets_worlds(), guarded()), "forgotten"),
        (keeps_k, "kept"),
    ],
)
def test_a_forgotten_resumption_with_a_finally_is_warned_about(program: Any, answer: str) -> None:
    with (
        debug_checks(),
        pytest.warns(UnresumedResumption, match=r"nobody resumed `Question`") as caught,
    ):
        assert run(program()) == answer
    [warning] = [str(w.message) for w in caught]
    assert "test_debugging.py" in warning
    assert "in guarded" in warning
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(program()) == answer  # not outside debug mode


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        (lambda: handle(forgets(), plain()), "forgotten"),
        (lambda: handle(drops(), guarded()), "dropped"),
        (lambda: handle(leaves(), guarded()), "left"),
    ],
)
def test_what_is_meant_or_makes_no_difference_is_not_warned_about(
    program: Any, answer: str
) -> None:
    with debug_checks(), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(program()) == answer


def test_a_loop_that_threw_is_not_warned_about() -> None:
    @effectful
    def program() -> Any:
        try:
            yield from pfor(Fin(2), throw)
        finally:
            pass

    with debug_checks(), warnings.catch_warnings():
        warnings.simplefilter("error")
        run(handle(weak_exceptions(), program()))


def test_the_rest_after_a_loop_that_a_clause_leaves_out_is_not_warned_about() -> None:
    class leaves_out(ParHandler[Ask]):
        @final
        def question(self, op: Question) -> None: ...

        def traverse(self, n: Any, loop: Any, k: Any) -> Any:
            return (yield from loop())

    @effectful
    def program() -> Any:
        try:
            yield from pfor(Fin(2), lambda i: int(i))
        finally:
            pass

    with debug_checks(), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(run(handle(leaves_out(), program()))) == [0, 1]


@pytest.mark.parametrize(("value", "expected"), [("1", "True"), ("0", "False"), ("", "False")])
def test_the_environment_turns_it_on(value: str, expected: str) -> None:
    code = "from peffects.machine.checking.debugging import debugging; print(debugging())"
    env = {**os.environ, "PEFFECTS_DEBUG": value}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.strip() == expected


def test_debug_ends_with_its_block_and_can_be_turned_off_inside() -> None:
    before = debugging()
    with debug_checks():
        assert debugging()
        with debug_checks(False):
            assert not debugging()
    assert debugging() == before
