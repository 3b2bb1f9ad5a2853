"""Where ways of control flow end and meet while effects are staged.

A *boundary* is a part of the program that an exit leaves: one side of an `if`, the body of a loop,
or the computation under a handler with a `@final` clause.  Where only some ways through it have
exited, its remainder is the other side of an `if` on that: a `Rest`, which is open until the
boundary ends.  What holds afterwards is merged there, and the boundary around goes on the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, Protocol

from peffects.errors import DataRaceError, MergeError
from peffects.ir import primitives as op
from peffects.machine.resuming.frames import HandlerMarker
from peffects.source import SrcInfo
from peffects.staging.effects.handler_state import Cells, Exit
from peffects.staging.loops.branches import UNBOUND, Branch, Dead, Frame, Names
from peffects.staging.loops.iteration import FoldLoop, ParLoop, WhileLoop
from peffects.staging.loops.locals import Missing, Tree
from peffects.staging.loops.ops import ParallelLoop
from peffects.staging.loops.ranges import SequentialLoop
from peffects.staging.rewriting.jumps import Stop
from peffects.staging.rewriting.syntax import RESULT
from peffects.staging.scalars.symbols import either, logical
from peffects.staging.structures.results import UNSET
from peffects.staging.tracing.trace import OpenBlock, Trace

__all__ = [
    "Boundary", "EffectBranch", "EffectFold", "EffectPar", "EffectWhile", "HandlerBoundary",
    "SideEnded",
]  # fmt: skip

_EXITED = "exited."
"""Stands among the names of a sequential loop for the local that says that an exit has left it."""


class Performing(Protocol):
    """What boundaries need of the machine."""

    trace: Trace
    boundaries: list[Boundary]
    exits: dict[HandlerMarker, Exit]

    def cells(self) -> Cells:
        """The states of the handlers that are installed now."""

    def any_exit(self) -> object:
        """Whether the computation has left for the end of some handler: False or a symbol."""

    def forget_exits(self) -> None:
        """From here on no exit has happened."""

    def go_on(self, left: bool) -> None:
        """Guard what follows a boundary, or leave the boundary around as well."""


class SideEnded(BaseException):
    """Thrown into the frames of a boundary that is left, down to where it began."""

    boundary: ClassVar[Boundary]


class Boundary:
    """What an exit leaves: the names that live on after it, and its open rests."""

    ended: type[BaseException] | tuple[()]

    def begin_boundary(self, machine: Performing, names: Names) -> None:
        """Say what it has; it is on no stack yet."""
        self.machine = machine
        self.local_names = names
        self.ended = type("SideEnded", (SideEnded,), {"boundary": self})
        self.rests: list[Rest] = []
        self.exited = False

    def enter_boundary(self) -> None:
        """The boundary is the innermost one from now on."""
        self.exited = False
        self.machine.boundaries.append(self)

    def end_here(self) -> BaseException:
        """The exception that leaves the boundary."""
        self.exited = True
        assert isinstance(self.ended, type)
        return self.ended()

    def leave_boundary(self, frame: Frame) -> Frame:
        """The boundary ends with these locals; those that hold once its rests are merged."""
        top = self.machine.boundaries.pop()
        assert top is self, "invariant: boundaries nest"
        if self.exited:
            frame = {**frame, **{name: self._unchanged(name) for name, _ in self.local_names}}
        while self.rests:
            frame = self.rests.pop().close(frame)
        return frame

    def _unchanged(self, name: str) -> object:
        """What a local has on a way that has left: nothing reads it, so best what it had before."""
        value = self.initial(name)
        return UNSET if value is UNBOUND or isinstance(value, Missing) else value

    def initial(self, name: str) -> object:
        """The value that a local had where the boundary began."""
        return UNBOUND


class Rest(Branch):
    """An `if` on "has exited": nothing happens on its first side, the remainder on the other."""

    def __init__(self, boundary: Boundary, flag: object, answer: object = UNSET) -> None:
        machine = boundary.machine
        self.boundary = boundary
        self.cells = machine.cells()
        names = (*boundary.local_names, *self.cells.names)
        super().__init__(machine.trace, flag, names, (), {})
        ended = {name: UNSET for name, _ in boundary.local_names} | self.cells.values()
        self.then({})
        self.orelse(ended | ({RESULT: answer} if RESULT in ended else {}))
        machine.forget_exits()

    def close(self, frame: Frame) -> Frame:
        """End the remainder; the locals after both ways have met."""
        merged = self.merged({**frame, **self.cells.values()})
        count = len(self.boundary.local_names)
        self.cells.put(merged[count:])
        values = zip(self.boundary.local_names, merged[:count], strict=True)
        return {**frame, **{name: value for (name, _), value in values}}

    def _plan(self, name: str, then: Frame, orelse: Frame) -> Tree | object:
        value = orelse.get(name, UNBOUND)
        if then[name] is UNSET and value is not UNBOUND and value is self.boundary.initial(name):
            return value  # it was there before the boundary, and both ways leave it alone
        return super()._plan(name, then, orelse)


class HandlerBoundary(Boundary):
    """The computation under a handler that has `@final` clauses."""

    def __init__(self, machine: Performing, marker: HandlerMarker) -> None:
        self.marker = marker
        self.begin_boundary(machine, ((RESULT, 0),))

    def end(self, answer: object) -> object:
        """The handler's answer, from the one at the end of its computation, or UNSET if it left."""
        own = self.machine.exits[self.marker]
        exited = self.exited
        self.exited = False
        result = self.leave_boundary({RESULT: own.answer if exited else answer})[RESULT]
        left_for_good = exited and own.flag is UNSET
        del self.machine.exits[self.marker]
        if isinstance(result, Missing):
            raise _no_common_answer(result, self.marker)
        self.machine.go_on(left_for_good)
        return result


