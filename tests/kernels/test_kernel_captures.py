"""What a kernel captures is never stale, by the quick way nor by the general one."""

from __future__ import annotations

import importlib
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import peffects as pe
from peffects.kernels.kernel import Kernel

X = np.arange(4.0)
WEIGHT = np.ones(4)
RATE = 2.0


def specializations(kernel: Any) -> int:
    return sum(map(len, kernel._specializations.values()))


@pe.kernel
def weighted(x: Any) -> Any:
    return RATE * pe.sum(lambda i: WEIGHT[i] * x[i])


def test_arrays_and_numbers_are_read_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(weighted.__pe_function__)
    gradient = pe.grad(kernel)
    for rate, weight in ((2.0, np.ones(4)), (3.0, X), (0.5, X[::-1]), (1.0, X.astype(">f8"))):
        monkeypatch.setitem(globals(), "RATE", rate)
        monkeypatch.setitem(globals(), "WEIGHT", weight)
        for _ in range(2):
            assert kernel(X) == rate * (weight @ X)
            np.testing.assert_array_equal(gradient(X), rate * weight)
        weight = weight.copy()
        monkeypatch.setitem(globals(), "WEIGHT", weight)
        weight += 1
        assert kernel(X) == rate * (weight @ X)
    assert specializations(kernel) == specializations(gradient) == 1
    monkeypatch.setitem(globals(), "RATE", 3)  # an int now
    monkeypatch.setitem(globals(), "WEIGHT", np.arange(4))
    assert kernel(X) == 3 * 14
    assert specializations(kernel) == 2
    monkeypatch.setitem(globals(), "WEIGHT", np.ones(5))
    with pytest.raises(pe.PeffectsError, match="axis 0 of"):
        kernel(X)


def test_closures_are_read_at_each_call() -> None:
    factor, weight = 2.0, np.ones(4)

    @pe.kernel
    def scaled(x: Any) -> Any:
        return factor * pe.sum(lambda i: weight[i] * x[i])

    for _ in range(2):
        assert scaled(X) == 12.0
    factor, weight = 3.0, X
    for _ in range(2):
        assert scaled(X) == 42.0
    assert specializations(scaled) == 1


class Settings:
    """What a kernel is told by an object."""

    def __init__(self) -> None:
        self.rate = 2.0
        self.mode = "add"
        self.names = ["a"]

    @property
    def double(self) -> float:
        return 2 * self.rate


OBJECT = Settings()
READS: dict[str, tuple[Any, Callable[[Any], Any], Callable[[Any], None]]] = {
    "an item of a list": ([1.0, 2.0], lambda v: v[1], lambda v: v.__setitem__(1, 5.0)),
    "another type in a list": ([1.0, 2.0], lambda v: v[1], lambda v: v.__setitem__(1, 5)),
    "the length of a list": ([1.0, 2.0], lambda v: len(v) * 1.0, lambda v: v.append(3.0)),
    "the sum of a list": ([1.0, 2.0], lambda v: sum(v), lambda v: v.append(4.0)),
    "the largest of a list": ([1.0, 2.0], lambda v: max(v), lambda v: v.append(4.0)),
    "an unpacked list": ([1.0, 2.0], lambda v: first_of(*v), lambda v: v.reverse()),
    "a slice of a list": ([1.0, 2.0], lambda v: v[1:][0], lambda v: v.reverse()),
    "a truth": ([], lambda v: 1.0 if v else 2.0, lambda v: v.append(0)),
    "a list in a list": ([[1.0], 2], lambda v: v[0][0], lambda v: v[0].insert(0, 7.0)),
    "dict.get": ({"a": 1.0}, lambda v: v.get("a", 0.0), lambda v: v.update(a=2.0)),
    "a missing key": ({"a": 1.0}, lambda v: v.get("b", 0.0), lambda v: v.update(b=2.0)),
    "keys": ({"a": 1.0}, lambda v: 1.0 if "b" in v else 0.0, lambda v: v.update(b=2.0)),
    "values": ({"a": 1.0}, lambda v: sum(v.values()), lambda v: v.update(b=2.0)),
    "items": ({"a": 1.0}, lambda v: product_of(v), lambda v: v.update(b=8.0)),
    "a string": ({"m": "a"}, lambda v: 1.0 if v["m"] == "a" else 0.0, lambda v: v.update(m="b")),
    "an array in a dict": ({"w": X}, lambda v: pe.sum(v["w"]), lambda v: v.update(w=2 * X)),
    "a set": ({1}, lambda v: 1.0 if 2 in v else 0.0, lambda v: v.add(2)),
    "a deque": (deque([1.0]), lambda v: v[0], lambda v: v.appendleft(2.0)),
    "a long list": ([0.0] * 2000, lambda v: sum(v), lambda v: v.__setitem__(70, 1.0)),
    "a long dict": (dict.fromkeys(range(1999), 1.0), lambda v: v[5], lambda v: v.update({5: 2.0})),
    "an attribute": (OBJECT, lambda v: v.rate, lambda v: setattr(v, "rate", v.rate + 1)),
    "getattr": (OBJECT, lambda v: getattr(v, "rate"), lambda v: setattr(v, "rate", v.rate + 1)),  # noqa: B009
    "a property": (OBJECT, lambda v: v.double, lambda v: setattr(v, "rate", v.rate + 1)),
    "a list of an object": (OBJECT, lambda v: 1.0 * len(v.names), lambda v: v.names.append("b")),
    "a mode": (
        OBJECT,
        lambda v: 1.0 if v.mode == "add" else 2.0,
        lambda v: setattr(v, "mode", "mul" if v.mode == "add" else "add"),
    ),
    "a module": (
        types.SimpleNamespace(rate=1.0), lambda v: v.rate, lambda v: setattr(v, "rate", 2.0)
    ),
}  # fmt: skip


