"""`run_async`: waiting as an effect, clauses that wait, iterations as tasks."""

from __future__ import annotations

import asyncio
import time
from typing import Any, cast

import pytest

from peffects.errors import AwaitError, HandlerDefinitionError, MissingYieldFromError
from peffects.handlers import accum, accumulate, all_worlds, amb, attempt, run_state, throw
from peffects.handlers.state import get, put
from peffects.machine.handling.awaiting import Async, Await, await_
from peffects.machine.handling.clauses import final
from peffects.machine.handling.handler import Handler, handle, handler
from peffects.machine.handling.operations import Effect, Operation, effectful
from peffects.parallel import CONCATENATE, Fin, pfor, report, run, run_async

pytestmark = pytest.mark.filterwarnings("ignore:PE109")  # made, compared, thrown away


class Web(Effect): ...


class Fetch(Operation[Web, str]):
    url: str


class Stop(Operation[Web, str]): ...


class fetches(Handler[Web]):
    async def fetch(self, op: Fetch) -> str:
        await asyncio.sleep(0)
        return f"page {op.url}"

    @final
    async def stop(self, op: Stop) -> str:
        await asyncio.sleep(0)
        return "stopped"


async def value_later(value: Any, delay_s: float = 0.0) -> Any:
    await asyncio.sleep(delay_s)
    return value


async def fail_later() -> Any:
    await asyncio.sleep(0)
    raise LookupError("gone")


def test_a_program_waits_and_keeps_its_handlers() -> None:
    @effectful
    def program() -> Any:
        s: int = yield from get()
        more: int = yield from await_(value_later(5))
        yield from put(s + more)
        return (yield from await_(value_later(None)))

    assert asyncio.run(run_async(handle(run_state(1), program()))) == (6, None)


def test_clauses_may_be_async() -> None:
    @effectful
    def program(stop: bool) -> Any:
        page = yield from Fetch("a")
        if stop:
            yield from Stop()
        return page

    assert asyncio.run(run_async(cast(Any, handle(fetches(), program(False))))) == "page a"
    assert asyncio.run(run_async(cast(Any, handle(fetches(), program(True))))) == "stopped"


def test_an_async_clause_cannot_take_k() -> None:
    with pytest.raises(HandlerDefinitionError, match=r"is `async def` and takes `k`"):

        class waits(Handler[Web]):
            async def fetch(self, op: Fetch, k: Any) -> str:
                return "never"

            def stop(self, op: Stop) -> str:
                return "never"


def test_what_an_awaitable_raises_is_raised_at_its_line() -> None:
    @effectful
    def program() -> Any:
        try:
            yield from await_(fail_later())
        except LookupError as error:
            return str(error)

    assert asyncio.run(run_async(program())) == "gone"


@pytest.mark.filterwarnings("error")
def test_worlds_share_what_was_awaited() -> None:
    waited = []

    async def counted() -> int:
        waited.append(1)
        return 10

    @effectful
    def program() -> Any:
        ten: int = yield from await_(counted())
        n: int = yield from amb([1, 2])
        last: int = yield from await_(value_later(n))
        return ten + last

    assert asyncio.run(run_async(handle(all_worlds(), program()))) == [11, 12]
    assert waited == [1]


@pytest.mark.parametrize("tasks", [1, 3, 100])
def test_iterations_are_tasks_and_results_are_in_order(tasks: int) -> None:
    running = most = 0

    @effectful
    def body(i: int) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        yield from await_(value_later(None, 0.02 - 0.003 * i))
        running -= 1
        yield from accum((int(i),))
        return i * i

    program = handle(accumulate(CONCATENATE), pfor(Fin(6), body))
    assert asyncio.run(run_async(program, tasks=tasks)) == (tuple(range(6)), [0, 1, 4, 9, 16, 25])
    assert most == min(tasks, 6)


