"""From a program to a loop program and the source of its kernels, for CPUs.

`compile_cpu` imports no numba and compiles nothing: `loader.load` does, and only when the source is
new.
"""

from __future__ import annotations

from dataclasses import dataclass

from peffects.codegen.emit_cpu import emit_cpu
from peffects.codegen.loop_ir import Kernel
from peffects.codegen.loops import LoopProgram
from peffects.codegen.lower import lower
from peffects.codegen.lower_accumulate import Decision
from peffects.ir.syntax import Program

__all__ = ["Compiled", "compile_cpu"]


@dataclass(frozen=True, slots=True)
class Compiled:
    """What the launcher and the loader need, and what `explain` shows.

    The inputs of `loop_program` are the program's parameters, then its sizes.
    """

    loop_program: LoopProgram
    source: str
    kernels: tuple[str, ...]
    decisions: tuple[Decision, ...]
    loops: tuple[Kernel, ...]

    @property
    def annotated(self) -> str:
        """The source with the user's lines in it."""
        return emit_cpu(self.loops, lines=True)


def compile_cpu(program: Program) -> Compiled:
    """Lower a checked program and write its kernels."""
    lowered = lower(program)
    names = tuple(kernel.name for kernel in lowered.kernels)
    return Compiled(
        lowered.loop_program,
        emit_cpu(lowered.kernels),
        names,
        lowered.decisions,
        lowered.kernels,
    )
