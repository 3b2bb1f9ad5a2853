"""Rows in plain type checkers: pyright subtracts effects, and mypy accepts the same programs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
CASES = sorted((ROOT / "tests" / "cases").glob("effect_rows*.py"))


def checked(*command: str) -> str:
    mypy_path = os.pathsep.join([str(ROOT), str(ROOT / "stubs")])
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MYPYPATH": mypy_path}
    done = subprocess.run(
        [sys.executable, "-m", *command, *map(str, CASES)],
        capture_output=True,
        text=True,
        cwd=ROOT / "tests" / "cases",
        env=environment,
        timeout=300,
    )
    return done.stdout


def comments() -> dict[tuple[str, int], str]:
    """What the case files say behind their lines."""
    return {
        (path.name, number): line.rpartition("  # ")[2]
        for path in CASES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if "  # " in line
    }


@pytest.mark.slow
def test_pyright_reveals_rows_and_refuses_what_is_left_in_them() -> None:
    pytest.importorskip("pyright", reason="pyright is a development dependency")
    output = checked("pyright", "--outputjson", "--pythonpath", sys.executable)
    if not output.startswith("{"):
        pytest.skip("pyright cannot run here: it fetches itself at its first use")
    found: dict[tuple[str, int], str] = {}
    diagnostics: list[dict[str, Any]] = json.loads(output)["generalDiagnostics"]
    for diagnostic in diagnostics:
        line = Path(diagnostic["file"]).name, diagnostic["range"]["start"]["line"] + 1
        revealed = re.search(r' is "(.*)"$', diagnostic["message"])
        is_error = diagnostic["severity"] == "error"
        found[line] = "refused" if is_error or revealed is None else revealed[1]
    assert found == comments()


@pytest.mark.slow
def test_mypy_accepts_the_programs() -> None:
    output = checked("mypy", "--strict", "--config-file=")
    assert "Success: no issues found" in output, output
