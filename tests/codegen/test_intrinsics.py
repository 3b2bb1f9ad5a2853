"""What generated source imports: exact bits, no aliasing, vectorized reductions, the frame."""

from __future__ import annotations

import ctypes
import math
import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit, types

from peffects.codegen.launch.workspace import AnyArray, Workspace
from peffects.codegen.load.loader import Module
from peffects.codegen.load.loader import load as load_source
from peffects.codegen.native import intrinsics
from peffects.codegen.native.intrinsics import DTYPES, frame_get, frame_set, load, store
from peffects.codegen.program.loop_programs import (
    CANCEL_SLOT,
    CHUNKS_SLOT,
    FAILED_SLOT,
    STATUS_FIELDS,
    STATUS_SLOT,
    TICKS_SLOT,
    TRIP_SLOT,
)

SPECIAL: dict[str, list[Any]] = {
    "float64": [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, math.pi],
    "float32": [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, math.pi],
    "bool": [False, True],
}

HEAD = """
from peffects.codegen.native.intrinsics import *
i64, word = frame_get("int64"), store("int64")
"""
COPY = (
    HEAD
    + """
read, write = load({dtype!r}, 0), store({dtype!r}, 1)
get, set_ = frame_get({dtype!r}), frame_set({dtype!r})

def copy(chunk, frame):
    source, target, n = i64(frame, 8), i64(frame, 9), i64(frame, 10)
    for i in range(n):
        write(target, i, read(source, i))
    set_(frame, 12, get(frame, 11))
"""
)


def call(module: Module, kernel: str, chunk: int, workspace: Workspace) -> None:
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)
    prototype(module.addresses[kernel])(chunk, workspace.frame_address)


