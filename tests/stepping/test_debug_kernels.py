"""`Kernel.debug`: what it gives and raises is what compiled code gives and raises.

Values are compared with the evaluator's, which compiles nothing; errors with compiled code's.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.errors import (
    BoundsError,
    DataRaceError,
    DerivativeArgumentError,
    DivisionError,
    IndexSetMismatchError,
    KernelTypeError,
    NotANumberError,
    PeffectsError,
    UnknownIndexSetError,
    ValueRangeError,
)
from peffects.ir.evaluate import evaluate
from peffects.staging.structures.trees import flatten

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RNG = np.random.default_rng(8)
X = np.arange(6.0)
A = RNG.normal(size=(3, 4))


def example(name: str) -> ModuleType:
    """An example, imported by its path."""
    known = sys.modules.get(f"debugged_{name}")
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(f"debugged_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def evaluated(kernel: Any, *args: Any) -> Any:
    """The value of a call by the reference evaluator."""
    callee = kernel.stage(args, {})
    return callee.results(evaluate(callee.program, callee.arguments(args, {})))


def assert_same(kernel: Any, *args: Any) -> None:
    """Both ways give values of one structure and type that agree up to rounding."""
    expected, expected_tree = flatten(evaluated(kernel, *args))
    plain, plain_tree = flatten(kernel.debug(*args))
    assert expected_tree == plain_tree
    for one, other in zip(map(np.asarray, expected), map(np.asarray, plain), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-12)
        assert other.dtype == one.dtype


def assert_same_error(kernel: Any, *args: Any) -> PeffectsError:
    """Both ways raise the same error at the same line."""
    errors = []
    for call in (kernel, kernel.debug):
        with pytest.raises(PeffectsError) as caught:
            call(*args)
        errors.append(caught.value)
    assert type(errors[0]) is type(errors[1])
    assert errors[0].what == errors[1].what
    assert errors[0].at.line == errors[1].at.line
    return errors[1]


# --- values --------------------------------------------------------------------------------------


def calls_of_n_body(m: ModuleType) -> list[tuple[Any, ...]]:
    position, velocity, mass = m.system()
    state = position, velocity, mass
    return [
        (m.accelerations, position, mass),
        (m.energy, *state),
        (m.simulate, *state, 3),
        (m.miss, velocity[m.PROBE], *state, 3),
    ]


def calls_of_lennard_jones(m: ModuleType) -> list[tuple[Any, ...]]:
    x, v, side = m.start(3, 0.7)
    x = x + 0.1 * v
    return [(m.potential, x, side), (m.distances, x, side, 5)]


def calls_of_k_means(m: ModuleType) -> list[tuple[Any, ...]]:
    x, _ = m.load()
    return [(m.nearest, x[:6], x[:3]), (m.improve, x[:6], x[:3])]


def calls_of_ray_marcher(m: ModuleType) -> list[tuple[Any, ...]]:
    eye = np.array([0.0, 1.2, -4.5])
    point, far = evaluated(m.march, eye, 4, 6, 50)
    return [
        (m.march, eye, 4, 6, 50),
        (m.total_distance, *point),
        (m.shade, evaluated(m.normals, *point), point, far),
    ]


def calls_of_digits_network(m: ModuleType) -> list[tuple[Any, ...]]:
    net, x = m.Network.random(4), RNG.random((3, 64))
    return [(m.loss, net, x, np.array([1, 2, 3])), (m.read, net, x)]


def calls_of_digits_mixture(m: ModuleType) -> list[tuple[Any, ...]]:
    args = RNG.random((5, 3)), np.zeros(2), RNG.random((2, 3)), np.zeros((2, 3))
    return [(m.log_likelihood, *args), (m.assign, *args)]


def calls_of_attention_pooling(m: ModuleType) -> list[tuple[Any, ...]]:
    x, y, _ = m.sentences(4, seed=1)
    query, value = RNG.normal(size=(2, m.FEATURES))
    return [(m.loss, query, value, x, y), (m.attention, query, x)]


NORMAL = RNG.normal(size=(5, 4))
CALLS: dict[str, Callable[[ModuleType], list[tuple[Any, ...]]]] = {
    "mandelbrot": lambda m: [(m.escape_times, -2.0, 0.6, -1.2, 1.2, 6, 12, 30)],
    "n_body": calls_of_n_body,
    "lennard_jones": calls_of_lennard_jones,
    "kernel_regression": lambda m: [
        (m.left_out_error, 0.3, *m.points(12)),
        (m.predict, np.array([-1.0, 1.0]), 0.3, *m.points(12)),
    ],
    "levenshtein": lambda m: [
        (m.distance, m.letters("kitten"), m.letters("sitting")),
        (m.distance, m.letters(""), m.letters("abc")),
    ],
    "heat_source": lambda m: [(m.diffuse, m.plate(6), 2), (m.misfit, m.plate(6), m.plate(6), 2)],
    "k_means": calls_of_k_means,
    "ray_marcher": calls_of_ray_marcher,
    "brownian_option": lambda m: [
        (m.price, 100.0, 0.2, 0.05, 100.0, NORMAL),
        (m.chance_of_reaching, 1.0, NORMAL),
    ],
    "monte_carlo_pi": lambda m: [(m.part_inside, abs(NORMAL) / 2.0)],
    "logistic_regression": lambda m: [(m.loss_on(A, X[:3] - 1.0), A[0])],
    "attention_pooling": calls_of_attention_pooling,
    "digits_network": calls_of_digits_network,
    "digits_mixture": calls_of_digits_mixture,
}


@pytest.mark.parametrize("name", CALLS)
def test_kernels_of_the_examples_give_what_compiled_code_gives(name: str) -> None:
    for kernel, *args in CALLS[name](example(name)):
        assert_same(kernel, *args)


def test_every_example_is_debugged() -> None:
    kernels = {path.stem for path in EXAMPLES.glob("*.py") if "@pe.kernel" in path.read_text()}
    assert kernels == set(CALLS)


def test_types_are_those_of_compiled_code() -> None:
    @pe.kernel
    def mixed(x: Any, n: Any) -> Any:
        count = pe.sum(lambda i: x[i] > 1)
        return (
            count,
            pe.table(lambda i: x[i] if x[i] > 0 else 0.0),
            pe.table(lambda i: 2 * i, over=n),
            pe.table(lambda i: i == 1, over=n),
            pe.argmax(x),
            pe.any(lambda i: x[i] > 1),
        )

    for dtype in (np.float32, np.float64, np.int16, np.int64):
        assert_same(mixed, np.array([0, 3, 1], dtype), 2)


def test_accumulators_of_all_operations() -> None:
    @pe.kernel
    def combined(x: Any) -> Any:
        total = pe.accumulator()
        factor = pe.accumulator(2, op="mul")
        least = pe.accumulator(2, op="min")
        some = pe.accumulator(op="or", dtype=bool)
        rows = pe.accumulator(2, x.index)
        for i in pe.par(x):
            total += x[i]
            factor[int(i) % 2] *= x[i] + 1.0
            least.combine(int(i) % 2, x[i])
            some |= x[i] > 4.0
            rows[int(i) % 2, i] += x[i]
        return total / len(x), factor, least, some, rows

    assert_same(combined, X)


def test_product_sets_and_pairs_of_indices() -> None:
    @pe.kernel
    def pairs(a: Any) -> Any:
        h = pe.accumulator(a.shape[1])
        for i, j in pe.par(a.index_sets):
            h[j] += a[i, j]
        return h, pe.table(lambda p: a[p], over=a.index_sets), pe.max(a), pe.sum(lambda i: a[i])

    assert_same(pairs, A)


def test_numbers_follow_ieee_where_python_would_raise() -> None:
    @pe.kernel
    def hard(x: Any, zero: Any) -> Any:
        return pe.table(lambda i: (x[i] / zero, 1.0 / (zero - zero), pe.log(x[i] - 1.0)))

    with np.errstate(all="ignore"):
        assert_same(hard, X, 0.0)


def test_early_exits_and_conditions_are_python_s() -> None:
    @pe.kernel
    def bounded(x: Any) -> Any:
        def of(i: Any) -> Any:
            y, steps = x[i] + 1.0, 0
            while y < 100.0 and steps < 5:
                y, steps = y * y + 1.0, steps + 1
            return y if steps else -y

        return pe.table(of)

    assert_same(bounded, X)


def test_empty_tables() -> None:
    @pe.kernel
    def sums(x: Any) -> Any:
        return pe.sum(lambda i: x[i]), pe.table(lambda i: 2.0 * x[i])

    assert_same(sums, np.zeros(0))


def test_methods_and_functions_of_other_names() -> None:
    class Scaled:
        def __init__(self, factor: float) -> None:
            self.__factor = factor

        def times(self, value: Any) -> Any:
            return self.__factor * value

    @pe.kernel
    def scaled(x: Any) -> Any:
        return pe.table(lambda i: by_two.times(x[i]))

    by_two = Scaled(2.0)
    np.testing.assert_array_equal(scaled.debug(X), 2.0 * X)


def test_an_index_that_is_first_used_later_finds_its_set() -> None:
    @pe.kernel
    def later(x: Any) -> Any:
        return pe.table(lambda i: 0.0 if int(i) < 3 else x[i])

    assert_same(later, X)


# --- the user's own code -------------------------------------------------------------------------


def test_print_works(capsys: pytest.CaptureFixture[str]) -> None:
    @pe.kernel
    def shown(x: Any) -> Any:
        def of(i: Any) -> Any:
            print(i, x[i])
            return x[i]

        return pe.sum(of)

    assert shown.debug(X[:3]) == 3.0
    assert capsys.readouterr().out == "0 0.0\n1 1.0\n2 2.0\n"


def test_tracers_see_the_user_s_lines_and_locals() -> None:
    @pe.kernel
    def traced(x: Any) -> Any:
        total = 0.0
        for i in range(len(x)):
            total = total + x[i]  # here
        return total

    seen: list[tuple[int, float]] = []

    def tracer(frame: Any, event: str, arg: object) -> Any:
        if event == "line" and frame.f_code.co_name == "traced":
            seen.append((frame.f_lineno, frame.f_locals.get("total", math.nan)))
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        traced.debug(X[:3])
    finally:
        sys.settrace(before)
    line = traced.__pe_function__.__code__.co_firstlineno + 4
    assert [total for number, total in seen if number == line] == [0.0, 0.0, 1.0]


# --- errors --------------------------------------------------------------------------------------


def test_bounds_errors_are_the_same() -> None:
    @pe.kernel
    def neighbors(x: Any) -> Any:
        return pe.table(lambda i: x[i + 1], over=x.index)

    assert isinstance(assert_same_error(neighbors, X), BoundsError)


def test_only_literals_count_from_the_end() -> None:
    @pe.kernel
    def last(x: Any) -> Any:
        return x[-1]

    @pe.kernel
    def before(x: Any) -> Any:
        return pe.table(lambda i: x[i - 1], over=x.index)

    @pe.kernel
    def computed(x: Any, k: Any) -> Any:
        return x[k]

    assert_same(last, X)
    assert isinstance(assert_same_error(before, X), BoundsError)
    assert isinstance(assert_same_error(computed, X, -1), BoundsError)


def test_bounds_of_accumulators_are_tested() -> None:
    @pe.kernel
    def counted(at: Any) -> Any:
        h = pe.accumulator(3)
        for i in pe.par(at):
            h[at[i]] += 1.0
        return h

    assert isinstance(assert_same_error(counted, np.array([0, 3])), BoundsError)


def test_index_sets_that_differ() -> None:
    @pe.kernel
    def product(a: Any, b: Any) -> Any:
        return pe.table(lambda i, j: pe.sum(lambda k: a[i, k] * b[k, j]))

    assert_same(product, A, A.T)
    assert isinstance(assert_same_error(product, A, A.copy()), IndexSetMismatchError)


def test_integers_of_nan_and_divisions_by_zero() -> None:
    @pe.kernel
    def floored(x: Any) -> Any:
        return pe.table(lambda i: int(x[i]))

    @pe.kernel
    def divided(n: Any, x: Any) -> Any:
        return pe.table(lambda i: n // x[i])

    assert_same(floored, X)
    assert isinstance(assert_same_error(floored, np.array([1.0, np.inf])), ValueRangeError)
    assert isinstance(assert_same_error(divided, 7, np.array([1, 0])), DivisionError)


def test_reductions_of_nothing_and_negative_sizes() -> None:
    @pe.kernel
    def largest(x: Any) -> Any:
        return pe.max(lambda i: x[i])

    @pe.kernel
    def zeros(n: Any) -> Any:
        return pe.table(lambda i: 0.0, over=n)

    assert isinstance(assert_same_error(largest, np.zeros(0)), ValueRangeError)
    assert isinstance(assert_same_error(zeros, -2), ValueRangeError)


def test_writes_to_tables_are_refused() -> None:
    @pe.kernel
    def doubled(x: Any, out: Any) -> Any:
        for i in pe.par(x):
            out[i] = 2.0 * x[i]
        return out

    assert isinstance(assert_same_error(doubled, X, X.copy()), DataRaceError)


def test_floats_in_accumulators_of_integers_are_refused() -> None:
    @pe.kernel
    def counted(x: Any) -> Any:
        h = pe.accumulator(2, dtype=int)
        for i in pe.par(x):
            h[0] += x[i]
        return h

    with pytest.raises(KernelTypeError, match=r"what is added to `h` is a float"):
        counted.debug(X)


def test_a_wrong_operator_is_refused() -> None:
    @pe.kernel
    def counted(x: Any) -> Any:
        h = pe.accumulator(2)
        for i in pe.par(x):
            h[0] *= x[i]
        return h

    with pytest.raises(KernelTypeError, match=r"`h` combines with `add`, and `\*=` is written"):
        counted.debug(X)


def test_an_index_without_a_set_is_refused() -> None:
    @pe.kernel
    def evens() -> Any:
        return pe.table(lambda i: 2 * i)

    with pytest.raises(UnknownIndexSetError, match="nothing says which set"):
        evens.debug()


def test_rows_of_different_lengths_are_refused() -> None:
    @pe.kernel
    def ragged(x: Any) -> Any:
        return pe.table(lambda i: pe.table(lambda j: 1.0, over=int(i)), over=x)

    with pytest.raises(KernelTypeError, match="rows have different lengths"):
        ragged.debug(X)


# --- nan -----------------------------------------------------------------------------------------


def test_the_first_nan_is_told_with_its_line_and_iteration() -> None:
    @pe.kernel
    def logs(x: Any) -> Any:
        def of(i: Any) -> Any:
            y = pe.log(x[i] - 2.5)
            return y * y

        return pe.sum(of)

    assert math.isnan(logs.debug(X))
    with pytest.raises(NotANumberError, match="`y` is nan") as caught:
        logs.debug(X, nan=True)
    assert caught.value.at.line == logs.__pe_function__.__code__.co_firstlineno + 3
    assert caught.value.notes == ("in iteration 0 of `sum`",)
    assert logs.debug(X + 3.0, nan=True) == logs.debug(X + 3.0)


def test_a_nan_of_an_argument_is_told_where_it_is_read() -> None:
    @pe.kernel
    def total(x: Any) -> Any:
        return pe.table(lambda i: 2.0 * x[i])

    with pytest.raises(NotANumberError, match=r"`x`\[3\] is nan"):
        total.debug(np.array([1.0, 2.0, 3.0, np.nan]), nan=True)


def test_a_nan_that_is_accumulated_or_returned_is_told() -> None:
    @pe.kernel
    def added(x: Any) -> Any:
        h = pe.accumulator(2)
        for i in pe.par(x):
            h[0] += pe.sqrt(x[i] - 1.0)
        return h

    @pe.kernel
    def given(x: Any) -> Any:
        return pe.table(lambda i: pe.sqrt(x[i] - 1.0))

    with pytest.raises(NotANumberError, match="what is added to `h` is nan") as caught:
        added.debug(X, nan=True)
    assert caught.value.notes == ("in iteration 0 of `par`",)
    with pytest.raises(NotANumberError, match="what the body of `table` gives is nan"):
        given.debug(X, nan=True)


# --- derivatives ---------------------------------------------------------------------------------


def test_derivatives_are_evaluated() -> None:
    @pe.kernel
    def squares(x: Any) -> Any:
        return pe.sum(lambda i: x[i] ** 2)

    gradient: Any = pe.grad(squares)
    np.testing.assert_allclose(gradient.debug(X), 2.0 * X)
    with pytest.raises(DerivativeArgumentError, match="cannot look for nan"):
        gradient.debug(X, nan=True)
