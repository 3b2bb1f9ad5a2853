"""What a kernel reads besides its arguments is read again at each call, or guarded."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from staged import call, pe, staged

from peffects.staging.captures.reads import Constant, Path, StepKind

WEIGHTS = np.ones(3)
SCALE = 2.0
FLAG = True
MODE = "sum"
TABLE: dict[str, Any] = {"rates": [0.5, np.full(3, 2.0)], "name": "x"}
X = np.arange(3.0)


def weighted(x: Any) -> Any:
    return pe.sum(lambda i: WEIGHTS[i] * x[i] * SCALE)


def test_arrays_and_numbers_are_hidden_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    made = staged(weighted, X)
    assert [param.name for param in made.program.params] == ["x", "WEIGHTS", "SCALE"]
    assert call(made, X) == 6.0
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    monkeypatch.setitem(globals(), "WEIGHTS", np.array([0.0, 0.0, 1.0]))
    assert call(made, X) == 6.0
    monkeypatch.setitem(globals(), "WEIGHTS", np.full(3, 2.0))
    assert call(made, X) == 18.0


def test_a_capture_of_another_type_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    made = staged(weighted, X)
    for value in (3, np.float32(3), "3", X):
        monkeypatch.setitem(globals(), "SCALE", value)
        assert made.arguments((X,), {}) is None
    monkeypatch.delitem(globals(), "SCALE")
    assert made.arguments((X,), {}) is None


def test_other_values_are_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(x: Any) -> Any:
        return pe.sum(x) if MODE == "sum" and FLAG else pe.max(x)

    made = staged(chosen, X)
    assert call(made, X) == 3.0
    monkeypatch.setitem(globals(), "MODE", "".join(["su", "m"]))
    assert call(made, X) == 3.0
    monkeypatch.setitem(globals(), "MODE", "max")
    assert made.arguments((X,), {}) is None
    monkeypatch.setitem(globals(), "MODE", "sum")
    monkeypatch.setitem(globals(), "FLAG", False)
    assert made.arguments((X,), {}) is None


def scaled_by(factor: Any) -> Callable[[Any], Any]:
    return lambda x: pe.table(lambda i: factor * x[i])


def test_closures_of_one_code_share_a_program() -> None:
    double, triple = scaled_by(2.0), scaled_by(3.0)
    made = staged(double, X)
    assert call(made, X).tolist() == [0, 2, 4]
    assert call(dataclasses.replace(made, function=triple), X).tolist() == [0, 3, 6]


def test_cells_that_change_are_read_again() -> None:
    factor = 2.0

    def scaled(x: Any) -> Any:
        return x * factor

    made = staged(scaled, 1.0)
    factor = 5.0
    assert call(made, 1.0) == 5.0


def helper(x: Any) -> Any:
    return x * SCALE


def test_reads_of_callees_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    made = staged(lambda x: helper(x) + 1, 1.0)
    assert call(made, 1.0) == 3.0
    monkeypatch.setitem(globals(), "SCALE", 4.0)
    assert call(made, 1.0) == 5.0
    monkeypatch.setitem(globals(), "helper", lambda x: x)
    assert made.arguments((1.0,), {}) is None


@dataclasses.dataclass
class Settings:
    rate: float
    sizes: tuple[Any, ...] = (1.0, 2.0)


SETTINGS = Settings(2.0)


def test_attributes_and_items_are_paths() -> None:
    def configured(x: Any) -> Any:
        total = x * SETTINGS.rate * TABLE["rates"][0] * TABLE["rates"][1][2]
        for size in SETTINGS.sizes:
            total += size
        return total

    made = staged(configured, 3.0)
    assert call(made, 3.0) == 9.0
    SETTINGS.rate = 4.0
    assert call(made, 3.0) == 15.0
    SETTINGS.sizes = (1.0, 2.0, 3.0)
    assert made.arguments((3.0,), {}) is None
    SETTINGS.rate, SETTINGS.sizes = 2.0, (1.0, 2.0)


class Model:
    def __init__(self, weights: Any) -> None:
        self.weights = weights
        self.__scale = 2.0

    def predict(self, x: Any) -> Any:
        return self.__scale * pe.sum(lambda i: self.weights[i] * x[i])


def test_methods_read_their_object_again() -> None:
    model = Model(np.ones(3))
    made = staged(model.predict, X)
    assert call(made, X) == 6.0
    model.weights = np.full(3, 2.0)
    assert call(made, X) == 12.0


def test_static_arguments_are_read_again() -> None:
    def evaluate(model: Any, x: Any, mode: Any) -> Any:
        return model.predict(x) if mode == "predict" else 0.0

    model = Model(np.ones(3))
    made = staged(evaluate, model, X, "predict")
    assert call(made, model, X, "predict") == 6.0
    model.weights = np.full(3, 3.0)
    assert call(made, model, X, "predict") == 18.0
    assert made.arguments((model, X, "other"), {}) is None


def test_functions_as_arguments_are_known_by_their_code() -> None:
    def apply(function: Any, x: Any) -> Any:
        return pe.table(lambda i: function(x[i]))

    def shifted(by: Any) -> Callable[[Any], Any]:
        return lambda v: v + by

    made = staged(apply, shifted(1.0), X)
    assert call(made, shifted(5.0), X).tolist() == [5, 6, 7]
    assert made.arguments((lambda v: v, X), {}) is None


def test_programs_fit_calls_of_the_same_types_only() -> None:
    made = staged(lambda x, y: x, X, 1.0)
    assert made.arguments((np.zeros(9), 2.0), {}) is not None
    for args in ((X.astype("f4"), 1.0), (X, 1), (np.ones((2, 2)), 1.0), (X, [1.0])):
        assert made.arguments(args, {}) is None


def test_arrays_met_without_a_name_are_parameters() -> None:
    def total(x: Any) -> Any:
        s = x
        for array in TABLE.values():
            if isinstance(array, list):
                s += array[1][0]
        return s

    made = staged(total, 1.0)
    assert call(made, 1.0) == 3.0
    TABLE["rates"][1][0] = 7.0
    assert call(made, 1.0) == 8.0
    TABLE["rates"][1][0] = 2.0


def test_user_modules_are_read_again() -> None:
    module = types.ModuleType("settings")
    module.__file__ = "/somewhere/settings.py"
    module.rate = 2.0  # type: ignore[attr-defined]
    made = staged(lambda x: x * module.rate, 1.0)
    module.rate = 3.0  # type: ignore[attr-defined]
    assert call(made, 1.0) == 3.0


def test_paths_have_names() -> None:
    path = Path(Constant(None)).then(StepKind.GLOBAL, "f").then(StepKind.ATTRIBUTE, "w")
    assert path.name == "f.w"
    assert path.then(StepKind.ITEM, "a").name == "f.w['a']"
    assert path.then(StepKind.CELL, "c").name == "c"
    assert Path(Constant(3)).name == "captured"


def test_functions_without_source_read_again() -> None:
    space: dict[str, Any] = {"pe": pe, "scale": 2.0, "weights": np.ones(3)}
    exec("def f(x): return pe.sum(lambda i: weights[i] * x[i] * scale)", space)
    made = staged(space["f"], X)
    assert call(made, X) == 6.0
    space["scale"] = 3.0
    space["weights"][2] = 5.0
    assert call(made, X) == 33.0
