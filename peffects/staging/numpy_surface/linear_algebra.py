"""Small linear algebra, written as kernels: sequential loops over columns, parallel inside.

These functions are rewritten like a user's (`arrays/library.py`), so that they may be read as
examples.  Each step makes its matrix anew, so a factorization of an n by n matrix reads and writes
n**3 numbers; that is as much as it computes.  Their derivatives are those of the loops.

Sources: Golub and Van Loan, Matrix Computations, 4th edition, sections 3.1 (triangular systems),
3.4 (pivoting), 4.2 (Cholesky) and 5.2 (Householder).
"""

from __future__ import annotations

from typing import Any

from peffects.errors import SingularMatrixError
from peffects.staging.arrays.library import (
    as_floats,
    kernel_function,
    matrix,
    number_like,
    require,
    vector_or_matrix,
)
from peffects.staging.loops.ops import argmax, prod, sum, table, unchecked, where
from peffects.staging.numpy_surface import creation as numpy_creation
from peffects.staging.numpy_surface import norms
from peffects.staging.numpy_surface import products as numpy_products
from peffects.staging.numpy_surface import shapes as numpy_shapes
from peffects.staging.scalars import maths
from peffects.staging.scalars.whole_numbers import literal_whole

__all__ = [
    "cholesky", "det", "dot", "inv", "lu", "matmul", "matrix_power", "norm", "outer", "qr",
    "slogdet", "solve", "solve_triangular", "trace",
]  # fmt: skip

# --- products ------------------------------------------------------------------------------------


@kernel_function
def dot(a: Any, b: Any) -> Any:
    """The product of vectors, of a matrix and a vector, or of matrices, as `np.dot`."""
    return numpy_products.dot(a, b)


@kernel_function
def matmul(a: Any, b: Any) -> Any:
    """`a @ b`, also of stacks of matrices."""
    return numpy_products.matmul(a, b)


@kernel_function
def outer(a: Any, b: Any) -> Any:
    """The matrix of the products of each element of `a` with each of `b`."""
    return numpy_products.outer(a, b)


@kernel_function
def trace(a: Any) -> Any:
    """The sum of the diagonal of a matrix."""
    return numpy_products.trace_of(a)


@kernel_function
def matrix_power(a: Any, n: int = 2) -> Any:
    """The square matrix `a` to the power `n`, a literal number; negative powers are of `inv(a)`.

    Raises SingularMatrixError as `inv`.
    """
    m = matrix("matrix_power", a)
    n = literal_whole(n, "the power of a matrix", "Write the number: `matrix_power(a, 3)`.")
    return _power(inv(m), -n) if n < 0 else _power(m, n)


