"""The parallel `for` while staging: one iteration is staged, and answers are tables.

`pfor` in a kernel makes a `StagedFor`.  Handlers meet it as in the machine, innermost first; what
their traverse clauses do with the answers of single iterations is said here for tables of answers
(`STAGED_TRAVERSE`): a sum of parts is a reduction, the first error a minimum of indices.  Other
traverse clauses run as they are written, on a table in place of the list of answers.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from peffects.errors import KernelEffectError
from peffects.handlers.accum import accumulate
from peffects.handlers.throw import weak_exceptions
from peffects.handlers.traversal import foreign_answer
from peffects.ir import primitives as op
from peffects.ir.syntax import Lit, Monoid
from peffects.machine.checking.locations import Site
from peffects.machine.checking.never_performed import made
from peffects.machine.handling.handler import (
    BasicHandler,
    CollectHandler,
    Handled,
    Handler,
    SplitHandler,
)
from peffects.machine.handling.masking import Masked
from peffects.machine.handling.operations import Eff, Effect, check_performed
from peffects.machine.resuming.loop_starts import as_it_is, copied
from peffects.machine.resuming.parallel_for import Body, ParFor, watch
from peffects.machine.resuming.resumption import Resumption
from peffects.parallel import monoid as monoids
from peffects.source import SrcInfo
from peffects.staging.effects.clauses import staged_callee, staged_function
from peffects.staging.loops.locals import Missing
from peffects.staging.loops.parallel_loops import finish_reduction, trace_body
from peffects.staging.loops.tree_tables import TreeTable, finish_tree_table
from peffects.staging.scalars.symbols import binary, compare, select
from peffects.staging.structures.domains import as_sets
from peffects.staging.structures.indices import IndexSetTracer
from peffects.staging.structures.results import Err, Ok, Outcome
from peffects.staging.structures.tables import TableTracer
from peffects.staging.tracing.trace import here, staging

__all__ = ["ConditionalExit", "StagedFor", "StagedLoop", "run_loop", "staged_pfor", "traverse_of"]

Traverse: TypeAlias = Callable[..., Generator[Any, Any, Any]]


@dataclass(frozen=True, slots=True)
class ConditionalExit:
    """An exit to the handler of a traverse clause, after its loop: if `flag`, with `answer()`."""

    flag: object
    answer: Callable[[], object]


class StagedSet:
    """What a staged loop runs over."""

    _pe_symbolic: ClassVar[bool] = True

    def __init__(self, over: object) -> None:
        self.over = over
        self.sets = as_sets(over)

    def __repr__(self) -> str:
        return "<the index set of a parallel for>"

    def __len__(self) -> int:
        return self.sets[0].__len__()  # refuses: it is known only when the program runs


class StagedFor(ParFor):
    """A parallel `for` in a kernel; `shown` says that a user gets its answers."""

    __slots__ = ("shown",)

    def __init__(
        self,
        n: StagedSet,
        body: Callable[[Any], Any],
        shown: bool,
        place: Site | SrcInfo | None = None,
    ) -> None:
        super().__init__(n, body, place)
        self.shown = shown

    def collect(self, values: Any) -> Any:
        """The loop's value for whoever performed it."""
        table = TreeTable.of(values, self.n.sets)
        if table is None:
            raise KernelEffectError(
                f"a traverse clause continues with {values!r:.80} after a loop of a kernel.",
                at=here(),
                fix="Give `k` the table of values: `k(answers)`, or a table made of it.",
            )
        return table.shown() if self.shown else table

    def masking(self, masked: tuple[type[Effect], ...]) -> StagedFor:
        """The loop with those effects masked in each iteration."""
        body = self.body
        return StagedFor(self.n, lambda i: Masked(masked, Body(body, i)), self.shown, self.place)


