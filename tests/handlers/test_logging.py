"""Log: messages as data, collected, passed to the standard library, dropped."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from peffects.handlers import (
    Log,
    Message,
    debug,
    error,
    info,
    log_at,
    log_list,
    log_nothing,
    log_to,
    throw,
    warning,
    weak_exceptions,
)
from peffects.machine.handling.handler import handle
from peffects.machine.handling.operations import effectful
from peffects.parallel import Executor, Fin, Serial, Shuffled, Threads, pfor, run

EXECUTORS: list[Executor] = [Serial(), Shuffled(3), Threads(2, chunk=1)]


@effectful
def fit(i: int) -> Any:
    yield from debug("starts")
    yield from info("fitted", run=i, loss=0.5)
    if i == 1:
        yield from warning("slow")
    return i


@effectful
def program() -> Any:
    yield from info("begin")
    runs = yield from pfor(Fin(3), fit)
    yield from error("end")
    return list(runs)


@pytest.mark.parametrize("executor", EXECUTORS, ids=repr)
def test_messages_are_collected_in_index_order(executor: Executor) -> None:
    messages, result = run(handle(log_list(logging.INFO), program()), executor=executor)
    assert result == [0, 1, 2]
    assert [str(m) for m in messages] == [
        "begin",
        "fitted run=0 loss=0.5",
        "fitted run=1 loss=0.5",
        "slow",
        "fitted run=2 loss=0.5",
        "end",
    ]
    assert messages[1] == Message(logging.INFO, "fitted", {"run": 0, "loss": 0.5})


def test_levels_below_the_handler_s_are_left_out() -> None:
    def count(level: int) -> int:
        messages, _ = run(handle(log_list(level), program()))
        return len(messages)

    levels = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
    assert [count(level) for level in levels] == [9, 6, 2, 1, 0]


def test_a_message_costs_the_same_however_many_there_are() -> None:
    @effectful
    def chatty(n: int) -> Any:
        for i in range(n):
            yield from info("step", i=i)

    messages, _ = run(handle(log_list(), chatty(30_000)))
    assert [m.data["i"] for m in messages] == list(range(30_000))


def test_messages_go_to_the_standard_library(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("peffects.tests")
    with caplog.at_level(logging.INFO, logger="peffects.tests"):
        assert run(handle(log_to(logger), fit(1))) == 1
    found = [(r.levelname, r.getMessage(), vars(r)["data"]) for r in caplog.records]
    assert found == [
        ("INFO", "fitted run=1 loss=0.5", {"run": 1, "loss": 0.5}),
        ("WARNING", "slow", {}),
    ]


def test_messages_of_a_loop_go_to_the_standard_library_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger = logging.getLogger("peffects.tests")
    with caplog.at_level(logging.INFO, logger="peffects.tests"):
        run(handle(log_to(logger), program()), executor=Threads(2, chunk=1))
    assert sorted(r.getMessage() for r in caplog.records) == [
        "begin",
        "end",
        "fitted run=0 loss=0.5",
        "fitted run=1 loss=0.5",
        "fitted run=2 loss=0.5",
        "slow",
    ]


def test_messages_are_dropped() -> None:
    assert run(handle(log_nothing(), program())) == [0, 1, 2]


def test_instances_are_told_apart() -> None:
    class Audit(Log): ...

    @effectful
    def both() -> Any:
        yield from log_at(logging.INFO, "plain")
        yield from Audit.log(logging.INFO, "audit", user="me")

    audit, (plain, _) = run(handle(log_list(at=Audit), handle(log_list(), both())))
    assert [str(m) for m in audit] == ["audit user='me'"]
    assert [str(m) for m in plain] == ["plain"]


def test_a_failed_run_keeps_its_messages_outside_and_loses_them_inside() -> None:
    @effectful
    def failing() -> Any:
        yield from info("before")
        yield from throw("no")

    messages, _ = run(handle(log_list(), handle(weak_exceptions(), failing())))
    assert [m.text for m in messages] == ["before"]
    answer = run(handle(weak_exceptions(), handle(log_list(), failing())))
    assert answer.error == "no"
