"""Texts of run-time failures that the evaluator and compiled code both give."""

from __future__ import annotations

from collections.abc import Sequence

from peffects.errors import BoundsError
from peffects.source import SrcInfo


def bounds_text(table: str, axis: int) -> str:
    """The message of a failed bounds test; format it with `value` and `size`."""
    return f"index {{value}} is out of bounds for axis {axis} of `{table}` with size {{size}}."


def bounds_error(
    text: str, value: int, size: int, at: SrcInfo, notes: Sequence[str] = ()
) -> BoundsError:
    """The error of a failed bounds test, with what to write instead."""
    what = text.format(value=value, size=size)
    return BoundsError(what, at=at, notes=notes, fix=bounds_fix(value, size))


def iteration_notes(names: Sequence[str], indices: Sequence[int]) -> tuple[str, ...]:
    """In which iteration of the loops around, outermost first, it happened; () where none is.

    A `range` that starts elsewhere is counted from 0, too: its numbers are computed from those.
    """
    if not names:
        return ()
    shown = ", ".join(f"{name} = {index}" for name, index in zip(names, indices, strict=True))
    return (f"in the iteration {shown} (counted from 0)",)


def bounds_fix(value: int, size: int) -> str:
    """What to do about an index that is not of a set of this size."""
    if size <= 0:
        return "The axis is empty: test its length first."
    if value < 0:
        return (
            "A computed index does not count from the end, only a literal such as `x[-1]` does. "
            "Keep it at 0 or above: `max(i - 1, 0)`, a loop that starts later, or "
            "`x[i - 1] if i > 0 else 0.0`; to wrap around, `x[(i - 1) % n]`."
        )
    return (
        f"The last index is {size - 1}. Keep it there: `min(i + 1, n - 1)`, a shorter loop, or "
        "`x[i + 1] if i + 1 < n else 0.0`."
    )
