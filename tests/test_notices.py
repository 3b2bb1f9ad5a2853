"""A first call that takes long says so: once, to a terminal, and nowhere else."""

from __future__ import annotations

import io
import sys
import time
from typing import Any

import pytest

import peffects as pe
from peffects import notices


class Terminal(io.StringIO):
    """A stream with a person in front of it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def slow_staging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Staging takes longer than anybody waits without a word."""
    stage = pe.Kernel.stage

    def slowly(self: Any, *args: Any) -> Any:
        time.sleep(0.2)
        return stage(self, *args)

    monkeypatch.setattr(pe.Kernel, "stage", slowly)
    monkeypatch.setattr(notices, "PATIENCE_S", 0.05)


@pytest.mark.usefixtures("slow_staging")
def test_a_terminal_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    @pe.kernel
    def patient(x: Any) -> Any:
        return 2.0 * x

    assert [patient(1.0), patient(2.0)] == [2.0, 4.0]
    (line,) = terminal.getvalue().splitlines()
    assert "patient compiles, once for these types" in line
    patient(1)  # other types
    assert len(terminal.getvalue().splitlines()) == 2


@pytest.mark.usefixtures("slow_staging")
def test_nothing_else_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert pe.kernel(lambda x: 2.0 * x)(1.0) == 2.0
    printed = capsys.readouterr()
    assert printed.out == printed.err == ""


def test_what_is_quick_needs_no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with notices.tell_if_slow("slow"):
        pass
    assert terminal.getvalue() == ""


def test_a_program_without_a_standard_error_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)  # as under pythonw
    with notices.tell_if_slow("slow"):
        assert pe.kernel(lambda x: 3.0 * x)(1.0) == 3.0
