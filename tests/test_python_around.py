"""Kernels among what else Python has: decorators, partials, notebooks, the REPL, copies."""

from __future__ import annotations

import copy
import enum
import functools
import inspect
import linecache
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.errors import ControlFlowError, KernelTypeError
from peffects.kernels.kernel import Kernel

X = np.arange(6.0)


def specializations(kernel: Any) -> int:
    return sum(map(len, kernel._specializations.values()))


# --- ways to be called ---------------------------------------------------------------------------


@pe.kernel
def summed(first: Any, *others: Any, scale: Any = 1.0, **named: Any) -> Any:
    total = first
    for value in others:
        total = total + value
    for name in named:
        total = total + named[name]
    return scale * total


def test_starred_parameters() -> None:
    assert summed(1.0) == 1.0
    assert summed(1.0, 2.0, 3.0) == 6.0
    assert summed(1.0, 2.0, scale=2.0) == 6.0
    assert summed(1.0, 2.0, a=3.0, b=4.0) == 10.0
    assert summed(1.0, 2.0, b=4.0, a=3.0, scale=10.0) == 100.0
    for _ in range(2):
        assert summed(*[1.0, 2.0], **{"scale": 3.0}) == 9.0


def test_starred_arguments_inside_a_kernel() -> None:
    outer = pe.kernel(lambda values, options: summed(*values, **options))
    assert outer((1.0, 2.0, 3.0), {"scale": 2.0}) == 12.0


@pe.kernel
def strict(x: Any, /, y: Any, *, z: Any = 1.0) -> Any:
    return x + y * z


def test_positional_only_and_keyword_only_parameters() -> None:
    assert strict(1.0, 2.0) == strict(1.0, y=2.0) == 3.0
    assert strict(1.0, 2.0, z=3.0) == 7.0
    with pytest.raises(TypeError, match="positional"):
        strict(1.0, 2.0, 3.0)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="positional-only"):
        strict(x=1.0, y=2.0)  # type: ignore[call-overload]


def first_scaled(a: Any, x: Any, *, scale: Any = 1.0) -> Any:
    return scale * a[0] * x


def test_partials_are_kernels_and_are_called_in_kernels() -> None:
    array = np.ones(3)
    partial = functools.partial(first_scaled, array, scale=2.0)
    kernel, outer = pe.kernel(partial), pe.kernel(lambda x: partial(x))
    for value in (1.0, 5.0):
        array[0] = value  # read again at each call
        assert kernel(3.0) == outer(3.0) == 6.0 * value
    assert kernel(3.0, scale=1.0) == 15.0
    of_kernel: Any = functools.partial(summed, 1.0, scale=2.0)
    assert of_kernel(4.0) == 10.0


def doubling(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def doubled(*args: Any, **kwargs: Any) -> Any:
        return 2.0 * function(*args, **kwargs)

    return doubled


@pe.kernel
@doubling
def inside(x: Any, y: Any = 1.0) -> Any:
    """Doubled inside."""
    return x + y if x > 0.0 else y


@doubling
@pe.kernel
def outside(x: Any, y: Any = 1.0) -> Any:
    return x + y


def test_other_decorators_on_both_sides() -> None:
    assert inside(1.0) == outside(1.0) == 4.0
    assert inside(1.0, y=3.0) == outside(1.0, y=3.0) == 8.0
    assert inside(-1.0) == 2.0
    assert list(inspect.signature(inside).parameters) == ["x", "y"]
    assert inside.__doc__ == "Doubled inside."


def test_nested_functions_and_closures() -> None:
    def make(factor: float) -> Any:
        def scale(x: Any) -> Any:
            def inner(value: Any) -> Any:
                return factor * value if value > 1.0 else value

            return pe.table(lambda i: inner(x[i]))

        return pe.kernel(scale)

    twice, thrice = make(2.0), make(3.0)
    assert twice(X).tolist() == [0.0, 1.0, 4.0, 6.0, 8.0, 10.0]
    assert thrice(X).tolist() == [0.0, 1.0, 6.0, 9.0, 12.0, 15.0]


class Scaled:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: Any) -> Any:
        return self.factor * x if x > 0.0 else x

    def method(self, x: Any) -> Any:
        return self.factor * x


def test_callable_objects_and_bound_methods() -> None:
    scaled = Scaled(2.0)
    called, bound = pe.kernel(scaled), pe.kernel(scaled.method)
    assert called(3.0) == bound(3.0) == 6.0
    scaled.factor = 5.0
    assert called(3.0) == bound(3.0) == 15.0
    assert called(-3.0) == -3.0


