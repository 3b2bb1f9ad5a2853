"""Run the chunks of a stage in several native threads: the one place that knows about threads.

`_TAKE_CHUNKS`, compiled once per process in milliseconds, takes the next chunk of a *team* from an
atomic counter and calls the kernel with it, until there are none: a slow chunk delays nobody.  A
team is four words: next chunk, number of chunks, address of the kernel, address of the frame.

OpenMP's threads run it where GNU's runtime is there (2 microseconds a launch; several Python
threads may launch at once), helper threads of our own elsewhere and in a forked child, whose OpenMP
threads are gone.  numba's threading layers are not used: they abort on concurrent launches
(workqueue) or in forked children (omp), fix the number of threads when they start, and need numba's
import.

The number of threads never changes a result.  It is the number of processors this process may use,
or PEFFECTS_NUM_THREADS, or what `set_threads` and `threads` say; it may exceed the processors.
PEFFECTS_THREADING chooses `openmp` or `helpers`.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import cast

from peffects.codegen import workers
from peffects.codegen.loops import FAILED_SLOT
from peffects.codegen.machine_code import Image, image_of_text
from peffects.errors import ValueRangeError
from peffects.source import caller

__all__ = [
    "MOST_THREADS",
    "TEAM_WORDS",
    "run_team",
    "set_threads",
    "thread_count",
    "threading_layer",
    "threads",
]

MOST_THREADS = 256
TEAM_WORDS = 4

_TAKE_CHUNKS = """
define void @take_chunks(ptr %team) {
entry:
  %chunks.at = getelementptr i64, ptr %team, i64 1
  %chunks = load i64, ptr %chunks.at
  %kernel.at = getelementptr i64, ptr %team, i64 2
  %kernel = load ptr, ptr %kernel.at
  %frame.at = getelementptr i64, ptr %team, i64 3
  %frame = load i64, ptr %frame.at
  %slots = inttoptr i64 %frame to ptr
  %failed.at = getelementptr i64, ptr %slots, i64 FAILED_SLOT
  br label %take
take:
  %chunk = atomicrmw add ptr %team, i64 1 monotonic
  %more = icmp slt i64 %chunk, %chunks
  br i1 %more, label %check, label %done
check:
  ; chunks are taken in order: those not yet taken come after the one that failed
  %failed = load atomic i64, ptr %failed.at monotonic, align 8
  %well = icmp eq i64 %failed, 0
  br i1 %well, label %run, label %done
run:
  call void %kernel(i64 %chunk, i64 %frame)
  br label %take
done:
  ret void
}
""".replace("FAILED_SLOT", str(FAILED_SLOT))


# --- how many threads -------------------------------------------------------------------------


def _checked(count: int) -> int:
    if not 1 <= count <= MOST_THREADS:
        raise ValueRangeError(
            f"The number of threads is {count!r}.",
            at=caller(),
            fix=f"Give a whole number from 1 to {MOST_THREADS}.",
        )
    return count


def _initial_threads() -> int:
    chosen = os.environ.get("PEFFECTS_NUM_THREADS", "")
    if chosen:
        return _checked(int(chosen) if chosen.isdigit() else 0)
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), MOST_THREADS)
    return min(os.cpu_count() or 1, MOST_THREADS)


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


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run the compiled loops of this context, and of no other Python thread, with `count`."""
    token = _in_context.set(_checked(count))
    try:
        yield
    finally:
        _in_context.reset(token)


# --- running a team ---------------------------------------------------------------------------


def run_team(team: int, threads: int, keep: object) -> None:
    """Run all chunks of the team at address `team` in up to `threads` threads.

    When this returns, no thread uses the team; when an exception leaves it, helpers may still do,
    and hold `keep` (which owns the memory) until they end.
    """
    if threads == 1:
        _take_chunks()(team)
    elif threading_layer() == "openmp":
        _openmp()(_image().addresses["take_chunks"], team, threads, 0)
    else:
        _run_with_helpers(team, threads, keep)


@functools.cache
def threading_layer() -> str:
    """What runs chunks in this process: `openmp` or `helpers`."""
    chosen = os.environ.get("PEFFECTS_THREADING", "")
    if chosen not in ("", "openmp", "helpers"):
        raise ValueRangeError(
            f"PEFFECTS_THREADING is {chosen!r}.", fix="Set it to `openmp` or to `helpers`."
        )
    if chosen == "helpers" or workers.is_forked():
        return "helpers"
    try:
        _openmp()
    except OSError:
        return "helpers"
    return "openmp"


os.register_at_fork(after_in_child=threading_layer.cache_clear)


@functools.cache
def _image() -> Image:
    return image_of_text(_TAKE_CHUNKS, ["take_chunks"])


@functools.cache
def _take_chunks() -> Callable[[int], None]:
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_int64)  # releases the interpreter lock
    return prototype(_image().addresses["take_chunks"])


@functools.cache
def _openmp() -> Callable[[int, int, int, int], None]:
    """GNU OpenMP's entry for outlined parallel regions; OSError where it is not to be had."""
    if not sys.platform.startswith("linux"):
        raise OSError("GNU OpenMP is looked for on Linux only")
    parallel = ctypes.CDLL("libgomp.so.1").GOMP_parallel
    parallel.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_uint, ctypes.c_uint]
    parallel.restype = None
    return cast(Callable[[int, int, int, int], None], parallel)


def _run_with_helpers(team: int, threads: int, keep: object) -> None:
    take = _take_chunks()

    def help_out(keep: object = keep) -> None:
        take(team)

    jobs = [workers.start(help_out) for _ in range(threads - 1)]
    take(team)
    for job in jobs:
        job.revoke() or job.wait()