def first_of(first: Any, *rest: Any) -> Any:
    return first


def product_of(factors: Any) -> Any:
    found = 1.0
    for name, factor in factors.items():
        found = found * factor * len(name)
    return found


@pytest.mark.parametrize("what", READS)
def test_containers_and_objects_are_never_stale(what: str) -> None:
    held, read, change = READS[what]

    @pe.kernel
    def kernel(x: Any) -> Any:
        return x * read(held)

    def expected() -> Any:
        value = read(held)
        return 2.0 * np.asarray(value)

    before = expected()
    for _ in range(2):
        assert kernel(2.0) == before
    change(held)
    assert expected() != before or "another" in what
    for _ in range(2):
        assert kernel(2.0) == expected()


def test_a_replaced_list_or_dict_compiles_nothing() -> None:
    params: Any = {"w": np.ones(4), "rates": (1.0, 2.0)}

    @pe.kernel
    def scaled(x: Any) -> Any:
        return params["rates"][1] * pe.sum(lambda i: params["w"][i] * x[i])

    assert scaled(X) == 12.0
    params = {"w": X, "rates": (1.0, 0.5)}
    assert scaled(X) == 7.0
    params["rates"] = (0.0, 1.0)
    assert scaled(X) == 14.0
    assert specializations(scaled) == 1


class Params(NamedTuple):
    w: Any
    b: Any


def test_a_replaced_named_tuple_compiles_nothing() -> None:
    params = Params(np.ones(4), 1.0)

    @pe.kernel
    def affine(x: Any) -> Any:
        return params.b + pe.sum(lambda i: params[0][i] * x[i])

    assert affine(X) == 7.0
    params = Params(X, 0.0)
    assert affine(X) == 14.0
    assert specializations(affine) == 1


def test_entries_that_a_kernel_does_not_use_are_no_arguments() -> None:
    held: Any = {"w": np.ones(4), "text": np.array(["a"]), "complex": 1j, "other": np.ones((3, 3))}

    @pe.kernel
    def total(x: Any) -> Any:
        return pe.sum(lambda i: held["w"][i] * x[i])

    assert total(X) == 6.0
    assert [p.name for p in total.stage((X,), {}).program.params] == ["x", "held['w']"]


# --- functions -----------------------------------------------------------------------------------


def scaled_by(factor: Any) -> Callable[[Any], Any]:
    return lambda x: factor * x


def test_one_function_under_two_names() -> None:
    first = second = scaled_by(2.0)

    @pe.kernel
    def both(x: Any) -> Any:
        return first(x) + 10.0 * second(x)

    for _ in range(2):
        assert both(1.0) == 22.0
    first = scaled_by(3.0)
    for _ in range(2):
        assert both(1.0) == 23.0
    second = first
    assert both(1.0) == 33.0


