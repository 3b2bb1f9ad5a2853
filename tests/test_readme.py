"""What the documents show is true: snippets run and print what they say, links lead somewhere.

The ```python blocks of a document run in order in one namespace; a ```text or ```output block right
after one is what it prints.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from snippets import namespace, run_snippet, same_text, snippets

from peffects.staging.numpy_surface.functions import FUNCTIONS

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = (ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md")))
MAX_ARCHITECTURE_LINES = 200

LINK = re.compile(r"(?<!!)\[[^\]\n]+\]\(([^)\s]+)\)|!\[[^\]\n]*\]\(([^)\s]+)\)")


def markdown_files() -> list[Path]:
    folders = ("docs", "examples", "benchmarks")
    nested = (path for folder in folders for path in (ROOT / folder).rglob("*.md"))
    return sorted({*DOCUMENTS, *ROOT.glob("*.md"), *nested})


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def anchor(heading: str) -> str:
    """The fragment that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_snippets_run_and_print_what_they_say(
    document: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # a snippet may save a file
    module = namespace(document)
    for snippet in snippets(document):
        printed = run_snippet(snippet, module)
        expected = printed if snippet.output is None else snippet.output
        assert same_text(printed, expected), f"{snippet.name} prints\n{printed}"


def test_readme_has_a_program_with_its_output() -> None:
    assert any(snippet.output for snippet in snippets(ROOT / "README.md"))


def test_architecture_can_be_read_in_one_sitting() -> None:
    lines = (ROOT / "ARCHITECTURE.md").read_text().splitlines()
    assert len(lines) <= MAX_ARCHITECTURE_LINES


NAMED = re.compile(r"`([a-z_/]+\.py)`")
PLACES = (ROOT, *(path.parent for path in (ROOT / "peffects").rglob("__init__.py")))
NAMES = {
    path.name
    for folder in ("peffects", "tests", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
}


def missing(text: str) -> list[str]:
    """The modules that a text names and that nobody has: `file.py`, or `folder/file.py`."""
    return [
        name
        for name in NAMED.findall(text)
        if not ("/" in name and any((place / name).exists() for place in PLACES))
        and name not in NAMES
    ]


@pytest.mark.parametrize(
    "document", [path for path in markdown_files() if path.name != "CHANGELOG.md"], ids=name_of
)
def test_modules_that_documents_name_exist(document: Path) -> None:
    assert missing(document.read_text()) == []


def test_modules_that_modules_name_exist() -> None:
    modules = {
        name_of(path): missing(path.read_text()) for path in (ROOT / "peffects").rglob("*.py")
    }
    assert {name: found for name, found in modules.items() if found} == {}


@pytest.mark.parametrize("document", markdown_files(), ids=name_of)
def test_links_lead_somewhere(document: Path) -> None:
    text = document.read_text()
    dead = []
    for target in (first or second for first, second in LINK.findall(text)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, fragment = target.partition("#")
        path = document.parent / file if file else document
        if not path.exists():
            dead.append(target)
        elif fragment and path.suffix == ".md":
            headings = re.findall(r"(?m)^#+ (.*)$", path.read_text())
            dead += [target] if fragment not in map(anchor, headings) else []
    assert not dead


def test_the_guide_names_all_functions_of_numpy_that_kernels_have() -> None:
    guide = (ROOT / "docs" / "kernels.md").read_text()
    names = {getattr(function, "__name__", "") for function in FUNCTIONS}
    assert names <= set(re.findall(r"\w+(?=`)", guide))


def test_the_guides_name_the_settings() -> None:
    guide = (ROOT / "docs" / "kernels.md").read_text()
    sources = [path.read_text() for path in (ROOT / "peffects").rglob("*.py")]
    known = {name for source in sources for name in re.findall(r"\bPEFFECTS_[A-Z_]+\b", source)}
    assert known == set(re.findall(r"\bPEFFECTS_[A-Z_]+\b", guide))
