"""In plain Python operators and functions of numbers have the types and errors of kernels."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fuzz.sources import load

import peffects as pe
from peffects import effectful, handle, run
from peffects.errors import DivisionError, KernelRecursionError, PeffectsError
from peffects.handlers import ask, attempt, get, put, reader, run_state, weak_exceptions
from peffects.ir.evaluate import evaluate
from peffects.staging.hooks.python_maths import MATH, REFUSED_MATH
from peffects.staging.numpy_surface.ufuncs import UFUNCS
from peffects.staging.scalars import maths

DTYPES = ("bool", "int8", "uint16", "int64", "uint64", "float32")
PAIRED = ("bool", "int8", "uint64", "float32")
ONE = tuple(f"np.{name}" for name in UFUNCS if getattr(np, name).nin == 1)
OURS = tuple(f"pe.{name}" for name in maths.__all__)
PYTHONS = tuple(f"math.{f.__name__}" for f in MATH if f.__name__ not in REFUSED_MATH)
OPERATORS = ("-{}", "+{}", "abs({})", "{} ** 2", "pow({}, 2)", "1 - {}", "np.round({})",
             "pe.where({} > 0, {}, 1)", "not {}", "{} * 2", "{} / 2", "{} // 2")  # fmt: skip
TWO = ("{} + {}", "{} - {}", "{} * {}", "{} / {}", "{} // {}", "{} % {}", "{} ** {}", "{} & {}",
       "{} << {}", "{} < {}", "max({}, {})", "divmod({}, {})", "pow({}, {})", "np.add({}, {})",
       "np.floor_divide({}, {})", "np.maximum({}, {})", "np.hypot({}, {})", "pe.fmod({}, {})",
       "np.ldexp({}, {})", "np.logaddexp({}, {})", "pe.arctan2({}, {})")  # fmt: skip


def of(lines: str) -> pe.Kernel[Any, Any]:
    """The kernel of `q` and `r` that returns an expression."""
    head = "import math\nimport numpy as np\nimport peffects as pe\n"
    return pe.kernel(load(f"{head}def kernel(q, r):\n    return {lines}\n")["kernel"])


def told(call: Callable[[], Any]) -> Any:
    """The types and values of the leaves, or the code of an error."""
    try:
        found = call()
    except PeffectsError as error:
        return error.code
    leaves = found if isinstance(found, tuple) else (found,)
    return [np.asarray(leaf) for leaf in leaves]


def compare(lines: str, q: Any, r: Any) -> None:
    """What a kernel gives, where staging does not refuse it, is what plain Python gives."""
    kernel = of(lines)
    try:
        staged: Any = kernel.stage((q, r), {})
    except (PeffectsError, TypeError):  # of a function of two numbers
        return
    values = staged.arguments((q, r), {})
    with np.errstate(all="ignore"):
        meant = told(lambda: staged.results(evaluate(staged.program, values)))
    found = told(lambda: kernel.debug(q, r))
    if isinstance(meant, str) or isinstance(found, str):
        assert found == meant, lines
        return
    for left, right in zip(found, meant, strict=True):
        assert left.dtype == right.dtype, f"{lines}: {left.dtype}, a kernel has {right.dtype}"
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-7, err_msg=lines)


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_one_number_have_the_types_of_kernels(dtype: str) -> None:
    q = np.array([0, 1, 3]).astype(dtype)
    for function in (*ONE, *OURS, *PYTHONS):
        compare(f"pe.table(lambda i: {function}(q[i]))", q, q)
    for form in OPERATORS:
        compare(f"pe.table(lambda i: {form.replace('{}', 'q[i]')})", q, q)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float32"])
def test_functions_of_a_table_have_the_types_of_kernels(dtype: str) -> None:
    q = np.array([0, 1, 3]).astype(dtype)
    for function in (*ONE, *OURS):
        compare(f"{function}(q)", q, q)
    for form in OPERATORS:
        compare(form.replace("{}", "q"), q, q)


@pytest.mark.parametrize("left", PAIRED)
@pytest.mark.parametrize("right", PAIRED)
def test_operators_on_two_numbers_have_the_types_of_kernels(left: str, right: str) -> None:
    q, r = np.array([0, 1, 3]).astype(left), np.array([0, 1, 3]).astype(right)
    for form in TWO:
        for other in (r, np.array([2, 0, 1]).astype(right)):
            compare(f"pe.table(lambda i: {form.format('q[i]', 'r[i]')})", q, other)
            compare(form.format("q", "r"), q, other)


def test_a_division_of_arrays_by_zero_has_its_line() -> None:
    for lines in ("q // r", "q % r", "divmod(q, r)", "np.floor_divide(q, r)"):
        with pytest.raises(DivisionError) as caught:
            of(lines).debug(np.array([1, 2]), np.array([1, 0]))
        assert caught.value.at.snippet().strip() == f"return {lines}"


def test_the_line_of_a_failure_is_that_of_its_call() -> None:
    q = np.array([1, 0])
    for lines in ("np.reciprocal(q)", "np.reciprocal(q) + 1"):
        with pytest.raises(DivisionError) as caught:
            of(lines).debug(q, q)
        assert caught.value.at.snippet().strip() == f"return {lines}"


# --- tables are values ----------------------------------------------------------------------------


@pytest.mark.parametrize("operator", ["+=", "-=", "*=", "**=", "/=", "//=", "%="])
def test_an_augmented_assignment_changes_no_other_table(operator: str) -> None:
    head = "def kernel(x, y):\n    u = x\n    v = y * 1.0\n    w = v\n"
    text = f"{head}    u {operator} 2.0\n    v {operator} 2.0\n    return u, v, w, x\n"
    kernel = pe.kernel(load(text)["kernel"])
    x = np.array([1.0, 2.0, 3.0])
    for left, right in zip(kernel.debug(x, x), kernel(x, x), strict=True):
        np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(x, [1.0, 2.0, 3.0])


def test_an_augmented_field_is_another_table() -> None:
    class Holder:
        pass

    x = np.array([1.0, 2.0])

    def kernel(x: Any) -> Any:
        held: Any = Holder()
        held.inner = Holder()
        held.table = held.inner.table = x
        held.table += 1.0
        held.inner.table += 2.0
        return held.table, held.inner.table, x

    found = pe.kernel(kernel).debug(x)
    np.testing.assert_array_equal(found, [[2.0, 3.0], [3.0, 4.0], [1.0, 2.0]])
    np.testing.assert_array_equal(x, [1.0, 2.0])


# --- errors of Python -----------------------------------------------------------------------------

WRONG = ("float(len)", "int(len)", "q + 'a'", "-'a'", "abs('a')", "max(len, 1)", "sum(3)", "q['a']",
         "[1, 2][q]", "(1, 2) % 3", "pow(len, 2)", "divmod('a', 1)", "[v for v in 3]", "~1.5",
         "math.sqrt('a')", "np.sqrt('a')", "q.unknown")  # fmt: skip


@pytest.mark.parametrize("lines", WRONG)
def test_what_python_says_is_said_of_the_users_line(lines: str) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError, IndexError, PeffectsError)) as told:
        of(lines).debug(np.array([1.0]), np.array([1.0]))
    if isinstance(told.value, PeffectsError):
        assert lines in told.value.at.snippet()
        return
    frames = traceback.extract_tb(told.value.__traceback__)
    assert frames[-1].filename.startswith("<random program"), f"from {frames[-1]}"


# --- recursion ------------------------------------------------------------------------------------


@effectful
def asks(s: Any) -> Any:
    s = s + (yield from ask())
    return (yield from asks(s))


@effectful
def puts(s: Any) -> Any:
    yield from put((yield from get()) + 1.0)
    return (yield from attempt(puts(s)))


@effectful
def first(s: Any) -> Any:
    return (yield from second(s))


@effectful
def second(s: Any) -> Any:
    return (yield from first(s))


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (lambda s: run(handle(reader(1.0), asks(s))), "asks"),
        (lambda s: run(handle(run_state(0.0), puts(s))), "puts"),
        (lambda s: run(handle(weak_exceptions(), first(s))), "first"),
    ],
)
def test_a_recursion_of_effects_without_an_end_is_refused(kernel: Any, name: str) -> None:
    for way in (pe.kernel(kernel), pe.kernel(kernel).debug):
        with pytest.raises(KernelRecursionError) as caught:
            way(1.0)
        assert caught.value.at.function in (name, "second")


@effectful
def down(n: int) -> Any:
    yield from put((yield from get()) + n)
    if n > 0:
        yield from down(n - 1)


def test_a_recursion_that_ends_runs_to_its_end() -> None:
    kernel = pe.kernel(lambda s: run(handle(run_state(s), down(500))))
    assert kernel.debug(0.0)[0] == 500 * 501 / 2


def test_logarithms_to_other_bases_are_those_of_kernels() -> None:
    kernel = of("math.log(q, 2.0), math.log(q)")
    assert kernel.debug(8.0, 1.0) == kernel(8.0, 1.0)
