"""The public surface: seven import paths, each with a sorted and documented `__all__`."""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.util
import inspect
import itertools
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import peffects

ROOT = Path(__file__).resolve().parent.parent
PUBLIC_PATHS = tuple(
    path
    for path in (
        "peffects",
        "peffects.ad",
        "peffects.applicative",
        "peffects.handlers",
        "peffects.linalg",
        "peffects.mypy_plugin",
        "peffects.parallel",
        "peffects.random",
    )
    if importlib.util.find_spec(path) is not None  # a package exists when it has content
)

# Public in the root, but not in its `__all__`: `from peffects import *` leaves these alone.
BUILTIN_NAMES = ("all", "any", "filter", "max", "min", "sum")

public_paths = pytest.mark.parametrize("path", PUBLIC_PATHS)


def public(path: str) -> tuple[ModuleType, list[str]]:
    """The module and its public names: of the root, Python's own too, which `*` leaves out."""
    module = importlib.import_module(path)
    names = list(module.__all__)
    if path == "peffects":
        names += BUILTIN_NAMES
    return module, sorted(names, key=order_of)


def order_of(name: str) -> tuple[object, ...]:
    """Ruff's order (RUF022): CONSTANTS, Classes, everything else; numbers by their value."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    parts = re.split(r"(\d+)", name)
    return kind, [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def statements(tree: ast.Module) -> list[ast.stmt]:
    """The statements of a module, those inside `if` (MYPY, TYPE_CHECKING) and `try` too."""
    found, pending = [], list(tree.body)
    while pending:
        node = pending.pop(0)
        found.append(node)
        if isinstance(node, ast.If | ast.Try):
            pending = [*node.body, *node.orelse, *pending]
    return found


@cache
def documented_values() -> frozenset[str]:
    """Names assigned at the top of a module and followed by a string that documents them."""
    names = set()
    for file in (ROOT / "peffects").rglob("*.py"):
        nodes = statements(ast.parse(file.read_text()))
        for node, after in itertools.pairwise(nodes):
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                targets = node.targets if isinstance(node, ast.Assign) else []
                targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(names)


def is_documented(name: str, value: object) -> bool:
    if inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value):
        return bool(inspect.cleandoc(value.__doc__ or ""))
    return name in documented_values()


@public_paths
def test_every_name_exists(path: str) -> None:
    module, names = public(path)
    assert [name for name in names if not hasattr(module, name)] == []


@public_paths
def test_names_are_sorted_and_unique(path: str) -> None:
    names = list(importlib.import_module(path).__all__)
    assert names == sorted(set(names), key=order_of)


@public_paths
def test_star_import_leaves_builtins_alone(path: str) -> None:
    before = [name for name in vars(builtins) if not name.startswith("__")]
    names: dict[str, object] = {}
    exec(f"from {path} import *", names)
    assert [name for name in before if name in names] == []
    assert [name for name in BUILTIN_NAMES if not callable(getattr(peffects, name))] == []


@pytest.mark.parametrize("name", ["ad", "handlers", "linalg", "parallel", "random"])
def test_public_modules_are_attributes_of_the_root(name: str) -> None:
    program = f"import peffects as pe; assert pe.{name}.__name__ == 'peffects.{name}'"
    subprocess.run([sys.executable, "-c", program], check=True)


@public_paths
def test_every_name_is_documented(path: str) -> None:
    module, names = public(path)
    assert [name for name in names if not is_documented(name, getattr(module, name))] == []


@public_paths
def test_module_is_documented(path: str) -> None:
    assert importlib.import_module(path).__doc__


def test_every_name_has_one_home() -> None:
    """The root gathers what is used most; besides it, a name is in one place.

    What is drawn by a key, `random.uniform(key)`, has the name of the effect that draws it.
    """
    paths = [path for path in PUBLIC_PATHS[1:] if path != "peffects.random"]
    homes = Counter(name for path in paths for name in public(path)[1])
    assert [name for name, count in homes.items() if count > 1] == []


TWO_MEANINGS = {"scan": "the loop operation of kernels; in `handlers`, the operation of Scan"}


_EVERY_MODULE = """
import importlib, pkgutil
import peffects

before = {{name: getattr(peffects, name) for name in {names!r}}}
for info in pkgutil.walk_packages(peffects.__path__, "peffects."):
    if not info.name.startswith(("peffects.mypy_plugin", "peffects.__main__")):
        importlib.import_module(info.name)
print([name for name, value in before.items() if getattr(peffects, name) is not value])
"""


def test_no_module_takes_the_place_of_a_public_name() -> None:
    """An import of `peffects.x` sets the attribute `x`."""
    program = _EVERY_MODULE.format(names=public("peffects")[1])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
    top = {path.stem for path in (ROOT / "peffects").iterdir()}
    modules = {path.rpartition(".")[2] for path in PUBLIC_PATHS}
    assert top & {*public("peffects")[1]} <= modules
    assert top & {*sys.stdlib_module_names} <= modules


def test_root_gathers_the_same_objects() -> None:
    """Except where a word of the field means two things, one for each kind of program."""
    root, names = public("peffects")
    for path in PUBLIC_PATHS[1:]:
        module, others = public(path)
        for name in set(names) & set(others):
            same = getattr(root, name) is getattr(module, name)
            assert same != (name in TWO_MEANINGS), name


@public_paths
def test_shop_window_holds_nothing_but_names(path: str) -> None:
    """A docstring, imports, `__all__`, and `__getattr__` where loading is lazy: no logic."""
    module, names = public(path)
    file = Path(inspect.getfile(module))
    if file.name != "__init__.py":
        return
    imported = set()
    for node in statements(ast.parse(file.read_text())):
        match node:
            case ast.Import(aliases) | ast.ImportFrom(_, aliases, _):
                if getattr(node, "module", None) not in {"__future__", "typing"}:
                    imported |= {alias.asname or alias.name for alias in aliases}
            case ast.FunctionDef(name):
                assert name in {"__getattr__", "__dir__"}
            case ast.Assign([ast.Name(name)]) | ast.AnnAssign(ast.Name(name)):
                assert re.fullmatch(r"__\w+__|_[A-Z_]+", name)
            case ast.Expr(ast.Constant()) | ast.If(ast.Name("TYPE_CHECKING")):
                pass
            case _:
                pytest.fail(f"{file.name}:{node.lineno} is logic in a shop window")
    assert {name for name in imported if not name.startswith("_")} <= set(names)


def test_mypy_sees_the_same_names(tmp_path: Path) -> None:
    program = "".join(
        f"from {path} import {name} as _{number}_{name}\n"
        for number, path in enumerate(PUBLIC_PATHS)
        for name in public(path)[1]
    )
    (tmp_path / "all_names.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(tmp_path / "all_names.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
