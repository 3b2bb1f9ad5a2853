"""`mask` skips the innermost handler of an effect; a handler may handle several effects."""

from __future__ import annotations

from typing import Any, cast

import pytest

from peffects.errors import HandlerDefinitionError, NotAComputationError, UnhandledEffectError
from peffects.handlers import (
    Accum,
    Err,
    Get,
    Ok,
    Put,
    State,
    Throw,
    ThrowOp,
    accum,
    accumulate,
    all_worlds,
    amb,
    get,
    put,
    reader,
    run_state,
    throw,
)
from peffects.handlers.reader import Reader, ask
from peffects.machine.handling.clauses import final
from peffects.machine.handling.handler import Handler, handle
from peffects.machine.handling.masking import mask
from peffects.machine.handling.operations import Effect, Operation, effectful
from peffects.parallel import Fin, Shuffled, Threads, pfor, run

pytestmark = pytest.mark.filterwarnings("ignore:PE109")  # made, compared, thrown away


class Fuel(State[int]): ...


@effectful
def adds(amount: int) -> Any:
    s: int = yield from get()
    yield from put(s + amount)
    return s


@effectful
def both() -> Any:
    inner = yield from adds(1)
    outer = yield from mask(State, adds(10))
    return inner, outer


def test_mask_skips_the_innermost_handler() -> None:
    assert run(handle(run_state(100), handle(run_state(0), both()))) == (110, (1, (0, 100)))


def test_masking_twice_skips_two_handlers() -> None:
    program = handle(reader(2), handle(reader(3), mask(Reader, mask(Reader, ask()))))
    assert run(handle(reader(1), cast(Any, program))) == 1


def test_a_handler_inside_the_mask_is_not_skipped() -> None:
    program = handle(reader(2), mask(Reader, handle(reader(3), ask())))
    assert run(handle(reader(1), cast(Any, program))) == 3


def test_a_mask_counts_from_where_it_stands_also_for_a_second_mask_inside() -> None:
    inner = mask(Reader, handle(reader(3), mask(Reader, ask())))
    program = handle(reader(1), handle(reader(2), cast(Any, inner)))
    assert run(cast(Any, program)) == 1


def test_other_effects_and_instances_are_not_masked() -> None:
    @effectful
    def program() -> Any:
        return (yield from Fuel.get()), (yield from ask())

    under = handle(reader(5), handle(run_state(7, at=Fuel), mask(State, program())))
    assert run(cast(Any, under)) == (7, (7, 5))


def test_a_masked_effect_without_an_outer_handler_says_so() -> None:
    with pytest.raises(UnhandledEffectError) as caught:
        run(cast(Any, handle(run_state(0), mask(State, adds(1)))))
    assert "masked: the innermost handler of `State` is skipped" in str(caught.value)
    assert "in scope: `run_state`, handles `State`" in str(caught.value)
    assert "`get`" not in str(caught.value)


@pytest.mark.parametrize("executor", [None, Shuffled(3), Threads(2)])
def test_iterations_of_a_loop_under_a_mask_are_masked(executor: Any) -> None:
    @effectful
    def body(i: int) -> Any:
        yield from accum(f"{i}")
        return i

    @effectful
    def program() -> Any:
        yield from accum("inner ")
        return list((yield from mask(Accum, pfor(Fin(3), body))))

    under = handle(accumulate("", str.__add__), handle(accumulate("", str.__add__), program()))
    assert run(cast(Any, under), executor=executor) == ("012", ("inner ", [0, 1, 2]))


def test_a_mask_is_there_in_each_world() -> None:
    @effectful
    def program() -> Any:
        n: int = yield from amb([1, 2])
        return (yield from adds(n))

    @effectful
    def masked() -> Any:
        return (yield from mask(State, program())), (yield from get())

    under = handle(run_state(100), handle(all_worlds(), handle(run_state(0), masked())))
    assert run(cast(Any, under)) == (103, [(0, (100, 0)), (0, (101, 0))])


def test_a_resumption_keeps_its_mask_where_it_resumes() -> None:
    class Wait(Effect): ...

    class Pause(Operation[Wait, None]): ...

    class pauses(Handler[Wait]):
        def pause(self, op: Pause, k: Any) -> Any:
            return k

    @effectful
    def program() -> Any:
        yield from Pause()
        return (yield from ask())

    @effectful
    def whole() -> Any:
        k = yield from handle(pauses(), cast(Any, mask(Reader, program())))
        return (yield from handle(reader(2), k(None)))

    assert run(cast(Any, handle(reader(1), whole()))) == 1


def test_mask_takes_an_effect_and_a_computation() -> None:
    with pytest.raises(NotAComputationError, match="takes an effect first"):
        mask(cast(Any, run_state), adds(1))
    with pytest.raises(NotAComputationError, match="`mask` takes a computation"):
        mask(State, cast(Any, adds))
    assert repr(mask(State, adds(1))) == "<mask(State, <adds(1), not performed>), not performed>"


# Handlers of several effects.


class transaction(Handler[State[int] | Throw[str]]):
    """State that a throw takes back to where it was."""

    def __init__(self, s: int, at: Any = State) -> None:
        self.start = self.s = s

    def ret(self, x: Any) -> Any:
        return self.s, Ok(x)

    def get(self, op: Get[int]) -> int:
        return self.s

    def put(self, op: Put[int]) -> None:
        self.s = op.value

    @final
    def throw(self, op: ThrowOp[str]) -> Any:
        return self.start, Err(op.error)


@effectful
def transfers(amount: int) -> Any:
    yield from adds(-amount)
    if (yield from get()) < 0:
        yield from throw("too little")
    return amount


def test_one_handler_handles_several_effects_with_one_state() -> None:
    assert run(cast(Any, handle(transaction(5), transfers(3)))) == (2, Ok(3))
    assert run(cast(Any, handle(transaction(5), transfers(8)))) == (5, Err("too little"))


def test_mask_skips_a_handler_of_several_effects_for_one_of_them() -> None:
    program = handle(run_state(100), handle(transaction(5), cast(Any, mask(State, transfers(8)))))
    assert run(cast(Any, program)) == (92, (5, Ok(8)))


def test_one_of_several_effects_may_be_a_named_instance() -> None:
    @effectful
    def program() -> Any:
        yield from Fuel.put(3)
        yield from adds(1)
        yield from throw("empty")

    inner = handle(transaction(5, at=Fuel), cast(Any, program()))
    assert run(cast(Any, handle(run_state(0), inner))) == (1, (5, Err("empty")))


def test_two_effects_with_one_clause_name_are_refused() -> None:
    class Other(Effect): ...

    class Get(Operation[Other, int]): ...

    with pytest.raises(HandlerDefinitionError, match=r"both have an operation with the clause"):

        class clashes(Handler[State[int] | Other]):
            def get(self, op: Any) -> int:
                return 1

            def put(self, op: Any) -> None: ...


def test_missing_clauses_of_several_effects_are_named() -> None:
    with pytest.raises(HandlerDefinitionError) as caught:

        class half(Handler[State[int] | Throw[str]]):
            def get(self, op: Any) -> int:
                return 1

    assert "no clause for `put`, `throw` of the effects `State` and `Throw`" in str(caught.value)
