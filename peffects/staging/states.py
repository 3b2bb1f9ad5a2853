"""State: a value that a kernel sets, step by step, as a local but reached from anywhere.

A state is a name for the value that it has now.  Setting it emits no write: the name gets another
value, and where ways of control flow meet, `iteration.py` and `branches.py` carry and merge the
values of all open states like those of locals.  Setting an element makes another table of the old
one (`Update` in the IR), which costs one element where nobody uses the old one any more.

Iterations of a parallel loop have no order, so what was made outside cannot be set inside.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, cast

from peffects.errors import ControlFlowError, DataRaceError, KernelTypeError
from peffects.ir import primitives as op
from peffects.ir.syntax import Scalar, Table, Update
from peffects.ir.typing import drop_axes
from peffects.staging.accumulators import Reference, as_table, fit, is_table
from peffects.staging.arithmetic import Operand
from peffects.staging.iteration import FoldLoop
from peffects.staging.meeting import common_structure, leaves_in
from peffects.staging.ops import table as make_table
from peffects.staging.ranges import SequentialLoop, SymbolicRange
from peffects.staging.scalars import ScalarTracer, binary, compare, select
from peffects.staging.tables import Item, TableTracer, place_of
from peffects.staging.trace import Cell, Kind, current, here, staging
from peffects.staging.trees import is_tree
from peffects.staging.values import Fixed, Tree, atoms_of, describe, rebuild, tree_of
from peffects.staging.whole_numbers import known_whole, whole_number

__all__ = ["StateTracer", "state"]


def state(init: Any) -> Any:
    """A value that the kernel may set: `s.get()`, `s.set(v)`, `s[i]`, `s[i] = v`, `s[i] += v`.

    `init` is a number, a table, or a tree of them; its structure and types stay.  What was made
    outside a parallel loop cannot be set inside it (DataRaceError): set it in `range` and `while`
    loops.  Setting an element or a slice costs as much as it is long, unless the table from before
    is still used.  A state that a kernel returns is its last value.
    """
    if current() is None:
        raise ControlFlowError(
            "`pe.state` is used outside a kernel.",
            at=here(),
            fix="Put it into a function decorated with `@pe.kernel`; outside, use a variable.",
        )
    value = init.read() if isinstance(init, Reference) else init
    tree = tree_of(value)
    if isinstance(tree, str):
        raise KernelTypeError(f"a state has no start: {tree}.", at=here(), fix="Give it a value.")
    wrong = [leaf.value for leaf in tree.leaves if isinstance(leaf, Fixed)]
    if wrong:
        raise KernelTypeError(
            f"a state cannot hold {wrong[0]!r:.60}.",
            at=here(),
            fix="States hold numbers, tables, and tuples, dicts or dataclasses of them.",
        )
    return StateTracer(value, tree)


class StateTracer(Reference):
    """What `pe.state` gives."""

    def __init__(self, value: object, tree: Tree) -> None:
        trace = staging()
        self.scope = trace.scope
        self.name = "state"
        self.cell = Cell(rebuild(tree, atoms_of(value, tree), self.name), tree, self.name)
        trace.scope.cells.append(self.cell)

    @property
    def tree(self) -> Tree:
        """The structure and types of the value."""
        assert isinstance(self.cell.tree, Tree)
        return self.cell.tree

    @property
    def type(self) -> Scalar | Table | None:  # type: ignore[override]
        """The type of the value; None if it is a tree."""
        if is_tree(self.cell.value):
            return None
        (leaf,) = self.tree.leaves
        return None if isinstance(leaf, Fixed) else leaf.type

    @property
    def weak(self) -> bool:
        """Whether the value is a Python number, which takes the type of what it meets."""
        return isinstance(self.cell.value, ScalarTracer) and self.cell.value.weak

    def rename(self, name: str) -> None:
        """Take the name of the local that holds it first."""
        if self.name == "state":
            self.name = self.cell.label = name

    def what(self) -> str:
        """What it is, for messages."""
        return f"the state `{self.name}`"

    def __repr__(self) -> str:
        return f"<state {self.name}>"

    # --- reading ---------------------------------------------------------------------------------

    def get(self) -> Any:
        """The value now; what is set later does not change it."""
        return self.read()

    def read(self) -> Any:
        """The value now."""
        staging().check_open(self.scope, self.what())
        return self.cell.value

    def operand(self) -> Operand:
        """The value as a number."""
        value = self.read()
        if not isinstance(value, ScalarTracer):
            raise KernelTypeError(
                f"{self.what()} is used as a number, and holds a table or several values.",
                at=here(),
                fix="Index it; of several values take one: `s.get()[0]`.",
            )
        return value.operand()

    def table(self) -> TableTracer:
        """The value as a table; KernelTypeError if it is none."""
        value = self.read()
        if not is_table(value):
            several = is_tree(value)
            raise KernelTypeError(
                f"{self.what()} holds {'several values' if several else 'one number'}, and is "
                "indexed.",
                at=here(),
                fix="Make a state of each table." if several else "Use `s.get()` and `s.set(v)`.",
            )
        return as_table(value)

    def __getitem__(self, key: object) -> Any:
        return self.table()[key]

    def __getattr__(self, name: str) -> Any:
        if name in ("index_sets", "index_set", "index", "shape", "ndim", "dtype"):
            return getattr(self.table(), name)
        return super().__getattr__(name)

    # --- setting ---------------------------------------------------------------------------------

    def set(self, value: object) -> None:
        """Replace the value by one of the same structure and types."""
        self._check_order()
        value = value.read() if isinstance(value, Reference) else value
        leaves = leaves_in(value, self.tree.structure)
        if common_structure(self.cell.value, value) is None or len(leaves) != len(self.tree.leaves):
            raise KernelTypeError(
                f"{self.what()} holds {describe(self.cell.value)} and is set to a value of another "
                f"structure: {describe(value)}.",
                at=here(),
                fix="Give a value like the one that it started from.",
            )
        role = f"what {self.what()} is set to"
        types = [leaf.type for leaf in self.tree.leaves if not isinstance(leaf, Fixed)]
        atoms = [fit(leaf, t, role) for leaf, t in zip(leaves, types, strict=True)]
        self.cell.value = rebuild(self.tree, atoms, self.name)

    def _check_order(self) -> None:
        trace = staging()
        trace.check_open(self.scope, self.what())
        for scope in trace.scope.up():
            if scope is self.scope:
                return
            if scope.kind is Kind.PARALLEL:
                raise DataRaceError(
                    f"{self.what()} is set inside a parallel loop, and was made outside it: which "
                    "iteration would come last has no answer.",
                    at=here(),
                    fix="If each iteration has a state of its own, make it inside the loop; if "
                    "they add up, use `pe.accumulator`; if they follow each other, use `range`.",
                )

    def __setitem__(self, key: object, value: object) -> None:
        items = key if isinstance(key, tuple) else (key,)
        self._check_order()
        table = self.table()
        items = _without_ellipsis(items, table.ndim)
        while items and _is_all(items[-1]):
            items = items[:-1]
        if not items:
            self.set(value if is_table(value) else _filled(table, value))
        elif any(isinstance(item, slice) for item in items):
            self._set_slices(items, value, table)
        else:
            self._set_part(items, value, table)

    def _set_part(self, items: tuple[Item, ...], value: object, table: TableTracer) -> None:
        """Replace an element or a row."""
        trace = staging()
        indices, bounds = place_of(self.name, table.type, items, False)
        rest = drop_axes(table.type, len(indices))
        if isinstance(rest, Table) and not is_table(value):
            row = table.element(items)
            assert isinstance(row, TableTracer)
            value = _filled(row, value)
        atom = fit(value, rest, f"what is put into `{self.name}`")
        (new,) = trace.emit(Update(table.atom(), indices, atom, bounds), (self.name,))
        self.cell.value = TableTracer(new, trace.scope, self.name)

    def _set_slices(self, items: tuple[Item, ...], value: object, table: TableTracer) -> None:
        """Replace the places of a slice, one after the other; `value` has an axis for each."""
        axis = next(k for k, item in enumerate(items) if isinstance(item, slice))
        part = items[axis]
        assert isinstance(part, slice)
        start, length = _bounds(part, table.index_sets[axis].size)
        source = as_table(value) if is_table(value) else None
        if source is not None:
            same = compare(op.EQ, source.shape[0], length)
            text = "{0} values are put into {1} places."
            operands = (source.shape[0].operand().atom, binary(op.ADD, length, 0).operand().atom)
            staging().check(
                same.operand().atom, KernelTypeError, text, operands, "Make them agree."
            )

        def put(index: object) -> None:
            place = binary(op.ADD, start, index)
            inner = source[index] if source is not None else value
            self[(*items[:axis], place, *items[axis + 1 :])] = inner

        for_each(length, put)

    def update_item(
        self, operation: Callable[[Any, Any], object], items: tuple[Item, ...], value: object
    ) -> None:
        """`self[items] = operation(self[items], value)`."""
        key = items[0] if len(items) == 1 else items
        self[key] = operation(self.table()[key], value)


def _augmented(operation: Callable[[Any, Any], object]) -> Callable[..., StateTracer]:
    def change(self: StateTracer, value: object) -> StateTracer:
        self.set(operation(self.read(), value))
        return self

    return change


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor"):
    setattr(StateTracer, f"__i{_name.strip('_')}__", _augmented(getattr(operator, _name)))


def for_each(count: object, body: Callable[[object], None]) -> None:
    """Stage a sequential loop of `count` rounds that changes nothing but states."""
    loop: SequentialLoop = SymbolicRange(0, count, 1).loop()
    rounds = FoldLoop(staging(), loop, (), (("k", 0),), {}, None)
    for index in rounds:
        rounds.enter()
        body(index)
        rounds.leave({})


# --- slices --------------------------------------------------------------------------------------


def _is_all(item: Item) -> bool:
    is_open = isinstance(item, slice) and item.start is None and item.stop is None
    return is_open and cast(slice, item).step is None


def _without_ellipsis(items: tuple[Item, ...], ndim: int) -> tuple[Item, ...]:
    places = [k for k, item in enumerate(items) if item is Ellipsis]
    if not places:
        return items
    (place,) = places[:1]
    missing = ndim - (len(items) - 1)
    return (*items[:place], *(slice(None),) * missing, *items[place + 1 :])


def _bounds(part: slice, size: ScalarTracer) -> tuple[object, object]:
    """The start and the length of a slice of step 1, cut to the axis as Python does."""
    if part.step is not None and known_whole(part.step) != 1:
        raise KernelTypeError(
            "a slice with a step is set.", at=here(), fix="Write a `range` loop over its places."
        )
    start: object = _clamped(part.start, size) if part.start is not None else 0
    stop: object = _clamped(part.stop, size) if part.stop is not None else size
    return start, binary(op.MAX, binary(op.SUB, stop, start), 0)


def _clamped(given: object, size: ScalarTracer) -> object:
    bound = whole_number(given, "the bound of a slice")
    if isinstance(bound, int) and bound >= 0:
        return binary(op.MIN, bound, size)
    from_end = select(compare(op.LT, bound, 0), binary(op.ADD, bound, size), bound)
    return binary(op.MIN, binary(op.MAX, from_end, 0), size)


def _filled(table: TableTracer, value: object) -> TableTracer:
    """A table like `table` that is `value` everywhere."""
    made = make_table(lambda i: value, over=table.index_sets)
    assert isinstance(made, TableTracer)
    return made
