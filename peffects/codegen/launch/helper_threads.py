"""Persistent helper threads that run functions for a caller who wants to stay responsive.

A thread that has finished its job waits for the next one, so that giving it a job costs a lock and
not a new thread.  `launcher.py` has long launches run here.  A forked child starts with no helpers
and makes its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

__all__ = ["Job", "start"]


class Job:
    """A function given to a helper thread; `error` is what it raised."""

    __slots__ = ("_finished", "_function", "error")

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._finished = threading.Lock()
        self._finished.acquire()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Run the function, in the helper thread."""
        try:
            self._function()
        except BaseException as error:  # raised again by the one who waits
            self.error = error
        finally:
            self._finished.release()

    def wait(self, timeout_s: float = -1) -> bool:
        """Wait until the function has returned; False when it takes longer than `timeout_s`."""
        if not self._finished.acquire(timeout=timeout_s):
            return False
        self._finished.release()
        return True


class _Helper:
    """A daemon thread with room for one job."""

    __slots__ = ("_job", "_wake")

    def __init__(self) -> None:
        self._job: Job | None = None
        self._wake = threading.Lock()
        self._wake.acquire()
        threading.Thread(target=self._serve, name="peffects helper", daemon=True).start()

    def give(self, job: Job) -> None:
        self._job = job
        self._wake.release()

    def _serve(self) -> None:
        while True:
            self._wake.acquire()
            job, self._job = self._job, None
            if job is not None:
                job.run()
            del job  # what it holds may be large
            _idle.append(self)


_idle: list[_Helper] = []
os.register_at_fork(after_in_child=_idle.clear)


def start(function: Callable[[], None]) -> Job:
    """Run `function` in a helper thread, soon."""
    job = Job(function)
    try:
        helper = _idle.pop()
    except IndexError:
        helper = _Helper()
    helper.give(job)
    return job
