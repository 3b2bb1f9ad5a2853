"""Targets of all kinds: a kernel changes what it made itself; what it did not is refused."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from staged import check_refused as check
from staged import pe, run

from peffects.errors import DataRaceError, SideEffectError

X = np.arange(3.0)
LIST: list[Any] = [0.0, 1.0, 2.0]
NESTED: dict[str, Any] = {"a": [0.0], "x": np.zeros(2)}


class Box:
    """An object with an attribute, and `+=` that changes it."""

    def __init__(self) -> None:
        self.value: Any = 0.0

    def __iadd__(self, other: Any) -> Box:
        self.value += other
        return self

    def __enter__(self) -> float:
        return 1.0

    def __exit__(self, *error: object) -> None:
        pass


BOX = Box()


def tuple_target(x: Any) -> Any:
    LIST[0], y = x, 1.0  # here
    return y


def starred_target(x: Any) -> Any:
    y, *LIST[0:2] = 1.0, x, x  # here
    return y


def chained_target(x: Any) -> Any:
    y = LIST[0] = x  # here
    return y


def deleted_element(x: Any) -> Any:
    del LIST[0]  # here
    return x


def deleted_attribute(x: Any) -> Any:
    del BOX.value  # here
    return x


def attribute_in_a_tuple(x: Any) -> Any:
    BOX.value, y = x, x  # here
    return y


def loop_target(x: Any) -> Any:
    for LIST[0] in (1.0, 2.0):  # here
        pass
    return x


def staged_loop_target(x: Any) -> Any:
    for LIST[0] in range(3):  # here
        pass
    return x


def comprehension_target(x: Any) -> Any:
    return sum([1.0 for LIST[0] in (x, x)])  # here


def with_target(x: Any) -> Any:
    with Box() as LIST[0]:  # here
        return x


def augmented_chain(x: Any) -> Any:
    NESTED["a"][0] += x  # here
    return x


def augmented_own_operator(x: Any) -> Any:
    box = BOX
    box += x  # here
    return box.value


def by_operator(x: Any) -> Any:
    operator.setitem(LIST, 0, x)  # here
    return x


def by_method(x: Any) -> Any:
    LIST.__setitem__(0, x)  # here
    return x


@pytest.mark.parametrize(
    "function",
    [
        tuple_target, starred_target, chained_target, deleted_element, deleted_attribute,
        attribute_in_a_tuple, loop_target, staged_loop_target, comprehension_target, with_target,
        augmented_chain, augmented_own_operator, by_operator, by_method,
    ],
)  # fmt: skip
def test_writes_to_objects_of_the_outside_are_refused(function: Any) -> None:
    before = list(LIST), BOX.value, list(NESTED["a"])
    check(SideEffectError, function, (1.5,))
    assert (list(LIST), BOX.value, list(NESTED["a"])) == before


def test_elements_of_arrays_in_targets_are_refused() -> None:
    def pair(x: Any) -> Any:
        x[0], y = 1.0, 2.0  # here
        return y

    check(DataRaceError, pair, (X,), "`x`")

    def captured() -> Any:
        X[0], y = 1.0, 2.0  # here
        return y

    check(DataRaceError, captured, (), "`X`")

    def deleted(x: Any) -> Any:
        del x[0]  # here
        return x

    check(DataRaceError, deleted, (X,), "`x`")

    def looped(x: Any) -> Any:
        for x[0] in range(3):  # here
            pass
        return x

    check(DataRaceError, looped, (X,), "`x`")

    def chain() -> Any:
        NESTED["x"][0] += 1.0  # here
        return 0.0

    check(DataRaceError, chain, ())


def test_loops_may_not_change_what_was_made_before_them() -> None:
    def f(x: Any) -> Any:
        kept = [0.0, 1.0]
        for i in pe.par(x):
            kept[0], _y = x[i], 1.0  # here
        return kept[0]

    check(SideEffectError, f, (X,), "a list", "a parallel loop")

    def h(x: Any) -> Any:
        last = 0.0
        for i in pe.par(x):
            (last := x[i])  # here
        return last

    check(DataRaceError, h, (X,), "`last`")


def test_own_objects_are_written_through_every_target() -> None:
    def f(x: Any) -> Any:
        kept: Any = [x, x, x, x]
        box = Box()
        kept[0], y = 1.0, x
        box.value, *kept[1:3] = x, 5.0, 7.0
        z = kept[3] = x * 2
        del kept[0]
        for kept[0] in (1.0, 2.0):
            pass
        box += 3.0
        with Box() as box.value:
            pass
        return kept, y, z, box.value

    assert run(f, 2.0) == f(2.0) == ([2.0, 7.0, 4.0], 2.0, 4.0, 1.0)
