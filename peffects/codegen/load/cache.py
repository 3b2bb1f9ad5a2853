"""The disk cache of compiled kernels.

An entry is one file, `<digest>.kernels`, in a directory that only its owner may enter.  The digest
covers the generated source, every module of `peffects.codegen`, the processor and its features, the
versions of numba and llvmlite, and numba's settings (`environment_digest`): an entry is never
stale, it is only never asked for again.  Files are written beside their place and renamed into it,
so that processes may share the directory; an entry carries a checksum, and one that is damaged
counts as absent.  A directory that cannot be used costs one warning and otherwise only time.
Two processes that want one entry at once compile it once (`entry_lock.py`).

`PEFFECTS_CACHE_DIR` names another directory; set to the empty string it turns the cache off.
`PEFFECTS_CACHE_MIB` is how much it may hold, 512 MiB if it is not set: what was used least recently
goes first.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import llvmlite.binding as llvm

from peffects import codegen
from peffects.codegen.load.entry_lock import locked
from peffects.numerics import special

__all__ = [
    "CacheWarning",
    "Entry",
    "ObjectCode",
    "claim",
    "clear",
    "compiled_texts",
    "directory",
    "entries",
    "environment_digest",
    "most_bytes",
    "read",
    "write",
]

_SUFFIX = ".kernels"
_LOCK, _NEW = ".lock", ".new"
_MAGIC = b"peffects kernels 2\n"
_CHECKSUM_BYTES = 32
_MOST_MIB = 512
_KEPT = 0.9
"""How full the cache is left when something had to go, so that it does not happen at each write."""
_STALE_S = 3600.0
"""Files that interrupted processes left are removed after an hour."""


class CacheWarning(UserWarning):
    """The disk cache cannot be used; kernels are compiled anew in each process."""


@dataclass(frozen=True, slots=True)
class ObjectCode:
    """Relocatable object files that belong together.

    `functions` are those that are called from outside, `externals` the symbols that the files
    expect to find in the process.
    """

    functions: tuple[str, ...]
    externals: tuple[str, ...]
    files: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """What `entries` tells about a cached module; `used_s` is when it was read or written last."""

    digest: str
    path: Path
    bytes: int
    used_s: float

    @property
    def name(self) -> str:
        """The kernel that it was compiled for; "" if the file does not say."""
        try:
            with self.path.open("rb") as file:
                if file.read(len(_MAGIC)) != _MAGIC:
                    return ""
                file.seek(_CHECKSUM_BYTES, os.SEEK_CUR)
                return str(json.loads(file.readline(1 << 20))[0])
        except (OSError, ValueError, LookupError, TypeError):
            return ""


# --- where ------------------------------------------------------------------------------------


def directory() -> Path | None:
    """The cache directory, made if need be; None when it is turned off or cannot be used."""
    chosen = os.environ.get("PEFFECTS_CACHE_DIR")
    if chosen == "":
        return None
    place = Path(chosen) if chosen else _default_directory()
    if place is None:
        _warn_once("of this user", "the user has no home directory")
        return None
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        problem = _problem(place)
    except OSError as error:
        problem = str(error)
    if problem:
        _warn_once(str(place), problem)
        return None
    return place


def _default_directory() -> Path | None:
    """Where the platform keeps caches of a user; None for a user who has no place on the disk."""
    if sys.platform == "darwin":
        base, below = "", ("Library", "Caches")
    elif sys.platform == "win32":
        base, below = os.environ.get("LOCALAPPDATA", ""), ("AppData", "Local")
    else:
        base, below = os.environ.get("XDG_CACHE_HOME", ""), (".cache",)
    if not os.path.isabs(base):  # as the rules for XDG_CACHE_HOME ask
        try:
            home = Path.home()
        except (RuntimeError, KeyError):  # no HOME, and nobody knows the user
            return None
        if not home.is_absolute():
            return None
        base = str(home.joinpath(*below))
    return Path(base, "peffects", "kernels")


def _problem(place: Path) -> str:
    """Why machine code must not be loaded from `place`: it is not the user's alone."""
    if not hasattr(os, "geteuid"):
        return ""
    status = place.stat()
    if status.st_uid != os.geteuid():
        return "it belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "other users may write to it"
    return ""


@functools.cache
def _warn_once(place: str, problem: str) -> None:
    warnings.warn(
        f"peffects cannot use the kernel cache {place}: {problem}. Kernels are compiled anew in "
        "each process; set PEFFECTS_CACHE_DIR to a directory of yours.",
        CacheWarning,
        stacklevel=2,
    )


# --- what a key depends on --------------------------------------------------------------------


_COMPILED_TEXTS = (Path(special.__file__),)
"""Modules outside of `codegen/` whose functions are compiled."""


@functools.cache
def compiled_texts() -> frozenset[str]:
    """The files whose text is part of every key; no function of another one is compiled."""
    package = Path(codegen.__file__).parent.rglob("*.py")
    return frozenset(os.path.realpath(path) for path in (*package, *_COMPILED_TEXTS))


@functools.cache
def _fixed_environment() -> str:
    """What machine code depends on apart from source, as far as it is fixed for this process."""
    digest = hashlib.sha256()
    for path in sorted(compiled_texts()):
        digest.update(Path(path).read_bytes())
    features = llvm.get_host_cpu_features().flatten()
    facts = (
        platform.machine(),
        sys.platform,
        platform.python_version(),
        metadata.version("numba"),
        metadata.version("llvmlite"),
        llvm.get_host_cpu_name(),
        features,
        digest.hexdigest(),
    )
    return "\n".join(facts)


