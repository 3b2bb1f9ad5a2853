"""What kernels refuse: the class, the user's line, and the words that matter."""

from __future__ import annotations

import random
import time
import types
from typing import Any

import numpy as np
import pytest
from staged import check_refused as check
from staged import pe, run

from peffects.errors import (
    AccumulatorError,
    BoundsError,
    ControlFlowError,
    DataRaceError,
    DivisionError,
    IndexSetMismatchError,
    KernelRecursionError,
    KernelTypeError,
    LeakedTracerError,
    MergeError,
    SideEffectError,
    UnknownIndexSetError,
    UnsupportedSyntaxError,
    ValueRangeError,
)
from peffects.staging.loops import ops
from peffects.staging.loops.ops import run_outside_with

X, A = np.arange(3.0), np.arange(6.0).reshape(2, 3)
KEPT: list[Any] = []
COUNT = 0


# --- index sets ----------------------------------------------------------------------------------


def test_literal_sizes_that_differ() -> None:
    def f() -> Any:
        t = pe.table(lambda i: 1.0, over=3)
        u = pe.table(lambda i: 1.0, over=pe.Fin(4))
        return pe.sum(lambda i: t[i] * u[i])  # here

    check(IndexSetMismatchError, f, (), "axis 0 of `t`", "size 3", "axis 0 of `u`", "size 4")


def test_given_set_that_differs() -> None:
    def f() -> Any:
        t = pe.table(lambda i: 1.0, over=3)
        return pe.sum(lambda i: t[i], over=pe.Fin(4))  # here

    check(IndexSetMismatchError, f, (), "`i` runs over `Fin(4)`", "axis 0 of `t`, of size 3")


def test_sizes_of_arguments_that_differ() -> None:
    def f(x: Any, y: Any) -> Any:
        return pe.sum(lambda i: x[i] * y[i])  # here

    check(IndexSetMismatchError, f, (X, np.ones(2)), "axis 0 of `y`", "axis 0 of `x`", "length 2")


def test_argument_of_another_size_than_a_scalar_says() -> None:
    def f(x: Any, n: Any) -> Any:
        return pe.sum(lambda i: x[i], over=n)  # here

    check(IndexSetMismatchError, f, (X, 4), "`x`", "`n`")


def test_computed_sizes_that_differ() -> None:
    def f(x: Any, n: Any) -> Any:
        t = pe.table(lambda i: 1.0, over=n + 1)
        return pe.sum(lambda i: x[i] * t[i])  # here

    assert run(f, X, 2) == 3.0
    check(IndexSetMismatchError, f, (X, 3), "`i` runs over axis 0 of `x`", "size 3", "size 4")


def test_sets_of_computed_sizes_are_named_as_the_user_named_them() -> None:
    def unnamed(x: Any) -> Any:
        return pe.table(lambda i: x[i], over=len(x) - 1)  # here

    def named(x: Any) -> Any:
        inner = len(x) - 1
        return pe.table(lambda i: x[i], over=inner)  # here

    check(IndexSetMismatchError, unnamed, (X,), "runs over a set whose size is computed")
    check(IndexSetMismatchError, named, (X,), "runs over `Fin(inner)`")


def test_tables_of_different_sizes_do_not_become_one() -> None:
    def f(x: Any, n: Any) -> Any:
        y = x
        for _ in range(n):
            y = pe.table(lambda i: 1.0, over=n)  # here
        return y

    assert run(f, X, 3).tolist() == [1.0, 1.0, 1.0]
    check(IndexSetMismatchError, f, (X, 2), "`x` has length 3", "`n` is 2")

    def g(x: Any, n: Any) -> Any:
        y = x
        for _ in range(n):
            y = pe.table(lambda i: 1.0, over=n + 1)  # here
        return y

    assert run(g, X, 2).tolist() == [1.0, 1.0, 1.0]
    check(
        IndexSetMismatchError,
        g,
        (X, 3),
        "`y` comes into a loop with 3 elements",
        "leaves a round of it with 4",
    )


def test_index_used_in_arithmetic_only() -> None:
    def f(n: Any) -> Any:
        return pe.table(lambda i: 2.0 * i)  # here

    check(UnknownIndexSetError, f, (3,), "`i`", "over=n")


def test_index_of_a_table_made_in_its_own_loop() -> None:
    def f(x: Any) -> Any:
        def body(i: Any) -> Any:
            row = pe.table(lambda j: 1.0, over=int(x[0]))
            return row[i]  # here

        return pe.table(body)

    check(UnknownIndexSetError, f, (X,), "`i`", "`row`", "inside the loop")


