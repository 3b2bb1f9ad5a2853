"""The habits of this code base that can be measured: sizes, imports, docstrings, words.

ruff checks the rest (line length, order of imports, docstrings of what is public).  Where a rule
has exceptions they are listed here, each with its reason; an exception that nothing uses fails.
"""

from __future__ import annotations

import ast
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CODE_DIRS = ("peffects", "tests", "examples", "benchmarks")
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60
MAX_MODULES = 15
MAX_LINES_BESIDE_A_TABLE = 20
VAGUE_NAMES = {"utils", "util", "helpers", "common", "misc"}

# What may be imported inside a function, where, and why.
_AT_FIRST_CALL = "the compiler loads at the first call, not at the import"
LATE_IMPORTS = {
    ("peffects", "peffects/codegen/load/loader.py"): "imports numba, which is slow",
    ("peffects", "peffects/kernels/kernel.py"): _AT_FIRST_CALL,
    ("matplotlib", "examples/"): "only drawing needs it, and it is an extra",
    ("cloudpickle", "peffects/machine/running/by_value.py"): "an extra, for closures only",
    ("peffects", "peffects/cli.py"): "`doctor` must run where the compiler's parts are broken",
}
# Where everything may be caught, and why.
_IN_INDEX_ORDER = "an iteration's exception is noted, raised in index order"
_OF_A_VALUE = "what a user's value raises when it is read or pickled is told"
_OF_A_TEST = "whatever a random or wrong program raises is looked at"
CATCH_ALLS: dict[str, str] = {
    "peffects/machine/handling/state_changes.py": "a value that does not pickle is not compared",
    "peffects/machine/resuming/answer_log.py": "what a user's copying raises gets a note",
    "peffects/machine/running/pickling.py": _OF_A_VALUE,
    "peffects/notices.py": "a user's `repr` in a message is never an error of its own",
    "peffects/parallel/executors/local.py": _IN_INDEX_ORDER,
    "peffects/parallel/executors/processes.py": _OF_A_VALUE,
    "peffects/parallel/executors/worker.py": "what users' code raises goes back",
    "peffects/parallel/tasks.py": _IN_INDEX_ORDER,
    "peffects/staging/stage.py": "a user's exception that holds a symbol is told without it",
    "tests/fuzz/effect_checks.py": _OF_A_TEST,
    "tests/fuzz/kernel_checks.py": _OF_A_TEST,
    "tests/fuzz/wrong_checks.py": _OF_A_TEST,
    "tests/staging/test_every_builtin.py": _OF_A_TEST,
}

