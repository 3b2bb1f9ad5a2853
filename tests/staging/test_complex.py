"""Complex numbers in kernels are numpy's: arithmetic, functions, special values, derivatives."""

from __future__ import annotations

import cmath
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compiled import assert_same
from complex_arrays import C, W, Z, both, close
from hypothesis import given
from hypothesis import strategies as st
from staged import check_refused, run

import peffects as pe
from peffects.errors import DerivativeArgumentError, KernelTypeError, OutArgumentError

SPECIAL = [0.0, -0.0, 1.0, -2.5, 0.3, np.inf, -np.inf, np.nan, 30.0, -700.0]
GRID = np.array([complex(x, y) for x in SPECIAL for y in SPECIAL])


# --- arithmetic ----------------------------------------------------------------------------------

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda z, w: z + w,
    "subtract": lambda z, w: z - w,
    "multiply": lambda z, w: z * w,
    "divide": lambda z, w: z / w,
    "power": lambda z, w: z**w,
    "equal": lambda z, w: z == w,
    "not_equal": lambda z, w: z != w,
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_numpy_s(name: str) -> None:
    operator = OPERATORS[name]
    found = both(lambda z, w: pe.table(lambda i: operator(z[i], w[i])), Z, W)
    close(found, operator(Z, W))
    close(both(lambda z, w: operator(z[0], w[0]), Z, W), operator(Z[0], W[0]))
    equal = both(lambda z: pe.table(lambda i: operator(z[i], z[i])), Z)
    close(equal, operator(Z, Z))


@pytest.mark.parametrize("name", OPERATORS)
def test_a_real_operand_stays_real(name: str) -> None:
    operator = OPERATORS[name]
    x = np.array([2.0, -0.5, 3.0, 1.0])

    def f(z: Any, x: Any) -> Any:
        return pe.table(lambda i: (operator(z[i], x[i]), operator(x[i], z[i])))

    left, right = both(f, Z, x)
    close(left, operator(Z, x))
    close(right, operator(x, Z))


def test_a_real_factor_makes_no_nan_of_a_finite_part() -> None:
    z = complex(1.0, np.inf)
    assert both(lambda z, x: (z * x, z / x, x * z, z + x), z, 2.0) == (
        complex(2.0, np.inf), complex(0.5, np.inf), complex(2.0, np.inf), complex(3.0, np.inf),
    )  # fmt: skip


finite = st.floats(-1e3, 1e3).filter(lambda x: x == 0.0 or abs(x) > 1e-3)
numbers = st.builds(complex, finite, finite)


@given(numbers, numbers)
def test_division_is_smith_s_as_numpy_s(z: complex, w: complex) -> None:
    found = run(lambda z, w: z / w, np.complex128(z), np.complex128(w))
    with np.errstate(all="ignore"):
        expected = np.complex128(z) / np.complex128(w)
    assert_same(np.array([found.real, found.imag]), np.array([expected.real, expected.imag]))


def test_division_neither_overflows_nor_loses_what_is_small() -> None:
    z, w = np.complex128(1e300 + 1e300j), np.complex128(1e300 - 2e300j)
    close(both(lambda z, w: z / w, z, w), z / w)
    close(both(lambda z, w: w / z, z * 1e-300, w * 1e-305), (w * 1e-305) / (z * 1e-300))
    with np.errstate(all="ignore"):
        close(both(lambda z, w: z / w, z, 0 * w), z / (0 * w))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, -1, -2, 17, -20])
def test_whole_powers(exponent: int) -> None:
    found = both(lambda z: pe.table(lambda i: z[i] ** exponent), Z, rtol=abs(exponent) * 1e-15)
    np.testing.assert_allclose(found, Z**exponent, rtol=abs(exponent) * 4e-16)


def test_powers_of_zero() -> None:
    zero = np.complex128(0)
    found = both(lambda z, w: (z**w, z ** (w * 0.0), z**0, z**0.5), zero, np.complex128(2 + 1j))
    assert found == (0j, 1 + 0j, 1 + 0j, 0j)
    assert np.isnan(both(lambda z, w: z**w, zero, np.complex128(-1)))


# --- functions -----------------------------------------------------------------------------------

FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "exp": (pe.exp, np.exp), "log": (pe.log, np.log), "sqrt": (pe.sqrt, np.sqrt),
    "sin": (pe.sin, np.sin), "cos": (pe.cos, np.cos), "tan": (pe.tan, np.tan),
    "sinh": (pe.sinh, np.sinh), "cosh": (pe.cosh, np.cosh), "tanh": (pe.tanh, np.tanh),
    "abs": (abs, np.abs), "angle": (np.angle, np.angle), "square": (np.square, np.square),
    "negative": (lambda z: -z, np.negative), "inverse": (lambda z: 1 / z, lambda z: 1 / z),
    "conjugate": (np.conjugate, np.conjugate), "conj": (lambda z: z.conj(), np.conj),
    "real": (np.real, np.real), "imag": (lambda z: z.imag, np.imag),
    "isnan": (pe.isnan, np.isnan), "isfinite": (pe.isfinite, np.isfinite),
    "truth": (lambda z: bool(z), lambda z: z != 0), "not": (lambda z: not z, lambda z: z == 0),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_numpy_s_at_special_values(name: str) -> None:
    """Infinities, nan, signed zeros and branch cuts: as numpy, but for signs left open by C99."""
    ours, numpys = FUNCTIONS[name]
    found = both(lambda z: pe.table(lambda i: ours(z[i])), GRID)
    with np.errstate(all="ignore"):
        expected = numpys(GRID)
    assert found.dtype == expected.dtype
    for part in ("real", "imag"):
        x, y = getattr(found, part), getattr(expected, part)
        if name in ("sin", "cos", "tan", "sinh", "cosh", "tanh"):
            open_ = ~np.isfinite(GRID)  # the sign of an infinity or zero beside a nan
            x, y = np.where(open_, np.abs(x), x), np.where(open_, np.abs(y), y)
        np.testing.assert_allclose(x, y, rtol=1e-13, atol=1e-15, err_msg=part)


@pytest.mark.parametrize("name", ["sqrt", "log", "exp", "sin", "sinh", "tanh"])
def test_signs_of_zero_say_on_which_side_of_a_cut_a_number_is(name: str) -> None:
    ours, numpys = FUNCTIONS[name]
    cut = np.array(
        [-2.0 + 0.0j, complex(-2.0, -0.0), complex(0.0, -0.0), complex(-0.0, 0.0), -1e300]
    )
    found = both(lambda z: pe.table(lambda i: ours(z[i])), cut)
    with np.errstate(all="ignore"):
        expected = numpys(cut)
    for part in ("real", "imag"):
        fine = ~np.isnan(getattr(expected, part))
        x, y = getattr(found, part)[fine], getattr(expected, part)[fine]
        np.testing.assert_array_equal(np.signbit(x), np.signbit(y), part)


@given(numbers.filter(lambda z: abs(z.imag) < 500 and abs(z.real) < 500))
def test_functions_are_numpy_s(z: complex) -> None:
    names = [name for name in FUNCTIONS if name not in ("truth", "not", "real", "angle")]

    def f(z: Any) -> Any:
        return [FUNCTIONS[name][0](z) for name in names]

    with np.errstate(all="ignore"):
        for name, value in zip(names, run(f, np.complex128(z)), strict=True):
            expected = FUNCTIONS[name][1](np.complex128(z))
            scale = abs(expected) if np.isfinite(expected) else 1.0
            np.testing.assert_allclose(value, expected, rtol=1e-13, atol=2e-13 * scale)


def test_the_functions_of_cmath_give_complex_numbers_of_real_ones() -> None:
    def f(x: Any, z: Any) -> Any:
        r, phi = cmath.polar(z)
        return (
            cmath.sqrt(x), cmath.log(x), cmath.log(z, 2.0), cmath.exp(z), cmath.phase(x),
            cmath.rect(r, phi), cmath.sin(x), cmath.isnan(z), complex(x, 2.0), complex(x),
        )  # fmt: skip

    found = both(f, -4.0, 1 + 2j)
    expected = (
        2j, cmath.log(-4.0), cmath.log(1 + 2j, 2.0), cmath.exp(1 + 2j), cmath.pi,
        1 + 2j, cmath.sin(-4.0), False, -4.0 + 2j, -4.0 + 0j,
    )  # fmt: skip
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-15, atol=1e-15)
    assert isinstance(found[0], np.complex128)


def test_functions_of_constants() -> None:
    assert pe.exp(1j) == pytest.approx(cmath.exp(1j))
    assert isinstance(pe.sqrt(np.complex64(-1)), np.complex64)
    assert run(lambda x: x * pe.exp(2j), 1.0) == pytest.approx(cmath.exp(2j))


# --- types ---------------------------------------------------------------------------------------

TYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32",
    "float64", "complex64", "complex128",
]  # fmt: skip


