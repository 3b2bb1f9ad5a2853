"""Sums, ranges, pairs, enums, dataclasses and posts as index sets, outside kernels."""

from __future__ import annotations

import dataclasses
import enum
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import peffects as pe
from peffects.errors import IndexSetError
from peffects.parallel import Fin, IndexSet, Product, Table, pfor, run
from peffects.parallel.index_sets.structures import Struct


class Color(enum.Enum):
    RED = "r"
    GREEN = "g"
    BLUE = "b"


@dataclasses.dataclass(frozen=True)
class Cell:
    row: Any
    column: Any


def sizes(most: int = 4) -> st.SearchStrategy[int]:
    return st.integers(0, most)


PLAIN = st.one_of(
    sizes().map(Fin),
    st.just(pe.Bool),
    st.just(pe.Unit),
    st.just(pe.index_set(Color)),
    st.lists(st.text("ab", max_size=2), max_size=3).map(pe.Elements.of),
    st.lists(sizes(3), max_size=4).map(pe.Ragged),
)


def nested(inner: st.SearchStrategy[IndexSet[Any]]) -> st.SearchStrategy[IndexSet[Any]]:
    return st.one_of(
        st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] * p[1]),
        st.tuples(inner, inner).map(lambda p: Struct(Cell(*p))),
        inner.map(pe.Maybe),
        inner.map(pe.Post),
        st.sampled_from([pe.Upto, pe.Below, pe.From, pe.Above]).flatmap(
            lambda kind: inner.map(kind)
        ),
        st.tuples(inner, st.integers(1, 3)).map(lambda p: pe.tile(*p)),
    )


INDEX_SETS = st.recursive(PLAIN, nested, max_leaves=3).filter(lambda n: len(n) <= 2000)


@given(INDEX_SETS)
def test_ordinal_and_from_ordinal_are_inverse(n: IndexSet[Any]) -> None:
    indices = list(n)
    assert len(indices) == n.size == len(n)
    assert [n.ordinal(i) for i in indices] == list(range(len(n)))
    assert [n.from_ordinal(n.ordinal(i)) for i in indices] == indices
    with pytest.raises(IndexSetError):
        n.from_ordinal(len(n))


@given(INDEX_SETS)
def test_equal_sets_are_equal_and_indices_survive_pickling(n: IndexSet[Any]) -> None:
    copy = pickle.loads(pickle.dumps(n))
    assert copy == n
    assert hash(copy) == hash(n)
    for i in list(n)[:3]:
        again = pickle.loads(pickle.dumps(i))
        assert n.ordinal(again) == n.ordinal(i)


def test_ordinals_of_products_are_row_major() -> None:
    n = Fin(5) * Fin(3)
    assert n.ordinal((1, 2)) == 5
    assert tuple(n.from_ordinal(5)) == (1, 2)
    assert [tuple(p) for p in Fin(3) * Fin(5)] == [(i, j) for i in range(3) for j in range(5)]
    assert Fin(3).size == 3


def test_bool_counts_from_false() -> None:
    assert [bool(b) for b in pe.Bool] == [False, True]
    assert [b.value for b in pe.Bool] == [False, True]
    assert len(pe.Unit) == 1


def test_sums_have_the_left_part_first() -> None:
    n = Fin(2) + Fin(3)
    assert len(n) == 5
    assert [k.is_left for k in n] == [True, True, False, False, False]
    assert (n.left(1), n.right(0)) == (1, 2)
    described = [pe.match(k, left=lambda i: ("l", i), right=lambda j: ("r", j)) for k in n]
    assert described == [("l", 0), ("l", 1), ("r", 0), ("r", 1), ("r", 2)]
    assert repr(Fin(1) + (Fin(2) + Fin(3))) == "Fin(1) + (Fin(2) + Fin(3))"
    with pytest.raises(IndexSetError, match="outside"):
        n.left(2)
    with pytest.raises(TypeError):
        n + 3  # type: ignore[operator]


def test_maybe_has_nothing_last() -> None:
    n = pe.Maybe(Fin(2))
    assert len(n) == 3
    assert n.nothing == 2
    assert [k.is_just for k in n] == [True, True, False]
    assert [pe.match(k, just=int, nothing=lambda: -1) for k in n] == [0, 1, -1]
    assert n.just(1) == 1


def test_match_wants_all_cases() -> None:
    k = (Fin(1) + Fin(1)).at(0)
    with pytest.raises(IndexSetError, match="left, right"):
        pe.match(k, left=lambda i: i)
    with pytest.raises(IndexSetError, match="not one of Fin"):
        pe.match(Fin(3).at(0), left=lambda i: i)


