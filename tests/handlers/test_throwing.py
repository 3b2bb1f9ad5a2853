"""Throw: first, all and combined errors; exceptions as errors, errors as exceptions; `catch`."""

from __future__ import annotations

from typing import Any

import pytest

from peffects.errors import UnhandledEffectError
from peffects.handlers import (
    Accum,
    Err,
    Ok,
    State,
    Throw,
    Thrown,
    accum,
    accumulate,
    all_worlds,
    amb,
    attempt,
    catch,
    collect_errors,
    combine_errors,
    get,
    put,
    raise_errors,
    run_state,
    throw,
    weak_exceptions,
)
from peffects.machine.handling.handler import Handler, handle
from peffects.machine.handling.masking import mask
from peffects.machine.handling.operations import effectful
from peffects.machine.running.scopes import restore_states, states_up_to
from peffects.parallel import JOIN, Executor, Fin, Serial, Shuffled, Threads, pfor, run
from peffects.source import UNKNOWN

pytestmark = pytest.mark.filterwarnings("ignore:PE109")  # made, compared, thrown away

EXECUTORS: list[Executor] = [Serial(), Shuffled(3), Threads(2, chunk=1)]


@effectful
def step(i: int) -> Any:
    if i % 2:
        yield from throw(f"e{i}")
    return i * i


@effectful
def program() -> Any:
    squares = yield from pfor(Fin(6), step)
    yield from throw("after the loop")
    return squares


@pytest.mark.parametrize("executor", EXECUTORS, ids=repr)
def test_first_all_and_combined_errors(executor: Executor) -> None:
    def under(handler: Any) -> Any:
        return run(handle(handler, program()), executor=executor)

    assert under(weak_exceptions()) == Err("e1")
    assert under(collect_errors()) == Err(["e1", "e3", "e5"])
    assert under(combine_errors(str.__add__)) == Err("e1e3e5")


def test_an_error_outside_of_loops_is_collected_alone() -> None:
    assert run(handle(collect_errors(), throw("x"))) == Err(["x"])
    assert run(handle(combine_errors(str.__add__), throw("x"))) == Err("x")


