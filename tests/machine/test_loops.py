"""Loops that run again start from the handler as it was when the clause called `loop`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peffects.errors import LoopValuesError, NotAComputationError
from peffects.handlers import (
    accum,
    accumulate,
    all_worlds,
    amb,
    fake_clock,
    first_worlds,
    now,
    prefix_sums,
    sleep,
)
from peffects.machine.handling.handler import CollectHandler, ParHandler, handle
from peffects.machine.handling.operations import Effect, Operation, effectful
from peffects.parallel import ADD, Executor, Fin, Serial, Shuffled, Threads, pfor, run


class Count(Effect): ...


class Add(Operation[Count, None]):
    by: int


class Total(Operation[Count, int]): ...


class Counting(ParHandler[Count]):
    """Counts; an iteration starts with what there was at its loop, and adds to it."""

    def __init__(self) -> None:
        self.n = 0

    def ret(self, x: Any) -> Any:
        return self.n, x

    def add(self, op: Add) -> None:
        self.n = self.n + op.by

    def total(self, op: Total) -> int:
        return self.n

    def _start(self, i: Any) -> Any:
        return self._with(n=self.n)

    def traverse(self, n: Any, loop: Any, k: Any) -> Any:
        answers = yield from self._loop(n, loop)
        start = self.n
        for m, _ in answers:
            self.n = self.n + m - start
        return (yield from k([x for _, x in answers]))

    def _loop(self, n: Any, loop: Any) -> Any:
        return loop()


def _shared_start(self: Any, i: Any) -> Any:
    return self._with(n=self.n)


def as_it_is(self: Any, n: Any, loop: Any) -> Any:
    return loop()


def by_lambda(self: Any, n: Any, loop: Any) -> Any:
    return loop(lambda i: self._with(n=self.n))


def the_handler_itself(self: Any, n: Any, loop: Any) -> Any:
    return loop(lambda i: self)


def by_list(self: Any, n: Any, loop: Any) -> Any:
    return loop([self] * len(n))


def by_method(self: Any, n: Any, loop: Any) -> Any:
    return loop(self._start)


def by_partial(self: Any, n: Any, loop: Any) -> Any:
    return loop(functools.partial(_shared_start, self))


def by_default(self: Any, n: Any, loop: Any) -> Any:
    return loop(lambda i, h=self: h._with(n=h.n))


def by_keyword_default(self: Any, n: Any, loop: Any) -> Any:
    def start(i: Any, *, h: Any = self) -> Any:
        return h

    return loop(start)


def by_functions_that_call_each_other(self: Any, n: Any, loop: Any) -> Any:
    def even(i: Any) -> Any:
        return self._with(n=self.n) if i < 1 else odd(int(i) - 1)

    def odd(i: Any) -> Any:
        return self if i < 1 else even(i - 1)

    return loop(even)


def by_a_variable_that_changes(self: Any, n: Any, loop: Any) -> Any:
    at = self.n
    computation = loop(lambda i: self._with(n=at))
    at = -100
    return computation


def by_a_handler_that_changes(self: Any, n: Any, loop: Any) -> Any:
    first = self._with()
    computation = loop(lambda i: first)
    first.n = -100
    return computation


def by_a_list_that_changes(self: Any, n: Any, loop: Any) -> Any:
    firsts = [self._with() for _ in n]
    computation = loop(lambda i: firsts[i])
    firsts.clear()
    return computation


def by_a_list_of_handlers_that_change(self: Any, n: Any, loop: Any) -> Any:
    first = self._with()
    computation = loop([first] * len(n))
    first.n = -100
    return computation


def by_an_array_that_changes(self: Any, n: Any, loop: Any) -> Any:
    at = np.array([self.n] * len(n))
    computation = loop(lambda i: self._with(n=int(at[i])))
    at[:] = -100
    return computation


def by_a_generator(self: Any, n: Any, loop: Any) -> Any:
    return loop(self._with(n=self.n) for _ in n)


def by_an_iterator(self: Any, n: Any, loop: Any) -> Any:
    firsts = iter([self._with() for _ in n])
    return loop(lambda i: next(firsts))


def by_a_bound_builtin(self: Any, n: Any, loop: Any) -> Any:
    firsts = [self._with() for _ in n]
    computation = loop(firsts.__getitem__)
    firsts.clear()
    return computation


def by_a_cached_function(self: Any, n: Any, loop: Any) -> Any:
    return loop(functools.cache(lambda i: self._with(n=self.n)))


def by_a_wrapped_function(self: Any, n: Any, loop: Any) -> Any:
    @functools.wraps(_shared_start)
    def start(i: Any) -> Any:
        return _shared_start(self, i)

    return loop(start)


def by_a_class(self: Any, n: Any, loop: Any) -> Any:
    class Starts:
        def __new__(cls, i: Any) -> Any:
            return self._with(n=self.n)

    return loop(Starts)


class Starting:
    """Has the handler."""

    def __init__(self, handler: Any) -> None:
        self.handler = handler

    def __call__(self, i: Any) -> Any:
        return _shared_start(self.handler, i)

    def at(self, i: Any) -> Any:
        return _shared_start(self.handler, i)


def by_an_object(self: Any, n: Any, loop: Any) -> Any:
    return loop(Starting(self))


def by_a_method_of_an_object(self: Any, n: Any, loop: Any) -> Any:
    return loop(Starting(self).at)


def by_a_recursive_function(self: Any, n: Any, loop: Any) -> Any:
    def start(i: Any, depth: int = 3) -> Any:
        return start(i, depth - 1) if depth else self._with(n=self.n)

    return loop(start)


SPELLINGS = [
    as_it_is,
    by_lambda,
    the_handler_itself,
    by_list,
    by_method,
    by_partial,
    by_default,
    by_keyword_default,
    by_functions_that_call_each_other,
    by_a_variable_that_changes,
    by_a_handler_that_changes,
    by_a_list_that_changes,
    by_a_list_of_handlers_that_change,
    by_an_array_that_changes,
    by_a_generator,
    by_an_iterator,
    by_a_bound_builtin,
    by_a_cached_function,
    by_a_wrapped_function,
    by_a_class,
    by_an_object,
    by_a_method_of_an_object,
    by_a_recursive_function,
]


def counting(spelling: Callable[..., Any]) -> Any:
    class kind(Counting):
        _loop = spelling

    return kind()


every_spelling = pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda f: f.__name__)


def test_a_clock_in_worlds_of_a_loop_of_two_phases() -> None:
    @effectful
    def body(i: int) -> Any:
        yield from amb("ab")
        yield from sleep(1.0)
        return (yield from now())

    program = handle(prefix_sums(ADD), handle(fake_clock(), pfor(Fin(1), body)))
    answers = [(time, list(values)) for _, (time, values) in run(handle(all_worlds(), program))]
    assert answers == [(1.0, [1.0])] * 4


class twice(ParHandler[Any]):
    """Runs a loop, the rest, and the loop again."""

    _effects = (type("Nothing", (Effect,), {}),)

    def ret(self, x: Any) -> Any:
        return x

    def traverse(self, n: Any, loop: Any, k: Any) -> Any:
        first = yield from loop()
        rest = yield from k(first)
        again = yield from loop()
        assert again == first
        computation = loop()
        assert (yield from computation) == (yield from computation) == first
        return rest


@every_spelling
@pytest.mark.parametrize("executor", [Serial(), Shuffled(1), Threads(2)], ids=repr)
def test_a_loop_that_runs_after_the_clause_went_on(
    spelling: Callable[..., Any], executor: Executor
) -> None:
    @effectful
    def body(i: int) -> Any:
        yield from Add(int(i) + 1)
        return (yield from Total())

    @effectful
    def program() -> Any:
        yield from Add(10)
        values = yield from pfor(Fin(3), body)
        return list(values), (yield from Total())

    assert run(handle(twice(), handle(counting(spelling), program())), executor=executor) == (
        16,
        ([11, 12, 13], 16),
    )


def test_a_loop_starts_from_the_handler_at_the_call_of_loop() -> None:
    class late(Counting):
        def traverse(self, n: Any, loop: Any, k: Any) -> Any:
            computation = loop()
            self.n = 100
            answers = yield from computation
            return (yield from k([m for m, _ in answers]))

    @effectful
    def program() -> Any:
        yield from Add(1)
        return list((yield from pfor(Fin(2), lambda i: Add(5))))

    assert run(handle(late(), program())) == (100, [6, 6])


@pytest.mark.parametrize("executor", [Serial(), Shuffled(1), Threads(2)], ids=repr)
def test_a_function_that_counts_is_called_once_for_each_index(executor: Executor) -> None:
    class counts(Counting):
        def _loop(self, n: Any, loop: Any) -> Any:
            count = 0

            def start(i: int) -> Any:
                nonlocal count  # and nothing else that may change
                count += 1
                return self._with(n=count)

            answers = yield from loop(start)
            assert count == len(n)
            return answers

        def traverse(self, n: Any, loop: Any, k: Any) -> Any:
            answers = yield from self._loop(n, loop)
            return (yield from k([x for _, x in answers]))

    program = handle(twice(), handle(counts(), pfor(Fin(3), lambda i: Total())))
    assert list(run(program, executor=executor)[1]) == [1, 2, 3]


@pytest.mark.parametrize(
    ("start", "error", "message"),
    [
        (lambda self: lambda i: 5, NotAComputationError, "starts iteration 0 .* with 5"),
        (lambda self: lambda i: type(self), NotAComputationError, "which is no handler"),
        (lambda self: [self, None, self], NotAComputationError, "iteration 1 .* with None"),
        (lambda self: [self], LoopValuesError, "1 handlers to start .* has 3"),
        (lambda self: [self] * 4, LoopValuesError, "4 handlers to start .* has 3"),
        (lambda self: self, NotAComputationError, "`loop` takes the handlers"),
        (lambda self: 5, NotAComputationError, "was given 5"),
    ],
)
def test_iterations_start_with_handlers(start: Any, error: Any, message: str) -> None:
    class wrong(Counting):
        def _loop(self, n: Any, loop: Any) -> Any:
            return loop(start(self))

    with pytest.raises(error, match=message) as caught:
        run(handle(wrong(), pfor(Fin(3), lambda i: Add(1))))
    assert "at test_loops.py" in str(caught.value)
    assert "`loop(lambda i: self._with(...))`" in str(caught.value) or error is LoopValuesError


class times(ParHandler[Any]):
    """Runs the loop so many times."""

    _effects = (type("Never", (Effect,), {}),)

    def __init__(self, number: int) -> None:
        self.number = number

    def traverse(self, n: Any, loop: Any, k: Any) -> Any:
        values: Any = [None] * len(n)
        for _ in range(self.number):
            values = yield from loop()
        return (yield from k(values))


@pytest.mark.parametrize("number", [0, 1, 2, 500])
def test_a_loop_runs_as_often_as_it_is_called(number: int) -> None:
    program = handle(times(number), pfor(Fin(3), lambda i: accum(1)))
    assert run(handle(accumulate(ADD), program))[0] == 3 * number
    worlds = run(handle(all_worlds(), handle(accumulate(ADD), program)))
    assert [total for total, _ in worlds] == [3 * number]


def test_a_loop_in_each_world_of_its_clause_starts_from_the_handler_there() -> None:
    class chooses(Counting):
        def traverse(self, n: Any, loop: Any, k: Any) -> Any:
            chosen: int = yield from amb([10, 20])
            self.n = chosen
            answers = yield from loop()
            return (yield from k([x for _, x in answers]))

    program = handle(chooses(), pfor(Fin(2), lambda i: Total()))
    worlds = [(n, list(values)) for n, values in run(handle(all_worlds(), program))]
    assert worlds == [(10, [10, 10]), (20, [20, 20])]


def test_of_clauses_that_watch_a_loop_the_outermost_is_told() -> None:
    told = []

    class watches(ParHandler[Any]):
        _effects = (type("Nobody", (Effect,), {}),)

        def __init__(self, name: str) -> None:
            self.name = name

        def traverse(self, n: Any, loop: Any, k: Any) -> Any:
            values = yield from loop(on_tick=lambda *_: told.append(self.name))
            return (yield from k(values))

    program = handle(watches("outer"), handle(watches("inner"), pfor(Fin(3), int)))
    assert list(run(program)) == [0, 1, 2]
    assert set(told) == {"outer"}


def test_iterations_that_are_bare_generators_run_once() -> None:
    def bare() -> Any:
        yield from accum(1)

    def program() -> Any:
        bodies = [bare(), bare()]
        return pfor(Fin(2), lambda i: bodies[i])

    assert run(handle(accumulate(ADD), handle(times(1), program())))[0] == 2
    with pytest.raises(NotAComputationError, match="`bare` has run already"):
        run(handle(accumulate(ADD), handle(times(2), program())))


# --- random programs, in worlds, with every loop run twice ---------------------------------------

Program = tuple[Any, ...]
PROGRAMS = st.recursive(
    st.one_of(st.tuples(st.just("add"), st.integers(1, 3)), st.just(("total",)), st.just(("amb",))),
    lambda inner: st.tuples(st.sampled_from(["seq", "par"]), st.lists(inner, max_size=3)),
    max_leaves=6,
)


@effectful
def perform(program: Program) -> Any:
    kind, *rest = program
    if kind == "add":
        return (yield from Add(rest[0]))
    if kind == "total":
        return (yield from Total())
    if kind == "amb":
        return (yield from amb([0, 1]))
    if kind == "par":
        return list((yield from pfor(rest[0], perform)))
    values = []
    for part in rest[0]:
        values.append((yield from perform(part)))
    return values


class Choices:
    """The choices of one world; the worlds follow in the order of their choices."""

    def __init__(self, script: list[int]) -> None:
        self.script = script
        self.made: list[int] = []

    def choose(self) -> int:
        at = len(self.made)
        self.made.append(self.script[at] if at < len(self.script) else 0)
        return self.made[-1]


def worlds_of(one: Callable[[Choices], Any]) -> Iterator[Any]:
    script: list[int] | None = []
    while script is not None:
        choices = Choices(script)
        yield one(choices)
        left = choices.made
        while left and left[-1] == 1:
            left.pop()
        script = [*left[:-1], 1] if left else None


def means(program: Program, n: int, choices: Choices, phases: int) -> tuple[int, Any]:
    """The count and value of a program that starts with count `n`; loops run `phases` times."""
    kind, *rest = program
    if kind == "add":
        return n + rest[0], None
    if kind == "total":
        return n, n
    if kind == "amb":
        return n, choices.choose()
    if kind == "seq":
        values = []
        for part in rest[0]:
            n, value = means(part, n, choices, phases)
            values.append(value)
        return n, values
    answers: list[tuple[int, Any]] = []
    for _ in range(phases):
        answers = [means(part, n, choices, phases) for part in rest[0]]
    return n + sum(m - n for m, _ in answers), [value for _, value in answers]


def cost(program: Program, phases: int) -> int:
    """How many choices a world makes."""
    kind, *rest = program
    if kind in ("seq", "par"):
        return (phases if kind == "par" else 1) * sum(cost(part, phases) for part in rest[0])
    return int(kind == "amb")


@settings(max_examples=60)
@given(PROGRAMS.filter(lambda p: cost(p, 2) <= 6), st.sampled_from(SPELLINGS))
def test_random_loops_that_run_twice_in_worlds(program: Program, spelling: Any) -> None:
    inner = handle(prefix_sums(ADD), handle(counting(spelling), perform(program)))
    expected = list(worlds_of(lambda choices: means(program, 0, choices, 2)))
    assert run(handle(all_worlds(), inner)) == [(0, answer) for answer in expected]


@settings(max_examples=40)
@given(PROGRAMS.filter(lambda p: cost(p, 1) <= 6), st.sampled_from(SPELLINGS))
def test_random_loops_in_worlds(program: Program, spelling: Any) -> None:
    expected = list(worlds_of(lambda choices: means(program, 0, choices, 1)))
    assert run(handle(all_worlds(), handle(counting(spelling), perform(program)))) == expected
    assert (
        run(handle(first_worlds(2), handle(counting(spelling), perform(program)))) == (expected[:2])
    )


def test_a_collect_handler_that_rebinds_is_run_again_as_it_was() -> None:
    class sums(CollectHandler[Count]):
        def __init__(self) -> None:
            self.n = 0

        def ret(self, x: Any) -> Any:
            return self.n, x

        def add(self, op: Add) -> None:
            self.n += op.by

        def total(self, op: Total) -> int:
            return self.n

        def collect(self, answers: Any) -> Any:
            start = self.n
            self.n = start + sum(n - start for n, _ in answers)
            return [value for _, value in answers]

    program = ("seq", [("add", 5), ("par", [("amb",), ("add", 1), ("total",)])])
    answers = run(handle(all_worlds(), handle(prefix_sums(ADD), handle(sums(), perform(program)))))
    expected = list(worlds_of(lambda choices: means(program, 0, choices, 2)))
    assert answers == [(0, answer) for answer in expected]
