"""Kernels as Python objects: calls, arguments, specializations, results, methods, errors."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.codegen.load import loader
from peffects.errors import (
    BoundsError,
    ControlFlowError,
    DivisionError,
    IndexSetMismatchError,
    KernelTypeError,
    PeffectsError,
    ValueRangeError,
)
from peffects.ir.evaluate import evaluate
from peffects.kernels.kernel import Kernel

X = np.arange(6.0)
A = np.arange(12.0).reshape(3, 4)


@pe.kernel
def dot(x: Any, y: Any) -> Any:
    """The sum of products."""
    return pe.sum(lambda i: x[i] * y[i])


@pe.kernel
def copied(x: Any) -> Any:
    return pe.table(lambda i, j: x[i, j] * 1.0)


@pe.kernel
def shifted(x: Any, by: Any = 2.0, *, sign: str = "+") -> Any:
    return x + by if sign == "+" else x - by


def specializations(kernel: Any) -> int:
    return sum(map(len, kernel._specializations.values()))


def fresh(kernel: Any) -> Kernel[..., Any]:
    """The same kernel without what it has compiled."""
    return Kernel(kernel.__pe_function__)


@pytest.fixture
def compiled() -> Iterator[Callable[[], int]]:
    """How many modules were made, by numba or from the disk, since the test began."""

    def count() -> int:
        return loader.statistics.compiled + loader.statistics.from_disk

    before = count()
    yield lambda: count() - before


# --- specializations -----------------------------------------------------------------------------


def test_new_sizes_compile_nothing(compiled: Callable[[], int]) -> None:
    kernel = fresh(dot)
    kernel(X, X)
    made = compiled()
    for size in (0, 1, 7, 1000, 100_003):
        x = np.full(size, 2.0)
        assert kernel(x, x) == 4.0 * size
    assert compiled() == made
    assert specializations(kernel) == 1


def test_one_specialization_for_all_calls_of_the_same_types() -> None:
    kernel = fresh(dot)
    with np.errstate(all="raise"):
        for x in (X, X[::2], X[::-1], X.astype(">f8"), np.asarray(X, order="F")):
            assert kernel(x, x) == float(x @ x)
    assert specializations(kernel) == 1
    assert kernel(X.astype("f4"), X.astype("f4")).dtype == np.float32
    assert kernel(np.arange(3), np.arange(3)) == 5
    assert specializations(kernel) == 3
    assert repr(kernel) == "<kernel dot, 3 specializations>"


def test_python_numbers_are_told_by_their_type() -> None:
    kernel = fresh(shifted)
    assert kernel(1) == 3.0 and kernel(5) == 7.0
    assert type(kernel(1, 2)) is np.int64
    assert type(kernel(np.float32(1), 2)) is np.float32
    assert type(kernel(np.float32(1), np.float64(2))) is np.float64
    assert kernel(True) == 3.0
    assert specializations(kernel) == 5
    with pytest.raises(ValueRangeError, match="is no int64"):
        kernel(1, 1 << 63)


def test_keywords_and_defaults() -> None:
    kernel = fresh(shifted)
    assert [kernel(1.0), kernel(1.0, 3.0), kernel(x=1.0, by=3.0), kernel(by=3.0, x=1.0)] == [
        3.0, 4.0, 4.0, 4.0,
    ]  # fmt: skip
    for _ in range(2):
        assert kernel(1.0, sign="-") == -1.0
        assert kernel(1.0, sign="+") == 3.0
        assert kernel(1.0, by=0.5, sign="-") == 0.5
    with pytest.raises(TypeError, match="missing"):
        kernel()
    with pytest.raises(TypeError, match="unexpected keyword"):
        kernel(1.0, by=3.0, colour="red")


def test_a_dict_argument_is_no_keyword() -> None:
    @pe.kernel
    def chosen(first: Any, b: Any = None) -> Any:
        return first["b"] if b is None else b

    assert chosen({"b": 1.0}) == 1.0
    with pytest.raises((KernelTypeError, TypeError, PeffectsError)):
        chosen(b=1.0)  # type: ignore[call-overload]
    assert chosen(2.0, b=3.0) == 3.0
    assert chosen({"b": 4.0}) == 4.0


# --- arrays of all kinds -------------------------------------------------------------------------

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda a: a,
    "Fortran order": np.asfortranarray,
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "strided": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
    "reversed": lambda a: np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
    "another byte order": lambda a: a.astype(a.dtype.newbyteorder()),
    "unaligned": lambda a: np.frombuffer(b"-" + a.tobytes(), a.dtype, offset=1).reshape(a.shape),
    "memory map": lambda a: a.view(np.memmap),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_of_any_layout(layout: str) -> None:
    array = LAYOUTS[layout](A)
    for _ in range(2):  # the general way, then the quick one
        np.testing.assert_array_equal(copied(array), A)
    array = array.view()
    array.flags.writeable = False
    np.testing.assert_array_equal(copied(array), A)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0)])
def test_empty_arrays(shape: tuple[int, int]) -> None:
    assert copied(np.empty(shape)).shape == shape


def test_arrays_without_axes_are_numbers() -> None:
    kernel = fresh(shifted)
    for value in (np.array(1.5), np.float64(1.5), np.array(1.5, ">f8")):
        assert kernel(value, value) == 3.0
        assert kernel(value, value) == 3.0
    assert specializations(kernel) == 1


class Exported:
    """An array of another library."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__


