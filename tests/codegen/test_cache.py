"""The cache directory: whose it is, what is in it, what happens when it cannot be used."""

from __future__ import annotations

import ast
import errno
import os
import platform
import pwd
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import llvmlite.binding as llvm
import pytest

import peffects
from peffects.codegen.load import cache
from peffects.codegen.load.cache import CacheWarning, ObjectCode
from peffects.codegen.program import source_names

PACKAGE = Path(peffects.__file__).parent
CODE = ObjectCode(("peffects.a", "peffects.b"), ("exp",), (b"first", b"", b"third\nline"))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    directory = tmp_path / "deep" / "kernels"
    monkeypatch.setenv("PEFFECTS_CACHE_DIR", str(directory))
    cache._warn_once.cache_clear()
    yield directory
    cache._warn_once.cache_clear()


def test_entry_is_read_as_written(place: Path) -> None:
    assert cache.read("0" * 64) is None
    cache.write("0" * 64, CODE)
    assert cache.read("0" * 64) == CODE
    assert cache.read("1" * 64) is None


def test_entries_and_clear(place: Path) -> None:
    for digit in "21":
        cache.write(digit * 64, CODE)
    (place / "interrupted.new").touch()
    listed = list(cache.entries())
    assert [entry.digest for entry in listed] == ["1" * 64, "2" * 64]
    assert all(entry.bytes == entry.path.stat().st_size > 0 for entry in listed)
    assert cache.clear() == 2
    assert list(place.iterdir()) == []
    assert cache.clear() == 0


def test_directory_is_the_user_s_alone(place: Path) -> None:
    assert cache.directory() == place
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_directory_that_others_may_write_to_is_not_used(place: Path, mode: int) -> None:
    place.mkdir(parents=True)
    place.chmod(mode)
    with pytest.warns(CacheWarning, match="other users may write to it"):
        cache.write("0" * 64, CODE)
    assert list(place.iterdir()) == []


def test_directory_of_another_user_is_not_used(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: -1)
    with pytest.warns(CacheWarning, match="belongs to another user"):
        assert cache.read("0" * 64) is None


def test_unusable_directory_costs_one_warning(place: Path) -> None:
    place.parent.mkdir()
    place.write_text("a file where the directory should be")
    with pytest.warns(CacheWarning, match="Kernels are compiled anew in each process") as seen:
        for _ in range(3):
            cache.write("0" * 64, CODE)
            assert cache.read("0" * 64) is None
            assert list(cache.entries()) == []
            assert cache.clear() == 0
    assert len(seen) == 1


def test_failed_write_leaves_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(CacheWarning, match="No space left"):
        cache.write("0" * 64, CODE)
    assert list(place.iterdir()) == []


def test_empty_variable_turns_the_cache_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEFFECTS_CACHE_DIR", "")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.write("0" * 64, CODE)
        assert cache.read("0" * 64) is None


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        ("linux", ".cache/peffects/kernels"),
        ("darwin", "Library/Caches/peffects/kernels"),
        ("win32", "AppData/Local/peffects/kernels"),
    ],
)
def test_default_directory_is_the_platform_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, expected: str
) -> None:
    for name in ("PEFFECTS_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", platform)
    assert cache.directory() == tmp_path / expected


def test_environment_digest_depends_on_versions_and_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = {cache.environment_digest()}
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    seen.add(cache.environment_digest())
    monkeypatch.setattr(metadata, "version", lambda package: "0.0")
    cache._fixed_environment.cache_clear()
    seen.add(cache.environment_digest())
    monkeypatch.undo()
    cache._fixed_environment.cache_clear()
    seen.add(cache.environment_digest())
    assert len(seen) == 3


@pytest.mark.parametrize("fact", ["get_host_cpu_features", "get_host_cpu_name"])
def test_environment_digest_depends_on_the_processor(
    monkeypatch: pytest.MonkeyPatch, fact: str
) -> None:
    """A directory may be on the disk of a network, and so used by processors that differ."""
    before = cache._fixed_environment.__wrapped__()
    features = llvm.get_host_cpu_features()
    features["a feature of another processor"] = True
    others = {"get_host_cpu_features": features, "get_host_cpu_name": "another"}
    monkeypatch.setattr(llvm, fact, lambda: others[fact])
    assert cache._fixed_environment.__wrapped__() != before


