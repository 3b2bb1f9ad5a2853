"""How many threads run chunks, by which means, and that a failure stops what comes after it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from loop_programs import KERNELS, dot, scaled_sum, wait_for_others

from peffects.codegen import driver
from peffects.codegen.driver import (
    run_team,
    set_threads,
    thread_count,
    threading_layer,
    threads,
)
from peffects.codegen.loader import load
from peffects.codegen.loops import CHUNKS_SLOT, FAILED_SLOT, TRIP_SLOT
from peffects.codegen.workspace import Workspace, address_of
from peffects.errors import ValueRangeError


@pytest.fixture(params=["openmp", "helpers"])
def layer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Each of the ways in which chunks can be run."""
    monkeypatch.setenv("PEFFECTS_THREADING", request.param)
    threading_layer.cache_clear()
    if threading_layer() != request.param:
        pytest.skip(f"{request.param} is not to be had here")
    yield request.param
    threading_layer.cache_clear()


@pytest.fixture
def default_threads() -> Iterator[None]:
    """Forget afterwards what `set_threads` said."""
    before = driver._Default.count
    yield
    driver._Default.count = before


@pytest.mark.parametrize("count", [1, 2, 4, 16])
def test_all_layers_and_counts_give_the_same_bits(layer: str, count: int) -> None:
    x = np.random.default_rng(3).normal(size=10_000)
    with threads(1):
        (expected,) = dot(work_ns=1000)(x, x, len(x))
    with threads(count):
        for _ in range(20):
            assert dot(work_ns=1000)(x, x, len(x)) == (expected,)


@pytest.mark.parametrize("count", [2, 4])
def test_chunks_are_taken_one_by_one(layer: str, count: int) -> None:
    with threads(count):
        for _ in range(5):
            assert wait_for_others()(100) == (99,)


def test_concurrent_launches_are_right(layer: str) -> None:
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
    run_team(workspace.team_address, 1, workspace)
    assert words[FAILED_SLOT]
    assert workspace.ticks.sum() == 10


def test_threads_context_is_of_its_python_thread_only() -> None:
    outside = thread_count()
    seen: list[int] = []
    with threads(3):
        thread = threading.Thread(target=lambda: seen.append(thread_count()))
        thread.start()
        thread.join()
        with threads(2):
            assert thread_count() == 2
        assert thread_count() == 3
    assert seen == [outside]
    assert thread_count() == outside


@pytest.mark.usefixtures("default_threads")
def test_set_threads_is_for_all_python_threads() -> None:
    set_threads(7)
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(thread_count()))
    thread.start()
    thread.join()
    assert (thread_count(), seen) == (7, [7])


@pytest.mark.parametrize("count", [0, -1, 257])
def test_impossible_numbers_of_threads_are_refused_at_the_user_s_line(count: int) -> None:
    with pytest.raises(ValueRangeError, match=f"number of threads is {count}") as caught:
        set_threads(count)
    assert Path(caught.value.at.file) == Path(__file__)
    with pytest.raises(ValueRangeError, match="from 1 to 256"), threads(count):
        pass


@pytest.mark.usefixtures("default_threads")
def test_environment_says_how_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, expected in [("3", 3), ("1", 1)]:
        driver._Default.count = None
        monkeypatch.setenv("PEFFECTS_NUM_THREADS", text)
        assert thread_count() == expected
    for text in ("many", "0", "-2"):
        driver._Default.count = None
        monkeypatch.setenv("PEFFECTS_NUM_THREADS", text)
        with pytest.raises(ValueRangeError, match="number of threads"):
            thread_count()
    driver._Default.count = None
    monkeypatch.delenv("PEFFECTS_NUM_THREADS")
    assert 1 <= thread_count() <= driver.MOST_THREADS


def test_unknown_layer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEFFECTS_THREADING", "tbb")
    threading_layer.cache_clear()
    with pytest.raises(ValueRangeError, match="PEFFECTS_THREADING is 'tbb'"):
        threading_layer()
    threading_layer.cache_clear()


def test_helpers_run_chunks_where_there_is_no_openmp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delenv("PEFFECTS_THREADING", raising=False)
    threading_layer.cache_clear()
    driver._openmp.cache_clear()
    assert threading_layer() == "helpers"
    threading_layer.cache_clear()


def test_driver_loads_without_numba() -> None:
    code = (
        "import sys; from peffects.codegen import driver; driver._image(); "
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
