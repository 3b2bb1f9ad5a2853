"""The search finds, shrinks and reports what is planted; a program of each kind passes."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest
from fuzz.choices import Replayed, Seeded, shrunk
from fuzz.kinds import KINDS
from fuzz.run import Search, Worker, main
from fuzz.sources import EndlessError, check_equal, limited
from fuzz.worker import answer

from peffects import Err


def test_a_row_of_choices_gives_the_program_again() -> None:
    for kind in KINDS.values():
        choices = Seeded(7)
        drawn = kind.draw(choices)
        assert kind.draw(Seeded(7)) == kind.draw(Replayed(choices.row)) == drawn


@pytest.mark.parametrize("kind", ["staged", "wrong-effects", "wrong-kernels"])
def test_a_program_of_each_quick_kind_passes(kind: str) -> None:
    assert "word" in answer(kind, 3, None)


def test_rows_shrink_to_the_smallest_that_fails() -> None:
    row = shrunk([3, 80, 5, 61, 7], lambda row: any(x >= 60 for x in row), 200)
    assert row == [60] or row == [61]


def test_what_fails_crashes_or_hangs_is_found_and_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["--seed", "planted:1"]) == 1
    told = capsys.readouterr().out
    assert "FAILED, AssertionError: a number is large" in told
    assert "[60, 0, 0, 0, 0, 0, 0, 0, 0]" in told
    assert "make fuzz SEED=planted:1" in told
    assert "something was found" in told
    worker = Worker(limit_s=1.0)
    try:
        assert worker.ask("crashes", 1, None)["failure"] == "Crash: status -11"
        assert worker.ask("hangs", 1, None)["failure"] == "Hang: over 1 s"
        assert worker.ask("planted", None, [1, 2])["word"] == "small"
    finally:
        worker.close()


def test_a_fault_is_reported_once_and_one_that_is_ignored_never() -> None:
    worker = Worker(limit_s=20.0)
    try:
        search = Search(worker, shrinking_s=0.0)
        search.check("planted", 1)
        search.check("planted", 2)
        assert search.words["planted FAILED"] == 2
        assert list(search.failures) == ["planted:1"]
        ignoring = Search(worker, "is large")
        ignoring.check("planted", 1)
        assert not ignoring.failures
    finally:
        worker.close()


@pytest.mark.parametrize("option", ["--start", "--seed"])
def test_a_number_names_a_program_wherever_the_search_starts(
    option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checked(start: int) -> dict[int, str]:
        kinds: dict[int, str] = {}

        def check(_: Search, kind: str, seed: int) -> None:
            kinds[seed] = kind
            if len(kinds) == 12:
                raise KeyboardInterrupt

        monkeypatch.setattr(Search, "check", check)
        with pytest.raises(KeyboardInterrupt):
            main([option, str(start), "--minutes", "1"])
        return kinds

    first, later = checked(40), checked(43)
    assert list(first) == list(range(40, 52))
    assert list(later) == list(range(43, 55))
    assert {seed: first[seed] for seed in range(43, 52)} == {
        seed: later[seed] for seed in range(43, 52)
    }


def test_a_seed_of_an_unknown_kind_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--seed", "kernels:1"])
    assert "no kind 'kernels'" in capsys.readouterr().err


def test_the_limit_holds_for_a_program_that_swallows_it() -> None:
    with pytest.raises(EndlessError), limited(0.05):
        with contextlib.suppress(EndlessError):
            time.sleep(20.0)
        time.sleep(20.0)
    with pytest.raises(EndlessError), limited(0.05):
        try:
            time.sleep(20.0)
        except EndlessError as error:
            raise ValueError("a frame did something else") from error


def test_an_answer_of_another_shape_is_told() -> None:
    with pytest.raises(AssertionError, match="is not"):
        check_equal(Err(1.0), (1.0, 2.0))
    with pytest.raises(AssertionError, match="is not"):
        check_equal(1.0, [1.0])
