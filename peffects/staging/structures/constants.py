"""Strings, enum members and None of which it is known only when the program runs which one it is.

Where ways of control flow meet with different constants, they meet in the number that each has in
a list which the trace keeps.  In results the number becomes the constant again.
"""

from __future__ import annotations

import enum
from typing import NoReturn

import numpy as np

from peffects.errors import KernelTypeError
from peffects.ir import primitives as op
from peffects.ir.builder import int_lit
from peffects.ir.syntax import Atom
from peffects.staging.scalars.symbols import ScalarTracer, Tracer, compare, logical, weak_int
from peffects.staging.structures.tables import TableTracer
from peffects.staging.tracing.trace import OpenBlock, here, staging

__all__ = ["ConstantColumn", "ConstantTracer", "chosen", "is_constant", "number_of"]


def is_constant(value: object) -> bool:
    """Whether `value` may differ between ways that meet: it is immutable and no number."""
    return value is None or isinstance(value, str | bytes | enum.Enum)


def number_of(value: object) -> Atom:
    """The number of a constant, as an atom."""
    if isinstance(value, ConstantTracer):
        staging().check_open(value.scope, value.what())
        return value.atom
    constants = staging().constants
    for number, known in enumerate(constants):
        if type(known) is type(value) and known == value:
            return int_lit(number)
    constants.append(value)
    return int_lit(len(constants) - 1)


class ConstantTracer(Tracer):
    """One of the constants of the trace; it can be compared, returned and thrown."""

    def __init__(self, atom: Atom, scope: OpenBlock) -> None:
        self.atom = atom
        self.scope = scope

    def what(self) -> str:
        """What it is, for messages."""
        return "a constant that depends on values of the kernel"

    def _equal(self, other: object) -> ScalarTracer | None:
        if not is_constant(other) and not isinstance(other, ConstantTracer):
            return None
        return compare(op.EQ, weak_int(number_of(self)), weak_int(number_of(other)))

    def __eq__(self, other: object) -> object:  # type: ignore[override]
        equal = self._equal(other)
        return False if equal is None else equal

    def __ne__(self, other: object) -> object:  # type: ignore[override]
        equal = self._equal(other)
        return True if equal is None else logical(op.NOT, equal)

    __hash__ = Tracer.__hash__

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise KernelTypeError(
            f"`.{name}` of {self.what()}.",
            at=here(),
            fix="Compare it with `==`, or return it and go on outside the kernel.",
        )

    def _shown(self) -> str:
        return f"<constant number {self.atom!r}>"


class ConstantColumn:
    """A table of constants."""

    _pe_symbolic = True

    def __init__(self, numbers: TableTracer) -> None:
        self.numbers = numbers

    def __repr__(self) -> str:
        return "<a table of constants>"

    def __getitem__(self, key: object) -> ConstantTracer:
        number = self.numbers[key]
        assert isinstance(number, ScalarTracer)
        return ConstantTracer(number.atom, number.scope)


def chosen(constants: tuple[object, ...], numbers: object) -> object:
    """The constants that results of a program stand for: one, or an array of objects.

    What stands for a result in derivatives, a tangent or a place, stays as it is.
    """
    if isinstance(numbers, int | np.integer):
        return constants[int(numbers)]
    if not isinstance(numbers, np.ndarray) or numbers.dtype.kind != "i":
        return numbers
    known = np.empty(len(constants), dtype=object)
    known[:] = constants
    return known[numbers]
