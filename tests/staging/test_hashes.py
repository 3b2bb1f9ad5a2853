"""Symbols have no hash: a set or a dict would compare identities, not values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.errors import ControlFlowError

CASES: list[Any] = [
    lambda x: {1.0: 2.0}.get(x[0], -1.0),
    lambda x: len({x[0], x[1]}),
    lambda x: {x[0]: 1.0},
    lambda x: hash(x[0]),
    lambda x: {x: 1.0},
]


@pytest.mark.parametrize("function", CASES, ids=range(len(CASES)))
def test_a_symbol_in_a_set_or_dict_is_refused(function: Any) -> None:
    with pytest.raises(ControlFlowError, match="the hash"):
        pe.kernel(function)(np.array([1.0, 2.0]))


AMONG: list[Any] = [
    lambda x: 5.0 if x[0] in {1.0, 3.0} else 0.0,
    lambda x: x[0] in frozenset([1.0]),
    lambda x: x[0] not in (2.0, 3.0),
    lambda x: x[1] in [x[0] + 1.0],
    lambda x: int(x[1]) in range(0, 7, 2),
    lambda x: x[1] in range(7),
    lambda x: x[1] / 4.0 in range(7),
    lambda x: int(x[0]) in range(5, int(x[1]) - 4, -3),
    lambda x: x[0] in {1.0: "a"},
]


@pytest.mark.parametrize("function", AMONG, ids=range(len(AMONG)))
def test_a_symbol_among_known_values_is_compared_with_each(function: Any) -> None:
    for x in ([1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [-1.0, -2.0]):
        assert pe.kernel(function)(np.array(x)) == function(np.array(x))
