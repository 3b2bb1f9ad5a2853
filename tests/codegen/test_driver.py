"""How many threads run compiled loops: for all, for a context, by the environment."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peffects.codegen.launch import threads as driver
from peffects.codegen.launch.threads import (
    set_threads,
    thread_count,
    threading_layer,
    threads,
)
from peffects.errors import ValueRangeError


@pytest.fixture
def default_threads() -> Iterator[None]:
    """Forget afterwards what `set_threads` said."""
    before = driver._Default.count
    yield
    driver._Default.count = before


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


@pytest.mark.parametrize("count", [0, -1, 257, 10**9, 1.5, True, "a", None])
def test_impossible_numbers_of_threads_are_refused_at_the_user_s_line(count: Any) -> None:
    with pytest.raises(ValueRangeError, match=re.escape(f"number of threads is {count!r}.")) as of:
        set_threads(count)
    assert Path(of.value.at.file) == Path(__file__)
    with pytest.raises(ValueRangeError, match="from 1 to 256") as of, threads(count):
        pass
    assert Path(of.value.at.file) == Path(__file__)


def test_numbers_of_numpy_are_numbers_of_threads() -> None:
    with threads(np.int32(3)):  # type: ignore[arg-type]
        assert thread_count() == 3


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


def test_a_report_can_name_the_threads() -> None:
    assert threading_layer() == "a pool of native threads"