def values_of(dtype: str) -> AnyArray:
    if dtype in SPECIAL:
        return np.array(SPECIAL[dtype], dtype)
    limits = np.iinfo(dtype)
    return np.array([0, 1, limits.max, limits.min, limits.max // 3], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_and_frame_keep_every_bit(dtype: str) -> None:
    module = load_source(COPY.format(dtype=dtype), ["copy"])
    source = values_of(dtype)
    target = np.zeros_like(source)
    workspace = Workspace(13, 1)
    words = workspace.words
    words[8], words[9], words[10] = source.ctypes.data, target.ctypes.data, len(source)
    for value in source:
        low = value.tobytes()
        words[11] = int.from_bytes(low.ljust(8, b"\xff"), "little", signed=True)
        words[12] = -1
        call(module, "copy", 0, workspace)
        filler = b"\xff" if dtype.startswith("int") and value < 0 else b"\0"
        assert struct.pack("<q", words[12]) == low.ljust(8, filler)
    assert source.tobytes() == target.tobytes()


def test_accessors_are_made_once_and_checked() -> None:
    assert load("float64", 3) is load("float64", 3)
    assert store("float64", 3) is not store("float64", 4)
    for make, dtype, scope in [(load, "float16", 0), (store, "float64", 64), (load, "bool", -2)]:
        with pytest.raises(ValueError, match="no memory access"):
            make(dtype, scope)
    for maker in (frame_get, frame_set):
        with pytest.raises(ValueError, match="no memory access for 'complex128'"):
            maker("complex128")


# --- vector code ------------------------------------------------------------------------------


def llvm_of(function: Callable[..., Any], *args: types.Type) -> str:
    """The optimized LLVM code of `function`, without its wrappers."""
    compiled = njit(
        types.void(*args), error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
    )(function)
    ((_, result),) = compiled.overloads.items()
    return str(result.library._final_module)


def test_scopes_make_alias_checks_unnecessary() -> None:
    reads = [load("float64", k) for k in range(3)]
    first, second, third = reads
    write = store("float64", 3)

    def scoped(a: int, b: int, c: int, out: int, n: int) -> None:
        for i in range(np.uint64(n)):
            write(out, i, first(a, i) * second(b, i) + third(c, i))

    code = llvm_of(scoped, *[types.int64] * 5)
    assert re.search(r"fmul <\d+ x double>", code)
    assert "memcheck" not in code

    read = load("float64")
    write_any = store("float64")

    def unscoped(a: int, b: int, c: int, out: int, n: int) -> None:
        for i in range(np.uint64(n)):
            write_any(out, i, read(a, i) * read(b, i) + read(c, i))

    assert "memcheck" in llvm_of(unscoped, *[types.int64] * 5), "else this test shows nothing"


@pytest.mark.parametrize(
    ("combine", "vector"),
    [
        ("reduce_add", r"fadd reassoc contract <\d+ x double>"),
        ("reduce_mul", r"fmul reassoc contract <\d+ x double>"),
        ("reduce_min", r"call <\d+ x double> @llvm\.minimum"),
        ("reduce_max", r"call <\d+ x double> @llvm\.maximum"),
    ],
)
def test_reductions_are_vectorized(combine: str, vector: str) -> None:
    read, write, step = load("float64", 0), store("float64", 1), getattr(intrinsics, combine)

    def reduction(x: int, out: int, n: int) -> None:
        total = 1.0
        for i in range(np.uint64(n)):
            total = step(total, read(x, i))
        write(out, 0, total)

    assert re.search(vector, llvm_of(reduction, *[types.int64] * 3))


def test_user_sums_keep_their_order() -> None:
    read, write = load("float64", 0), store("float64", 1)

    def ordered(x: int, out: int, n: int) -> None:
        total = 0.0
        for i in range(np.uint64(n)):
            total += read(x, i)
        write(out, 0, total)

    assert not re.search(r"fadd [^\n]*<\d+ x double>", llvm_of(ordered, *[types.int64] * 3))


def test_contracted_product_is_fused() -> None:
    add, mul = intrinsics.reduce_add, intrinsics.contract_mul
    write = store("float64")

    def fused(out: int, a: float, b: float, c: float) -> None:
        write(out, 0, add(c, mul(a, b)))

    assert "fmul contract" in llvm_of(fused, types.int64, *[types.float64] * 3)


# --- reductions: values -----------------------------------------------------------------------

EXTREMA = (
    HEAD
    + """
get, set_ = frame_get({dtype!r}), frame_set({dtype!r})

def extrema(chunk, frame):
    a, b = get(frame, 8), get(frame, 9)
    set_(frame, 10, reduce_min(a, b))
    set_(frame, 11, reduce_max(a, b))
    set_(frame, 12, reduce_add(a, b))
    set_(frame, 13, reduce_mul(a, b))
    set_(frame, 14, contract_mul(a, b))
"""
)
MODULES: dict[str, Module] = {}


def combined(dtype: str, a: Any, b: Any) -> list[Any]:
    """min, max, +, *, * of two numbers of `dtype`."""
    if dtype not in MODULES:
        MODULES[dtype] = load_source(EXTREMA.format(dtype=dtype), ["extrema"])
    workspace = Workspace(15, 1)
    size = np.dtype(dtype).itemsize
    slots = workspace.memory[:15].view(dtype)[:: 8 // size]
    slots[8:10] = a, b
    call(MODULES[dtype], "extrema", 0, workspace)
    return list(slots[10:15])


@given(st.floats(), st.floats())
def test_reductions_of_floats_are_numpy_s(a: float, b: float) -> None:
    x, y = np.float64(a), np.float64(b)
    with np.errstate(all="ignore"):
        expected = [np.minimum(x, y), np.maximum(x, y), x + y, x * y, x * y]
    np.testing.assert_array_equal(combined("float64", a, b), expected)


@pytest.mark.parametrize("dtype", ["int64", "int8", "uint64", "uint8", "float32"])
def test_reductions_of_other_numbers_are_numpy_s(dtype: str) -> None:
    for a in values_of(dtype):
        for b in values_of(dtype):
            with np.errstate(all="ignore"):
                expected = [np.minimum(a, b), np.maximum(a, b), a + b, a * b, a * b]
            np.testing.assert_array_equal(combined(dtype, a, b), expected)


# --- the frame --------------------------------------------------------------------------------

CHUNKS = (
    HEAD
    + """
def bounds(chunk, frame):
    out = i64(frame, 8)
    word(out, 0, chunk_start(frame, chunk))
    word(out, 1, chunk_stop(frame, chunk))

def report(chunk, frame):
    tick(frame, chunk, 5)
    tick(frame, chunk, 2)
    if cancelled(frame):
        note(frame, chunk, 2, 33)
        fail(frame, chunk, 6, 11, bits_of_f64(0.5), -4)
"""
)


@given(st.integers(0, 1 << 62), st.integers(1, 512))
def test_chunks_are_a_partition_of_the_iterations(trip: int, chunks: int) -> None:
    module = load_source(CHUNKS, ["bounds", "report"])
    workspace = Workspace(9, 1)
    out = np.zeros(2, np.int64)
    words = workspace.words
    words[TRIP_SLOT], words[CHUNKS_SLOT], words[8] = trip, chunks, out.ctypes.data
    for chunk in {0, chunks // 3, chunks - 1}:
        call(module, "bounds", chunk, workspace)
        assert out.tolist() == [trip * chunk // chunks, trip * (chunk + 1) // chunks]


def test_ticks_cancel_flag_and_status_are_where_the_launcher_looks() -> None:
    module = load_source(CHUNKS, ["bounds", "report"])
    workspace = Workspace(9, 4)
    words = workspace.words
    start = workspace.frame_address
    assert words[STATUS_SLOT] == start + 8 * workspace.status_at
    assert words[CANCEL_SLOT] == start + 8 * workspace.cancel_at
    assert words[TICKS_SLOT] == start + 8 * workspace.ticks_at
    call(module, "report", 2, workspace)
    assert workspace.ticks[2] == 7
    assert words[FAILED_SLOT] == 0
    words[workspace.cancel_at] = 1
    call(module, "report", 3, workspace)
    assert workspace.ticks[3] == 7
    assert words[FAILED_SLOT] == 1
    at = workspace.status_at + 3 * STATUS_FIELDS
    assert words[at : at + 5].tolist() == [
        7,
        11,
        struct.unpack("<q", struct.pack("<d", 0.5))[0],
        -4,
        33,
    ]
    assert words[at - STATUS_FIELDS : at].tolist() == [0] * STATUS_FIELDS