def test_functions_of_libraries_are_kernels() -> None:
    assert pe.kernel(math.sin)(1.0) == pytest.approx(math.sin(1.0))
    assert pe.kernel(np.exp)(1.0) == pytest.approx(math.e)


# --- static arguments ----------------------------------------------------------------------------


class Mode(enum.Enum):
    DOUBLE = 2
    TRIPLE = 3


def test_what_is_no_number_is_static() -> None:
    @pe.kernel
    def scaled(x: Any, mode: Any) -> Any:
        return x * (2.0 if mode in ("double", Mode.DOUBLE) else 3.0)

    for _ in range(2):
        assert scaled(1.0, "double") == scaled(1.0, Mode.DOUBLE) == 2.0
        assert scaled(1.0, "triple") == scaled(1.0, Mode.TRIPLE) == scaled(1.0, None) == 3.0
    assert specializations(scaled) == 5


def test_functions_are_static_arguments() -> None:
    @pe.kernel
    def mapped(x: Any, function: Any) -> Any:
        return pe.table(lambda i: function(x[i]))

    def halved(value: Any) -> Any:
        return value / 2 if value > 1.0 else value

    for _ in range(2):
        np.testing.assert_allclose(mapped(X, math.sin), np.sin(X))
        np.testing.assert_allclose(mapped(X, halved), np.where(X > 1.0, X / 2, X))
        np.testing.assert_allclose(mapped(X, pe.kernel(halved)), np.where(X > 1.0, X / 2, X))
    closures = [lambda v, k=k: v + k for k in (1.0, 2.0)]
    assert [mapped(X, closure)[0] for closure in closures] == [1.0, 2.0]


@pe.kernel
def power(x: Any, exponent: Any) -> Any:
    weights = [1.0, 2.0, 4.0, 8.0]
    result = weights[exponent]  # a Python list: only Python's own number can index it
    for _ in [None] * exponent:
        result = result * x
    return result


def test_numbers_may_be_static() -> None:
    kernel = pe.kernel(power.__pe_function__)
    with pytest.raises(ControlFlowError):
        kernel(3.0, 2)
    for _ in range(2):
        assert kernel(3.0, pe.static(2)) == 36.0
        assert kernel(3.0, exponent=pe.static(1)) == 6.0
        assert kernel(2.0, pe.static(2)) == 16.0
    assert specializations(kernel) == 2
    assert kernel.debug(3.0, pe.static(2)) == 36.0
    assert pe.grad(kernel)(3.0, pe.static(2)) == 24.0
    assert kernel.lower(float, pe.static(1)).compile()(3.0, pe.static(1)) == 6.0
    with pytest.raises(KernelTypeError, match="is not what it was"):
        kernel.lower(float, pe.static(1)).compile()(3.0, pe.static(2))


def test_static_values_are_told_by_type_and_value() -> None:
    described = pe.kernel(lambda x, tag: x if isinstance(tag, int) else -x)
    assert described(1.0, pe.static(2)) == 1.0
    assert described(1.0, pe.static(2.0)) == -1.0
    assert pe.static(2) == pe.static(2) != pe.static(2.0)
    assert repr(pe.static((1, "a"))) == "static((1, 'a'))"
    assert hash(pe.static(2)) == hash(pe.static(2))


def test_static_values_inside_kernels_and_captured() -> None:
    space = {"exponent": pe.static(2)}
    outer = pe.kernel(lambda x: power(x, pe.static(1)) + power(x, space["exponent"]))
    assert outer(3.0) == 6.0 + 36.0
    space["exponent"] = pe.static(3)
    assert outer(3.0) == 6.0 + 216.0


def test_what_can_change_is_not_static() -> None:
    values: list[Any] = [[1], {}, np.ones(2)]
    for value in values:
        with pytest.raises(KernelTypeError, match="which can change"):
            pe.static(value)
    with pytest.raises(KernelTypeError, match="a value of the kernel is said to be static"):
        pe.kernel(lambda x: pe.static(x))(1.0)


# --- copies --------------------------------------------------------------------------------------


def test_copies_of_kernels_work() -> None:
    assert copy.copy(inside) is inside and copy.deepcopy(inside) is inside
    factor = 3.0
    local = pe.kernel(lambda x: factor * x)
    assert local(2.0) == 6.0
    for made in (copy.copy(local), copy.deepcopy(local), copy.deepcopy({"k": local})["k"]):
        assert isinstance(made, Kernel)
        assert made(2.0) == 6.0
    gradient = pe.grad(local)
    assert copy.copy(gradient)(2.0) == copy.deepcopy(gradient)(2.0) == 3.0


