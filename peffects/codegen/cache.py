"""The disk cache of compiled kernels.

An entry is one file, `<digest>.kernels`, in a directory that only its owner may enter.  The digest
covers the generated source, every module of `peffects.codegen`, the processor and its features, the
versions of numba and llvmlite, and numba's settings (`environment_digest`): an entry is never
stale, it is only never asked for again.  Files are written beside their place and renamed into it,
so that processes may share the directory; an entry carries a checksum, and one that is damaged
counts as absent.  A directory that cannot be used costs one warning and otherwise only time.

`PEFFECTS_CACHE_DIR` names another directory; set to the empty string it turns the cache off.
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
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import llvmlite.binding as llvm

from peffects import special

__all__ = [
    "CacheWarning",
    "Entry",
    "ObjectCode",
    "clear",
    "directory",
    "entries",
    "environment_digest",
    "read",
    "write",
]

_SUFFIX = ".kernels"
_MAGIC = b"peffects kernels 1\n"
_CHECKSUM_BYTES = 32


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
    """What `entries` tells about a cached module."""

    digest: str
    path: Path
    bytes: int
    modified_s: float


# --- where ------------------------------------------------------------------------------------


def directory() -> Path | None:
    """The cache directory, made if need be; None when it is turned off or cannot be used."""
    chosen = os.environ.get("PEFFECTS_CACHE_DIR")
    if chosen == "":
        return None
    place = Path(chosen) if chosen else _default_directory()
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        problem = _problem(place)
    except OSError as error:
        problem = str(error)
    if problem:
        _warn_once(str(place), problem)
        return None
    return place


def _default_directory() -> Path:
    """Where the platform keeps caches of a user."""
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "peffects" / "kernels"


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


_COMPILED_TEXTS = (special.__file__,)
"""Modules outside this package whose functions numba compiles."""


@functools.cache
def _fixed_environment() -> str:
    """What machine code depends on apart from source, as far as it is fixed for this process."""
    digest = hashlib.sha256()
    for path in (*sorted(Path(__file__).parent.rglob("*.py")), *map(Path, _COMPILED_TEXTS)):
        digest.update(path.read_bytes())
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
    """The code of an entry; None when there is none or it is damaged."""
    place = directory()
    if place is None:
        return None
    try:
        data = (place / (digest + _SUFFIX)).read_bytes()
    except OSError:
        return None
    return _decode(data)


def write(digest: str, code: ObjectCode) -> None:
    """Store an entry, all of it or nothing."""
    place = directory()
    if place is None:
        return
    try:
        handle, temporary = tempfile.mkstemp(prefix=digest[:16], suffix=".new", dir=place)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_encode(code))
            os.replace(temporary, place / (digest + _SUFFIX))
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        _warn_once(str(place), str(error))


def entries() -> Iterator[Entry]:
    """All entries of the cache directory, in order of their digests."""
    place = directory()
    if place is None:
        return
    for path in sorted(place.glob("*" + _SUFFIX)):
        try:
            status = path.stat()
        except FileNotFoundError:  # cleared by another process
            continue
        yield Entry(path.stem, path, status.st_size, status.st_mtime)


def clear() -> int:
    """Remove all entries (and what interrupted writes left); return how many there were."""
    place = directory()
    if place is None:
        return 0
    found = [*place.glob("*" + _SUFFIX), *place.glob("*.new")]
    for path in found:
        path.unlink(missing_ok=True)
    return sum(path.suffix == _SUFFIX for path in found)


def _encode(code: ObjectCode) -> bytes:
    """Magic line, checksum of the rest, JSON line of names and lengths, object files."""
    header = [code.functions, code.externals, [len(file) for file in code.files]]
    body = json.dumps(header).encode() + b"\n" + b"".join(code.files)
    return _MAGIC + hashlib.sha256(body).digest() + body


def _decode(data: bytes) -> ObjectCode | None:
    start = len(_MAGIC) + _CHECKSUM_BYTES
    body = data[start:]
    if not data.startswith(_MAGIC) or hashlib.sha256(body).digest() != data[len(_MAGIC) : start]:
        return None
    line, _, rest = body.partition(b"\n")
    functions, externals, lengths = json.loads(line)
    files = []
    for length in lengths:
        files.append(rest[:length])
        rest = rest[length:]
    return ObjectCode(tuple(functions), tuple(externals), tuple(files))
