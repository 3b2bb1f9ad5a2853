"""The primitives: name, type rule, reference evaluation and cost, one row each.

What a transformation does with a primitive is a row of that transformation's own table
(`ir/rules.py`); the tests walk primitives x tables.  All primitives act on scalars; loops over
tables are the IR's `for`.  Evaluation is numpy's scalar function, which is thereby the meaning:
integers wrap, floats follow IEEE 754, `//` and `%` have Python's signs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from peffects.errors import InternalError
from peffects.ir.syntax import BOOL, F32, F64, I64, SCALARS, Idx, Scalar, Type
from peffects.numerics import special, threefry

Value: TypeAlias = np.generic
TypeRule: TypeAlias = Callable[[str, Sequence[Type]], Scalar]

CHEAP, DIVISION, TRANSCENDENTAL = 1, 5, 20  # cost in additions, for choices and estimates only


@dataclass(frozen=True, slots=True, eq=False)
class Primitive:
    """One scalar operation."""

    name: str
    arity: int
    type_rule: TypeRule = field(repr=False)
    evaluate: Callable[..., Value] = field(repr=False)
    cost: int = CHEAP

    def result_type(self, args: Sequence[Type]) -> Scalar:
        """The type of the result; InternalError when the operands do not fit."""
        if len(args) != self.arity:
            raise InternalError(f"`{self.name}` takes {self.arity} operands, not {len(args)}.")
        return self.type_rule(self.name, args)

    def __repr__(self) -> str:
        return self.name


PRIMITIVES: dict[str, Primitive] = {}

# --- type rules ----------------------------------------------------------------------------------


def _mismatch(name: str, args: Sequence[Type]) -> InternalError:
    return InternalError(f"`{name}` does not take operands of types {', '.join(map(str, args))}.")


def _same(name: str, args: Sequence[Type]) -> Scalar:
    first = args[0]
    if not isinstance(first, Scalar) or any(arg != first for arg in args):
        raise _mismatch(name, args)
    return first


def _number(name: str, args: Sequence[Type]) -> Scalar:
    result = _same(name, args)
    if result == BOOL:
        raise _mismatch(name, args)
    return result


def _float(name: str, args: Sequence[Type]) -> Scalar:
    result = _same(name, args)
    if not result.is_float:
        raise _mismatch(name, args)
    return result


def _integer(name: str, args: Sequence[Type]) -> Scalar:
    result = _same(name, args)
    if not result.is_integer:
        raise _mismatch(name, args)
    return result


def _comparison(name: str, args: Sequence[Type]) -> Scalar:
    _same(name, args)
    return BOOL


def _float_test(name: str, args: Sequence[Type]) -> Scalar:
    _float(name, args)
    return BOOL


def _logical(name: str, args: Sequence[Type]) -> Scalar:
    if any(arg != BOOL for arg in args):
        raise _mismatch(name, args)
    return BOOL


def _select(name: str, args: Sequence[Type]) -> Scalar:
    if args[0] != BOOL:
        raise _mismatch(name, args)
    return _same(name, args[1:])


def _exponent(name: str, args: Sequence[Type]) -> Scalar:
    """A double and the power of two that it is scaled by."""
    if tuple(args) != (F64, I64):
        raise _mismatch(name, args)
    return F64


def _bits(name: str, args: Sequence[Type]) -> Scalar:
    return SCALARS[f"uint{8 * np.dtype(_float(name, args).dtype).itemsize}"]


def _of_bits(name: str, args: Sequence[Type]) -> Scalar:
    target = _FLOAT_OF_BITS.get(_integer(name, args))
    if target is None:
        raise _mismatch(name, args)
    return target


_FLOAT_OF_BITS = {SCALARS["uint64"]: F64, SCALARS["uint32"]: F32}


def _place(name: str, args: Sequence[Type]) -> Scalar:
    if any(arg != I64 for arg in args):
        raise _mismatch(name, args)
    return I64


def _word(name: str, args: Sequence[Type]) -> Scalar:
    """Keys of random numbers, and what is drawn from them."""
    word = SCALARS["uint64"]
    if any(arg != word for arg in args):
        raise _mismatch(name, args)
    return word


def _double(name: str, args: Sequence[Type]) -> Scalar:
    """What is exact for doubles only."""
    if any(arg != F64 for arg in args):
        raise _mismatch(name, args)
    return F64


def _ordinal(name: str, args: Sequence[Type]) -> Scalar:
    if not isinstance(args[0], Idx):
        raise _mismatch(name, args)
    return I64


def _elementary(name: str, args: Sequence[Type]) -> Scalar:
    if args[1] != I64 or args[2] != I64:
        raise _mismatch(name, args)
    return _float(name, (args[0], *args[3:]))


def _cast_to(target: Scalar) -> TypeRule:
    def rule(name: str, args: Sequence[Type]) -> Scalar:
        if not isinstance(args[0], Scalar):
            raise _mismatch(name, args)
        return target

    return rule


# --- the table -----------------------------------------------------------------------------------
# `packed(i, start, j)` is the place of element j of row i among rows that follow each other, which
# is start + j.  It says that two pairs (i, j) never have one place; code generation builds on that.


def _row(
    name: str, arity: int, rule: TypeRule, evaluate: Callable[..., Value], cost: int = CHEAP
) -> Primitive:
    primitive = Primitive(name, arity, rule, evaluate, cost)
    PRIMITIVES[name] = primitive
    return primitive


def _through_double(function: Callable[..., float]) -> Callable[..., Value]:
    """A function of doubles on any floats: computed in f64 and rounded."""
    return lambda *xs: xs[0].dtype.type(function(*map(float, xs)))


def _where(
    holds: Callable[[float], bool], function: Callable[[float], float]
) -> Callable[..., Value]:
    """As `_through_double`, of a function that is defined where `holds`; nan elsewhere."""
    return _through_double(lambda x: function(x) if holds(x) else math.nan)


def _in_f64(function: Callable[..., Value]) -> Callable[..., Value]:
    """A function of numpy on any floats: computed in f64 and rounded."""
    return lambda *xs: function(*(np.float64(x) for x in xs)).astype(xs[0].dtype)


def _lgamma(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:  # Python's way to say inf
        return math.inf


def _gamma(x: float) -> float:
    """C's meaning: inf with the sign of a zero, nan at the other poles and at -inf."""
    if x == 0.0:
        return math.copysign(math.inf, x)
    if x == -math.inf or (x < 0.0 and x == math.floor(x)):
        return math.nan
    try:
        return math.gamma(x)
    except OverflowError:  # of large numbers, and next to 0; below -171 the results underflow
        return math.copysign(math.inf, x)


