"""The pipeline from a program to results, and the binding of values to its inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from programs import matmul
from staged import staged

import peffects as pe
from peffects.errors import IndexSetMismatchError
from peffects.ir.evaluate import evaluate
from peffects.kernels.pipeline import Binder, compile_program

A, B = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)


def test_a_program_runs_as_the_evaluator_says() -> None:
    program = matmul()
    (found,) = compile_program(program)([A, B])
    (expected,) = evaluate(program, [A, B])
    np.testing.assert_array_equal(found, expected)


def test_all_forms_of_the_program_are_kept() -> None:
    compiled = compile_program(matmul())
    assert compiled.lowered.loop_program is compiled.executable.program
    assert compiled.executable.module.source == compiled.lowered.source


def test_ordinary_arrays_are_not_copied() -> None:
    bind = Binder(matmul())
    inputs = bind([A, B])
    assert inputs[0] is A and inputs[1] is B
    assert sorted(inputs[2:]) == [2, 3, 4]


def awkward(a: Any, b: Any) -> list[tuple[Any, Any]]:
    unaligned = np.frombuffer(b"-" + a.tobytes(), a.dtype, offset=1).reshape(a.shape)
    masked_bits = a.astype(">f8")
    return [(np.asfortranarray(a), b), (a, b[:, ::-1]), (unaligned, b), (masked_bits, b.T.copy().T)]


def test_other_arrays_become_contiguous_aligned_and_native() -> None:
    compiled = compile_program(matmul())
    for a, b in awkward(A, B):
        for array, original in zip(compiled.bind([a, b]), (a, b), strict=False):
            assert array.flags.carray and array.dtype == array.dtype.newbyteorder("=")
            np.testing.assert_array_equal(array, original)
        np.testing.assert_array_equal(compiled([a, b])[0], a @ b)


def test_read_only_arrays_are_not_copied_either() -> None:
    a = A.copy()
    a.flags.writeable = False
    assert np.shares_memory(Binder(matmul())([a, B])[0], a)


def test_facts_are_checked_with_both_origins() -> None:
    with pytest.raises(IndexSetMismatchError, match=r"has length 3 and .* has length 2"):
        compile_program(matmul())([B[:, :2], B])


@pytest.mark.parametrize("n", [3, np.int32(3), np.array(3)])
def test_sizes_may_be_numbers(n: Any) -> None:
    def first(x: Any, n: Any) -> Any:
        return pe.sum(lambda i: x[i], over=pe.Fin(n))

    compiled = compile_program(staged(first, np.zeros(3), 3).program)
    assert compiled([np.ones(3), n]) == (3.0,)
    with pytest.raises(IndexSetMismatchError, match=r"has length 4 and `n` is 3"):
        compiled([np.ones(4), n])


def test_sizes_may_be_literals() -> None:
    def three(x: Any) -> Any:
        return pe.sum(lambda i: x[i], over=pe.Fin(3))

    compiled = compile_program(staged(three, np.zeros(3)).program)
    assert compiled([np.ones(3)]) == (3.0,)
    with pytest.raises(IndexSetMismatchError, match=r"has length 4 and `Fin\(3\)` has length 3"):
        compiled([np.ones(4)])
