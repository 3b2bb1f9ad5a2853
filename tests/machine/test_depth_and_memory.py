"""Depth without recursion, memory without leaks, tracebacks without the machine."""

from __future__ import annotations

import gc
import sys
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, GeneratorType
from typing import Any

import pytest

from peffects.handlers import (
    accum,
    accumulate,
    all_worlds,
    amb,
    attempt,
    fail,
    get,
    put,
    run_state,
    throw,
)
from peffects.machine.handling.clauses import multi
from peffects.machine.handling.handler import Handler, handle
from peffects.machine.handling.operations import Effect, Operation, effectful
from peffects.machine.resuming.frames import Marker
from peffects.machine.resuming.resumption import Resumption
from peffects.parallel import ADD, Executor, Fin, Serial, Threads, pfor, run

MACHINERY = (GeneratorType, Marker, Resumption, Handler)


class Ask(Effect): ...


class Question(Operation[Ask, Any]): ...


class resumes(Handler[Ask]):
    def question(self, op: Question, k: Any) -> Any:
        return (yield from k(1))


class drops(Handler[Ask]):
    def question(self, op: Question, k: Any) -> Any:
        return "dropped"


class returns_k(Handler[Ask]):
    @multi
    def question(self, op: Question, k: Any) -> Any:
        return k


@effectful
def asks() -> Any:
    try:
        return (yield from Question())
    finally:
        yield from ()


@effectful
def keeps_k() -> Any:
    k = yield from handle(returns_k(), asks())
    return (yield from k(1)) is not None


@effectful
def chooses() -> Any:
    return (yield from amb([1, 2])), (yield from amb([3, 4]))


@effectful
def adds(i: int) -> Any:
    yield from accum(i)


@effectful
def throws() -> Any:
    s: int = yield from get()
    yield from put(s + 1)
    yield from throw("no")


@contextmanager
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def bytecodes(program: Any) -> int:
    """How many bytecodes run while it runs: a measure of time that does not vary."""
    count = 0

    def step(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "opcode"
        return step

    def enter(frame: FrameType, event: str, argument: object) -> Any:
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return step

    before = sys.gettrace()
    with without_collector():  # others have callbacks there, which would count
        sys.settrace(enter)
        try:
            run(program)
        finally:
            sys.settrace(before)
    return count


@effectful
def counts_below(depth: int, pairs: int) -> Any:
    if depth:
        return (yield from counts_below(depth - 1, pairs))
    for _ in range(pairs):
        n: int = yield from get()
        yield from put(n + 1)


@pytest.mark.parametrize("inside", [lambda c: c, lambda c: handle(all_worlds(), c)])
def test_an_operation_costs_the_same_at_any_depth_of_calls(inside: Any) -> None:
    def cost(depth: int) -> int:
        _, few, many = (
            bytecodes(handle(run_state(0), inside(counts_below(depth, pairs))))
            for pairs in (200, 5, 15)  # code that is new is looked at closely
        )
        return many - few

    assert cost(0) > 0
    assert cost(0) == cost(10) == cost(1000)


def test_a_world_costs_the_same_at_any_depth_of_calls() -> None:
    @effectful
    def chooses_below(depth: int, options: int) -> Any:
        if depth:
            return (yield from chooses_below(depth - 1, options))
        yield from amb(range(options))
        yield from fail()

    def cost(depth: int) -> int:
        _, few, many = (
            bytecodes(handle(all_worlds(), chooses_below(depth, options)))
            for options in (300, 5, 15)
        )
        return many - few

    assert cost(1) == cost(10) == cost(1000)


@pytest.mark.slow
def test_a_million_nested_calls() -> None:
    @effectful
    def depth(n: int) -> Any:
        if n == 0:
            return (yield from get())
        return 1 + (yield from depth(n - 1))

    assert run(handle(run_state(7), depth(10**6))) == (7, 7 + 10**6)


def alive() -> int:
    # by type: asking a dead weak proxy for its class raises
    counts = Counter(type(x) for x in gc.get_objects())
    return sum(count for kind, count in counts.items() if issubclass(kind, MACHINERY))


@pytest.mark.parametrize(
    "make",
    [
        lambda: handle(run_state(0), attempt(throws())),
        lambda: handle(resumes(), asks()),
        lambda: handle(drops(), asks()),
        lambda: keeps_k(),
        lambda: handle(all_worlds(), chooses()),
        lambda: handle(accumulate(ADD), pfor(Fin(3), adds)),
    ],
    ids=["throws", "resumes", "drops", "keeps k", "worlds", "loop"],
)
def test_nothing_waits_for_the_garbage_collector(make: Any) -> None:
    run(make())
    with without_collector():
        before = alive()
        for _ in range(50):
            run(make())
        after = alive()
    assert after - before < 10


@effectful
def nothing(i: int) -> Any:
    yield from ()


@effectful
def tells_one(i: int) -> Any:
    yield from accum(1)


@pytest.mark.parametrize("executor", [Serial(), Threads(2)], ids=repr)
@pytest.mark.parametrize(
    "make",
    [lambda n: pfor(Fin(n), nothing), lambda n: handle(accumulate(ADD), pfor(Fin(n), tells_one))],
    ids=["empty", "accumulating"],
)
def test_a_loop_needs_at_most_200_bytes_an_iteration(make: Any, executor: Executor) -> None:
    size = 50_000
    run(make(100), executor=executor)
    tracemalloc.start()
    try:
        run(make(size), executor=executor)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200 * size


@effectful
def fails() -> Any:
    yield from Question()
    raise LookupError("deep")


@effectful
def between() -> Any:
    return (yield from fails())


@pytest.mark.parametrize("handler", [resumes, drops])
@pytest.mark.parametrize("inside_a_loop", [False, True])
def test_a_traceback_shows_the_user_s_frames_and_run_only(
    handler: type[Handler[Ask]], inside_a_loop: bool
) -> None:
    program: Any
    if inside_a_loop:
        program = pfor(Fin(1), lambda i: handle(handler(), between()))
    else:
        program = handle(handler(), between())
    if handler is drops:
        assert "dropped" in str(run(program))
        return
    with pytest.raises(LookupError) as caught:
        run(program)
    frames = [f.name for f in traceback.extract_tb(caught.value.__traceback__)]
    here, *rest = frames
    assert here == "test_a_traceback_shows_the_user_s_frames_and_run_only"
    assert [name for name in rest if name not in ("run", "question")] == ["between", "fails"]
