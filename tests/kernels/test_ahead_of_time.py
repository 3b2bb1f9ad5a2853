"""`kernel.lower(...)` and `.compile()`: programs from types, without data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.codegen.load import loader
from peffects.errors import BoundsError, KernelTypeError, OutArgumentError, UnboundedTableError
from peffects.ir.syntax import Program
from peffects.staging.tracing.argument_types import ArrayType, ScalarType

X = np.arange(6.0)
VECTOR: Any = pe.Array[Any, float]


@pe.kernel
def scaled(x: Any, by: Any = 2.0) -> Any:
    return pe.table(lambda i: by * x[i])


class Spec:
    """A stand-in for an array, as other libraries have them."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape = shape
        self.dtype = dtype


def made() -> int:
    """How many modules have been compiled or loaded."""
    return loader.statistics.compiled + loader.statistics.from_disk


def test_types_of_arrays() -> None:
    array: Any = pe.Array
    assert array["n", "m", float] == ArrayType("float64", 2)
    assert array[3, np.int8] == ArrayType("int8", 1)
    assert array["n", np.dtype("f4")] == ArrayType("float32", 1)
    assert array[bool] == ScalarType("bool")
    for wrong in (None, str, "no", np.float16):
        with pytest.raises(KernelTypeError, match=r"no type of a kernel's numbers"):
            array["n", wrong]


@pytest.mark.parametrize("spec", [VECTOR, Spec((10,), np.float64), np.empty(3), X[::2]])
def test_an_array_is_told_by_its_type(spec: Any) -> None:
    lowered = scaled.lower(spec)
    assert repr(lowered) == "<lowered kernel scaled(float64[:])>"
    assert isinstance(lowered.ir, Program)
    assert "for i:x_0" in lowered.as_text()
    compiled = lowered.compile()
    assert repr(compiled) == "<compiled kernel scaled(float64[:])>"
    assert compiled(X).tolist() == (2.0 * X).tolist()


def test_compiling_ahead_serves_the_kernel_s_own_calls() -> None:
    kernel = pe.kernel(scaled.__pe_function__)
    compiled = kernel.lower(pe.Array[Any, np.float32], float).compile()
    before = made()
    x = X.astype("f4")
    assert kernel(x, 3.0).tolist() == compiled(x, 3.0).tolist() == (3.0 * X).tolist()
    assert kernel(x[:2], 1.0).tolist() == compiled(x[:2], 1.0).tolist()
    assert made() == before


def test_lowering_compiles_nothing() -> None:
    before = made()
    assert "mul" in pe.kernel(lambda x: x * 1.25).lower(float).as_text()
    assert made() == before


@pytest.mark.parametrize(
    ("kind", "value"), [(float, 2.5), (int, 3), (bool, True), (np.int16, np.int16(4))]
)
def test_types_of_numbers(kind: Any, value: Any) -> None:
    kernel = pe.kernel(lambda v: v)
    result = kernel.lower(kind).compile()(value)
    assert result == value and result.dtype == np.asarray(value).dtype


def test_keywords_trees_and_static_values() -> None:
    @pe.kernel
    def chosen(p: Any, name: Any, *, flip: Any = False) -> Any:
        return -p[name] if flip else p[name]

    compiled = chosen.lower({"a": float, "b": pe.Array[Any, int]}, "a", flip=bool).compile()
    assert compiled({"a": 2.0, "b": X.astype(int)}, "a", flip=True) == -2.0
    with pytest.raises(KernelTypeError, match=r"was compiled for"):
        compiled({"a": 2.0}, "a", flip=True)
    with pytest.raises(KernelTypeError, match="is not what it was"):
        compiled({"a": 2.0, "b": X.astype(int)}, "b", flip=True)


def test_a_call_of_other_types_is_refused() -> None:
    compiled = scaled.lower(VECTOR).compile()
    with pytest.raises(KernelTypeError) as caught:
        compiled(X.astype("f4"))
    assert caught.value.what == (
        "`scaled` was compiled for (float64[:]) and is called with (float32[:])."
    )
    assert "test_ahead_of_time.py" in caught.value.at.file


def test_a_capture_that_became_another_is_refused_and_a_number_is_read_again() -> None:
    space: dict[str, Any] = {"by": 2.0, "of": np.ones(2)}
    kernel = pe.kernel(lambda x: pe.table(lambda i: space["by"] * x[i] + space["of"][0]))
    compiled = kernel.lower(VECTOR).compile()
    space["by"] = 3.0
    assert compiled(X).tolist() == (3.0 * X + 1.0).tolist()
    space["of"] = 1.0
    with pytest.raises(KernelTypeError, match=r"what .* captures is not what it was"):
        compiled(X)


def test_compiled_calls_take_out_and_fail_as_kernels_do() -> None:
    compiled = scaled.lower(VECTOR).compile()
    out = np.empty(6)
    assert compiled(X, out=out) is out and out.tolist() == (2.0 * X).tolist()
    with pytest.raises(OutArgumentError):
        compiled(X, out=np.empty(5))
    too_far = pe.kernel(lambda x: x[9]).lower(VECTOR).compile()
    with pytest.raises(BoundsError):
        too_far(X)


def test_derivatives_are_lowered_too() -> None:
    energy: Any = pe.kernel(lambda x: pe.sum(lambda i: x[i] ** 2))
    gradient: Any = pe.grad(energy)
    lowered = gradient.lower(VECTOR)
    np.testing.assert_allclose(lowered.compile()(X), 2.0 * X)


def test_what_staging_or_lowering_refuses_is_refused_without_data() -> None:
    @pe.kernel
    def unbounded(count: Any) -> Any:
        def of(i: Any) -> Any:
            squares = pe.table(lambda j: 1.0 * j * j, over=count[i])
            return squares[0] + pe.sum(squares)

        return pe.table(of)

    with pytest.raises(UnboundedTableError):
        unbounded.lower(pe.Array[Any, int]).compile()
