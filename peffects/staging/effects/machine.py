"""The effect machine on symbols.

It is the machine of `machine/running/machine.py` with four changes: what runs is rewritten, so that
`if` and loops on symbols call hooks; an exit may happen on some ways through the program only; a
parallel `for` is staged once; and what cannot be decided while staging is refused.  Nothing of it
is left in the program: operations become what their clauses compute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import GeneratorType
from typing import Any

from peffects.errors import KernelEffectError
from peffects.machine.checking.locations import place_of_site, suspended_place
from peffects.machine.checking.never_performed import performed
from peffects.machine.handling.clauses import ANSWER, ANSWER_GENERATOR, FINAL, Clause
from peffects.machine.handling.handler import Handled, Handler
from peffects.machine.handling.operations import (
    LOOP,
    NONE,
    PERFORM,
    RESUME,
    SCOPE,
    Call,
    Computation,
    Operation,
    Tag,
    start,
)
from peffects.machine.resuming.frames import (
    ClauseEnd,
    Gen,
    HandlerMarker,
    Segment,
    innermost_handler,
    masked_effects,
)
from peffects.machine.resuming.parallel_for import Body, ParFor
from peffects.machine.resuming.refusals import (
    may_catch,
    never_performed,
    no_traverse,
    refuse_bare,
    unhandled,
)
from peffects.machine.resuming.resumption import Resume, Resumption
from peffects.machine.running.machine import RAISED, RETURNED, Machine
from peffects.machine.running.scopes import HandlerScope, RestoreStates
from peffects.source import UNKNOWN, SrcInfo, is_internal_file
from peffects.staging.captures.reads import StepKind, Unchanged, token_of
from peffects.staging.effects.clauses import staged_class, staged_function
from peffects.staging.effects.control_flow import (
    Boundary,
    EffectBranch,
    EffectFold,
    EffectPar,
    EffectWhile,
    HandlerBoundary,
    Rest,
    SideEnded,
)
from peffects.staging.effects.handler_state import FIXED_FIELDS, Cells, Exit
from peffects.staging.effects.parallel import (
    ConditionalExit,
    StagedFor,
    StagedLoop,
    run_loop,
    traverse_of,
)
from peffects.staging.effects.random_keys import as_word, is_key
from peffects.staging.hooks.writes import inputs_of
from peffects.staging.loops.branches import Dead, Frame, Names
from peffects.staging.loops.ops import ParallelLoop
from peffects.staging.loops.ranges import SequentialLoop
from peffects.staging.rewriting.jumps import Stop
from peffects.staging.scalars.symbols import either
from peffects.staging.structures.results import UNSET
from peffects.staging.tracing.recursion import DEEPEST, refuse_recursion, waiting_generators
from peffects.staging.tracing.trace import Trace, here, is_internal, speaks_for

__all__ = ["StagingMachine"]


def _rewritten(computation: Any) -> Gen:
    """A generator that performs `computation`, rewritten."""
    if type(computation) is Call:
        performed(computation)
        function = staged_function(computation.function)
        return function(*computation.args, **computation.kwargs)  # type: ignore[no-any-return]
    return start(computation)


class StagingMachine(Machine):
    """One run of a computation on the symbols of a trace."""

    _started = staticmethod(_rewritten)

    def __init__(self, trace: Trace) -> None:
        super().__init__(_no_runner)
        self.trace = trace
        self.around = trace.effects if isinstance(trace.effects, StagingMachine) else None
        self.exits: dict[HandlerMarker, Exit] = {}
        outermost = Boundary()
        outermost.begin_boundary(self, ())
        self.boundaries = [outermost]
        self.depth: dict[HandlerMarker, int] = {}
        self.captured_in: dict[Resumption[Any, Any], Boundary] = {}
        self.distant: set[Resumption[Any, Any]] = set()
        self.passing: set[Resumption[Any, Any]] = set()
        self.passed: tuple[object, Resumption[Any, Any]] | None = None
        self.pending: ConditionalExit | None = None

    def run(self, computation: Any) -> Any:
        """The result of `computation`, as symbols."""
        with self.trace.performing(self):
            return super().run(computation)

    # --- what hooks ask for ----------------------------------------------------------------------

    def branch(self, condition: object, names: Names, dead: Dead, frame: Frame) -> EffectBranch:
        """An `if` on a symbol."""
        return EffectBranch(self, condition, names, dead, frame)

    def fold(
        self,
        loop: SequentialLoop,
        names: Names,
        targets: Names,
        dead: Dead,
        frame: Frame,
        stop: Stop | None,
    ) -> EffectFold:
        """A `for` whose rounds follow each other."""
        return EffectFold(self, loop, names, targets, dead, frame, stop)

    def par(
        self,
        loop: ParallelLoop,
        names: Names,
        targets: Names,
        dead: Dead,
        frame: Frame,
        stop: Stop | None,
    ) -> EffectPar:
        """A `pe.par` loop."""
        return EffectPar(self, loop, names, targets, dead, frame, stop)

    def while_loop(self, names: Names, dead: Dead) -> EffectWhile:
        """A `while`."""
        return EffectWhile(self, names, dead)

    def may_rebind(self, owner: object) -> bool:
        """Whether `owner` is an installed handler, whose fields every construct carries.

        Or that of a traverse clause that has resumed: nobody sees its fields any more.
        """
        return any(marker.handler is owner for marker in self._markers()) or any(
            k._handler is owner for k in self.passing
        )

    # --- state and exits -------------------------------------------------------------------------

    def _markers(self) -> Iterator[HandlerMarker]:
        """The handlers installed now, outermost first; those of running clauses are among them."""
        found: list[HandlerMarker] = []
        mark, frames = self.mark, self.frames
        while True:
            while frames is not None:
                if isinstance(frames, ClauseEnd):
                    segment = frames.k._segment
                    if isinstance(segment, Segment):
                        found.append(segment.owner)
                    elif (
                        frames.k not in self.passing
                    ):  # its clause has resumed, and goes on with a handler of its own
                        found.append(HandlerMarker(frames.k._handler, UNKNOWN))
                    frames = frames.below
                else:
                    frames = frames[1] if isinstance(frames, tuple) else frames.below
            if isinstance(mark, HandlerMarker):
                found.append(mark)
            if mark.below is None:
                return reversed(found)
            mark, frames = mark.below, mark.frames

    def cells(self) -> Cells:
        """The states of the handlers that are installed now."""
        return Cells(self._markers(), self.exits)

    def any_exit(self) -> object:
        """Whether the computation has left for the end of some handler: False or a symbol."""
        flag: object = False
        for exit_ in self.exits.values():
            if exit_.flag is not UNSET:
                flag = either(flag, exit_.flag)
        return flag

    def forget_exits(self) -> None:
        """From here on no exit has happened: this is the way on which none did."""
        for exit_ in self.exits.values():
            exit_.flag = exit_.answer = UNSET

    def go_on(self, left: bool) -> None:
        """After a boundary or an exit: guard what follows, or leave the boundary around as well."""
        boundary = self.boundaries[-1]
        if left:
            raise boundary.end_here()
        flag = self.any_exit()
        if flag is False:
            return
        answer: object = UNSET
        if isinstance(boundary, HandlerBoundary):
            answer = self.exits[boundary.marker].answer
        boundary.rests.append(Rest(boundary, flag, answer))

    def _exit(self, owner: HandlerMarker, clause: Clause, op: Operation[Any, Any]) -> None:
        """Run a `@final` clause; its value is the answer of `owner` on this way."""
        value = self._call(clause.function, owner.handler, op)
        if isinstance(value, Computation):
            raise never_performed(value, type(owner.handler).__name__, op)
        self._exit_with(owner, value, op)

    def _exit_with(self, owner: HandlerMarker, value: object, item: Computation) -> None:
        boundary = self._innermost_below(owner)
        own = isinstance(boundary, HandlerBoundary) and boundary.marker is owner
        if isinstance(boundary, HandlerBoundary) and own and not boundary.rests:
            self._forget(boundary)
            self._leave(owner, lambda *_: value, item)
            if self.gen is None and self.error is not None:  # the frame below it is to unwind
                self._deliver(self.error)
            return
        exit_ = self.exits[owner]
        exit_.flag, exit_.answer = True, value
        self._fail(boundary.end_here())

    def _innermost_below(self, owner: HandlerMarker) -> Boundary:
        """The innermost boundary that an exit to `owner` leaves with something to merge."""
        while True:
            boundary = self.boundaries[-1]
            plain = isinstance(boundary, HandlerBoundary) and not boundary.rests
            if not plain or boundary.marker is owner:  # type: ignore[attr-defined]
                return boundary
            assert isinstance(boundary, HandlerBoundary)
            self._forget(boundary)

    def _forget(self, boundary: HandlerBoundary) -> None:
        """The handler's computation is left without anything to merge."""
        top = self.boundaries.pop()
        assert top is boundary, "invariant: boundaries nest"
        del self.exits[boundary.marker]

    def _exit_if(self, owner: HandlerMarker, pending: ConditionalExit) -> None:
        """Exit to a handler if a flag holds; what follows is the other way."""
        branch = EffectBranch(self, pending.flag, (), (), {})
        branch.then({})
        exit_ = self.exits[owner]
        exit_.flag, exit_.answer = True, pending.answer()
        branch.exited = True
        branch.orelse({})
        branch.merged({})

    # --- recursion -------------------------------------------------------------------------------

    def _begin(self, gen: Gen, root: object) -> None:
        """As the machine does, unless `gen` is of a function that waits for itself too often."""
        code = gen.gi_code if isinstance(gen, GeneratorType) else None
        if code is not None and not is_internal(code.co_filename):
            waiting = [other for other in self._waiting() if other.gi_code is code]
            if len(waiting) >= DEEPEST:
                refuse_recursion(code.co_name, suspended_place(waiting[0]))
        super()._begin(gen, root)

    def _waiting(self) -> Iterator[GeneratorType[Any, Any, Any]]:
        """All generators that wait below, in the runs around this one, too."""
        machine: StagingMachine | None = self
        while machine is not None:
            if machine is not self and isinstance(machine.gen, GeneratorType):
                yield machine.gen
            yield from waiting_generators(machine)
            machine = machine.around

    # --- the machine -----------------------------------------------------------------------------

    def _fast(self) -> tuple[Tag, Any]:
        """Run the generator up to its next event."""
        passed, self.passed = self.passed, None
        tag, item = self._step()
        if passed is None or _is_passed_on(passed[0], passed[1], tag, item):
            return tag, item
        return RAISED, _goes_on(passed[1], self._here() if self.gen is not None else UNKNOWN)

    def _step(self) -> tuple[Tag, Any]:
        self.trace.count_step()
        gen: Any = self.gen
        thrown, self.error = self.error, None
        try:
            yielded = gen.send(self.sent) if thrown is None else gen.throw(thrown)
            if yielded.__class__ is not tuple or not yielded or yielded[0].__class__ is not Tag:
                refuse_bare(gen, yielded)
            return yielded[0], yielded[1]
        except StopIteration as stop:
            self.gen = None
            return RETURNED, stop.value
        except BaseException as error:
            return RAISED, self._raised_by(gen, None, error, None)

    def _installed(self, item: Handled) -> HandlerMarker:
        handler = item.handler
        if handler._has_multi:
            raise KernelEffectError(
                f"`{type(handler).__name__}` has a `@multi` clause, and is installed in a kernel: "
                "the rest would have to be staged once for each world.",
                at=place_of_site(item.site),
                fix="Run it outside the kernel, and call kernels from its computation.",
            )
        marker = HandlerMarker(self._fork(handler), item.site)
        marker.placed(self.frames, self.mark)
        marker.watch = None if item.watch is None else item.watch.over(marker.handler)
        if handler._ret_is_generator and _has_exit(marker):
            raise KernelEffectError(
                f"`{type(handler).__name__}` has a `@final` clause and a return clause with "
                "effects, and is installed in a kernel.",
                at=place_of_site(item.site),
                fix="Perform those effects before the computation returns.",
            )
        self._bound(marker)
        return marker

    def _bound(self, marker: HandlerMarker) -> None:
        """The computation under `marker` is a boundary if something may leave it."""
        if _has_exit(marker):
            self.exits[marker] = Exit()
            HandlerBoundary(self, marker).enter_boundary()
        self.depth[marker] = len(self.boundaries)

    def _fork(self, handler: Handler[Any, Any]) -> Handler[Any, Any]:
        """A fork with rewritten clauses; numbers that it holds from outside become parameters."""
        kind: Any = type(handler)
        fork: Handler[Any, Any] = object.__new__(staged_class(kind))
        inputs = inputs_of(self.trace)
        ours = self.trace.was_made(handler)
        for name, value in vars(handler).items():
            path = inputs.path_of(handler).then(StepKind.ATTRIBUTE, name)
            if is_key(handler, name):
                if not ours:
                    inputs.guards.append(Unchanged(path, token_of(value)))
                value = as_word(value)
            elif name not in FIXED_FIELDS and not ours:
                value = inputs.reach(value, path)
            fork.__dict__[name] = value
        self.trace.note_made(fork)
        return fork

    def _capture(
        self, owner: HandlerMarker, item: Computation, multi: bool
    ) -> Resumption[Any, Any]:
        k = super()._capture(owner, item, multi)
        self.captured_in[k] = self.boundaries[-1]
        return k

    def _place(self, segment: Segment, handler: Handler[Any, Any]) -> None:
        self.trace.note_made(handler)
        super()._place(segment, handler)

    def _scoped(self, item: HandlerScope) -> None:
        """Put kept states into the handlers that stand there: their fields are cells."""
        if isinstance(item, RestoreStates):
            for marker, state in zip(item.between(self.mark), item.states, strict=True):
                vars(marker.handler).update(vars(state))
            self._answer(item, None)
        else:
            super()._scoped(item)

    def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a clause; the line of what it does is `place`, unless it is a user's (`here`)."""
        place = suspended_place(self.gen)  # noqa: F841
        return function(*args)

    def _perform(self, op: Operation[Any, Any]) -> None:
        owner = self.mark.evidence.get(op._effect)
        clause = owner.clauses.get(op._clause) if owner is not None else None
        if owner is None or clause is None:
            raise unhandled(op, owner, self.mark, self._here())
        self.trace.note_made(op)
        if clause.kind == ANSWER:
            self._answer(op, self._call(clause.function, owner.handler, op))
        elif clause.kind == FINAL and not clause.is_generator:
            self._exit(owner, clause, op)
        else:
            if clause.kind != ANSWER_GENERATOR:
                self._take_boundary(owner, op)
            super()._perform(op)

    def _take_boundary(self, owner: HandlerMarker, item: Computation) -> None:
        """All above `owner` is taken away: no way through it may be open there."""
        boundary = self.boundaries[-1]
        if self.depth[owner] != len(self.boundaries) or boundary.rests:
            what = f"`{item._clause}`" if isinstance(item, Operation) else "the traverse clause"
            raise KernelEffectError(
                f"{what} of `{type(owner.handler).__name__}` keeps or drops the rest of the "
                "computation where what that is depends on values of the kernel.",
                at=self._here() if self.gen is not None else here(),
                fix="In kernels clauses answer, are `@final`, or call `k` once on every way.",
            )
        if isinstance(boundary, HandlerBoundary) and boundary.marker is owner:
            self._forget(boundary)

    def _resume(self, item: Resume) -> None:
        k = item.resumption
        if self.captured_in.get(k) is not self.boundaries[-1]:
            raise KernelEffectError(
                f"`k` of {k._what} is called on one side of an `if`, or in a loop, that depends on "
                "values of the kernel.",
                at=self._here(),
                fix="Compute the value to resume with first, and call `k` once on every way.",
            )
        looped = isinstance(k._item, ParFor)
        if k in self.distant and k._segment is not None:
            if not isinstance(self.frames, ClauseEnd) or self.frames.k is not k:
                raise _goes_on(k, self._here())
            self.passing.add(k)
        segment = k._take(self._here, self)
        if k._machine.live is not None:
            k._machine.live.pop(k, None)
        self._suspend(item)
        self._place(segment, k._handler._fork())
        if not looped and segment.owner not in self.exits:
            self._bound(segment.owner)
        if self.pending is not None:
            pending, self.pending = self.pending, None
            if pending.flag is True:
                self._exit_with(segment.owner, pending.answer(), k._item)
                return
            self._exit_if(segment.owner, pending)
        if item.error is None:
            value = k._item.collect(item.value) if isinstance(k._item, ParFor) else item.value
            self._return(value)
        else:
            self._deliver(item.error)

    def _drop(
        self,
        k: Resumption[Any, Any],
        value: Any,
        error: BaseException | None,
        may_be_replaced: bool = True,
    ) -> None:
        if isinstance(k._item, ParFor) and k._segment is not None:
            self._take_boundary(k._segment.owner, k._item)
        super()._drop(k, value, error, may_be_replaced)

    def _loop(self, node: ParFor) -> None:
        place = place_of_site(self._site_of(node))
        if not isinstance(node, StagedFor):
            raise KernelEffectError(
                f"{node!r} was made outside the kernel.",
                at=place,
                fix="Call `pfor` inside the kernel, or in an effectful function that it performs.",
            )
        owner = innermost_handler(self.mark)
        if owner is None:
            self._answer(node, node.collect(run_loop(self._iteration, node)))
            return
        traverse, ours = traverse_of(owner.handler)
        if traverse is None:
            raise no_traverse(owner, place)
        if not ours and is_internal_file(traverse.__code__.co_filename):
            raise KernelEffectError(
                f"`{type(owner.handler).__name__}` stands around a `pfor` in a kernel, and has no "
                "form there: its traverse clause goes through a list of answers.",
                at=place,
                fix="Use `weak_exceptions` or `accumulate` around the loop, or `attempt` in its "
                "body; or run the loop outside the kernel.",
            )
        masked = masked_effects(self.mark)
        inner = node.masking(masked) if masked else node
        loop = StagedLoop(inner, owner.handler, owner.site, place, ours)
        far = self.depth[owner] != len(self.boundaries) or bool(self.boundaries[-1].rests)
        k = self._capture(owner, node, False)
        (self.passing if ours else self.distant).update([k] * (ours or far))
        self._begin(traverse(k._handler, node.n, loop, k), None)

    def _iteration(self, computation: Body) -> object:
        """The value of one iteration of a loop, whose handlers are all inside it."""
        return StagingMachine(self.trace).run(computation)

    def _top_frame(self, answer: Any) -> bool:
        found = super()._top_frame(answer)
        if found and isinstance(self.frames, ClauseEnd) and self.frames.k in self.passing:
            self.passed = answer, self.frames.k
        return found

    # --- values and failures on their way down ---------------------------------------------------

    def _answer_under(self, mark: HandlerMarker, value: Any) -> Any:
        answer = super()._answer_under(mark, value)
        return answer if self.gen is not None else self._merged_under(mark, answer)

    def _merged_under(self, mark: HandlerMarker, answer: Any) -> Any:
        """The answer under `mark`, merged with those of its exits."""
        boundary = self.boundaries[-1]
        if isinstance(boundary, HandlerBoundary) and boundary.marker is mark:
            return boundary.end(answer)
        return answer

    def _caught_under(self, mark: HandlerMarker, error: BaseException) -> bool:
        if isinstance(error, SideEnded):
            mark.ended()
            left = isinstance(error.boundary, HandlerBoundary) and error.boundary.marker is mark
            answer: Any = UNSET
        else:
            left = isinstance(error, mark.handler._catches) and may_catch(error)
            mark.ended()
            if left:
                self._check_static(mark, error)
                answer = mark.handler._raised(error)
        if left:
            self._return(self._merged_under(mark, answer))
        return left

    def _check_static(self, mark: HandlerMarker, error: BaseException) -> None:
        """A Python exception may only be caught where no open `if` or loop lies between."""
        if self.depth[mark] != len(self.boundaries):
            raise error


