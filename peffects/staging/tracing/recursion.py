"""Functions that call themselves: what staging of a kernel would never come to the end of.

A call is staged where it stands, whatever values it has, so a recursion whose end depends on a
value of the kernel has none.  One that ends while the kernel is staged, since it depends on
Python's own numbers, is let through as long as it is not deep.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType, GeneratorType
from typing import Any, NoReturn

from peffects.errors import KernelRecursionError
from peffects.machine.resuming.frames import LoggedFrame
from peffects.machine.running.machine import Machine
from peffects.source import UNKNOWN, SrcInfo, of_frame
from peffects.staging.tracing.trace import here, is_internal

__all__ = ["DEEPEST", "check_recursion", "no_overflow", "refuse_recursion", "waiting_generators"]

DEEPEST = 64
"""How often a function may be running at once."""


def refuse_recursion(name: str, at: SrcInfo) -> NoReturn:
    """Raise KernelRecursionError about the function `name`."""
    raise KernelRecursionError(
        f"`{name}` calls itself; staging it would not end.",
        at=at,
        fix="Write a loop: `for _ in range(n): ...` with a local that is carried on.",
    )


def check_recursion(code: CodeType, limit: int) -> None:
    """Raise KernelRecursionError if `code` is running `limit` times already."""
    frame: FrameType | None = sys._getframe(1)
    depth = 0
    while frame is not None:
        depth += frame.f_code is code
        frame = frame.f_back
    if depth >= limit:
        refuse_recursion(code.co_name, here())


def waiting_generators(machine: Machine) -> Iterator[GeneratorType[Any, Any, Any]]:
    """The generators that wait in a run of the effect machine, innermost first."""
    mark, frames = machine.mark, machine.frames
    while True:
        gens: list[object] = []
        while frames is not None:
            if isinstance(frames, tuple):
                gens.append(frames[0])
                frames = frames[1]
            else:
                gens += frames.live if isinstance(frames, LoggedFrame) else []
                frames = frames.below
        yield from (gen for gen in gens if isinstance(gen, GeneratorType))
        if mark.below is None:
            return
        mark, frames = mark.below, mark.frames


@contextmanager
def no_overflow() -> Iterator[None]:
    """A recursion so deep that Python stops it is one of the user's functions, with its line."""
    try:
        yield
    except KernelRecursionError:
        raise
    except RecursionError as error:
        frames: list[FrameType] = []
        trace = error.__traceback__
        while trace is not None:
            if not is_internal(trace.tb_frame.f_code.co_filename):
                frames.append(trace.tb_frame)
            trace = trace.tb_next
        if not frames:
            raise
        codes = [frame.f_code for frame in frames]
        most = max(frames, key=lambda frame: codes.count(frame.f_code))
        refuse_recursion(most.f_code.co_name, of_frame(most) if most.f_lineno else UNKNOWN)
