"""The lists of mutants fit the code, and the search finds one that survives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import mutations
import pytest

ROOT = mutations.ROOT
ALL = list(mutations.mutants())
MODULES = sorted(
    str(path.relative_to(ROOT))
    for folder in mutations.LOOKED_AFTER
    for path in ROOT.glob(folder)
    if path.name != "__init__.py"
)


@pytest.mark.parametrize("pattern", mutations.LOOKED_AFTER)
def test_each_pattern_finds_modules(pattern: str) -> None:
    assert list(ROOT.glob(pattern))


@pytest.mark.parametrize("module", MODULES)
def test_each_module_has_some(module: str) -> None:
    assert Counter(mutant.module for mutant in ALL)[module] >= mutations.FEWEST


@pytest.mark.parametrize("mutant", ALL, ids=str)
def test_each_can_be_applied(mutant: mutations.Mutant) -> None:
    text = (ROOT / mutant.module).read_text("utf-8")
    changed = mutant.applied(text)
    compile(changed, mutant.module, "exec")
    assert changed != text
    for test in mutant.tests:
        assert (ROOT / test.partition("::")[0]).exists(), test


def project(root: Path, *mutants: str) -> None:
    """A package of one module with a test and mutants."""
    for folder in ("package", "tests/mutants"):
        (root / folder).mkdir(parents=True)
    (root / "package" / "module.py").write_text("def double(x):\n    return 2 * x  # twice\n")
    (root / "tests" / "test_module.py").write_text(
        "from package.module import double\n\ndef test_double():\n    assert double(3) == 6\n"
    )
    (root / "tests" / "mutants" / "all.toml").write_text(
        '["package/module.py"]\ntests = ["tests/test_module.py"]\n'
        f"mutants = [{', '.join(mutants)}]\n"
    )


KILLED, SURVIVING = '["2 * x", "3 * x"]', '["# twice", "# thrice"]'


def test_a_survivor_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project(tmp_path, KILLED, SURVIVING)
    assert mutations.main(["--jobs", "1"], tmp_path) == 1
    printed = capsys.readouterr().out
    assert "killed" in printed
    assert "SURVIVED" in printed
    assert "2 mutants, 1 survived" in printed


def test_without_survivors_it_succeeds(tmp_path: Path) -> None:
    project(tmp_path, KILLED)
    assert mutations.main(["--jobs", "1"], tmp_path) == 0
    assert mutations.main(["elsewhere"], tmp_path) == 2


def test_tests_that_fail_anyway_prove_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project(tmp_path, KILLED)
    (tmp_path / "tests" / "test_module.py").write_text("def test_double():\n    assert False\n")
    assert mutations.main(["--jobs", "1"], tmp_path) == 2
    assert "fails without a mutant" in capsys.readouterr().out


def test_a_text_that_is_not_there_once() -> None:
    mutant = mutations.Mutant("module.py", "x", "y", ())
    with pytest.raises(ValueError, match="holds this 2 times: x"):
        mutant.applied("x + x")
