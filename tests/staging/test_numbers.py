"""Types of numbers and arrays, promotion, and mathematical functions of plain numbers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from staged import pe

from peffects.errors import KernelTypeError
from peffects.ir.syntax import BOOL, F32, F64, I32, I64, SCALARS
from peffects.staging.tracing.argument_types import ArrayType, ScalarType, as_array, type_of
from peffects.staging.tracing.promotion import join, number_type, scalar_of, true_division_type


@pytest.mark.parametrize(("left", "right"), [*itertools.combinations(sorted(SCALARS), 2)])
def test_strong_types_meet_as_in_numpy(left: str, right: str) -> None:
    scalar, weak = join(SCALARS[left], False, SCALARS[right], False)
    assert (scalar.dtype, weak) == (np.result_type(left, right).name, False)


def test_python_numbers_take_the_type_of_what_they_meet() -> None:
    assert join(F32, False, F64, True) == (F32, False)
    assert join(I32, False, I64, True) == (I32, False)
    assert join(I32, False, F64, True) == (F64, False)
    assert join(I64, True, F64, True) == (F64, True)
    assert join(BOOL, False, I64, True) == (I64, True)
    assert true_division_type(I32) == F64 and true_division_type(F32) == F32


def test_types_of_values() -> None:
    assert number_type(True) == (BOOL, False)
    assert number_type(np.float32(1)) == (F32, False)
    assert number_type(2) == (I64, True)
    assert number_type("a") is number_type(1j) is number_type(np.float16(1)) is None
    assert scalar_of("float16") is scalar_of("no such type") is None
    assert type_of(np.ones((2, 3), "f4")) == ArrayType("float32", 2)
    assert type_of(np.array(3)) == ScalarType("int64")
    assert type_of(2.5) == ScalarType("float64", weak=True)
    assert type_of(ScalarType("int8")) == ScalarType("int8")
    assert type_of("a") is type_of(np.ndarray) is None


class Interface:
    def __init__(self, array: Any) -> None:
        self.__array_interface__ = array.__array_interface__
        self.array = array


class Exchange:
    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("wrap", [Interface, Exchange])
def test_arrays_of_others_share_their_memory(wrap: type) -> None:
    array = np.arange(3.0)
    found = as_array(wrap(array))
    assert found is not None
    array[0] = 7.0
    assert found[0] == 7.0
    assert type_of(wrap(array)) == ArrayType("float64", 1)


@pytest.mark.parametrize(
    "name",
    ["exp", "expm1", "log1p", "sqrt", "sin", "cos", "tan", "arctan", "sinh", "cosh", "tanh",
     "floor", "ceil", "trunc", "arcsin", "arccos", "log"],
)  # fmt: skip
def test_functions_of_plain_numbers_are_numpy_s(name: str) -> None:
    function, original = getattr(pe, name), getattr(np, name)
    found = function(0.75)
    assert found == original(0.75) and type(found) is float
    assert function(np.float32(0.5)).dtype == np.float32
    assert function(1) == original(1.0)


def test_other_functions_of_plain_numbers() -> None:
    assert pe.erf(0.5) == math.erf(0.5) and pe.lgamma(4.5) == math.lgamma(4.5)
    assert pe.arctan2(1.0, 2.0) == math.atan2(1.0, 2.0)
    assert pe.log(0.0) == -math.inf and math.isnan(pe.sqrt(-1.0))
    assert (pe.maximum(1, 2), pe.minimum(1, 2)) == (2, 1)
    assert pe.isfinite(1.0) and pe.isnan(math.nan) and not pe.isnan(1)
    assert (pe.where(True, 1, 2), pe.where(False, 1, 2)) == (1, 2)
    assert pe.stop_gradient(3.0) == 3.0 and pe.unchecked([1]) == [1]


def test_functions_of_plain_numbers_take_no_arrays() -> None:
    with pytest.raises(KernelTypeError, match=r"pe\.table"):
        pe.exp(np.ones(3))
