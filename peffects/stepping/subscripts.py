"""Subscripts of whole tables in a kernel that runs as plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from peffects.stepping.values import Int

__all__ = ["of_axes", "out_of_bounds"]


def of_axes(items: Sequence[Any], ndim: int) -> list[Any]:
    """The items that take an axis each: without new axes, `...` written out as slices."""
    taken = [item for item in items if item is not None]
    for place, item in enumerate(taken):
        if item is Ellipsis:
            count = ndim - len(taken) + 1
            return [*taken[:place], *[slice(None)] * max(count, 0), *taken[place + 1 :]]
    return taken


def out_of_bounds(item: Any, size: int) -> int | None:
    """The index among `item` that is not on an axis of `size`; None if there is none.

    Only an integer that the kernel did not compute counts from the end.
    """
    if isinstance(item, np.ndarray) and item.dtype.kind in "iu":
        wrong = item[(item < 0) | (item >= size)]
        return int(wrong.flat[0]) if wrong.size else None
    if not isinstance(item, int | np.integer):
        return None
    first = 0 if isinstance(item, Int | np.integer) else -size
    return None if first <= item < size else int(item)
