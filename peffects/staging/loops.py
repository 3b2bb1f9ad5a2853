"""Parallel loops from functions: what `table`, `sum` and their kin are made of.

`trace_body` runs a user's function on fresh indices inside a new block; its indices run over given
sets or over placeholders that the function's own indexing must settle.  `finish_table` and
`finish_reduction` make the loop of what came back.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from peffects.errors import KernelTypeError, UnknownIndexSetError, ValueRangeError
from peffects.ir import primitives as op
from peffects.ir.builder import int_lit
from peffects.ir.syntax import (
    BOOL,
    I64,
    SCALARS,
    Accumulate,
    Atom,
    Bounds,
    FinSet,
    For,
    Idx,
    Index,
    Lit,
    Monoid,
    Ref,
    Scalar,
    Table,
    Var,
    WithAcc,
)
from peffects.ir.traverse import sizes_of
from peffects.parallel.index_set import Fin, Product
from peffects.staging.accumulators import AccumulatorTracer, as_table, fit, is_table
from peffects.staging.arithmetic import Operand, cast
from peffects.staging.scalars import (
    ScalarTracer,
    lift,
    operand,
    to_bool,
)
from peffects.staging.tables import IndexSetTracer, IndexTracer, Origin, TableTracer, value_tracer
from peffects.staging.trace import Kind, Scope, here, staging
from peffects.staging.trees import flatten, unflatten

__all__ = [
    "Body",
    "accumulated_type",
    "as_sets",
    "bind_index",
    "check_known",
    "check_rows",
    "finish_reduction",
    "finish_table",
    "open_sets",
    "parameter_names",
    "result_atom",
    "trace_body",
    "whole_table",
]

# --- index sets ----------------------------------------------------------------------------------


def as_sets(over: object) -> tuple[IndexSetTracer, ...]:
    """The index sets that `over` means: a size, an index set, a table's first axis, or several."""
    if isinstance(over, tuple | list):
        return tuple(index_set for part in over for index_set in as_sets(part))
    if isinstance(over, IndexSetTracer):
        return (over,)
    if isinstance(over, AccumulatorTracer):
        return over.index_sets[:1]
    if is_table(over):
        return (as_table(over).index_set,)
    if isinstance(over, Product):
        return as_sets(over.factors)
    return (_sized(over.size if isinstance(over, Fin) else over),)


def _sized(size: object) -> IndexSetTracer:
    """The set of `size` indices; the size is tested where it may be negative."""
    trace = staging()
    if isinstance(size, IndexSetTracer):
        return size
    x = operand(size)
    if x is None or not x.type.is_integer:
        raise KernelTypeError(
            f"an index set is made of {size!r:.60}, which is no size.",
            at=here(),
            fix="Give an int, a `Fin`, a table or `x.index`.",
        )
    atom = cast(x, I64)
    if isinstance(atom, Lit):
        if int(atom.value) < 0:
            raise ValueRangeError(
                f"the size {atom.value} is negative.", at=here(), fix="Sizes count from 0."
            )
        return IndexSetTracer(atom, Origin(f"`Fin({atom.value})`", here()), trace.scope)
    home = size.scope if isinstance(size, ScalarTracer) and atom is x.atom else trace.scope
    trace.size_homes.setdefault(atom, home)
    _check_size(atom)
    return IndexSetTracer(atom, Origin(f"`Fin({atom.name})`", here()), trace.scope)


def _check_size(size: Atom) -> None:
    trace = staging()
    tested = any(size in scope.nonnegative for scope in trace.scope.up())
    if tested or trace.sizes.is_length(size):
        return
    trace.scope.nonnegative.add(size)
    ok = trace.prim(op.LE, int_lit(0), size)
    text = "the size {0} of an index set is negative."
    trace.check(ok, ValueRangeError, text, (size,), "Use `max(n, 0)` if an empty set is meant.")


def bind_index(
    index_set: IndexSetTracer, name: str, scope: Scope, exact: bool = True
) -> tuple[Var, IndexTracer]:
    """A fresh index over `index_set`: its variable and its tracer."""
    var = Var(name, Idx(FinSet(index_set.atom, index_set.label)))
    return var, IndexTracer(var, index_set, scope, exact)


# --- bodies --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Body:
    """A traced loop body whose block is still open."""

    operation: str
    binders: tuple[Var, ...]
    value: object
    scope: Scope


