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
import warnings
import weakref
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, Self

from peffects.errors import NotPicklable, WorkerDied
from peffects.machine.resuming.parallel_for import OnTick
from peffects.machine.running.by_value import cloudpickle
from peffects.machine.running.pickling import Travelling, pickled_by_value
from peffects.notices import told
from peffects.parallel.executors.channel import Channel, Message, search_path, surroundings
from peffects.parallel.executors.local import ChunkPlan, RunningLoop, TeamExecutor
from peffects.source import SrcInfo

__all__ = ["Processes"]

_WAIT_S = 0.05
_START = (
    "import sys; sys.path[:] = {path!r}; "
    "from peffects.parallel.executors.worker import main; main({fd})"
)

_warned: dict[Any, Any] = {}
"""The warnings of workers that were shown, as a module's `__warningregistry__` has its own."""


class _Child:
    """A worker process, seen from here; `done` and `fraction` tell how far it is."""

    def __init__(self) -> None:
        pipe, theirs = Pipe()
        self.channel = Channel(pipe)
        # As `multiprocessing` does: `-O`, `-X dev` and the like change what code means.
        flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        with theirs:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    *flags,
                    "-c",
                    _START.format(path=search_path(), fd=theirs.fileno()),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.PIPE,  # by which it sees that we are gone
                start_new_session=True,  # Ctrl-C is for us; we end our workers ourselves
            )
        self.owner = os.getpid()
        self.indices = range(0)
        self.done = 0
        self.fraction = 0.0

    @property
    def pipe(self) -> Connection:
        """What to wait for."""
        return self.channel.pipe

    def end(self, busy: bool) -> None:
        """End the process, and what a `busy` one has started; in a fork only forget it.

        What it started gets SIGTERM, which the tracker of its shared memory ignores, and then frees
        that.
        """
        if self.owner == os.getpid():
            if busy:
                with suppress(OSError):
                    os.killpg(self.process.pid, signal.SIGTERM)
            self.process.kill()
            self.process.wait()
        self.channel.close()
        if self.process.stdin is not None:
            self.process.stdin.close()


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
        self._finalizer = weakref.finalize(self, _end, self._idle)

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
            with run.travelling:
                packed = _packed(iterate, where)
            run.start(packed)
            run.finish()
        except BaseException:
            _end(team, busy=True)  # what they do now is of no use any more
            raise
        with self._lock:
            self._idle += team
        return loop.finish()

    def _hire(self, count: int, team: list[_Child]) -> None:
        with self._lock:
            ours = [child for child in self._idle if child.owner == os.getpid()]
            team[:], self._idle[:] = ours[:count], ours[count:]
        while len(team) < count:
            team.append(_Child())

    def close(self) -> None:
        """End the workers; the next loop starts new ones."""
        with self._lock:
            _end(self._idle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        return Processes, (self.workers, self.chunk)


def _end(children: list[_Child], busy: bool = False) -> None:
    while children:
        children.pop().end(busy)


def _packed(iterate: Callable[[int], Any], where: Callable[[], SrcInfo]) -> bytes:
    try:
        return pickled_by_value(iterate)
    except Exception as error:  # code of the user's
        raise NotPicklable(
            f"the body of a parallel for cannot travel to another process: {told(error)}.",
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
        self.travelling = Travelling()

    def start(self, packed: bytes) -> None:
        around = surroundings()
        for child in self.team:
            child.done, child.fraction = 0, 0.0
            self.loop.workers.append(child)
            self._tell(child, "loop", blobs=[around, packed])
            self._give(child)

    def finish(self) -> None:
        """Wait until every iteration that matters has ended."""
        while self.busy:
            ready = wait(list(self.busy), _WAIT_S)
            for pipe in ready:
                child = self.busy.get(pipe)  # type: ignore[call-overload]
                if child is not None:
                    self._hear(child)
            if not ready:
                self._look_for_dead_ones()
            self.loop.tick()

    def _look_for_dead_ones(self) -> None:
        """A worker that has died may have left a child that keeps its end of the pipe open."""
        for child in self.busy.values():
            if child.process.poll() is not None and not child.pipe.poll():
                raise self._died(child)

    def _give(self, child: _Child) -> None:
        child.indices = self.chunks.take(self.loop.limit)
        if child.indices:
            self.busy[child.pipe] = child
            self._tell(child, "run", child.indices.start, child.indices.stop)

    def _tell(
        self, child: _Child, kind: str, *plain: Any, blobs: list[bytes] | None = None
    ) -> None:
        try:
            child.channel.send(kind, *plain, blobs=blobs or [])
        except OSError:
            raise self._died(child) from None

    def _hear(self, child: _Child) -> None:
        try:
            message = child.channel.receive()
        except (EOFError, OSError):
            raise self._died(child) from None
        if message.kind == "log":
            record = logging.makeLogRecord(pickle.loads(message.blobs[0]))
            logging.getLogger(record.name).handle(record)
        elif message.kind == "warning":
            text, category = pickle.loads(message.blobs[0])
            file, line = message.plain
            warnings.warn_explicit(text, category, file, line, registry=_warned)
        elif message.kind == "tick":
            (child.fraction,) = message.plain
        elif self._done(child, message):
            del self.busy[child.pipe]
            self._give(child)

    def _done(self, child: _Child, message: Message) -> bool:
        """Take the results of a chunk; false if they have to be sent once more, one by one."""
        together, failure, entered = message.plain
        self.travelling.note_entered(entered)
        *blobs, last = message.blobs if failure else [*message.blobs, b""]
        values: list[Any] = []
        unread: Exception | None = None
        try:
            if together:
                values = pickle.loads(blobs[0])
            else:
                for blob in blobs:
                    values.append(pickle.loads(blob))
        except Exception as cause:  # code of the user's
            if together:
                self._tell(child, "again")
                return False
            unread = cause
        first = child.indices.start
        self.loop.results[first : first + len(values)] = values
        child.done += len(values)
        child.fraction = 0.0
        if unread is not None:
            self._failed(first + len(values), _unread(first + len(values), unread))
        elif failure:
            i, shown, notes, text = failure
            error = _failure(i, shown, last)
            error.__notes__ = []
            for note in notes:
                error.add_note(note)
            self._failed(i, error)
            if text:
                error.add_note(f"in a worker process, most recent call last:\n{text}")
        return True

    def _failed(self, i: int, error: BaseException) -> None:
        self.loop.failed(i, error)
        self._stop_later_ones()

    def _stop_later_ones(self) -> None:
        """End the workers whose iterations all come after the failure."""
        for child in [c for c in self.busy.values() if c.indices.start > self.loop.limit]:
            del self.busy[child.pipe]
            self.team.remove(child)
            child.end(busy=True)

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


def _failure(i: int, shown: str, data: bytes) -> BaseException:
    try:
        error: BaseException = pickle.loads(data)
    except Exception as cause:  # code of the user's
        error = NotPicklable(
            f"iteration {i} raised {shown}, which cannot be read here: {told(cause)}.",
            fix="Give the exception class a `__reduce__`, or raise another one.",
        )
    return error


def _unread(i: int, cause: Exception) -> NotPicklable:
    error = NotPicklable(
        f"the result of iteration {i} cannot be read here: {told(cause)}.",
        fix="Give what does not unpickle a `__reduce__`, or return something else.",
    )
    error.__cause__ = cause
    return error
