"""The laws that every handler keeps, on random programs and on every executor.

Return law: a computation without effects has the return clause's answer.  A loop of values is map,
an empty loop has no iterations, and a loop of one iteration is its body, except where a row of the
table says why not.  Where a loop means what the sequential loop means, the table says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from operator import add
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peffects.handlers import (
    Ok,
    accum,
    accumulate,
    all_worlds,
    amb,
    ask,
    bits,
    catch,
    choice,
    collect_errors,
    combine_errors,
    exponential,
    fail,
    fake_clock,
    first_worlds,
    get,
    info,
    integers,
    local,
    log_at,
    log_list,
    log_nothing,
    no_progress,
    normal,
    now,
    parallel_worlds,
    permutation,
    prefix_sums,
    prng,
    progress,
    progress_bar,
    put,
    reader,
    run_state,
    scan,
    sleep,
    throw,
    uniform,
    weak_exceptions,
    weighted_worlds,
)
from peffects.machine.handling.handler import Handler, handle
from peffects.machine.handling.operations import effectful
from peffects.parallel import (
    JOIN,
    Executor,
    Fin,
    Processes,
    Serial,
    Shuffled,
    Threads,
    pfor,
    run,
)

pytestmark = pytest.mark.filterwarnings("ignore:PE109")  # made, compared, thrown away

Program = tuple[Any, ...]
EXECUTORS: list[Executor] = [Serial(), Shuffled(1), Shuffled(7), Threads(2, chunk=1)]


@dataclass(frozen=True)
class Row:
    """A handler with what is known of it."""

    make: Callable[[], Handler[Any, Any]]
    leaves: tuple[Callable[[], Any], ...]
    """Computations that perform its operations."""
    ret: Callable[[Any], Any]
    """Its return clause."""
    sequential: bool = True
    """Whether a parallel loop has the answer of the sequential one."""
    singleton: bool = True
    """Whether a loop of one iteration has the answer of its body."""


@effectful
def pure(value: Any) -> Any:
    yield from ()
    return value


def plain(x: Any) -> Any:
    return x


WORLDS = (lambda: amb(""), lambda: amb("a"), lambda: amb("bc"), fail)
THROWS = (lambda: throw("a"), lambda: throw("b"), lambda: pure("fine"), lambda: pure("well"))
TELLS = (lambda: progress(0.25), lambda: progress(1.0))
ROWS = {
    "accumulate": Row(
        lambda: accumulate(JOIN), (lambda: accum("a"), lambda: accum("b")), lambda x: ("", x)
    ),
    "weak_exceptions": Row(weak_exceptions, THROWS, Ok),
    # All errors of a loop are collected; a sequential loop ends with its first error.
    "collect_errors": Row(collect_errors, THROWS, Ok, sequential=False),
    "combine_errors": Row(lambda: combine_errors(add), THROWS, Ok, sequential=False),
    # A loop splits the key, a sequence of draws goes on with it.
    "prng": Row(
        lambda: prng(5),
        (
            uniform,
            normal,
            exponential,
            bits,
            lambda: integers(-3, 10**25),
            lambda: choice("abc"),
            lambda: permutation(3),
        ),
        plain,
        sequential=False,
        singleton=False,
    ),
    "all_worlds": Row(all_worlds, WORLDS, lambda x: [x]),
    "parallel_worlds": Row(parallel_worlds, WORLDS, lambda x: [x]),
    "first_worlds": Row(lambda: first_worlds(2), WORLDS, lambda x: [x]),
    "weighted_worlds": Row(
        weighted_worlds,
        (*WORLDS, lambda: amb("xyz", [Fraction(1, 2), 0, Fraction(1, 3)])),
        lambda x: [(x, Fraction(1))],
    ),
    "reader": Row(lambda: reader(3), (ask, lambda: local(lambda x: 2 * x, ask())), plain),
    "log_list": Row(
        lambda: log_list(logging.INFO),
        (lambda: info("a", n=1), lambda: info("b"), lambda: log_at(logging.DEBUG, "c")),
        lambda x: ([], x),
    ),
    "log_nothing": Row(log_nothing, (lambda: info("a"),), plain),
    "progress_bar": Row(progress_bar, TELLS, plain),
    "no_progress": Row(no_progress, TELLS, plain),
    "prefix_sums": Row(
        lambda: prefix_sums(JOIN), (lambda: scan("a"), lambda: scan("b")), lambda x: ("", x)
    ),
    # Iterations of a parallel loop wait together.
    "fake_clock": Row(
        fake_clock, (now, lambda: sleep(1), lambda: sleep(2)), lambda x: (0.0, x), sequential=False
    ),
}

every_handler = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())


def programs(row: Row) -> st.SearchStrategy[Program]:
    """Programs of the row's operations, sequences and parallel loops."""
    leaves = st.tuples(st.just("do"), st.integers(0, len(row.leaves) - 1))
    return st.recursive(
        leaves,
        lambda inner: st.tuples(st.sampled_from(["seq", "par"]), st.lists(inner, max_size=3)),
        max_leaves=8,
    )


