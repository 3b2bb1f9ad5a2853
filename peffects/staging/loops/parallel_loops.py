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
from typing import Any
from typing import cast as cast_

from peffects.errors import KernelTypeError, UnknownIndexSetError
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
    Monoid,
    Ref,
    Scalar,
    Table,
    Var,
    WithAcc,
)
from peffects.ir.traverse import sizes_of
from peffects.parallel.index_sets.dependent import Pairs
from peffects.parallel.index_sets.index_set import Fin
from peffects.parallel.index_sets.packed import Packed
from peffects.staging.scalars.arithmetic import Operand, cast
from peffects.staging.scalars.symbols import (
    ScalarTracer,
    is_complex,
    lift,
    to_bool,
)
from peffects.staging.structures.accumulators import as_table, fit, is_table
from peffects.staging.structures.domains import Domain, domain_of
from peffects.staging.structures.indices import IndexSetTracer, IndexTracer, Origin
from peffects.staging.structures.packing import pack_row, row_range
from peffects.staging.structures.records import numbers_among, refuse_complex, with_numbers
from peffects.staging.structures.tables import TableTracer, value_tracer
from peffects.staging.structures.trees import flatten, tabulated, unflatten
from peffects.staging.tracing.trace import Kind, OpenBlock, here, staging

__all__ = [
    "LoopBody",
    "accumulated_type",
    "bind_index",
    "check_known",
    "check_rows",
    "finish_reduction",
    "finish_table",
    "of_pair",
    "open_domain",
    "open_sets",
    "pairs_of",
    "parameter_names",
    "result_atom",
    "trace_body",
    "whole_table",
]


def bind_index(
    index_set: IndexSetTracer, name: str, scope: OpenBlock, exact: bool = True
) -> tuple[Var, IndexTracer]:
    """A fresh index over `index_set`: its variable and its tracer."""
    var = Var(name, Idx(FinSet(index_set.atom, index_set.label)))
    scope.indices.append(var)
    return var, IndexTracer(var, index_set, scope, exact)


# --- bodies --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoopBody:
    """A traced loop body whose block is still open."""

    operation: str
    binders: tuple[Var, ...]
    value: object
    scope: OpenBlock


def parameter_names(function: Callable[..., object]) -> list[str]:
    """The names of the parameters that a caller must give."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ["i"]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters if p.kind in kinds and p.default is p.empty]


def pairs_of(over: object) -> Pairs | None:
    """The set of pairs that a loop runs over; None of a loop over anything else."""
    return over if isinstance(over, Pairs) else None


def of_pair(operation: str, function: object) -> Callable[[object, object], object]:
    """`function`, which takes the two parts of a pair or a pair, as a function of two indices."""
    check_function(operation, function)
    call: Callable[..., object] = staging().inputs.resolve(cast_(Any, function))
    names = parameter_names(cast_(Any, function))
    return call if len(names) == 2 else lambda i, j: call((i, j))


def check_function(operation: str, function: object) -> None:
    """Raise KernelTypeError if a loop's body is no function."""
    if not callable(function):
        raise KernelTypeError(
            f"`{operation}` takes a function of an index, not {function!r:.60}.",
            at=here(),
            fix=f"`pe.{operation}(lambda i: ...)`.",
        )


@contextmanager
def trace_body(operation: str, function: object, over: object) -> Iterator[LoopBody]:
    """Run `function` on fresh indices; the user of the `with` closes the block."""
    check_function(operation, function)
    assert callable(function)
    trace = staging()
    call = trace.inputs.resolve(function)
    names = parameter_names(function)
    given = over is not None
    domain = domain_of(over) if given else open_domain(names)
    sets = domain.axes
    hints = (
        names
        if len(names) == len(sets) or not names
        else [f"{names[0]}{k}" for k in range(len(sets))]
    )
    with trace.inside(Kind.PARALLEL) as scope:
        pairs = [
            bind_index(index_set, hint, scope) for index_set, hint in zip(sets, hints, strict=True)
        ]
        arguments = domain.arguments([index for _, index in pairs], len(names))
        if arguments is None:
            raise KernelTypeError(
                f"the function given to `{operation}` takes {len(names)} indices, and `over` has "
                f"{len(sets)} index sets.",
                at=here(),
                fix="Give one index set for each index: `over=(n, m)`.",
            )
        value = call(*arguments)
        for index_set, hint in zip(sets, hints, strict=True):
            check_known(operation, index_set, hint)
        yield LoopBody(operation, tuple(var for var, _ in pairs), value, scope)


def open_sets(names: Sequence[str]) -> tuple[IndexSetTracer, ...]:
    """Index sets that the use of the indices `names` must settle."""
    trace = staging()
    return tuple(
        IndexSetTracer(trace.sizes.placeholder(name), Origin(f"the set of `{name}`"), trace.scope)
        for name in names
    )


