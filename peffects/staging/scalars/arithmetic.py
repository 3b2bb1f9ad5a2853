"""Arithmetic on atoms: promotion, conversions, and the checks that Python's meaning asks for.

Works on `Operand`s and emits into the current trace; `symbols.py` makes Python operators of it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from peffects.errors import DivisionError, KernelTypeError, ValueRangeError
from peffects.ir import primitives as op
from peffects.ir.builder import lit_like
from peffects.ir.primitives import CAST, Primitive
from peffects.ir.syntax import BOOL, F64, I64, SCALARS, Atom, Lit, Scalar
from peffects.staging.tracing.promotion import function_type, join, true_division_type
from peffects.staging.tracing.trace import here, staging

__all__ = [
    "Operand", "binary", "bitwise", "cast", "compare", "convert", "emit", "few_factors", "floats",
    "inverted", "number", "power", "python_extreme", "select", "truth", "unary",
]  # fmt: skip

_MOST_FACTORS = 16
_U64 = SCALARS["uint64"]


@dataclass(frozen=True, slots=True)
class Operand:
    """A number as an atom; `weak` if it takes the type of what it meets, as Python's numbers do."""

    atom: Atom
    type: Scalar
    weak: bool


def emit(primitive: Primitive, atoms: tuple[Atom, ...], weak: bool) -> Operand:
    """`primitive` of atoms whose types fit."""
    var = staging().prim(primitive, *atoms)
    assert isinstance(var.type, Scalar)
    return Operand(var, var.type, weak)


def cast(x: Operand, target: Scalar) -> Atom:
    """The atom `x` as `target`."""
    if x.type == target:
        return x.atom
    if isinstance(x.atom, Lit) and (target.is_float or x.type == BOOL):
        return lit_like(x.atom.value, target)
    if isinstance(x.atom, Lit) and x.weak and target.is_integer and x.type.is_integer:
        return _narrow(int(x.atom.value), target)
    if x.weak and target.is_integer and x.type.is_integer:
        _check_fits(x.atom, target)
    return staging().prim(CAST[target], x.atom)


def _check_fits(atom: Atom, target: Scalar) -> None:
    """Test that one of Python's integers, an i64, is in the range of a narrower or unsigned type.

    numpy's own integers are converted modulo 2^n, as numpy does; Python's are not.
    """
    trace, info = staging(), np.iinfo(target.dtype)
    ok: Atom = trace.prim(op.LE, lit_like(int(info.min), I64), atom)
    if target != _U64:
        below = trace.prim(op.LE, atom, lit_like(int(info.max), I64))
        ok = trace.prim(op.AND, ok, below)
    text = "the integer {0} is no " + target.dtype + "."
    fix = "Convert the other operand, such as `int(x[i])`; or this one: `np.int64(n)`."
    trace.check(ok, ValueRangeError, text, (atom,), fix)


def _narrow(value: int, target: Scalar) -> Lit:
    info = np.iinfo(target.dtype)
    if not info.min <= value <= info.max:
        raise ValueRangeError(
            f"the integer {value} is no {target.dtype}.",
            at=here(),
            fix="Convert the other operand.",
        )
    return lit_like(value, target)


def number(x: Operand) -> Operand:
    """Bools as i64, as Python has it."""
    return Operand(cast(x, I64), I64, True) if x.type == BOOL else x


def _meet(x: Operand, y: Operand) -> tuple[Atom, Atom, Scalar, bool]:
    """Two numbers in the type in which they meet."""
    result, weak = join(x.type, x.weak, y.type, y.weak)
    return cast(x, result), cast(y, result), result, weak


def binary(primitive: Primitive, x: Operand, y: Operand) -> Operand:
    """Two numbers, promoted, through `primitive`; integer division tests its divisor."""
    if primitive not in (op.MIN, op.MAX) and x.type == y.type:
        x, y = number(x), number(y)
    result, weak = join(x.type, x.weak, y.type, y.weak)
    if primitive is op.DIV:
        result = true_division_type(result)
    a, b = cast(x, result), cast(y, result)
    if primitive in (op.SHIFT_LEFT, op.SHIFT_RIGHT) and not result.is_integer:
        raise KernelTypeError(f"bits of a {result} are shifted.", at=here(), fix="Shift integers.")
    if primitive in (op.FLOORDIV, op.MOD) and result.is_integer:
        _check_divisor(b, result)
    return emit(primitive, (a, b), weak)


