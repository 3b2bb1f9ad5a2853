"""The command line answers questions about errors and about the installation."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from peffects import cli
from peffects.errors import error_classes

ROOT = Path(__file__).resolve().parent.parent


def python_m(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "peffects", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_explain_runs_as_a_module() -> None:
    done = python_m("explain", "PE901")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "PE901 InternalError\n\nA bug of peffects, not of your program.\n"
    )


def test_explain_takes_names_and_small_letters(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "pe901"]) == cli.main(["explain", "internalerror"]) == 0
    first, second, third = capsys.readouterr().out.split("PE901 InternalError\n")
    assert first == ""
    assert second == third


def test_explain_without_code_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain"]) == 0
    codes = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert codes == [cls.code for cls in error_classes()]


def test_unknown_code_names_near_misses() -> None:
    done = python_m("explain", "PE920")
    assert (done.returncode, done.stdout) == (2, "")
    first, near, hint = done.stderr.splitlines()
    assert first == "peffects: there is no error PE920."
    assert "PE902 MissingRuleError" in near
    assert hint == "  python -m peffects explain   lists all of them."


def test_unknown_code_without_near_miss_points_to_the_list(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["explain", "zzz"]) == 2
    assert "Did you mean" not in capsys.readouterr().err


def test_no_command_is_a_usage_error() -> None:
    done = python_m()
    assert done.returncode == 2
    assert "usage: peffects" in done.stderr


def facts(printed: str) -> dict[str, str]:
    return {
        name: value for name, _, value in (line.partition("  ") for line in printed.split("\n"))
    }


def test_doctor_prints_versions_and_cores() -> None:
    done = python_m("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    found = {name: value.strip() for name, value in facts(done.stdout).items()}
    assert found["numba"] == metadata.version("numba")
    assert found["python"].startswith(".".join(map(str, sys.version_info[:2])))
    assert int(found["cores"].split(",")[0]) >= 1
    assert found["threads"].startswith(f"{os.environ['PEFFECTS_NUM_THREADS']} (")


def test_doctor_tells_the_cache(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PEFFECTS_CACHE_DIR", str(tmp_path))
    (tmp_path / "0123.kernels").write_bytes(bytes(3 * 2**20))
    assert cli.main(["doctor"]) == 0
    assert f"{tmp_path} (entries: 1, 3.0 MiB)" in capsys.readouterr().out
    monkeypatch.setenv("PEFFECTS_CACHE_DIR", "")
    assert cli.main(["doctor"]) == 0
    assert facts(capsys.readouterr().out)["cache"].strip() == "off"


def test_doctor_survives_a_broken_compiler() -> None:
    program = (
        "import sys\n"
        "sys.modules['llvmlite.binding'] = sys.modules['llvmlite'] = None\n"
        "from peffects.cli import main\n"
        "sys.exit(main(['doctor']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = facts(done.stdout)
    assert found["cache"].strip().startswith("unknown: ")
    assert found["threads"].strip().startswith("unknown: ")


def test_doctor_names_a_setting_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEFFECTS_NUM_THREADS", "many")
    done = python_m("doctor")
    assert done.returncode == 0, done.stderr
    assert facts(done.stdout)["threads"].strip().startswith("unknown: ")


def test_doctor_survives_missing_packages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(package: str) -> str:
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr(metadata, "version", nothing)
    assert cli.main(["doctor"]) == 1
    found = {name: value.strip() for name, value in facts(capsys.readouterr().out).items()}
    assert found["numba"] == found["numpy"] == "not installed"
