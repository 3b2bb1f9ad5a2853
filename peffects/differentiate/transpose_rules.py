"""The transpose of each linear primitive: from the result's cotangent to its operands'.

A rule gets the operands, which of them are linear, and the cotangent, and gives one cotangent for
each operand (None for nonlinear ones).  Paper: You Only Linearize Once, section 7 (Transposition).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from peffects.differentiate.linearize_rules import NO_TANGENT, constant
from peffects.ir import primitives as p
from peffects.ir.builder import Builder
from peffects.ir.rules import RuleTable
from peffects.ir.syntax import Atom, Scalar

Cotangents: TypeAlias = tuple[Atom | None, ...]
Rule: TypeAlias = Callable[[Builder, tuple[Atom, ...], tuple[bool, ...], Atom], Cotangents]

transpose_rules: RuleTable[Rule] = RuleTable("transpose")


@transpose_rules.register(p.ADD)
def add_transpose(
    b: Builder, args: tuple[Atom, ...], linear: tuple[bool, ...], ct: Atom
) -> Cotangents:
    """Both operands get the cotangent."""
    return ct, ct


@transpose_rules.register(p.SUB)
def sub_transpose(
    b: Builder, args: tuple[Atom, ...], linear: tuple[bool, ...], ct: Atom
) -> Cotangents:
    """The second operand gets its negative."""
    return ct, b.prim(p.NEG, ct, name="ct") if linear[1] else None


@transpose_rules.register(p.NEG)
def neg_transpose(
    b: Builder, args: tuple[Atom, ...], linear: tuple[bool, ...], ct: Atom
) -> Cotangents:
    """The transpose of -1 is -1."""
    return (b.prim(p.NEG, ct, name="ct"),)


@transpose_rules.register(p.MUL, p.SCALE)
def scale_transpose(
    b: Builder, args: tuple[Atom, ...], linear: tuple[bool, ...], ct: Atom
) -> Cotangents:
    """Scaling is its own transpose."""
    scaled = b.prim(p.SCALE, args[0] if linear[1] else args[1], ct, name="ct")
    return (scaled, None) if linear[0] else (None, scaled)


@transpose_rules.register(p.DIV, p.UNSCALE)
def unscale_transpose(
    b: Builder, args: tuple[Atom, ...], linear: tuple[bool, ...], ct: Atom
) -> Cotangents:
    """Division by a coefficient is its own transpose."""
    return b.prim(p.UNSCALE, ct, args[1], name="ct"), None


@transpose_rules.register(p.SELECT)
def select_transpose(
    b: Builder, args: tuple[Atom, ...], linear: tuple[bool, ...], ct: Atom
) -> Cotangents:
    """The chosen side gets the cotangent, the other one zero."""
    zero = constant(ct, 0.0)
    left = b.prim(p.SELECT, args[0], ct, zero, name="ct") if linear[1] else None
    right = b.prim(p.SELECT, args[0], zero, ct, name="ct") if linear[2] else None
    return None, left, right


@transpose_rules.register(*(op for scalar, op in p.CAST.items() if scalar.is_float))
def cast_transpose(
    b: Builder, args: tuple[Atom, ...], linear: tuple[bool, ...], ct: Atom
) -> Cotangents:
    """The cotangent is cast back."""
    source = args[0].type
    assert isinstance(source, Scalar)
    return (b.prim(p.CAST[source], ct, name="ct"),)


_NONLINEAR = "it is not linear in any operand; linearize never puts it on a tangent"
transpose_rules.refuse(
    p.LESSER, p.GREATER,
    p.FLOORDIV, p.MOD, p.POW, p.ABS, p.MIN, p.MAX, p.SQRT, p.EXP, p.EXPM1, p.LOG, p.LOG1P, p.SIN,
    p.COS, p.TAN, p.ARCSIN, p.ARCCOS, p.ARCTAN, p.ARCTAN2, p.SINH, p.COSH, p.TANH, p.ERF, p.LGAMMA,
    p.ELEMENTARY, p.FLOOR, p.CEIL, p.TRUNC, p.RINT, p.STOP_GRADIENT, p.EXP2, p.LOG2, p.LOG10,
    p.CBRT, p.HYPOT, p.ARCSINH, p.ARCCOSH, p.ARCTANH, p.ERFC, p.GAMMA, p.DIGAMMA, p.TRIGAMMA,
    p.EXPIT, p.LOGADDEXP, p.FMOD, p.REMAINDER, p.NEXTAFTER, p.LDEXP, p.OF_BITS, p.LOG_UNIT,
    p.COS_TURN,
    why=_NONLINEAR,
)  # fmt: skip
transpose_rules.refuse(
    p.IS_FINITE, p.IS_NAN, p.LT, p.LE, p.EQ, p.NE, p.AND, p.OR, p.NOT, p.ORDINAL, p.PACKED,
    p.BIT_AND, p.BIT_OR, p.BIT_XOR, p.SHIFT_LEFT, p.SHIFT_RIGHT, p.BIT_COUNT, p.GCD, p.TO_BITS,
    p.THREEFRY,
    *(op for scalar, op in p.CAST.items() if not scalar.is_float),
    why=NO_TANGENT,
)  # fmt: skip
