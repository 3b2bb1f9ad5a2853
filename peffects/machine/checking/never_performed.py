"""Computations that are thrown away without having been performed: a forgotten `yield from`.

`NEWEST.last` is the computation that was made last and is not performed yet: to make one writes it,
to perform it clears it, which costs some nanoseconds.  Where it is still there when the next one is
made, or a run ends, it was thrown away, or somebody holds it; then it gets a `Canary`, which dies
with it and is disarmed when it is performed.

Code that is new is looked at closely: then each computation gets a canary at once, which knows the
line that made it.  So do all under `debug_checks`, where what was thrown away is an error, raised
when the same thread next makes or performs something, or its run ends.  Layer 1.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import functools
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, TypeVar

from peffects.errors import NeverPerformed
from peffects.machine.checking.debugging import debugging, follow_debugging
from peffects.machine.checking.locations import Site, place_of_site
from peffects.source import SrcInfo, is_internal_file, lines_of, syntax_tree

__all__: list[str] = []

C = TypeVar("C")

_CLOSELY: Final = 256
"""So many computations get their line after code has run for the first time."""

_END: Final = -1
"""In place of an offset in a function: it has ended."""

_is_internal = functools.lru_cache(maxsize=1024)(is_internal_file)


class _Watching:
    """The type of `WATCHING`."""


WATCHING: Final = _Watching()
"""In place of the newest computation: each one is given a canary when it is made."""


class _Newest:
    """The newest computation that is not performed yet; how many canaries are armed.

    `last` is read and written without a lock, in steps between which no thread takes over.
    `settling` says that a thread has taken out the newest one, and may be giving it a canary; who
    performs it has to look there before it looks at `armed`.
    """

    __slots__ = ("armed", "last", "left", "settling")

    def __init__(self) -> None:
        self.last: Any = WATCHING
        self.left = _CLOSELY
        self.armed = 0
        self.settling = False


NEWEST: Final = _Newest()

_lock = threading.RLock()
_known: weakref.WeakSet[CodeType] = weakref.WeakSet()
_told: dict[Any, Any] = {}
_abandoning: dict[int, int] = {}
_to_raise: dict[int, list[NeverPerformed]] = {}

RUNNERS: Final[set[CodeType]] = set()
"""The functions of the machine that raise what was found when they end."""


class Canary:
    """Dies with a computation, and tells if that was never performed."""

    __slots__ = ("exact", "name", "site")

    def __init__(self, name: str, site: Site | None, exact: bool) -> None:
        self.name: str | None = name
        self.site = site
        self.exact = exact
        NEWEST.armed += 1

    def disarm(self) -> None:
        """The computation is performed, or somebody else answers for it."""
        if self.name is not None:
            self.name = self.site = None
            NEWEST.armed -= 1

    def __reduce__(self) -> tuple[object, ...]:
        self.disarm()  # what travels is looked after where it arrives
        return _nothing, ()

    def __del__(self) -> None:
        name = self.name
        if name is None or sys.is_finalizing():
            return
        NEWEST.armed -= 1
        if threading.get_ident() not in _abandoning:
            _report(name, self.site, self.exact)


def _nothing() -> None:
    return None


def made(computation: C) -> C:
    """Note that `computation` was made; the quick constructors have these lines themselves."""
    if NEWEST.last is None:
        NEWEST.last = computation
    else:
        crowded(computation)
    return computation


def crowded(computation: Any) -> None:
    """Note that `computation` was made while another one waits, or while we look closely."""
    with _lock:
        if NEWEST.last is WATCHING:
            site = _user_site()
            _give_canary(computation, Canary(computation._name(), site, True))
            NEWEST.left -= 1
            if NEWEST.left <= 0 and not debugging():
                NEWEST.last = None
        elif NEWEST.last is not computation:
            _settle(computation, None)
    if _to_raise:
        try:
            _raise_found()
        except NeverPerformed:
            performed(computation)  # nobody gets it now
            raise


def performed(computation: Any) -> None:
    """Note that `computation` is performed, or refused, or wrapped, by somebody who says so."""
    if NEWEST.last is computation:
        NEWEST.last = None
    elif NEWEST.settling or NEWEST.armed:
        late(computation)


def made_for_all(computation: C) -> C:
    """`computation`, made once for all who are going to perform it: here nobody forgets it."""
    performed(computation)
    return computation


def late(computation: Any) -> None:
    """Note that `computation`, which is not the newest one, is performed.

    That makes a difference if it has a canary: if a thread is `settling`, or one is `armed`.
    """
    if NEWEST.settling:  # asked first: afterwards a canary that it gave can be seen
        canary = _give_canary(computation, None)
    else:
        canary = getattr(computation, "_canary", None)
    if canary is not None and canary.name is not None:
        canary.disarm()
    if _to_raise:
        _raise_found()


def _give_canary(computation: Any, canary: Canary | None) -> Canary | None:
    """Set the canary, unless it has one: two threads may come here at once."""
    with _lock:
        try:
            old: Canary | None = computation._canary
        except AttributeError:
            object.__setattr__(computation, "_canary", canary)
            return canary
        if canary is not None:
            canary.disarm()
        return old


def _references_of_a_local() -> int:
    new = object()
    return sys.getrefcount(new)


_ALONE: Final = _references_of_a_local()


def _settle(newest: Any, code: CodeType | None) -> None:
    """Put `newest` in the place of the last one, and see what became of that.

    `code` is the function that is known to have ended just now.
    """
    outer, NEWEST.settling = NEWEST.settling, True
    try:
        last, NEWEST.last = NEWEST.last, newest
        if last is None:
            return
        ours = code is None or _is_internal(code.co_filename)
        site = _user_site() if ours or code is None else (code, _END)
        if sys.getrefcount(last) > _ALONE:
            _give_canary(last, Canary(last._name(), site, False))
        elif threading.get_ident() not in _abandoning:
            _report(last._name(), site, False)
            look_closely()
    finally:
        NEWEST.settling = outer


def settled(code: CodeType | None = None, quietly: bool = False) -> None:
    """See what became of the newest one: something ends; raise what was found, or tell it."""
    if NEWEST.last is not WATCHING:
        with _lock:
            if NEWEST.last is not WATCHING:
                _settle(None, code)
    if _to_raise:
        _raise_found(quietly)


def look_closely() -> None:
    """What is made next gets its line."""
    with _lock:
        NEWEST.left = _CLOSELY
        if NEWEST.last is None:
            NEWEST.last = WATCHING


def look_at_new(code: CodeType) -> None:
    """Look closely, if this function runs for the first time."""
    with _lock:
        if code not in _known:
            _known.add(code)
            if NEWEST.last is not None and NEWEST.last is not WATCHING:
                _settle(None, None)
            look_closely()


follow_debugging(look_closely)


@contextlib.contextmanager
def abandoning() -> Iterator[None]:
    """What dies inside was held by frames that an exit left: nobody is to blame."""
    thread = threading.get_ident()
    _abandoning[thread] = _abandoning.get(thread, 0) + 1
    try:
        yield
    finally:
        _abandoning[thread] -= 1
        if not _abandoning[thread]:
            del _abandoning[thread]


def forgive(error: BaseException, known: TracebackType | None = None) -> None:
    """What the frames of `error` hold was not performed because of it; up to those `known`."""
    entry = error.__traceback__
    while entry is not None and entry is not known:
        if not _is_internal(entry.tb_frame.f_code.co_filename):
            for value in list(entry.tb_frame.f_locals.values()):
                try:  # without asking the value, whose `__getattr__` may do anything
                    canary = object.__getattribute__(value, "_canary")
                except AttributeError:
                    continue
                if isinstance(canary, Canary):
                    canary.disarm()
        entry = entry.tb_next


def _report(name: str, site: Site | None, exact: bool) -> None:
    place = place_of_site(site) if exact or site is None else _likely_place(*site)
    error = NeverPerformed(
        f"missing `yield from`: `{name}` was made and thrown away, and never performed.",
        at=place,
        notes=() if exact else ("it was made at this line or shortly before",),
        fix="Write `yield from` before what makes it; where it is not to be performed, do not"
        " make it.",
    )
    if debugging() and _is_run():
        _to_raise.setdefault(threading.get_ident(), []).append(error)
        return
    file = place.file or "<unknown>"
    warnings.warn_explicit(error, None, file, place.line, registry=_told)


def _raise_found(quietly: bool = False) -> None:
    """Raise what this thread has thrown away; more than that, or quietly: it is warned about."""
    found = _to_raise.pop(threading.get_ident(), [])
    for error in found if quietly else found[1:]:
        warnings.warn_explicit(error, None, error.at.file, error.at.line)
    if found and not quietly:
        raise found[0]


def _is_run() -> bool:
    """Whether a machine runs in this thread, which is going to raise what was found."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code in RUNNERS:
            return True
        frame = frame.f_back
    return False


