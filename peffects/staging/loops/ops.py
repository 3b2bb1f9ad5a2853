"""The loop operations that users call: `pe.table`, `pe.sum`, `pe.par`, `pe.accumulator` and so on.

While a kernel is staged they emit loops.  Outside, an operation is a kernel of its own, staged and
run at once by the function that the top layer gives to `run_outside_with`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from peffects.errors import ControlFlowError, InternalError, KernelTypeError, ValueRangeError
from peffects.ir import primitives as prims
from peffects.ir.builder import int_lit
from peffects.ir.syntax import BOOL, I64, Atom, FinSet, For, Lit, Monoid, Ref, Table, Var
from peffects.ir.typing import set_of
from peffects.machine.checking.locations import show_users_frames
from peffects.parallel.index_sets.dependent import Range
from peffects.parallel.index_sets.packed import Packed
from peffects.staging.loops.parallel_loops import (
    finish_reduction,
    finish_table,
    of_pair,
    pairs_of,
    trace_body,
    whole_table,
)
from peffects.staging.loops.user_monoids import user_accumulator
from peffects.staging.scalars import maths
from peffects.staging.scalars.symbols import (
    ScalarTracer,
    binary,
    compare,
    convert,
    is_symbolic,
    lift,
    logical,
    select,
    test,
    unary,
    weak_int,
)
from peffects.staging.structures.accumulators import (
    AccumulatorTracer,
    UncheckedTracer,
    as_table,
    is_table,
)
from peffects.staging.structures.domains import Domain, as_sets, domain_of
from peffects.staging.structures.records import (
    RecordAccumulator,
    accumulator_of_records,
    as_tabular,
    record_spec,
)
from peffects.staging.structures.tables import TableTracer
from peffects.staging.structures.trees import map_leaves
from peffects.staging.tracing.promotion import scalar_of
from peffects.staging.tracing.trace import current, here, staging

__all__ = [
    "ParallelLoop", "accumulator", "all", "any", "argmax", "argmin", "each", "logsumexp",
    "loop_operation", "max", "mean", "min", "par", "prod", "run_outside", "run_outside_with",
    "stop_gradient", "sum", "table", "unchecked", "where",
]  # fmt: skip

P = ParamSpec("P")
R = TypeVar("R")
Outside = Callable[[Callable[..., object], tuple[object, ...], dict[str, object]], object]

_outside: list[Outside] = []


def run_outside_with(run: Outside) -> None:
    """Say how a loop operation runs where no kernel is being staged.

    `run(operation, args, kwargs)` stages `operation(*args, **kwargs)` like a kernel and runs it.
    """
    _outside[:] = [run]


def loop_operation(operation: Callable[P, R]) -> Callable[P, R]:
    """An operation that stages and runs itself outside kernels."""

    @functools.wraps(operation)
    def staged_or_run(*args: P.args, **kwargs: P.kwargs) -> R:
        if current() is not None:
            return operation(*args, **kwargs)
        flags = {name: value for name, value in kwargs.items() if isinstance(value, bool)}
        values = {name: value for name, value in kwargs.items() if name not in flags}
        try:
            return cast(R, run_outside(operation, args, values, flags))
        except BaseException as error:
            show_users_frames(error)
            raise

    return staged_or_run


def run_outside(
    operation: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    flags: dict[str, Any],
) -> object:
    """Run a loop operation where no kernel is being staged; `flags` choose its program."""
    if not _outside:
        raise InternalError(f"nobody said how `{operation.__name__}` runs outside a kernel.")
    call = _with_flags(operation, **flags) if flags else operation
    return _outside[0](call, args, kwargs)


@functools.lru_cache(maxsize=256, typed=True)
def _with_flags(operation: Callable[..., object], **flags: Any) -> Callable[..., object]:
    """`operation` with `reverse=True` and the like: they choose the program, and are no numbers."""
    return functools.partial(operation, **flags)


# --- tables --------------------------------------------------------------------------------------


@loop_operation
def table(function: object, *, over: object = None) -> Any:
    """The table of `function(i)` for all indices i; a tuple of results gives a tuple of tables.

    The index sets are those of the axes that the indices are used on, or given by `over`: an int, a
    `Fin`, a table (its first axis), `x.index`, or a tuple of these, one for each parameter.
    """
    pairs = pairs_of(over)
    if pairs is not None:
        call = of_pair("table", function)
        return table(lambda i: table(partial(call, i), over=Range(pairs, i)), over=pairs.outer)
    with trace_body("table", function, over) as body:
        result = finish_table(body)
    return result


@loop_operation
def each(function: object, *, over: object = None) -> None:
    """Run `function(i)` for all indices i in parallel, for what it accumulates."""
    pairs = pairs_of(over)
    if pairs is not None:
        call = of_pair("each", function)
        each(lambda i: each(partial(call, i), over=Range(pairs, i)), over=pairs.outer)
        return
    with trace_body("each", function, over) as body:
        if body.value is not None:
            raise KernelTypeError(
                "the function given to `each` returns a value.", at=here(), fix="Use `pe.table`."
            )
        block = staging().close(body.scope)
        staging().emit(For(body.binders, block))


# --- reductions ----------------------------------------------------------------------------------


def _reduce(operation: str, monoid: Monoid, function: object, over: object) -> object:
    """The combination of `function(i)` over all i; of a table: of all its elements."""
    function, over = _elements(function, over)
    result, sizes = _reduction(operation, monoid, function, over)
    if monoid in (Monoid.MIN, Monoid.MAX):
        _check_not_empty(operation, sizes)
    return result


def _reduction(
    operation: str, monoid: Monoid, function: object, over: object
) -> tuple[object, list[Atom]]:
    """The combination, and the sizes whose product says how many values were combined."""
    pairs = pairs_of(over)
    if pairs is None:
        with trace_body(operation, function, over) as body:
            result = finish_reduction(body, monoid)
        return result, [set_of(binder).size for binder in body.binders]
    call, kept = of_pair(operation, function), pairs

    def row(i: object) -> object:
        return _reduction(operation, monoid, partial(call, i), Range(kept, i))[0]

    result, _ = _reduction(operation, monoid, row, pairs.outer)
    return result, [lift(pairs.size).atom]


def _elements(function: object, over: object) -> tuple[object, object]:
    """A table stands for the function that gives its elements."""
    if isinstance(function, Packed):
        function = function.packed
    records = as_tabular(function)
    if records is not None:
        return (lambda i: records[i]), records.index_sets if over is None else over
    if not is_table(function):
        return function, over
    whole = as_table(function)
    return (lambda i: whole[i]), whole.index_sets if over is None else over


def _check_not_empty(operation: str, sizes: Sequence[Atom]) -> None:
    trace = staging()
    for size in map(trace.sizes.representative, sizes):
        if isinstance(size, Lit) and size.value:
            continue
        some = trace.prim(prims.LT, int_lit(0), size)
        text = f"`{operation}` over an empty index set."
        trace.check(some, ValueRangeError, text, (), "Give a table that has elements.")


@loop_operation
def sum(function: object, *, over: object = None) -> Any:
    """The sum of `function(i)` over all indices i; 0 if there are none.

    `function` is a function of one index or several, or a table, all of whose elements are summed;
    its values are numbers, rows or records.  The index sets are those of the axes that the indices
    are used on, or `over`, as for `table`.  Small integers are widened to 64 bits.  Any number of
    threads gives the same bits.

    Raises UnknownIndexSetError if neither use nor `over` tells the index sets.
    """
    return _reduce("sum", Monoid.ADD, function, over)


@loop_operation
def prod(function: object, *, over: object = None) -> Any:
    """The product of `function(i)` over all indices i; 1 if there are none."""
    return _reduce("prod", Monoid.MUL, function, over)


@loop_operation
def max(function: object, *, over: object = None) -> Any:
    """The largest `function(i)`, nan if there is a nan; ValueRangeError if there are no indices.

    `function` and `over` are as for `sum`.
    """
    return _reduce("max", Monoid.MAX, function, over)


@loop_operation
def min(function: object, *, over: object = None) -> Any:
    """The smallest `function(i)`, nan if there is a nan; ValueRangeError if there are no indices.

    `function` and `over` are as for `sum`.
    """
    return _reduce("min", Monoid.MIN, function, over)


@loop_operation
def any(function: object, *, over: object = None) -> Any:
    """Whether `function(i)` holds for some index i."""
    return _reduce("any", Monoid.OR, function, over)


@loop_operation
def all(function: object, *, over: object = None) -> Any:
    """Whether `function(i)` holds for every index i."""
    return _reduce("all", Monoid.AND, function, over)


@loop_operation
def mean(function: object, *, over: object = None) -> Any:
    """The mean of `function(i)` over all indices i; nan if there are none."""
    function, over = _elements(function, over)
    total, sizes = _reduction("mean", Monoid.ADD, function, over)
    count: object = 1
    for size in sizes:
        count = binary(prims.MUL, count, weak_int(size))
    return map_leaves(lambda leaf: _divided(leaf, count), total)


def _divided(leaf: object, count: object) -> object:
    if isinstance(leaf, TableTracer):
        return table(lambda i: binary(prims.DIV, leaf[i], count), over=leaf.index_sets)
    return binary(prims.DIV, leaf, count)


def _materialized(operation: str, function: object, over: object) -> TableTracer:
    """The table of `function`, for operations that go over its values more than once."""
    if isinstance(function, Packed):
        function = function.packed
    if is_table(function):
        return as_table(function)
    if pairs_of(over) is not None:
        return as_table(table(function, over=over).packed)
    with trace_body(operation, function, over) as body:
        whole = whole_table(body)
        result = finish_table(body) if whole is None else whole
    if not isinstance(result, TableTracer) or result.ndim != len(body.binders):
        raise KernelTypeError(
            f"the function given to `{operation}` must return one number.",
            at=here(),
            fix="Call it once for each number.",
        )
    return result


@loop_operation
def logsumexp(function: object, *, over: object = None) -> Any:
    """`log(sum(exp(function(i))))`, without overflow; -inf if there are no indices.

    Where it is -inf, all terms are and stay so when they change by any finite step: the gradient
    there is taken to be 0.
    """
    values = _materialized("logsumexp", function, over)
    sets = values.index_sets
    with trace_body("max", lambda i: values[i], sets) as body:
        largest = stop_gradient(finish_reduction(body, Monoid.MAX))
    finite = test(prims.IS_FINITE, largest)
    shift = select(finite, largest, 0.0)
    total = sum(lambda i: maths.exp(binary(prims.SUB, values[i], shift)), over=sets)
    nothing = compare(prims.EQ, total, 0.0)
    logarithm = maths.log(select(nothing, 1.0, total))
    return binary(prims.ADD, select(nothing, -math.inf, logarithm), shift)


def _first(operation: str, monoid: Monoid, function: object, over: object) -> object:
    """The first index of the extremal value; a nan counts as extremal, as it does in numpy."""
    values = _materialized(operation, function, over)
    if values.ndim != 1:
        raise KernelTypeError(
            f"`{operation}` takes a function of one index.",
            at=here(),
            fix="Call it for each row: `pe.table(lambda i: pe.argmin(lambda j: a[i, j]))`.",
        )
    extreme = _reduce(operation, monoid, values, None)
    size = values.index_set.size

    def place(i: object) -> object:
        value = values[i]
        hit: object = compare(prims.EQ, value, extreme)
        if isinstance(value, ScalarTracer) and value.type.is_float:
            hit = logical(prims.OR, hit, test(prims.IS_NAN, value))
        return select(hit, i, size)

    return convert(_reduce(operation, Monoid.MIN, place, values.index_sets), I64, weak=True)


@loop_operation
def argmin(function: object, *, over: object = None) -> Any:
    """The first index at which `function(i)` is smallest, as an int; of nan the first one.

    A function of one index, or a table with one axis: KernelTypeError otherwise.  ValueRangeError
    if there are no indices.
    """
    return _first("argmin", Monoid.MIN, function, over)


@loop_operation
def argmax(function: object, *, over: object = None) -> Any:
    """The first index at which `function(i)` is largest, as an int; of nan the first one.

    A function of one index, or a table with one axis: KernelTypeError otherwise.  ValueRangeError
    if there are no indices.
    """
    return _first("argmax", Monoid.MAX, function, over)


# --- loops as statements, accumulators -----------------------------------------------------------


class ParallelLoop:
    """What `pe.par` gives: `for i in pe.par(x): ...` is rewritten into a parallel loop."""

    _pe_symbolic = True

    def __init__(self, domain: Domain) -> None:
        self.domain = domain

    def __repr__(self) -> str:
        return "<pe.par(...)>"

    def __iter__(self) -> Iterator[Any]:  # what type checkers see of the rewritten loop
        raise ControlFlowError(
            "`pe.par` is iterated where its loop is not rewritten.",
            at=here(),
            fix="Write it as a `for` statement in a kernel whose source peffects can read.",
        )


def par(*over: object) -> Iterable[Any]:
    """What a parallel `for` runs over: `for i in pe.par(x)`, `for i, j in pe.par(n, m)`.

    Each of `over` is an int, an index set, or a table (its first axis).  The body may write to
    accumulators and to states that it makes itself, and nothing else: DataRaceError.  Raises
    ControlFlowError outside kernels, where plain loops do.
    """
    if current() is None:
        raise ControlFlowError(
            "`pe.par` is used outside a kernel.",
            at=here(),
            fix="Put the loop into a function decorated with `@pe.kernel`.",
        )
    domain = domain_of(over)
    if not domain.axes:
        raise KernelTypeError("`pe.par` needs an index set.", at=here(), fix="`pe.par(x)`.")
    return ParallelLoop(domain)


_MONOIDS = {"add": Monoid.ADD, "mul": Monoid.MUL, "min": Monoid.MIN, "max": Monoid.MAX}
_MONOIDS |= {"and": Monoid.AND, "or": Monoid.OR}


def accumulator(
    *over: object, dtype: object = float, op: str | Callable[..., Any] = "add", empty: Any = None
) -> Any:
    """An accumulator with one element for each index of `over`; without `over` a single number.

    Loops change it with `h[i] += v` (or `*=`, `&=`, `|=`, `h.combine(i, v)`, as `op` says) and it
    is its final value once it is read.  `op`: add, mul, min, max, and, or; or a function of two
    elements, with `empty`, the value or tree of numbers that each element starts from.  Such
    accumulators are written with `h.combine(i, v)`, and combine in index order: the loops that
    write to them run a second time for that, in one thread.
    """
    if current() is None:
        raise ControlFlowError(
            "`pe.accumulator` is used outside a kernel.",
            at=here(),
            fix="Put it into a function decorated with `@pe.kernel`.",
        )
    if callable(op):
        axes = tuple(FinSet(index_set.atom, index_set.label) for index_set in as_sets(over))
        return user_accumulator(axes, op, empty)
    elem, monoid = scalar_of(dtype) if isinstance(dtype, type) else None, _MONOIDS.get(op)
    spec = record_spec(dtype) if elem is None else None
    if spec is not None and monoid is not None:
        return accumulator_of_records(spec, as_sets(over), monoid)
    elem = scalar_of(dtype)
    if elem is None or monoid is None:
        wrong = f"dtype {dtype!r}" if elem is None else f"operation {op!r}"
        raise KernelTypeError(
            f"accumulators have no {wrong}.", at=here(), fix=f"Operations: {', '.join(_MONOIDS)}."
        )
    logical_ = monoid in (Monoid.AND, Monoid.OR)
    if logical_ != (elem == BOOL):
        raise KernelTypeError(
            f"an accumulator of {elem} cannot combine with `{op}`.",
            at=here(),
            fix="`and` and `or` combine bools (`dtype=bool`), the others numbers.",
        )
    dims = tuple(FinSet(index_set.atom, index_set.label) for index_set in as_sets(over))
    held = Ref(monoid, Table(dims, elem) if dims else elem)
    return AccumulatorTracer(staging().accumulator(Var("acc", held)), "acc")


def unchecked(value: Any) -> Any:
    """`value`, a table or accumulator, without tests of indices: wrong ones corrupt memory."""
    if not is_symbolic(value) and current() is None:
        return value
    if isinstance(value, AccumulatorTracer | RecordAccumulator):
        return UncheckedTracer(value)
    records = as_tabular(value)
    return UncheckedTracer(as_table(value) if records is None else records)


# --- values --------------------------------------------------------------------------------------


def where(condition: object, then: Any, orelse: Any) -> Any:
    """`then` if `condition` else `orelse`; both are computed.

    Numbers all three, or in a kernel whole tables, element by element.  Raises KernelTypeError for
    arrays outside kernels, where `np.where` takes them.
    """
    if is_symbolic(condition) or is_symbolic(then) or is_symbolic(orelse):
        return select(condition, then, orelse)
    if isinstance(condition, np.ndarray) and condition.ndim:
        raise KernelTypeError(
            f"`where` takes numbers, not {condition!r:.60}.",
            at=here(),
            fix="For arrays: `np.where`, in kernels too.",
        )
    return then if condition else orelse


def stop_gradient(value: Any) -> Any:
    """`value`, number, table or nested, as a constant for derivatives."""
    return map_leaves(_stopped, value)


def _stopped(leaf: object) -> object:
    if current() is None or not (is_symbolic(leaf) or is_table(leaf)):
        return leaf
    if is_table(leaf):
        whole = as_table(leaf)
        return table(lambda i: unary(prims.STOP_GRADIENT, whole[i]), over=whole.index_sets)
    return unary(prims.STOP_GRADIENT, leaf)
