"""The derivative API on kernels: values, structures, refusals."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.errors import (
    DerivativeArgumentError,
    GradientMismatchError,
    IndexSetMismatchError,
    LinearityError,
    NotDifferentiableError,
    UnboundedTableError,
    UnsupportedSyntaxError,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=5)
A, B = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 2))


@pe.kernel
def dot(x: Any, y: Any) -> Any:
    return pe.sum(lambda i: x[i] * y[i])


@pe.kernel
def matmul(a: Any, b: Any) -> Any:
    return pe.table(lambda i, j: pe.sum(lambda k: a[i, k] * b[k, j]))


@pe.kernel
def cube(x: Any) -> Any:
    return x * x * x


def test_gradient_of_a_dot_product() -> None:
    np.testing.assert_array_equal(pe.grad(dot)(X, 2 * X), 2 * X)
    np.testing.assert_array_equal(pe.grad(dot, 1)(X, 2 * X), X)
    np.testing.assert_array_equal(pe.grad(dot, -1)(X, 2 * X), X)


def test_a_tuple_of_argnums_gives_a_tuple() -> None:
    left, right = pe.grad(dot, (0, 1))(X, 2 * X)
    np.testing.assert_array_equal(left, 2 * X)
    np.testing.assert_array_equal(right, X)


def test_value_and_gradient() -> None:
    value, gradient = pe.value_and_grad(dot)(X, X)
    assert value == pytest.approx(X @ X, rel=1e-14)
    np.testing.assert_array_equal(gradient, X)


def test_gradients_of_numbers_nest() -> None:
    assert pe.grad(cube)(2.0) == 12.0
    assert pe.grad(pe.grad(cube))(2.0) == 12.0
    assert pe.grad(pe.grad(pe.grad(cube)))(2.0) == 6.0


def test_a_plain_function_will_do() -> None:
    assert pe.grad(lambda x: x * x + x)(3.0) == 7.0


def test_aux_is_passed_through() -> None:
    def loss(x: Any) -> Any:
        return pe.sum(lambda i: x[i] ** 2), {"first": x[0]}

    (value, aux), gradient = pe.value_and_grad(loss, has_aux=True)(X)
    assert value == pytest.approx(X @ X)
    assert aux == {"first": X[0]}
    np.testing.assert_array_equal(gradient, 2 * X)


@dataclass
class Layer:
    weight: Any
    bias: Any


def test_gradients_have_the_structure_of_their_argument() -> None:
    def loss(layers: Any, x: Any) -> Any:
        first = layers["hidden"]
        y = pe.table(lambda i: first.bias[i] + pe.sum(lambda j: first.weight[i, j] * x[j]))
        return pe.sum(lambda i: y[i] * layers["out"][i])

    layer = Layer(RNG.normal(size=(2, 5)), RNG.normal(size=2))
    out = RNG.normal(size=2)
    gradient = pe.grad(loss)({"hidden": layer, "out": out}, X)
    assert isinstance(gradient["hidden"], Layer)
    np.testing.assert_allclose(gradient["hidden"].weight, np.outer(out, X), rtol=1e-14)
    np.testing.assert_array_equal(gradient["hidden"].bias, out)
    np.testing.assert_allclose(gradient["out"], layer.weight @ X + layer.bias, rtol=1e-14)


def test_forward_mode() -> None:
    value, tangent = pe.jvp(matmul, (A, B), (np.ones_like(A), np.zeros_like(B)))
    np.testing.assert_allclose(value, A @ B, rtol=1e-14)
    np.testing.assert_allclose(tangent, np.ones_like(A) @ B, rtol=1e-14)


def test_reverse_mode() -> None:
    value, pullback = pe.vjp(matmul, A, B)
    np.testing.assert_allclose(value, A @ B, rtol=1e-14)
    ct = RNG.normal(size=value.shape)
    ct_a, ct_b = pullback(ct)
    np.testing.assert_allclose(ct_a, ct @ B.T, rtol=1e-13)
    np.testing.assert_allclose(ct_b, A.T @ ct, rtol=1e-13)


def test_a_pullback_keeps_its_arguments() -> None:
    """Warp 1350: x^2 recorded at x = 3, x set to 5 before the backward pass: 6, not 10."""
    x = np.array([3.0])
    _, pullback = pe.vjp(lambda x: pe.table(lambda i: x[i] * x[i]), x)
    x[0] = 5.0
    assert pullback(np.array([1.0]))[0] == [6.0]


def test_integers_have_no_cotangent() -> None:
    def scaled(x: Any, n: Any) -> Any:
        return x * n

    value, pullback = pe.vjp(scaled, 1.5, 4)
    assert value == 6.0
    assert pullback(1.0) == (4.0, None)


def test_linearize() -> None:
    value, derivative = pe.linearize(cube, 2.0)
    assert value == 8.0
    assert derivative(1.0) == 12.0
    assert derivative(0.5) == 6.0


def test_transpose_of_a_linear_function() -> None:
    weights = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

    def apply(x: Any) -> Any:
        return pe.table(lambda i: pe.sum(lambda j: weights[i, j] * x[j]))

    transposed = pe.transpose(apply, np.zeros(2))
    np.testing.assert_array_equal(transposed(np.array([1.0, 0.0, 2.0])), [11.0, 14.0])


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x * 2.0, 2.0),
        (lambda x: x + (x + x) * 2.0, 5.0),
        (lambda x: -x / 4.0, -0.25),
    ],
)
def test_transposes_of_scalings(function: Any, expected: float) -> None:
    assert pe.transpose(function, 0.0)(1.0) == expected


def test_transpose_of_several_arguments_and_results() -> None:
    assert pe.transpose(lambda x: (x, x * 2.0), 0.0)((1.0, 3.0)) == 7.0
    assert pe.transpose(lambda x, y: x + y * 2.0, 0.0, 0.0)(1.0) == (1.0, 2.0)


def test_a_product_is_not_linear() -> None:
    def product(x: Any, y: Any) -> Any:
        return x * y

    with pytest.raises(LinearityError, match="spent twice") as info:
        pe.transpose(product, 1.0, 2.0)(1.0)
    assert info.value.at.snippet() == "return x * y"


def test_hessian_vector_product() -> None:
    """For f = exp(sum x^2 / 2): H v = f (v + x (x . v))."""

    def f(x: Any) -> Any:
        return pe.exp(0.5 * pe.sum(lambda i: x[i] * x[i]))

    x, v = np.array([0.1, 0.2, 0.3]), np.array([0.2, 0.3, 0.4])
    expected = np.exp(0.5 * x @ x) * (v + x * (x @ v))
    np.testing.assert_allclose(pe.hvp(f, (x,), (v,)), expected, rtol=1e-13)
    np.testing.assert_allclose(expected, [0.235952, 0.364653, 0.493354], rtol=2e-6)


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([2.0, 3.0, 4.0], [7.0, 6.0, 5.0]),
        ([0.0, 3.0, 4.0], [7.0, 4.0, 3.0]),
        ([0.0, 0.0, 4.0], [4.0, 4.0, 0.0]),
        ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
    ],
)
def test_second_derivative_of_a_product(x: list[float], expected: list[float]) -> None:
    """Whatever is zero: H v with v = 1 sums the products of all but two factors."""

    def product(x: Any) -> Any:
        return pe.prod(lambda i: x[i])

    np.testing.assert_allclose(pe.hvp(product, (np.array(x),), (np.ones(3),)), expected)


def test_gradient_of_a_triangular_loop() -> None:
    """What the inner loop saves has another size in each round: it is computed again."""

    def squared(x: Any, n: Any) -> Any:
        s = x
        for t in range(n):
            for _ in range(t):
                s = s * s
        return s

    assert pe.grad(squared)(1.01, 4) == pytest.approx(64 * 1.01**63, rel=1e-13)

    def tabulated(x: Any, n: Any) -> Any:
        s = x
        for t in range(n):
            v = pe.table(lambda j: x * j, over=t + 1)
            s = s * pe.sum(lambda j, v=v, s=s: v[j] * s)
        return s

    pe.check_grads(tabulated, (1.01, 3))


def test_two_arguments_of_other_sizes_compile_nothing() -> None:
    gradient = pe.grad(dot)
    gradient(X, X)
    before = repr(gradient)
    np.testing.assert_array_equal(gradient(np.ones(9), np.ones(9)), np.ones(9))
    assert repr(gradient) == before


def test_repr_names_the_derivative() -> None:
    assert repr(pe.grad(dot)) == "<kernel grad(dot, argnums=0), 0 specializations>"
    assert "<kernel grad(grad(dot, argnums=0), argnums=1), " in repr(pe.grad(pe.grad(dot), 1))
    both = pe.value_and_grad(functools.partial(dot, X), (0,), has_aux=True)
    assert "value_and_grad(dot, argnums=(0,), has_aux=True)" in repr(both)


def test_float32_stays_float32() -> None:
    x = X.astype(np.float32)
    gradient = pe.grad(lambda x: pe.sum(lambda i: x[i] * x[i]))(x)
    assert gradient.dtype == np.float32
    np.testing.assert_array_equal(gradient, 2 * x)


def test_check_grads_accepts_what_is_right() -> None:
    pe.check_grads(matmul, (A, B))
    pe.check_grads(lambda x: pe.sum(lambda i: pe.sin(x[i]) * x[i]), (X,), order=2)


def test_check_grads_finds_a_kink() -> None:
    with pytest.raises(GradientMismatchError, match="central differences"):
        pe.check_grads(lambda x: x if x > 0.0 else 0.0, (0.0,))


# --- refusals -------------------------------------------------------------------------------------


def test_the_gradient_of_an_array_is_refused() -> None:
    with pytest.raises(DerivativeArgumentError, match="gives a table"):
        pe.grad(matmul)(A, B)


@pytest.mark.parametrize(
    "function",
    [lambda x: (x[0], x[1]), lambda x: [x[0]], lambda x: {"q": x[0]}, lambda x: None],
)
def test_the_gradient_of_more_or_less_than_a_number_is_refused(function: Any) -> None:
    with pytest.raises(DerivativeArgumentError, match="does not give one number"):
        pe.grad(function)(X)


@pytest.mark.parametrize("function", [lambda x: x[0], lambda x: (x[0], x[1], x[2])])
def test_aux_wants_a_pair(function: Any) -> None:
    with pytest.raises(DerivativeArgumentError, match="a pair of one number"):
        pe.value_and_grad(function, has_aux=True)(X)


def test_the_gradient_of_an_integer_is_refused() -> None:
    with pytest.raises(DerivativeArgumentError, match="holds no floats"):
        pe.grad(lambda n: n * 1.0)(3)


@pytest.mark.parametrize("argnums", ["x", None, (), 1.5, True, (0, 0), (0, "x")])
def test_what_names_no_arguments_is_refused_at_once(argnums: Any) -> None:
    for derive in (pe.grad, pe.value_and_grad):
        with pytest.raises(DerivativeArgumentError, match="names no arguments") as caught:
            derive(dot, argnums)
        assert "test_api.py" in caught.value.at.file


def test_a_list_of_argnums_is_a_tuple() -> None:
    (gradient,) = pe.grad(dot, [0])(X, X)  # type: ignore[call-overload]
    np.testing.assert_array_equal(gradient, X)


def test_messages_about_linearity_show_what_the_user_wrote() -> None:
    @pe.kernel
    def shifted(x: Any, by: Any) -> Any:
        return pe.table(lambda i: x[i] + by)

    by = 1.5
    with pytest.raises(LinearityError, match=r"mixes a linear value with `by`, which is not"):
        pe.transpose(lambda x: shifted(x, by), X)(X)
    with pytest.raises(LinearityError, match=r"mixes a linear value with 3\.0, which is not"):
        pe.transpose(lambda x: pe.table(lambda i: x[i] + 3.0), X)(X)


def test_rounds_without_bound_inside_a_parallel_loop_are_refused_with_what_to_do() -> None:
    @pe.kernel
    def squared(x: Any) -> Any:
        def above(i: Any) -> Any:
            s = x[i]
            while s < 1000.0:
                s = s * s
            return s

        return pe.sum(above)

    x = np.array([2.0, 3.0])
    assert squared(x) == 2.0**16 + 3.0**8
    with pytest.raises(UnboundedTableError, match=r"for _ in range\(n\)") as caught:
        pe.grad(squared)(x)
    assert "test_api.py" in caught.value.at.file


def test_argnums_out_of_range_are_refused() -> None:
    with pytest.raises(DerivativeArgumentError, match="argnums=2"):
        pe.grad(dot, 2)(X, X)


def test_a_value_in_place_of_a_function_is_refused() -> None:
    with pytest.raises(DerivativeArgumentError, match="which is no function"):
        pe.grad(3.0)  # type: ignore[call-overload]


def test_a_cotangent_of_another_structure_is_refused() -> None:
    _, pullback = pe.vjp(matmul, A, B)
    with pytest.raises(DerivativeArgumentError, match="another structure"):
        pullback((np.ones((3, 2)), 1.0))
    with pytest.raises(DerivativeArgumentError, match="has 1 axes"):
        pullback(np.ones(3))
    with pytest.raises(IndexSetMismatchError):
        pullback(np.ones((2, 3)))


def test_tangents_of_another_structure_are_refused() -> None:
    with pytest.raises(DerivativeArgumentError, match="another structure"):
        pe.jvp(dot, (X, X), (X,))
    with pytest.raises(DerivativeArgumentError, match="not a tuple"):
        pe.jvp(cube, 2.0, 1.0)  # type: ignore[arg-type]


def test_a_while_loop_has_the_derivative_of_its_rounds() -> None:
    def grow(x: Any) -> Any:
        while x < 100.0:
            x = x * 2.0
        return x

    assert pe.grad(grow)(3.0) == 64.0
    assert pe.grad(grow)(300.0) == 1.0


def test_a_derivative_inside_a_kernel_is_refused() -> None:
    @pe.kernel
    def step(x: Any) -> Any:
        return x - pe.grad(cube)(x)

    with pytest.raises(UnsupportedSyntaxError, match="inside a kernel"):
        step(1.0)


def test_order_two_needs_one_float() -> None:
    with pytest.raises(DerivativeArgumentError, match="order 2"):
        pe.check_grads(matmul, (A, B), order=2)


def test_piecewise_constant_functions_have_the_derivative_zero() -> None:
    for steps in (pe.floor, pe.ceil, pe.trunc, pe.rint, lambda x: x // 0.7):
        assert pe.grad(lambda x, steps=steps: x * x - steps(x))(1.3) == 2.6


def test_third_derivatives_of_lgamma_are_refused() -> None:
    with pytest.raises(NotDifferentiableError, match=r"`trigamma\(pe.stop_gradient\(x\)\)`"):
        pe.grad(pe.grad(pe.grad(lambda x: pe.lgamma(x))))(1.5)


def test_cotangents_of_results_with_computed_sizes_are_tested_when_they_run() -> None:
    @pe.kernel
    def differences(x: Any) -> Any:
        return pe.table(lambda i: x[i + 1] - x[int(i)], over=len(x) - 1)

    _, pullback = pe.vjp(differences, np.array([1.0, 4.0, 9.0, 16.0]))
    np.testing.assert_array_equal(pullback(np.array([1.0, 2.0, 4.0]))[0], [-1.0, -1.0, -2.0, 4.0])
    with pytest.raises(IndexSetMismatchError, match="has length 2, that of the result 3"):
        pullback(np.ones(2))
