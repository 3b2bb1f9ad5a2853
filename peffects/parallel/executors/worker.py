"""A worker process of `Processes`: gets loops and chunks of iterations, sends results back.

It runs `main(fd)` in a fresh interpreter (never a fork, which threads and OpenMP do not survive;
and the user's script is not run again).  What fails in an iteration goes back with the user's lines
as a note; log records and warnings go back, too.  A worker whose loop is gone ends without a word.
Layer 2; the other end is `processes.py`.
"""

from __future__ import annotations

import fcntl
import logging
import os
import pickle
import select
import signal
import sys
import time
import traceback
import warnings
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from peffects.errors import NotPicklable
from peffects.machine.checking.locations import strip_internal
from peffects.machine.running.pickling import Travelling, pickled_by_value
from peffects.notices import shown, told
from peffects.parallel.executors.channel import Channel, Message, adopt
from peffects.parallel.executors.local import running_worker

__all__: list[str] = []

_TICK_S = 0.1


class _Sender(logging.Handler):
    """Sends log records to the process that started this one."""

    def __init__(self, worker: _WorkerProcess) -> None:
        super().__init__()
        self.worker = worker
        self.usual = vars(logging.makeLogRecord({})).keys()

    def emit(self, record: logging.LogRecord) -> None:
        """Send the record with its message made, since arguments may not pickle."""
        try:
            parts = vars(record) | {"msg": record.getMessage(), "args": None}
            if record.exc_info:
                parts["exc_text"] = logging.Formatter().formatException(record.exc_info)
                parts["exc_info"] = None
            for name in parts.keys() - self.usual:
                parts[name] = _travelling(parts[name])
            data = pickled_by_value(parts)
        except Exception:
            self.handleError(record)  # as every handler does
        else:
            self.worker.send("log", blobs=[data])


def _travelling(value: Any) -> Any:
    """The value, or how it looks where it does not survive pickling."""
    try:
        pickle.loads(pickled_by_value(value))
    except Exception:
        return shown(value)
    return value


class _Iterations:
    """What runs an iteration; unpickled in the first, so that what fails there is its failure."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.iterate: Any = None
        self.travelling = Travelling()

    def __call__(self, i: int) -> Any:
        """The answer of iteration i."""
        if self.iterate is None:
            self.iterate = self._unpickled()
        return self.iterate(i)

    def _unpickled(self) -> Any:
        try:
            with self.travelling:
                return pickle.loads(self.data)
        except ModuleNotFoundError as error:
            fix = (
                "Put the module where `import` finds it, or let it travel as a script does:"
                " `cloudpickle.register_pickle_by_value(module)`."
            )
            raise _unreadable(error, fix) from error
        except Exception as error:
            fix = "Give what does not unpickle a `__reduce__`, or make it inside the body."
            raise _unreadable(error, fix) from error


def _unreadable(error: Exception, fix: str) -> NotPicklable:
    return NotPicklable(
        f"the body of a parallel for cannot be read in a worker process: {told(error)}.", fix=fix
    )


class _WorkerProcess:
    """Runs the chunks that it is told to."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.loop: _Iterations | None = None
        self.indices = range(0)
        self.values: list[Any] = []
        self.failure: tuple[int, BaseException] | None = None
        self.next_tick = 0.0

    def send(self, kind: str, *plain: Any, blobs: list[bytes] | None = None) -> None:
        """Send a message; where nobody is there to hear it, this process has no more to do."""
        try:
            self.channel.send(kind, *plain, blobs=blobs or [])
        except OSError:
            _leave()

    def report(self, fraction: float, /) -> None:
        """Tell how far the chunk is, unless that was told a moment ago."""
        now = time.monotonic()
        if now >= self.next_tick:
            self.next_tick = now + _TICK_S
            self.send("tick", len(self.values) + min(max(fraction, 0.0), 1.0))

    def warned(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: Any = None,
        line: str | None = None,
    ) -> None:
        """Send a warning that is to be shown; stands in for `warnings.showwarning`."""
        parts = _travelling(message), _travelling(category)
        self.send("warning", filename, lineno, blobs=[pickled_by_value(parts)])

    def serve(self) -> NoReturn:
        """Do what comes over the channel until it is closed."""
        while True:
            try:
                message = self.channel.receive()
            except (EOFError, OSError, KeyboardInterrupt):
                _leave()
            self.do(message)

    def do(self, message: Message) -> None:
        """Do one thing."""
        if message.kind == "loop":
            surroundings, body = message.blobs
            adopt(surroundings)
            self.loop = _Iterations(body)
        elif message.kind == "run":
            self.run(range(*message.plain))
        else:
            self.tell_one_by_one()

    def run(self, indices: range) -> None:
        """Run a chunk until its first failure."""
        assert self.loop is not None, "invariant: a loop comes before its chunks"
        self.indices, self.values, self.failure = indices, [], None
        for i in indices:
            try:
                self.values.append(self.loop(i))
            except BaseException as error:
                self.failure = i, error
                break
            self.report(0.0)
        for stream in (sys.stdout, sys.stderr):  # a worker is killed when it is not needed
            with suppress(AttributeError, OSError, ValueError):
                stream.flush()
        self.tell()

    def tell(self) -> None:
        """Send the results together, so that what they share they share there, too."""
        try:
            data = pickled_by_value(self.values)
        except BaseException:  # code of the user's
            self.tell_one_by_one()
        else:
            self._send_done(True, [data], self.failure)

    def tell_one_by_one(self) -> None:
        """Send the results up to the first that cannot be sent: that is the failure then."""
        blobs: list[bytes] = []
        failure = self.failure
        for i, value in zip(self.indices, self.values, strict=False):
            try:
                blobs.append(pickled_by_value(value))
            except BaseException as error:
                failure = i, _untold(i, value, error)
                break
        self._send_done(False, blobs, failure)

    def _send_done(
        self, together: bool, blobs: list[bytes], failure: tuple[int, BaseException] | None
    ) -> None:
        entered = [] if self.loop is None else self.loop.travelling.entered()
        if failure is None:
            self.send("done", together, None, entered, blobs=blobs)
        else:
            parts, data = _as_parts(*failure)
            self.send("done", together, parts, entered, blobs=[*blobs, data])


