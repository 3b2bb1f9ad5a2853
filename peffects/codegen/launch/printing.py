"""What kernels print: the lines of all chunks, in index order, when a stage has ended.

A chunk writes its lines to its part of a buffer, as numbers; here they become text.  Where a part
is full, further lines are counted only, and a note tells how many.
"""

from __future__ import annotations

from collections.abc import Sequence

from peffects.codegen.launch.workspace import Workspace, address_of
from peffects.codegen.program.loop_programs import LOG_WORDS, Failure

__all__ = ["decoded", "print_log"]

_START = 2


def decoded(word: int, double: float, dtype: str) -> float | int | bool:
    """A number from a word that holds it."""
    if dtype.startswith("float"):
        return double
    if dtype == "bool":
        return bool(word)
    return word % 2**64 if dtype == "uint64" else word


def print_log(workspace: Workspace, slot: int, chunks: int, texts: Sequence[Failure]) -> None:
    """Print the lines of the first `chunks` chunks of the stage that has just run."""
    log = workspace.held[slot]
    assert address_of(log) == workspace.words[slot], "the buffer of this launch"
    rows = memoryview(log).cast("B")  # type: ignore[arg-type]  # arrays are buffers
    words, doubles = rows.cast("q"), rows.cast("d")
    for chunk in range(chunks):
        start = chunk * LOG_WORDS
        at, end = start + _START, start + words[start]
        while at < end:
            told = texts[words[at]]
            shown = [
                decoded(words[at + k], doubles[at + k], dtype)
                for k, dtype in enumerate(told.operands, start=1)
            ]
            print(told.text.format(*shown), end="")  # nothing where there is no stdout
            at += 1 + len(shown)
        if words[start + 1]:
            print(f"[{words[start + 1]} more lines were not kept]")
