"""What is called in place of what the user wrote: builtins, `math`, kernels, the user's functions.

`resolve` is asked for each call in rewritten code, and for each function that is given to a loop
operation.  Replacements do what the original does on ordinary values.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, FunctionType
from typing import Any, TypeAlias

import numpy as np

from peffects.errors import KernelTypeError, UnsupportedSyntaxError
from peffects.ir import primitives as prims
from peffects.ir.syntax import BOOL, F64, I64, SCALARS
from peffects.parallel.index_set import IndexSet
from peffects.parallel.packed import Packed
from peffects.staging import elementary, ops, sorting
from peffects.staging.accumulators import as_table, is_table
from peffects.staging.branches import known_here
from peffects.staging.checks import print_line
from peffects.staging.complex_callees import COMPLEX_CALLEES
from peffects.staging.indices import IndexTracer
from peffects.staging.numpy_creation import CREATION
from peffects.staging.outcomes import Err, Ok, Outcome
from peffects.staging.python_maths import MATH
from peffects.staging.ranges import SequentialLoop, SymbolicRange, sequential, zipped
from peffects.staging.records import as_tabular
from peffects.staging.scalars import (
    binary,
    convert,
    is_complex,
    is_symbolic,
    logical,
    python_extreme,
    refuse_missing,
)
from peffects.staging.tabular import Tabular
from peffects.staging.trace import current, here
from peffects.staging.values import leaf_type
from peffects.staging.whole_numbers import whole_number

__all__ = ["REPLACED"]

Function: TypeAlias = Callable[..., object]

# --- builtins ------------------------------------------------------------------------------------


def _symbolic(values: Iterable[object]) -> bool:
    return builtins.any(is_symbolic(value) for value in values)


def _extreme(original: Function, primitive: prims.Primitive, over_table: Function) -> Function:
    """`max` or `min`: of several numbers, of a Python sequence with symbols, of a table."""

    def call(*args: object, **kwargs: object) -> object:
        if len(args) == 1 and is_symbolic(args[0]):
            return over_table(args[0])  # which refuses what has no elements in an order
        values = args
        if len(args) == 1 and isinstance(args[0], list | tuple):
            values = tuple(args[0])
        if not _symbolic(values):
            return original(*args, **kwargs)
        if kwargs:
            raise KernelTypeError(
                f"`{original.__name__}` of symbols takes no keyword arguments.",
                at=here(),
                fix="Leave them out.",
            )
        return functools.reduce(lambda x, y: python_extreme(primitive, x, y), values)

    return call


def _over_table(original: Function, over_table: Function) -> Function:
    """`sum`, `any`, `all`: of a table the loop operation."""

    def call(*args: object, **kwargs: object) -> object:
        if args and is_symbolic(args[0]):
            return over_table(*args, **kwargs)
        if original is not builtins.sum and args:
            values = list(args[0])  # type: ignore[call-overload]
            if _symbolic(values):
                combine = prims.OR if original is builtins.any else prims.AND
                return functools.reduce(lambda x, y: logical(combine, x, y), values)
            return original(values)
        return original(*args, **kwargs)

    return call


def _int(value: object = 0, *args: object) -> object:
    return convert(value, I64, weak=True) if is_symbolic(value) else int(value, *args)  # type: ignore[call-overload]


def _float(value: object = 0.0) -> object:
    return convert(value, F64, weak=True) if is_symbolic(value) else float(value)  # type: ignore[arg-type]


def _bool(value: object = False) -> object:
    return logical(prims.AND, value, True) if is_symbolic(value) else bool(value)


def _round(value: object, digits: object = None) -> object:
    if not is_symbolic(value):
        return round(value, digits)  # type: ignore[call-overload]
    if digits is not None:
        return elementary.rounded(value, digits)  # type: ignore[arg-type]
    return convert(elementary.rounded(value), I64, weak=True)


def _records(value: object) -> Tabular | None:
    """`value` as a table of complex numbers or records, unless its length is Python's."""
    own = not is_symbolic(value) and not isinstance(value, np.ndarray) and hasattr(value, "__len__")
    return None if own or current() is None else as_tabular(value)


def _len(value: object) -> object:
    records = _records(value)
    if records is not None:
        return records.shape[0]
    if is_table(value) and (is_symbolic(value) or current() is not None):
        return as_table(value).shape[0]
    if isinstance(value, Packed):
        return value.index.size
    if isinstance(value, IndexSet) and value.is_symbolic:
        return value.size
    if is_symbolic(value) and current() is not None:
        refuse_missing(value)
        raise KernelTypeError(
            "`len` of a number.", at=here(), fix="Only tables have a length; this is an element."
        )
    return len(value)  # type: ignore[arg-type]


def _range(*args: Any) -> object:
    if not _symbolic(args):
        return range(*args)
    if len(args) == 1:
        return SymbolicRange(0, args[0], 1)
    return SymbolicRange(args[0], args[1], args[2] if len(args) > 2 else 1)


