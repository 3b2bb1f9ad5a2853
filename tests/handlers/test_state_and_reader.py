"""State: sequential by nature; Reader: the same everywhere, but in the scope of `local`."""

from __future__ import annotations

from typing import Any

import pytest

from peffects.errors import TraverseError
from peffects.handlers import Reader, State, ask, get, local, put, reader, run_state
from peffects.machine.handling.handler import handle
from peffects.machine.handling.operations import effectful
from peffects.parallel import Executor, Fin, Serial, Shuffled, Threads, pfor, run


@effectful
def count(i: int) -> Any:
    n: int = yield from get()
    yield from put(n + i)
    return n


def test_around_a_parallel_loop_state_is_refused_with_the_choices() -> None:
    with pytest.raises(TraverseError) as caught:
        run(handle(run_state(10), pfor(Fin(3), count)))
    text = str(caught.value)
    assert "handler `run_state` has no traverse clause" in text
    assert "handle the effect inside the loop body" in text
    assert "use `accumulate` if the updates only accumulate" in text
    assert "write the loop sequentially: `for i in n: yield from body(i)`" in text


def test_the_sequential_loop_keeps_every_update() -> None:
    @effectful
    def program() -> Any:
        seen = []
        for i in Fin(4):
            seen.append((yield from count(i)))
        return seen

    assert run(handle(run_state(10), program())) == (16, [10, 10, 11, 13])


def test_state_inside_the_body_is_each_iteration_s_own() -> None:
    for executor in (Serial(), Shuffled(1), Threads(2, chunk=1)):
        answers = run(pfor(Fin(3), lambda i: handle(run_state(10), count(i))), executor=executor)
        assert answers == [(10, 10), (11, 10), (12, 10)]


@pytest.mark.parametrize("executor", [Serial(), Shuffled(2), Threads(2, chunk=1)], ids=repr)
def test_local_in_a_loop_changes_one_iteration(executor: Executor) -> None:
    @effectful
    def body(i: int) -> Any:
        inside = yield from local(lambda x: x + i, pfor(Fin(2), lambda j: ask()))
        return list(inside), (yield from ask())

    answers = run(handle(reader(10), pfor(Fin(2), body)), executor=executor)
    assert answers == [([10, 10], 10), ([11, 11], 10)]


def test_local_at_an_instance_leaves_others_alone() -> None:
    class Name(Reader[str]): ...

    @effectful
    def program() -> Any:
        return (yield from Name.ask()), (yield from ask())

    inner: Any = local(str.upper, program(), at=Name)
    assert run(handle(reader(1), handle(reader("ada", at=Name), inner))) == ("ADA", 1)


def test_locals_nest_and_end() -> None:
    @effectful
    def program() -> Any:
        inner: Any = local(lambda x: x * 2, local(lambda x: x + 1, ask()))
        return (yield from inner), (yield from ask())

    assert run(handle(reader(5), program())) == (11, 5)


def test_an_exception_in_a_local_scope_ends_it() -> None:
    @effectful
    def fails() -> Any:
        yield from ask()
        raise ValueError("inside")

    @effectful
    def program() -> Any:
        try:
            yield from local(lambda x: x + 1, fails())
        except ValueError:
            return (yield from ask())

    assert run(handle(reader(5), program())) == 5


def test_instances_of_state_are_two_states() -> None:
    class Fuel(State[int]): ...

    @effectful
    def program() -> Any:
        yield from Fuel.put((yield from Fuel.get()) - 1)
        return (yield from get())

    assert run(handle(run_state("x"), handle(run_state(3, at=Fuel), program()))) == ("x", (2, "x"))