def test_loops_in_iterations_wait_together() -> None:
    @effectful
    def outer(i: int) -> Any:
        return list((yield from pfor(Fin(3), lambda j: await_(value_later(i * j, 0.05)))))

    started = time.monotonic()
    table = asyncio.run(run_async(pfor(Fin(4), outer)))
    assert table == [[0, 0, 0], [0, 1, 2], [0, 2, 4], [0, 3, 6]]
    assert time.monotonic() - started < 0.5  # one after the other: 0.6


def test_the_first_failure_in_index_order_is_raised_with_its_index() -> None:
    @effectful
    def body(i: int) -> Any:
        yield from await_(value_later(None, 0.03 - 0.01 * i))
        if i:
            raise ValueError(f"bad {int(i)}")

    with pytest.raises(ValueError, match="bad 1") as caught:
        asyncio.run(run_async(pfor(Fin(3), body)))
    assert caught.value.__notes__[0].startswith("in iteration 1 of the parallel for")


def test_a_failure_can_be_caught_round_the_loop_and_beside_results() -> None:
    @effectful
    def body(i: int) -> Any:
        yield from await_(value_later(None))
        if i == 1:
            yield from throw("no")
        return int(i)

    @effectful
    def program() -> Any:
        try:
            yield from pfor(Fin(2), lambda i: await_(fail_later()))
        except LookupError:
            return list((yield from pfor(Fin(2), lambda i: attempt(body(i)))))

    assert [type(x).__name__ for x in asyncio.run(run_async(program()))] == ["Ok", "Err"]


def test_cancelling_unwinds_the_computation_and_its_iterations() -> None:
    log: list[str] = []

    @effectful
    def body(i: int) -> Any:
        try:
            yield from await_(asyncio.sleep(60))
        finally:
            log.append(f"unwound {int(i)}")

    async def main() -> None:
        await asyncio.wait_for(run_async(pfor(Fin(2), body)), 0.05)

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert sorted(log) == ["unwound 0", "unwound 1"]


def test_what_is_left_is_unwound_and_may_wait() -> None:
    log: list[str] = []

    class keeps(Handler[Web]):
        def __init__(self) -> None:
            self.kept: Any = None

        def fetch(self, op: Fetch, k: Any) -> Any:
            return k

        def stop(self, op: Stop) -> str:
            return ""

    @effectful
    def program() -> Any:
        try:
            yield from Fetch("a")
        finally:
            log.append((yield from await_(value_later("unwound"))))

    @effectful
    def whole() -> Any:
        k = yield from handle(keeps(), program())
        log.append("end")
        return k is not None

    assert asyncio.run(run_async(whole())) is True
    assert log == ["end", "unwound"]


def test_under_run_it_says_what_to_do_and_a_handler_may_answer() -> None:
    @effectful
    def program() -> Any:
        waiting = value_later(1)
        try:
            return (yield from await_(waiting))
        finally:
            waiting.close()

    with pytest.raises(AwaitError, match="under `run`, which cannot wait") as caught:
        run(cast(Any, program()))
    assert caught.value.at.function == "program"
    assert run(cast(Any, handle(handler(Await, lambda op: 7), program()))) == 7
    mocked = handle(handler(Await, lambda op: 7), program())
    assert asyncio.run(run_async(cast(Any, mocked))) == 7
    assert Async is Await._effect


def test_ticks_and_wrong_arguments() -> None:
    ticks = []

    @effectful
    def body(i: int) -> Any:
        yield from await_(value_later(None, 0.15))
        report(0.5)
        yield from await_(value_later(None, 0.15))

    asyncio.run(run_async(pfor(Fin(2), body), on_tick=lambda d, n, s: ticks.append(d)))
    assert ticks[-1] == 2
    assert any(0 < done < 2 for done in ticks)
    with pytest.raises(ValueError, match="at least 1"):
        asyncio.run(run_async(pfor(Fin(2), body), tasks=0))

    @effectful
    def forgets(i: int) -> Any:
        yield from ()
        return body(i)

    with pytest.raises(MissingYieldFromError):
        asyncio.run(run_async(pfor(Fin(2), forgets)))
