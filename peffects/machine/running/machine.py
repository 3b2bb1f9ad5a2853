"""The effect machine: the only loop that drives generators.

`_fast` handles what happens most, calls, returns and answering clauses, in local variables; every
other event leaves it and is a method that changes the stack (`stack.py`).  Nothing recurses on the
Python stack except an iteration of a parallel `for`, which is a machine of its own.  A clause runs
outside its handler.  The machine is given a loop runner and knows no executor.  Layer 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import GeneratorType, TracebackType
from typing import Any, ClassVar, Final, cast

from peffects.machine.checking.locations import place_of_site, strip_internal
from peffects.machine.checking.never_performed import (
    NEWEST,
    forgive,
    late,
    performed,
    runner,
    settled,
)
from peffects.machine.handling.clauses import ANSWER, ANSWER_GENERATOR, FINAL, MULTI
from peffects.machine.handling.operations import (
    CALL,
    DROP,
    HANDLE,
    LOOP,
    NONE,
    ONCE,
    PERFORM,
    RESUME,
    SCOPE,
    SHARE,
    Call,
    Computation,
    Once,
    Operation,
    Share,
    Tag,
    check_performed,
)
from peffects.machine.resuming.answer_log import PLAIN, Options, Raised
from peffects.machine.resuming.frames import (
    TOP,
    Evidence,
    Gen,
    LoggedFrame,
    OutsideMarker,
    innermost_handler,
    masked_effects,
)
from peffects.machine.resuming.parallel_for import Loop, LoopRunner, ParFor
from peffects.machine.resuming.refusals import (
    no_traverse,
    refuse_bare,
    running_elsewhere,
    unhandled,
    unlogged,
)
from peffects.machine.resuming.replay import AnswerStart, ClauseStart
from peffects.machine.resuming.resumption import Drop, Resume, Resumption
from peffects.machine.running.scopes import HandlerScope
from peffects.machine.running.stack import Stack

__all__ = ["RAISED", "RETURNED", "Machine"]

RETURNED: Final = Tag("RETURNED")
RAISED: Final = Tag("RAISED")
_BARE: Final = Tag("BARE")
_PERFORMABLE: Final = (Computation, GeneratorType)


class Machine(Stack):
    """One run of a computation to its end, or of one iteration of a parallel `for`."""

    resources: ExitStack | None = None
    forgotten: Resumption[Any, Any] | None = None
    """At the end: whose frames unwind now."""
    steps: ClassVar[dict[Tag, Callable[[Any, Any], None]]]
    """What to do with each event that leaves `_fast`."""

    def __init__(self, runner: LoopRunner, options: Options = PLAIN) -> None:
        self.runner = runner
        if options is not PLAIN:
            self.options = options
            self.keep = options.keep()

    def run(self, computation: Any) -> Any:
        """Perform `computation` to its end; what resumptions still hold is unwound then."""
        self._start(computation)
        return self._finish()

    def _start(self, computation: Any) -> None:
        if NEWEST.last is computation:
            NEWEST.last = None
        elif (NEWEST.settling or NEWEST.armed) and isinstance(computation, Computation):
            late(computation)
        try:
            self._enter(computation)
        except BaseException as error:
            self._fail(error)

    def perform(self, computation: Any) -> Any:
        """Perform `computation` in a run that goes on: what it leaves can be resumed later."""
        self.gen = self.log = self.frames = self.failure = None
        self.mark, self.done = TOP, False
        self._start(computation)
        self._drive()
        if NEWEST.last is not None:
            settled(quietly=self.failure is not None)
        if self.failure is not None:
            raise self.failure
        return self.result

    def close(self) -> None:
        """End a run that `perform` went on with: unwind what is left."""
        raised = self.failure
        for _ in self._leftovers():
            self._drive()
        self.finished = True
        if self.resources is not None:
            self._close_resources(self.resources)
        if self.failure is not None and self.failure is not raised:
            raise self.failure

    def run_from(self, gen: Gen, yielded: Any) -> Any:
        """Run a generator that was started already, and yielded this, to its end."""
        self.gen = gen
        if type(yielded) is tuple and len(yielded) == 2 and type(yielded[0]) is Tag:
            self._event(*yielded)
        else:
            self._event(_BARE, yielded)
        return self._finish()

    def _finish(self) -> Any:
        self._drive()
        if self.live:
            for _ in self._leftovers():
                self._drive()
        return self._ended()

    def _ended(self) -> Any:
        self.finished = True
        if self.resources is not None:
            self._close_resources(self.resources)
        if NEWEST.last is not None:
            settled(quietly=self.failure is not None)
        if self.failure is not None:
            raise self.failure
        return self.result

    def _close_resources(self, resources: ExitStack) -> None:
        """Exit what was shared, newest first; what fails then is chained to what failed before."""
        failure = self.failure
        try:
            if failure is None:
                resources.close()
            else:
                resources.__exit__(type(failure), failure, failure.__traceback__)
        except BaseException as error:
            self.failure = error

    def _drive(self) -> None:
        """Run until the top has its value or a failure."""
        steps = self.steps
        while not self.done:
            tag, item = self._fast()
            try:
                if not self.done:
                    steps[tag](self, item)
                continue
            except BaseException as error:
                failure = error
            self._failed(item, failure)

    def _event(self, tag: Tag, item: Any) -> None:
        """Do what `_fast` left to do."""
        try:
            self.steps[tag](self, item)
            return
        except BaseException as error:
            failure = error
        self._failed(item, failure)

    def _failed(self, item: Any, failure: BaseException) -> None:
        """What `item` asked for has failed: that goes to whoever is on top now."""
        if self.gen is not None and self.log is not None:
            self.log = ((self.log, item), Raised(failure))
        self._fail(failure)

    def _fail(self, failure: BaseException) -> None:
        while True:
            strip_internal(failure, None)
            try:
                self._deliver(failure)
                return
            except BaseException as error:
                failure = error

    def _leftovers(self) -> Iterator[None]:
        """At the end: what resumptions that nobody resumed still hold, newest first, to unwind."""
        failure, result = self.failure, getattr(self, "result", None)
        while self.live:
            k, _ = self.live.popitem()
            if not k._fresh:
                continue
            if self.options.debug:
                self._warn_unresumed(k)
            self.gen = self.log = self.frames = self.failure = None
            self.mark, self.done, self.forgotten = TOP, False, k
            self._drop(k, None, None)
            yield
            failure = failure or self.failure
        self.failure, self.result = failure, result

    def _fast(self) -> tuple[Tag, Any]:
        """Run generators, calls and answering clauses; leave with any other event."""
        gen: Any = self.gen
        log, frames, sent = self.log, self.frames, self.sent
        thrown, self.error = self.error, None
        known = None if thrown is None else thrown.__traceback__
        evidence, answers = self.mark.evidence, self.mark.answers
        item: Any = None
        try:
            while True:
                try:
                    yielded = gen.send(sent) if thrown is None else gen.throw(thrown)
                except StopIteration as stop:
                    sent, thrown = stop.value, None
                    if frames.__class__ is tuple:
                        gen, frames = frames
                        sent = NONE if sent is None else sent
                        continue
                    self.gen, self.log, self.frames = None, None, frames
                    if NEWEST.last is not None:
                        settled(cast("GeneratorType[Any, Any, Any]", gen).gi_code)
                    if frames is None and self.mark is TOP:
                        self.result, self.done = sent, True
                    return RETURNED, sent
                thrown = None
                if yielded.__class__ is not tuple:
                    refuse_bare(gen, yielded)
                try:
                    tag, item = yielded
                except ValueError:
                    refuse_bare(gen, yielded)
                if tag is PERFORM:
                    try:
                        answer = answers[type(item)]
                    except KeyError:
                        answer = self._answering(item, evidence)
                    if answer is not None:
                        clause, owner = answer
                        given = clause(owner.handler, item)
                        sent = NONE if given is None else given
                        if log is not None:
                            sent, kept = self.keep(sent) if self.keep else (sent, sent)
                            log = ((log, item), kept)
                        continue
                elif tag is CALL:
                    call, args = item.function, item.args
                    callee = call(*args, **item.kwargs) if item.kwargs else call(*args)
                    if log is None:
                        frames = (gen, frames)
                    else:
                        frames = LoggedFrame(gen, (log, item), frames)
                        log = (None, item)
                    gen, sent = callee, None
                    continue
                elif tag.__class__ is not Tag:
                    refuse_bare(gen, yielded)
                self.gen, self.log, self.frames = gen, log, frames
                return tag, item
        except BaseException as error:
            self.gen, self.log, self.frames = gen, log, frames
            return RAISED, self._raised_by(gen, item, error, known)

    def _raised_by(
        self, gen: Any, item: Any, failure: BaseException, known: TracebackType | None
    ) -> BaseException:
        """Note that `gen`, or what it asked for, raised; the failure as the user is to see it."""
        if isinstance(failure, ValueError) and failure.args == ("generator already executing",):
            failure = running_elsewhere(gen)  # asking `gi_running` would be too late by now
        strip_internal(failure, known)
        if NEWEST.armed:
            forgive(failure, known)
        if gen.gi_frame is None:
            self.gen = self.log = None
        elif self.log is not None:
            self.log = ((self.log, item), Raised(failure))
        return failure

    def _answering(self, op: Operation[Any, Any], evidence: Evidence) -> Any:
        """The answering clause for `op` with its marker, if it has one; remembered."""
        owner = evidence.get(op._effect)
        clause = None if owner is None else owner.clauses.get(op._clause)
        if owner is None or clause is None:
            return None
        answers = self.mark.answers
        answers[type(op)] = (clause.function, owner) if clause.kind == ANSWER else None
        return answers[type(op)]

    def _bare(self, yielded: Any) -> None:
        refuse_bare(self.gen, yielded)

    def _nest(self, item: Computation) -> None:
        """Start a call, or what stands under a handler or a mask."""
        if self.gen is not None:
            self._suspend(item)
        self._enter(item)

    def _dropped(self, item: Drop) -> None:
        if item.resumption._fresh:
            self._suspend(item)
            self._drop(item.resumption, None, None, may_be_replaced=False)
        else:
            self._answer(item, None)

    def _call_once(self, item: Once) -> None:
        self._answer(item, item.thunk())

    def _scoped(self, item: HandlerScope) -> None:
        self._answer(item, item.act(self.mark))

    def _share(self, item: Share) -> None:
        if self.resources is None:
            self.resources = ExitStack()
        self._answer(item, self.resources.enter_context(item.thunk()))

    def _perform(self, op: Operation[Any, Any]) -> None:
        """Run a clause that `_fast` did not answer."""
        owner = self.mark.evidence.get(op._effect)
        clause = owner.clauses.get(op._clause) if owner is not None else None
        if owner is None or clause is None:
            raise unhandled(op, owner, self.mark, self._here(), self.forgotten)
        if clause.kind == FINAL and not clause.is_generator:
            self._leave(owner, clause.function, op)
            return
        handler = owner.handler
        if clause.kind == ANSWER_GENERATOR:
            self._suspend(op)
            self.mark = OutsideMarker(owner, handler).placed(self.frames, self.mark)
            self.frames = None
            again = AnswerStart(clause.function, handler, op) if self.mark.logging else None
            self._begin(clause.function(handler, op), again)
            return
        k = self._capture(owner, op, clause.kind == MULTI)
        k._final = clause.kind == FINAL
        arguments = (handler, op) if clause.kind == FINAL else (handler, op, k)
        root = ClauseStart(clause.function, handler, arguments[1:]) if self.mark.logging else None
        value = clause.function(*arguments)
        if clause.is_generator:
            self._begin(value, root)
            return
        del k, arguments, root  # so that `_end_clause` can see whether anything else holds `k`
        self._return(value)

    def _resume(self, item: Resume) -> None:
        k, value = item.resumption, item.value
        captured = k._segment
        if self.mark.logging and captured is not None and not captured.mark.logging:
            raise unlogged(k._what, self._here())
        if item.error is None and isinstance(k._item, ParFor):
            value = k._item.collect(k._item.checked(value, self._here))
        segment = k._take(self._here, self)
        if not k._multi:
            gen: Any = self.gen
            k._used_at = gen.gi_code, gen.gi_frame.f_lasti
        if k._machine.live is not None:
            k._machine.live.pop(k, None)
        self._suspend(item)
        self._place(segment, k._handler._fork())
        if item.error is None:
            self._return(value)
        else:
            self._deliver(item.error)

    def _loop(self, node: ParFor) -> None:
        """Run a parallel for: by the innermost handler's traverse clause, else by the runner."""
        owner = innermost_handler(self.mark)
        if owner is None:
            iteration = Iteration(node, self.runner, self.options)
            site = self._site_of(node)
            values = self.runner(node, iteration, lambda: place_of_site(site))
            self._answer(node, node.collect(node.checked(values, lambda: place_of_site(site))))
            return
        place = place_of_site(self._site_of(node))
        handler, traverse = owner.handler, owner.handler._traverse
        if traverse is None:
            raise no_traverse(owner, place)
        masked = masked_effects(self.mark)
        inner = node.under(masked) if masked else node
        loop: Loop[Any] = Loop(inner, handler, owner.site, place)
        k = self._capture(owner, node, handler._has_multi)
        arguments = (node.n, loop, k)
        root = ClauseStart(traverse, handler, arguments) if self.mark.logging else None
        self._begin(traverse(handler, *arguments), root)


