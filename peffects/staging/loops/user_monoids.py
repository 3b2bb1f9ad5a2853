"""Accumulators and reductions that combine by a function of the user's.

`pe.reduce` combines in index order, so the function must be associative and nothing else.  An
accumulator takes what many iterations give; that is marked while loops are staged, and combined by
a second run in index order (`in_order.py`), so its function need not even be that: the result is
what a sequential program gives, for any number of threads.  The loops go on to run in parallel for
all else that they do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, cast

from peffects.errors import AccumulatorError, KernelTypeError
from peffects.ir.builder import Builder, index_var
from peffects.ir.primitives import STOP_GRADIENT
from peffects.ir.rename import refresh
from peffects.ir.syntax import (
    Accumulate,
    Atom,
    Block,
    FinSet,
    Monoid,
    Ref,
    Scalar,
    Table,
    Var,
)
from peffects.staging.loops.in_order import in_order, without_marks
from peffects.staging.loops.locals import Fixed, Tree, tree_of
from peffects.staging.structures.accumulators import MarkedReference, fit
from peffects.staging.structures.tables import place_of, value_tracer
from peffects.staging.structures.trees import LEAF, flatten, unflatten
from peffects.staging.tracing.trace import Kind, here, staging

__all__ = ["UserAccumulator", "user_accumulator"]


def user_accumulator(
    dims: tuple[FinSet, ...], combine: Callable[..., object], empty: object
) -> UserAccumulator:
    """An accumulator of elements like `empty`, one for each index of `dims`."""
    tree = tree_of(empty)
    leaves = () if isinstance(tree, str) else tree.leaves
    numbers = bool(leaves) and not any(
        isinstance(leaf, Fixed) or isinstance(leaf.type, Table) for leaf in leaves
    )
    if isinstance(tree, str) or not numbers:
        raise KernelTypeError(
            f"`empty` is {empty!r:.60}, and an accumulator with a function as `op` starts from it.",
            at=here(),
            fix="Give what leaves a value as it is, a number or a tree of numbers: `empty=0`.",
        )
    types = [leaf.type for leaf in leaves if not isinstance(leaf, Fixed)]
    return UserAccumulator(dims, combine, empty, tree, cast("list[Scalar]", types))


class UserAccumulator(MarkedReference):
    """What `pe.accumulator(n, op=combine, empty=...)` gives."""

    def __init__(
        self,
        dims: tuple[FinSet, ...],
        combine: Callable[..., object],
        empty: object,
        tree: Tree,
        elems: list[Scalar],
    ) -> None:
        trace = staging()
        self.dims, self.tree, self.elems = dims, tree, elems
        self.scope, self.name = trace.scope, "acc"
        leaves, _ = flatten(empty)
        pairs = zip(leaves, elems, strict=True)
        self.empty = [fit(leaf, elem, "`empty`") for leaf, elem in pairs]
        self.olds = [Var("old", elem) for elem in elems]
        self.news = [Var("new", elem) for elem in elems]
        self.block = self._staged(combine)
        marks = [Var("acc", Ref(Monoid.ADD, self._held(elem))) for elem in elems]
        self.marks = {mark: place for place, mark in enumerate(marks)}
        self.held = trace.accumulator(marks[0])
        self.held.finish = self._finish

    def _held(self, elem: Scalar) -> Scalar | Table:
        return Table(self.dims, elem) if self.dims else elem

    def _staged(self, combine: Callable[..., object]) -> Block:
        """The combination of `olds` and `news`, as a block."""
        trace = staging()
        call = trace.inputs.resolve(combine)
        with trace.inside(Kind.SEQUENTIAL) as scope:
            sides = [
                unflatten(self.tree.structure, [value_tracer(var) for var in side])
                for side in (self.olds, self.news)
            ]
            leaves, structure = flatten(call(*sides))
            if structure != self.tree.structure:
                raise KernelTypeError(
                    "the function that an accumulator combines with gives another structure than "
                    "`empty` has.",
                    at=here(),
                    fix="Return a value like those that it gets.",
                )
            role = "what the function of an accumulator returns"
            atoms = [fit(leaf, elem, role) for leaf, elem in zip(leaves, self.elems, strict=True)]
            return trace.close(scope, atoms)

    @property
    def type(self) -> Scalar | Table | None:  # type: ignore[override]
        """The type of its value; None if that is a tree."""
        return self._held(self.elems[0]) if self.tree.structure == LEAF else None

    def rename(self, name: str) -> None:
        """Take the name of the local that holds it first."""
        if self.name == "acc":
            self.name = name

    def what(self) -> str:
        """What it is, for messages."""
        return f"the accumulator `{self.name}`"

    def _shown(self) -> str:
        return f"<accumulator {self.name}>"

    # --- writing ---------------------------------------------------------------------------------

    def combine(self, key: object, value: object) -> None:
        """Combine the element at `key` with `value`; `key` is `()` for a single one."""
        trace = staging()
        trace.check_open(self.scope, self.what())
        items = key if isinstance(key, tuple) else (key,)
        held = self._held(self.elems[0])
        indices, bounds = place_of(self.name, held, items, False)
        if len(indices) != len(self.dims):
            raise KernelTypeError(
                f"{self.what()} has {len(self.dims)} axes and is given {len(indices)} indices.",
                at=here(),
                fix="Combine element by element, in a loop over the row's index.",
            )
        leaves, structure = flatten(value)
        if structure != self.tree.structure:
            raise KernelTypeError(
                f"what is combined into {self.what()} has another structure than `empty`.",
                at=here(),
                fix="Give a value like `empty`.",
            )
        role = f"what is combined into `{self.name}`"
        atoms = [fit(leaf, elem, role) for leaf, elem in zip(leaves, self.elems, strict=True)]
        trace.note_write(self.held)
        for mark, atom in zip(self.marks, atoms, strict=True):
            trace.emit(Accumulate(mark, indices, atom, bounds))

    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise AccumulatorError(
            f"{self.what()} combines by a function, and is written with an operator.",
            at=here(),
            fix=f"Write `{self.name}.combine(i, v)`.",
        )

    # --- reading ---------------------------------------------------------------------------------

    def _finish(self, close: Callable[[], Var]) -> None:
        """Combine, in a second run of what was marked."""
        trace = staging()
        with trace.at(self.scope):
            b = self.scope.builder
            staged = list(b.bindings)
            b.bindings[:] = without_marks(staged, self.marks)
            b.at = self.held.src
            start = [self._full(b, empty) for empty in self.empty]
            ends = in_order(b, staged, self.marks, start, self._step())
            first = ends[0]
            self.held.final = first if isinstance(first, Var) else b.prim(STOP_GRADIENT, first)
            self.value = unflatten(self.tree.structure, [value_tracer(end) for end in ends])

    def _full(self, b: Builder, empty: Atom) -> Atom:
        if not self.dims:
            return empty
        binders = tuple(index_var("i", dim.size, dim.label) for dim in self.dims)
        return b.loop(binders, Block((), (empty,)), (self.name,))[0]

    def _step(self) -> Callable[[Builder, Sequence[Atom], Accumulate], Sequence[Atom]]:
        waiting: list[Atom] = []

        def step(b: Builder, carried: Sequence[Atom], mark: Accumulate) -> Sequence[Atom]:
            waiting.append(mark.value)
            if len(waiting) < len(self.marks):
                return carried
            news, waiting[:] = list(waiting), []
            if not self.dims:
                return self._combined(b, carried, news)
            tables = [cast(Var, table) for table in carried]
            again = mark.bounds.again
            bounds = [mark.bounds, *(again for _ in tables[1:])]
            olds = [
                b.index(t, *mark.indices, bounds=x) for t, x in zip(tables, bounds, strict=True)
            ]
            made = self._combined(b, olds, news)
            pairs = zip(tables, made, strict=True)
            return [b.update(table, mark.indices, value, again) for table, value in pairs]

        return step

    def _combined(self, b: Builder, olds: Sequence[Atom], news: Sequence[Atom]) -> Sequence[Atom]:
        mapping = dict(zip((*self.olds, *self.news), (*olds, *news), strict=True))
        return b.append(refresh(self.block, mapping))
