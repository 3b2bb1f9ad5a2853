"""An `if` whose condition is a symbol: both sides are staged, and locals meet after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, TypeAlias

from peffects.errors import InternalError
from peffects.ir import primitives as op
from peffects.ir.syntax import Atom, Cond, Prim
from peffects.staging.loops.locals import (
    Missing,
    Tree,
    atoms_of,
    distribute,
    has_sizes_of,
    hint,
    join_trees,
    settle,
    size_is_outside,
    take,
    types_of,
)
from peffects.staging.rewriting.syntax import RESULT
from peffects.staging.scalars.symbols import to_bool
from peffects.staging.structures.indices import Mismatch
from peffects.staging.tracing.trace import Kind, OpenBlock, Trace, here, staging

__all__ = ["UNBOUND", "Branch", "Dead", "Frame", "Names", "StaticBranch", "choose"]

Names: TypeAlias = tuple[tuple[str, int], ...]
Dead: TypeAlias = tuple[str, ...]
"""Those of the names that are not read where they meet (`rewriting/liveness.py`)."""
Frame: TypeAlias = dict[str, object]

UNBOUND = object()
"""What a local has that is not assigned."""


class StaticBranch:
    """An `if` whose condition is known: one side runs."""

    traced: ClassVar[bool] = False
    ended: ClassVar[tuple[()]] = ()

    def __init__(self, condition: bool) -> None:
        self.condition = condition

    def then(self, frame: Frame) -> bool:
        """Whether the first side runs."""
        return self.condition

    def orelse(self, frame: Frame) -> bool:
        """Whether the second side runs."""
        return not self.condition


def known_here(condition: object) -> bool | None:
    """What a condition is known to be, on this side of the `if`s around that test it."""
    trace, atom = staging(), to_bool(condition)
    for scope in trace.scope.up():
        branch = scope.construct
        if isinstance(branch, Branch):
            is_first = branch.scopes[0] is scope
            if branch.pred == atom:
                return is_first
            if scope.parent is not None and _is_opposite(branch.pred, atom, scope.parent):
                return not is_first
    return None


def _is_opposite(pred: Atom, atom: Atom, scope: OpenBlock) -> bool:
    """Whether `scope` computes `pred` as `not atom`."""
    made = (b.expr for b in scope.builder.bindings if b.vars == (pred,))
    return next(made, None) == Prim(op.NOT, (atom,))


class Branch:
    """An `if` on a symbol; its methods are called in the order of their definition."""

    traced = True

    def __init__(
        self, trace: Trace, condition: object, names: Names, dead: Dead, frame: Frame
    ) -> None:
        self.trace = trace
        self.names, self.dead = names, dead
        self.src = here()
        self.pred = to_bool(condition)
        self.states = trace.open_cells()
        self.start = take(names, frame) | {cell.name: cell.value for cell in self.states}
        self.scopes: list[OpenBlock] = []
        self.ends: list[Frame] = []

    def _open(self) -> None:
        self.scopes.append(self.trace.open(Kind.BRANCH, self))

    def _end_side(self, frame: Frame) -> None:
        """Note the locals at the end of a side; its block is finished when types are known."""
        scope = self.scopes[-1]
        if self.trace.scope is not scope or scope.parent is None:
            raise InternalError("a block is still open at the end of an `if`.")
        end = {name: settle(v, scope) for name, v in take(self.names, frame).items()}
        for cell in self.states:
            end[cell.name], cell.value = cell.value, self.start[cell.name]
        self.ends.append(end)
        self.trace.scope = scope.parent

    def then(self, frame: Frame) -> bool:
        """Begin the first side."""
        self._open()
        return True

    def orelse(self, frame: Frame) -> bool:
        """End the first side and begin the second."""
        self._end_side(frame)
        self._open()
        return True

    def before(self) -> tuple[object, ...]:
        """The locals as they were before the `if`."""
        missing = "it is assigned on one side of the `if` only"
        return tuple(
            self.start[name] if name in self.start else Missing(name, missing, self.src)
            for name, _ in self.names
        )

    def merged(self, frame: Frame) -> tuple[object, ...]:
        """End the second side, emit the conditional, and give the locals after it."""
        self._end_side(frame)
        then, orelse = self.ends
        names = [*(name for name, _ in self.names), *(cell.name for cell in self.states)]
        plans = [self._plan(name, then, orelse) for name in names]
        pairs = zip(names, plans, strict=True)
        joined = {name: plan for name, plan in pairs if isinstance(plan, Tree)}
        values = [[end[name] for name in joined] for end in self.ends]
        labels = {cell.name: cell.label for cell in self.states}
        hints = [labels.get(name, name) for name in joined]
        results = iter(emit_cond(self, list(joined.values()), values, hints))
        merged = [next(results) if isinstance(plan, Tree) else plan for plan in plans]
        for cell, value in zip(self.states, merged[len(self.names) :], strict=True):
            cell.value = value
        return tuple(merged[: len(self.names)])

    def _plan(self, name: str, then: Frame, orelse: Frame) -> Tree | object:
        """How the two values of a local become one; a Tree means: by the conditional."""
        left, right = then.get(name, UNBOUND), orelse.get(name, UNBOUND)
        if left is right:
            return left if left is not UNBOUND else self._missing(name, "neither side assigns it")
        if left is UNBOUND or right is UNBOUND:
            return self._missing(name, "it is assigned on one side of the `if` only")
        joined = join_trees(left, right)
        if isinstance(joined, str):
            return self._missing(name, joined)
        if name in self.dead and not has_sizes_of(right, joined):
            return self._missing(name, "it is a table of other sizes on the other side of the `if`")
        if self._fits_outside(joined):
            return joined
        other = join_trees(right, left)  # the other side's sizes may be known outside
        if isinstance(other, Tree) and self._fits_outside(other):
            return other
        return self._missing(name, "it is a table whose size is computed inside the `if`")

    def _fits_outside(self, tree: Tree) -> bool:
        return all(size_is_outside(t, self.scopes[0]) for t in types_of(tree))

    def _missing(self, name: str, why: str) -> Missing:
        return Missing(name, why, self.src)


def emit_cond(
    branch: Branch, trees: Sequence[Tree], values: Sequence[Sequence[object]], names: Sequence[str]
) -> list[object]:
    """Finish both blocks with `values` as `trees` have them, and emit the conditional."""
    trace, blocks = branch.trace, []
    for scope, side in zip(branch.scopes, values, strict=True):
        outer, trace.scope = trace.scope, scope
        atoms: list[Atom] = []
        for value, tree, name in zip(side, trees, names, strict=True):
            atoms += atoms_of(value, tree, partial(_told, hint(name)))
        blocks.append(trace.close(scope, atoms))
        trace.scope = outer
    if not any(block.bindings or block.results for block in blocks):
        return distribute(trees, (), names)
    hints = [hint(name) for name, tree in zip(names, trees, strict=True) for _ in types_of(tree)]
    outputs = trace.emit(Cond(branch.pred, *blocks), hints, branch.src)
    return distribute(trees, outputs, names)


def _told(name: str, axis: int) -> Mismatch:
    """How it is told that the sides leave tables of different sizes."""
    return Mismatch(
        f"`{name}` has {{0}} elements along axis {axis} on this side of an `if`, and {{1}} on the "
        "other.",
        "Both sides leave tables of one size: fill up the shorter one, or go on inside of the "
        "`if`.",
    )


def choose(
    trace: Trace, condition: object, then: Callable[[], object], orelse: Callable[[], object]
) -> object:
    """A conditional expression on a symbol."""
    names = ((RESULT, 0),)
    branch = Branch(trace, condition, names, (), {})
    branch.then({})
    first = {names[0][0]: then()}
    branch.orelse(first)
    second = {names[0][0]: orelse()}
    (result,) = branch.merged(second)
    if isinstance(result, Missing):
        result.complain()
    return result
