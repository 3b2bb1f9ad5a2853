"""Long launches: Ctrl-C, progress, timeouts, nesting, many Python threads, forks."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from loop_programs import dot, linger, scaled_sum, steps, wait_for_others

from peffects.codegen.launch.launcher import Progress, launch_options
from peffects.codegen.launch.threads import threads
from peffects.errors import LaunchTimeoutError

ENDLESS = 1 << 40
SOON_S = 0.2
"""Within this time a launch must have stopped."""


class Stop(Exception):
    """What a callback raises here."""


def after(delay_s: float, action: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(delay_s, action)
    timer.start()
    return timer


# --- interruption -----------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("most", [1, 64])
def test_ctrl_c_stops_a_long_loop_at_once(count: int, most: int) -> None:
    f = linger(most=most)
    pressed: list[float] = []

    def press() -> None:
        pressed.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    with threads(count):
        timer = after(0.15, press)
        with pytest.raises(KeyboardInterrupt):
            f(ENDLESS, 100)
        waited = time.perf_counter() - pressed[0]
        timer.join()
        assert waited < SOON_S
        assert f(3, 1) == (), "the next launch is not cancelled"


def test_ctrl_c_stops_a_host_loop_between_its_stages() -> None:
    timer = after(0.15, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        steps(work_ns=1000)(np.ones(10), 10, ENDLESS)
    timer.join()


def test_timeout_stops_the_launch_and_names_the_program() -> None:
    f = linger()
    start = time.perf_counter()
    with launch_options(timeout_s=0.1), pytest.raises(LaunchTimeoutError) as caught:
        f(ENDLESS, 100)
    assert 0.1 <= time.perf_counter() - start < 0.1 + SOON_S
    assert isinstance(caught.value, TimeoutError)
    assert "of linger ran longer than 0.1 s and were stopped in linger" in str(caught.value)
    assert caught.value.at.line == 7


def test_timeout_is_for_each_launch_and_for_its_context_only() -> None:
    f = linger()
    with launch_options(timeout_s=5.0):
        for _ in range(3):
            f(10, 10)
    f(10, 10)


def test_timeout_holds_in_other_python_threads_too() -> None:
    caught: list[BaseException] = []

    def launch() -> None:
        try:
            with launch_options(timeout_s=0.05):
                linger()(ENDLESS, 100)
        except LaunchTimeoutError as error:
            caught.append(error)

    thread = threading.Thread(target=launch)
    thread.start()
    thread.join(timeout=5)
    assert len(caught) == 1


# --- progress ---------------------------------------------------------------------------------


def test_progress_grows_to_one() -> None:
    seen: list[Progress] = []
    f = linger(most=1)
    rounds = 1000
    start = time.perf_counter()
    f(100, rounds)
    trip = int(0.4 / max(time.perf_counter() - start, 1e-9) * 100)
    with launch_options(progress=seen.append):
        f(trip, rounds)
    fractions = [progress.fraction for progress in seen]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert any(0.05 < fraction < 0.95 for fraction in fractions)
    assert {progress.kernel for progress in seen} == {"linger"}
    assert seen[-1].elapsed_s > 0


def test_progress_counts_finished_stages() -> None:
    """Half of the host loop's steps are half of the work."""
    seen: list[float] = []
    x = np.ones(1_000_000)
    with launch_options(progress=lambda progress: seen.append(progress.fraction)):
        steps(work_ns=1)(x, len(x), 300)
    assert any(0.1 < fraction < 0.9 for fraction in seen)
    assert seen == sorted(seen)


def test_exception_of_a_progress_callback_stops_the_launch() -> None:
    def refuse(progress: Progress) -> None:
        raise Stop

    with launch_options(progress=refuse), pytest.raises(Stop):
        linger()(ENDLESS, 100)


def test_options_are_inherited_by_inner_contexts() -> None:
    seen: list[Progress] = []
    with launch_options(progress=seen.append), launch_options(timeout_s=9.0):
        linger()(10, 1)
    assert seen


def test_options_end_with_their_context() -> None:
    seen: list[Progress] = []
    with launch_options(progress=seen.append):
        linger()(10, 1)
    told = len(seen)
    linger()(10, 1)
    assert len(seen) == told > 0


def test_launch_inside_a_callback_of_a_launch() -> None:
    x = np.arange(50.0)
    inner: list[float] = []

    def launch_again(progress: Progress) -> None:
        inner.append(float(dot(work_ns=10_000_000)(x, x, 50)[0]))

    with launch_options(progress=launch_again):
        scaled_sum(work_ns=10_000_000)(x, x, 1.0, 50)
    assert inner[-1] == float(x @ x)


# --- Python threads and forks -----------------------------------------------------------------


def in_python_threads(count: int, work: Callable[[int], None]) -> None:
    """Run `work(k)` in that many threads and raise what one of them raised."""
    errors: list[BaseException] = []

    def run(k: int) -> None:
        try:
            work(k)
        except BaseException as error:
            errors.append(error)

    started = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join(timeout=60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def test_eight_python_threads_launch_one_program_at_once() -> None:
    f = dot(work_ns=1000)

    def work(k: int) -> None:
        x = np.full(1000, float(k))
        for _ in range(50):
            assert f(x, x, 1000) == (1000.0 * k * k,)

    in_python_threads(8, work)


def test_number_of_threads_is_that_of_the_launching_context() -> None:
    """Also when the launch is handed to a helper thread: with one thread, chunk 0 waits forever."""
    f = wait_for_others()
    with threads(2), launch_options(timeout_s=30.0):
        assert f(8) == (7,)
    with threads(1), launch_options(timeout_s=0.05), pytest.raises(LaunchTimeoutError):
        f(8)


def test_slow_chunk_delays_no_other() -> None:
    """Chunks are taken one by one: the first ends only when the others have been run."""
    with threads(2):
        assert wait_for_others()(64) == (63,)


def test_forked_child_launches_in_parallel() -> None:
    f = dot(work_ns=100_000)
    x = np.arange(100.0)
    expected = f(x, x, 100)
    child = os.fork()
    if child == 0:
        with threads(2):
            right = f(x, x, 100) == expected and wait_for_others()(8) == (7,)
        os._exit(0 if right else 1)
    deadline = time.monotonic() + 20
    done, status = os.waitpid(child, os.WNOHANG)
    while not done and time.monotonic() < deadline:
        time.sleep(0.01)
        done, status = os.waitpid(child, os.WNOHANG)
    if not done:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert done, "the child hangs"
    assert os.waitstatus_to_exitcode(status) == 0
    assert f(x, x, 100) == expected
