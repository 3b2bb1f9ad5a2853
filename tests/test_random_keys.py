"""`pe.random`: numbers as functions of a key, the same bits in kernels, outside, and by effects."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compiled import CompiledProgram
from programs import Sketch
from staged import run

import peffects as pe
from peffects.errors import KernelTypeError, ValueRangeError
from peffects.handlers import prng
from peffects.handlers import random as effects
from peffects.ir import primitives as p
from peffects.ir.primitives import Primitive
from peffects.ir.syntax import F64, SCALARS, Scalar
from peffects.numerics import threefry

U64 = SCALARS["uint64"]
KEY = pe.random.key(7)


def bits(x: Any) -> Any:
    return np.asarray(x, dtype=float).view(np.uint64)


# --- known answers -------------------------------------------------------------------------------


def test_known_answers_of_the_hash() -> None:
    @pe.kernel
    def hashed(key: Any, count: Any) -> Any:
        return pe.random.fold_in(key, count)

    word = np.uint64
    assert hashed(word(0), word(0)) == 0x6B20015999BA4EFE == pe.random.key(0)
    assert hashed(word(123), 456) == 0x500945C565C98701 == pe.random.fold_in(word(123), 456)
    key, count = word(0x13198A2E03707344), word(0x243F6A8885A308D3)
    assert hashed(key, count) == 0xC4923A9C483DF7A0 == pe.random.fold_in(key, count)


def test_known_answers_of_draws() -> None:
    """Fixed for good: a change here would change every simulation that users keep."""
    key = pe.random.key(0)
    first, second = (float(pe.random.uniform(k)) for k in pe.random.split(key))
    assert (first.hex(), second.hex()) == ("0x1.f09d06245fdecp-1", "0x1.42bf0891f87e6p-2")
    assert pe.random.normal(key).hex() == "-0x1.0de39f68cce02p+0"
    assert pe.random.exponential(key).hex() == "0x1.158a45952b5d8p-1"
    assert pe.random.integers(key, -3, 10) == 2
    assert pe.random.permutation(key, 10).tolist() == [8, 4, 1, 7, 5, 6, 9, 2, 0, 3]


# --- the same bits -------------------------------------------------------------------------------


def applied(op: Primitive, elem: Scalar) -> CompiledProgram:
    s = Sketch(op.name)
    x, y = s.table("x", "n", elem=elem), s.table("y", "n", elem=elem)
    i = s.index("i", "n")
    body = s.b.nested()
    args = [body.index(x, i), body.index(y, i)][: op.arity]
    return CompiledProgram(s.done(*s.b.loop([i], body.block(body.prim(op, *args)))))


def test_compiled_hashes_are_those_of_the_machine() -> None:
    words = np.random.default_rng(0).integers(0, 2**64, (2, 5000), dtype=np.uint64)
    words[:, :3] = 0, 2**64 - 1, 2**32
    (found,) = applied(p.THREEFRY, U64)(*words)
    wanted = [threefry.threefry_2x32(*row) for row in zip(*words.tolist(), strict=True)]
    assert found.tolist() == wanted


EDGES = [k / 8 + step for k in range(8) for step in (0.0, 2.0**-53, 2.0**-52)]


@pytest.mark.parametrize(
    ("op", "reference", "values"),
    [
        (p.COS_TURN, threefry.cos_turn, [*EDGES, 1.0 - 2.0**-53, 0.125 - 2.0**-55]),
        (p.LOG_UNIT, threefry.log_unit, [1.0, 0.5, 2.0**-53, 0.7071067811865475,
                                         0.7071067811865476, 1.0 - 2.0**-53]),
    ],
)  # fmt: skip
def test_the_functions_of_normals_have_one_meaning_to_the_last_bit(
    op: Primitive, reference: Callable[[float], float], values: list[float]
) -> None:
    u = 1.0 - np.random.default_rng(1).random(200_000)
    x = np.concatenate([values, u[u < 1.0]])
    (found,) = applied(op, F64)(x, x)
    np.testing.assert_array_equal(bits(found), bits([reference(v) for v in x.tolist()]))


DRAWS: dict[str, Callable[[Any], Any]] = {
    "uniform": lambda k: pe.random.uniform(k),
    "uniform of a range": lambda k: pe.random.uniform(k, -2.0, 3.5),
    "normal": lambda k: pe.random.normal(k),
    "normal of a scale": lambda k: pe.random.normal(k, 1.5, 0.1),
    "exponential": lambda k: pe.random.exponential(k),
    "exponential of a scale": lambda k: pe.random.exponential(k, 2.5),
    "bernoulli": lambda k: pe.random.bernoulli(k, 0.3),
    "integers": lambda k: pe.random.integers(k, -3, 10),
    "large integers": lambda k: pe.random.integers(k, -(2**62), 2**62 + 12345),
    "split": lambda k: pe.random.split(k, 3)[2],
}


@pytest.mark.parametrize("name", DRAWS)
def test_kernels_the_evaluator_and_python_give_the_same_bits(name: str) -> None:
    draw = DRAWS[name]
    kernel = pe.kernel(lambda key, n: pe.table(lambda i: draw(pe.random.fold_in(key, i)), over=n))
    found = kernel(KEY, 3000)
    plain = [draw(pe.random.fold_in(KEY, i)) for i in range(3000)]
    assert found.tolist() == plain
    keys = np.array([pe.random.fold_in(KEY, i) for i in range(50)])
    assert run(lambda keys: draw(keys), keys).tolist() == plain[:50]  # of a whole table
    assert kernel.debug(KEY, 20).tolist() == plain[:20]


def test_any_number_of_threads_gives_the_same_bits() -> None:
    kernel = pe.kernel(
        lambda key, n: pe.table(lambda i: pe.random.normal(pe.random.fold_in(key, i)), over=n)
    )
    found = []
    for count in (1, 2, 3, 4):
        with pe.threads(count):
            found.append(bits(kernel(KEY, 200_000)))
    assert all(np.array_equal(found[0], other) for other in found[1:])


def test_the_effect_draws_the_same_numbers_from_the_same_keys() -> None:
    @pe.effectful
    def draws() -> Any:
        a = yield from effects.uniform()
        b = yield from effects.normal()
        c = yield from effects.exponential()
        d = yield from effects.integers(0, 6)
        return a, b, c, d

    key, functions = pe.random.key(5), pe.random
    drawn = []
    draw_each: list[Callable[[Any], Any]] = [
        functions.uniform, functions.normal, functions.exponential,
        lambda k: functions.integers(k, 0, 6),
    ]  # fmt: skip
    for draw in draw_each:
        key, sub = pe.random.split(key)
        drawn.append(draw(sub))
    assert pe.run(pe.handle(prng(5), draws())) == tuple(drawn)


def test_a_loop_has_the_keys_of_a_handled_loop() -> None:
    found = pe.run(pe.handle(prng(5), pe.pfor(pe.Fin(4), lambda i: effects.uniform())))
    inner, _ = pe.random.split(pe.random.key(5))
    subs = [pe.random.split(pe.random.fold_in(inner, i))[1] for i in range(4)]
    assert list(found) == [pe.random.uniform(k) for k in subs]


# --- distributions -------------------------------------------------------------------------------


def sample(draw: Callable[[Any], Any], n: int = 200_000) -> Any:
    return pe.table(lambda i: draw(pe.random.fold_in(KEY, i)), over=n)


def test_moments() -> None:
    u, z, e = (sample(DRAWS[name]) for name in ("uniform", "normal", "exponential"))
    assert abs(u.mean() - 0.5) < 4 / math.sqrt(12 * len(u))
    assert abs(u.var() - 1 / 12) < 0.001 and u.min() >= 0.0 and u.max() < 1.0
    assert abs(z.mean()) < 4 / math.sqrt(len(z)) and abs(z.var() - 1.0) < 0.02
    assert abs((z**4).mean() - 3.0) < 0.1 and abs(np.mean(z > 1.96) - 0.025) < 0.0015
    assert abs(e.mean() - 1.0) < 4 / math.sqrt(len(e)) and e.min() >= 0.0


def test_integers_are_equally_likely() -> None:
    found = sample(lambda k: pe.random.integers(k, -3, 4))
    counts = np.bincount(found + 3, minlength=7)
    assert len(counts) == 7
    expected = len(found) / 7
    assert np.sum((counts - expected) ** 2 / expected) < 22.5  # chi square, 6 degrees, 0.1 %


def test_categories_have_the_probability_of_their_weights() -> None:
    weights = np.array([0.0, 1.0, 2.0, 0.0, 5.0, 0.0])
    kernel = pe.kernel(
        lambda key, w: pe.table(
            lambda i: pe.random.categorical(pe.random.fold_in(key, i), w), over=80_000
        )
    )
    counts = np.bincount(kernel(KEY, weights), minlength=6)
    expected = 80_000 * weights / weights.sum()
    assert (counts[weights == 0.0] == 0).all()
    assert np.sum((counts - expected)[weights > 0] ** 2 / expected[weights > 0]) < 13.8
    assert pe.random.categorical(KEY, weights) in (1, 2, 4)


def test_orders_are_equally_likely() -> None:
    kernel = pe.kernel(
        lambda key, n: pe.table(
            lambda i: pe.random.permutation(pe.random.fold_in(key, i), 3), over=n
        )
    )
    rows = kernel(KEY, 30_000)
    assert (np.sort(rows, axis=1) == np.arange(3)).all()
    counts = np.unique(rows, axis=0, return_counts=True)[1]
    assert len(counts) == 6
    assert np.sum((counts - 5000.0) ** 2 / 5000.0) < 20.5
    assert sorted(pe.random.permutation(KEY, 1000)) == list(range(1000))
    assert len(pe.random.permutation(KEY, 0)) == 0


def test_choices_are_elements_or_rows() -> None:
    x = np.arange(12.0).reshape(4, 3)
    kernel = pe.kernel(lambda key, x: (pe.random.choice(key, x), pe.random.choice(key, x[0])))
    row, element = kernel(KEY, x)
    assert row.tolist() in x.tolist() and element in x[0]
    assert row.tolist() == x[pe.random.integers(KEY, 0, 4)].tolist()
    assert pe.random.choice(KEY, ["a", "b"]) in ("a", "b")


# --- derivatives, mistakes -----------------------------------------------------------------------


def test_parameters_of_distributions_are_differentiated() -> None:
    """The reparametrized gradient of a Monte Carlo mean."""

    @pe.kernel
    def mean_square(loc: Any, scale: Any, key: Any) -> Any:
        def term(i: Any) -> Any:
            return pe.random.normal(pe.random.fold_in(key, i), loc, scale) ** 2

        return pe.mean(term, over=100)

    pe.check_grads(lambda a, b: mean_square(a, b, KEY), (0.3, 1.2))


@pytest.mark.parametrize("draw", [pe.random.uniform, pe.random.normal, pe.random.exponential])
def test_a_plain_number_is_no_key(draw: Any) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: draw(5),
        lambda: pe.kernel(lambda k: draw(k))(5),
    ]
    for call in calls:
        with pytest.raises(KernelTypeError, match="no key of random numbers") as caught:
            call()
        assert "pe.random.key(seed)" in caught.value.fix


def test_no_integer_in_an_empty_range() -> None:
    calls: list[Callable[[], Any]] = [
        lambda: pe.random.integers(KEY, 3, 3),
        lambda: pe.kernel(lambda k, n: pe.random.integers(k, 3, n))(KEY, 3),
    ]
    for call in calls:
        with pytest.raises(ValueRangeError, match=r"no integer is in \[3, 3\)"):
            call()


@pytest.mark.parametrize("weights", [[0.0, 0.0], [np.inf, 1.0]])
def test_weights_that_cannot_be_shared(weights: list[float]) -> None:
    with pytest.raises(ValueRangeError, match="the weights of `categorical` have the sum"):
        pe.random.categorical(KEY, np.array(weights))


def test_other_refusals() -> None:
    with pytest.raises(KernelTypeError, match="a key is split into 0 keys"):
        pe.random.split(KEY, 0)
    with pytest.raises(KernelTypeError, match=r"the float .* is folded into a key"):
        pe.kernel(lambda k: pe.random.fold_in(k, 0.5))(KEY)
    with pytest.raises(KernelTypeError, match="`choice` takes a table"):
        pe.kernel(lambda k: pe.random.choice(k, (1, 2)))(KEY)


def test_negative_weights_and_none_at_all_are_refused() -> None:
    with pytest.raises(ValueRangeError, match=r"a weight of `categorical` is -1\.0"):
        pe.random.categorical(KEY, np.array([2.0, -1.0, 3.0]))
    with pytest.raises(ValueRangeError, match="a weight of `categorical` is nan"):
        pe.random.categorical(KEY, np.array([np.nan, 1.0]))
    with pytest.raises(ValueRangeError, match="empty"):
        pe.random.categorical(KEY, np.zeros(0))
