"""Loops whose length or whose body is symbolic, written as `for` and `while` statements.

A `range` loop becomes a fold: the locals that the body assigns and that have values before it are
carried.  Their types are found by trial: the body is staged with the types of the values before
the loop; if a round ends with wider types it is staged again with those.  A `pe.par` loop becomes
a parallel loop, whose body may only read and accumulate, so it may assign no local that lives
outside.

While a kernel is staged every `range` is a fold, however short: compile time does not depend on
trip counts.  Loops over other Python sequences run while staging.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar

from peffects.errors import (
    DataRaceError,
    InternalError,
    MergeError,
    SideEffectError,
    UnsupportedSyntaxError,
)
from peffects.ir.rename import substitute
from peffects.ir.syntax import Atom, Block, Fold, For, Var, While
from peffects.parallel.index_sets.dependent import Pairs, Range
from peffects.source import SrcInfo
from peffects.staging.loops.branches import Dead, Frame, Names
from peffects.staging.loops.double_buffers import exchanged
from peffects.staging.loops.locals import (
    UNSET,
    Fixed,
    Missing,
    Tree,
    atoms_of,
    distribute,
    has_sizes_of,
    join_trees,
    made_at,
    settle,
    size_is_outside,
    take,
    tree_of,
    types_of,
)
from peffects.staging.loops.ops import ParallelLoop
from peffects.staging.loops.parallel_loops import bind_index
from peffects.staging.loops.ranges import SequentialLoop
from peffects.staging.rewriting.early_exit import until
from peffects.staging.rewriting.jumps import Stop
from peffects.staging.scalars.for_user import for_user
from peffects.staging.scalars.symbols import is_symbolic, to_bool
from peffects.staging.structures.accumulators import Told
from peffects.staging.structures.indices import IndexTracer, Mismatch, set_tracer
from peffects.staging.tracing.trace import Kind, OpenBlock, Trace, current, here

__all__ = ["FoldLoop", "ParLoop", "StaticLoop", "WhileLoop"]

_MOST_TRIALS = 6


class StaticLoop:
    """A loop over a Python sequence: it runs while staging."""

    traced: ClassVar[bool] = False
    ended: ClassVar[tuple[()]] = ()

    def __init__(self, items: Iterable[object]) -> None:
        self.items = items

    def __iter__(self) -> Iterator[object]:
        items: Iterator[object] = for_user(iter, self.items)
        trace = current()
        return items if trace is None else _counted(trace, items)

    def is_over(self, stop: object) -> bool:
        """Whether the body left the loop; a symbol that says so guards the next rounds."""
        return not is_symbolic(stop) and bool(stop)


def _counted(trace: Trace, items: Iterator[object]) -> Iterator[object]:
    """Items, each of which is a step of staging: some sequences have no end."""
    for item in items:
        trace.count_step()
        yield item


class ParLoop:
    """`for i in pe.par(...)`."""

    traced: ClassVar[bool] = True

    def __init__(
        self,
        trace: Trace,
        loop: ParallelLoop,
        names: Names,
        targets: Names,
        dead: Dead,
        frame: Frame,
        stop: Stop | None,
    ) -> None:
        self.trace, self.loop, self.stop = trace, loop, stop
        self.names, self.targets, self.dead = names, targets, dead
        self.src = here()
        self.start = take(names, frame)

    def __iter__(self) -> Iterator[object]:
        trace, domain = self.trace, self.loop.domain
        if len(domain.parts) == 1 and isinstance(domain.parts[0], Pairs):
            yield from self._rows(domain.parts[0])
            return
        sets = domain.axes
        hints = [name for name, _ in self.targets]
        hints = hints if len(hints) == len(sets) else [f"i{k}" for k in range(len(sets))]
        scope = trace.open(Kind.PARALLEL, self)
        pairs = [bind_index(s, hint, scope) for s, hint in zip(sets, hints, strict=True)]
        arguments = domain.arguments([index for _, index in pairs], len(domain.parts)) or ()
        yield arguments[0] if len(arguments) == 1 else tuple(arguments)
        block = trace.close(scope)
        trace.emit(For(tuple(var for var, _ in pairs), block), (), self.src)

    def _rows(self, pairs: Pairs) -> Iterator[object]:
        """A loop over the rows, and in it one over the row."""
        hints = [name for name, _ in self.targets]
        names = hints if len(hints) == 2 else ["i", "j"]
        sets = [pairs.outer]
        opened: list[tuple[Var, OpenBlock]] = []
        indices: list[IndexTracer] = []
        for name in names:
            index_set = set_tracer(sets[-1])
            scope = self.trace.open(Kind.PARALLEL, self)
            binder, index = bind_index(index_set, name, scope)
            opened.append((binder, scope))
            indices.append(index)
            sets.append(Range(pairs, index))
        yield tuple(indices)
        for binder, scope in reversed(opened):
            block = self.trace.close(scope)
            self.trace.emit(For((binder,), block), (), self.src)

    def is_over(self, stop: object) -> bool:
        """Never: what is staged is one iteration."""
        return False

    def enter(self) -> tuple[object, ...]:
        """The locals at the start of the body: as they are outside."""
        why = "it is assigned in each iteration of the parallel loop, and not before this place"
        return tuple(
            self.start[name] if name in self.start else Missing(name, why, self.src)
            for name, _ in self.names
        )

    def leave(self, frame: Frame) -> None:
        """Check that no local of the outside was assigned, and no iteration ends the loop."""
        if self.stop is not None and frame.get(self.stop.name) is not False:
            raise UnsupportedSyntaxError(
                f"`{self.stop.what}` leaves a parallel loop, whose iterations have no order.",
                at=_at_line(self.stop.line),
                fix="Use `range`, whose rounds follow each other; or reduce: `pe.any`, `pe.min`.",
            )
        for name, line in self.names:
            if self.stop is not None and name == self.stop.name:
                continue
            before = self.start.get(name)
            if (
                name in self.start
                and not isinstance(before, Missing)
                and frame.get(name) is not before
            ):
                raise DataRaceError(
                    f"the parallel loop assigns `{name}`, a local of the outside: a race.",
                    at=_at_line(line),
                    fix=f"To add up, make `{name} = pe.accumulator()` and write `{name} += ...`; "
                    "for a loop whose iterations follow each other, use `range`.",
                )

    def after(self) -> tuple[object, ...]:
        """The locals after the loop."""
        why = "it is assigned inside a parallel loop only"
        values = [self.start.get(name, Missing(name, why, self.src)) for name, _ in self.names]
        return (*values, *(Missing(name, why, self.src) for name, _ in self.targets))


def _at_line(line: int) -> SrcInfo:
    """Another line of the function that is running."""
    at = here()
    return SrcInfo(at.file, line, 0, at.function)


class _Carried:
    """What sequential loops share: the locals that one round hands to the next."""

    traced: bool = True

    def __init__(self, trace: Trace, names: Names, dead: Dead, frame: Frame) -> None:
        self.trace = trace
        self.names, self.dead = names, dead
        self.src = here()
        self.start = take(names, frame)
        self.hidden: dict[str, str] = {}
        self.trees: dict[str, Tree] = {}
        self.carries: list[Var] = []
        self.entry: Frame = {}
        self.results: Frame = {}
        self.ends: Frame | None = None
        self.kept_targets: list[str] = []
        for name, _ in names:
            self._plan(name)
        self.states = trace.open_cells()
        for cell in self.states:
            self.start[cell.name] = cell.value
            self._plan(cell.name)

    def _plan(self, name: str) -> None:
        """Carry the local `name` if it has a value that a loop can carry."""
        if name not in self.start:
            self.hidden[name] = "it is assigned inside the loop, and not before this place"
            return
        value = self.start[name]
        tree = tree_of(value)
        if isinstance(tree, str):
            self.hidden[name] = tree
        else:
            self.trees[name] = tree

    def labels(self) -> list[str]:
        """The names of what is carried, as users know them."""
        states = {cell.name: cell.label for cell in self.states}
        return [states.get(name, name) for name in self.trees]

    def bind_carries(self, scope: OpenBlock) -> None:
        """Fresh variables for what is carried, as the locals at the start of the body."""
        labels = self.labels()
        pairs = zip(labels, self.trees.values(), strict=True)
        self.carries = [Var(label, t) for label, tree in pairs for t in types_of(tree)]
        values = distribute(list(self.trees.values()), self.carries, labels)
        self.entry = dict(zip(self.trees, values, strict=True))

    def enter(self) -> tuple[object, ...]:
        """The locals at the start of the body; states have the values of the round, too."""
        for cell in self.states:
            cell.value = self.entry[cell.name]
        return tuple(
            self.entry[name] if name in self.entry else Missing(name, self.hidden[name], self.src)
            for name, _ in self.names
        )

    def widen(self, ends: Frame, scope: OpenBlock) -> bool:
        """Whether types had to change so that a round can hand on what it ends with."""
        changed = False
        for name, tree in list(self.trees.items()):
            end = ends.get(name, Missing(name, "it is deleted", self.src))
            joined = join_trees(self.entry[name], end)
            if isinstance(joined, Tree):
                joined = self._with_types(tree, joined, scope)
            if name in self.dead and isinstance(joined, Tree) and not has_sizes_of(end, joined):
                joined = "it is a table of other sizes before the loop and at the end of a round"
            if isinstance(joined, str):
                self.hidden[name] = joined
                del self.trees[name]
                changed = True
            elif joined != tree and (
                _is_unset(tree) or types_and_weakness(joined) != types_and_weakness(tree)
            ):
                self.trees[name] = joined
                changed = True
        return changed

    def _with_types(self, tree: Tree, joined: Tree, scope: OpenBlock) -> Tree | str:
        """The tree to carry: a leaf that the body leaves alone keeps its type.

        Of the structures that have the same leaves, a record of tables and a table of records, the
        loop carries the one that it starts with.
        """
        merged = joined
        if len(tree.leaves) == len(joined.leaves) and not _is_unset(tree):
            pairs = zip(tree.leaves, joined.leaves, strict=True)
            leaves = tuple(old if isinstance(new, Fixed) else new for old, new in pairs)
            merged = Tree(tree.structure, leaves)
        if not all(size_is_outside(t, scope) for t in types_of(merged)):
            return "it is a table whose size is computed inside the loop"
        return merged

    def end_atoms(self, ends: Frame) -> list[Atom]:
        """The atoms that a round hands on."""
        return [
            atom
            for name, tree in self.trees.items()
            for atom in atoms_of(ends[name], tree, self._told(name))
        ]

    def _told(self, name: str) -> Told:
        """How it is told that a round hands on a table of another size."""
        at = made_at(self.start[name]) or self.src
        label = dict(zip(self.trees, self.labels(), strict=True))[name]
        return lambda axis: Mismatch(
            f"`{label}` comes into a loop with {{1}} elements along axis {axis} "
            f"({at.short()}), and leaves a round of it with {{0}}.",
            "A table that a loop carries keeps its size: make it as large as it gets, and carry "
            "how much of it counts.  Over a tuple, `for _ in (0, 1, 2)`, rounds are staged one by "
            "one, and sizes may change.",
        )

    def initial_atoms(self) -> list[Atom]:
        """The atoms that the first round gets."""
        return [a for name, tree in self.trees.items() for a in atoms_of(self.start[name], tree)]

    def settle(self, frame: Frame, scope: OpenBlock) -> Frame:
        """The locals and states at the end of a round."""
        if self.trace.scope is not scope:
            raise InternalError("a block is still open at the end of a loop body.")
        frame = exchanged(self.start, frame, self.dead)
        names = (*self.names, *((name, 0) for name in self.kept_targets))
        ends = {name: settle(v, scope) for name, v in take(names, frame).items()}
        return ends | {cell.name: cell.value for cell in self.states}

    def round_ends(self) -> Frame:
        """The locals at the end of the round that was staged last."""
        ends, self.ends = self.ends, None
        if ends is None:
            raise InternalError("the body of a loop ended too early.")
        return ends

    def prune(self, ends: list[Atom], inits: list[Atom]) -> dict[Var, Atom]:
        """The carries that no round changes, and what they are."""
        triples = zip(self.carries, ends, inits, strict=True)
        return {carry: init for carry, end, init in triples if end is carry}

    def finish(self, variables: dict[Var, Atom], invariant: dict[Var, Atom]) -> None:
        """The locals after the loop: `variables` has the last value of each carry."""
        values = distribute(list(self.trees.values()), list(variables.values()), self.labels())
        self.results = dict(zip(self.trees, values, strict=True))
        place = 0
        for name, tree in self.trees.items():
            own = self.carries[place : place + len(types_of(tree))]
            place += len(own)
            if self.start[name] is not UNSET and all(carry in invariant for carry in own):
                self.results[name] = self.start[name]
        for cell in self.states:
            cell.value = self.results[cell.name]

    def value_after(self, name: str) -> object:
        """The value of a local after the loop."""
        if name in self.results:
            return self.results[name]
        return Missing(name, self.hidden.get(name, "it is assigned inside a loop only"), self.src)

    def give_up(self) -> MergeError:
        """The error when types keep changing."""
        return MergeError(
            f"the types of {', '.join(self.trees)} change with each round of the loop.",
            at=self.src,
            fix="Convert them inside the loop: `x = float(...)`.",
        )


def _is_unset(tree: Tree) -> bool:
    return any(isinstance(leaf, Fixed) and leaf.value is UNSET for leaf in tree.leaves)


def types_and_weakness(tree: Tree) -> list[object]:
    """The typed leaves, for comparison."""
    return [leaf for leaf in tree.leaves if not isinstance(leaf, Fixed)]


class FoldLoop(_Carried):
    """A `for` over a `range`, or over the elements of tables, that becomes a fold."""

    running = False

    def __init__(
        self,
        trace: Trace,
        loop: SequentialLoop,
        names: Names,
        targets: Names,
        dead: Dead,
        frame: Frame,
        stop: Stop | None,
    ) -> None:
        super().__init__(trace, names, dead, frame)
        self.loop, self.targets, self.stop = loop, targets, stop
        self.tables: tuple[Var, ...] = ()
        self._carry_targets(dict(names), frame)

    def _carry_targets(self, names: dict[str, int], frame: Frame) -> None:
        """Carry the loop's variables that have values before: a loop may run zero times."""
        for name, _ in self.targets:
            if name in frame and name not in names and not isinstance(frame[name], Missing):
                self.kept_targets.append(name)
                self.start[name] = frame[name]
                self._plan(name)

    def __iter__(self) -> Iterator[object]:
        trace, loop = self.trace, self.loop
        hint = self.targets[0][0] if self.targets else "i"
        for _ in range(_MOST_TRIALS):
            scope = trace.open(Kind.SEQUENTIAL)
            binder, index = bind_index(loop.set, hint, scope, loop.exact)
            self.bind_carries(scope)
            if self.stop is not None:
                self.entry[self.stop.name] = False  # a round that begins was not stopped
            yield loop.value(index)
            ends = self.round_ends()
            trace.scope = scope
            if not self.widen(ends, scope):
                self._emit(scope, binder, ends)
                return
            trace.scope = scope.parent or scope
        raise self.give_up()

    def leave(self, frame: Frame) -> None:
        """Note the locals at the end of the body."""
        self.ends = self.settle(frame, self.trace.scope)

    def _emit(self, scope: OpenBlock, binder: Var, ends: Frame) -> None:
        trace = self.trace
        atoms, made = self.end_atoms(ends), self.output_atoms()
        block = trace.close(scope, (*atoms, *made))
        inits = self.initial_atoms()
        invariant = self.prune(atoms, inits)
        kept = [k for k, carry in enumerate(self.carries) if carry not in invariant]
        results = (*(atoms[k] for k in kept), *made)
        body = Block(block.bindings, results)
        carries = tuple(self.carries[k] for k in kept)
        starts = tuple(inits[k] for k in kept)
        body = substitute(body, invariant)
        fold = Fold(binder, self.loop.reverse, carries, starts, body, self.running)
        stop = self._stop_carry(ends)
        loop = fold if stop is None else until(fold, stop, self.src)
        counter = () if stop is None else ("count",)
        found = trace.emit(loop, (*counter, *(carry.name for carry in carries)), self.src)
        outputs = found[len(counter) : len(counter) + len(carries)]
        self.tables = found[len(counter) + len(carries) :]
        last: dict[Var, Atom] = {carry: invariant.get(carry, carry) for carry in self.carries}
        last.update(zip(carries, outputs, strict=True))
        self.finish(last, invariant)

    def output_atoms(self) -> Sequence[Atom]:
        """What each round gives besides its carries; `tables` of it are there after the loop."""
        return ()

    def _stop_carry(self, ends: Frame) -> Var | None:
        """The carry that says that the loop is left; None if it never is."""
        if self.stop is None or ends[self.stop.name] is False:
            return None
        place = 0
        for name, tree in self.trees.items():
            if name == self.stop.name:
                break
            place += len(types_of(tree))
        return self.carries[place]

    def is_over(self, stop: object) -> bool:
        """Never: what is staged is one round."""
        return False

    def after(self) -> tuple[object, ...]:
        """The locals after the loop."""
        why = "it is the variable of a loop that may run zero times"
        values = [self.value_after(name) for name, _ in self.names]
        for name, _ in self.targets:
            kept = name in self.kept_targets
            values.append(self.value_after(name) if kept else Missing(name, why, self.src))
        return tuple(values)


