"""The part of Python that kernels are written in means in LLVM what it means in Python."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
import pytest

from peffects.codegen.load.loader import load
from peffects.errors import InternalError

HEAD = """
import math
from numba import float32 as f32, float64 as f64, int8 as i8, int64 as i64, uint64 as u64
from peffects.codegen.native.intrinsics import frame_get, frame_set
x, y, put = frame_get("float64"), frame_get("int64"), frame_set("float64")
"""


def run(source: str, *numbers: float | int) -> float:
    """What the kernel `f` of `source` writes into slot 0, with the numbers in the slots after."""
    frame = np.zeros(1 + len(numbers))
    for slot, number in enumerate(numbers, start=1):
        if isinstance(number, int):
            frame.view(np.int64)[slot] = number
        else:
            frame[slot] = number
    module = load(HEAD + source, ["f"])
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)
    prototype(module.addresses["f"])(0, frame.ctypes.data)
    return float(frame[0])


def kernel(*lines: str) -> str:
    """A kernel whose result is what the lines leave in `r`."""
    body = "\n".join(f"    {line}" for line in (*lines, "put(frame, 0, r)"))
    return f"def f(chunk, frame):\n{body}\n"


def test_loops_and_branches_run_as_in_python() -> None:
    lines = (
        "n, r = y(frame, 1), 0",
        "for i in range(n, 0, -1):",
        "    for j in range(2, i, 3):",
        "        if j % 2 == 0 and i != 7:",
        "            r += i * j",
        "        elif j > 8 or i == 7:",
        "            r -= 1",
        "        else:",
        "            pass",
        "k = 0",
        "while True:",
        "    k = k + 1",
        "    if k * k > n:",
        "        break",
        "r += 1000 * k",
    )

    def python(n: int) -> int:
        r = 0
        for i in range(n, 0, -1):
            for j in range(2, i, 3):
                if j % 2 == 0 and i != 7:
                    r += i * j
                elif j > 8 or i == 7:
                    r -= 1
        return r + 1000 * (math.isqrt(n) + 1)

    for n in (0, 1, 7, 8, 40):
        assert run(kernel(*lines), n) == python(n)


@pytest.mark.parametrize(
    ("expression", "numbers", "expected"),
    [
        ("y(frame, 1) // y(frame, 2)", (-7, 2), -4),
        ("y(frame, 1) % y(frame, 2)", (-7, 2), 1),
        ("y(frame, 1) % y(frame, 2)", (7, 0), 0),
        ("y(frame, 1) / y(frame, 2)", (7, 2), 3.5),
        ("-y(frame, 1) >> 1", (5,), -3),
        ("(y(frame, 1) ^ 6) | (1 << 4)", (3,), 21),
        ("x(frame, 1) + y(frame, 2)", (0.5, 2), 2.5),
        ("x(frame, 1) ** 0.5", (2.0,), math.sqrt(2.0)),
        ("f64(f32(x(frame, 1)))", (0.1,), float(np.float32(0.1))),
        ("i64(i8(y(frame, 1)))", (200,), -56),
        ("f64(u64(y(frame, 1)))", (-1,), 2.0**64),
        ("abs(y(frame, 1)) + abs(x(frame, 2))", (-3, -0.5), 3.5),
        ("min(y(frame, 1), 3) - max(x(frame, 2), 1.0)", (5, 2.0), 1.0),
        ("f64(x(frame, 1) != x(frame, 1))", (math.nan,), 1.0),
        ("f64(x(frame, 1) == x(frame, 1))", (math.nan,), 0.0),
        ("f64(u64(y(frame, 1)) > u64(y(frame, 2)))", (-1, 1), 1.0),
        ("f64(y(frame, 1) > 0) if y(frame, 1) != 2 else 7.0", (2,), 7.0),
        ("math.floor(x(frame, 1)) - math.ceil(x(frame, 1))", (-1.5,), -1),
        ("math.copysign(x(frame, 1), -math.inf)", (2.0,), -2.0),
        ("f64(math.isinf(x(frame, 1))) + f64(math.isfinite(x(frame, 1)))", (math.inf,), 1.0),
        ("f64(math.isnan(x(frame, 1))) + f64(math.isfinite(x(frame, 1)))", (math.nan,), 1.0),
    ],
)
def test_operators_have_the_types_that_the_emitter_counts_on(
    expression: str, numbers: tuple[Any, ...], expected: float
) -> None:
    assert run(kernel(f"r = {expression}"), *numbers) == expected


def test_and_or_and_choices_evaluate_one_side_only() -> None:
    """Address 0 is never read."""
    lines = (
        "n = y(frame, 1)",
        "a = n != 0 and y(n, 0) > 0",
        "b = n == 0 or y(n, 0) > 0",
        "r = f64(a) + 2.0 * f64(b) + (0.0 if n == 0 else x(n, 0))",
    )
    assert run(kernel(*lines), 0) == 2.0


def test_functions_are_put_in_place_with_variables_of_their_own() -> None:
    source = """
def collatz(n, most):
    steps = 0
    while n != 1:
        if steps == most:
            return -1
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps

def f(chunk, frame):
    n, steps = y(frame, 1), 5
    r = collatz(n, 1000) + 10000 * collatz(n + 1, 3) + 100000 * steps
    put(frame, 0, r)
"""
    assert run(source, 27) == 111 - 10000 + 500000


def test_kernels_of_one_source_share_names_and_nothing_else() -> None:
    source = HEAD + (
        "def f(chunk, frame):\n    a = 1.5\n    put(frame, 0, a)\n\n"
        "def g(chunk, frame):\n    a = 2\n    put(frame, 0, a + chunk)\n"
    )
    module = load(source, ["f", "g"])
    frame = np.zeros(1)
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)
    for name, expected in (("f", 1.5), ("g", 5.0)):
        prototype(module.addresses[name])(3, frame.ctypes.data)
        assert frame[0] == expected


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("r = [1.0]",), r"No rule translates `\[1\.0\]` in f"),
        (("r = 'text'",), "the constant 'text'"),
        (("raise ValueError",), r"No rule translates `raise ValueError` in f"),
        (("r = 1", "r = 0.5"), "The variable r of f has two types, int64 and float64"),
        (("r = len(1)",), "calls <built-in function len>, which cannot be translated"),
        (("r = put(frame, 0)",), r"set_slot\(int64, int64\), which is not defined"),
        (("r = missing",), "explains the name missing in f"),
        (
            ("for i in range(0, 4, y(frame, 1)):", "    r = i"),
            r"No rule translates `y\(frame, 1\)`",
        ),
    ],
)
def test_other_python_is_refused_by_name(lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(InternalError, match=message):
        run(kernel(*lines), 1)


def test_recursion_is_refused() -> None:
    source = "def g(n):\n    return g(n - 1)\n\ndef f(chunk, frame):\n    put(frame, 0, g(3))\n"
    with pytest.raises(InternalError, match="g calls itself"):
        run(source)
