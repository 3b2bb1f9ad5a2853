"""The whole pipeline on one page: from a program to something that runs.

    Program ──optimize──▶ Program ──lower and emit──▶ LoopProgram, source ──load──▶ Executable

`kernel.py` gives programs to it; `inspection/` shows what it did.  Nothing here is lazy or cached:
machine code is cached on disk by `codegen/load/loader.py`, compiled kernels by the kernel that
asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from peffects.codegen.launch import cpu
from peffects.codegen.launch.cpu import compile_cpu
from peffects.codegen.launch.launcher import Executable
from peffects.codegen.load.loader import load
from peffects.ir.sizes import mismatch
from peffects.ir.syntax import Atom, Lit, Program, Table
from peffects.optimize.pipeline import optimize

_Expected: TypeAlias = "Callable[[Sequence[Any]], int]"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program in all its forms, the last of which runs."""

    program: Program
    optimized: Program
    lowered: cpu.NativeProgram
    executable: Executable
    bind: Binder

    def __call__(
        self, values: Sequence[object], into: Sequence[NDArray[Any] | None] = ()
    ) -> tuple[object, ...]:
        """Run on one value for each parameter; one numpy array or scalar for each result.

        `into` may have, for each result, an array in which it is given.  Raises
        IndexSetMismatchError when axes disagree, and what the program's own checks raise.
        """
        return self.executable(*self.bind(values), into=into)


def compile_program(program: Program) -> Compiled:
    """Compile a program for the CPU."""
    optimized = optimize(program)  # fuse loops, drop what nobody uses
    lowered = compile_cpu(optimized)  # loops over buffers, then source text
    # Machine code, from the cache or from numba.
    module = load(lowered.source, lowered.kernels, name=optimized.name)
    executable = Executable(lowered.loop_program, module)
    return Compiled(program, optimized, lowered, executable, Binder(optimized))


class Binder:
    """From values of a program's parameters to the inputs of its executable.

    Arrays become C contiguous, aligned and of native byte order, as most are; facts are checked;
    sizes are read.  It runs at each call, so what it does is laid out beforehand.
    """

    __slots__ = ("_facts", "_program", "_scalars", "_sizes", "_tables")

    def __init__(self, program: Program) -> None:
        tables = {k: p.type for k, p in enumerate(program.params) if isinstance(p.type, Table)}
        self._program = program
        self._tables = [(place, np.dtype(t.elem.dtype)) for place, t in tables.items()]
        self._scalars = [place for place in range(len(program.params)) if place not in tables]
        self._sizes = [(size.param, size.axis) for size in program.sizes]
        self._facts = [
            (fact.param, fact.axis, _expected(program, fact.size), fact) for fact in program.facts
        ]

    def __call__(self, values: Sequence[object]) -> list[Any]:
        """The inputs: parameters, then sizes.  Raises IndexSetMismatchError."""
        args: list[Any] = [*values]
        for place, dtype in self._tables:
            array = args[place]
            if type(array) is not np.ndarray or array.dtype is not dtype or not array.flags.carray:
                args[place] = _ordinary(array, dtype)
        for place in self._scalars:
            if isinstance(args[place], np.ndarray):
                args[place] = args[place][()]
        for place, axis, expected, fact in self._facts:
            if args[place].shape[axis] != expected(args):
                found = args[place].shape[axis]
                raise mismatch(self._program, fact, found, expected(args))
        args += [args[place].shape[axis] for place, axis in self._sizes]
        return args


def _ordinary(value: Any, dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
    """`value` as kernels take it, itself where it is that already."""
    array: NDArray[np.generic] = np.require(value, dtype, ("C", "A", "E"))
    return array


def _expected(program: Program, size: Atom) -> _Expected:
    """What reads the length that a fact asks for from the values of the parameters."""
    if isinstance(size, Lit):
        length = int(size.value)
        return lambda args: length
    for bound in program.sizes:
        if bound.var is size:
            place, axis = bound.param, bound.axis
            return lambda args: int(args[place].shape[axis])
    number = program.params.index(size)
    return lambda args: int(args[number])
