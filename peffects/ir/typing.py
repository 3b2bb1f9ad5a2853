"""The type of an expression: one function that the builder, the checker and rewrites share."""

from __future__ import annotations

from typing import assert_never

from peffects.errors import InternalError
from peffects.ir.syntax import (
    Accumulate,
    Atom,
    Check,
    Cond,
    Expr,
    FinSet,
    Fold,
    For,
    Idx,
    Index,
    Prim,
    Ref,
    Scalar,
    Table,
    Type,
    Update,
    Var,
    While,
    WithAcc,
)


def value_of(ref: Var) -> Scalar | Table:
    """The type of what a reference holds."""
    if not isinstance(ref.type, Ref):
        raise InternalError(f"{ref!r} is not a reference.")
    return ref.type.value


def set_of(binder: Var) -> FinSet:
    """The index set that a loop variable runs over."""
    if not isinstance(binder.type, Idx):
        raise InternalError(f"{binder!r} is not an index.")
    return binder.type.set


def drop_axes(t: Type, count: int) -> Scalar | Table:
    """What is left of a table after `count` indices."""
    if not isinstance(t, Table) or count > len(t.dims):
        if count == 0 and isinstance(t, Scalar):
            return t
        raise InternalError(f"{count} indices into a value of type {t}.")
    rest = t.dims[count:]
    return Table(rest, t.elem) if rest else t.elem


def tabulate(sets: tuple[FinSet, ...], t: Type) -> Table:
    """The table over `sets` of values of type `t`."""
    if isinstance(t, Table):
        return Table(sets + t.dims, t.elem)
    if isinstance(t, Scalar):
        return Table(sets, t)
    raise InternalError(f"A table cannot hold values of type {t}.")


def _results(atoms: tuple[Atom, ...]) -> tuple[Type, ...]:
    return tuple(atom.type for atom in atoms)


def result_types(expr: Expr) -> tuple[Type, ...]:
    """The types of the variables that a binding of `expr` binds."""
    match expr:
        case Prim(op, args):
            return (op.result_type(_results(args)),)
        case Index(table, indices, _):
            return (drop_axes(table.type, len(indices)),)
        case Update(table, _, _, _):
            return (table.type,)
        case For(binders, body):
            sets = tuple(map(set_of, binders))
            return tuple(tabulate(sets, t) for t in _results(body.results))
        case Fold(binder, _, carries, _, body):
            outputs = _results(body.results[len(carries) :])
            return (*_results(carries), *(tabulate((set_of(binder),), t) for t in outputs))
        case While(carries, _, _, _):
            return _results(carries)
        case Cond(_, then, _):
            return _results(then.results)
        case WithAcc(refs, body):
            return (*_results(body.results), *map(value_of, refs))
        case Accumulate() | Check():
            return ()
        case _:
            assert_never(expr)
