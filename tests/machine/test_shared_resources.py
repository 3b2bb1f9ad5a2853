"""Resources of worlds: a `with` is entered once a world, `shared(...)` once for all of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from peffects.errors import (
    NotAComputationError,
    ResourceNotReplayable,
    ResumedConcurrently,
    ResumptionAlreadyUsed,
)
from peffects.handlers import all_worlds, amb
from peffects.machine.handling.clauses import multi
from peffects.machine.handling.handler import Handler, handle
from peffects.machine.handling.operations import Effect, Operation, effectful, once, shared
from peffects.parallel import Fin, Threads, pfor, run


class Log(list[str]):
    @contextmanager
    def open(self, name: str) -> Iterator[str]:
        self.append(f"open {name}")
        try:
            yield name
        except ZeroDivisionError:
            self.append("heard")
            raise
        finally:
            self.append(f"close {name}")


def test_a_shared_resource_is_entered_once_and_exited_when_all_worlds_have_ended() -> None:
    log = Log()

    @effectful
    def program() -> Any:
        name: str = yield from shared(lambda: log.open("a"))
        n: int = yield from amb([1, 2])
        log.append(f"{name}{n}")
        return n

    assert run(handle(all_worlds(), program())) == [1, 2]
    assert log == ["open a", "a1", "a2", "close a"]


def test_shared_resources_of_an_iteration_are_exited_at_its_end_newest_first() -> None:
    log = Log()

    @effectful
    def body(i: int) -> Any:
        yield from shared(lambda: log.open(f"x{i}"))
        yield from shared(lambda: log.open(f"y{i}"))

    run(pfor(Fin(2), body))
    assert log == [
        f"{do} {n}{i}"
        for i in "01"
        for do, n in zip(["open", "open", "close", "close"], "xyyx", strict=True)
    ]


def test_a_failure_reaches_shared_resources_and_is_raised() -> None:
    log = Log()

    @effectful
    def program() -> Any:
        yield from shared(lambda: log.open("a"))
        return 1 / 0

    with pytest.raises(ZeroDivisionError):
        run(program())
    assert log == ["open a", "heard", "close a"]


def test_a_resource_that_fails_to_close_is_heard() -> None:
    @contextmanager
    def bad() -> Iterator[None]:
        yield
        raise OSError("disk full")

    @effectful
    def program() -> Any:
        yield from shared(bad)
        return 1

    with pytest.raises(OSError, match="disk full"):
        run(program())


def test_entering_a_closed_file_again_for_a_further_world_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("abc")

    @effectful
    def program() -> Any:
        file = yield from once(lambda: path.open())
        with file:
            n: int = yield from amb([1, 2])
            return file.read(n)

    with pytest.raises(ResourceNotReplayable) as caught:
        run(handle(all_worlds(), program()))
    assert "cannot enter its `with` again: ValueError('I/O operation on closed file" in str(
        caught.value
    )
    assert caught.value.at.function == "program"

    @effectful
    def repaired() -> Any:
        file = yield from shared(lambda: path.open())
        n: int = yield from amb([1, 2])
        file.seek(0)
        return file.read(n)

    assert run(handle(all_worlds(), repaired())) == ["a", "ab"]


# Two threads, one computation.


class Ask(Effect): ...


class Question(Operation[Ask, Any]): ...


@effectful
def waits(both: threading.Barrier) -> Any:
    answer = yield from Question()
    both.wait(5)
    return answer


def test_two_threads_that_resume_one_k_at_once_are_told() -> None:
    both = threading.Barrier(2)

    class resumes_in_parallel(Handler[Ask]):
        def question(self, op: Question, k: Any) -> Any:
            @effectful
            def resumes(i: int) -> Any:
                if i == 0:
                    return (yield from k(i))
                while k._fresh:
                    pass
                try:
                    return (yield from k(i))
                finally:
                    both.wait(5)

            return (yield from pfor(Fin(2), resumes))

    with pytest.raises(ResumedConcurrently, match="resumed by two threads at once") as caught:
        run(handle(resumes_in_parallel(), waits(both)), executor=Threads(2, chunk=1))
    assert "in iteration 1 of the parallel for" in caught.value.__notes__[0]


def test_two_threads_one_after_the_other_use_it_twice() -> None:
    class resumes_in_turn(Handler[Ask]):
        def question(self, op: Question, k: Any) -> Any:
            yield from pfor(Fin(2), lambda i: k(i))

    with pytest.raises(ResumptionAlreadyUsed):
        run(handle(resumes_in_turn(), waits(threading.Barrier(1))))


def test_worlds_of_a_multi_shot_k_may_run_on_several_threads_at_once() -> None:
    both = threading.Barrier(2)

    class worlds(Handler[Ask]):
        @multi
        def question(self, op: Question, k: Any) -> Any:
            return list((yield from pfor(Fin(2), lambda i: k(i))))

    assert run(handle(worlds(), waits(both)), executor=Threads(2, chunk=1)) == [0, 1]


def test_one_generator_object_in_two_threads_is_refused() -> None:
    running, done = threading.Event(), threading.Event()

    def inline() -> Any:
        running.set()
        done.wait(5)
        yield from ()

    generator = inline()

    @effectful
    def second() -> Any:
        running.wait(5)
        try:
            yield from handle(handles(), generator)
        finally:
            done.set()

    with pytest.raises(ResumedConcurrently, match=r"the generator `inline` is running"):
        run(pfor(Fin(2), lambda i: second() if i else generator), executor=Threads(2, chunk=1))


class handles(Handler[Ask]):
    def question(self, op: Question) -> int:
        return 1


def test_a_generator_object_that_has_run_is_refused() -> None:
    def inline() -> Any:
        yield from ()
        return 1

    generator = inline()
    assert run(generator) == 1
    with pytest.raises(NotAComputationError, match="`inline` has run already"):
        run(generator)
