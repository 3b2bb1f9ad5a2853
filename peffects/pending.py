"""Whether a suspended frame has a `finally`, `with` or `except` that dropping it would have to run.

Most frames have none, and are dropped without throwing anything into them.  The answer may err
towards yes.  Layer 1; used by `stack.py`.
"""

from __future__ import annotations

import dis
from types import CodeType, GeneratorType
from typing import Any

from peffects.frames import Frames, HandlerMarker, LoggedFrame, Marker, UnwindMarker
from peffects.remembered import remembered

__all__: list[str] = []


def may_have_to_unwind(gen: object) -> bool:
    """Whether `gen`, or a generator that it delegates to, stands inside a `try` or a `with`."""
    while gen is not None:
        if not isinstance(gen, GeneratorType):
            return True  # some other iterator: it may have a `close`
        if gen.gi_code.co_exceptiontable and _is_guarded(gen):
            return True
        gen = gen.gi_yieldfrom
    return False


def _is_guarded(gen: GeneratorType[Any, Any, Any]) -> bool:
    frame = gen.gi_frame
    if frame is None:
        return False
    at = frame.f_lasti
    return any(start <= at < end for start, end in _guarded_ranges(gen.gi_code))


@remembered
def _guarded_ranges(code: CodeType) -> tuple[tuple[int, int], ...]:
    """Where in the code an exception meets a handler that the user wrote."""
    bytecode: Any = dis.Bytecode(code)  # typeshed lacks the exception table
    found = {i.offset: i for i in dis.get_instructions(code)}
    return tuple(
        (entry.start, entry.end)
        for entry in bytecode.exception_entries
        if not _is_plumbing(found[entry.target])
    )


def _is_plumbing(handler: dis.Instruction) -> bool:
    """From 3.12 on every generator and `yield from` has handlers of the interpreter's own."""
    if handler.opname == "CALL_INTRINSIC_1":
        return handler.arg == 3  # StopIteration becomes RuntimeError
    return handler.opname == "CLEANUP_THROW"


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
