"""Tables, accumulators and loops of records: dataclasses, named tuples, tuples and dicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from compiled import assert_same
from hypothesis import given
from hypothesis import strategies as st
from staged import run

import peffects as pe
from peffects.errors import (
    AccumulatorError,
    BoundsError,
    DataRaceError,
    IndexSetMismatchError,
    KernelTypeError,
)
from peffects.staging.structures.trees import flatten

X = np.array([3.0, -1.0, 2.0, 0.5])
Y = np.array([1.0, 4.0, -2.0, 8.0])
A = np.arange(12.0).reshape(4, 3)


@dataclass(frozen=True)
class Point:
    x: Any
    y: Any

    def __add__(self, other: Point) -> Point:
        return Point(self.x + other.x, self.y + other.y)

    def scaled(self, factor: Any) -> Point:
        return Point(factor * self.x, factor * self.y)

    @property
    def square(self) -> Any:
        return self.x * self.x + self.y * self.y


@dataclass
class Body:
    place: Any
    mass: Any = 1.0
    label: Any = None


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True)
class Quaternion:
    w: float
    x: float
    y: float
    z: float

    def __mul__(self, o: Quaternion) -> Quaternion:
        return Quaternion(
            self.w * o.w - self.x * o.x - self.y * o.y - self.z * o.z,
            self.w * o.x + self.x * o.w + self.y * o.z - self.z * o.y,
            self.w * o.y - self.x * o.z + self.y * o.w + self.z * o.x,
            self.w * o.z + self.x * o.y - self.y * o.x + self.z * o.w,
        )


def both(function: Callable[..., Any], *args: Any) -> Any:
    """What the compiled kernel gives, which is what the evaluator gives, bit for bit."""
    found, expected = pe.kernel(function)(*args), run(function, *args)
    leaves, tree = flatten(found)
    others, same = flatten(expected)
    assert tree == same
    for x, y in zip(leaves, others, strict=True):
        if isinstance(y, np.ndarray | np.generic):
            assert_same(x, y)
        else:
            assert x == y
    return found


# --- tables --------------------------------------------------------------------------------------


def test_a_table_of_dataclasses_has_records_and_fields() -> None:
    def f(x: Any, y: Any) -> Any:
        points = pe.table(lambda i: Point(x[i], y[i]))
        doubled = pe.table(lambda i: points[i] + points[i].scaled(1.0))
        return points, doubled.x, points[1].y, pe.table(lambda i: doubled[i].square)

    points, doubled, second, square = both(f, X, Y)
    assert isinstance(points, Point)
    np.testing.assert_array_equal(points.y, Y)
    np.testing.assert_array_equal(doubled, 2 * X)
    assert second == 4.0
    np.testing.assert_array_equal(square, 4 * (X * X + Y * Y))


@pytest.mark.parametrize(
    ("make", "read"),
    [
        (lambda x, y: (x, y), lambda r: r[0] - r[1]),
        (lambda x, y: [x, y], lambda r: r[0] - r[1]),
        (lambda x, y: Pair(x, y), lambda r: r.left - r.right),
        (lambda x, y: {"a": x, "b": y}, lambda r: r["a"] - r["b"]),
        (lambda x, y: Body(Point(x, y)), lambda r: r.place.x - r.place.y),
        (lambda x, y: (Pair(x, None), {"b": y}), lambda r: r[0].left - r[1]["b"]),
    ],
)
def test_elements_are_the_records_that_the_body_gave(make: Any, read: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        records = pe.table(lambda i: make(x[i], y[i]))
        return records, pe.table(lambda i: read(records[i])), read(records[2])

    records, differences, third = both(f, X, Y)
    np.testing.assert_array_equal(differences, X - Y)
    assert third == 4.0
    assert type(records) is type(make(X, Y))


def test_fields_of_tables_by_name_key_and_place() -> None:
    def f(x: Any, y: Any) -> Any:
        pairs = pe.table(lambda i: Pair(x[i], y[i]))
        dicts = pe.table(lambda i: {"a": x[i], "b": Point(y[i], 1)})
        left, right = pe.table(lambda i: (x[i], y[i]))
        a, _ = pairs
        return pairs.right, dicts["b"].x, left, right, a

    right, x, left, other, a = both(f, X, Y)
    np.testing.assert_array_equal([right, x, other], [Y, Y, Y])
    np.testing.assert_array_equal([left, a], [X, X])


def test_leaves_that_are_no_numbers_are_those_of_all_elements() -> None:
    def f(x: Any) -> Any:
        bodies = pe.table(lambda i: Body(x[i], label="moon"))
        assert bodies.label == "moon" == bodies[0].label
        return bodies, pe.table(lambda i: (x[i], None))

    bodies, pairs = both(f, X)
    assert bodies.label == "moon"
    np.testing.assert_array_equal(bodies.mass, np.ones(4))
    assert pairs[1] is None


def test_rows_of_records() -> None:
    def f(a: Any) -> Any:
        grid = pe.table(lambda i, j: Point(a[i, j], i + j))
        rows = pe.table(lambda i: pe.table(lambda j: Point(a[i, j], j)))
        row = grid[1]
        mixed = pe.table(lambda i: Body(a[i], mass=i))
        return (
            pe.table(lambda j: row[j].x), grid[2, 1].y, rows[3, 2].x, rows[0].y,
            mixed[2].place, pe.table(lambda i: mixed[i].place[1] * mixed[i].mass),
        )  # fmt: skip

    row, y, x, ys, place, products = both(f, A)
    np.testing.assert_array_equal(row, A[1])
    assert (y, x) == (3, 11.0)
    np.testing.assert_array_equal(ys, [0, 1, 2])
    np.testing.assert_array_equal(place, A[2])
    np.testing.assert_array_equal(products, A[:, 1] * np.arange(4))


def test_tables_of_records_are_index_sets_and_sequences() -> None:
    def f(x: Any, y: Any) -> Any:
        points = pe.table(lambda i: Point(x[i], y[i]))
        total = 0.0
        for point in points:
            total += point.square
        count = pe.accumulator(dtype=int)
        for _ in pe.par(points):
            count += 1
        return total, count, len(points), pe.table(lambda i: i, over=points), points.shape[0]

    total, count, length, indices, size = both(f, X, Y)
    assert total == pytest.approx(np.sum(X * X + Y * Y))
    assert (count, length, size) == (4, 4, 4)
    np.testing.assert_array_equal(indices, range(4))


def test_empty_tables_of_records() -> None:
    points = pe.kernel(lambda x: pe.table(lambda i: Point(x[i], 1)))(X[:0])
    assert (points.x.shape, points.y.dtype) == ((0,), np.dtype("int64"))


def test_user_classes_with_operators() -> None:
    def f(q: Quaternion, x: Any) -> Any:
        turned = pe.table(lambda i: q * Quaternion(0.0, x[i], 0.0, 1.0))
        product = Quaternion(1.0, 0.0, 0.0, 0.0)
        for i in range(3):
            product = product * turned[i]
        return turned, product

    unit = Quaternion(0.5, 0.5, 0.5, 0.5)
    _, product = both(f, unit, X)
    expected = Quaternion(1.0, 0.0, 0.0, 0.0)
    for x in X[:3].tolist():
        expected = expected * (unit * Quaternion(0.0, x, 0.0, 1.0))
    assert product == expected


# --- arguments -----------------------------------------------------------------------------------


def test_a_dataclass_of_arrays_is_a_table_of_dataclasses() -> None:
    def f(points: Any) -> Any:
        total = pe.sum(lambda i: points[i].square)
        return total, points[1], len(points), pe.table(lambda i: points[i].x, over=points)

    points = Point(X, Y)
    total, second, length, xs = both(f, points)
    assert total == np.sum(X * X + Y * Y)
    assert (second.x, second.y, length) == (-1.0, 4.0, 4)
    np.testing.assert_array_equal(xs, X)
    kernel = pe.kernel(f)
    kernel(points)
    assert kernel(Point(X[:2], Y[:2]))[0] == np.sum((X * X + Y * Y)[:2])


def test_named_tuples_and_dicts_of_arrays_are_indexed_by_symbols() -> None:
    def f(pair: Any, table: Any) -> Any:
        return pe.table(lambda i: pair[i].left + table[i]["a"]), pair[0][2]

    sums, third = both(f, Pair(X, Y), {"a": Y, "b": None})
    np.testing.assert_array_equal(sums, X + Y)
    assert third == 2.0


def test_fields_with_more_axes_give_rows() -> None:
    def f(bodies: Any) -> Any:
        return pe.table(lambda i: bodies[i].mass * pe.sum(bodies[i].place)), bodies[1].place

    found, row = both(f, Body(A, X))
    np.testing.assert_array_equal(found, X * A.sum(1))
    np.testing.assert_array_equal(row, A[1])


def test_a_captured_dataclass_of_arrays_is_never_stale() -> None:
    body = Body(X, Y)
    held: Any = body
    weigh = pe.kernel(lambda k: held[k].place * pe.sum(lambda i: held[i].mass))
    assert weigh(0) == 3.0 * Y.sum()
    body.mass = 2 * Y
    assert weigh(0) == 6.0 * Y.sum()
    body.place = X + 1
    assert weigh(0) == 8.0 * Y.sum()


def test_records_of_tables_of_different_lengths_are_refused_at_launch() -> None:
    kernel = pe.kernel(lambda p: pe.table(lambda i: p[i].square))
    with pytest.raises(IndexSetMismatchError, match=r"has length 3"):
        kernel(Point(X, Y[:3]))


def test_an_index_into_a_record_is_tested() -> None:
    kernel = pe.kernel(lambda p, k: p[k].square)
    with pytest.raises(BoundsError, match="index 4"):
        kernel(Point(X, Y), 4)
    assert pe.kernel(lambda p, k: pe.unchecked(p)[k].square)(Point(X, Y), 3) == 64.25


STRUCTURED = np.array(
    [(1.0, 2, (3.0, 4.0), True), (5.0, 6, (7.0, 8.0), False)],
    dtype=[("x", "f8"), ("n", "i4"), ("v", "f4", 2), ("flag", "?")],
)


def test_structured_arrays_are_tables_of_dicts() -> None:
    def f(s: Any) -> Any:
        def value(i: Any) -> Any:
            return s[i]["x"] * s[i]["n"] if s["flag"][i] else s[i]["v"][1]

        return pe.table(value), s[1]["v"], s["n"], len(s), s

    values, v, n, length, all_ = both(f, STRUCTURED)
    np.testing.assert_array_equal(values, [2.0, 8.0])
    np.testing.assert_array_equal(v, np.array([7, 8], np.float32))
    assert (n.dtype, n.tolist(), length) == (np.dtype("i4"), [2, 6], 2)
    assert all_["flag"].tolist() == [True, False]


def test_structured_arrays_nested_captured_and_as_numbers() -> None:
    inner = np.dtype([("z", "c16"), ("k", "u1")])
    nested: Any = np.zeros((2, 3), [("in", inner), ("y", ">f8")])
    nested["in"]["z"], nested["y"] = 1 + 2j, 3.0
    f: Any = pe.kernel(lambda i, j: (nested[i, j]["in"]["z"], nested["y"][1, 2]))
    assert f(0, 1) == (1 + 2j, 3.0)
    nested["in"]["z"] *= 2
    assert f(1, 1) == (2 + 4j, 3.0)
    nested = np.zeros((2, 3), [("in", inner), ("y", "f4")])
    assert type(f(1, 1)[1]) is np.float32
    total: Any = pe.kernel(lambda r: r["x"] + r["n"])
    assert total(STRUCTURED[1]) == 11.0


def test_a_structured_array_costs_the_quick_way_too() -> None:
    kernel = pe.kernel(lambda s: pe.sum(lambda i: s[i]["x"]))
    assert kernel(STRUCTURED) == 6.0
    assert kernel._quick
    assert kernel(STRUCTURED[::-1]) == kernel(STRUCTURED[:2]) == 6.0


# --- control flow --------------------------------------------------------------------------------


def test_records_meet_after_an_if_and_in_loops() -> None:
    def f(x: Any, y: Any, n: int) -> Any:
        points = pe.table(lambda i: Point(x[i], y[i]))
        others = pe.table(lambda i: Point(y[i], x[i]))
        if n > 2:
            points = others
        nearest = points[0]
        for i in range(n):
            nearest = points[i] if points[i].square < nearest.square else nearest
        for _ in range(n):
            points = pe.table(lambda i: points[i] + others[i])  # noqa: B023
        return points, nearest

    for n in (2, 3):
        points, nearest = both(f, X, Y, n)
        x, y = (Y, X) if n > 2 else (X, Y)
        np.testing.assert_array_equal(points.x, x + n * Y)
        k = int(np.argmin((x * x + y * y)[:n]))
        assert (nearest.x, nearest.y) == (x[k], y[k])


def test_a_fold_over_records_and_a_scan_that_gives_them() -> None:
    def f(x: Any, y: Any) -> Any:
        points = pe.table(lambda i: Point(x[i], y[i]))
        total = pe.fold(lambda sum_, i: sum_ + points[i], Point(0.0, 0.0))
        last, steps = pe.scan(lambda c, i: (c + points[i], Point(c.x, i)), Point(0.0, 0.0))
        return total, last, steps, steps[2].x

    total, last, steps, third = both(f, X, Y)
    assert (total.x, total.y) == (X.sum(), Y.sum()) == (last.x, last.y)
    np.testing.assert_array_equal(steps.x, np.cumsum(X) - X)
    assert third == 2.0


def test_while_carries_records() -> None:
    def f(point: Any) -> Any:
        steps = 0
        while point.square > 1.0:
            point = point.scaled(0.5)
            steps += 1
        return point, steps

    point, steps = both(f, Point(3.0, 4.0))
    assert (point.x, point.y, steps) == (0.375, 0.5, 3)


# --- reductions and accumulators -----------------------------------------------------------------


def test_sums_and_means_of_records_are_those_of_their_leaves() -> None:
    def f(x: Any, y: Any) -> Any:
        points = pe.table(lambda i: Body(Point(x[i], y[i])))
        return pe.sum(points), pe.mean(lambda i: points[i].place), pe.max(lambda i: (x[i], y[i]))

    total, mean, largest = both(f, X, Y)
    assert (total.place.x, total.place.y, total.mass) == (X.sum(), Y.sum(), 4.0)
    assert (mean.x, mean.y) == (X.mean(), Y.mean())
    assert largest == (3.0, 8.0)


def test_argmin_of_records_is_refused() -> None:
    def f(x: Any) -> Any:
        return pe.argmin(lambda i: Point(x[i], 1.0))

    with pytest.raises(KernelTypeError, match="must return one number"):
        run(f, X)


@dataclass
class Moments:
    count: int
    total: float
    square: float = field(default=0.0)


@pytest.mark.parametrize("spec", [Moments, Moments(int, float, float)])  # type: ignore[arg-type]
def test_accumulators_of_records(spec: Any) -> None:
    def f(x: Any, n: int) -> Any:
        bins = pe.accumulator(n, dtype=spec)
        whole = pe.accumulator(dtype=spec)
        for i in pe.par(x):
            bins[i % n] += Moments(1, x[i], x[i] * x[i])
            whole += Moments(1, x[i], x[i] * x[i])
        return bins, whole, bins[1].total, whole.square

    bins, whole, total, square = both(f, X, 2)
    assert isinstance(bins, Moments)
    np.testing.assert_array_equal(bins.count, [2, 2])
    np.testing.assert_array_equal(bins.total, [5.0, -0.5])
    assert (whole.count, whole.total, total) == (4, X.sum(), -0.5)
    assert square == whole.square == np.sum(X * X)


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ((float, int), (1.5, 2)),
        ({"a": float, "b": (int, None)}, {"a": 1.5, "b": (2, None)}),
        (Pair(float, int), Pair(1.5, 2)),
        (np.dtype([("a", "f4"), ("b", "c8")]), {"a": 1.5, "b": 2j}),
    ],
)
def test_descriptions_of_records(spec: Any, value: Any) -> None:
    def f(x: Any) -> Any:
        total = pe.accumulator(dtype=spec)
        for _ in pe.par(x):
            total += value
        return total

    leaves = flatten(both(f, X))[0]
    expected: list[Any] = flatten(value)[0]
    assert [x for x in leaves if x is not None] == [4 * x for x in expected if x is not None]


def test_parts_of_accumulators_of_records() -> None:
    def f(x: Any) -> Any:
        rows = pe.accumulator(2, x, dtype=Point(float, float))
        low = pe.accumulator(dtype=Pair(float, float), op="min")
        for i in pe.par(x):
            rows.x[0, i] += x[i]
            rows[1] += pe.table(lambda j: Point(1.0, x[j]))
            low.combine((), Pair(x[i], -x[i]))
        return rows, low

    rows, low = both(f, X)
    np.testing.assert_array_equal(rows.x, [X, np.full(4, 4.0)])
    np.testing.assert_array_equal(rows.y, [np.zeros(4), 4 * X])
    assert low == (-1.0, -3.0)


def test_a_record_that_was_accumulated_has_methods_and_operators() -> None:
    def f(x: Any) -> Any:
        total = pe.accumulator(dtype=Point(float, float))
        for i in pe.par(x):
            total += Point(x[i], 1.0)
        return (total + Point(1.0, 1.0)).y, total.scaled(2.0).x

    assert both(f, X) == (5.0, 9.0)


def test_what_is_added_must_be_such_a_record() -> None:
    def f(x: Any) -> Any:
        total = pe.accumulator(dtype=Point(float, float))
        for i in pe.par(x):
            total += x[i]  # here
        return total

    with pytest.raises(KernelTypeError, match="is no Point of the same structure") as caught:
        run(f, X)
    assert "# here" in caught.value.at.snippet()

    def g(x: Any) -> Any:
        return pe.accumulator(dtype=Point(float, "what"))

    with pytest.raises(KernelTypeError, match="dtype"):
        run(g, X)

    def h(x: Any) -> Any:
        return pe.accumulator(dtype=(float, bool))

    with pytest.raises(KernelTypeError, match="cannot combine"):
        run(h, X)


def test_accumulators_of_records_are_read_after_their_loops() -> None:
    def f(x: Any) -> Any:
        total = pe.accumulator(dtype=Point(float, float))
        for i in pe.par(x):
            total += Point(x[i], total.x)  # here
        return total

    with pytest.raises(AccumulatorError):
        run(f, X)

    def g(x: Any) -> Any:
        points = pe.table(lambda i: Point(x[i], x[i]))
        points[0] = Point(1.0, 1.0)  # here
        return points

    with pytest.raises(DataRaceError):
        run(g, X)


# --- mistakes ------------------------------------------------------------------------------------


def test_unknown_fields_are_told_with_the_known_ones() -> None:
    def f(x: Any) -> Any:
        points = pe.table(lambda i: Point(x[i], 1.0))
        return points.square  # here

    with pytest.raises(
        KernelTypeError, match=r"no field `square`.*\n.*\n.*fields are x, y.*t\[i\]"
    ):
        run(f, X)


def test_what_holds_no_tables_is_not_indexed() -> None:
    with pytest.raises(KernelTypeError, match="without tables"):
        run(lambda p: p[0], Body("a", None))
    with pytest.raises(KernelTypeError, match="no table with 1 axes"):
        run(lambda p: p[0], Point(X, 1.0))


# --- derivatives ---------------------------------------------------------------------------------


def test_the_gradient_of_records_is_a_record() -> None:
    def loss(points: Any, weight: Any) -> Any:
        moved = pe.table(lambda i: points[i].scaled(weight.left))
        total = pe.accumulator(dtype=Point(float, float))
        for i in pe.par(moved):
            total += moved[i]
        return total.x * total.y + pe.sum(lambda i: moved[i].square)

    args = (Point(X, Y), Pair(2.0, None))
    gradient, weight = pe.grad(loss, argnums=(0, 1))(*args)
    assert isinstance(gradient, Point) and isinstance(weight, Pair)
    np.testing.assert_allclose(gradient.x, 4 * Y.sum() + 8 * X)
    np.testing.assert_allclose(gradient.y, 4 * X.sum() + 8 * Y)
    assert weight.right is None
    np.testing.assert_allclose(weight.left, 4 * (X.sum() * Y.sum() + np.sum(X * X + Y * Y)))
    pe.check_grads(lambda p: loss(p, Pair(2.0, None)), (args[0],))


def test_the_gradient_by_a_structured_array_is_a_dict() -> None:
    array = np.zeros(3, [("x", "f8"), ("y", "f8")])
    array["x"], array["y"] = [1.0, 2.0, 3.0], 2.0
    gradient = pe.grad(lambda s: pe.sum(lambda i: s[i]["x"] ** 2 * s["y"][i]))(array)
    np.testing.assert_allclose(gradient["x"], 4 * array["x"])
    np.testing.assert_allclose(gradient["y"], array["x"] ** 2)


# --- generated -----------------------------------------------------------------------------------

shapes = st.recursive(
    st.sampled_from(["number", "integer", "none"]),
    lambda inner: st.one_of(
        st.tuples(st.just("tuple"), st.lists(inner, min_size=1, max_size=3)),
        st.tuples(st.just("dict"), st.lists(inner, min_size=1, max_size=3)),
        st.tuples(st.just("point"), st.tuples(inner, inner)),
        st.tuples(st.just("pair"), st.tuples(inner, inner)),
    ),
    max_leaves=6,
)


def build(shape: Any, number: Any, integer: Any) -> Any:
    """A record of a generated shape."""
    if isinstance(shape, str):
        return {"number": number, "integer": integer, "none": None}[shape]
    kind, inner = shape
    parts = [build(part, number, integer) for part in inner]
    if kind == "dict":
        return {f"k{place}": part for place, part in enumerate(parts)}
    return tuple(parts) if kind == "tuple" else (Point if kind == "point" else Pair)(*parts)


@given(shapes, st.lists(st.integers(-3, 3), max_size=4))
def test_any_record_goes_through_tables_sums_and_loops(shape: Any, numbers: list[int]) -> None:
    x = np.array(numbers, float)
    record = (build(shape, 1.0, 1), 0.0)  # one number at least

    def f(x: Any) -> Any:
        made = pe.table(lambda i: (build(shape, x[i], i), x[i]))
        again = pe.table(lambda i: made[i])
        last = record
        for i in range(len(x)):
            last = again[i] if x[i] > 0.0 else last
        return again, pe.sum(again), last

    table, total, last = run(f, x)
    columns = [build(shape, value, i) for i, value in enumerate(x.tolist())]
    chosen = [(c, v) for c, v in zip(columns, x.tolist(), strict=True) if v > 0.0]
    assert flatten(last) == flatten(chosen[-1] if chosen else record)
    leaves: list[Any] = flatten(table)[0]
    assert flatten(table)[1] == flatten(record)[1] == flatten(total)[1]
    for place, leaf in enumerate(leaves):
        column: list[Any] = [
            flatten((c, v))[0][place] for c, v in zip(columns, x.tolist(), strict=True)
        ]
        if leaf is None:
            assert not [value for value in column if value is not None]
        else:
            assert leaf.tolist() == column
            assert flatten(total)[0][place] == sum(column)