PRIVATE = re.compile(
    r"(?<![\w./])/(?:work|root|home/\w+|Users/\w+)\b"  # a directory of somebody's machine
    r"|(?<![\w/])(?:shared|spec)/\w+\.md\b|(?<![\w/])design\.md\b"  # notes that do not ship
)
UNNUMBERED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b(?!\(#\d+\))")

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def python_files(*folders: str) -> list[Path]:
    """Our Python files; programs with mistakes on purpose live in `tests/**/cases/`."""
    found = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    return [path for path in found if "cases" not in path.parts]


def text_files() -> list[Path]:
    """Python files, stubs, and everything at the top that a person reads."""
    found = python_files(*CODE_DIRS)
    for pattern in ("*.md", "*.cfg", "*.toml", "Makefile", ".ci/*"):
        found += ROOT.glob(pattern)
    for pattern in ("docs/**/*.md", "examples/**/*.md", "benchmarks/**/*.*d", "benchmarks/*.sh"):
        found += ROOT.glob(pattern)
    return found + sorted((ROOT / "stubs").rglob("*.pyi"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def functions(tree: ast.AST) -> Iterator[FunctionNode]:
    for node in ast.walk(tree):
        if isinstance(node, FunctionNode):
            yield node


def lines_of(node: ast.stmt | ast.expr) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def function_lines(function: FunctionNode) -> int:
    """Lines from `def` to the end, without the docstring."""
    first = function.body[0]
    has_docstring = ast.get_docstring(function, clean=False) is not None
    return lines_of(function) - (lines_of(first) if has_docstring else 0)


def longest_table(function: FunctionNode) -> int:
    """Lines of the longest `match`, display or call: what a reader scans as a table."""
    tables = ast.Match | ast.Dict | ast.List | ast.Tuple | ast.Set | ast.Call
    return max(
        (lines_of(node) for node in ast.walk(function) if isinstance(node, tables)), default=0
    )


ALL_PYTHON = python_files(*CODE_DIRS)
all_python = pytest.mark.parametrize("path", ALL_PYTHON, ids=name_of)


def too_long_functions(tree: ast.Module) -> list[str]:
    """Functions of more than 60 lines, but for a single `match` or table and a few lines beside."""
    return [
        f"{function.name}:{function.lineno}: {function_lines(function)} lines"
        for function in functions(tree)
        if function_lines(function) > MAX_FUNCTION_LINES
        and function_lines(function) - longest_table(function) > MAX_LINES_BESIDE_A_TABLE
    ]


@all_python
def test_file_keeps_the_rules(path: Path) -> None:
    """All rules in one test, so that each file is parsed once."""
    name, tree = name_of(path), parse(path)
    assert len(path.read_text().splitlines()) <= MAX_FILE_LINES
    assert ast.get_docstring(tree), "say what the module holds and its place in the data flow"
    assert path.stem not in VAGUE_NAMES
    assert too_long_functions(tree) == []
    late = [
        f"{name}:{line}: {package}"
        for package, line in late_imports(tree)
        if allowed_late(package, path) is None
    ]
    assert late == []
    assert name in CATCH_ALLS or catch_alls(tree) == []


PACKAGES = sorted(path.parent for path in (ROOT / "peffects").rglob("__init__.py"))


@pytest.mark.parametrize("folder", PACKAGES, ids=name_of)
def test_a_folder_is_a_room(folder: Path) -> None:
    """It has few modules, and says what lives in it and what does not."""
    assert len([path for path in folder.glob("*.py") if path.stem != "__init__"]) <= MAX_MODULES
    told = ast.get_docstring(parse(folder / "__init__.py")) or ""
    assert len(re.findall(r"[.:](?:\s|$)", told)) >= 2


def test_functions_of_the_package_are_short() -> None:
    """Half of them fit in 10 lines, nine in ten in 30."""
    sizes = [
        function_lines(function)
        for path in python_files("peffects")
        for function in functions(parse(path))
    ]
    deciles = statistics.quantiles(sizes, n=10)
    assert deciles[4] <= 10
    assert deciles[8] <= 30


def late_imports(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Top-level packages imported inside functions of a module, with the line."""
    for function in functions(tree):
        for node in ast.walk(function):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.name.partition(".")[0], node.lineno
            elif isinstance(node, ast.ImportFrom):
                yield (node.module or "").partition(".")[0], node.lineno


def allowed_late(package: str, path: Path) -> tuple[str, str] | None:
    """The row of LATE_IMPORTS that allows importing `package` in a function of `path`."""
    rows = (row for row in LATE_IMPORTS if row[0] == package)
    return next((row for row in rows if name_of(path).startswith(row[1])), None)


def test_allowed_late_imports_are_needed() -> None:
    used = {
        allowed_late(package, path)
        for path in ALL_PYTHON
        for package, _ in late_imports(parse(path))
    }
    assert set(LATE_IMPORTS) - used == set()


def catch_alls(tree: ast.Module) -> list[int]:
    """Lines of bare `except:` and `except Exception`."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            names = {item.id if isinstance(item, ast.Name) else item for item in caught}
            if names & {None, "Exception"}:
                found.append(node.lineno)
    return found


def test_allowed_catch_alls_are_needed() -> None:
    assert [name for name in CATCH_ALLS if not catch_alls(parse(ROOT / name))] == []


@pytest.mark.parametrize("path", text_files(), ids=name_of)
def test_text_has_no_unnumbered_task_and_no_private_path(path: Path) -> None:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        assert not UNNUMBERED.search(line), f"{name_of(path)}:{number}: which issue is it?"
        assert not PRIVATE.search(line), f"{name_of(path)}:{number}: names a private path"


@pytest.mark.parametrize(
    ("line", "rule", "found"),
    [
        ("see /wo" + "rk/main/x.py", PRIVATE, True),
        ("see sha" + "red/notes.md", PRIVATE, True),
        ("GF/s/work, a/root of it, peffects/ir/syntax.py", PRIVATE, False),
        ("TO" + "DO: later", UNNUMBERED, True),
        ("TO" + "DO(#12): later", UNNUMBERED, False),
    ],
)
def test_rules_about_words_find_what_they_should(
    line: str, rule: re.Pattern[str], found: bool
) -> None:
    assert bool(rule.search(line)) == found


def test_rule_about_length_spares_tables_only() -> None:
    table = ast.parse("def f(x):\n  return [\n" + "    x,\n" * 80 + "  ]").body[0]
    steps = ast.parse("def f(x):\n" + "  x = g(x)\n" * 80).body[0]
    assert isinstance(table, ast.FunctionDef)
    assert isinstance(steps, ast.FunctionDef)
    assert function_lines(table) - longest_table(table) <= MAX_LINES_BESIDE_A_TABLE
    assert function_lines(steps) - longest_table(steps) > MAX_FUNCTION_LINES