def test_elements_are_sorted_and_unique() -> None:
    names = pe.Elements.of(["Bob", "Alice", "Charlie", "Alice"])
    assert len(names) == 3
    assert names.ordinal("Bob") == 1
    assert names.from_ordinal(1).value == "Bob"
    with pytest.raises(IndexSetError, match="'Dora' is not in"):
        names.ordinal("Dora")


def test_an_enum_class_is_an_index_set() -> None:
    table: Any = run(pfor(Color, lambda c: c.value.value * 2))
    assert table[Color.GREEN] == "gg"
    assert list(table) == ["rr", "gg", "bb"]
    n = pe.index_set(Color)
    assert [pe.match(c, RED=lambda: 1, GREEN=lambda: 2, BLUE=lambda: 3) for c in n] == [1, 2, 3]
    assert repr(n) == "Color"


def test_a_dataclass_of_index_sets_is_an_index_set() -> None:
    n = pe.index_set(Cell(Fin(2), Color))
    assert len(n) == 6
    assert list(n)[4] == Cell(1, 1)
    table: Any = run(pfor(Cell(Fin(2), Color), lambda p: (p.row, p.column.value)))
    assert table[Cell(1, 2)] == (1, Color.BLUE)
    assert table[n.from_ordinal(3)] == (1, Color.RED)
    assert Table(n, range(6)).numpy().shape == (2, 3)


def test_indices_without_an_attribute_say_so() -> None:
    with pytest.raises(AttributeError, match=r"an index of Fin\(3\) has no attribute 'is_left'"):
        _ = Fin(3).at(1).is_left


def test_posts_and_fields_are_neighbours() -> None:
    n = pe.Post(3)
    assert len(n) == 4
    for i in Fin(3):
        assert (n.left_post(i), n.right_post(i)) == (i, i + 1)

    def around(p: Any) -> tuple[Any, Any]:
        found = [
            pe.match(field, just=int, nothing=lambda: None)
            for field in (n.left_field(p), n.right_field(p))
        ]
        return found[0], found[1]

    assert [around(p) for p in n] == [(None, 0), (0, 1), (1, 2), (2, None)]


# --- ranges --------------------------------------------------------------------------------------


@given(st.integers(1, 6), st.data())
def test_ranges_hold_the_indices_that_their_name_says(size: int, data: st.DataObject) -> None:
    i = Fin(size).at(data.draw(st.integers(0, size - 1)))
    assert list(i.upto()) == list(range(i + 1))
    assert list(i.below()) == list(range(i))
    assert list(i.from_()) == list(range(i, size))
    assert list(i.above()) == list(range(i + 1, size))


def test_an_index_of_a_range_is_an_index_of_the_whole_set() -> None:
    n = Fin(5)
    table = Table(n, "abcde")
    (j, k) = n.at(2).above()
    assert (j, k) == (3, 4)
    assert (table[j], table[k]) == ("d", "e")
    assert j.index_set.ordinal(j) == 0
    assert pe.inject(j).index_set == n
    assert list(j.above()) == [4]  # within the range that j is from
    assert list(pe.inject(j).below()) == [0, 1, 2]
    with pytest.raises(IndexSetError, match=r"an index of Fin\(7\)"):
        Table(n.at(2).above(), "xy")[Fin(7).at(3)]


def test_project_is_nothing_outside_the_range() -> None:
    n = Fin(5)
    above = n.at(2).above()
    found = [pe.match(above.project(i), just=int, nothing=lambda: None) for i in n]
    assert found == [None, None, None, 3, 4]


def test_a_triangle_lists_its_pairs_row_after_row() -> None:
    n = pe.Upto(5)
    rows = [[n.ordinal((i, j)) for j in i.upto()] for i in Fin(5)]
    assert rows == [[0], [1, 2], [3, 4, 5], [6, 7, 8, 9], [10, 11, 12, 13, 14]]
    assert [tuple(p) for p in pe.Below(3)] == [(1, 0), (2, 0), (2, 1)]
    assert [tuple(p) for p in pe.From(2)] == [(0, 0), (0, 1), (1, 1)]
    assert [tuple(p) for p in pe.Above(3)] == [(0, 1), (0, 2), (1, 2)]
    with pytest.raises(IndexSetError, match="outside"):
        n.ordinal((2, 3))
    with pytest.raises(IndexSetError, match="which is a pair"):
        n.ordinal((1, 2, 3))


