"""Threefry, and the logarithm and cosine of normals, without branches: loops of them vectorize.

The functions of `numerics/threefry.py`, operation by operation, so that both give the same bits; a
test compares them.  No operation may be contracted.

Imports numba: only generated source imports this module.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from peffects.codegen.native.instructions import Emitted, bits_of

__all__ = ["cos_turn", "log_unit", "threefry"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_WHOLE = 2.0**52
"""Doubles from here to its double are whole, and their low bits count them."""


def _words(builder: ir.IRBuilder, word: ir.Value) -> tuple[ir.Value, ir.Value]:
    high = builder.trunc(builder.lshr(word, _I64(32)), _I32)
    return high, builder.trunc(word, _I32)


def _threefry(builder: ir.IRBuilder, key: ir.Value, count: ir.Value) -> ir.Value:
    k0, k1 = _words(builder, key)
    keys = (k1, builder.xor(builder.xor(k0, k1), _I32(_PARITY)), k0)
    x, y = _words(builder, count)
    x, y = builder.add(x, k0), builder.add(y, k1)
    for i in range(5):
        for r in _ROTATIONS[i % 2]:
            x = builder.add(x, y)
            turned = builder.or_(builder.shl(y, _I32(r)), builder.lshr(y, _I32(32 - r)))
            y = builder.xor(turned, x)
        x = builder.add(x, keys[i % 3])
        y = builder.add(builder.add(y, keys[(i + 1) % 3]), _I32(i + 1))
    upper = builder.shl(builder.zext(x, _I64), _I64(32))
    return builder.or_(upper, builder.zext(y, _I64))


def _whole(x: Emitted) -> Emitted:
    """The double that counts as much as an i64 from 0 to 2**52 - 1."""
    return x.plus(bits_of(_WHOLE)).from_bits() - _WHOLE


def _log_unit(x: Emitted) -> Emitted:
    word = x.bits()
    m = word.masked((1 << 52) - 1).plus(1022 << 52).from_bits()
    e = _whole(word.down(52)) - 1022.0
    low = 0.70710678118654752440
    e = e.unless(m, "<", low, e - 1.0)
    m = m.where("<", low, m + m)
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    w = z * z
    even = w * 1.531383769920937332e-01 + 2.222219843214978396e-01
    even = w * (w * even + 3.999999999940941908e-01)
    odd = w * 1.479819860511658591e-01 + 1.818357216161805012e-01
    odd = z * (w * (w * odd + 2.857142874366239149e-01) + 6.666666666666735130e-01)
    half = f * 0.5 * f
    inner = s * (half + (even + odd)) + e * 1.90821492927058770002e-10
    return e * 6.93147180369123816490e-01 - ((half - inner) - f)


def _cos_turn(u: Emitted) -> Emitted:
    quarters = u * 4.0
    shifted = quarters + 0.5 + _WHOLE  # rounds; the truncated sum is below by at most 1
    quarter = shifted - _WHOLE
    quarter = quarter.unless(quarter - (quarters + 0.5), ">", 0.0, quarter - 1.0)
    count = (quarter + _WHOLE).bits()
    x = (quarters - quarter) * 1.57079632679489661923
    z = x * x
    tail = z * -1.13596475577881948265e-11 + 2.08757232129817482790e-09
    tail = z * (z * tail + -2.75573143513906633035e-07) + 2.48015872894767294178e-05
    tail = z * (z * tail + -1.38888888888741095749e-03) + 4.16666666666666019037e-02
    even = Emitted(u.builder, ir.DoubleType()(1.0)) - (z * 0.5 - z * z * tail)
    tail = z * 1.58969099521155010221e-10 + -2.50507602534068634195e-08
    tail = z * tail + 2.75573137070700676789e-06
    tail = z * (z * tail + -1.98412698298579493134e-04) + 8.33333333332248946124e-03
    odd = x + x * z * (z * tail + -1.66666666666666324348e-01)
    # quarters 0 to 4: cos x, -sin x, -cos x, sin x, cos x; the lowest two bits are 00, 01, 10, 11
    is_odd = u.builder.trunc(count.value, ir.IntType(1))
    value = Emitted(u.builder, u.builder.select(is_odd, odd.value, even.value))
    sign = count.apart(count.down(1)).up(63)
    return value.bits().apart(sign).from_bits()


@intrinsic
def threefry(typingctx: object, key: types.Type, count: types.Type) -> Any:
    """The 64-bit hash of a count under a key."""
    word = types.uint64
    return word(word, word), lambda context, builder, signature, args: _threefry(builder, *args)


@intrinsic
def log_unit(typingctx: object, x: types.Type) -> Any:
    """The logarithm of a double in (0, 1], not subnormal."""
    kind = types.float64
    return kind(
        kind
    ), lambda context, builder, signature, args: _log_unit(Emitted(builder, args[0])).value


@intrinsic
def cos_turn(typingctx: object, u: types.Type) -> Any:
    """The cosine of u turns, for u in [0, 1)."""
    kind = types.float64
    return kind(
        kind
    ), lambda context, builder, signature, args: _cos_turn(Emitted(builder, args[0])).value
