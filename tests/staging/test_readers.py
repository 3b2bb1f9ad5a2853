"""The quick way into a program agrees with the general one, or leaves the call to it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from staged import pe, staged

from peffects.staging.captures.readers import read_call
from peffects.staging.stage import signature
from peffects.staging.structures.trees import flatten

X = np.arange(3.0)


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Box:
    content: Any


class Plain:
    pass


VALUES: list[Any] = [
    X, X.astype("f4"), X.astype(">f8"), X.reshape(1, 3), np.array(1.0), np.float32(1), 1.0, 1, True,
    np.True_, "a", None, (1.0, X), [1.0, X], {"a": 1.0}, {"b": 1.0}, (), Pair(1.0, 2), Box(X), len,
    Plain(), ((X,),), (X, ()),
]  # fmt: skip
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    *(((value,), {}) for value in VALUES),
    *(((), {"a": value}) for value in VALUES),
    *(((first, second), {}) for first, second in itertools.combinations(VALUES[:8], 2)),
    ((X,), {"a": 1.0}),
    ((X, {"a": 1.0}), {}),
    ((), {"a": X, "b": 1.0}),
    ((), {"b": 1.0, "a": X}),
]


def test_calls_with_equal_keys_have_equal_signatures() -> None:
    found: dict[tuple[object, ...], Any] = {}
    for args, kwargs in CALLS:
        call = read_call(args, kwargs)
        assert call is not None
        assert [id(leaf) for leaf in call.leaves] == [id(x) for x in flatten((args, kwargs))[0]]
        assert found.setdefault(call.key, signature(args, kwargs)) == signature(args, kwargs)
    assert len(found) > 40


class Own(np.ndarray):
    pass


class Real(float):
    pass


@pytest.mark.parametrize("value", [X.view(Own), Real(1.0), np.float16(1), (1.0, Real(2.0))])
def test_unusual_values_go_the_general_way(value: Any) -> None:
    assert read_call((value,), {}) is None
    assert read_call((), {"x": value}) is None


def test_a_reader_reads_what_arguments_reads() -> None:
    scale: Any
    scale, weights, mode = 2.0, {"w": X}, "sum"

    def function(x: Any, y: Any) -> Any:
        total = scale * pe.sum(lambda i: x[i] * weights["w"][i])
        return total + y if mode == "sum" else total

    made = staged(function, X, 1.0)
    read = made.reader()
    calls: tuple[tuple[Any, Any, str], ...] = (
        (3.0, {"w": X}, "sum"), (2.0, {"w": X + 1}, "sum"), (2, {"w": X}, "sum"),
        (2.0, {"w": X.astype("f4")}, "sum"), (2.0, {"v": X}, "sum"), (2.0, {"w": X}, "other"),
    )  # fmt: skip
    for call in calls:
        scale, weights, mode = call
        quick, general = read([X, 1.0]), made.arguments((X, 1.0), {})
        assert (quick is None) == (general is None)
        if quick is not None and general is not None:
            assert [id(value) for value in quick] == [id(value) for value in general]
    assert read([X, 1.0]) is None  # another mode