def test_ragged_rows_follow_each_other() -> None:
    n = pe.Ragged([2, 0, 3])
    assert n.offsets.tolist() == [0, 2, 2, 5]
    assert [tuple(p) for p in n] == [(0, 0), (0, 1), (2, 0), (2, 1), (2, 2)]
    assert list(n.row(2)) == [0, 1, 2]
    assert len(pe.Ragged([])) == 0
    with pytest.raises(ValueError, match="read-only"):
        n.offsets[1] = 7


@pytest.mark.parametrize("lengths", [[1.5], [[1, 2]], ["a"]])
def test_lengths_that_are_none_are_refused(lengths: Any) -> None:
    with pytest.raises(IndexSetError, match="takes the lengths of rows"):
        pe.Ragged(lengths)


def test_negative_lengths_are_refused() -> None:
    with pytest.raises(IndexSetError, match="-1, which is negative"):
        pe.Ragged([2, -1])


def test_tiles_cut_a_set_into_ranges() -> None:
    tiles = pe.tile(Fin(7), 3)
    assert [list(tiles.row(t)) for t in tiles.outer] == [[0, 1, 2], [3, 4, 5], [6]]
    assert Table(Fin(7), "abcdefg")[list(tiles.row(1))[2]] == "f"
    for width in (0, -1, 2.0, True):
        with pytest.raises(IndexSetError, match="takes a width"):
            pe.tile(7, width)  # type: ignore[arg-type]


# --- packed tables -------------------------------------------------------------------------------


@given(st.sampled_from([pe.Upto, pe.Below, pe.From, pe.Above]), sizes(5))
def test_packing_keeps_what_belongs_to_the_triangle(kind: Any, size: int) -> None:
    dense = np.arange(size * size, dtype=float).reshape(size, size)
    packed = pe.pack(kind(size), dense)
    keep: dict[Any, Any] = {pe.Upto: np.tril, pe.Below: lambda a: np.tril(a, -1), pe.From: np.triu}
    expected = keep.get(kind, lambda a: np.triu(a, 1))(dense)
    np.testing.assert_array_equal(packed.to_dense(), expected)
    assert packed.size == packed.index_set.size == len(packed.packed)
    for i, j in packed.index_set:
        assert packed[i, j] == packed[int(i), int(j)] == dense[i, j]


def test_a_packed_table_has_rows() -> None:
    table = pe.ragged([[1.0, 2.0], [], [3.0]])
    assert [row.tolist() for row in table] == [[1.0, 2.0], [], [3.0]]
    assert (len(table), table.size, table.dtype, table.shape) == (3, 3, np.float64, (3,))
    assert table[2, 0] == 3.0
    assert table[table.index_set.from_ordinal(1)] == 2.0
    np.testing.assert_array_equal(table.to_dense(-1.0), [[1, 2], [-1, -1], [3, -1]])
    assert table == pe.ragged([[1.0, 2.0], [], [3.0]])
    assert table != pe.ragged([[1.0], [2.0], [3.0]])
    assert repr(table) == "Packed(Ragged([2, 0, 1]), array([1., 2., 3.]))"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: pe.Packed(pe.Upto(3), np.zeros(5)), "has 6 pairs"),
        (lambda: pe.Packed(Fin(3), np.zeros(3)), "over a set of pairs"),  # type: ignore[arg-type]
        (lambda: pe.pack(pe.Upto(3), np.zeros((2, 3))), "not one row for each"),
        (lambda: pe.pack(pe.Upto(3), np.zeros((3, 2))), "too short"),
        (lambda: pe.ragged([[1.0], [2.0]])[0, 1], "outside"),
    ],
)
def test_packed_tables_that_do_not_fit_are_refused(make: Any, words: str) -> None:
    with pytest.raises(IndexSetError, match=words):
        make()


def test_a_loop_over_structured_sets_is_a_table_over_them() -> None:
    n = Product((Fin(2) + Fin(1), pe.Bool))
    table = run(pfor(n, lambda p: tuple(map(int, p))))
    assert table.numpy().shape == (3, 2, 2)
    assert table[2, 1] == (2, 1)


def test_arithmetic_on_packed_tables_is_pointwise() -> None:
    t = pe.pack(pe.Upto(3), np.arange(9.0).reshape(3, 3))
    np.testing.assert_array_equal((2.0 * t + t / 4.0).packed, 2.25 * t.packed)
    np.testing.assert_array_equal(np.sqrt(t).packed, np.sqrt(t.packed))
    assert (-t).index_set == t.index_set
    with pytest.raises(IndexSetError, match="are combined"):
        t + pe.pack(pe.From(3), np.ones((3, 3)))
    with pytest.raises(TypeError):
        t + np.ones(6)
