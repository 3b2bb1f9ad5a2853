"""`state`: values that are set step by step, elements and slices that are overwritten."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from everywhere import run_everywhere
from hypothesis import given
from hypothesis import strategies as st
from staged import check_refused, run, staged

import peffects as pe
from peffects.codegen.lower.updates import find_overwriting
from peffects.differentiate.programs import jvp_program, vjp_program
from peffects.errors import (
    BoundsError,
    ControlFlowError,
    DataRaceError,
    KernelTypeError,
    LeakedTracerError,
    SideEffectError,
)
from peffects.ir.evaluate import evaluate
from peffects.ir.syntax import Block, Update
from peffects.ir.traverse import blocks_of
from peffects.optimize.pipeline import optimize

X = np.array([3.0, 1.0, 2.0, 5.0, 4.0])
A = np.arange(12.0).reshape(4, 3)


def test_set_and_get() -> None:
    def f(x: Any) -> Any:
        s = pe.state(1.0)
        s.set(s.get() + x)
        s *= 3.0
        return s

    assert run_everywhere(f, 2.0) == 9.0


def test_trees_keep_their_structure() -> None:
    def f(x: Any) -> Any:
        s = pe.state({"count": 0, "last": (x[0], x)})
        for i in range(len(x)):
            old = s.get()
            s.set({"count": old["count"] + 1, "last": (x[i], old["last"][1])})
        return s

    found = run_everywhere(f, X)
    assert found["count"] == 5 and found["last"][0] == 4.0
    np.testing.assert_array_equal(found["last"][1], X)


def test_sieve() -> None:
    def sieve(n: Any) -> Any:
        prime = pe.state(pe.table(lambda i: i >= 2, over=n))
        i = 2
        while i * i < n:
            if prime[i]:
                for j in range(i * i, n, 1):
                    if j % i == 0:
                        prime[j] = False
            i += 1
        return prime

    assert np.flatnonzero(run_everywhere(sieve, 30)).tolist() == [
        2,
        3,
        5,
        7,
        11,
        13,
        17,
        19,
        23,
        29,
    ]


def test_selection_sort_swaps_elements() -> None:
    def sort(x: Any) -> Any:
        s = pe.state(x)
        for i in range(len(x)):
            k = i
            for j in range(i + 1, len(x)):
                if s[j] < s[k]:
                    k = j
            s[i], s[k] = s[k], s[i]
        return s

    given_ = X.copy()
    np.testing.assert_array_equal(run_everywhere(sort, given_), np.sort(X))
    np.testing.assert_array_equal(given_, X)


def test_reads_are_snapshots() -> None:
    def f(a: Any) -> Any:
        s = pe.state(a)
        row, whole = s[0], s.get()
        s[0] = pe.table(lambda j: -a[0, j])
        s[1, 2] += 100.0
        return row, whole, s[0], s

    row, whole, new, last = run_everywhere(f, A)
    np.testing.assert_array_equal(row, A[0])
    np.testing.assert_array_equal(whole, A)
    np.testing.assert_array_equal(new, -A[0])
    assert last[1, 2] == 105.0


SLICES: list[Any] = [
    np.s_[1:3, :], np.s_[:, 1], np.s_[:2, 1:], np.s_[-2:, 0], np.s_[..., 2], np.s_[2], np.s_[:],
    np.s_[0:9, 1:1],
]  # fmt: skip


@pytest.mark.parametrize("place", SLICES, ids=str)
@pytest.mark.parametrize("whole", [False, True])
def test_slices_are_overwritten_as_numpy_does(place: Any, whole: bool) -> None:
    expected = A.copy()
    value = -1.0 - np.arange(float(A[place].size)).reshape(A[place].shape) if whole else 7.0
    expected[place] = value

    def f(a: Any, v: Any) -> Any:
        s = pe.state(a)
        s[place] = v
        return s

    np.testing.assert_array_equal(run_everywhere(f, A, value, debug=False), expected)


def test_slices_at_computed_places() -> None:
    def f(a: Any, lo: Any, hi: Any) -> Any:
        s = pe.state(a)
        s[lo:hi, 0] = 9.0
        return s

    for lo, hi in [(0, 2), (1, -1), (3, 1), (-3, 9)]:
        expected = A.copy()
        expected[lo:hi, 0] = 9.0
        np.testing.assert_array_equal(pe.kernel(f)(A, lo, hi), expected)


def test_state_of_an_iteration_is_its_own() -> None:
    def f(a: Any) -> Any:
        def row(i: Any) -> Any:
            s, count = pe.state(a[i]), pe.state(0)
            for j in range(1, a.shape[1]):
                s[j] += s[j - 1]
                count += 1
            return s, count

        return pe.table(row, over=a)

    rows, counts = run_everywhere(f, A)
    np.testing.assert_array_equal(rows, np.cumsum(A, axis=1))
    assert counts.tolist() == [2, 2, 2, 2]


def test_closures_see_what_is_set_later() -> None:
    def f() -> Any:
        x = pe.state(1)
        before = x.get()

        def g(y: Any) -> Any:
            return y + 10 * before + 100 * x.get()

        x.set(4)
        return g(5)

    assert run_everywhere(f) == 415


def test_functions_set_the_states_of_their_callers() -> None:
    def push(stack: Any, top: Any, value: Any) -> None:
        stack[top.get()] = value
        top += 1

    def f(x: Any) -> Any:
        stack, top = pe.state(pe.table(lambda i: 0.0, over=x)), pe.state(0)
        for i in range(len(x)):
            if x[i] > 2.0:
                push(stack, top, x[i])
        return stack, top

    stack, top = run_everywhere(f, X)
    assert stack.tolist() == [3.0, 5.0, 4.0, 0.0, 0.0] and top == 3


def test_branches_and_early_exits_merge_states() -> None:
    def f(x: Any) -> Any:
        s, seen = pe.state(0.0), pe.state(x)
        for i in range(len(x)):
            if x[i] == 5.0:
                break
            seen[i] = s.get() if x[i] > 1.0 else -1.0
            s += x[i]
        return s, seen

    total, seen = run_everywhere(f, X)
    assert total == 6.0 and seen.tolist() == [0.0, -1.0, 4.0, 5.0, 4.0]


# --- cost ----------------------------------------------------------------------------------------


def updates_in(block: Block) -> list[Any]:
    found = [b.vars[0] for b in block.bindings if isinstance(b.expr, Update)]
    for b in block.bindings:
        found += [v for inner in blocks_of(b.expr) for v in updates_in(inner)]
    return found


def copied(f: Any, *args: Any) -> int:
    """How many updates of the optimized program copy their table."""
    kernel: Any = pe.kernel(f)
    program = optimize(kernel.stage(args, {}).program)
    source = find_overwriting(program).source
    return sum(var not in source for var in updates_in(program.body))


def test_elements_are_written_in_place() -> None:
    def grid(a: Any, n: Any) -> Any:
        s = pe.state(pe.table(lambda i, j: a[i, j]))
        for _ in range(n):
            for i in range(1, a.shape[0]):
                k = 0
                while k < a.shape[1]:
                    if s[i, k] > 3.0:
                        s[i, k] = s[i - 1, k] + s[i, k]
                    k += 1
        return s

    assert copied(grid, A, 2) == 0


def test_an_argument_and_a_table_that_is_used_later_are_copied() -> None:
    def argument(x: Any) -> Any:
        s = pe.state(x)
        s[0] = 1.0
        return s

    def later(x: Any) -> Any:
        start = pe.table(lambda i: 2.0 * x[i])
        s = pe.state(start)
        s[0] = 1.0
        return s, start

    assert copied(argument, X) == 1 and copied(later, X) == 1
    loops = pe.explain(pe.kernel(later), X).sections["loops"]
    assert "is copied: the table from before is used afterwards" in loops
    assert run_everywhere(later, X)[1].tolist() == (2 * X).tolist()


def test_explain_says_what_is_in_place() -> None:
    def f(x: Any) -> Any:
        s = pe.state(x)
        for i in range(1, len(x)):
            s[i] = s[i - 1]
        return s

    assert "`s[..] =` is overwritten in place" in pe.explain(pe.kernel(f), X).sections["loops"]


# --- refusals ------------------------------------------------------------------------------------


def test_a_parallel_loop_cannot_set_what_was_made_outside() -> None:
    def f(x: Any) -> Any:
        last = pe.state(0.0)
        for i in pe.par(x):
            last.set(x[i])  # here
        return last

    check_refused(DataRaceError, f, (X,), "`last`", "parallel loop")

    def g(x: Any) -> Any:
        s = pe.state(x)

        def body(i: Any) -> Any:
            s[i] = 0.0  # here
            return x[i]

        return pe.sum(body)

    check_refused(DataRaceError, g, (X,), "`s`")


def test_types_and_structure_stay() -> None:
    def real(x: Any) -> Any:
        s = pe.state(0)
        s.set(x[0])  # here
        return s

    def other(x: Any) -> Any:
        s = pe.state((0.0, x))
        s.set(1.0)  # here
        return s

    check_refused(KernelTypeError, real, (X,), "is a float", "i64")
    check_refused(KernelTypeError, other, (X,), "another structure")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: pe.state("text"), ("cannot hold 'text'",)),
        (lambda x: pe.state((x, x))[0], ("several values", "state of each table")),
        (lambda x: pe.state(1.0)[0], ("one number",)),
    ],
)
def test_wrong_uses_are_refused(call: Any, words: tuple[str, ...]) -> None:
    with pytest.raises(KernelTypeError) as caught:
        run(call, X)
    assert all(word in str(caught.value) for word in words)


def test_a_slice_with_a_step_is_set() -> None:
    def f(x: Any) -> Any:
        s = pe.state(x)
        s[::2] = 0.0
        s[::-2] += 1.0
        return s

    expected = X.copy()
    expected[::2] = 0.0
    expected[::-2] += 1.0
    assert run(f, X).tolist() == expected.tolist()


def test_a_condition_of_while_sets_no_state() -> None:
    def f(x: Any) -> Any:
        s = pe.state(0)

        def count() -> Any:
            s.set(s.get() + 1)
            return s.get() < 3

        while count():  # here
            x = x + 1.0
        return x

    check_refused(SideEffectError, f, (1.0,), "condition of a `while`")


def test_a_state_does_not_leave_its_block() -> None:
    kept: list[Any] = []

    def keep(i: Any) -> Any:
        s = pe.state(0.0)
        kept[:] = [s]
        return s.get()

    def f(x: Any) -> Any:
        y = pe.table(keep, over=x)
        return y[0] + kept[0].get()

    with pytest.raises((LeakedTracerError, SideEffectError)):
        run(f, X)


def test_outside_a_kernel_there_is_no_state() -> None:
    with pytest.raises(ControlFlowError, match="outside a kernel"):
        pe.state(0)


def test_bounds_are_tested_with_the_name_of_the_state() -> None:
    def f(x: Any, k: Any) -> Any:
        s = pe.state(x)
        s[k] = 1.0
        return s

    with pytest.raises(BoundsError, match="index 7 is out of bounds for axis 0 of `s`"):
        pe.kernel(f)(X, 7)
    with pytest.raises(BoundsError, match="index 7"):
        pe.kernel(f).debug(X, 7)


def test_values_must_fit_a_slice() -> None:
    def f(a: Any, v: Any) -> Any:
        s = pe.state(a)
        s[0:2, 0] = v
        return s

    with pytest.raises(KernelTypeError, match="3 values are put into 2 places"):
        pe.kernel(f)(A, np.ones(3))


# --- generated programs --------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "add", "row", "skip", "swap"]), st.integers(0, 3), st.integers(0, 2)
    ),
    min_size=1,
    max_size=4,
)


def program_of(steps: list[tuple[str, int, int]]) -> Any:
    """A kernel that overwrites a matrix as `steps` say, in each of n rounds; and numpy's."""

    def body(s: Any, a: Any, k: Any, row: Any) -> None:
        for kind, i, j in steps:
            if kind == "put":
                s[i, j] = a[k, j] * s[i, (j + 1) % 3]
            elif kind == "add":
                s[i, j] += s[k, j] * 0.5
            elif kind == "row":
                s[i] = row(s, k)
            elif kind == "swap":
                s[i, j], s[k, 0] = s[k, 0], s[i, j]

    def kernel(a: Any) -> Any:
        s = pe.state(a)
        for k in range(4):
            if a[k, 0] > 0.0:
                body(s, a, k, lambda s, k: pe.table(lambda j: s[k, j] + 1.0))
            else:
                s[k, 1] = 0.25
        return s

    def numpys(a: Any) -> Any:
        s = a.copy()
        for k in range(4):
            if a[k, 0] > 0.0:
                body(s, a, k, lambda s, k: s[k] + 1.0)
            else:
                s[k, 1] = 0.25
        return s

    return kernel, numpys


