"""What a sequential `for` statement may run over: ranges, tables, and pairs of them."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, NoReturn
from typing import cast as cast_

from peffects.errors import ControlFlowError, KernelTypeError, ValueRangeError
from peffects.ir import primitives as op
from peffects.ir.builder import int_lit
from peffects.ir.syntax import I64, Atom, Lit
from peffects.parallel.index_sets.index_set import IndexSet, Product
from peffects.parallel.index_sets.structures import is_index_set
from peffects.staging.scalars.arithmetic import Operand
from peffects.staging.scalars.symbols import binary, compare, lift, logical
from peffects.staging.scalars.whole_numbers import (
    Number,
    known_whole,
    literal_whole,
    whole_number,
    whole_operand,
)
from peffects.staging.structures.accumulators import as_table, is_table
from peffects.staging.structures.domains import domain_of
from peffects.staging.structures.indices import IndexSetTracer, IndexTracer, Origin, set_tracer
from peffects.staging.structures.records import as_tabular
from peffects.staging.tracing.trace import here, staging

__all__ = ["SequentialLoop", "SymbolicRange", "is_in_range", "sequential", "zipped"]


def refuse_elements() -> NoReturn:
    """Say that a loop over values of the kernel is a statement, and no comprehension."""
    raise ControlFlowError(
        "values of the kernel are gone through where no `for` statement stands, as in a "
        "comprehension or an unpacking: how many there are is known only when the kernel runs.",
        at=here(),
        fix="Make a table, `pe.table(lambda i: f(x[i]))`, or reduce, `pe.sum(lambda i: f(x[i]))`; "
        "or write a `for` statement.",
    )


class SequentialLoop:
    """A loop over `set`; `value` gives what the loop variable is for an index."""

    _pe_symbolic: ClassVar[bool] = True

    def __init__(
        self,
        index_set: IndexSetTracer,
        value: Callable[[IndexTracer], object],
        reverse: bool = False,
        exact: bool = False,
    ) -> None:
        self.set = index_set
        self.value = value
        self.reverse = reverse
        self.exact = exact

    def __repr__(self) -> str:
        return "<a loop over a range>"

    def __iter__(self) -> NoReturn:
        refuse_elements()

    def reversed(self) -> SequentialLoop:
        """The same loop, backwards."""
        return SequentialLoop(self.set, self.value, not self.reverse, self.exact)


class SymbolicRange:
    """`range(...)` with a symbol in it, or a reversed one."""

    _pe_symbolic: ClassVar[bool] = True

    def __init__(self, start: object, stop: object, step: object, reverse: bool = False) -> None:
        self.start, self.stop, self.step, self.reverse = start, stop, step, reverse

    def __repr__(self) -> str:
        return "<a range whose length is a value of the kernel>"

    def __iter__(self) -> Iterator[int]:
        parts = (self.start, self.stop, self.step)
        known = [known_whole(part) for part in parts]
        if None not in known:
            numbers = range(*cast_(tuple[int, int, int], known))
            return reversed(numbers) if self.reverse else iter(numbers)
        raise ControlFlowError(
            "a `range` whose length is a symbol is iterated where the loop is not rewritten.",
            at=here(),
            fix="Use a `for` statement, or `pe.table(lambda i: ..., over=n)`.",
        )

    def loop(self) -> SequentialLoop:
        """The loop over this range."""
        start, stop, step = self.parts()
        plain = isinstance(start, int) and start == 0 and step == 1
        length = whole_operand(stop, _ROLE) if plain else _length(start, stop, step)
        size = _clamped(length)
        index_set = IndexSetTracer(size, Origin("a `range`", here()), staging().scope)

        def value(index: IndexTracer) -> object:
            if plain:
                index.within = length.atom
                return index
            scaled = index if step == 1 else binary(op.MUL, index, step)
            return binary(op.ADD, start, scaled)

        return SequentialLoop(index_set, value, self.reverse)

    def parts(self) -> tuple[Number, Number, int]:
        """The start, the stop and the step, as whole numbers."""
        step = literal_whole(self.step, "the step of a `range`", "Use a literal step.")
        if step == 0:
            raise ValueRangeError("the step of a `range` is 0.", at=here(), fix="Use 1 or -1.")
        return whole_number(self.start, _ROLE), whole_number(self.stop, _ROLE), step


_ROLE = "an argument of `range`"


def _length(start: Number, stop: Number, step: int) -> Operand:
    """ceil((stop - start) / step)."""
    if isinstance(start, int) and isinstance(stop, int):
        return Operand(int_lit(len(range(start, stop, step))), I64, True)
    span = binary(op.SUB, stop, start) if step > 0 else binary(op.SUB, start, stop)
    if abs(step) > 1:
        span = binary(op.FLOORDIV, binary(op.ADD, span, abs(step) - 1), abs(step))
    return span.operand()


def is_in_range(value: object, numbers: range | SymbolicRange) -> object:
    """`value in range(...)`: whether it is one of the numbers."""
    found = SymbolicRange(numbers.start, numbers.stop, numbers.step)
    start, stop, step = found.parts()
    low, high = (start, stop) if step > 0 else (stop, start)
    above = compare(op.LE if step > 0 else op.LT, low, value)
    below = compare(op.LT if step > 0 else op.LE, value, high)
    inside = logical(op.AND, above, below)
    if abs(step) == 1 and not lift(value).type.is_float:
        return inside
    rest = binary(op.MOD, binary(op.SUB, value, start), abs(step))
    return logical(op.AND, inside, compare(op.EQ, rest, 0))


def _clamped(length: Operand) -> Atom:
    """The length, or 0 if it is negative."""
    trace = staging()
    atom = length.atom
    if isinstance(atom, Lit):
        return int_lit(int(atom.value) if int(atom.value) > 0 else 0)
    tested = any(atom in scope.nonnegative for scope in trace.scope.up())
    if tested or trace.sizes.is_length(atom):
        return atom
    size = trace.prim(op.MAX, atom, int_lit(0), name="length")
    trace.size_homes[size] = trace.scope
    return size


class HasElements(ABC):
    """A symbol that has elements to loop over, and is no table."""

    @abstractmethod
    def sequential(self) -> SequentialLoop:
        """The loop over them."""


def sequential(iterable: object) -> SequentialLoop | None:
    """The loop that a `for` statement over `iterable` becomes, or None if it runs while staging."""
    if isinstance(iterable, SequentialLoop):
        return iterable
    if isinstance(iterable, HasElements):
        return iterable.sequential()
    if isinstance(iterable, range):
        iterable = SymbolicRange(iterable.start, iterable.stop, iterable.step)
    if isinstance(iterable, SymbolicRange):
        return iterable.loop()
    if isinstance(iterable, IndexSetTracer) or is_index_set(iterable):
        return _over_set(iterable)
    records = as_tabular(iterable)
    if records is not None:
        return SequentialLoop(records.index_set, lambda index: records[index], exact=True)
    if is_table(iterable):
        table = as_table(iterable)
        return SequentialLoop(table.index_set, lambda index: table[index], exact=True)
    return None


def _over_set(iterable: object) -> SequentialLoop:
    """The loop over an index set: over its ordinals if it has several axes."""
    domain = domain_of(iterable)
    (part,) = domain.parts
    if len(domain.axes) == 1:
        return SequentialLoop(
            domain.axes[0],
            lambda index: (
                index if type(part).index is IndexSet.index else part.index(index.place())
            ),
            exact=True,
        )
    flat = set_tracer(Product(part.axes))
    return SequentialLoop(flat, lambda index: part.index(index.place()), exact=True)


def zipped(values: Sequence[object]) -> SequentialLoop:
    """The loop over `zip(*values)`: it ends with the shortest of them."""
    loops = [_part(value) for value in values]
    first = loops[0].set
    if all(map(is_table, values)):  # one index for all: tables of different lengths are refused
        return SequentialLoop(first, lambda i: tuple(loop.value(i) for loop in loops), exact=True)
    size = functools.reduce(_shorter, [loop.set.atom for loop in loops])
    index_set = IndexSetTracer(size, Origin("a `zip`", here()), staging().scope)

    def items(index: IndexTracer) -> tuple[object, ...]:
        found = []
        for loop in loops:
            found.append(loop.value(index))
            index.within = None  # what a range says of its own length does not hold for all
        return tuple(found)

    return SequentialLoop(index_set, items)


def _part(value: object) -> SequentialLoop:
    loop = sequential(value)
    if loop is None or loop.reverse:
        raise KernelTypeError(
            f"`zip` combines a symbol with {value!r:.60}.",
            at=here(),
            fix="Zip tables and ranges; index everything else: `for i in range(n)`.",
        )
    return loop


def _shorter(left: Atom, right: Atom) -> Atom:
    trace = staging()
    if left == right or trace.sizes.same(left, right):
        return left
    size = trace.prim(op.MIN, left, right, name="length")
    trace.size_homes[size] = trace.scope
    trace.scope.nonnegative.add(size)
    return size
