"""Builds blocks in A-normal form: each call appends one binding and gives its variables.

A `Builder` collects the bindings of one block.  Nested blocks are built by builders of their own:

    inner = b.nested()
    ... inner.prim(MUL, x, y) ...
    (ys,) = b.emit(For((i,), inner.block(result)))

`at` sets the user line that following bindings carry.  Simplification belongs to `optimize/`; the
builder folds nothing, so that what staging says is what the evaluator sees.
"""

from __future__ import annotations

from collections.abc import Sequence

from peffects.ir.primitives import ORDINAL, Primitive
from peffects.ir.syntax import (
    BOOL,
    I64,
    Accumulate,
    Atom,
    Binding,
    Block,
    Bounds,
    Expr,
    FinSet,
    For,
    Idx,
    Index,
    Lit,
    Monoid,
    Prim,
    Ref,
    Scalar,
    Table,
    Type,
    Update,
    Var,
    WithAcc,
)
from peffects.ir.typing import result_types
from peffects.source import UNKNOWN, SrcInfo


def int_lit(value: int) -> Lit:
    """An i64 literal."""
    return Lit(int(value), I64)


def bool_lit(value: bool) -> Lit:
    """A bool literal."""
    return Lit(bool(value), BOOL)


def lit_like(value: float, t: Scalar) -> Lit:
    """A literal of type `t`."""
    if t == BOOL:
        return Lit(bool(value), t)
    return Lit(float(value) if t.is_float else int(value), t)


def index_var(name: str, size: Atom, label: str = "") -> Var:
    """A fresh loop variable over `Fin size`."""
    return Var(name, Idx(FinSet(size, label)))


def fresh_like(var: Var) -> Var:
    """A new variable with the name and type of `var`."""
    return Var(var.name, var.type)


class Builder:
    """Collects the bindings of one block."""

    def __init__(self, at: SrcInfo = UNKNOWN) -> None:
        self.at = at
        self.bindings: list[Binding] = []

    def nested(self) -> Builder:
        """A builder for a block inside this one, at the same user line."""
        return Builder(self.at)

    def block(self, *results: Atom) -> Block:
        """The block of everything emitted so far."""
        return Block(tuple(self.bindings), results)

    def emit(self, expr: Expr, names: Sequence[str] = ()) -> tuple[Var, ...]:
        """Bind `expr` to fresh variables; `names` are hints."""
        types = result_types(expr)
        hints = (*names, *("t",) * len(types))
        variables = tuple(Var(name, t) for name, t in zip(hints, types, strict=False))
        self.bindings.append(Binding(variables, expr, self.at))
        return variables

    def append(self, block: Block) -> tuple[Atom, ...]:
        """Splice in the bindings of `block`, whose variables are in no other place; its results."""
        self.bindings.extend(block.bindings)
        return block.results

    def prim(self, op: Primitive, *args: Atom, name: str = "t") -> Var:
        """`op(args)`."""
        return self.emit(Prim(op, args), (name,))[0]

    def ordinal(self, index: Var) -> Var:
        """An index as an i64."""
        return self.prim(ORDINAL, index, name=index.name)

    def index(self, table: Var, *indices: Atom, bounds: Bounds = Bounds.PROVED) -> Var:
        """`table[indices]`."""
        return self.emit(Index(table, indices, bounds), (table.name,))[0]

    def update(
        self, table: Var, indices: Sequence[Atom], value: Atom, bounds: Bounds = Bounds.PROVED
    ) -> Var:
        """`table` with `value` at `indices`."""
        return self.emit(Update(table, tuple(indices), value, bounds), (table.name,))[0]

    def loop(
        self, binders: Sequence[Var], body: Block, names: Sequence[str] = ()
    ) -> tuple[Var, ...]:
        """A parallel loop."""
        return self.emit(For(tuple(binders), body), names)

    def accumulate(
        self, ref: Var, indices: Sequence[Atom], value: Atom, bounds: Bounds = Bounds.PROVED
    ) -> None:
        """`ref[indices] += value`."""
        self.emit(Accumulate(ref, tuple(indices), value, bounds))

    def reduce(self, monoid: Monoid, binders: Sequence[Var], body: Block) -> Var:
        """The combination of `body`'s one result over all `binders`."""
        (value,) = body.results
        if not isinstance(value.type, Scalar | Table):
            raise TypeError(f"cannot accumulate a {value.type}")
        ref = Var("acc", Ref(monoid, value.type))
        inner = Builder(self.at)
        inner.append(Block(body.bindings, ()))
        inner.accumulate(ref, (), value)
        outer = self.nested()
        outer.loop(binders, inner.block())
        return self.emit(WithAcc((ref,), outer.block()), ("sum",))[0]


def zeros(b: Builder, t: Type) -> Atom:
    """A zero of a scalar type, or a table of zeros."""
    if isinstance(t, Table):
        binders = tuple(Var("i", Idx(dim)) for dim in t.dims)
        return b.loop(binders, Block((), (lit_like(0.0, t.elem),)), ("zeros",))[0]
    assert isinstance(t, Scalar)
    return lit_like(0.0, t)
