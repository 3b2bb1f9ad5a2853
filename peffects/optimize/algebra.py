"""What each primitive becomes when its operands say enough: exact identities only.

Exact means bit for bit, signed zeros and infinities included; only the bits inside a NaN may
differ.  So `x + 0.0` stays (it turns -0.0 into 0.0) and `x - 0.0` goes.  Integers wrap, so what
holds modulo a power of two holds for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from peffects.ir import primitives as p
from peffects.ir.builder import bool_lit, lit_like
from peffects.ir.primitives import PRIMITIVES, Primitive
from peffects.ir.rules import RuleTable
from peffects.ir.syntax import Atom, Expr, Lit, Monoid, Prim, Scalar, Type, Var

Definitions: TypeAlias = Mapping[Var, Expr]
Rule: TypeAlias = Callable[[Definitions, tuple[Atom, ...]], Atom | Prim | None]

simplify_rules: RuleTable[Rule] = RuleTable("simplify")


def simplified(defs: Definitions, op: Primitive, args: tuple[Atom, ...]) -> Atom | Prim | None:
    """Something equal to `op(args)` that costs less, or None."""
    folded = _folded(op, args)
    if folded is not None:
        return folded
    return simplify_rules[op](defs, args) if op in simplify_rules else None


def _folded(op: Primitive, args: tuple[Atom, ...]) -> Lit | None:
    """The value of `op` on literals.  An integer power with a negative exponent has none."""
    values = [np.array(arg.value, arg.type.dtype)[()] for arg in args if isinstance(arg, Lit)]
    if len(values) < len(args):
        return None
    result_type = op.result_type([arg.type for arg in args])
    if op is p.POW and result_type.is_integer and values[1] < 0:
        return None
    with np.errstate(all="ignore"):
        return Lit(op.evaluate(*values).item(), result_type)


# --- reading operands ----------------------------------------------------------------------------


def _is(atom: Atom, value: float) -> bool:
    """Whether `atom` is a literal equal to `value`; the sign of a zero counts for floats."""
    return isinstance(atom, Lit) and atom == lit_like(value, atom.type)


def _is_integer(atom: Atom) -> bool:
    return isinstance(atom.type, Scalar) and atom.type.is_integer


def _like(value: float, t: Type) -> Lit:
    assert isinstance(t, Scalar)
    return lit_like(value, t)


def _operand(defs: Definitions, atom: Atom, op: Primitive) -> Atom | None:
    """`x`, if `atom` is `op(x)`."""
    expr = defs.get(atom) if isinstance(atom, Var) else None
    return expr.args[0] if isinstance(expr, Prim) and expr.op is op else None


def _negated(lit: Lit) -> Lit:
    return Lit((-np.array(lit.value, lit.type.dtype))[()].item(), lit.type)


def update_simplify(defs: Definitions, monoid: Monoid, value: Atom) -> Atom:
    """What accumulates like `value`: a sum starts at 0.0, is never -0.0, so x + 0.0 is like x."""
    expr = defs.get(value) if isinstance(value, Var) else None
    if monoid is Monoid.ADD and isinstance(expr, Prim) and expr.op is p.ADD:
        for x, y in (expr.args, expr.args[::-1]):
            if _is(y, 0.0):
                return x
    return value


# --- arithmetic ----------------------------------------------------------------------------------


@simplify_rules.register(p.ADD)
def add_simplify(defs: Definitions, args: tuple[Atom, ...]) -> Atom | Prim | None:
    """For all x: x + -0.0 = x;  x + -y = x - y;  x + x = 2 x, which can take in a sign."""
    for x, y in (args, args[::-1]):
        if _is(y, 0 if _is_integer(y) else -0.0):
            return x
        negated = _operand(defs, y, p.NEG)
        if negated is not None:
            return Prim(p.SUB, (x, negated))
    return Prim(p.MUL, (x, _like(2, x.type))) if args[0] == args[1] else None


@simplify_rules.register(p.SUB)
def sub_simplify(defs: Definitions, args: tuple[Atom, ...]) -> Atom | Prim | None:
    """For all x: x - 0.0 = x;  -0.0 - x = -x;  x - -y = x + y."""
    x, y = args
    if _is(y, 0.0):
        return x
    if _is(x, 0 if _is_integer(x) else -0.0):
        return Prim(p.NEG, (y,))
    negated = _operand(defs, y, p.NEG)
    if negated is not None:
        return Prim(p.ADD, (x, negated))
    return _like(0, x.type) if x == y and _is_integer(x) else None


@simplify_rules.register(p.MUL)
def mul_simplify(defs: Definitions, args: tuple[Atom, ...]) -> Atom | Prim | None:
    """1 x = x;  -1 x = -x;  0 x = 0 for integers;  -x c = x -c;  -x -y = x y."""
    for x, y in (args, args[::-1]):
        if _is(y, 1):
            return x
        if _is(y, -1):
            return Prim(p.NEG, (x,))
        if _is_integer(y) and _is(y, 0):
            return y
        negated = _operand(defs, x, p.NEG)
        if negated is None:
            continue
        if isinstance(y, Lit):
            return Prim(p.MUL, (negated, _negated(y)))
        other = _operand(defs, y, p.NEG)
        if other is not None:
            return Prim(p.MUL, (negated, other))
    return None


@simplify_rules.register(p.SCALE)
def scale_simplify(defs: Definitions, args: tuple[Atom, ...]) -> Atom | Prim | None:
    """-x c = x -c; -x -y = x y; a product if a factor is neither 0 nor infinite, or of equals."""
    if args[0] == args[1] or any(_is_ordinary(x) for x in args):
        return Prim(p.MUL, args)
    for x, y in (args, args[::-1]):
        negated = _operand(defs, x, p.NEG)
        if negated is None:
            continue
        if isinstance(y, Lit):
            return Prim(p.SCALE, (negated, _negated(y)))
        other = _operand(defs, y, p.NEG)
        if other is not None:
            return Prim(p.SCALE, (negated, other))
    return None


@simplify_rules.register(p.UNSCALE)
def unscale_simplify(defs: Definitions, args: tuple[Atom, ...]) -> Atom | Prim | None:
    """A quotient, if one operand is neither 0 nor infinite."""
    return Prim(p.DIV, args) if any(_is_ordinary(x) for x in args) else None


def _is_ordinary(atom: Atom) -> bool:
    """Whether an atom is a literal other than 0, infinities and nan, in its own type."""
    if not isinstance(atom, Lit):
        return False
    value = float(np.array(atom.value, atom.type.dtype))
    return value != 0.0 and math.isfinite(value)


@simplify_rules.register(p.DIV)
def div_simplify(defs: Definitions, args: tuple[Atom, ...]) -> Atom | Prim | None:
    """For all x: x / 1 = x;  x / -1 = -x."""
    x, y = args
    if _is(y, 1):
        return x
    return Prim(p.NEG, (x,)) if _is(y, -1) else None


@simplify_rules.register(p.FLOORDIV)
def floordiv_simplify(defs: Definitions, args: tuple[Atom, ...]) -> Atom | Prim | None:
    """For all x: x // 1 = x for integers."""
    x, y = args
    return x if _is_integer(y) and _is(y, 1) else None


