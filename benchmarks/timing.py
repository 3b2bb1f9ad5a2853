"""Fair times on a machine that does other things too: interleaved, the best of many, a range.

The two sides take turns, so whatever slows the machine down slows both.  Whatever else runs only
adds to a time, so the fastest round of each side tells most; the ratio is that of the fastest
rounds, and lies within the range of the ratios of single rounds, which is printed beside it.  Pools
of threads, such as that of numpy's BLAS, look for work for a while after a call and take the
processors from whoever comes next: a pause before each turn lets them fall asleep.  A benchmark
makes `Row`s with `compare(...)` or `alone(...)`; `run.py` prints them.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from peffects.codegen.launch.threads import thread_count

__all__ = ["Row", "advice", "alone", "compare", "threads", "time_call"]

Thunk = Callable[[], object]

# A measured span shorter than this is mostly clock and call.
_MIN_SPAN_S = 0.002
_SPANS = 3
_BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
_PAUSE_S = 0.05
"""OpenBLAS's threads spin for 2**26 cycles, 20 to 30 ms, before they sleep."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: our best time, the peer's, and peer / ours.

    `ratio` above 1 means that we are faster.  `low` and `high` are the ratios of the rounds that
    were worst and best for us.
    """

    name: str
    ours_s: float
    peer: str = ""
    peer_s: float = math.nan
    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan


def compare(name: str, ours: Thunk, peer: Thunk, *, against: str, rounds: int = 15) -> Row:
    """Time `ours` and `peer` in turn, `rounds` times, after one call of each to warm up."""
    _check_rounds(rounds)
    our_calls, peer_calls = _calls_for(ours), _calls_for(peer)
    our_times, peer_times = [], []
    for k in range(rounds):
        # Whoever goes second finds the caches full of the other's data: take turns at that too.
        if k % 2:
            peer_times.append(_turn(peer, peer_calls))
            our_times.append(_turn(ours, our_calls))
        else:
            our_times.append(_turn(ours, our_calls))
            peer_times.append(_turn(peer, peer_calls))
    ratios = [theirs / mine for mine, theirs in zip(our_times, peer_times, strict=True)]
    mine, theirs = min(our_times), min(peer_times)
    return Row(name, mine, against, theirs, theirs / mine, min(ratios), max(ratios))


def alone(name: str, ours: Thunk, *, rounds: int = 15) -> Row:
    """Time `ours` where there is no peer."""
    _check_rounds(rounds)
    calls = _calls_for(ours)
    return Row(name, min(_turn(ours, calls) for _ in range(rounds)))


def _turn(call: Thunk, calls: int) -> float:
    """The best of a few spans of `calls` calls, after a pause."""
    time.sleep(_PAUSE_S)
    spans = 1 if calls == 1 else _SPANS
    return min(time_call(call, calls) for _ in range(spans))


def time_call(call: Thunk, calls: int = 1) -> float:
    """Seconds that one of `calls` calls in a row takes."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def threads() -> str:
    """How many threads each side may use, in words."""
    processors = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    )
    blas = next(
        (os.environ[name] for name in _BLAS_VARIABLES if os.environ.get(name)), str(processors)
    )
    return f"{thread_count()} threads of ours, {blas} of numpy's BLAS, on {processors} processors"


def advice() -> list[str]:
    """What about this environment makes times misleading, one sentence each."""
    found = []
    for variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        if variable in os.environ:
            found.append(f"{variable} is set: numpy's BLAS may be slower than it could; unset it.")
    load = os.getloadavg()[0]
    if load > 0.5:
        found.append(f"Other processes are busy (load {load:.1f}): trust ratios, not times.")
    return found


def _check_rounds(rounds: int) -> None:
    if rounds < 3:
        raise ValueError(f"a median of {rounds} rounds says little: take at least 3")


def _calls_for(call: Thunk) -> int:
    """Calls in a row that fill the shortest span worth measuring; the first call warms up."""
    call()
    once_s = time_call(call)
    return max(1, math.ceil(_MIN_SPAN_S / max(once_s, 1e-9)))
