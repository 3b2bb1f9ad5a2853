"""Texts for people: that a kernel compiles, if that takes long; long lists without their middle.

The former only for a person at a terminal; programs and logs hear nothing.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO

__all__ = ["abridged", "is_terminal", "shown", "tell_if_slow", "told"]

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


_LONGEST_SHOWN = 200


def shown(value: object) -> str:
    """The `repr` of a user's value for a message: not too long, and never an error of its own."""
    try:
        text = repr(value)
    except Exception as error:  # it may be what the message is about
        text = f"<{type(value).__name__} object, whose `repr` raises {type(error).__name__}>"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def told(error: BaseException) -> str:
    """What an error says, with its class, as the last part of a sentence: `ValueError: no 3`."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text.rstrip('.')}" if text else type(error).__name__
