"""Other Python versions: they are found and told, and nothing depends on one of them."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import pythons

ROOT = Path(__file__).resolve().parent.parent
THIS = f"{sys.version_info.major}.{sys.version_info.minor}"

# The bytecode, its table of handlers and its numbers differ from version to version.
INTERPRETER_S_OWN = {"co_code", "co_exceptiontable", "co_lnotab", "opcode", "opname", "opmap"}


def interpreter(file: Path, version: str) -> None:
    """A stand-in that says that it is of this version."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\necho {version}\n")
    file.chmod(0o755)


def test_versions_are_found_on_path_and_of_pyenv(tmp_path: Path) -> None:
    on_path, root = tmp_path / "bin", tmp_path / "pyenv"
    interpreter(on_path / "python3.11", "3.11")
    interpreter(on_path / "python3.12", "3.9")  # a name is no proof
    interpreter(on_path / "python3.13", "3.13")
    for patch, version in (("3.13.2", "3.13"), ("3.13.10", "3.13"), ("3.13-dev", "3.13")):
        interpreter(root / "versions" / patch / "bin" / "python", version)
    environment = {"PATH": f"{tmp_path}/none{os.pathsep}{on_path}", "PYENV_ROOT": str(root)}
    assert pythons.find_pythons(environment) == {
        "3.11": str(on_path / "python3.11"),
        "3.13": str(root / "versions" / "3.13.10" / "bin" / "python"),
    }


def test_pyenv_is_looked_for_at_home(tmp_path: Path) -> None:
    interpreter(tmp_path / ".pyenv" / "versions" / "3.12.1" / "bin" / "python", "3.12")
    assert list(pythons.find_pythons({"PATH": "", "HOME": str(tmp_path)})) == ["3.12"]


def outcome(
    found: dict[str, str], failing: set[str], patch: pytest.MonkeyPatch, capsys: Any
) -> tuple[int, str]:
    def passes(version: str, python: str, folder: Path, arguments: Any) -> bool:
        assert (python, folder, arguments) == (found[version], Path("there"), ("-x",))
        return version not in failing

    patch.setattr(pythons, "find_pythons", lambda environment: found)
    patch.setattr(pythons, "passes", passes)
    status = pythons.main("there", "-x")
    return status, capsys.readouterr().out


def test_all_versions_have_to_pass(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    found = {"3.11": "a/python", "3.13": "b/python"}
    status, text = outcome(found, set(), monkeypatch, capsys)
    assert status == 0
    assert "Python 3.11: a/python" in text and "Python 3.13: passed" in text
    assert "Python 3.12: not tested (not found)" in text
    status, text = outcome(found, {"3.13"}, monkeypatch, capsys)
    assert status == 1 and "Python 3.11: passed" in text and "Python 3.13: FAILED" in text


def test_one_version_is_not_enough(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    status, text = outcome({"3.11": "a/python"}, set(), monkeypatch, capsys)
    assert status == 1
    assert "Python 3.11: not tested\n" in text and "fewer than 2 versions" in text


def test_this_version_is_one_that_is_tested() -> None:
    assert THIS in pythons.VERSIONS
    assert pythons.is_version(sys.executable, THIS)
    assert not pythons.is_version(str(ROOT / "no such"), THIS)


@pytest.mark.parametrize("path", sorted((ROOT / "peffects").rglob("*.py")), ids=lambda p: p.stem)
def test_no_module_reads_bytecode(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            assert node.attr not in INTERPRETER_S_OWN, node.lineno
        elif isinstance(node, ast.Import):
            assert not {alias.name for alias in node.names} & {"dis", "opcode"}, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.module not in ("dis", "opcode"), node.lineno
