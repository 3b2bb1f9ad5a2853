"""Where the user wrote something: file, line, column, function, and the text of that line.

Every node of the IR, every operation site and every error carries a `SrcInfo`, so that whatever
goes wrong is said in terms of the user's program.  Layer 0.
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
from dataclasses import dataclass
from types import CodeType, FrameType

from peffects.remembered import Recent

__all__ = [
    "UNKNOWN",
    "SrcInfo",
    "caller",
    "is_internal_file",
    "lines_of",
    "of_code",
    "of_frame",
    "syntax_tree",
]

_PACKAGE_DIR = os.path.dirname(os.path.abspath(__file__)) + os.sep


_MOST_FILES = 128


def _let_go(file: str) -> None:
    """Have `linecache` forget a file that it can read again, unlike a cell of a notebook."""
    entry = linecache.cache.get(file)
    if entry is not None and len(entry) == 4 and entry[1] is not None:
        linecache.cache.pop(file, None)


_read: Recent[str, bool] = Recent(_MOST_FILES, _let_go)
"""The files that `linecache`, which keeps all for ever, has read for us and nobody else."""


def lines_of(file: str) -> list[str]:
    """The lines of a file or cell, each with its end; none when there is no source to be had."""
    if file not in linecache.cache:
        _read.keep(file, True)
    else:
        _read.get(file)
    return linecache.getlines(file)


_TRIES = 10


def syntax_tree(text: str, file: str = "<unknown>") -> ast.Module:
    """`ast.parse`; raises SyntaxError.

    Python 3.11 counts in one place how deep all trees are that are being made.  Where a garbage
    collection in the middle runs a finalizer that parses, or lets another thread do so, the count
    is wrong at the end, and a SystemError says so.  The collection is over then: once more.
    """
    for _ in range(_TRIES):
        try:
            return ast.parse(text, file)
        except SystemError:
            continue
    return ast.parse(text, file)


@dataclass(frozen=True, slots=True)
class SrcInfo:
    """A place in user source.  `line` counts from 1, `column` from 0; line 0 means unknown."""

    file: str
    line: int
    column: int = 0
    function: str = ""

    def snippet(self) -> str:
        """The stripped text of the line, or "" when the source is not to be had."""
        lines = lines_of(self.file) if self.line else []
        return lines[self.line - 1].strip() if 0 < self.line <= len(lines) else ""

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