class WhileLoop(_Carried):
    """A `while`.  It runs while staging until its condition is a symbol."""

    traced: bool = False
    ended: type[BaseException] | tuple[()] = ()

    def __init__(self, trace: Trace | None, names: Names, dead: Dead) -> None:
        self.given = trace, names, dead
        self.trials = 0

    def more(self, condition: Callable[[], object], frame: Frame) -> bool:
        """Whether the body runs (again)."""
        trace, names, dead = self.given
        if trace is None:
            return bool(condition())
        if self.traced:
            return not self._end_trial()
        with trace.inside(Kind.WHILE):
            value = condition()
        if not is_symbolic(value):
            trace.count_step()
            return bool(value)
        super().__init__(trace, names, dead, frame)
        self.traced = True
        return True

    def begin(self, condition: Callable[[], object]) -> None:
        """Stage the condition on what is carried, and begin the body."""
        trace = self.trace
        scope = trace.open(Kind.WHILE)
        self.test = trace.close(scope, (to_bool(condition()),))
        if any(cell.value is not self.entry[cell.name] for cell in self.states):
            raise SideEffectError(
                "the condition of a `while` sets a state.",
                at=self.src,
                fix="Set it in the body: `while True: ...` with a `break`.",
            )
        self.body_scope = trace.open(Kind.WHILE)

    def enter(self) -> tuple[object, ...]:
        """The locals at the start of a round, for the condition and the body."""
        self.shared = self.trace.open(Kind.WHILE)
        self.bind_carries(self.shared)
        return super().enter()

    def leave(self, frame: Frame) -> None:
        """Note the locals at the end of the body."""
        self.ends = self.settle(frame, self.body_scope)

    def _end_trial(self) -> bool:
        """Whether this trial was the last one."""
        trace, shared, ends = self.trace, self.shared, self.round_ends()
        self.trials += 1
        if self.trials > _MOST_TRIALS:
            raise self.give_up()
        trace.scope = self.body_scope
        if self.widen(ends, shared):
            trace.scope = shared.parent or shared
            return False
        atoms = self.end_atoms(ends)
        body = trace.close(self.body_scope, atoms)
        trace.close(shared)
        inits = self.initial_atoms()
        loop = While(tuple(self.carries), tuple(inits), self.test, body)
        outputs = trace.emit(loop, [carry.name for carry in self.carries], self.src)
        self.finish(dict(zip(self.carries, outputs, strict=True)), {})
        return True

    def after(self) -> tuple[object, ...]:
        """The locals after the loop."""
        return tuple(self.value_after(name) for name, _ in self.names)