MATRICES = st.lists(st.integers(-4, 4).map(lambda k: k / 4), min_size=12, max_size=12)


@given(STEPS, MATRICES)
def test_overwriting_is_numpy_s(steps: list[tuple[str, int, int]], values: list[float]) -> None:
    kernel, numpys = program_of(steps)
    a = np.array(values).reshape(4, 3)
    np.testing.assert_array_equal(run(kernel, a), numpys(a))


@given(STEPS, MATRICES)
def test_derivatives_of_overwriting(steps: list[tuple[str, int, int]], values: list[float]) -> None:
    """Reverse mode is forward mode transposed, and forward mode agrees with differences."""
    kernel, numpys = program_of(steps)
    rng = np.random.default_rng(0)
    a = np.array(values).reshape(4, 3) + 0.01 * rng.normal(size=(4, 3))
    da, ct = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    made = staged(kernel, a)
    args = made.arguments((a,), {})
    assert args is not None
    _, tangent = evaluate(jvp_program(made.program, [0]), (*args, da))
    _, cotangent = evaluate(vjp_program(made.program, [0]), (*args, ct))
    forward = float(np.sum(tangent * ct))
    assert float(np.sum(cotangent * da)) == pytest.approx(forward, abs=1e-9)
    up, down = numpys(a + 1e-6 * da), numpys(a - 1e-6 * da)
    difference = float(np.sum((up - down) * ct)) / 2e-6
    assert forward == pytest.approx(difference, rel=1e-4, abs=1e-5)
