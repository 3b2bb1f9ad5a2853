"""One debugging run of a kernel: the hooks of its functions, and what the loop operations do.

A session knows the indices of the loops that are running, so that a nan is told with its place.
"""

from __future__ import annotations

import builtins
import functools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FrameType, FunctionType, MethodType
from typing import Any, cast

import numpy as np

from peffects.errors import (
    IndexSetMismatchError,
    KernelTypeError,
    NotANumberError,
    ValueRangeError,
)
from peffects.ir.messages import bounds_error, bounds_text
from peffects.ir.syntax import BOOL, F64, Monoid
from peffects.parallel.index_sets.index_set import Idx
from peffects.parallel.index_sets.packed import Packed
from peffects.parallel.running import run
from peffects.staging.loops import checks, lazy, ops
from peffects.staging.loops.parallel_loops import parameter_names
from peffects.staging.rewriting.rewritten import is_users
from peffects.staging.scalars.for_user import for_user
from peffects.staging.structures.records import record_spec
from peffects.staging.structures.tables import refuse_write
from peffects.staging.structures.trees import Node, flatten, map_leaves, unflatten
from peffects.staging.tracing.argument_types import as_array
from peffects.staging.tracing.promotion import scalar_of
from peffects.staging.tracing.recursion import no_overflow
from peffects.staging.tracing.trace import here
from peffects.stepping.arithmetic import Arithmetic
from peffects.stepping.effects import run_to_debug
from peffects.stepping.functions import functions_of_numbers
from peffects.stepping.loops import Rows, as_sets, domain_of, iterate, positions
from peffects.stepping.places import (
    as_index,
    items_of,
    packed_element,
    pairs_in,
    pairs_of,
    structure_of,
)
from peffects.stepping.records import Records, RecordSums, as_records, without_records
from peffects.stepping.rewrite import for_debugging
from peffects.stepping.sequential import Combined, sequential_operations
from peffects.stepping.subscripts import of_axes, out_of_bounds
from peffects.stepping.values import (
    Accumulator,
    Index,
    Int,
    PastEnd,
    Row,
    Set,
    State,
    as_computed,
    as_element,
    computed_by,
    copied,
    promoted,
    read,
)

__all__ = ["debug"]

Function = Callable[..., Any]
_MONOIDS = {monoid.name.lower(): monoid for monoid in Monoid}
_OPERATORS = {"+=": Monoid.ADD, "*=": Monoid.MUL, "&=": Monoid.AND, "|=": Monoid.OR}
_METHODS = ("append", "get", "set")


def _of_numbers(function: Function) -> Function:
    """`function`, which is given the values of accumulators and states of a number."""
    return lambda *args, **kwargs: for_user(function, *map(read, args), **kwargs)


def debug(
    function: Function, args: Sequence[object], kwargs: Mapping[str, object], *, nan: bool
) -> Any:
    """The value of `function`, run as plain Python on arrays; with `nan` the first nan is an error.

    Raises what the compiled kernel raises for indices, sizes, divisions and conversions.
    """
    session = _Session(nan)
    call: Any = map_leaves(_argument, (tuple(args), dict(kwargs)))
    new_args, new_kwargs = call
    with np.errstate(all="ignore"), no_overflow():
        result = session.callee(function)(*new_args, **new_kwargs)
    leaves, tree = flatten(map_leaves(_record_result, result))
    return unflatten(without_records(tree), list(map(_result, leaves)))


def _argument(leaf: Any) -> Any:
    array = as_array(leaf)
    if array is None:
        return as_computed(leaf)
    return array if array.ndim else array[()]


def _record_result(leaf: Any) -> Any:
    return leaf.value() if isinstance(leaf, RecordSums) else leaf


def _result(leaf: Any) -> Any:
    if isinstance(leaf, Accumulator):
        leaf, pairs = leaf.value(), leaf.pairs
        return leaf if pairs is None else Packed(pairs, leaf)
    if isinstance(leaf, State):
        return map_leaves(_result, leaf.held)
    if isinstance(leaf, np.ndarray):
        return np.array(leaf)
    return int(leaf) if isinstance(leaf, Int) else leaf


