"""Facts of Dex's tests in our form: sections Index sets, Loops, State, Accum, Exceptions and PRNG.

Numbers in the names are those facts'.  Kernels run by the evaluator, as compiled code on 1 to 4
threads, and as plain Python; exceptions by the effect machine, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from everywhere import run_everywhere
from fuzz.sources import check_equal
from kernel_checks import refused
from kernels.test_kernel_effects import check_staged

import peffects as pe
from peffects import Err, Ok, effectful, handle, pfor, run
from peffects.errors import BoundsError, IndexSetError
from peffects.handlers import attempt, get, put, run_state, throw, weak_exceptions
from peffects.numerics.threefry import fold_in, hash_key, new_key

# --- index sets ----------------------------------------------------------------------------------


def test_1_ordinals_of_pairs() -> None:
    pairs = pe.Fin(5) * pe.Fin(3)
    assert pairs.ordinal((1, 2)) == 5
    assert tuple(pairs.from_ordinal(5)) == (1, 2)

    def f(k: Any) -> Any:
        n = pe.Fin(5) * pe.Fin(3)
        i, j = n.from_ordinal(k)
        return n.ordinal((i, j)), i, j

    assert tuple(run_everywhere(f, 5)) == (5, 1, 2)


def test_2_pairs_are_listed_row_after_row() -> None:
    expected = list(itertools.product(range(3), range(5)))
    assert [tuple(p) for p in pe.Fin(3) * pe.Fin(5)] == expected

    def f() -> Any:
        rows = pe.list_accumulator()
        for i, j in pe.Fin(3) * pe.Fin(5):
            rows.append((int(i), int(j)))
        return rows

    assert list(zip(*map(np.ndarray.tolist, run_everywhere(f)), strict=True)) == expected


def test_3_size() -> None:
    assert pe.Fin(3).size == len(pe.Fin(3)) == 3
    assert run_everywhere(lambda: pe.Fin(3).size) == 3


FIN3_TABLES = (pe.Fin(3) * pe.Fin(3)) * (pe.Fin(3) * pe.Fin(3))
"""Tables over `Bool * Bool` of indices of `Fin(3)`: an index of `Fin(3)` for each of four."""
FIN4_TABLES = pe.Fin(4) * pe.Fin(4) * pe.Fin(4) * pe.Fin(4) * pe.Fin(4) * pe.Fin(4)


@pytest.mark.parametrize(
    ("n", "size"),
    [
        (pe.Bool * pe.Bool, 4),
        (FIN3_TABLES, 3**4),
        (FIN4_TABLES, 4**6),
        (pe.Maybe(pe.Fin(2)), 3),
    ],
)
def test_4_from_ordinal_is_the_inverse_of_ordinal(n: Any, size: int) -> None:
    indices = list(n)
    assert n.size == len(indices) == size
    assert [n.from_ordinal(n.ordinal(i)) for i in indices] == indices
    assert [n.ordinal(i) for i in indices] == list(range(size))


@pytest.mark.parametrize(
    "make",
    [
        lambda: pe.Bool * pe.Bool,
        lambda: (pe.Fin(3) * pe.Fin(3)) * (pe.Fin(3) * pe.Fin(3)),
        lambda: pe.Maybe(pe.Fin(2)),
    ],
)
def test_4_and_in_kernels(make: Callable[[], Any]) -> None:
    def f(x: Any) -> Any:
        n = make()
        return pe.table(lambda k: n.ordinal(n.from_ordinal(int(k))), over=n.size)

    size = make().size
    assert run_everywhere(f, 0.0).tolist() == list(range(size))


def test_6_a_triangle() -> None:
    def f(n: Any) -> Any:
        return pe.table(lambda i: pe.table(lambda j: i * (i + 1) // 2 + j, over=i.upto()), over=n)

    triangle = pe.kernel(f)(5)
    assert triangle.packed.tolist() == list(range(15))
    rows = [[0], [1, 2], [3, 4, 5], [6, 7, 8, 9], [10, 11, 12, 13, 14]]
    assert [row.tolist() for row in triangle] == rows
    assert [[triangle.index_set.ordinal((i, j)) for j in i.upto()] for i in pe.Fin(5)] == rows


def test_8_first_indices() -> None:
    assert bool(next(iter(pe.Bool))) is False
    assert list(pe.Fin(0)) == []
    with pytest.raises(IndexSetError, match="outside"):
        pe.Fin(0).from_ordinal(0)
    with pytest.raises(IndexSetError, match=r"Fin\(-3\)"):
        pe.Fin(-3)

    def first(n: Any, x: Any) -> Any:
        return x[pe.Fin(n).from_ordinal(0)]

    refused(BoundsError, first, 0, np.zeros(0))


def test_9_a_set_of_names() -> None:
    names = pe.Elements.of({"Bob", "Alice", "Charlie"})
    assert names.size == 3
    assert names.ordinal("Bob") == 1
    assert [i.value for i in names] == ["Alice", "Bob", "Charlie"]

    def f(x: Any) -> Any:
        ages = pe.table(lambda name: x[int(names.ordinal(name))], over=names)
        return ages["Bob"]

    assert run_everywhere(f, np.array([30, 20, 40])) == 20


# --- loops and tables ----------------------------------------------------------------------------


def test_10_sums_and_products() -> None:
    def f(n: Any, m: Any) -> Any:
        return pe.sum(lambda i: i, over=n), pe.prod(lambda i: i + 1, over=m)

    assert tuple(run_everywhere(f, 10, 3)) == (45, 6)


def test_12_transpose() -> None:
    def f(a: Any) -> Any:
        return pe.table(lambda i, j: a[j, i])

    assert run_everywhere(f, np.array([[0, 1], [2, 3]])).tolist() == [[0, 2], [1, 3]]


def test_13_sums_over_pairs_and_triples() -> None:
    def f(xs: Any, ys: Any, zs: Any) -> Any:
        pairs = pe.sum(lambda i, j: xs[i] + ys[j])
        return pairs, pe.sum(lambda i, j, k: xs[i] + ys[j] + zs[k])

    found = run_everywhere(f, np.array([10, 20]), np.array([1, 2, 3]), np.array([1]))
    assert tuple(found) == (102, 108)


def test_14_and_15_rows_and_slices() -> None:
    def f(a: Any, x: Any) -> Any:
        return pe.table(lambda j: a[1, j]), pe.table(lambda i: x[i + 2], over=3)

    row, part = run_everywhere(f, np.arange(4).reshape(2, 2), np.arange(1, 6))
    assert row.tolist() == [2, 3] and part.tolist() == [3, 4, 5]


def test_16_functions_in_tables() -> None:
    def f(n: Any) -> Any:
        def make(i: Any) -> Any:
            return lambda y: i + y

        return pe.table(lambda i: make(i)(i), over=n)

    assert run_everywhere(f, 4).tolist() == [0, 2, 4, 6]


def test_17_scan() -> None:
    def f(x: Any) -> Any:
        return pe.scan(lambda c, v: (c + v, c + v + 1), 0, x)[1]

    assert run_everywhere(f, np.array([1, 2, 3])).tolist() == [2, 4, 7]


def test_19_sizes_that_depend_on_data() -> None:
    def f(x: Any) -> Any:
        zs = pe.table(lambda i: i, over=pe.sum(x))
        return pe.sum(zs) + pe.sum(zs)

    assert run_everywhere(f, np.array([1, 1, 2])) == 12


def test_20_empty_and_extremal() -> None:
    def f(x: Any, none: Any) -> Any:
        nothing = pe.any(lambda i: none[i] > 0), pe.all(lambda i: none[i] > 0)

        return nothing, pe.argmin(x)

    nothing, place = run_everywhere(f, np.array([1, 2, 0.4, 5]), np.zeros(0))
    assert tuple(nothing) == (False, True) and place == 2


def test_20_the_least_by_a_function() -> None:
    def f(x: Any) -> Any:
        def closer(a: Any, b: Any) -> Any:
            return b if b * b < a * a else a

        return pe.reduce(x, closer, np.inf)

    assert run_everywhere(f, np.array([0.5, -2.0])) == 0.5


def test_21_polynomials() -> None:
    def f(c: Any, x: Any) -> Any:
        return pe.fold(lambda y, i: y * x + c[i], 0)

    assert run_everywhere(f, np.array([2, 3, 4]), 10) == 234


# --- state ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("backwards", "seen"), [(False, [0, 1, 2, 3]), (True, [3, 2, 1, 0])])
def test_23_a_counter_in_a_loop(backwards: bool, seen: list[int]) -> None:
    def f(n: Any) -> Any:
        count = pe.state(0)
        out = pe.state(pe.table(lambda i: 0, over=n))
        for i in reversed(range(n)) if backwards else range(n):
            out[i] = count.get()
            count.set(count.get() + 1)
        return out, count

    out, count = run_everywhere(f, 4)
    assert out.tolist() == seen and count == 4


def test_24_two_updates() -> None:
    def f(x: Any) -> Any:
        s = pe.state(x)
        s.set(s.get() + 2)
        s.set(s.get() * 3)
        return s

    assert run_everywhere(f, 1) == 9


def test_27_a_closure_reads_what_is_set_later() -> None:
    def f(y: Any) -> Any:
        s = pe.state(1)
        x = s.get()

        def g(y: Any) -> Any:
            return y + 10 * x + 100 * s.get()

        s.set(4)
        return g(y)

    assert run_everywhere(f, 5) == 415


# --- accumulators --------------------------------------------------------------------------------


def test_28_accumulating_in_and_outside_loops() -> None:
    def f(n: Any) -> Any:
        twice, around = pe.accumulator(dtype=int), pe.accumulator(dtype=int)
        for _ in pe.par(n):
            twice += 1
            twice += 1
            around += 1
        around += 1
        return twice, around

    assert tuple(run_everywhere(f, 2)) == (4, 3)


def test_29_whole_arrays() -> None:
    def f(a: Any) -> Any:
        total = pe.accumulator(a.shape[1], dtype=int)
        for i in pe.par(a):
            total += a[i]
        return total

    assert run_everywhere(f, np.array([[1, 2, 3], [2, 4, 5]])).tolist() == [3, 6, 8]


def test_30_two_accumulators() -> None:
    def f() -> Any:
        w1, w2 = pe.accumulator(dtype=int), pe.accumulator(dtype=int)
        w1 += 1
        w2 += 3
        w1 += 1
        return w1, w2

    assert tuple(run_everywhere(f)) == (2, 3)


def test_32_accumulating_on_one_side() -> None:
    def f(is_right: Any, value: Any) -> Any:
        total = pe.accumulator()
        for i in pe.par(value):
            if is_right[i]:
                total += 1.0 + value[i]
        return total

    right = np.array([False, True, False, False])
    assert run_everywhere(f, right, np.array([1.0, 3.5, 123.0, 456.0])) == 4.5


def test_34_adjacency_lists() -> None:
    def f(a: Any) -> Any:
        out = pe.list_accumulator()
        for i in pe.par(a.shape[0]):
            for j in pe.par(a.shape[1]):
                if a[i, j]:
                    out.append((i, j))
        return out

    a = np.array([[0, 0, 1, 0], [1, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0]], bool)
    found = list(zip(*map(np.ndarray.tolist, run_everywhere(f, a)), strict=True))
    assert found == [(0, 2), (1, 0), (1, 2), (1, 3), (2, 1), (2, 3)]


def test_35_filters() -> None:
    def f(x: Any) -> Any:
        return pe.filter(lambda v: v > 5, x), pe.arg_filter(lambda v: v > 5, x)

    kept, places = run_everywhere(f, np.array([0, 7, -1, 6]))
    assert kept.tolist() == [7, 6] and places.tolist() == [1, 3]


# --- exceptions ----------------------------------------------------------------------------------


@effectful
def asserted(holds: Any) -> Any:
    if not holds:
        yield from throw("asserted")


@effectful
def in_unit_interval(x: Any) -> Any:
    yield from asserted(x >= 0.0)
    yield from asserted(x <= 1.0)
    return x


def test_37_assertions() -> None:
    assert run(attempt(asserted(False))) == Err("asserted")
    assert run(attempt(asserted(True))) == Ok(None)
    assert run(attempt(in_unit_interval(0.2))) == Ok(0.2)
    check_staged(lambda x: attempt(in_unit_interval(x)), (1.2,), (-1.2,), (0.2,))


@effectful
def up_to_three(i: Any) -> Any:
    if i > 3:
        yield from throw("more than three")
    return 23


def all_of(n: Any) -> Any:
    return handle(weak_exceptions(), pfor(pe.Fin(n), up_to_three))


def test_38_an_iteration_that_throws() -> None:
    assert run(all_of(5)) == Err("more than three")
    assert list(run(all_of(3)).value) == [23, 23, 23]
    check_staged(all_of, (5,), (3,))


@effectful
def two_writes(holds: Any) -> Any:
    yield from put(1)
    yield from asserted(holds)
    yield from put(2)


def test_39_state_survives_a_catch_inside_and_not_one_outside() -> None:
    def inside(holds: Any) -> Any:
        return handle(run_state(0), attempt(two_writes(holds)))

    def outside(holds: Any) -> Any:
        return attempt(handle(run_state(0), two_writes(holds)))

    assert run(inside(False)) == (1, Err("asserted"))
    assert run(inside(True)) == (2, Ok(None))
    assert run(outside(False)) == Err("asserted")
    assert run(outside(True)) == Ok((2, None))
    check_staged(inside, (False,), (True,))


def test_39_in_a_kernel_what_was_set_is_the_state() -> None:
    @effectful
    def body(x: Any) -> Any:
        yield from attempt(two_writes(x > 0.0))
        return (yield from get())

    check_staged(lambda x: handle(run_state(0), body(x)), (1.0,), (-1.0,))


def test_41_cases_that_are_missing() -> None:
    def f(x: Any) -> Any:
        n = x.index + pe.Bool
        return pe.table(lambda k: pe.match(k, left=lambda i: x[i]), over=n)

    assert "left, right" in refused(IndexSetError, f, np.ones(2))


def test_41_functions_are_caught() -> None:
    @effectful
    def doubling() -> Any:
        yield from asserted(True)
        return lambda x: x + x

    def f(x: Any) -> Any:
        caught: Any = pe.run(attempt(doubling()))
        return caught.value(x)

    assert f(2) == 4
    check_equal(pe.kernel(f)(2), 4)


# --- random numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "count", "expected"),
    [
        (0, 0, 0x6B20015999BA4EFE),
        (123, 456, 0x500945C565C98701),
        (0x13198A2E03707344, 0x243F6A8885A308D3, 0xC4923A9C483DF7A0),
    ],
)
def test_hashes(key: int, count: int, expected: int) -> None:
    assert hash_key(key, count) == expected
    assert run_everywhere(pe.random.fold_in, np.uint64(key), np.uint64(count)) == expected


def unit(key: Any) -> Any:
    """Dex's `rand`: the low 23 bits of a key as a fraction."""
    return float(key & np.uint64(0x7FFFFF)) / 2**23


