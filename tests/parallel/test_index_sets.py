"""Index sets, indices and tables."""

from __future__ import annotations

import operator
import pickle
from typing import Any

import numpy as np
import pytest

from peffects.errors import IndexSetError
from peffects.parallel import Fin, Idx, Product, Table, pfor, run


def test_fin_has_a_size_and_indices() -> None:
    assert len(Fin(3)) == 3
    assert list(Fin(3)) == [0, 1, 2]
    assert {(type(i), i.index_set) for i in Fin(3)} == {(Idx, Fin(3))}
    assert list(Fin(0)) == []
    assert Fin(3) == Fin(np.int64(3))
    assert Fin(3) != Fin(4)
    assert hash(Fin(3)) == hash(Fin(3))
    assert repr(Fin(3)) == "Fin(3)"


@pytest.mark.parametrize("size", [True, 2.0, "3", None, [1, 2], np.zeros(3)])
def test_what_is_no_size_is_refused(size: Any) -> None:
    with pytest.raises(IndexSetError, match="takes a size") as caught:
        Fin(size)
    assert caught.value.at.file == __file__


def test_negative_sizes_are_refused() -> None:
    with pytest.raises(IndexSetError, match=r"Fin\(-3\)"):
        Fin(-3)


def test_a_tracer_is_kept_as_size() -> None:
    class Tracer:
        _pe_symbolic = True

        def __bool__(self) -> bool:
            raise AssertionError("not looked at")

    size: Any = Tracer()
    assert Fin(size).size is size


def test_arithmetic_on_an_index_gives_an_int() -> None:
    i = Fin(3).at(2)
    assert type(i + 1) is int
    assert i + 1 == 3
    assert operator.index(i) == 2


def test_products_are_row_major() -> None:
    n = Fin(3) * Fin(5)
    assert len(n) == 15
    assert [tuple(p) for p in n] == [(i, j) for i in range(3) for j in range(5)]
    assert n.at(1, 2) == 7
    i, j = Product((Fin(5), Fin(3))).at(5)
    assert (i, j) == (1, 2)
    assert (i.index_set, j.index_set) == (Fin(5), Fin(3))
    assert (Fin(2) * Fin(3)) * Fin(4) == Fin(2) * (Fin(3) * Fin(4))
    assert repr(n) == "Fin(3) * Fin(5)"
    assert len(Fin(0) * Fin(3)) == 0
    with pytest.raises(TypeError):
        Fin(2) * 3  # type: ignore[operator]


def test_an_index_of_a_plain_set_does_not_unpack() -> None:
    with pytest.raises(TypeError, match="no parts"):
        tuple(Fin(3).at(1))


def test_indices_survive_pickling() -> None:
    i = (Fin(2) * Fin(3)).at(1, 1)
    copy = pickle.loads(pickle.dumps(i))
    assert copy == i
    assert copy.index_set == i.index_set


SQUARES = Table(Fin(4), [0, 1, 4, 9])


def test_a_table_is_a_sequence() -> None:
    assert len(SQUARES) == 4
    assert list(SQUARES) == SQUARES == [0, 1, 4, 9]
    assert Table(Fin(2) * Fin(2), [0, 1, 4, 9]) != SQUARES
    assert SQUARES[2] == SQUARES[Fin(4).at(2)] == 4
    assert list(SQUARES[1:3]) == [1, 4]
    assert 9 in SQUARES
    assert list(reversed(SQUARES)) == [9, 4, 1, 0]
    assert repr(SQUARES) == "Table(Fin(4), [0, 1, 4, 9])"
    assert Table.of("ab") == ["a", "b"]


@pytest.mark.parametrize(
    ("key", "part"),
    [
        (4, "index 4 is outside Fin(4)"),
        (-1, "len(t) - 1"),
        ("a", "'a' is no index"),
        (1.0, "1.0 is no index"),
        (Fin(5).at(1), "a table over Fin(4) is indexed by an index of Fin(5)"),
        ((1, 2), "2 positions"),
    ],
)
def test_wrong_indices_are_refused(key: Any, part: str) -> None:
    with pytest.raises(IndexSetError) as caught:
        SQUARES[key]
    assert part in str(caught.value)
    assert isinstance(caught.value, IndexError)


def test_a_table_over_a_product_takes_positions() -> None:
    n = Fin(2) * Fin(3)
    table = run(pfor(n, lambda p: 10 * p.index_set.parts(p)[0] + p.index_set.parts(p)[1]))
    assert table[1, 2] == 12
    assert table[n.at(1, 2)] == 12
    assert table.numpy().tolist() == [[0, 1, 2], [10, 11, 12]]
    with pytest.raises(IndexSetError):
        table[1, 3]


def test_numpy_keeps_the_axes_of_elements() -> None:
    table = run(pfor(Fin(2), lambda i: np.array([i, i + 1])))
    assert table.numpy().tolist() == [[0, 1], [1, 2]]
    assert Table(Fin(0), []).numpy().shape == (0,)
