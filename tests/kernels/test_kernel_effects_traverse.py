"""Traverse clauses in kernels: where loops depend on values, and where iterations end early."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernels.test_kernel_effects import X, check_staged
from staged import staged

import peffects as pe
from peffects import (
    BasicHandler,
    CollectHandler,
    Eff,
    Effect,
    Fin,
    Operation,
    ParHandler,
    effectful,
    final,
    handle,
    pfor,
    run,
)
from peffects.errors import KernelEffectError, LoopValuesError, TraverseError
from peffects.handlers import (
    accumulate,
    all_worlds,
    ask,
    collect_errors,
    combine_errors,
    fake_clock,
    first_worlds,
    log_list,
    parallel_worlds,
    prefix_sums,
    reader,
    run_state,
    throw,
    weak_exceptions,
    weighted_worlds,
)
from peffects.parallel import ADD


class Tally(Effect): ...


class Bump(Operation[Tally, float]):
    by: float


class Left(Effect): ...


class Leave(Operation[Left, None]):
    value: float


def seconds(answers: Any) -> Any:
    """The second parts, of a list in the machine and of a table in kernels."""
    if isinstance(answers, list | pe.Table):
        return [second for _, second in answers]
    return pe.table(lambda i: answers[i][1])


class tally(ParHandler[Tally]):
    def __init__(self, n: Any) -> None:
        self.n = n

    def ret(self, x: Any) -> Any:
        return self.n, x

    def bump(self, op: Bump) -> Any:
        self.n = self.n + op.by
        return self.n

    def traverse(self, n: Any, loop: Any, k: Any) -> Eff[Any, Any]:
        answers = yield from loop()
        total = self.n
        for part, _ in answers:
            total = total + part
        self.n = total
        return (yield from k(seconds(answers)))


class tally_and_go_on(tally):
    """Does something with what `k` gave."""

    def traverse(self, n: Any, loop: Any, k: Any) -> Eff[Any, Any]:
        answers = yield from loop()
        n, x = yield from k(seconds(answers))
        return n, x + 1.0


class tally_and_ask(tally):
    """Performs after `k`."""

    def traverse(self, n: Any, loop: Any, k: Any) -> Eff[Any, Any]:
        answers = yield from loop()
        result = yield from k(seconds(answers))
        yield from ask()
        return result


def bumps(a: Any) -> Any:
    return pfor(Fin(3), lambda i: Bump(a))


@effectful
def loops_in_while(a: Any, n: Any) -> Any:
    a = yield from Bump(a)
    rounds = 0
    while rounds < n and a < 9.0:
        rounds = rounds + 1
        p = yield from bumps(a)
        a = p[0] - 0.5 * p[2]
    return a


@effectful
def loops_in_for(a: Any, n: Any) -> Any:
    for _ in range(n):
        p = yield from bumps(a)
        a = a + p[0]
    return a


@effectful
def loops_in_if(a: Any, n: Any) -> Any:
    if a > n:
        p = yield from pfor(Fin(3), lambda i: Bump(a))
        a = a + p[0]
    return a


@effectful
def loops_once(a: Any, n: Any) -> Any:
    p = yield from pfor(Fin(3), lambda i: Bump(a))
    return p[0] + a


PLACES = [loops_in_while, loops_in_for, loops_in_if]


@pytest.mark.parametrize("body", PLACES)
def test_loops_in_loops_and_ifs_that_depend_on_values(body: Any) -> None:
    def program(a: Any, n: Any) -> Any:
        return handle(reader(2.0), handle(tally(0.5), body(a, n)))

    check_staged(program, (0.3, 3), (1.5, 1), (0.1, 0))


@pytest.mark.parametrize("body", PLACES)
@pytest.mark.parametrize("handler", [tally_and_go_on, tally_and_ask])
def test_a_traverse_clause_that_goes_on_after_k_is_refused_there(body: Any, handler: Any) -> None:
    def program(a: Any, n: Any) -> Any:
        return handle(reader(2.0), handle(handler(0.5), body(a, n)))

    with pytest.raises(KernelEffectError, match=f"`{handler.__name__}` goes on after `k`") as told:
        staged(lambda a, n: run(program(a, n)), 0.3, 3)
    assert "return clause" in str(told.value)
    assert told.value.at.file == __file__


@pytest.mark.parametrize("handler", [tally_and_go_on, tally_and_ask])
def test_a_traverse_clause_goes_on_after_k_where_nothing_depends_on_values(handler: Any) -> None:
    check_staged(lambda a, n: handle(reader(2.0), handle(handler(0.5), loops_once(a, n))), (0.3, 3))


def test_a_clause_that_resumes_elsewhere_is_refused() -> None:
    class elsewhere(tally):
        def traverse(self, n: Any, loop: Any, k: Any) -> Eff[Any, Any]:
            @effectful
            def rest(answers: Any) -> Any:
                n, x = yield from k(seconds(answers))
                return n, x + 1.0

            answers = yield from loop()
            return (yield from rest(answers))

    with pytest.raises(KernelEffectError, match="goes on after `k`"):
        staged(lambda a, n: run(handle(elsewhere(0.5), loops_in_if(a, n))), 0.3, 3)
    check_staged(lambda a: handle(elsewhere(0.5), loops_once(a, 1)), (0.3,))


# --- answers that a handler did not make ---------------------------------------------------------


class leaves(CollectHandler[Left]):
    """Ends an iteration early, with a number in place of what the handlers inside answer."""

    @final
    def leave(self, op: Leave) -> Any:
        return op.value

    def collect(self, answers: Any) -> Any:
        return answers


MAKERS: list[Callable[[], Any]] = [
    lambda: accumulate(0.0, operator.add), weak_exceptions, collect_errors,
    lambda: combine_errors(operator.add), fake_clock, log_list, lambda: prefix_sums(ADD),
    all_worlds, parallel_worlds, first_worlds, weighted_worlds,
]  # fmt: skip


def leaving(make: Callable[[], Any]) -> Any:
    return handle(leaves(), handle(make(), pfor(Fin(2), lambda i: Leave(0.5))))


@pytest.mark.parametrize("make", MAKERS)
def test_an_iteration_ended_by_a_handler_further_out_has_no_answer(make: Any) -> None:
    with pytest.raises(LoopValuesError, match=f"`{type(make()).__name__}` the answer 0.5") as told:
        run(leaving(make))
    assert "install it inside" in str(told.value)
    assert "pfor(Fin(2)" in told.value.at.snippet()


@pytest.mark.parametrize("make", MAKERS[:2])
def test_an_iteration_ended_early_has_no_answer_in_kernels(make: Any) -> None:
    with pytest.raises(LoopValuesError, match=f"`{type(make()).__name__}` the answer") as told:
        staged(lambda x: run(leaving(make)), X)
    assert told.value.at.line > 0


# --- exceptions and the values of frames ---------------------------------------------------------


@effectful
def throws_beside_unset_locals(a: Any, n: Any) -> Any:
    for _last in range(n):
        a = a + 0.125
    if a > 0.2:
        yield from throw(a)
    return a


def test_locals_without_a_value_are_left_alone_where_an_exit_passes() -> None:
    def program(a: Any, n: Any) -> Any:
        return handle(run_state(0.0), handle(weak_exceptions(), throws_beside_unset_locals(a, n)))

    check_staged(program, (0.7, 3), (0.1, 0))


class Sulks:
    """Answers no question."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"asked for {name}")


