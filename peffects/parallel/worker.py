"""A worker process of `Processes`: gets loops and chunks of iterations, sends results back.

It runs `main(fd)` in a fresh interpreter (never a fork, which threads and OpenMP do not survive;
and the user's script is not run again).  Messages are pickled tuples over one pipe.  What fails in
an iteration goes back with the user's lines as a note.  Layer 2; the other end is `processes.py`.
"""

from __future__ import annotations

import logging
import pickle
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any

from peffects.errors import NotPicklable
from peffects.parallel.executors import running_worker
from peffects.pickling import pickled_by_value
from peffects.places import strip_internal

__all__: list[str] = []

_TICK_S = 0.1


class _Sender(logging.Handler):
    """Sends log records to the process that started this one."""

    def __init__(self, worker: _WorkerProcess) -> None:
        super().__init__()
        self.worker = worker

    def emit(self, record: logging.LogRecord) -> None:
        """Send the record with its message made, since arguments may not pickle."""
        made = logging.makeLogRecord(vars(record) | {"msg": record.getMessage(), "args": None})
        if made.exc_info is not None:
            made.exc_text = logging.Formatter().formatException(made.exc_info)
            made.exc_info = None
        self.worker.send("log", made)


class _Loop:
    """What runs an iteration; unpickled in the first, so that what fails there is its failure."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.iterate: Any = None

    def __call__(self, i: int) -> Any:
        """The answer of iteration i."""
        if self.iterate is None:
            self.iterate = pickle.loads(self.data)
        return self.iterate(i)


class _WorkerProcess:
    """Runs the chunks that it is told to."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.done = 0
        self.next_tick = 0.0

    def send(self, kind: str, *parts: Any) -> None:
        self.pipe.send_bytes(pickled_by_value((kind, *parts)))

    def report(self, fraction: float, /) -> None:
        """Tell how far the chunk is, unless that was told a moment ago."""
        now = time.monotonic()
        if now >= self.next_tick:
            self.next_tick = now + _TICK_S
            self.send("tick", self.done + min(max(fraction, 0.0), 1.0))

    def serve(self) -> None:
        """Do what comes over the pipe until it is closed."""
        iterate: Any = None
        while True:
            try:
                kind, *parts = pickle.loads(self.pipe.recv_bytes())
            except EOFError:
                return
            if kind == "loop":
                logging.getLogger().setLevel(parts[0])
                iterate = _Loop(parts[1])
            else:
                self.run(iterate, range(*parts))

    def run(self, iterate: Any, indices: range) -> None:
        """Run a chunk until its first failure."""
        values: list[Any] = []
        failure = None
        self.done = 0
        for i in indices:
            try:
                values.append(iterate(i))
            except BaseException as error:
                failure = i, *_as_parts(i, error)
                break
            self.done += 1
            self.report(0.0)
        try:
            self.send("done", values, failure)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            self.send("done", *_until_unpicklable(indices, values, failure, error))


def _as_parts(i: int, error: BaseException) -> tuple[BaseException, list[str], str]:
    """The error, its notes, and the user's part of its traceback as text."""
    strip_internal(error, None)
    text = "".join(traceback.format_tb(error.__traceback__)).rstrip()
    notes = list(getattr(error, "__notes__", ()))
    try:
        pickle.loads(pickled_by_value(error))
    except (pickle.PicklingError, TypeError, AttributeError, ValueError):
        error = NotPicklable(
            f"iteration {i} raised {error!r}, which does not survive pickling.",
            fix="Give the exception class a `__reduce__`, or raise another one.",
        )
    return error, notes, text


def _until_unpicklable(
    indices: range, values: list[Any], failure: Any, error: BaseException
) -> tuple[list[Any], Any]:
    for position, value in enumerate(values):
        try:
            pickled_by_value(value)
        except (pickle.PicklingError, TypeError, AttributeError) as cause:
            i = indices[position]
            refusal = NotPicklable(
                f"the result {value!r} of iteration {i} cannot travel back: {cause}.",
                fix="Return something that pickles.",
            )
            return values[:position], (i, refusal, [], "")
    return [], (indices[0], NotPicklable(f"results cannot be pickled: {error}."), [], "")


def main(fd: int) -> None:
    """Serve the pipe with this file descriptor."""
    worker = _WorkerProcess(Connection(fd))
    running_worker.set(worker)
    logging.getLogger().addHandler(_Sender(worker))
    worker.serve()
