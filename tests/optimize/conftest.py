"""Passes of these tests are checked, whatever the environment says."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _check_after_each_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEFFECTS_CHECK", "1")
    monkeypatch.delenv("PEFFECTS_DUMP", raising=False)
