"""Scalar operations whose meaning numba and numpy do not share; generated source imports them.

The meaning is numpy's, as `ir/primitives.py` says: division by zero gives 0 for integers, shifts by
more than the width give 0 or the sign, a conversion of a float that does not fit gives what x86
gives.  Everything here is free of branches where it can be, so that loops stay vectorizable.

Imports numba: only generated source imports this module.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, register_jitable

__all__ = [
    "ceil",
    "convert",
    "floor",
    "floordiv",
    "greater",
    "lesser",
    "lgamma",
    "maximum",
    "minimum",
    "mod",
    "scale",
    "scale_by",
    "select",
    "shift_left",
    "shift_right",
    "signed_power",
    "trunc",
    "unscale",
    "unsigned_power",
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
    """The smaller or larger one: a NaN if there is one, else the second of two equal ones."""

    def emit(builder: _Builder, t: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
        if isinstance(t, types.Float):
            chosen = builder.select(builder.fcmp_ordered(symbol, a, b), a, b)
            return builder.select(builder.fcmp_unordered("uno", a, a), a, chosen)
        signed = isinstance(t, types.Integer) and t.signed
        compare = builder.icmp_signed if signed else builder.icmp_unsigned
        return builder.select(compare(symbol, b, a), b, a)

    return emit


_smaller, _larger = _extremum("<"), _extremum(">")


@intrinsic
def minimum(typingctx: object, a: types.Type, b: types.Type) -> Any:
    """As numpy's `minimum` of two numbers of one type."""
    if a != b:
        return None
    return a(a, b), lambda context, builder, signature, args: _smaller(builder, a, *args)


@intrinsic
def maximum(typingctx: object, a: types.Type, b: types.Type) -> Any:
    """As numpy's `maximum` of two numbers of one type."""
    if a != b:
        return None
    return a(a, b), lambda context, builder, signature, args: _larger(builder, a, *args)


def _python_s(symbol: str, a: types.Type, b: types.Type) -> Any:
    """The second of two floats if it compares so to the first, and else the first."""
    if a != b or not isinstance(a, types.Float):
        return None

    def codegen(context: Any, builder: _Builder, signature: Any, args: Any) -> ir.Value:
        x, y = args
        return builder.select(builder.fcmp_ordered(symbol, y, x), y, x)

    return a(a, b), codegen


@intrinsic
def lesser(typingctx: object, a: types.Type, b: types.Type) -> Any:
    """Python's `min` of two floats: one instruction, which keeps the first beside a nan."""
    return _python_s("<", a, b)


@intrinsic
def greater(typingctx: object, a: types.Type, b: types.Type) -> Any:
    """Python's `max` of two floats: one instruction, which keeps the first beside a nan."""
    return _python_s(">", a, b)


def _is_any(builder: _Builder, x: ir.Value, *values: float) -> list[ir.Value]:
    return [builder.fcmp_ordered("==", x, x.type(value)) for value in values]


def _unless_nothing(builder: _Builder, value: ir.Value, nothing: Callable[[], Any]) -> ir.Value:
    """`value`, but 0 where it is nan and one of the conditions `nothing` holds.

    They are tested behind a branch that is hardly ever taken: where a loop is not vectorized, all
    that is left is one comparison.
    """
    before = builder.block
    with builder.if_then(builder.fcmp_unordered("uno", value, value), likely=False):
        first, *others = nothing()
        for other in others:
            first = builder.or_(first, other)
        fixed = builder.select(first, value.type(0.0), value)
        rare = builder.block
    result = builder.phi(value.type)
    result.add_incoming(value, before)
    result.add_incoming(fixed, rare)
    return result