def test_environment_digest_depends_on_the_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory may be shared by environments of several Pythons."""
    before = cache._fixed_environment.__wrapped__()
    with monkeypatch.context() as patch:
        patch.setattr(platform, "python_version", lambda: "3.99.0")
        assert cache._fixed_environment.__wrapped__() != before
    version = metadata.version
    for package in ("numba", "llvmlite"):
        with monkeypatch.context() as patch:
            patch.setattr(
                metadata,
                "version",
                lambda name, other=package: "99.0" if name == other else version(name),
            )
            assert cache._fixed_environment.__wrapped__() != before


def test_environment_digest_depends_on_each_compiled_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of the intrinsics, for one, must not meet kernels compiled before it."""
    texts = sorted(cache.compiled_texts())
    data = {path: Path(path).read_bytes() for path in texts}
    monkeypatch.setattr(Path, "read_bytes", lambda path: data[os.path.realpath(path)])
    digest = cache._fixed_environment.__wrapped__
    seen = {digest()}
    for path in texts:
        kept, data[path] = data[path], data[path] + b"# changed"
        seen.add(digest())
        data[path] = kept
    assert len(seen) == len(texts) + 1


NOT_COMPILED = ("errors", "source.py", "ir")
"""What compiled modules import beside: errors to raise, places in the user's program for them, and
programs, all of whose meaning is in the generated source."""


def test_compiled_texts_are_all_that_generated_source_and_the_compiler_import() -> None:
    """Found by following imports, so that none is forgotten; `compile_kernels` refuses others."""
    generated = [name for name in source_names.IMPORTS if name.startswith("peffects.")]
    pending = {
        module_file(name)
        for name in [
            *generated,
            "peffects.codegen.load.kernel_compiler",
            "peffects.codegen.native.matrix_product",
        ]
    }
    found: set[Path | None] = set()
    while pending:
        path = pending.pop()
        if path is not None and path not in found and not is_beside(path):
            found.add(path)
            pending |= set(imported(path))
    files = {os.path.realpath(path) for path in found if path}
    assert os.path.realpath(PACKAGE / "numerics" / "special.py") in files
    assert files <= cache.compiled_texts()
    outside = {path for path in cache.compiled_texts() if "codegen" not in Path(path).parts}
    assert outside <= files, "nothing is in the key for no reason"


def is_beside(path: Path) -> bool:
    """An `__init__` has no function; it says what lives in its folder."""
    return path.relative_to(PACKAGE).parts[0] in NOT_COMPILED or path.name == "__init__.py"


def module_file(name: str) -> Path | None:
    """The file of a module of the package; None if there is no such module."""
    path = PACKAGE.joinpath(*name.split(".")[1:])
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file() and candidate != PACKAGE / "__init__.py":
            return candidate
    return None


def imported(path: Path) -> Iterator[Path | None]:
    """The files of the package's modules that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("peffects"):
            yield module_file(str(node.module))
            yield from (module_file(f"{node.module}.{alias.name}") for alias in node.names)


# --- how much is kept -------------------------------------------------------------------------


def digest_number(number: int) -> str:
    return f"{number:064}"


@pytest.fixture
def small(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of 1 MiB, which has room for four entries of 240 KiB."""
    monkeypatch.setenv("PEFFECTS_CACHE_MIB", "1")
    yield place
    cache._usage.clear()


LARGE = ObjectCode(("f",), (), (bytes(240 << 10),))


def kept() -> list[int]:
    return [int(entry.digest) for entry in cache.entries()]


def made_older(place: Path) -> None:
    """Let an hour pass: clocks of files may be coarse."""
    for entry in cache.entries():
        os.utime(entry.path, (entry.used_s - 3600, entry.used_s - 3600))