def python_extreme(primitive: Primitive, x: Operand, y: Operand) -> Operand:
    """Python's `min` or `max`: of integers and bools as numpy's, since there is no nan."""
    a, b, result, weak = _meet(x, y)
    of_floats = op.LESSER if primitive is op.MIN else op.GREATER
    return emit(of_floats if result.is_float else primitive, (a, b), weak)


def _check_divisor(divisor: Atom, t: Scalar) -> None:
    if isinstance(divisor, Lit):
        if divisor.value == 0:
            raise DivisionError("division by the literal 0.", at=here(), fix="Divide by another.")
        return
    trace = staging()
    nonzero = trace.prim(op.NE, divisor, lit_like(0, t))
    fix = "Test the divisor: `x // d if d != 0 else 0`."
    trace.check(nonzero, DivisionError, "integer division by zero.", fix=fix)


def unary(primitive: Primitive, x: Operand) -> Operand:
    """A number through `primitive`."""
    x = number(x)
    return emit(primitive, (x.atom,), x.weak)


def floats(primitive: Primitive, *xs: Operand) -> Operand:
    """Numbers as floats through `primitive`."""
    result, weak = _float_type(xs)
    found = emit(primitive, tuple(cast(x, result) for x in xs), weak)
    return Operand(found.atom, found.type, weak and found.type != BOOL)


def _float_type(xs: Sequence[Operand]) -> tuple[Scalar, bool]:
    """The float type that holds all operands; Python's own numbers ask for f64 among integers."""
    strong = [x.type for x in xs if not x.weak and x.type != BOOL]
    if not strong:
        return F64, True
    result = functools.reduce(lambda a, b: join(a, False, b, False)[0], map(function_type, strong))
    floats_meet = any(x.weak and x.type.is_float for x in xs)
    only_integers = not any(t.is_float for t in strong)
    return (F64 if floats_meet and only_integers else result), False


def compare(primitive: Primitive, x: Operand, y: Operand) -> Operand:
    """A comparison; of integers of two types it is exact, whatever their signs."""
    if x.type != y.type and x.type.is_integer and y.type.is_integer:
        return _compare_integers(primitive, x, y)
    a, b, _, _ = _meet(x, y)
    return emit(primitive, (a, b), False)


def _compare_integers(primitive: Primitive, x: Operand, y: Operand) -> Operand:
    for literal, other in ((x, y), (y, x)):
        if _fits_literally(literal, other):
            return emit(primitive, (cast(x, other.type), cast(y, other.type)), False)
    if _U64 not in (x.type, y.type):
        both_strong = not x.weak and not y.weak
        wide = join(x.type, False, y.type, False)[0] if both_strong else I64
        return emit(primitive, (_strong_cast(x, wide), _strong_cast(y, wide)), False)
    signed, unsigned = (y, x) if x.type == _U64 else (x, y)
    if unsigned.type != signed.type and signed.type.name[0] == "u":
        return emit(primitive, (_strong_cast(x, _U64), _strong_cast(y, _U64)), False)
    number = _strong_cast(signed, I64)
    natural = emit(op.LE, (lit_like(0, I64), number), False).atom
    same = staging().prim(CAST[_U64], number)
    a, b = (same, y.atom) if signed is x else (x.atom, same)
    found = emit(primitive, (a, b), False).atom
    # A negative number is less than, and not equal to, whatever the other is.
    if primitive is op.EQ or (primitive in (op.LT, op.LE) and signed is y):
        return emit(op.AND, (natural, found), False)
    return emit(op.OR, (emit(op.NOT, (natural,), False).atom, found), False)


def _fits_literally(literal: Operand, other: Operand) -> bool:
    """Whether one of Python's integers is a literal that the type of `other` holds."""
    if not isinstance(literal.atom, Lit) or not literal.weak or other.weak:
        return False
    info = np.iinfo(other.type.dtype)
    return bool(info.min <= int(literal.atom.value) <= info.max)


def _strong_cast(x: Operand, target: Scalar) -> Atom:
    """`x` as a type that is known to hold it."""
    return cast(Operand(x.atom, x.type, False), target)


def truth(x: Operand) -> Atom:
    """Whether a number is not zero."""
    return x.atom if x.type == BOOL else staging().prim(op.NE, x.atom, lit_like(0, x.type))


def bitwise(on_bools: Primitive, on_integers: Primitive, x: Operand, y: Operand) -> Operand:
    """`&`, `|` and `^`: of bools their logic, of integers their bits."""
    a, b, t, weak = _meet(x, y)
    if t.is_float:
        raise KernelTypeError(
            "bits of a float are combined.", at=here(), fix="Use `and` and `or` on conditions."
        )
    return emit(on_bools if t == BOOL else on_integers, (a, b), weak)


