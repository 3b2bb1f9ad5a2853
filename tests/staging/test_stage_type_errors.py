"""What kernels refuse of values: kinds, ranks, types, functions of numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from staged import check_refused as check
from staged import pe, staged

from peffects.errors import AccumulatorError, KernelTypeError
from peffects.staging.tracing.argument_types import ArrayType

X, A = np.arange(3.0), np.arange(6.0).reshape(2, 3)


def test_tables_are_not_numbers() -> None:
    def f(x: Any) -> Any:
        return 1.0 if x > 0.0 else 2.0  # here

    check(KernelTypeError, f, (X,), "is a whole table, and one number is needed")

    def g(x: Any) -> Any:
        return pe.table(lambda i: 0.0, over=x[0:] + 0.5) if x else 0.0  # here

    check(KernelTypeError, g, (X,), "`x`")

    def h(x: Any) -> Any:
        return pe.sum(lambda i: x[i:], over=x)  # here

    check(KernelTypeError, h, (X,), "rows have different lengths")


def test_numbers_have_no_elements() -> None:
    def f(w: Any, x: Any) -> Any:
        return pe.sum(lambda i: w[i] * x[i])  # here

    check(KernelTypeError, f, (1.5, X), "the value `w` is one number, a f64, and is indexed")


def test_indices_are_integers() -> None:
    def f(x: Any) -> Any:
        return x[x[0]]  # here

    check(KernelTypeError, f, (X,), "axis 0 of `x`", "f64")


def test_bodies_return_numbers() -> None:
    def f(x: Any) -> Any:
        return pe.table(lambda i: print_nothing(x[i]))  # here

    check(KernelTypeError, f, (X,), "the body of `table`", "None")

    def g(x: Any) -> Any:
        return pe.table(3.0)  # here

    check(KernelTypeError, g, (X,), "takes a function")

    def h(x: Any) -> Any:
        return x + "a"  # here

    check(KernelTypeError, h, (1.0,), "the str 'a'")


def print_nothing(x: Any) -> None:
    """Return nothing."""


def test_floats_do_not_become_integers_silently() -> None:
    def f(x: Any) -> Any:
        h = pe.accumulator(dtype=int)
        for i in pe.par(x):
            h += x[i]  # here
        return h

    check(KernelTypeError, f, (X,), "float", "int(...)")


def test_accumulators_of_wrong_kinds() -> None:
    def f() -> Any:
        return pe.accumulator(dtype=np.float16)  # here

    check(KernelTypeError, f, (), "dtype")

    def g() -> Any:
        return pe.accumulator(op="xor")  # here

    check(KernelTypeError, g, (), "xor")

    def h() -> Any:
        return pe.accumulator(op="or")  # here

    check(KernelTypeError, h, (), "`or`")

    def k(x: Any) -> Any:
        total = pe.accumulator()
        total *= 2.0  # here

    check(AccumulatorError, k, (X,), "`total`", "`*=`")


def test_accumulated_values_have_the_right_rank() -> None:
    def f(a: Any) -> Any:
        rows = pe.accumulator(3, 3)
        rows[0] += 1.0  # here

    check(KernelTypeError, f, (A,), "one number", "1 axes")

    def g(a: Any) -> Any:
        total = pe.accumulator()
        total += a[0]  # here

    check(KernelTypeError, g, (A,), "whole table")


def test_arguments_of_unknown_types() -> None:
    with pytest.raises(KernelTypeError, match="`x` has dtype object"):
        staged(lambda x: x, np.ones(2, object))
    with pytest.raises(KernelTypeError, match="float16"):
        staged(lambda x: x, ArrayType("float16", 1))


def test_numpy_functions_of_symbols() -> None:
    def f(x: Any) -> Any:
        return np.unique(x)  # here

    check(KernelTypeError, f, (X,), "kernels have no `np.unique`", "before the kernel")

    def counted(x: Any) -> Any:
        return np.bincount(x)  # here

    check(KernelTypeError, counted, (X,), "kernels have no `np.bincount`", "`h[x[i]] += 1`")

    def g(x: Any) -> Any:
        return np.isnat(x[0])  # here

    check(KernelTypeError, g, (X,), "kernels have no `np.isnat`", "no dates")

    def k(x: Any) -> Any:
        return round(x, x)  # here

    check(KernelTypeError, k, (1.5,), "the number of digits", "Write the number")


def test_numbers_and_tables_have_few_attributes() -> None:
    def f(x: Any) -> Any:
        return pe.table(lambda i: x[i].item())  # here

    check(KernelTypeError, f, (X,), "a number of a kernel has no attribute `item`", "int(v)")

    def g(x: Any) -> Any:
        return x.columns  # here

    check(KernelTypeError, g, (X,), "a table of a kernel has no attribute `columns`")

    def h(x: Any) -> Any:
        return pe.table(lambda i: len(x[i]))  # here

    check(KernelTypeError, h, (X,), "`len` of a number")
