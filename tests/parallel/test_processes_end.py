"""How workers end: without a word, with what they started, and after what they printed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import peffects as pe
from peffects.errors import WorkerDied
from peffects.parallel import Fin, Processes, pfor, run

BEGIN = """
import logging, os, subprocess, sys, time
from multiprocessing import shared_memory
from peffects import Fin, pfor, run
from peffects.parallel import Processes
"""
BUSY = (
    BEGIN
    + """
def body(i):
    sleeper = subprocess.Popen(["sleep", "60"])
    print(os.getpid(), sleeper.pid, flush=True)
    if i == 0:
        sum(range(10**11))              # hears nothing until it is done
    while True:
        logging.getLogger("user").debug("x" * 1000)

logging.getLogger().setLevel(logging.DEBUG)
run(pfor(Fin(2), body), executor=Processes(2, chunk=1))
"""
)


def start(text: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(pe.__file__).parent.parent)}
    environment.pop("PYTHONUNBUFFERED", None)
    return subprocess.Popen(
        [sys.executable, "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )


def is_gone(pid: int) -> bool:
    """Whether it ends soon; that nobody has waited for it is no matter."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        state = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True
        )
        if not state.stdout.strip() or state.stdout.startswith("Z"):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_program_that_is_ended_leaves_nothing_behind_and_says_nothing_more(
    sent: signal.Signals,
) -> None:
    program = start(BUSY)
    assert program.stdout is not None
    started = [int(pid) for _ in range(2) for pid in program.stdout.readline().split()]
    program.send_signal(sent)
    _, errors = program.communicate(timeout=30)
    assert program.returncode == -sent
    assert len(started) == 4
    assert all(map(is_gone, started))
    shown = errors.splitlines()
    if sent == signal.SIGINT:
        assert (shown[0], shown[-1]) == ("Traceback (most recent call last):", "KeyboardInterrupt")
        assert len(shown) < 8
    else:
        assert shown == []


FAILING = (
    BEGIN
    + """
def body(i):
    segment = shared_memory.SharedMemory(create=True, size=8, name=f"pe_{os.getppid()}_{i}")
    if i == 0:
        time.sleep(0.5)
        segment.close()
        segment.unlink()
        raise ValueError("bad")
    time.sleep(60)

print(os.getpid())
run(pfor(Fin(2), body), executor=Processes(2, chunk=1))
"""
)


def test_a_failure_ends_other_workers_with_their_shared_memory() -> None:
    began = time.monotonic()
    output, errors = start(FAILING).communicate(timeout=30)
    assert time.monotonic() - began < 30
    shown = [line for line in errors.splitlines() if "resource_tracker" not in line]
    assert shown[0] == "Traceback (most recent call last):"
    assert "ValueError: bad" in shown
    assert not any("Connection" in line or "worker.py" in line for line in shown)
    left = Path("/dev/shm")
    if left.is_dir():
        assert [path for path in left.glob(f"pe_{output.strip()}_*")] == []


PRINTING = (
    BEGIN
    + """
def body(i):
    print("iteration", int(i))
    print("warning", int(i), end="!", file=sys.stderr)
    if i == 2:
        sys.exit(7)

run(pfor(Fin(3), body), executor=Processes(1))
"""
)


def test_what_iterations_print_is_not_lost_and_their_exit_is_that_of_the_program() -> None:
    program = start(PRINTING)
    output, errors = program.communicate(timeout=30)
    assert output.splitlines() == ["iteration 0", "iteration 1", "iteration 2"]
    assert errors == "warning 0!warning 1!warning 2!"
    assert program.returncode == 7


def leaves_a_child(i: int) -> None:
    """Its child has the worker's end of the pipe for some time."""
    if os.fork() == 0:
        time.sleep(20)
    os._exit(5)


def test_a_worker_that_died_is_noticed_though_its_child_has_the_pipe() -> None:
    began = time.monotonic()
    with Processes(1) as executor, pytest.raises(WorkerDied, match="exit code 5"):
        run(pfor(Fin(1), leaves_a_child), executor=executor)
    assert time.monotonic() - began < 15


def test_idle_workers_end_with_their_executor() -> None:
    with Processes(2, chunk=1) as executor:
        workers = set(run(pfor(Fin(8), lambda i: os.getpid()), executor=executor))
    assert all(map(is_gone, workers))
