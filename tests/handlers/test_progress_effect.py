"""Progress: the bar of the handler and the ticks of the executor."""

from __future__ import annotations

import io
import re
import threading
from typing import Any

import pytest

from peffects.handlers import (
    Progress,
    accum,
    accumulate,
    no_progress,
    progress,
    progress_bar,
)
from peffects.machine.handling.handler import handle
from peffects.machine.handling.operations import effectful
from peffects.parallel import ADD, Executor, Fin, Serial, Shuffled, Threads, pfor, run


class Screen(io.StringIO):
    """Keeps what is drawn, and says when something new is."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = threading.Condition()

    def write(self, text: str, /) -> int:
        with self.drawn:
            self.drawn.notify_all()
            return super().write(text)

    def counts(self) -> list[str]:
        """The counts that were shown, each once."""
        return list(dict.fromkeys(re.findall(r"\d+/\d+", self.getvalue())))

    def percents(self) -> list[int]:
        return [int(p) for p in re.findall(r"(\d+)%", self.getvalue())]


@effectful
def body(i: int) -> Any:
    yield from progress(0.5)
    yield from accum(1)
    return i


@pytest.mark.parametrize("executor", [Serial(), Shuffled(1), Threads(2, chunk=1)], ids=repr)
def test_the_executor_draws_the_bar_of_the_handler(executor: Executor) -> None:
    screen = Screen()
    bar = progress_bar("fit", file=screen, force=True)
    total, values = run(handle(accumulate(ADD), handle(bar, pfor(Fin(4), body))), executor=executor)
    assert (total, values) == (4, [0, 1, 2, 3])
    assert screen.counts()[-1] == "4/4"
    assert screen.percents()[-1] == 100
    assert screen.getvalue().startswith("\rfit [")
    assert screen.getvalue().endswith("\n")


def test_the_bar_is_live_while_an_iteration_runs() -> None:
    """The iteration ends only when the bar has shown what it told."""
    screen = Screen()

    @effectful
    def waits(i: int) -> Any:
        yield from progress(0.25)
        with screen.drawn:
            assert screen.drawn.wait_for(lambda: 25 in screen.percents(), timeout=30)
        yield from progress(1.0)

    bar = progress_bar(file=screen, force=True)
    run(handle(bar, pfor(Fin(1), waits)), executor=Threads(1))
    assert screen.percents()[-1] == 100


def test_outside_of_loops_the_bar_shows_what_is_told() -> None:
    @effectful
    def program() -> Any:
        for part in range(1, 5):
            yield from progress(part / 4)
        return "done"

    screen = Screen()
    assert run(handle(progress_bar(file=screen, force=True), program())) == "done"
    assert screen.percents() == [25, 50, 75, 100]
    assert screen.counts() == []


def test_a_loop_within_an_iteration_has_no_bar() -> None:
    screen = Screen()
    nested = pfor(Fin(2), lambda i: pfor(Fin(3), lambda j: progress(0.5)))
    run(handle(progress_bar(file=screen, force=True), nested))
    assert all(count.endswith("/2") for count in screen.counts())


def test_nothing_is_drawn_where_there_is_no_terminal() -> None:
    screen = Screen()
    run(handle(accumulate(ADD), handle(progress_bar(file=screen), pfor(Fin(4), body))))
    assert screen.getvalue() == ""


def test_no_progress_draws_nothing() -> None:
    total, values = run(handle(accumulate(ADD), handle(no_progress(), pfor(Fin(4), body))))
    assert (total, values) == (4, [0, 1, 2, 3])


def test_the_bar_of_the_handler_goes_before_the_one_of_run() -> None:
    ticks: list[float] = []
    screen = Screen()
    run(
        handle(progress_bar(file=screen, force=True), pfor(Fin(2), lambda i: progress(0.5))),
        on_tick=lambda done, total, elapsed_s: ticks.append(done),
    )
    assert ticks == []
    assert screen.counts()[-1] == "2/2"


def test_instances_are_told_apart() -> None:
    class Inner(Progress): ...

    @effectful
    def both() -> Any:
        yield from progress(0.5)
        yield from Inner.progress(0.25)

    screen = Screen()
    run(handle(no_progress(), handle(progress_bar(file=screen, force=True, at=Inner), both())))
    assert screen.percents() == [25]
