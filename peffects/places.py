"""Where a suspended or a finished piece of user code stands, for messages only.

The machine keeps code objects and instruction offsets, which cost nothing, and turns them into a
`SrcInfo` when something goes wrong.  Layer 1, above `source.py`; used by `effects.py` and up.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Generator
from types import CodeType, FrameType, GeneratorType, TracebackType
from typing import Any, ParamSpec, TypeVar

from peffects.errors import InternalError, PeffectsError
from peffects.source import UNKNOWN, SrcInfo, is_internal_file, of_frame

__all__ = [
    "Site",
    "calling_site",
    "is_users",
    "place_of_error",
    "place_of_site",
    "show_users_frames",
    "strip_internal",
    "suspended_place",
    "suspended_site",
    "users_frames",
]

P = ParamSpec("P")
R = TypeVar("R")

_is_internal = functools.lru_cache(maxsize=1024)(is_internal_file)
_LIBRARY = os.path.dirname(os.path.abspath(functools.__file__)) + os.sep


@functools.lru_cache(maxsize=1024)
def _is_library(file: str) -> bool:
    """Whether `file` is of the standard library."""
    return os.path.abspath(file).startswith(_LIBRARY) and "site-packages" not in file


Site = tuple[CodeType, int]
"""A code object and the offset of an instruction in it."""


def calling_site(depth: int) -> Site:
    """The place of the call `depth` frames above this one's caller."""
    frame = sys._getframe(depth + 1)
    return frame.f_code, frame.f_lasti


def is_users(site: Site | SrcInfo | None) -> bool:
    """Whether `site` is in code of the user's."""
    if site is None:
        return False
    file = site.file if isinstance(site, SrcInfo) else site[0].co_filename
    return bool(file) and not _is_internal(file)


def place_of_site(site: Site | SrcInfo | None) -> SrcInfo:
    """The user's place that `site` stands for; one that was pickled is a place already."""
    if site is None:
        return UNKNOWN
    if isinstance(site, SrcInfo):
        return site
    code, offset = site
    for position, (line, _, column, _) in enumerate(code.co_positions()):
        if position * 2 == offset and line:
            return SrcInfo(code.co_filename, line, column or 0, code.co_name)
    return SrcInfo(code.co_filename, code.co_firstlineno, 0, code.co_name)


def suspended_site(gen: Generator[Any, Any, Any] | None) -> Site | None:
    """The innermost user code in which `gen` is suspended, for what may go on before it is told."""
    site: Site | None = None
    inner: object = gen
    while isinstance(inner, GeneratorType) and inner.gi_frame is not None:
        if not _is_internal(inner.gi_code.co_filename):
            site = inner.gi_code, inner.gi_frame.f_lasti
        inner = inner.gi_yieldfrom
    return site


def suspended_place(gen: Generator[Any, Any, Any] | None) -> SrcInfo:
    """The innermost user line at which `gen` is suspended (through its `yield from`s)."""
    place = UNKNOWN
    inner: object = gen
    while isinstance(inner, GeneratorType) and inner.gi_frame is not None:
        frame: FrameType = inner.gi_frame
        if not _is_internal(frame.f_code.co_filename):
            place = of_frame(frame)
        inner = inner.gi_yieldfrom
    return place


def place_of_error(error: BaseException) -> SrcInfo:
    """The innermost user line in the traceback of `error`."""
    place, entry = UNKNOWN, error.__traceback__
    while entry is not None:
        if not _is_internal(entry.tb_frame.f_code.co_filename):
            place = SrcInfo(
                entry.tb_frame.f_code.co_filename, entry.tb_lineno, 0, entry.tb_frame.f_code.co_name
            )
        entry = entry.tb_next
    return place


def strip_internal(error: BaseException, known: TracebackType | None) -> None:
    """Take peffects' own frames out of what was added to the traceback of `error` after `known`.

    So are those of the standard library that peffects called, such as the exit of a `with`.
    """
    kept: list[TracebackType] = []
    entry, below_ours = error.__traceback__, False
    while entry is not None and entry is not known:
        file = entry.tb_frame.f_code.co_filename
        below_ours = _is_internal(file) or (below_ours and _is_library(file))
        if not below_ours:
            kept.append(entry)
        entry = entry.tb_next
    rest = entry
    for entry in reversed(kept):
        # A new entry: setting `tb_next` would walk the whole chain to look for loops.
        rest = TracebackType(rest, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    error.__traceback__ = rest


def show_users_frames(error: BaseException) -> None:
    """Take peffects' frames out of the traceback of an error that leaves it, and of its causes.

    Of an error that is peffects' own fault they stay: a report needs them.
    """
    found: BaseException | None = error
    seen: set[int] = set()
    while found is not None and id(found) not in seen and not _is_our_fault(found):
        seen.add(id(found))
        strip_internal(found, None)
        found = found.__cause__ or found.__context__


def _is_our_fault(error: BaseException) -> bool:
    """Whether it is an error of peffects itself: not one of ours on purpose, and raised by us."""
    if isinstance(error, PeffectsError) or not isinstance(error, Exception):
        return isinstance(error, InternalError)
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is not None and _is_internal(last.tb_frame.f_code.co_filename)


def users_frames(function: Callable[P, R]) -> Callable[P, R]:
    """A function that users call: an error that leaves it has no frames of peffects."""

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            show_users_frames(error)
            raise

    return called