def inverted(x: Operand) -> Operand:
    """`~x`: of a bool the other one, of an integer all bits the other way round."""
    if x.type == BOOL:
        return emit(op.NOT, (x.atom,), False)
    if x.type.is_float:
        raise KernelTypeError("bits of a float are inverted.", at=here(), fix="Invert integers.")
    ones = -1 if x.type.name[0] == "i" else int(np.iinfo(x.type.dtype).max)
    return emit(op.BIT_XOR, (x.atom, lit_like(ones, x.type)), x.weak)


def select(pred: Atom, x: Operand, y: Operand) -> Operand:
    """`x` if `pred` else `y`."""
    a, b, _, weak = _meet(x, y)
    return emit(op.SELECT, (pred, a, b), weak)


# --- powers --------------------------------------------------------------------------------------


def power(x: Operand, y: Operand) -> Operand:
    """`x ** y`; an integer exponent of an integer is tested."""
    x, y = (number(x), number(y)) if x.type == y.type else (x, y)
    a, b, result, weak = _meet(x, y)
    if result.is_integer:
        trace = staging()
        ok = trace.prim(op.LE, lit_like(0, result), b)
        text = "an integer is raised to the negative power {0}."
        trace.check(ok, ValueRangeError, text, (b,), "Make the base a float.")
    return emit(op.POW, (a, b), weak)


def few_factors(base: Operand, exponent: int | float) -> Operand | None:
    """`base ** exponent` as multiplications and at most one root; None if those are many.

    Of a whole or half exponent, as a literal number.  A negative power is a float, as in Python,
    and a float exponent makes one.  The square, the root and the reciprocal are rounded once, as
    the exact power would be; others at each of their few operations.  As numpy has it, the power
    0.5 is the root: of -0.0 it is -0.0, of -inf nan.  A negative power is the reciprocal of the
    positive one: where that overflows or underflows, it is 0 or inf.
    """
    if not abs(exponent) <= _MOST_FACTORS or 2 * exponent != int(2 * exponent):
        return None
    x = number(base)
    if isinstance(exponent, float) or exponent < 0:
        wide = true_division_type(x.type)
        x = Operand(cast(x, wide), wide, x.weak)
    whole, is_half = int(abs(exponent)), abs(exponent) % 1 != 0
    found = _repeated(x, whole) if whole else None
    if is_half:
        root = unary(op.SQRT, x)
        found = root if found is None else binary(op.MUL, found, root)
    if found is None:
        return Operand(lit_like(1, x.type), x.type, x.weak)
    if exponent < 0:
        return binary(op.DIV, Operand(lit_like(1.0, x.type), x.type, True), found)
    return found


def _repeated(x: Operand, exponent: int) -> Operand:
    """The power of `x`, by squaring."""
    if exponent == 1:
        return x
    half = _repeated(x, exponent // 2)
    square = binary(op.MUL, half, half)
    return binary(op.MUL, square, x) if exponent % 2 else square


# --- conversions ---------------------------------------------------------------------------------


def convert(x: Operand, target: Scalar, weak: bool) -> Operand:
    """A number as `target`; a float that becomes an integer is truncated, and must be in range."""
    if target == BOOL:
        return Operand(truth(x), BOOL, False)
    if x.type.is_float and target.is_integer:
        _check_range(x, target)
    return Operand(cast(x, target), target, weak)


def _check_range(x: Operand, target: Scalar) -> None:
    info = np.iinfo(target.dtype)
    trace = staging()
    # 2**63 and so on are floats of both types; the largest integers themselves may not be.
    low, high = float(info.min), float(int(info.max) + 1)
    below = trace.prim(op.LT, x.atom, lit_like(high, x.type))
    if target.name[0] == "u" or info.bits < 32 or (x.type == F64 and info.bits == 32):
        above = trace.prim(op.LT, lit_like(low - 1.0, x.type), x.atom)
    else:
        above = trace.prim(op.LE, lit_like(low, x.type), x.atom)
    ok = trace.prim(op.AND, above, below)
    text = "the float {0} cannot become an integer (" + target.dtype + ")."
    fix = "Clamp it before the conversion: `int(min(max(x, lo), hi))`."
    trace.check(ok, ValueRangeError, text, (x.atom,), fix)