@pytest.mark.parametrize("name", ["complex64", "complex128"])
@pytest.mark.parametrize("other", TYPES)
def test_types_are_numpy_s(name: str, other: str) -> None:
    z, x = np.dtype(name).type(2 + 1j), np.dtype(other).type(1)

    def f(z: Any, x: Any) -> Any:
        return z + x, x * z, z / x, x / z, x - z

    expected = (z + x, x * z, z / x, x / z, x - z)
    assert [v.dtype for v in run(f, z, x)] == [v.dtype for v in expected]


@pytest.mark.parametrize("other", TYPES)
def test_python_s_complex_numbers_are_weak(other: str) -> None:
    x = np.dtype(other).type(1)
    assert run(lambda x: x * 1j, x).dtype == (x * 1j).dtype
    assert run(lambda x, z: x + z, x, 1j).dtype == (x + 1j).dtype
    assert run(lambda z, k: z * k, np.complex64(1j), 2).dtype == np.complex64


def test_conversions() -> None:
    def f(z: Any, x: Any) -> Any:
        assert z.dtype == np.complex128
        return np.complex64(z), np.complex128(x), complex(z), isinstance(z, complex)

    found = both(f, 1 + 2j, np.float32(0.5))
    assert found == (1 + 2j, 0.5, 1 + 2j, True)
    assert [v.dtype.name for v in found[:2]] == ["complex64", "complex128"]


# --- tables and arguments ------------------------------------------------------------------------


def test_arrays_of_all_kinds_are_arguments() -> None:
    total = pe.kernel(lambda z: pe.sum(lambda i, j: z[i, j] * (1.0 + 1j)))
    expected = C.sum() * (1 + 1j)
    for array in (C, C.T, C.astype(">c16"), np.asfortranarray(C), C[:, ::-1], C[::-1]):
        assert total(array) == pytest.approx(expected)
    assert total(C.astype("c8")).dtype == np.complex64
    assert total(C[:0]) == 0j
    C.flags.writeable = False
    assert total(C) == pytest.approx(expected)
    assert len(total._specializations) == 2
    assert total._quick


def test_tables_rows_and_parts() -> None:
    def f(z: Any) -> Any:
        square = pe.table(lambda i, j: z[i, j] * z[i, j])
        rows = pe.table(lambda i: square[i])
        row = square[1]
        return rows, row, square.imag, z.real, square[0, 2], len(z), z.shape[1], z.index.size

    rows, row, imag, real, one, *sizes = both(f, C)
    close(rows, C**2)
    close(row, C[1] ** 2)
    close(imag, (C**2).imag)
    close(real, C.real)
    assert (one, sizes) == ((C**2)[0, 2], [2, 3, 2])


def test_scalars_of_all_kinds() -> None:
    f = pe.kernel(lambda z: z * 2)
    for z in (1 + 2j, np.complex128(1 + 2j), np.complex64(1 + 2j), np.array(1 + 2j)):
        found = f(z)
        assert found == 2 + 4j
        assert (
            isinstance(found, np.complex64 if z.dtype == "c8" else np.complex128)
            if (hasattr(z, "dtype"))
            else isinstance(found, np.complex128)
        )


factor: Any = 1j


def test_captured_complex_numbers_and_arrays_are_never_stale() -> None:
    global factor
    local: Any = C.copy()
    f = pe.kernel(lambda i: factor * local[i, 1])
    assert f(1) == 1j * C[1, 1]
    factor = 2 - 1j
    local *= 2
    assert f(1) == (2 - 1j) * 2 * C[1, 1]
    factor = np.complex64(1)
    assert f(0) == 2 * C[0, 1]
    factor = 3.0
    assert f(1) == 6 * C[1, 1]
    local = C.real.copy()
    assert f(1) == 3 * C.real[1, 1]
    assert f(1).dtype == np.float64


def test_results_go_into_arrays_of_the_caller() -> None:
    f = pe.kernel(lambda z: pe.table(lambda i: z[i] * 1j))
    out = np.zeros(4, complex)
    assert f(Z, out=out) is out
    close(out, Z * 1j)
    wide = np.zeros(8, complex)
    close(f(Z, out=wide[::2]), Z * 1j)
    close(wide[::2], Z * 1j)
    with pytest.raises(OutArgumentError, match="complex"):
        f(Z, out=np.zeros(4))
    with pytest.raises(OutArgumentError, match="float64"):
        f(Z, out=np.zeros(4, np.complex64))


