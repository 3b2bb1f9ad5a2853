"""Random numbers as functions of a key, inside kernels and outside: `pe.random`.

A key is an `np.uint64`, made by `key(seed)`; new ones come from `split` and `fold_in`.  A function
of a key always gives the same bits: on any machine, in compiled code and out of it, in any order
and with any number of threads; so give each draw a key of its own.  In a loop that is
`fold_in(key, i)`.  Of a table of keys the functions of one key give a table.

The generator is Threefry-2x32 (Salmon et al., SC'11), as for the effect `Random` of
`peffects.handlers`, which draws the same numbers from the same keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from peffects.errors import KernelTypeError, ValueRangeError
from peffects.ir import primitives as op
from peffects.ir.syntax import I64
from peffects.numerics import threefry
from peffects.staging.arrays.sorting import argsort, searchsorted
from peffects.staging.loops import ops
from peffects.staging.loops.folds import cumsum
from peffects.staging.loops.ops import loop_operation, table
from peffects.staging.scalars.arithmetic import Operand
from peffects.staging.scalars.random_words import (
    folded,
    hash_word,
    key_word,
    literal_word,
    no_key,
    unit_exponential,
    unit_normal,
    unit_uniform,
    upper_half,
    word_of,
)
from peffects.staging.scalars.symbols import (
    binary,
    compare,
    convert,
    is_symbolic,
    lift,
    make,
    pointwise,
)
from peffects.staging.scalars.whole_numbers import literal_whole
from peffects.staging.structures.accumulators import as_table, is_table
from peffects.staging.tracing.trace import current, here, staging

__all__ = [
    "bernoulli",
    "categorical",
    "choice",
    "exponential",
    "fold_in",
    "integers",
    "key",
    "normal",
    "permutation",
    "split",
    "uniform",
]

# --- keys ----------------------------------------------------------------------------------------


def key(seed: Any) -> Any:
    """The key of a seed, an integer, of which the lowest 64 bits count."""
    if _is_plain(seed):
        return np.uint64(threefry.new_key(int(seed)))
    return hash_word(literal_word(0), word_of(seed))


def split(key: Any, count: Any = 2) -> Any:
    """New keys, independent of each other: a tuple of `count`, a literal number."""
    fix = "In a loop, `fold_in(key, i)` gives each iteration a key."
    number = literal_whole(count, "the number of keys of `split`", fix)
    if number < 1:
        raise KernelTypeError(
            f"a key is split into {number} keys.", at=here(), fix="Give a number from 1 on."
        )
    return tuple(fold_in(key, k) for k in range(number))


def fold_in(key: Any, number: Any) -> Any:
    """The key that belongs to an integer under `key`: that of iteration `number` of a loop."""
    if _is_plain(key, number):
        return np.uint64(threefry.fold_in(_checked(key), int(number)))
    return folded(key, number)


def _checked(key: object) -> int:
    """A plain key as a Python int."""
    if not isinstance(key, np.uint64):
        raise no_key(key)
    return int(key)


def _is_plain(*values: object) -> bool:
    """Whether all are ordinary numbers."""
    return not any(is_symbolic(x) or isinstance(x, np.ndarray) for x in values)


# --- draws ---------------------------------------------------------------------------------------


def uniform(key: Any, low: Any = 0.0, high: Any = 1.0) -> Any:
    """A float64 in [low, high): `low + (high - low) * u`, u one of 2**53 equally likely numbers."""
    if _is_plain(key, low, high):
        return low + (high - low) * threefry.to_uniform(_checked(key))
    return _scaled(unit_uniform(key), low, high)


def _scaled(unit: Any, low: Any, high: Any) -> Any:
    if isinstance(low, float | int) and isinstance(high, float | int) and (low, high) == (0, 1):
        return unit
    return binary(op.ADD, low, binary(op.MUL, binary(op.SUB, high, low), unit))


def normal(key: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """A float64 from the normal distribution with this mean and standard deviation.

    By the method of Box and Muller, `sqrt(-2 log(1 - u)) cos(2 pi v)`; below 9 in absolute value.
    """
    if _is_plain(key, loc, scale):
        return loc + scale * threefry.to_normal(_checked(key))
    return _moved(unit_normal(key), loc, scale)


def _moved(unit: Any, loc: Any, scale: Any) -> Any:
    if isinstance(loc, float | int) and isinstance(scale, float | int) and (loc, scale) == (0, 1):
        return unit
    return binary(op.ADD, loc, binary(op.MUL, scale, unit))


def exponential(key: Any, scale: Any = 1.0) -> Any:
    """A float64 from the exponential distribution with this mean."""
    if _is_plain(key, scale):
        return -threefry.log_unit(1.0 - threefry.to_uniform(_checked(key))) * scale
    unit = unit_exponential(key)
    return unit if isinstance(scale, float | int) and scale == 1 else binary(op.MUL, unit, scale)


def bernoulli(key: Any, probability: Any = 0.5) -> Any:
    """True with this probability."""
    if _is_plain(key, probability):
        return bool(threefry.to_uniform(_checked(key)) < probability)
    return compare(op.LT, unit_uniform(key), probability)


def integers(key: Any, low: Any, high: Any) -> Any:
    """An integer in [low, high); ValueRangeError if there is none.

    Each has a probability that differs from 1 / (high - low) by less than 2**-64.
    """
    if _is_plain(key, low, high):
        if not low < high:
            raise ValueRangeError(
                f"no integer is in [{low}, {high}).", at=here(), fix=_UPPER_END_IS_OUT
            )
        return low + (_checked(key) * (int(high) - int(low)) >> 64)
    return _integers(key, low, high)


_UPPER_END_IS_OUT = "The upper end is left out: `integers(key, 0, 6)` gives 0 to 5."


@pointwise
def _integers(key: Any, low: Any, high: Any) -> Any:
    word, low, high = key_word(key), convert(low, I64), convert(high, I64)
    trace = staging()
    some = compare(op.LT, low, high)
    text = "no integer is in [{0}, {1})."
    trace.check(some.atom, ValueRangeError, text, (low.atom, high.atom), _UPPER_END_IS_OUT)
    place = upper_half(word, word_of(binary(op.SUB, high, low)))
    return make(Operand(binary(op.ADD, low, convert(place, I64)).atom, I64, True))


# --- draws from tables ---------------------------------------------------------------------------


def choice(key: Any, options: Any) -> Any:
    """One of the elements or rows of a table, or of a Python sequence outside kernels."""
    if current() is None:
        return options[integers(key, 0, len(options))]
    if not is_table(options):
        raise KernelTypeError(
            f"`choice` takes a table, not {options!r:.60}.",
            at=here(),
            fix="Put the options into an array.",
        )
    whole = as_table(options)
    place = _integers(key, 0, whole.index_set.size)
    return whole.element((place,), unchecked=True)


@loop_operation
def categorical(key: Any, weights: Any) -> Any:
    """A place i of a vector of weights, with probability `weights[i] / sum(weights)`.

    Weights are not negative, and their sum is positive and finite: ValueRangeError if it is not.
    """
    given = as_table(weights)
    sums = as_table(cumsum(weights))
    trace = staging()
    smallest = ops.min(given)
    some = compare(op.LE, 0.0, smallest)
    text, fix = "a weight of `categorical` is {0}.", "Give weights from 0 on."
    trace.check(some.atom, ValueRangeError, text, (lift(smallest).atom,), fix)
    total = sums.element((binary(op.SUB, sums.index_set.size, 1),))
    good = compare(op.LT, 0.0, total) & compare(op.LT, total, np.inf)
    text, fix = "the weights of `categorical` have the sum {0}.", "Give weights that can be shared."
    trace.check(good.atom, ValueRangeError, text, (lift(total).atom,), fix)
    # u < 1 and rounding keep the target below the total: an element of weight 0 is never found.
    return searchsorted(sums, binary(op.MUL, unit_uniform(key), total), "right")


@loop_operation
def permutation(key: Any, n: Any) -> Any:
    """The numbers below n in random order: those of the sorted keys `fold_in(key, i)`; O(n log n).

    All orders are as likely as each other up to the chance, below n**2 / 2**65, of two equal keys.
    The effect `Random` shuffles in another way, so its permutations are others.
    """
    return argsort(table(lambda i: folded(key, i), over=n))
