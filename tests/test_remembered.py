"""What is remembered of an object goes with it; tables without an end keep what was used last."""

from __future__ import annotations

import gc
import importlib
import linecache
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

import peffects
from peffects import source
from peffects.remembered import Recent, remembered
from peffects.source import SrcInfo, lines_of


class Thing:
    """An object that can be referred to weakly, and equals all others."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def test_what_is_known_is_made_once_and_goes_with_its_object() -> None:
    made = []

    @remembered
    def number(thing: Thing) -> int:
        made.append(1)
        return len(made)

    one, other = Thing(), Thing()
    assert [number(one), number(other), number(one)] == [1, 2, 1]
    assert one in number and len(number) == 2
    del one
    assert len(number) == 1 and number(other) == 2


def test_equal_codes_of_two_files_are_told_apart() -> None:
    @remembered
    def file(code: CodeType) -> str:
        return code.co_filename

    codes = [compile("1", name, "eval") for name in ("a.py", "b.py")]
    assert [file(code) for code in codes] == ["a.py", "b.py"]


def test_what_is_known_goes_with_an_object_in_a_cycle() -> None:
    @remembered
    def number(thing: Thing) -> int:
        return 1

    thing: Any = Thing()
    thing.itself = thing
    number(thing)
    del thing
    gc.collect()
    assert len(number) == 0


def test_recent_forgets_what_was_asked_for_least_recently() -> None:
    gone: list[str] = []
    table: Recent[str, int] = Recent(2, gone.append)
    table.keep("a", 1)
    table.keep("b", 2)
    assert table.get("a") == 1
    table.keep("c", 3)
    assert [table.get(key) for key in "abc"] == [1, None, 3]
    assert gone == ["b"] and len(table) == 2


# --- linecache, which forgets nothing itself ------------------------------------------------------


@pytest.fixture
def few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_read", Recent(2, source._let_go))


@pytest.mark.usefixtures("few_files")
def test_files_that_we_read_are_let_go_in_the_end(tmp_path: Path) -> None:
    files = [tmp_path / f"{k}.py" for k in range(4)]
    for number, file in enumerate(files):
        file.write_text(f"line = {number}\n")
        assert SrcInfo(str(file), 1).snippet() == f"line = {number}"
    assert [str(file) in linecache.cache for file in files] == [False, False, True, True]
    assert lines_of(str(files[0])) == ["line = 0\n"]


@pytest.mark.usefixtures("few_files")
def test_cells_and_files_of_others_stay(tmp_path: Path) -> None:
    cell, theirs = "<a cell>", tmp_path / "theirs.py"
    theirs.write_text("x = 1\n")
    linecache.cache[cell] = (4, None, ["x\n"], cell)
    try:
        assert linecache.getline(str(theirs), 1) == "x = 1\n"
        for number in range(5):
            (tmp_path / f"{number}.py").write_text("\n")
            for file in (cell, str(theirs), str(tmp_path / f"{number}.py")):
                lines_of(file)
        assert cell in linecache.cache and str(theirs) in linecache.cache
    finally:
        del linecache.cache[cell]


def test_source_that_is_not_to_be_had_has_no_lines() -> None:
    for file in ("", "<string>", "/no/such/file.py"):
        assert lines_of(file) == []
        assert SrcInfo(file, 3).snippet() == SrcInfo(file, 0).snippet() == ""
    assert SrcInfo(__file__, 100_000).snippet() == ""


# --- which tables of the package have no end ------------------------------------------------------

FEW_ARGUMENTS = {
    "peffects.codegen.load.cache._fixed_environment": "none",
    "peffects.codegen.load.cache._tell_bad_limit": "values of an environment variable",
    "peffects.codegen.load.cache._warn_once": "directories for the cache",
    "peffects.codegen.load.cache.compiled_texts": "none",
    "peffects.codegen.native.intrinsics.frame_get": "types of numbers",
    "peffects.codegen.native.intrinsics.frame_set": "types of numbers",
    "peffects.codegen.native.intrinsics.load": "types of numbers and scopes",
    "peffects.codegen.native.intrinsics.store": "types of numbers and scopes",
    "peffects.codegen.load.kernel_compiler._code_generator": "none",
    "peffects.codegen.load.machine_code._start_llvm": "none",
    "peffects.machine.running.by_value._pickler": "one module",
    "peffects.staging.hooks.callees._signature": "functions of numpy and Python with a form here",
    "peffects.staging.effects.parallel._folding": "none",
    "peffects.stepping.functions.functions_of_numbers": "none",
}
"""Functions that remember all their arguments for ever, and what these are."""


def modules() -> Iterator[Any]:
    for info in pkgutil.walk_packages(peffects.__path__, "peffects."):
        if not info.name.startswith(("peffects.mypy_plugin", "peffects.__main__")):
            yield importlib.import_module(info.name)


def test_functions_that_remember_all_their_arguments_have_few() -> None:
    """The others have a bound, or are `remembered`, which forgets with the object."""
    found = set()
    for module in modules():
        for value in vars(module).values():
            parameters: Callable[[], Any] | None = getattr(value, "cache_parameters", None)
            if parameters is not None and parameters()["maxsize"] is None:
                found.add(f"{value.__module__}.{value.__qualname__}")
    assert found == set(FEW_ARGUMENTS)
