"""Sizes that are computed once: equal lengths are one atom, and so one index set.

The length of `x[1:]` is computed in the outermost block that knows the length of `x`, so that a
loop over it may be made anywhere, and is remembered by the trace, so that `x[1:] - x[:-1]` has two
operands over one index set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from peffects.ir import primitives as op
from peffects.ir.syntax import I64, Atom, Lit, Var
from peffects.staging.scalars.arithmetic import cast
from peffects.staging.scalars.symbols import ScalarTracer, binary, lift
from peffects.staging.tracing.size_algebra import outermost
from peffects.staging.tracing.trace import OpenBlock, staging

__all__ = [
    "Number", "is_unit", "known_size", "least", "minus", "most", "once", "plus", "sizes_product",
    "times",
]  # fmt: skip

Number: TypeAlias = "int | ScalarTracer"
"""An integer, known now or when the kernel runs."""


def once(
    key: tuple[object, ...],
    sizes: Sequence[Atom],
    compute: Callable[[], Number],
    natural: bool = True,
) -> Atom:
    """The size `key`, computed by `compute` from `sizes` in the block that has them all.

    `natural` says that it is never negative.
    """
    trace = staging()
    found = trace.lengths.get(key)
    if found is not None and found[0].encloses(trace.scope):
        return found[1]
    with _where_known(sizes) as home:
        atom, own = outermost(cast(lift(compute()), I64), home)
        if isinstance(atom, Var) and not trace.sizes.is_given(atom):
            trace.size_homes.setdefault(atom, own)
            if natural:
                own.nonnegative.add(atom)
    trace.lengths[key] = home, atom
    return atom


@contextmanager
def _where_known(sizes: Sequence[Atom]) -> Iterator[OpenBlock]:
    """Emit into the outermost open block in which all `sizes` are known."""
    trace = staging()
    inner = home = trace.scope
    homes = [trace.home_of(size) for size in sizes]
    for scope in inner.up():
        if all(other.encloses(scope) for other in homes):
            home = scope
    trace.scope = home
    try:
        yield home
    finally:
        trace.scope = inner


def known_size(size: Atom) -> Number:
    """A size as an integer, known now if possible; else a symbol of the block that computed it."""
    trace = staging()
    size = trace.sizes.representative(size)
    if isinstance(size, Lit):
        return int(size.value)
    return ScalarTracer(size, I64, True, trace.home_of(size))


def is_unit(size: Atom) -> bool:
    """Whether an axis has length 1 for sure, and so goes along with any other axis."""
    known = staging().sizes.representative(size)
    return isinstance(known, Lit) and known.value == 1


# --- integers, known or not ----------------------------------------------------------------------


def _on_integers(
    primitive: op.Primitive, plain: Callable[[int, int], int]
) -> Callable[[Number, Number], Number]:
    def operate(x: Number, y: Number) -> Number:
        if isinstance(x, int) and isinstance(y, int):
            return plain(x, y)
        return binary(primitive, x, y)

    return operate


least = _on_integers(op.MIN, min)
most = _on_integers(op.MAX, max)
plus = _on_integers(op.ADD, int.__add__)
minus = _on_integers(op.SUB, int.__sub__)
times = _on_integers(op.MUL, int.__mul__)


def sizes_product(sizes: Sequence[Number]) -> Number:
    """The product of sizes."""
    result: Number = 1
    for size in sizes:
        result = size if isinstance(result, int) and result == 1 else times(result, size)
    return result
