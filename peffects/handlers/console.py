"""Console: lines that are written and read.  `terminal` is real, `scripted` answers for tests.

A dialogue has an order, so both are sequential: they cannot stand around a parallel `for`.  Where
there is no further line, reading raises `EOFError`, which the program may catch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self, TypeVar

from peffects.machine.handling.handler import Handler
from peffects.machine.handling.operations import Eff, Effect, Operation

__all__ = ["Console", "ReadLine", "WriteLine", "read_line", "scripted", "terminal", "write_line"]

R = TypeVar("R")


class Console(Effect):
    """Lines are written, and read."""

    @classmethod
    def read_line(cls, prompt: str = "") -> Eff[Self, str]:
        """The next line of this instance."""
        return ReadLine.at(cls)(prompt)  # type: ignore[return-value]

    @classmethod
    def write_line(cls, text: str) -> Eff[Self, None]:
        """Write a line at this instance."""
        return WriteLine.at(cls)(text)  # type: ignore[return-value]


class ReadLine(Operation[Console, str]):
    """Read a line."""

    prompt: str


class WriteLine(Operation[Console, None]):
    """Write a line."""

    text: str


def read_line(prompt: str = "") -> Eff[Console, str]:
    """The next line, without its end; raises `EOFError` where there is none."""
    return ReadLine(prompt)


def write_line(text: str) -> Eff[Console, None]:
    """Write a line."""
    return WriteLine(text)


class terminal(Handler[Console]):
    """Standard input and output."""

    def __init__(self, at: type[Console] = Console) -> None:
        pass

    def read_line(self, op: ReadLine) -> str:
        """Ask."""
        return input(op.prompt)

    def write_line(self, op: WriteLine) -> None:
        """Print."""
        print(op.text)


class scripted(Handler[Console]):
    """Answers from a list of lines; the answer is (what a terminal would show, result)."""

    def __init__(self, lines: Iterable[str], at: type[Console] = Console) -> None:
        self.lines = tuple(lines)
        self.shown: tuple[str, ...] = ()

    def ret(self, x: R, /) -> tuple[list[str], R]:
        """The lines of the dialogue come first, each prompt with its answer."""
        return list(self.shown), x

    def read_line(self, op: ReadLine) -> str:
        """The next line of the script."""
        if not self.lines:
            raise EOFError("the script has no further line")
        line, *rest = self.lines
        self.lines = tuple(rest)
        self.shown = (*self.shown, op.prompt + line)
        return line

    def write_line(self, op: WriteLine) -> None:
        """Keep it."""
        self.shown = (*self.shown, op.text)
