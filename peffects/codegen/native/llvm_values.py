"""Typed LLVM values, and what Python's operators, conversions and `math` mean on them.

Numbers have the types that numba gives them, since generated source and the intrinsics that it
imports are written for those: integers are computed in 64 bits, an integer beside a float becomes a
double, floats keep their width.  `translate.py` walks the source and asks here for each operation.

Imports numba: only `load/loader.py` has it imported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from peffects.codegen.native.arithmetic import _divide, _divide_floats
from peffects.errors import InternalError

__all__ = [
    "MATH",
    "Typed",
    "binary",
    "cast",
    "compare",
    "constant",
    "extremum",
    "llvm_type",
    "unary",
]

_Builder: TypeAlias = ir.IRBuilder


@dataclass(frozen=True, slots=True)
class Typed:
    """A value with the type that numba would give it; `value` is None for the name of a type."""

    type: types.Type
    value: Any


def llvm_type(t: types.Type) -> ir.Type:
    """How a number is held in a register."""
    if t == types.boolean:
        return ir.IntType(1)
    if isinstance(t, types.Float):
        return ir.DoubleType() if t.bitwidth == 64 else ir.FloatType()
    if isinstance(t, types.Integer):
        return ir.IntType(t.bitwidth)
    raise _no_rule(f"values of type {t}")


def constant(number: Any) -> Typed:
    """A literal, or what a name outside the function stands for."""
    if isinstance(number, bool):
        t = types.boolean
    elif isinstance(number, np.generic):
        t, number = getattr(types, number.dtype.name), number.item()
    elif isinstance(number, int):
        t = types.int64 if number < 2**63 else types.uint64
    elif isinstance(number, float):
        t = types.float64
    else:
        raise _no_rule(f"the constant {number!r}")
    return Typed(t, llvm_type(t)(number))


def _no_rule(what: str) -> InternalError:
    return InternalError(
        f"Kernels are translated to LLVM without a rule for {what}.",
        fix="Please report this with the generated source.",
    )


# --- conversions ------------------------------------------------------------------------------


def cast(builder: _Builder, x: Typed, target: types.Type) -> Typed:
    """`target(x)`; a float that becomes an integer must fit."""
    if x.type == target:
        return x
    kind: Any = llvm_type(target)
    if isinstance(x.type, types.Float):
        if isinstance(target, types.Float):
            change = builder.fpext if target.bitwidth > x.type.bitwidth else builder.fptrunc
        elif isinstance(target, types.Integer):
            change = builder.fptosi if target.signed else builder.fptoui
        else:
            raise _no_rule(f"the conversion of {x.type} to {target}")
        return Typed(target, change(x.value, kind))
    signed = _is_signed(x.type)
    if isinstance(target, types.Float):
        change = builder.sitofp if signed else builder.uitofp
    elif not isinstance(target, types.Integer):
        return Typed(target, builder.icmp_unsigned("!=", x.value, x.value.type(0)))
    elif kind.width == x.value.type.width:
        return Typed(target, x.value)
    elif kind.width < x.value.type.width:
        change = builder.trunc
    else:
        change = builder.sext if signed else builder.zext
    return Typed(target, change(x.value, kind))


def _is_signed(t: types.Type) -> bool:
    return isinstance(t, types.Integer) and t.signed


def _is_unsigned(t: types.Type) -> bool:
    return isinstance(t, types.Integer) and not t.signed


def _common(x: Typed, y: Typed) -> types.Type:
    """The type in which two numbers are added."""
    given = {x.type, y.type}
    floats = [t for t in given if isinstance(t, types.Float)]
    if floats:
        return floats[0] if len(given) == 1 else types.float64
    if all(map(_is_unsigned, given)):
        return types.uint64
    return types.float64 if types.uint64 in given else types.int64


# --- operators --------------------------------------------------------------------------------

_FLOAT_OPERATORS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_INTEGER_OPERATORS = {"+": "add", "-": "sub", "*": "mul"}
_BIT_OPERATORS = {"&": "and_", "|": "or_", "^": "xor"}


def binary(builder: _Builder, sign: str, x: Typed, y: Typed) -> Typed:
    """`x sign y`.  Signed integers must not overflow, for that is how loops are vectorized."""
    if sign in _BIT_OPERATORS and x.type == y.type == types.boolean:
        return Typed(x.type, getattr(builder, _BIT_OPERATORS[sign])(x.value, y.value))
    t = types.float64 if sign == "/" and not _floats(x, y) else _common(x, y)
    a, b = cast(builder, x, t).value, cast(builder, y, t).value
    if isinstance(t, types.Float):
        if sign in _FLOAT_OPERATORS:
            return Typed(t, getattr(builder, _FLOAT_OPERATORS[sign])(a, b))
        if sign == "**":
            return Typed(t, _intrinsic(builder, "pow", a, b))
        if sign in ("//", "%"):
            return Typed(t, _divide_floats(builder, t, a, b)[sign == "%"])
    elif sign in _INTEGER_OPERATORS:
        flags = ["nsw"] if _is_signed(t) else []
        return Typed(t, getattr(builder, _INTEGER_OPERATORS[sign])(a, b, flags=flags))
    elif sign in _BIT_OPERATORS:
        return Typed(t, getattr(builder, _BIT_OPERATORS[sign])(a, b))
    elif sign in ("//", "%") and isinstance(t, types.Integer):
        return Typed(t, _divide(builder, t, a, b)[sign == "%"])
    elif sign == "<<":
        return Typed(t, builder.shl(a, b))
    elif sign == ">>":
        return Typed(t, (builder.ashr if _is_signed(t) else builder.lshr)(a, b))
    raise _no_rule(f"{x.type} {sign} {y.type}")


def _floats(x: Typed, y: Typed) -> bool:
    return isinstance(x.type, types.Float) or isinstance(y.type, types.Float)


def compare(builder: _Builder, sign: str, x: Typed, y: Typed) -> Typed:
    """`x sign y`; with a NaN only `!=` holds."""
    if x.type == y.type == types.boolean:
        return Typed(types.boolean, builder.icmp_unsigned(sign, x.value, y.value))
    t = _common(x, y)
    a, b = cast(builder, x, t).value, cast(builder, y, t).value
    if isinstance(t, types.Float):
        ask = builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered
    else:
        ask = builder.icmp_signed if _is_signed(t) else builder.icmp_unsigned
    return Typed(types.boolean, ask(sign, a, b))


def unary(builder: _Builder, sign: str, x: Typed) -> Typed:
    """`-x`, `not x` or `abs(x)`."""
    if sign == "not":
        return Typed(types.boolean, builder.not_(cast(builder, x, types.boolean).value))
    if isinstance(x.type, types.Float):
        value = builder.fneg(x.value) if sign == "-" else _intrinsic(builder, "fabs", x.value)
        return Typed(x.type, value)
    if sign == "-":
        return binary(builder, "-", constant(0), cast(builder, x, types.int64))
    if _is_unsigned(x.type):
        return x
    negative = builder.icmp_signed("<", x.value, x.value.type(0))
    return Typed(x.type, builder.select(negative, builder.neg(x.value), x.value))


def extremum(builder: _Builder, sign: str, x: Typed, y: Typed) -> Typed:
    """Python's `min` and `max`: y if `y sign x`, else x."""
    t = _common(x, y)
    x, y = cast(builder, x, t), cast(builder, y, t)
    return Typed(t, builder.select(compare(builder, sign, y, x).value, y.value, x.value))