def test_what_an_exception_passes_is_not_asked_for_attributes() -> None:
    @effectful
    def program() -> Any:
        sulks = Sulks()
        yield from pfor(Fin(1), lambda i: ask())
        raise KeyError(type(sulks).__name__)

    with pytest.raises(KeyError, match="Sulks"):
        run(handle(reader(1.0), program()))


def test_tables_in_fields_of_handlers_are_carried_by_loops() -> None:
    @effectful
    def program(n: Any) -> Any:
        for _ in range(n):
            yield from Bump(0.5)
            if n > 2:
                yield from Bump(1.0)
        return n

    class shifting(tally):
        def bump(self, op: Bump) -> Any:
            self.n = np.roll(self.n, 1) + op.by
            return self.n[0]

    check_staged(lambda x, n: handle(shifting(x), program(n)), (X, 3), (X, 2), (X, 0))


# --- what iterations would lose, and what loops start with ---------------------------------------


def add_to(handler: Any, by: float) -> None:
    handler.total += by


@effectful
def bumps_and_reads(_: float) -> Eff[Any, float]:
    yield from pfor(Fin(3), lambda i: Bump(1.0))
    return (yield from Bump(0.0))


def test_a_change_that_a_loop_would_lose_is_refused_in_kernels() -> None:
    class basic(BasicHandler[Tally]):
        def __init__(self, start: float) -> None:
            self.total = start

        def bump(self, op: Bump) -> float:
            add_to(by=op.by, handler=self)
            return self.total

    class own(ParHandler[Tally]):
        def __init__(self, start: float) -> None:
            self.total = start

        def bump(self, op: Bump) -> float:
            self.total = self.total + op.by
            return self.total

        def traverse(self, n: Any, loop: Any, k: Any) -> Any:
            values = yield from loop()
            return (yield from k(values))

    for kind in (basic, own):

        def program(x: float, kind: Any = kind) -> Any:
            return run(handle(kind(x), bumps_and_reads(x)))

        for way in (program, pe.kernel(program)):
            with pytest.raises(TraverseError, match="its field `total`") as caught:
                way(1.0)
            assert "pfor(Fin(3), lambda i: Bump(1.0))" in str(caught.value)


def test_what_changes_nothing_runs_in_kernels_also_under_if() -> None:
    class fixed(BasicHandler[Tally]):
        def __init__(self, start: float) -> None:
            self.start = start

        def bump(self, op: Bump) -> float:
            return known(self) + op.by

    @effectful
    def body(x: float) -> Eff[Any, float]:
        if x > 0.5:
            x = yield from Bump(x)
        return x

    def program(x: Any) -> Any:
        return handle(fixed(x[0]), pfor(x, body))

    check_staged(program, (X,))


def known(handler: Any) -> float:
    start: float = handler.start
    return start


class twice(ParHandler[Left]):
    """Runs a loop, the rest, and the loop again."""

    def leave(self, op: Leave) -> None: ...

    def traverse(self, n: Any, loop: Any, k: Any) -> Any:
        yield from loop()
        rest = yield from k((yield from loop()))
        again = yield from loop()
        return rest, again


def test_loops_that_run_again_in_kernels_start_as_at_the_call() -> None:
    class tally(ParHandler[Tally]):
        def __init__(self, total: float) -> None:
            self.total = total

        def ret(self, x: Any) -> Any:
            return self.total, x

        def bump(self, op: Bump) -> float:
            self.total = self.total + op.by
            return self.total

        def traverse(self, n: Any, loop: Any, k: Any) -> Any:
            at = self.total
            answers = yield from loop(lambda i: self._with(total=at + self.total))
            self.total, at = self.total + 100.0, 200.0
            return (yield from k(answers))

    def program(x: Any) -> Any:
        return run(handle(twice(), handle(tally(1.0), pfor(x, lambda v: Bump(v)))))

    (total, first), again = pe.kernel(program)(X)
    assert total == 101.0
    for parts in (first, again):
        for part in parts:
            np.testing.assert_allclose(part, 2.0 + X)
