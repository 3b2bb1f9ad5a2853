"""Which forgotten computation is told, at which line, and when that is known exactly."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from peffects.errors import NeverPerformed
from peffects.handlers import put
from peffects.machine.checking.debugging import debug_checks
from peffects.machine.checking.never_performed import NEWEST, abandoning, look_closely
from peffects.machine.handling.operations import Effect, Operation, effectful
from peffects.parallel import run


class Shop(Effect): ...


class Refund(Operation[Shop, int]):
    amount: int

    def __post_init__(self) -> None:
        assert self.amount > 0


@effectful
def helper(x: Any = 0) -> Any:
    yield from ()
    return x


@contextmanager
def told() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def look_no_longer() -> None:
    """From now on computations do not get their lines when they are made."""
    look_closely()
    while NEWEST.last is not None:
        run(helper())


def line_of(body: Callable[..., Any]) -> int:
    lines, first = inspect.getsourcelines(body)
    return first + next(k for k, text in enumerate(lines) if "HERE" in text)


def puts() -> None:
    put(3)  # HERE


def refunds() -> None:
    Refund(3)  # HERE


def over_lines() -> Any:
    yield from helper()
    helper(  # HERE
        len("its argument"),
    )
    yield from helper()
    return len("another call")


def test_the_likely_line_is_of_the_last_call_before_and_not_of_its_arguments() -> None:
    program = effectful(over_lines)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(program())
    look_no_longer()
    with told() as caught:
        run(program())
    assert [w.lineno for w in caught] == [line_of(over_lines)]


def test_after_a_run_that_forgot_one_lines_are_exact() -> None:
    @effectful
    def forgets() -> Any:
        yield from helper()
        puts()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(forgets())
        look_no_longer()
        run(forgets())
    with told() as caught:
        puts()
    assert [w.lineno for w in caught] == [line_of(puts)]


def test_a_constructor_of_more_than_fields_notes_what_it_makes() -> None:
    look_no_longer()
    with told() as caught:
        run(helper())
        refunds()
        run(helper())
    assert [w.category for w in caught] == [NeverPerformed]


def test_of_a_new_operation_the_line_is_exact() -> None:
    run(helper())
    look_no_longer()

    class Anew(Operation[Shop, int]):
        amount: int

    def makes() -> None:
        Anew(3)  # HERE

    with told() as caught:
        makes()
        run(helper())
    assert [w.lineno for w in caught] == [line_of(makes)]


def test_in_debug_mode_lines_stay_exact() -> None:
    @effectful
    def program() -> Any:
        for _ in range(300):
            yield from helper()
        puts()
        yield from helper()

    with debug_checks(), pytest.raises(NeverPerformed) as caught:
        run(program())
    assert caught.value.at.line == line_of(puts)


def test_in_debug_mode_the_first_is_raised_and_the_others_are_told() -> None:
    @effectful
    def program() -> Any:
        yield from helper()
        [put(k) for k in range(3)]
        yield from helper()

    with debug_checks(), told() as caught, pytest.raises(NeverPerformed):
        run(program())
    assert [w.category for w in caught] == [NeverPerformed] * 2


def test_what_an_exit_leaves_is_nobodys_fault_and_what_comes_later_is() -> None:
    run(helper())
    with told() as caught:
        with abandoning():
            with abandoning():
                puts()
            puts()
            run(helper())
        assert caught == []
        puts()
        run(helper())
    assert [w.category for w in caught] == [NeverPerformed]