@simplify_rules.register(p.POW)
def pow_simplify(defs: Definitions, args: tuple[Atom, ...]) -> Atom | Prim | None:
    """For all x: x ** 1 = x;  for integers x ** 2 = x x (floats may round otherwise)."""
    x, y = args
    if _is(y, 1):
        return x
    return Prim(p.MUL, (x, x)) if _is_integer(y) and _is(y, 2) else None


@simplify_rules.register(p.NEG)
def neg_simplify(defs: Definitions, args: tuple[Atom, ...]) -> Atom | Prim | None:
    """-(-x) = x;  -(x c) = x -c."""
    (x,) = args
    inner = _operand(defs, x, p.NEG)
    if inner is not None:
        return inner
    product = defs.get(x) if isinstance(x, Var) else None
    if isinstance(product, Prim) and product.op is p.MUL:
        for left, right in (product.args, product.args[::-1]):
            if isinstance(right, Lit):
                return Prim(p.MUL, (left, _negated(right)))
    return None


@simplify_rules.register(p.ABS)
def abs_simplify(defs: Definitions, args: tuple[Atom, ...]) -> Atom | Prim | None:
    """|-x| = |x|;  ||x|| = |x|."""
    (x,) = args
    negated = _operand(defs, x, p.NEG)
    if negated is not None:
        return Prim(p.ABS, (negated,))
    return x if _operand(defs, x, p.ABS) is not None else None


