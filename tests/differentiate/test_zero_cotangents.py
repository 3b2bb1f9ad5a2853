"""What a result does not depend on has derivative 0, whatever infinity or nan is on the way to it.

Random kernels compute something that is infinite, nan or singular for some elements, and leave
these elements out, in each way of saying so that there is.  Then forward and reverse mode agree,
and give what the kernel gives where the elements left out are harmless ones: their derivative is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from programs import Sketch, num
from staged import staged

import peffects as pe
from peffects.differentiate.programs import jvp_program, value_and_grad_program, vjp_program
from peffects.ir import primitives as p
from peffects.ir.evaluate import evaluate
from peffects.ir.syntax import F32, Lit, Prim, Program
from peffects.optimize.passes import run
from peffects.optimize.simplify import simplify

Array = NDArray[Any]
Function = Callable[[Any], Any]
Kernel = Callable[[Any, Any], Any]

# --- what is singular, and how elements are left out ---------------------------------------------

SINGULAR: dict[str, Function] = {
    "log": lambda v: pe.log(v),
    "sqrt": lambda v: pe.sqrt(v),
    "cbrt": lambda v: np.cbrt(v),
    "reciprocal": lambda v: 1.0 / v,
    "quotient": lambda v: (v - 0.25) / (v * v),
    "power": lambda v: v**v,
    "negative power": lambda v: v**-2.5,
    "root of a power": lambda v: (v * v) ** 0.75,
    "times infinity": lambda v: v * np.inf,
    "exponential": lambda v: pe.exp(1.0 / v),
    "arctan2": lambda v: np.arctan2(v, v * v),
    "hypot": lambda v: np.hypot(v, 2.0 * v),
    "arcsin": lambda v: pe.arcsin(v),
    "arctanh": lambda v: np.arctanh(v),
    "arccosh": lambda v: np.arccosh(1.0 + v),
    "log1p": lambda v: pe.log1p(-v),
    "lgamma": lambda v: pe.lgamma(v),
    "remainder": lambda v: 1.0 % v,
    "logaddexp": lambda v: np.logaddexp(v, 1.0 / v),
    "complex": lambda v: abs(1.0 / (v + 1j * v)),
    "expit": lambda v: pe.expit(pe.log(v)),
}


def by_where(f: Function, x: Any, keep: Any) -> Any:
    return pe.sum(lambda i: pe.where(keep[i], f(x[i]), 0.0))


def by_numpy_where(f: Function, x: Any, keep: Any) -> Any:
    return np.sum(np.where(keep, pe.table(lambda i: f(x[i])), 0.0))


def by_expression(f: Function, x: Any, keep: Any) -> Any:
    return pe.sum(lambda i: f(x[i]) if keep[i] else 0.0)


def by_statement(f: Function, x: Any, keep: Any) -> Any:
    def term(i: Any) -> Any:
        value = f(x[i])
        if not keep[i]:
            return 0.0
        return value

    return pe.sum(term)


def by_condition(f: Function, x: Any, keep: Any) -> Any:
    def term(i: Any) -> Any:
        value = f(x[i])
        return value if keep[i] and value == value else 0.0

    return pe.sum(term)


def by_table(f: Function, x: Any, keep: Any) -> Any:
    table = pe.table(lambda i: f(x[i]))
    again = pe.table(lambda i: table[i] * table[i])
    return pe.sum(lambda i: again[i] + table[i] if keep[i] else 0.0)


def by_nansum(f: Function, x: Any, keep: Any) -> Any:
    return np.nansum(pe.table(lambda i: pe.where(keep[i], f(x[i]), np.nan)))


def by_nanprod(f: Function, x: Any, keep: Any) -> Any:
    return np.nanprod(pe.table(lambda i: pe.where(keep[i], 1.0 + f(x[i]), np.nan)))


def by_product(f: Function, x: Any, keep: Any) -> Any:
    return pe.prod(lambda i: pe.where(keep[i], f(x[i]), 1.0))


def by_maximum(f: Function, x: Any, keep: Any) -> Any:
    return pe.max(lambda i: pe.where(keep[i], f(x[i]), -np.inf))


def by_minimum(f: Function, x: Any, keep: Any) -> Any:
    return pe.min(lambda i: f(x[i]) if keep[i] else np.inf)


def by_logsumexp(f: Function, x: Any, keep: Any) -> Any:
    return pe.logsumexp(lambda i: pe.where(keep[i], f(x[i]), -np.inf))


def by_accumulation(f: Function, x: Any, keep: Any) -> Any:
    total = pe.accumulator()
    for i in pe.par(x):
        value = f(x[i])
        if keep[i]:
            total += value
    return total + 0.0


def by_loop(f: Function, x: Any, keep: Any) -> Any:
    total = 0.5
    for i in range(len(x)):
        value = f(x[i])
        if not keep[i]:
            continue
        total = total + value * total
    return total


def by_while(f: Function, x: Any, keep: Any) -> Any:
    total, i = 0.5, 0
    while i < len(x):
        total = total + pe.where(keep[i], f(x[i]) * total, 0.0)
        i += 1
    return total


def by_fold(f: Function, x: Any, keep: Any) -> Any:
    return pe.fold(lambda c, i: pe.where(keep[i], c + f(x[i]), c), 0.0, over=x)


def by_state(f: Function, x: Any, keep: Any) -> Any:
    values = pe.state(pe.table(lambda i: f(x[i])))
    for i in range(len(x)):
        if keep[i]:
            values[i] = values[i] * values[i]
        else:
            values[i] = 0.0
    return pe.sum(lambda i: values[i])


def by_record(f: Function, x: Any, keep: Any) -> Any:
    both = pe.table(lambda i: {"value": f(x[i]), "twice": 2.0 * f(x[i])})
    return pe.sum(lambda i: both[i]["value"] * both[i]["twice"] if keep[i] else 0.0)


def by_gather(f: Function, x: Any, keep: Any) -> Any:
    table = pe.table(lambda i: f(x[i]))
    return pe.sum(lambda i: table[pe.where(keep[i], int(i), 0)])


def by_matrix_product(f: Function, x: Any, keep: Any) -> Any:
    values = pe.table(lambda i, j: f(x[i]) + j, over=(x, 2))
    product = pe.table(lambda i, j: pe.sum(lambda k: values[i, k] * values[j, k]))
    return pe.sum(lambda i: product[i, i] if keep[i] else 0.0)


WAYS = [
    by_where, by_numpy_where, by_expression, by_statement, by_condition, by_table, by_nansum,
    by_nanprod, by_product, by_maximum, by_minimum, by_logsumexp, by_accumulation, by_loop,
    by_while, by_fold, by_state, by_record, by_gather, by_matrix_product,
]  # fmt: skip
OUTSIDE: dict[str, Function] = {
    "itself": lambda s: s,
    "square": lambda s: s * s,
    "sine": lambda s: pe.sin(s),
    "masked again": lambda s: pe.where(s == s, s * 3.0, 0.0),
}
BAD = [0.0, -0.0, -1.0, -0.3, 2.0, 1e-320, 1e308, -1e308, np.inf, -np.inf, np.nan]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Kernel, Array, Array]:
    """A kernel of numbers and of which of them count, and such arguments; the first one counts."""
    way, name = draw(st.sampled_from(WAYS)), draw(st.sampled_from(sorted(SINGULAR)))
    outside = OUTSIDE[draw(st.sampled_from(sorted(OUTSIDE)))]
    keep = np.array([True, *draw(st.lists(st.booleans(), min_size=1, max_size=3))])
    good = st.floats(0.3, 0.9)
    x = np.array([draw(good if kept else st.sampled_from(BAD)) for kept in keep])
    return masked(way, SINGULAR[name], outside), x, keep


def masked(way: Callable[..., Any], f: Function, outside: Function) -> Kernel:
    def kernel(x: Any, keep: Any) -> Any:
        return outside(way(f, x, keep))

    return kernel


# --- derivatives of all kinds, by the evaluator --------------------------------------------------


def rows(program: Program, *args: Any) -> Array:
    """The last result for each unit vector as the last argument."""
    size = len(args[0])
    return np.array([evaluate(program, [*args, unit])[-1] for unit in np.eye(size)])


def derivatives(kernel: Kernel, x: Array, keep: Array) -> dict[str, Array]:
    """The gradient in both modes, and the Hessian: forward over reverse, and reverse twice."""
    program = staged(kernel, x, keep).program
    gradient = value_and_grad_program(program, [0])
    value, reverse = evaluate(gradient, [x, keep])
    one = np.float64(1.0)
    again = vjp_program(gradient, [0])
    twice = [evaluate(again, [x, keep, 0.0, unit])[-1] for unit in np.eye(len(x))]
    return {
        "value": np.asarray(value),
        "reverse": np.asarray(reverse),
        "vjp": np.asarray(evaluate(vjp_program(program, [0]), [x, keep, one])[-1]),
        "forward": rows(jvp_program(program, [0]), x, keep),
        "forward over reverse": rows(jvp_program(gradient, [0]), x, keep),
        "reverse over reverse": np.array(twice),
    }


@given(cases())
@settings(max_examples=150)
def test_what_is_left_out_has_derivative_zero(case: tuple[Kernel, Array, Array]) -> None:
    kernel, x, keep = case
    with np.errstate(all="ignore"):
        found = derivatives(kernel, x, keep)
        harmless = derivatives(kernel, np.where(keep, x, 0.5), keep)
    for name, meant in harmless.items():
        np.testing.assert_allclose(found[name], meant, rtol=1e-12, atol=1e-300, err_msg=name)
    for name in ("vjp", "forward"):
        np.testing.assert_allclose(found[name], found["reverse"], rtol=1e-11, atol=1e-13)
    assert not found["reverse"][~keep].any()
    assert not found["forward over reverse"][:, ~keep].any()
    np.testing.assert_allclose(
        found["reverse over reverse"], found["forward over reverse"].T, rtol=1e-9, atol=1e-11
    )


@given(cases())
@settings(max_examples=40)
def test_what_counts_has_the_derivative_of_differences(case: tuple[Kernel, Array, Array]) -> None:
    kernel, x, keep = case
    program, step = staged(kernel, x, keep).program, 1e-6
    with np.errstate(all="ignore"):
        _, gradient = evaluate(value_and_grad_program(program, [0]), [x, keep])
        for k in np.flatnonzero(keep):
            ends = [np.where(np.arange(len(x)) == k, x + h, x) for h in (step, -step)]
            up, down = (float(evaluate(program, [end, keep])[0]) for end in ends)
            difference = (up - down) / (2 * step)
            assume(np.isfinite(difference) and abs(up) < 1e6)
            assert float(gradient[k]) == pytest.approx(difference, rel=1e-4, abs=1e-4)


# --- the rule itself ----------------------------------------------------------------------------


@pytest.mark.parametrize("other", [0.0, -3.0, np.inf, -np.inf, np.nan])
def test_zero_times_anything_is_zero(other: float) -> None:
    s = Sketch("rule")
    x, y = s.scalar("x"), s.scalar("y")
    program = s.done(s.b.prim(p.SCALE, x, y), s.b.prim(p.SCALE, y, x), s.b.prim(p.UNSCALE, x, y))
    with np.errstate(all="ignore"):
        assert [float(value) for value in evaluate(program, [0.0, other])] == [0.0, 0.0, 0.0]


def test_other_products_and_quotients_are_those_of_numbers() -> None:
    s = Sketch("plain")
    x, y = s.scalar("x"), s.scalar("y")
    program = s.done(s.b.prim(p.SCALE, x, y), s.b.prim(p.UNSCALE, x, y))
    values = [-0.0, 0.0, 1.5, -2.0, 5e-324, 1e308, np.inf, np.nan]
    with np.errstate(all="ignore"):
        for a in values:
            for b in values:
                product, quotient = evaluate(program, [a, b])
                if 0.0 not in (a, b):
                    assert repr(float(product)) == repr(float(np.multiply(a, b)))
                if a != 0.0 and not np.isinf(b):
                    assert repr(float(quotient)) == repr(float(np.float64(a) / np.float64(b)))


def test_nan_that_counts_stays_nan() -> None:
    program = staged(lambda x: pe.sum(lambda i: pe.log(x[i]) ** 2), np.ones(2)).program
    with np.errstate(all="ignore"):
        _, gradient = evaluate(value_and_grad_program(program, [0]), [np.array([-1.0, 1.0])])
    np.testing.assert_array_equal(gradient, [np.nan, 0.0])


def test_a_product_of_derivatives_has_derivatives_where_a_factor_is_zero() -> None:
    """d(x y)/dy at x = 0 is y's slope all the same: the rule is no selection of zeros."""
    s = Sketch("product")
    x, y = s.scalar("x"), s.scalar("y")
    program = s.done(s.b.prim(p.SCALE, x, y), s.b.prim(p.UNSCALE, x, y))
    forward = jvp_program(program, [0, 1])
    for values, directions, expected in [
        ((0.0, 3.0), (1.0, 0.0), (3.0, 1.0 / 3.0)),
        ((2.0, 1.0), (0.0, 1.0), (2.0, -2.0)),
        ((0.0, 0.5), (1.0, 1.0), (0.5, 2.0)),
    ]:
        assert evaluate(forward, [*values, *directions])[2:] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("factor", "becomes"),
    [(3.0, "mul"), (-0.5, "mul"), (0.0, "scale"), (np.inf, "scale"), (np.nan, "scale")],
)
def test_scaling_by_an_ordinary_constant_is_a_product(factor: float, becomes: str) -> None:
    s = Sketch("constant")
    x = s.scalar("x")
    program = run("simplify", simplify, s.done(s.b.prim(p.SCALE, x, num(factor))))
    (binding,) = program.body.bindings
    assert isinstance(binding.expr, Prim) and binding.expr.op.name == becomes


def test_a_constant_that_is_zero_in_its_type_is_no_ordinary_one() -> None:
    s = Sketch("small")
    x = s.scalar("x", F32)
    program = run("simplify", simplify, s.done(s.b.prim(p.SCALE, x, Lit(1e-60, F32))))
    (binding,) = program.body.bindings
    assert isinstance(binding.expr, Prim) and binding.expr.op is p.SCALE