def test_kernels_pickle_by_name() -> None:
    for kernel in (summed, inside):
        assert pickle.loads(pickle.dumps(kernel)) is kernel
    bound = pickle.loads(pickle.dumps(functools.partial(summed, 1.0)))
    assert bound(2.0) == 3.0


# --- where source comes from ---------------------------------------------------------------------

SOURCE = """
import peffects as pe

limit = 1.0

@pe.kernel
def clipped(x):
    def clip(v):
        if v > limit:
            return limit
        return v

    return pe.table(lambda i: clip(x[i]))
"""


@pytest.mark.parametrize("name", ["<ipython-input-1-0a1b2c>", "/tmp/ipykernel_7/123456.py"])
def test_cells_of_notebooks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook compiles a cell under a name of its own, and puts its lines into linecache."""
    lines = SOURCE.splitlines(keepends=True)
    monkeypatch.setitem(linecache.cache, name, (len(SOURCE), None, lines, name))
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(SOURCE, name, "exec"), space)
    assert space["clipped"](X).tolist() == [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    space["limit"] = 2.0  # another cell assigns it
    assert space["clipped"](X).tolist() == [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]


def test_a_cell_that_is_run_again_after_an_edit(monkeypatch: pytest.MonkeyPatch) -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    for number, text in enumerate([SOURCE, SOURCE.replace("return v", "return -v")]):
        name = f"<ipython-input-{number}>"
        lines = text.splitlines(keepends=True)
        monkeypatch.setitem(linecache.cache, name, (len(text), None, lines, name))
        exec(compile(text, name, "exec"), space)
    assert space["clipped"](X).tolist() == [0.0, -1.0, 1.0, 1.0, 1.0, 1.0]


def test_without_source_the_message_says_so() -> None:
    space: dict[str, Any] = {"__name__": "without_source"}
    exec(SOURCE, space)
    with pytest.raises(ControlFlowError) as caught:
        space["clipped"](X)
    assert "The source of <string>" in caught.value.fix
    assert "pe.where" in caught.value.fix
    exec("k = pe.kernel(lambda x: pe.table(lambda i: pe.where(x[i] > s, s, x[i])))\ns = 1.0", space)
    assert space["k"](X).tolist() == [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    space["s"] = 2.0
    assert space["k"](X).tolist() == [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]


def test_attributes_that_code_without_source_reads_are_not_stale() -> None:
    class Part:
        size = 2.0

    class Box:
        def __init__(self) -> None:
            self.size = 2.0
            self.part = Part()
            self.values = [1.0, 2.0]
            self.array = np.ones(2)

        def scale(self, x: Any) -> Any:
            return self.size * x

    box = Box()
    space: dict[str, Any] = {"box": box}
    exec(
        "def plain(x): return x * box.size\n"
        "def deep(x): return x * box.part.size\n"
        "def method(x): return box.scale(x)\n"
        "def item(x): return x * box.values[1]\n"
        "def array(x): return x * box.array[0]\n",
        space,
    )
    kernels = [pe.kernel(space[name]) for name in ("plain", "deep", "method", "item")]
    assert [kernel(1.0) for kernel in kernels] == [2.0] * 4
    box.size = box.part.size = box.values[1] = 3.0
    assert [kernel(1.0) for kernel in kernels] == [3.0] * 4
    with pytest.raises(KernelTypeError, match=r"`array` .* has no source(.|\n)*argument"):
        pe.kernel(space["array"])(1.0)


REPL = """
import numpy as np
import peffects as pe
@pe.kernel
def total(x):
    return pe.sum(lambda i: x[i])

print("total is", total(np.ones(3)))
@pe.kernel
def sign(x):
    if x > 0.0:
        return 1.0
    return -1.0

try: print("sign is", sign(-2.0))
except pe.PeffectsError as error: print("refused:", error.code, error.fix)

"""


def test_the_interactive_interpreter() -> None:
    """Before Python 3.13 it keeps no source: loops work, and `if` is refused with the reason."""
    done = subprocess.run(
        [sys.executable, "-i", "-q"],
        input=REPL,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHON_BASIC_REPL": "1"},
        check=False,
    )
    assert "total is 3.0" in done.stdout, done.stderr
    has_source = "sign is -1.0" in done.stdout
    assert has_source or "refused: PE204 The source of <stdin>" in done.stdout, done.stdout
