"""Accum: its monoids, from sums to arrays and one's own, and several accumulators at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peffects.handlers import Accum, accum, accumulate
from peffects.machine.handling.handler import handle
from peffects.machine.handling.operations import effectful
from peffects.parallel import (
    ADD,
    ALL,
    ANY,
    CONCATENATE,
    JOIN,
    LIST,
    MAX,
    MIN,
    MULTIPLY,
    Executor,
    Fin,
    Monoid,
    Serial,
    Shuffled,
    Threads,
    arrays,
    dict_of,
    pfor,
    run,
    tuple_of,
)

EXECUTORS: list[Executor] = [Serial(), Shuffled(3), Threads(2, chunk=1)]
ints = st.integers(-100, 100)
numbers = st.one_of(ints, st.floats(width=16))
pairs = st.tuples(ints, st.text(max_size=2))
MONOIDS: dict[str, tuple[Monoid[Any], st.SearchStrategy[Any]]] = {
    "ADD": (ADD, ints),
    "MULTIPLY": (MULTIPLY, ints),
    "MAX": (MAX, numbers),
    "MIN": (MIN, numbers),
    "ALL": (ALL, st.booleans()),
    "ANY": (ANY, st.booleans()),
    "JOIN": (JOIN, st.text(max_size=3)),
    "LIST": (LIST, st.lists(ints, max_size=3)),
    "CONCATENATE": (CONCATENATE, st.lists(ints, max_size=3).map(tuple)),
    "dict_of": (dict_of(JOIN), st.dictionaries(st.sampled_from("abc"), st.text(max_size=2))),
    "dict_of dict_of": (
        dict_of(dict_of(ADD)),
        st.dictionaries(st.sampled_from("ab"), st.dictionaries(st.sampled_from("ab"), ints)),
    ),
    "tuple_of": (tuple_of(ADD, JOIN), pairs),
    "arrays": (arrays(2, int), st.tuples(ints, ints).map(np.array)),
    "arrays of MAX": (arrays(2, float, MAX), st.tuples(numbers, numbers).map(np.array)),
    "one's own": (Monoid(None, lambda x, y: y if x is None else x), st.one_of(st.none(), ints)),
}


def same(x: Any, y: Any) -> bool:
    if isinstance(x, np.ndarray):
        return bool(np.array_equal(x, y, equal_nan=True))
    return bool(x == y) or (x != x and y != y)


every_monoid = pytest.mark.parametrize(("monoid", "elements"), MONOIDS.values(), ids=MONOIDS)


@every_monoid
@given(st.data())
def test_monoid_laws(
    monoid: Monoid[Any], elements: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    x, y, z = (data.draw(elements) for _ in range(3))
    combine = monoid.combine
    assert same(combine(monoid.empty, x), x)
    assert same(combine(x, monoid.empty), x)
    assert same(combine(combine(x, y), z), combine(x, combine(y, z)))


@every_monoid
@given(st.data())
def test_a_loop_accumulates_as_a_fold(
    monoid: Monoid[Any], elements: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    values = data.draw(st.lists(elements, max_size=4))
    expected = monoid.empty
    for value in values:
        expected = monoid.combine(expected, value)
    for executor in EXECUTORS:
        total, units = run(handle(accumulate(monoid), pfor(values, accum)), executor=executor)
        assert same(total, expected)
        assert units == [None] * len(values)


def test_the_empty_sum_of_arrays_has_their_shape_and_type() -> None:
    total, _ = run(handle(accumulate(arrays((2, 3), np.float32)), pfor(Fin(0), accum)))
    assert (total.shape, total.dtype) == ((2, 3), np.float32)


def test_no_accumulation_changes_the_empty_array() -> None:
    monoid = arrays(2)
    with pytest.raises(ValueError, match="read-only"):
        monoid.empty[0] = 1.0
    total, _ = run(handle(accumulate(monoid), accum(np.ones(2))))
    assert total.tolist() == [1.0, 1.0]
    assert monoid.empty.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("values", [[math.nan, 1.0], [1.0, math.nan], [math.nan, -1.0, 1.0]])
def test_nan_is_not_lost_in_extremes(values: list[float]) -> None:
    for monoid in (MAX, MIN):
        total, _ = run(handle(accumulate(monoid), pfor(values, accum)))
        assert math.isnan(total)


def test_keys_stand_in_the_order_of_the_iterations() -> None:
    words = ["b", "a", "b", "c"]
    for executor in EXECUTORS:
        counts, _ = run(
            handle(accumulate(dict_of(ADD)), pfor(words, lambda w: accum({w: 1}))),
            executor=executor,
        )
        assert list(counts.items()) == [("b", 2), ("a", 1), ("c", 1)]


class Total(Accum[int]): ...


class Names(Accum[list[str]]): ...


@effectful
def visit(i: int) -> Any:
    yield from Total.accum(i)
    yield from Names.accum([f"n{i}"])
    yield from accum(float(i))


def test_several_accumulators_stand_side_by_side() -> None:
    for executor in EXECUTORS:
        inner = handle(accumulate(MAX), pfor(Fin(4), visit))
        program = handle(accumulate(ADD, at=Total), handle(accumulate(LIST, at=Names), inner))
        total, (names, (largest, _)) = run(program, executor=executor)
        assert (total, names, largest) == (6, ["n0", "n1", "n2", "n3"], 3.0)


def test_an_accumulator_inside_an_iteration_is_its_own() -> None:
    @effectful
    def body(i: int) -> Any:
        inner, _ = yield from handle(accumulate(ADD), pfor(Fin(i), lambda j: accum(1)))
        yield from accum(inner)
        return inner

    total, inner = run(handle(accumulate(ADD), pfor(Fin(4), body)))
    assert (total, inner) == (6, [0, 1, 2, 3])