class Capsule:
    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("foreign", [Exported, Capsule])
def test_arrays_of_other_libraries(foreign: Callable[[Any], Any]) -> None:
    kernel = fresh(dot)
    for _ in range(2):
        assert kernel(foreign(X), X) == 55.0
    assert kernel(foreign(X.astype("f4")), X) == 55.0
    assert specializations(kernel) == 2


@pytest.mark.parametrize("foreign", [Exported, Capsule])
@pytest.mark.parametrize(
    "array",
    [
        np.broadcast_to(2.0, (3, 4)),  # read-only, with strides of 0
        np.asfortranarray(A),
        np.repeat(A, 2, axis=1)[:, ::2],
        np.empty((0, 4)),
    ],
    ids=["read-only", "Fortran order", "strided", "empty"],
)
def test_arrays_of_other_libraries_of_any_layout(foreign: Callable[[Any], Any], array: Any) -> None:
    np.testing.assert_array_equal(copied(foreign(array)), array)


@pytest.mark.parametrize("foreign", [Exported, Capsule])
def test_numbers_of_other_libraries_are_numbers(foreign: Callable[[Any], Any]) -> None:
    result = pe.kernel(lambda x: x + 1.0)(foreign(np.array(1.5)))
    assert result == 2.5 and type(result) is np.float64


class OnAnotherDevice:
    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("the array is on a GPU")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


def test_arrays_that_are_not_in_memory_are_refused() -> None:
    with pytest.raises(KernelTypeError, match=r"class OnAnotherDevice: the array is on a GPU"):
        dot(OnAnotherDevice(), X)


class AnswersToAnything:
    size = 2.0

    def __getattr__(self, name: str) -> Any:
        return 7.0


def test_an_object_that_answers_to_any_name_is_no_array() -> None:
    found = AnswersToAnything()
    assert pe.kernel(lambda x: x * found.size * found.other)(1.0) == 14.0


def test_masked_arrays_are_refused() -> None:
    masked = np.ma.masked_array(X, mask=X > 3)
    for args in ((masked, X), (X, masked)):
        with pytest.raises(KernelTypeError, match=r"masked array.*\n.*\n.*x\.filled"):
            dot(*args)


@pytest.mark.parametrize("array", [X.astype("f2"), X.astype("U"), X.astype(object)])
def test_other_dtypes_are_refused(array: Any) -> None:
    with pytest.raises(KernelTypeError, match=array.dtype.name):
        dot(array, X)


