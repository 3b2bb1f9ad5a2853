"""All functions of numpy and `math` on numbers: each is there, or refused with a reason.

Values are numpy's and `math`'s own, special ones included; how exact they are is in
`tests/codegen/test_accuracy.py`, that they are right in compiled code in `test_emit_rules.py`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from staged import check_refused, run, text

import peffects as pe
from peffects.errors import DivisionError, KernelTypeError, ValueRangeError
from peffects.staging.hooks.python_maths import MATH, REFUSED_MATH
from peffects.staging.numpy_surface.functions import FUNCTIONS
from peffects.staging.numpy_surface.ufuncs import REFUSED as REFUSED_UFUNCS
from peffects.staging.numpy_surface.ufuncs import UFUNCS

OF_NUMBERS = set(UFUNCS) - {"matmul"}
UFUNC = {ufunc.__name__: ufunc for ufunc in vars(np).values() if isinstance(ufunc, np.ufunc)}
FLOATS = [0.0, 0.25, 0.5, 1.0, 1.5, 2.5, 7.25, 100.5, 3e9, 1e19, 1e300, 2.0**-1022, 5e-324, np.inf]
SPECIAL = np.array([*FLOATS, *[-x for x in FLOATS], np.nan])
WHOLE = np.array([0, 1, 2, 3, 7, 12, 64, 100, 2**40, 2**62, -1, -2, -7, -64, -(2**63)])
SMALL = np.array([0, 1, 2, 3, 7, 12, 64, 200, 255], np.uint8)


def columns(function: Callable[..., Any], *arrays: Any) -> list[Any]:
    """What a function gives on symbols, element by element; one array for each of its results."""
    found = run(lambda *xs: pe.table(lambda i: function(*(x[i] for x in xs))), *arrays)
    return list(found) if isinstance(found, tuple) else [found]


def assert_like(found: Any, expected: Any, what: str, ulp: int = 2) -> None:
    assert found.shape == expected.shape, what
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected, what)
        return
    fine = np.isfinite(expected) & np.isfinite(found)
    np.testing.assert_array_equal(found[~fine], expected[~fine], what)
    np.testing.assert_array_max_ulp(found[fine], expected[fine], maxulp=ulp)
    signs = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[signs]), np.signbit(expected[signs]), what)


def test_each_ufunc_is_there_or_refused_with_a_reason() -> None:
    assert set(UFUNCS) | set(REFUSED_UFUNCS) == set(UFUNC) - {"where"}
    assert not set(UFUNCS) & set(REFUSED_UFUNCS)
    assert all(why and fix for why, fix in REFUSED_UFUNCS.values())


def test_each_function_of_math_is_there_or_refused_with_a_reason() -> None:
    functions = {name for name in dir(math) if callable(getattr(math, name)) and name[0] != "_"}
    assert functions == {function.__name__ for function in MATH}
    assert all(why and fix for why, fix in REFUSED_MATH.values())


def operands(ufunc: np.ufunc, values: Any) -> list[Any]:
    grids = np.meshgrid(*[values] * ufunc.nin)
    return [grid.ravel() for grid in grids]


@pytest.mark.parametrize("name", sorted(OF_NUMBERS - {"logaddexp", "logaddexp2"}))
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_ufuncs_of_floats_give_what_numpy_gives(name: str, dtype: str) -> None:
    ufunc = UFUNC[name]
    if not any(kind.split("->")[0] == "d" * ufunc.nin for kind in ufunc.types):
        return
    with np.errstate(all="ignore"):
        args = operands(ufunc, SPECIAL.astype(dtype))
        expected = ufunc(*args)
    results = expected if isinstance(expected, tuple) else (expected,)
    # numpy computes float32 in float32, kernels some functions in float64
    ulp = 2 if dtype == "float64" else 4
    for found, wanted in zip(columns(ufunc, *args), results, strict=True):
        assert found.dtype == (np.dtype("float64") if name == "float_power" else wanted.dtype)
        assert_like(found, wanted, name, ulp)


@pytest.mark.parametrize("function", [np.logaddexp, np.logaddexp2])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_sums_of_logarithms_are_exact_to_their_largest_part(function: Any, dtype: str) -> None:
    with np.errstate(all="ignore"):
        x, y = (grid.ravel().astype(dtype) for grid in np.meshgrid(SPECIAL, SPECIAL))
        wanted = function(x.astype(float), y.astype(float)).astype(dtype)
    (found,) = columns(function, x, y)
    assert found.dtype == dtype
    fine = np.isfinite(wanted)
    np.testing.assert_array_equal(found[~fine], wanted[~fine])
    unit = np.finfo(dtype).eps * np.maximum(1.0, np.maximum(np.abs(x), np.abs(y))[fine])
    assert np.all(np.abs(found[fine] - wanted[fine]) <= 2 * unit)


INTEGERS = [
    name for name, ufunc in UFUNC.items()
    if name in OF_NUMBERS and any(kind.split("->")[0] == "l" * ufunc.nin for kind in ufunc.types)
]  # fmt: skip
BY_ZERO = {"floor_divide", "remainder", "divmod", "reciprocal"}


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("values", [WHOLE, SMALL], ids=["int64", "uint8"])
def test_ufuncs_of_integers_give_what_numpy_gives(name: str, values: Any) -> None:
    ufunc = UFUNC[name]
    args = operands(ufunc, values)
    if name in BY_ZERO:
        args = [arg[args[-1] != 0] for arg in args]
    if name == "power":
        args = [arg[args[-1] >= 0] for arg in args]
    with np.errstate(all="ignore"):
        expected = ufunc(*args)
    results = expected if isinstance(expected, tuple) else (expected,)
    for found, wanted in zip(columns(ufunc, *args), results, strict=True):
        assert found.dtype == wanted.dtype, name
        assert_like(found, wanted, name)


def test_ufuncs_that_are_refused_say_why() -> None:
    def dates(x: Any) -> Any:
        return np.isnat(x[0])  # here

    def product(x: Any) -> Any:
        return np.vecdot(x, x)  # here

    check_refused(KernelTypeError, dates, (SPECIAL,), "np.isnat", "no dates")
    if hasattr(np, "vecdot"):  # numpy 2
        check_refused(KernelTypeError, product, (SPECIAL,), "np.vecdot", "use `@`")


TWO_OR_MORE = {
    "atan2", "copysign", "fmod", "hypot", "isclose", "nextafter", "pow", "remainder", "dist",
    "ldexp", "gcd", "lcm", "prod", "isqrt",
}  # fmt: skip
ONE = sorted({f.__name__ for f in MATH} - set(REFUSED_MATH) - TWO_OR_MORE)


def by_python(function: Callable[..., Any], *row: float) -> Any:
    """What `math` gives; nan or inf where it raises."""
    try:
        return function(*row)
    except (ValueError, OverflowError):
        return None


@pytest.mark.parametrize("name", ONE)
def test_functions_of_math_give_what_python_gives(name: str) -> None:
    function = getattr(math, name)
    values = [x for x in SPECIAL.tolist() if by_python(function, x) is not None]
    if name in ("floor", "ceil", "trunc"):
        values = [x for x in values if abs(x) < 2.0**63]
    expected = [function(x) for x in values]
    split = list(zip(*expected, strict=True)) if isinstance(expected[0], tuple) else [expected]
    for found, wanted in zip(columns(function, np.array(values)), split, strict=True):
        assert_like(found, np.array(wanted), name, ulp=2)


@pytest.mark.parametrize(
    "function", [math.atan2, math.copysign, math.fmod, math.hypot, math.nextafter, math.remainder,
                 math.isclose, math.pow]
)  # fmt: skip
def test_functions_of_two_numbers_give_what_python_gives(function: Any) -> None:
    pairs = itertools.product(SPECIAL.tolist(), repeat=2)
    rows = [row for row in pairs if by_python(function, *row) is not None]
    x, y = (np.array(column) for column in zip(*rows, strict=True))
    (found,) = columns(function, x, y)
    assert_like(found, np.array([function(*row) for row in rows]), function.__name__)


def test_remainders_are_exact() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000) * 10.0 ** rng.integers(-5, 15, 2000)
    y = rng.normal(size=2000)
    ties = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 7.0, 5.0]), np.array([1, 1, 1, 1, 1, 2, -2.0])
    x, y = np.append(x, ties[0]), np.append(y, ties[1])
    (found,) = columns(math.remainder, x, y)
    wanted = np.array(list(map(math.remainder, x.tolist(), y.tolist())))
    np.testing.assert_array_equal(found, wanted)
    compiled = pe.kernel(lambda x, y: pe.table(lambda i: math.remainder(x[i], y[i])))
    np.testing.assert_array_equal(compiled(x, y), wanted)


def test_functions_of_integers_give_what_python_gives() -> None:
    n = np.array([0, 1, 2, 3, 4, 15, 16, 17, 2**52, 2**53 - 1, 3037000499**2, 3037000499**2 - 1,
                  2**63 - 1, 10**18])  # fmt: skip
    (found,) = columns(math.isqrt, n)
    assert found.tolist() == [math.isqrt(x) for x in n.tolist()]
    pairs = np.array([12, 18, 0, 7, 0, -4]), np.array([18, 12, 5, 0, 0, 6])
    for function in (math.gcd, math.lcm):
        (found,) = columns(function, *pairs)
        assert found.tolist() == [function(x, y) for x, y in zip(*map(list, pairs), strict=True)]
    (found,) = columns(lambda x, y: math.gcd(x, y, 4), *pairs)
    assert found.tolist() == [math.gcd(int(x), int(y), 4) for x, y in zip(*pairs, strict=True)]


def test_integer_root_of_a_negative_number_is_an_error() -> None:
    def f(n: Any) -> Any:
        return math.isqrt(n)  # here

    check_refused(ValueRangeError, f, (-3,), "the integer root of -3")


def test_scaling_by_powers_of_two() -> None:
    x, n = (grid.ravel() for grid in np.meshgrid(SPECIAL, [0, 1, -1, 60, -60, 1000, -1100]))
    (found,) = columns(math.ldexp, x, n)
    with np.errstate(over="ignore", under="ignore"):
        assert_like(found, np.ldexp(x, n), "ldexp", 0)
        (narrow,) = columns(np.ldexp, x.astype("f4"), n)
        assert_like(narrow, np.ldexp(x.astype("f4"), n), "ldexp", 0)


def test_python_sequences_of_symbols() -> None:
    def f(x: Any) -> Any:
        p, q = (x[0], x[1]), (x[2], 1.0)
        return math.dist(p, q), math.prod([x[0], x[1], 2.0]), math.hypot(x[0], x[1], x[2])

    x = [1.0, 2.0, 3.0]
    found = run(f, np.array(x))
    assert found == pytest.approx((math.dist((1, 2), (3, 1)), 4.0, math.hypot(*x)), rel=1e-15)


@pytest.mark.parametrize("name", [name for name in REFUSED_MATH if hasattr(math, name)])
def test_functions_of_math_that_are_refused_say_why(name: str) -> None:
    function = getattr(math, name)

    def f(n: Any) -> Any:
        if name == "factorial":
            return function(n)  # here
        return function([n, n]) if name == "fsum" else function(n, n)  # here

    check_refused(KernelTypeError, f, (3,), f"`math.{name}`")


def test_rounding_to_digits_is_numpys() -> None:
    x = np.array([2.675, 0.125, -0.375, 1e20, 1234.567, np.inf, 0.5, 1.5, 2.5])
    for digits in (0, 1, 2, -2):
        (found,) = columns(lambda v, digits=digits: round(v, digits), x)
        np.testing.assert_array_equal(found, np.round(x, digits))
        (found,) = columns(lambda v, digits=digits: np.round(v, digits), x)
        np.testing.assert_array_equal(found, np.round(x, digits))
    (found,) = columns(round, np.array([0.5, 1.5, 2.5, -2.6]))
    assert (found.dtype.name, found.tolist()) == ("int64", [0, 2, 2, -3])


def test_other_functions_of_numpy_on_numbers() -> None:
    x = SPECIAL
    for function in (np.sinc, np.fix, np.isposinf, np.isneginf, np.nan_to_num):
        assert function in FUNCTIONS
        with np.errstate(all="ignore"):
            assert_like(columns(function, x)[0], function(x), function.__name__)
    clipped = columns(lambda v: np.clip(v, -1.0, 2.0), x)[0]
    np.testing.assert_array_equal(clipped, np.clip(x, -1.0, 2.0))
    near = columns(lambda v: np.isclose(v, 1.0 + 1e-9, equal_nan=True), x)[0]
    np.testing.assert_array_equal(near, np.isclose(x, 1.0 + 1e-9, equal_nan=True))


def test_functions_of_whole_tables_are_those_of_their_elements() -> None:
    x = np.array([[1.5, -2.25], [0.1, 7.0]])
    found = run(
        lambda x: (np.copysign(x, x[0]), np.modf(x), np.round(x, 1), pe.sinc(x), np.frexp(x)), x
    )
    wanted = np.copysign(x, x[0]), np.modf(x), np.round(x, 1), np.sinc(x), np.frexp(x)
    np.testing.assert_array_equal(found[0], wanted[0])
    for mine, theirs in zip((*found[1], *found[4]), (*wanted[1], *wanted[4]), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(found[2], wanted[2])
    np.testing.assert_allclose(found[3], wanted[3], rtol=1e-15, atol=1e-16)


def test_functions_of_their_own() -> None:
    x = np.array([-1000.0, -2.0, 0.0, 3.0, 1000.0, np.inf, -np.inf])
    soft, share = columns(lambda v: (pe.softplus(v), pe.expit(v)), x)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(soft, np.logaddexp(0.0, x), rtol=1e-15)
        np.testing.assert_allclose(share, 1.0 / (1.0 + np.exp(-x)), rtol=1e-15)
    assert columns(pe.bit_count, np.array([0, 255, -7, -(2**63)]))[0].tolist() == [0, 8, 3, 1]


def test_bits_of_unsigned_numbers_are_inverted() -> None:
    (found,) = columns(lambda v: ~v, SMALL)
    np.testing.assert_array_equal(found, ~SMALL)


def test_division_of_integers_by_zero_is_an_error() -> None:
    def f(x: Any) -> Any:
        return pe.table(lambda i: np.reciprocal(x[i]))  # here

    check_refused(DivisionError, f, (np.array([1, 0]),), "division by zero")


@pytest.mark.parametrize("name", ["gcd", "lcm", "bit_count", "isqrt"])
def test_functions_of_integers_refuse_floats(name: str) -> None:
    function = getattr(pe, name)

    def f(x: Any) -> Any:
        return function(x, x) if name in ("gcd", "lcm") else function(x)  # here

    check_refused(KernelTypeError, f, (1.5,), f"`{name}` takes integers, not f64")


def test_plain_numbers_give_plain_numbers() -> None:
    assert pe.copysign(1.0, -2.0) == -1.0 and type(pe.copysign(1.0, -2.0)) is float
    assert type(pe.copysign(np.float64(1.0), 2.0)) is np.float64
    assert pe.frexp(8.0) == (0.5, 4) and type(pe.frexp(8.0)[1]) is int
    assert pe.gcd(12, 18) == 6 and pe.lcm(4, 6) == 12 and pe.isqrt(17) == 4
    assert pe.bit_count(-7) == 3 and pe.isinf(-math.inf) and pe.sign(-3) == -1
    assert pe.digamma(1.0) == -0.5772156649015328
    with pytest.raises(KernelTypeError, match="`copysign` takes numbers"):
        pe.copysign("a", 1.0)
    assert pe.where(True, 1, 2) == 1 and pe.where(np.bool_(False), 1, 2) == 2
    with pytest.raises(KernelTypeError, match="`where` takes numbers") as caught:
        pe.where(np.array([True, False]), 1, 2)
    assert "np.where" in caught.value.fix


# --- powers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [2.0, 3, 3.0, 5.0, 0.5, 1.5, 2.5, -0.5, -1, -1.0, -2.0, -1.5])
def test_literal_powers_are_products_and_roots(exponent: float) -> None:
    literal = pe.kernel(eval(f"lambda x: pe.table(lambda i: x[i] ** {exponent})", {"pe": pe}))
    x = np.random.default_rng(1).uniform(0.0, 50.0, 1000)
    assert_like(literal(x), x**exponent, str(exponent), ulp=4)


def test_literal_powers_need_no_pow() -> None:
    for f in (lambda x: x**2.0, lambda x: x**0.5, lambda x: x**-1.5, lambda x: np.power(x, 3.0)):
        assert "pow" not in text(f, 1.5)
    assert "pow" in text(lambda x: x**0.3, 1.5)
    assert "pow" in text(lambda x: x**17.0, 1.5)


def test_special_values_of_literal_powers_are_numpys() -> None:
    functions: tuple[Callable[[Any], Any], ...] = (
        lambda x: x**2.0,
        lambda x: x**3.0,
        lambda x: x**0.5,
        lambda x: x**0,
        lambda x: x**1.0,
        lambda x: x**-1,
    )
    for function in functions:
        (found,) = columns(function, SPECIAL)
        with np.errstate(all="ignore"):
            assert_like(found, function(SPECIAL), "power", 1)


def test_powers_have_the_type_of_their_base() -> None:
    assert run(lambda x: x**2.0, np.float32(3.0)).dtype == np.float32
    assert run(lambda x: x**2.0, np.int64(3)).dtype == np.float64
    assert run(lambda x: x**2, np.int8(3)).dtype == np.int8
