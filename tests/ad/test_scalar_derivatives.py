"""Derivatives of the functions of numbers that are made of others, and at their kinks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import peffects as pe

FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[float, ...]]] = {
    "copysign": (lambda x, y: pe.copysign(x, y) * y, (1.3, -0.7)),
    "fmax": (lambda x, y: pe.fmax(x, y) ** 2, (1.3, -0.7)),
    "frexp": (lambda x: pe.frexp(x)[0] * x, (13.7,)),
    "modf": (lambda x: pe.modf(x)[0] ** 2 + pe.modf(x)[1], (-13.7,)),
    "ldexp": (lambda x: pe.ldexp(x * x, 3), (1.3,)),
    "remainder": (lambda x, y: math.remainder(x, y) * x, (7.3, 2.0)),
    "fmod": (lambda x, y: pe.fmod(x, y) * x, (-7.3, 2.2)),
    "sinc": (lambda x: pe.sinc(x), (0.7,)),
    "sinc near 0": (lambda x: pe.sinc(x), (1e-4,)),
    "softplus": (lambda x: pe.softplus(x), (0.3,)),
    "logaddexp2": (lambda x, y: np.logaddexp2(x, y), (0.3, 1.4)),
    "degrees": (lambda x: pe.degrees(x) ** 2, (0.3,)),
    "heaviside": (lambda x, h: pe.heaviside(x, h) + x * h, (0.3, 0.5)),
    "hypot of three": (lambda x, y: math.hypot(x, y, x * y), (0.3, 0.5)),
    "dist": (lambda x, y: math.dist((x, y), (y * y, x)), (0.3, 0.5)),
    "expit": (lambda x: pe.expit(x), (-0.4,)),
    "lgamma": (lambda x: pe.lgamma(x), (3.4,)),
    "gamma": (lambda x: pe.gamma(x), (3.4,)),
    "power 2.0": (lambda x: x**2.0 + x**-1.5 + x**0.5, (3.4,)),
    "floor division": (lambda x, y: x // y * x + x % y, (7.3, 2.0)),
    "nextafter": (lambda x: pe.nextafter(x, 10.0) ** 2, (3.4,)),
    "round": (lambda x: round(x, 1) * x, (3.42,)),
    "clip": (lambda x: np.clip(x, 0.0, 2.0) * x, (1.7,)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_equal_finite_differences_and_forward_mode(name: str) -> None:
    function, point = FUNCTIONS[name]
    pe.check_grads(function, point)


@pytest.mark.parametrize("name", ["sinc", "softplus", "expit", "lgamma", "gamma", "power 2.0"])
def test_second_derivatives_equal_finite_differences(name: str) -> None:
    function, point = FUNCTIONS[name]
    pe.check_grads(function, point, order=2)


def test_derivatives_at_special_points() -> None:
    assert pe.grad(lambda x: pe.sinc(x))(0.0) == 0.0
    assert pe.grad(pe.grad(lambda x: pe.sinc(x)))(0.0) == pytest.approx(-(math.pi**2) / 3)
    assert pe.grad(lambda x: pe.softplus(x))(0.0) == 0.5
    assert pe.grad(lambda x: pe.expit(x))(0.0) == 0.25
    assert pe.grad(lambda x: math.remainder(x, 2.0))(0.0) == 1.0
    assert pe.grad(lambda x: pe.modf(x)[0])(0.25) == 1.0
    assert pe.grad(lambda x: pe.hypot(x, 0.0))(0.0) == 0.0
    assert pe.grad(lambda x: pe.softplus(x))(-800.0) == 0.0
    assert pe.grad(lambda x: pe.sign(x) * x)(-3.0) == -1.0


def test_the_nearest_image_has_the_derivative_of_the_distance() -> None:
    """The minimum image of a periodic box: the rounding is constant almost everywhere."""

    @pe.kernel
    def energy(x: Any, box: float) -> Any:
        def pair(i: Any, j: Any) -> Any:
            d = x[i] - x[j]
            d = d - box * pe.rint(d / box)
            return d * d

        return pe.sum(pair)

    x = np.array([0.1, 0.9, 0.45])
    pe.check_grads(lambda x: energy(x, 1.0), (x,))


def test_where_nothing_is_possible_the_gradient_is_zero() -> None:
    nothing = np.array([-np.inf, -np.inf])
    np.testing.assert_array_equal(pe.grad(lambda x: pe.logsumexp(x))(nothing), [0.0, 0.0])
    some = np.array([-np.inf, 2.0])
    np.testing.assert_array_equal(pe.grad(lambda x: pe.logsumexp(x))(some), [0.0, 1.0])
    forward = pe.jvp(lambda x: pe.logsumexp(x), (nothing,), (np.ones(2),))
    assert forward == (-np.inf, 0.0)
    assert pe.grad(lambda x: pe.logaddexp(x, -math.inf))(-math.inf) == 0.0
