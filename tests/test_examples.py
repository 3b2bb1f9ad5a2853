"""Every example runs small, and prints what `tests/golden/test_examples/NAME.txt` holds.

The convention: an example is `examples/NAME.py` with a module docstring (the problem, the paper,
what to notice) and `main(small: bool = False) -> None`, which does the work and prints what a
reader should see.  With `small=True` it takes a few seconds at most and prints nothing that depends
on the clock, the machine or the number of threads.  Importing it does nothing.  A new example gets
its golden file from `pytest tests/test_examples.py --update-golden`; floating-point numbers are
compared to 1e-6.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType

import pytest
from snippets import same_text

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
GOLDEN = ROOT / "tests" / "golden" / "test_examples"

every_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)


def load(path: Path) -> ModuleType:
    """Import an example by its path, as a module that its own classes can find again."""
    name = f"example_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_there_are_examples() -> None:
    assert EXAMPLES


@every_example
def test_example_says_what_to_notice(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert len(docstring.splitlines()) >= 3


@every_example
def test_importing_an_example_prints_nothing(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = load(path)
    assert capsys.readouterr().out == ""
    assert inspect.signature(module.main).parameters["small"].default is False


@every_example
def test_example_prints_what_it_did_before(
    path: Path, capsys: pytest.CaptureFixture[str], pytestconfig: pytest.Config
) -> None:
    load(path).main(small=True)
    printed = capsys.readouterr().out
    expected = GOLDEN / f"{path.stem}.txt"
    if pytestconfig.getoption("--update-golden"):
        expected.parent.mkdir(parents=True, exist_ok=True)
        expected.write_text(printed)
    assert printed
    assert same_text(printed, expected.read_text()), printed


def test_no_golden_file_is_left_over() -> None:
    known = {path.stem for path in EXAMPLES}
    assert [file.name for file in GOLDEN.glob("*.txt") if file.stem not in known] == []
