"""Rebuilding a frame for a further world: run it again with the answers that it got before.

A log is a linked list, newest entry last: `(None, start)`, then alternately what the frame yielded
and the answer; the last entry is the item that the frame waits for.  Only the frame itself runs
again, not the calls it made: their results are answers.  Layer 1.
"""

from __future__ import annotations

import ast
import enum
import functools
import itertools
from collections.abc import Callable, Collection
from operator import attrgetter
from types import GeneratorType, TracebackType
from typing import Any, NamedTuple

from peffects.errors import NotReplayable, ReplayDivergence
from peffects.function_trees import FunctionNode, find_source
from peffects.machine.checking.locations import suspended_place
from peffects.machine.checking.never_performed import performed
from peffects.machine.handling.awaiting import Await
from peffects.machine.handling.handler import Handled, Handler
from peffects.machine.handling.masking import Masked
from peffects.machine.handling.operations import Call, Computation, Operation, describe_start
from peffects.machine.resuming.answer_log import Kept, Raised
from peffects.machine.resuming.frames import (
    ClauseEnd,
    Frames,
    Gen,
    HandlerMarker,
    Log,
    LoggedFrame,
    Marker,
    MaskMarker,
    OutsideMarker,
)
from peffects.machine.resuming.parallel_for import Loop
from peffects.machine.resuming.refusals import not_replayable_resource
from peffects.machine.resuming.resumption import Drop, Resume, Resumption
from peffects.machine.resuming.variables import Left, depends_on_maker
from peffects.source import of_code

__all__: list[str] = []

_PLAIN = (int, float, complex, str, bytes, bool, type(None), enum.Enum)


class AnswerStart:
    """How to start a generator clause without `k` again, on the handler of its world."""

    __slots__ = ("function", "operation", "state")

    def __init__(self, function: Any, handler: Handler[Any, Any], operation: Any) -> None:
        self.function = function
        self.operation = operation
        self.state = dict(handler.__dict__)

    def to(self, operation: Any) -> AnswerStart:
        """The start of the clause for another operation, of another world."""
        start = AnswerStart.__new__(AnswerStart)
        start.function, start.operation, start.state = self.function, operation, self.state
        return start

    def restart(self, mark: Marker) -> Gen:
        """Start on the handler that `mark` answers for, put back to the state it had then."""
        assert isinstance(mark, OutsideMarker), "invariant: such a clause stands on its marker"
        handler = mark.owner.handler
        handler.__dict__.clear()
        handler.__dict__.update(self.state)
        mark.handler = handler
        gen: Gen = self.function(handler, self.operation)
        return gen


class ClauseStart:
    """How to start a clause with `k` again: with a fork of its handler, a fresh `k` and `loop`."""

    __slots__ = ("arguments", "function", "handler")

    def __init__(
        self, function: Any, handler: Handler[Any, Any], arguments: tuple[Any, ...]
    ) -> None:
        self.function = function
        self.handler = handler._fork()
        # Not `k` itself: the clause's end asks whether anybody holds that.
        self.arguments = _twins(arguments, self.handler)

    def restart(self, _: Marker) -> Gen:
        """Start the clause for another world."""
        handler = self.handler._fork()
        gen: Gen = self.function(handler, *_twins(self.arguments, handler))
        return gen


def _twins(arguments: tuple[Any, ...], handler: Handler[Any, Any]) -> tuple[Any, ...]:
    return tuple(a._twin(handler) if isinstance(a, Resumption | Loop) else a for a in arguments)


def _depends(root: Any) -> bool:
    """Whether functions in what a frame was asked for share variables with who asked."""
    if isinstance(root, AnswerStart):
        return depends_on_maker(root.operation)
    if not isinstance(root, Call):
        return False
    plain = all(isinstance(a, _PLAIN) for a in (*root.args, *root.kwargs.values()))
    return not (plain and root.function.__closure__ is None) and depends_on_maker(root)


class Script:
    """A log made ready for running its frame again.

    A step is: the answer to send, the item that the frame asks for then, how to see quickly that
    a new item is the same (its plain parts, and what they have to be), and what is to be done with
    the new item, which nobody performs.
    """

    __slots__ = ("depends", "root", "steps")

    def __init__(self, log: Log) -> None:
        self.root, *rest = entries_of(log)
        if isinstance(self.root, GeneratorType):
            raise NotReplayable(
                f"`{self.root.__name__}` has to run again for a further world, but it is a bare"
                " generator object.",
                at=of_code(self.root.gi_code),
                fix="Decorate its function with @effectful, and pass the call.",
            )
        answers = [None, *rest[1::2]]
        items = rest[::2]
        self.steps = [
            (answer, item, *_plain_parts(item), _settling(item))
            for answer, item in zip(answers, items, strict=True)
        ]
        self.depends = _depends(self.root)


