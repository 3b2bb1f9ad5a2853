"""`run`: perform a computation to its end, with an executor for its parallel loops.

The executor is an argument of `run` or is set by `with use_executor(Threads(4)):`.  This is where
the machine gets its loop runner.  Layer 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar

from peffects.machine.checking.debugging import debugging
from peffects.machine.checking.locations import strip_internal
from peffects.machine.handling.operations import Eff, Par, check_computation, check_performed
from peffects.machine.resuming.answer_log import CopyAnswers, Options
from peffects.machine.resuming.parallel_for import OnTick, ParFor
from peffects.machine.running.machine import Machine
from peffects.parallel.executors.local import Executor, Serial, inside_a_loop, run_plainly
from peffects.source import SrcInfo, caller

__all__ = ["run", "run_on", "use_executor"]

MYPY: Final = False

E = TypeVar("E")
R = TypeVar("R")

_chosen: ContextVar[tuple[Executor, OnTick | None]] = ContextVar(
    "peffects_executor", default=(Serial(), None)
)


@contextmanager
def use_executor(executor: Executor, on_tick: OnTick | None = None) -> Iterator[Executor]:
    """Run the parallel loops of every `run` inside with `executor`."""
    token = _chosen.set((executor, on_tick))
    try:
        yield executor
    finally:
        _chosen.reset(token)


class ExecutorRunner:
    """The loop runner that gives loops without handlers to an executor.

    It travels to worker processes with their iterations, where loops run plainly: so it leaves the
    executor and the callback behind.
    """

    __slots__ = ("executor", "on_tick")

    def __init__(self, executor: Executor, on_tick: OnTick | None = None) -> None:
        self.executor = executor
        self.on_tick = on_tick

    def __call__(
        self, node: ParFor, iterate: Callable[[int], Any], where: Callable[[], SrcInfo]
    ) -> list[Any]:
        """Run a loop; one inside an iteration on the same thread."""
        if inside_a_loop():
            return run_plainly(len(node.n), iterate, where)
        return self.executor.execute(len(node.n), iterate, where, node.on_tick or self.on_tick)

    def __reduce__(self) -> tuple[object, ...]:
        return ExecutorRunner, (Serial(),)


if MYPY:

    def run(
        c: Eff[E, R],
        /,
        *,
        executor: Executor | None = None,
        on_tick: OnTick | None = None,
        copy_answers: CopyAnswers | None = None,
    ) -> R:
        """Perform computation `c`, all of whose effects are handled."""
elif TYPE_CHECKING:

    def run(
        c: Eff[Par, R],
        /,
        *,
        executor: Executor | None = None,
        on_tick: OnTick | None = None,
        copy_answers: CopyAnswers | None = None,
    ) -> R:
        """Perform computation `c`, all of whose effects are handled."""
else:

    def run(c, /, *, executor=None, on_tick=None, copy_answers=None):
        """Perform computation `c`, all of whose effects are handled, and give its result.

        `executor` runs its parallel loops: `Serial()` (the default), `Threads(n)`, `Processes(n)`
        or `Shuffled(seed)` of `peffects.parallel`; the result does not depend on it.  A loop inside
        an iteration runs on the thread of the iteration.  `on_tick(done, total, elapsed_s)`, such
        as a `ProgressBar`, is called while the outermost loops run.

        Raises UnhandledEffectError where an operation has no handler, NotAComputationError where
        `c` is no computation, and what the program raises.

        Worlds of one computation share the answers that it got before they parted, so an answer is
        not to be changed.  With `copy_answers=copy.deepcopy` (or a function that copies what the
        program can change) each world gets copies of its own, which costs a copy an answer.
        """
        try:
            return run_on(Machine, c, executor, on_tick, copy_answers)
        except BaseException as error:
            strip_internal(error, None)
            raise


def run_on(
    kind: type[Machine],
    c: Any,
    executor: Executor | None = None,
    on_tick: OnTick | None = None,
    copy_answers: CopyAnswers | None = None,
) -> Any:
    """`run` on a machine of some kind."""
    check_computation(c, "run")
    chosen, chosen_tick = _chosen.get()
    runner = ExecutorRunner(executor or chosen, on_tick or chosen_tick)
    result = kind(runner, Options(debugging(), copy_answers)).run(c)
    check_performed(result, "`run`", caller)
    return result
