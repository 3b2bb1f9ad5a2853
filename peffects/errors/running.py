"""What happens while compiled code runs: PE4xx.

The page of each, which `python -m peffects explain CODE` prints, is in `docs/errors`.
"""

from __future__ import annotations

from numpy.linalg import LinAlgError

from peffects.errors.base import PeffectsError


class BoundsError(PeffectsError, IndexError):
    """An index lies outside the index set of the table that it is used on.

    Wrong, for a table x of 10 numbers:

        pe.table(lambda i: x[i + 1], over=10)          # i + 1 reaches 10

    Right: `over=9`, or a clamped index `x[min(i + 1, 9)]`.  The message has the index, the size and
    the iteration; `pe.unchecked(x)[i]` leaves the test out where you know better.
    """

    code = "PE401"


class DivisionError(PeffectsError, ZeroDivisionError):
    """An integer was divided by zero.

    Wrong:

        pe.table(lambda i: n[i] // d[i])               # some d[i] is 0

    Right: `n[i] // d[i] if d[i] != 0 else 0`.  Floats follow IEEE 754 and give inf or nan instead.
    """

    code = "PE403"


class ValueRangeError(PeffectsError, ValueError):
    """A number is outside the range that its use allows.

    Wrong:

        pe.set_threads(0)
        kernel(np.int8, 300)                           # 300 is no int8

    Right: a number in the range that the message tells.
    """

    code = "PE404"


class LaunchTimeoutError(PeffectsError, TimeoutError):
    """A compiled loop ran longer than `timeout_s` allows; it was stopped and has no result.

    Wrong:

        with launch_options(timeout_s=1.0):
            simulate(steps=10**9)                      # takes minutes

    Right: a longer `timeout_s`, or less work.
    """

    code = "PE405"


class AllocationError(PeffectsError, MemoryError):
    """A table that a kernel needs cannot be allocated: too large, or of negative size.

    Wrong, for 10**6 points x:

        pe.table(lambda i, j: abs(x[i] - x[j]))        # 8 TB

    Right: reduce where you make it, `pe.table(lambda i: pe.sum(lambda j: abs(x[i] - x[j])))`, or
    work on parts.
    """

    code = "PE406"


class NotANumberError(PeffectsError, ArithmeticError):
    """A debugging run that looks for nan, `kernel.debug(..., nan=True)`, met one.

    Wrong: `pe.log(x[i])` where some x[i] is negative.
    Right: a value in the domain of the function, `pe.log(max(x[i], 1e-300))`; or `pe.where` after
    it, if the nan is meant.
    """

    code = "PE407"


class OutArgumentError(PeffectsError, ValueError):
    """What is given as `out=` does not fit the result of the kernel.

    Wrong, for a kernel that gives 10 doubles:

        kernel(x, out=np.empty(9))
        kernel(x, out=np.empty(10, np.float32))

    Right: an array, or a tuple or dict of arrays, like the result: `out=np.empty(10)`.
    """

    code = "PE408"


class CheckFailedError(PeffectsError, AssertionError):
    """A condition that a kernel checks, by `pe.check` or `assert`, does not hold.

    Wrong, where some x[i] is negative:

        def root(i):
            pe.check(x[i] >= 0.0, f"x is {x[i]:.3f}")
            return pe.sqrt(x[i])

    Right: values for which it holds; or say what else to do: `if x[i] >= 0.0: ... else: ...`.
    """

    code = "PE409"


class SingularMatrixError(PeffectsError, LinAlgError):
    """A matrix has no inverse, or is not positive definite where it must be.

    Wrong:

        pe.linalg.solve(np.ones((2, 2)), np.ones(2))   # two equal rows
        pe.linalg.cholesky(-np.eye(2))

    Right: a matrix with independent rows; for `cholesky` a symmetric one with positive eigenvalues,
    such as `a @ a.T + 1e-9 * np.eye(n)`.
    """

    code = "PE410"