class StagedLoop:
    """What a traverse clause runs the loop with; see `Loop` of `machine/`."""

    def __init__(
        self,
        node: StagedFor,
        handler: Handler[Any, Any],
        site: Site | SrcInfo,
        place: SrcInfo,
        ours: bool,
    ) -> None:
        self._node, self._handler, self._site, self._place = node, handler, site, place
        self._shown = not ours

    def __call__(self, start_at: Any = None, *, on_tick: object = None) -> Eff[Any, Any]:
        """Run all iterations, each under a fork of the handler, or under `start_at(i)`."""
        site, body = self._site, self._node.body
        if start_at is not None and not callable(start_at):
            raise KernelEffectError(
                "a traverse clause gives a list of handlers to start iterations with.",
                at=self._place,
                fix="Give a function of the index: `loop(lambda i: self._with(...))`.",
            )
        handler = self._handler._fork()
        watched = watch(handler, site, self._place) if start_at is None else None
        here = watched if watched is not None and watched.asks_here else None
        at = None if start_at is None else copied(start_at, {id(self._handler): handler}, as_it_is)

        def under_handler(i: Any) -> Handled:
            return Handled(handler if at is None else at(i), Body(body, i), site, watch=here)

        under = StagedFor(self._node.n, under_handler, self._shown, self._place)
        return made(under)  # type: ignore[arg-type]


def staged_pfor(n: Any, body: Any) -> StagedFor:
    """`pfor` in a kernel: over index sets, `x.index`, or the rows of a table."""
    trace = staging()
    call = trace.inputs.resolve(body)
    value = trace.inputs.capture(n)
    if isinstance(value, list | tuple | range | str):
        raise KernelEffectError(
            f"`pfor` over a {type(value).__name__} in a kernel.",
            at=here(),
            fix="Loop over an array, `Fin(n)` or `x.index`.",
        )

    def at_index(index: object) -> object:
        return call(value[index] if isinstance(value, TableTracer) else index)

    return made(StagedFor(StagedSet(value), at_index, True, here()))


def run_loop(iterate: Callable[[Body], object], node: StagedFor) -> TreeTable:
    """Stage one iteration of a loop without handlers; the table of its values."""

    def iteration(i: object) -> object:
        value = iterate(Body(node.body, i))
        check_performed(value, "an iteration")
        return value

    with trace_body("pfor", iteration, node.n.over) as body:
        table = finish_tree_table(body, node.n.sets)
    return table


# --- traverse clauses --------------------------------------------------------------------------


def _basic(self: Any, n: StagedSet, loop: StagedLoop, k: Resumption[Any, Any]) -> Any:
    values = yield from loop()
    return (yield from k(values))


def _split(self: Any, n: StagedSet, loop: StagedLoop, k: Resumption[Any, Any]) -> Any:
    split = staged_function(type(self).split)
    values = yield from loop(split(self, n))
    return (yield from k(values))


def _collect(self: Any, n: StagedSet, loop: StagedLoop, k: Resumption[Any, Any]) -> Any:
    answers = yield from loop()
    collect = staged_function(type(self).collect)
    return (yield from k(collect(self, answers.shown())))


def _accumulate(self: Any, n: StagedSet, loop: StagedLoop, k: Resumption[Any, Any]) -> Any:
    """Each iteration starts empty; the parts are combined: by a reduction where there is one."""
    answers = yield from loop(lambda i: self._with(total=self.empty))
    if not isinstance(answers.columns, tuple) or len(answers.columns) != 2:
        raise foreign_answer(self, answers.columns, here())
    parts, values = answers.part(0), answers.part(1)
    self.total = combined(self.combine, self.total, parts)
    return (yield from k(values))


