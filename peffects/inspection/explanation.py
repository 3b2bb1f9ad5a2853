"""`explain`: what a kernel became, from the IR to the source that runs.

The same stages as `kernels/pipeline.py`, in words: the program, what each pass made of it, the
optimized program, which loops are parallel and what became of accumulations and why, the stages
that a call runs with their work, and the generated source with the lines of the user in it.  Of an
effectful program: its effects.  `explaining/` counts, and makes the page for notebooks.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from peffects.codegen.lower.accumulate import Strategy
from peffects.codegen.program.loop_ir import LoopKernel as LoopKernel
from peffects.codegen.program.loop_programs import (
    SERIAL,
    UNBOUNDED_NS,
    Buffer,
    HostLoop,
    InputArray,
    InputScalar,
    InputSize,
    Launch,
    Role,
    SizeExpr,
    SizeProduct,
    Stage,
)
from peffects.codegen.program.sizes import bytes_of, chunk_count, size_function
from peffects.errors import KernelTypeError
from peffects.inspection.costs import Cost, kernel_cost
from peffects.inspection.effects import effect_sections, is_effectful
from peffects.inspection.page import Page, framed, html_of, program_page, text_page
from peffects.ir.print import print_program
from peffects.ir.syntax import Table
from peffects.kernels.kernel import Kernel
from peffects.kernels.pipeline import Compiled
from peffects.machine.checking.locations import users_frames
from peffects.machine.checking.never_performed import performed
from peffects.machine.handling.operations import Computation
from peffects.optimize.passes import PassResult
from peffects.optimize.pipeline import optimize
from peffects.source import caller

__all__ = ["Explanation", "explain"]

_LOOPS = (Strategy.PARALLEL, Strategy.STRIPS, Strategy.SERIAL, Strategy.HOSTED, Strategy.PRODUCT)
_WORDS = {
    Strategy.PARALLEL: "runs in parallel",
    Strategy.STRIPS: "runs in strips",
    Strategy.SERIAL: "is serial",
    Strategy.HOSTED: "is a loop of stages",
    Strategy.DIRECT: "is written directly",
    Strategy.REDUCTION: "is a reduction",
    Strategy.PRIVATE: "has private copies",
    Strategy.PRODUCT: "is a matrix product",
    Strategy.IN_PLACE: "is overwritten in place",
    Strategy.COPIED: "is copied",
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """What `explain` gives: text when printed, a page in a notebook, sections by name."""

    name: str
    sections: dict[str, str]
    page: Page = field(repr=False)

    def __str__(self) -> str:
        parts = [f"== {title} of {self.name} ==\n{text}" for title, text in self.sections.items()]
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """What a notebook shows: the page in a frame of its own, so that styles do not mix."""
        return framed(self.html())

    def html(self) -> str:
        """A page that needs nothing else, in light or dark as the reader has it."""
        return html_of(self.page)

    def save(self, path: str | Path) -> None:
        """Write to a file: the page if its name ends in .html or .htm, else the text."""
        target = Path(path)
        is_page = target.suffix.lower() in (".html", ".htm")
        target.write_text(self.html() if is_page else f"{self}\n", encoding="utf-8")


@users_frames
def explain(
    function: Callable[..., object] | Generator[Any, Any, Any], *args: object, **kwargs: object
) -> Explanation:
    """Show what `function`, a kernel, a derivative or a function that can be a kernel, compiles to.

    `args` are those of a call.  Nothing is run.  Sections: `program`, `passes` (what each changed),
    `optimized program`, `loops` (which are parallel, what accumulations became, and why), `stages`
    (what a call runs one after the other, with iterations, estimated work, operations and bytes for
    these arguments), `generated source`.

    Of an effectful function, or a computation such as `handle(...)`, the sections are `effects`,
    `handlers` (outermost first, with what each does around a parallel `for`) and `loops`.
    """
    if is_effectful(function):
        return _of_effects(function, args, kwargs)
    if not callable(function):
        raise KernelTypeError(
            f"`explain` was given {function!r}, which is no function.",
            at=caller(),
            fix="Give the function and its arguments: `pe.explain(f, x)`, not `pe.explain(f(x))`.",
        )
    kernel: Kernel[..., Any] = function if isinstance(function, Kernel) else Kernel(function)
    specialization, values = kernel.specialize(args, kwargs)
    compiled = specialization.compiled
    steps: list[PassResult] = []
    optimize(compiled.program, steps)
    sections = {
        "program": print_program(compiled.program),
        "passes": "\n".join(map(_pass, steps)) or "none changed the program",
        "optimized program": print_program(compiled.optimized),
        "loops": "\n".join(_loops(compiled)) or "none",
        "stages": "\n".join(_stages(compiled, values)) or "none: nothing is left to compute",
        "generated source": compiled.lowered.annotated.strip(),
    }
    name = compiled.program.name
    return Explanation(name, sections, program_page(name, compiled, steps, sections))


def _of_effects(
    program: object, args: Sequence[object], kwargs: Mapping[str, object]
) -> Explanation:
    """The explanation of an effectful function or of a computation, which is not performed."""
    made: Any = program
    if callable(program) and (args or kwargs):
        made = program(*args, **kwargs)
    if isinstance(made, Computation):
        performed(made)  # whoever asks has not forgotten to perform it
    name = getattr(program, "__name__", "the program")
    sections = effect_sections(made)
    return Explanation(name, sections, text_page(name, sections))


# --- passes --------------------------------------------------------------------------------------


def _pass(step: PassResult) -> str:
    """What a pass did: the lines of the program that went and those that came."""
    before, after = print_program(step.before), print_program(step.after)
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm="")
    changes = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
    return "\n".join([f"{step.name}:", *(f"  {line}" for line in changes)])


# --- loops ---------------------------------------------------------------------------------------


def _loops(compiled: Compiled) -> Iterator[str]:
    """A line for each loop, in the order in which they run, and one for each accumulation in it."""
    for decision in compiled.lowered.decisions:
        indent = "" if decision.strategy in _LOOPS else "  "
        yield (
            f"{indent}{decision.src.short()}: `{decision.subject}` {_WORDS[decision.strategy]}: "
            f"{decision.reason}"
        )


# --- stages --------------------------------------------------------------------------------------


def _stages(compiled: Compiled, values: Sequence[object]) -> Iterator[str]:
    """A line for each stage, with numbers for the sizes of these values, and the sum of all."""
    known = _known_slots(compiled, values)
    kernels = {kernel.name: kernel for kernel in compiled.lowered.loops}
    sizes = _input_sizes(compiled, values)
    works = []
    for stage in compiled.lowered.loop_program.stages:
        yield from _stage(stage, known, kernels, sizes, "")
        works.append(_work(stage, known))
    if len(works) > 1:
        total = None if None in works else sum(cast(list[int], works))
        yield f"together: {_duration(total)}"


def _stage(
    stage: Stage,
    known: dict[int, int],
    kernels: Mapping[str, LoopKernel],
    sizes: dict[int, int],
    indent: str,
) -> Iterator[str]:
    if stage.only is not None and _value(stage.only, known) == 0:
        return  # another way is chosen for these sizes
    trip = _value(stage.trip, known)
    if isinstance(stage, HostLoop):
        times = "again and again" if stage.test else f"{_count(trip)} times, one after the other"
        yield f"{indent}{times}, {stage.at.short()}:"
        for inner in stage.parts:
            yield from _stage(inner, known, kernels, sizes, indent + "  ")
        return
    parts = [_how(stage, trip, known), _duration(_work(stage, known))]
    chunks = known.get(stage.chunks_slot, 1)
    for buffer in stage.buffers:
        copies = chunks if buffer.role in (Role.PARTIALS, Role.SCRATCH) else 1
        sizes[buffer.slot] = copies * _bytes([buffer], known)
    kernel = kernels.get(stage.kernel)  # none of a matrix product's: it is not made from loops
    cost = None if kernel is None else kernel_cost(kernel, known, sizes)
    texts = (_traffic(cost), _memory(stage.buffers, known))
    parts += [text for text in texts if text]
    yield f"{indent}{stage.kernel}, {stage.at.short()}: {', '.join(parts)}"


def _how(stage: Launch, trip: int | None, known: dict[int, int]) -> str:
    """In how many chunks a stage runs, which later stages may depend on."""
    if stage.chunks == SERIAL:
        return "serial"
    work = _work(stage, known)
    if trip is None or work is None:
        return f"parallel, at most {stage.chunks.most} chunks"
    partials = _value(bytes_of(stage.buffers, Role.PARTIALS), known) or 0
    own = _value(bytes_of(stage.buffers, Role.PARTIALS, Role.SCRATCH), known) or 0
    chunks = chunk_count(stage.chunks, trip, work, partials, own)
    known[stage.chunks_slot] = chunks
    size = "one chunk, as it is small" if chunks == 1 else f"{chunks} chunks"
    return f"parallel, {_count(trip)} iterations in {size}"


def _work(stage: Stage, known: Mapping[int, int]) -> int | None:
    """The estimated nanoseconds of one thread; None if they are known at run time only."""
    if isinstance(stage, Launch):
        work = _value(stage.work_ns, known)
        return None if work is None or work >= UNBOUNDED_NS else work
    if stage.test:
        return None
    if stage.only is not None and _value(stage.only, known) == 0:
        return 0
    trip, works = _value(stage.trip, known), [_work(inner, known) for inner in stage.stages]
    return None if trip is None or None in works else trip * sum(cast(list[int], works))


def _traffic(cost: Cost | None) -> str:
    """Operations, bytes, and how many of the one there are for each of the other."""
    if cost is None or not cost.bytes:
        return ""
    return (
        f"{_count(cost.operations)} operations on {_count(cost.bytes)} bytes "
        f"({cost.intensity:.2g} a byte)"
    )


def _memory(buffers: Sequence[Buffer], known: Mapping[int, int]) -> str:
    """The bytes that a stage allocates, results apart; per chunk those that each chunk has."""
    shared = [b for b in buffers if b.role is Role.TEMPORARY]
    parts = [b for b in buffers if b.role in (Role.PARTIALS, Role.SCRATCH)]
    sizes = [(_bytes(shared, known), ""), (_bytes(parts, known), " for each chunk")]
    texts = [f"{_count(size)} bytes{which}" for size, which in sizes if size]
    return f"allocates {' and '.join(texts)}" if texts else ""


def _bytes(buffers: Sequence[Buffer], known: Mapping[int, int]) -> int:
    sizes = [
        (_value(SizeProduct(buffer.shape), known) or 0) * np.dtype(buffer.dtype).itemsize
        for buffer in buffers
    ]
    return sum(sizes)


# --- sizes ---------------------------------------------------------------------------------------


def _known_slots(compiled: Compiled, values: Sequence[object]) -> dict[int, int]:
    """The slots of sizes and integers among the inputs: they are what estimates depend on."""
    program, known = compiled.optimized, {}
    inputs = iter(compiled.lowered.loop_program.inputs)
    for param, value, slot in zip(program.params, values, inputs, strict=False):
        is_integer = not isinstance(param.type, Table) and isinstance(value, int | np.integer)
        if is_integer and isinstance(slot, InputScalar):
            known[slot.slot] = int(cast(int, value))
    for size, slot in zip(program.sizes, inputs, strict=True):
        value = values[size.param]
        if isinstance(value, np.ndarray) and isinstance(slot, InputSize):
            known[slot.slot] = value.shape[size.axis]
    return known


def _input_sizes(compiled: Compiled, values: Sequence[object]) -> dict[int, int]:
    """The bytes of the arrays among the inputs, by the slots of their addresses."""
    inputs = compiled.lowered.loop_program.inputs
    return {
        kind.slot: value.nbytes
        for kind, value in zip(inputs, values, strict=False)
        if isinstance(kind, InputArray) and isinstance(value, np.ndarray)
    }


def _value(size: SizeExpr, known: Mapping[int, int]) -> int | None:
    """The size; None if it depends on what only a run can tell."""
    try:
        return size_function(size)(cast(memoryview, known))
    except KeyError:
        return None


def _count(number: int | None) -> str:
    return "an unknown number of" if number is None else f"{number:,}"


def _duration(nanoseconds: int | None) -> str:
    """Estimated work, in words."""
    if nanoseconds is None:
        return "work known at run time only"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"about {nanoseconds / size:.3g} {unit} of one thread"
    return "less than 1 µs"
