"""Scalar operations whose meaning numba and numpy do not share; generated source imports them.

The meaning is numpy's, as `ir/primitives.py` says: division by zero gives 0 for integers, shifts by
more than the width give 0 or the sign, a conversion of a float that does not fit gives what x86
gives.  Everything here is free of branches where it can be, so that loops stay vectorizable.

Imports numba: only generated source imports this module.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, register_jitable

__all__ = [
    "ceil",
    "convert",
    "floor",
    "floordiv",
    "integer_power",
    "lgamma",
    "maximum",
    "minimum",
    "mod",
    "real_floordiv",
    "real_mod",
    "select",
    "shift_left",
    "shift_right",
    "trunc",
]

_Builder = ir.IRBuilder

# --- intrinsics -------------------------------------------------------------------------------


@intrinsic
def select(typingctx: object, condition: types.Type, x: types.Type, y: types.Type) -> Any:
    """`x` if `condition`, else `y`; both are computed."""
    if x != y:
        return None

    def codegen(context: Any, builder: _Builder, signature: Any, args: Any) -> ir.Value:
        return builder.select(*args)

    return x(types.boolean, x, y), codegen


def _extremum(symbol: str) -> Callable[[_Builder, types.Type, ir.Value, ir.Value], ir.Value]:
    """The smaller or larger one: a NaN if there is one, else the first of two equal ones."""

    def emit(builder: _Builder, t: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
        if isinstance(t, types.Float):
            beyond = builder.fcmp_ordered(symbol, b, a)
            chosen = builder.select(beyond, b, a)
            return builder.select(builder.fcmp_unordered("uno", b, b), b, chosen)
        signed = isinstance(t, types.Integer) and t.signed
        compare = builder.icmp_signed if signed else builder.icmp_unsigned
        return builder.select(compare(symbol, b, a), b, a)

    return emit


_smaller, _larger = _extremum("<"), _extremum(">")


@intrinsic
def minimum(typingctx: object, a: types.Type, b: types.Type) -> Any:
    """numpy's `minimum` of two numbers of one type."""
    if a != b:
        return None
    return a(a, b), lambda context, builder, signature, args: _smaller(builder, a, *args)


@intrinsic
def maximum(typingctx: object, a: types.Type, b: types.Type) -> Any:
    """numpy's `maximum` of two numbers of one type."""
    if a != b:
        return None
    return a(a, b), lambda context, builder, signature, args: _larger(builder, a, *args)


def _rounding(name: str, x: types.Type) -> Any:
    if not isinstance(x, types.Float):
        return None

    def codegen(context: Any, builder: _Builder, signature: Any, args: Any) -> ir.Value:
        kind = ir.FunctionType(args[0].type, [args[0].type])
        function = cgutils.get_or_insert_function(
            builder.module, kind, f"llvm.{name}.f{x.bitwidth}"
        )
        return builder.call(function, args)

    return x(x), codegen


@intrinsic
def floor(typingctx: object, x: types.Type) -> Any:
    """The float at or below x."""
    return _rounding("floor", x)


@intrinsic
def ceil(typingctx: object, x: types.Type) -> Any:
    """The float at or above x."""
    return _rounding("ceil", x)


@intrinsic
def trunc(typingctx: object, x: types.Type) -> Any:
    """The integral float between x and 0 that is next to x."""
    return _rounding("trunc", x)


def _shift(builder: _Builder, t: types.Integer, left: bool, a: ir.Value, b: ir.Value) -> ir.Value:
    """`a` shifted by `b`; by the width or more, or by a negative number: all bits go."""
    fits = builder.icmp_unsigned("<", b, b.type(t.bitwidth))
    if left:
        return builder.select(fits, builder.shl(a, b), a.type(0))
    if not t.signed:
        return builder.select(fits, builder.lshr(a, b), a.type(0))
    return builder.ashr(a, builder.select(fits, b, b.type(t.bitwidth - 1)))


@intrinsic
def shift_left(typingctx: object, a: types.Type, b: types.Type) -> Any:
    """numpy's `a << b`."""
    if a != b or not isinstance(a, types.Integer):
        return None
    return a(a, b), lambda context, builder, signature, args: _shift(builder, a, True, *args)


