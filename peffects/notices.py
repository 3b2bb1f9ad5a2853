"""Texts for people: that a kernel compiles, if that takes long; long lists without their middle.

The former only for a person at a terminal; programs and logs hear nothing.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO

__all__ = ["abridged", "is_terminal", "tell_if_slow"]

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


_MOST_SHOWN = 40
_SHOWN_ENDS = 5


def abridged(values: Sequence[Any]) -> str:
    """`[1, 2, 3]`: a list as `repr` shows it, without its middle where it is long.

    >>> abridged(range(1000))
    '[0, 1, 2, 3, 4, ..., 995, 996, 997, 998, 999]'
    """
    if len(values) <= _MOST_SHOWN:
        shown = [repr(value) for value in values]
    else:
        ends = values[:_SHOWN_ENDS], values[-_SHOWN_ENDS:]
        first, last = ([repr(value) for value in end] for end in ends)
        shown = [*first, "...", *last]
    return f"[{', '.join(shown)}]"