def _power(a: Any, n: int) -> Any:
    if n == 0:
        return numpy_creation.eye(len(a), dtype=a.dtype)
    half = a if n == 1 else _power(a, n // 2)
    square = a if n == 1 else numpy_products.matmul(half, half)
    return numpy_products.matmul(square, a) if n > 1 and n % 2 else square


@kernel_function
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The norm of a vector, of a matrix, or of the vectors along `axis`, as `np.linalg.norm`.

    `ord`: of vectors 2 (the default), 1, 0, inf, -inf; of matrices "fro" (the default), 1, inf.
    Its derivative where it is 0 is nan.
    """
    return norms.norm(x, ord, axis, keepdims)


# --- factorizations ------------------------------------------------------------------------------


@kernel_function
def cholesky(a: Any) -> Any:
    """The lower triangular L with `L @ L.T == a`, for a symmetric positive definite matrix.

    Reads the lower triangle only.  Raises SingularMatrixError if `a` is not positive definite.
    """
    reduced = as_floats(matrix("cholesky", a, square=True))
    for k in range(len(reduced)):
        pivot = reduced[k, k]
        require(
            pivot > 0.0,
            SingularMatrixError,
            "`cholesky` of a matrix that is not positive definite: pivot {1} is {0}.",
            pivot,
            int(k),
            fix="Give a symmetric matrix with positive eigenvalues; a small multiple of "
            "`np.eye(n)` added to it may help.",
        )
        reduced = _without_column(reduced, k, pivot)
    return numpy_shapes.tril(reduced)


def _without_column(old: Any, k: Any, pivot: Any) -> Any:
    """Column k becomes that of L; its square is taken from the columns after it."""
    root = maths.sqrt(pivot)

    def element(i: Any, j: Any) -> Any:
        column = where(i == k, root, old[i, k] / root)
        rest = old[i, j] - old[i, k] * old[j, k] / pivot
        return where(i < k, old[i, j], where(j == k, column, where(j < k, old[i, j], rest)))

    return table(element)


def _eliminated(a: Any) -> Any:
    """The factors of `a` in one matrix, the order of its rows, and the sign of that order.

    A pivot that is 0 is left: what is below it is 0, too.
    """
    packed = as_floats(a)
    order = table(lambda i: int(i), over=a)
    sign = 1.0
    for k in range(len(a)):
        p = _pivot(packed, k)
        order = _exchanged(order, k, p)
        packed = _eliminated_below(packed, k, p)
        sign = where(p == k, sign, -sign)
    return packed, order, sign


def _pivot(old: Any, k: Any) -> Any:
    """The row, from k on, whose element in column k is largest."""
    return argmax(lambda i: where(i >= k, abs(old[i, k]), -1.0))


def _source(i: Any, k: Any, p: Any) -> Any:
    """Where row i comes from when rows k and p are exchanged."""
    return where(i == k, p, where(i == p, int(k), int(i)))


def _exchanged(order: Any, k: Any, p: Any) -> Any:
    return table(lambda i: unchecked(order)[_source(i, k, p)], over=order)


def _eliminated_below(old: Any, k: Any, p: Any) -> Any:
    """Exchange rows k and p; subtract multiples of row k from those below, and keep the factors."""
    rows = unchecked(old)
    pivot = rows[p, k]
    divisor = where(pivot == 0.0, 1.0, pivot)

    def element(i: Any, j: Any) -> Any:
        row = _source(i, k, p)
        factor = rows[row, k] / divisor
        below = where(j == k, factor, rows[row, j] - factor * rows[p, j])
        return where((i > k) & (j >= k), below, rows[row, j])

    return table(element, over=old.index_sets)


@kernel_function
def lu(a: Any) -> Any:
    """`(order, l, u)` with `a[order] == l @ u`, by elimination with partial pivoting.

    l is lower triangular with ones on its diagonal, u upper triangular.
    """
    packed, order, _ = _eliminated(matrix("lu", a, square=True))
    one = number_like(packed, 1.0)
    lower = table(lambda i, j: where(i == j, one, where(j < i, packed[i, j], 0.0)))
    return order, lower, numpy_shapes.triu(packed)


@kernel_function
def qr(a: Any) -> Any:
    """`(q, r)` with `a == q @ r`: q has orthonormal columns, r is upper triangular.

    For an m by n matrix, q is m by min(m, n).  Reflections (Householder) with LAPACK's signs.
    Computes and stores O(m**2 min(m, n)).
    """
    r = as_floats(matrix("qr", a))
    q: Any = numpy_creation.eye(len(r), dtype=r.dtype)
    steps = min(r.shape[0], r.shape[1])
    for k in range(steps):
        v, scale = _reflection(r, k)
        q = _reflected(q.T, v, scale).T
        r = _reflected(r, v, scale)
    upper: Any = numpy_shapes.triu(r)
    return q[:, :steps], upper[:steps]


def _reflection(r: Any, k: Any) -> Any:
    """V and s so that `I - s v v.T` makes column k of r zero below its diagonal."""
    column = unchecked(r)
    at, head = int(k), column[int(k), int(k)]
    tail = sum(lambda i: where(i > k, column[i, at] ** 2, 0.0), over=r)
    length = maths.sqrt(head**2 + where(tail > 0.0, tail, 1.0))
    end = where(head > 0.0, -length, length)  # the sign that cancels nothing
    v = table(lambda i: where(i < k, 0.0, where(i == k, head - end, column[i, at])), over=r)
    squares = sum(lambda i: v[i] ** 2)
    return v, where(tail > 0.0, 2.0 / squares, 0.0)


def _reflected(m: Any, v: Any, scale: Any) -> Any:
    across = table(lambda j: sum(lambda i: v[i] * m[i, j]))
    return table(lambda i, j: m[i, j] - scale * v[i] * across[j])


# --- linear systems ------------------------------------------------------------------------------


def _substituted(a: Any, b: Any, lower: bool, unit_diagonal: bool) -> Any:
    """The x with `a @ x == b`, for a triangular a; b has columns."""
    x = as_floats(b)
    steps = range(len(a)) if lower else reversed(range(len(a)))
    for k in steps:
        x = _solved_row(a, x, k, lower, unit_diagonal)
    return x


def _solved_row(a: Any, old: Any, k: Any, lower: bool, unit_diagonal: bool) -> Any:
    """Row k of x is found; its part is taken from the rows that are open."""

    def element(i: Any, c: Any) -> Any:
        solved = old[k, c] if unit_diagonal else old[k, c] / a[k, k]
        is_open = i > k if lower else i < k
        return where(i == k, solved, where(is_open, old[i, c] - a[i, k] * solved, old[i, c]))

    return table(element)


def _check_pivots(operation: str, a: Any) -> None:
    """SingularMatrixError, when the kernel runs, if the diagonal has a zero."""
    zeros = sum(lambda k: where(a[k, k] == 0.0, 1, 0))
    require(
        zeros == 0,
        SingularMatrixError,
        f"`{operation}` of a singular matrix: {{0}} of its pivots are 0.",
        zeros,
        fix="Give a matrix with independent rows; least squares want `a.T @ a` and `a.T @ b`.",
    )


@kernel_function
def solve_triangular(a: Any, b: Any, lower: bool = False, unit_diagonal: bool = False) -> Any:
    """The x with `a @ x == b`, for an upper (or `lower`) triangular a; b is a vector or a matrix.

    The other triangle of `a` is not read, nor its diagonal if that is said to be 1.
    Raises SingularMatrixError if the diagonal has a zero.
    """
    m = as_floats(matrix("solve_triangular", a, square=True))
    columns = vector_or_matrix("solve_triangular", m, b)
    if not unit_diagonal:
        _check_pivots("solve_triangular", m)
    x = _substituted(m, columns, lower, unit_diagonal)
    return x[:, 0] if b.ndim == 1 else x


@kernel_function
def solve(a: Any, b: Any) -> Any:
    """The x with `a @ x == b`, for a square matrix a and a vector or matrix b.

    By elimination with partial pivoting.  Raises SingularMatrixError if a pivot is 0.
    """
    m = matrix("solve", a, square=True)
    columns = vector_or_matrix("solve", m, b)
    packed, order, _ = _eliminated(m)
    _check_pivots("solve", packed)
    shuffled = table(lambda i, c: unchecked(columns)[order[i], c])
    y = _substituted(packed, shuffled, lower=True, unit_diagonal=True)
    x = _substituted(packed, y, lower=False, unit_diagonal=False)
    return x[:, 0] if b.ndim == 1 else x


@kernel_function
def inv(a: Any) -> Any:
    """The inverse of a square matrix.  Raises SingularMatrixError if a pivot is 0."""
    m = matrix("inv", a, square=True)
    packed, order, _ = _eliminated(m)
    _check_pivots("inv", packed)
    one = number_like(packed, 1.0)
    unit = table(lambda i, j: where(order[i] == j, one, 0.0), over=(m, m))
    y = _substituted(packed, unit, lower=True, unit_diagonal=True)
    return _substituted(packed, y, lower=False, unit_diagonal=False)


@kernel_function
def det(a: Any) -> Any:
    """The determinant of a square matrix; 1 if it is empty."""
    packed, _, sign = _eliminated(matrix("det", a, square=True))
    return sign * prod(lambda k: packed[k, k])


@kernel_function
def slogdet(a: Any) -> Any:
    """The sign of the determinant, and the logarithm of its absolute value (-inf if it is 0)."""
    packed, _, sign = _eliminated(matrix("slogdet", a, square=True))
    signs = prod(lambda k: maths.sign(packed[k, k]))
    return sign * signs, sum(lambda k: maths.log(abs(packed[k, k])))
