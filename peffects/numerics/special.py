"""Functions that neither Python's `math` nor the C library has, written out in plain arithmetic.

The reference evaluator calls them, and numba compiles this very text for kernels, so both mean the
same.  Layer 0: imports nothing of ours; a function here uses numbers, `math` and loops only.
"""

from __future__ import annotations

import math

__all__ = ["digamma", "expit", "logaddexp", "remainder", "trigamma"]

_ALL_WHOLE = -(2.0**52)
"""Below it all floats are whole numbers."""


def digamma(x: float) -> float:
    """The derivative of `lgamma`: -inf at 0, nan at the other poles.

    Below 0 by reflection, psi(1 - x) - psi(x) = pi / tan(pi x); small arguments are moved up by
    psi(x) = psi(x + 1) - 1 / x; from 10 on Stirling's series is exact to less than 2**-53.  The
    error is below 6 units of 2**-52 max(1, |psi(x)|) for x > 0, so near the zero at 1.4616 it is
    absolute.
    """
    if x == 0.0:
        return math.copysign(math.inf, -x)
    if x < 0.0:
        if x < _ALL_WHOLE or x == math.floor(x):
            return math.nan
        part = x - math.floor(x + 0.5)  # exact, and tan has period pi
        return digamma_positive(1.0 - x) - math.pi / math.tan(math.pi * part)
    return digamma_positive(x)


def digamma_positive(x: float) -> float:
    """`digamma` above 0, and of nan."""
    if math.isinf(x):
        return x
    total, steps = 0.0, steps_to_ten(x)
    for k in range(steps - 1, -1, -1):  # small terms first
        total += 1.0 / (x + k)
    x += steps
    z = 1.0 / (x * x)
    tail = 1.0 / 132.0 + z * (-691.0 / 32760.0 + z * (1.0 / 12.0 - z * 3617.0 / 8160.0))
    tail = z * (1.0 / 12.0 + z * (-1.0 / 120.0 + z * (1.0 / 252.0 + z * (-1.0 / 240.0 + z * tail))))
    return math.log(x) - 0.5 / x - tail - total


def steps_to_ten(x: float) -> int:
    """How often 1 is added to x until it is at least 10."""
    return math.ceil(10.0 - x) if x < 10.0 else 0


def trigamma(x: float) -> float:
    """The derivative of `digamma`: inf at the poles.

    By the derivatives of the formulas for `digamma`; for x > 0 all terms are positive, and the
    error is below 4 units in the last place.
    """
    if x <= 0.0:
        if x < _ALL_WHOLE or x == math.floor(x):
            return math.inf
        part = x - math.floor(x + 0.5)
        sine = math.sin(math.pi * part)
        return (math.pi / sine) * (math.pi / sine) - trigamma_positive(1.0 - x)
    return trigamma_positive(x)


def trigamma_positive(x: float) -> float:
    """`trigamma` above 0, and of nan."""
    if math.isinf(x):
        return 0.0
    total, steps = 0.0, steps_to_ten(x)
    for k in range(steps - 1, -1, -1):
        part = 1.0 / (x + k)
        total += part * part
    x += steps
    z = 1.0 / (x * x)
    tail = 5.0 / 66.0 + z * (-691.0 / 2730.0 + z * (7.0 / 6.0 - z * 3617.0 / 510.0))
    tail = z * (1.0 / 6.0 + z * (-1.0 / 30.0 + z * (1.0 / 42.0 + z * (-1.0 / 30.0 + z * tail))))
    return 1.0 / x + 0.5 * z + tail / x + total


def expit(x: float) -> float:
    """`1 / (1 + exp(-x))`, with small relative error on both sides."""
    small = math.exp(-abs(x))
    return (1.0 if x >= 0.0 else small) / (1.0 + small)


def logaddexp(x: float, y: float) -> float:
    """`log(exp(x) + exp(y))` without overflow."""
    if x == y:  # two equal infinities too
        return x + math.log(2.0)
    return max(x, y) + math.log1p(math.exp(-abs(x - y)))


def remainder(x: float, y: float) -> float:
    """`x - n y`, exact, for the whole number n next to x / y; the even one of two.

    The rest m of |x| by |y| is below |y|; the result is m, or m - |y| where that is nearer to 0.
    Where both are as near, |x| - m is an even or an odd multiple of |y|, which decides.
    """
    if math.isinf(y) and not math.isinf(x):
        return x if not math.isnan(x) else math.nan
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0.0:
        return math.nan
    size, step = abs(x), abs(y)
    near = rest_of(size, step)
    if near > step - near:
        near = near - step
    elif near == step - near:
        near = near - 2.0 * rest_of(0.5 * (size - near), step)
    return math.copysign(1.0, x) * near


def rest_of(x: float, y: float) -> float:
    """The exact rest of numbers that are not negative; numba has no `math.fmod`."""
    return x % y
