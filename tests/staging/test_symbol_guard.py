"""The guard of the test session fires where the package's code asks Python about a symbol."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np
import pytest
from staged import run
from symbol_guard import GUARDED, SymbolIsComparedError, symbol_classes

import peffects as pe
from peffects.staging.scalars import maths, symbols

X = np.array([1.0, 2.0])

PLANTED: list[Any] = [
    lambda x: x == 1.0,
    lambda x: x != 1.0,
    lambda x: x > 1.0,
    lambda x: x >= 1.0,
    lambda x: x in (1.0, 2.0),
    lambda x: [1.0, 2.0].index(x),
    lambda x: 1.0 if x else 2.0,
    lambda x: not x,
    lambda x: {x: 1.0},
    lambda x: {1.0: 1.0}.get(x),
    lambda x: list(x),
    lambda x: [1.0, 2.0][x],
    lambda x: range(x),
    lambda x: int(x),
    lambda x: float(x),
    lambda x: f"{x}",
    lambda x: str(x),
    lambda x: np.asarray(x),
    lambda x: max(x, 1.0),
    lambda x: sorted([x, 1.0]),
]


def planted(function: Any) -> Any:
    """`function` as if it stood in a module of the package."""
    code = function.__code__.replace(co_filename=symbols.__file__)
    return FunctionType(code, vars(maths) | {"np": np}, "planted")


@pytest.mark.parametrize("function", PLANTED, ids=range(len(PLANTED)))
def test_the_guard_fires_on_what_is_planted_in_the_package(function: Any) -> None:
    ours = planted(function)
    with pytest.raises(SymbolIsComparedError, match=r"symbols\.py.*of a ScalarTracer"):
        run(lambda x: ours(x[0]), X)


def test_the_guard_fires_on_tables_states_and_indices() -> None:
    equals = planted(lambda x: x == 1.0)
    for kernel in (
        lambda x: equals(x),
        lambda x: equals(pe.state(x)),
        lambda x: pe.table(lambda i: equals(i), over=2),
        lambda x: equals(x[0] + 1j),
    ):
        with pytest.raises(SymbolIsComparedError):
            run(kernel, X)


def test_what_the_user_writes_does_not_reach_the_guard() -> None:
    def f(x: Any) -> Any:
        total = 0.0
        if x[0] == 1.0 and x[1] in (2.0, 3.0) and not x[0] > x[1]:
            total = max(x[0], x[1])
        return total, divmod(x[1], 2), abs(x)

    total, pair, same = run(f, X)
    assert (total, pair, same.tolist()) == (2.0, (1.0, 0.0), [1.0, 2.0])


def test_every_class_of_symbols_is_guarded() -> None:
    kinds = symbol_classes()
    assert {kind.__name__ for kind in kinds} >= {
        "ComplexTracer", "IndexSetTracer", "IndexTracer", "ListTracer", "Outcome", "RecordTable",
        "Reference", "ScalarTracer", "SequentialLoop", "StateTracer", "SymbolicRange",
        "TableTracer", "Template", "TreeTable", "ViewTracer",
    }  # fmt: skip
    for kind in kinds:
        for name in GUARDED:
            method = getattr(kind, name, None)
            assert method is None or method._pe_guarded, (kind, name)
