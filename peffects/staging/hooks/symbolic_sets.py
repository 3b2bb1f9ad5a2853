"""Index sets whose sizes or indices are symbols: what `index_set.py` asks of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from peffects.errors import (
    BoundsError,
    ControlFlowError,
    IndexSetMismatchError,
    KernelTypeError,
    ValueRangeError,
)
from peffects.ir import primitives as op
from peffects.parallel.index_sets.dependent import Pairs, Range
from peffects.parallel.index_sets.index_set import Idx, IndexSet
from peffects.parallel.index_sets.packed import Packed
from peffects.parallel.index_sets.structures import Post, Unit, check_cases, match
from peffects.staging.loops import ops
from peffects.staging.loops.branches import choose
from peffects.staging.loops.folds import cumsum
from peffects.staging.loops.ops import table as make_table
from peffects.staging.scalars.symbols import (
    ScalarTracer,
    binary,
    compare,
    lift,
    logical,
    make,
    select,
    to_bool,
)
from peffects.staging.scalars.whole_numbers import whole_operand
from peffects.staging.structures.accumulators import as_table, is_table
from peffects.staging.structures.indices import (
    IndexSetTracer,
    IndexTracer,
    align,
    are_same_sets,
    describe,
    set_tracer,
    unify,
)
from peffects.staging.structures.packing import (
    declare,
    element,
    outer_index,
    pair_index,
    row_number,
)
from peffects.staging.tracing.trace import Kind, current, here, staging

__all__ = ["StagedSymbols"]


class StagedSymbols:
    """The symbols of the kernel that is being staged."""

    def index(self, place: Any, index_set: IndexSet[Any]) -> Any:
        """The index at `place`, which is in `index_set` for sure."""
        trace, atom = staging(), _integer(place).operand().atom
        in_branch = any(scope.kind is Kind.BRANCH for scope in trace.scope.up())
        return IndexTracer(atom, set_tracer(index_set), trace.scope, True, guarded=in_branch)

    def tested(self, place: Any, index_set: IndexSet[Any]) -> Any:
        """`place`, after a test when the kernel runs that it is in `index_set`."""
        number, size = _integer(place), lift(index_set.size)
        low = compare(op.LE, 0, number)
        inside = logical(op.AND, low, compare(op.LT, number, make(size)))
        text = f"the ordinal {{0}} is outside `{describe(index_set)}`, which has {{1}} indices."
        trace = staging()
        operands = (number.operand().atom, size.atom)
        trace.check(inside.operand().atom, BoundsError, text, operands, "Ordinals count from 0.")
        return number

    def ordinal(self, key: Any, index_set: IndexSet[Any]) -> Any:
        """The place of `key`, an index or a number, in `index_set`."""
        if not isinstance(key, IndexTracer):
            if isinstance(key, Idx) and key.index_set == index_set:
                return int(key) - key.index_set.first
            return self.tested(key - index_set.first, index_set)
        mine, structure = set_tracer(index_set), key.set.structure
        if mine.label and mine.label == key.set.label:
            return key.place()
        if mine.structure is None and structure is not None and structure.base is not structure:
            place = key.place() + (structure.first - structure.base.first)
            return self.ordinal(key.moved(place, set_tracer(structure.base)), index_set)
        if mine.structure is not None and mine.structure.base is not mine.structure:
            return self.tested(key - index_set.first, index_set)
        what, where = f"`{key.name}`", f"`{describe(index_set)}`"
        if mine.structure is None or not staging().sizes.is_known(key.set.atom):
            unify(key.set, mine, what, where)
        elif structure is None or not align(structure, index_set, what, where):
            raise _mismatch(key, index_set)
        return key.place()

    def refuse(self, what: str, index_set: IndexSet[Any]) -> None:
        """Raise ControlFlowError: Python asks for what only the running kernel knows."""
        raise ControlFlowError(
            f"Python asks `{describe(index_set)}` for {what}, which only the running kernel knows.",
            at=here(),
            fix="Loop with `for i in pe.par(s)`, or make a table: `pe.table(f, over=s)`.",
        )

    def select(self, condition: Any, then: Any, orelse: Any) -> Any:
        """`then` if `condition` else `orelse`."""
        return select(condition, then, orelse)

    def least(self, left: Any, right: Any) -> Any:
        """The lesser of two numbers."""
        return binary(op.MIN, left, right)

    def is_equal(self, left: Any, right: Any) -> Any:
        """Whether two numbers are equal."""
        return compare(op.EQ, left, right)

    def is_less(self, left: Any, right: Any) -> Any:
        """Whether a number is less than another."""
        return compare(op.LT, left, right)

    def is_same_set(self, one: Any, other: Any) -> Any:
        """Whether two index sets are equal, as `==` has it: a symbol if their sizes decide."""
        return are_same_sets(one, other)

    def as_index_set(self, value: Any) -> IndexSet[Any] | None:
        """The index set that a symbol stands for: of a table that of its first axis."""
        if isinstance(value, IndexSetTracer):
            return value.index_set
        if isinstance(value, Packed):
            return value.index_set
        return as_table(value).index_set.index_set if is_table(value) else None

    def match(self, index: Any, cases: Mapping[str, Callable[..., Any]]) -> Any:
        """Stage all cases; the one that holds runs."""
        if not isinstance(index, IndexTracer):
            raise KernelTypeError(
                f"`match` is given {index!r:.60}, which is no index.",
                at=here(),
                fix="Give an index of a sum; `s.from_ordinal(k)` makes one from a number.",
            )
        of = index.index_set
        check_cases(of, cases)
        calls = [(cases[name], part) for name, part in getattr(of, "cases", ())]
        return self._match(index.place(), calls)

    def _match(self, place: Any, calls: Sequence[tuple[Callable[..., Any], IndexSet[Any]]]) -> Any:
        """The first of `calls` whose part holds `place`, counted from the first of them."""
        call, part = calls[0]
        resolved = staging().inputs.resolve(call)

        def case() -> Any:
            return resolved() if part is Unit else resolved(part.index(place))

        if len(calls) == 1:
            return case()
        size = part.size
        return choose(
            staging(),
            compare(op.LT, place, size),
            case,
            lambda: self._match(place - size, calls[1:]),
        )

    def row_of(self, place: Any, pairs: Pairs) -> Any:
        """The last row that starts at `place` or before, found by bisection."""
        return row_number(pairs, place)

    def pair(self, pairs: Pairs, i: Any, j: Any) -> Any:
        """The index of a set of pairs that stands for (i, j)."""
        return pair_index(pairs, set_tracer(pairs), i, j, describe(pairs))

    def constant(self, array: Any) -> Any:
        """A table of the array, where a kernel is being staged."""
        return array if current() is None else as_table(array)

    def ragged(self, lengths: Any) -> tuple[Any, Any, Any]:
        """The rows, the longest length and the offsets of rows of these lengths."""
        table = as_table(lengths)
        if table.ndim != 1 or not table.type.elem.is_integer:
            raise KernelTypeError(
                f"`Ragged` takes the lengths of rows, and was given {table.ndim} axes of "
                f"{table.type.elem}.",
                at=here(),
                fix="Give integers, one for each row.",
            )
        rows = table.index_set.index_set
        natural = ops.all(lambda i: compare(op.LE, 0, table[i]), over=rows)
        text = "a length of `Ragged` is negative."
        staging().check(
            to_bool(natural), ValueRangeError, text, (), "Rows have 0 elements or more."
        )
        longest = ops.accumulator(op="max", dtype=int)
        ops.each(lambda i: longest.combine((), table[i]), over=rows)
        sums, posts = cumsum(table), Post(rows)
        offsets = make_table(
            lambda p: match(posts.left_field(p), just=lambda i: sums[i], nothing=lambda: 0),
            over=posts,
        )
        return rows, binary(op.MAX, longest, 0), offsets

    def are_same(self, one: Pairs, other: Pairs) -> bool:
        """Whether two sets of pairs are of one kind; that their sizes agree is tested."""
        return align(one, other, "a packed table", "another")

    def test_packed(self, table: Packed) -> None:
        """Test when the kernel runs that the parts of a packed table fit."""
        declare(table, as_table(table.packed).name)

    def element(self, table: Packed, key: tuple[Any, ...]) -> Any:
        """An element or a row of a packed table."""
        pairs, first = table.index_set, key[0]
        is_pair = isinstance(first, IndexTracer) and isinstance(first.set.structure, Pairs)
        if len(key) > 1 or is_pair:
            return element(table, key)
        row = Range(pairs, outer_index(pairs, first, table.packed.name))
        with staging().at(row.at_index.scope):  # so that `t[i][j]` can tell what j runs over
            return make_table(lambda j: table[row.at_index, j], over=row)


def _integer(value: Any) -> ScalarTracer:
    return make(whole_operand(value, "an ordinal"))


def _mismatch(index: IndexTracer, index_set: IndexSet[Any]) -> IndexSetMismatchError:
    return IndexSetMismatchError(
        f"`{index.name}` runs over {index.set.origin}, and an index of `{describe(index_set)}` is "
        "needed.",
        at=here(),
        fix="Use an index of that set; `s.from_ordinal(k)` makes one from a number.",
    )
