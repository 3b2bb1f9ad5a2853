"""One end of the pipe between a loop and its worker process, and what holds around a loop.

A message is a plain header, which always can be read, and then the bytes of what users made, which
whoever gets it reads one by one, so that what fails there has a name.  `surroundings` are what the
process of the loop has that its iterations may see, for `adopt` in the worker.  Layer 2; used by
`processes.py` and `worker.py`.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import sys
import threading
import warnings
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from peffects.machine.checking.debugging import debugging, set_debugging
from peffects.machine.running.pickling import pickled_by_value

__all__: list[str] = []


class Message(NamedTuple):
    """What came over a channel."""

    kind: str
    plain: tuple[Any, ...]
    blobs: list[bytes]


class Channel:
    """Sends and receives messages; any thread may send."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self._lock = threading.Lock()

    def send(self, kind: str, *plain: Any, blobs: Sequence[bytes] = ()) -> None:
        """Send a message.  Raises OSError when the other end is gone."""
        with self._lock:
            self.pipe.send_bytes(pickle.dumps((kind, plain, len(blobs))))
            for blob in blobs:
                self.pipe.send_bytes(blob)

    def receive(self) -> Message:
        """Wait for a message.  Raises EOFError or OSError when the other end is gone."""
        kind, plain, count = pickle.loads(self.pipe.recv_bytes())
        return Message(kind, plain, [self.pipe.recv_bytes() for _ in range(count)])

    def close(self) -> None:
        """Close this end."""
        self.pipe.close()


class Surroundings(NamedTuple):
    """What a process has that iterations may see, besides what their body refers to."""

    directory: str | None
    path: list[str]
    environment: dict[str, str]
    recursion_limit: int
    log_level: int
    debug: bool
    float_errors: dict[str, Any]
    warning_filters: list[tuple[Any, str, Any, str, int]]


def surroundings() -> bytes:
    """Those of this process and thread, now."""
    return pickled_by_value(
        Surroundings(
            _directory(),
            search_path(),
            dict(os.environ),
            sys.getrecursionlimit(),
            logging.getLogger().getEffectiveLevel(),
            debugging(),
            dict(np.geterr()),
            [_filter_arguments(*each) for each in warnings.filters],
        )
    )


def adopt(data: bytes) -> None:
    """Make them those of this process."""
    found: Surroundings = pickle.loads(data)
    if found.directory is not None:
        with suppress(OSError):  # deleted in the meantime: an iteration that needs it will say so
            os.chdir(found.directory)
    sys.path[:] = found.path
    if os.environ != found.environment:
        os.environ.clear()
        os.environ.update(found.environment)
    sys.setrecursionlimit(found.recursion_limit)
    logging.getLogger().setLevel(found.log_level)
    set_debugging(found.debug)
    np.seterr(**found.float_errors)
    warnings.resetwarnings()
    for action, message, category, module, line in found.warning_filters:
        warnings.filterwarnings(action, message, category, module, line, append=True)


def search_path() -> list[str]:
    """Where modules are found here."""
    entries: list[object] = [*sys.path]
    return [entry for entry in entries if isinstance(entry, str)]


def _directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None


def _filter_arguments(
    action: str, message: Any, category: Any, module: Any, line: int
) -> tuple[Any, str, Any, str, int]:
    """A filter as `filterwarnings` takes it: patterns as text."""
    return action, _pattern(message), category, _pattern(module), line


def _pattern(found: Any) -> str:
    if found is None:
        return ""
    return re.escape(found) + r"\Z" if isinstance(found, str) else str(found.pattern)