Machine.steps = {
    RETURNED: Machine._return,
    RAISED: Machine._deliver,
    _BARE: Machine._bare,
    PERFORM: Machine._perform,
    CALL: Machine._nest,
    HANDLE: Machine._nest,
    LOOP: Machine._loop,
    RESUME: Machine._resume,
    DROP: Machine._dropped,
    ONCE: Machine._call_once,
    SHARE: Machine._share,
    SCOPE: Machine._scoped,
}


class Iteration:
    """What runs one iteration of a loop to its end, on whatever thread or process."""

    __slots__ = ("body", "options", "runner", "starts")

    def __init__(self, node: ParFor, runner: LoopRunner, options: Options) -> None:
        self.body = node.body
        self.starts = node.starts
        self.runner = runner
        self.options = options

    def __call__(self, i: int) -> Any:
        """Run iteration `i`."""
        if self.starts is not None:
            return self._perform(self.starts(i))
        result = self.body(i)
        if type(result) is Call:
            performed(result)
            return self._perform(result.function(*result.args, **result.kwargs))
        if isinstance(result, _PERFORMABLE):
            result = Machine(self.runner, self.options).run(result)
            check_performed(result, "an iteration")
        if NEWEST.last is not None:
            settled()
        return result

    def _perform(self, gen: Gen) -> Any:
        try:
            yielded = gen.send(None)
        except StopIteration as stop:  # it performed nothing: no machine is needed
            result = stop.value
            if NEWEST.last is not None:
                settled(cast("GeneratorType[Any, Any, Any]", gen).gi_code)
        else:
            result = Machine(self.runner, self.options).run_from(gen, yielded)
        if isinstance(result, Computation):
            check_performed(result, "an iteration")
        return result


for _function in (Machine._finish, Machine.perform, Iteration.__call__):
    runner(_function)