def _has_exit(marker: HandlerMarker) -> bool:
    return any(clause.kind == FINAL for clause in marker.clauses.values())


def _is_passed_on(answer: object, k: Resumption[Any, Any], tag: Tag, item: Any) -> bool:
    """Whether a traverse clause ends with what `k` gave.

    Under an `if` or in a loop on a symbol the program goes on inside that after `k`, and what the
    clause does would come after it.
    """
    if tag is RESUME and item.resumption is k:  # a second time: that is told
        return True
    return tag is RAISED or (tag is RETURNED and item is (None if answer is NONE else answer))


def _goes_on(k: Resumption[Any, Any], at: SrcInfo) -> KernelEffectError:
    place = at if at is not UNKNOWN or not isinstance(k._item, ParFor) else k._item.place
    return KernelEffectError(
        f"the traverse clause of `{type(k._handler).__name__}` goes on after `k`, and its loop is "
        "on one side of an `if`, or in a loop, that depends on values of the kernel.",
        at=place_of_site(place),
        fix="End the clause with `return (yield from k(values))`, and do the rest in the return "
        "clause.",
    )


def _no_runner(*_: Any) -> list[Any]:
    raise AssertionError("invariant: loops are staged")


speaks_for(StagingMachine._call.__code__)
StagingMachine.steps = Machine.steps | {
    PERFORM: StagingMachine._perform,
    LOOP: StagingMachine._loop,
    RESUME: StagingMachine._resume,
    SCOPE: StagingMachine._scoped,
}