def test_what_was_used_least_recently_goes_first(small: Path) -> None:
    for number in range(4):
        made_older(small)
        cache.write(digest_number(number), LARGE)
    assert kept() == [0, 1, 2, 3]
    made_older(small)
    assert cache.read(digest_number(0)) == LARGE, "which now is the one used last"
    cache.write(digest_number(4), LARGE)
    assert kept() == [0, 3, 4]
    assert sum(entry.bytes for entry in cache.entries()) <= 1 << 20


def test_another_process_s_entries_are_counted(small: Path) -> None:
    cache.write(digest_number(0), LARGE)
    for number in range(1, 9):
        (small / (digest_number(number) + ".kernels")).write_bytes(bytes(240 << 10))
    made_older(small)
    cache.write(digest_number(9), LARGE)
    assert len(kept()) <= 4 and 9 in kept()


def test_limit_holds_after_many_writes(small: Path) -> None:
    part = ObjectCode(("f",), (), (bytes(30 << 10),))
    for number in range(100):
        cache.write(digest_number(number), part)
    assert sum(entry.bytes for entry in cache.entries()) <= (1 << 20) * 17 // 16
    assert kept()[-1] == 99


def test_writes_do_not_look_at_all_entries_each_time(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    listed = cache.entries

    def counted() -> Iterator[cache.Entry]:
        looks.append(1)
        return listed()

    monkeypatch.setattr(cache, "entries", counted)
    for number in range(20):
        cache.write(digest_number(number), CODE)
    assert len(looks) == 1


def test_files_of_interrupted_processes_are_removed_in_the_end(small: Path) -> None:
    small.mkdir(parents=True, mode=0o700)
    old, recent = [small / f"a{k}.new" for k in range(2)]
    lock = small / "b.lock"
    for path in (old, recent, lock):
        path.touch()
    for path in (old, lock):
        os.utime(path, (time.time() - 7200,) * 2)
    cache.write(digest_number(0), CODE)
    assert not old.exists() and not lock.exists() and recent.exists()


def test_limit_that_is_no_number_is_said_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEFFECTS_CACHE_MIB", "1 GB")
    cache._tell_bad_limit.cache_clear()
    with pytest.warns(CacheWarning, match="PEFFECTS_CACHE_MIB is '1 GB'") as seen:
        assert cache.most_bytes() == cache.most_bytes() == 512 << 20
    assert len(seen) == 1


def test_entry_tells_its_name_and_damaged_ones_none(place: Path) -> None:
    cache.write("a", CODE, "energy")
    (place / "b.kernels").write_bytes(b"")
    (place / "c.kernels").write_bytes(cache._MAGIC + bytes(40))
    (place / "d.kernels").write_bytes((place / "a.kernels").read_bytes()[:60])
    (place / "e.kernels").mkdir()
    assert [entry.name for entry in cache.entries()] == ["energy", "", "", ""]


# --- where there is no place -------------------------------------------------------------------


def test_user_without_home_and_name_costs_one_warning(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for name in ("PEFFECTS_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.warns(CacheWarning, match="the user has no home directory") as seen:
        for _ in range(3):
            cache.write("0" * 64, CODE)
            assert cache.read("0" * 64) is None
            with cache.claim("0" * 64):
                pass
    assert len(seen) == 1


@pytest.mark.parametrize("home", ["relative", "/dev/null"])
def test_home_that_is_no_directory_costs_one_warning(
    place: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    for name in ("PEFFECTS_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", home)
    with pytest.warns(CacheWarning) as seen:
        cache.write("0" * 64, CODE)
        assert cache.read("0" * 64) is None
    assert len(seen) == 1


def test_relative_xdg_directory_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PEFFECTS_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache.directory() == tmp_path / ".cache" / "peffects" / "kernels"


@pytest.mark.parametrize("fails", ["mkstemp", "open", "fdopen"])
def test_full_disk_costs_one_warning(
    place: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    def full(*args: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    owner = tempfile if fails == "mkstemp" else os
    monkeypatch.setattr(owner, fails, full)
    with pytest.warns(CacheWarning, match="No space left") as seen:
        for _ in range(2):
            with cache.claim("0" * 64):
                cache.write("0" * 64, CODE)
        monkeypatch.undo()
    assert len(seen) == 1
    monkeypatch.setenv("PEFFECTS_CACHE_DIR", str(place))
    assert kept() == []
