"""`make fuzz`: draws programs of all kinds until the time is up, and reports what fails.

Each failure is made smaller and printed as a script; `make fuzz SEED=kind:number` draws, checks and
shrinks that one again, `START=number` searches from there on; a number alone names a program, whose
kind its remainder says.  Programs run in a process of their own: to crash and to hang is to fail.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fuzz.choices import shrunk
from fuzz.kinds import ALL_KINDS

__all__ = ["Search", "Worker", "main"]

ROOT = Path(__file__).resolve().parent.parent.parent
KINDS = ("staged", "values", "wrong-effects", "executors", "wrong-kernels", "gradients", "native",
         "effect-gradients", "variables")  # fmt: skip
CASES_OF_A_WORKER = 150
STARTING_S = 120.0


class Worker:
    """A process that checks programs, started again where it has crashed or hung."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.process: subprocess.Popen[str] | None = None
        self.cases = 0

    def ask(self, kind: str, seed: int | None, row: list[int] | None) -> dict[str, Any]:
        """What became of a program; `failure` says what is wrong with it."""
        if self.process is None or self.cases >= CASES_OF_A_WORKER:
            self.close()
            self._start()
        self.cases += 1
        assert self.process is not None
        assert self.process.stdin is not None
        print(json.dumps([kind, seed, row]), file=self.process.stdin, flush=True)
        told = self._told(self.limit_s)
        if told is None:
            status = self.process.poll()
            self.close()
            what = f"Hang: over {self.limit_s:g} s" if status is None else f"Crash: status {status}"
            return {"row": row, "script": "", "failure": what, "trace": ""}
        return told

    def _start(self) -> None:
        path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, "PEFFECTS_CACHE_DIR": "", "PYTHONHASHSEED": "0"},
        )
        self.cases = 0
        assert self._told(STARTING_S) is not None, "the worker does not start"

    def _told(self, limit_s: float) -> dict[str, Any] | None:
        assert self.process is not None
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], limit_s)
        line = self.process.stdout.readline() if ready else ""
        if ready and not line:
            self.process.wait()
        return json.loads(line) if line else None

    def close(self) -> None:
        """End the process, whatever it does."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
        self.process = None


def same_failure(left: str, right: str) -> bool:
    """Whether two messages tell of one fault: without numbers and names they begin alike."""
    return _blurred(left) == _blurred(right)


def _blurred(failure: str) -> str:
    return re.sub(r"[\d.]+|`\w+`|0x\w+|<[^>]*>", "#", " ".join(failure.split()))[:60]


class Search:
    """Draws, checks, shrinks and reports."""

    def __init__(self, worker: Worker, ignore: str = "", shrinking_s: float = 120.0) -> None:
        self.worker, self.ignore, self.shrinking_s = worker, ignore, shrinking_s
        self.words: Counter[str] = Counter()
        self.failures: dict[str, str] = {}

    def check(self, kind: str, seed: int) -> None:
        """Check one program; report it if it fails in a way that none did before."""
        told = self.worker.ask(kind, seed, None)
        failure = told.get("failure")
        if failure is None:
            self.words[f"{kind} {told['word']}"] += 1
            return
        self.words[f"{kind} FAILED"] += 1
        if self.ignore and re.search(self.ignore, failure):
            return
        if not any(same_failure(failure, known) for known in self.failures.values()):
            self.failures[f"{kind}:{seed}"] = failure
            self._report(kind, seed, told)

    def _report(self, kind: str, seed: int, told: dict[str, Any]) -> None:
        print(f"\n{kind}:{seed} FAILED, {told['failure'][:300]}", flush=True)
        row = told["row"]
        if row is None:  # it took its process along: the row is drawn again, without checking
            row, told["script"] = _drawn(kind, seed)
        until = time.monotonic() + self.shrinking_s

        def fails(candidate: list[int]) -> bool:
            if time.monotonic() > until:
                return False
            again = self.worker.ask(kind, seed, candidate)
            if "failure" in again and same_failure(again["failure"], told["failure"]):
                found.update(again, row=candidate)
                return True
            return False

        found = dict(told)
        hangs = told["failure"].startswith("Hang")
        row = shrunk(row, fails, 6 if hangs else 400)
        script = found["script"] or _drawn(kind, seed, row)[1]
        print(f"--- the smallest program, from {len(row)} choices:\n{script}")
        print(found["trace"][-3000:] + f"--- again: make fuzz SEED={kind}:{seed}\n", flush=True)


def _drawn(kind: str, seed: int, row: list[int] | None = None) -> tuple[list[int], str]:
    """The row of choices and the script of a program that is drawn in a process of its own."""
    code = (
        "import json, sys\nfrom fuzz.choices import Replayed, Seeded\n"
        "from fuzz.kinds import ALL_KINDS\nkind, seed, row = json.loads(sys.argv[1])\n"
        "choices = Seeded(seed) if row is None else Replayed(row)\n"
        "case = ALL_KINDS[kind].draw(choices)\n"
        "print(json.dumps([getattr(choices, 'row', row), case.script(f'{kind}:{seed}')]))\n"
    )
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    told = subprocess.run(
        [sys.executable, "-c", code, json.dumps([kind, seed, row])],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found: tuple[list[int], str] = tuple(json.loads(told))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Search for some minutes, or check one seed; 1 if something was found."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument(
        "--seed", type=_seed, help="kind:number to check that one again; a number is a --start"
    )
    parser.add_argument("--start", type=int, default=None, help="the first number of a search")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--ignore", default="", help="failures that match this are not reported")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that a program has")
    options = parser.parse_args(arguments)
    worker = Worker(options.limit)
    search = Search(worker, options.ignore)
    try:
        kind, number = options.seed or ("", options.start)
        if kind:
            search.check(kind, number)
        else:
            _search(search, options, int(time.time()) if number is None else number)
    finally:
        worker.close()
    print(f"{sum(search.words.values())} programs: {dict(sorted(search.words.items()))}")
    for seed, failure in search.failures.items():
        print(f"make fuzz SEED={seed}   {' '.join(failure.split())[:120]}")
    print("something was found" if search.failures else "nothing was found")
    return 1 if search.failures else 0


def _seed(text: str) -> tuple[str, int]:
    """The kind, which may be missing, and the number of what `SEED=` says."""
    kind, _, number = text.rpartition(":")
    if kind and kind not in ALL_KINDS:
        raise argparse.ArgumentTypeError(f"no kind {kind!r}; there are {', '.join(ALL_KINDS)}")
    return kind, int(number)


def _search(search: Search, options: argparse.Namespace, start: int) -> None:
    print(f"fuzz: {options.minutes:g} minutes, seeds from {start} on", flush=True)
    until, told = time.monotonic() + 60.0 * options.minutes, time.monotonic()
    kinds = options.kinds.split(",")
    for seed in itertools.count(start):
        if time.monotonic() > until:
            return
        kind = kinds[seed % len(kinds)]  # wherever the search begins, a number is this program
        search.check(kind, seed)
        if time.monotonic() > told + 20.0:
            told = time.monotonic()
            done, found = sum(search.words.values()), len(search.failures)
            print(f"{kind}:{seed}, {done} programs, {found} found", flush=True)


if __name__ == "__main__":
    sys.exit(main())
