"""Helper threads: used again, waited for, and gone in a forked child."""

from __future__ import annotations

import os
import threading
import time

from peffects.codegen.launch import helper_threads as workers
from peffects.codegen.launch.helper_threads import start


def idle() -> None:
    """Wait until some helper waits for a job."""
    deadline = time.monotonic() + 5
    while not workers._idle and time.monotonic() < deadline:
        time.sleep(0.001)


def test_job_runs_in_another_thread_and_can_be_waited_for() -> None:
    seen: list[int] = []
    job = start(lambda: seen.append(threading.get_ident()))
    assert job.wait(5)
    assert job.wait(), "waiting twice is fine"
    assert seen != [threading.get_ident()]
    assert len(seen) == 1


def test_threads_are_used_again() -> None:
    seen: list[str] = []
    for _ in range(5):
        start(lambda: seen.append(threading.current_thread().name)).wait(5)
        idle()
    before = threading.active_count()
    for _ in range(5):
        start(lambda: None).wait(5)
        idle()
    assert threading.active_count() == before
    assert set(seen) == {"peffects helper"}


def test_waiting_for_a_while_only() -> None:
    may_end = threading.Event()

    def work() -> None:
        may_end.wait(5)

    job = start(work)
    assert not job.wait(0.01)
    may_end.set()
    assert job.wait(5)


def test_exception_is_kept_for_the_one_who_waits() -> None:
    def fail() -> None:
        raise KeyError("mine")

    job = start(fail)
    assert job.wait(5)
    assert isinstance(job.error, KeyError)


def test_forked_child_starts_with_no_helpers() -> None:
    start(lambda: None).wait(5)
    idle()
    child = os.fork()
    if child == 0:
        right = not workers._idle and start(lambda: None).wait(5)
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
