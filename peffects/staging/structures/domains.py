"""What a loop runs over: from `over=` to axes, and from the indices of axes to what a body gets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from peffects.parallel.index_sets.index_set import Fin, IndexSet, Product
from peffects.parallel.index_sets.packed import Packed
from peffects.parallel.index_sets.structures import Struct, as_index_set, is_index_set
from peffects.staging.structures.accumulators import AccumulatorTracer, as_table, is_table
from peffects.staging.structures.indices import IndexSetTracer, IndexTracer, set_tracer
from peffects.staging.structures.records import as_tabular
from peffects.staging.structures.trees import is_array_of_parts

__all__ = ["Domain", "as_sets", "domain_of"]


@dataclass(frozen=True, slots=True)
class Domain:
    """The axes of a loop, and the index sets that they belong to."""

    parts: tuple[IndexSet[Any], ...]
    axes: tuple[IndexSetTracer, ...]

    def arguments(self, indices: Sequence[IndexTracer], count: int) -> Sequence[object] | None:
        """The `count` arguments of a body for an index of each axis; None if they do not fit.

        One for each part: of a product a tuple, of a dataclass an instance; or one for each axis;
        or all in one.
        """
        supply = iter(indices)
        grouped = [_grouped(part, supply) for part in self.parts]
        if len(grouped) == count:
            return grouped
        if len(indices) == count:
            return indices
        flat = [inner for part in grouped for inner in (part if type(part) is tuple else (part,))]
        if len(flat) == count:
            return flat
        return [tuple(flat)] if count == 1 and flat else None


def _grouped(part: IndexSet[Any], supply: Iterator[IndexTracer]) -> object:
    match part:
        case Struct():
            return part.of_indices([_grouped(factor, supply) for factor in part.factors])
        case Product():
            return tuple(_grouped(factor, supply) for factor in part.factors)
        case _:
            return next(supply)


def domain_of(over: object) -> Domain:
    """What `over` means: a size, an index set, a table's first axis, or several of them."""
    parts = tuple(_parts(over))
    axes = [axis for part in parts for axis in part.axes]
    return Domain(parts, tuple(map(set_tracer, axes)))


def as_sets(over: object) -> tuple[IndexSetTracer, ...]:
    """The index sets of the axes that `over` means."""
    return domain_of(over).axes


def _parts(over: object) -> Iterator[IndexSet[Any]]:
    if isinstance(over, tuple | list):
        for part in over:
            yield from _parts(part)
    elif isinstance(over, AccumulatorTracer):
        yield over.index_sets[0].index_set
    elif isinstance(over, Packed):
        yield over.index
    elif is_table(over) and not is_array_of_parts(over):
        yield as_table(over).index_set.index_set
    elif isinstance(over, IndexSetTracer):
        yield over.index_set
    elif is_index_set(over):
        yield as_index_set(over)
    elif (records := as_tabular(over)) is not None:
        yield records.index_set.index_set
    else:
        yield _sized(over)


def _sized(size: object) -> Fin[Any]:
    """The set of `size` indices, which `set_tracer` looks at: an error there knows of kernels."""
    made: Fin[Any] = object.__new__(Fin)
    made.given = size
    return made
