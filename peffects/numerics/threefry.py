"""Counter-based random numbers: Threefry-2x32, keys, uniforms and normals.  Fixed for good.

A key is an int of 64 bits.  `split(key) = (hash(key, 0), hash(key, 1))`; iteration i of a loop
under key k has `hash(k, i)`; a uniform is the top 53 bits of the 64-bit hash.  Logarithm and cosine
of the normal are written out in IEEE additions, multiplications and divisions (the polynomials of
fdlibm), so that machine and compiled code give the same bits.  Layer 0: imports nothing of ours.
"""

from __future__ import annotations

import math
from typing import Final

__all__ = ["fold_in", "hash_key", "new_key", "split", "threefry_2x32", "to_normal", "to_uniform"]

_MASK32: Final = 0xFFFFFFFF
_MASK64: Final = 0xFFFFFFFFFFFFFFFF
_PARITY: Final = 0x1BD11BDA
_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry_2x32(key: int, count: int) -> int:
    """The hash of Salmon et al. (SC'11): 20 rounds on two words of 32 bits, the upper one first."""
    k0, k1 = key >> 32, key & _MASK32
    keys = (k1, k0 ^ k1 ^ _PARITY, k0)
    x = ((count >> 32) + k0) & _MASK32
    y = ((count & _MASK32) + k1) & _MASK32
    for i in range(5):
        for r in _ROTATIONS[i % 2]:
            x = (x + y) & _MASK32
            y = (((y << r) & _MASK32) | (y >> (32 - r))) ^ x
        x = (x + keys[i % 3]) & _MASK32
        y = (y + keys[(i + 1) % 3] + i + 1) & _MASK32
    return (x << 32) | y


def hash_key(key: int, number: int) -> int:
    """The 64-bit hash of a number under a key."""
    return threefry_2x32(key, number & _MASK64)


def new_key(seed: int) -> int:
    """The key of a seed."""
    return hash_key(0, seed)


def split(key: int) -> tuple[int, int]:
    """Two independent keys."""
    return hash_key(key, 0), hash_key(key, 1)


def fold_in(key: int, number: int) -> int:
    """The key of iteration `number` of a loop under `key`."""
    return hash_key(key, number)


def to_uniform(bits: int) -> float:
    """A double in [0, 1) from a 64-bit hash: its top 53 bits."""
    return (bits >> 11) * 2.0**-53


def to_normal(key: int) -> float:
    """A standard normal from a key, by the method of Box and Muller."""
    radius = to_uniform(hash_key(key, 0))
    turn = to_uniform(hash_key(key, 1))
    return math.sqrt(-2.0 * log_unit(1.0 - radius)) * cos_turn(turn)


_LN2_HI: Final = 6.93147180369123816490e-01
_LN2_LO: Final = 1.90821492927058770002e-10


def log_unit(x: float) -> float:
    """Natural logarithm of x > 0 that is not subnormal (fdlibm's e_log, within 1 ulp).

    x = 2**e * m with m in [sqrt(1/2), sqrt(2)); with f = m - 1 and s = f/(2+f),
    log(1+f) = f - f*f/2 + s*(f*f/2 + R(s*s)), R a minimax polynomial.
    """
    m, e = math.frexp(x)
    if m < 0.70710678118654752440:
        m, e = m + m, e - 1
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (
        3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01)
    )
    odd = z * (
        6.666666666666735130e-01
        + w
        * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01))
    )
    half = 0.5 * f * f
    return e * _LN2_HI - ((half - (s * (half + (even + odd)) + e * _LN2_LO)) - f)


def cos_turn(u: float) -> float:
    """cos(2*pi*u) for u in [0, 1): the quarter turn is exact, the rest fdlibm's polynomials."""
    quarters = 4.0 * u
    quarter = math.floor(quarters + 0.5)
    x = (quarters - quarter) * 1.57079632679489661923
    z = x * x
    if quarter % 2 == 0:
        tail = 2.48015872894767294178e-05 + z * (
            -2.75573143513906633035e-07
            + z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)
        )
        tail = 4.16666666666666019037e-02 + z * (-1.38888888888741095749e-03 + z * tail)
        value = 1.0 - (0.5 * z - z * z * tail)
        return value if quarter % 4 == 0 else -value
    tail = 2.75573137070700676789e-06 + z * (
        -2.50507602534068634195e-08 + z * 1.58969099521155010221e-10
    )
    tail = 8.33333333332248946124e-03 + z * (-1.98412698298579493134e-04 + z * tail)
    value = x + x * z * (-1.66666666666666324348e-01 + z * tail)
    return -value if quarter % 4 == 1 else value
