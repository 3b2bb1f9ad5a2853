"""A progress bar for loops: `run(program(), on_tick=ProgressBar())`.

Plain text on stderr, one line that is written over; quiet when stderr is no terminal, unless
forced.  Layer 2.
"""

from __future__ import annotations

import sys
from typing import TextIO

from peffects.notices import is_terminal

__all__ = ["ProgressBar"]

_WIDTH = 30


class ProgressBar:
    """Draws `[#####.....]  50%  5/10  1.2 s` at every tick."""

    def __init__(self, file: TextIO | None = None, *, label: str = "", force: bool = False) -> None:
        self.file = file  # none: whatever is stderr then, so that a bar can be pickled
        self.label = label
        self.force = force

    def __call__(self, done: float, total: int, elapsed_s: float) -> None:
        """Draw the bar; the line ends when all is done."""
        file = sys.stderr if self.file is None else self.file
        if file is None or not (self.force or is_terminal(file)):
            return
        part = done / total if total else 1.0
        full = int(part * _WIDTH)
        bar = "#" * full + "." * (_WIDTH - full)
        label = f"{self.label} " if self.label else ""
        end = "\n" if done >= total else ""
        count = f"{int(done)}/{total}  " if total != 1 else ""
        percent = int(100 * part)  # not rounded: 100 % is said at the end only
        file.write(f"\r{label}[{bar}] {percent:3d}%  {count}{elapsed_s:.1f} s{end}")
        file.flush()