def test_a_list_is_a_tree_of_numbers() -> None:
    @pe.kernel
    def total(values: Any) -> Any:
        return values[0] * values[1]

    assert total([2.0, 3.0]) == 6.0
    assert total((2.0, 3)) == 6.0
    with pytest.raises(ControlFlowError, match=r"list is indexed with a symbol(.|\n)*an array"):
        dot([1.0, 2.0], X)


@dataclass
class Layer:
    weight: Any
    bias: Any
    name: str = ""


def test_trees_of_arguments_and_results() -> None:
    @pe.kernel
    def apply(layers: Any, x: Any) -> Any:
        first = layers["first"]
        y = pe.table(lambda i: first.bias + pe.sum(lambda j: first.weight[i, j] * x[j]))
        return Layer(y, first.bias, first.name), [y]

    for scale in (1.0, 2.0):
        result, (y,) = apply({"first": Layer(scale * A, scale, "a")}, np.ones(4))
        assert isinstance(result, Layer) and result.name == "a" and result.bias == scale
        np.testing.assert_array_equal(result.weight, scale * (A.sum(1) + 1))
        assert not np.shares_memory(result.weight, y)
    assert specializations(apply) == 1
    assert apply({"first": Layer(A, 1.0, "b")}, np.ones(4))[0].name == "b"
    assert specializations(apply) == 2


# --- results -------------------------------------------------------------------------------------

RETURNS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "its argument": (lambda x: x, A),
    "a row": (lambda x: x[1], A[1]),
    "twice the same": (lambda x: (x, x), (A, A)),
    "in a dict": (lambda x: {"x": x, "row": x[0]}, {"x": A, "row": A[0]}),
    "what it captures": (lambda x: A, A),
}


@pytest.mark.parametrize("what", RETURNS)
def test_results_are_fresh(what: str) -> None:
    function, expected = RETURNS[what]
    kernel = Kernel(function)
    found = [value for _ in range(3) for value in leaves(kernel(A))]
    for array, value in zip(found, 3 * leaves(expected), strict=True):
        np.testing.assert_array_equal(array, value)
    for k, array in enumerate(found):
        assert array.flags.writeable
        assert not any(np.shares_memory(array, other) for other in [A, *found[:k]])


def leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple | dict):
        return list(value.values() if isinstance(value, dict) else value)
    return [value]


def test_results_that_are_no_numbers_come_as_they_are() -> None:
    @pe.kernel
    def described(x: Any) -> Any:
        return "name", None, [x, len(x)], ()

    assert described(X[:1]) == ("name", None, [X[:1], 1], ())
    assert described(X[1:2]) == ("name", None, [X[1:2], 1], ())


# --- kernels among other things ------------------------------------------------------------------


def test_kernels_call_kernels() -> None:
    @pe.kernel
    def norm(x: Any) -> Any:
        return pe.sqrt(dot(x, x))

    assert norm(np.array([3.0, 4.0])) == 5.0
    np.testing.assert_allclose(pe.grad(norm)(np.array([3.0, 4.0])), [0.6, 0.8])


class Model:
    factor = 2.0

    def __init__(self, weight: Any, bias: float) -> None:
        self.weight = weight
        self.bias = bias

    @pe.kernel
    def predict(self, x: Any) -> Any:
        """The prediction."""
        return self.bias + pe.sum(lambda i: self.weight[i] * x[i])

    @staticmethod
    @pe.kernel
    def twice(x: Any) -> Any:
        return 2 * x

    @classmethod
    @pe.kernel
    def scaled(cls, x: Any) -> Any:
        return cls.factor * x