@intrinsic
def shift_right(typingctx: object, a: types.Type, b: types.Type) -> Any:
    """numpy's `a >> b`."""
    if a != b or not isinstance(a, types.Integer):
        return None
    return a(a, b), lambda context, builder, signature, args: _shift(builder, a, False, *args)


# --- conversions of floats --------------------------------------------------------------------


def _to_signed(builder: _Builder, x: ir.Value, bits: int) -> ir.Value:
    """Truncated, or the smallest integer where that does not fit, as x86 does.

    LLVM leaves the second case undefined, so it must be selected away, not computed.
    """
    limit = float(2 ** (bits - 1))
    above = builder.fcmp_ordered(">=", x, x.type(-limit))
    below = builder.fcmp_ordered("<", x, x.type(limit))
    target = ir.IntType(bits)
    smallest = target(-(2 ** (bits - 1)))
    return builder.select(builder.and_(above, below), builder.fptosi(x, target), smallest)


def _to_integer(builder: _Builder, x: ir.Value, bits: int, signed: bool) -> ir.Value:
    if bits == 64 and not signed:
        half = x.type(2.0**63)
        large = builder.fcmp_ordered(">=", x, half)
        rest = builder.select(large, builder.fsub(x, half), x)
        top = builder.select(large, ir.IntType(64)(1 << 63), ir.IntType(64)(0))
        return builder.xor(_to_signed(builder, rest, 64), top)
    if bits == 64:
        return _to_signed(builder, x, 64)
    if bits == 32 and not signed:
        return builder.trunc(_to_signed(builder, x, 64), ir.IntType(32))
    whole = _to_signed(builder, x, 32)
    return whole if bits == 32 else builder.trunc(whole, ir.IntType(bits))


@intrinsic
def convert(typingctx: object, target: types.Type, x: types.Type) -> Any:
    """`convert(i32, x)`: numpy's `x.astype(int32)` of a float."""
    if not (isinstance(target, types.NumberClass) and isinstance(x, types.Float)):
        return None
    result = target.instance_type

    def codegen(context: Any, builder: _Builder, signature: Any, args: Any) -> ir.Value:
        return _to_integer(builder, args[1], result.bitwidth, result.signed)

    return result(target, x), codegen


# --- functions --------------------------------------------------------------------------------


@register_jitable
def floordiv(a: Any, b: Any) -> Any:
    """Integer division towards minus infinity; by zero: 0."""
    if b == 0:
        return a * 0
    if b == -1:  # the smallest integer has no opposite: the processor would trap
        return -a
    return a // b


@register_jitable
def mod(a: Any, b: Any) -> Any:
    """The rest of `floordiv`, with the sign of b; by zero: 0."""
    if b == 0 or b == -1:
        return a * 0
    return a % b


@register_jitable
def real_floordiv(a: Any, b: Any) -> Any:
    """The floor of a / b as numpy computes it, from the rest, so that it fits to `real_mod`."""
    if b == 0.0:
        return a / b
    rest = math.fmod(a, b)
    quotient = (a - rest) / b
    if rest != 0.0 and (b < 0.0) != (rest < 0.0):
        quotient -= 1.0
    if quotient == 0.0:
        return math.copysign(0.0, a / b)
    whole = math.floor(quotient) * 1.0 if abs(quotient) < 1e15 else quotient
    return whole + 1.0 if quotient - whole > 0.5 else whole


@register_jitable
def real_mod(a: Any, b: Any) -> Any:
    """The rest of `real_floordiv`, with the sign of b."""
    rest = math.fmod(a, b)
    if b == 0.0:
        return rest
    if rest == 0.0:
        return math.copysign(0.0, b)
    return rest + b if (b < 0.0) != (rest < 0.0) else rest


@register_jitable
def integer_power(a: Any, b: Any) -> Any:
    """`a ** b` by squaring, modulo the width; for a negative b, the integral part."""
    result = a * 0 + 1
    if b < 0:
        if a == 1:
            return result
        if a == -1:
            return result if b % 2 == 0 else -result
        return result * 0
    while b > 0:
        if b & 1:
            result = result * a
        a = a * a
        b = b >> 1
    return result


@njit(inline="never")
def lgamma(x: float) -> float:
    """The logarithm of the absolute gamma function; inf at its poles."""
    if math.isinf(x) or (x <= 0.0 and x == math.floor(x)):
        return math.inf
    return math.lgamma(x)
