"""The examples of the calculus with parallel `for`, row by row, on every executor."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from peffects.errors import TraverseError
from peffects.handlers import (
    Accum,
    Err,
    Ok,
    Random,
    State,
    accum,
    accumulate,
    all_worlds,
    amb,
    ask,
    fail,
    prng,
    reader,
    run_state,
    throw,
    uniform,
    weak_exceptions,
)
from peffects.machine.handling.handler import ParHandler, handle
from peffects.machine.handling.operations import effectful
from peffects.parallel import ADD, CONCATENATE, Executor, Fin, Serial, Shuffled, Threads, pfor, run


@pytest.fixture(params=[Serial(), Shuffled(1), Shuffled(2), Threads(3, chunk=1)], ids=repr)
def executor(request: pytest.FixtureRequest) -> Executor:
    chosen: Executor = request.param
    return chosen


@effectful
def tell_all(xs: list[Any]) -> Any:
    return (yield from pfor(xs, accum))


def test_row_1_tells_in_a_loop_add_up(executor: Executor) -> None:
    total, units = run(handle(accumulate(ADD), tell_all([1, 2, 10])), executor=executor)
    assert (total, units) == (13, [None, None, None])


def test_row_2_tells_of_one_to_five(executor: Executor) -> None:
    answer = run(handle(accumulate(ADD), tell_all([1, 2, 3, 4, 5])), executor=executor)
    assert answer == (15, [None] * 5)


def test_row_3_a_traverse_that_passes_wrapped_answers_on_loses_the_log() -> None:
    class forwards(ParHandler[Accum[int]]):
        def __init__(self) -> None:
            self.total = 0

        def ret(self, x: Any) -> Any:
            return self.total, x

        def accum(self, op: Any) -> None:
            self.total = self.total + op.value

        def traverse(self, n: Any, loop: Any, k: Any) -> Any:
            answers = yield from loop()
            return (yield from k(answers))

    answer = run(handle(forwards(), tell_all([1, 2, 3, 4, 5])))
    assert answer == (0, [(1, None), (2, None), (3, None), (4, None), (5, None)])


@effectful
def row_4_step(i: int) -> Any:
    if i == 2:
        yield from accum("!")
        yield from throw("error")
        yield from accum("unreachable")
    yield from accum(str(i))


@effectful
def row_4() -> Any:
    yield from accum("start ")
    yield from pfor(Fin(5), row_4_step)
    yield from accum(" end")
    return "success"


def test_row_4_other_iterations_finish_and_the_rest_does_not_run(executor: Executor) -> None:
    program = handle(accumulate("", str.__add__), handle(weak_exceptions(), row_4()))
    assert run(program, executor=executor) == ("start 01!34", Err("error"))


def test_row_4b_iterations_over_strings(executor: Executor) -> None:
    @effectful
    def step(x: str) -> Any:
        if x == "2":
            yield from accum("!")
            yield from throw("error")
        yield from accum(x)

    @effectful
    def program() -> Any:
        yield from accum("start ")
        yield from pfor(["1", "2", "3", "4", "5"], step)

    answer = run(
        handle(accumulate("", str.__add__), handle(weak_exceptions(), program())), executor=executor
    )
    assert answer == ("start 1!345", Err("error"))


def test_row_5_the_first_error_in_index_order_wins(executor: Executor) -> None:
    @effectful
    def step(i: int) -> Any:
        yield from accum(str(i))
        if i in (1, 3):
            yield from throw(f"e{i}")

    @effectful
    def program() -> Any:
        yield from accum("a")
        yield from pfor(Fin(4), step)
        yield from accum("z")

    answer = run(
        handle(accumulate("", str.__add__), handle(weak_exceptions(), program())), executor=executor
    )
    assert answer == ("a0123", Err("e1"))


class mock_prng(ParHandler[Random]):
    """Keys are strings, and a number drawn is the key it came from."""

    def __init__(self, key: str) -> None:
        self.key = key

    def uniform(self, op: Any) -> str:
        drawn, self.key = f"{self.key}_1", f"{self.key}_0"
        return drawn

    def normal(self, op: Any) -> str:
        return self.uniform(op)

    def bits(self, op: Any) -> str:
        return self.uniform(op)

    def traverse(self, n: Any, loop: Any, k: Any) -> Any:
        inner, self.key = f"{self.key}_0", f"{self.key}_1"
        values = yield from loop(lambda i: self._with(key=f"{inner}_{int(i)}"))
        return (yield from k(values))


def row_7(bad: int | None) -> Any:
    @effectful
    def draw_and_tell() -> Any:
        key = yield from uniform()
        yield from accum((key,))

    @effectful
    def step(i: int) -> Any:
        if i == bad:
            yield from throw(f"Exception at iteration {int(i)}")
        yield from draw_and_tell()
        return int(i)

    @effectful
    def program() -> Any:
        yield from draw_and_tell()
        values = yield from pfor(Fin(5), step)
        yield from draw_and_tell()
        return sum(values)

    prng_inside = handle(mock_prng("rootKey"), program())
    return handle(accumulate(CONCATENATE), handle(weak_exceptions(), prng_inside))


def test_row_7_keys_split_for_the_loop_and_for_the_rest(executor: Executor) -> None:
    log, answer = run(row_7(None), executor=executor)
    keys = [f"rootKey_0_0_{i}_1" for i in range(5)]
    assert log == ("rootKey_1", *keys, "rootKey_0_1_1")
    assert answer == Ok(10)


def test_row_7b_a_throw_changes_no_other_iteration(executor: Executor) -> None:
    log, answer = run(row_7(2), executor=executor)
    assert log == ("rootKey_1", *[f"rootKey_0_0_{i}_1" for i in (0, 1, 3, 4)])
    assert answer == Err("Exception at iteration 2")


def test_row_8_a_loop_and_a_sequence_of_draws_differ(executor: Executor) -> None:
    @effectful
    def parallel() -> Any:
        return (yield from pfor(Fin(3), lambda i: uniform()))

    @effectful
    def sequential() -> Any:
        drawn = []
        for _ in range(3):
            drawn.append((yield from uniform()))
        return drawn

    assert run(handle(mock_prng("k"), parallel()), executor=executor) == [
        "k_0_0_1",
        "k_0_1_1",
        "k_0_2_1",
    ]
    assert run(handle(mock_prng("k"), sequential())) == ["k_1", "k_0_1", "k_0_0_1"]


ALL_THREE = ["".join(c) for c in itertools.product("HT", repeat=3)]


def test_row_11_worlds_of_a_loop_are_the_product(executor: Executor) -> None:
    @effectful
    def program() -> Any:
        coins = yield from pfor(Fin(3), lambda i: amb("HT"))
        return "".join(coins)

    assert run(handle(all_worlds(), program()), executor=executor) == ALL_THREE


def test_row_11b_worlds_of_a_sequence_are_the_same() -> None:
    @effectful
    def program() -> Any:
        coins = ""
        for _ in range(3):
            coins += yield from amb("HT")
        return coins

    assert run(handle(all_worlds(), program())) == ALL_THREE


def test_row_12_every_world_tells() -> None:
    @effectful
    def program() -> Any:
        a = yield from amb(range(10))
        b = yield from amb(range(10))
        if a + b == 13:
            yield from accum(((a, b),))

    log, answers = run(handle(accumulate(CONCATENATE), handle(all_worlds(), program())))
    assert log == ((4, 9), (5, 8), (6, 7), (7, 6), (8, 5), (9, 4))
    assert answers == [None] * 100


def test_row_13_failing_worlds_vanish() -> None:
    @effectful
    def program() -> Any:
        a = yield from amb([1, 2, 3])
        b = yield from amb([1, 2, 3])
        if a * b != 6:
            yield from fail()
        return a, b

    assert run(handle(all_worlds(), program())) == [(2, 3), (3, 2)]


def test_row_15_bodies_tell_once_for_each_own_choice(executor: Executor) -> None:
    @effectful
    def body(i: int) -> Any:
        coin = yield from amb("HT")
        yield from accum(f"{int(i)}{coin} ")
        return coin

    @effectful
    def program() -> Any:
        coins = yield from pfor(Fin(2), body)
        yield from accum("E ")
        return "".join(coins)

    log, worlds = run(
        handle(accumulate("", str.__add__), handle(all_worlds(), program())), executor=executor
    )
    assert log == "0H 0T 1H 1T E E E E "
    assert worlds == ["HH", "HT", "TH", "TT"]


def empty_loop(perform: Callable[[Any], Any]) -> Any:
    return pfor(Fin(0), perform)


def test_row_17_an_empty_loop_has_one_world_and_an_empty_log(executor: Executor) -> None:
    amb_body: Any = empty_loop(lambda i: amb("HT"))
    assert run(handle(all_worlds(), amb_body), executor=executor) == [[]]
    assert run(handle(accumulate(ADD), empty_loop(accum)), executor=executor) == (0, [])


def test_row_18_every_iteration_reads_the_same(executor: Executor) -> None:
    program = handle(reader(7), pfor(Fin(3), lambda i: ask()))
    assert run(program, executor=executor) == [7, 7, 7]


def test_row_19_knapsack() -> None:
    @effectful
    def knapsack(room: int, items: list[int]) -> Any:
        if room < 0:
            yield from fail()
        if room == 0:
            return []
        item = yield from amb(items)
        rest = yield from knapsack(room - item, items)
        return [item, *rest]

    worlds = run(handle(all_worlds(), knapsack(3, [3, 2, 1])))
    assert worlds == [[3], [2, 1], [1, 2], [1, 1, 1]]


def test_forking_state_into_iterations_is_refused_not_lost() -> None:
    with pytest.raises(TraverseError):
        run(handle(run_state(10), pfor(Fin(3), lambda i: State.get())))


def test_prng_numbers_do_not_depend_on_executor_or_handler_around(executor: Executor) -> None:
    @effectful
    def program() -> Any:
        first = yield from uniform()
        rest = yield from pfor(Fin(4), lambda i: uniform())
        last = yield from uniform()
        return [first, *rest, last]

    plain = run(handle(prng(11), program()))
    assert run(handle(prng(11), program()), executor=executor) == plain
    _, ok = run(
        handle(accumulate(ADD), handle(weak_exceptions(), handle(prng(11), program()))),
        executor=executor,
    )
    assert ok == Ok(plain)
    assert len(set(plain)) == 6
