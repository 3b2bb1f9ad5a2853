"""One process compiles, the others wait; a lock that cannot be had, or is stale, stops nobody."""

from __future__ import annotations

import errno
import fcntl
import os
import runpy
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from peffects.codegen.load import entry_lock
from peffects.codegen.load.entry_lock import locked

HOLD = """
import sys, time
from pathlib import Path
from peffects.codegen.load.entry_lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(path: Path) -> subprocess.Popen[str]:
    """A process that holds the lock until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_threads_hold_it_one_at_a_time(tmp_path: Path) -> None:
    inside, most = [0], [0]

    def work() -> None:
        for _ in range(5):
            with locked(tmp_path / "a.lock"):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.001)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == [1]
    assert list(tmp_path.iterdir()) == []


def test_other_processes_wait_until_it_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with holder(path) as process:
        entered = threading.Event()

        def enter() -> None:
            with locked(path):
                entered.set()

        thread = threading.Thread(target=enter)
        thread.start()
        assert not entered.wait(0.1)
        process.communicate()
        assert entered.wait(10)
        thread.join()
    assert list(tmp_path.iterdir()) == []


def test_lock_of_a_process_that_was_killed_is_free(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with holder(path) as process:
        process.kill()
        process.wait()
        assert path.exists()
        begun = time.monotonic()
        with locked(path):
            assert time.monotonic() - begun < 5


def test_nobody_waits_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_lock, "PATIENCE_S", 0.05)
    path, done = tmp_path / "a.lock", []
    with holder(path) as process:
        with locked(path):
            done.append(1)
        assert path.exists(), "it is still the other's"
        process.communicate()
    assert done == [1]


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.ENOENT])
def test_directory_where_no_file_can_be_made_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    opened = os.open

    def refuse(path: object, *options: object) -> int:
        if str(path).endswith(".lock"):
            raise OSError(code, os.strerror(code))
        return opened(path, *options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)
    begun = time.monotonic()
    with locked(tmp_path / "a.lock"):
        assert time.monotonic() - begun < 5


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_file_system_without_locks_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*args: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    with locked(tmp_path / "a.lock"):
        pass
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert before == after


def test_system_without_file_locks_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    module = runpy.run_path(str(entry_lock.__file__))
    with module["locked"](tmp_path / "a.lock"):
        assert list(tmp_path.iterdir()) == []


def test_file_system_whose_numbers_change_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some network file systems tell other numbers of a file by its name and when it is open."""
    monkeypatch.setattr(entry_lock, "_LONGEST_PAUSE_S", 0.001)
    status = Path.stat

    def changed(path: Path) -> os.stat_result:
        found = status(path)
        return os.stat_result((found.st_mode, found.st_ino + 1, *found[2:]))

    monkeypatch.setattr(Path, "stat", changed)
    begun = time.monotonic()
    with locked(tmp_path / "a.lock"):
        assert time.monotonic() - begun < 5


def test_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    read, write = os.pipe()
    with locked(path):
        child = os.fork()
        if child == 0:
            os.close(write)
            os.read(read, 1)  # lives on after the parent has let go
            os._exit(0)
    try:
        begun = time.monotonic()
        with locked(path):
            assert time.monotonic() - begun < 5
    finally:
        os.close(write)
        os.waitpid(child, 0)
        os.close(read)
