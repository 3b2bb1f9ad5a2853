"""The state of handlers as values that ways of control flow carry and merge, like locals.

A `Cell` is a field of an installed handler, or one half of its `Exit`: whether the computation has
left for the end of that handler, and with which answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from peffects.machine.resuming.frames import HandlerMarker
from peffects.staging.structures.results import UNSET

__all__ = ["FIXED_FIELDS", "Cells", "Exit"]

FIXED_FIELDS = frozenset({"_at", "_handled", "_catches"})
"""Fields that say what a handler handles, and never change."""


@dataclass(eq=False)
class Exit:
    """Whether the computation under a handler has ended early, and the handler's answer then.

    A flag that is not set says that it has not.
    """

    flag: object = UNSET
    answer: object = UNSET


class _Field:
    """A field of the handler that a marker holds; a resumption replaces that handler by a fork."""

    def __init__(self, marker: HandlerMarker, name: str) -> None:
        self.marker = marker
        self.name = name

    def get(self) -> object:
        return vars(self.marker.handler).get(self.name, UNSET)

    def set(self, value: object) -> None:
        setattr(self.marker.handler, self.name, value)


class _Half:
    """The flag or the answer of an exit."""

    def __init__(self, exit_: Exit, name: str) -> None:
        self.exit = exit_
        self.name = name

    def get(self) -> object:
        return getattr(self.exit, self.name)

    def set(self, value: object) -> None:
        setattr(self.exit, self.name, value)


class Cells:
    """The cells of the handlers that are installed now, by name.

    The names contain a dot, so that no local has one of them.
    """

    def __init__(
        self, markers: Iterable[HandlerMarker], exits: Mapping[HandlerMarker, Exit]
    ) -> None:
        self._cells: dict[str, _Field | _Half] = {}
        for marker in markers:
            name = type(marker.handler).__name__
            for field in vars(marker.handler):
                if field not in FIXED_FIELDS:
                    self._add(f"{name}.{field}", _Field(marker, field))
            if marker in exits:
                self._add(f"{name}.exited", _Half(exits[marker], "flag"))
                self._add(f"{name}.answer", _Half(exits[marker], "answer"))

    def _add(self, name: str, cell: _Field | _Half) -> None:
        unique, count = name, 1
        while unique in self._cells:
            count += 1
            unique = f"{name}.{count}"
        self._cells[unique] = cell

    @property
    def names(self) -> tuple[tuple[str, int], ...]:
        """The names, as constructs take names of locals: each with a line, here none."""
        return tuple((name, 0) for name in self._cells)

    def values(self) -> dict[str, object]:
        """What the cells hold now."""
        return {name: cell.get() for name, cell in self._cells.items()}

    def put(self, values: Iterable[object]) -> None:
        """Let the cells hold `values`, one for each in the order of the names."""
        for cell, value in zip(self._cells.values(), values, strict=True):
            if cell.get() is not value:
                cell.set(value)
