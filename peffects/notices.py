"""What is said while somebody waits: that a kernel compiles, if that takes long.

Only to a person at a terminal; programs and logs hear nothing.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["tell_if_slow"]

PATIENCE_S = 1.0
"""What takes no longer needs no words."""


@contextmanager
def tell_if_slow(text: str) -> Iterator[None]:
    """Write `text` to a terminal if what is inside still runs after a while."""
    stream = sys.stderr
    if stream is None or not stream.isatty():
        yield
        return
    timer = threading.Timer(PATIENCE_S, print, (text,), {"file": stream, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
