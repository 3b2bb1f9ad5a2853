"""A function staged for arguments of some types, before and after it is compiled.

`Callee` is a program with its way in and out, `Specialization` what a kernel keeps of it for its
calls, `Lowered` and `CompiledCall` what users get who compile before they have data.  `kernel.py`
makes all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from peffects.errors import KernelTypeError
from peffects.ir.print import print_program
from peffects.ir.syntax import Program
from peffects.kernels.outputs import targets
from peffects.machine.checking.locations import users_frames
from peffects.source import caller
from peffects.staging.captures.readers import Reader
from peffects.staging.stage import signature

if TYPE_CHECKING:
    from peffects.kernels.pipeline import Compiled

__all__ = ["Callee", "CompiledCall", "Lowered", "Specialization"]


class Callee(Protocol):
    """A program with the way in and out: which arguments it takes, what its results make."""

    @property
    def program(self) -> Program:
        """The program."""

    def arguments(
        self, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> list[object] | None:
        """The program's arguments for a call; None if the program does not fit the call."""

    def reader(self) -> Reader:
        """A quick `arguments`: from the leaves of a call like the one the program was made for."""

    def results(self, outputs: Sequence[object]) -> object:
        """The value of the call."""


@dataclass(frozen=True, slots=True, eq=False)
class Specialization:
    """A staged function and its compiled form."""

    callee: Callee
    compiled: Compiled
    read: Reader

    def run(self, values: Sequence[object]) -> object:
        """The value of a call with these arguments of the program."""
        return self.callee.results(self.compiled(values))

    def run_into(self, values: Sequence[object], out: object) -> object:
        """The same, in the arrays of `out`."""
        into = targets(self.compiled.program, self.callee.results, out)
        return self.callee.results(self.compiled(values, into))


@dataclass(frozen=True, slots=True, eq=False)
class Lowered:
    """What `kernel.lower(...)` gives: the kernel's program for arguments of these types."""

    callee: Callee
    _compile: Callable[[], Specialization]
    _types: str

    @property
    def ir(self) -> Program:
        """The program, not yet optimized."""
        return self.callee.program

    def as_text(self) -> str:
        """The program in the notation of the IR."""
        return print_program(self.ir)

    @users_frames
    def compile(self) -> CompiledCall:
        """Compile to machine code, or load it from the disk."""
        return CompiledCall(self._compile(), self._types)

    def __repr__(self) -> str:
        return f"<lowered kernel {self.ir.name}({self._types})>"


@dataclass(frozen=True, slots=True, eq=False)
class CompiledCall:
    """What `kernel.lower(...).compile()` gives: called like the kernel, it never compiles."""

    _specialization: Specialization
    _types: str

    @users_frames
    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        """The kernel's value.  Raises KernelTypeError for a call that would have to compile."""
        values = self._specialization.callee.arguments(args, kwargs)
        if values is None:
            raise self._refusal(args, kwargs)
        if out is None:
            return self._specialization.run(values)
        return self._specialization.run_into(values, out)

    def _refusal(self, args: Sequence[object], kwargs: Mapping[str, object]) -> KernelTypeError:
        name, given = self._specialization.compiled.program.name, types_text(args, kwargs)
        what = f"`{name}` was compiled for ({self._types}) and is called with ({given})."
        if given == self._types:
            what = f"what `{name}` captures is not what it was when it was compiled."
        return KernelTypeError(
            what, at=caller(), fix="Call the kernel itself, which compiles what is new."
        )

    def __repr__(self) -> str:
        return f"<compiled kernel {self._specialization.compiled.program.name}({self._types})>"


def types_text(args: Sequence[object], kwargs: Mapping[str, object]) -> str:
    """The types of a call's leaves, in words for messages."""
    return ", ".join(
        "a static value" if kind is None else str(kind) for kind in signature(args, kwargs).leaves
    )
