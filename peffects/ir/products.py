"""Matrix products as the IR says them: what `optimize/split_products.py` makes and lowering finds.

    c = for i.. j.. . with_acc s. for k. s += a[..] b[..]       a table of its own
    for i.. j.. k. c[i, j] += a[..] b[..]                       into an accumulator

Each index is a loop variable.  k is in both operands and not in the result, the *column* is the
last axis of the result and in one operand, `right`; the *row* is in the result and in the other,
`left`; what else there is are *batch* axes, in the result and in one operand or both.  The elements
are multiplied by `mul`, or by `scale`, as in derivatives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from peffects.ir import primitives as p
from peffects.ir.syntax import (
    F32,
    F64,
    Accumulate,
    Binding,
    Block,
    Bounds,
    For,
    Idx,
    Index,
    Monoid,
    Prim,
    Ref,
    Scalar,
    Table,
    Var,
    WithAcc,
)
from peffects.ir.typing import set_of, value_of

__all__ = [
    "MOST_BATCH",
    "TIMES",
    "MatrixProduct",
    "Operand",
    "element_type",
    "matrix_product",
    "roles",
]

MOST_BATCH = 3
"""Batch axes of a product that has kernels."""
TIMES = (p.MUL, p.SCALE)
"""What may multiply the elements."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A table read at loop variables, one for each of its axes."""

    table: Var
    indices: tuple[Var, ...]


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """`out` are the loop variables of the result's axes; `ref` is what it is added to, if any.

    With `scales`, 0 times infinity or nan is 0.
    """

    left: Operand
    right: Operand
    out: tuple[Var, ...]
    row: Var
    column: Var
    inner: Var
    batch: tuple[Var, ...]
    ref: Var | None
    scales: bool


def matrix_product(binding: Binding) -> MatrixProduct | None:
    """The product that a binding is, if it is one."""
    loop = binding.expr
    if not isinstance(loop, For):
        return None
    body = loop.body
    if not body.results and body.bindings:
        return _accumulated(loop)
    if len(body.bindings) != 1 or body.results != body.bindings[0].vars:
        return None
    region = body.bindings[0].expr
    if not isinstance(region, WithAcc) or len(region.refs) != 1 or region.body.results:
        return None
    if len(region.body.bindings) != 1 or not isinstance(region.body.bindings[0].expr, For):
        return None
    sum_loop, (ref,) = region.body.bindings[0].expr, region.refs
    update = _update(sum_loop)
    if update is None or update[0].ref is not ref or update[0].indices:
        return None
    if len(sum_loop.binders) != 1:
        return None
    return _product(ref, loop.binders, sum_loop.binders[0], update, None)


def _accumulated(loop: For) -> MatrixProduct | None:
    update = _update(loop)
    if update is None:
        return None
    ref, indices = update[0].ref, update[0].indices
    out = tuple(i for i in indices if isinstance(i, Var) and i in loop.binders)
    held = value_of(ref)
    if not isinstance(held, Table) or len(out) != len(held.dims) or len(set(out)) != len(out):
        return None
    if any(set_of(i).size != dim.size for i, dim in zip(out, held.dims, strict=True)):
        return None
    inner = [binder for binder in loop.binders if binder not in out]
    if len(inner) != 1 or len(loop.binders) != len(out) + 1:
        return None
    return _product(ref, out, inner[0], update, ref)


_Update: TypeAlias = tuple[Accumulate, Operand, Operand, bool]


def _update(loop: For) -> _Update | None:
    """The one update of a loop by the product of two elements, the elements, and if it scales."""
    body: Block = loop.body
    if len(body.bindings) != 4 or body.results:
        return None
    first, second, times, last = (binding.expr for binding in body.bindings)
    if not (isinstance(first, Index) and isinstance(second, Index)):
        return None
    if not (isinstance(times, Prim) and times.op in TIMES and isinstance(last, Accumulate)):
        return None
    factors = (*body.bindings[0].vars, *body.bindings[1].vars)
    if set(times.args) != set(factors) or (last.value,) != body.bindings[2].vars:
        return None
    operands = _operand(first), _operand(second)
    if operands[0] is None or operands[1] is None or last.bounds is Bounds.CHECKED:
        return None
    return last, operands[0], operands[1], times.op is p.SCALE


def _operand(access: Index) -> Operand | None:
    """An element at distinct loop variables."""
    indices = tuple(i for i in access.indices if isinstance(i, Var) and isinstance(i.type, Idx))
    held = access.table.type
    if not isinstance(held, Table) or len(indices) != len(held.dims):
        return None
    return Operand(access.table, indices) if len(set(indices)) == len(indices) else None


def _product(
    ref: Var, out: tuple[Var, ...], inner: Var, update: _Update, target: Var | None
) -> MatrixProduct | None:
    _, a, b, scales = update
    assert isinstance(ref.type, Ref)
    elem = a.table.type.elem  # type: ignore[union-attr]  # operands are tables
    held = value_of(ref)
    same = b.table.type.elem == elem and (held == elem or isinstance(held, Table))  # type: ignore[union-attr]
    if ref.type.monoid is not Monoid.ADD or not same or elem not in (F64, F32):
        return None
    if not {*a.indices, *b.indices} <= {*out, inner}:
        return None
    found = roles(out, inner, set(a.indices), set(b.indices))
    if found is None:
        return None
    row, column = found
    left, right = (a, b) if column in b.indices else (b, a)
    batch = tuple(i for i in out if i not in (row, column))
    if len(batch) > MOST_BATCH:
        return None
    return MatrixProduct(left, right, out, row, column, inner, batch, target, scales)


def roles(out: tuple[Var, ...], inner: Var, a: set[Var], b: set[Var]) -> tuple[Var, Var] | None:
    """Row and column, where `a` and `b` are the loop variables of the operands.

    None if this is no matrix product: a product of a matrix and a vector, for example.
    """
    if inner not in a or inner not in b or not set(out) <= a | b:
        return None
    column = out[-1]
    if (column in a) == (column in b):
        return None
    other = a - b if column in b else b - a
    rows = [i for i in out if i in other]
    return (rows[-1], column) if rows else None


def element_type(product: MatrixProduct) -> Scalar:
    """The type of the elements of all three tables."""
    held = product.left.table.type
    assert isinstance(held, Table)
    return held.elem
