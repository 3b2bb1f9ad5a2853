"""Objects of the user's classes in kernels: operators, `len`, `in` and truth are staged like calls.

What their special methods read is read again at each call, and their control flow is staged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.errors import KernelTypeError, MergeError

X = np.arange(6.0)


class Unit:
    """A number with every special method, and one that changes."""

    def __init__(self, size: float) -> None:
        self.size = size
        self.parts = {"a": size}

    def __getitem__(self, key: str) -> Any:
        return self.parts[key]

    def __mul__(self, other: Any) -> Any:
        return self.size * other

    def __radd__(self, other: Any) -> Any:
        return other + self.size

    def __neg__(self) -> Any:
        return -self.size

    def __lt__(self, other: Any) -> Any:
        return self.size < other

    def __eq__(self, other: object) -> Any:
        return self.size == other

    def __hash__(self) -> int:
        return 7

    def __len__(self) -> int:
        return int(self.size)

    def __bool__(self) -> bool:
        return self.size > 2.0

    def __iter__(self) -> Iterator[Any]:
        return iter([self.size])

    def __contains__(self, key: object) -> bool:
        return self.size > 2.0

    def __abs__(self) -> Any:
        return self.size

    def __float__(self) -> float:
        return self.size

    def __round__(self) -> Any:
        return self.size

    def __call__(self, x: Any) -> Any:
        return self.size * x


UNIT = Unit(2.0)
USES: dict[str, Callable[[Any], Any]] = {
    "item": lambda x: x * UNIT["a"],
    "operator": lambda x: UNIT * x,
    "reflected operator": lambda x: x + UNIT,
    "negation": lambda x: x * -UNIT,
    "comparison": lambda x: x if UNIT < 2.5 else -x,
    "equality": lambda x: x if UNIT == 2.0 else -x,
    "inequality": lambda x: x if UNIT != 2.0 else -x,
    "length": lambda x: x * len(UNIT),
    "condition": lambda x: x if UNIT else -x,
    "not": lambda x: x if not UNIT else -x,
    "comprehension": lambda x: sum([part * x for part in UNIT]),
    "in": lambda x: x if "a" in UNIT else -x,
    "not in": lambda x: x if "a" not in UNIT else -x,
    "abs": lambda x: x * abs(UNIT),
    "float": lambda x: x * float(UNIT),
    "round": lambda x: x * round(UNIT),
    "call": lambda x: UNIT(x),
}


@pytest.mark.parametrize("use", USES)
def test_what_special_methods_read_is_never_stale(use: str) -> None:
    function = USES[use]
    kernel = pe.kernel(function)
    for size in (2.0, 3.0, 2.0):
        UNIT.size = UNIT.parts["a"] = size
        assert kernel(1.5) == function(1.5)


def test_and_gives_an_object_or_a_value_which_cannot_be_one() -> None:
    with pytest.raises(MergeError):
        pe.kernel(lambda x: x * (UNIT and 3.0))(1.0)


class Vector:
    """Numbers of a kernel put together by the user."""

    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y

    def __add__(self, other: Vector) -> Vector:
        return Vector(self.x + other.x, self.y + other.y)

    def __rmul__(self, factor: Any) -> Vector:
        return Vector(factor * self.x, factor * self.y)

    def __matmul__(self, other: Vector) -> Any:
        return self.x * other.x + self.y * other.y

    def __abs__(self) -> Any:
        square = self @ self
        return square**0.5 if square > 1.0 else square  # staged: a branch on a symbol

    def __getitem__(self, place: int) -> Any:
        return self.x if place == 0 else self.y

    def __lt__(self, other: Vector) -> Any:
        return abs(self) < abs(other)


def test_special_methods_compute_with_symbols() -> None:
    def lengths(x: Any) -> Any:
        unit = Vector(0.0, 0.5)
        return pe.table(lambda i: abs(x[i] * unit + Vector(0.1, x[i]))), unit[1]

    expected = np.hypot(0.1, 1.5 * X)
    expected[0] = 0.01
    lengths_found, half = pe.kernel(lengths)(X)
    np.testing.assert_allclose(lengths_found, expected)
    assert half == 0.5


def test_comparisons_of_objects_may_be_symbols() -> None:
    def smaller(x: Any, y: Any) -> Any:
        return x if Vector(x, 0.0) < Vector(y, 0.0) else y

    kernel = pe.kernel(smaller)
    assert kernel(3.0, 2.0) == 2.0 and kernel(2.0, 3.0) == 2.0


class Sub(Unit):
    def __rmul__(self, other: Any) -> Any:
        return 100.0


class Left:
    def __mul__(self, other: Any) -> Any:
        return NotImplemented


def test_the_order_of_python_is_kept() -> None:
    assert pe.kernel(lambda x: x + 0.0 * (UNIT * Sub(1.0)))(1.0) == 1.0
    sub, left = Sub(3.0), Left()
    assert pe.kernel(lambda x: x + left * sub)(1.0) == 101.0
    with pytest.raises(TypeError, match=r"for \*: 'Left' and 'Left'"):
        pe.kernel(lambda x: x + left * left)(1.0)


def test_a_replaced_method_is_not_stale() -> None:
    class Model:
        def apply(self, x: Any) -> Any:
            return 2.0 * x

        def __mul__(self, x: Any) -> Any:
            return 2.0 * x

    model = Model()
    kernel = pe.kernel(lambda x: model.apply(x) + model * x)
    assert kernel(1.0) == 4.0
    Model.apply = lambda self, x: 3.0 * x  # type: ignore[method-assign]
    assert kernel(1.0) == 5.0
    Model.__mul__ = lambda self, x: 7.0 * x  # type: ignore[method-assign]
    assert kernel(1.0) == 10.0


class Counting:
    def __iter__(self) -> Counting:
        return self

    def __next__(self) -> float:
        return 1.0


def test_iterators_of_the_user_are_refused() -> None:
    counting = Counting()

    def summed(x: Any) -> Any:
        for _ in counting:
            x = x + 1.0
        return x

    with pytest.raises(KernelTypeError, match="an iterator of the class Counting"):
        pe.kernel(summed)(1.0)


FACTOR = 2.0


def scaled(value: Any) -> Any:
    return FACTOR * value


def test_what_a_library_calls_is_called_as_a_kernel_would(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = pe.kernel(lambda x: next(iter(map(scaled, [x]))))
    assert mapped(1.0) == 2.0
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert mapped(1.0) == 3.0
