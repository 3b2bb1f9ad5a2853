"""Lists that parallel loops append to, and filters: compaction in index order.

What is appended is marked (`in_order.py`); how often is counted by an ordinary accumulator, in
parallel.  So the size is known before the elements are written, in a second run, in order, that
does nothing else: two passes of ordinary IR, with derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, cast

from peffects.errors import AccumulatorError, ControlFlowError, KernelTypeError
from peffects.ir import primitives as prims
from peffects.ir.builder import Builder, int_lit, zeros
from peffects.ir.syntax import (
    I64,
    Accumulate,
    Atom,
    Binding,
    Bounds,
    FinSet,
    Monoid,
    Ref,
    Scalar,
    Table,
    Var,
)
from peffects.ir.traverse import blocks_of, sizes_of
from peffects.ir.typing import tabulate, value_of
from peffects.staging.loops.branches import choose
from peffects.staging.loops.in_order import in_order, without_marks
from peffects.staging.loops.ops import each, loop_operation
from peffects.staging.loops.parallel_loops import check_function, result_atom
from peffects.staging.structures.accumulators import MarkedReference, as_table, is_table
from peffects.staging.structures.tables import TableTracer
from peffects.staging.structures.trees import LEAF, TreeDef, flatten, map_leaves, unflatten
from peffects.staging.tracing.promotion import join, scalar_of
from peffects.staging.tracing.trace import current, here, staging

__all__ = ["ListTracer", "arg_filter", "filter", "list_accumulator"]


def list_accumulator(*, dtype: object = None) -> Any:
    """A list that loops, parallel ones too, append to: `out.append(v)`; read, it is a table.

    The elements stand in the order in which a sequential program appends them.  `v` is a number, a
    row, or a tree of them, of one structure; their types are those of what is appended, or `dtype`.
    The loops that append run twice: once in parallel, to count, and once in order, to write.
    """
    if current() is None:
        raise ControlFlowError(
            "`pe.list_accumulator` is used outside a kernel.",
            at=here(),
            fix="Put it into a function decorated with `@pe.kernel`.",
        )
    elem = None if dtype is None else scalar_of(dtype)
    if dtype is not None and elem is None:
        raise KernelTypeError(
            f"lists have no dtype {dtype!r}.", at=here(), fix="Give a float, an integer or bool."
        )
    return ListTracer(elem)


class ListTracer(MarkedReference):
    """What `pe.list_accumulator` gives."""

    type = None  # known when it is read

    def __init__(self, elem: Scalar | None) -> None:
        trace = staging()
        self.elem = elem
        self.name = "list"
        self.scope = trace.scope
        self.held = trace.accumulator(Var("count", Ref(Monoid.ADD, I64)))
        self.held.finish = self._finish
        self.tree: TreeDef | None = None
        self.marks: dict[Var, tuple[int, bool]] = {}  # which leaf it is, and whether the last one

    @property
    def is_whole(self) -> bool:  # type: ignore[override]
        """Whether its elements are numbers or rows."""
        return self.tree is None or self.tree == LEAF

    def rename(self, name: str) -> None:
        """Take the name of the local that holds it first."""
        if self.name == "list":
            self.name = name

    def what(self) -> str:
        """What it is, for messages."""
        return f"the list `{self.name}`"

    def _shown(self) -> str:
        return f"<list {self.name}>"

    # --- writing ---------------------------------------------------------------------------------

    def append(self, value: object) -> None:
        """Add an element at the end."""
        trace = staging()
        trace.check_open(self.scope, self.what())
        leaves, tree = flatten(value)
        if self.tree is not None and tree != self.tree:
            raise KernelTypeError(
                f"{self.what()} gets elements of different structure.",
                at=here(),
                fix="Append tuples, dicts or dataclasses of one kind.",
            )
        if not leaves:
            raise KernelTypeError(
                f"nothing is appended to {self.what()}.", at=here(), fix="Append a value."
            )
        self.tree = tree
        atoms = [result_atom(leaf, f"what is appended to `{self.name}`") for leaf in leaves]
        trace.note_write(self.held)
        for place, atom in enumerate(atoms):
            self._check_size(atom)
            assert isinstance(atom.type, Scalar | Table)
            mark = Var(self.name, Ref(Monoid.ADD, atom.type))
            self.marks[mark] = place, place == len(atoms) - 1
            trace.emit(Accumulate(mark, (), atom, Bounds.PROVED))
        trace.emit(Accumulate(self.held.ref, (), int_lit(1), Bounds.PROVED))

    def _check_size(self, atom: Atom) -> None:
        trace = staging()
        for size in map(trace.sizes.representative, sizes_of(atom.type)):
            if isinstance(size, Var) and not trace.is_defined_around(size, self.scope):
                raise KernelTypeError(
                    f"{self.what()} gets rows of different lengths.",
                    at=here(),
                    fix="Append numbers, or rows whose size is known where the list is made.",
                )

    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise AccumulatorError(
            f"an element of {self.what()} is set.", at=here(), fix="Lists only grow: `append(v)`."
        )

    # --- reading ---------------------------------------------------------------------------------

    def _finish(self, close: Callable[[], Var]) -> None:
        """Count what is appended, then write it; `close` gives the final count."""
        trace = staging()
        with trace.at(self.scope):
            bindings = self.scope.builder.bindings
            staged = list(bindings)
            bindings[:] = without_marks(staged, self.marks)
            count = close()
            trace.size_homes[count] = self.scope
            self.scope.nonnegative.add(count)
            types = self._types(staged)
            b = self.scope.builder
            b.at = self.held.src
            size = FinSet(count)
            start = [zeros(b, tabulate((size,), t)) for t in types]
            ends = in_order(b, staged, self.marks, (int_lit(0), *start), self._step(types))
            tables = [TableTracer(cast(Var, end), self.scope, self.name) for end in ends[1:]]
            self.value = unflatten(self.tree or LEAF, tables)

    def _step(self, types: Sequence[Scalar | Table]) -> Any:
        def step(b: Builder, carried: Sequence[Atom], mark: Accumulate) -> Sequence[Atom]:
            leaf, is_last = self.marks[mark.ref]
            place, *tables = carried
            t, value = types[leaf], mark.value
            if isinstance(t, Scalar) and value.type != t:
                value = b.prim(prims.CAST[t], value, name=self.name)
            old = tables[leaf]
            assert isinstance(old, Var), "there are no literal tables"
            tables[leaf] = b.update(old, (place,), value, Bounds.UNCHECKED)
            if is_last:
                place = b.prim(prims.ADD, place, int_lit(1), name="place")
            return place, *tables

        return step

    def _types(self, bindings: Iterable[Binding]) -> list[Scalar | Table]:
        """The types of the leaves, in which all that is appended meets."""
        found: dict[int, Scalar | Table] = {}
        for mark in _marks(bindings, self.marks):
            leaf, _ = self.marks[mark]
            found[leaf] = self._met(found.get(leaf), value_of(mark))
        if not found and self.elem is None:
            raise KernelTypeError(
                f"nothing is appended to {self.what()}, so its type is not known.",
                at=self.held.src,
                fix="Say it: `pe.list_accumulator(dtype=float)`.",
            )
        if not found:
            assert self.elem is not None
            return [self.elem]
        return [found[leaf] for leaf in sorted(found)]

    def _met(self, known: Scalar | Table | None, t: Scalar | Table) -> Scalar | Table:
        if isinstance(t, Scalar) and self.elem is not None:
            if t.is_float and not self.elem.is_float:
                raise KernelTypeError(
                    f"a float is appended to {self.what()}, which holds {self.elem}.",
                    at=self.held.src,
                    fix="Use `dtype=float`, or append `int(...)`.",
                )
            return self.elem
        if known is None or known == t:
            return t
        if isinstance(known, Scalar) and isinstance(t, Scalar):
            return join(known, False, t, False)[0]
        raise KernelTypeError(
            f"{self.what()} gets elements of different types.",
            at=self.held.src,
            fix="Append numbers, or rows of one length and type.",
        )


def _marks(bindings: Iterable[Binding], marks: dict[Var, tuple[int, bool]]) -> Iterable[Var]:
    for binding in bindings:
        if isinstance(binding.expr, Accumulate) and binding.expr.ref in marks:
            yield binding.expr.ref
        for block in blocks_of(binding.expr):
            yield from _marks(block.bindings, marks)


# --- filters -------------------------------------------------------------------------------------


def _filtered(operation: str, predicate: object, xs: object, kept: Callable[..., object]) -> Any:
    """The list of `kept(row, index)` for the rows of `xs` for which `predicate` holds."""
    check_function(operation, predicate)
    leaves, _ = flatten(xs)
    if not leaves or not all(map(is_table, leaves)):
        raise KernelTypeError(
            f"`{operation}` runs over {xs!r:.60}, which has no rows.",
            at=here(),
            fix="Give a table, or a tuple of tables.",
        )
    trace = staging()
    holds = trace.inputs.resolve(cast(Any, predicate))
    found = ListTracer(None)

    def visit(i: object) -> None:
        row = map_leaves(lambda leaf: as_table(leaf)[i], xs)
        choose(trace, holds(row), lambda: found.append(kept(row, i)), lambda: None)

    each(visit, over=as_table(leaves[0]).index_set)
    return found.read()


@loop_operation
def filter(predicate: object, xs: Any) -> Any:
    """The rows of `xs` for which `predicate(row)` holds, in their order.

    `xs` is a table or a tree of tables; so is the result, whose size is known after the loop.
    """
    return _filtered("filter", predicate, xs, lambda row, i: row)


@loop_operation
def arg_filter(predicate: object, xs: Any) -> Any:
    """The indices of the rows of `xs` for which `predicate(row)` holds, as ints, in order."""
    return _filtered("arg_filter", predicate, xs, lambda row, i: i)
