"""Python's control flow in kernels: what is staged equals what Python does."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from staged import pe, run, staged, text

from peffects.staging.stage import stage
from peffects.staging.tracing.argument_types import ArrayType, ScalarType

NUMBERS = (-3.5, -1.0, 0.0, 0.25, 1.0, 2.0, 7.5)


def check_like_python(function: Callable[..., Any], *calls: tuple[Any, ...]) -> None:
    """`function` staged and `function` run by Python agree."""
    for args in calls:
        assert run(function, *args) == pytest.approx(function(*args)), args


def numbers(*more: Any) -> list[tuple[Any, ...]]:
    return [(x, *more) for x in NUMBERS]


# --- if ------------------------------------------------------------------------------------------


def both_sides(x: Any) -> Any:
    y = 0.0
    if x > 0:
        y = x * 2
        z = 1.0
    elif x < -2:
        y, z = x, 2.0
    else:
        z = 3.0
    return y + z


def one_side(x: Any) -> Any:
    y = x
    if x < 0:
        y = -x
    return y


def early_returns(x: Any) -> Any:
    if x < -2:
        return 1.0
    y = x + 1
    if x < 0:
        if x < -0.5:
            return y
        y = y * 2
    elif x > 5:
        return 100.0
    y += 1
    return y


def return_of_tuples(x: Any) -> Any:
    if x > 0:
        return x, 1
    return -x, 2


def raise_in_a_dead_side(x: Any) -> Any:
    if isinstance(x, str):
        raise TypeError("not a number")
    return x + 1


@pytest.mark.parametrize(
    "function", [both_sides, one_side, early_returns, return_of_tuples, raise_in_a_dead_side]
)
def test_if_is_python_s(function: Callable[..., Any]) -> None:
    check_like_python(function, *numbers())


def test_only_the_taken_side_runs() -> None:
    def guarded(x: Any, i: Any) -> Any:
        if 0 <= i < len(x):
            return x[i]
        return -1.0

    x = np.array([1.0, 2.0])
    for i in (-1, 0, 1, 2):
        assert run(guarded, x, i) == guarded(x, i)


def test_static_conditions_stage_one_side() -> None:
    def either(x: Any, mode: Any) -> Any:
        if mode == "double":
            return 2 * x
        elif mode is None:
            return x.real
        return undefined_name  # type: ignore[name-defined]  # noqa: F821

    assert run(either, 2.0, "double") == 4.0
    assert "cond" not in text(either, 2.0, "double")


def test_sides_may_rebind_containers() -> None:
    def swapped(x: Any) -> Any:
        pair = {"a": x, "b": (1.0, "name")}
        if x > 0:
            pair = {"a": -x, "b": (x, "name")}
        return pair["a"] + pair["b"][0]

    check_like_python(swapped, *numbers())


# --- expressions ---------------------------------------------------------------------------------


def conditional_expression(x: Any) -> Any:
    return (x if x > 0 else -x) + (1 if x > 1 else 2.5)


def logic(x: Any) -> Any:
    a = 1.0 if x > 0 and x < 2 else 0.0
    b = 10.0 if x < -2 or x > 5 else 0.0
    c = 100.0 if not x > 0 else 0.0
    d = 1000.0 if -1 <= x < 1 <= 2 else 0.0
    return a + b + c + d + (x or 5.0) + (x and 3.0)


def conversions(x: Any) -> Any:
    return int(x) + int(x * 10) // 3 + int(x * 10) % 3 + float(int(x)) / 2 + bool(x)


def extremes(x: Any) -> Any:
    return max(x, 1, 0.5) + min(x, 2) + abs(x) + max([x, 3.0]) + divmod(x, 2)[0]


def powers(x: Any) -> Any:
    return x**2 + x**3 - x**0 + (x + 10) ** -2 + (x + 10) ** 1.5 + 2.0**x + x**17


def functions(x: Any) -> Any:
    return (
        math.exp(x / 10) + math.sin(x) * np.cos(x) + math.floor(x) + math.sqrt(x + 10) + pe.tanh(x)
        + math.hypot(x, 1.0) + math.atan2(x, 2.0) + math.log(x + 10, 2) + np.maximum(x, 1.0)
        + np.where(x > 0, 1.0, 2.0) + np.float64(2.0) * x + math.fabs(x) + math.pi * x
    )  # fmt: skip


@pytest.mark.parametrize(
    "function", [conditional_expression, logic, conversions, extremes, powers, functions]
)
def test_expression_is_python_s(function: Callable[..., Any]) -> None:
    check_like_python(function, *numbers())


def test_and_guards_what_follows() -> None:
    def previous(x: Any, i: Any) -> Any:
        return 1.0 if i > 0 and x[i - 1] > 0 else 0.0

    x = np.array([1.0, -1.0])
    assert [run(previous, x, i) for i in (0, 1, 2)] == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.int64])
def test_promotion_is_numpy_s(dtype: type) -> None:
    x: Any = np.array([3, 1], dtype)
    half = np.float32(0.5)

    def mixed(x: Any, half: Any) -> Any:
        return x[0] * 2, x[0] * 2.0, x[0] / x[1], x[0] + half, x[0] * True, x[0] > 2, -(x[0] + 1)

    with np.errstate(all="ignore"):
        wanted = mixed(x, half)
    for found, expected in zip(run(mixed, x, half), wanted, strict=True):
        assert found == expected
        if dtype is not np.uint8:  # numpy divides small integers into half precision
            assert np.asarray(found).dtype == np.asarray(expected).dtype


def test_bits() -> None:
    def bits(n: Any, m: Any) -> Any:
        return n & m, n | m, n ^ m, ~n, n << 2, n >> 1, (n > 2) & (m > 2), (n > 2) ^ (m > 2)

    check_like_python(bits, (5, 3), (12, 10), (0, 7))


# --- loops ---------------------------------------------------------------------------------------


def sum_of_squares(n: Any) -> Any:
    s = 0
    for k in range(n):
        s += k * k
    return s


def strided(n: Any) -> Any:
    s = 0.0
    for k in range(1, n, 3):
        s = s * 2 + k
    for k in range(n, -1, -2):
        s = s - k
    for k in reversed(range(n)):
        s = s / 2 + k
    for k in range(2, 11, 4):
        s += k
    return s


def fibonacci(n: Any) -> Any:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def nested(n: Any) -> Any:
    total = 0.0
    for i in range(n):
        row = 1.0
        for j in range(i):
            row = row + i * j
        if row > 3:
            total += row
        else:
            total -= 0.5
    return total


def collatz(n: Any) -> Any:
    steps = 0
    while n != 1 and steps < 1000:
        if n % 2 == 0:
            n //= 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


def newton(n: Any) -> Any:
    x = 1.0 * n
    while abs(x * x - n) > 1e-9:
        x = (x + n / x) / 2
    else:
        x = x + 1
    return x


@pytest.mark.parametrize("function", [sum_of_squares, strided, fibonacci, nested, collatz, newton])
def test_loop_is_python_s(function: Callable[..., Any]) -> None:
    check_like_python(function, (1,), (2,), (5,), (12,))


def test_loops_may_run_zero_times() -> None:
    check_like_python(sum_of_squares, (0,), (-3,))
    check_like_python(strided, (0,))


def test_compile_time_does_not_depend_on_trip_counts() -> None:
    def constant(x: Any) -> Any:
        for _ in range(1000000):
            x = x * 0.5 + 1
        return x

    assert len(text(constant, 1.0).splitlines()) < 8


def test_carries_take_the_type_that_rounds_need() -> None:
    def widening(x: Any) -> Any:
        s, count = 0, 0
        for k in range(len(x)):
            s = s + x[k]
            count += 1
        return s, count

    made = staged(widening, np.ones(3, np.float32))
    assert [str(atom.type) for atom in made.program.body.results] == ["f32", "i64"]


def test_locals_that_no_round_changes_are_not_carried() -> None:
    def constant(x: Any, flag: Any) -> Any:
        scale, mode = 2.0, "sum"
        for _ in range(len(x)):
            scale, mode = scale, mode
            if flag:
                scale = 3.0
        return scale if mode == "sum" else 0.0

    assert run(constant, np.ones(2), None) == 2.0
    assert "scale" not in text(constant, np.ones(2), None)


def halved_product(a: Any, x: Any) -> Any:
    y = pe.table(lambda i: pe.sum(lambda j: a[i, j] * x[j]))
    return pe.table(lambda i: y[i] / 2.0)


def test_tables_are_carried() -> None:
    def power_iteration(a: Any, x: Any, steps: Any) -> Any:
        for _ in range(steps):
            x = halved_product(a, x)
        return x

    a, x = np.array([[1.0, 2.0], [3.0, 4.0]]), np.ones(2)
    expected = np.linalg.matrix_power(a / 2, 3) @ x
    np.testing.assert_allclose(run(power_iteration, a, x, 3), expected)


def test_sequences_are_unrolled_while_staging() -> None:
    def polynomial(x: Any) -> Any:
        y = 0.0
        for c in [2.0, 3.0, 4.0]:
            y = y * x + c
        for name, factor in {"a": 2, "b": 3}.items():
            if name == "b":
                continue
            y *= factor
        for k, c in enumerate((1, 2, 3)):
            if k == 1:
                break
            y += c
        return y + sum(x * c for c in (1, 2)) + sum([x] * 2)

    check_like_python(polynomial, *numbers())


def test_loops_over_tables() -> None:
    def over(x: Any, y: Any) -> Any:
        s = 0.0
        for v in x:
            s = s * 0.5 + v
        for k, v in enumerate(x):
            s += k * v
        for v, w in zip(x, y, strict=True):
            s += v * w
        for i in pe.Fin(3):
            s += i
        return s

    x, y = np.array([1.0, 2.0, 4.0]), np.array([1.0, 0.0, 2.0])
    assert run(over, x, y) == pytest.approx(over(x, y))


def test_locals_assigned_inside_a_parallel_loop_are_its_own() -> None:
    def twice(x: Any) -> Any:
        total = pe.accumulator()
        for i in pe.par(x):
            t = x[i] * 2
            if t > 1:
                t = t * 10
            total += t
        for i in pe.par(x):
            t = x[i]
            total += t
        return total

    x = np.array([0.25, 1.0])
    assert run(twice, x) == 0.5 + 20.0 + 1.25


# --- functions -----------------------------------------------------------------------------------


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass(frozen=True)
class Line:
    slope: Any
    start: Any = 1.0

    def at(self, x: Any) -> Any:
        if x < 0:
            return self.start
        return self.slope * x + self.start

    def __call__(self, x: Any) -> Any:
        return self.at(x)


def with_defaults(x: Any, /, scale: Any = 2.0, *rest: Any, shift: Any = 0.5, **more: Any) -> Any:
    if x > 0:
        return x * scale + shift + sum(rest) + more.get("z", 0)
    return x


def test_functions_of_all_kinds_are_called() -> None:
    def caller(x: Any) -> Any:
        def inner(y: Any, twice: Any = lambda v: v if v > 1 else 2 * v) -> Any:
            return twice(y) + x

        point = Point(x, y=2.0)
        line = Line(3.0)
        return (
            with_defaults(x) + with_defaults(x, 3, 4, 5, shift=1, z=6) + inner(x) + line.at(x)
            + line(x) + (lambda a, *b: a + b[0])(x, point.y) + point.x
        )  # fmt: skip

    check_like_python(caller, *numbers())


def test_arguments_and_results_are_nested() -> None:
    def swap(point: Any, options: Any) -> Any:
        (a, b), line = point, options["line"]
        return {
            "line": dataclasses.replace(line, slope=b),
            "points": [Point(b, a)],
            "name": "swapped",
        }

    point, line = Point(1.0, 2), Line(np.array([1.0]), 4)
    found = run(swap, point, {"line": line, "mode": "x"})
    assert found["points"] == [Point(2, 1.0)] and found["name"] == "swapped"
    assert found["line"] == Line(2, 4)


def test_keyword_arguments_are_parameters() -> None:
    made = staged(with_defaults, 2.0, shift=3.0)
    assert [param.name for param in made.program.params] == ["x", "shift"]
    assert run(with_defaults, 2.0, shift=3.0) == 7.0


def test_kernels_call_kernels() -> None:
    class Kernel:
        def __init__(self, function: Callable[..., Any]) -> None:
            self.__pe_function__ = function

        def __call__(self, *args: Any) -> Any:
            raise AssertionError("a kernel inside a kernel is staged")

    square = Kernel(lambda x: x * x if x > 0 else x)
    assert run(lambda x: pe.table(lambda i: square(x[i])), np.array([-1.0, 3.0])).tolist() == [
        -1,
        9,
    ]


def test_functions_without_source_run_on_symbols() -> None:
    space: dict[str, Any] = {"pe": pe}
    exec("def f(x): return pe.sum(lambda i: x[i] * 2.0)", space)
    assert run(space["f"], np.ones(3)) == 6.0


def test_several_lambdas_on_one_line() -> None:
    pair = (lambda x: x if x > 0 else 1.0), (lambda x: x if x > 2 else 2.0)
    assert [run(f, 1.0) for f in pair] == [1.0, 2.0]


def test_abstract_arguments() -> None:
    made = stage(lambda x, s: x[0] * s, (ArrayType("float32", 1), ScalarType("float64", weak=True)))
    assert str(made.program.body.results[0].type) == "f32"


def test_an_index_that_a_local_holds_as_a_number_is_still_an_index() -> None:
    def f(n: Any) -> Any:
        total = 0
        for i in range(n):
            number = int(i)
            total = total + number * i
        return total

    assert run(f, 4) == 14
