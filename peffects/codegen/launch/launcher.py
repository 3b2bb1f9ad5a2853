"""The launcher: the only way in which compiled loops run.

An `Executable` is a loop program with its machine code.  Calling it fills a frame, runs the stages
and gives the results.  Work estimated under 5 ms runs in the calling thread.  Longer work of the
main thread, and any launch with a progress callback or a timeout, runs in a helper thread while the
caller waits in steps: Ctrl-C, the callback's exceptions and the timeout set the cancel flag, which
kernels poll, and leave when the kernels have returned.  Launches may be concurrent and nested.

Read `program/loop_programs.py` for the data, `stages.py` for how a stage runs, `threads.py` for
threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from peffects.codegen.launch import helper_threads as workers
from peffects.codegen.launch.arguments import input_writer, output_reader
from peffects.codegen.launch.out_arrays import deliver, direct_slot, given
from peffects.codegen.launch.stages import runnable
from peffects.codegen.launch.threads import thread_count
from peffects.codegen.launch.workspace import NOT_STARTED, AnyArray, Workspace
from peffects.codegen.load.loader import Module, load_products
from peffects.codegen.program.loop_programs import Buffer, HostLoop, LoopProgram, Stage
from peffects.codegen.program.sizes import size_function, work_estimate
from peffects.errors import LaunchTimeoutError

__all__ = ["Executable", "LaunchOptions", "Progress", "launch_options"]

_LONG_NS = 5_000_000
"""Work from here on can be interrupted: a helper thread costs 1 or 2 % of it."""
_STEP_S = 0.05


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a launch is: the fraction of its estimated work, and the running kernel."""

    fraction: float
    elapsed_s: float
    kernel: str


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """What `launch_options` sets."""

    progress: Callable[[Progress], None] | None = None
    timeout_s: float | None = None


_NO_OPTIONS = LaunchOptions()
_options: ContextVar[LaunchOptions] = ContextVar("peffects_launch_options", default=_NO_OPTIONS)


@contextmanager
def launch_options(
    *, progress: Callable[[Progress], None] | None = None, timeout_s: float | None = None
) -> Iterator[None]:
    """Watch the launches made in this context.

    `progress` is called in the launching thread, about every 50 ms and when a launch has ended;
    what it raises stops the launch.  `timeout_s` is for each launch; a longer one raises
    LaunchTimeoutError. What is not given is inherited from the context around.
    """
    outer = _options.get()
    chosen = LaunchOptions(
        outer.progress if progress is None else progress,
        outer.timeout_s if timeout_s is None else timeout_s,
    )
    token = _options.set(chosen)
    try:
        yield
    finally:
        _options.reset(token)


