"""Derivative programs against finite differences, and reverse against forward mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from programs import (
    Sketch,
    guarded_norm,
    histogram,
    largest,
    log_likelihood,
    matmul,
    num,
    reduce,
    running_product,
    running_sums,
    tabulate,
    triangle,
)

from peffects.differentiate.programs import (
    jvp_program,
    transpose_program,
    value_and_grad_program,
    vjp_program,
)
from peffects.errors import DerivativeArgumentError, LinearityError, NotDifferentiableError
from peffects.ir import primitives as p
from peffects.ir.builder import Builder, index_var, int_lit
from peffects.ir.check import check_program
from peffects.ir.evaluate import Work, evaluate
from peffects.ir.syntax import F64, I64, Bounds, Cond, Fold, Monoid, Program, Table, Var, While

SIZES = {"n": 5, "m": 4, "p": 2, "d": 3, "K": 2}
Values = list[Any]


def arguments(program: Program, seed: int = 0) -> Values:
    rng = np.random.default_rng(seed)
    sizes: dict[Any, int] = {size.var: SIZES[size.var.name] for size in program.sizes}
    out = []
    for param in program.params:
        shape = (
            tuple(sizes[d.size] for d in param.type.dims) if isinstance(param.type, Table) else ()
        )
        out.append(rng.normal(size=shape))
    return out


def directional(program: Program, args: Values, directions: Values, eps: float = 1e-6) -> Values:
    up = evaluate(program, [x + eps * d for x, d in zip(args, directions, strict=True)])
    down = evaluate(program, [x - eps * d for x, d in zip(args, directions, strict=True)])
    return [(a - b) / (2 * eps) for a, b in zip(up, down, strict=True)]


def dot(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    return float(sum(np.sum(np.multiply(x, y)) for x, y in zip(xs, ys, strict=True)))


SMOOTH: list[Callable[[], Program]] = [
    matmul, log_likelihood, running_product, running_sums, guarded_norm, largest, triangle,
]  # fmt: skip


@pytest.mark.parametrize("make", SMOOTH, ids=lambda make: make.__name__)
@pytest.mark.parametrize("seed", range(3))
def test_jvp_equals_finite_differences(make: Callable[[], Program], seed: int) -> None:
    program = make()
    args, directions = arguments(program, seed), arguments(program, seed + 100)
    jvp = check_program(jvp_program(program, range(len(args))), "jvp")
    found = evaluate(jvp, [*args, *directions])
    count = len(program.body.results)
    for value, expected in zip(found[:count], evaluate(program, args), strict=True):
        np.testing.assert_array_equal(value, expected)
    for tangent, expected in zip(
        found[count:], directional(program, args, directions), strict=True
    ):
        np.testing.assert_allclose(tangent, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("make", SMOOTH, ids=lambda make: make.__name__)
def test_vjp_is_the_transpose_of_jvp(make: Callable[[], Program]) -> None:
    program = make()
    wrt = range(len(program.params))
    args, directions = arguments(program, 1), arguments(program, 2)
    count = len(program.body.results)
    tangents = evaluate(jvp_program(program, wrt), [*args, *directions])[count:]
    rng = np.random.default_rng(3)
    cotangents = [rng.normal(size=np.shape(t)) for t in tangents]
    vjp = check_program(vjp_program(program, wrt), "vjp")
    found = evaluate(vjp, [*args, *cotangents])[count:]
    assert dot(cotangents, tangents) == pytest.approx(dot(found, directions), rel=1e-12)


@pytest.mark.parametrize("make", SMOOTH[1:], ids=lambda make: make.__name__)
def test_reverse_order_of_iterations_changes_nothing(make: Callable[[], Program]) -> None:
    program = make()
    gradient = value_and_grad_program(program, range(len(program.params)))
    args = arguments(program)
    forward = evaluate(gradient, args)
    backward = evaluate(gradient, args, order=lambda r: reversed(r))
    for left, right in zip(forward, backward, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-12)


def test_gradient_costs_a_constant_factor() -> None:
    """Section 5 of the paper; the loops run twice, since nothing is fused yet."""
    program = log_likelihood()
    args = arguments(program)
    primal, gradient = Work(), Work()
    evaluate(program, args, work=primal)
    evaluate(value_and_grad_program(program, [1, 2, 3]), args, work=gradient)
    assert gradient.operations < 5 * primal.operations
    assert gradient.accesses < 5 * primal.accesses


def test_scatter_is_transposed_to_gather() -> None:
    """h[b_i] += w_i, with ct_h: ct_w[i] = ct_h[b_i]."""
    program = histogram(4)
    x, w = np.array([0.5, 3.2, 0.1, 2.0]), np.array([1.0, 2.0, 3.0, 4.0])
    ct = np.array([10.0, 20.0, 30.0, 40.0])
    found = evaluate(vjp_program(program, [1]), [x, w, ct])
    np.testing.assert_array_equal(found[0], [4.0, 0.0, 4.0, 2.0])
    np.testing.assert_array_equal(found[1], [10.0, 40.0, 10.0, 30.0])


def test_gather_is_transposed_to_scatter() -> None:
    """y_i = x[b]^2 for one b: ct_x[b] = sum_i 2 x[b] ct_i."""
    s = Sketch("gather")
    x, c = s.table("x", "m"), s.table("c", "n")
    i = s.index("i", "n")

    def body(o: Builder) -> Var:
        value = o.index(x, int_lit(1))
        return o.prim(p.MUL, o.prim(p.MUL, value, value), o.index(c, i))

    program = s.done(reduce(s.b, [i], body))
    found = evaluate(value_and_grad_program(program, [0]), [[1.0, 3.0, 5.0, 7.0], [1.0, 2.0]])
    np.testing.assert_array_equal(found[1], [0.0, 18.0, 0.0, 0.0])


def test_running_product_has_the_adjoint_of_a_state() -> None:
    """Example e of the specification: a = [2, 2, 2], x0 = 1 gives 8, [4, 4, 4] and 8."""
    gradient = value_and_grad_program(running_product(), [0, 1])
    value, ct_x0, ct_a = evaluate(gradient, [1.0, [2.0, 2.0, 2.0]])
    assert (value, ct_x0) == (8.0, 8.0)
    np.testing.assert_array_equal(ct_a, [4.0, 4.0, 4.0])


def test_running_product_through_zero_is_right() -> None:
    gradient = value_and_grad_program(running_product(), [0, 1])
    _, ct_x0, ct_a = evaluate(gradient, [1.0, [3.0, 0.0, 5.0]])
    assert ct_x0 == 0.0
    np.testing.assert_array_equal(ct_a, [0.0, 15.0, 0.0])


def test_triangular_sum_gives_suffix_sums() -> None:
    """Example d: y_i = sum_{j <= i} x_j; ct_y = ones gives [3, 2, 1]."""
    s = Sketch("prefix")
    x = s.table("x", "n")
    i = s.index("i", "n")

    def row(o: Builder) -> Var:
        j = index_var("j", o.prim(p.ADD, o.ordinal(i), int_lit(1)))
        return reduce(o, [j], lambda q: q.index(x, q.ordinal(j), bounds=Bounds.CHECKED))

    program = s.done(tabulate(s.b, [i], row))
    found = evaluate(vjp_program(program, [0]), [[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]])
    np.testing.assert_array_equal(found[1], [3.0, 2.0, 1.0])


def test_winners_of_a_tie_share_the_cotangent() -> None:
    s = Sketch("top")
    x, i = s.table("x", "n"), None
    i = s.index("i", "n")
    program = s.done(reduce(s.b, [i], lambda q: q.index(x, i), Monoid.MAX))
    _, found = evaluate(value_and_grad_program(program, [0]), [[1.0, 7.0, 7.0, 2.0]])
    np.testing.assert_array_equal(found, [0.0, 0.5, 0.5, 0.0])


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([2.0, 2.0, 2.0], [4.0, 4.0, 4.0]),
        ([3.0, 0.0, 5.0], [0.0, 15.0, 0.0]),
        ([3.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
        ([-0.0, 7.0], [7.0, -0.0]),
        ([], []),
    ],
)
def test_product_has_the_product_of_the_others(x: list[float], expected: list[float]) -> None:
    s = Sketch("prod")
    table = s.table("x", "n")
    i = s.index("i", "n")
    program = s.done(reduce(s.b, [i], lambda q: q.index(table, i), Monoid.MUL))
    value, found = evaluate(value_and_grad_program(program, [0]), [np.array(x)])
    assert value == np.prod(x)
    np.testing.assert_array_equal(found, expected)


def test_only_the_taken_branch_is_differentiated() -> None:
    """Rows of zeros: the other branch would give 0 * inf."""
    gradient = value_and_grad_program(guarded_norm(), [0])
    value, found = evaluate(gradient, [[[3.0, 4.0, 0.0], [0.0, 0.0, 0.0]]])
    assert value == 5.0
    np.testing.assert_allclose(found, [[0.6, 0.8, 0.0], [0.0, 0.0, 0.0]], rtol=1e-15)


def test_second_derivative_by_linearizing_twice() -> None:
    """The derivative of a derivative program: d^2/dx^2 of x^3 is 6 x."""
    s = Sketch("cube")
    x = s.scalar("x")
    program = s.done(s.b.prim(p.MUL, s.b.prim(p.MUL, x, x), x))
    gradient = value_and_grad_program(program, [0])
    second = check_program(value_and_grad_program(gradient, [0], result=1), "grad of grad")
    assert [float(v) for v in evaluate(second, [2.0])] == [8.0, 12.0, 12.0]


@pytest.mark.parametrize("make", [log_likelihood, running_sums, guarded_norm, triangle])
def test_second_derivatives_equal_differences_of_first_ones(make: Callable[[], Program]) -> None:
    program = make()
    last = len(program.params) - 1
    gradient = value_and_grad_program(program, [last])
    args, directions = arguments(program, 5), arguments(program, 6)
    args[last] = args[last] + 0.3
    for k in range(last):
        directions[k] = np.zeros_like(directions[k])
    hvp = check_program(jvp_program(gradient, [last]), "forward over reverse")
    found = evaluate(hvp, [*args, directions[last]])[-1]
    expected = directional(gradient, args, directions, eps=1e-5)[-1]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_transpose_of_a_linear_program() -> None:
    """The map x -> 3 x twice transposed is itself; x + (x + x) * 2 has transpose 5."""
    s = Sketch("five")
    x = s.scalar("x")
    program = s.done(s.b.prim(p.ADD, x, s.b.prim(p.MUL, s.b.prim(p.ADD, x, x), num(2.0))))
    assert evaluate(transpose_program(program, [0]), [0.0, 1.0]) == (5.0,)


# --- refusals ------------------------------------------------------------------------------------


def test_squaring_is_not_linear() -> None:
    s = Sketch("square")
    x = s.scalar("x")
    program = s.done(s.b.prim(p.MUL, x, x))
    with pytest.raises(LinearityError, match="spent twice"):
        transpose_program(program, [0])


def test_while_is_counted_and_then_run_as_a_fold() -> None:
    s = Sketch("newton")
    x = s.scalar("x")
    carry = Var("x", F64)
    test, body = s.b.nested(), s.b.nested()
    low = test.prim(p.LT, carry, num(10.0))
    double = body.prim(p.MUL, carry, num(2.0))
    loop = While((carry,), (x,), test.block(low), body.block(double))
    program = s.done(*s.b.emit(loop))
    derivative = value_and_grad_program(program, [0])
    check_program(derivative, "differentiation")
    assert evaluate(derivative, [3.0]) == (12.0, 4.0)
    assert evaluate(derivative, [20.0]) == (20.0, 1.0)


def test_a_refused_primitive_tells_the_way_out() -> None:
    s = Sketch("third")
    x = s.scalar("x")
    program = s.done(s.b.prim(p.TRIGAMMA, x))
    with pytest.raises(NotDifferentiableError, match="stop_gradient"):
        value_and_grad_program(program, [0])


def test_rows_of_extrema_are_refused() -> None:
    s = Sketch("rows")
    x = s.table("x", "n", "d")
    i = s.index("i", "n")
    top = reduce(s.b, [i], lambda q: q.index(x, i), Monoid.MAX)
    j = s.index("j", "d")
    program = s.done(reduce(s.b, [j], lambda q: q.index(top, j)))
    with pytest.raises(NotDifferentiableError, match="whole rows"):
        value_and_grad_program(program, [0])


def test_gradient_of_a_table_is_refused() -> None:
    with pytest.raises(DerivativeArgumentError, match="gives a table"):
        value_and_grad_program(matmul(), [0])


def test_gradient_with_respect_to_an_integer_is_refused() -> None:
    s = Sketch("scaled")
    x, k = s.scalar("x"), s.scalar("k", I64)
    program = s.done(s.b.prim(p.MUL, x, s.b.prim(p.CAST[F64], k)))
    with pytest.raises(DerivativeArgumentError, match="`k`"):
        value_and_grad_program(program, [1])


def test_stop_gradient_stops_it() -> None:
    s = Sketch("stopped")
    x = s.scalar("x")
    program = s.done(s.b.prim(p.MUL, x, s.b.prim(p.STOP_GRADIENT, x)))
    assert evaluate(value_and_grad_program(program, [0]), [3.0]) == (9.0, 3.0)


def test_unused_argument_has_a_gradient_of_zeros() -> None:
    s = Sketch("unused")
    x, _ = s.scalar("x"), s.table("y", "n")
    program = s.done(s.b.prim(p.MUL, x, x))
    found = evaluate(value_and_grad_program(program, [0, 1]), [3.0, np.ones(4)])
    np.testing.assert_array_equal(found[2], np.zeros(4))


def test_empty_loops_have_derivatives() -> None:
    gradient = value_and_grad_program(running_product(), [0, 1])
    value, ct_x0, ct_a = evaluate(gradient, [4.0, np.zeros(0)])
    assert (value, ct_x0, np.shape(ct_a)) == (4.0, 1.0, (0,))


def test_cond_with_inactive_side() -> None:
    """One side does not depend on the input: its tangent is zero."""
    s = Sketch("clip")
    x, (then, orelse) = s.scalar("x"), (s.b.nested(), s.b.nested())
    double = then.prim(p.MUL, num(2.0), x)
    pred = s.b.prim(p.LT, x, num(1.0))
    program = s.done(*s.b.emit(Cond(pred, then.block(double), orelse.block(num(2.0)))))
    gradient = value_and_grad_program(program, [0])
    assert evaluate(gradient, [0.5]) == (1.0, 2.0)
    assert evaluate(gradient, [3.0]) == (2.0, 0.0)


def test_fold_of_tables_carries_their_cotangents() -> None:
    """Steps y <- a * y elementwise, n times; d sum(y)/da = n a^(n-1) y0."""
    s = Sketch("powers")
    a, steps = s.table("a", "m"), s.table("steps", "n")
    i, j, k, r = s.index("i", "n"), s.index("j", "m"), s.index("k", "m"), s.index("r", "m")
    start = tabulate(s.b, [k], lambda q: num(1.0))
    carry = Var("y", a.type)
    body = s.b.nested()
    step = tabulate(body, [j], lambda q: q.prim(p.MUL, q.index(a, j), q.index(carry, j)))
    (y,) = s.b.emit(Fold(i, False, (carry,), (start,), body.block(step)))
    program = s.done(reduce(s.b, [r], lambda q: q.index(y, r)))
    found = evaluate(value_and_grad_program(program, [0]), [[2.0, 3.0], np.zeros(3)])
    assert found[0] == 8.0 + 27.0
    np.testing.assert_array_equal(found[1], [3 * 4.0, 3 * 9.0])
    assert steps in program.params
