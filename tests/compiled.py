"""Running programs of the IR as compiled code, the way that the public pipeline does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from peffects.codegen.launch.cpu import NativeProgram, compile_cpu
from peffects.codegen.launch.launcher import Executable
from peffects.codegen.load.loader import load
from peffects.ir.evaluate import evaluate
from peffects.ir.sizes import bind_sizes
from peffects.ir.syntax import Program, Table


def launch_values(program: Program, args: Sequence[Any]) -> list[Any]:
    """The values of a loop program's inputs: arrays made contiguous, then sizes."""
    values = [
        np.ascontiguousarray(arg, var.type.elem.dtype) if isinstance(var.type, Table) else arg
        for var, arg in zip(program.params, args, strict=True)
    ]
    scalars = {
        var: int(arg)
        for var, arg in zip(program.params, args, strict=True)
        if not isinstance(var.type, Table) and isinstance(arg, int | np.integer)
    }
    sizes = bind_sizes(program, [np.shape(arg) for arg in args], scalars)
    return [*values, *sizes.values()]


class CompiledProgram:
    """A program as native code; call it with arrays and numbers."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.compiled: NativeProgram = compile_cpu(program)
        module = load(self.compiled.source, self.compiled.kernels)
        self.executable = Executable(self.compiled.loop_program, module)

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        """The results, as `evaluate` gives them."""
        return self.executable(*launch_values(self.program, args))


def assert_same(found: Any, expected: Any, what: str = "") -> None:
    """Bit for bit, NaNs being equal whatever their bits."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), what
    np.testing.assert_array_equal(found, expected, what)
    if found.dtype.kind == "f":
        fine = ~np.isnan(expected)
        signs = np.signbit(found[fine]), np.signbit(expected[fine])
        np.testing.assert_array_equal(*signs, f"{what}: signs")


def assert_equals_evaluate(program: Program, *args: Any, rtol: float = 0.0) -> None:
    """Compiled code gives what the evaluator gives; exactly unless `rtol` is given."""
    found, expected = CompiledProgram(program)(*args), evaluate(program, args)
    assert len(found) == len(expected)
    for x, y in zip(found, expected, strict=True):
        if rtol == 0.0:
            assert_same(x, y)
        else:
            assert np.asarray(x).dtype == np.asarray(y).dtype
            assert np.shape(x) == np.shape(y)
            np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-300)
