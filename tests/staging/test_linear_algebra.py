"""Small linear algebra: against numpy, in kernels and their loops, its errors, its derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from staged import check_refused as check
from staged import run

import peffects as pe
from peffects import linalg
from peffects.errors import IndexSetMismatchError, KernelTypeError, SingularMatrixError

RNG = np.random.default_rng(3)


def square(n: int) -> Any:
    return RNG.normal(size=(n, n))


def positive(n: int) -> Any:
    a = square(n)
    return a @ a.T + np.eye(n)


def assert_close(found: Any, expected: Any, tolerance: float = 1e-10) -> None:
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


# --- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_systems_are_solved(n: int) -> None:
    a, b, c = square(n), RNG.normal(size=n), RNG.normal(size=(n, 3))
    assert_close(run(linalg.solve, a, b), np.linalg.solve(a, b))
    assert_close(run(linalg.solve, a, c), np.linalg.solve(a, c))
    assert_close(run(linalg.inv, a), np.linalg.inv(a))
    upper, lower = np.triu(a) + 3 * np.eye(n), np.tril(a) + 3 * np.eye(n)
    assert_close(run(linalg.solve_triangular, upper + np.tril(a, -1), b), np.linalg.solve(upper, b))
    found = run(lambda a, b: linalg.solve_triangular(a, b, lower=True), lower, b)
    assert_close(found, np.linalg.solve(lower, b))
    unit = np.tril(a, -1) + np.eye(n)
    found = run(lambda a, b: linalg.solve_triangular(a, b, lower=True, unit_diagonal=True), a, c)
    assert_close(found, np.linalg.solve(unit, c))


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_factors_are_factors(n: int) -> None:
    a, p = square(n), positive(n)
    assert_close(run(linalg.cholesky, p), np.linalg.cholesky(p))
    order, lower, upper = run(linalg.lu, a)
    assert_close(lower @ upper, a[order])
    assert_close(lower, np.tril(lower, -1) + np.eye(n))
    assert_close(upper, np.triu(upper))
    assert_close(run(linalg.det, a), np.linalg.det(a))
    for mine, theirs in zip(run(linalg.slogdet, a), np.linalg.slogdet(a), strict=True):
        assert_close(mine, theirs)


@pytest.mark.parametrize("shape", [(4, 4), (5, 2), (2, 5), (1, 1), (0, 2)], ids=str)
def test_orthogonal_factors_are_numpy_s(shape: tuple[int, int]) -> None:
    a = RNG.normal(size=shape)
    for mine, theirs in zip(run(linalg.qr, a), np.linalg.qr(a), strict=True):
        assert_close(mine, theirs)
    q, r = run(linalg.qr, np.zeros((3, 2)))
    assert_close(q, np.eye(3, 2))
    assert_close(r, np.zeros((2, 2)))


def test_pivots_are_chosen() -> None:
    a = np.array([[1e-20, 1.0], [1.0, 1.0]])
    assert_close(run(linalg.solve, a, np.array([1.0, 2.0])), [1.0, 1.0])
    assert_close(run(linalg.solve, np.array([[0, 1], [2, 0]]), np.array([3, 4])), [2.0, 3.0])


def test_singular_matrices_have_determinants() -> None:
    a = np.array([[1.0, 2.0], [2.0, 4.0]])
    assert run(linalg.det, a) == 0.0
    assert run(linalg.slogdet, a) == (0.0, -np.inf)


def test_norms_are_numpy_s() -> None:
    def norms(a: Any, v: Any) -> Any:
        of_matrix = [np.linalg.norm(a, order) for order in (None, "fro", 1, np.inf)]
        of_vector = [np.linalg.norm(v, order) for order in (None, 2, 1, 0, np.inf, -np.inf)]
        return of_matrix, of_vector, [np.linalg.norm(a, p, axis=1) for p in (2, 1, np.inf)]

    a, v = square(3), RNG.normal(size=3)
    for mine, theirs in zip(run(norms, a, v), norms(a, v), strict=True):
        for x, y in zip(mine, theirs, strict=True):
            assert_close(x, y)


def test_products_and_powers_are_numpy_s() -> None:
    a, b, v = square(3), square(3), RNG.normal(size=3)
    found = run(
        lambda a, b, v: (
            linalg.dot(a, v),
            linalg.matmul(a, b),
            linalg.outer(v, v),
            linalg.trace(a),
        ),
        a,
        b,
        v,
    )
    for mine, theirs in zip(found, (a @ v, a @ b, np.outer(v, v), np.trace(a)), strict=True):
        assert_close(mine, theirs)
    found = run(lambda a: [np.linalg.matrix_power(a, n) for n in (0, 1, 2, 5, -2)], a)
    for mine, n in zip(found, (0, 1, 2, 5, -2), strict=True):
        assert_close(mine, np.linalg.matrix_power(a, n), 1e-8)


def test_outside_kernels_they_are_kernels() -> None:
    a, v = square(3), RNG.normal(size=3)
    assert_close(pe.linalg.norm(a, 1, axis=1), np.linalg.norm(a, 1, axis=1))
    assert_close(pe.linalg.solve(a, v), np.linalg.solve(a, v))


def test_types_stay() -> None:
    a = positive(3).astype(np.float32)
    for function in (linalg.cholesky, linalg.inv, linalg.det):
        assert np.asarray(run(function, a)).dtype == np.float32
    assert all(part.dtype == np.float32 for part in run(linalg.qr, a))
    assert run(linalg.inv, np.eye(2, dtype=int)).dtype == np.float64


def test_loops_solve_small_systems() -> None:
    a, b = np.stack([positive(3) for _ in range(5)]), RNG.normal(size=(5, 3))

    @pe.kernel
    def each(a: Any, b: Any) -> Any:
        solved = pe.table(lambda i: pe.linalg.solve(a[i], b[i]))
        return (
            solved,
            pe.table(lambda i: np.linalg.cholesky(a[i])),
            pe.sum(lambda i: linalg.det(a[i])),
        )

    solved, factors, total = each(a, b)
    assert_close(solved, np.linalg.solve(a, b[..., None])[..., 0])
    assert_close(factors, np.linalg.cholesky(a))
    assert_close(total, np.linalg.det(a).sum())


# --- errors --------------------------------------------------------------------------------------


def test_singular_matrices_are_refused() -> None:
    def solve(a: Any) -> Any:
        return np.linalg.solve(a, a[0])  # here

    check(
        SingularMatrixError, solve, (np.ones((2, 2)),), "`solve` of a singular matrix", "1 of its"
    )

    def inv(a: Any) -> Any:
        return pe.linalg.inv(a)  # here

    check(SingularMatrixError, inv, (np.zeros((2, 2)),), "`inv` of a singular matrix: 2 of its")

    def triangular(a: Any) -> Any:
        return pe.linalg.solve_triangular(a, a[0])  # here

    check(SingularMatrixError, triangular, (np.diag([1.0, 0.0]),), "singular")

    def cholesky(a: Any) -> Any:
        return pe.linalg.cholesky(a)  # here

    a = np.diag([1.0, -2.0, 1.0])
    check(SingularMatrixError, cholesky, (a,), "not positive definite: pivot 1 is -2.0")
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        linalg.inv(np.zeros((2, 2)))


def test_shapes_are_checked() -> None:
    def solve(a: Any, b: Any) -> Any:
        return pe.linalg.solve(a, b)  # here

    check(IndexSetMismatchError, solve, (np.ones((2, 3)), np.ones(2)), "axis 1 of `a` has length 3")
    check(IndexSetMismatchError, solve, (np.eye(2), np.ones(3)), "axis 0 of `b` has length 3")
    check(KernelTypeError, solve, (np.ones((2, 2, 2)), np.ones(2)), "takes one matrix", "pe.table")
    check(KernelTypeError, solve, (np.eye(2), np.ones((2, 2, 2))), "vector or a matrix")

    def norm(a: Any) -> Any:
        return np.linalg.norm(a, 2)  # here

    check(KernelTypeError, norm, (np.eye(2),), "no `ord=2`", "'fro'")

    def power(a: Any) -> Any:
        return np.linalg.svd(a)  # here

    check(KernelTypeError, power, (np.eye(2),), "no `np.linalg.svd`", "`qr`")


# --- derivatives ---------------------------------------------------------------------------------

W = RNG.normal(size=(3, 3))
LOSSES: dict[str, Any] = {
    "cholesky": lambda a: np.sum(linalg.cholesky(a @ a.T + np.eye(3)) * W),
    "solve": lambda a: np.sum(linalg.solve(a + 4.0 * np.eye(3), W) ** 2),
    "slogdet": lambda a: linalg.slogdet(a)[1],
    "qr": lambda a: np.sum(linalg.qr(a)[0] * W) + np.sum(linalg.qr(a)[1] * W),
    "norm": lambda a: linalg.norm(a) + np.sum(linalg.norm(a, 1, axis=0) ** 2),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
def test_derivatives_agree_with_finite_differences(name: str) -> None:
    pe.check_grads(pe.kernel(LOSSES[name]), (square(3),))