def environment_digest() -> str:
    """A digest of all that machine code depends on apart from its source."""
    settings = sorted(item for item in os.environ.items() if item[0].startswith("NUMBA_"))
    return hashlib.sha256(f"{_fixed_environment()}\n{settings}".encode()).hexdigest()


# --- entries ----------------------------------------------------------------------------------


def read(digest: str) -> ObjectCode | None:
    """The code of an entry, which now is the one used last; None if there is none or it is damaged.

    One that is damaged is compiled and written anew.
    """
    place = directory()
    if place is None:
        return None
    path = place / (digest + _SUFFIX)
    try:
        data = path.read_bytes()
    except OSError:
        return None
    code = _decode(data)
    if code is not None:
        with suppress(OSError):  # the directory may be read only
            os.utime(path)
    return code


def claim(digest: str) -> AbstractContextManager[None]:
    """Be the only process that compiles this entry, or wait for the one that does."""
    place = directory()
    return nullcontext() if place is None else locked(place / (digest + _LOCK))


def write(digest: str, code: ObjectCode, name: str = "") -> None:
    """Store an entry, all of it or nothing; `name` is for those who list the cache."""
    place = directory()
    if place is None:
        return
    data = _encode(code, name)
    try:
        handle, temporary = tempfile.mkstemp(prefix=digest[:16], suffix=_NEW, dir=place)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(temporary, place / (digest + _SUFFIX))
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except FileNotFoundError:  # somebody has emptied the cache meanwhile
        return
    except OSError as error:
        _warn_once(str(place), str(error))
        return
    _make_room(place, len(data))


def entries() -> Iterator[Entry]:
    """All entries of the cache directory, in order of their digests."""
    place = directory()
    if place is None:
        return
    for path in sorted(place.glob("*" + _SUFFIX)):
        try:
            status = path.stat()
        except OSError:  # removed by another process
            continue
        if stat.S_ISREG(status.st_mode):
            yield Entry(path.stem, path, status.st_size, status.st_mtime)


def most_bytes() -> int:
    """How much the cache may hold."""
    chosen = os.environ.get("PEFFECTS_CACHE_MIB", "")
    if chosen.strip().isdecimal():
        return int(chosen) << 20
    if chosen:
        _tell_bad_limit(chosen)
    return _MOST_MIB << 20


@functools.cache
def _tell_bad_limit(chosen: str) -> None:
    warnings.warn(
        f"peffects: PEFFECTS_CACHE_MIB is {chosen!r}, which is no whole number of MiB; the kernel "
        f"cache may hold {_MOST_MIB} MiB.",
        CacheWarning,
        stacklevel=2,
    )


_usage: dict[Path, tuple[int, int]] = {}
"""For a directory: the bytes in it when this process looked, and those it has written since."""


def _make_room(place: Path, written: int) -> None:
    """Remove what was used least recently, if the cache holds more than it may.

    To look costs a call for each entry, so it is done at the first write of a process, and when
    what it has written since may matter.
    """
    limit = most_bytes()
    found, since = _usage.get(place, (limit, limit))
    since += written
    if found + since <= limit and since <= limit // 16:
        _usage[place] = found, since
        return
    known = sorted(entries(), key=lambda entry: entry.used_s)
    total = sum(entry.bytes for entry in known)
    if total > limit:
        for entry in known:
            if total <= _KEPT * limit:
                break
            with suppress(OSError):  # another process was quicker
                entry.path.unlink()
            total -= entry.bytes
    _remove_leftovers(place)
    _usage.clear()  # one directory is in use, but in tests
    _usage[place] = total, 0


def _remove_leftovers(place: Path) -> None:
    """Remove files of writes and compilations that were interrupted long ago."""
    for path in (*place.glob("*" + _NEW), *place.glob("*" + _LOCK)):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - _STALE_S:
                path.unlink()


def clear() -> int:
    """Remove the entries, and what interrupted processes left; return how many went.

    Those of a directory that may only be read stay.
    """
    place = directory()
    if place is None:
        return 0
    gone = 0
    for entry in entries():
        with suppress(OSError):
            entry.path.unlink()
            gone += 1
    for path in place.glob("*" + _NEW):
        with suppress(OSError):
            path.unlink()
    _remove_leftovers(place)
    _usage.clear()
    return gone


def _encode(code: ObjectCode, name: str) -> bytes:
    """Magic line, checksum of the rest, JSON line of names and lengths, object files."""
    header = [name, code.functions, code.externals, [len(file) for file in code.files]]
    body = json.dumps(header).encode() + b"\n" + b"".join(code.files)
    return _MAGIC + hashlib.sha256(body).digest() + body


def _decode(data: bytes) -> ObjectCode | None:
    start = len(_MAGIC) + _CHECKSUM_BYTES
    body = data[start:]
    if not data.startswith(_MAGIC) or hashlib.sha256(body).digest() != data[len(_MAGIC) : start]:
        return None
    line, _, rest = body.partition(b"\n")
    _, functions, externals, lengths = json.loads(line)
    files = []
    for length in lengths:
        files.append(rest[:length])
        rest = rest[length:]
    return ObjectCode(tuple(functions), tuple(externals), tuple(files))
