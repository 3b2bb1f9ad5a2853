"""`pe.view`: a table that is not stored, but computed anew where its elements are used.

The function is staged once to learn its index sets and what it gives, and the block is dropped; it
is staged again at each use.  Layer: with the loop operations, over `views.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from peffects.errors import ControlFlowError, SideEffectError
from peffects.ir.syntax import Block, FinSet, Scalar, Table
from peffects.ir.traverse import accumulated_refs
from peffects.ir.typing import set_of
from peffects.staging.loops.parallel_loops import (
    LoopBody,
    check_rows,
    parameter_names,
    result_atom,
    trace_body,
)
from peffects.staging.loops.views import Place, ViewTracer
from peffects.staging.structures.accumulators import as_table
from peffects.staging.structures.trees import flatten, unflatten
from peffects.staging.tracing.trace import current, here, staging

__all__ = ["view"]


def view(function: Callable[..., object], *, over: object = None) -> Any:
    """The table of `function(i)` for all i, without storing it: each use computes it anew.

    As `pe.table`, which it equals in value; it saves memory, and costs the work of `function` at
    each use.  Raises UnknownIndexSetError if neither use nor `over` tells the index sets, and
    SideEffectError if `function` accumulates.
    """
    if current() is None:
        raise ControlFlowError(
            "`pe.view` is used outside a kernel.",
            at=here(),
            fix="Put it into a function decorated with `@pe.kernel`; or make a `pe.table`.",
        )
    with trace_body("view", function, over) as body:
        leaves, tree = flatten(body.value)
        types = [_leaf_type(leaf, body) for leaf in leaves]
        _check_only_computes(body)
    dims = tuple(set_of(binder) for binder in body.binders)
    views = [_leaf_view(function, k, dims, t) for k, t in enumerate(types)]
    return unflatten(tree, views)


def _leaf_type(leaf: object, body: LoopBody) -> Scalar | Table:
    atom = result_atom(leaf, "what the body of `view` returns")
    check_rows([atom], "view")
    assert isinstance(atom.type, Scalar | Table)
    return atom.type


def _check_only_computes(body: LoopBody) -> None:
    """A view is computed as often as it is used, so it must not add to anything."""
    refs = accumulated_refs(Block(tuple(body.scope.builder.bindings), ()))
    if refs:
        (name, *_) = (ref.name for ref in refs)
        raise SideEffectError(
            f"the function given to `view` adds to `{name}`; it runs as often as the view is used.",
            at=here(),
            fix="Add to it in a loop over `pe.par`, or in `pe.each`.",
        )


def _leaf_view(
    function: Callable[..., object], leaf: int, dims: tuple[FinSet, ...], t: Scalar | Table
) -> ViewTracer:
    """The view of one leaf of what `function` gives; of a table, with its axes at the end."""
    call = staging().inputs.resolve(function)
    is_tupled = len(parameter_names(function)) != len(dims)
    rest, elem = (t.dims, t.elem) if isinstance(t, Table) else ((), t)

    def element(places: tuple[Place, ...]) -> object:
        outer = places[: len(dims)]
        value = call(outer) if is_tupled else call(*outer)
        found = flatten(value)[0][leaf]
        return as_table(found).element(places[len(dims) :]) if rest else found

    return ViewTracer((*dims, *rest), elem, element)