@simplify_rules.register(p.MIN, p.MAX, p.LESSER, p.GREATER, p.BIT_AND, p.BIT_OR)
def idempotent_simplify(defs: Definitions, args: tuple[Atom, ...]) -> Atom | Prim | None:
    """min(x, x) = x."""
    x, y = args
    return x if x == y else None


@simplify_rules.register(p.SHIFT_LEFT, p.SHIFT_RIGHT, p.BIT_XOR)
def right_zero_simplify(defs: Definitions, args: tuple[Atom, ...]) -> Atom | Prim | None:
    """For all x: x << 0 = x."""
    x, y = args
    return x if _is(y, 0) else None


# --- truth values --------------------------------------------------------------------------------


@simplify_rules.register(p.EQ, p.LE)
def reflexive_simplify(defs: Definitions, args: tuple[Atom, ...]) -> Atom | Prim | None:
    """For all x: x <= x is true, but for floats: nan <= nan is false."""
    x, y = args
    return bool_lit(True) if x == y and not _is_float(x) else None


@simplify_rules.register(p.NE, p.LT)
def irreflexive_simplify(defs: Definitions, args: tuple[Atom, ...]) -> Atom | Prim | None:
    """For all x: x < x is false; x != x is not, for nan."""
    x, y = args
    return bool_lit(False) if x == y and not _is_float(x) else None


def _is_float(atom: Atom) -> bool:
    return isinstance(atom.type, Scalar) and atom.type.is_float


@simplify_rules.register(p.AND)
def and_simplify(defs: Definitions, args: tuple[Atom, ...]) -> Atom | Prim | None:
    """True & x = x;  False & x = False;  x & x = x."""
    return _logical(args, neutral=True)


@simplify_rules.register(p.OR)
def or_simplify(defs: Definitions, args: tuple[Atom, ...]) -> Atom | Prim | None:
    """False | x = x;  True | x = True;  x | x = x."""
    return _logical(args, neutral=False)


def _logical(args: tuple[Atom, ...], neutral: bool) -> Atom | None:
    for x, y in (args, args[::-1]):
        if isinstance(y, Lit):
            return x if y.value == neutral else y
    return args[0] if args[0] == args[1] else None


@simplify_rules.register(p.NOT)
def not_simplify(defs: Definitions, args: tuple[Atom, ...]) -> Atom | Prim | None:
    """Not not x = x."""
    return _operand(defs, args[0], p.NOT)


@simplify_rules.register(p.SELECT)
def select_simplify(defs: Definitions, args: tuple[Atom, ...]) -> Atom | Prim | None:
    """A known or idle choice; (not c ? x : y) = (c ? y : x);  (c ? True : False) = c."""
    chosen, x, y = args
    if isinstance(chosen, Lit):
        return x if chosen.value else y
    if x == y:
        return x
    negated = _operand(defs, chosen, p.NOT)
    if negated is not None:
        return Prim(p.SELECT, (negated, y, x))
    return chosen if x == bool_lit(True) and y == bool_lit(False) else None


# --- values that are what they were --------------------------------------------------------------


def _cast_simplify(target: Scalar) -> Rule:
    """A cast to the type that the value has."""
    return lambda defs, args: args[0] if args[0].type == target else None


for _target, _cast in p.CAST.items():
    simplify_rules.register(_cast)(_cast_simplify(_target))


@simplify_rules.register(p.STOP_GRADIENT, p.ELEMENTARY)
def differentiated_simplify(defs: Definitions, args: tuple[Atom, ...]) -> Atom | Prim | None:
    """Nothing is differentiated any more."""
    return args[0]


simplify_rules.refuse(
    *(op for op in PRIMITIVES.values() if op not in simplify_rules), why="it has no exact identity"
)
