"""Whole numbers of every type, wherever one is taken: sizes, bounds, steps, shifts, counts, keys.

Each function gives with a number of each type, as an argument and as an element of an array, what
numpy gives with an int; a float is refused with its role.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from staged import run

import peffects as pe
from peffects.errors import KernelTypeError, ValueRangeError

Function = Callable[..., Any]
X = np.arange(6.0) + 1.0
M = np.arange(12.0).reshape(3, 4)
TYPES = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


def gone_through(*args: Any) -> Any:
    total = 0.0
    for k in range(*args):
        total = total * 2 + k
    return total


def backwards(*args: Any) -> Any:
    total = 0.0
    for k in reversed(range(*args)):
        total = total * 2 + k
    return total


def numbered(x: Any, n: Any) -> Any:
    total = 0.0
    for k, v in enumerate(x, start=n):
        total = total * 2 + k * v
    return total


def on_a_state(write: Function) -> tuple[Function, Function]:
    def kernel(x: Any, n: Any) -> Any:
        state = pe.state(x)
        write(state, n)
        return state[:]

    def plain(x: Any, n: Any) -> Any:
        copy = x.copy()
        write(copy, n)
        return copy

    return kernel, plain


def set_first(s: Any, n: Any) -> None:
    s[:n] = 2.0


def set_last(s: Any, n: Any) -> None:
    s[n:] = 2.0


def set_one(s: Any, n: Any) -> None:
    s[n] = 2.0


def add_to_two(s: Any, n: Any) -> None:
    s[n : n + 2] += 1.0


def binned(x: Any, n: Any) -> Any:
    bins = pe.accumulator(n)
    for i in pe.par(x):
        bins[i % n] += x[i]
    return bins


PLAIN: dict[str, Function] = {
    "range": lambda x, n: gone_through(n),
    "range from 1": lambda x, n: gone_through(1, n),
    "range to 5": lambda x, n: gone_through(n, 5),
    "range by 2": lambda x, n: gone_through(0, n, 2),
    "range down": lambda x, n: gone_through(n, 0, -1),
    "reversed": lambda x, n: backwards(1, n),
    "enumerate": numbered,
    "enumerate of a list": lambda x, n: [v * k for k, v in enumerate([x[0], 2.0], start=n)],
    "in range": lambda x, n: (n in range(1, 5), 3 in range(n), 4 in range(n)),
    "arange": lambda x, n: np.arange(n),
    "arange from 1": lambda x, n: np.arange(1, n),
    "zeros": lambda x, n: np.zeros((n, 2)),
    "full": lambda x, n: np.full((2, n), 2.0),
    "eye": lambda x, n: np.eye(n, 4),
    "eye above": lambda x, n: np.eye(4, 5, n),
    "tri": lambda x, n: np.tri(n, 4),
    "tri above": lambda x, n: np.tri(4, 5, n),
    "linspace": lambda x, n: np.linspace(0, 1, n),
    "repeat": lambda x, n: np.repeat(x, n),
    "repeat rows": lambda x, n: np.repeat(M, n, axis=0),
    "tile": lambda x, n: np.tile(x, n),
    "roll": lambda x, n: np.roll(x, n),
    "roll rows": lambda x, n: np.roll(M, n, axis=1),
    "reshape": lambda x, n: np.reshape(x, (n, 2)),
    "reshape the rest": lambda x, n: x.reshape(n, -1),
    "take": lambda x, n: np.take(x, n),
    "item": lambda x, n: x[n],
    "first": lambda x, n: x[:n],
    "last": lambda x, n: x[n:],
    "between": lambda x, n: x[1:n],
    "triu": lambda x, n: np.triu(M, n),
    "broadcast": lambda x, n: np.broadcast_to(x, (n, 6)),
    "pad": lambda x, n: np.pad(x, n),
    "power": lambda x, n: x**n,
    "divmod": lambda x, n: divmod(7, n),
}
OURS: dict[str, tuple[Function, Function]] = {
    "over": (lambda x, n: pe.table(lambda i: i * 2.0, over=n), lambda x, n: np.arange(n) * 2.0),
    "Fin": (lambda x, n: pe.sum(lambda i: x[0] * i, over=pe.Fin(n)), lambda x, n: n * (n - 1) / 2),
    "scan": (
        lambda x, n: pe.scan(lambda i, c: (c + 1.0, c), 0.0, over=n)[1],
        lambda x, n: np.arange(n) * 1.0,
    ),
    "fold": (lambda x, n: pe.fold(lambda i, c: c + 1.0, 0.0, over=n), lambda x, n: 1.0 * n),
    "accumulator": (binned, lambda x, n: np.bincount(np.arange(6) % n, x)),
    "ordinal": (lambda x, n: x[pe.Fin(6).from_ordinal(n)], lambda x, n: x[n]),
    "key": (
        lambda x, n: pe.random.uniform(pe.random.key(n)),
        lambda x, n: pe.random.uniform(pe.random.key(n)),
    ),
    "fold_in": (
        lambda x, n: pe.random.uniform(pe.random.fold_in(pe.random.key(0), n)),
        lambda x, n: pe.random.uniform(pe.random.fold_in(pe.random.key(0), n)),
    ),
    "s[:n]": on_a_state(set_first),
    "s[n:]": on_a_state(set_last),
    "s[n]": on_a_state(set_one),
    "s[n:n+2]": on_a_state(add_to_two),
}
CASES = {**{name: (function, function) for name, function in PLAIN.items()}, **OURS}
TAKE_FLOATS = {"in range", "power", "divmod", "arange", "arange from 1"}
NO_FLOAT = [name for name in CASES if name not in TAKE_FLOATS]


@pytest.mark.parametrize("name", CASES)
def test_whole_numbers_of_every_type(name: str) -> None:
    kernel, plain = CASES[name]
    wanted = plain(X.copy(), 3)
    numbers: list[Any] = [3, *(kind(3) for kind in TYPES)]
    found = [run(kernel, X, n) for n in numbers]
    found += [run(lambda x, a: kernel(x, a[1]), X, np.array([7, 3], kind)) for kind in TYPES]
    for n, got in itertools.zip_longest(numbers, found):
        for g, w in zip(as_parts(got), as_parts(wanted), strict=True):
            assert np.shape(g) == np.shape(w), n
            np.testing.assert_allclose(g, w, rtol=1e-12)


def as_parts(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple | list) else [value]


@pytest.mark.parametrize("name", NO_FLOAT)
def test_a_float_is_refused_where_a_whole_number_is_needed(name: str) -> None:
    kernel, _ = CASES[name]
    for call, n in ((kernel, 3.0), (lambda x, a: kernel(x, a[0]), np.array([3.0]))):
        with pytest.raises(KernelTypeError) as caught:
            run(call, X, n)
        assert caught.value.fix


@pytest.mark.parametrize("start", TYPES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("stop", TYPES, ids=lambda kind: kind.__name__)
def test_a_range_between_numbers_of_two_types(start: Any, stop: Any) -> None:
    def f(a: Any, b: Any) -> Any:
        return gone_through(a[0], b[0]), gone_through(b[0], a[0], -1)

    for low, high in ((1, 4), (3, 3), (5, 2)):
        args = np.array([low], start), np.array([high], stop)
        assert run(f, *args) == (gone_through(low, high), gone_through(high, low, -1))


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_the_rows_of_a_sparse_matrix(kind: Any) -> None:
    def product(data: Any, indices: Any, indptr: Any, x: Any) -> Any:
        def row(i: Any) -> Any:
            total = 0.0
            for k in range(indptr[int(i)], indptr[int(i) + 1]):
                total = total + data[k] * x[indices[k]]
            return total

        return pe.table(row, over=len(indptr) - 1)

    dense = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [0.0, 3.0, 4.0], [5.0, 0.0, 0.0]])
    rows, columns = np.nonzero(dense)
    indptr = np.searchsorted(rows, np.arange(5)).astype(kind)
    args = dense[rows, columns], columns.astype(kind), indptr, np.array([1.0, 10.0, 100.0])
    wanted = dense @ args[3]
    assert run(product, *args).tolist() == wanted.tolist()
    assert pe.kernel(product)(*args).tolist() == wanted.tolist()
    gradient = pe.grad(lambda d, *rest: pe.sum(product(d, *rest)))(*args)
    assert gradient.tolist() == args[3][columns].tolist()


@pytest.mark.parametrize("name", ["range", "roll", "first", "s[:n]"])
def test_a_number_beyond_64_bits_is_refused_when_the_kernel_runs(name: str) -> None:
    with pytest.raises(ValueRangeError, match="does not fit in 64 bits"):
        run(CASES[name][0], X, np.uint64(2**63 + 5))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: gone_through(0, 6, n),
        lambda x, n: np.sum(M, axis=n),
        lambda x, n: np.flip(M, n),
        lambda x, n: x[::n],
        lambda x, n: np.diff(x, n),
        lambda x, n: round(x[0], n),
    ],
    ids=["step", "axis", "flip", "slice", "diff", "round"],
)
def test_a_number_that_shapes_the_program_must_be_known(function: Any) -> None:
    with pytest.raises(KernelTypeError, match="only the running kernel knows") as caught:
        run(function, X, 1)
    assert caught.value.fix


def test_three_arguments_of_pow() -> None:
    for kernel in (lambda n: pow(n, 3, 5), lambda n: pow(2, n, 5), lambda n: pow(2, 3, n)):
        with pytest.raises(KernelTypeError, match="no `pow` with three arguments") as caught:
            run(kernel, 3)
        assert "% m" in caught.value.fix


def test_a_comprehension_over_a_table_is_refused() -> None:
    with pytest.raises(pe.errors.ControlFlowError, match="comprehension") as caught:
        run(lambda x: [v * k for k, v in enumerate(x)], X)
    assert "pe.table" in caught.value.fix
