"""Types and values of arithmetic are numpy's (NEP 50), over all pairs of types of kernels."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compiled import assert_same
from hypothesis import given
from hypothesis import strategies as st
from staged import check_refused, run

import peffects as pe
from peffects.errors import KernelTypeError, ValueRangeError

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
TYPES = ["bool", *INTEGERS, "float32", "float64"]
VALUES: list[Any] = [*(np.dtype(name).type(3 if name != "bool" else 1) for name in TYPES), 3, 3.0]
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    **{name: getattr(operator, name) for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq",
        "ne", "and_", "or_", "xor", "lshift", "rshift",
    )},
    "maximum": np.maximum, "minimum": np.minimum, "arctan2": np.arctan2,
}  # fmt: skip
ON_BOOLS = {"add", "sub", "mul", "floordiv", "mod", "pow", "lshift", "rshift", "arctan2"}
"""Where two bools are Python's, which count as integers, and not numpy's."""


def numpys(name: str, x: Any, y: Any) -> Any:
    """What numpy gives for two scalars, one of them its own; None where it refuses."""
    with np.errstate(all="ignore"):
        try:
            return OPERATORS[name](x, y)
        except TypeError:
            return None


def of_function(x: Any, y: Any, result: Any) -> Any:
    """Numpy's result of a function of floats: of integers of 8 bits it has 16, and kernels 32."""
    return result.astype(np.float32) if result.dtype == np.float16 else result


@pytest.mark.parametrize("name", OPERATORS)
def test_types_and_values_are_numpy_s(name: str) -> None:
    """Over all pairs; numbers of Python are arguments, so they are no literals."""
    pairs = [(x, y) for x in VALUES for y in VALUES if isinstance(x, np.generic)]
    pairs += [(y, x) for x, y in pairs if not isinstance(y, np.generic)]
    tested = 0
    for x, y in pairs:
        expected = numpys(name, x, y)
        both_bools = {type(x), type(y)} == {np.bool_}
        if expected is None and not both_bools:
            with pytest.raises(KernelTypeError):
                run(OPERATORS[name], x, y)
            continue
        if both_bools and name in ON_BOOLS:
            expected = np.asarray(OPERATORS[name](int(x), int(y)))[()]
        tested += 1
        found = run(OPERATORS[name], x, y)
        assert found.dtype == of_function(x, y, expected).dtype, (x.dtype, y)
        np.testing.assert_allclose(found, expected, rtol=1e-3 if name == "arctan2" else 1e-7)
    assert tested > 50


def test_where_meets_in_numpy_s_types() -> None:
    for x in VALUES[1:]:
        for y in VALUES[1:]:
            expected = np.result_type(x, y) if {type(x), type(y)} != {int, float} else np.float64
            assert run(lambda c, x, y: pe.where(c, x, y), True, x, y).dtype == expected


FUNCTIONS = ["sqrt", "exp", "log", "sin", "arctan", "tanh", "log1p"]


@pytest.mark.parametrize("dtype", [*INTEGERS, "float32", "float64"])
def test_functions_give_numpy_s_types(dtype: str) -> None:
    x = np.dtype(dtype).type(2)
    for name in FUNCTIONS:
        expected = getattr(np, name)(x)
        found = run(lambda x: getattr(pe, name)(x), x)  # noqa: B023
        assert found.dtype == of_function(x, x, expected).dtype
        np.testing.assert_allclose(found, expected, rtol=1e-3)
    assert run(lambda x: pe.exp(x > 0), x).dtype == np.float64  # a bool counts as Python's 1


def test_no_float64_comes_unasked() -> None:
    def f(x: Any, n: int, k: Any) -> Any:
        total = np.float32(0.0)
        for i in range(n):
            total = total + 0.5 * x[i] / n - i + pe.exp(x[i]) ** 2 + math_pi * k
        table = pe.table(lambda i: x[i] * n if x[i] > 1 else 0.5 * k)
        return total, pe.mean(x), table, -(x[0] ** 0.5)

    math_pi = 3.14159
    x = np.ones(3, np.float32)
    for leaf in run(f, x, 3, np.float32(2)):
        assert leaf.dtype == np.float32


# --- integers ------------------------------------------------------------------------------------


@given(st.sampled_from(INTEGERS), st.sampled_from(["add", "sub", "mul"]), st.data())
def test_integers_wrap_as_numpy_s(dtype: str, name: str, data: Any) -> None:
    info = np.iinfo(dtype)
    numbers = st.integers(int(info.min), int(info.max))
    x, y = (np.dtype(dtype).type(data.draw(numbers)) for _ in range(2))
    assert_same(run(OPERATORS[name], x, y), numpys(name, x, y))


COMPARE = ["lt", "le", "gt", "ge", "eq", "ne"]
EDGES = [-(2**63), -(2**31), -129, -1, 0, 1, 127, 255, 256, 2**31, 2**53 + 1, 2**63 - 1, 2**64 - 1]


def edges(dtype: str) -> list[Any]:
    info = np.iinfo(dtype)
    return [np.dtype(dtype).type(v) for v in EDGES if info.min <= v <= info.max]