def rebuild(frame: LoggedFrame, mark: Marker) -> tuple[Gen, LoggedFrame]:
    """A generator that stands where the frame stood, and that frame as its world has it.

    Where functions in what the frame was asked for share variables with the frame that asked, that
    one is rebuilt first, and asks again: O(depth) then, as a rule O(1).
    """
    makers = []
    at = _maker(frame, mark)
    while at is not None:
        makers.append(at)
        at = _maker(at.frame, at.mark)
    if not makers:
        script = _script(frame)
        return _run_again(script, script.root, mark)[0], frame
    last = makers[-1]
    script = _script(last.frame)
    gen, item = _run_again(script, script.root, last.mark)
    made = LoggedFrame(gen, (last.frame.log[0], item), last.frame.below)
    for maker, asked in zip(reversed(makers), [*reversed(makers[:-1]), None], strict=True):
        old, mark_of_old = (frame, mark) if asked is None else (asked.frame, asked.mark)
        if maker.above is not None:
            maker.above.frames = _on_top_of(made, maker.between)
        script = _script(old)
        root = _start_in(item, script.root)
        gen, item = _run_again(script, root, mark_of_old)
        log = log_of([root, *entries_of(old.log)[1:-1], item])
        made = LoggedFrame(gen, log, made if maker.above is None else None)
    return gen, made


class _Maker(NamedTuple):
    """The frame that asked for another one: its marker, and the lowest one between the two.

    `between` are the frames of clauses, below that marker, that wait for what they resumed.
    """

    frame: LoggedFrame
    mark: Marker
    above: Marker | None
    between: tuple[LoggedFrame | ClauseEnd, ...] = ()


def _maker(frame: LoggedFrame, mark: Marker) -> _Maker | None:
    """Who asked for `frame`, if that shares variables with functions in what it asked for.

    As a rule it is the next frame; clauses that resumed this one since may wait between the two.
    """
    script = _script(frame)
    if not script.depends:
        return None
    below, above = frame.below, None
    between = list[LoggedFrame | ClauseEnd]()
    while True:
        if below is None and isinstance(mark, HandlerMarker | MaskMarker | OutsideMarker):
            assert mark.below is not None, "invariant: the bottom is a marker of its own"
            below, above, mark = mark.frames, mark, mark.below
            between.clear()
        elif isinstance(below, LoggedFrame) and _asks_for(below.log[1], script.root):
            return _Maker(below, mark, above, tuple(between))
        elif above is not None and isinstance(below, LoggedFrame | ClauseEnd):
            between.append(below)
            below = below.below
        else:
            return None


def _on_top_of(frames: Frames, above: tuple[LoggedFrame | ClauseEnd, ...]) -> Frames:
    """`above`, from the top down, on these frames."""
    for old in reversed(above):
        if isinstance(old, ClauseEnd):
            frames = ClauseEnd(old.k, frames)
        else:
            made = LoggedFrame(None, old.log, frames)
            made.live, old.live = old.live, []
            frames = made
    return frames


def _asks_for(item: Any, root: Any) -> bool:
    """Whether a frame with this root was started for `item`."""
    if isinstance(root, AnswerStart):
        return root.operation is item
    inner = _under_handlers(item)
    return inner is root or (isinstance(root, Call) and bool(root.args) and root.args[0] is inner)


def _under_handlers(item: Any) -> Any:
    while isinstance(item, Handled | Masked):
        item = item.computation
    return item


def _start_in(item: Any, root: Any) -> Any:
    """What starts in place of `root` when `item` is asked for in place of what it was."""
    if isinstance(root, AnswerStart):
        return root.to(item)
    return describe_start(_under_handlers(item))


def _script(frame: LoggedFrame) -> Script:
    script: Script | None = frame.script
    if script is None:
        script = frame.script = Script(frame.log)
    return script


def _run_again(script: Script, root: Any, mark: Marker) -> tuple[Gen, Any]:
    """A generator that stands at the end of the script, and what it asks for there."""
    gen: Gen = root.restart(mark)
    before: Any = None
    found: Any = None
    for answer, item, parts_of, parts, settle in script.steps:
        if answer.__class__ is Left:
            answer.variables.put_into(found)
            answer = answer.answer
        if isinstance(answer, Kept):
            answer = answer.again(before, functools.partial(suspended_place, gen))
        try:
            yielded = gen.throw(answer.error) if answer.__class__ is Raised else gen.send(answer)
        except StopIteration as stop:
            raise _divergence(root, item, f"it returned {stop.value!r}") from None
        except BaseException as error:
            if _enters(error):
                raise not_replayable_resource(error) from error
            raise _divergence(root, item, f"it raised {error!r}") from error
        found = yielded[1] if yielded.__class__ is tuple else yielded
        if found is not item:
            try:
                quickly = found.__class__ is item.__class__ and parts_of(found) == parts
            except (TypeError, ValueError):  # parts that are no longer plain
                quickly = False
            if not quickly and not _same(found, item):
                raise _divergence(gen, item, repr(found))
            if settle is not None:
                settle(found)
        before = item
    return gen, found


