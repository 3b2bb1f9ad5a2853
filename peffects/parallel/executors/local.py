"""Executors: what runs the iterations of a loop that has no handlers left.

All give the same results, and of several failures the same one: the first in index order.  `Serial`
runs in index order, `Shuffled` in a random order (a test tool: nothing may depend on the order),
`Threads` on threads that take chunks as they go.  A loop inside an iteration runs serially.  An
executor calls `on_tick(done, total, elapsed_s)` now and then; `report` makes a long iteration count
before it has ended.  Layer 2; next: `running.py`.
"""

from __future__ import annotations

import ctypes
import os
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar, copy_context
from typing import Any, Protocol

from peffects.errors import LoopCancelled, PeffectsError
from peffects.machine.checking.never_performed import NEWEST, forgive
from peffects.machine.resuming.parallel_for import OnTick
from peffects.source import SrcInfo

__all__ = ["Executor", "Serial", "Shuffled", "Threads", "report"]

_TICK_S = 0.1
_WAIT_S = 0.05
_GRACE_S = 0.15
"""After Ctrl-C, how long to wait for iterations to unwind; some may be in a call that goes on."""


class Worker:
    """One thread's share of a running loop."""

    __slots__ = ("done", "fraction", "index", "loop")

    def __init__(self, loop: RunningLoop) -> None:
        self.loop = loop
        self.index = -1
        self.done = 0
        self.fraction = 0.0

    def report(self, fraction: float) -> None:
        """So much of the running iteration is done; ends it if it cannot matter any more."""
        loop = self.loop
        if loop.cancelled or self.index > loop.limit:
            raise LoopCancelled(
                f"iteration {self.index} stops, since its loop is cancelled.", at=loop.where()
            )
        self.fraction = min(max(fraction, 0.0), 1.0)
        if loop.ticks_inline:
            loop.tick()


class WorkerShare(Protocol):
    """What one of a loop's workers has done: whole iterations, and of the running one."""

    done: int
    fraction: float


class Reporting(Protocol):
    """What `report` tells; there is one where an iteration runs."""

    def report(self, fraction: float, /) -> None:
        """So much of the running iteration is done."""


running_worker: ContextVar[Reporting | None] = ContextVar("peffects_worker", default=None)


def report(fraction: float) -> None:
    """Say how much of the running iteration is done (0 to 1); outside a loop this does nothing."""
    worker = running_worker.get()
    if worker is not None:
        worker.report(fraction)


class RunningLoop:
    """A loop while it runs: results, the first failure in index order, progress."""

    def __init__(
        self,
        size: int,
        iterate: Callable[[int], Any],
        where: Callable[[], SrcInfo],
        on_tick: OnTick | None,
        ticks_inline: bool,
    ) -> None:
        self.size = size
        self.iterate = iterate
        self.where = where
        self.on_tick = on_tick
        self.ticks_inline = ticks_inline and on_tick is not None
        self.results: list[Any] = [None] * size
        self.failure: BaseException | None = None
        self.limit = size
        self.cancelled = False
        self.workers: list[WorkerShare] = []
        self.started = time.monotonic()
        self._next_tick = self.started
        self._lock = threading.Lock()

    def work(self, indices: Iterable[int]) -> None:
        """Run these iterations in the calling thread, except those that cannot matter any more."""
        worker = Worker(self)
        self.workers.append(worker)
        token = running_worker.set(worker)
        iterate, results = self.iterate, self.results
        try:
            for i in indices:
                if i >= self.limit or self.cancelled:
                    continue
                worker.index = i
                try:
                    results[i] = iterate(i)
                except LoopCancelled:
                    continue  # `report` ended it: its result cannot matter any more
                except Exception as error:
                    self.failed(i, error)
                worker.fraction = 0.0
                worker.done += 1
                if self.ticks_inline:
                    self.tick()
        finally:
            running_worker.reset(token)

    def failed(self, i: int, error: BaseException) -> None:
        """Iteration `i` failed; of several failures the first in index order counts."""
        if NEWEST.armed:
            forgive(error)
        note_iteration(error, i, self.where())
        with self._lock:
            if i < self.limit:
                self.limit, self.failure = i, error

    def tick(self, last: bool = False) -> None:
        """Tell how far the loop is, unless that was told a moment ago."""
        now = time.monotonic()
        if self.on_tick is None or (now < self._next_tick and not last):
            return
        self._next_tick = now + _TICK_S
        done = sum(worker.done + worker.fraction for worker in self.workers)
        if done >= self.size and not last:
            return  # the end is told once, by `finish`
        self.on_tick(done, self.size, now - self.started)

    def finish(self) -> list[Any]:
        """The results, or the first failure in index order."""
        if self.failure is not None:
            raise self.failure
        if self.on_tick is not None:
            self.tick(last=True)
        return self.results