def _name_of(value: object) -> str:
    """The name of a value in the function that is running, or around it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith("peffects."):
            for names in (frame.f_locals, frame.f_globals):
                for name, known in names.items():
                    if known is value:
                        return name
        frame = frame.f_back
    return "a table"


def _is_nan(value: Any) -> bool:
    array = np.asarray(value)
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


class _Session(Arithmetic):
    """The hooks of all functions of one run."""

    slice = builtins.slice

    def __init__(self, nan: bool) -> None:
        self.nan = nan
        self.functions: dict[FunctionType, Function] = {}
        self.indices: list[tuple[str, tuple[Index, ...]]] = []
        self.operations: dict[object, Function] = {
            ops.table: self.table, lazy.view: self.table, ops.each: self.each,
            ops.par: lambda *over: Par(over),
            ops.accumulator: functools.partial(_accumulator, self), ops.mean: self.mean,
            ops.logsumexp: self.logsumexp,
            ops.argmin: functools.partial(self.first, "argmin", np.argmin),
            ops.argmax: functools.partial(self.first, "argmax", np.argmax),
            checks.check: self.check, run: run_to_debug,
            int: _int, float: _float, min: _min, max: _max, divmod: self.quotient_and_rest,
            pow: self.power, np.power: self.power,
            **functions_of_numbers(),
            **sequential_operations(self),
        }  # fmt: skip
        reductions: dict[Function, Function] = {
            ops.sum: np.sum, ops.prod: np.prod, ops.max: np.max, ops.min: np.min,
            ops.any: np.any, ops.all: np.all,
        }  # fmt: skip
        for operation, combine in reductions.items():
            name = operation.__name__
            self.operations[operation] = functools.partial(self.reduce, name, combine)
        for plain, name in ((sum, "sum"), (any, "any"), (all, "all")):
            self.operations[plain] = functools.partial(_whole, plain, self, name)

    # --- hooks -----------------------------------------------------------------------------------

    def callee(self, function: Any) -> Any:
        """What is called in place of `function`."""
        function = getattr(function, "__pe_function__", function)
        if isinstance(function, MethodType) and isinstance(function.__func__, FunctionType):
            if not is_users(function.__func__):
                return function
            return MethodType(self.callee(function.__func__), function.__self__)
        try:
            replacement = self.operations.get(function)
        except TypeError:
            replacement = None
        if replacement is not None:
            return replacement
        if isinstance(function, FunctionType) and is_users(function):
            return self._users(function)
        if isinstance(function, type) or not callable(function):
            return function
        if isinstance(function, FunctionType):
            return _of_numbers(function)
        return lambda *args, **kwargs: computed_by(function, args, kwargs)

    def _users(self, function: FunctionType) -> Function:
        if "_pe" in function.__code__.co_freevars:  # made by a function that has hooks
            return function
        if function not in self.functions:
            self.functions[function] = for_debugging(function, self) or function
        return self.functions[function]

    def attribute(self, owner: Any, name: str) -> Any:
        """`owner.shape` and the like; arrays of kernels have index sets, too."""
        if isinstance(owner, Accumulator) and name == "combine":
            return lambda key, value: self._combine(owner, key, value)
        if isinstance(owner, RecordSums) and name not in ("shape", "index", "index_set"):
            return owner.field(name)
        if isinstance(owner, Combined) and name == "combine":
            return lambda key, value: owner.combine(self._place(owner, owner.shape, key), value)
        if not isinstance(owner, np.ndarray | Accumulator | State) or name in _METHODS:
            return for_user(getattr, owner, name)
        if name == "shape":
            return tuple(map(Int, owner.shape))
        label = _name_of(owner)
        sets = tuple(Set(size, f"axis {k} of `{label}`") for k, size in enumerate(owner.shape))
        return sets if name == "index_sets" else sets[0]

    def item(self, owner: Any, key: Any) -> Any:
        """`owner[key]`, tested."""
        owner = owner.value() if isinstance(owner, RecordSums) else owner
        table = owner.array if isinstance(owner, Accumulator) else owner
        if isinstance(owner, Packed):
            return packed_element(owner, key)
        if isinstance(owner, State):  # a row that was read stays as it is
            place = self._place(owner, owner.shape, key)
            return as_element(copied(for_user(operator.getitem, owner.held, place)))
        records = as_records(owner, key)
        if records is not None:
            return records.at(self._place(records.first, records.shape, key))
        if not isinstance(table, np.ndarray):
            return for_user(operator.getitem, owner, key)
        value = for_user(operator.getitem, table, self._place(owner, table.shape, key))
        if self.nan and _is_nan(value):
            self._found_nan(f"`{_name_of(owner)}`[{key if isinstance(key, tuple) else int(key)}]")
        return as_element(value)

    def set_item(self, owner: Any, key: Any, value: Any) -> None:
        """`owner[key] = value`: refused for tables, as in a kernel."""
        if isinstance(owner, np.ndarray | Accumulator):
            refuse_write(_name_of(owner), parallel=bool(self.indices))
        if isinstance(owner, State):
            place = self._place(owner, owner.shape, key)
            for_user(operator.setitem, owner.held, place, np.asarray(value))
        else:
            for_user(operator.setitem, owner, key, value)

    def augmented_item(self, symbol: str, owner: Any, key: Any, value: Any) -> None:
        """`owner[key] += value`."""
        if isinstance(owner, Accumulator):
            self._check_operator(owner, symbol)
            self._combine(owner, key, value)
        elif isinstance(owner, np.ndarray):
            refuse_write(_name_of(owner), parallel=bool(self.indices))
        elif isinstance(owner, State):
            self.set_item(owner, key, self.augment(symbol, self.item(owner, key), value))
        else:
            found = self.augment(symbol, for_user(operator.getitem, owner, key), value)
            for_user(operator.setitem, owner, key, found)

    def augmented(self, symbol: str, value: Any, other: Any) -> Any:
        """`value += other`."""
        if isinstance(value, State):
            value.set(self.augment(symbol, value.get(), other))
            return value
        if not isinstance(value, Accumulator):
            return self.augment(symbol, value, other)
        self._check_operator(value, symbol)
        value.put((), other)
        return value

    def augmented_attribute(self, symbol: str, owner: Any, name: str, value: Any) -> None:
        """`owner.name += value`."""
        setattr(owner, name, self.augmented(symbol, getattr(owner, name), value))

    def named(self, name: str, value: Any) -> Any:
        """`name = value`."""
        if isinstance(value, Accumulator | State):
            value.name = f"`{name}`"
        elif self.nan and _holds_nan(value):
            self._found_nan(f"`{name}`")
        return value

    def loop(self, iterable: Any) -> Iterable[Any]:
        """What a `for` runs over."""
        if isinstance(iterable, Par):
            return self._parallel(iterable)
        if isinstance(iterable, Records):
            return (iterable.at((k,)) for k in range(len(iterable)))
        items = for_user(iter, iterable)
        return (as_index(x) if isinstance(x, Idx) else _looped(x) for x in items)

    # --- indices ---------------------------------------------------------------------------------

    def _place(self, owner: Any, shape: tuple[int, ...], key: Any) -> tuple[Any, ...]:
        """The tested indices."""
        items = items_of(owner, key)
        taken = of_axes(items, len(shape))
        if len(taken) > len(shape):
            raise KernelTypeError(
                f"`{_name_of(owner)}` has {len(shape)} axes and is indexed with {len(taken)} "
                "indices.",
                at=here(),
                fix="Give one index for each axis.",
            )
        for axis, (item, size) in enumerate(zip(taken, shape, strict=False)):
            if isinstance(item, Idx):
                self._same_set(owner, axis, as_index(item), size)
                continue
            wrong = out_of_bounds(item, size)
            if wrong is not None:
                text = bounds_text(_name_of(owner), axis)
                raise bounds_error(text, wrong, size, here(), self.places())
        return tuple(items)

    def _same_set(self, owner: Any, axis: int, index: Index, size: int) -> None:
        known = index.set
        if known.size is None:
            known.structure = structure_of(owner, axis)
            known.size, known.origin = size, f"axis {axis} of `{_name_of(owner)}`"
        whole = known.size if known.structure is None else known.structure.base.size
        if whole != size:
            raise IndexSetMismatchError(
                f"axis {axis} of `{_name_of(owner)}` has length {size} and {known.origin} has "
                f"length {whole}, but one index runs over both.",
                at=here(),
                fix="Give arrays whose axes agree; or index with `int(i)` if the tables really "
                "have different index sets (such an index is tested at run time).",
            )
        if index >= size:
            raise PastEnd(known)

    def _combine(self, accumulator: Accumulator, key: Any, value: Any) -> None:
        if self.nan and _is_nan(value):
            self._found_nan(f"what is added to {accumulator.name}")
        accumulator.put(self._place(accumulator, accumulator.shape, key), value)

    def _check_operator(self, accumulator: Accumulator, symbol: str) -> None:
        if _OPERATORS.get(symbol) is not accumulator.monoid:
            raise KernelTypeError(
                f"{accumulator.name} combines with `{accumulator.monoid.name.lower()}`, and "
                f"`{symbol}` is written.",
                at=here(),
                fix="Make it with the `op=` that is meant, or write `h.combine(i, v)`.",
            )

    def _found_nan(self, what: str) -> None:
        fix = "Look at what it is computed from."
        raise NotANumberError(f"{what} is nan.", at=here(), notes=self.places(), fix=fix)

    def places(self) -> list[str]:
        """The iterations that are running, innermost first."""
        return [
            f"in iteration {', '.join(map(str, map(int, place)))} of {loop}"
            for loop, place in reversed(self.indices)
        ]

    def check(self, condition: Any, message: object = "") -> None:
        """`pe.check`."""
        if not np.all(condition):
            raise checks.failed(str(message), self.places())

    # --- loops -----------------------------------------------------------------------------------

    def _parallel(self, par: Par) -> Iterator[Any]:
        pairs, domain = pairs_of(par.over), domain_of("par", lambda i: None, par.over)
        places = positions(domain.axes) if pairs is None else pairs_in(pairs)  # type: ignore[arg-type]
        for place in places:
            self.indices.append(("`par`", place))
            found = place if pairs is not None else domain.arguments(place, len(domain.parts)) or ()  # type: ignore[arg-type]
            try:
                yield found[0] if len(found) == 1 else tuple(found)
            finally:
                self.indices.pop()

    def _rows(self, operation: str, function: Any, over: object) -> tuple[Rows, Sequence[Set]]:
        """Run the body for all indices."""
        call, count = self.callee(function), len(parameter_names(function))
        pairs = pairs_of(over)
        domain = domain_of(operation, lambda i: None, over) if pairs is not None else None
        domain = domain or domain_of(operation, function, over)
        sets: Any = domain.axes

        def body(place: Any) -> object:
            self.indices.append((f"`{operation}`", place))
            given: Any = place if pairs is not None else domain.arguments(place, count)
            try:
                value = call(*given) if len(given) == count else call(tuple(given))
                if self.nan and _holds_nan(value):
                    self._found_nan(f"what the body of `{operation}` gives")
            finally:
                self.indices.pop()
            return value

        rows = Rows()
        for value in iterate(sets, body) if pairs is None else map(body, pairs_in(pairs)):
            rows.add(value)
        return rows, sets

    def table(self, function: Any, *, over: object = None) -> Any:
        """`pe.table`."""
        rows, sets = self._rows("table", function, over)
        shape = tuple(index_set.size or 0 for index_set in sets)
        pairs = pairs_of(over)

        def made(column: Any) -> Any:
            if pairs is not None:
                return Packed(pairs, column)
            found = column.reshape(shape + column.shape[1:]).view(Row)
            found.axes = tuple(index_set.structure for index_set in sets)
            return found

        return rows.tables(made, len(sets))

    def each(self, function: Any, *, over: object = None) -> None:
        """`pe.each`."""
        self._rows("each", function, over)

    def _elements(self, operation: str, function: Any, over: object) -> Rows:
        """What is reduced: what a function gives, or the elements of a table."""
        if isinstance(function, Accumulator):
            function = function.array
        if isinstance(function, Packed):
            function = function.packed
        if isinstance(function, Accumulator | State):
            function = np.asarray(function)
        rows = Rows()
        if isinstance(function, Records):
            for place in np.ndindex(function.shape):
                rows.add(function.at(place))
            return rows
        if not isinstance(function, np.ndarray):
            return self._rows(operation, function, over)[0]
        for element in function.reshape(-1):
            rows.add(element)
        return rows

    def reduce(self, name: str, combine: Function, function: Any, *, over: object = None) -> Any:
        """`pe.sum` and its kin."""
        rows = self._elements(name, function, over)
        if name in ("min", "max") and rows.count == 0:
            raise ValueRangeError(
                f"`{name}` over an empty index set.",
                at=here(),
                fix="Give a table that has elements.",
            )
        return rows.map(lambda column: combine(column, axis=0))

    def mean(self, function: Any, *, over: object = None) -> Any:
        """`pe.mean`."""
        rows = self._elements("mean", function, over)
        return rows.map(lambda column: np.sum(column, axis=0) / rows.count)

    def logsumexp(self, function: Any, *, over: object = None) -> Any:
        """`pe.logsumexp`."""
        rows = self._elements("logsumexp", function, over)
        return rows.map(lambda column: np.logaddexp.reduce(column))

    def first(self, name: str, find: Function, function: Any, *, over: object = None) -> Any:
        """`pe.argmin` and `pe.argmax`."""
        rows = self._elements(name, function, over)
        if rows.count == 0:
            raise ValueRangeError(
                f"`{name[3:]}` over an empty index set.",
                at=here(),
                fix="Give a table that has elements.",
            )
        return rows.map(lambda column: Int(find(column)))


class Par:
    """What `pe.par` gives."""

    def __init__(self, over: tuple[object, ...]) -> None:
        self.over = over


def _holds_nan(value: object) -> bool:
    leaves = flatten(value)[0]
    return any(
        isinstance(leaf, float | np.generic | np.ndarray) and _is_nan(leaf) for leaf in leaves
    )


def _sums_of_parts(over: object, dtype: Any, monoid: Monoid) -> Accumulator | None:
    """An accumulator of complex numbers or of records; None if `dtype` describes neither."""
    sizes = tuple(s.size or 0 for s in as_sets(over))
    if dtype in (complex, np.complex64, np.complex128) and monoid is Monoid.ADD:
        sums = Accumulator(sizes, F64, monoid)
        sums.array = np.zeros(sizes, dtype)
        return sums
    spec = record_spec(dtype)
    if spec is None:
        return None
    structure, types = spec
    assert isinstance(structure, Node), "a record has fields"
    return RecordSums(structure, [t if t is None else Accumulator(sizes, t, monoid) for t in types])


def _accumulator(
    session: _Session, *over: object, dtype: object = float, op: Any = "add", empty: Any = None
) -> Accumulator | Combined:
    """`pe.accumulator`."""
    if callable(op):
        shape = tuple(s.size or 0 for s in as_sets(over))
        return Combined(shape, session.callee(op), empty)
    elem = None if isinstance(dtype, tuple | list | dict) else scalar_of(dtype)
    monoid = _MONOIDS.get(op)
    sums = _sums_of_parts(over, dtype, monoid) if elem is None and monoid is not None else None
    if sums is not None:
        return sums
    if elem is None or monoid is None or (monoid in (Monoid.AND, Monoid.OR)) != (elem == BOOL):
        raise KernelTypeError(
            f"there is no accumulator of {dtype!r} that combines with {op!r}.",
            at=here(),
            fix="`and` and `or` combine bools (`dtype=bool`), the others numbers.",
        )
    sets = as_sets(over)
    sizes = tuple(s.size or 0 for s in sets)
    return Accumulator(sizes, elem, monoid, pairs_of(over), tuple(s.structure for s in sets))


def _whole(plain: Function, session: _Session, name: str, *args: Any, **kwargs: Any) -> Any:
    """`sum`, `any` and `all` of Python, of a table too."""
    if args and isinstance(args[0], np.ndarray | Accumulator):
        return session.operations[getattr(ops, name)](*args)
    return as_computed(for_user(plain, *args, **kwargs))


def _int(value: Any = 0, *args: Any) -> Any:
    """`int`, with the error of a kernel for what has no integer."""
    value = read(value)
    if isinstance(value, float | np.floating) and not -(2.0**63) <= value < 2.0**63:
        raise ValueRangeError(
            f"the float {float(value)} cannot become an integer (int64).",
            at=here(),
            fix="Clamp it before the conversion: `int(min(max(x, lo), hi))`.",
        )
    return Int(for_user(int, value, *args))


def _float(value: Any = 0.0) -> float:
    return cast(float, for_user(float, read(value)))


def _looped(value: Any) -> Any:
    return as_element(as_computed(value))


def _extreme(plain: Function, numpys: Function, args: tuple[Any, ...], options: Any) -> Any:
    """Python's `min` or `max`; of a table numpy's."""
    if len(args) == 1 and isinstance(args[0], np.ndarray | Accumulator):
        return numpys(np.asarray(args[0]))
    args = tuple(map(read, args))
    among = args[0] if len(args) == 1 else args
    value = for_user(plain, *args, **options)
    if isinstance(among, list | tuple) and all(
        isinstance(n, int | float | np.generic) for n in among
    ):
        return promoted(value, among)
    return as_computed(value)


def _min(*args: Any, **options: Any) -> Any:
    return _extreme(min, np.min, args, options)


def _max(*args: Any, **options: Any) -> Any:
    return _extreme(max, np.max, args, options)


for _form, _name in ((_int, "int"), (_float, "float"), (_accumulator, "accumulator")):
    _form.__qualname__ = _name  # Python names it where a call is wrong
