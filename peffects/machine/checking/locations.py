"""Where a suspended or a finished piece of user code stands, for messages only.

The machine keeps code objects and instruction offsets, which cost nothing, and turns them into a
`SrcInfo` when something goes wrong.  Layer 1, above `source.py`; used by `handling/operations.py`
and up.
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
    "asked_for_user",
    "calling_site",
    "is_pythons",
    "is_standard_file",
    "is_users",
    "place_of_error",
    "place_of_site",
    "show_users_frames",
    "speaks_for_users",
    "strip_internal",
    "suspended_place",
    "suspended_site",
    "users_frames",
]

P = ParamSpec("P")
R = TypeVar("R")

_is_internal = functools.lru_cache(maxsize=1024)(is_internal_file)
_SPEAKERS: set[CodeType] = set()
_LIBRARY = os.path.dirname(os.path.abspath(functools.__file__)) + os.sep


@functools.lru_cache(maxsize=1024)
def _is_library(file: str) -> bool:
    """Whether `file` is of the standard library."""
    return os.path.abspath(file).startswith(_LIBRARY) and "site-packages" not in file


@functools.lru_cache(maxsize=1024)
def is_standard_file(file: str) -> bool:
    """Whether `file` is of the standard library or of numpy, and so never the user's line."""
    numpy = sys.modules.get("numpy")
    of_numpy = numpy is not None and file.startswith(os.path.dirname(str(numpy.__file__)) + os.sep)
    return of_numpy or file.startswith("<frozen") or _is_library(file)


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
    is_ours = speaks = False
    entry = error.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        if not _is_internal(code.co_filename) or code in _SPEAKERS:
            is_ours = False
            speaks = code in _SPEAKERS
        elif not speaks:
            is_ours = True
        entry = entry.tb_next
    return is_ours


def speaks_for_users(function: Callable[P, R]) -> Callable[P, R]:
    """A function of ours that asks Python on the user's behalf: errors of Python are the user's."""
    _SPEAKERS.add(function.__code__)
    return function


def is_pythons(error: BaseException) -> bool:
    """Whether Python or a library raised an error, as it was asked to by the function that calls.

    No function of the user's has run in between, nor one of ours that does more than to ask.
    """
    entry = error.__traceback__
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
        code = entry.tb_frame.f_code
        asks = code in _SPEAKERS or code.co_name == "__getattr__"  # which says that there is none
        if not asks and not is_standard_file(code.co_filename):
            return False
    return True


def asked_for_user() -> bool:
    """Whether what runs now was asked for by the user's code, by way of `speaks_for_users`."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and is_standard_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and frame.f_code in _SPEAKERS


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