def test_rows_of_different_lengths() -> None:
    def f(n: Any) -> Any:
        return pe.table(lambda i: pe.table(lambda j: 1.0, over=i + 1), over=n)  # here

    check(KernelTypeError, f, (3,), "rows have different lengths")


def test_negative_sizes() -> None:
    def f(n: Any) -> Any:
        return pe.sum(lambda i: 1.0, over=n - 3)  # here

    check(ValueRangeError, f, (2,), "the size -1")

    def g() -> Any:
        return pe.sum(lambda i: 1.0, over=-3)  # here

    with pytest.raises(ValueRangeError, match="size -3 is negative"):
        run(g)


def test_sizes_that_are_no_sizes() -> None:
    def f(x: Any) -> Any:
        return pe.sum(lambda i: 1.0, over=x[0])  # here

    check(KernelTypeError, f, (X,), "the size of an index set is a f64")


def test_wrong_number_of_sets_or_axes() -> None:
    def f(x: Any) -> Any:
        return pe.sum(lambda i, j: x[i] * x[j], over=(x, x, x))  # here

    check(KernelTypeError, f, (X,), "takes 2 indices")

    def g(x: Any) -> Any:
        return pe.sum(lambda i, j: x[i, j])  # here

    with pytest.raises(KernelTypeError, match="`x` has 1 axes and is given 2 indices"):
        run(g, X)


# --- races ---------------------------------------------------------------------------------------


def test_local_of_the_outside_assigned_in_a_parallel_loop() -> None:
    def f(x: Any) -> Any:
        total = 0.0
        for i in pe.par(x):
            if x[i] > 0:
                total = total + x[i]  # here
        return total

    check(DataRaceError, f, (X,), "`total`", "pe.accumulator()", "range")


def test_elements_are_not_assigned() -> None:
    def f(x: Any, out: Any) -> Any:
        for i in pe.par(x):
            out[i] = 2 * x[i]  # here
        return out

    check(DataRaceError, f, (X, X), "`out`", "pe.table")

    def g(x: Any) -> Any:
        for i in pe.par(x):
            X[i] += x[i]  # here

    check(DataRaceError, g, (X,), "`X`")

    def h(x: Any) -> Any:
        y = pe.accumulator(x)
        y[0] = 1.0  # here

    check(DataRaceError, h, (X,), "`y`")


# --- control flow and conversions ----------------------------------------------------------------


def no_source() -> dict[str, Any]:
    """Functions whose source nobody can read."""
    space: dict[str, Any] = {"pe": pe}
    exec("def test(x):\n    if x: return 1", space)
    exec("def loop(x):\n    for i in pe.par(x): pass", space)
    return space


def test_control_flow_that_is_not_rewritten() -> None:
    space = no_source()
    with pytest.raises(ControlFlowError, match="truth value"):
        run(space["test"], 1.0)
    with pytest.raises(ControlFlowError, match=r"pe\.par"):
        run(space["loop"], X)


def test_python_needs_the_number() -> None:
    def f(x: Any) -> Any:
        return [1, 2, 3][int(x[0])]  # here

    check(ControlFlowError, f, (X,), "a list is indexed with a symbol")

    def g(x: Any) -> Any:
        return float.hex(float(x[0]))

    with pytest.raises(TypeError):
        run(g, X)

    def h(n: Any) -> Any:
        return [k for k in range(n)]  # here

    check(ControlFlowError, h, (3,), "`range`")

    def text(x: Any) -> Any:
        return str(x)  # here

    check(ControlFlowError, text, (1.0,), "the text of the value `x`")

    def k(x: Any) -> Any:
        return np.asfortranarray(x)  # here

    check(ControlFlowError, k, (1.0,), "numpy array")


def test_sides_that_disagree() -> None:
    def f(x: Any) -> Any:
        y: Any = None
        if x > 0:
            y = x
        return y + 1  # here

    check(MergeError, f, (1.0,), "`y`", "a number (f64) on one way and None on the other")

    def g(x: Any) -> Any:
        if x > 0:  # here
            return 1.0

    check(MergeError, g, (1.0,), "the result")

    def h(x: Any) -> Any:
        if x > 0:
            z = 1
        return z  # here

    with pytest.raises(MergeError, match="`z` has no value here: it is assigned on one side"):
        run(h, 1.0)


