"""The effect `Random` while staging: keys are words, and draws the numbers of the machine.

`KEY_CALLS` says what the clauses of `prng` call in place of the functions of `threefry`.
`STAGED_GENERATORS` are the effectful functions that are made of draws, where they have to test a
symbol.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from peffects.errors import KernelEffectError, ValueRangeError
from peffects.handlers import random
from peffects.handlers.random import Random, prng
from peffects.ir import primitives as op
from peffects.ir.syntax import I64
from peffects.machine.handling.operations import Call
from peffects.numerics import threefry
from peffects.staging.scalars.arithmetic import Operand
from peffects.staging.scalars.random_words import (
    folded,
    hash_word,
    literal_word,
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
    make,
)
from peffects.staging.structures.accumulators import as_table, is_table
from peffects.staging.tracing.trace import current, here, staging

__all__ = ["KEY_CALLS", "RANDOM_CALLS", "STAGED_GENERATORS", "as_word", "is_key"]

# --- keys ----------------------------------------------------------------------------------------


def as_word(key: Any) -> Any:
    """A key of the machine, an int, as a symbol."""
    return literal_word(key) if isinstance(key, int) else key


def _fold_in(key: Any, number: Any) -> Any:
    return folded(as_word(key), number)


def _split(key: Any) -> tuple[Any, Any]:
    return _fold_in(key, 0), _fold_in(key, 1)


KEY_CALLS: dict[object, Callable[..., Any]] = {
    threefry.split: _split,
    threefry.fold_in: _fold_in,
    threefry.hash_key: _fold_in,
    threefry.to_uniform: unit_uniform,
    threefry.to_normal: unit_normal,
}
"""What is called in place of functions of keys."""

# --- draws ---------------------------------------------------------------------------------------


def _prng(seed: Any, at: type[Random] = Random) -> prng:
    """`prng(seed)`, also of a seed that is a symbol."""
    trace = current()
    if trace is None:
        return prng(seed, at)
    made = prng(0 if is_symbolic(seed) else seed, at)
    if is_symbolic(seed):
        made.key = hash_word(literal_word(0), word_of(seed))
    trace.note_made(made)
    return made


def is_key(handler: object, name: str) -> bool:
    """Whether a field of a handler is a key, which is a word while staging."""
    return isinstance(handler, prng) and name == "key"


def _exponential(instance: type[Random]) -> Generator[Any, Any, Any]:
    drawn: Any = yield from instance.bits()
    return unit_exponential(drawn)


def _integer(instance: type[Random], low: Any, high: Any) -> Generator[Any, Any, Any]:
    """As the machine draws it: a product is taken unless its lower half would favour some."""
    span = binary(op.SUB, convert(high, I64), convert(low, I64))
    some = compare(op.LT, 0, span)
    text, fix = "the span {0} of `integers` is empty.", "The upper end is left out."
    staging().check(some.atom, ValueRangeError, text, (span.atom,), fix)
    word = word_of(span)
    few = binary(op.MOD, binary(op.SUB, literal_word(0), word), binary(op.MAX, word, 1))
    drawn: Any = yield from instance.bits()
    while binary(op.MUL, drawn, word) < few:
        drawn = yield from instance.bits()
    place = convert(upper_half(drawn, word), I64)
    return make(Operand(binary(op.ADD, convert(low, I64), place).atom, I64, True))


def _element(instance: type[Random], options: Any) -> Generator[Any, Any, Any]:
    if not is_table(options):
        raise KernelEffectError(
            f"`choice` of {options!r:.60} in a kernel.", at=here(), fix="Give an array of options."
        )
    table = as_table(options)
    place = yield from Call(_integer, (instance, 0, table.index_set.size), {})
    return table.element((place,), unchecked=True)


def _permutation(instance: type[Random], n: Any) -> Generator[Any, Any, Any]:
    yield from ()
    raise KernelEffectError(
        "`permutation` is performed in a kernel.",
        at=here(),
        fix="Sort random keys: `pe.random.permutation(key, n)`.",
    )


def _generator_of(function: Any) -> object:
    return function._pe_generator


STAGED_GENERATORS: dict[object, Callable[..., Generator[Any, Any, Any]]] = {
    _generator_of(random._exponential): _exponential,
    _generator_of(random._integer_from): _integer,
    _generator_of(random._option_from): _element,
    _generator_of(random._order_of): _permutation,
}
"""What is performed in a kernel in place of generator functions of ours."""

RANDOM_CALLS: dict[object, Callable[..., Any]] = {prng: _prng}
"""What is called in a kernel in place of functions of `peffects.handlers`."""
