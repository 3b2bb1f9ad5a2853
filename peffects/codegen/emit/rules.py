"""Each primitive as an expression of generated source.

A rule is a function of the type of its operands and of their texts, each of which it uses once.
Texts are atoms or in parentheses.  numba computes narrow integers in 64 bits: `source.py`
converts results back, so rules need not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from peffects.ir import primitives as p
from peffects.ir.primitives import Primitive
from peffects.ir.rules import RuleTable
from peffects.ir.syntax import BOOL, F64, SCALARS, Scalar

__all__ = ["EmitRule", "emit_rules"]

EmitRule: TypeAlias = Callable[..., str]
"""`(type of the last operand, text..) -> text`."""

emit_rules: RuleTable[EmitRule] = RuleTable("emit_cpu")


def _infix(op: Primitive, sign: str) -> None:
    @emit_rules.register(op)
    def infix_emit(t: Scalar, x: str, y: str) -> str:
        return f"({x} {sign} {y})"


def _call(op: Primitive, function: str) -> None:
    @emit_rules.register(op)
    def call_emit(t: Scalar, *args: str) -> str:
        return f"{function}({', '.join(args)})"


for _op, _sign in [
    (p.ADD, "+"), (p.SUB, "-"), (p.MUL, "*"), (p.DIV, "/"), (p.EQ, "=="), (p.NE, "!="),
    (p.AND, "&"), (p.OR, "|"), (p.BIT_AND, "&"), (p.BIT_OR, "|"), (p.BIT_XOR, "^"),
]:  # fmt: skip
    _infix(_op, _sign)

for _op, _function in [
    (p.MIN, "minimum"), (p.MAX, "maximum"), (p.LESSER, "lesser"), (p.GREATER, "greater"),
    (p.SELECT, "select"), (p.ABS, "abs"), (p.SCALE, "scale"), (p.UNSCALE, "unscale"),
    (p.SHIFT_LEFT, "shift_left"), (p.SHIFT_RIGHT, "shift_right"),
    (p.FLOORDIV, "floordiv"), (p.MOD, "mod"),
    (p.FLOOR, "floor"), (p.CEIL, "ceil"), (p.TRUNC, "trunc"),
    (p.SQRT, "math.sqrt"), (p.EXP, "exp"), (p.EXPM1, "math.expm1"), (p.LOG, "log"),
    (p.LOG1P, "math.log1p"), (p.SIN, "math.sin"), (p.COS, "math.cos"), (p.TAN, "math.tan"),
    (p.ARCSIN, "math.asin"), (p.ARCCOS, "math.acos"), (p.ARCTAN, "math.atan"),
    (p.ARCTAN2, "math.atan2"), (p.SINH, "math.sinh"), (p.COSH, "math.cosh"),
    (p.TANH, "math.tanh"),
    (p.IS_FINITE, "math.isfinite"), (p.IS_NAN, "math.isnan"),
    (p.RINT, "rint"), (p.FMOD, "fmod"), (p.NEXTAFTER, "math.nextafter"),
    (p.BIT_COUNT, "bit_count"), (p.TO_BITS, "word_of"), (p.OF_BITS, "float_of"),
    (p.THREEFRY, "threefry"), (p.LOG_UNIT, "log_unit"), (p.COS_TURN, "cos_turn"),
]:  # fmt: skip
    _call(_op, _function)


@emit_rules.register(p.LT)
def lt_emit(t: Scalar, x: str, y: str) -> str:
    """False comes before True."""
    return f"((not {x}) & {y})" if t == BOOL else f"({x} < {y})"


@emit_rules.register(p.LE)
def le_emit(t: Scalar, x: str, y: str) -> str:
    """False comes before True."""
    return f"((not {x}) | {y})" if t == BOOL else f"({x} <= {y})"


@emit_rules.register(p.NOT)
def not_emit(t: Scalar, x: str) -> str:
    """Negation of a bool."""
    return f"(not {x})"


@emit_rules.register(p.NEG)
def neg_emit(t: Scalar, x: str) -> str:
    """A subtraction for unsigned integers, which numba negates to signed ones."""
    return f"({t}(0) - {x})" if t.name[0] == "u" else f"(-{x})"


@emit_rules.register(p.POW)
def pow_emit(t: Scalar, x: str, y: str) -> str:
    """Integers by squaring, in 64 bits."""
    if t.is_float:
        return f"({x} ** {y})"
    return f"{'un' if t.name[0] == 'u' else ''}signed_power(i64({x}), i64({y}))"


def _in_f64(op: Primitive, function: str) -> None:
    """Floats computed in f64 and rounded, as the evaluator does."""

    @emit_rules.register(op)
    def in_f64_emit(t: Scalar, *args: str) -> str:
        if t == F64:
            return f"{function}({', '.join(args)})"
        return f"f32({function}({', '.join(f'f64({x})' for x in args)}))"


for _op, _function in [
    (p.EXP2, "math.exp2"), (p.LOG2, "math.log2"), (p.LOG10, "math.log10"), (p.CBRT, "cbrt"),
    (p.HYPOT, "math.hypot"), (p.ARCSINH, "math.asinh"), (p.ARCCOSH, "math.acosh"),
    (p.ARCTANH, "math.atanh"), (p.ERF, "math.erf"), (p.ERFC, "math.erfc"), (p.LGAMMA, "lgamma"),
    (p.GAMMA, "math.gamma"), (p.DIGAMMA, "digamma"), (p.TRIGAMMA, "trigamma"),
    (p.EXPIT, "expit"), (p.LOGADDEXP, "logaddexp"), (p.REMAINDER, "remainder"),
]:  # fmt: skip
    _in_f64(_op, _function)


@emit_rules.register(p.LDEXP)
def ldexp_emit(t: Scalar, x: str, n: str) -> str:
    """C's exponent is an int."""
    return f"math.ldexp({x}, i32(min(max({n}, -9999), 9999)))"


@emit_rules.register(p.GCD)
def gcd_emit(t: Scalar, x: str, y: str) -> str:
    """In 64 bits; the absolute value of the smallest number fits into them."""
    if t.name[0] == "u":
        return f"gcd(u64({x}), u64({y}))"
    return f"i64(gcd(u64(abs(i64({x}))), u64(abs(i64({y})))))"


@emit_rules.register(p.PACKED)
def packed_emit(t: Scalar, row: str, start: str, j: str) -> str:
    """The row says only that no two pairs have one place."""
    return f"({start} + {j})"


@emit_rules.register(p.ORDINAL, p.STOP_GRADIENT, p.ELEMENTARY)
def same_emit(t: Scalar, x: str, *_: str) -> str:
    """The first operand: lowering leaves these out, so they occur in tests only."""
    return x


def _cast(target: Scalar) -> None:
    @emit_rules.register(p.CAST[target])
    def cast_emit(t: Scalar, x: str) -> str:
        if target == t:
            return x
        if target == BOOL:
            return f"({x} != 0)"
        if t.is_float and target.is_integer:
            return f"convert({target}, {x})"
        return f"{target}({x})"


for _target in SCALARS.values():
    _cast(_target)