def _first_error(self: Any, n: StagedSet, loop: StagedLoop, k: Resumption[Any, Any]) -> Any:
    """The first error in index order ends the rest."""
    answers = yield from loop()
    match answers.columns:
        case Ok(value):
            return (yield from k(answers.with_columns(value)))
        case Err(error):
            nothing = Missing("an element of the table", "every iteration ends early", here())
            flags, values, errors = None, answers.with_columns(nothing), answers.with_columns(error)
        case Outcome(ok, value, error):
            flags, values, errors = ok, answers.with_columns(value), answers.with_columns(error)
        case other:
            raise foreign_answer(self, other, here())
    machine: Any = staging().effects
    if flags is None and all(map(_has_elements, answers.sets)):
        machine.pending = ConditionalExit(True, lambda: Err(errors.at_ordinal(0)))
    else:
        first, size = _first_failure(flags, answers.sets)
        failed = compare(op.LT, first, size)
        machine.pending = ConditionalExit(failed, lambda: Err(errors.at_ordinal(first)))
    return (yield from k(values))


def _has_elements(index_set: IndexSetTracer) -> bool:
    size = staging().sizes.representative(index_set.atom)
    return isinstance(size, Lit) and size.value > 0


def _first_failure(flags: Any, sets: Sequence[IndexSetTracer]) -> tuple[object, object]:
    """The ordinal of the first iteration that failed, and the number of all."""
    size: object = 1
    for index_set in sets:
        size = binary(op.MUL, size, index_set.size)

    def failed_at(indices: Any) -> object:
        parts = indices if isinstance(indices, tuple) else (indices,)
        ordinal: object = 0
        for index, index_set in zip(parts, sets, strict=True):
            ordinal = binary(op.ADD, binary(op.MUL, ordinal, index_set.size), index)
        return ordinal if flags is None else select(flags[parts], size, ordinal)

    with trace_body("min", failed_at, sets) as body:
        first = finish_reduction(body, Monoid.MIN)
    return first, size


STAGED_TRAVERSE: dict[type, Traverse] = {
    BasicHandler: _basic,
    SplitHandler: _split,
    CollectHandler: _collect,
    accumulate: _accumulate,
    weak_exceptions: _first_error,
}
"""For classes that define `traverse`: what it is on tables of answers."""


def traverse_of(handler: Handler[Any, Any]) -> tuple[Traverse | None, bool]:
    """The traverse clause to run while staging, and whether it is one of these."""
    for kind in type(handler).__mro__:
        if "traverse" in vars(kind) and kind in STAGED_TRAVERSE:
            return STAGED_TRAVERSE[kind], True
        if "traverse" in vars(kind):
            break
    return handler._traverse, False


# --- combining parts -----------------------------------------------------------------------------

_MONOIDS: dict[object, Monoid] = {
    operator.add: Monoid.ADD, float.__add__: Monoid.ADD, int.__add__: Monoid.ADD,
    np.add: Monoid.ADD,
    operator.mul: Monoid.MUL, float.__mul__: Monoid.MUL, int.__mul__: Monoid.MUL,
    np.multiply: Monoid.MUL, monoids.MAX.combine: Monoid.MAX, monoids.MIN.combine: Monoid.MIN,
    max: Monoid.MAX, min: Monoid.MIN, np.maximum: Monoid.MAX, np.minimum: Monoid.MIN,
    operator.and_: Monoid.AND, operator.or_: Monoid.OR, np.logical_and: Monoid.AND,
    np.logical_or: Monoid.OR,
}  # fmt: skip
"""Operations that a reduction of the IR combines with, in any order."""


def combined(combine: Callable[[Any, Any], Any], total: Any, parts: TreeTable) -> Any:
    """`total` combined with all parts: a reduction, or a fold in index order."""
    monoid = _MONOIDS.get(combine)
    call = staged_callee(combine)
    if monoid is None or not isinstance(parts.columns, TableTracer):
        return _folding()(call, total, parts)
    column = parts.columns
    with trace_body("sum", lambda i: column[i], parts.sets) as body:
        reduced = finish_reduction(body, monoid)
    return call(total, reduced)


def _fold(combine: Callable[[Any, Any], Any], total: Any, parts: Any) -> Any:
    for part in parts:
        total = combine(total, part)
    return total


@functools.cache
def _folding() -> Callable[..., Any]:
    return staged_function(_fold)
