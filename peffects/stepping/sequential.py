"""`pe.fold`, `pe.scan` and running reductions of a kernel that runs as plain Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from peffects.errors import UnknownIndexSetError
from peffects.parallel.index_sets.structures import is_index_set
from peffects.staging.hooks import states
from peffects.staging.loops import folds, lists
from peffects.staging.loops.parallel_loops import parameter_names
from peffects.staging.structures.trees import flatten, map_leaves
from peffects.staging.tracing.trace import here
from peffects.stepping.loops import Rows, as_sets, iterate, positions
from peffects.stepping.values import Accumulator, Index, Set, State, as_computed, copied

__all__ = ["Combined", "sequential_operations"]

Function = Callable[..., Any]

_RUNNING: Mapping[Function, Callable[..., NDArray[Any]]] = {
    folds.cumsum: np.add.accumulate, folds.cumprod: np.multiply.accumulate,
    folds.cummax: np.maximum.accumulate, folds.cummin: np.minimum.accumulate,
}  # fmt: skip


class SequentialSession(Protocol):
    """What is needed of the debugging run."""

    indices: list[tuple[str, tuple[Index, ...]]]

    def callee(self, function: Any) -> Any:
        """What is called in place of `function`."""

    def item(self, owner: Any, key: Any) -> Any:
        """`owner[key]`, tested."""


def sequential_operations(session: SequentialSession) -> dict[object, Function]:
    """What is called in place of the sequential loop operations."""
    loops = _Loops(session)
    found: dict[object, Function] = {
        folds.fold: loops.fold, folds.scan: loops.scan, folds.reduce: loops.reduce,
        states.state: State, lists.list_accumulator: Appended, lists.filter: loops.filter,
        lists.arg_filter: loops.arg_filter,
    }  # fmt: skip
    found.update({name: loops.running(name, f) for name, f in _RUNNING.items()})
    return found


class Appended(State):
    """What `pe.list_accumulator` makes."""

    def __init__(self, *, dtype: Any = float) -> None:
        self.name = "the list"
        self.rows = Rows()
        self.dtype = dtype

    @property
    def held(self) -> Any:
        """The table of all elements so far."""
        if not self.rows.count:
            return np.zeros(0, self.dtype)
        return self.rows.map(lambda column: column)

    def append(self, value: Any) -> None:
        """Add an element at the end."""
        self.rows.add(map_leaves(copied, value))


class Combined(State):
    """What `pe.accumulator` makes with a function as `op`."""

    def __init__(self, shape: tuple[int, ...], combine: Function, empty: Any) -> None:
        self.name = "the accumulator"
        self.function = combine
        self.held = map_leaves(lambda leaf: np.full(shape, leaf) if shape else leaf, empty)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its axes."""
        return np.shape(flatten(self.held)[0][0])  # type: ignore[call-overload,no-any-return]

    def combine(self, key: Any, value: Any) -> None:
        """Combine the element at `key` with `value`."""
        if key == ():
            self.held = self.function(self.held, value)
            return
        old = map_leaves(lambda table: np.asarray(table)[key], self.held)
        tables, new = flatten(self.held)[0], flatten(self.function(old, value))[0]
        for table, leaf in zip(tables, new, strict=True):
            np.asarray(table)[key] = leaf


