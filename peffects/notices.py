"""What is said while somebody waits: that a kernel compiles, if that takes long.

Only to a person at a terminal; programs and logs hear nothing.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

__all__ = ["is_terminal", "tell_if_slow"]

PATIENCE_S = 1.0
"""What takes no longer needs no words."""


def is_terminal(stream: Any) -> bool:
    """Whether a person reads `stream`: not where it is None, closed, or no real file."""
    try:
        return bool(stream.isatty())
    except (AttributeError, OSError, ValueError):
        return False


def _tell(stream: TextIO, text: str) -> None:
    with suppress(OSError, ValueError):  # closed by now
        print(text, file=stream, flush=True)


@contextmanager
def tell_if_slow(text: str) -> Iterator[None]:
    """Write `text` to a terminal if what is inside still runs after a while."""
    stream = sys.stderr
    if not is_terminal(stream):
        yield
        return
    timer = threading.Timer(PATIENCE_S, _tell, (stream, text))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
