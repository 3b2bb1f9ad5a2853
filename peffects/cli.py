"""The command line: `python -m peffects explain PE104`, `doctor`, `cache`.

`explain` prints the page of an error, a file of `docs/errors`, or what a kernel compiles to:
`explain model.py:loss f64[n,d] f64[d] float`.  `doctor` prints what a bug report needs (versions,
cores, threading layer, cache) and advice.  `cache` lists the compiled
kernels on disk, `cache clear` deletes them.  Exit status: 0 all is well, 1 `doctor` misses a
package that peffects needs or a kernel is refused, 2 the question was not understood.  Layer 9.
"""

from __future__ import annotations

import argparse
import datetime
import difflib
import importlib.util
import inspect
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from peffects.errors import PeffectsError, error_classes, page_of

__all__ = ["main"]

_REQUIRED = ("numpy", "numba", "llvmlite")
_OPTIONAL = ("mypy", "cloudpickle", "tqdm", "matplotlib")
_ABSENT = "not installed"
_TYPE = re.compile(r"(?P<kind>\w+)(\[(?P<axes>\w+(,\w+)*)\])?")
_DTYPES = {"float": "float64", "int": "int64", "bool": "bool", "f64": "float64", "f32": "float32"}
_DTYPES |= {f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)}
_DTYPES |= {f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)}
_DTYPES |= {"c64": "complex64", "c128": "complex128"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` (by default the process's arguments) asks for."""
    try:
        status = _run(argv)
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where a closed pipe can be caught, and not at exit
    except BrokenPipeError:  # the reader, such as `head`, has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def _run(argv: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(prog="peffects", description="Ask peffects about itself.")
    version = _version("peffects", absent="(a checkout on the path)")
    parser.add_argument("--version", action="version", version=f"peffects {version}")
    commands = parser.add_subparsers(dest="command", required=True)
    explain = commands.add_parser("explain", help="print the page of an error, or show a kernel")
    explain.add_argument(
        "subject", nargs="?", help="a code such as PE104, the name of an error, or FILE.py:KERNEL"
    )
    explain.add_argument(
        "types",
        nargs="*",
        help="types of the kernel's arguments: f64[n,m], i64[n], f32, float, int",
    )
    explain.add_argument(
        "--save", metavar="FILE", help="write to a file instead: a page if it ends in .html"
    )
    commands.add_parser("doctor", help="print versions, cores, threading layer, cache, and advice")
    cache = commands.add_parser("cache", help="list the compiled kernels on disk")
    cache.add_argument("action", nargs="?", choices=["list", "clear"], default="list")
    arguments = parser.parse_args(argv)
    if arguments.command == "doctor":
        return _doctor()
    if arguments.command == "cache":
        return _clear_cache() if arguments.action == "clear" else _list_cache()
    if not arguments.subject:
        return _list_errors()
    if ":" in arguments.subject:
        return _explain_kernel(arguments.subject, arguments.types, arguments.save)
    return _explain(arguments.subject)


def _explain(question: str) -> int:
    """Print the page of the error with this code or class name, or list those about the word."""
    pages = {cls.code: cls for cls in error_classes()}
    by_name = {cls.__name__.lower(): cls for cls in pages.values()}
    found = pages.get(question.upper()) or by_name.get(question.lower())
    if found is not None:
        print(page_of(found), end="")
        return 0
    print(f"peffects: there is no error {question}.", file=sys.stderr)
    near = difflib.get_close_matches(question.upper(), pages)
    near += [by_name[name].code for name in difflib.get_close_matches(question.lower(), by_name)]
    if near:
        titles = (f"{code} {pages[code].__name__}" for code in dict.fromkeys(near))
        print(f"  Did you mean {', '.join(titles)}?", file=sys.stderr)
    elif about := _about(question, list(pages.values())):
        print(f"  These are about it, `explain` one of them:\n{_titles(about)}", file=sys.stderr)
    print("  python -m peffects explain   lists all of them.", file=sys.stderr)
    return 2


def _about(words: str, classes: Sequence[type[PeffectsError]]) -> list[type[PeffectsError]]:
    """At most five of `classes` whose page mentions the words, those with most of them first."""
    stems = [re.escape(word.rstrip("s")) for word in re.findall(r"\w{3,}", words.lower())]
    counts = {}
    for cls in classes:
        title = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", cls.__name__)
        texts = (title.lower(), page_of(cls).lower())
        found = [[len(re.findall(rf"\b{stem}", text)) for text in texts] for stem in stems]
        if any(any(one) for one in found):
            mentions = sum(10 * in_title + in_page for in_title, in_page in found)
            counts[cls] = sum(any(one) for one in found), mentions
    return sorted(counts, key=lambda cls: counts[cls], reverse=True)[:5]


def _titles(classes: Sequence[type[PeffectsError]]) -> str:
    """Code, name and first sentence of each, a line each."""
    width = max(len(cls.__name__) for cls in classes)
    summaries = (inspect.cleandoc(cls.__doc__ or "").partition("\n")[0] for cls in classes)
    return "\n".join(
        f"{cls.code}  {cls.__name__:<{width}}  {summary}"
        for cls, summary in zip(classes, summaries, strict=True)
    )


def _explain_kernel(place: str, types: Sequence[str], save: str | None) -> int:
    """Print or save what FILE.py:NAME becomes for arguments of these types."""
    # Only here does the command line need the compiler; pages of errors come without it.
    from peffects.inspection.explanation import explain

    file, _, path = place.rpartition(":")
    try:
        function = _load(Path(file), path)
        args = [_argument_type(text) for text in types]
    except (OSError, ValueError) as error:
        print(f"peffects: {error}", file=sys.stderr)
        return 2
    try:
        inspect.signature(function).bind(*args)
    except TypeError as error:
        wanted = f"{path}{inspect.signature(function)}"
        print(
            f"peffects: the types do not fit {wanted}: {error}.\n"
            f"  Give one for each argument: python -m peffects explain {place} f64[n,m] float ...",
            file=sys.stderr,
        )
        return 2
    try:
        explanation = explain(function, *args)
    except PeffectsError as error:
        print(error, file=sys.stderr)
        return 1
    if save is None:
        print(explanation)
    else:
        explanation.save(save)
    return 0


def _load(file: Path, path: str) -> Callable[..., object]:
    """The object that the file defines under a dotted name; the file is run like an import."""
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {file}.")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ValueError(f"{file} is no Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module  # dataclasses and pickle look their module up
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(file.parent))
    found: Any = module
    for name in path.split("."):
        if not hasattr(found, name):
            near = difflib.get_close_matches(name, dir(found))
            hint = f" Did you mean {', '.join(near)}?" if near else ""
            raise ValueError(f"{file} defines no {path}.{hint}")
        found = getattr(found, name)
    if not callable(found):
        raise ValueError(f"{path} in {file} is no function.")
    return found  # type: ignore[no-any-return]


def _argument_type(text: str) -> object:
    """The type that `f64[n,m]`, `i64` or `float` means."""
    from peffects.staging.tracing.argument_types import (  # late: it loads numpy
        ArrayType,
        ScalarType,
    )

    match = _TYPE.fullmatch(text.replace(" ", ""))
    kind = match["kind"] if match else ""
    dtype = kind if kind in _DTYPES.values() else _DTYPES.get(kind)
    if match is None or dtype is None:
        raise ValueError(
            f"{text!r} is no type of an argument: write f64[n,m], i64[n], f32, float, int or bool "
            f"(kinds: {', '.join(_DTYPES)})."
        )
    if match["axes"] is None:
        return ScalarType(dtype, weak=kind in ("float", "int"))
    return ArrayType(dtype, match["axes"].count(",") + 1)


def _list_errors() -> int:
    """Print the code, name and first sentence of every error."""
    print(_titles(list(error_classes())))
    return 0


def _doctor() -> int:
    """Print the facts about this installation, one a line."""
    facts = list(_facts())
    width = max(len(name) for name, _ in facts)
    for name, value in [*facts, *(("advice", line) for line in _advice(dict(facts)))]:
        print(f"{name:<{width}}  {value}")
    return int(any(name in _REQUIRED and value == _ABSENT for name, value in facts))


def _list_cache() -> int:
    """Print the kernels in the disk cache, the largest first, and their sum."""
    from peffects.codegen.load import cache

    place = cache.directory()
    if place is None:
        print("the cache is off: PEFFECTS_CACHE_DIR is empty, or its directory cannot be used.")
        return 0
    entries = sorted(cache.entries(), key=lambda entry: (-entry.bytes, entry.digest))
    print(f"{'size':>14}  {'last used':<16}  {'key':<12}  kernel")
    for entry in entries:
        used = datetime.datetime.fromtimestamp(entry.used_s).strftime("%Y-%m-%d %H:%M")
        name = entry.name or "(of another version)"
        print(f"{entry.bytes / 2**10:10.1f} KiB  {used}  {entry.digest[:12]:<12}  {name}")
    total, most = sum(entry.bytes for entry in entries), cache.most_bytes()
    print(f"{total / 2**10:10.1f} KiB  in {len(entries)} entries, {place}")
    print(f"{most / 2**10:10.1f} KiB  is the most that is kept; see PEFFECTS_CACHE_MIB")
    return 0


def _clear_cache() -> int:
    """Delete the entries of the disk cache."""
    from peffects.codegen.load import cache

    print(f"deleted {cache.clear()} entries.")
    if left := sum(1 for _ in cache.entries()):
        print(f"{left} could not be deleted: {cache.directory()} may only be read.")
    return int(left > 0)


def _advice(facts: Mapping[str, str]) -> Iterator[str]:
    """Yield what could be better here."""
    missing = [name for name in _REQUIRED if facts[name] == _ABSENT]
    if missing:
        yield f"install {', '.join(missing)}: kernels cannot be compiled without."
    if facts["cache"] == "off":
        yield "the cache is off, so each process compiles anew; unset PEFFECTS_CACHE_DIR to use it."
    threads, usable = facts["threads"].split(" ")[0], _usable_cores()
    if threads.isdigit() and int(threads) > usable:
        yield f"{threads} threads on {usable} cores: fewer are faster; see PEFFECTS_NUM_THREADS."


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
        from peffects.codegen.launch import threads as driver
    except ImportError as error:
        return f"unknown: {error}"
    try:
        return f"{driver.thread_count()} ({driver.threading_layer()})"
    except PeffectsError as error:
        return f"unknown: {error.what} {error.fix}"


def _cache() -> str:
    """Where compiled kernels are kept and how much there is."""
    try:
        from peffects.codegen.load import cache
    except ImportError as error:
        return f"unknown: {error}"
    place = cache.directory()
    if place is None:
        return "off"
    sizes = [entry.bytes for entry in cache.entries()]
    most = cache.most_bytes() / 2**20
    return (
        f"{place} (entries: {len(sizes)}, {sum(sizes) / 2**20:.1f} MiB of at most {most:.0f} MiB)"
    )


def _cores() -> str:
    total, usable = os.cpu_count() or 1, _usable_cores()
    return str(total) if usable == total else f"{total}, of which {usable} usable here"


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
