"""The derivative of each primitive: its tangent as a linear function of its operands' tangents.

A rule gets a builder `b` for nonlinear coefficients and linear operations alike, the operands, the
result and the operands' tangents (None is a tangent that is zero for certain), and gives the
result's tangent.  Linear operations are add, sub, neg, mul by a coefficient, div by a coefficient,
select by a nonlinear condition, and casts between floats: those that `transpose_rules.py` knows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from peffects.errors import NotDifferentiableError
from peffects.ir import primitives as p
from peffects.ir.builder import Builder, int_lit, lit_like
from peffects.ir.primitives import Primitive
from peffects.ir.rules import RuleTable
from peffects.ir.syntax import Atom, Lit, Scalar, Var

Tangent: TypeAlias = Atom | None
Rule: TypeAlias = Callable[[Builder, tuple[Atom, ...], Atom, tuple[Tangent, ...]], Tangent]

linearize_rules: RuleTable[Rule] = RuleTable("linearize")

Partial: TypeAlias = Callable[[Builder, tuple[Atom, ...], Atom], Atom]
"""A partial derivative: emits what it computes into the builder."""


def constant(like: Atom, value: float) -> Lit:
    """A literal of the float type of `like`."""
    assert isinstance(like.type, Scalar)
    return lit_like(value, like.type)


def add_tangents(b: Builder, x: Tangent, y: Tangent) -> Tangent:
    """The sum of two tangents."""
    if x is None or y is None:
        return y if x is None else x
    return b.prim(p.ADD, x, y, name="dt")


def scale(b: Builder, coefficient: Atom, tangent: Atom) -> Var:
    """The product of a coefficient and a tangent: 0 if either is, whatever the other."""
    return b.prim(p.SCALE, coefficient, tangent, name="dt")


def unscale(b: Builder, tangent: Atom, divisor: Atom) -> Var:
    """The quotient of a tangent by a coefficient: 0 if the tangent is, whatever the other."""
    return b.prim(p.UNSCALE, tangent, divisor, name="dt")


def register_partials(op: Primitive, *partials: Partial) -> None:
    """The rule `d op(x..) = sum of partial_i(x..) * dx_i`; only needed partials are computed."""

    def rule(
        b: Builder, args: tuple[Atom, ...], out: Atom, tangents: tuple[Tangent, ...]
    ) -> Tangent:
        total: Tangent = None
        for partial, tangent in zip(partials, tangents, strict=True):
            if tangent is not None:
                total = add_tangents(b, total, scale(b, partial(b, args, out), tangent))
        return total

    linearize_rules.register(op)(rule)


# --- linear operations ---------------------------------------------------------------------------


@linearize_rules.register(p.ADD)
def add_linearize(
    b: Builder, args: tuple[Atom, ...], out: Atom, tangents: tuple[Tangent, ...]
) -> Tangent:
    """d(x + y) = dx + dy."""
    return add_tangents(b, *tangents)


@linearize_rules.register(p.SUB)
def sub_linearize(
    b: Builder, args: tuple[Atom, ...], out: Atom, tangents: tuple[Tangent, ...]
) -> Tangent:
    """d(x - y) = dx - dy."""
    dx, dy = tangents
    if dy is None:
        return dx
    if dx is None:
        return b.prim(p.NEG, dy, name="dt")
    return b.prim(p.SUB, dx, dy, name="dt")


@linearize_rules.register(p.NEG)
def neg_linearize(
    b: Builder, args: tuple[Atom, ...], out: Atom, tangents: tuple[Tangent, ...]
) -> Tangent:
    """d(-x) = -dx."""
    (dx,) = tangents
    return None if dx is None else b.prim(p.NEG, dx, name="dt")


@linearize_rules.register(p.DIV, p.UNSCALE)
def div_linearize(
    b: Builder, args: tuple[Atom, ...], out: Atom, tangents: tuple[Tangent, ...]
) -> Tangent:
    """d(x / y) = (dx - (x / y) dy) / y."""
    (_, y), (dx, dy) = args, tangents
    if dy is not None:
        drop = scale(b, out, dy)
        dx = b.prim(p.NEG, drop, name="dt") if dx is None else b.prim(p.SUB, dx, drop, name="dt")
    return None if dx is None else unscale(b, dx, y)


@linearize_rules.register(p.SELECT)
def select_linearize(
    b: Builder, args: tuple[Atom, ...], out: Atom, tangents: tuple[Tangent, ...]
) -> Tangent:
    """The tangent of the side that is chosen."""
    return _choose(b, args[0], tangents[1], tangents[2], out)


@linearize_rules.register(p.MIN)
def min_linearize(
    b: Builder, args: tuple[Atom, ...], out: Atom, tangents: tuple[Tangent, ...]
) -> Tangent:
    """The tangent of the smaller operand; the mean of both, when they are equal."""
    return _winner(b, args[0], args[1], tangents, out)


@linearize_rules.register(p.MAX)
def max_linearize(
    b: Builder, args: tuple[Atom, ...], out: Atom, tangents: tuple[Tangent, ...]
) -> Tangent:
    """The tangent of the larger operand; the mean of both, when they are equal."""
    return _winner(b, args[1], args[0], tangents, out)


@linearize_rules.register(p.LESSER)
def lesser_linearize(
    b: Builder, args: tuple[Atom, ...], out: Atom, tangents: tuple[Tangent, ...]
) -> Tangent:
    """That of the operand that is given; the mean of both, when they are equal."""
    return _chosen(b, b.prim(p.LT, args[1], args[0]), args, tangents, out)


@linearize_rules.register(p.GREATER)
def greater_linearize(
    b: Builder, args: tuple[Atom, ...], out: Atom, tangents: tuple[Tangent, ...]
) -> Tangent:
    """That of the operand that is given; the mean of both, when they are equal."""
    return _chosen(b, b.prim(p.LT, args[0], args[1]), args, tangents, out)


def _chosen(
    b: Builder, is_second: Atom, args: tuple[Atom, ...], tangents: tuple[Tangent, ...], out: Atom
) -> Tangent:
    """The second tangent if `is_second`, the mean at a tie, and else, beside a nan, the first."""
    first, second = tangents
    halves = [None if t is None else scale(b, constant(out, 0.5), t) for t in tangents]
    others = _choose(b, b.prim(p.EQ, *args), add_tangents(b, *halves), first, out)
    return _choose(b, is_second, second, others, out)


def _winner(b: Builder, low: Atom, high: Atom, tangents: tuple[Tangent, ...], out: Atom) -> Tangent:
    """The first tangent where `low` < `high`, the second where it is above, and else the mean."""
    first, second = tangents
    halves = [None if t is None else scale(b, constant(out, 0.5), t) for t in tangents]
    others = _choose(b, b.prim(p.LT, high, low), second, add_tangents(b, *halves), out)
    return _choose(b, b.prim(p.LT, low, high), first, others, out)


def _choose(b: Builder, pred: Atom, x: Tangent, y: Tangent, like: Atom) -> Tangent:
    if x is None and y is None:
        return None
    zero = constant(like, 0.0)
    left, right = zero if x is None else x, zero if y is None else y
    return b.prim(p.SELECT, pred, left, right, name="dt")


@linearize_rules.register(*(op for scalar, op in p.CAST.items() if scalar.is_float))
def cast_linearize(
    b: Builder, args: tuple[Atom, ...], out: Atom, tangents: tuple[Tangent, ...]
) -> Tangent:
    """A cast between float types is linear."""
    (dx,) = tangents
    assert isinstance(out.type, Scalar)
    return None if dx is None else b.prim(p.CAST[out.type], dx, name="dt")


@linearize_rules.register(p.STOP_GRADIENT)
def stop_gradient_linearize(
    b: Builder, args: tuple[Atom, ...], out: Atom, tangents: tuple[Tangent, ...]
) -> Tangent:
    """Zero: that is what it is for."""
    return None


@linearize_rules.register(p.ELEMENTARY)
def elementary_linearize(
    b: Builder, args: tuple[Atom, ...], out: Atom, tangents: tuple[Tangent, ...]
) -> Tangent:
    """Newton: the partial of e_m by the power sum p_k is (-1)^(k-1) e_(m-k) / k.

    A power sum of zeros has no derivative below its own order, so the first p_k are all that the
    first k derivatives need.
    """
    _, degree, orders, *sums = args
    assert isinstance(orders, Lit)
    if orders.value == 0 and any(tangent is not None for tangent in tangents):
        raise NotDifferentiableError(
            f"derivative {len(sums) + 2} of a product was asked for; {len(sums) + 1} are known.",
            at=b.at,
            fix="Multiply in order, which has all: `for i in range(len(x)): p = p * x[i]`.",
        )
    total: Tangent = None
    for k, tangent in enumerate(tangents[3:], start=1):
        if tangent is not None:
            lower = b.prim(p.SUB, degree, int_lit(k))
            partial = elementary(b, lower, int_lit(int(orders.value) - 1), sums)
            scaled = b.prim(p.MUL, partial, constant(out, (-1.0) ** (k - 1) / k))
            total = add_tangents(b, total, scale(b, scaled, tangent))
    return total


def elementary(b: Builder, degree: Atom, orders: Lit, sums: Sequence[Atom]) -> Var:
    """The elementary symmetric polynomial e_degree of zeros whose power sums are `sums`.

    Its value is 1 for degree 0 and else 0; `orders` derivatives of it may be taken.
    """
    one, zero = constant(sums[0], 1.0), constant(sums[0], 0.0)
    value = b.prim(p.SELECT, b.prim(p.EQ, degree, int_lit(0)), one, zero)
    return b.prim(p.ELEMENTARY, value, degree, orders, *sums)


@linearize_rules.register(p.FLOOR, p.CEIL, p.TRUNC, p.RINT, p.FLOORDIV)
def piecewise_constant_linearize(
    b: Builder, args: tuple[Atom, ...], out: Atom, tangents: tuple[Tangent, ...]
) -> Tangent:
    """Zero, wherever there is a derivative: as in x - floor(x), the distance to the next image."""
    return None


@linearize_rules.register(p.NEXTAFTER)
def nextafter_linearize(
    b: Builder, args: tuple[Atom, ...], out: Atom, tangents: tuple[Tangent, ...]
) -> Tangent:
    """The tangent of x: the step is as good as constant."""
    return tangents[0]


# --- partial derivatives -------------------------------------------------------------------------


def _pow_base(b: Builder, args: tuple[Atom, ...], out: Atom) -> Atom:
    """The partial y x^(y-1), and 0 where y = 0, since x^0 is constant even at x = 0."""
    x, y = args
    zero, one = constant(x, 0.0), constant(x, 1.0)
    slope = b.prim(p.MUL, y, b.prim(p.POW, x, b.prim(p.SUB, y, one)))
    return b.prim(p.SELECT, b.prim(p.EQ, y, zero), zero, slope)


def _pow_exponent(b: Builder, args: tuple[Atom, ...], out: Atom) -> Atom:
    """The partial x^y log x, whose limit at x = 0 is 0 for the y > 0 where x^y is finite."""
    x, _ = args
    at_zero = b.prim(p.EQ, x, constant(x, 0.0))
    base = b.prim(p.SELECT, at_zero, constant(x, 1.0), x)
    return b.prim(p.MUL, out, b.prim(p.LOG, base))


def _sign(b: Builder, args: tuple[Atom, ...], out: Atom) -> Atom:
    """-1, 0 or 1: at 0, the mean of both sides."""
    (x,) = args
    zero, one = constant(x, 0.0), constant(x, 1.0)
    positive = b.prim(p.SELECT, b.prim(p.LT, zero, x), one, zero)
    return b.prim(p.SELECT, b.prim(p.LT, x, zero), constant(x, -1.0), positive)


def _square(b: Builder, x: Atom) -> Atom:
    return b.prim(p.MUL, x, x)


def _one_minus(b: Builder, x: Atom) -> Atom:
    return b.prim(p.SUB, constant(x, 1.0), x)


def _one_plus(b: Builder, x: Atom) -> Atom:
    return b.prim(p.ADD, constant(x, 1.0), x)


def _over(b: Builder, value: float, x: Atom) -> Atom:
    return b.prim(p.DIV, constant(x, value), x)


def _minus(b: Builder, x: Atom) -> Atom:
    return b.prim(p.NEG, x)


def _erf_slope(b: Builder, args: tuple[Atom, ...], out: Atom) -> Atom:
    """2 / sqrt(pi) * exp(-x^2)."""
    bell = b.prim(p.EXP, _minus(b, _square(b, args[0])))
    return b.prim(p.MUL, constant(out, 2.0 / math.sqrt(math.pi)), bell)


def _squared_radius(b: Builder, args: tuple[Atom, ...]) -> Atom:
    return b.prim(p.ADD, _square(b, args[0]), _square(b, args[1]))


def _mod_divisor(b: Builder, args: tuple[Atom, ...], out: Atom) -> Atom:
    """From x % y = x - y floor(x / y), whose floor is constant almost everywhere."""
    x, y = args
    return _minus(b, b.prim(p.FLOORDIV, x, y))


def _zero(b: Builder, args: tuple[Atom, ...], out: Atom) -> Atom:
    return constant(out, 0.0)


def _whole_quotient(b: Builder, args: tuple[Atom, ...], out: Atom) -> Atom:
    """From out = x - n y with a whole n, which (x - out) / y is but for one rounding: -n."""
    x, y = args
    return _minus(b, b.prim(p.RINT, b.prim(p.DIV, b.prim(p.SUB, x, out), y)))


def _cathetus(side: int) -> Partial:
    """Cathetus by hypotenuse; 0 at the corner, the middle of the subgradients."""

    def partial(b: Builder, args: tuple[Atom, ...], out: Atom) -> Atom:
        zero, one = constant(out, 0.0), constant(out, 1.0)
        at_zero = b.prim(p.EQ, out, zero)
        return b.prim(p.DIV, args[side], b.prim(p.SELECT, at_zero, one, out))

    return partial


def _share(side: int) -> Partial:
    """The share exp(x) / (exp(x) + exp(y)); 0 where the sum is 0, half of equal infinities."""

    def partial(b: Builder, args: tuple[Atom, ...], out: Atom) -> Atom:
        x, y = args if side == 0 else args[::-1]
        zero = constant(out, 0.0)
        difference = b.prim(p.SELECT, b.prim(p.EQ, x, y), zero, b.prim(p.SUB, x, y))
        nothing = b.prim(p.EQ, out, constant(out, -math.inf))
        return b.prim(p.SELECT, nothing, zero, b.prim(p.EXPIT, difference))

    return partial


def _erfc_slope(b: Builder, args: tuple[Atom, ...], out: Atom) -> Atom:
    return _minus(b, _erf_slope(b, args, out))


def _arcsinh_slope(b: Builder, args: tuple[Atom, ...], out: Atom) -> Atom:
    return _over(b, 1.0, b.prim(p.HYPOT, constant(out, 1.0), args[0]))


def _arccosh_slope(b: Builder, args: tuple[Atom, ...], out: Atom) -> Atom:
    """1 / sqrt((x - 1) (x + 1)), as two roots: the product overflows for large x."""
    (x,) = args
    low = b.prim(p.SQRT, b.prim(p.SUB, x, constant(x, 1.0)))
    return _over(b, 1.0, b.prim(p.MUL, low, b.prim(p.SQRT, _one_plus(b, x))))


def _arctanh_slope(b: Builder, args: tuple[Atom, ...], out: Atom) -> Atom:
    return _over(b, 1.0, b.prim(p.MUL, _one_minus(b, args[0]), _one_plus(b, args[0])))


def _expit_slope(b: Builder, args: tuple[Atom, ...], out: Atom) -> Atom:
    """S(x) (1 - s(x)), where 1 - s(x) is s(-x), which does not cancel."""
    return b.prim(p.MUL, out, b.prim(p.EXPIT, _minus(b, args[0])))


def _log_slope(base: float) -> Partial:
    return lambda b, a, out: _over(b, 1.0 / math.log(base), a[0])


for _op in (p.MUL, p.SCALE):
    register_partials(_op, lambda b, a, out: a[1], lambda b, a, out: a[0])
register_partials(p.POW, _pow_base, _pow_exponent)
register_partials(p.MOD, lambda b, a, out: constant(out, 1.0), _mod_divisor)
register_partials(p.ABS, _sign)
register_partials(p.SQRT, lambda b, a, out: _over(b, 0.5, out))
register_partials(p.EXP, lambda b, a, out: out)
register_partials(p.EXPM1, lambda b, a, out: b.prim(p.EXP, a[0]))
register_partials(p.LOG, lambda b, a, out: _over(b, 1.0, a[0]))
register_partials(p.LOG1P, lambda b, a, out: _over(b, 1.0, _one_plus(b, a[0])))
register_partials(p.SIN, lambda b, a, out: b.prim(p.COS, a[0]))
register_partials(p.COS, lambda b, a, out: _minus(b, b.prim(p.SIN, a[0])))
register_partials(p.TAN, lambda b, a, out: _one_plus(b, _square(b, out)))
register_partials(
    p.ARCSIN, lambda b, a, out: _over(b, 1.0, b.prim(p.SQRT, _one_minus(b, _square(b, a[0]))))
)
register_partials(
    p.ARCCOS, lambda b, a, out: _over(b, -1.0, b.prim(p.SQRT, _one_minus(b, _square(b, a[0]))))
)
register_partials(p.ARCTAN, lambda b, a, out: _over(b, 1.0, _one_plus(b, _square(b, a[0]))))
register_partials(
    p.ARCTAN2,
    lambda b, a, out: b.prim(p.DIV, a[1], _squared_radius(b, a)),
    lambda b, a, out: b.prim(p.DIV, _minus(b, a[0]), _squared_radius(b, a)),
)
register_partials(p.SINH, lambda b, a, out: b.prim(p.COSH, a[0]))
register_partials(p.COSH, lambda b, a, out: b.prim(p.SINH, a[0]))
register_partials(p.TANH, lambda b, a, out: _one_minus(b, _square(b, out)))
register_partials(p.ERF, _erf_slope)
register_partials(p.ERFC, _erfc_slope)
register_partials(p.EXP2, lambda b, a, out: b.prim(p.MUL, out, constant(out, math.log(2.0))))
register_partials(p.LOG2, _log_slope(2.0))
register_partials(p.LOG10, _log_slope(10.0))
register_partials(p.CBRT, lambda b, a, out: _over(b, 1.0 / 3.0, _square(b, out)))
register_partials(p.HYPOT, _cathetus(0), _cathetus(1))
register_partials(p.ARCSINH, _arcsinh_slope)
register_partials(p.ARCCOSH, _arccosh_slope)
register_partials(p.ARCTANH, _arctanh_slope)
register_partials(p.LGAMMA, lambda b, a, out: b.prim(p.DIGAMMA, a[0]))
register_partials(p.GAMMA, lambda b, a, out: b.prim(p.MUL, out, b.prim(p.DIGAMMA, a[0])))
register_partials(p.DIGAMMA, lambda b, a, out: b.prim(p.TRIGAMMA, a[0]))
register_partials(p.EXPIT, _expit_slope)
register_partials(p.LOGADDEXP, _share(0), _share(1))
register_partials(p.FMOD, lambda b, a, out: constant(out, 1.0), _whole_quotient)
register_partials(p.REMAINDER, lambda b, a, out: constant(out, 1.0), _whole_quotient)
register_partials(p.LDEXP, lambda b, a, out: b.prim(p.LDEXP, constant(out, 1.0), a[1]), _zero)

# --- refusals ------------------------------------------------------------------------------------

linearize_rules.refuse(
    p.TRIGAMMA, why="the third derivative of the logarithm of gamma is no primitive"
)
linearize_rules.refuse(
    p.LOG_UNIT, p.COS_TURN, why="its argument is a random number, which depends on nothing"
)
linearize_rules.refuse(
    p.OF_BITS, why="the bits of a float are integers, which have no tangent to pass on"
)
NO_TANGENT = "its result is not a float, so it has no tangent"
linearize_rules.refuse(
    p.IS_FINITE, p.IS_NAN, p.LT, p.LE, p.EQ, p.NE, p.AND, p.OR, p.NOT, p.ORDINAL, p.PACKED,
    p.BIT_AND, p.BIT_OR, p.BIT_XOR, p.SHIFT_LEFT, p.SHIFT_RIGHT, p.BIT_COUNT, p.GCD, p.TO_BITS,
    p.THREEFRY,
    *(op for scalar, op in p.CAST.items() if not scalar.is_float),
    why=NO_TANGENT,
)  # fmt: skip