def parameter_names(function: Callable[..., object]) -> list[str]:
    """The names of the parameters that a caller must give."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ["i"]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters if p.kind in kinds and p.default is p.empty]


@contextmanager
def trace_body(operation: str, function: object, over: object) -> Iterator[Body]:
    """Run `function` on fresh indices; the user of the `with` closes the block."""
    if not callable(function):
        raise KernelTypeError(
            f"`{operation}` takes a function of an index, not {function!r:.60}.",
            at=here(),
            fix=f"`pe.{operation}(lambda i: ...)`.",
        )
    trace = staging()
    call = trace.inputs.resolve(function)
    names = parameter_names(function)
    given = over is not None
    sets = as_sets(over) if given else open_sets(names)
    if len(names) != len(sets) and (len(names) != 1 or not sets):
        raise KernelTypeError(
            f"the function given to `{operation}` takes {len(names)} indices, and `over` has "
            f"{len(sets)} index sets.",
            at=here(),
            fix="Give one index set for each index: `over=(n, m)`.",
        )
    hints = names if len(names) == len(sets) else [f"{names[0]}{k}" for k in range(len(sets))]
    with trace.inside(Kind.PARALLEL) as scope:
        pairs = [
            bind_index(index_set, hint, scope) for index_set, hint in zip(sets, hints, strict=True)
        ]
        indices: list[object] = [index for _, index in pairs]
        value = call(*indices) if len(names) == len(sets) else call(tuple(indices))
        for index_set, hint in zip(sets, hints, strict=True):
            check_known(operation, index_set, hint)
        yield Body(operation, tuple(var for var, _ in pairs), value, scope)


def open_sets(names: Sequence[str]) -> tuple[IndexSetTracer, ...]:
    """Index sets that the use of the indices `names` must settle."""
    trace = staging()
    return tuple(
        IndexSetTracer(trace.sizes.placeholder(name), Origin(f"the set of `{name}`"), trace.scope)
        for name in names
    )


def check_known(operation: str, index_set: IndexSetTracer, name: str) -> None:
    """Raise UnknownIndexSetError if nothing settled the set of the index `name`."""
    if not staging().sizes.is_known(index_set.atom):
        raise UnknownIndexSetError(
            f"nothing says which set `{name}` runs over: it indexes no table.",
            at=here(),
            fix=f"Give it: `pe.{operation}(lambda {name}: ..., over=n)`, where n is an int, a "
            "table or `x.index`.",
        )


def result_atom(leaf: object, role: str) -> Atom:
    """The atom of a result: a number or a table."""
    if is_table(leaf):
        return as_table(leaf).atom()
    return lift(leaf, role).atom


def check_rows(atoms: Sequence[Atom], operation: str) -> None:
    """Tables that a loop body gives have the same size in each iteration."""
    trace = staging()
    for atom in atoms:
        for size in map(trace.sizes.representative, sizes_of(atom.type)):
            outer = trace.scope.parent
            if outer and isinstance(size, Var) and not trace.is_defined_around(size, outer):
                raise KernelTypeError(
                    f"`{operation}` would make a table whose rows have different lengths.",
                    at=here(),
                    fix="Tables that a loop body gives must have a size known outside the loop.",
                )


def finish_table(body: Body) -> object:
    """The loop that makes a table of each number or row that the body gives."""
    trace = staging()
    leaves, tree = flatten(body.value)
    role = f"what the body of `{body.operation}` returns"
    atoms = [result_atom(leaf, role) for leaf in leaves]
    check_rows(atoms, body.operation)
    block = trace.close(body.scope, atoms)
    names = [atom.name if isinstance(atom, Var) else "t" for atom in atoms]
    tables = trace.emit(For(body.binders, block), names)
    return unflatten(tree, [value_tracer(table) for table in tables])


def whole_table(body: Body) -> TableTracer | None:
    """The table `t` of a body `lambda i: t[i]`, which need not be copied; None for other bodies."""
    bindings, value = body.scope.builder.bindings, body.value
    if len(bindings) != 1 or not isinstance(value, ScalarTracer):
        return None
    (binding,) = bindings
    expr = binding.expr
    if isinstance(expr, Index) and expr.indices == body.binders and binding.vars == (value.atom,):
        return TableTracer(expr.table, body.scope.parent or body.scope)
    return None


def accumulated_type(elem: Scalar, monoid: Monoid) -> Scalar:
    """The type in which values of type `elem` are combined; small integers are widened."""
    if monoid in (Monoid.AND, Monoid.OR):
        return BOOL
    if elem == BOOL:
        return I64
    if elem.is_integer and monoid in (Monoid.ADD, Monoid.MUL):
        return SCALARS["uint64"] if elem.name[0] == "u" else I64
    return elem


def _summand(atom: Atom, monoid: Monoid, role: str) -> Atom:
    t = atom.type
    if isinstance(t, Table):
        return fit(value_tracer(atom), Table(t.dims, accumulated_type(t.elem, monoid)), role)
    assert isinstance(t, Scalar)
    if monoid in (Monoid.AND, Monoid.OR):
        return to_bool(value_tracer(atom))
    return cast(Operand(atom, t, False), accumulated_type(t, monoid))


def finish_reduction(body: Body, monoid: Monoid) -> object:
    """The combination over all indices of each number or row that the body gives."""
    trace = staging()
    leaves, tree = flatten(body.value)
    role = f"what the body of `{body.operation}` returns"
    atoms = [_summand(result_atom(leaf, role), monoid, role) for leaf in leaves]
    check_rows(atoms, body.operation)
    refs = []
    for atom in atoms:
        assert isinstance(atom.type, Scalar | Table)
        refs.append(Var(body.operation, Ref(monoid, atom.type)))
        trace.emit(Accumulate(refs[-1], (), atom, Bounds.PROVED))
    block = trace.close(body.scope)
    with trace.inside(Kind.PARALLEL) as scope:
        trace.emit(For(body.binders, block))
        region = trace.close(scope)
    results = trace.emit(WithAcc(tuple(refs), region), [body.operation] * len(refs))
    return unflatten(tree, [value_tracer(result) for result in results])
