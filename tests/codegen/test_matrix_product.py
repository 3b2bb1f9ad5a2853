"""Matrix products: numpy's values, bits that depend on nothing but the inner size, any strides."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from compiled import CompiledProgram, assert_same
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from programs import Sketch, matmul, reduce, tabulate

from peffects.codegen.launch.threads import threads
from peffects.codegen.program.loop_programs import Launch
from peffects.codegen.program.product_frame import BLOCK_COLUMNS, BLOCK_ROWS, DEPTH
from peffects.ir import primitives as p
from peffects.ir.evaluate import evaluate
from peffects.ir.syntax import (
    F32,
    F64,
    I64,
    Atom,
    Monoid,
    Program,
    Ref,
    Scalar,
    Table,
    Var,
    WithAcc,
)
from peffects.ir.typing import set_of

Array = NDArray[Any]
TOLERANCE = {F64: 1e-13, F32: 1e-5}


def product_of(a: str, b: str, out: str, elem: Scalar = F64, into: bool = False) -> Program:
    """The sum of products of `a` and `b`, whose axes are letters; `into` an accumulator."""
    s = Sketch(f"{a}_{b}_{out}")
    left, right = s.table("a", *a, elem=elem), s.table("b", *b, elem=elem)
    index = {axis: s.index(axis, axis) for axis in dict.fromkeys(a + b)}
    inner = [index[axis] for axis in index if axis not in out]

    def element(o: Any) -> Atom:
        x = o.index(left, *(index[axis] for axis in a))
        return o.prim(p.MUL, x, o.index(right, *(index[axis] for axis in b)))  # type: ignore[no-any-return]

    binders = [index[axis] for axis in out]
    if not into:
        return s.done(tabulate(s.b, binders, lambda o: reduce(o, inner, element)))
    dims = tuple(set_of(binder) for binder in binders)
    ref = Var("c", Ref(Monoid.ADD, Table(dims, elem)))
    region, body = s.b.nested(), s.b.nested()
    body.accumulate(ref, binders, element(body))
    region.loop([*binders, *inner], body.block())
    return s.done(*s.b.emit(WithAcc((ref,), region.block())))


def numbers(shape: Sequence[int], elem: Scalar, seed: int) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(elem.dtype)


def is_multiplied(run: CompiledProgram) -> bool:
    """Whether a stage runs the kernels of matrix products."""
    stages = run.compiled.loop_program.stages
    return any(isinstance(stage, Launch) and stage.own_frame for stage in stages)


@pytest.fixture(scope="module")
def multiply() -> dict[Scalar, CompiledProgram]:
    return {elem: CompiledProgram(product_of("ik", "kj", "ij", elem)) for elem in (F64, F32)}


# sizes at and around the edges of tiles, panels, blocks and depths
EDGES = [
    (1, 40000, 1),
    (7, DEPTH - 1, 23),
    (8, DEPTH, 24),
    (BLOCK_ROWS + 1, DEPTH + 1, 49),
    (2 * BLOCK_ROWS, 2 * DEPTH + 3, 97),
    (3, 40, BLOCK_COLUMNS + 1),
    (1000, 33, 1),
    (1, 33, 1000),
]


@pytest.mark.parametrize("elem", [F64, F32], ids=str)
@pytest.mark.parametrize("shape", EDGES, ids=str)
def test_edges_of_tiles_and_blocks(
    multiply: dict[Scalar, CompiledProgram], shape: tuple[int, int, int], elem: Scalar
) -> None:
    m, k, n = shape
    a, b = numbers((m, k), elem, 1), numbers((k, n), elem, 2)
    (found,) = multiply[elem](a, b)
    expected = a.astype(float) @ b.astype(float)
    assert found.dtype == elem.dtype
    size = np.abs(a).astype(float) @ np.abs(b).astype(float)
    assert np.all(np.abs(found - expected) <= TOLERANCE[elem] * size)


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (300, 0, 300)], ids=str)
def test_empty_sums_are_zero(
    multiply: dict[Scalar, CompiledProgram], shape: tuple[int, int, int]
) -> None:
    m, k, n = shape
    (found,) = multiply[F64](np.ones((m, k)), np.ones((k, n)))
    assert_same(found, np.zeros((m, n)))


@pytest.mark.parametrize("elem", [F64, F32], ids=str)
def test_any_number_of_threads_gives_the_same_bits(
    multiply: dict[Scalar, CompiledProgram], elem: Scalar
) -> None:
    a, b = numbers((211, 307), elem, 3), numbers((307, 1009), elem, 4)
    results = []
    for count in (1, 2, 3, 4):
        with threads(count):
            results.append(multiply[elem](a, b)[0])
    for other in results[1:]:
        assert_same(other, results[0])


def test_the_bits_of_a_row_do_not_depend_on_other_rows(
    multiply: dict[Scalar, CompiledProgram],
) -> None:
    a, b = numbers((101, 300), F64, 5), numbers((300, 120), F64, 6)
    (whole,) = multiply[F64](a, b)
    (part,) = multiply[F64](a[37:60], b)
    assert_same(part, whole[37:60])


def test_what_is_not_finite_stays_in_its_row_and_column(
    multiply: dict[Scalar, CompiledProgram],
) -> None:
    a, b = np.ones((50, 60)), np.ones((60, 41))
    a[3, 5], b[7, 40] = np.nan, np.inf
    (found,) = multiply[F64](a, b)
    expected = np.full((50, 41), 60.0)
    expected[:, 40], expected[3] = np.inf, np.nan
    np.testing.assert_array_equal(found, expected)


SPECS = [
    ("ki", "kj", "ij"), ("ik", "jk", "ij"), ("ki", "jk", "ij"), ("ik", "kj", "ji"),
    ("nik", "nkj", "nij"), ("nik", "kj", "nij"), ("ik", "nkj", "nij"), ("nik", "mkj", "nmij"),
    ("ink", "kjn", "inj"), ("lnik", "mnkj", "mlnij"), ("kab", "kcd", "abcd"),
]  # fmt: skip


@pytest.mark.parametrize("into", [False, True], ids=["table", "accumulator"])
@pytest.mark.parametrize("spec", SPECS, ids="_".join)
def test_transposed_and_batched_products(spec: tuple[str, str, str], into: bool) -> None:
    a, b, out = spec
    sizes = dict(zip("iknjmlabcd", (37, 41, 3, 29, 2, 4, 5, 7, 3, 11), strict=True))
    program = product_of(a, b, out, F64, into)
    run = CompiledProgram(program)
    assert is_multiplied(run)
    args = [numbers([sizes[axis] for axis in axes], F64, 7 + k) for k, axes in enumerate((a, b))]
    (found,) = run(*args)
    np.testing.assert_allclose(found, np.einsum(f"{a},{b}->{out}", *args), rtol=1e-12, atol=1e-12)


@settings(max_examples=30)
@given(m=st.integers(0, 60), k=st.integers(0, 70), n=st.integers(0, 110), seed=st.integers(0, 9))
def test_products_of_integers_are_exact(
    multiply: dict[Scalar, CompiledProgram], m: int, k: int, n: int, seed: int
) -> None:
    """Whichever way is chosen by the sizes: no rounding, so the evaluator's bits."""
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-9, 9, size=size).astype(float) for size in ((m, k), (k, n)))
    assert_same(multiply[F64](a, b)[0], a @ b + 0.0)


