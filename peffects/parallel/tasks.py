"""`run_async`: `run` for programs that wait, inside a running asyncio event loop.

The same machine drives the program; where it performs `await_` the event loop goes on with others.
Iterations of a parallel `for` that no handler is around run as asyncio tasks, a number of them at a
time: while one waits another runs.  Their results and failures are those of every other executor.
Layer 2.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from peffects.machine.checking.debugging import debugging
from peffects.machine.checking.locations import place_of_site, strip_internal
from peffects.machine.checking.never_performed import runner
from peffects.machine.handling.awaiting import Async, Await
from peffects.machine.handling.operations import (
    LOOP,
    PERFORM,
    Eff,
    Par,
    Tag,
    check_computation,
    check_performed,
    is_computation,
)
from peffects.machine.resuming.answer_log import CopyAnswers, Options, Raised
from peffects.machine.resuming.frames import innermost_handler
from peffects.machine.resuming.parallel_for import OnTick, ParFor
from peffects.machine.running.machine import Machine
from peffects.parallel.executors.local import RunningLoop, Worker, running_worker

__all__ = ["run_async"]

MYPY: Final = False

E = TypeVar("E")
R = TypeVar("R")


class AsyncMachine(Machine):
    """A machine that waits, and runs iterations as tasks."""

    def __init__(self, tasks: int, on_tick: OnTick | None, options: Options) -> None:
        super().__init__(_no_runner, options)
        self.tasks = tasks
        self.on_tick = on_tick

    async def run_async(self, computation: Any) -> Any:
        """Perform `computation` to its end."""
        self._start(computation)
        await self._drive_async()
        for _ in self._leftovers():
            await self._drive_async()
        return self._ended()

    async def _drive_async(self) -> None:
        while not self.done:
            tag, item = self._fast()
            if not self.done:
                await self._event_async(tag, item)

    async def _event_async(self, tag: Tag, item: Any) -> None:
        if tag is PERFORM and isinstance(item, Await) and Async not in self.mark.evidence:
            await self._await(item)
        elif tag is LOOP and innermost_handler(self.mark) is None:
            await self._run_tasks(item)
        else:
            self._event(tag, item)

    async def _await(self, op: Await) -> None:
        try:
            value = await op.awaitable
        except BaseException as error:  # cancelling too: the computation unwinds
            strip_internal(error, None)
            if self.log is not None:
                self.log = ((self.log, op), Raised(error))
            self.error = error
        else:
            self._answer(op, value)

    async def _run_tasks(self, node: ParFor) -> None:
        on_tick = node.on_tick or self.on_tick
        place = place_of_site(self._site_of(node))
        loop = RunningLoop(len(node.n), node.body, lambda: place, on_tick, ticks_inline=True)
        indices = iter(range(loop.size))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self.tasks, loop.size)):
                    group.create_task(self._work(loop, indices))
            values = loop.finish()
        except BaseException as error:
            self._fail(error)
        else:
            self._answer(node, node.collect(node.checked(values, lambda: place)))

    async def _work(self, loop: RunningLoop, indices: Iterator[int]) -> None:
        worker = Worker(loop)
        loop.workers.append(worker)
        running_worker.set(worker)  # a task has a context of its own
        for i in indices:
            if i >= loop.limit:
                return
            worker.index = i
            try:
                loop.results[i] = await self._iterate(loop, i)
            except Exception as error:
                loop.failed(i, error)
            worker.fraction = 0.0
            worker.done += 1
            loop.tick()

    async def _iterate(self, loop: RunningLoop, i: int) -> Any:
        result = loop.iterate(i)
        if not is_computation(result):
            return result
        machine = AsyncMachine(self.tasks, self.on_tick, self.options)
        result = await machine.run_async(result)
        check_performed(result, "an iteration")
        return result


runner(AsyncMachine.run_async)


def _no_runner(*_: object) -> NoReturn:
    raise AssertionError("invariant: an AsyncMachine runs the loops that reach the top itself")


if MYPY:

    async def run_async(
        c: Eff[E, R],
        /,
        *,
        tasks: int = 100,
        on_tick: OnTick | None = None,
        copy_answers: CopyAnswers | None = None,
    ) -> R:
        """Perform computation `c`, waiting where it waits."""
elif TYPE_CHECKING:

    async def run_async(
        c: Eff[Par | Async, R],
        /,
        *,
        tasks: int = 100,
        on_tick: OnTick | None = None,
        copy_answers: CopyAnswers | None = None,
    ) -> R:
        """Perform computation `c`, waiting where it waits."""
else:

    async def run_async(c, /, *, tasks=100, on_tick=None, copy_answers=None):
        """Perform computation `c`, waiting where it waits, and give its result.

        At most `tasks` iterations of each parallel `for` run at a time; 1 runs them in order.
        `copy_answers`: as for `run`.
        """
        check_computation(c, "run_async")
        if tasks < 1:
            raise ValueError(f"run_async(..., tasks={tasks}): at least 1")
        options = Options(debugging(), copy_answers)
        result = await AsyncMachine(tasks, on_tick, options).run_async(c)
        check_performed(result, "`run_async`")
        return result
