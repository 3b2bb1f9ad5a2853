"""Clock and Console: real handlers, and handlers for tests."""

from __future__ import annotations

import io
from typing import Any

import pytest

from peffects.errors import EffectArgumentError, TraverseError
from peffects.handlers import (
    Clock,
    Console,
    fake_clock,
    now,
    read_line,
    scripted,
    sleep,
    system_clock,
    terminal,
    write_line,
)
from peffects.machine.handling.handler import handle
from peffects.machine.handling.operations import effectful
from peffects.parallel import Executor, Fin, Serial, Shuffled, Threads, pfor, run


@effectful
def job(i: int) -> Any:
    yield from sleep(float(i))
    return (yield from now())


@effectful
def jobs() -> Any:
    yield from sleep(1.0)
    ends = yield from pfor(Fin(4), job)
    return list(ends), (yield from now())


@pytest.mark.parametrize("executor", [Serial(), Shuffled(2), Threads(2, chunk=1)], ids=repr)
def test_a_parallel_loop_takes_as_long_as_its_longest_iteration(executor: Executor) -> None:
    time_s, (ends, after) = run(handle(fake_clock(10.0), jobs()), executor=executor)
    assert ends == [11.0, 12.0, 13.0, 14.0]
    assert after == time_s == 14.0


def test_a_sequential_loop_takes_the_sum() -> None:
    @effectful
    def one_by_one() -> Any:
        for i in Fin(4):
            yield from job(i)

    assert run(handle(fake_clock(), one_by_one())) == (6.0, None)


def test_the_system_clock_waits() -> None:
    @effectful
    def program() -> Any:
        start = yield from now()
        yield from sleep(0.02)
        return (yield from now()) - start

    assert 0.02 <= run(handle(system_clock(), program())) < 20


def test_instances_are_different_clocks() -> None:
    class Simulated(Clock): ...

    @effectful
    def program() -> Any:
        yield from Simulated.sleep(5)
        return (yield from Simulated.now()), (yield from now())

    inner = handle(fake_clock(at=Simulated), program())
    assert run(handle(fake_clock(100.0), inner)) == (100.0, (5, (5, 100.0)))


@pytest.mark.parametrize("duration_s", [-1.0, float("nan")])
def test_waiting_less_than_no_time_is_refused(duration_s: float) -> None:
    with pytest.raises(EffectArgumentError, match="asked to wait") as caught:
        sleep(duration_s)
    assert caught.value.at.function == "test_waiting_less_than_no_time_is_refused"


@effectful
def greeting() -> Any:
    name = yield from read_line("name? ")
    while not name:
        yield from write_line("please say it")
        name = yield from read_line("name? ")
    yield from write_line(f"hello {name}")
    return name


def test_a_scripted_dialogue() -> None:
    shown, name = run(handle(scripted(["", "Ada", "unused"]), greeting()))
    assert name == "Ada"
    assert shown == ["name? ", "please say it", "name? Ada", "hello Ada"]


def test_the_end_of_the_script_can_be_caught() -> None:
    @effectful
    def patient() -> Any:
        try:
            return (yield from greeting())
        except EOFError as error:
            return str(error)

    shown, answer = run(handle(scripted([""]), patient()))
    assert answer == "the script has no further line"
    assert shown == ["name? ", "please say it"]
    with pytest.raises(EOFError):
        run(handle(scripted([]), greeting()))


def test_a_terminal_dialogue(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\nGrace\n"))
    assert run(handle(terminal(), greeting())) == "Grace"
    assert capsys.readouterr().out == "name? please say it\nname? hello Grace\n"


@pytest.mark.parametrize("handler", [terminal(), scripted([])])
def test_a_dialogue_has_an_order_and_is_not_parallel(handler: Any) -> None:
    with pytest.raises(TraverseError, match="write the loop sequentially"):
        run(handle(handler, pfor(Fin(2), lambda i: write_line(str(i)))))


def test_instances_are_different_consoles() -> None:
    class Other(Console): ...

    @effectful
    def program() -> Any:
        yield from Other.write_line((yield from read_line()))
        return (yield from Other.read_line("> "))

    inner = handle(scripted(["a"]), program())
    shown, (inner_shown, line) = run(handle(scripted(["b"], at=Other), inner))
    assert (shown, inner_shown, line) == (["a", "> b"], ["a"], "b")
