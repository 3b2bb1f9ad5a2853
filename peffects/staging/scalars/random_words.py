"""Random words as symbols: keys, hashes and the numbers that are made of them.

A key is a word of 64 bits, a number of type u64.  `peffects.random` gives users these functions,
and `effects/random_keys.py` the handler `prng` while it is staged; both draw the numbers of
`peffects.numerics.threefry`, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from peffects.errors import KernelTypeError
from peffects.ir import primitives as op
from peffects.ir.builder import lit_like
from peffects.ir.syntax import F64, I64, SCALARS
from peffects.staging.scalars.arithmetic import Operand, cast
from peffects.staging.scalars.symbols import (
    ScalarTracer,
    binary,
    convert,
    lift,
    make,
    pointwise,
    unary,
    unary_float,
)
from peffects.staging.tracing.trace import here

__all__ = [
    "folded", "hash_word", "key_word", "literal_word", "no_key", "unit_exponential",
    "unit_normal", "unit_uniform", "upper_half", "word_of",
]  # fmt: skip

_WORD = SCALARS["uint64"]
_LOW = 0xFFFFFFFF
_UNIT = 2.0**-53


def no_key(value: object) -> KernelTypeError:
    """The error for what is no key."""
    return KernelTypeError(
        f"{value!r:.60} is no key of random numbers.",
        at=here(),
        fix="Make one with `pe.random.key(seed)`; a key is an np.uint64.",
    )


def key_word(key: object) -> ScalarTracer:
    """A key as a symbol."""
    operand = lift(key, "a key of random numbers")
    if operand.type != _WORD:
        raise no_key(key)
    return make(operand)


def word_of(number: object) -> ScalarTracer:
    """An integer modulo 2**64."""
    operand = lift(number)
    if not operand.type.is_integer:
        raise KernelTypeError(
            f"the float {number!r:.60} is folded into a key.", at=here(), fix="Give an integer."
        )
    if isinstance(number, int):
        return literal_word(number)
    return make(Operand(cast(Operand(operand.atom, operand.type, False), _WORD), _WORD, False))


def literal_word(value: int) -> ScalarTracer:
    """A known word."""
    return make(Operand(lit_like(value % 2**64, _WORD), _WORD, False))


def hash_word(key: ScalarTracer, number: ScalarTracer) -> Any:
    """The hash of a number under a key."""
    return binary(op.THREEFRY, key, number)


@pointwise
def folded(key: Any, number: Any) -> Any:
    """The key that belongs to an integer under `key`."""
    return hash_word(key_word(key), word_of(number))


@pointwise
def unit_uniform(key: Any) -> Any:
    """A float in [0, 1): the top 53 bits."""
    top = binary(op.SHIFT_RIGHT, key_word(key), literal_word(11))
    return binary(op.MUL, convert(convert(top, I64), F64), _UNIT)


@pointwise
def unit_normal(key: Any) -> Any:
    """A float from the standard normal distribution (Box and Muller)."""
    word = key_word(key)
    radius, turn = (unit_uniform(hash_word(word, literal_word(number))) for number in (0, 1))
    logarithm = unary_float(op.LOG_UNIT, binary(op.SUB, 1.0, radius))
    length = unary(op.SQRT, binary(op.MUL, -2.0, logarithm))
    return binary(op.MUL, length, unary_float(op.COS_TURN, turn))


@pointwise
def unit_exponential(key: Any) -> Any:
    """A float from the standard exponential distribution."""
    return unary(op.NEG, unary_float(op.LOG_UNIT, binary(op.SUB, 1.0, unit_uniform(key))))


def upper_half(x: ScalarTracer, y: ScalarTracer) -> ScalarTracer:
    """The upper 64 bits of the product of two words, by halves whose products fit."""

    def halves(word: ScalarTracer) -> tuple[Any, Any]:
        return word & np.uint64(_LOW), word >> np.uint64(32)

    (x0, x1), (y0, y1) = halves(x), halves(y)
    mixed = x1 * y0
    carry = (x0 * y0 >> np.uint64(32)) + (mixed & np.uint64(_LOW)) + x0 * y1
    high: ScalarTracer = x1 * y1 + (mixed >> np.uint64(32)) + (carry >> np.uint64(32))
    return high