def _no_common_answer(result: Missing, marker: HandlerMarker) -> MergeError:
    return MergeError(
        f"the answers of `{type(marker.handler).__name__}` on different ways through the kernel "
        f"have no common form: {result.why}.",
        at=result.src,
        fix="Let every way give the same structure with numbers of the same types; errors may be "
        "numbers, None, or one and the same constant.",
    )


class EffectBranch(Branch, Boundary):
    """An `if` on a symbol whose sides may perform effects."""

    def __init__(
        self, machine: Performing, condition: object, names: Names, dead: Dead, frame: Frame
    ) -> None:
        self.cells = machine.cells()
        self.begin_boundary(machine, names)
        self.left: list[bool] = []
        values = {**frame, **self.cells.values()}
        super().__init__(machine.trace, condition, (*names, *self.cells.names), dead, values)

    def initial(self, name: str) -> object:
        """The value that a local had before the `if`."""
        return self.start.get(name, UNBOUND)

    def then(self, frame: Frame) -> bool:
        """Begin the first side."""
        self.enter_boundary()
        return super().then(frame)

    def _end(self, frame: Frame) -> Frame:
        self.left.append(self.exited)
        return {**self.leave_boundary(frame), **self.cells.values()}

    def orelse(self, frame: Frame) -> bool:
        """Begin the second side, from the state before the `if`."""
        super().orelse(self._end(frame))
        self.cells.put(self.start[name] for name, _ in self.cells.names)
        self.enter_boundary()
        return True

    def before(self) -> tuple[object, ...]:
        """The locals as they were before the `if`."""
        return super().before()[: len(self.local_names)]

    def merged(self, frame: Frame) -> tuple[object, ...]:
        """The locals after the `if`."""
        values = super().merged(self._end(frame))
        count = len(self.local_names)
        self.cells.put(values[count:])
        self.machine.go_on(all(self.left))
        return values[:count]

    def _plan(self, name: str, then: Frame, orelse: Frame) -> Tree | object:
        """A side that has exited has no locals: those of the other one hold."""
        if (name, 0) in self.cells.names or not any(self.left) or all(self.left):
            return super()._plan(name, then, orelse)
        first = self.left[0]
        live = orelse if first else then
        if name in live and live[name] is self.start.get(name, UNBOUND):
            return live[name]
        (then if first else orelse)[name] = UNSET
        return super()._plan(name, then, orelse)


class _EffectLoop(Boundary):
    """What loops share whose rounds may perform effects."""

    cells_names: Names

    def split(self, values: tuple[object, ...]) -> tuple[object, ...]:
        """Let the cells hold their part of `values`; the others."""
        start = len(self.local_names)
        end = start + len(self.cells.names)
        self.cells.put(values[start:end])
        return values[:start] + values[start + len(self.cells_names) :]

    def begin_cells(self, machine: Performing, names: Names, frame: Frame) -> Frame:
        """The locals and cells before the loop."""
        self.begin_boundary(machine, names)
        self.cells = machine.cells()
        self.cells_names = self.cells.names
        return {**frame, **self.cells.values()}

    def end_round(self, frame: Frame) -> Frame:
        """The locals and cells at the end of a round."""
        return {**self.leave_boundary(frame), **self.cells.values()}