def test_locals_of_loops_after_the_loop() -> None:
    def f(x: Any) -> Any:
        for k in range(len(x)):
            last = x[k]
        return last + 1  # here

    check(MergeError, f, (X,), "`last`", "inside the loop")

    def g(x: Any) -> Any:
        for k in range(len(x)):
            x[k]
        return k + 1  # here

    check(MergeError, g, (X,), "`k`", "zero times")

    def h(x: Any) -> Any:
        state: Any = "start"
        for _ in range(len(x)):
            if state == "start":  # here
                state = 1.0

    check(MergeError, h, (X,), "`state`", "it is the")


def test_constants_of_loops_after_the_loop() -> None:
    def f(x: Any) -> Any:
        state = "start"
        for k in range(len(x)):
            if state == "start" and x[k] > 0.5:
                state = "on"
        return state, state != "start"

    assert run(f, X) == ("on", True)
    assert run(f, 0.1 * X) == ("start", False)


def test_leaving_a_parallel_loop() -> None:
    def f(x: Any) -> Any:
        for i in pe.par(x):
            if x[i] > 1:
                break  # here

    check(UnsupportedSyntaxError, f, (X,), "`break`", "no order")

    def g(x: Any) -> Any:
        for i in pe.par(x):
            if x[i] > 1:
                return x[i]  # here
        return 0.0

    check(UnsupportedSyntaxError, g, (X,), "`return`", "no order")


def test_leaving_statements_that_are_not_taken_apart() -> None:
    def f(x: Any) -> Any:
        for k in range(len(x)):
            with np.errstate(all="ignore"):
                if x[k] > 1:
                    break  # here

    check(UnsupportedSyntaxError, f, (X,), "`break`", "while")

    def g(x: Any) -> Any:
        for k in range(len(x)):
            with np.errstate(all="ignore"):
                if x[k] > 1:
                    continue  # here

    check(UnsupportedSyntaxError, g, (X,), "`continue`")

    def h(x: Any) -> Any:
        with np.errstate(all="ignore"):
            for k in range(len(x)):
                if x[k] > 1:
                    return x[k]
            return 0.0

    with pytest.raises(UnsupportedSyntaxError, match="`return`"):
        run(h, X)


def test_raising() -> None:
    def r(x: Any) -> Any:
        if x > 0:
            raise ValueError("positive")  # here

    check(UnsupportedSyntaxError, r, (1.0,), "`raise`")


def test_statements_that_kernels_do_not_have() -> None:
    def f(x: Any) -> Any:
        try:  # here
            return x
        finally:
            pass

    check(UnsupportedSyntaxError, f, (1.0,), "`try`")

    def g(x: Any) -> Any:
        class Inside:  # here
            pass

        return Inside

    check(UnsupportedSyntaxError, g, (1.0,), "a class definition")


# --- effects -------------------------------------------------------------------------------------


def test_effects_are_refused() -> None:
    def f(x: Any) -> Any:
        input(x)  # here

    check(SideEffectError, f, (1.0,), "`input`")

    def g(x: Any) -> Any:
        return x + random.random()  # here

    check(SideEffectError, g, (1.0,), "`random`")

    def h(x: Any) -> Any:
        return x + time.time()  # here

    check(SideEffectError, h, (1.0,), "`time`")

    def k(x: Any) -> Any:
        return x + np.random.default_rng(0).normal()  # here

    check(SideEffectError, k, (1.0,), "`normal`")


def test_changes_of_objects_from_outside_are_refused() -> None:
    def f(x: Any) -> Any:
        KEPT.append(x)  # here

    check(SideEffectError, f, (1.0,), "`append`", "list")

    def g(x: Any) -> Any:
        rows: list[Any] = []
        for i in pe.par(x):
            rows.append(x[i])  # here
        return rows

    check(SideEffectError, g, (X,), "a parallel loop")

    def h(x: Any) -> Any:
        found = {"n": 0}
        if x > 0:
            found["n"] += 1  # here
        return found

    check(SideEffectError, h, (1.0,), "dict")

    def k(x: Any) -> Any:
        f.calls = 1  # type: ignore[attr-defined]  # here
        return x

    check(SideEffectError, k, (1.0,), "`calls`")

    def m(x: Any) -> Any:
        rows: list[Any] = []
        for i in pe.par(x):
            rows += [x[i]]  # here
        return rows

    check(SideEffectError, m, (X,), "list")

    def n(x: Any) -> Any:
        global COUNT  # here
        COUNT += 1
        return x

    check(SideEffectError, n, (1.0,), "`global`")