def test_errors_of_nested_loops_are_collected_in_index_order() -> None:
    nested = pfor(Fin(2), lambda i: pfor(Fin(2), lambda j: throw((int(i), int(j)))))
    pairs = [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert run(handle(collect_errors(), nested)) == Err(pairs)


@effectful
def mixed(i: int) -> Any:
    if i == 1:
        raise ValueError("one")
    if i == 2:
        yield from throw("two")
    if i == 3:
        raise KeyError("three")
    return i


def test_exceptions_join_the_errors_where_they_are_caught() -> None:
    handlers: list[Any] = [collect_errors((ValueError,)), combine_errors(max, (ValueError,))]
    for handler in handlers:
        with pytest.raises(KeyError, match="three"):
            run(handle(handler, pfor(Fin(4), mixed)))
    answer = run(handle(collect_errors((ValueError, KeyError)), pfor(Fin(4), mixed)))
    one, two, three = answer.error
    assert (str(one), two, three.args) == ("one", "two", ("three",))
    combined = run(handle(combine_errors(lambda a, b: [a, b], (ValueError,)), mixed(1)))
    assert isinstance(combined.error, ValueError)


def test_errors_are_raised_as_a_group() -> None:
    with pytest.raises(ExceptionGroup, match="sweep") as caught:
        run(raise_errors(pfor(Fin(4), mixed), catch=(LookupError, ValueError), message="sweep"))
    one, two, three = caught.value.exceptions
    assert isinstance(one, ValueError)
    assert isinstance(two, Thrown)
    assert two.error == "two"
    assert isinstance(three, KeyError)


def test_without_errors_raise_errors_gives_the_result() -> None:
    assert run(raise_errors(pfor(Fin(2), lambda i: mixed(0)))) == [0, 0]


def test_raise_errors_leaves_other_instances_alone() -> None:
    class Other(Throw[str]): ...

    answer = run(handle(weak_exceptions(at=Other), raise_errors(Other.throw("other"))))
    assert answer == Err("other")
    with pytest.raises(ExceptionGroup):
        run(raise_errors(Other.throw("other"), at=Other))


# --- catch ---------------------------------------------------------------------------------------


@effectful
def recovering(i: int) -> Any:
    return (yield from catch(step(i), lambda error: f"instead of {error}"))


def test_catch_gives_the_result_or_what_the_handler_gives() -> None:
    for executor in EXECUTORS:
        answer = run(handle(weak_exceptions(), pfor(Fin(3), recovering)), executor=executor)
        assert answer == Ok([0, "instead of e1", 4])


def test_the_handler_of_catch_may_perform_and_throw_again() -> None:
    @effectful
    def again(error: str) -> Any:
        yield from accum(f"[{error}]")
        yield from throw(error.upper())

    program = handle(weak_exceptions(), catch(catch(throw("a"), again), again))
    assert run(handle(accumulate(JOIN), program)) == ("[a][A]", Err("A"))


def test_catch_is_an_operation_and_needs_a_handler() -> None:
    with pytest.raises(UnhandledEffectError) as caught:
        run(handle(accumulate(JOIN), catch(throw("a"), str)))
    text = str(caught.value)
    assert "no handler handles the effect `Throw` of the scoped operation `catch`" in text
    assert "at test_throwing.py:" in text
    assert "in test_catch_is_an_operation_and_needs_a_handler" in text
    assert run(handle(accumulate(JOIN), attempt(throw("a")))) == ("", Err("a"))


def test_catch_at_an_instance_leaves_others_alone() -> None:
    class Other(Throw[str]): ...

    inner = catch(Other.throw("other"), lambda error: "caught", at=Throw)
    assert run(handle(weak_exceptions(at=Other), handle(weak_exceptions(), inner))) == Err("other")
    inner = catch(Other.throw("other"), lambda error: f"caught {error}", at=Other)
    assert run(handle(weak_exceptions(at=Other), inner)) == Ok("caught other")


def test_catch_around_a_loop_rolls_back_what_its_iterations_told() -> None:
    @effectful
    def body(i: int) -> Any:
        yield from accum(str(i))
        yield from step(i)

    @effectful
    def program() -> Any:
        yield from accum("a")
        result = yield from catch(pfor(Fin(2), body), lambda error: error)
        yield from accum("z")
        return result

    for executor in EXECUTORS:
        inside = handle(weak_exceptions(), handle(accumulate(JOIN), program()))
        outside = handle(accumulate(JOIN), handle(weak_exceptions(), program()))
        assert run(inside, executor=executor) == Ok(("az", "e1"))
        assert run(outside, executor=executor) == ("a01z", Ok("e1"))


class Count(State[int]): ...


@effectful
def count_and_choose() -> Any:
    yield from Count.put((yield from Count.get()) + 1)
    coin: str = yield from amb("HT")
    if coin == "T":
        yield from throw("tails")
    return coin


def test_catch_inside_of_worlds_is_each_world_s_own() -> None:
    """Whatever the order: the scope ends once in each world, and rolls back that world alone."""
    scope = catch(count_and_choose(), lambda error: error)
    inside = handle(all_worlds(), handle(run_state(0, at=Count), scope))
    assert run(handle(weak_exceptions(), inside)) == Ok([(1, "H"), (0, "tails")])
    around = handle(weak_exceptions(), handle(run_state(0, at=Count), scope))
    assert run(handle(all_worlds(), around)) == [Ok((1, "H")), Ok((0, "tails"))]


def test_a_clause_may_catch_and_rolls_back_handlers_further_out_only() -> None:
    class careful(Handler[Accum[str]]):
        def __init__(self) -> None:
            self.told = 0

        def ret(self, x: Any) -> Any:
            return self.told, x

        def accum(self, op: Any) -> Any:
            self.told = self.told + 1
            yield from catch(count_then_throw(), lambda error: None)

    @effectful
    def program() -> Any:
        yield from accum("a")
        yield from accum("b")
        return (yield from Count.get())

    inner = handle(run_state(5, at=Count), handle(careful(), program()))
    assert run(handle(weak_exceptions(), inner)) == Ok((5, (2, 5)))


@effectful
def count_then_throw() -> Any:
    yield from Count.put(0)
    yield from throw("no")


def test_a_masked_handler_is_not_the_one_that_catch_belongs_to() -> None:
    """The scope belongs to the outer handler, so the state between the two is rolled back."""
    scope = mask(Throw, catch(count_then_throw(), lambda error: "caught"))
    between = handle(run_state(7, at=Count), handle(weak_exceptions(), scope))
    assert run(handle(weak_exceptions(), between)) == Ok((7, Ok("caught")))
    unmasked = catch(count_then_throw(), lambda error: "caught")
    between = handle(run_state(7, at=Count), handle(weak_exceptions(), unmasked))
    assert run(handle(weak_exceptions(), between)) == Ok((0, Ok("caught")))


# --- what `catch` is made of ---------------------------------------------------------------------


class Other(State[int]): ...


def test_states_are_those_inside_the_handler_and_are_put_back_each_time() -> None:
    @effectful
    def program() -> Any:
        states = yield from states_up_to(Throw, "catch", UNKNOWN)
        found: list[int] = []
        for value in (5, 6):
            yield from put(value)
            yield from Other.put(value)
            yield from restore_states(Throw, "catch", UNKNOWN, states)
            found.append((yield from get()))
        return [type(state).__name__ for state in states], found, (yield from Other.get())

    inside = handle(weak_exceptions(), handle(run_state(1), program()))
    assert run(handle(run_state(2, at=Other), inside)) == (6, Ok((1, (["run_state"], [1, 1], 6))))


def test_an_exit_passes_a_handler_that_catches_every_exception() -> None:
    class Far(Throw[str]): ...

    @effectful
    def leaves() -> Any:
        try:
            yield from Far.throw("left")
        finally:
            yield from accum("inner ")

    @effectful
    def around() -> Any:
        yield from handle(weak_exceptions(catch=(BaseException,)), leaves())
        yield from accum("went on")

    program = handle(weak_exceptions(at=Far), around())
    assert run(handle(accumulate(JOIN), program)) == ("inner ", Err("left"))