@pytest.mark.parametrize("left", INTEGERS)
@pytest.mark.parametrize("right", [*INTEGERS, "int"])
def test_comparisons_of_integers_are_exact_whatever_their_signs(left: str, right: str) -> None:
    xs = edges(left)
    ys = [v for v in EDGES if -(2**63) <= v < 2**63] if right == "int" else edges(right)

    def f(x: Any, y: Any) -> Any:
        return [OPERATORS[name](x, y) for name in COMPARE]

    def g(y: Any, x: Any) -> Any:
        return [OPERATORS[name](y, x) for name in COMPARE]

    for x in xs:
        for y in ys:
            expected = [bool(OPERATORS[name](int(x), int(y))) for name in COMPARE]
            assert run(f, x, y) == expected, (x, y)
            assert run(g, y, x) == [bool(OPERATORS[n](int(y), int(x))) for n in COMPARE], (y, x)


def test_comparisons_with_literals_that_a_type_does_not_hold() -> None:
    def f(x: Any, u: Any) -> Any:
        return x < 300, x == -1, x > -1, u > -1, u == -1, u <= 300, u > -1, x <= 5, x != 1000

    found = pe.kernel(f)(np.uint8(5), np.uint64(2**64 - 1))
    assert found == (True, False, True, True, False, False, True, True, True)


def test_python_s_integers_are_never_cut_off() -> None:
    def f(k: Any, n: int) -> Any:
        return pe.table(lambda i: k[i] + n)  # here

    k = np.array([1, 2], np.uint8)
    assert_same(pe.kernel(f)(k, 255), k + np.uint8(255))
    for n in (256, -1, 2**40):
        with pytest.raises(ValueRangeError, match=f"the integer {n} is no uint8"):
            pe.kernel(f)(k, n)
        with pytest.raises(OverflowError):
            k + n
    with pytest.raises(ValueRangeError, match="-1 is no uint64"):
        run(f, k.astype(np.uint64), -1)
    check_refused(ValueRangeError, lambda k: k[0] + 300, (k,), "300 is no uint8")  # here
    assert run(lambda k, n: k[0] + np.int64(n), k, 300) == 301


def test_indices_are_integers_of_python() -> None:
    def f(k: Any) -> Any:
        return pe.table(lambda i: k[i] + i), pe.table(lambda i: k[i] * (i > 0))

    sums, products = pe.kernel(f)(np.ones(5, np.int16))
    assert_same(sums, np.arange(1, 6, dtype=np.int16))
    assert_same(products, np.array([0, 1, 1, 1, 1], np.int16))


# --- reductions and accumulators -----------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
def test_reductions_give_numpy_s_types(dtype: str) -> None:
    x = np.array([1, 0, 1, 1], dtype)

    def f(x: Any) -> Any:
        return pe.sum(x), pe.prod(x), pe.max(x), pe.min(x), pe.mean(x), pe.any(x), pe.all(x)

    expected = (x.sum(), x.prod(), x.max(), x.min(), x.mean(), x.any(), x.all())
    for found, wanted in zip(pe.kernel(f)(x), expected, strict=True):
        assert_same(found, wanted)
    rows = pe.kernel(lambda x: pe.max(lambda i: pe.table(lambda j: x[i] if i > j else x[j])))
    assert rows(x).dtype == x.dtype


def test_the_extremes_of_no_bools_are_refused() -> None:
    with pytest.raises(ValueRangeError, match="empty"):
        pe.kernel(lambda x: pe.max(x))(np.zeros(0, bool))


def test_accumulators_wrap_in_the_type_they_were_given() -> None:
    """As `np.add.at` on an array of that type; `pe.sum` is wide."""

    def f(k: Any) -> Any:
        narrow, wide = pe.accumulator(dtype=np.int8), pe.accumulator(dtype=int)
        for i in pe.par(k):
            narrow += k[i]
            wide += k[i]
        return narrow, wide, pe.sum(k)

    k = np.full(5, 100, np.int8)
    narrow = np.zeros(1, np.int8)
    np.add.at(narrow, [0] * 5, k)
    assert_same(pe.kernel(f)(k)[0], narrow[0])
    assert pe.kernel(f)(k)[1:] == (500, 500)


def test_a_number_of_python_that_an_accumulator_cannot_hold_is_an_error() -> None:
    def f(x: Any, n: int) -> Any:
        total = pe.accumulator(dtype=np.int8)
        for _ in pe.par(x):
            total += n
        return total

    assert pe.kernel(f)(np.ones(2), 3) == 6
    with pytest.raises(ValueRangeError, match="the integer 300 is no int8"):
        pe.kernel(f)(np.ones(2), 300)


# --- Python's min and max ------------------------------------------------------------------------

special = st.sampled_from([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan])


@given(st.lists(special, min_size=2, max_size=4))
def test_builtin_min_and_max_are_python_s(values: list[float]) -> None:
    found = run(lambda xs: (min(xs), max(xs), min(*xs), max(*xs)), values)
    for value, expected in zip(found, (min(values), max(values)) * 2, strict=True):
        assert_same(value, np.float64(expected))


