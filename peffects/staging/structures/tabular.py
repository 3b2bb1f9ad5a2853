"""What tables of complex numbers and tables of records share: several tables over one index set.

A subscript is placed once, against the first table; the others have the same axes, so an index that
was tested is not tested again.  `complex_numbers.py` and `trees.py` hold the two kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from peffects.errors import KernelTypeError
from peffects.source import UNKNOWN, SrcInfo
from peffects.staging.scalars.symbols import ScalarTracer, Tracer
from peffects.staging.structures.indices import IndexSetTracer
from peffects.staging.structures.tables import Item, TableTracer, refuse_write
from peffects.staging.tracing.trace import here, staging

__all__ = ["Tabular", "items_of", "make_one", "rows"]


def items_of(key: object) -> tuple[Item, ...]:
    """The indices of a subscript."""
    return key if isinstance(key, tuple) else (key,)


class Tabular(Tracer):
    """Several tables whose first `ndim` axes are the same."""

    def __init__(self, tables: Sequence[TableTracer], ndim: int) -> None:
        self.tables = tuple(tables)
        self.ndim = ndim
        self.scope = tables[0].scope

    @property
    def name(self) -> str:
        """The name of the first table, for messages."""
        return self.tables[0].name

    @property
    def index_sets(self) -> tuple[IndexSetTracer, ...]:
        """The index sets of all axes."""
        return self.tables[0].index_sets[: self.ndim]

    @property
    def index_set(self) -> IndexSetTracer:
        """The index set of the first axis."""
        return self.index_sets[0]

    index = index_set

    @property
    def shape(self) -> tuple[ScalarTracer, ...]:
        """The sizes of all axes."""
        return tuple(index_set.size for index_set in self.index_sets)

    def element(self, items: tuple[Item, ...], unchecked: bool = False) -> object:
        """An element, or the table of the remaining axes."""
        raise NotImplementedError

    def __getitem__(self, key: object) -> object:
        return self.element(items_of(key))

    def __len__(self) -> int:
        self._refuse("the length")

    def __setitem__(self, key: object, value: object) -> NoReturn:
        refuse_write(self.name)


def rows(
    tables: Sequence[TableTracer], ndim: int, items: tuple[Item, ...], unchecked: bool
) -> list[ScalarTracer | TableTracer]:
    """`table[items]` of each of `tables`, whose first `ndim` axes are the same."""
    if len(items) > ndim:
        raise KernelTypeError(
            f"`{tables[0].name}` has {ndim} axes and is given {len(items)} indices.",
            at=here(),
            fix="Give at most one index for each axis.",
        )
    first, *others = tables
    element = first.element(items, unchecked)
    return [element, *(table.element(items, unchecked=True) for table in others)]


def make_one(tables: Sequence[TableTracer], ndim: int, src: SrcInfo = UNKNOWN) -> None:
    """Say that the first `ndim` axes of `tables` are the same: those of parts of one array."""
    sizes, at = staging().sizes, src if src.line else here()
    for other in tables[1:]:
        for axis in range(ndim):
            sizes.unify(tables[0].type.dims[axis].size, other.type.dims[axis].size, at)
