"""The vectorizable functions: their errors, their special values, and that loops get vectorized."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compiled import CompiledProgram
from numba import njit, types
from programs import Sketch, tabulate

from peffects.codegen.launch.cpu import compile_cpu
from peffects.ir import primitives as p
from peffects.ir.primitives import Primitive
from peffects.ir.syntax import F32, F64, Program, Scalar

POINTS = 1_000_000
MEASURED_ULP = 0.9  # what the docstring of the module promises is 1
EXTENDED = np.finfo(np.longdouble).nmant >= 63


def mapped(op: Primitive, t: Scalar = F64) -> Program:
    """y[i] = op(x[i])."""
    s = Sketch(op.name)
    x = s.table("x", "n", elem=t)
    i = s.index("i", "n")
    return s.done(tabulate(s.b, [i], lambda q: q.prim(op, q.index(x, i))))


def errors_in_ulp(op: Primitive, exact: Callable[..., Any], x: Any) -> Any:
    (found,) = CompiledProgram(mapped(op))(x)
    expected = exact(x.astype(np.longdouble))
    unit = np.spacing(np.abs(expected).astype(np.float64)).astype(np.longdouble)
    return np.abs(found.astype(np.longdouble) - expected) / unit


@pytest.mark.skipif(not EXTENDED, reason="no 80-bit floats to compare with")
@pytest.mark.parametrize("low, high", [(-745.0, 709.78), (-1.0, 1.0), (-1e-8, 1e-8)])
def test_exp_is_off_by_less_than_a_unit(low: float, high: float) -> None:
    x = np.random.default_rng(3).uniform(low, high, POINTS)
    assert errors_in_ulp(p.EXP, np.exp, x).max() < MEASURED_ULP


@pytest.mark.skipif(not EXTENDED, reason="no 80-bit floats to compare with")
@pytest.mark.parametrize("low, high", [(-1074.0, 1023.9), (-1.0, 1.0), (-1e-6, 1e-6)])
def test_log_is_off_by_less_than_a_unit(low: float, high: float) -> None:
    x = 2.0 ** np.random.default_rng(4).uniform(low, high, POINTS)
    assert errors_in_ulp(p.LOG, np.log, x).max() < MEASURED_ULP


def test_special_values_are_those_of_ieee_754() -> None:
    x = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 710.0, -746.0, 5e-324, -5e-324, -1.0])
    with np.errstate(all="ignore"):
        exp, log = np.exp(x), np.log(x)
    np.testing.assert_array_equal(CompiledProgram(mapped(p.EXP))(x)[0][[0, 1, 3, 4, 5, 6, 7, 8, 9]],
                                  exp[[0, 1, 3, 4, 5, 6, 7, 8, 9]])  # fmt: skip
    np.testing.assert_array_equal(CompiledProgram(mapped(p.LOG))(x)[0], log)


@pytest.mark.parametrize("op", [p.EXP, p.LOG])
def test_f32_is_computed_in_f64(op: Primitive) -> None:
    x = np.random.default_rng(5).uniform(0.0, 80.0, 10_000).astype(np.float32)
    (found,) = CompiledProgram(mapped(op, F32))(x)
    exact = {p.EXP: np.exp, p.LOG: np.log}[op](x.astype(np.float64))
    np.testing.assert_array_max_ulp(found, exact.astype(np.float32), maxulp=1)


@pytest.mark.parametrize("op", [p.EXP, p.LOG, p.CBRT])
def test_loops_are_vectorized(op: Primitive) -> None:
    """Products of several doubles at once, and no call of the C library."""
    compiled = compile_cpu(mapped(op))
    namespace: dict[str, Any] = {}
    exec(compiled.source, namespace)
    signature = types.void(types.int64, types.int64)
    kernel: Any = njit(signature, error_model="numpy")(namespace[compiled.kernels[0]])
    (llvm,) = kernel.inspect_llvm().values()
    assert re.search(r"fmuladd\.v\d+f64", llvm)
    assert not re.search(rf"call double @{op.name}\b", llvm)
