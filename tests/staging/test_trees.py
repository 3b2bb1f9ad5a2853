"""Nested values are taken apart and put together."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest

from peffects.parallel.index_sets.index_set import Fin
from peffects.staging.structures.trees import LEAF, flatten, is_tree, map_leaves, unflatten


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    slope: Any
    start: Any = 0

    def __post_init__(self) -> None:
        if isinstance(self.slope, str):
            raise TypeError("a slope is a number")


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (3, 1), (None, 1), ("ab", 1), ((), 0), ([1, (2, 3)], 3), ({"b": 1, "a": [2]}, 2),
        (Pair(1, [2]), 2), (Line(1, (2, 3)), 3), (Fin(3), 1), (OrderedDict(a=1), 1),
    ],
)  # fmt: skip
def test_unflatten_undoes_flatten(value: Any, count: int) -> None:
    leaves, tree = flatten(value)
    assert len(leaves) == count
    again = unflatten(tree, leaves)
    assert again == value and type(again) is type(value)


def test_dictionaries_keep_their_order() -> None:
    leaves, tree = flatten({"b": 1, "a": 2})
    assert leaves == [1, 2]
    assert tree != flatten({"a": 1, "b": 2})[1]


def test_dataclasses_are_rebuilt_without_their_init() -> None:
    line = map_leaves(str, Line(1, 2))
    assert isinstance(line, Line) and (line.slope, line.start) == ("1", "2")


def test_leaves_are_leaves() -> None:
    assert flatten(np.ones(2))[1] == LEAF
    assert not is_tree(Line)


def test_numbers_of_leaves_must_agree() -> None:
    _, tree = flatten((1, 2))
    with pytest.raises(AssertionError):
        unflatten(tree, [1, 2, 3])
