"""The command line: `python -m peffects explain PE104` and `python -m peffects doctor`.

`explain` prints the page of an error, which is the docstring of its class in `errors/`.
`doctor` prints what a bug report needs: versions, cores, threading layer, cache.  Exit status:
0 all is well, 1 `doctor` misses a package that peffects needs, 2 the question was not understood.
Layer 9.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata

from peffects.errors import PeffectsError, error_classes

__all__ = ["main"]

_REQUIRED = ("numpy", "numba", "llvmlite")
_OPTIONAL = ("mypy", "cloudpickle", "tqdm", "matplotlib")
_ABSENT = "not installed"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` (by default the process's arguments) asks for."""
    parser = argparse.ArgumentParser(prog="peffects", description="Ask peffects about itself.")
    commands = parser.add_subparsers(dest="command", required=True)
    explain = commands.add_parser("explain", help="print the page of an error")
    explain.add_argument("code", nargs="?", help="a code such as PE104, or the name of an error")
    commands.add_parser("doctor", help="print versions, cores, threading layer and cache")
    arguments = parser.parse_args(argv)
    if arguments.command == "doctor":
        return _doctor()
    return _explain(arguments.code) if arguments.code else _list_errors()


def _explain(question: str) -> int:
    """Print the page of the error with this code or class name."""
    pages = {cls.code: cls for cls in error_classes()}
    by_name = {cls.__name__.lower(): cls for cls in pages.values()}
    found = pages.get(question.upper()) or by_name.get(question.lower())
    if found is not None:
        print(_page(found))
        return 0
    near = difflib.get_close_matches(question.upper(), pages)
    near += [by_name[name].code for name in difflib.get_close_matches(question.lower(), by_name)]
    print(f"peffects: there is no error {question}.", file=sys.stderr)
    if near:
        titles = (f"{code} {pages[code].__name__}" for code in dict.fromkeys(near))
        print(f"  Did you mean {', '.join(titles)}?", file=sys.stderr)
    print("  python -m peffects explain   lists all of them.", file=sys.stderr)
    return 2


def _page(cls: type[PeffectsError]) -> str:
    return f"{cls.code} {cls.__name__}\n\n{inspect.cleandoc(cls.__doc__ or '')}"


def _list_errors() -> int:
    """Print the code, name and first sentence of every error."""
    classes = list(error_classes())
    width = max(len(cls.__name__) for cls in classes)
    for cls in classes:
        summary = inspect.cleandoc(cls.__doc__ or "").partition("\n")[0]
        print(f"{cls.code}  {cls.__name__:<{width}}  {summary}")
    return 0


def _doctor() -> int:
    """Print the facts about this installation, one a line."""
    facts = list(_facts())
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        print(f"{name:<{width}}  {value}")
    return int(any(name in _REQUIRED and value == _ABSENT for name, value in facts))


def _facts() -> Iterator[tuple[str, str]]:
    """Yield what a bug report needs, by name."""
    yield "peffects", _version("peffects", absent="not installed (a checkout on the path)")
    yield "python", f"{platform.python_version()} {platform.python_implementation()}"
    yield "platform", f"{platform.system()} {platform.machine()}"
    for package in _REQUIRED + _OPTIONAL:
        yield package, _version(package, absent=_ABSENT)
    yield "cores", _cores()
    yield "threads", _threads()
    yield "cache", _cache()


def _version(package: str, *, absent: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return absent


def _threads() -> str:
    """How many threads run compiled loops, and by which means."""
    try:
        # Only `doctor` needs parts of the compiler, and it must run where they are broken.
        from peffects.codegen import driver
    except ImportError as error:
        return f"unknown: {error}"
    try:
        return f"{driver.thread_count()} ({driver.threading_layer()})"
    except PeffectsError as error:
        return f"unknown: {error.what} {error.fix}"


def _cache() -> str:
    """Where compiled kernels are kept and how much there is."""
    try:
        from peffects.codegen import cache  # late for the same reason
    except ImportError as error:
        return f"unknown: {error}"
    place = cache.directory()
    if place is None:
        return "off"
    sizes = [entry.bytes for entry in cache.entries()]
    return f"{place} (entries: {len(sizes)}, {sum(sizes) / 2**20:.1f} MiB)"


def _cores() -> str:
    total = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else total
    return str(total) if usable == total else f"{total}, of which {usable} usable here"
