"""Debug mode: checks that cost too much to be always on.

`with debug_checks():` or the environment variable `PEFFECTS_DEBUG=1` make the machine remember what
each logged answer looked like, so that one which was changed since is an error instead of a world
that sees the change of another; warn when a clause forgets a `k` whose frames have a `finally` to
run; and raise where a computation was thrown away without having been performed, which is a warning
otherwise.  Layer 1.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["debug_checks"]

_debugging: ContextVar[bool] = ContextVar(
    "peffects_debug", default=os.environ.get("PEFFECTS_DEBUG", "") not in ("", "0")
)


_followers: list[Callable[[], None]] = []


@contextmanager
def debug_checks(on: bool = True) -> Iterator[None]:
    """Every `run` that starts inside checks more, and is slower."""
    token = _debugging.set(on)
    for follow in _followers:
        follow()
    try:
        yield
    finally:
        _debugging.reset(token)


def set_debugging(on: bool) -> None:
    """Debug mode for all that follows, in a process that runs iterations of another one."""
    if on != _debugging.get():
        _debugging.set(on)
        for follow in _followers:
            follow()


def debugging() -> bool:
    """Whether a `run` that starts now is to check more."""
    return _debugging.get()


def follow_debugging(follow: Callable[[], None]) -> None:
    """Call `follow` whenever debug mode begins."""
    _followers.append(follow)
