"""Random bits: known answers, and the accuracy of the logarithm and cosine of the normal."""

from __future__ import annotations

import math
import statistics

import pytest

from peffects.numerics.threefry import (
    cos_turn,
    fold_in,
    hash_key,
    log_unit,
    new_key,
    split,
    threefry_2x32,
    to_normal,
    to_uniform,
)


@pytest.mark.parametrize(
    ("key", "count", "expected"),
    [
        (0, 0, 0x6B20015999BA4EFE),
        (123, 456, 0x500945C565C98701),
        (0x13198A2E03707344, 0x243F6A8885A308D3, 0xC4923A9C483DF7A0),
    ],
)
def test_known_answers(key: int, count: int, expected: int) -> None:
    assert threefry_2x32(key, count) == hash_key(key, count) == expected


def signed32(word: int) -> int:
    return word - 2**32 if word >= 2**31 else word


def test_the_key_of_seed_0_gives_the_known_int() -> None:
    assert signed32(new_key(0) & 0xFFFFFFFF) % 2147483647 == 431640317


def float32_of(bits: int) -> float:
    """A number in [0, 1) from the low 23 bits, as the published values take it."""
    return (bits & 0x7FFFFF) / 2**23


def test_the_published_table_of_uniforms() -> None:
    key = new_key(11)
    table = [[float32_of(fold_in(key, 2 * i + j)) for j in range(2)] for i in range(3)]
    expected = [[0.1513238, 0.07557154], [0.1075971, 0.2888795], [0.5509554, 0.56872]]
    for row, wanted in zip(table, expected, strict=True):
        assert row == pytest.approx(wanted, rel=1e-6)


def published_normal(key: int) -> float:
    a, b = (float32_of(k) for k in split(key))
    return math.sqrt(-2 * log_unit(1 - a)) * cos_turn(b)


def test_the_published_moments_of_normals() -> None:
    draws = [published_normal(fold_in(new_key(0), i)) for i in range(100)]
    assert statistics.fmean(draws) == pytest.approx(0.001849644, rel=1e-4)
    assert statistics.fmean(x * x for x in draws) == pytest.approx(0.7444913, rel=1e-6)


def test_split_is_two_hashes() -> None:
    assert split(5) == (hash_key(5, 0), hash_key(5, 1))


def test_negative_and_large_seeds_are_taken_modulo_64_bits() -> None:
    assert new_key(-1) == new_key(2**64 - 1)
    assert new_key(2**64 + 3) == new_key(3)


def test_uniforms_take_the_top_53_bits() -> None:
    assert to_uniform(2**64 - 1) == 1 - 2.0**-53
    assert to_uniform(1 << 11) == 2.0**-53
    assert to_uniform((1 << 11) - 1) == 0.0


ULP = 2.0**-52


def test_the_logarithm_is_within_one_ulp() -> None:
    points = [to_uniform(hash_key(1, i)) for i in range(3000)]
    points += [2.0**-e for e in range(60)] + [1 - 2.0**-53, 1 - 2.0**-20, math.sqrt(0.5)]
    for x in points:
        assert abs(log_unit(x) - math.log(x)) <= ULP * abs(math.log(x))


def test_the_cosine_of_a_turn_is_within_two_ulps() -> None:
    for i in range(3000):
        u = to_uniform(hash_key(2, i))
        assert abs(cos_turn(u) - math.cos(2 * math.pi * u)) <= 2 * math.pi * ULP
    assert [cos_turn(q / 4) for q in range(4)] == [1.0, 0.0, -1.0, 0.0]
    assert cos_turn(1 / 8) == pytest.approx(math.sqrt(0.5), abs=ULP)


def test_normals_have_mean_0_and_variance_1() -> None:
    draws = [to_normal(fold_in(new_key(7), i)) for i in range(20_000)]
    assert abs(statistics.fmean(draws)) < 0.03
    assert statistics.pvariance(draws) == pytest.approx(1, abs=0.05)


def test_normals_are_fixed() -> None:
    """These bits are a promise: compiled code has to give the same."""
    draws = [to_normal(fold_in(new_key(0), i)).hex() for i in range(3)]
    assert draws == ["0x1.081c8bc3e7703p-2", "0x1.2652bd9601f41p-4", "0x1.e7444c3d0b0c8p-1"]
