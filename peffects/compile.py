"""The whole pipeline on one page: from a program to something that runs.

    Program ──optimize──▶ Program ──lower and emit──▶ LoopProgram, source ──load──▶ Executable

`kernels.py` gives programs to it; `explain.py` shows what it did.  Nothing here is lazy or cached:
machine code is cached on disk by `codegen/loader.py`, compiled kernels by the kernel that asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peffects.codegen import cpu
from peffects.codegen.cpu import compile_cpu
from peffects.codegen.launcher import Executable
from peffects.codegen.loader import load
from peffects.ir.sizes import bind_sizes
from peffects.ir.syntax import Program, Scalar, Table, Var
from peffects.optimize.pipeline import optimize


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program in all its forms, the last of which runs."""

    program: Program
    optimized: Program
    lowered: cpu.Compiled
    executable: Executable

    def __call__(self, values: Sequence[object]) -> tuple[object, ...]:
        """Run on one value for each parameter; one numpy array or scalar for each result.

        Raises IndexSetMismatchError when axes disagree, and what the program's own checks raise.
        """
        program = self.optimized
        args = [_argument(var, value) for var, value in zip(program.params, values, strict=True)]
        shapes = [np.shape(arg) for arg in args]
        scalars = {
            var: int(arg)
            for var, arg in zip(program.params, args, strict=True)
            if isinstance(var.type, Scalar) and var.type.is_integer
        }
        sizes = bind_sizes(program, shapes, scalars)
        return self.executable(*args, *(sizes[size.var] for size in program.sizes))


def compile_program(program: Program) -> Compiled:
    """Compile a program for the CPU."""
    optimized = optimize(program)  # fuse loops, drop what nobody uses
    lowered = compile_cpu(optimized)  # loops over buffers, then source text
    module = load(lowered.source, lowered.kernels)  # machine code, from the cache or from numba
    return Compiled(program, optimized, lowered, Executable(lowered.loop_program, module))


def _argument(var: Var, value: Any) -> Any:
    """`value` as kernels take it: C contiguous, in native byte order; a scalar as it is."""
    if isinstance(var.type, Table):
        array: NDArray[np.generic] = np.ascontiguousarray(value, dtype=var.type.elem.dtype)
        return array
    return value[()] if isinstance(value, np.ndarray) else value