def _power(x: Value, y: Value) -> Value:
    """Of arrays: of single numbers numpy takes x ** 0.5 for a root, which is not the power."""
    powers: Value = np.power(np.array([x, x]), np.array([y, y]))[0]
    return powers


def _scale(x: Value, y: Value) -> Value:
    """X * y, but 0 in place of nan where a factor is 0."""
    product: Value = np.multiply(x, y)
    return x.dtype.type(0) if np.isnan(product) and (x == 0 or y == 0) else product


def _unscale(x: Value, y: Value) -> Value:
    """X / y, but 0 in place of nan where the factor x or 1 / y is 0."""
    quotient: Value = np.true_divide(x, y)
    return x.dtype.type(0) if np.isnan(quotient) and (x == 0 or np.isinf(y)) else quotient


def _bit_count(x: Value) -> Value:
    return x.dtype.type(abs(int(x)).bit_count())


def _hash(key: Value, count: Value) -> Value:
    return np.uint64(threefry.threefry_2x32(int(key), int(count)))


def _reinterpreted(targets: dict[str, str]) -> Callable[[Value], Value]:
    return lambda x: x.view(targets[x.dtype.name])


ADD = _row("add", 2, _number, np.add)
SUB = _row("sub", 2, _number, np.subtract)
MUL = _row("mul", 2, _number, np.multiply)
DIV = _row("div", 2, _float, np.true_divide, DIVISION)
# The products and quotients of derivatives, in which 0 times infinity or nan is 0: what has no
# influence on a result has derivative 0 (docs/decisions/014-zero-cotangents.md).
SCALE = _row("scale", 2, _float, _scale)
UNSCALE = _row("unscale", 2, _float, _unscale, DIVISION)
FLOORDIV = _row("floordiv", 2, _number, np.floor_divide, DIVISION)
MOD = _row("mod", 2, _number, np.remainder, DIVISION)
POW = _row("pow", 2, _number, _power, 2 * TRANSCENDENTAL)
NEG = _row("neg", 1, _number, np.negative)
ABS = _row("abs", 1, _number, np.absolute)
MIN = _row("min", 2, _same, np.minimum)
MAX = _row("max", 2, _same, np.maximum)
LESSER = _row(
    "lesser", 2, _float, lambda x, y: y if y < x else x
)  # Python's min: a nan is not less
GREATER = _row("greater", 2, _float, lambda x, y: y if y > x else x)

