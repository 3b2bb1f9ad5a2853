"""How many threads run compiled loops: the one place that decides it.

The number of threads never changes a result.  It is the number of processors this process may use,
or PEFFECTS_NUM_THREADS, or what `set_threads` and `threads` say; it may exceed the processors.  The
threads themselves are in `pool.py`.  numba's threading layers are not used: they abort on
concurrent launches (workqueue) or in forked children (omp), and fix the number of threads when they
start.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

import numpy as np

from peffects.codegen.launch.pool import current_pool, processor_count
from peffects.errors import ValueRangeError
from peffects.source import caller

__all__ = [
    "MOST_THREADS",
    "run_team",
    "set_threads",
    "thread_count",
    "threading_layer",
    "threads",
]

MOST_THREADS = 256


def _checked(count: object) -> int:
    """`count`, if it is a number of threads; raises ValueRangeError."""
    whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
    number = int(count) if whole else 0  # type: ignore[call-overload]  # of no number: 0
    if not 1 <= number <= MOST_THREADS:
        raise ValueRangeError(
            f"The number of threads is {count!r}.",
            at=caller(),
            fix=f"Give a whole number from 1 to {MOST_THREADS}.",
        )
    return number


def _initial_threads() -> int:
    chosen = os.environ.get("PEFFECTS_NUM_THREADS", "")
    if chosen:
        return _checked(int(chosen) if chosen.isdigit() else 0)
    return min(processor_count(), MOST_THREADS)


class _Default:
    """The number of threads where no `threads` context says otherwise."""

    count: int | None = None


_in_context: ContextVar[int | None] = ContextVar("peffects_threads", default=None)


def thread_count() -> int:
    """How many native threads a launch made here and now would use."""
    chosen = _in_context.get()
    if chosen is not None:
        return chosen
    if _Default.count is None:
        _Default.count = _initial_threads()
    return _Default.count


def set_threads(count: int) -> None:
    """Run compiled loops with `count` native threads from now on, in all Python threads."""
    _Default.count = _checked(count)


def threads(count: int) -> AbstractContextManager[None]:
    """Run the compiled loops of this context, and of no other Python thread, with `count`."""
    return _threads(_checked(count))  # tested at the user's line, before the `with` begins


@contextmanager
def _threads(count: int) -> Iterator[None]:
    token = _in_context.set(count)
    try:
        yield
    finally:
        _in_context.reset(token)


def run_team(team: int, threads: int) -> None:
    """Run all chunks of the team at address `team` in up to `threads` threads, this among them."""
    current_pool().run(team, threads)


def threading_layer() -> str:
    """What the threads are, for reports."""
    return "a pool of native threads"