def test_the_evaluator_gives_the_same() -> None:
    program = matmul()
    a, b = numbers((13, 70), F64, 8), numbers((70, 40), F64, 9)
    (found,), (expected,) = CompiledProgram(program)(a, b), evaluate(program, [a, b])
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_an_accumulator_keeps_what_it_had() -> None:
    """Two products into one accumulator: the second one is added."""
    s = Sketch("twice")
    a, b = s.table("a", "n", "k"), s.table("b", "k", "m")
    i, j, k = s.index("i", "n"), s.index("j", "m"), s.index("k", "k")
    ref = Var("c", Ref(Monoid.ADD, Table((set_of(i), set_of(j)), F64)))
    region = s.b.nested()
    for _ in range(2):
        fresh = [Var(v.name, v.type) for v in (i, j, k)]
        body = region.nested()
        x, y = body.index(a, fresh[0], fresh[2]), body.index(b, fresh[2], fresh[1])
        body.accumulate(ref, fresh[:2], body.prim(p.MUL, x, y))
        region.loop(fresh, body.block())
    program = s.done(*s.b.emit(WithAcc((ref,), region.block())))
    left, right = numbers((40, 300), F64, 1), numbers((300, 50), F64, 2)
    (found,) = CompiledProgram(program)(left, right)
    np.testing.assert_allclose(found, 2 * (left @ right), rtol=1e-12, atol=1e-12)


def test_integers_have_plain_loops() -> None:
    run = CompiledProgram(product_of("ik", "kj", "ij", I64))
    assert not is_multiplied(run)
    rng = np.random.default_rng(1)
    a, b = rng.integers(-9, 9, (40, 50)), rng.integers(-9, 9, (50, 60))
    assert_same(run(a, b)[0], a @ b)


def test_small_and_large_products_share_what_is_allocated() -> None:
    """The accumulator of a later product is made whichever way the first one goes."""
    s = Sketch("chain")
    a, b, c = s.table("a", "i", "k"), s.table("b", "k", "j"), s.table("c", "i", "l")
    i, j, k, l = (s.index(axis, axis) for axis in "ijkl")  # noqa: E741  # the letters of the axes

    def element(o: Any) -> Atom:
        return reduce(o, [k], lambda q: q.prim(p.MUL, q.index(a, i, k), q.index(b, k, j)))

    ref = Var("r", Ref(Monoid.ADD, Table((set_of(j), set_of(l)), F64)))
    region = s.b.nested()
    product = tabulate(region, [i, j], element)
    i2, j2 = (Var(v.name, v.type) for v in (i, j))
    body = region.nested()
    value = body.prim(p.MUL, body.index(product, i2, j2), body.index(c, i2, l))
    body.accumulate(ref, (j2, l), value)
    region.loop([j2, l, i2], body.block())
    run = CompiledProgram(s.done(*s.b.emit(WithAcc((ref,), region.block()))))
    for m, n, inner, last in itertools.product((3, 70), (4, 50), (5, 60), (2, 40)):
        x, y = numbers((m, inner), F64, 1), numbers((inner, n), F64, 2)
        z = numbers((m, last), F64, 3)
        np.testing.assert_allclose(run(x, y, z)[0], (x @ y).T @ z, rtol=1e-11, atol=1e-11)