class _Loops:
    def __init__(self, session: SequentialSession) -> None:
        self.session = session

    # --- rounds ----------------------------------------------------------------------------------

    def rounds(
        self,
        operation: str,
        body: Function,
        sets: Sequence[Set],
        reverse: bool,
    ) -> Rows:
        """What `body(*indices)` gives for all indices, in the order of the loop."""

        def step(place: tuple[Index, ...]) -> object:
            self.session.indices.append((f"`{operation}`", place))
            try:
                return body(*place)
            finally:
                self.session.indices.pop()

        rows = Rows()
        if not reverse:
            for value in iterate(sets, step):
                rows.add(value)
            return rows
        if any(index_set.size is None for index_set in sets):
            raise UnknownIndexSetError(
                f"nothing says before the loop where `{operation}` begins, from its last index.",
                at=here(),
                fix="Give it: `over=n`, where n is an int, a table or `x.index`.",
            )
        for place in list(positions(sets))[::-1]:
            rows.add(step(place))
        return rows

    def sets(self, function: Function, over: object, first: int) -> tuple[Set, ...]:
        if over is not None:
            return as_sets(over)
        names = parameter_names(function)[first:]
        return tuple(Set(None, f"the set of `{name}`") for name in names)

    # --- operations ------------------------------------------------------------------------------

    def fold(
        self, function: Function, init: Any, *, over: Any = None, reverse: bool = False
    ) -> Any:
        """`pe.fold`."""
        call, carry = self.session.callee(function), init

        def body(*indices: Index) -> tuple[()]:
            nonlocal carry
            carry = call(carry, *indices)
            return ()

        self.rounds("fold", body, self.sets(function, over, 1), reverse)
        return carry

    def scan(
        self,
        function: Function,
        init: Any,
        xs: Any = None,
        *,
        over: Any = None,
        reverse: bool = False,
    ) -> Any:
        """`pe.scan`."""
        call, carry = self.session.callee(function), init
        if xs is not None and (isinstance(xs, Set) or is_index_set(xs)):
            over, xs = xs, None
        sets = self.sets(function, over, 1) if xs is None else (Set(_length(xs), "`xs`"),)

        def body(*indices: Index) -> object:
            nonlocal carry
            items = indices if xs is None else (self.row(xs, *indices),)
            carry, given = folds.pair_of(call(carry, *items))
            return given

        rows = self.rounds("scan", body, sets, reverse)
        return carry, _tables(rows, sets, reverse)

    def reduce(self, function: Any, combine: Function, empty: Any, *, over: Any = None) -> Any:
        """`pe.reduce`."""
        join, value = self.session.callee(combine), empty
        if isinstance(function, np.ndarray | Accumulator | State):
            table = np.asarray(function)
            for element in table.reshape(-1):
                value = join(value, element)
            return value
        call = self.session.callee(function)
        return self.fold(lambda c, *i: join(c, call(*i)), empty, over=self.sets(function, over, 0))

    def filter(self, predicate: Function, xs: Any) -> Any:
        """`pe.filter`."""
        return self.kept("filter", predicate, xs, lambda row, i: row)

    def arg_filter(self, predicate: Function, xs: Any) -> Any:
        """`pe.arg_filter`."""
        return self.kept("arg_filter", predicate, xs, lambda row, i: i)

    def kept(self, operation: str, predicate: Function, xs: Any, what: Function) -> Any:
        """The list of what belongs to the rows for which `predicate` holds."""
        holds, found = self.session.callee(predicate), Appended(dtype=int)

        def body(index: Index) -> tuple[()]:
            row = self.row(xs, index)
            if holds(row):
                found.append(what(row, index))
            return ()

        self.rounds(operation, body, (Set(_length(xs), "`xs`"),), False)
        return found.held

    def row(self, xs: Any, index: Index) -> Any:
        if isinstance(xs, range):
            return as_computed(xs[index])
        return map_leaves(lambda leaf: self.session.item(leaf, index), xs)

    def running(self, operation: Function, accumulate: Callable[..., NDArray[Any]]) -> Function:
        """`pe.cumsum` and its kin."""

        def call(function: Any, *, over: Any = None, reverse: bool = False) -> Any:
            if isinstance(function, np.ndarray | Accumulator):
                rows, sets = np.asarray(function), as_sets(over if over is not None else function)
                found = Rows()
                for k in range(sets[0].size or 0):
                    found.add(rows[k])
            else:
                sets = self.sets(function, over, 0)
                call = self.session.callee(function)
                found = self.rounds(operation.__name__, call, sets, False)

            def combine(column: NDArray[Any]) -> NDArray[Any]:
                order = slice(None, None, -1) if reverse else slice(None)
                return accumulate(_widened(column, accumulate)[order], axis=0)[order]

            return found.map(combine)

        return call


def _widened(column: NDArray[Any], accumulate: Callable[..., NDArray[Any]]) -> NDArray[Any]:
    """Small integers as numpy sums them up."""
    if accumulate not in (np.add.accumulate, np.multiply.accumulate):
        return column
    return column.astype(np.cumsum(column[:0], axis=0).dtype)


def _tables(rows: Rows, sets: Sequence[Set], reverse: bool) -> Any:
    """The tables of what the rounds gave, each at its place."""
    shape = tuple(index_set.size or 0 for index_set in sets)

    def table(column: NDArray[Any]) -> NDArray[Any]:
        ordered = column[::-1] if reverse else column
        return ordered.reshape(shape + column.shape[1:])

    return rows.map(table)


def _length(xs: Any) -> int:
    rows: Any = xs if isinstance(xs, range) else flatten(xs)[0][0]
    return len(rows)
