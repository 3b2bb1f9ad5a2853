"""Executors: failures, progress, cancellation, Ctrl-C."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from peffects.errors import LoopCancelled
from peffects.machine.handling.operations import effectful
from peffects.parallel import (
    Executor,
    Fin,
    ProgressBar,
    Serial,
    Shuffled,
    Threads,
    pfor,
    report,
    run,
    use_executor,
)

ROOT = Path(__file__).resolve().parents[2]
EXECUTORS = [Serial(), Shuffled(1), Shuffled(2), Threads(2, chunk=1), Threads(4)]
executors = pytest.mark.parametrize("executor", EXECUTORS, ids=repr)


def silent(done: float, total: int, elapsed_s: float) -> None: ...


@executors
@pytest.mark.parametrize("on_tick", [None, silent])
def test_the_first_failure_in_index_order_is_raised_with_its_index(
    executor: Executor, on_tick: Any
) -> None:
    @effectful
    def body(i: int) -> Any:
        if i in (17, 23, 31):
            raise ValueError(f"bad {int(i)}")
        yield from ()
        return i

    @effectful
    def program() -> Any:
        return (yield from pfor(Fin(40), body))

    with pytest.raises(ValueError, match="bad 17") as caught:
        run(program(), executor=executor, on_tick=on_tick)
    (note,) = caught.value.__notes__
    assert note.startswith("in iteration 17 of the parallel for at test_executors.py:")
    assert note.endswith("in program:   return (yield from pfor(Fin(40), body))")


@executors
def test_iterations_before_a_failure_all_run(executor: Executor) -> None:
    ran = []

    def body(i: int) -> None:
        ran.append(int(i))
        if i >= 10:
            raise ValueError(i)

    with pytest.raises(ValueError, match="10"):
        run(pfor(Fin(20), body), executor=executor)
    assert set(range(11)) <= set(ran)
    assert len(ran) == len(set(ran))


def test_nested_loops_note_both_iterations() -> None:
    def inner(j: int) -> int:
        return 1 // (2 - j)

    @effectful
    def outer(i: int) -> Any:
        return (yield from pfor(Fin(3), inner))

    with pytest.raises(ZeroDivisionError) as caught:
        run(pfor(Fin(2), outer), executor=Threads(2))
    assert [note.split(" of ")[0] for note in caught.value.__notes__] == [
        "in iteration 2",
        "in iteration 0",
    ]


def test_threads_run_at_the_same_time() -> None:
    barrier = threading.Barrier(3, timeout=10)
    names = run(
        pfor(Fin(3), lambda i: (barrier.wait(), threading.current_thread().name)[1]),
        executor=Threads(3, chunk=1),
    )
    assert len(set(names)) == 3


def test_a_loop_inside_an_iteration_stays_on_its_thread() -> None:
    @effectful
    def body(i: int) -> Any:
        names = yield from pfor(Fin(4), lambda j: threading.get_ident())
        return set(names) == {threading.get_ident()}

    assert all(run(pfor(Fin(4), body), executor=Threads(2, chunk=1)))


def test_the_executor_is_chosen_by_context_or_argument() -> None:
    def name(i: int) -> str:
        return threading.current_thread().name

    main = threading.current_thread().name
    with use_executor(Threads(1)):
        assert run(pfor(Fin(1), name)) == ["peffects-worker-0"]
        assert run(pfor(Fin(1), name), executor=Serial()) == [main]
    assert run(pfor(Fin(1), name)) == [main]


@pytest.mark.parametrize(("workers", "chunk"), [(0, None), (-1, None), (2, 0)])
def test_threads_without_workers_are_refused(workers: int, chunk: int | None) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Threads(workers, chunk)


# --- progress ------------------------------------------------------------------------------------


@executors
def test_ticks_tell_how_far_the_loop_is(executor: Executor) -> None:
    ticks: list[float] = []

    def on_tick(done: float, total: int, elapsed_s: float) -> None:
        assert total == 5
        ticks.append(done)

    run(pfor(Fin(5), lambda i: time.sleep(0.03)), executor=executor, on_tick=on_tick)
    assert ticks[-1] == 5
    assert ticks == sorted(ticks)


@executors
def test_report_makes_a_long_iteration_count(executor: Executor) -> None:
    ticks: list[float] = []

    def long(i: int) -> None:
        for step in range(10):
            time.sleep(0.03)
            report(step / 10)

    run(
        pfor(Fin(1), long),
        executor=executor,
        on_tick=lambda done, total, elapsed_s: ticks.append(done),
    )
    assert any(0 < done < 1 for done in ticks)


def test_report_outside_a_loop_does_nothing() -> None:
    report(0.5)
    assert run(pfor(Fin(1), lambda i: report(0.5))) == [None]


def test_an_error_in_the_callback_ends_the_loop() -> None:
    def broken(done: float, total: int, elapsed_s: float) -> None:
        raise RuntimeError("callback")

    for executor in EXECUTORS:
        with pytest.raises(RuntimeError, match="callback"):
            run(pfor(Fin(3), lambda i: time.sleep(0.06)), executor=executor, on_tick=broken)


def test_the_bar_shows_part_count_and_seconds() -> None:
    file = io.StringIO()
    bar = ProgressBar(file, label="fit", force=True)
    bar(5, 10, 1.23)
    bar(10, 10, 2.0)
    first, second = file.getvalue().split("\r")[1:]
    assert first == f"fit [{'#' * 15}{'.' * 15}]  50%  5/10  1.2 s"
    assert second == f"fit [{'#' * 30}] 100%  10/10  2.0 s\n"


def test_the_bar_says_100_percent_at_the_end_only() -> None:
    file = io.StringIO()
    bar = ProgressBar(file, force=True)
    bar(9_999, 10_000, 1.0)
    bar(10_000, 10_000, 1.0)
    assert [line[33:37] for line in file.getvalue().split("\r")[1:]] == [" 99%", "100%"]


def test_the_bar_is_quiet_when_it_is_no_terminal() -> None:
    file = io.StringIO()
    ProgressBar(file)(1, 2, 0.1)
    assert file.getvalue() == ""


# --- cancelling ----------------------------------------------------------------------------------


def test_a_failure_ends_later_iterations_at_their_next_report() -> None:
    cancelled = threading.Event()
    started = threading.Event()

    def body(i: int) -> None:
        if i == 0:
            started.wait(10)
            raise ValueError("first")
        started.set()
        try:
            while True:
                time.sleep(0.005)
                report(0.5)
        except LoopCancelled:
            cancelled.set()
            raise

    with pytest.raises(ValueError, match="first"):
        run(pfor(Fin(2), body), executor=Threads(2, chunk=1))
    assert cancelled.is_set()


@pytest.mark.parametrize(
    "executor", ["Serial()", "Shuffled()", "Threads(3, chunk=1)", "Processes(2, chunk=1)"]
)
def test_ctrl_c_returns_within_half_a_second(executor: str) -> None:
    program = textwrap.dedent(
        f"""
        import sys, time
        from peffects.parallel import *

        def body(i):
            sys.stdout.write("started\\n")
            sys.stdout.flush()
            time.sleep(20)

        try:
            run(pfor(Fin(8), body), executor={executor})
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    asked = time.monotonic()
    child.send_signal(signal.SIGINT)
    output, _ = child.communicate(timeout=10)
    assert "interrupted" in output
    assert child.returncode == 0
    assert time.monotonic() - asked < 0.5


def test_ctrl_c_ends_threads_that_compute_and_unwinds_them() -> None:
    """At their next bytecode: an iteration that never reports does not go on in the background."""
    program = textwrap.dedent(
        """
        import sys, threading, time
        from peffects import effectful, handle
        from peffects.handlers import accum, accumulate
        from peffects.parallel import *

        unwound = []

        @effectful
        def body(i):
            try:
                yield from accum(1)
                sys.stdout.write("started\\n")
                sys.stdout.flush()
                while True:
                    pass
            finally:
                yield from accum(1)
                unwound.append(int(i))

        try:
            run(handle(accumulate(ADD), pfor(Fin(8), body)), executor=Threads(2, chunk=1))
        except KeyboardInterrupt:
            for thread in threading.enumerate():
                if thread is not threading.current_thread():
                    thread.join(5)
            print(threading.active_count(), sorted(unwound))
        """
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert child.stdout is not None
    assert [child.stdout.readline() for _ in range(2)] == ["started\n", "started\n"]
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=20) == ("1 [0, 1]\n", "")
    assert child.returncode == 0
