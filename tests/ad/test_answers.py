"""Derivatives of values that are answers of handlers: `Ok` or `Err`, alone and in tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects import Err, Ok, effectful, pfor, run
from peffects.errors import DerivativeArgumentError
from peffects.handlers import attempt, throw

X = np.array([0.1, 0.4, 0.15])


@effectful
def squares(a: Any) -> Any:
    if a > 0.2:
        yield from throw(3.0 * a)
    return a * a, a


def one(a: Any) -> Any:
    return run(attempt(squares(a)))


def each(x: Any) -> Any:
    return run(pfor(x.index, lambda i: attempt(squares(x[i]))))


def test_a_tangent_is_the_answer_that_the_value_is() -> None:
    ways: list[Callable[[Any], Any]] = [
        lambda a: pe.jvp(one, (a,), (2.0,))[1],
        lambda a: pe.linearize(one, a)[1](2.0),
    ]
    for derivative in ways:
        assert derivative(0.1) == Ok((pytest.approx(0.4), 2.0))
        assert derivative(0.4) == Err(6.0)


def test_a_tangent_of_a_table_of_answers_is_a_table_of_answers() -> None:
    value, tangent = pe.jvp(each, (X,), (np.ones(3),))
    assert list(value) == [Ok((X[0] ** 2, X[0])), Err(3.0 * X[1]), Ok((X[2] ** 2, X[2]))]
    assert list(tangent) == [
        Ok((pytest.approx(0.2), 1.0)),
        Err(3.0),
        Ok((pytest.approx(0.3), 1.0)),
    ]


def test_a_constant_in_an_answer_is_in_its_tangent() -> None:
    @effectful
    def told(a: Any) -> Any:
        if a > 0.2:
            yield from throw("large")
        return 2.0 * a

    def answer(a: Any) -> Any:
        return run(attempt(told(a)))

    assert pe.jvp(answer, (0.1,), (1.0,))[1] == Ok(2.0)
    assert pe.jvp(answer, (0.4,), (1.0,))[1] == Err("large")


@pytest.mark.parametrize("function", [one, each])
def test_cotangents_of_answers_are_refused(function: Any) -> None:
    argument = 0.1 if function is one else X
    value, pullback = pe.vjp(function, argument)
    with pytest.raises(DerivativeArgumentError, match="`Ok` or `Err`") as told:
        pullback(value)
    assert "isinstance(r, Ok)" in str(told.value)
