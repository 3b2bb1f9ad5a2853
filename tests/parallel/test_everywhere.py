"""What holds on every executor: values, failures and their lines, the bar, for random programs."""

from __future__ import annotations

import asyncio
import io
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from fuzz.choices import Drawn
from fuzz.effect_checks import check_executors
from fuzz.effect_programs import effect_program
from hypothesis import given, settings
from hypothesis import strategies as st

from peffects.errors import (
    IndexSetError,
    MissingYieldFromError,
    NotAComputationError,
    PeffectsError,
)
from peffects.handlers import (
    accum,
    accumulate,
    amb,
    get,
    parallel_worlds,
    run_state,
)
from peffects.machine.handling.handler import Handler, ParHandler, handle
from peffects.machine.handling.operations import Effect, Operation, effectful
from peffects.parallel import (
    CONCATENATE,
    Executor,
    Fin,
    Processes,
    ProgressBar,
    Serial,
    Shuffled,
    Threads,
    pfor,
    report,
    run,
    run_async,
)
from peffects.parallel.executors import local as executors


@pytest.fixture(scope="module")
def everywhere() -> Iterator[list[Executor]]:
    with Processes(2, chunk=1) as processes:
        yield [Serial(), Threads(2, chunk=1), Shuffled(3), processes]


@settings(max_examples=20)
@given(st.data())
def test_random_programs_give_the_same(everywhere: list[Executor], data: st.DataObject) -> None:
    """Values, or errors with class, text, place and iteration; and no program is blamed."""
    drawn = effect_program(Drawn(data.draw), worlds=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", RuntimeWarning)  # of numpy
        check_executors(drawn, everywhere[1:], [(0.3, 2), (1.4, 1)])
    assert [str(warning.message) for warning in caught] == []


@pytest.mark.parametrize("size", [1, 2, 5])
def test_parts_are_put_together_in_index_order(everywhere: list[Executor], size: int) -> None:
    @effectful
    def body(i: int) -> Any:
        x = yield from amb("ab")
        yield from accum(((int(i), x),))

    for executor in everywhere:
        loop = handle(accumulate(CONCATENATE), pfor(Fin(size), body))
        worlds = run(handle(parallel_worlds(), loop), executor=executor)
        chosen = ["".join(x for _, x in parts) for parts, _ in worlds]
        assert chosen == sorted(chosen)
        assert len(chosen) == 2**size
        assert all([i for i, _ in parts] == list(range(size)) for parts, _ in worlds)


# --- the bar -------------------------------------------------------------------------------------


def over_before_the_end(i: int) -> None:
    report(1.0)
    for _ in range(3):
        report(1.0)


def test_the_bar_ends_once(everywhere: list[Executor], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_TICK_S", 0.0)
    for executor in everywhere:
        file = io.StringIO()
        bar = ProgressBar(file, force=True)
        run(pfor(Fin(3), over_before_the_end), executor=executor, on_tick=bar)
        assert (file.getvalue().count("100%"), file.getvalue().count("\n")) == (1, 1), executor
    file = io.StringIO()
    loop = pfor(Fin(3), over_before_the_end)
    asyncio.run(run_async(loop, on_tick=ProgressBar(file, force=True)))
    assert file.getvalue().count("100%") == 1


# --- lines ---------------------------------------------------------------------------------------


class Ask(Effect): ...


class Question(Operation[Ask, int]): ...


class alone(Handler[Ask]):
    def question(self, op: Question) -> int:
        return 1


class loses_values(ParHandler[Ask]):
    def question(self, op: Question) -> int:
        return 1

    def traverse(self, n: Any, loop: Any, k: Any) -> Any:
        yield from loop()
        return (yield from k([1]))


def fails(i: Any) -> Any:
    raise LookupError("bad")


@effectful
def gives_a_computation(i: Any) -> Any:
    yield from ()
    return Question()


def made() -> Any:
    return accum(1)


anything: Any = None
three: Any = 3
three_of_them: Any = Fin(3)
FAILING: list[Callable[[], Any]] = [
    lambda: pfor(Fin(3), fails),
    lambda: pfor([1, 2, 3], fails),
    lambda: pfor(np.zeros(3), fails),
    lambda: pfor(Fin(3), lambda: 1),  # type: ignore[arg-type, misc]
    lambda: pfor(Fin(3), gives_a_computation),
    lambda: pfor(Fin(3), lambda i: Question()),
    lambda: handle(alone(), pfor(Fin(3), lambda i: Question())),
    lambda: handle(run_state(0), pfor(Fin(3), lambda i: get())),
    lambda: handle(accumulate(CONCATENATE), pfor(Fin(3), fails)),
    lambda: handle(loses_values(), pfor(Fin(3), lambda i: i)),
    lambda: handle(parallel_worlds(), pfor(Fin(3), fails)),
    lambda: pfor(Fin(2), lambda i: pfor(Fin(3), fails)),
    lambda: pfor(2, fails),
    lambda: pfor(np.float64(2), fails),
    lambda: pfor(np.array(2.0), fails),
    lambda: pfor({1, 2}, fails),
    lambda: pfor({1: 2}, fails),
    lambda: pfor((i for i in "ab"), fails),
    lambda: pfor(None, fails),
    lambda: pfor(Fin(-1), fails),
    lambda: pfor(range(3), anything),
    lambda: pfor(Fin(3), three),
    lambda: pfor(fails, three_of_them),
    lambda: pfor(Fin(3), made()),
    lambda: pfor(Fin(3), three_of_them),
]  # fmt: skip
MADE_WRONGLY = (IndexSetError, NotAComputationError)


@pytest.mark.parametrize("make", FAILING, ids=range(len(FAILING)))
def test_whatever_fails_in_a_loop_names_its_line(
    everywhere: list[Executor], make: Callable[[], Any]
) -> None:
    line = make.__code__.co_firstlineno
    told = set()
    for executor in everywhere:
        with pytest.raises(Exception) as caught:
            run(make(), executor=executor)
        error = caught.value
        places = [note for note in getattr(error, "__notes__", ()) if note.startswith("in iter")]
        if isinstance(error, PeffectsError):
            assert error.at.line, error
            places += [str(error.at), *error.notes]
        assert any(f"test_everywhere.py:{line} " in place for place in places), (places, error)
        assert not any("unknown place" in place for place in places)
        told.add((type(error), re.sub("0x[0-9a-f]+", "", str(error)), *places))
    assert len(told) == 1


@effectful
def chooses() -> Any:
    x = yield from amb([1, 0])  # the line of the choice
    return 1 / x


def test_a_loop_that_a_handler_makes_has_the_line_that_it_answers(
    everywhere: list[Executor],
) -> None:
    for executor in everywhere:
        with pytest.raises(ZeroDivisionError) as caught:
            run(handle(parallel_worlds(), chooses()), executor=executor)
        assert "# the line of the choice" in caught.value.__notes__[0]


def test_the_line_of_a_loop_under_run_async_is_told() -> None:
    loop = pfor(Fin(2), fails)  # here
    with pytest.raises(LookupError) as caught:
        asyncio.run(run_async(loop))
    assert caught.value.__notes__[0].endswith("loop = pfor(Fin(2), fails)  # here")


def test_a_result_that_nobody_performed_names_the_line_of_run() -> None:
    with pytest.raises(MissingYieldFromError) as caught:
        run(gives_a_computation(0))  # the run
    assert "# the run" in caught.value.at.snippet()