SQRT = _row("sqrt", 1, _float, np.sqrt, DIVISION)
EXP = _row("exp", 1, _float, np.exp, TRANSCENDENTAL)
EXPM1 = _row("expm1", 1, _float, np.expm1, TRANSCENDENTAL)
LOG = _row("log", 1, _float, np.log, TRANSCENDENTAL)
LOG1P = _row("log1p", 1, _float, np.log1p, TRANSCENDENTAL)
SIN = _row("sin", 1, _float, np.sin, TRANSCENDENTAL)
COS = _row("cos", 1, _float, np.cos, TRANSCENDENTAL)
TAN = _row("tan", 1, _float, np.tan, TRANSCENDENTAL)
ARCSIN = _row("arcsin", 1, _float, np.arcsin, TRANSCENDENTAL)
ARCCOS = _row("arccos", 1, _float, np.arccos, TRANSCENDENTAL)
ARCTAN = _row("arctan", 1, _float, np.arctan, TRANSCENDENTAL)
ARCTAN2 = _row("arctan2", 2, _float, np.arctan2, TRANSCENDENTAL)
SINH = _row("sinh", 1, _float, np.sinh, TRANSCENDENTAL)
COSH = _row("cosh", 1, _float, np.cosh, TRANSCENDENTAL)
TANH = _row("tanh", 1, _float, np.tanh, TRANSCENDENTAL)
ERF = _row("erf", 1, _float, _through_double(math.erf), TRANSCENDENTAL)
LGAMMA = _row("lgamma", 1, _float, _through_double(_lgamma), 2 * TRANSCENDENTAL)
EXP2 = _row("exp2", 1, _float, _in_f64(np.exp2), TRANSCENDENTAL)
LOG2 = _row("log2", 1, _float, _in_f64(np.log2), TRANSCENDENTAL)
LOG10 = _row("log10", 1, _float, _in_f64(np.log10), TRANSCENDENTAL)
CBRT = _row("cbrt", 1, _float, _in_f64(np.cbrt), TRANSCENDENTAL)
HYPOT = _row("hypot", 2, _float, _in_f64(np.hypot), TRANSCENDENTAL)
ARCSINH = _row("arcsinh", 1, _float, _in_f64(np.arcsinh), TRANSCENDENTAL)
ARCCOSH = _row("arccosh", 1, _float, _in_f64(np.arccosh), TRANSCENDENTAL)
ARCTANH = _row("arctanh", 1, _float, _in_f64(np.arctanh), TRANSCENDENTAL)
ERFC = _row("erfc", 1, _float, _through_double(math.erfc), TRANSCENDENTAL)
GAMMA = _row("gamma", 1, _float, _through_double(_gamma), 2 * TRANSCENDENTAL)
DIGAMMA = _row("digamma", 1, _float, _through_double(special.digamma), 4 * TRANSCENDENTAL)
TRIGAMMA = _row("trigamma", 1, _float, _through_double(special.trigamma), 4 * TRANSCENDENTAL)
EXPIT = _row("expit", 1, _float, _through_double(special.expit), TRANSCENDENTAL)
LOGADDEXP = _row("logaddexp", 2, _float, _through_double(special.logaddexp), 2 * TRANSCENDENTAL)
FMOD = _row("fmod", 2, _number, np.fmod, DIVISION)
REMAINDER = _row("remainder", 2, _float, _through_double(special.remainder), DIVISION)
NEXTAFTER = _row("nextafter", 2, _float, np.nextafter)
LDEXP = _row("ldexp", 2, _exponent, lambda x, n: np.ldexp(x, np.clip(n, -9999, 9999)))
RINT = _row("rint", 1, _float, np.rint)
FLOOR = _row("floor", 1, _float, np.floor)
CEIL = _row("ceil", 1, _float, np.ceil)
TRUNC = _row("trunc", 1, _float, np.trunc)
IS_FINITE = _row("is_finite", 1, _float_test, np.isfinite)
IS_NAN = _row("is_nan", 1, _float_test, np.isnan)

