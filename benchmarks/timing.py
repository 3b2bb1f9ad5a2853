"""Fair times on a machine that does other things too: paired, interleaved, medians of ratios.

The two sides take turns, so whatever slows the machine down slows both; the ratio of each round is
free of it, and the median of the ratios is what we report.  A benchmark makes `Row`s with
`compare(...)` or `alone(...)`; `run.py` prints them.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Row", "advice", "alone", "compare", "time_call"]

Thunk = Callable[[], object]

# A measured span shorter than this is mostly clock and call.
_MIN_SPAN_S = 0.002


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: our median time, the peer's, and the median of peer / ours.

    `ratio` above 1 means that we are faster.  `low` and `high` are its quartiles.
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
            peer_times.append(time_call(peer, peer_calls))
            our_times.append(time_call(ours, our_calls))
        else:
            our_times.append(time_call(ours, our_calls))
            peer_times.append(time_call(peer, peer_calls))
    ratios = [theirs / mine for mine, theirs in zip(our_times, peer_times, strict=True)]
    low, ratio, high = statistics.quantiles(ratios, n=4)
    return Row(
        name,
        statistics.median(our_times),
        against,
        statistics.median(peer_times),
        ratio,
        low,
        high,
    )


def alone(name: str, ours: Thunk, *, rounds: int = 15) -> Row:
    """Time `ours` where there is no peer."""
    _check_rounds(rounds)
    calls = _calls_for(ours)
    return Row(name, statistics.median(time_call(ours, calls) for _ in range(rounds)))


def time_call(call: Thunk, calls: int = 1) -> float:
    """Seconds that one of `calls` calls in a row takes."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


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
