"""`pfor`: the parallel `for` of effectful programs, a node that the machine interprets.

It loops over an index set (the body gets an index), or over a sequence or an array (the body gets
an element; of a 2-D array a row).  The body is an effectful or a plain function.  The result is a
`Table`.  Layer 2; next: `parallel/executors/local.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

import numpy as np

from peffects.errors import IndexSetError, NotAComputationError
from peffects.machine.checking.locations import Site, calling_site, place_of_site
from peffects.machine.checking.never_performed import made, performed
from peffects.machine.handling.operations import Computation, Eff, Par, is_computation
from peffects.machine.resuming.parallel_for import ParFor
from peffects.notices import shown
from peffects.parallel.index_sets.index_set import Fin, Idx, IndexSet
from peffects.parallel.index_sets.structures import as_index_set, is_index_set
from peffects.parallel.table import Table
from peffects.source import SrcInfo, caller

__all__ = ["pfor"]

MYPY: Final = False

N = TypeVar("N")
E = TypeVar("E")
R = TypeVar("R")
X = TypeVar("X")


class TableFor(ParFor):
    """A parallel `for` whose result is a table."""

    __slots__ = ("function", "over")

    def __init__(
        self,
        over: Any,
        function: Callable[[Any], Any],
        n: IndexSet[Any],
        body: Callable[[int], Any],
        place: Site | SrcInfo,
    ) -> None:
        super().__init__(n, body, place)
        self.over = over
        self.function = function

    def __reduce__(self) -> tuple[object, ...]:
        performed(self)
        return _pfor_again, (self.over, self.function, place_of_site(self.place))

    def collect(self, values: Sequence[Any]) -> Table[Any, Any]:
        """The table of the iterations' values."""
        return Table(self.n, values)


if MYPY:

    def pfor(n: Any, body: Callable[[Any], Any], /) -> Eff[Any, Table[Any, Any]]:
        """Run `body` for every index of `n`."""

elif TYPE_CHECKING:

    @overload
    def pfor(
        n: IndexSet[N], body: Callable[[Idx[N]], Eff[E, R]], /
    ) -> Eff[E | Par, Table[N, R]]: ...
    @overload
    def pfor(n: IndexSet[N], body: Callable[[Idx[N]], R], /) -> Eff[Par, Table[N, R]]: ...
    @overload
    def pfor(n: Sequence[X], body: Callable[[X], Eff[E, R]], /) -> Eff[E | Par, Table[Any, R]]: ...
    @overload
    def pfor(n: Sequence[X], body: Callable[[X], R], /) -> Eff[Par, Table[Any, R]]: ...
    @overload
    def pfor(
        n: np.ndarray[Any, Any], body: Callable[[Any], Eff[E, R]], /
    ) -> Eff[E | Par, Table[Any, R]]: ...
    @overload
    def pfor(n: np.ndarray[Any, Any], body: Callable[[Any], R], /) -> Eff[Par, Table[Any, R]]: ...
    def pfor(n: Any, body: Any, /) -> Any:
        """Run `body` for every index of `n`."""
else:

    def pfor(n, body, /):
        """Run `body` for every index of `n`, in any order or in parallel; gives a table.

        `n` is an index set (`Fin(5)`, an enum class, `x.index`), or a sequence or an array, whose
        elements the body then gets.  `body` is an effectful function, an operation class, or a
        function that returns a computation or a plain value.  What effects mean around the loop is
        said by the traverse clauses of their handlers; in a kernel it is one parallel loop.

        Raises IndexSetError for what is no index set, NotAComputationError for what is no function,
        and TraverseError where a handler without traverse clause stands around it.
        """
        return made(_table_for(n, body, calling_site(1)))


def _table_for(over: Any, body: Any, place: Site | SrcInfo) -> TableFor:
    if is_computation(body) or not callable(body):
        raise _no_body(body)
    if is_index_set(over):
        n = as_index_set(over)
        node = TableFor(over, body, n, _at_index(n, body), place)
        if hasattr(body, "_pe_generator"):
            node.starts = _at_index(n, body._pe_generator)
        return node
    if isinstance(over, Sequence) or getattr(over, "shape", ()) != ():
        return TableFor(over, body, Fin(len(over)), lambda i: body(over[i]), place)
    raise IndexSetError(
        f"`pfor` loops over an index set, a sequence or an array, and was given {shown(over)}.",
        at=caller(),
        fix=f"Write `pfor(Fin({over}), ...)`."
        if isinstance(over, int | np.integer)
        else "Make a list of it.",
    )


def _pfor_again(over: Any, function: Callable[[Any], Any], place: SrcInfo) -> Any:
    node = _table_for(over, function, place)
    performed(node)  # it was made elsewhere
    return node


def _at_index(n: IndexSet[Any], body: Callable[[Any], Any]) -> Callable[[int], Any]:
    if type(n).index is not IndexSet.index:
        return lambda i: body(n.index(i))
    new = int.__new__

    def at_index(i: int) -> Any:
        index = new(Idx, i)  # inlined `_make_index`: this runs once an iteration
        index._index_set = n
        return body(index)

    return at_index


def _no_body(body: object) -> NotAComputationError:
    fix = "Pass the function itself: `pfor(n, body)`, not `pfor(n, body(i))`."
    made = " a computation that is made already" if is_computation(body) else ""
    if isinstance(body, Computation):
        performed(body)  # this is told now
    return NotAComputationError(
        f"`pfor` takes a function as its body, and was given{made} {shown(body)}.",
        at=caller(),
        fix=fix,
    )