def test_objects_that_a_block_makes_are_its_own() -> None:
    def f(x: Any) -> Any:
        rows = []
        rows.append(x[0])
        found = {}
        found["a"] = rows[0]

        def body(i: Any) -> Any:
            mine = [x[i]]
            mine.append(found["a"])
            mine[0] = mine[0] * 2
            return mine[0] + mine[1]

        return pe.table(body)

    assert run(f, X).tolist() == [0.0, 2.0, 4.0]


def test_symbols_do_not_leave_their_block() -> None:
    def keep(value: Any) -> Any:
        space.kept = value
        return value

    def f(x: Any) -> Any:
        pe.table(lambda i: hold(x[i]))
        return space.kept + 1  # here

    space = types.SimpleNamespace()
    exec("def hold(v):\n    space.kept = v\n    return v", {"space": space}, space.__dict__)
    hold = space.hold
    check(LeakedTracerError, f, (X,), "a parallel loop")
    with pytest.raises(LeakedTracerError, match="after the kernel was staged"):
        space.kept + 1
    assert keep(1) == 1


# --- accumulators --------------------------------------------------------------------------------


def test_accumulator_read_inside_its_own_loop() -> None:
    def f(x: Any) -> Any:
        h = pe.accumulator(x)
        for i in pe.par(x):
            h[i] += x[i]
            h[i] += h[0]  # here
        return h

    check(AccumulatorError, f, (X,), "`h` is read inside a parallel loop")

    def g(x: Any) -> Any:
        h = pe.accumulator()
        if x[0] > 0:
            h += 1.0
        else:
            x = h + 1.0  # here
        return h

    check(AccumulatorError, g, (X,), "`h` is read inside one side of an `if`")


def test_accumulator_written_after_it_was_read() -> None:
    def f(x: Any) -> Any:
        h = pe.accumulator()
        h += x[0]
        y = h + 1.0
        h += y  # here
        return h

    check(AccumulatorError, f, (X,), "written after it was read", "read at")


# --- at run time ---------------------------------------------------------------------------------


def test_checks_of_numbers() -> None:
    def f(x: Any) -> Any:
        return 1 // int(x)  # here

    check(DivisionError, f, (0.0,), "division by zero")

    def g(x: Any) -> Any:
        return int(x)  # here

    for bad in (np.inf, np.nan, 1e30):
        check(ValueRangeError, g, (bad,), "cannot become an integer")

    def h(n: Any) -> Any:
        return 2 ** (n - 3)  # here

    check(ValueRangeError, h, (1,), "negative power -2")

    def k(x: Any) -> Any:
        return pe.max(lambda i: x[i])  # here

    check(ValueRangeError, k, (np.zeros(0),), "empty")

    def m(x: Any) -> Any:
        return x // 0  # here

    with pytest.raises(DivisionError, match="literal 0"):
        run(m, 1)


def test_indices_out_of_bounds() -> None:
    def f(x: Any) -> Any:
        return pe.table(lambda i: x[i] + x[i + 1])  # here

    with pytest.raises(BoundsError, match=r"index 3 .* `x` with size 3") as caught:
        run(f, X)
    assert "# here" in caught.value.at.snippet()


def test_literals_out_of_range() -> None:
    def f(x: Any) -> Any:
        return x[0] + 300

    with pytest.raises(ValueRangeError, match="300 is no uint8"):
        run(f, np.zeros(1, np.uint8))
    with pytest.raises(ValueRangeError, match="64 bits"):
        run(lambda x: x + 2**70, 1)


def test_recursion_is_refused() -> None:
    def power(x: Any, n: Any) -> Any:
        return 1.0 if n == 0 else x * power(x, n - 1)  # here

    check(KernelRecursionError, power, (2.0, 3), "`power` calls itself")


def test_operations_outside_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ControlFlowError, match="outside a kernel"):
        pe.par(X)
    with pytest.raises(ControlFlowError, match="outside a kernel"):
        pe.accumulator()
    monkeypatch.setattr(ops, "_outside", [])
    run_outside_with(lambda operation, args, kwargs: run(operation, *args, **kwargs))
    assert pe.sum(lambda i: X[i]) == 3.0
    assert pe.table(lambda i: 2 * i, over=3).tolist() == [0, 2, 4]