def test_types_stand_for_arrays() -> None:
    f = pe.kernel(lambda z, w: pe.table(lambda i: z[i] * w))
    kind: Any = pe.Array  # of any size: what stands for it is not looked at
    compiled = f.lower(kind[4, complex], complex).compile()
    close(compiled(Z, 2j), Z * 2j)


# --- control flow and reductions -----------------------------------------------------------------


def test_complex_numbers_in_branches_and_loops() -> None:
    def f(c: Any, n: int) -> Any:
        z: Any
        power: Any
        z, power = 0j, 1.0
        steps = 0
        for _ in range(n):
            if abs(z) > 2.0:
                break
            z = z * z + c
            power = power * 1j
            steps += 1
        while abs(z) > 1.0:
            z = z / 2
        return z if steps < n else -z, power, steps, 1.0 if steps < 2 else c

    def python(c: complex, n: int) -> Any:
        return f(c, n)

    for c in (0.3 + 0.5j, 1 + 1j, -2 + 0j):
        for n in (0, 1, 9):
            found = both(f, np.complex128(c), n)
            np.testing.assert_allclose(found, python(c, n), rtol=1e-14)


def test_a_real_value_becomes_complex_where_it_meets_one() -> None:
    def f(z: Any, flag: bool) -> Any:
        total = 0
        for i in range(len(z)):
            total = total + z[i]
        pair = (1, z[0]) if flag else (z[1], 2.0)
        return total, pair

    total, pair = both(f, Z, True)
    assert total == Z.sum()
    assert pair == (1, Z[0])
    assert both(f, Z, False)[1] == (Z[1], 2)


def test_reductions() -> None:
    def f(z: Any, x: Any) -> Any:
        return (
            pe.sum(z), pe.mean(lambda i: z[i] * x[i]), pe.any(lambda i: z[i] - z[0]),
            pe.all(lambda i: z[i]), pe.max(lambda i: abs(z[i])), pe.sum(lambda i: (z[i], x[i])),
            sum(z), pe.where(x[0] > 0.0, z[0], 1),
            pe.sum(lambda i: pe.table(lambda j: z[i] * x[j])),
        )  # fmt: skip

    x = np.array([1.0, 2.0, -1.0, 0.5])
    total, mean, any_, all_, largest, pair, python, chosen, outer = both(f, Z, x)
    close(total, Z.sum())
    close(python, Z.sum())
    close(mean, (Z * x).mean())
    assert (any_, all_, chosen) == (True, True, Z[0])
    assert largest == pytest.approx(np.abs(Z).max())
    assert pair == (Z.sum(), x.sum())
    close(outer, Z.sum() * x)


@pytest.mark.parametrize("dtype", [complex, np.complex64, "complex128", np.dtype("c8")])
def test_accumulators_of_complex_numbers(dtype: Any) -> None:
    def f(z: Any, n: int) -> Any:
        bins = pe.accumulator(n, dtype=dtype)
        total = pe.accumulator(dtype=dtype)
        for i in pe.par(z):
            bins[i % n] += z[i]
            bins[0] += 1.0
            total += z[i]
        return bins, total, abs(total) + 1j * bins[1], 2 * total

    bins, total, mixed, double = both(f, Z, 2)
    assert bins.dtype == total.dtype == np.dtype(dtype)
    np.testing.assert_allclose(bins, [Z[::2].sum() + 4, Z[1::2].sum()], rtol=1e-6)
    assert total == pytest.approx(Z.sum(), rel=1e-6)
    assert mixed == pytest.approx(abs(Z.sum()) + 1j * Z[1::2].sum(), rel=1e-6)
    assert double == 2 * total


def test_any_number_of_threads_gives_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=100_000) + 1j * rng.normal(size=100_000)
    f = pe.kernel(lambda z: pe.sum(lambda i: pe.exp(1j * z[i].real) / z[i]))
    found = []
    for threads in (1, 2, 3, 4):
        with pe.threads(threads):
            found.append(f(z))
    assert len(set(found)) == 1
    assert found[0] == pytest.approx(np.sum(np.exp(1j * z.real) / z))


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda z: z[0] < z[1], "no order"),  # here
        (lambda z: max(z[0], 1.0), "no order"),  # here
        (lambda z: z[0] // 2, "floordiv"),  # here
        (lambda z: z[0] % 2, "mod"),  # here
        (lambda z: pe.floor(z[0]), "floor"),  # here
        (lambda z: float(z[0]), "real one is needed"),  # here
        (lambda z: int(z[0]), "real one is needed"),  # here
        (lambda z: z[z[0]], "real one is needed"),  # here
        (lambda z: pe.max(z), "`max` is given complex numbers"),  # here
        (lambda z: pe.prod(z), "`prod` is given complex numbers"),  # here
        (lambda z: pe.argmin(z), "must return one number"),  # here
        (lambda z: complex(z[0], 1.0), "given a complex one"),  # here
        (lambda z: pe.accumulator(dtype=complex, op="max"), "cannot combine"),  # here
        (lambda z: pe.accumulator(dtype=np.clongdouble), "dtype"),  # here
    ],
)
def test_what_complex_numbers_do_not_have(function: Any, words: str) -> None:
    check_refused(KernelTypeError, function, (Z,), words)


