"""The cache directory: whose it is, what is in it, what happens when it cannot be used."""

from __future__ import annotations

import os
import stat
import sys
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from peffects.codegen import cache
from peffects.codegen.cache import CacheWarning, ObjectCode

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


def test_environment_digest_depends_on_the_text_of_this_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A change of the intrinsics, for one, must not meet kernels compiled before it."""
    before = cache._fixed_environment()
    cache._fixed_environment.cache_clear()
    read_bytes = Path.read_bytes

    def changed(path: Path) -> bytes:
        data = read_bytes(path)
        return data + b"# changed" if path.name == "intrinsics.py" else data

    monkeypatch.setattr(Path, "read_bytes", changed)
    after = cache._fixed_environment()
    cache._fixed_environment.cache_clear()
    assert before != after
