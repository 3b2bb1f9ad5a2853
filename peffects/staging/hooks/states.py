"""State: a value that a kernel sets, step by step, as a local but reached from anywhere.

A state is a name for the value that it has now.  Setting it emits no write: the name gets another
value, and where ways of control flow meet, `loops/iteration.py` and `loops/branches.py` carry and
merge the values of all open states like those of locals.  Setting an element makes another table of
the old one (`Update` in the IR), which costs one element where nobody uses the old one any more.

Iterations of a parallel loop have no order, so what was made outside cannot be set inside.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from peffects.errors import ControlFlowError, DataRaceError, KernelTypeError
from peffects.ir import primitives as op
from peffects.ir.syntax import BOOL, Scalar, Table, Update
from peffects.ir.typing import drop_axes
from peffects.staging.arrays.slices import Sliced, sliced
from peffects.staging.loops.double_buffers import Settable
from peffects.staging.loops.iteration import FoldLoop
from peffects.staging.loops.locals import Fixed, Tree, atoms_of, describe, rebuild, tree_of
from peffects.staging.loops.ops import table as make_table
from peffects.staging.loops.ranges import SequentialLoop, SymbolicRange
from peffects.staging.numpy_surface.joins import of_numbers
from peffects.staging.scalars.arithmetic import Operand
from peffects.staging.scalars.symbols import ScalarTracer, compare, lift, select
from peffects.staging.structures.accumulators import Reference, as_table, fit, is_table
from peffects.staging.structures.indices import Mismatch
from peffects.staging.structures.joins import common_structure, leaves_in
from peffects.staging.structures.lengths import is_unit, known_size
from peffects.staging.structures.tables import Item, TableTracer, place_of
from peffects.staging.structures.trees import is_tree
from peffects.staging.tracing.trace import Cell, Kind, current, here, staging

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


class StateTracer(Settable):
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

    def _shown(self) -> str:
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
        atoms = [fit(leaf, t, role, self._told) for leaf, t in zip(leaves, types, strict=True)]
        self.cell.value = rebuild(self.tree, atoms, self.name)

    def _told(self, axis: int) -> Mismatch:
        """How it is told that it is set to a table of another size."""
        return Mismatch(
            f"{self.what()} has {{1}} elements along axis {axis}, and is set to {{0}}.",
            "A state keeps its size: make it as large as it gets, and count how much of it is "
            "used.",
        )

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
        items = tuple(np.array(i) if isinstance(i, list) else i for i in items)
        items = _without_ellipsis(items, table.ndim)
        if isinstance(value, tuple | list):
            value = of_numbers(value)
        if len(items) == 1 and _is_mask(items[0]):
            self._set_masked(as_table(items[0]), value, table, is_table(value))
            return
        while items and _is_all(items[-1]):
            items = items[:-1]
        if not items:
            self.set(value if is_table(value) else _filled(table, value))
        elif any(map(is_table, items)):
            self._set_gathered(items, value, table)
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
        """Replace the places of a slice, one after the other; axes of `value` go along as usual."""
        axis = next(k for k, item in enumerate(items) if isinstance(item, slice))
        part = items[axis]
        assert isinstance(part, slice)
        size = table.type.dims[axis].size
        taken = sliced(size, part) or Sliced(0, 1, size)
        length = known_size(taken.count)
        source = as_table(value) if is_table(value) else None
        axes = sum(isinstance(item, slice) for item in items) + table.ndim - len(items)
        if source is not None and source.ndim > axes:
            raise KernelTypeError(
                f"a table with {source.ndim} axes is put into {axes} of `{self.name}`.",
                at=here(),
                fix="Give a table with at most as many axes as there are slices.",
            )
        goes_along = source is not None and source.ndim == axes
        if source is not None and goes_along and not is_unit(source.type.dims[0].size):
            same = compare(op.EQ, source.shape[0], length)
            text = "{0} values are put into {1} places."
            operands = (lift(source.shape[0]).atom, lift(length).atom)
            staging().check(lift(same).atom, KernelTypeError, text, operands, "Make them agree.")

        def put(index: object) -> None:
            inner = value
            if source is not None and goes_along:
                inner = source[0 if is_unit(source.type.dims[0].size) else index]
            place = taken.at(index)  # type: ignore[arg-type]  # an index of the loop
            self._put((*items[:axis], place, *items[axis + 1 :]), inner)

        for_each(length, put)

    def _put(self, items: tuple[Item, ...], value: object) -> None:
        """Replace what is at `items`, of which slices are known to be in bounds."""
        if any(isinstance(item, slice) for item in items):
            self._set_slices(items, value, self.table())
        else:
            self._set_part(items, value, self.table())

    def _set_gathered(self, items: tuple[Item, ...], value: object, table: TableTracer) -> None:
        """Replace the elements whose places tables of integers name; the last of equals stays."""
        places = [as_table(item) if is_table(item) else item for item in items]
        vectors = [place for place in places if isinstance(place, TableTracer)]
        if any(place.ndim != 1 or not place.type.elem.is_integer for place in vectors):
            raise KernelTypeError(
                f"{self.what()} is set at a table of {vectors[0].type.elem} with "
                f"{vectors[0].ndim} axes.",
                at=here(),
                fix="Give a vector of integers, or a mask like the state; or write a loop.",
            )
        source = as_table(value) if is_table(value) else None

        def put(index: Any) -> None:
            own = [place[index] if isinstance(place, TableTracer) else place for place in places]
            self._put(tuple(own), value if source is None else source[index])

        for_each(vectors[0].index_set.size, put)

    def _set_masked(
        self, mask: TableTracer, value: object, table: TableTracer, several: bool
    ) -> None:
        """Replace the elements where a mask like the state holds; `several` values are refused."""
        if several or mask.ndim != table.ndim:
            raise KernelTypeError(
                f"{self.what()} is set at a mask to several values, or at one of other axes; how "
                "many values it takes is not known before the kernel runs.",
                at=here(),
                fix=f"Give a table like it: `{self.name}.set(np.where(mask, values, "
                f"{self.name}.get()))`.",
            )
        self.set(select(mask, value, table))

    def update_item(
        self, operation: Callable[[Any, Any], object], items: tuple[Item, ...], value: object
    ) -> None:
        """`self[items] = operation(self[items], value)`."""
        key = items[0] if len(items) == 1 else items
        if _is_mask(key):
            table = self.table()
            changed = value if is_table(value) else operation(table, value)
            self._set_masked(as_table(key), changed, table, is_table(value))
        else:
            self[key] = operation(self.table()[key], value)

    def fill(self, value: object) -> None:
        """Set all elements to a number."""
        self[...] = value


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
    rounds = FoldLoop(staging(), loop, (), (("k", 0),), (), {}, None)
    for index in rounds:
        rounds.enter()
        body(index)
        rounds.leave({})


# --- slices --------------------------------------------------------------------------------------


def _is_all(item: Item) -> bool:
    is_open = isinstance(item, slice) and item.start is None and item.stop is None
    return is_open and cast(slice, item).step is None


def _is_mask(item: Item) -> bool:
    return is_table(item) and as_table(item).type.elem == BOOL


def _without_ellipsis(items: tuple[Item, ...], ndim: int) -> tuple[Item, ...]:
    if any(item is None for item in items):
        raise KernelTypeError(
            "a state is set at a new axis.", at=here(), fix="Leave `None` out of the subscript."
        )
    places = [k for k, item in enumerate(items) if item is Ellipsis]
    if not places:
        return items
    (place,) = places[:1]
    missing = ndim - (len(items) - 1)
    return (*items[:place], *(slice(None),) * missing, *items[place + 1 :])


def _filled(table: TableTracer, value: object) -> TableTracer:
    """A table like `table` that is `value` everywhere."""
    made = make_table(lambda i: value, over=table.index_sets)
    assert isinstance(made, TableTracer)
    return made
