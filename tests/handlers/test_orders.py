"""What the order of two handlers changes: each row of the table in `docs/effects.md` is a test."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from peffects.handlers import (
    Err,
    Ok,
    accum,
    accumulate,
    all_worlds,
    amb,
    ask,
    catch,
    collect_errors,
    fake_clock,
    first_worlds,
    get,
    info,
    log_list,
    parallel_worlds,
    prefix_sums,
    prng,
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
from peffects.parallel import ADD, JOIN, Executor, Fin, Serial, Shuffled, Threads, pfor, run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "effects.md"
EXECUTORS: list[Executor] = [Serial(), Shuffled(3), Threads(2, chunk=1)]
Make = Callable[[], Handler[Any, Any]]


@effectful
def tell_then_throw() -> Any:
    yield from accum("a")
    yield from throw("no")


@effectful
def tell_in_a_loop() -> Any:
    @effectful
    def body(i: int) -> Any:
        yield from accum(str(i))
        if i > 0:
            yield from throw(i)

    yield from pfor(Fin(3), body)


@effectful
def log_then_throw() -> Any:
    yield from info("a")
    yield from throw("no")


@effectful
def count_then_throw() -> Any:
    yield from put((yield from get()) + 1)
    yield from throw("no")


@effectful
def count_then_catch() -> Any:
    return (yield from catch(count_then_throw(), lambda error: "caught"))


@effectful
def tell_then_catch() -> Any:
    return (yield from catch(tell_then_throw(), lambda error: "caught"))


@effectful
def count_in_worlds() -> Any:
    yield from amb("HT")
    n: int = yield from get()
    yield from put(n + 1)
    return n


@effectful
def tell_in_worlds() -> Any:
    coin: str = yield from amb("HT")
    yield from accum(coin)
    return coin.lower()


@effectful
def throw_in_a_world() -> Any:
    coin: str = yield from amb("HT")
    if coin == "T":
        yield from throw("tails")
    return coin


@effectful
def draw_in_worlds() -> Any:
    yield from amb("HT")
    return (yield from uniform())


@effectful
def draw_or_throw() -> Any:
    first = yield from uniform()
    if first > 2:
        yield from throw("never")
    return first


@effectful
def scan_and_tell() -> Any:
    @effectful
    def body(i: int) -> Any:
        yield from accum(str(i))
        return (yield from scan(1))

    return list((yield from pfor(Fin(2), body)))


@effectful
def wait_then_throw() -> Any:
    yield from sleep(2.0)
    yield from throw("late")


@effectful
def ask_in_worlds() -> Any:
    coin = yield from amb("HT")
    return coin, (yield from ask())


def log() -> accumulate[str]:
    return accumulate(JOIN)


def state() -> run_state[int]:
    return run_state(0)


def is_one(answer: Any) -> bool:
    return len(set(answer)) == 1


# (outer, inner): the handlers, the program, and the answer or what is true of it.
ROWS: dict[tuple[str, str], tuple[Make, Make, Any, Any]] = {
    ("accumulate", "weak_exceptions"): (log, weak_exceptions, tell_then_throw, ("a", Err("no"))),
    ("weak_exceptions", "accumulate"): (weak_exceptions, log, tell_then_throw, Err("no")),
    ("accumulate", "collect_errors"): (log, collect_errors, tell_in_a_loop, ("012", Err([1, 2]))),
    ("collect_errors", "accumulate"): (collect_errors, log, tell_in_a_loop, Err([1, 2])),
    ("log_list", "weak_exceptions"): (
        log_list,
        weak_exceptions,
        log_then_throw,
        lambda answer: [str(m) for m in answer[0]] == ["a"] and answer[1] == Err("no"),
    ),
    ("weak_exceptions", "log_list"): (weak_exceptions, log_list, log_then_throw, Err("no")),
    ("run_state", "weak_exceptions"): (state, weak_exceptions, count_then_throw, (1, Err("no"))),
    ("weak_exceptions", "run_state"): (weak_exceptions, state, count_then_throw, Err("no")),
    ("run_state", "weak_exceptions, with catch"): (
        state,
        weak_exceptions,
        count_then_catch,
        (1, Ok("caught")),
    ),
    ("weak_exceptions", "run_state, with catch"): (
        weak_exceptions,
        state,
        count_then_catch,
        Ok((0, "caught")),
    ),
    ("accumulate", "weak_exceptions, with catch"): (
        log,
        weak_exceptions,
        tell_then_catch,
        ("a", Ok("caught")),
    ),
    ("weak_exceptions", "accumulate, with catch"): (
        weak_exceptions,
        log,
        tell_then_catch,
        Ok(("", "caught")),
    ),
    ("run_state", "all_worlds"): (state, all_worlds, count_in_worlds, (2, [0, 1])),
    ("all_worlds", "run_state"): (all_worlds, state, count_in_worlds, [(1, 0), (1, 0)]),
    ("accumulate", "all_worlds"): (log, all_worlds, tell_in_worlds, ("HT", ["h", "t"])),
    ("all_worlds", "accumulate"): (all_worlds, log, tell_in_worlds, [("H", "h"), ("T", "t")]),
    ("accumulate", "first_worlds"): (log, first_worlds, tell_in_worlds, ("H", ["h"])),
    ("first_worlds", "accumulate"): (first_worlds, log, tell_in_worlds, [("H", "h")]),
    ("weak_exceptions", "all_worlds"): (
        weak_exceptions,
        all_worlds,
        throw_in_a_world,
        Err("tails"),
    ),
    ("all_worlds", "weak_exceptions"): (
        all_worlds,
        weak_exceptions,
        throw_in_a_world,
        [Ok("H"), Err("tails")],
    ),
    ("weak_exceptions", "weighted_worlds"): (
        weak_exceptions,
        weighted_worlds,
        throw_in_a_world,
        Err("tails"),
    ),
    ("weighted_worlds", "weak_exceptions"): (
        weighted_worlds,
        weak_exceptions,
        throw_in_a_world,
        lambda answer: [x for x, _ in answer] == [Ok("H"), Err("tails")],
    ),
    ("prng", "all_worlds"): (
        lambda: prng(1),
        all_worlds,
        draw_in_worlds,
        lambda answer: not is_one(answer),
    ),
    ("all_worlds", "prng"): (all_worlds, lambda: prng(1), draw_in_worlds, is_one),
    ("prng", "parallel_worlds"): (
        lambda: prng(1),
        parallel_worlds,
        draw_in_worlds,
        lambda answer: not is_one(answer),
    ),
    ("parallel_worlds", "prng"): (parallel_worlds, lambda: prng(1), draw_in_worlds, is_one),
    ("prng", "weak_exceptions"): (
        lambda: prng(1),
        weak_exceptions,
        draw_or_throw,
        Ok(run(handle(prng(1), uniform()))),
    ),
    ("weak_exceptions", "prng"): (
        weak_exceptions,
        lambda: prng(1),
        draw_or_throw,
        Ok(run(handle(prng(1), uniform()))),
    ),
    ("accumulate", "prefix_sums"): (
        log,
        lambda: prefix_sums(ADD),
        scan_and_tell,
        ("0101", (2, [0, 1])),
    ),
    ("prefix_sums", "accumulate"): (
        lambda: prefix_sums(ADD),
        log,
        scan_and_tell,
        (2, ("01", [0, 1])),
    ),
    ("fake_clock", "weak_exceptions"): (
        fake_clock,
        weak_exceptions,
        wait_then_throw,
        (2.0, Err("late")),
    ),
    ("weak_exceptions", "fake_clock"): (
        weak_exceptions,
        fake_clock,
        wait_then_throw,
        Err("late"),
    ),
    ("reader", "all_worlds"): (
        lambda: reader(1),
        all_worlds,
        ask_in_worlds,
        [("H", 1), ("T", 1)],
    ),
    ("all_worlds", "reader"): (
        all_worlds,
        lambda: reader(1),
        ask_in_worlds,
        [("H", 1), ("T", 1)],
    ),
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} outside {row[1]}")
def test_row(row: tuple[str, str]) -> None:
    outer, inner, program, expected = ROWS[row]
    for executor in EXECUTORS:
        answer = run(handle(outer(), handle(inner(), program())), executor=executor)
        assert expected(answer) if callable(expected) else answer == expected


def test_the_page_has_the_same_rows() -> None:
    """Each line of the page is a row here."""
    lines = re.findall(r"(?m)^\| `(\w+)` \| `(\w+)`(, with `catch`)? \|", PAGE.read_text())
    on_page = [(outer, inner + suffix.replace("`", "")) for outer, inner, suffix in lines]
    assert on_page == list(ROWS)