def test_replaced_functions_code_and_defaults() -> None:
    def inner(x: Any, by: Any = 2.0) -> Any:
        return x * by

    def other(x: Any, by: Any = 2.0) -> Any:
        return x + by

    def outer(x: Any, offset: Any = 0.5) -> Any:
        return inner(x) + offset

    kernel = pe.kernel(outer)
    results = [kernel(3.0), kernel(3.0)]
    inner.__defaults__ = (4.0,)
    results += [kernel(3.0), kernel(3.0)]
    inner.__code__ = other.__code__
    results += [kernel(3.0), kernel(3.0)]
    outer.__defaults__ = (0.0,)
    results += [kernel(3.0), kernel(3.0)]
    inner = scaled_by(5.0)  # type: ignore[assignment]
    results += [kernel(3.0), kernel(3.0)]
    assert results == [6.5, 6.5, 12.5, 12.5, 7.5, 7.5, 7.0, 7.0, 15.0, 15.0]


def test_a_kernel_that_is_defined_again() -> None:
    @pe.kernel
    def part(x: Any) -> Any:
        return 2 * x

    @pe.kernel
    def whole(x: Any) -> Any:
        return part(x) + 1

    assert whole(1.0) == 3.0

    @pe.kernel
    def part_again(x: Any) -> Any:
        return 5 * x

    part = part_again  # noqa: F811
    assert whole(1.0) == 6.0


def test_arrays_as_defaults() -> None:
    weight = np.ones(4)

    @pe.kernel
    def scaled(x: Any, w: Any = weight) -> Any:
        return pe.sum(lambda i: w[i] * x[i])

    assert scaled(X) == 6.0
    weight[:] = 2.0
    assert scaled(X) == 12.0
    assert scaled(X, X) == 14.0


@pytest.fixture
def module(tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """Writes the text of a module, and imports it, again if need be."""
    file = tmp_path / "edited_callees.py"
    sys.path.insert(0, str(tmp_path))

    def write(text: str) -> Any:
        file.write_text(text)
        importlib.invalidate_caches()
        sys.dont_write_bytecode = True
        known = sys.modules.get("edited_callees")
        return importlib.reload(known) if known else importlib.import_module("edited_callees")

    before = sys.dont_write_bytecode
    yield write
    sys.dont_write_bytecode = before
    sys.path.remove(str(tmp_path))
    sys.modules.pop("edited_callees", None)


def test_an_edited_callee_in_another_module(module: Callable[[str], Any]) -> None:
    callees = module("RATE = 2.0\ndef inner(x): return x * RATE\n")

    @pe.kernel
    def outer(x: Any) -> Any:
        return callees.inner(x) + 1

    assert outer(1.0) == 3.0
    callees.RATE = 4.0
    assert outer(1.0) == 5.0
    assert specializations(outer) == 1
    module("RATE = 2.0\ndef inner(x):\n    return x - RATE\n")
    for _ in range(2):
        assert outer(1.0) == 0.0
    module("RATE = 2.0\ndef inner(x): return x * RATE * RATE\n")
    assert outer(1.0) == 5.0


def test_a_file_edited_after_it_was_loaded(module: Callable[[str], Any], tmp_path: Path) -> None:
    callees = module("def inner(x): return x * 2.0\ndef other(x): return x * 3.0\n")
    (tmp_path / "edited_callees.py").write_text("def inner(x): return x * 9.0\n\n\n")
    assert pe.kernel(lambda x: callees.inner(x))(1.0) == callees.inner(1.0) == 2.0
    assert pe.kernel(lambda x: callees.other(x))(1.0) == 3.0


def test_derivatives_are_not_stale_either() -> None:
    rate, mode = 2.0, "square"

    @pe.kernel
    def loss(x: Any) -> Any:
        return rate * (x * x if mode == "square" else x)

    gradient, both = pe.grad(loss), pe.value_and_grad(loss)
    for _ in range(2):
        assert (gradient(3.0), both(3.0)) == (12.0, (18.0, 12.0))
    rate = 1.0
    assert (gradient(3.0), both(3.0)) == (6.0, (9.0, 6.0))
    assert pe.jvp(loss, (3.0,), (1.0,)) == (9.0, 6.0)
    mode = "linear"
    for _ in range(2):
        assert (gradient(3.0), both(3.0)) == (1.0, (3.0, 1.0))
        assert pe.jvp(loss, (3.0,), (1.0,)) == (3.0, 1.0)
        assert pe.vjp(loss, 3.0)[1](2.0) == (2.0,)
