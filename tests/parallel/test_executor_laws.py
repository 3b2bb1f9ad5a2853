"""All executors give the same answer on random programs: order, chunks, place change nothing."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peffects.handlers import (
    accum,
    accumulate,
    all_worlds,
    amb,
    prng,
    throw,
    uniform,
    weak_exceptions,
)
from peffects.machine.handling.handler import handle
from peffects.machine.handling.operations import effectful
from peffects.parallel import CONCATENATE, Fin, Processes, Serial, Shuffled, Threads, pfor, run
from peffects.parallel.executors.local import ChunkPlan


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes(2, chunk=2) as executor:
        yield executor


Step = tuple[str, Any]
steps = st.recursive(
    st.tuples(st.sampled_from(["tell", "draw", "throw", "choose", "nothing"]), st.integers(0, 2)),
    lambda inner: st.tuples(
        st.just("loop"), st.tuples(st.integers(0, 3), st.lists(inner, max_size=2))
    ),
    max_leaves=4,
)


@effectful
def perform(program: list[Step], i: int) -> Any:
    """A program made of steps; what it does depends on the iteration it is in."""
    seen: tuple[Any, ...] = ()
    for kind, arg in program:
        if kind == "tell":
            yield from accum(((int(i), arg),))
        elif kind == "draw":
            seen = (*seen, (yield from uniform()))
        elif kind == "throw" and i == arg:
            yield from throw(f"at {i}")
        elif kind == "choose" and i == 0:
            seen = (*seen, (yield from amb(range(arg))))
        elif kind == "loop":
            size, body = arg
            seen = (*seen, tuple((yield from pfor(Fin(size), functools.partial(perform, body)))))
    return seen


def under_handlers(program: list[Step], size: int) -> Any:
    loop: Any = perform([("loop", (size, program))], 0)
    inner: Any = handle(all_worlds(), handle(prng(1), loop))
    return handle(accumulate(CONCATENATE), handle(weak_exceptions(), inner))


@settings(max_examples=40, deadline=None)
@given(st.lists(steps, max_size=3), st.integers(0, 4), st.integers(0, 99))
def test_order_and_threads_change_nothing(program: list[Step], size: int, seed: int) -> None:
    expected = run(under_handlers(program, size), executor=Serial())
    for executor in (Shuffled(seed), Threads(2, chunk=1), Threads(3)):
        assert run(under_handlers(program, size), executor=executor) == expected


@settings(max_examples=15, deadline=None)
@given(program=st.lists(steps, max_size=3), size=st.integers(0, 4))
def test_processes_change_nothing(processes: Processes, program: list[Step], size: int) -> None:
    expected = run(under_handlers(program, size), executor=Serial())
    assert run(under_handlers(program, size), executor=processes) == expected


@given(
    st.integers(0, 500),
    st.integers(1, 8),
    st.none() | st.integers(1, 50),
    st.integers(0, 500),
)
def test_chunks_cover_every_index_once_in_order(
    size: int, workers: int, chunk: int | None, limit: int
) -> None:
    plan = ChunkPlan(size, workers, chunk)
    taken: list[int] = []
    lengths = []
    while indices := plan.take(max(limit, 1)):
        taken += indices
        lengths.append(len(indices))
    assert taken == list(range(len(taken)))
    assert len(taken) >= min(size, max(limit, 1))
    assert len(taken) <= size
    if chunk is None:
        assert lengths == sorted(lengths, reverse=True)
