"""`explain`: what a kernel became, from the IR to the source that runs.

The same stages as `compile.py`, in words: the program, the optimized program, what became of each
loop and accumulation and why, and the generated source with the lines of the user in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peffects.compile import Compiled
from peffects.errors import KernelTypeError
from peffects.ir.print import print_program
from peffects.kernels import Kernel
from peffects.source import caller


@dataclass(frozen=True, slots=True)
class Explanation:
    """What `explain` gives: text when printed, sections by name."""

    name: str
    sections: dict[str, str]

    def __str__(self) -> str:
        parts = [f"== {title} of {self.name} ==\n{text}" for title, text in self.sections.items()]
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        return str(self)

    def save(self, path: str | Path) -> None:
        """Write the text to a file."""
        Path(path).write_text(f"{self}\n")


def explain(function: Callable[..., object], *args: object, **kwargs: object) -> Explanation:
    """Show what `function`, a kernel, a derivative or a function that can be a kernel, compiles to.

    `args` are those of a call; only their types matter.  Nothing is run.  Sections: `program`,
    `optimized program`, `decisions`, `generated source`.
    """
    if not callable(function):
        raise KernelTypeError(
            f"`explain` was given {function!r}, which is no function.",
            at=caller(),
            fix="Give the function and its arguments: `pe.explain(f, x)`, not `pe.explain(f(x))`.",
        )
    kernel: Kernel[..., Any] = function if isinstance(function, Kernel) else Kernel(function)
    compiled = kernel.specialize(args, kwargs)[0].compiled
    return Explanation(compiled.program.name, _sections(compiled))


def _sections(compiled: Compiled) -> dict[str, str]:
    return {
        "program": print_program(compiled.program),
        "optimized program": print_program(compiled.optimized),
        "decisions": _decisions(compiled),
        "generated source": compiled.lowered.annotated.strip(),
    }


def _decisions(compiled: Compiled) -> str:
    """A line for each accumulation: what it became, and why."""
    lines = [
        f"{decision.src.short()}: `{decision.subject}` is {decision.strategy.value}: "
        f"{decision.reason}"
        for decision in compiled.lowered.decisions
    ]
    return "\n".join(lines) or "nothing to decide"
