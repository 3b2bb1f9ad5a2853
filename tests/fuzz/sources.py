"""Programs as text: loading them, and what counts as a mistake of ours when one is run."""

from __future__ import annotations

import contextlib
import linecache
import os
import re
import signal
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np

from peffects import Err, Ok, PeffectsError, Table
from peffects.source import is_internal_file

__all__ = ["EndlessError", "OursError", "check_equal", "check_polite", "limited", "load"]


_HERE = os.path.dirname(__file__)
_SIGNATURE = re.compile(r"[a-z]\w*\(\) (missing|takes|got|requires)\b|.*has no len\(\)$")
"""What Python says of the arguments of a public function: the user's call is told, not ours."""

_INTERNAL_NAME = re.compile(r"(?<![\w.])_[a-z]\w*\(\)")
"""A function of ours, as in "_len() takes 1 positional argument"."""


class OursError(AssertionError):
    """An error that no user should see."""


class EndlessError(Exception):
    """A program has no end, or far too many worlds: nobody's fault but its own."""


@contextlib.contextmanager
def limited(limit_s: float) -> Iterator[None]:
    """Raise `EndlessError` if the body, which is Python, takes too long.

    Again and again, and whatever comes of it: a program may swallow it, as `finally: return` does,
    and a frame that is replayed and raises it is told as one that does something else.
    """
    over = fired = False
    error = EndlessError(f"over {limit_s:g} s")

    def endless(*_: object) -> None:
        nonlocal fired
        if not over:
            fired = True
            raise error

    before = signal.signal(signal.SIGALRM, endless)
    signal.setitimer(signal.ITIMER_REAL, limit_s, 0.5)
    try:
        yield
    finally:
        over = True
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        if fired:
            raise error


def load(source: str) -> dict[str, Any]:
    """The names that `source` defines; its lines can be found."""
    file = f"<random program {hash(source):x}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, file, "exec", dont_inherit=True), space)
    return space


def check_polite(error: BaseException, source: str) -> str:
    """The code of an error that is told well: it has one, and a line of `source` or of its caller.

    Python's own errors are polite where user's code raises them, in words that users know.
    """
    if isinstance(error, PeffectsError):
        place = error.at.snippet()
        if error.code.startswith("PE9"):
            raise OursError(f"internal error: {error}") from error
        if "Tracer" in str(error) or "<peffects." in str(error):
            raise OursError(f"names of ours: {error}") from error
        if not place or (place.strip() not in source and not error.at.file.startswith(_HERE)):
            raise OursError(f"no line of the program: {error}") from error
        return error.code
    last = traceback.extract_tb(error.__traceback__)[-1]
    called = last.name.startswith("__") or isinstance(error, AttributeError)
    called = called or (isinstance(error, TypeError) and bool(_SIGNATURE.match(str(error))))
    if isinstance(error, AssertionError) or (is_internal_file(last.filename) and not called):
        raise OursError(f"{type(error).__name__} from {last}: {error}") from error
    if "Tracer" in str(error) or _INTERNAL_NAME.search(str(error)):
        raise OursError(f"{type(error).__name__} with names of ours: {error}") from error
    return type(error).__name__


def check_equal(found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    """The same structure, and numbers that are equal up to rounding."""
    match expected:
        case Ok(value):
            assert isinstance(found, Ok), f"{found} is not {expected}"
            check_equal(found.value, value, tolerance)
        case Err(error):
            assert isinstance(found, Err), f"{found} is not {expected}"
            check_equal(found.error, error, tolerance)
        case tuple() | list():
            alike = isinstance(found, tuple | list | np.ndarray | Table)
            assert alike and len(found) == len(expected), f"{found} is not {expected}"
            for left, right in zip(found, expected, strict=True):
                check_equal(left, right, tolerance)
        case str() | None:
            assert found == expected
        case Table():
            check_equal(found, list(expected), tolerance)
        case _ if not isinstance(expected, float | int | np.number | np.ndarray):
            assert found == expected, f"{found} is not {expected}"
        case _:
            assert isinstance(found, float | int | np.number | np.ndarray), f"no number: {found}"
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
