"""Changes of one line, each of which some test must notice: `make mutations`.

A file of `tests/mutants` names modules, the tests that look after each, and pairs of a text that is
in the module once and what is put in its place.  Every mutant runs in a copy of the project, until
a test fails.  A mutant that survives is a fault that nobody would notice: the program prints it and
fails.  `ONLY=cache` runs the mutants of the modules whose path contains that word.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LISTS = Path(__file__).resolve().parent / "mutants"
LOOKED_AFTER = (
    "peffects/function_trees.py",
    "peffects/machine/**/*.py",
    "peffects/remembered.py",
    "peffects/codegen/**/*.py",
    "peffects/differentiate/**/*.py",
)
"""The modules of which every one has mutants; others may have some."""
FEWEST = 3
"""Mutants that each module has at least."""
_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "out")
_LEAST_PATIENCE_S, _PATIENCE = 60.0, 6.0
_PASSED, _FAILED = 0, 1  # what pytest returns


@dataclass(frozen=True, slots=True)
class Mutant:
    """`new` in place of `old` in a module, and the tests that are asked."""

    module: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied(self, text: str) -> str:
        """The changed text; ValueError where it does not hold `old` once."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.module} holds this {text.count(self.old)} times: {self.old}")
        return text.replace(self.old, self.new)

    def __str__(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.module}: {old}  ->  {new}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant."""

    mutant: Mutant
    killed: bool
    seconds: float
    how: str


def mutants(folder: Path = LISTS) -> Iterator[Mutant]:
    """All mutants of the lists in `folder`, in their order."""
    for path in sorted(folder.glob("*.toml")):
        for module, entry in tomllib.loads(path.read_text("utf-8")).items():
            for old, new, *tests in entry["mutants"]:
                yield Mutant(module, old, new, tuple(tests or entry["tests"]))


class Copies:
    """Copies of the project, one for each job, in which mutants are applied and taken back."""

    def __init__(self, root: Path, into: Path, jobs: int) -> None:
        self.free: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for number in range(jobs):
            copy = into / str(number)
            shutil.copytree(root, copy, ignore=_LEFT_OUT)
            self.free.put(copy)

    def run(self, tests: Sequence[str], patience_s: float, mutant: Mutant | None = None) -> Outcome:
        """Run `tests` in a copy, with the mutant in it."""
        copy = self.free.get()
        try:
            if mutant is None:
                return _run(copy, tests, patience_s, Mutant("", "", "", tuple(tests)))
            file = copy / mutant.module
            text = file.read_text("utf-8")
            _write(file, mutant.applied(text))
            try:
                return _run(copy, tests, patience_s, mutant)
            finally:
                _write(file, text)
        finally:
            self.free.put(copy)


def _write(file: Path, text: str) -> None:
    """Write a module, and forget what was compiled of it: its time has no more than seconds."""
    file.write_text(text, "utf-8")
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        compiled.unlink()


def _run(copy: Path, tests: Sequence[str], patience_s: float, mutant: Mutant) -> Outcome:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    start = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=patience_s
        )
    except subprocess.TimeoutExpired:
        return Outcome(mutant, True, time.monotonic() - start, f"no end in {patience_s:.0f} s")
    seconds = time.monotonic() - start
    if done.returncode == _PASSED:
        return Outcome(mutant, False, seconds, "all tests pass")
    if done.returncode == _FAILED:
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return Outcome(mutant, True, seconds, failed[0][:100] if failed else "a test fails")
    # A module that cannot be imported, or a process that dies, is noticed, too.
    last = (done.stdout + done.stderr).strip().splitlines()[-1:]
    return Outcome(mutant, True, seconds, f"pytest ends with {done.returncode}: {last}")


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the mutants; 1 if one survives, 2 if a list is wrong."""
    parser = argparse.ArgumentParser(description="Change lines, and see that tests fail.")
    parser.add_argument("only", nargs="*", help="run only modules whose path contains one of these")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    given = parser.parse_args(argv)
    lists = root / "tests" / "mutants"
    chosen = [m for m in mutants(lists) if not given.only or any(w in m.module for w in given.only)]
    if not chosen:
        print(f"no module has {' or '.join(given.only)} in its path", file=sys.stderr)
        return 2
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="peffects-mutants-") as into:
        copies = Copies(root, Path(into), given.jobs)
        with ThreadPoolExecutor(given.jobs) as pool:
            sets = list(dict.fromkeys(m.tests for m in chosen))
            plain = dict(
                zip(sets, pool.map(lambda tests: copies.run(tests, 1e4), sets), strict=True)
            )
            broken = [tests for tests, outcome in plain.items() if outcome.killed]
            for tests in broken:
                print(f"fails without a mutant: {' '.join(tests)}: {plain[tests].how}")
            if broken:
                return 2

            def run(mutant: Mutant) -> Outcome:
                patience_s = max(_LEAST_PATIENCE_S, _PATIENCE * plain[mutant.tests].seconds)
                return copies.run(mutant.tests, patience_s, mutant)

            outcomes = []
            for outcome in pool.map(run, chosen):
                outcomes.append(outcome)
                word = "killed  " if outcome.killed else "SURVIVED"
                print(
                    f"{word} {outcome.seconds:5.1f} s  {outcome.mutant}  ({outcome.how})",
                    flush=True,
                )
    survivors = [outcome for outcome in outcomes if not outcome.killed]
    minutes = (time.monotonic() - start) / 60
    print(f"{len(outcomes)} mutants, {len(survivors)} survived, in {minutes:.1f} minutes")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