def test_methods() -> None:
    model, other = Model(np.ones(6), 1.0), Model(X, 0.0)
    predict = fresh(Model.predict)
    for _ in range(2):
        assert (model.predict(X), other.predict(X), Model.predict(model, X)) == (16.0, 55.0, 16.0)
    model.weight, model.bias = np.full(6, 2.0), 0.5
    assert model.predict(X) == 30.5
    assert predict(model, X) == 30.5
    assert Model.twice(2.0) == model.twice(2.0) == Model.scaled(2.0) == model.scaled(2.0) == 4.0
    assert Model.predict.__doc__ == "The prediction."


class Sized:
    @pe.kernel
    def scaled(self, x: Any) -> Any:
        return self.size * x

    def __init__(self, size: float) -> None:
        self.size = size


def test_kernels_of_bound_methods() -> None:
    sized = Sized(2.0)
    kernel = pe.kernel(sized.scaled)
    assert kernel(3.0) == 6.0
    sized.size = 5.0
    assert kernel(3.0) == 15.0
    assert pe.kernel(kernel)(3.0) == 15.0


async def waiting(x: Any) -> Any:
    return x


def yielding(x: Any) -> Any:
    yield x


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (3, "3, which is no function"),
        (Sized, "the class `Sized`"),
        (classmethod(lambda cls, x: x), "below `@classmethod`"),
        (staticmethod(lambda x: x), "below `@staticmethod`"),
        (property(lambda self: 1.0), "below `@property`"),
        (waiting, "an `async` function"),
        (yielding, "which yields"),
    ],
)
def test_what_is_no_function_of_numbers_is_refused_at_once(what: Any, message: str) -> None:
    with pytest.raises(KernelTypeError, match=message) as caught:
        pe.kernel(what)
    assert "test_kernels.py" in caught.value.at.file


def test_a_kernel_looks_like_its_function() -> None:
    assert dot.__name__ == "dot"  # type: ignore[attr-defined]
    assert dot.__doc__ == "The sum of products."
    assert list(inspect.signature(shifted).parameters) == ["x", "by", "sign"]
    assert repr(fresh(dot)) == "<kernel dot, 0 specializations>"
    assert dot.__wrapped__ is dot.__pe_function__  # type: ignore[attr-defined]


def test_kernels_of_a_module_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(dot)) is dot
    assert pickle.loads(pickle.dumps(Model.predict)) is Model.predict
    gradient = pickle.loads(pickle.dumps(pe.grad(dot, (0, 1))))
    np.testing.assert_array_equal(gradient(X, 2 * X)[1], X)


def test_local_kernels_cannot_be_pickled() -> None:
    @pe.kernel
    def local(x: Any) -> Any:
        return x

    with pytest.raises((pickle.PicklingError, AttributeError), match="local"):
        pickle.dumps(local)


# --- errors --------------------------------------------------------------------------------------


def line_of(function: Any, text: str) -> int:
    """The number of the line of `function` that ends with a comment `text`."""
    lines, first = inspect.getsourcelines(function.__pe_function__)
    return first + next(k for k, line in enumerate(lines) if line.rstrip().endswith(f"# {text}"))


def assert_same_error(kernel: Any, *args: Any) -> PeffectsError:
    """Compiled code, the first and the second time, and the evaluator fail alike."""
    errors = []
    for _ in range(2):
        with pytest.raises(PeffectsError) as raised:
            kernel(*args)
        errors.append(raised.value)
    staged = kernel.stage(args, {})
    with pytest.raises(PeffectsError) as raised:
        evaluate(staged.program, staged.arguments(args, {}))
    errors.append(raised.value)
    assert len({(type(error), str(error)) for error in errors}) == 1
    assert errors[0].at.line == line_of(kernel, "here")
    return errors[0]


def test_bounds_errors_have_index_and_line() -> None:
    @pe.kernel
    def neighbours(x: Any) -> Any:
        return pe.table(
            lambda i: x[i + 1],  # here
            over=x.index,
        )

    error = assert_same_error(neighbours, X)
    assert isinstance(error, BoundsError)
    assert "index 6 is out of bounds for axis 0 of `x` with size 6" in str(error)
    big = np.zeros(1_000_000)
    with pytest.raises(BoundsError, match="index 1000000 is out of bounds"):
        neighbours(big)