def open_domain(names: Sequence[str]) -> Domain:
    """A domain of open sets."""
    sets = open_sets(names)
    return Domain(tuple(map(Fin, sets)), sets)


def check_known(operation: str, index_set: IndexSetTracer, name: str) -> None:
    """Raise UnknownIndexSetError if nothing settled the set of the index `name`."""
    if not staging().sizes.is_known(index_set.atom):
        raise UnknownIndexSetError(
            f"nothing says which set `{name}` runs over: it indexes no table.",
            at=here(),
            fix=f"Give it: `pe.{operation}(lambda {name}: ..., over=n)`, where n is an int, a "
            f"table or `x.index`. Only `x[{name}]` says it, a computed index such as "
            f"`x[{name} + 1]` does not.",
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


def finish_table(body: LoopBody) -> object:
    """The loop that makes a table of each number or row that the body gives."""
    trace = staging()
    leaves, tree = flatten(body.value)
    role = f"what the body of `{body.operation}` returns"
    atoms = [result_atom(leaf, role) for leaf in numbers_among(leaves)]
    packed = _packed_rows(body, atoms)
    plain = [atom for place, atom in enumerate(atoms) if place not in packed]
    check_rows(plain, body.operation)
    block = trace.close(body.scope, plain)
    names = [atom.name if isinstance(atom, Var) else "t" for atom in plain]
    if not packed:
        made = map(value_tracer, trace.emit(For(body.binders, block), names))
        return tabulated(tree, len(body.binders), with_numbers(leaves, made))
    refs = tuple(ref for ref, _ in packed.values())
    with trace.inside(Kind.PARALLEL) as scope:
        region = trace.close(scope, trace.emit(For(body.binders, block), names))
    emitted = trace.emit(WithAcc(refs, region), [*names, *(ref.name for ref in refs)])
    tables = iter(map(value_tracer, emitted))
    results: dict[int, object] = {}
    for place in [k for k in range(len(atoms)) if k not in packed]:
        results[place] = next(tables)
    for place, (_, pairs) in packed.items():
        results[place] = Packed(pairs, next(tables))
    return unflatten(tree, with_numbers(leaves, [results[k] for k in range(len(atoms))]))


def _packed_rows(body: LoopBody, atoms: Sequence[Atom]) -> dict[int, tuple[Var, Pairs]]:
    """References and sets of pairs for the results whose lengths depend on the loop's index."""
    found: dict[int, tuple[Var, Pairs]] = {}
    for place, atom in enumerate(atoms):
        row = value_tracer(atom)
        over = row_range(row, body.binders) if isinstance(row, TableTracer) else None
        if over is not None and isinstance(row, TableTracer):
            found[place] = pack_row(row, over, body.scope.parent or body.scope)
    return found


def whole_table(body: LoopBody) -> TableTracer | None:
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


def _monoid_of(atom: Atom, monoid: Monoid) -> Monoid:
    """The largest of bools is whether one of them holds, the smallest whether all do."""
    of_bools = {Monoid.MAX: Monoid.OR, Monoid.MIN: Monoid.AND}
    elem = atom.type.elem if isinstance(atom.type, Table) else atom.type
    return of_bools.get(monoid, monoid) if elem == BOOL else monoid


def _truths(body: LoopBody, monoid: Monoid) -> object:
    """What is combined: of complex numbers whether they are not zero, if truth is wanted."""
    logical = monoid in (Monoid.AND, Monoid.OR)
    return value_tracer(to_bool(body.value)) if logical and is_complex(body.value) else body.value


def finish_reduction(body: LoopBody, monoid: Monoid) -> object:
    """The combination over all indices of each number or row that the body gives.

    Records are combined leaf by leaf; complex numbers are added only.
    """
    trace = staging()
    leaves, tree = flatten(_truths(body, monoid))
    if monoid is not Monoid.ADD:
        refuse_complex(tree, body.operation)
    role = f"what the body of `{body.operation}` returns"
    values = [result_atom(leaf, role) for leaf in numbers_among(leaves)]
    monoids = [_monoid_of(atom, monoid) for atom in values]
    atoms = [_summand(atom, own, role) for atom, own in zip(values, monoids, strict=True)]
    check_rows(atoms, body.operation)
    refs = []
    for atom, own in zip(atoms, monoids, strict=True):
        assert isinstance(atom.type, Scalar | Table)
        refs.append(Var(body.operation, Ref(own, atom.type)))
        trace.emit(Accumulate(refs[-1], (), atom, Bounds.PROVED))
    block = trace.close(body.scope)
    with trace.inside(Kind.PARALLEL) as scope:
        trace.emit(For(body.binders, block))
        region = trace.close(scope)
    results = trace.emit(WithAcc(tuple(refs), region), [body.operation] * len(refs))
    return unflatten(tree, with_numbers(leaves, map(value_tracer, results)))
