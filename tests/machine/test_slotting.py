"""Operation classes: frozen dataclasses with slots and a quick constructor."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError, field, fields, is_dataclass
from typing import Any

import pytest

from peffects.machine.handling.handler import BasicHandler, handle
from peffects.machine.handling.operations import Effect, Operation
from peffects.parallel import run

pytestmark = pytest.mark.filterwarnings("ignore:PE109")  # made, compared, thrown away


class Shop(Effect): ...


class Buy(Operation[Shop, int]):
    what: str
    count: int = 1

    def total(self, price: int) -> int:
        return self.count * price


class BuyGift(Buy):
    wrapping: str = "paper"

    def total(self, price: int) -> int:
        return super().total(price) + 1


class Order(Operation[Shop, int]):
    items: list[str] = field(default_factory=list)
    note: str = field(default="", kw_only=True)


class Cart(Effect): ...


class Basket(Operation[Cart, int]):
    items: list[str] = field(default_factory=list)


class Refund(Operation[Shop, int]):
    amount: int

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise ValueError("a refund is positive")


class Own(Operation[Shop, int]):
    twice: int

    def __init__(self, once: int) -> None:
        object.__setattr__(self, "twice", 2 * once)


class Bare(Operation[Shop, int]):
    __slots__ = ("x",)
    x: int


@pytest.mark.parametrize(
    "op",
    [
        Buy("tea"),
        BuyGift("tea"),
        Order(),
        Basket(),
        Refund(3),
        Own(2),
        Bare(1),
        Buy.at(Shop)("tea"),
    ],
)
def test_an_operation_has_slots_and_is_frozen(op: Any) -> None:
    assert is_dataclass(op)
    assert not hasattr(op, "__dict__")
    name = fields(op)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(op, name, None)
    with pytest.raises(FrozenInstanceError):
        delattr(op, name)


def test_the_constructor_takes_what_a_dataclass_takes() -> None:
    assert list(inspect.signature(Buy).parameters) == ["what", "count"]
    assert inspect.signature(Buy).parameters["count"].default == 1
    assert Buy("tea") == Buy(what="tea", count=1)
    assert repr(BuyGift("tea", 2)) == "BuyGift(what='tea', count=2, wrapping='paper')"
    with pytest.raises(TypeError, match=r"__init__\(\) missing 1 required positional argument"):
        Buy()  # type: ignore[call-arg]


def test_fields_that_do_more_keep_the_generated_constructor() -> None:
    assert Order().items == []
    assert Order().items is not Order().items
    assert Basket().items == [] and Basket().items is not Basket().items
    assert Order(["tea"], note="soon").note == "soon"
    with pytest.raises(ValueError, match="a refund is positive"):
        Refund(-1)
    assert Own(2).twice == 4


def test_super_in_an_operation_means_the_class_with_slots() -> None:
    assert BuyGift("tea", 2).total(3) == 7


def test_a_derived_operation_is_an_operation_of_its_own_effect() -> None:
    class shop(BasicHandler[Shop]):
        def buy(self, op: Buy) -> int:
            return op.total(10)

        def order(self, op: Order) -> int:
            return len(op.items)

        def refund(self, op: Refund) -> int:
            return -op.amount

        def own(self, op: Own) -> int:
            return op.twice

        def bare(self, op: Bare) -> int:
            return op.x

    for op, answer in ((Buy("tea", 2), 20), (BuyGift("tea", 2), 21), (Refund(3), -3), (Bare(4), 4)):
        assert run(handle(shop(), op)) == answer
