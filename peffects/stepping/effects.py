"""Effects in a debugging run: the machine, which notices a recursion without an end."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator
from types import GeneratorType
from typing import Any, Final

from peffects.machine.checking.locations import suspended_place
from peffects.machine.checking.never_performed import NEWEST, settled
from peffects.machine.handling.operations import PERFORM, Tag
from peffects.machine.resuming.frames import TOP
from peffects.machine.resuming.refusals import refuse_bare
from peffects.machine.running.machine import RAISED, RETURNED, Machine
from peffects.parallel.running import run_on
from peffects.staging.tracing.recursion import refuse_recursion, waiting_generators
from peffects.staging.tracing.trace import is_internal

__all__ = ["run_to_debug"]

_ANSWERED: Final = Tag("ANSWERED")
_OFTEN = 256


class _Machine(Machine):
    """The machine takes no frames of Python's for a call, so Python does not stop a recursion."""

    begun = 0

    def _fast(self) -> tuple[Tag, Any]:
        """Run the generator up to its next event, a call or an answering clause among them."""
        gen: Any = self.gen
        thrown, self.error = self.error, None
        known = None if thrown is None else thrown.__traceback__
        item: Any = None
        try:
            yielded = gen.send(self.sent) if thrown is None else gen.throw(thrown)
            if yielded.__class__ is not tuple or not yielded or yielded[0].__class__ is not Tag:
                refuse_bare(gen, yielded)
            tag, item = yielded
            answer = self._answering(item, self.mark.evidence) if tag is PERFORM else None
            if answer is None:
                return tag, item
            clause, owner = answer
            self._answer(item, clause(owner.handler, item))
            return _ANSWERED, None
        except StopIteration as stop:
            self.gen = self.log = None
            if NEWEST.last is not None:
                settled(gen.gi_code)
            if self.frames is None and self.mark is TOP:
                self.result, self.done = stop.value, True
            return RETURNED, stop.value
        except BaseException as error:
            return RAISED, self._raised_by(gen, item, error, known)

    def _begin(self, gen: Generator[Any, Any, Any], root: object) -> None:
        """As the machine does, unless `gen` is of a function that waits for itself too often."""
        self.begun += 1
        if self.begun % _OFTEN == 0 and isinstance(gen, GeneratorType):
            self._check_recursion()
        super()._begin(gen, root)

    def _check_recursion(self) -> None:
        """Raise KernelRecursionError where Python would find a recursion too deep."""
        waiting = [g for g in waiting_generators(self) if not is_internal(g.gi_code.co_filename)]
        for code, count in Counter(gen.gi_code for gen in waiting).most_common(1):
            if count >= sys.getrecursionlimit():
                last = next(gen for gen in waiting if gen.gi_code is code)
                refuse_recursion(code.co_name, suspended_place(last))


_Machine.steps = {**Machine.steps, _ANSWERED: lambda machine, item: None}


def run_to_debug(c: Any, /, **options: Any) -> Any:
    """`run`."""
    return run_on(_Machine, c, **options)