def test_longer_complex_numbers_are_refused() -> None:
    with pytest.raises(KernelTypeError, match=r"clongdouble|complex256"):
        run(lambda z: z[0], Z.astype(np.clongdouble))


# --- derivatives ---------------------------------------------------------------------------------

SMOOTH: dict[str, Callable[[Any], Any]] = {
    **{name: FUNCTIONS[name][0] for name in (
        "exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "inverse", "conj",
    )},
    "power": lambda z: z ** (0.3 + 1j), "exponent": lambda z: (1.5 + 0.5j) ** z,
    "cube": lambda z: z**3, "absolute": lambda z: abs(z) * (1 + 1j),
    "phase": lambda z: 1j * np.angle(z),
    "quotient": lambda z: (z + 1) / (z * z - 3j),
}  # fmt: skip
PLACES = [1.5 - 0.5j, -0.2 + 1.1j, 1.5 + 0j, complex(1.5, -0.0), 1.2j, 1 + 1j, 2 - 2j]


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_are_those_of_functions_of_the_plane(name: str) -> None:
    """Where a part is 0, too: what special values need must not replace a formula there."""
    function, step = SMOOTH[name], 1e-6
    for place in PLACES:
        for direction in (1.0 + 0j, 1j, 0.6 - 0.8j):
            with np.errstate(all="ignore"):
                ahead, behind = (
                    run(function, np.complex128(place + s * step * direction)) for s in (1, -1)
                )
            _, tangent = pe.jvp(function, (np.complex128(place),), (np.complex128(direction),))
            assert tangent == pytest.approx((ahead - behind) / (2 * step), rel=1e-6, abs=1e-7)


def test_the_gradient_of_a_real_function_points_uphill() -> None:
    """PyTorch's convention: df/dx + i df/dy, so that `z - step * grad(f)(z)` descends."""
    square = pe.grad(lambda z: abs(z) ** 2)
    assert square(3 + 4j) == pytest.approx(6 + 8j)
    assert pe.grad(lambda z: z.imag)(1 + 1j) == 1j
    assert pe.grad(lambda z: (z * z).real)(1 + 2j) == pytest.approx(np.conj(2 * (1 + 2j)))


def loss(z: Any, w: Any) -> Any:
    return pe.sum(lambda i: abs(z[i] * w + pe.exp(z[i] / w)) ** 2)


def test_gradients_of_arrays_and_numbers() -> None:
    z, w = np.array([1 + 2j, 3 - 1j, 0.5j]), 1.5 - 0.5j
    by_z, by_w = pe.grad(loss, argnums=(0, 1))(z, w)
    assert (by_z.dtype, by_z.shape) == (np.dtype(complex), (3,))
    dz, dw = 1j * z, 1 + 1j
    _, tangent = pe.jvp(loss, (z, w), (dz, dw))
    assert tangent == pytest.approx(np.sum((by_z.conj() * dz).real) + (by_w.conjugate() * dw).real)
    pe.check_grads(loss, (z, w))
    assert pe.value_and_grad(loss)(z.astype("c8"), np.complex64(w))[1].dtype == np.complex64


def test_vjp_of_complex_values() -> None:
    value, pullback = pe.vjp(lambda z: pe.table(lambda i: z[i] ** 2), Z)
    close(value, Z**2)
    (back,) = pullback(W)
    close(back, W * np.conj(2 * Z))  # the transpose of multiplication by 2z over the reals


def test_gradients_of_complex_values_are_refused() -> None:
    with pytest.raises(DerivativeArgumentError, match=r"gives a complex number.*\n.*\n.*abs\(z\)"):
        pe.grad(lambda z: z * z)(1j)
    with pytest.raises(DerivativeArgumentError, match="gives a complex number"):
        pe.value_and_grad(lambda z: (z * z, 1.0), has_aux=True)(1j)