@effectful
def perform(row: Row, program: Program) -> Any:
    kind, content = program
    if kind == "do":
        return (yield from row.leaves[content]())
    if kind == "par":
        return list((yield from pfor(content, lambda part: perform(row, part))))
    values = []
    for part in content:
        values.append((yield from perform(row, part)))
    return values


def sequential(program: Program) -> Program:
    kind, content = program
    return program if kind == "do" else ("seq", [sequential(part) for part in content])


def answer(row: Row, program: Program, executor: Executor | None = None) -> Any:
    return run(handle(row.make(), perform(row, program)), executor=executor)


@every_handler
@given(st.one_of(st.integers(), st.text(), st.none()))
def test_return_law(row: Row, value: Any) -> None:
    assert run(handle(row.make(), pure(value))) == row.ret(value)


@every_handler
@given(st.integers(0, 5))
def test_a_loop_of_values_is_map(row: Row, n: int) -> None:
    for executor in EXECUTORS:
        looped = run(handle(row.make(), pfor(Fin(n), lambda i: i * i)), executor=executor)
        assert looped == row.ret([i * i for i in range(n)])


@every_handler
def test_an_empty_loop_runs_no_iteration(row: Row) -> None:
    for leaf in row.leaves:
        looped = pfor([leaf][:0], lambda each: each())
        assert run(handle(row.make(), looped)) == row.ret([])


@every_handler
@settings(max_examples=25)
@given(st.data())
def test_the_order_of_iterations_and_threads_change_nothing(row: Row, data: st.DataObject) -> None:
    program = data.draw(programs(row))
    first, *others = [answer(row, program, executor) for executor in EXECUTORS]
    assert all(other == first for other in others)


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.singleton])
@settings(max_examples=25)
@given(st.data())
def test_a_loop_of_one_iteration_is_its_body(name: str, data: st.DataObject) -> None:
    row = ROWS[name]
    program = sequential(data.draw(programs(row)))
    looped = answer(row, ("seq", [("par", [program])]))
    assert looped == answer(row, ("seq", [("seq", [program])]))


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.sequential])
@settings(max_examples=25)
@given(st.data())
def test_a_parallel_loop_is_the_sequential_one(name: str, data: st.DataObject) -> None:
    row = ROWS[name]
    program = data.draw(programs(row))
    assert answer(row, program) == answer(row, sequential(program))


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if not row.sequential])
def test_the_other_handlers_differ_from_the_sequential_loop(name: str) -> None:
    row = ROWS[name]
    program = ("par", [("do", 1), ("do", 1), ("do", 0)])
    assert answer(row, program) != answer(row, sequential(program))


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    pytest.importorskip("cloudpickle", reason="an optional extra")
    with Processes(2) as executor:
        yield executor