class Executable:
    """A loop program with its machine code, to be called any number of times, by any thread."""

    __slots__ = (
        "_direct",
        "_estimate",
        "_idle",
        "_libraries",
        "_most_chunks",
        "_readers",
        "_stages",
        "_writers",
        "module",
        "program",
    )

    def __init__(self, program: LoopProgram, module: Module) -> None:
        self.program = program
        self.module = module
        self._writers = [input_writer(kind) for kind in program.inputs]
        buffers = _buffers(program.stages)
        self._readers = [output_reader(kind, buffers) for kind in program.outputs]
        self._libraries = [load_products(dtype) for dtype in program.product_dtypes]
        addresses = dict(module.addresses)
        for library in self._libraries:
            addresses.update(library.addresses)
        self._stages = [runnable(stage, addresses, program) for stage in program.stages]
        self._direct = [direct_slot(output, program.stages) for output in program.outputs]
        self._estimate = size_function(work_estimate(program.stages))
        self._most_chunks = _most_chunks(program.stages)
        self._idle: list[Workspace] = []

    def __call__(self, *values: Any, into: Sequence[AnyArray | None] = ()) -> tuple[Any, ...]:
        """Run the program on the values of its inputs; give those of its outputs.

        `into` may have an array for each output, in which its value is given; what such arrays
        hold after an exception is not defined.  Raises what a failing iteration failed with, the
        first in index order; OutArgumentError if an array has another shape than its output.
        """
        idle = self._idle
        try:
            workspace = idle.pop()
        except IndexError:
            workspace = Workspace(self.program.slots, self._most_chunks)
        for write, value in zip(self._writers, values, strict=True):
            write(workspace, value)
        workspace.inputs = values
        if into:
            workspace.given = given(into, self._direct, values)
        options = _options.get()
        if options is _NO_OPTIONS and (
            self._estimate(workspace.words) < _LONG_NS or not _in_main_thread()
        ):
            self._run(workspace)
        else:
            self._run_watched(workspace, options)
        results = tuple([read(workspace) for read in self._readers])
        if into:
            results = tuple(map(deliver, results, into, repeat(self.program.at)))
            workspace.given = {}
        workspace.held.clear()
        workspace.inputs = ()
        idle.append(workspace)  # not after an exception: it may be in use, or hold a failure
        return results

    def _run(self, workspace: Workspace) -> None:
        for stage in self._stages:
            stage.run(workspace)

    def _run_watched(self, workspace: Workspace, options: LaunchOptions) -> None:
        """Run in a helper thread, so that this one can react while kernels run."""
        workspace.watched = True
        workspace.threads = thread_count()  # of this context, not of the helper's
        workspace.stage = NOT_STARTED
        workspace.ticks[:] = 0
        start = time.perf_counter()
        total = self._estimate(workspace.words)
        job = workers.start(lambda: self._run(workspace))
        try:
            while not job.wait(_step(options, start)):
                self._check(workspace, options, start, total)
        except BaseException:
            workspace.words[workspace.cancel_at] = 1  # kernels return soon
            job.wait()  # a second Ctrl-C leaves at once; the job holds its memory
            raise
        if job.error is not None:
            try:
                raise job.error
            finally:
                job.error = None  # else its traceback and the job would hold each other
        workspace.watched = False
        workspace.threads = 0
        if options.progress is not None:
            _report(options.progress, 1.0, time.perf_counter() - start, workspace.stage.kernel)

    def _check(
        self, workspace: Workspace, options: LaunchOptions, start: float, total: int
    ) -> None:
        """Call back, and raise when time is up."""
        elapsed = time.perf_counter() - start
        if options.timeout_s is not None and elapsed >= options.timeout_s:
            raise LaunchTimeoutError(
                f"The compiled loops of {self.program.name} ran longer than "
                f"{options.timeout_s:g} s and were stopped in {workspace.stage.kernel}.",
                at=self.program.at,
                fix="Allow more with launch_options(timeout_s=...), or do less work.",
            )
        if options.progress is not None:
            _report(options.progress, _fraction(workspace, total), elapsed, workspace.stage.kernel)


def _report(
    progress: Callable[[Progress], None], fraction: float, elapsed_s: float, kernel: str
) -> None:
    """Call back; launches that the callback makes are not watched by it in turn."""
    token = _options.set(_NO_OPTIONS)
    try:
        progress(Progress(fraction, elapsed_s, kernel))
    finally:
        _options.reset(token)


def _buffers(stages: Sequence[Stage]) -> list[Buffer]:
    found: list[Buffer] = []
    for stage in stages:
        found += _buffers(stage.parts) if isinstance(stage, HostLoop) else stage.buffers
    return found


def _most_chunks(stages: Sequence[Stage]) -> int:
    return max(
        (
            _most_chunks(stage.parts) if isinstance(stage, HostLoop) else stage.chunks.most
            for stage in stages
        ),
        default=1,
    )


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _step(options: LaunchOptions, start: float) -> float:
    """How long to wait before looking again."""
    if options.timeout_s is None:
        return _STEP_S
    return min(max(options.timeout_s - (time.perf_counter() - start), 0.0), _STEP_S)


def _fraction(workspace: Workspace, total: int) -> float:
    """Finished stages and the finished iterations of the running one; an estimate, below 1.

    That all is done is told once, at the end.
    The stage is read before the ticks: those of a stage that begins meanwhile count as this one's,
    of which there are at most `trip`.  So the fraction never falls.
    """
    stage = workspace.stage
    ticks = int(workspace.ticks.sum()) - stage.ticks_before
    done = stage.done_ns + stage.work_ns * min(ticks / max(stage.trip, 1), 1.0)
    return min(done / max(total, 1), 0.99)
