"""A computation as an iterator, an iterable as an effect."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, cast

import pytest

from peffects.errors import NotAComputationError, TraverseError
from peffects.handlers import all_worlds, amb, get, put, run_state
from peffects.handlers.streams import Emit, Source, emit, feed, iterate, take
from peffects.machine.handling.handler import handle
from peffects.machine.handling.operations import effectful, shared
from peffects.parallel import Fin, pfor, run


@effectful
def counts(log: list[str], end: int = 10**9) -> Any:
    try:
        for n in range(end):
            log.append(f"run {n}")
            yield from emit(n)
    finally:
        yield from ()
        log.append("unwound")
    return "all"


def test_values_come_one_by_one_and_only_as_far_as_asked() -> None:
    log: list[str] = []
    iterator = iterate(counts(log))
    assert log == []
    assert list(itertools.islice(iterator, 3)) == [0, 1, 2]
    assert log == ["run 0", "run 1", "run 2"]
    iterator.close()
    assert log[3:] == ["unwound"]
    assert list(iterator) == []


def test_the_result_is_the_value_of_the_generator() -> None:
    iterator = iterate(counts([], end=1))
    assert next(iterator) == 0
    with pytest.raises(StopIteration) as caught:
        next(iterator)
    assert caught.value.value == "all"


def test_leaving_a_loop_unwinds_once_the_iterator_is_gone() -> None:
    log: list[str] = []
    for n in iterate(counts(log)):
        if n == 1:
            break
    assert log == ["run 0", "run 1", "unwound"]


def test_handlers_inside_keep_their_state_between_the_values() -> None:
    @effectful
    def program() -> Any:
        for _ in range(3):
            s: int = yield from get()
            yield from put(s * 2)
            yield from emit(s)

    assert list(iterate(handle(run_state(5), program()))) == [5, 10, 20]


def test_an_exception_comes_out_where_the_value_was_asked_for() -> None:
    log: list[str] = []

    @effectful
    def program() -> Any:
        try:
            yield from emit(1)
            raise LookupError("gone")
        finally:
            log.append("unwound")

    iterator = iterate(program())
    assert next(iterator) == 1
    with pytest.raises(LookupError, match="gone"):
        next(iterator)
    assert log == ["unwound"]


def test_a_finally_that_fails_when_closed_is_heard() -> None:
    @effectful
    def program() -> Any:
        try:
            yield from emit(1)
        finally:
            raise LookupError("gone")

    iterator = iterate(program())
    next(iterator)
    with pytest.raises(LookupError, match="gone"):
        iterator.close()


def test_shared_resources_close_with_the_iterator() -> None:
    class Resource:
        open = False

        def __enter__(self) -> None:
            self.open = True

        def __exit__(self, *_: object) -> None:
            self.open = False

    resource = Resource()

    @effectful
    def program() -> Any:
        yield from shared(lambda: resource)
        yield from emit(1)

    iterator = iterate(program())
    next(iterator)
    assert resource.open
    iterator.close()
    assert not resource.open


def test_an_instance_and_a_parallel_for_inside_a_value() -> None:
    class Lines(Emit[str]): ...

    @effectful
    def program() -> Any:
        table = yield from pfor(Fin(3), lambda i: i * i)
        yield from Lines.emit(str(list(table)))

    assert list(iterate(program(), at=Lines)) == ["[0, 1, 4]"]
    with pytest.raises(TraverseError, match="an iteration of a parallel for emitted"):
        list(iterate(cast(Any, pfor(Fin(2), emit))))
    inside: Any = pfor(Fin(2), lambda i: tuple(iterate(counts([], end=int(i)))))
    assert run(inside) == [(), (0,)]


def test_iterate_takes_a_computation() -> None:
    with pytest.raises(NotAComputationError, match="`iterate` takes a computation"):
        iterate(cast(Any, counts))


def numbers(log: list[int]) -> Iterator[int]:
    for n in itertools.count():
        log.append(n)
        yield n


def test_an_iterable_is_read_as_far_as_it_is_taken() -> None:
    log: list[int] = []

    @effectful
    def program() -> Any:
        first: int = yield from take()
        return first, (yield from take())

    assert run(cast(Any, handle(feed(numbers(log)), program()))) == (0, 1)
    assert log == [0, 1]


def test_at_the_end_there_is_a_default_or_an_error() -> None:
    @effectful
    def program() -> Any:
        yield from take()
        last: str = yield from take("end")
        try:
            yield from take()
        except EOFError as error:
            return last, str(error)

    assert run(cast(Any, handle(feed([1]), program()))) == ("end", "there is nothing left to take")


@pytest.mark.parametrize("inside", [True, False])
def test_worlds_take_from_where_they_stand(inside: bool) -> None:
    log: list[int] = []

    @effectful
    def program() -> Any:
        first: int = yield from take()
        world: str = yield from amb("ab")
        return first, world, (yield from take())

    if inside:
        program_: Any = handle(all_worlds(), handle(feed(numbers(log)), program()))
        assert run(program_) == [(0, "a", 1), (0, "b", 1)]
        assert log == [0, 1]
    else:
        program_ = handle(feed(numbers(log)), cast(Any, handle(all_worlds(), program())))
        assert run(program_) == [(0, "a", 1), (0, "b", 2)]


def test_a_computation_feeds_another() -> None:
    class Numbers(Source[int]): ...

    @effectful
    def doubles() -> Any:
        while (n := (yield from Numbers.take(None))) is not None:
            yield from emit(2 * n)

    source = iterate(counts([], end=4))
    assert list(iterate(cast(Any, handle(feed(source, at=Numbers), doubles())))) == [0, 2, 4, 6]
