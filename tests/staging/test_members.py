"""An index of an enum, or of another set of values, is compared with its members."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import pytest
from staged import run

import peffects as pe
from peffects.errors import IndexSetError


class Color(enum.Enum):
    RED = 1
    GREEN = 2
    BLUE = 3


class Level(enum.IntEnum):
    LOW = 10
    HIGH = 20


def test_members_are_compared_by_equality_and_identity() -> None:
    def equal() -> Any:
        return pe.table(lambda c: 1.0 if c == Color.GREEN else 0.0, over=Color)

    def identical() -> Any:
        return pe.table(lambda c: 1.0 if c is Color.GREEN else 0.0, over=Color)

    def others() -> Any:
        return pe.table(
            lambda c: (1.0 if c != Color.RED else 0.0) + (2.0 if c is not Color.BLUE else 0.0),
            over=Color,
        )

    assert run(equal).tolist() == run(identical).tolist() == [0.0, 1.0, 0.0]
    assert run(others).tolist() == [2.0, 3.0, 1.0]


def test_members_that_are_integers_are_members_first() -> None:
    def f() -> Any:
        return pe.table(lambda c: 1.0 if c == Level.HIGH else 0.0, over=Level)

    assert run(f).tolist() == [0.0, 1.0]


def test_values_of_other_sets_are_compared() -> None:
    names = pe.Elements.of(["b", "a"])

    def f(x: Any) -> Any:
        t = pe.table(lambda n: x[0] if n == "b" else x[1], over=names)
        return pe.sum(lambda n: t[n] if n is not None else 0.0, over=names), t

    total, t = run(f, np.array([1.0, 2.0]))
    assert (total, t.tolist()) == (3.0, [2.0, 1.0])


def test_another_value_is_refused() -> None:
    with pytest.raises(IndexSetError, match="is not in"):
        run(lambda: pe.table(lambda c: 1.0 if c == Level.LOW else 0.0, over=Color))


def test_identity_of_ordinary_values_is_pythons() -> None:
    def f(x: Any, flag: Any) -> Any:
        mode = Color.RED if x[0] > 0.0 else Color.BLUE
        first = 1.0 if flag is None else 2.0
        return first, mode is not None, 1.0 if mode is Color.BLUE else 0.0

    assert run(f, np.array([1.0]), None) == (1.0, True, 0.0)
    assert run(f, np.array([-1.0]), None) == (1.0, True, 1.0)
