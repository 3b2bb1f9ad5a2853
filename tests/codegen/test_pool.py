"""The pool of native threads: right under stress, shared, and made anew in a forked child."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from loop_programs import KERNELS, dot, linger, scaled_sum, steps, wait_for_others

from peffects.codegen.launch import pool
from peffects.codegen.launch.launcher import launch_options
from peffects.codegen.launch.pool import Pool, current_pool
from peffects.codegen.launch.threads import run_team, threads
from peffects.codegen.launch.workspace import Workspace, address_of
from peffects.codegen.load.loader import load
from peffects.codegen.program.loop_programs import CHUNKS_SLOT, FAILED_SLOT, TRIP_SLOT


@pytest.mark.parametrize("count", [1, 2, 4, 16])
def test_all_layers_and_counts_give_the_same_bits(count: int) -> None:
    x = np.random.default_rng(3).normal(size=10_000)
    with threads(1):
        (expected,) = dot(work_ns=1000)(x, x, len(x))
    with threads(count):
        for _ in range(20):
            assert dot(work_ns=1000)(x, x, len(x)) == (expected,)


@pytest.mark.parametrize("count", [2, 4])
def test_chunks_are_taken_one_by_one(count: int) -> None:
    with threads(count):
        for _ in range(5):
            assert wait_for_others()(100) == (99,)


def test_concurrent_launches_are_right() -> None:
    f = scaled_sum(work_ns=100_000)
    wrong: list[int] = []

    def launch(k: int) -> None:
        x = np.full(100, float(k))
        for _ in range(30):
            if not np.array_equal(f(x, x, 2.0, 100)[0], 3 * x):
                wrong.append(k)

    started = [threading.Thread(target=launch, args=(k,)) for k in range(8)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join(60)
        assert not thread.is_alive()
    assert wrong == []


def test_chunks_after_a_failure_are_not_started() -> None:
    """They are taken in order, so those not yet taken come after the one that failed."""
    chunks = 100
    x, out, index = np.zeros(2), np.zeros(chunks), np.zeros(chunks, np.int64)
    index[10] = 5
    workspace = Workspace(13, chunks)
    words, team = workspace.words, workspace.team_at
    words[CHUNKS_SLOT] = words[TRIP_SLOT] = chunks
    words[8], words[9], words[10], words[12] = address_of(x), address_of(index), 2, address_of(out)
    words[team + 1], words[team + 3] = chunks, workspace.frame_address
    module = load(KERNELS, ["gather"])
    words[team + 2] = module.addresses["gather"]
    run_team(workspace.team_address, 1)
    assert words[FAILED_SLOT]
    assert workspace.ticks.sum() == 10


@pytest.mark.parametrize("count", [2, 4])
def test_thousands_of_launches_in_a_row(count: int) -> None:
    """Also with pauses, after which the threads sleep."""
    x = np.arange(100.0)
    expected = x.copy()
    for step in range(2000):
        expected = expected / 2 + step
    f, g = steps(work_ns=10_000), scaled_sum(work_ns=10_000)
    with threads(count):
        np.testing.assert_array_equal(f(x, 100, 2000)[0], expected)
        for pause_s in [0.0, 0.0001, 0.0003, 0.001, 0.01] * 20:
            time.sleep(pause_s)
            np.testing.assert_array_equal(g(x, x, 2.0, 100)[0], 3 * x)


def test_launch_that_finds_the_pool_taken_runs_all_the_same() -> None:
    started = threading.Event()
    x = np.arange(100.0)
    thread = threading.Thread(target=launch_long_for, args=(0.6, started))
    thread.start()
    assert started.wait(5)
    begun = time.perf_counter()
    with threads(2):
        np.testing.assert_array_equal(scaled_sum(work_ns=10_000)(x, x, 2.0, 100)[0], 3 * x)
    assert time.perf_counter() - begun < 0.5, "it does not wait for the other launch"
    thread.join()


def launch_long_for(seconds: float, started: threading.Event) -> None:
    """A parallel launch that ends by its timeout."""
    with (
        pytest.raises(TimeoutError),
        threads(2),
        launch_options(timeout_s=seconds, progress=lambda progress: started.set()),
    ):
        linger()(1 << 40, 10)


def test_pool_goes_on_with_the_threads_that_the_system_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Refusing:
        """A C library whose `pthread_create` has no resources (EAGAIN)."""

        pthread_create = staticmethod(lambda *arguments: 11)

    fresh = Pool()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Refusing)
    monkeypatch.setattr(pool._Current, "pool", fresh)
    x = np.arange(100.0)
    with threads(4):
        np.testing.assert_array_equal(scaled_sum(work_ns=10_000)(x, x, 2.0, 100)[0], 3 * x)
    assert fresh._started == 0


def test_there_is_one_pool_and_a_forked_child_has_its_own() -> None:
    parent = current_pool()
    assert current_pool() is parent
    with threads(2):
        assert wait_for_others()(8) == (7,)
    child = os.fork()
    if child == 0:
        with threads(2):
            right = wait_for_others()(8) == (7,) and current_pool() is not parent
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_process_ends_while_the_threads_spin_or_sleep() -> None:
    code = """
import sys, time
import numpy as np
from loop_programs import dot
from peffects.codegen.launch.threads import set_threads
set_threads(4)
x = np.ones(100)
assert dot(work_ns=100_000)(x, x, 100) == (100.0,)
time.sleep(float(sys.argv[1]))
"""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join([root, os.path.join(root, "tests")])
    for pause_s in ("0", "0", "0.05"):
        subprocess.run(
            [sys.executable, "-c", code, pause_s],
            env={**os.environ, "PYTHONPATH": path},
            check=True,
            timeout=60,
        )


def test_pool_needs_no_numba() -> None:
    code = (
        "import sys; from peffects.codegen.launch.pool import current_pool; current_pool(); "
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
