"""Scoped operations of handlers in kernels, and exits beside other control flow."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from kernels.test_kernel_effects import check_staged

import peffects as pe
from peffects import Effect, Err, Handler, Ok, Operation, effectful, final, handle, run
from peffects.handlers import (
    accum,
    accumulate,
    attempt,
    catch,
    get,
    put,
    run_state,
    throw,
    weak_exceptions,
)


class Tally(Effect): ...


class Bump(Operation[Tally, float]):
    by: float


class Leave(Operation[Tally, None]):
    value: float


class tally(Handler[Tally]):
    def __init__(self, n: Any) -> None:
        self.n = n

    def ret(self, x: Any) -> Any:
        return self.n, x

    def bump(self, op: Bump) -> Any:
        if op.by > 0.0:
            self.n = self.n + op.by
        return self.n

    @final
    def leave(self, op: Leave) -> Any:
        return self.n, op.value


class tally_and_go_on(tally):
    """Its clause goes on after the rest of the program, from the state that it had before."""

    def bump(self, op: Bump, k: Any) -> Any:  # type: ignore[override]
        self.n = self.n + op.by
        n, x = yield from k(self.n)
        self.n = self.n + 10.0
        return n + self.n, x


@effectful
def risky(a: Any) -> Any:
    yield from put((yield from get()) + a)
    yield from accum(a)
    seen = yield from Bump(a)
    if seen < 0.25:
        yield from throw(seen)
    return a


@effectful
def recovers(a: Any) -> Any:
    first = yield from catch(risky(a), lambda e: e - 1.0)
    yield from accum(10.0 * a)
    yield from put((yield from get()) * 2.0)
    second = yield from catch(risky(a - 0.5), lambda e: risky(0.3 - e))
    return first + second * (yield from Bump(first))


def test_operations_of_handlers_between_a_catch_and_its_throw() -> None:
    def program(a: Any) -> Any:
        inner = handle(run_state(0.5), handle(tally(0.1), recovers(a)))
        return handle(weak_exceptions(), handle(accumulate(0.0, operator.add), inner))

    def turned(a: Any) -> Any:
        inner = handle(weak_exceptions(), handle(run_state(0.5), recovers(a)))
        return handle(tally(0.1), handle(accumulate(0.0, operator.add), inner))

    check_staged(program, (0.7,), (-0.7,), (0.2,), (0.6,))
    check_staged(turned, (0.7,), (-0.7,), (0.2,), (0.6,))


@effectful
def puts_or_throws(a: Any) -> Any:
    yield from put((yield from get()) + a)
    if a < 0.0:
        yield from throw(a)
    return (yield from get())


@effectful
def bumps_around_a_catch(a: Any) -> Any:
    first = yield from Bump(a)
    second = yield from catch(puts_or_throws(a), lambda e: e - 1.0)
    return first + second * (yield from Bump(second)) + (yield from get())


def test_a_clause_goes_on_after_a_catch_has_put_its_handler_back() -> None:
    def program(a: Any) -> Any:
        inner = handle(tally_and_go_on(0.1), handle(run_state(0.5), bumps_around_a_catch(a)))
        return handle(weak_exceptions(), inner)

    def turned(a: Any) -> Any:
        inner = handle(run_state(0.5), handle(tally_and_go_on(0.1), bumps_around_a_catch(a)))
        return handle(weak_exceptions(), inner)

    check_staged(program, (0.7,), (-0.7,))
    check_staged(turned, (0.7,), (-0.7,))


class steps(tally):
    """Reads fields of forks that its own clauses make."""

    def bump(self, op: Bump) -> Any:
        other = self._with(n=self.n + op.by)
        self.n = other.n * 0.5
        return other.n


def test_a_clause_reads_a_fork_that_it_made() -> None:
    check_staged(lambda a: handle(steps(0.5), Bump(a)), (0.7,), (-0.7,))


@effectful
def leaves_rounds(x: Any) -> Any:
    rounds = 0
    while rounds < len(x):
        if x[rounds] > 2.0:
            yield from Leave(x[rounds])
        if x[rounds] < 0.0:
            yield from throw(x[rounds])
        rounds = rounds + 1
    return 0.5 * rounds


def test_a_while_may_leave_two_handlers() -> None:
    def program(x: Any) -> Any:
        return handle(weak_exceptions(), handle(tally(1.0), leaves_rounds(x)))

    for x in ([0.5, 3.0, -1.0], [0.5, -1.0, 3.0], [0.5], []):
        check_staged(program, (np.array(x, float),))


@effectful
def differing(a: Any) -> Any:
    pair = yield from handle(tally(a), Bump(a))
    if a > 0.5:
        yield from throw(pair[0])
    else:
        pair = yield from attempt(throw(a))
    return pair.value if isinstance(pair, Ok) else pair.error


def test_a_side_that_was_left_has_no_say_in_what_a_local_is() -> None:
    check_staged(lambda a: handle(weak_exceptions(), differing(a)), (0.7,), (-0.7,))


# --- which answer it is ---------------------------------------------------------------------------


@effectful
def throws_above(a: Any) -> Any:
    if a > 0.2:
        yield from throw(3.0 * a)
    return a * a


def by_elif(a: Any) -> Any:
    r: Any = run(attempt(throws_above(a)))
    if isinstance(r, Ok):
        v = r.value
    elif isinstance(r, Err):
        v = r.error + 1.0
    return v


def by_elif_the_other_way(a: Any) -> Any:
    r: Any = run(attempt(throws_above(a)))
    for _ in range(3):
        if isinstance(r, Err):
            a = a + r.error
        elif isinstance(r, Ok):
            a = a - r.value
        else:
            a = "never"
    return a


def by_returns(a: Any) -> Any:
    r: Any = run(attempt(throws_above(a)))
    if isinstance(r, Ok):
        return r.value
    elif isinstance(r, Err):
        return r.error


def by_expressions(a: Any) -> Any:
    r: Any = run(attempt(throws_above(a)))
    v: Any = r.value if isinstance(r, Ok) else r.error if isinstance(r, Err) else None
    if not isinstance(r, Ok):
        v = v + (3.0 if isinstance(r, Err) else 5.0)
    return v


@pytest.mark.parametrize("f", [by_elif, by_elif_the_other_way, by_returns, by_expressions])
def test_what_an_answer_is_not_on_a_side_it_is_nowhere_in_it(f: Any) -> None:
    for a in (0.1, 0.7):
        assert pe.kernel(f)(a) == pytest.approx(f(a), rel=1e-12)
        if f is not by_elif_the_other_way:
            assert pe.grad(f)(a) == pytest.approx(3.0 if a > 0.2 else 2 * a)