class EffectFold(FoldLoop, _EffectLoop):
    """A `for` whose rounds follow each other and may perform effects; an exit leaves it."""

    def __init__(
        self,
        machine: Performing,
        loop: SequentialLoop,
        names: Names,
        targets: Names,
        dead: Dead,
        frame: Frame,
        stop: Stop | None,
    ) -> None:
        values = self.begin_cells(machine, names, frame)
        self.user_stop = stop
        names = (*names, *self.cells_names)
        super().__init__(machine.trace, loop, names, targets, dead, values, stop)

    def initial(self, name: str) -> object:
        """The value that a local has at the start of a round."""
        return self.entry.get(name, UNBOUND)

    def enter(self) -> tuple[object, ...]:
        """The locals at the start of a round, which no exit has left."""
        values = self.split(super().enter())
        self.machine.forget_exits()
        self.entry |= self.cells.values()
        self.enter_boundary()
        return values

    def leave(self, frame: Frame) -> None:
        """Note the locals at the end of a round."""
        exited = self.exited
        ends = self.end_round(frame)
        flag = True if exited else self.machine.any_exit()
        if self.user_stop is None:
            ends[_EXITED] = flag
        elif flag is not False:
            name = self.user_stop.name
            ends[name] = True if exited else either(ends[name], flag)
        self.exits = flag is not False
        super().leave(ends)

    def widen(self, ends: Frame, scope: OpenBlock) -> bool:
        """Whether a round has to be staged again; it carries "exited" once a round may exit."""
        changed = super().widen(ends, scope)
        if self.stop is not None or not self.exits:
            return changed
        self.stop = Stop(_EXITED, "throw", self.src.line)
        self.cells_names = (*self.cells_names, (_EXITED, 0))
        self.names = (*self.names, (_EXITED, 0))
        self.start[_EXITED] = False
        self._plan(_EXITED)
        return True

    def after(self) -> tuple[object, ...]:
        """The locals after the loop."""
        values = self.split(super().after())
        self.machine.go_on(False)
        return values


class EffectWhile(WhileLoop, _EffectLoop):
    """A `while` whose rounds may perform effects; an exit leaves it."""

    def __init__(self, machine: Performing, names: Names, dead: Dead) -> None:
        self.machine = machine
        self.user_names = names
        super().__init__(machine.trace, names, dead)

    def initial(self, name: str) -> object:
        """The value that a local has at the start of a round."""
        return self.entry.get(name, UNBOUND)

    def more(self, condition: Callable[[], object], frame: Frame) -> bool:
        """Whether the body runs (again)."""
        if not self.traced:
            frame = self.begin_cells(self.machine, self.user_names, frame)
            names = (*self.user_names, *self.cells_names)
            self.given = self.machine.trace, names, self.given[-1]
        return super().more(condition, frame)

    def enter(self) -> tuple[object, ...]:
        """The locals at the start of a round, for the condition and the body."""
        return self.split(super().enter())

    def begin(self, condition: Callable[[], object]) -> None:
        """Stage the condition, which no exit has made false, and begin the body."""

        def goes_on() -> object:
            flag, holds = self.machine.any_exit(), condition()
            return holds if flag is False else logical(op.AND, logical(op.NOT, flag), holds)

        super().begin(goes_on)
        self.machine.forget_exits()
        self.entry |= self.cells.values()
        self.enter_boundary()

    def leave(self, frame: Frame) -> None:
        """Note the locals at the end of the body."""
        super().leave(self.end_round(frame))

    def after(self) -> tuple[object, ...]:
        """The locals after the loop."""
        values = self.split(super().after())
        self.machine.go_on(False)
        return values


class EffectPar(ParLoop, _EffectLoop):
    """A `pe.par` loop: its iterations have no order, so they may change no handler's state."""

    def __init__(
        self,
        machine: Performing,
        loop: ParallelLoop,
        names: Names,
        targets: Names,
        dead: Dead,
        frame: Frame,
        stop: Stop | None,
    ) -> None:
        self.begin_cells(machine, names, frame)
        self.cells_names = ()
        super().__init__(machine.trace, loop, names, targets, dead, frame, stop)
        self.values = self.cells.values()

    def __iter__(self) -> Iterator[object]:
        self.enter_boundary()
        yield from super().__iter__()

    def leave(self, frame: Frame) -> None:
        """Check that the iteration changed no handler."""
        frame = self.leave_boundary(frame)
        for name, value in self.cells.values().items():
            if value is not self.values[name]:
                raise _changes_a_handler(name, self.src)
        super().leave(frame)


def _changes_a_handler(name: str, src: SrcInfo) -> DataRaceError:
    handler = name.partition(".")[0]
    return DataRaceError(
        f"an iteration of a `pe.par` loop performs effects of the handler `{handler}` outside it; "
        "its iterations have no order.",
        at=src,
        fix="Use `yield from pfor(n, body)`: the handler's traverse clause says what a parallel "
        "loop means; or `range`, whose rounds follow each other.",
    )
