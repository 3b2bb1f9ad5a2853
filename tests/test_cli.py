"""The command line answers questions about errors and about the installation."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import peffects as pe
from peffects import cli
from peffects.codegen.load import cache
from peffects.codegen.load.cache import ObjectCode
from peffects.errors import error_classes

ROOT = Path(__file__).resolve().parent.parent


def python_m(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "peffects", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_explain_runs_as_a_module() -> None:
    done = python_m("explain", "PE901")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "# PE901 InternalError\n\nA bug of peffects, not of your program."
    )


def test_explain_takes_names_and_small_letters(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "pe901"]) == cli.main(["explain", "internalerror"]) == 0
    first, second, third = capsys.readouterr().out.split("# PE901 InternalError\n")
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


@pytest.mark.parametrize(
    ("words", "code"),
    [("race", "PE203"), ("races", "PE203"), ("out of bounds", "PE401"), ("two tables", "PE201")],
)
def test_words_find_the_errors_that_are_about_them(
    words: str, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["explain", words]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith(code) for line in lines), lines


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        cli.main(["--version"])
    assert done.value.code == 0
    assert re.fullmatch(r"peffects \d+\.\d+\.\d+\n", capsys.readouterr().out)


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
    assert f"{tmp_path} (entries: 1, 3.0 MiB of at most 512 MiB)" in capsys.readouterr().out
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


def test_a_reader_that_has_read_enough_is_no_error(tmp_path: Path) -> None:
    for k in range(3000):
        (tmp_path / f"{k:064}.kernels").write_bytes(b"")
    environment = {**os.environ, "PEFFECTS_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "peffects", "cache", "list"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_doctor_gives_advice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PEFFECTS_CACHE_DIR", "")
    cli.main(["doctor"])
    assert "advice" in facts(capsys.readouterr().out)
    monkeypatch.setenv("PEFFECTS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cli, "_usable_cores", lambda: 10_000)
    cli.main(["doctor"])
    assert "advice" not in facts(capsys.readouterr().out)
    monkeypatch.setattr(cli, "_usable_cores", lambda: 0)
    cli.main(["doctor"])
    assert "fewer are faster" in capsys.readouterr().out


# --- the cache -----------------------------------------------------------------------------------


def test_cache_lists_and_clears(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Kernels by name, size and date, the largest first."""
    monkeypatch.setenv("PEFFECTS_CACHE_DIR", str(tmp_path))
    for name, size in (("energy", 1024), ("vjp of energy", 3 * 1024)):
        cache.write(name[0] * 64, ObjectCode(("f",), (), (bytes(size),)), name)
    (tmp_path / "other.kernels").write_bytes(bytes(1024))
    used = time.mktime((2024, 5, 6, 7, 8, 0, 0, 0, -1))
    for path in tmp_path.glob("*.kernels"):
        os.utime(path, (used, used))
    assert cli.main(["cache"]) == 0
    head, *rows, total, most = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head == ["size", "last", "used", "key", "kernel"]
    shown = [(row[0], " ".join(row[2:4]), " ".join(row[5:])) for row in rows]
    assert shown == [
        ("3.1", "2024-05-06 07:08", "vjp of energy"),
        ("1.1", "2024-05-06 07:08", "energy"),
        ("1.0", "2024-05-06 07:08", "(of another version)"),
    ]
    assert (total[:2], total[3]) == (["5.2", "KiB"], "3") and most[0] == f"{512 * 1024:.1f}"
    assert cli.main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == "deleted 3 entries.\n"
    assert list(tmp_path.glob("*.kernels")) == []


def test_cache_that_may_only_be_read_is_not_cleared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setenv("PEFFECTS_CACHE_DIR", str(tmp_path))
    cache.write("1" * 64, ObjectCode(("f",), (), (b"",)))
    monkeypatch.setattr(Path, "unlink", refuse)
    assert cli.main(["cache", "clear"]) == 1
    told = f"deleted 0 entries.\n1 could not be deleted: {tmp_path} may only be read.\n"
    assert capsys.readouterr().out == told


def test_cache_tells_a_kernel_by_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PEFFECTS_CACHE_DIR", str(tmp_path))

    @pe.kernel
    def energy_of_springs(x):  # type: ignore[no-untyped-def]
        return pe.sum(lambda i: x[i] * x[i] * 0.53125)

    pe.grad(energy_of_springs)(np.ones(3))
    assert cli.main(["cache"]) == 0
    assert "energy_of_springs" in capsys.readouterr().out


def test_commands_run_without_any_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under `pythonw`, or a service that has closed them."""
    for stream in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, stream, None)
    assert cli.main(["doctor"]) == cli.main(["cache"]) == cli.main(["explain", "PE901"]) == 0


def test_cache_tells_when_it_is_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PEFFECTS_CACHE_DIR", "")
    assert cli.main(["cache"]) == 0
    assert "the cache is off" in capsys.readouterr().out


# --- kernels -------------------------------------------------------------------------------------

MODEL = """
import peffects as pe

@pe.kernel
def loss(w, x, scale):
    return scale * pe.sum(lambda n: pe.sum(lambda j: w[j] * x[n, j]))

slope = pe.grad(loss)
number = 3

@pe.effectful
def program() -> "pe.Eff[pe.Par, int]":
    yield from pe.pfor(pe.Fin(3), lambda i: i)
    return 1
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "model_of_cli.py"
    file.write_text(MODEL)
    return file


def test_explain_shows_a_kernel_of_a_file(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", f"{model}:loss", "f64[d]", "f32[n, d]", "float"]) == 0
    printed = capsys.readouterr().out
    assert "== program of loss ==" in printed
    assert "== generated source of loss ==" in printed


def test_types_may_have_the_names_of_numpy(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", f"{model}:loss", "float64[d]", "float32[n,d]", "float"]) == 0
    printed = capsys.readouterr().out
    assert cli.main(["explain", f"{model}:loss", "f64[d]", "f32[n,d]", "float"]) == 0
    assert printed == capsys.readouterr().out


def test_explain_shows_a_derivative(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", f"{model}:slope", "f64[d]", "f64[n,d]", "f64"]) == 0
    assert "optimized program" in capsys.readouterr().out


def test_explain_saves_a_page(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "loss.html"
    types = ["f64[d]", "f64[n,d]", "f64"]
    assert cli.main(["explain", f"{model}:loss", *types, "--save", str(page)]) == 0
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert capsys.readouterr().out == ""


def test_explain_shows_an_effectful_program(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["explain", f"{model}:program"]) == 0
    assert "performs pe.Par" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("subject", "types", "words"),
    [
        ("nowhere.py:loss", [], "there is no file nowhere.py"),
        ("{model}:los", [], "defines no los. Did you mean loss?"),
        ("{model}:zzz", [], "defines no zzz."),
        ("{model}:loss", ["f64[n]"], "do not fit loss("),
        ("{model}:loss", ["f64"] * 9, "too many positional arguments"),
        ("{model}:number", [], "number in"),
        ("{model}:loss", ["double[n]"], "'double[n]' is no type of an argument"),
    ],
)
def test_explain_of_a_kernel_names_the_mistake(
    model: Path, capsys: pytest.CaptureFixture[str], subject: str, types: list[str], words: str
) -> None:
    assert cli.main(["explain", subject.format(model=model), *types]) == 2
    assert words in capsys.readouterr().err


def test_explain_of_a_refused_kernel_prints_the_refusal(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["explain", f"{model}:loss", "f64", "f64[n,d]", "float"]) == 1
    assert "PE205" in capsys.readouterr().err
