"""Shorthands for building small programs with accumulators, in the tests of passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from programs import Sketch

from peffects.errors import ValueRangeError
from peffects.ir import primitives as p
from peffects.ir.builder import Builder
from peffects.ir.syntax import (
    F64,
    Atom,
    Block,
    Check,
    FinSet,
    For,
    Idx,
    Lit,
    Monoid,
    Ref,
    Scalar,
    Table,
    Var,
    WithAcc,
)

Body = Callable[[Builder], Sequence[Atom]]


def block(b: Builder, body: Body) -> Block:
    """The block that `body` builds inside `b`; it gives the results."""
    inner = b.nested()
    results = tuple(body(inner))
    return inner.block(*results)


def loop(b: Builder, binders: Sequence[Var], body: Body) -> tuple[Var, ...]:
    """A parallel loop with any number of results."""
    return b.emit(For(tuple(binders), block(b, body)))


def ref(name: str, *dims: FinSet, monoid: Monoid = Monoid.ADD) -> Var:
    """A reference to a number or a table."""
    held: Scalar | Table = Table(dims, F64) if dims else F64
    return Var(name, Ref(monoid, held))


def with_acc(b: Builder, refs: Sequence[Var], body: Body) -> tuple[Var, ...]:
    """A scope of accumulators: results of its body, then final values."""
    return b.emit(WithAcc(tuple(refs), block(b, body)), ("t",) * 9)


def add_to(
    b: Builder, acc: Var, place: Sequence[Atom], value: Atom, *results: Atom
) -> Sequence[Atom]:
    """`acc[place] += value`, proved; then the results of the block."""
    b.accumulate(acc, place, value)
    return results


def dim(s: Sketch, axis: str) -> FinSet:
    """The index set of a named size."""
    binder = s.index("i", axis)
    assert isinstance(binder.type, Idx)
    return binder.type.set


def check_positive(b: Builder, x: Atom) -> None:
    """Fail unless x > 0."""
    ok = b.prim(p.LT, Lit(0.0, F64), x)
    b.emit(Check(ok, ValueRangeError, "not positive", ()))
