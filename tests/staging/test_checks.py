"""`pe.check`, `assert` and texts with values of a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from staged import check_refused, run

import peffects as pe
from peffects.codegen.program.loop_programs import MOST_OPERANDS
from peffects.errors import CheckFailedError, ControlFlowError, KernelTypeError
from peffects.staging.loops.checks import MOST_VALUES


def failure(call: Any, *args: Any) -> CheckFailedError:
    with pytest.raises(CheckFailedError) as caught:
        call(*args)
    assert issubclass(CheckFailedError, AssertionError)
    assert caught.value.fix
    return caught.value


def both(function: Any, *args: Any) -> CheckFailedError:
    """The error of the compiled kernel; the evaluator gives the same."""
    compiled, evaluated = failure(pe.kernel(function), *args), failure(run, function, *args)
    assert compiled.what == evaluated.what
    assert "# here" in compiled.at.snippet() and "# here" in evaluated.at.snippet()
    return compiled


def roots(x: Any) -> Any:
    def root(i: Any, j: Any) -> Any:
        pe.check(x[i, j] >= 0.0, f"the root of {x[i, j]:.2f}")  # here
        return pe.sqrt(x[i, j])

    return pe.table(root)


def test_a_check_stops_the_loop_with_message_indices_and_line() -> None:
    x = np.ones((30, 40))
    assert (pe.kernel(roots)(x) == 1.0).all()
    x[12, 5], x[12, 7], x[29, 0] = -2.0, -3.0, -4.0
    assert both(roots, x).what == "the root of -2.00 (i = 12, j = 5)."


def test_the_first_failure_in_index_order_is_told_by_any_number_of_threads() -> None:
    x = np.ones((1000, 500))
    x[400:, 100] = -1.0
    kernel = pe.kernel(roots)
    for count in (1, 2, 3, 4):
        with pe.threads(count):
            assert failure(kernel, x).what == "the root of -1.00 (i = 400, j = 100)."


def test_sequential_loops_and_branches_have_checks() -> None:
    def f(x: Any) -> Any:
        total = 0.0
        for k in range(len(x)):
            if x[k] > 0.0:
                pe.check(x[k] < 3.0, f"{total} and {x[k]} at {k + 1}")  # here
            total += x[k]
        return total

    assert both(f, np.array([1.0, -9.0, 5.0])).what == "-8.0 and 5.0 at 3 (k = 2)."
    assert pe.kernel(f)(np.array([1.0, -9.0])) == -8.0


def test_values_of_all_types_are_written_as_python_writes_them() -> None:
    def f(x: Any, n: Any, u: Any, b: Any, s: Any) -> Any:
        pe.check(x < 0.0, f"{x} {n:+d} {u} {b} {s!r:>5} {{}} {1.5:.2f} {'t'!r}")  # here
        return x

    args = np.float32(0.5), -7, np.uint64(2**64 - 1), True, np.int8(-3)
    assert both(f, *args).what == "0.5 -7 18446744073709551615 True    -3 {} 1.50 't'."


def test_a_check_needs_no_message() -> None:
    def f(x: Any) -> Any:
        pe.check(x > 1.0)  # here
        return x

    assert both(f, 0.5).what == "the check does not hold."


def test_all_of_a_table_of_conditions_must_hold() -> None:
    def f(x: Any) -> Any:
        pe.check(x > 0.0, "not positive")  # here
        return x

    error = both(f, np.array([1.0, 2.0, -1.0]))
    assert error.what.startswith("not positive (") and error.what.endswith("= 2).")


def test_a_check_that_never_holds_is_no_mistake_where_it_is_not_reached() -> None:
    def f(x: Any) -> Any:
        if x > 1.0:
            pe.check(False, "too large")  # here
        return x

    assert pe.kernel(f)(0.5) == 0.5
    assert both(f, 2.0).what == "too large."


# --- assert --------------------------------------------------------------------------------------


def test_assert_is_a_check() -> None:
    def f(x: Any) -> Any:
        def square(i: Any) -> Any:
            assert x[i] != 0.0, f"x[{i}] is {x[i]}"  # here
            return x[i] * x[i]

        return pe.sum(square)

    def silent(x: Any) -> Any:
        assert pe.all(lambda i: x[i] > 0.0)  # here
        return x[0]

    assert both(f, np.array([1.0, 0.0])).what == "x[1] is 0.0 (i = 1)."
    assert both(silent, np.array([1.0, 0.0])).what == "the assertion does not hold."


def test_the_message_of_an_assert_is_computed_only_where_it_is_told() -> None:
    def f(x: Any, k: Any) -> Any:
        assert k < len(x), f"{k} is past the end, after {x[k - 1]}"  # here
        return x[k]

    x = np.array([1.0, 2.0])
    assert pe.kernel(f)(x, 0) == 1.0  # x[-1] would be out of bounds
    assert both(f, x, 2).what == "2 is past the end, after 2.0."


def test_an_assert_about_what_is_known_is_pythons_own() -> None:
    def f(x: Any, n: Any = None) -> Any:
        assert n is None, "n is given"
        assert x.ndim == 2, f"{x.ndim} axes"
        return x[0, 0]

    assert run(f, np.ones((1, 1))) == 1.0
    with pytest.raises(AssertionError, match="1 axes"):
        run(f, np.ones(1))


def test_an_assert_that_never_holds_fails_only_where_it_is_reached() -> None:
    def sign(x: Any) -> Any:
        if x > 0.0:
            return 1.0
        elif x < 0.0:
            return -1.0
        assert False, f"{x} has no sign"  # here # noqa: B011

    def rounds(x: Any, n: Any) -> Any:
        for k in range(n):
            assert x is None, f"round {k}"  # here
        return x

    assert pe.kernel(sign)(2.0) == 1.0 and run(sign, -2.0) == -1.0
    assert both(sign, 0.0).what == "0.0 has no sign."
    assert pe.kernel(rounds)(2.0, 0) == run(rounds, 2.0, 0) == 2.0
    assert both(rounds, 2.0, 3).what == "round 0 (k = 0)."


# --- texts ---------------------------------------------------------------------------------------


def test_texts_can_be_joined_and_nested() -> None:
    def f(x: Any) -> Any:
        where = f"at {x}"
        pe.check(x < 0.0, "wrong " + where + f" ({where})" + ".")  # here
        return x

    assert both(f, 1.5).what == "wrong at 1.5 (at 1.5)."


def test_texts_of_ordinary_values_are_ordinary() -> None:
    def f(x: Any) -> Any:
        names = {f"{1 + 1}-{'a'!r:>4}": x}
        return names["2- 'a'"]

    assert run(f, 1.5) == 1.5


def test_texts_are_no_python_strings() -> None:
    def f(x: Any) -> Any:
        return {str(f"{x}"): x}  # here

    check_refused(ControlFlowError, f, (1.5,), "a text with values of the kernel")


def test_what_cannot_stand_in_a_text() -> None:
    def table(x: Any) -> Any:
        pe.check(x[0] > 0.0, f"{x}")  # here

    def spec(x: Any) -> Any:
        pe.check(x[0] > 0.0, f"{x[0]:.3q}")  # here

    def width(x: Any) -> Any:
        pe.check(x[0] > 0.0, f"{x[0]:{x[1]}}")  # here

    def number(x: Any) -> Any:
        pe.check(x[0] > 0.0, x[0])  # here

    x = np.ones(2)
    check_refused(KernelTypeError, table, (x,), "stands in a text")
    check_refused(KernelTypeError, spec, (x,), "cannot be written as '.3q'")
    check_refused(KernelTypeError, width, (x,), "how a number is written")
    check_refused(KernelTypeError, number, (x,), "a text is joined with")


def test_a_message_has_room_for_some_values() -> None:
    assert MOST_VALUES == MOST_OPERANDS

    def many(x: Any) -> Any:
        pe.check(x[0] > 1.0, f"{x[0]}{x[1]}{x[2]}{x[3]}{x[4]}{x[5]}{x[6]}{x[7]}{x[8]}{x[9]}"
                 f"{x[10]}{x[11]}{x[12]}{x[13]}")  # here  # fmt: skip

    def more(x: Any) -> Any:
        def f(i: Any) -> Any:
            pe.check(x[0] > 1.0, f"{x[0]}{x[1]}{x[2]}{x[3]}{x[4]}{x[5]}{x[6]}{x[7]}{x[8]}{x[9]}"
                     f"{x[10]}{x[11]}{x[12]}{x[13]}")  # here  # fmt: skip
            return x[i]

        return pe.table(f)

    x = np.arange(14.0) / 8
    assert failure(pe.kernel(many), x).what == "".join(map(str, x.tolist())) + "."
    with pytest.raises(KernelTypeError, match="a message shows 15 values"):
        run(more, x)


# --- elsewhere -----------------------------------------------------------------------------------


def test_outside_kernels_and_under_debug() -> None:
    pe.check(True, "fine")
    assert failure(pe.check, False, "not fine").what == "not fine."
    x = np.ones((2, 3))
    x[1, 2] = -1.0
    error = failure(pe.kernel(roots).debug, x)
    assert error.what == "the root of -1.00." and error.notes == ("in iteration 1, 2 of `table`",)


def test_derivatives_keep_checks() -> None:
    def f(x: Any) -> Any:
        def term(i: Any) -> Any:
            pe.check(x[i] > 0.0, f"{x[i]}")
            return pe.log(x[i])

        return pe.sum(term)

    np.testing.assert_array_equal(pe.grad(f)(np.array([0.5, 2.0])), [2.0, 0.5])
    assert failure(pe.grad(f), np.array([0.5, -2.0])).what == "-2.0 (i = 1)."