def _plain_parts(item: Any) -> tuple[Callable[[Any], Any], Any]:
    """How to get the plain parts of an item, and what they are; never equal where more counts."""
    if isinstance(item, Operation):
        fields = type(item)._fields
        names = [name for name in fields if isinstance(getattr(item, name), _PLAIN)]
    elif isinstance(item, Call) and all(isinstance(a, _PLAIN) for a in item.args):
        names = ["function", "args"]
    else:
        return id, None
    parts_of = attrgetter(*names or ["__class__"])
    return parts_of, parts_of(item)


def _settling(item: Any) -> Callable[[Any], None] | None:
    if isinstance(item, Resume | Drop):
        return _mark_used
    if isinstance(item, Await):
        return Await.forget
    for part in _parts(item):
        if isinstance(part, Computation):
            return _hand_on
    return None


def _parts(item: Any) -> Collection[Any]:
    if isinstance(item, Call):
        return [*item.args, *item.kwargs.values()]
    if isinstance(item, Handled | Masked):
        return (item.computation,)
    return item._values() if isinstance(item, Operation) else ()


def _hand_on(item: Any) -> None:
    """Nobody has forgotten what the item holds: it was performed, or not, the first time."""
    for part in _parts(item):
        if isinstance(part, Computation):
            performed(part)
            _hand_on(part)


def _enters(error: BaseException) -> bool:
    """Whether the error came out of the head of a `with`: making what it enters, or entering."""
    entry = error.__traceback__
    while entry is not None:
        source = find_source(entry.tb_frame.f_code)
        if source is not None and _in_head_of_with(source.node, _place_in(entry)):
            return True
        entry = entry.tb_next
    return False


def _in_head_of_with(function: FunctionNode, place: tuple[int, int]) -> bool:
    return any(
        (node.lineno, node.col_offset) <= place < (node.body[0].lineno, node.body[0].col_offset)
        for node in ast.walk(function)
        if isinstance(node, ast.With)
    )


def _place_in(entry: TracebackType) -> tuple[int, int]:
    """Line and column at which the frame of `entry` raised."""
    positions = entry.tb_frame.f_code.co_positions()
    line, _, column, _ = next(itertools.islice(positions, entry.tb_lasti // 2, None))
    return line or entry.tb_lineno or 0, column or 0


def log_of(entries: list[Any]) -> Log:
    """The log with these entries, oldest first."""
    log: Any = None
    for entry in entries:
        log = log, entry
    return log  # type: ignore[no-any-return]


def entries_of(log: Log) -> list[Any]:
    """What is in a log, oldest first."""
    entries = []
    rest: Any = log
    while rest is not None:
        rest, entry = rest
        entries.append(entry)
    entries.reverse()
    return entries


def _mark_used(item: Resume | Drop) -> None:
    k = item.resumption
    k._fresh = False
    if not k._multi:
        k._token.clear()


def _divergence(where: Any, expected: object, found: str) -> ReplayDivergence:
    """`where` is the generator where it stands now, or what started it when it has ended."""
    error = ReplayDivergence(
        f"a frame that runs again for a further world did something else: before it performed"
        f" {expected!r}, now {found}.",
        fix="Code between operations must give the same each time: make what varies an operation"
        " (`uniform()`), or wrap it: `yield from once(lambda: ...)`.",
    )
    if isinstance(where, GeneratorType):
        error.at = suspended_place(where)
    elif hasattr(where, "function"):
        error.at = of_code(where.function.__code__)
    return error


def _same(found: Any, expected: Any) -> bool:
    """Whether a frame asks again for what it asked for: class, callee and plain arguments."""
    if type(found) is not type(expected):
        return False
    if isinstance(found, Call):
        return _same_function(found.function, expected.function) and _same_values(
            found.args, expected.args
        )
    if isinstance(found, Operation):
        return _same_values(found._values(), expected._values())
    if isinstance(found, Handled):
        return type(found.handler) is type(expected.handler)
    return isinstance(found, Computation)


def _same_function(a: Any, b: Any) -> bool:
    """A frame that defines functions makes new ones of the same code when it runs again."""
    return a is b or (a.__code__ == b.__code__ and a.__qualname__ == b.__qualname__)


def _same_values(found: Collection[Any], expected: Collection[Any]) -> bool:
    """Compares plain values; others may be fresh objects of each world and are taken as equal."""
    return len(found) == len(expected) and all(map(_same_value, found, expected))


def _same_value(a: Any, b: Any) -> bool:
    if a is b or not (isinstance(a, _PLAIN) and isinstance(b, _PLAIN)):
        return True
    return bool(a == b) or (a != a and b != b)  # two NaNs are the same answer
