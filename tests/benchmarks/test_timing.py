"""The benchmarks' helper takes turns and the best of many, and prints a readable table."""

from __future__ import annotations

import itertools
import math
import os
from pathlib import Path

import pytest
import run
import timing

import peffects as pe


class Clock:
    """A clock that only the measured calls move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[str] = []

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.calls.append("pause")
        self.now += seconds

    def takes(self, name: str, *seconds: float) -> timing.Thunk:
        durations = itertools.cycle(seconds)

        def call() -> None:
            self.calls.append(name)
            self.now += next(durations)

        return call


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timing, "time", clock)
    return clock


def test_compare_takes_turns_and_reports_the_best(clock: Clock) -> None:
    row = timing.compare(
        "x", clock.takes("ours", 1.0), clock.takes("peer", 3.0), against="peer", rounds=4
    )
    assert row == timing.Row("x", 1.0, "peer", 3.0, 3.0, 3.0, 3.0)
    warm_up = ["ours"] * 2 + ["peer"] * 2
    turns = [name for call in ["ours", "peer", "peer", "ours"] * 2 for name in ("pause", call)]
    assert clock.calls == warm_up + turns


def test_one_slow_round_does_not_change_the_ratio(clock: Clock) -> None:
    ours = clock.takes("ours", 1.0, 1.0, 1.0, 90.0, 1.0, 1.0, 1.0)
    row = timing.compare("x", ours, clock.takes("peer", 2.0), against="peer", rounds=5)
    assert (row.ours_s, row.ratio) == (1.0, 2.0)


def test_the_ratio_lies_within_the_range(clock: Clock) -> None:
    ours, peer = clock.takes("ours", 1.0, 1.0, 2.0, 5.0, 1.5), clock.takes("peer", 3.0, 3.0, 9.0)
    row = timing.compare("x", ours, peer, against="peer", rounds=5)
    assert (row.ours_s, row.peer_s, row.ratio) == (1.0, 3.0, 3.0)
    assert row.low < row.ratio < row.high


def test_threads_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    with pe.threads(5):
        assert timing.threads().startswith("5 threads of ours, 3 of numpy's BLAS, on ")


def test_short_calls_are_repeated(clock: Clock) -> None:
    row = timing.alone("x", clock.takes("ours", 0.0005), rounds=3)
    assert row.ours_s == pytest.approx(0.0005)
    assert math.isnan(row.ratio)
    assert clock.calls.count("ours") == 2 + 3 * 3 * 4


def test_too_few_rounds_are_refused(clock: Clock) -> None:
    with pytest.raises(ValueError, match="at least 3"):
        timing.alone("x", clock.takes("ours", 1.0), rounds=2)


def test_advice_names_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.delenv("OPENBLAS_L2_SIZE", raising=False)
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    assert timing.advice() == []
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    assert ["OPENBLAS_CORETYPE" in sentence for sentence in timing.advice()] == [True]


def test_table_is_aligned() -> None:
    rows = [timing.Row("gmm", 0.0027, "jax", 0.042, 15.5, 15.0, 16.0), timing.Row("compile", 1.1)]
    assert run.table(rows).splitlines() == [
        "              ours     peer       ratio",
        "  gmm      2.70 ms  42.0 ms  jax  15.50 (15.00 to 16.00)",
        "  compile   1.10 s",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (12.5, "12.5 s"),
        (0.00123, "1.23 ms"),
        (0.00099996, "1.00 ms"),
        (3.1e-7, "310 ns"),
        (120.0, "120 s"),
    ],
)
def test_duration_has_three_digits(seconds: float, text: str) -> None:
    assert run.duration(seconds) == text


def test_run_finds_benchmarks_by_word(tmp_path: Path) -> None:
    for name in ("bench_gmm.py", "bench_handlers.py", "timing.py"):
        (tmp_path / name).touch()
    assert [file.name for file in run.find(tmp_path, [])] == ["bench_gmm.py", "bench_handlers.py"]
    assert [file.name for file in run.find(tmp_path, ["hand"])] == ["bench_handlers.py"]


def test_report_runs_a_benchmark_and_skips_one_without_its_peer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = tmp_path / "bench_good.py"
    good.write_text("from timing import Row\ndef main():\n    return [Row('one', 0.5)]\n")
    assert run.report(good).splitlines()[1].split() == ["one", "500", "ms"]
    monkeypatch.setattr(run, "PEERS", {"no_such_peer"})
    peerless = tmp_path / "bench_peerless.py"
    peerless.write_text("import no_such_peer\n")
    assert "no_such_peer is not installed" in run.report(peerless)
    broken = tmp_path / "bench_broken.py"
    broken.write_text("import no_such_module_of_ours\n")
    with pytest.raises(ModuleNotFoundError):
        run.report(broken)


def test_run_says_when_nothing_matches(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["no-such-benchmark"]) == 1
    assert "no-such-benchmark" in capsys.readouterr().err