def test_whole_numbers() -> None:
    def f(seed: Any) -> Any:
        low = int(pe.random.fold_in(np.uint64(0), seed) & np.uint64(0xFFFFFFFF))
        return (low - 2**32 if low >= 2**31 else low) % 2147483647

    assert run_everywhere(f, 0) == 431640317


def test_a_table_of_uniforms() -> None:
    def f(key: Any) -> Any:
        return pe.table(lambda i, j: unit(pe.random.fold_in(key, 2 * i + j)), over=(3, 2))

    expected = [[0.1513238, 0.07557154], [0.1075971, 0.2888795], [0.5509554, 0.56872]]
    found = run_everywhere(f, np.uint64(new_key(11)))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found[2, 1] == unit(np.uint64(fold_in(new_key(11), 5)))


def test_moments_of_normals() -> None:
    def f(key: Any) -> Any:
        def normal(i: Any) -> Any:
            a, b = pe.random.split(pe.random.fold_in(key, i))
            return pe.sqrt(-2.0 * pe.log(1.0 - unit(a))) * pe.cos(2.0 * np.pi * unit(b))

        draws = pe.table(normal, over=100)
        return pe.mean(draws), pe.mean(lambda i: draws[i] ** 2)

    mean, square = run_everywhere(f, np.uint64(new_key(0)), rtol=1e-12)
    assert mean == pytest.approx(0.001849644, rel=1e-4)
    assert square == pytest.approx(0.7444913, rel=1e-6)
