"""What is called in place of what the user wrote: builtins, `math`, kernels, the user's functions.

`resolve` is asked for each call in rewritten code, and for each function that is given to a loop
operation.  Replacements do what the original does on ordinary values.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import operator
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, FunctionType
from typing import Any, TypeAlias

import numpy as np

from peffects.errors import ControlFlowError, KernelTypeError, UnsupportedSyntaxError
from peffects.ir import primitives as prims
from peffects.ir.syntax import BOOL, F64, I64, SCALARS
from peffects.machine.checking.locations import speaks_for_users
from peffects.parallel.index_sets.index_set import IndexSet
from peffects.parallel.index_sets.packed import Packed
from peffects.staging.arrays import sorting
from peffects.staging.hooks.complex_callees import COMPLEX_CALLEES
from peffects.staging.hooks.python_maths import MATH, REFUSED_MATH
from peffects.staging.loops import ops
from peffects.staging.loops.branches import known_here
from peffects.staging.loops.checks import print_line
from peffects.staging.loops.locals import leaf_type
from peffects.staging.loops.ranges import SequentialLoop, SymbolicRange, sequential, zipped
from peffects.staging.numpy_surface.creation import CREATION
from peffects.staging.scalars import elementary
from peffects.staging.scalars.for_user import for_user, has_symbols, remainder
from peffects.staging.scalars.symbols import (
    binary,
    convert,
    is_complex,
    is_symbolic,
    is_whole,
    logical,
    python_extreme,
    refuse_missing,
)
from peffects.staging.scalars.whole_numbers import whole_number
from peffects.staging.structures.accumulators import as_table, is_table
from peffects.staging.structures.indices import IndexTracer
from peffects.staging.structures.records import as_tabular
from peffects.staging.structures.results import Err, Ok, Outcome
from peffects.staging.structures.tabular import Tabular
from peffects.staging.tracing.trace import current, here

__all__ = ["REPLACED"]

Function: TypeAlias = Callable[..., object]

# --- builtins ------------------------------------------------------------------------------------


def _symbolic(values: Iterable[object]) -> bool:
    return builtins.any(is_symbolic(value) for value in values)


def _extreme(original: Function, primitive: prims.Primitive, over_table: Function) -> Function:
    """`max` or `min`: of several numbers, of a Python sequence with symbols, of a table."""

    def call(*args: Any, **kwargs: object) -> object:
        if len(args) == 1 and is_symbolic(args[0]):
            return for_user(over_table, *args, **kwargs)  # which refuses what has no order
        values = args
        if len(args) == 1 and current() is not None:
            values = for_user(tuple, args[0])
            args = (values,)
        if not _symbolic(values):
            return for_user(original, *args, **kwargs)
        if kwargs:
            raise KernelTypeError(
                f"`{original.__name__}` of symbols takes no keyword arguments.",
                at=here(),
                fix="Leave them out.",
            )
        return functools.reduce(lambda x, y: python_extreme(primitive, x, y), values)

    return call


def _sum(*args: Any, **kwargs: Any) -> object:
    """`sum(values, start=0)`; of a table the loop operation."""
    if not (args and is_symbolic(args[0])):
        return for_user(sum, *args, **kwargs)
    for_user(sum, (), *args[1:], **kwargs)  # Python says what it takes
    total = ops.sum(args[0])
    start = args[1] if len(args) > 1 else kwargs.get("start", 0)
    return for_user(operator.add, start, total) if kwargs or args[1:] else total


def _any_or_all(original: Function, primitive: prims.Primitive, over_table: Function) -> Function:
    """`any` or `all`: of a Python sequence with symbols, of a table the loop operation."""

    def call(*args: Any, **kwargs: object) -> object:
        if len(args) != 1 or kwargs:
            return for_user(original, *args, **kwargs)  # which Python refuses
        if is_symbolic(args[0]):
            return over_table(args[0])
        values = for_user(list, args[0])
        if not _symbolic(values):
            return for_user(original, values)
        for value in values:
            _only_a_number(original, value)
        return functools.reduce(lambda x, y: logical(primitive, x, y), values)

    return call


def _only_a_number(what: Function, value: object) -> None:
    """Refuse a whole table where Python takes one number."""
    if is_whole(value):
        raise KernelTypeError(
            f"`{what.__name__}` is given a whole table.",
            at=here(),
            fix="Index it; another type for all elements is `x.astype(int)`, their truth "
            "`pe.any(x)` or `pe.all(x)`, `np.round(x)` rounds them.",
        )


def _int(value: object = 0, *args: object, **kwargs: object) -> object:
    if not is_symbolic(value) or args or kwargs:
        return for_user(int, value, *args, **kwargs)
    _only_a_number(int, value)
    return convert(value, I64, weak=True)


def _float(value: object = 0.0) -> object:
    if not is_symbolic(value):
        return for_user(float, value)
    _only_a_number(float, value)
    return convert(value, F64, weak=True)


def _bool(value: object = False) -> object:
    if not is_symbolic(value):
        return for_user(bool, value)
    _only_a_number(bool, value)
    return logical(prims.AND, value, True)


def _round(number: object, ndigits: object = None) -> object:
    if not is_symbolic(number):
        return for_user(round, number, ndigits)
    _only_a_number(round, number)
    if ndigits is not None:
        return elementary.rounded(number, ndigits)  # type: ignore[arg-type]
    return convert(elementary.rounded(number), I64, weak=True)


def _pow(base: object, exp: object, mod: object = None) -> object:
    if mod is None:
        return for_user(operator.pow, base, exp)
    if _symbolic((base, exp, mod)):
        raise KernelTypeError(
            "kernels have no `pow` with three arguments.",
            at=here(),
            fix="Write the loop: `for _ in range(k): r = r * x % m`.",
        )
    return for_user(pow, base, exp, mod)


def _concat(a: object, b: object) -> object:
    if is_symbolic(a) or is_symbolic(b):
        raise KernelTypeError(
            "`operator.concat` of values of the kernel, which are no Python sequences.",
            at=here(),
            fix="Write `a + b`, or join tables: `np.concatenate([a, b])`.",
        )
    return for_user(operator.concat, a, b)


def _length_hint(obj: object, default: int = 0) -> object:
    found = for_user(operator.length_hint, () if is_symbolic(obj) else obj, default)
    return _len(obj) if is_symbolic(obj) else found


def _id(value: object) -> int:
    if is_symbolic(value):
        raise ControlFlowError(
            "the identity of a value of the kernel is asked for, which it has none of.",
            at=here(),
            fix="Compare values: `a == b`.",
        )
    return id(value)


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
    return for_user(len, value)


def _range(*args: Any) -> object:
    if not _symbolic(args) or not 1 <= len(args) <= 3:
        return for_user(range, *args)
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
    return loop.reversed() if loop is not None else for_user(reversed, value)


def _sorted(value: object, **options: object) -> object:
    """`sorted`; of a table the table in order."""
    if not (is_symbolic(value) and is_table(value)):
        return for_user(sorted, value, **options)
    if options:
        raise KernelTypeError(
            f"`sorted` of a table is given `{next(iter(options))}=`.",
            at=here(),
            fix="Sort the values themselves: `x[pe.argsort(key)[i]]` has x in the order of a key.",
        )
    return sorting.sort(value)


def _enumerate(iterable: Any, start: Any = 0) -> object:
    _refuse_order("enumerate", (iterable,))
    loop = sequential(iterable) if is_symbolic(iterable) else None
    if loop is None and is_symbolic(start):
        first = whole_number(start, "the start of `enumerate`")
        pairs = for_user(enumerate, iterable)
        return ((binary(prims.ADD, first, place), item) for place, item in pairs)
    if loop is None:
        return for_user(enumerate, iterable, start)
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
        return for_user(zip, *values, strict=strict)
    _refuse_order("zip", values)
    return zipped(values)


def _isinstance(value: object, kinds: Any) -> object:
    if not is_symbolic(value):
        return for_user(isinstance, value, kinds)
    if isinstance(value, Outcome):
        return _outcome_is(value, kinds if isinstance(kinds, tuple) else (kinds,))
    kind = _type_of(value)
    for_user(isinstance, value, kinds)  # Python says what it takes
    return False if kind is None else issubclass(kind, kinds)


def _type(*args: Any, **kwargs: Any) -> object:
    """`type(value)`: of a symbol the type of the value that it stands for."""
    if len(args) != 1 or kwargs or not is_symbolic(args[0]):
        return for_user(type, *args, **kwargs)
    kind = _type_of(args[0])
    if kind is None:
        raise KernelTypeError(
            "`type` of a value of the kernel that is no number and no table.",
            at=here(),
            fix="Ask `isinstance(value, Ok)`; what has other types belongs outside the kernel.",
        )
    return kind


def _type_of(value: object) -> type | None:
    """The type of the value that a symbol stands for, if it is a number or an array."""
    refuse_missing(value)
    if is_complex(value):
        return np.ndarray if is_whole(value) else complex
    known = leaf_type(value)
    if known is None:
        return None
    if is_table(value):
        return np.ndarray
    if known.type == BOOL:
        return bool
    if known.weak:
        return int if known.type == I64 else float
    return np.dtype(str(getattr(known.type, "dtype", ""))).type


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
    sum: _sum,
    any: _any_or_all(any, prims.OR, ops.any),
    all: _any_or_all(all, prims.AND, ops.all),
    int: _int,
    float: _float,
    bool: _bool,
    round: _round,
    pow: _pow,
    operator.mod: remainder,
    operator.concat: _concat,
    operator.length_hint: _length_hint,
    id: _id,
    type: _type,
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

for _form in BUILTINS.values():
    speaks_for_users(_form)

CASTS: dict[object, Function] = {
    np.dtype(dtype).type: functools.partial(convert, target=scalar)
    for dtype, scalar in SCALARS.items()
}


@functools.cache
def _signature(function: Function) -> inspect.Signature | None:
    """What a function takes, if it says so."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _on_symbols(original: Function, on_symbols: Function) -> Function:
    """`original` on ordinary values, `on_symbols` if an argument is a symbol or has one in it."""

    @speaks_for_users
    @functools.wraps(original, assigned=("__name__", "__doc__"), updated=())
    def call(*args: object, **kwargs: object) -> object:
        if has_symbols((*args, *kwargs.values())):
            takes = _signature(original)
            if takes is not None and original.__name__ not in REFUSED_MATH:
                takes.bind(*args, **kwargs)  # which says what is missing or too much
            return for_user(on_symbols, *args, **kwargs)
        return for_user(original, *args, **kwargs)

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
