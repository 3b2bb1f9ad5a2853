"""Pages of errors: each code has one, whose wrong program raises it and whose right one runs."""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Iterator
from configparser import ConfigParser
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from snippets import Snippet, namespace, run_snippet, snippets

from peffects.cli import main
from peffects.errors import PeffectsError, error_classes, page_of

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs" / "errors").glob("PE*.md"))
CLASSES = {cls.code: cls for cls in error_classes()}
# Pages without programs, with the reason.
WITHOUT_PROGRAMS = {
    "PE114": "raised inside an iteration to end it, and taken by the loop",
    "PE901": "a bug of peffects",
    "PE902": "a bug of peffects",
}

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
programs = pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.stem not in WITHOUT_PROGRAMS],
    ids=lambda page: page.stem,
)


def sections(page: Path) -> Iterator[tuple[str, Snippet]]:
    """The programs of a page, each with the heading under which it stands."""
    lines = page.read_text().splitlines()
    for snippet in snippets(page):
        above = [line for line in lines[: snippet.line] if line.startswith("## ")]
        yield above[-1].removeprefix("## "), snippet


@pytest.fixture
def module() -> Iterator[ModuleType]:
    """A module to run a program in; packages that it hides are there again afterwards."""
    before = dict(sys.modules)
    made = namespace(Path("program_of_a_page"))
    yield made
    hidden = [name for name, value in sys.modules.items() if value is None]  # type: ignore[redundant-expr]
    sys.modules.update({name: before[name] for name in hidden if name in before})
    for name in {*hidden, made.__name__} - before.keys():
        del sys.modules[name]


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    assert [page.stem for page in PAGES] == sorted(CLASSES)


@every_page
def test_page_has_title_and_explanation(page: Path) -> None:
    title, blank, first, *_ = page.read_text().splitlines()
    assert title == f"# {page.stem} {CLASSES[page.stem].__name__}"
    assert not blank and first[0].isalpha() | (first[0] == "`")
    assert max(map(len, page.read_text().splitlines())) <= 110


@programs
def test_page_has_a_wrong_and_a_right_program(page: Path) -> None:
    kinds = [kind for kind, _ in sections(page)]
    assert kinds == sorted(kinds, reverse=True) and set(kinds) == {"Wrong", "Right"}


@programs
def test_wrong_programs_raise_this_error_and_no_other(page: Path, module: ModuleType) -> None:
    for kind, snippet in sections(page):
        if kind == "Wrong":
            with warnings.catch_warnings():
                warnings.simplefilter("error", CLASSES["PE133"])  # type: ignore[arg-type]
                with pytest.raises(PeffectsError) as caught:
                    run_snippet(snippet, module)
            assert caught.value.code == page.stem, str(caught.value)


@programs
def test_right_programs_run(page: Path, module: ModuleType) -> None:
    for kind, snippet in sections(page):
        if kind == "Right":
            run_snippet(replace(snippet, output=None), module)


@every_page
def test_the_command_line_prints_the_page(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", page.stem]) == 0
    assert capsys.readouterr().out == page.read_text()
    assert page_of(CLASSES[page.stem]) == page.read_text()


def test_pages_are_in_the_package() -> None:
    settings = ConfigParser()
    settings.read(ROOT / "setup.cfg")
    patterns = settings["options.package_data"]["peffects"].split()
    found = {path.name for pattern in patterns for path in (ROOT / "peffects").glob(pattern)}
    assert {page.name for page in PAGES} <= found


def test_the_index_has_every_page_with_its_first_sentence() -> None:
    index = (ROOT / "docs" / "errors" / "README.md").read_text()
    rows = [line for line in index.splitlines() if line.startswith("| [")]
    assert rows == [
        f"| [{code}]({code}.md) | `{cls.__name__}` | {first_sentences(cls)} |"
        for code, cls in CLASSES.items()
    ]


def first_sentences(cls: type[PeffectsError]) -> str:
    """The first paragraph of the docstring."""
    return " ".join(inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0].split())


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for code in re.findall(r"\bPE\d{3}\b", page.read_text()):
            assert code in CLASSES