LT = _row("lt", 2, _comparison, np.less)
LE = _row("le", 2, _comparison, np.less_equal)
EQ = _row("eq", 2, _comparison, np.equal)
NE = _row("ne", 2, _comparison, np.not_equal)
AND = _row("and", 2, _logical, np.logical_and)
OR = _row("or", 2, _logical, np.logical_or)
NOT = _row("not", 1, _logical, np.logical_not)
SELECT = _row("select", 3, _select, lambda c, x, y: x if c else y)

BIT_AND = _row("bit_and", 2, _integer, np.bitwise_and)
BIT_OR = _row("bit_or", 2, _integer, np.bitwise_or)
BIT_XOR = _row("bit_xor", 2, _integer, np.bitwise_xor)
SHIFT_LEFT = _row("shift_left", 2, _integer, np.left_shift)
SHIFT_RIGHT = _row("shift_right", 2, _integer, np.right_shift)
BIT_COUNT = _row("bit_count", 1, _integer, _bit_count)
GCD = _row("gcd", 2, _integer, np.gcd, TRANSCENDENTAL)
TO_BITS = _row("to_bits", 1, _bits, _reinterpreted({"float64": "uint64", "float32": "uint32"}))
OF_BITS = _row("of_bits", 1, _of_bits, _reinterpreted({"uint64": "float64", "uint32": "float32"}))

THREEFRY = _row("threefry", 2, _word, _hash, TRANSCENDENTAL)
LOG_UNIT = _row(
    "log_unit", 1, _double, _where(lambda x: 0 < x < math.inf, threefry.log_unit), TRANSCENDENTAL
)
COS_TURN = _row("cos_turn", 1, _double, _where(math.isfinite, threefry.cos_turn), TRANSCENDENTAL)

ORDINAL = _row("ordinal", 1, _ordinal, lambda i: np.int64(i))
PACKED = _row("packed", 3, _place, lambda row, start, j: start + j)
STOP_GRADIENT = _row("stop_gradient", 1, _same, lambda x: x)
# Its first operand, which says the value of the elementary symmetric polynomial of some numbers
# that are all zero; the others say its derivatives: see `differentiate/accumulations.py`.
ELEMENTARY = _row("elementary", 6, _elementary, lambda value, *_: value)

CAST: dict[Scalar, Primitive] = {
    scalar: _row(f"cast_{scalar}", 1, _cast_to(scalar), lambda x, d=dtype: x.astype(d))
    for dtype, scalar in SCALARS.items()
}
