"""Functions of numbers that numba does not have, for generated source; beside `arithmetic.py`.

Those of `numerics/special.py` are compiled from their own text.  What is written here has the
meaning that `ir/primitives.py` gives it, up to rounding.

Imports numba: only generated source imports this module.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, register_jitable

from peffects.codegen.native.arithmetic import select
from peffects.codegen.native.vector_math import exp
from peffects.numerics import special

__all__ = [
    "bit_count",
    "digamma",
    "expit",
    "float_of",
    "fmod",
    "gcd",
    "logaddexp",
    "remainder",
    "rint",
    "trigamma",
    "word_of",
]

_Builder = ir.IRBuilder

for _inner in (
    special.digamma_positive, special.rest_of, special.steps_to_ten, special.trigamma_positive,
):  # fmt: skip
    register_jitable(_inner)
digamma = register_jitable(special.digamma)
trigamma = register_jitable(special.trigamma)
logaddexp = register_jitable(special.logaddexp)
remainder = register_jitable(special.remainder)


@register_jitable
def expit(x: float) -> float:
    """`special.expit` without branches and calls, so that loops are vectorized."""
    small = exp(-abs(x))
    return float(select(x >= 0.0, 1.0, small) / (1.0 + small))


@register_jitable
def gcd(a: int, b: int) -> int:
    """The greatest common divisor of unsigned numbers; of 0 and b, b."""
    while a != 0:
        a, b = b % a, a
    return b


@intrinsic
def rint(typingctx: object, x: types.Type) -> Any:
    """The whole number next to x; of two, the even one."""
    if not isinstance(x, types.Float):
        return None

    def codegen(context: Any, builder: _Builder, signature: Any, args: Any) -> ir.Value:
        kind = ir.FunctionType(args[0].type, [args[0].type])
        name = f"llvm.rint.f{x.bitwidth}"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)

    return x(x), codegen


def _rest(builder: _Builder, t: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """The rest of a division that rounds towards 0; by 0: 0, as numpy has it."""
    if isinstance(t, types.Float):
        return builder.frem(a, b)
    trapping = builder.icmp_unsigned("==", b, b.type(0))
    if isinstance(t, types.Integer) and t.signed:  # the smallest number by -1 traps
        trapping = builder.or_(trapping, builder.icmp_signed("==", b, b.type(-1)))
        return builder.srem(a, builder.select(trapping, b.type(1), b))
    return builder.urem(a, builder.select(trapping, b.type(1), b))


@intrinsic
def fmod(typingctx: object, a: types.Type, b: types.Type) -> Any:
    """The rest of a / b, with the sign of a."""
    if a != b:
        return None
    return a(a, b), lambda context, builder, signature, args: _rest(builder, a, *args)


@intrinsic
def bit_count(typingctx: object, x: types.Type) -> Any:
    """How many bits of |x| are ones."""
    if not isinstance(x, types.Integer):
        return None

    def codegen(context: Any, builder: _Builder, signature: Any, args: Any) -> ir.Value:
        (value,) = args
        if x.signed:
            negative = builder.icmp_signed("<", value, value.type(0))
            value = builder.select(negative, builder.sub(value.type(0), value), value)
        return builder.ctpop(value)

    return x(x), codegen


_FLOATS = {64: (types.float64, ir.DoubleType()), 32: (types.float32, ir.FloatType())}


@intrinsic
def word_of(typingctx: object, x: types.Type) -> Any:
    """The bits of a float as an unsigned integer."""
    if not isinstance(x, types.Float):
        return None
    word = types.uint64 if x.bitwidth == 64 else types.uint32

    def codegen(context: Any, builder: _Builder, signature: Any, args: Any) -> ir.Value:
        return builder.bitcast(args[0], ir.IntType(x.bitwidth))

    return word(x), codegen


@intrinsic
def float_of(typingctx: object, x: types.Type) -> Any:
    """The float with the bits of an unsigned integer."""
    if not isinstance(x, types.Integer) or x.bitwidth not in _FLOATS:
        return None
    result, target = _FLOATS[x.bitwidth]

    def codegen(context: Any, builder: _Builder, signature: Any, args: Any) -> ir.Value:
        return builder.bitcast(args[0], target)

    return result(x), codegen
