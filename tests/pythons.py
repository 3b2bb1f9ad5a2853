"""Runs the tests under each Python version from 3.11 on that is here: `make test-pythons`.

Interpreters are found on PATH, as `python3.12` and its kin, and among the versions of pyenv.  Each
gets an environment of its own.  What was not found is listed as not tested; fewer than two versions
fail, since one of them is what `make test` runs with.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
AT_LEAST = 2
_VERSION = "import sys; print('.'.join(map(str, sys.version_info[:2])))"


def candidates(version: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Where an interpreter of this version may be, best first."""
    path = environment.get("PATH", os.defpath)
    home = Path(environment.get("HOME", "~")).expanduser()
    root = Path(environment.get("PYENV_ROOT", home / ".pyenv"))
    kept = [p for p in (root / "versions").glob(f"{version}*/bin/python") if _is(version, p)]
    yield from (str(p) for p in sorted(kept, key=_patch, reverse=True))
    for folder in path.split(os.pathsep):
        found = shutil.which(f"python{version}", path=folder)
        if found is not None:
            yield found


def _is(version: str, python: Path) -> bool:
    """Whether pyenv calls this a release of `version`: `3.12.1`, and not `3.12-dev`."""
    name = python.parent.parent.name
    return name == version or name.removeprefix(version + ".").isdigit()


def _patch(python: Path) -> int:
    return int(python.parent.parent.name.split(".")[-1])


def is_version(python: str, version: str) -> bool:
    """Whether it runs (pyenv has names for versions that it may not run) and is that version."""
    try:
        done = subprocess.run(
            [python, "-c", _VERSION], capture_output=True, text=True, check=False, timeout=60
        )
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.strip() == version


def find_pythons(environment: Mapping[str, str]) -> dict[str, str]:
    """An interpreter for each version that there is."""
    found = {}
    for version in VERSIONS:
        python = next((p for p in candidates(version, environment) if is_version(p, version)), None)
        if python is not None:
            found[version] = python
    return found


def environment_of(version: str, python: str, folder: Path) -> Path:
    """The interpreter of the environment for `version`, made and filled where that is due."""
    made, stamp = folder / version, folder / version / ".installed"
    wanted = (ROOT / "setup.cfg").read_text() + (ROOT / "pyproject.toml").read_text()
    inside = made / "bin" / "python"
    if not (stamp.exists() and stamp.read_text() == wanted):
        subprocess.run([python, "-m", "venv", str(made)], check=True)
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--editable"]
        subprocess.run([str(inside), *install, ".[test]"], cwd=ROOT, check=True)
        stamp.write_text(wanted)
    return inside


def passes(version: str, python: str, folder: Path, arguments: Iterable[str]) -> bool:
    """Whether the tests pass under this version."""
    inside = environment_of(version, python, folder)
    command = [str(inside), "-m", "pytest", "-q", *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def summary(found: Mapping[str, str], passed: Mapping[str, bool]) -> list[str]:
    """A line for each version."""
    outcome = {version: "not tested" for version in found}
    outcome |= {version: "passed" if passed[version] else "FAILED" for version in passed}
    return [f"Python {v}: {outcome.get(v, 'not tested (not found)')}" for v in VERSIONS]


def main(folder: str, *arguments: str) -> int:
    """Test them all; the exit status."""
    found = find_pythons(os.environ)
    for version, python in found.items():
        print(f"Python {version}: {python}", flush=True)
    if len(found) < AT_LEAST:
        print(*summary(found, {}), sep="\n")
        print(f"found fewer than {AT_LEAST} versions: install another, with pyenv or on PATH")
        return 1
    passed = {}
    for version, python in found.items():
        print(f"--- Python {version} ---", flush=True)
        passed[version] = passes(version, python, Path(folder), arguments)
    print(*summary(found, passed), sep="\n")
    return 0 if all(passed.values()) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
