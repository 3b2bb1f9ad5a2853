"""Products of whole tables, `@`, `np.dot`, `np.einsum` and so on: plain sums of products.

`a @ b` is `table(lambda i, j: sum(lambda k: a[i, k] * b[k, j]))`, which the optimizer knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from peffects.errors import KernelTypeError
from peffects.ir import primitives as op
from peffects.ir.syntax import BOOL, Monoid, Scalar
from peffects.staging.arrays.whole_tables import broadcast, element_at, matched
from peffects.staging.loops.parallel_loops import finish_reduction, trace_body
from peffects.staging.loops.views import Place, Read, ViewTracer, tabulate
from peffects.staging.scalars.symbols import binary, convert, is_whole
from peffects.staging.scalars.whole_numbers import literal_whole
from peffects.staging.structures.accumulators import as_table
from peffects.staging.structures.indices import IndexSetTracer
from peffects.staging.structures.tables import TableTracer
from peffects.staging.tracing.promotion import join
from peffects.staging.tracing.trace import here

__all__ = ["cross", "dot", "einsum", "inner", "matmul", "outer", "tensordot", "trace_of", "vdot"]


def _total(sets: Sequence[IndexSetTracer], read: Read) -> Any:
    """The sum of `read` over all indices."""

    def element(index: Any) -> object:
        return read(index if isinstance(index, tuple) else (index,))

    with trace_body("sum", element, tuple(sets)) as body:
        return finish_reduction(body, Monoid.ADD)


def _meet(tables: Sequence[TableTracer]) -> Scalar:
    """The type of products of elements."""
    elems: list[Scalar] = [table.type.elem for table in tables]
    return reduce(lambda x, y: join(x, False, y, False)[0], elems)


def _narrowed(total: Any, elem: Scalar) -> object:
    """A sum of products in their own type, as numpy has it: small integers wrap."""
    return convert(total, elem) if elem.is_integer or elem == BOOL else total


def matmul(a: Any, b: Any) -> object:
    """`a @ b`: vectors, matrices, and stacks of matrices, which go along with each other."""
    for operand in (a, b):
        if not is_whole(operand):
            raise KernelTypeError(
                "`@` is given a number.", at=here(), fix="Use `*` for multiplication by a number."
            )
    left, right = as_table(a), as_table(b)
    rows, columns = left.index_sets[:-1][-1:], right.index_sets[1:][-1:]
    inner = left.index_sets[-1], right.index_sets[-2:][0]
    shared = matched(*inner)
    stacks = [t for t in (left, right) if t.ndim > 2]
    batch = broadcast([_stack_of(t) for t in stacks]) if stacks else ()
    elem = _meet((left, right))

    def read(places: tuple[Place, ...]) -> object:
        over = places[: len(batch)]
        row = places[len(batch) : len(batch) + len(rows)]
        column = places[len(places) - len(columns) :] if columns else ()
        total = _total(
            (shared,),
            lambda k: binary(
                op.MUL,
                _of_stack(left, over, (*row, *k)),
                _of_stack(right, over, (*k, *column)),
            ),
        )
        return _narrowed(total, elem)

    sets = (*batch, *rows, *columns)
    return tabulate(sets, read) if sets else read(())


def _stack_of(table: TableTracer) -> TableTracer:
    """The axes of a stack of matrices without those of the matrices, as a table."""
    return ViewTracer(table.type.dims[:-2], table.type.elem, lambda places: 0, table.name)


def _of_stack(table: TableTracer, over: tuple[Place, ...], inner: tuple[Place, ...]) -> object:
    """An element of a matrix of a stack, read where the result is."""
    if table.ndim <= 2:
        return element_at(table, inner)
    own = over[len(over) - (table.ndim - 2) :]
    return element_at(table, (*own, *inner))


def dot(a: Any, b: Any) -> object:
    """`np.dot` of numbers, vectors and matrices."""
    if not (is_whole(a) and is_whole(b)):
        return binary(op.MUL, a, b)
    if max(as_table(a).ndim, as_table(b).ndim) > 2:
        raise KernelTypeError(
            "`np.dot` is given a table with more than two axes.",
            at=here(),
            fix="Say what is meant: `a @ b` for stacks of matrices, or `np.einsum`.",
        )
    return matmul(a, b)


def inner(a: Any, b: Any) -> object:
    """`np.inner`: the sum of products along the last axes."""
    if not (is_whole(a) and is_whole(b)):
        return binary(op.MUL, a, b)
    left, right = as_table(a), as_table(b)
    shared = matched(left.index_sets[-1], right.index_sets[-1])
    count = left.ndim - 1
    elem = _meet((left, right))

    def read(places: tuple[Place, ...]) -> object:
        total = _total(
            (shared,),
            lambda k: binary(
                op.MUL,
                element_at(left, (*places[:count], *k)),
                element_at(right, (*places[count:], *k)),
            ),
        )
        return _narrowed(total, elem)

    sets = (*left.index_sets[:-1], *right.index_sets[:-1])
    return tabulate(sets, read) if sets else read(())


def vdot(a: Any, b: Any) -> object:
    """`np.vdot` of real tables: the sum of all products."""
    return matmul(as_table(a).ravel(), as_table(b).ravel())


def outer(a: Any, b: Any) -> object:
    """`np.outer`."""
    left, right = as_table(as_table(a).ravel()), as_table(as_table(b).ravel())
    return tabulate(
        (left.index_set, right.index_set),
        lambda p: binary(op.MUL, left.element(p[:1]), right.element(p[1:])),
    )


_AXES = "Write numbers: `axes=1`, `axes=([0, 1], [1, 0])`."


def tensordot(a: Any, b: Any, axes: Any = 2) -> object:
    """`np.tensordot`; `axes` is a number of axes or two lists of axes."""
    left, right = as_table(a), as_table(b)
    if not isinstance(axes, tuple | list):
        count = literal_whole(axes, "`axes` of `np.tensordot`", _AXES)
        axes = (range(left.ndim - count, left.ndim), range(count))
    pairs = [
        [literal_whole(k, "`axes` of `np.tensordot`", _AXES) for k in each]
        if isinstance(each, tuple | list | range)
        else [literal_whole(each, "`axes` of `np.tensordot`", _AXES)]
        for each in axes
    ]
    names = [chr(ord("a") + k) for k in range(left.ndim + right.ndim)]
    mine, theirs = names[: left.ndim], names[left.ndim :]
    for one, two in zip(*pairs, strict=True):
        theirs[two] = mine[one]
    kept = [name for name in (*mine, *theirs) if (name in mine) != (name in theirs)]
    return einsum(f"{''.join(mine)},{''.join(theirs)}->{''.join(kept)}", left, right)


def einsum(subscripts: Any, *operands: Any) -> object:
    """`np.einsum` with letters, of any number of operands; without `...`."""
    tables = [as_table(operand) for operand in operands]
    inputs, output = _parsed(subscripts, tables)
    sets: dict[str, IndexSetTracer] = {}
    for letters, table in zip(inputs, tables, strict=True):
        for letter, index_set in zip(letters, table.index_sets, strict=True):
            known = sets.get(letter)
            sets[letter] = index_set if known is None else matched(known, index_set)
    summed = [letter for letter in sets if letter not in output]
    elem = _meet(tables)

    def product(at: dict[str, Place]) -> object:
        factors = [
            element_at(table, tuple(at[letter] for letter in letters))
            for letters, table in zip(inputs, tables, strict=True)
        ]
        return reduce(lambda x, y: binary(op.MUL, x, y), factors)

    def read(places: tuple[Place, ...]) -> object:
        at = dict(zip(output, places, strict=True))
        if not summed:
            return product(at)
        total = _total(
            [sets[letter] for letter in summed],
            lambda inner_: product(at | dict(zip(summed, inner_, strict=True))),
        )
        return _narrowed(total, elem)

    return tabulate([sets[letter] for letter in output], read) if output else read(())


def _parsed(subscripts: Any, tables: Sequence[TableTracer]) -> tuple[list[str], str]:
    """The letters of each operand and of the result."""
    if not isinstance(subscripts, str) or "." in subscripts:
        raise KernelTypeError(
            f"`np.einsum` is given {subscripts!r}.",
            at=here(),
            fix="Name each axis by a letter: `np.einsum('ij,jk->ik', a, b)`.",
        )
    left, arrow, output = subscripts.replace(" ", "").partition("->")
    inputs = left.split(",")
    letters = left.replace(",", "")
    if not arrow:
        output = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    fits = len(inputs) == len(tables) and all(
        len(names) == table.ndim for names, table in zip(inputs, tables, strict=False)
    )
    if not fits or not set(output) <= set(letters) or len(set(output)) < len(output):
        shapes = ", ".join(str(table.ndim) for table in tables)
        raise KernelTypeError(
            f"`np.einsum({subscripts!r})` does not fit tables with {shapes} axes.",
            at=here(),
            fix="Give a letter for each axis, and letters of the operands in the result, once.",
        )
    return inputs, output


def trace_of(a: Any) -> object:
    """`np.trace` of a matrix."""
    table = as_table(as_table(a).diagonal())
    return _total(table.index_sets, lambda places: table.element(places))


def cross(a: Any, b: Any) -> list[object]:
    """The three numbers of `np.cross` of two vectors."""
    x, y = as_table(a), as_table(b)
    if x.ndim != 1 or y.ndim != 1:
        raise KernelTypeError(
            "`np.cross` is given tables of vectors.",
            at=here(),
            fix="Call it for each: `pe.table(lambda i: np.cross(a[i], b[i]))`.",
        )
    return [
        binary(op.SUB, binary(op.MUL, x[p], y[q]), binary(op.MUL, x[q], y[p]))
        for p, q in ((1, 2), (2, 0), (0, 1))
    ]
