"""Fenced blocks of Markdown files: find them, run the Python ones, compare what they print.

For `test_readme.py`, and for the comparison of texts with numbers in `test_examples.py`.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

_FENCE = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$", re.M | re.S)
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d*|\.\d+)(?:e[-+]?\d+)?|(?<![\w.])[-+]?\d+e[-+]?\d+")
_OUTPUT = {"text", "output"}


@dataclass(frozen=True, slots=True)
class Snippet:
    """A ```python block; `output` is the text of the output block right after it, if any."""

    file: Path
    line: int
    code: str
    output: str | None

    @property
    def name(self) -> str:
        """`README.md:12`, for messages."""
        return f"{self.file.name}:{self.line}"


def snippets(file: Path) -> Iterator[Snippet]:
    """Yield the ```python blocks of `file`; only blank lines may stand before an output block."""
    text = file.read_text()
    fences = list(_FENCE.finditer(text))
    for fence, after in zip(fences, [*fences[1:], None], strict=True):
        if fence["language"] == "python":
            follows = after is not None and not text[fence.end() : after.start()].strip()
            is_output = after is not None and follows and after["language"] in _OUTPUT
            line = text.count("\n", 0, fence.start("text")) + 1
            output = after["text"] if after is not None and is_output else None
            yield Snippet(file, line, fence["text"], output)


def namespace(file: Path) -> ModuleType:
    """A fresh module for the snippets of `file`, known to `sys.modules` as an imported one is."""
    module = ModuleType(f"snippets_of_{file.stem}")
    sys.modules[module.__name__] = module
    return module


def run_snippet(snippet: Snippet, module: ModuleType) -> str:
    """Execute `snippet` in `module`; its printed output.

    Its source is to be had under its name and at its lines in the Markdown file, so functions that
    are staged from their source work and messages point to where a reader looks.
    """
    source = "\n" * (snippet.line - 1) + snippet.code
    lines = source.splitlines(keepends=True)
    linecache.cache[snippet.name] = (len(source), None, lines, snippet.name)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, snippet.name, "exec", dont_inherit=True), vars(module))
    return printed.getvalue()


def same_text(actual: str, expected: str, tolerance: float = 1e-6) -> bool:
    """Whether the texts agree: floating-point numbers within `tolerance`, all else exactly.

    Trailing blanks do not count.

    >>> same_text("loss 0.1234567", "loss 0.12345674"), same_text("3 rows", "4 rows")
    (True, False)
    """
    actual, expected = _trimmed(actual), _trimmed(expected)
    if _NUMBER.sub("#", actual) != _NUMBER.sub("#", expected):
        return False
    pairs = zip(_NUMBER.findall(actual), _NUMBER.findall(expected), strict=True)
    return all(_close(float(a), float(b), tolerance) for a, b in pairs)


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def _close(a: float, b: float, tolerance: float) -> bool:
    return abs(a - b) <= tolerance * max(abs(a), abs(b))