def test_compiled_min_and_max_are_python_s_and_numpy_s() -> None:
    x = np.array([1.0, np.nan, 2.0, 0.0, -0.0, np.inf] * 40)
    y = np.array([np.nan, 1.0, -1.0, -0.0, 0.0, np.nan] * 40)

    def f(x: Any, y: Any) -> Any:
        return pe.table(
            lambda i: (
                min(x[i], y[i]),
                max(x[i], y[i]),
                np.minimum(x[i], y[i]),
                pe.maximum(x[i], y[i]),
            )
        )

    low, high, least, most = pe.kernel(f)(x, y)
    assert_same(low, np.array([min(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]))
    assert_same(high, np.array([max(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]))
    np.testing.assert_array_equal(least, np.minimum(x, y))
    np.testing.assert_array_equal(most, np.maximum(x, y))


@pytest.mark.parametrize("operands", [(5.0, float("nan")), (float("nan"), 5.0)])
def test_debugging_agrees_about_min_and_max(operands: tuple[float, float]) -> None:
    kernel = pe.kernel(lambda x, y: (min(x, y), max(x, y)))
    for found, expected in zip(kernel.debug(*operands), kernel(*operands), strict=True):
        assert_same(np.float64(found), expected)


def test_derivatives_of_builtin_min_and_max() -> None:
    clamp = pe.kernel(lambda x: min(max(x, -1.0), 2.0) ** 2)
    slope = pe.grad(clamp)
    assert [float(slope(x)) for x in (-3.0, 0.5, 1.5, 4.0)] == [0.0, 1.0, 3.0, 0.0]
    assert float(pe.grad(lambda x: max(x, 0.0))(0.0)) == 0.5  # a tie is shared
    assert float(pe.grad(lambda x: min(x, float("nan")))(3.0)) == 1.0
    pe.check_grads(clamp, (0.3,))


def test_python_s_min_of_whole_tables_is_refused() -> None:
    check_refused(KernelTypeError, lambda x: max(x, 0.0), (np.ones(3),), "np.maximum")  # here


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.ones(2, np.float16), r"float16.*\n.*\n.*astype\(np.float32\)"),
        (np.ones(2, np.longdouble), r"(float128|longdouble|float96).*\n.*\n.*astype\(float\)"),
        (np.array(["a"]), r"str\d+.*\n.*\n.*before the kernel"),
        (np.array([b"a"]), r"bytes\d+.*\n.*\n.*before the kernel"),
        (np.array([1, None]), r"object.*\n.*\n.*astype\(float\)"),
        (np.array(["2020-01-01"], "M8[D]"), r"datetime64.*\n.*\n.*astype\(np.int64\)"),
        (np.array([1], "m8[s]"), r"timedelta64.*\n.*\n.*astype\(np.int64\)"),
        (np.zeros(2, "V8"), "void"),
    ],
)
def test_other_dtypes_are_refused_with_what_to_do(array: Any, words: str) -> None:
    kernel = pe.kernel(lambda x: x[0])
    with pytest.raises(KernelTypeError, match=words):
        kernel(array)
    with pytest.raises(KernelTypeError, match=words):
        pe.kernel(lambda k: array[k])(0)


# --- unusual arrays ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*INTEGERS, "float32", "float64", "complex64", "complex128"])
def test_big_endian_arrays_are_read_as_any(dtype: str) -> None:
    x = np.arange(5).astype(dtype)
    kernel = pe.kernel(lambda x, k: (pe.table(lambda i: x[i] + x[0]), x[k]))
    swapped = x.astype(x.dtype.newbyteorder(">"))
    for found, expected in zip(kernel(swapped, 2), kernel(x, 2), strict=True):
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, expected)


def test_arrays_without_axes_and_numpy_s_scalars_are_numbers() -> None:
    kernel = pe.kernel(lambda x: x * 2)
    for dtype in TYPES[1:]:
        for x in (np.array(3, dtype), np.dtype(dtype).type(3)):
            assert_same(kernel(x), np.dtype(dtype).type(6))


def test_arrays_without_elements() -> None:
    def f(x: Any, m: Any) -> Any:
        return pe.sum(x), pe.table(lambda i: x[i] * 2), pe.all(m), pe.prod(x), pe.any(m)

    total, table, all_, product, any_ = pe.kernel(f)(np.zeros(0, np.int16), np.zeros(0, bool))
    assert (total, table.shape, table.dtype, all_, product, any_) == (
        0, (0,), np.dtype("int16"), True, 1, False,
    )  # fmt: skip


def test_bools_are_masks() -> None:
    def f(x: Any, m: Any) -> Any:
        chosen = pe.sum(lambda i: x[i] if m[i] else 0.0)
        return chosen, pe.sum(lambda i: m[i] * x[i]), pe.sum(m), pe.sum(lambda i: x[i] * (not m[i]))

    x, m = np.array([1.0, 2.0, 4.0]), np.array([True, False, True])
    assert pe.kernel(f)(x, m) == (5.0, 5.0, 2, 2.0)
    check_refused(KernelTypeError, lambda x, m: x[m[0]], (x, m), "indexed with a bool")  # here
