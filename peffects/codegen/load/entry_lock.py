"""One process at a time compiles an entry of the disk cache; the others wait and then read it.

A lock is a file beside the entry, held with `flock`: the system lets go of it when its process
ends, however it ends.  Where files cannot be made or locked (a directory that is read only, some
network file systems, Windows) nobody waits, and a kernel may be compiled twice.  Nor does anybody
wait for ever: a process that was stopped while it compiled costs the others `PATIENCE_S`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    _CAN_LOCK = False
else:
    _CAN_LOCK = True

__all__ = ["PATIENCE_S", "locked"]

PATIENCE_S = 30.0
_LONGEST_PAUSE_S = 0.05
_MOST_MISSES = 50
"""How often a file may have lost its name: on some network file systems its number by name is never
the one of the open file."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path` while what is inside runs, if that is possible."""
    handle = _acquire(path)
    try:
        yield
    finally:
        if handle is not None:
            _release(handle, path)


def _acquire(path: Path) -> int | None:
    """The open and locked file; None if it cannot be had."""
    if not _CAN_LOCK:
        return None
    give_up, pause, misses = time.monotonic() + PATIENCE_S, 0.001, 0
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return None
        kept = False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            kept = _is_at(handle, path)
            misses += not kept
        except BlockingIOError:  # another's
            pass
        except OSError:
            return None
        finally:
            if not kept:
                _close(handle)
        if kept:
            _held.add(handle)
            return handle
        if misses > _MOST_MISSES or time.monotonic() > give_up:
            return None
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def _is_at(handle: int, path: Path) -> bool:
    """Whether the file that is locked still has its name, or was removed by who held it before."""
    try:
        return os.fstat(handle).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


def _release(handle: int, path: Path) -> None:
    """Remove the file first: who has opened it meanwhile sees that it is not there any more."""
    if handle not in _held:
        return  # in a forked child
    _held.discard(handle)
    with suppress(OSError):
        path.unlink()
    with suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_UN)  # also for children that have inherited it
    _close(handle)


def _close(handle: int | None) -> None:
    if handle is not None:
        with suppress(OSError):
            os.close(handle)


_held: set[int] = set()


def _let_go() -> None:
    """In a forked child: the lock is the parent's, which may end before the child."""
    for handle in _held:
        _close(handle)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