class ChunkPlan:
    """Cuts the iterations into chunks, in index order, for whoever is free next."""

    __slots__ = ("chunk", "next", "size", "workers")

    def __init__(self, size: int, workers: int, chunk: int | None) -> None:
        self.size = size
        self.workers = workers
        self.chunk = chunk
        self.next = 0

    def take(self, limit: int) -> range:
        """The next chunk; empty when all iterations below `limit` are taken."""
        first, end = self.next, min(self.size, limit)
        if first >= end:
            return range(0)
        # A part of what is left for each worker: long ones first, short ones to fill the gaps.
        length = self.chunk or max(1, (self.size - first) // (4 * self.workers))
        self.next = min(first + length, self.size)
        return range(first, self.next)


class Executor(ABC):
    """Base of executors."""

    @abstractmethod
    def execute(
        self,
        size: int,
        iterate: Callable[[int], Any],
        where: Callable[[], SrcInfo],
        on_tick: OnTick | None = None,
    ) -> list[Any]:
        """Run `iterate(i)` for all i below `size`; the results in index order.

        `where` finds the user's line of the loop, for messages.
        """


class Serial(Executor):
    """Runs the iterations in index order in the calling thread."""

    def execute(
        self,
        size: int,
        iterate: Callable[[int], Any],
        where: Callable[[], SrcInfo],
        on_tick: OnTick | None = None,
    ) -> list[Any]:
        """Run the iterations one after the other."""
        if on_tick is None:
            return run_plainly(size, iterate, where)
        loop = RunningLoop(size, iterate, where, on_tick, ticks_inline=True)
        loop.work(range(size))
        return loop.finish()

    def __repr__(self) -> str:
        return "Serial()"


def note_iteration(error: BaseException, i: int, place: SrcInfo) -> None:
    """Note in which iteration it was raised; of one that knows no better it is the place, too."""
    if isinstance(error, PeffectsError) and not error.at.line:
        error.at = place
    error.add_note(f"in iteration {i} of the parallel for at {place}")


def run_plainly(
    size: int, iterate: Callable[[int], Any], where: Callable[[], SrcInfo]
) -> list[Any]:
    """Run the iterations in order, without ticks; also what a loop inside an iteration does."""
    results: list[Any] = []
    append = results.append
    i = 0
    try:
        for i in range(size):
            append(iterate(i))
    except Exception as error:
        if not isinstance(error, LoopCancelled):
            note_iteration(error, i, where())
        raise
    return results


class Shuffled(Executor):
    """Runs the iterations in a random order: what a program means must not depend on it."""

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed

    def execute(
        self,
        size: int,
        iterate: Callable[[int], Any],
        where: Callable[[], SrcInfo],
        on_tick: OnTick | None = None,
    ) -> list[Any]:
        """Run the iterations in an order drawn from the seed."""
        order = list(range(size))
        random.Random(self.seed).shuffle(order)
        loop = RunningLoop(size, iterate, where, on_tick, ticks_inline=True)
        loop.work(order)
        return loop.finish()

    def __repr__(self) -> str:
        return f"Shuffled({self.seed!r})"


class TeamExecutor(Executor):
    """Base of executors with several workers, each of which takes a chunk of iterations at a time.

    Without `chunk` the chunks get smaller towards the end, so that uneven iterations even out.
    """

    def __init__(self, workers: int | None = None, chunk: int | None = None) -> None:
        self.workers = (os.cpu_count() or 1) if workers is None else workers
        self.chunk = chunk
        if self.workers < 1 or (chunk is not None and chunk < 1):
            raise ValueError(f"{self!r}: workers and chunk are at least 1")

    def plan(self, size: int) -> ChunkPlan:
        """The chunks of a loop."""
        return ChunkPlan(size, self.workers, self.chunk)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.workers}, chunk={self.chunk})"


class Threads(TeamExecutor):
    """Runs chunks of iterations on threads, which take the next chunk when they are done.

    After Ctrl-C the threads end at their next bytecode; their `finally` and `with` run.
    """

    def execute(
        self,
        size: int,
        iterate: Callable[[int], Any],
        where: Callable[[], SrcInfo],
        on_tick: OnTick | None = None,
    ) -> list[Any]:
        """Run the iterations on threads; the calling thread waits, ticks, and hears Ctrl-C."""
        loop = RunningLoop(size, iterate, where, on_tick, ticks_inline=False)
        team = _Team(loop, self.plan(size))
        try:
            team.start(min(self.workers, size))
            while not team.done.wait(_WAIT_S):
                loop.tick()
        except BaseException:
            loop.cancelled = True
            team.stop()
            team.done.wait(_GRACE_S)
            raise
        if team.broken is not None:
            raise team.broken
        return loop.finish()


class _Stopped(BaseException):
    """Raised in a worker thread wherever it stands: its loop was given up, by Ctrl-C say."""


class _Team:
    """The threads of one loop: daemons, since after Ctrl-C nobody waits for a long iteration."""

    def __init__(self, loop: RunningLoop, chunks: ChunkPlan) -> None:
        self.loop = loop
        self.chunks = chunks
        self.done = threading.Event()
        self.broken: BaseException | None = None
        self._running = 0
        self._working: set[int] = set()
        self._lock = threading.Lock()

    def start(self, workers: int) -> None:
        self._running = workers
        if not workers:
            self.done.set()
        for number in range(workers):
            threading.Thread(
                target=copy_context().run,
                args=(self._work,),
                name=f"peffects-worker-{number}",
                daemon=True,
            ).start()

    def stop(self) -> None:
        """End what the threads do at their next bytecode; their `finally` and `with` run."""
        with self._lock:
            for thread in self._working:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread), ctypes.py_object(_Stopped)
                )

    def _work(self) -> None:
        with suppress(_Stopped):  # one that comes late
            try:
                with self._lock:
                    self._working.add(threading.get_ident())
                self.loop.work(self._indices())
            except BaseException as error:  # not an Exception of the body: ends the loop
                self.broken = error
                self.loop.cancelled = True
            with self._lock:
                self._working.discard(threading.get_ident())
                self._running -= 1
                last = self._running == 0
            if last:
                self.done.set()

    def _indices(self) -> Iterable[int]:
        loop = self.loop
        while not loop.cancelled:
            with self._lock:
                indices = self.chunks.take(loop.limit)
            if not indices:
                return
            yield from indices


def inside_a_loop() -> bool:
    """Whether the calling thread runs an iteration of an executor that counts them."""
    return running_worker.get() is not None
