"""Doubles and 64-bit integers as LLVM values, with operators that append instructions.

What vectorizable functions are written with: `vector_math.py`, `random_numbers.py`.  No operator
but `times_plus` may be contracted: each rounds as IEEE 754 says.

Imports numba: only generated source imports the modules that import this one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from llvmlite import ir
from numba.core import cgutils

__all__ = ["Emitted", "bits_of"]

_F64, _I64 = ir.DoubleType(), ir.IntType(64)


@dataclass(frozen=True, slots=True)
class Emitted:
    """A double, or an i64, with operators that append instructions."""

    builder: ir.IRBuilder
    value: ir.Value

    def _other(self, other: Emitted | float) -> ir.Value:
        return other.value if isinstance(other, Emitted) else self.value.type(other)

    def _made(self, value: ir.Value) -> Emitted:
        return Emitted(self.builder, value)

    def __add__(self, other: Emitted | float) -> Emitted:
        return self._made(self.builder.fadd(self.value, self._other(other)))

    def __sub__(self, other: Emitted | float) -> Emitted:
        return self._made(self.builder.fsub(self.value, self._other(other)))

    def __mul__(self, other: Emitted | float) -> Emitted:
        return self._made(self.builder.fmul(self.value, self._other(other)))

    def __truediv__(self, other: Emitted | float) -> Emitted:
        return self._made(self.builder.fdiv(self.value, self._other(other)))

    def times_plus(self, factor: Emitted | float, term: Emitted | float) -> Emitted:
        """`self * factor + term`, in one instruction where the machine has it."""
        kind = ir.FunctionType(_F64, [_F64] * 3)
        fused = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.fmuladd.f64")
        args = [self.value, self._other(factor), self._other(term)]
        return self._made(self.builder.call(fused, args))

    def where(self, test: str, bound: Emitted | float, chosen: Emitted | float) -> Emitted:
        """`chosen` where `self test bound` holds, else `self`; a NaN stays."""
        condition = self.builder.fcmp_ordered(test, self.value, self._other(bound))
        return self._made(self.builder.select(condition, self._other(chosen), self.value))

    def unless(self, x: Emitted, test: str, bound: float, chosen: Emitted | float) -> Emitted:
        """`chosen` where `x test bound` holds, else `self`."""
        condition = self.builder.fcmp_ordered(test, x.value, x.value.type(bound))
        return self._made(self.builder.select(condition, self._other(chosen), self.value))

    def or_nan(self, x: Emitted) -> Emitted:
        """`x` where that is a NaN, else `self`."""
        condition = self.builder.fcmp_unordered("uno", x.value, x.value)
        return self._made(self.builder.select(condition, x.value, self.value))

    def bits(self) -> Emitted:
        """The i64 with the bits of a double."""
        return self._made(self.builder.bitcast(self.value, _I64))

    def from_bits(self) -> Emitted:
        """The double with the bits of an i64."""
        return self._made(self.builder.bitcast(self.value, _F64))

    def plus(self, other: Emitted | int) -> Emitted:
        """The sum of two i64."""
        return self._made(self.builder.add(self.value, self._other(other)))

    def masked(self, mask: int) -> Emitted:
        """Some bits of an i64."""
        return self._made(self.builder.and_(self.value, self.value.type(mask)))

    def apart(self, other: Emitted) -> Emitted:
        """The bits in which two i64 differ."""
        return self._made(self.builder.xor(self.value, other.value))

    def joined(self, other: Emitted) -> Emitted:
        """The bits of two i64 together."""
        return self._made(self.builder.or_(self.value, other.value))

    def up(self, count: int) -> Emitted:
        """An i64 shifted left."""
        return self._made(self.builder.shl(self.value, self.value.type(count)))

    def down(self, count: int) -> Emitted:
        """An i64 shifted right, zeros coming in."""
        return self._made(self.builder.lshr(self.value, self.value.type(count)))


def bits_of(x: float) -> int:
    """The bits of a double as a signed integer."""
    return int(struct.unpack("<q", struct.pack("<d", x))[0])