def _untold(i: int, value: Any, error: BaseException) -> NotPicklable:
    return NotPicklable(
        f"the result {shown(value)} of iteration {i} cannot travel back: {told(error)}.",
        fix="Return something that pickles.",
    )


def _as_parts(i: int, error: BaseException) -> tuple[tuple[int, str, list[str], str], bytes]:
    """The index, the error as text, its notes, the user's part of its traceback; its bytes."""
    strip_internal(error, None)
    text = "".join(traceback.format_tb(error.__traceback__)).rstrip()
    notes = [str(note) for note in getattr(error, "__notes__", ())]
    try:
        data = _surviving(error)
    except BaseException:
        error.__cause__ = error.__context__ = None  # which may be what does not pickle
        try:
            data = _surviving(error)
        except BaseException as cause:
            refusal = NotPicklable(
                f"iteration {i} raised {shown(error)}, which does not survive pickling:"
                f" {told(cause)}.",
                fix="Give the exception class a `__reduce__`, or raise another one.",
            )
            data = pickled_by_value(refusal)
    return (i, shown(error), notes, text), data


def _surviving(error: BaseException) -> bytes:
    data = pickled_by_value(error)
    pickle.loads(data)
    return data


def _leave() -> NoReturn:
    """End at once, without a word: nobody is there who could hear it."""
    os._exit(0)


def _end_with_parent() -> None:
    """Let the system end this process, whatever it does, when the one that started it is gone.

    The standard input is a pipe from there, on which nothing comes but its end; then the system
    sends a signal.  On Linux that is a SIGTERM to what this process has started, too.
    """
    lifeline = os.dup(0)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGTERM)
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    else:
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:
        _leave()


def main(fd: int) -> NoReturn:
    """Serve the pipe with this file descriptor."""
    _end_with_parent()
    os.set_inheritable(fd, False)
    worker = _WorkerProcess(Channel(Connection(fd)))
    running_worker.set(worker)
    logging.getLogger().addHandler(_Sender(worker))
    warnings.showwarning = worker.warned
    worker.serve()
