"""Computations and resumptions as bytes, given back in this process and in another."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from peffects.errors import MissingExtraError, NotPicklable, ResumptionAlreadyUsed
from peffects.handlers import accum, accumulate, all_worlds, amb, get, put, reader, run_state
from peffects.handlers.reader import Reader, ask
from peffects.machine.handling.clauses import multi
from peffects.machine.handling.handler import Handler, handle
from peffects.machine.handling.masking import mask
from peffects.machine.handling.operations import Effect, Operation, effectful
from peffects.machine.running.by_value import cloudpickle
from peffects.machine.running.pickling import pickled, unpickled
from peffects.parallel import Fin, pfor, run


class Ask(Effect): ...


class Question(Operation[Ask, Any]):
    text: str


class freezes(Handler[Ask]):
    """Answers with the rest of the computation as bytes."""

    @multi
    def question(self, op: Question, k: Any) -> Any:
        return pickled(k)


class freezes_once(Handler[Ask]):
    def question(self, op: Question, k: Any) -> Any:
        return pickled(k)


@effectful
def counts(by: int) -> Any:
    s: int = yield from get()
    yield from put(s + by)
    return s


@effectful
def interview(name: str) -> Any:
    before = yield from counts(1)
    answer = yield from Question(name)
    after = yield from counts(len(answer))
    return name, before, answer, after


@effectful
def resumes(data: bytes, answer: str) -> Any:
    return (yield from unpickled(data)(answer))


@effectful
def body(i: int) -> Any:
    yield from accum(i)
    return i * i


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: handle(run_state(3), counts(4)), (7, 3)),
        (lambda: handle(accumulate(0, int.__add__), pfor(Fin(3), body)), (3, [0, 1, 4])),
        (lambda: handle(accumulate(0, int.__add__), pfor([5, 6], body)), (11, [25, 36])),
        (lambda: handle(reader(1), handle(reader(2), mask(Reader, ask()))), 1),
    ],
)
def test_a_computation_is_pickled_by_plain_pickle(make: Any, expected: Any) -> None:
    again = pickle.loads(pickle.dumps(make()))
    assert run(again) == expected
    assert run(unpickled(pickled(make()))) == expected


def test_lambdas_and_local_functions_need_cloudpickle(monkeypatch: pytest.MonkeyPatch) -> None:
    @effectful
    def local(n: int) -> Any:
        return (yield from get()) + n

    computation = handle(run_state(1), local(2))
    assert run(unpickled(pickled(computation))) == (1, 3)
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(NotPicklable, match=r"pip install 'peffects\[processes\]'"):
        pickled(computation)
    with pytest.raises(MissingExtraError, match="needs cloudpickle"):
        cloudpickle()


def test_parts_that_cannot_be_pickled_are_refused() -> None:
    with pytest.raises(NotPicklable, match=r"counts\(.*lock.*cannot be pickled.*lock"):
        pickled(counts(cast(Any, threading.Lock())))


def test_a_suspended_computation_is_resumed_from_bytes_as_often_as_wanted() -> None:
    data = run(cast(Any, handle(freezes(), handle(run_state(5), interview("Ada")))))
    assert isinstance(data, bytes)
    assert run(resumes(data, "yes")) == (9, ("Ada", 5, "yes", 6))
    assert run(resumes(data, "no")) == (8, ("Ada", 5, "no", 6))


def test_a_suspended_computation_is_resumed_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "frozen"
    path.write_bytes(run(cast(Any, handle(freezes(), handle(run_state(5), interview("Ada"))))))
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from machine.test_pickling import resumes, run
print(run(resumes(open({str(path)!r}, "rb").read(), "yes")))
"""
    # A module of the child must have the name that it had here.
    code = code.replace("machine.test_pickling import", f"{__name__} import")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert done.stdout.strip() == "(9, ('Ada', 5, 'yes', 6))", done.stderr


def test_clauses_masks_and_chosen_worlds_are_kept_in_the_bytes() -> None:
    class outer(Handler[Reader[int]]):
        def ask(self, op: Any, k: Any) -> Any:
            answer = yield from Question("outer")
            return (yield from k(answer))

    @effectful
    def asks() -> Any:
        n: int = yield from amb([10, 20])
        return (yield from mask(Reader, ask())) + (yield from ask()) + n

    program = handle(freezes(), handle(outer(), handle(all_worlds(), handle(reader(1), asks()))))
    data = run(cast(Any, program))

    @effectful
    def whole() -> Any:
        again = yield from handle(freezes(), unpickled(data)(100))
        return (yield from unpickled(again)(200))

    assert run(whole()) == [111, 221]


def test_a_resumption_without_a_log_is_refused() -> None:
    refused = pytest.raises(NotPicklable, match=r"`Question` .* no handler with a `@multi` clause")
    with refused as caught:
        run(cast(Any, handle(freezes_once(), handle(run_state(5), interview("Ada")))))
    assert caught.value.at.function == "question"


def test_a_resumption_that_is_used_up_is_refused() -> None:
    class too_late(Handler[Ask]):
        def question(self, op: Question, k: Any) -> Any:
            answer = yield from k("now")
            pickled(k)
            return answer

    with pytest.raises(NotPicklable, match=r"`Question` .* it is used up"):
        run(cast(Any, handle(too_late(), handle(run_state(5), interview("Ada")))))


class saves(Handler[Ask]):
    """Answers with the rest of the computation, which runs once."""

    def question(self, op: Question, k: Any) -> Any:
        return k


@effectful
def calls(depth: int) -> Any:
    if depth:
        return [depth, (yield from calls(depth - 1))]
    return (yield from Question("deep"))


def test_the_frames_of_calls_are_kept_in_their_order() -> None:
    data = run(cast(Any, handle(freezes(), calls(3))))
    assert run(resumes(data, "answer")) == [3, [2, [1, "answer"]]]


def test_what_runs_once_is_as_used_in_the_bytes_as_it_was() -> None:
    @effectful
    def program() -> Any:
        k = yield from handle(saves(), calls(1))
        fresh = unpickled(pickled(k))
        first = yield from k("first")
        used = unpickled(pickled(k))
        assert repr(used) == repr(k)
        with pytest.raises(ResumptionAlreadyUsed):
            yield from used("again")
        return first, (yield from fresh("fresh"))

    worlds = run(cast(Any, handle(all_worlds(), program())))
    assert worlds == [([1, "first"], [1, "fresh"])]


def test_a_function_defined_in_a_frame_is_the_same_in_each_world() -> None:
    @effectful
    def program() -> Any:
        @effectful
        def local(n: int) -> Any:
            return (yield from amb([n, -n]))

        first: int = yield from local(1)
        return first, (yield from local(2))

    assert run(handle(all_worlds(), program())) == [(1, 2), (1, -2), (-1, 2), (-1, -2)]


def test_a_class_that_comes_back_to_where_it_was_defined_is_as_it_is_there() -> None:
    class Local:
        count = 1

    data = pickled(Local)
    Local.count = 2
    assert unpickled(data) is Local
    assert Local.count == 2
