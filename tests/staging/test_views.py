"""Views: `pe.view`, and that whole tables leave no temporaries in optimized programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from staged import check_refused as check
from staged import pe as basic
from staged import run, staged

import peffects as pe
from peffects.errors import (
    BoundsError,
    ControlFlowError,
    IndexSetMismatchError,
    KernelTypeError,
    SideEffectError,
    UnknownIndexSetError,
    ValueRangeError,
)
from peffects.ir.print import print_program
from peffects.optimize.pipeline import optimize

X, Y, A = np.arange(5.0), np.arange(5.0) ** 2, np.arange(12.0).reshape(3, 4)


def test_a_view_is_the_table() -> None:
    def f(x: Any, n: Any) -> Any:
        squares = pe.view(lambda i: x[i] ** 2)
        pairs = pe.view(lambda i, j: x[i] - squares[j])
        counted = pe.view(lambda i: i * 2, over=n)
        return squares, pairs[1, 1:], pairs.sum(axis=0), counted, squares[2], len(counted)

    squares, row, sums, counted, third, count = run(f, X, 3)
    np.testing.assert_array_equal(squares, X**2)
    np.testing.assert_array_equal(row, (1.0 - X**2)[1:])
    np.testing.assert_allclose(sums, (X[:, None] - X**2).sum(0))
    assert counted.tolist() == [0, 2, 4]
    assert (third, count) == (4.0, 3)


def test_a_view_has_the_structure_of_what_its_function_gives() -> None:
    def f(a: Any) -> Any:
        rows = pe.view(lambda i: {"row": a[i], "first": a[i, 0]})
        return rows["row"][1, 2], rows["first"]

    element, first = run(f, A)
    assert element == A[1, 2]
    np.testing.assert_array_equal(first, A[:, 0])


def test_a_view_is_not_stored() -> None:
    def f(x: Any) -> Any:
        e = pe.view(lambda i: pe.exp(x[i]))
        return pe.sum(e), pe.max(e)

    assert tables_in(f, X) == 0


def test_what_views_refuse() -> None:
    def f(x: Any) -> Any:
        total = basic.accumulator()

        def adding(i: Any) -> Any:
            nonlocal total
            return x[i]

        def body(i: Any) -> Any:
            total.combine((), x[i])
            return x[i]

        return pe.view(body)  # here

    check(SideEffectError, f, (X,), "the function given to `view` adds to `total`")

    def g() -> Any:
        return pe.view(lambda i: 2.0 * i)  # here

    check(UnknownIndexSetError, g, (), "nothing says which set `i` runs over")
    with pytest.raises(ControlFlowError, match="outside a kernel") as caught:
        pe.view(lambda i: X[i])  # here
    assert "# here" in caught.value.at.snippet()


# --- fusion --------------------------------------------------------------------------------------


def tables_in(function: Any, *args: Any) -> int:
    """How many tables the optimized program makes."""
    program = optimize(staged(function, *args).program)
    return sum("=>" in line or "= for" in line for line in print_program(program).splitlines()[1:])


def test_whole_tables_leave_no_temporaries() -> None:
    def sum_of_exp(x: Any) -> Any:
        return np.sum(np.exp(x - np.max(x)))

    def energy(x: Any) -> Any:
        return ((x[1:] - x[:-1]) ** 2).sum()

    def distance(a: Any, x: Any) -> Any:
        return np.sqrt(((a[:, 1:] * 2.0 - x[None, :3]) ** 2).mean())

    assert tables_in(sum_of_exp, X) == 0
    assert tables_in(energy, X) == 0
    assert tables_in(distance, A, X) == 0
    assert tables_in(lambda x, y: (x + y) * 2.0 - x / 3.0, X, Y) == 1  # the result


def test_derivatives_leave_no_temporaries() -> None:
    @pe.kernel
    def energy(x: Any) -> Any:
        return ((x[1:] - x[:-1]) ** 2).sum()

    optimized = pe.explain(pe.grad(energy), X).sections["optimized program"]
    assert optimized.count("for ") == 1
    assert "= for" not in optimized


# --- refusals ------------------------------------------------------------------------------------


def test_axes_that_do_not_go_along() -> None:
    def f(x: Any, y: Any) -> Any:
        return x + y  # here

    check(IndexSetMismatchError, f, (X, X[1:]), "axis 0 of `y` has length 4", "axis 0 of `x`", "5")
    check(IndexSetMismatchError, f, (X, X[:1]), "has length 1", "does not go along", "[:, None]")

    def g(x: Any) -> Any:
        return x[1:] + np.zeros(2)  # here

    check(IndexSetMismatchError, g, (X,), "has length 4, and goes along with", "of length 2")

    def h() -> Any:
        return np.zeros(3) + np.ones(4)  # here

    check(IndexSetMismatchError, h, (), "of length 4")


def test_subscripts_that_are_refused() -> None:
    def mask(x: Any) -> Any:
        return x[x > 1.0]  # here

    check(KernelTypeError, mask, (X,), "indexed with a mask", "np.where(mask, x, 0.0)")

    def floats(x: Any) -> Any:
        return x[x]  # here

    check(KernelTypeError, floats, (X,), "a table of f64", ".astype(int)")

    def step(x: Any, n: Any) -> Any:
        return x[::n]  # here

    check(KernelTypeError, step, (X, 2), "the step of a slice")

    def zero(x: Any) -> Any:
        return x[::0]  # here

    check(ValueRangeError, zero, (X,), "the step of a slice is 0")

    def bound(x: Any) -> Any:
        return x[: x[0]]  # here

    check(KernelTypeError, bound, (X,), "the bound of a slice is a f64")

    def many(x: Any) -> Any:
        return x[..., 0, 0]  # here

    check(KernelTypeError, many, (X,), "has 1 axes and is given 2 indices")

    def apart(a: Any, k: Any) -> Any:
        return np.stack([a, a])[k, :, k]  # here

    check(KernelTypeError, apart, (A, np.array([0])), "not side by side")


def test_gathers_and_columns_are_tested() -> None:
    def gather(x: Any, k: Any) -> Any:
        return np.sum(x[k] * 2.0)  # here

    check(BoundsError, gather, (X, np.array([0, 5])), "index 5 is out of bounds for axis 0 of `x`")
    check(BoundsError, gather, (X, np.array([-1])), "index -1 is out of bounds")

    def column(a: Any, k: Any) -> Any:
        return a[:, k]  # here

    check(BoundsError, column, (A, 4), "index 4 is out of bounds for axis 1 of `a` with size 4")

    def of_slice(x: Any, k: Any) -> Any:
        return x[1:][k]  # here

    check(BoundsError, of_slice, (X, 4), "index 4 is out of bounds", "with size 4")


def test_functions_that_kernels_do_not_have() -> None:
    def norm(x: Any) -> Any:
        return np.linalg.eigh(x)  # here

    check(KernelTypeError, norm, (A,), "kernels have no `np.linalg.eigh`", "before the kernel")

    def unique(x: Any) -> Any:
        return np.unique(x)  # here

    check(KernelTypeError, unique, (X,), "`np.unique`", "depends on values")

    def out(x: Any) -> Any:
        return np.sum(x, initial=1.0)  # here

    check(KernelTypeError, out, (X,), "`np.sum` in a kernel does not take", "initial")

    def into(x: Any) -> Any:
        return np.exp(x, where=x > 0)  # here

    check(KernelTypeError, into, (X,), "`np.exp` is given `where=`", "np.where")

    def method(x: Any) -> Any:
        return x.tolist()  # here

    check(KernelTypeError, method, (X,), "`.tolist`", "range(len(x))")

    def axis(x: Any) -> Any:
        return x.sum(axis=1)  # here

    check(KernelTypeError, axis, (X,), "no axis 1", "from -1 to 0")

    def empty(x: Any) -> Any:
        return x[5:].max()  # here

    check(ValueRangeError, empty, (X,), "`max` along axis 0", "empty")

    def reshaped(x: Any) -> Any:
        return x.reshape(2, -1)  # here

    check(ValueRangeError, reshaped, (X,), "has 5 elements, and the new shape 4")
