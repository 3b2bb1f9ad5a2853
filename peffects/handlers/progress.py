"""Progress: how much of a computation is done, as an effect; `progress_bar` draws it.

The bar and the executor work together.  Around a parallel `for` the handler's traverse clause gives
the bar to the loop, and the executor ticks it while the loop runs: iterations that ended count as
one, running ones by what they told with `progress`.  Outside of loops the bar shows what the
computation tells.  A loop within an iteration has no bar.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self, TextIO, TypeVar

from peffects.machine.handling.handler import BasicHandler, ParHandler
from peffects.machine.handling.operations import Eff, Effect, Operation
from peffects.parallel.executors.local import report
from peffects.parallel.executors.progress import ProgressBar

if TYPE_CHECKING:
    from peffects.machine.resuming.parallel_for import Loop
    from peffects.machine.resuming.resumption import Resumption

__all__ = ["Progress", "ProgressOp", "no_progress", "progress", "progress_bar"]

R = TypeVar("R")


class Progress(Effect):
    """The computation tells how much of it is done."""

    @classmethod
    def progress(cls, fraction: float) -> Eff[Self, None]:
        """How much is done, from 0 to 1, at this instance."""
        return ProgressOp.at(cls)(fraction)  # type: ignore[return-value]


class ProgressOp(Operation[Progress, None]):
    """Tell how much is done."""

    fraction: float


def progress(fraction: float) -> Eff[Progress, None]:
    """How much is done, from 0 to 1: of the running iteration, or of the whole outside of loops."""
    return ProgressOp(fraction)


class progress_bar(ParHandler[Progress]):
    """Draws a bar on stderr, or on `file`; draws nothing where that is no terminal."""

    def __init__(
        self,
        label: str = "",
        *,
        file: TextIO | None = None,
        force: bool = False,
        at: type[Progress] = Progress,
    ) -> None:
        self._bar = ProgressBar(file, label=label, force=force)
        self._started = time.monotonic()
        self._in_a_loop = False

    if TYPE_CHECKING:

        def ret(self, x: R, /) -> R:
            """The answer is the result."""

    def progress(self, op: ProgressOp) -> None:
        """Tell the executor in a loop, draw outside."""
        if self._in_a_loop:
            report(op.fraction)
        else:
            self._bar(op.fraction, 1, time.monotonic() - self._started)

    def traverse(self, n: Any, loop: Loop[Any], k: Resumption[Any, Any], /) -> Eff[Any, Any]:
        """Let the executor draw the bar while the loop runs."""
        bar = None if self._in_a_loop else self._bar
        inside = self._with(_in_a_loop=True)
        values = yield from loop(lambda i: inside, on_tick=bar)
        return (yield from k(values))


class no_progress(BasicHandler[Progress]):
    """Draws nothing."""

    def __init__(self, at: type[Progress] = Progress) -> None:
        pass

    def progress(self, op: ProgressOp) -> None:
        """Nothing."""
