"""Arithmetic on whole tables: element by element, over the same index sets.

Axes are matched from the right, as in numpy.  Two axes that are matched become one index set, so
their lengths must agree; an axis goes along with any other only if its length is 1 for sure: made
by `None`, `keepdims` or a literal 1.  Lengths of arguments are known at launch only, and one code
serves all of them, so an axis that just happens to have length 1 is an error there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from peffects.errors import IndexSetMismatchError
from peffects.ir import primitives as op
from peffects.ir.syntax import Atom, FinSet, Lit
from peffects.staging.loops.views import Place, tabulate
from peffects.staging.scalars.symbols import is_whole, make
from peffects.staging.structures.accumulators import as_table
from peffects.staging.structures.indices import IndexSetTracer, IndexTracer
from peffects.staging.structures.lengths import is_unit
from peffects.staging.structures.records import as_tabular
from peffects.staging.structures.tables import TableTracer
from peffects.staging.structures.tabular import Tabular
from peffects.staging.tracing.sizes import Verdict
from peffects.staging.tracing.trace import here, staging

__all__ = ["aligned", "broadcast", "element_at", "matched", "pointwise"]


def pointwise(function: Callable[..., object], args: Sequence[object]) -> object:
    """The table of `function` of the elements of the tables among `args`."""
    tables = {k: _table(arg) for k, arg in enumerate(args) if is_whole(arg)}
    sets = broadcast(list(tables.values()))

    def read(places: tuple[Place, ...]) -> object:
        return function(
            *(element_at(tables[k], places) if k in tables else arg for k, arg in enumerate(args))
        )

    return tabulate(sets, read)


def _table(value: object) -> TableTracer | Tabular:
    complexes = as_tabular(value)
    return as_table(value) if complexes is None else complexes


def broadcast(tables: Sequence[TableTracer | Tabular]) -> tuple[IndexSetTracer, ...]:
    """The index sets of the result of an operation on `tables`."""
    ndim = max(table.ndim for table in tables)
    return tuple(_axis(tables, ndim - axis) for axis in range(ndim))


def _axis(tables: Sequence[TableTracer | Tabular], from_right: int) -> IndexSetTracer:
    """The index set of one axis; all that are not of length 1 are made one."""
    found: IndexSetTracer | None = None
    for table in tables:
        if table.ndim < from_right:
            continue
        mine = table.index_sets[table.ndim - from_right]
        if found is None or is_unit(found.atom):
            found = mine if found is None or not is_unit(mine.atom) else found
        elif not is_unit(mine.atom):
            found = matched(found, mine)
    assert found is not None, "the axis is one of the longest table's"
    return found


def matched(first: IndexSetTracer, second: IndexSetTracer) -> IndexSetTracer:
    """Make two axes one index set; the one to loop over."""
    trace = staging()
    sizes = trace.sizes
    text = (
        f"{first.origin.text} has length {{0}}, and goes along with {second.origin.text}, of "
        "length {1}."
    )
    fix = "Give tables whose axes agree; an axis made by `None` goes along with any."
    match sizes.unify(first.atom, second.atom, here()):
        case Verdict.SAME:
            return first
        case Verdict.DIFFERENT:
            known = [sizes.representative(axis.atom) for axis in (first, second)]
            lengths = [size.value for size in known if isinstance(size, Lit)]
            raise IndexSetMismatchError(text.format(*lengths), at=here(), fix=fix)
        case Verdict.TEST:
            equal = trace.prim(op.EQ, first.atom, second.atom)
            trace.check(equal, IndexSetMismatchError, text, (first.atom, second.atom), fix)
            # Of two tables, the one that is an argument can be read at any integer at no cost.
            return second if sizes.is_length(first.atom) else first


def element_at(table: TableTracer | Tabular, places: tuple[Place, ...]) -> object:
    """The element of an operand at a place of the result."""
    own = places[len(places) - table.ndim :]
    items = (
        0 if is_unit(axis.atom) else _on_axis(axis.atom, place)
        for axis, place in zip(table.index_sets, own, strict=True)
    )
    return table.element(tuple(items), unchecked=True)


def _on_axis(size: Atom, place: Place) -> Place:
    """A place of the result as one of an axis, whose length may be equal by a test only."""
    if isinstance(place, IndexTracer) and not staging().sizes.same(size, place.set.atom):
        return make(place.operand())
    return place


def aligned(
    tables: Sequence[TableTracer],
) -> tuple[Sequence[FinSet], Callable[[TableTracer, tuple[Place, ...]], object]]:
    """The axes of several tables taken together, and how to read one of them along these."""
    sets = broadcast(tables)
    return [FinSet(index_set.atom, index_set.label) for index_set in sets], element_at
