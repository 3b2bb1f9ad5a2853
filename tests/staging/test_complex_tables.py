"""Whole tables of complex numbers compute as numpy's arrays do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from complex_arrays import C, Z, both, close
from staged import check_refused, run

import peffects as pe
from peffects.errors import KernelTypeError


def test_whole_complex_tables_compute_as_numpy_s_arrays() -> None:
    def f(c: Any, x: Any) -> Any:
        return (
            c * 2j + x, np.exp(c[0]), c.T, c[:, ::-1], np.sum(c, axis=0), c.sum(), np.conj(c),
            np.real(c), np.angle(c[1]), (c * c).reshape(3, 2), abs(c - 1.0),
            np.where(x > 1.0, c, 0),
        )  # fmt: skip

    x = np.array([1.0, 2.0, 3.0])
    for value, expected in zip(both(f, C, x), f(C, x), strict=True):
        close(value, expected)


@pytest.mark.parametrize(
    "function, words",
    [
        (lambda z: np.sort(z), "np.sort"),  # here
        (lambda z: np.median(z), "real numbers is needed"),  # here
        (lambda z: z.max(), "real numbers is needed"),  # here
        (lambda z: max(z), "real numbers is needed"),  # here
        (lambda z: z.tolist(), "complex tables in kernels do not have it"),  # here
        (lambda z: z.astype(float), "converted to float64"),  # here
    ],
)
def test_what_complex_tables_do_not_have_is_refused(
    function: Callable[..., Any], words: str
) -> None:
    check_refused(KernelTypeError, function, (Z,), words)


def test_products_of_whole_complex_tables_are_numpy_s() -> None:
    def f(c: Any, z: Any, x: Any) -> Any:
        return (
            c @ c.T, c @ x, x @ c.T, c.T @ z[:2], z @ z, z.dot(z), np.vdot(z, z), np.inner(c, c),
            np.outer(z, x), np.outer(x, z), np.einsum("ij,kj->ik", c, c), np.tensordot(c, x, 1),
            np.matmul(c, c.T), np.vdot(x, x * 1j),
        )  # fmt: skip

    x = np.array([1.0, 2.0, 3.0])
    for value, expected in zip(both(f, C, Z, x, rtol=1e-13), f(C, Z, x), strict=True):
        close(value, expected)


@pytest.mark.parametrize("rows, inner, columns", [(0, 3, 2), (3, 0, 2), (37, 41, 43)])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_matrix_products_of_all_sizes(
    rows: int, inner: int, columns: int, dtype: str
) -> None:
    rng = np.random.default_rng(0)
    a, b = ((rng.normal(size=s) + 1j * rng.normal(size=s)).astype(dtype)
            for s in ((rows, inner), (inner, columns)))  # fmt: skip
    found = pe.kernel(lambda a, b: a @ b)(a, b)
    assert found.dtype == a.dtype
    np.testing.assert_allclose(found, a @ b, rtol=1e-4 if dtype == "complex64" else 1e-11)


def test_derivatives_of_complex_matrix_products() -> None:
    pe.check_grads(lambda c, z: np.sum(abs(c @ z) ** 2), (C, Z[:3]))


def test_complex_tables_are_joined_made_and_summed_up_as_numpy_s() -> None:
    def f(c: Any, x: Any) -> Any:
        z = c[0]
        return (
            np.concatenate([z, x]), np.concatenate([x, z]), np.stack([z, x]), np.vstack([c, c]),
            np.hstack([z, z]), np.column_stack([x, z]), np.zeros_like(c), np.ones_like(z),
            np.full_like(z, 2 - 1j), np.zeros(3, dtype=complex), np.ones((2, 2), complex),
            np.full(2, 1j), np.full(2, 1.0, np.complex64), x.astype(complex),
            z.astype(np.complex64), np.array(x, dtype=complex), z.var(), c.std(axis=1), c.any(),
            (c == 0).all(axis=0), np.all(c), np.count_nonzero(c, axis=1), x.conj() * 1.0,
            x.real + x.imag, c.mean(axis=0), c.ravel(), c.flatten(), c.copy(),
        )  # fmt: skip

    x = np.array([1.0, 2.0, 3.0])
    for value, expected in zip(both(f, C, x), f(C, x), strict=True):
        close(value, expected)


def test_packed_tables_of_complex_numbers_are_refused() -> None:
    def f(n: int) -> Any:
        return pe.table(lambda i, j: 1j * j, over=pe.Upto(n))  # here

    with pytest.raises(KernelTypeError, match="packed table of complex numbers"):
        run(f, 3)
