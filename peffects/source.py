"""Where the user wrote something: file, line, column, function, and the text of that line.

Every node of the IR, every operation site and every error carries a `SrcInfo`, so that whatever
goes wrong is said in terms of the user's program.  Layer 0: imports nothing of ours.
"""

from __future__ import annotations

import linecache
import os
import sys
from dataclasses import dataclass
from types import CodeType, FrameType

__all__ = ["UNKNOWN", "SrcInfo", "caller", "is_internal_file", "of_code", "of_frame"]

_PACKAGE_DIR = os.path.dirname(os.path.abspath(__file__)) + os.sep


@dataclass(frozen=True, slots=True)
class SrcInfo:
    """A place in user source.  `line` counts from 1, `column` from 0; line 0 means unknown."""

    file: str
    line: int
    column: int = 0
    function: str = ""

    def snippet(self) -> str:
        """The stripped text of the line, or "" when the source is not to be had."""
        return linecache.getline(self.file, self.line).strip() if self.line else ""

    def short(self) -> str:
        """`file.py:line`, without the directory."""
        return f"{os.path.basename(self.file)}:{self.line}" if self.line else "<unknown place>"

    def __str__(self) -> str:
        where = f"{self.short()} in {self.function}" if self.function else self.short()
        text = self.snippet()
        return f"{where}:   {text}" if text else where


UNKNOWN = SrcInfo("", 0)


def is_internal_file(file: str) -> bool:
    """Whether `file` belongs to peffects itself (never blamed in a message)."""
    if not file or file[0] == "<":  # a cell, or what `exec` was given
        return False
    try:
        return os.path.abspath(file).startswith(_PACKAGE_DIR)
    except OSError:  # relative to a working directory that has been deleted
        return False


def of_frame(frame: FrameType) -> SrcInfo:
    """The place where `frame` stands now, with its column where the interpreter keeps columns."""
    code = frame.f_code
    column = 0
    for offset, (_, _, col, _) in enumerate(code.co_positions()):
        if offset * 2 == frame.f_lasti:
            column = col or 0
            break
    return SrcInfo(code.co_filename, frame.f_lineno or 0, column, code.co_name)


def of_code(code: CodeType) -> SrcInfo:
    """The place where a function was defined."""
    return SrcInfo(code.co_filename, code.co_firstlineno, 0, code.co_name)


def caller() -> SrcInfo:
    """The innermost frame that is not peffects' own: the user's line."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_internal_file(frame.f_code.co_filename):
            return of_frame(frame)
        frame = frame.f_back
    return UNKNOWN