@every_handler
def test_processes_change_nothing(row: Row, processes: Processes) -> None:
    """Handlers travel to the workers, and suspended worlds with them."""
    program = ("par", [("do", number) for number in range(len(row.leaves))])
    assert answer(row, program, processes) == answer(row, program)


# --- laws of operations --------------------------------------------------------------------------


@effectful
def in_turn(*parts: Any) -> Any:
    value = None
    for part in parts:
        value = yield from part
    return value


EQUATIONS: dict[str, tuple[Callable[[], Handler[Any, Any]], Any, Any]] = {
    "accumulating twice is accumulating both": (
        lambda: accumulate(JOIN),
        lambda x, y: in_turn(accum(x), accum(y)),
        lambda x, y: accum(x + y),
    ),
    "nothing comes after a throw": (
        weak_exceptions,
        lambda x, y: in_turn(throw(x), throw(y)),
        lambda x, y: throw(x),
    ),
    "catch leaves a result alone": (
        weak_exceptions,
        lambda x, y: catch(pure(x), throw),
        lambda x, y: pure(x),
    ),
    "catch gives the error to its handler": (
        weak_exceptions,
        lambda x, y: catch(in_turn(throw(x), pure(y)), lambda error: pure(error + y)),
        lambda x, y: pure(x + y),
    ),
    "catch and throw again is nothing": (
        weak_exceptions,
        lambda x, y: catch(throw(x), throw),
        lambda x, y: throw(x),
    ),
    "nothing comes after a failure": (
        all_worlds,
        lambda x, y: in_turn(fail(), pure(x)),
        lambda x, y: fail(),
    ),
    "one option is no choice": (
        all_worlds,
        lambda x, y: amb([x]),
        lambda x, y: pure(x),
    ),
    "no option is failure": (all_worlds, lambda x, y: amb([]), lambda x, y: fail()),
    "choices of choices are one": (
        all_worlds,
        lambda x, y: in_turn(amb([x, y]), amb([x, y])),
        lambda x, y: amb([x, y, x, y]),
    ),
    "what is asked for does not change": (
        lambda: reader("r"),
        lambda x, y: in_turn(ask(), ask()),
        lambda x, y: ask(),
    ),
    "local changes what is asked for": (
        lambda: reader("r"),
        lambda x, y: local(lambda r: r + x, ask()),
        lambda x, y: pure("r" + x),
    ),
    "local changes nothing else": (
        lambda: reader("r"),
        lambda x, y: local(lambda r: r + x, pure(y)),
        lambda x, y: pure(y),
    ),
    "what is put is got": (
        lambda: run_state(""),
        lambda x, y: in_turn(put(x), get()),
        lambda x, y: in_turn(put(x), pure(x)),
    ),
    "the last put counts": (
        lambda: run_state(""),
        lambda x, y: in_turn(put(x), put(y)),
        lambda x, y: put(y),
    ),
    "getting changes nothing": (
        lambda: run_state("s"),
        lambda x, y: in_turn(get(), get()),
        lambda x, y: get(),
    ),
    "scanning answers what came before": (
        lambda: prefix_sums(JOIN),
        lambda x, y: in_turn(scan(x), scan(y)),
        lambda x, y: in_turn(scan(x + y), pure(x)),
    ),
    "time passes by sleeping": (
        fake_clock,
        lambda x, y: in_turn(sleep(len(x)), sleep(len(y)), now()),
        lambda x, y: in_turn(sleep(len(x) + len(y)), pure(len(x) + len(y))),
    ),
}


@pytest.mark.parametrize(("make", "left", "right"), EQUATIONS.values(), ids=EQUATIONS)
@settings(max_examples=25)
@given(st.text(max_size=3), st.text(max_size=3))
def test_operation_law(
    make: Callable[[], Handler[Any, Any]], left: Any, right: Any, x: str, y: str
) -> None:
    assert run(handle(make(), left(x, y))) == run(handle(make(), right(x, y)))