def runner(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that calls `settled` at its end."""
    RUNNERS.add(function.__code__)
    return function


def _user_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and _is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _user_site() -> Site | None:
    frame = _user_frame()
    return None if frame is None else (frame.f_code, frame.f_lasti)


def _likely_place(code: CodeType, offset: int) -> SrcInfo:
    """The line that probably made it: the last call before there that nobody performs."""
    line = sys.maxsize if offset == _END else place_of_site((code, offset)).line
    lines = _lines_of_calls(code)
    before = [k for k in lines if k < line] or lines
    fallback = code.co_firstlineno if offset == _END else line
    return SrcInfo(code.co_filename, max(before, default=fallback), 0, code.co_name)


def _lines_of_calls(code: CodeType) -> list[int]:
    """Lines of the function at which it calls something and does not perform the result."""
    source = "".join(lines_of(code.co_filename))
    try:
        tree = syntax_tree(source)
    except SyntaxError:
        return []
    last = max((line for *_, line in code.co_lines() if line), default=code.co_firstlineno)
    inside = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.expr) and code.co_firstlineno <= node.lineno <= last
    ]
    performed = {id(node.value) for node in inside if isinstance(node, ast.YieldFrom)}
    arguments = {
        id(part)
        for node in inside
        if isinstance(node, ast.Call)
        for part in ast.walk(node)
        if part is not node
    }
    return [
        node.lineno
        for node in inside
        if isinstance(node, ast.Call) and id(node) not in performed | arguments
    ]


@atexit.register
def _at_exit() -> None:
    settled(quietly=True)