def _scaled(builder: _Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """The product, where 0 times anything is 0."""

    def nothing() -> Any:
        return [*_is_any(builder, x, 0.0), *_is_any(builder, y, 0.0)]

    return _unless_nothing(builder, builder.fmul(x, y), nothing)


@intrinsic
def scale(typingctx: object, x: types.Type, y: types.Type) -> Any:
    """`x * y`, where 0 times anything is 0."""
    if x != y or not isinstance(x, types.Float):
        return None
    return x(x, y), lambda context, builder, signature, args: _scaled(builder, *args)


def _by_constant(
    builder: _Builder,
    x: ir.Value,
    y: ir.Value,
    general: Callable[[_Builder, ir.Value, ir.Value], ir.Value],
    flags: tuple[str, ...] = (),
) -> ir.Value:
    """`general`; plain products where y, which a loop does not change, is neither 0 nor infinite.

    The condition does not change in the loop, so LLVM makes two loops of it.
    """
    is_plain = builder.and_(
        builder.fcmp_ordered("==", builder.fmul(y, y.type(0.0)), y.type(0.0)),
        builder.fcmp_ordered("!=", y, y.type(0.0)),
    )
    with builder.if_else(is_plain, likely=True) as (usual, rare):
        with usual:
            product = builder.fmul(x, y, flags=flags)
            plain = builder.block
        with rare:
            other = general(builder, x, y)
            careful = builder.block
    result = builder.phi(x.type)
    result.add_incoming(product, plain)
    result.add_incoming(other, careful)
    return result


@intrinsic
def scale_by(typingctx: object, x: types.Type, y: types.Type) -> Any:
    """`scale`, where the innermost loop does not change y."""
    if x != y or not isinstance(x, types.Float):
        return None

    def codegen(context: Any, builder: _Builder, signature: Any, args: Any) -> ir.Value:
        x, y = args
        return _by_constant(builder, x, y, _scaled)

    return x(x, y), codegen


@intrinsic
def unscale(typingctx: object, x: types.Type, y: types.Type) -> Any:
    """`x / y`, where 0 by anything, and anything by infinity, is 0."""
    if x != y or not isinstance(x, types.Float):
        return None

    def codegen(context: Any, builder: _Builder, signature: Any, args: Any) -> ir.Value:
        x, y = args

        def nothing() -> Any:
            return [*_is_any(builder, x, 0.0), *_is_any(builder, y, math.inf, -math.inf)]

        return _unless_nothing(builder, builder.fdiv(x, y), nothing)

    return x(x, y), codegen


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
    """As numpy's `a << b`."""
    if a != b or not isinstance(a, types.Integer):
        return None
    return a(a, b), lambda context, builder, signature, args: _shift(builder, a, True, *args)


@intrinsic
def shift_right(typingctx: object, a: types.Type, b: types.Type) -> Any:
    """As numpy's `a >> b`."""
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
    """`convert(i32, x)`: As numpy's `x.astype(int32)` of a float."""
    if not (isinstance(target, types.NumberClass) and isinstance(x, types.Float)):
        return None
    result = target.instance_type
    if not isinstance(result, types.Integer):
        return None

    def codegen(context: Any, builder: _Builder, signature: Any, args: Any) -> ir.Value:
        return _to_integer(builder, args[1], result.bitwidth, result.signed)

    return result(target, x), codegen


# --- division ---------------------------------------------------------------------------------


def _divide(
    builder: _Builder, t: types.Integer, a: ir.Value, b: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Quotient and rest, rounded down; by zero: 0 and 0.

    The processor traps on a division by zero and of the smallest integer by -1: both are replaced
    by a division by 1.
    """
    zero, one = b.type(0), b.type(1)
    by_zero = builder.icmp_unsigned("==", b, zero)
    if not t.signed:
        safe = builder.select(by_zero, one, b)
        quotient = builder.select(by_zero, zero, builder.udiv(a, safe))
        return quotient, builder.urem(a, safe)
    by_minus_one = builder.icmp_signed("==", b, b.type(-1))
    safe = builder.select(builder.or_(by_zero, by_minus_one), one, b)
    quotient, rest = builder.sdiv(a, safe), builder.srem(a, safe)
    opposite = builder.icmp_signed("<", builder.xor(rest, safe), zero)
    down = builder.and_(builder.icmp_signed("!=", rest, zero), opposite)
    quotient = builder.select(down, builder.sub(quotient, one), quotient)
    rest = builder.select(down, builder.add(rest, safe), rest)
    quotient = builder.select(by_minus_one, builder.sub(zero, a), quotient)
    return builder.select(by_zero, zero, quotient), rest


def _divide_floats(
    builder: _Builder, t: types.Float, a: ir.Value, b: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Quotient and rest by numpy's algorithm: the quotient is made to fit the exact rest."""
    zero, one, half = b.type(0.0), b.type(1.0), b.type(0.5)

    def unary(name: str, *args: ir.Value) -> ir.Value:
        kind = ir.FunctionType(b.type, [arg.type for arg in args])
        symbol = f"llvm.{name}.f{t.bitwidth}"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, symbol), args)

    rest, ratio = builder.frem(a, b), builder.fdiv(a, b)
    quotient = builder.fdiv(builder.fsub(a, rest), b)
    opposite = builder.xor(
        builder.fcmp_ordered("<", b, zero), builder.fcmp_ordered("<", rest, zero)
    )
    down = builder.and_(builder.fcmp_unordered("!=", rest, zero), opposite)
    quotient = builder.select(down, builder.fsub(quotient, one), quotient)
    whole = unary("floor", quotient)
    low = builder.fcmp_ordered(">", builder.fsub(quotient, whole), half)
    whole = builder.select(low, builder.fadd(whole, one), whole)
    vanishes = builder.fcmp_ordered("==", quotient, zero)
    whole = builder.select(vanishes, unary("copysign", zero, ratio), whole)
    exact = builder.fcmp_ordered("==", rest, zero)
    rest = builder.select(down, builder.fadd(rest, b), rest)
    rest = builder.select(exact, unary("copysign", zero, b), rest)
    return builder.select(builder.fcmp_ordered("==", b, zero), ratio, whole), rest


def _division(which: int, a: types.Type, b: types.Type) -> Any:
    if a != b:
        return None

    def codegen(context: Any, builder: _Builder, signature: Any, args: Any) -> ir.Value:
        if isinstance(a, types.Integer):
            return _divide(builder, a, *args)[which]
        return _divide_floats(builder, cast(types.Float, a), *args)[which]

    return a(a, b), codegen


@intrinsic
def floordiv(typingctx: object, a: types.Type, b: types.Type) -> Any:
    """The floor of a / b, as numpy has it."""
    return _division(0, a, b)


@intrinsic
def mod(typingctx: object, a: types.Type, b: types.Type) -> Any:
    """The rest of `floordiv`, with the sign of b."""
    return _division(1, a, b)


# --- functions --------------------------------------------------------------------------------


@register_jitable
def unsigned_power(a: int, b: int) -> int:
    """`a ** b` by squaring, modulo 2**64; the bits of `b` are those of an unsigned number."""
    result = 1
    while b != 0:
        if b & 1:
            result = result * a
        a = a * a
        b = (b >> 1) & 0x7FFF_FFFF_FFFF_FFFF
    return result


@register_jitable
def signed_power(a: int, b: int) -> int:
    """`a ** b` modulo 2**64; for a negative b, the integral part."""
    if b >= 0:
        return unsigned_power(a, b)
    if a == 1 or a == -1:
        return a if b & 1 else 1
    return 0


@register_jitable
def lgamma(x: float) -> float:
    """The logarithm of the absolute gamma function; inf at its poles."""
    if math.isinf(x) or (x <= 0.0 and x == floor(x)):
        return math.inf
    return math.lgamma(x)