# --- the module `math` ------------------------------------------------------------------------


def _intrinsic(builder: _Builder, name: str, *args: ir.Value) -> ir.Value:
    """LLVM's own function of numbers of one type."""
    t = args[0].type
    kind = ir.FunctionType(t, [t] * len(args))
    return builder.call(builder.module.declare_intrinsic(f"llvm.{name}", [t], kind), args)


MathRule: TypeAlias = Callable[..., Typed]


def _own(name: str) -> MathRule:
    def rule(builder: _Builder, *args: Typed) -> Typed:
        return Typed(args[0].type, _intrinsic(builder, name, *(x.value for x in args)))

    return rule


def _library(name: str) -> MathRule:
    """A function of the C library, which is pure: `errno` is nobody's."""

    def rule(builder: _Builder, *args: Typed) -> Typed:
        t = args[0].type
        kinds = [llvm_type(x.type) for x in args]
        symbol = name if t == types.float64 else f"{name}f"
        kind = ir.FunctionType(kinds[0], kinds)
        function = cgutils.insert_pure_function(builder.module, kind, symbol)
        for argument in function.args:
            if isinstance(argument.type, ir.IntType):
                argument.add_attribute("signext")  # C's int, wider in its register
        return Typed(t, builder.call(function, [x.value for x in args]))

    return rule


def _whole(name: str) -> MathRule:
    """Python's rounding to an integer."""

    def rule(builder: _Builder, x: Typed) -> Typed:
        return cast(builder, Typed(x.type, _intrinsic(builder, name, x.value)), types.int64)

    return rule


def _is_nan(builder: _Builder, x: Typed) -> Typed:
    return Typed(types.boolean, builder.fcmp_unordered("uno", x.value, x.value))


def _against_infinity(sign: str) -> MathRule:
    def rule(builder: _Builder, x: Typed) -> Typed:
        size, infinity = unary(builder, "abs", x).value, x.value.type(math.inf)
        return Typed(types.boolean, builder.fcmp_ordered(sign, size, infinity))

    return rule


def _math_rules() -> dict[object, MathRule]:
    own: Sequence[str] = ("sqrt", "exp", "log", "log10", "sin", "cos", "fabs", "copysign", "exp2")
    library = (
        "expm1", "log1p", "log2", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh",
        "asinh", "acosh", "atanh", "erf", "erfc", "hypot", "nextafter", "lgamma", "ldexp",
    )  # fmt: skip
    rules: dict[object, MathRule] = {getattr(math, name): _own(name) for name in own}
    rules |= {getattr(math, name): _library(name) for name in library}
    rules |= {getattr(math, name): _whole(name) for name in ("floor", "ceil", "trunc")}
    rules[math.gamma] = _library("tgamma")
    rules[math.isnan] = _is_nan
    rules[math.isinf] = _against_infinity("==")
    rules[math.isfinite] = _against_infinity("!=")
    return rules


MATH = _math_rules()
"""What calls a function of `math` on values."""
