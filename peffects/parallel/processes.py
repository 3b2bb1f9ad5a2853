"""`Processes`: an executor whose iterations run in other processes, for Python code that computes.

Each worker is a fresh interpreter, kept for the next loop; a loop's body travels once to each, by
cloudpickle (an optional extra), with its handlers.  Chunks go to whoever is free.  A worker that
dies is an error, never a hang; Ctrl-C ends all at once.  Layer 2; the other end is `worker.py`.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, Self

from peffects.errors import NotPicklable, WorkerDied
from peffects.loops import OnTick
from peffects.parallel.executors import ChunkPlan, RunningLoop, TeamExecutor
from peffects.pickling import cloudpickle, pickled_by_value
from peffects.source import SrcInfo

__all__ = ["Processes"]

_WAIT_S = 0.05
_UNPICKLABLE = (pickle.PicklingError, TypeError, AttributeError, RecursionError)


class _Child:
    """A worker process, seen from here; `done` and `fraction` tell how far it is."""

    def __init__(self) -> None:
        self.pipe, theirs = Pipe()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _START.format(fd=theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p or os.curdir for p in sys.path)},
                start_new_session=True,  # Ctrl-C is for us; we end our workers ourselves
            )
        self.indices = range(0)
        self.done = 0
        self.fraction = 0.0

    def tell(self, message: tuple[Any, ...]) -> None:
        self.pipe.send_bytes(pickle.dumps(message))

    def kill(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.wait()


_START = "from peffects.parallel.worker import main; main({fd})"


class Processes(TeamExecutor):
    """Runs chunks of iterations in worker processes: `with Processes(4) as executor: ...`.

    Results and exceptions come back pickled, log records to the loggers here.  Workers are kept
    until `close`, the end of the `with`, or of the program.
    """

    def __init__(self, workers: int | None = None, chunk: int | None = None) -> None:
        super().__init__(workers, chunk)
        cloudpickle()  # without the extra: say so now
        self._idle: list[_Child] = []
        self._lock = threading.Lock()
        self._finalizer = weakref.finalize(self, _kill, self._idle)

    def execute(
        self,
        size: int,
        iterate: Callable[[int], Any],
        where: Callable[[], SrcInfo],
        on_tick: OnTick | None = None,
    ) -> list[Any]:
        """Run the iterations in worker processes; the calling thread waits and ticks."""
        loop = RunningLoop(size, iterate, where, on_tick, ticks_inline=False)
        team: list[_Child] = []
        try:
            self._hire(min(self.workers, size), team)
            run = _ProcessLoop(loop, self.plan(size), team)
            run.start(_packed(iterate, where))
            run.finish()
        except BaseException:
            _kill(team)  # what they do now is of no use any more
            raise
        with self._lock:
            self._idle += team
        return loop.finish()

    def _hire(self, count: int, team: list[_Child]) -> None:
        with self._lock:
            team[:], self._idle[:] = self._idle[:count], self._idle[count:]
        while len(team) < count:
            team.append(_Child())

    def close(self) -> None:
        """End the workers; the next loop starts new ones."""
        with self._lock:
            _kill(self._idle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        return Processes, (self.workers, self.chunk)


def _kill(children: list[_Child]) -> None:
    while children:
        children.pop().kill()


def _packed(iterate: Callable[[int], Any], where: Callable[[], SrcInfo]) -> bytes:
    try:
        return pickled_by_value(iterate)
    except _UNPICKLABLE as error:
        raise NotPicklable(
            f"the body of a parallel for cannot travel to another process: {error}.",
            at=where(),
            fix="Make what does not pickle (an open file, a lock, a generator) inside the body.",
        ) from error


class _ProcessLoop:
    """One loop on a team of workers, which shrinks when later iterations cannot matter any more."""

    def __init__(self, loop: RunningLoop, chunks: ChunkPlan, team: list[_Child]) -> None:
        self.loop = loop
        self.chunks = chunks
        self.team = team
        self.busy: dict[Connection, _Child] = {}
        self.handlers: Sequence[Any] = ()

    def start(self, packed: bytes) -> None:
        level = logging.getLogger().getEffectiveLevel()
        for child in self.team:
            child.done, child.fraction = 0, 0.0
            self.loop.workers.append(child)
            self._tell(child, ("loop", level, packed))
            self._give(child)

    def finish(self) -> None:
        """Wait until every iteration that matters has ended."""
        while self.busy:
            for pipe in wait(list(self.busy), _WAIT_S):
                child = self.busy.get(pipe)  # type: ignore[call-overload]
                if child is not None:
                    self._hear(child)
            self.loop.tick()

    def _give(self, child: _Child) -> None:
        child.indices = self.chunks.take(self.loop.limit)
        if child.indices:
            self.busy[child.pipe] = child
            self._tell(child, ("run", child.indices.start, child.indices.stop))

    def _tell(self, child: _Child, message: tuple[Any, ...]) -> None:
        try:
            child.tell(message)
        except OSError:
            raise self._died(child) from None

    def _hear(self, child: _Child) -> None:
        try:
            kind, *parts = pickle.loads(child.pipe.recv_bytes())
        except (EOFError, OSError):
            raise self._died(child) from None
        if kind == "log":
            logging.getLogger(parts[0].name).handle(parts[0])
        elif kind == "tick":
            child.fraction = parts[0]
        else:
            del self.busy[child.pipe]
            self._done(child, *parts)
            self._give(child)

    def _done(self, child: _Child, values: list[Any], failure: tuple[Any, ...] | None) -> None:
        first = child.indices.start
        self.loop.results[first : first + len(values)] = values
        child.done += len(values)
        child.fraction = 0.0
        if failure is None:
            return
        i, error, notes, text = failure
        error.__notes__ = []
        for note in notes:
            error.add_note(note)
        self.loop.failed(i, error)
        if text:
            error.add_note(f"in a worker process, most recent call last:\n{text}")
        self._stop_later_ones()

    def _stop_later_ones(self) -> None:
        """End the workers whose iterations all come after the failure."""
        for child in [c for c in self.busy.values() if c.indices.start > self.loop.limit]:
            del self.busy[child.pipe]
            self.team.remove(child)
            child.kill()

    def _died(self, child: _Child) -> WorkerDied:
        code = child.process.wait()
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        last = child.indices.stop - 1
        return WorkerDied(
            f"a worker process ended ({how}) while it ran iterations {child.indices.start} to"
            f" {last} of a parallel for.",
            at=self.loop.where(),
            fix="If memory is short, use fewer workers: `Processes(2)`.  `Serial()` runs the same"
            " iterations here, where a debugger sees them.",
        )
