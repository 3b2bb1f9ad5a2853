"""Packed tables in kernels: pairs (i, j) as places in one axis, and rows of loops that become one.

A loop whose body gives a row for each i, over a set that depends on i, makes a packed table: each
row is accumulated into its part of one table.  No two pairs have one place, which the primitive
`packed` says, so the accumulation is direct and the loop over i stays parallel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from peffects.errors import (
    BoundsError,
    IndexSetMismatchError,
    KernelTypeError,
    UnknownIndexSetError,
)
from peffects.ir import primitives as op
from peffects.ir.builder import int_lit
from peffects.ir.syntax import (
    BOOL,
    I64,
    Accumulate,
    Block,
    Bounds,
    FinSet,
    For,
    Idx,
    Index,
    Monoid,
    Ref,
    Table,
    Var,
    While,
)
from peffects.parallel.index_sets.dependent import Pairs, Ragged, Range
from peffects.parallel.index_sets.packed import Packed
from peffects.staging.scalars.symbols import Tracer, compare, lift, logical, make, select
from peffects.staging.scalars.whole_numbers import whole_operand
from peffects.staging.structures.accumulators import AccumulatorTracer
from peffects.staging.structures.indices import IndexTracer, set_tracer, unify
from peffects.staging.structures.tables import TableTracer, value_tracer
from peffects.staging.tracing.trace import Kind, OpenBlock, here, staging

__all__ = [
    "as_packed", "declare", "element", "outer_index", "pack_row", "pair_index", "row_number",
    "row_range",
]  # fmt: skip

# --- places --------------------------------------------------------------------------------------


def element(table: Packed, key: tuple[Any, ...]) -> Any:
    """`table[i, j]`, or `table[p]` for a pair p."""
    packed, pairs = table.packed, table.index_set
    first = key[0]
    if isinstance(first, IndexTracer) and isinstance(first.set.structure, Pairs):
        place = first.moved(pairs.ordinal(first), packed.index_set)
        return packed[(place, *key[1:])]
    return packed[(pair_index(pairs, packed.index_set, first, key[1], packed.name), *key[2:])]


def outer_index(pairs: Pairs, i: Any, name: str) -> IndexTracer:
    """`i` as an index of the rows of `name`; a number is tested when the kernel runs."""
    index: IndexTracer
    if isinstance(i, IndexTracer):
        pairs.outer.ordinal(i)  # its set is that of the rows, or an error says so
        return i
    place, size = _whole(i, f"the first index of `{name}`"), lift(pairs.outer.size)
    inside = logical(op.AND, compare(op.LE, 0, place), compare(op.LT, place, make(size)))
    operands = (lift(place).atom, size.atom)
    text = f"index {{0}} is outside the {{1}} rows of `{name}`."
    staging().check(lift(inside).atom, BoundsError, text, operands, "Rows count from 0.")
    index = pairs.outer.index(place)
    index.guarded = True
    return index


def _whole(value: Any, role: str) -> Any:
    """An integer as a number of the kernel."""
    return make(whole_operand(value, role))


def pair_index(pairs: Pairs, axis: Any, i: Any, j: Any, name: str) -> IndexTracer:
    """The place of the pair (i, j) in the packed axis of the table `name`."""
    trace = staging()
    is_open = isinstance(j, IndexTracer) and not trace.sizes.is_known(j.set.atom)
    at = _settle(pairs, i, j, name) if is_open else outer_index(pairs, i, name)
    row = Range(pairs, at)
    p, guarded = row.place, at.guarded
    start = lift(pairs.start_at(p))
    if isinstance(j, IndexTracer) and j.set.label == set_tracer(row).label:
        place, guarded = j.place(), guarded or j.guarded
    else:
        place, guarded = _tested(j, row, name), True
    atoms = (lift(p).atom, start.atom, lift(place).atom)
    return IndexTracer(
        trace.prim(op.PACKED, *atoms, name="place"), axis, trace.scope, True, guarded
    )


def _settle(pairs: Pairs, i: Any, j: IndexTracer, name: str) -> IndexTracer:
    """Let the open index `j` run over row `i`, whose length is computed in front of its loop."""
    trace = staging()
    if isinstance(i, Tracer) and not i.scope.encloses(j.set.scope):
        raise UnknownIndexSetError(
            f"`{j.name}` runs over a row of `{name}`, and which row is known only inside its loop.",
            at=here(),
            fix=f"Nest the loops: `pe.sum(lambda i: pe.sum(lambda {j.name}: ...))`; or give the "
            "pairs: `over=t.index_set`.",
        )
    with trace.at(j.set.scope):
        at = outer_index(pairs, i, name)
        target = set_tracer(Range(pairs, at))
    unify(j.set, target, f"`{j.name}`", f"a row of `{name}`")
    return at


def _tested(j: Any, row: Range, name: str) -> Any:
    """The place of the number `j` in a row, after a test that it is there."""
    trace = staging()
    number = _whole(j, f"the second index of `{name}`")
    place = number - row.first
    inside = logical(op.AND, compare(op.LE, 0, place), compare(op.LT, place, row.size))
    text = f"index {{0}} is outside row {{1}} of `{name}`."
    operands = (lift(number).atom, row.at_index.place().operand().atom)
    trace.check(lift(inside).atom, BoundsError, text, operands, "Give an index of that row.")
    return place


def row_number(pairs: Pairs, place: Any) -> Any:
    """The last row that starts at `place` or before it, by bisection when the kernel runs."""
    trace = staging()
    low, high = Var("row", I64), Var("after", I64)
    inits = (int_lit(0), lift(pairs.outer.size).atom)
    with trace.inside(Kind.WHILE):
        first, last = value_tracer(low, weak=True), value_tracer(high, weak=True)
        with trace.inside(Kind.WHILE) as scope:
            more = compare(op.LT, first + 1, last)
            test = trace.close(scope, (lift(more).atom,))
        with trace.inside(Kind.WHILE) as scope:
            body = _halved(scope, pairs, place, first, last)
    row, _ = trace.emit(While((low, high), inits, test, body), ("row", "after"))
    return value_tracer(row, weak=True)


def _halved(scope: OpenBlock, pairs: Pairs, place: Any, first: Any, last: Any) -> Block:
    middle = (first + last) // 2
    before = compare(op.LE, pairs.start_at(middle), place)
    ends = select(before, middle, first), select(before, last, middle)
    return staging().close(scope, tuple(lift(end).atom for end in ends))


# --- loops that make packed tables ---------------------------------------------------------------


def row_range(table: TableTracer, binders: Sequence[Var]) -> Range | None:
    """The range that the rows which a loop over `binders` gives are over; None of other rows."""
    structure = staging().structures.get(staging().label_of(table.type.dims[0]))
    if not isinstance(structure, Range):
        return None
    at = structure.at_index
    is_binder = isinstance(at, IndexTracer) and any(at.var is binder for binder in binders)
    if is_binder and len(binders) > 1:
        raise KernelTypeError(
            f"the rows of a packed table depend on `{at.name}`, one of several indices of a loop.",
            at=here(),
            fix="Let the loop have one index: a packed table has rows and elements.",
        )
    return structure if is_binder else None


def pack_row(row: TableTracer, over: Range, outside: OpenBlock) -> tuple[Var, Pairs]:
    """Accumulate `row` into its part of a packed table: its reference, and the set of pairs."""
    trace, pairs = staging(), over.pairs
    with trace.at(outside):
        total = set_tracer(pairs)
    dims = (FinSet(total.atom, total.label), *row.type.dims[1:])
    monoid = Monoid.OR if row.type.elem == BOOL else Monoid.ADD
    ref = Var(row.name, Ref(monoid, Table(dims, row.type.elem), once=True))
    p = over.place
    start = lift(pairs.start_at(p)).atom
    with trace.inside(Kind.PARALLEL) as scope:
        binders = tuple(Var(f"j{axis or ''}", Idx(dim)) for axis, dim in enumerate(row.type.dims))
        (value,) = trace.emit(Index(row.atom(), binders, Bounds.PROVED))
        j = trace.prim(op.ORDINAL, binders[0], name="j")
        place = trace.prim(op.PACKED, lift(p).atom, start, j, name="place")
        trace.emit(Accumulate(ref, (place, *binders[1:]), value, Bounds.PROVED))
        block = trace.close(scope)
    trace.emit(For(binders, block))
    return ref, pairs


# --- arguments and results -----------------------------------------------------------------------


def declare(table: Packed, name: str) -> None:
    """Test when the kernel runs that a packed argument has one element for each pair."""
    trace, pairs = staging(), table.index_set
    if isinstance(pairs, Ragged):
        ends = trace.prim(op.ADD, lift(pairs.rows.size).atom, int_lit(1))
        same = trace.prim(op.EQ, pairs.offsets.index_set.atom, ends)
        text = f"the ragged table `{name}` has {{0}} offsets for {{1}} rows."
        operands = (pairs.offsets.index_set.atom, lift(pairs.rows.size).atom)
        trace.check(same, IndexSetMismatchError, text, operands, "Make it by `pe.Ragged(lengths)`.")
    size, total = table.packed.index_set.atom, set_tracer(pairs).atom
    if trace.sizes.same(size, total):
        return
    ok = trace.prim(op.EQ, size, total)
    text = f"the packed table `{name}` has {{0}} elements, and its index set {{1}} pairs."
    fix = "Make it by `pe.Packed(index_set, values)`, and do not change its parts."
    trace.check(ok, IndexSetMismatchError, text, (size, total), fix)


def as_packed(leaf: Any) -> Any:
    """An accumulator over a set of pairs as a packed table; other values as they are."""
    if isinstance(leaf, AccumulatorTracer) and isinstance(leaf.type, Table):
        structure = staging().structures.get(leaf.type.dims[0].label)
        if isinstance(structure, Pairs):
            return Packed(structure, leaf.read())
    return leaf