@pytest.mark.parametrize("kernel", [lambda x: x[-10], lambda x: x[-10] + pe.sum(x)])
def test_a_negative_literal_out_of_bounds_is_told_as_it_was_written(kernel: Any) -> None:
    for call in (pe.kernel(kernel), pe.kernel(kernel).debug):
        with pytest.raises(BoundsError, match=r"index -10 is out of bounds for axis 0 of `x` with"):
            call(X)


def test_accumulators_take_negative_literals() -> None:
    @pe.kernel
    def ends(x: Any, n: Any) -> Any:
        h = pe.accumulator(n)
        for i in pe.par(x):
            h[0] += x[i]
            h[-1] += 1.0
        return h

    assert ends(np.ones(5), 3).tolist() == [5.0, 0.0, 5.0]
    with pytest.raises(BoundsError, match="out of bounds for axis 0 of `h`"):
        ends(np.ones(1), 0)


def test_the_first_failure_in_index_order_is_raised() -> None:
    @pe.kernel
    def gathered(x: Any, at: Any) -> Any:
        return pe.table(lambda i: x[at[i]])

    at = np.zeros(300_000, int)
    at[[41_000, 250_000, 299_999]] = 77, 88, -99
    for threads in (1, 2, 4):
        with pe.threads(threads), pytest.raises(BoundsError, match="index 77 is out of bounds"):
            gathered(X, at)


def test_integers_of_nan() -> None:
    @pe.kernel
    def floored(x: Any) -> Any:
        return pe.table(
            lambda i: int(x[i]),  # here
        )

    assert floored(X + 0.5).tolist() == [0, 1, 2, 3, 4, 5]
    assert isinstance(assert_same_error(floored, np.array([1.0, np.nan])), ValueRangeError)
    assert isinstance(assert_same_error(floored, np.array([np.inf])), ValueRangeError)


def test_division_by_zero() -> None:
    @pe.kernel
    def divided(n: Any, x: Any) -> Any:
        return pe.table(
            lambda i: n // x[i],  # here
        )

    assert divided(7, np.array([2, -2])).tolist() == [3, -4]
    assert isinstance(assert_same_error(divided, 7, np.array([1, 0])), DivisionError)


def test_index_sets_that_differ_at_launch() -> None:
    @pe.kernel
    def product(a: Any, b: Any) -> Any:
        return pe.table(
            lambda i, j: pe.sum(lambda k: a[i, k] * b[k, j])  # here
        )

    np.testing.assert_array_equal(product(A, A.T), A @ A.T)
    error = assert_same_error(product, A, A)
    assert isinstance(error, IndexSetMismatchError)
    assert "axis 0 of `b` has length 3" in str(error)
    assert "axis 1 of `a` has length 4" in str(error)


def test_sizes_given_as_numbers_are_checked_at_launch() -> None:
    @pe.kernel
    def first(x: Any, n: Any) -> Any:
        return pe.sum(lambda i: x[i], over=pe.Fin(n))

    assert first(X, 6) == 15.0 and first(X, np.int32(6)) == 15.0
    with pytest.raises(IndexSetMismatchError, match="axis 0 of `x` has length 6"):
        first(X, 5)


def test_a_kernel_works_after_an_error() -> None:
    for _ in range(3):
        with pytest.raises(IndexSetMismatchError):
            dot(X, X[1:])
        assert dot(X, X) == 55.0


def test_an_operation_outside_kernels_fails_at_the_line_of_its_caller() -> None:
    empty = np.zeros(0)
    assert pe.max(np.ones(3)) == 1.0
    with pytest.raises(PeffectsError, match="empty") as first:
        pe.max(empty)  # one
    with pytest.raises(PeffectsError, match="empty") as second:
        pe.max(empty)  # two
    assert "# one" in first.value.at.snippet()
    assert "# two" in second.value.at.snippet()
