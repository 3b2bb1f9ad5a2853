"""Operations, computations, and the mistakes that a computation notices by itself."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from typing import Any, Never

import pytest

from peffects.errors import MissingYieldFromError, OperationDefinitionError
from peffects.handlers import Get, Put, State, ThrowOp, get
from peffects.machine.handling.operations import (
    Effect,
    Operation,
    clause_name,
    effectful,
    operations_of,
)
from peffects.parallel import run

pytestmark = pytest.mark.filterwarnings("ignore:PE109")  # made, compared, thrown away


class Choose(Effect): ...


class Flip(Operation[Choose, bool]): ...


class Pick(Operation[Choose, int]):
    low: int
    high: int = 6


class Coin(Choose): ...


@effectful
def step(i: int, *, scale: float = 1.0) -> Any:
    yield from Flip()
    return i * scale


def test_an_operation_is_a_frozen_dataclass() -> None:
    op = Pick(1)
    assert (op.low, op.high) == (1, 6)
    assert op == Pick(1, 6)
    assert op != Pick(2)
    assert hash(op) == hash(Pick(1, 6))
    assert repr(op) == "Pick(low=1, high=6)"
    with pytest.raises(FrozenInstanceError):
        op.low = 3  # type: ignore[misc]


def test_an_effect_knows_its_operations() -> None:
    assert operations_of(Choose) == {"flip": Flip, "pick": Pick}
    assert operations_of(Coin) == operations_of(Choose)


@pytest.mark.parametrize(
    ("operation", "clause"),
    [
        ("Flip", "flip"),
        ("GetState", "get_state"),
        ("HTTPGet", "http_get"),
        ("ThrowOp", "throw"),
        ("Yield", "yield_"),
        ("Ret", "ret_"),
        ("Op", "op"),
    ],
)
def test_a_clause_is_named_after_its_operation(operation: str, clause: str) -> None:
    assert clause_name(operation) == clause


def test_an_operation_of_a_named_instance() -> None:
    flip = Flip.at(Coin)
    assert flip is Flip.at(Coin)
    assert Flip.at(Choose) is Flip
    assert isinstance(flip(), Flip)
    assert flip() == Flip.at(Coin)()
    assert flip() != Flip()
    assert Flip() != flip()
    with pytest.raises(OperationDefinitionError, match="no named instance"):
        Flip.at(State)


@pytest.mark.parametrize("op", [Get(), Put(3), ThrowOp("x"), Pick.at(Coin)(2)])
def test_operations_survive_pickling(op: Any) -> None:
    copy = pickle.loads(pickle.dumps(op))
    assert copy == op
    assert type(copy) is type(op)


def test_operations_that_say_no_effect_are_refused() -> None:
    with pytest.raises(OperationDefinitionError, match="which effect"):

        class Bare(Operation): ...  # type: ignore[type-arg]

    with pytest.raises(OperationDefinitionError, match="is no effect"):

        class OfInt(Operation[int, bool]): ...


def test_two_operations_with_one_clause_are_refused() -> None:
    def define() -> None:
        class FlipOp(Operation[Choose, Never]): ...

    with pytest.raises(OperationDefinitionError, match="already has an operation"):
        define()


def test_computations_say_what_they_are() -> None:
    assert repr(step(2, scale=0.5)) == "<step(2, scale=0.5), not performed>"
    assert step.__name__ == "step"


MISUSES = {
    "a sum": lambda c: c + 1,
    "a sum from the right": lambda c: 1 + c,
    "a comparison": lambda c: c < 3,
    "equality": lambda c: c == 3,
    "a condition": lambda c: 1 if c else 2,
    "negation": lambda c: -c,
    "an item": lambda c: c[0],
    "a length": len,
    "membership": lambda c: 3 in c,
    "a call": lambda c: c(),
    "a loop": lambda c: [x for x in c],
    "a list": list,
    "an unpacking": lambda c: (lambda a, b: a)(*c),
    "a number": float,
}


@pytest.mark.parametrize("misuse", MISUSES.values(), ids=MISUSES.keys())
@pytest.mark.parametrize("make", [lambda: step(1), get], ids=["call", "operation"])
def test_using_an_unperformed_computation_is_refused(misuse: Any, make: Any) -> None:
    with pytest.raises(MissingYieldFromError, match="missing `yield from`") as caught:
        misuse(make())
    assert caught.value.at.file == __file__


def test_computations_compare_among_themselves() -> None:
    first = step(1)
    assert first == first
    assert first != step(1)
    assert get() != first
    assert len({first, get(), get()}) == 2


def test_a_decorated_function_without_effects_is_refused() -> None:
    @effectful
    def forgotten() -> Any:
        get()

    with pytest.raises(MissingYieldFromError, match="contains no `yield from`") as caught:
        run(forgotten())
    assert caught.value.at.function == "forgotten"
