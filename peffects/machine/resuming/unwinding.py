"""Whether a suspended frame has a `finally`, `with` or `except` that dropping it would have to run.

Most frames have none, and are dropped without throwing anything into them.  The answer may err
towards yes.  Layer 1; used by `running/stack.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import CodeType, GeneratorType
from typing import Final

from peffects.function_trees import FunctionNode, find_source
from peffects.machine.resuming.frames import (
    Frames,
    HandlerMarker,
    LoggedFrame,
    Marker,
    UnwindMarker,
)
from peffects.remembered import remembered

__all__: list[str] = []

_Lines = tuple[range, ...]

_ANYWHERE: Final[_Lines] = (range(1 << 31),)


def may_have_to_unwind(gen: object) -> bool:
    """Whether `gen`, or a generator that it delegates to, stands inside a `try` or a `with`."""
    while gen is not None:
        if not isinstance(gen, GeneratorType):
            return True  # some other iterator: it may have a `close`
        lines = _guarded_lines(gen.gi_code)
        if lines and gen.gi_frame is not None:
            at = gen.gi_frame.f_lineno or 0
            if any(at in guarded for guarded in lines):
                return True
        gen = gen.gi_yieldfrom
    return False


@remembered
def _guarded_lines(code: CodeType) -> _Lines:
    """The lines of its `try` and `with`, read in the source; all where there is none to be had."""
    source = find_source(code)
    return _ANYWHERE if source is None else tuple(_statements(source.node))


def _statements(function: FunctionNode) -> Iterator[range]:
    """The lines of each outermost `try` and `with` of a function, not of functions in it."""
    pending: list[ast.AST] = [] if isinstance(function, ast.Lambda) else [*function.body]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Try | ast.TryStar | ast.With | ast.AsyncWith):
            yield range(node.lineno, (node.end_lineno or node.lineno) + 1)
        elif not isinstance(node, FunctionNode | ast.ClassDef):
            pending.extend(ast.iter_child_nodes(node))


def nothing_to_unwind(gen: object, frames: Frames, mark: Marker, owner: HandlerMarker) -> bool:
    """Whether everything from the running generator down to `owner` can just be forgotten."""
    if may_have_to_unwind(gen):
        return False
    while True:
        if not _all_unguarded(frames):
            return False
        if mark is owner:
            return True
        if isinstance(mark, UnwindMarker):
            return False
        below = mark.below
        assert below is not None, "invariant: the owner is on the stack"
        frames, mark = mark.frames, below


def _all_unguarded(frames: Frames) -> bool:
    """Whether no frame of a segment has to unwind; logged ones remember it, for all worlds."""
    seen: list[LoggedFrame] = []
    while frames is not None:
        if isinstance(frames, LoggedFrame):
            if frames.unguarded:
                break
            live = frames.live[:]
            if live and may_have_to_unwind(live[0]):
                return False
            seen.append(frames)
            frames = frames.below
        elif isinstance(frames, tuple):
            gen, frames = frames
            seen.clear()  # it goes on in one world only
            if may_have_to_unwind(gen):
                return False
        else:
            return False  # a clause that holds a resumption
    for frame in seen:
        frame.unguarded = True
    return True
