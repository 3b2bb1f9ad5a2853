"""Sizes are evaluated exactly, from the frame, with their constants folded."""

from __future__ import annotations

import math
from array import array
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from peffects.codegen.program.loop_programs import (
    FREE,
    REDUCING,
    SERIAL,
    Buffer,
    Const,
    HostLoop,
    Launch,
    Natural,
    Role,
    SizeExpr,
    SizeProduct,
    SizeQuotient,
    SizeSum,
    SlotSize,
    Within,
)
from peffects.codegen.program.sizes import (
    bytes_of,
    chunk_count,
    shape_function,
    size_function,
    work_estimate,
)

WORDS = memoryview(array("q", [3, -2, 5, 1 << 62]))

sizes = st.recursive(
    st.builds(Const, st.integers(-9, 9)) | st.builds(SlotSize, st.integers(0, 3)),
    lambda inner: (
        st.builds(SizeProduct, st.lists(inner, max_size=3).map(tuple))
        | st.builds(SizeSum, st.lists(inner, max_size=3).map(tuple))
        | st.builds(SizeQuotient, inner, st.integers(1, 9))
        | st.builds(Natural, inner)
        | st.builds(Within, inner, st.integers(-9, 9), st.integers(-9, 99), inner)
    ),
)


def meaning(size: SizeExpr) -> int:
    """The definition, without folding."""
    match size:
        case Const(value):
            return value
        case SlotSize(slot):
            return int(WORDS[slot])
        case SizeProduct(terms):
            result = 1
            for term in terms:
                result *= meaning(term)
            return result
        case SizeSum(terms):
            return sum(meaning(term) for term in terms)
        case SizeQuotient(size, divisor):
            return math.ceil(Fraction(meaning(size), divisor))
        case Natural(size):
            return max(meaning(size), 0)
        case Within(size, least, below, value):
            return meaning(value) if least <= meaning(size) < below else 0


@given(sizes)
def test_size_function_is_the_meaning(size: SizeExpr) -> None:
    assert size_function(size)(WORDS) == meaning(size)


@given(st.lists(sizes, max_size=3))
def test_shape_function_gives_dimensions_and_bytes(dims: list[SizeExpr]) -> None:
    shape, size = shape_function(dims, 8)(WORDS)
    assert shape == tuple(map(meaning, dims))
    assert size == meaning(SizeProduct((Const(8), *dims)))


def test_sizes_beyond_64_bits_are_exact() -> None:
    assert size_function(SizeProduct((SlotSize(3), SlotSize(3))))(WORDS) == 1 << 124


def test_work_of_a_host_loop_is_that_of_all_its_iterations() -> None:
    step = Launch("k", Const(1), SERIAL, (), SlotSize(2))
    inner = HostLoop(Const(10), 1, (step, step))
    assert size_function(work_estimate((step, inner)))(WORDS) == 5 + 10 * 2 * 5


MS = 1_000_000


def test_bytes_of_the_parts_of_a_chunk() -> None:
    buffers = [
        Buffer(9, "float32", (SlotSize(0), Const(4)), Role.PARTIALS),
        Buffer(10, "float64", (SlotSize(2),), Role.SCRATCH),
        Buffer(11, "int8", (Const(100),), Role.TEMPORARY),
    ]
    assert size_function(bytes_of(buffers, Role.PARTIALS))(WORDS) == 3 * 4 * 4
    assert size_function(bytes_of(buffers, Role.PARTIALS, Role.SCRATCH))(WORDS) == 48 + 5 * 8
    assert size_function(bytes_of(buffers, Role.OUTPUT))(WORDS) == 0


def test_loops_are_cut_by_their_work() -> None:
    assert chunk_count(FREE, 1000, 100 * MS, 0, 0) == 512
    assert chunk_count(FREE, 100, 100 * MS, 0, 0) == 100
    assert chunk_count(REDUCING, 1000, 100 * MS, 0, 0) == 64
    assert chunk_count(REDUCING, 1000, 200_000, 0, 0) == 10
    assert chunk_count(REDUCING, 1000, 10, 0, 0) == 1
    assert chunk_count(FREE, 0, 0, 0, 0) == 1


def test_chunks_do_more_than_their_copies_cost() -> None:
    """Private copies never cost more than the work of the loop."""
    small, work = 4_000, 100 * MS
    assert chunk_count(REDUCING, work, work, small, small) == 64
    assert chunk_count(REDUCING, work, work, 500_000, 500_000) == 40  # 5 ns a byte
    assert chunk_count(REDUCING, work, work, 4_000_000, 4_000_000) == 8  # some are worth more
    assert chunk_count(REDUCING, work, work, 30_000_000, 30_000_000) == 3  # 1 ns a byte
    assert chunk_count(REDUCING, work, work, 200_000_000, 200_000_000) == 1
    assert chunk_count(FREE, work, work, 0, 1 << 27) == 2  # scratch costs memory alone


@given(work=st.integers(0, 10**12), partials=st.integers(0, 10**9))
def test_the_number_of_chunks_is_monotone(work: int, partials: int) -> None:
    count = chunk_count(REDUCING, 10**9, work, partials, partials)
    assert 1 <= count <= 64
    assert count <= chunk_count(REDUCING, 10**9, 2 * work, partials, partials)
    assert count >= chunk_count(REDUCING, 10**9, work, 2 * partials, 2 * partials)


def test_work_of_a_stage_that_sizes_choose_counts_where_it_runs() -> None:
    for least, below, expected in ((0, 9, 5), (5, 6, 5), (6, 9, 0), (0, 5, 0)):
        only = Within(SlotSize(2), least, below)
        assert size_function(only.times(SlotSize(2)))(WORDS) == expected
        loop = HostLoop(Const(10), 1, (Launch("k", Const(1), SERIAL, (), Const(3)),), only=only)
        assert size_function(work_estimate((loop,)))(WORDS) == (30 if expected else 0)


def test_a_test_of_a_loop_is_a_part_of_it() -> None:
    test, body = Launch("test", Const(1)), Launch("body", Const(1))
    assert HostLoop(Const(0), 1, (body,), test=(test,)).parts == (test, body)
    assert HostLoop(Const(3), 1, (body,)).parts == (body,)
