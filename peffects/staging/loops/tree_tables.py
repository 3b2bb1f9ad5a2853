"""Tables of structures: one table for each number in the structure, and constants as they are.

What a loop body gives that is more than one number becomes a `TreeTable`: `t[i]` is the structure
again.  In results of a program it is the structure of arrays; where an entry is `Ok` or `Err`, or
holds a constant, it is a `Table` of the entries.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import ClassVar, NoReturn

import numpy as np

from peffects.errors import ControlFlowError
from peffects.ir import primitives as op
from peffects.ir.syntax import For, Var
from peffects.parallel.index_sets.index_set import Fin, IndexSet, Product
from peffects.parallel.table import Table
from peffects.staging.loops.locals import leaf_type, settle
from peffects.staging.loops.parallel_loops import LoopBody, check_rows, result_atom
from peffects.staging.loops.ranges import HasElements, SequentialLoop
from peffects.staging.scalars.symbols import binary
from peffects.staging.structures.accumulators import is_table
from peffects.staging.structures.constants import ConstantColumn, ConstantTracer, number_of
from peffects.staging.structures.domains import as_sets
from peffects.staging.structures.indices import IndexSetTracer, IndexTracer
from peffects.staging.structures.records import is_static
from peffects.staging.structures.results import is_outcome
from peffects.staging.structures.tables import TableTracer, value_tracer
from peffects.staging.structures.trees import (
    OWN,
    Composite,
    Parts,
    RecordTable,
    flatten,
    is_tree,
    map_leaves,
    parts_of,
    tabulated,
    unflatten,
)
from peffects.staging.tracing.trace import current, here, staging

__all__ = ["TreeTable", "finish_tree_table"]


class TreeTable(HasElements):
    """For each index of `sets` the structure `columns`, with an element of each table in it."""

    _pe_symbolic: ClassVar[bool] = True

    def __init__(self, columns: object, sets: Sequence[IndexSetTracer]) -> None:
        self.columns = columns
        self.sets = tuple(sets)

    def __getitem__(self, key: object) -> object:
        def entry(leaf: object) -> object:
            held = isinstance(leaf, ConstantColumn) or is_table(leaf)
            return leaf[key] if held else leaf  # type: ignore[index]

        return map_leaves(entry, self.columns)

    def __iter__(self) -> NoReturn:
        raise ControlFlowError(
            "Python iterates over a table of a kernel, whose length is known only when it runs.",
            at=here(),
            fix="Use a `for` statement, or `pe.table(lambda i: f(t[i]))` in place of a "
            "comprehension.",
        )

    @property
    def index(self) -> IndexSetTracer:
        """The index set, or the first of several."""
        return self.sets[0]

    def part(self, place: int) -> TreeTable:
        """The table of one part of tuples."""
        assert isinstance(self.columns, tuple)
        return TreeTable(self.columns[place], self.sets)

    def with_columns(self, columns: object) -> TreeTable:
        """Another table over the same sets."""
        return TreeTable(columns, self.sets)

    def at_ordinal(self, ordinal: object) -> object:
        """The element with this number in row-major order."""
        places: list[object] = []
        for index_set in reversed(self.sets[1:]):
            places.insert(0, binary(op.MOD, ordinal, index_set.size))
            ordinal = binary(op.FLOORDIV, ordinal, index_set.size)
        return self[(ordinal, *places)]

    def shown(self) -> object:
        """What a user gets: where all entries are numbers, a plain table or a table of records."""
        leaves, structure = flatten(self.columns)
        tables = [leaf for leaf in leaves if isinstance(leaf, TableTracer)]
        fixed = all(is_static(leaf) for leaf in leaves if not isinstance(leaf, TableTracer))
        if not tables or not fixed or _has_outcomes(self.columns):
            return self
        return tabulated(structure, len(self.sets), leaves)

    @staticmethod
    def of(shown: object, sets: Sequence[IndexSetTracer]) -> TreeTable | None:
        """The table that a user was shown, or made of one; None if it is none."""
        if isinstance(shown, TreeTable):
            return shown
        if isinstance(shown, RecordTable):
            return TreeTable(unflatten(shown.structure, shown.leaves), sets)
        return TreeTable(shown, sets) if is_table(shown) else None

    def sequential(self) -> SequentialLoop:
        """The loop over the elements of the first axis."""

        def element(index: IndexTracer) -> object:
            return self[index]

        return SequentialLoop(self.sets[0], element, exact=True)

    def __repr__(self) -> str:
        return f"<table of {self.columns!r}>"


def finish_tree_table(body: LoopBody, sets: Sequence[IndexSetTracer]) -> TreeTable:
    """The table of what a loop body gives; constants are the same in each iteration."""
    trace = staging()
    leaves, tree = flatten(settle(body.value, body.scope))
    role = f"what the body of `{body.operation}` returns"
    numbers = [place for place, leaf in enumerate(leaves) if leaf_type(leaf) is not None]
    atoms = [
        number_of(leaf) if isinstance(leaf := leaves[place], ConstantTracer)
        else result_atom(leaf, role)
        for place in numbers
    ]  # fmt: skip
    check_rows(atoms, body.operation)
    block = trace.close(body.scope, atoms)
    names = [atom.name if isinstance(atom, Var) else "t" for atom in atoms]
    tables = trace.emit(For(body.binders, block), names)
    for place, table in zip(numbers, tables, strict=True):
        made = value_tracer(table)
        assert isinstance(made, TableTracer)
        leaves[place] = ConstantColumn(made) if isinstance(leaves[place], ConstantTracer) else made
    return TreeTable(unflatten(tree, leaves), sets)


# --- as results ----------------------------------------------------------------------------------


def table_parts(table: TreeTable) -> tuple[object, tuple[object, ...]]:
    """What `flatten` takes a table apart into: columns and sizes."""
    return table.columns, tuple(index_set.size for index_set in table.sets)


def table_of(columns: object, sizes: tuple[object, ...]) -> object:
    """The table with these parts: of symbols a `TreeTable`, of results what the user gets."""
    if not all(isinstance(size, int | np.integer) for size in sizes):
        return columns if current() is None else TreeTable(columns, as_sets(sizes))
    leaves, tree = flatten(columns)
    plain = all(isinstance(leaf, np.ndarray) for leaf in leaves)
    if plain and leaves and not _has_outcomes(columns):
        return columns
    factors: list[IndexSet[object]] = [Fin(int(size)) for size in sizes]  # type: ignore[call-overload]
    index_set = factors[0] if len(factors) == 1 else Product(tuple(factors))
    places = itertools.product(*map(range, (len(factor) for factor in factors)))
    entries = [
        unflatten(tree, [leaf[at] if isinstance(leaf, np.ndarray) else leaf for leaf in leaves])
        for at in places
    ]
    return Table(index_set, entries)


def _has_outcomes(columns: object) -> bool:
    if is_outcome(columns):
        return True
    if isinstance(columns, Composite):
        return False
    return is_tree(columns) and any(_has_outcomes(part) for _, part in parts_of(columns))


OWN[TreeTable] = Parts(("columns", "sizes"), table_parts, table_of)
