"""From a program to a loop program and the source of its kernels, for CPUs.

`compile_cpu` imports no numba and compiles nothing: `loader.load` does, and only when the source is
new.
"""

from __future__ import annotations

from dataclasses import dataclass

from peffects.codegen.emit.source import emit_cpu
from peffects.codegen.lower.accumulate import Decision
from peffects.codegen.lower.program import lower
from peffects.codegen.program.loop_ir import LoopKernel
from peffects.codegen.program.loop_programs import LoopProgram
from peffects.ir.syntax import Program

__all__ = ["NativeProgram", "compile_cpu"]


@dataclass(frozen=True, slots=True)
class NativeProgram:
    """What the launcher and the loader need, and what `explain` shows.

    The inputs of `loop_program` are the program's parameters, then its sizes.
    """

    loop_program: LoopProgram
    source: str
    kernels: tuple[str, ...]
    decisions: tuple[Decision, ...]
    loops: tuple[LoopKernel, ...]

    @property
    def annotated(self) -> str:
        """The source with the user's lines in it."""
        return emit_cpu(self.loops, lines=True)


def compile_cpu(program: Program) -> NativeProgram:
    """Lower a checked program and write its kernels."""
    lowered = lower(program)
    names = tuple(kernel.name for kernel in lowered.kernels)
    return NativeProgram(
        lowered.loop_program,
        emit_cpu(lowered.kernels),
        names,
        lowered.decisions,
        lowered.kernels,
    )