def _refuse_order(what: str, values: Iterable[object]) -> None:
    """Refuse what would number or turn round the iterations of a parallel loop."""
    if builtins.any(isinstance(value, ops.ParallelLoop) for value in values):
        raise UnsupportedSyntaxError(
            f"`{what}` of `pe.par`: iterations of a parallel loop have no order.",
            at=here(),
            fix="Use `range`, whose rounds follow each other; or compute with the index: "
            "`n - 1 - i`.",
        )


def _reversed(value: object) -> object:
    _refuse_order("reversed", (value,))
    if isinstance(value, SymbolicRange):
        return SymbolicRange(value.start, value.stop, value.step, not value.reverse)
    if isinstance(value, range) and current() is not None:
        return SymbolicRange(value.start, value.stop, value.step, True)
    loop = sequential(value) if is_symbolic(value) else None
    return loop.reversed() if loop is not None else reversed(value)  # type: ignore[call-overload]


def _sorted(value: object, **options: object) -> object:
    """`sorted`; of a table the table in order."""
    if not (is_symbolic(value) and is_table(value)):
        return sorted(value, **options)  # type: ignore[call-overload]
    if options:
        raise KernelTypeError(
            f"`sorted` of a table is given `{next(iter(options))}=`.",
            at=here(),
            fix="Sort the values themselves: `x[pe.argsort(key)[i]]` has x in the order of a key.",
        )
    return sorting.sort(value)


def _enumerate(value: Any, start: Any = 0) -> object:
    _refuse_order("enumerate", (value,))
    loop = sequential(value) if is_symbolic(value) else None
    if loop is None:
        return enumerate(value, start)
    inner, first = loop.value, whole_number(start, "the start of `enumerate`")
    counts_from_0 = isinstance(first, int) and first == 0

    def pair(index: IndexTracer) -> object:
        number: object = index
        if loop.reverse:  # the rounds are numbered as they come
            number = binary(prims.SUB, binary(prims.SUB, loop.set.size, 1), index)
        return number if counts_from_0 else binary(prims.ADD, number, first), inner(index)

    return SequentialLoop(loop.set, pair, loop.reverse, loop.exact)


def _zip(*values: Any, strict: bool = False) -> object:
    if not _symbolic(values):
        return zip(*values, strict=strict)
    _refuse_order("zip", values)
    return zipped(values)


def _isinstance(value: object, kinds: object) -> object:
    if not is_symbolic(value):
        return isinstance(value, kinds)  # type: ignore[arg-type]
    refuse_missing(value)
    if is_complex(value):
        return issubclass(complex, kinds)  # type: ignore[arg-type]
    if isinstance(value, Outcome):
        return _outcome_is(value, kinds if isinstance(kinds, tuple) else (kinds,))
    known = leaf_type(value)
    if known is None:
        return False
    example: object = np.ndarray
    if not is_table(value):
        example = np.dtype(str(getattr(known.type, "dtype", ""))).type
        if known.weak:
            example = int if known.type == I64 else float
        elif known.type == BOOL:
            example = bool
    return issubclass(example, kinds)  # type: ignore[arg-type]


def _outcome_is(value: Outcome, kinds: tuple[object, ...]) -> object:
    if Ok in kinds and Err in kinds:
        return True
    if Ok not in kinds and Err not in kinds:
        return False
    known = known_here(value.ok)
    if known is not None:
        return known is (Ok in kinds)
    return value.ok if Ok in kinds else logical(prims.NOT, value.ok)


BUILTINS: dict[object, Function] = {
    max: _extreme(max, prims.MAX, ops.max),
    min: _extreme(min, prims.MIN, ops.min),
    sum: _over_table(sum, ops.sum),
    any: _over_table(any, ops.any),
    all: _over_table(all, ops.all),
    int: _int,
    float: _float,
    bool: _bool,
    round: _round,
    len: _len,
    range: _range,
    reversed: _reversed,
    enumerate: _enumerate,
    sorted: _sorted,
    print: print_line,
    zip: _zip,
    isinstance: _isinstance,
}

# --- numbers -------------------------------------------------------------------------------------

CASTS: dict[object, Function] = {
    np.dtype(dtype).type: functools.partial(convert, target=scalar)
    for dtype, scalar in SCALARS.items()
}


def _on_symbols(original: Function, on_symbols: Function) -> Function:
    """`original` on ordinary values, `on_symbols` if an argument is a symbol or has one in it."""

    @functools.wraps(original, assigned=("__name__", "__doc__"), updated=())
    def call(*args: object, **kwargs: object) -> object:
        if _symbolic(args) or any(_symbolic(x) for x in args if isinstance(x, list | tuple)):
            return on_symbols(*args, **kwargs)
        return original(*args, **kwargs)

    return call


REPLACED: dict[object, Function] = {
    **BUILTINS,
    **CREATION,
    **{
        original: _on_symbols(original, new)  # type: ignore[arg-type]
        for original, new in (MATH | CASTS | COMPLEX_CALLEES).items()
    },
}

for _builtin, _form in BUILTINS.items():
    if isinstance(_form, FunctionType) and isinstance(_builtin, type | BuiltinFunctionType):
        _form.__qualname__ = _builtin.__name__  # Python says of a wrong call what it always says
