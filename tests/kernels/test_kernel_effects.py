"""Effects in kernels: handlers vanish while staging; what is left means what the machine does."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fuzz.sources import check_equal
from staged import run as evaluated
from staged import text

import peffects as pe
from peffects import (
    Eff,
    Effect,
    Err,
    Fin,
    Handler,
    Ok,
    Operation,
    ParHandler,
    Table,
    effectful,
    final,
    handle,
    mask,
    pfor,
    run,
)
from peffects.handlers import (
    Accum,
    Reader,
    State,
    accum,
    accumulate,
    ask,
    attempt,
    get,
    local,
    put,
    reader,
    run_state,
    throw,
    weak_exceptions,
)
from peffects.parallel import MAX

X = np.array([0.5, 3.0, -1.0, 2.0, 4.0])
Program = Callable[..., Any]


def check_staged(program: Program, *calls: tuple[Any, ...]) -> None:
    """`program(*args)`, a computation, gives in a kernel what the machine gives."""

    def kernel(*args: Any) -> Any:
        return pe.run(program(*args))

    for args in calls:
        check_equal(evaluated(kernel, *args), run(program(*args)))


@effectful
def conditionally(x: Any) -> Eff[State[float] | Reader[float], float]:
    s = 0.0
    for v in x:
        either = max(2.0 * s, (yield from get()) if v > 1.0 else v)
        s = either + ((yield from ask()) if s > 1.0 else 0.5)
        yield from put((yield from get()) + ((yield from ask()) if v > 0.0 else 1.0))
        if not ((v > 0.0 and (yield from get()) > 2.0) or (yield from ask()) > 5.0):
            s += 100.0
        while (yield from get()) < 9.0 and v > 0.0:
            yield from put((yield from get()) * 2.0 if v > 2.0 else (yield from get()) + 1.0)
            if (yield from get()) > 12.0:
                break
        else:
            s -= 1000.0
    return (yield from get()) if s > 1.0 else s


def test_expressions_perform_on_one_way_only() -> None:
    def program(x: Any) -> Any:
        return handle(reader(1.5), handle(run_state(0.5), conditionally(x)))

    check_staged(program, (X,), (-X,), (X[:0],))


# --- state and control flow ----------------------------------------------------------------------


@effectful
def either_puts(x: Any) -> Any:
    if x > 1.0:
        yield from put(x)
    else:
        yield from put((yield from get()) + 10.0)
    return (yield from get())


@effectful
def adds_even(n: Any) -> Any:
    for i in range(n):
        if i % 2 == 0:
            yield from put((yield from get()) + i)
    return (yield from get()) * 2


@effectful
def counts_up(limit: Any) -> Any:
    rounds = 0
    while (yield from get()) < limit:
        yield from put((yield from get()) + 2)
        rounds += 1
    return rounds


def test_the_state_of_both_sides_of_an_if_meets() -> None:
    check_staged(lambda x: handle(run_state(1.0), either_puts(x)), (3.0,), (0.5,))


def test_state_is_carried_by_loops() -> None:
    check_staged(lambda n: handle(run_state(0), adds_even(n)), (0,), (1,), (8,))
    check_staged(lambda n: handle(run_state(0), counts_up(n)), (0,), (7,))


def test_each_side_of_an_if_tells_only_for_itself() -> None:
    @effectful
    def program(x: Any) -> Any:
        if x > 0.0:
            yield from accum(1.0)
        else:
            yield from accum(10.0)
        yield from accum(100.0)

    check_staged(lambda x: handle(accumulate(0.0, operator.add), program(x)), (1.0,), (-1.0,))


def test_instances_masks_and_local_values() -> None:
    class Fuel(State[float]): ...

    @effectful
    def two(x: Any) -> Any:
        yield from put(x)
        yield from Fuel.put(x * 2.0)
        return (yield from get()) + (yield from Fuel.get())

    def both(x: Any) -> Any:
        return handle(run_state(0.0), handle(run_state(0.0, at=Fuel), two(x)))

    @effectful
    def skips(x: Any) -> Any:
        inner: Any = yield from ask()
        outer: Any = yield from mask(Reader, ask())
        changed: Any = yield from local(lambda v: v + x, ask())
        return inner, outer, changed

    check_staged(both, (3.0,))
    check_staged(lambda x: handle(reader(1.0), handle(reader(2.0), skips(x))), (3.0,))


class Best(Effect):
    """Somebody looks for the largest number."""


class Offer(Operation[Best, bool]):
    value: float


class keep_best(Handler[Best]):
    """Answers whether an offer is the best so far."""

    def __init__(self) -> None:
        self.best = -1.0

    def ret(self, x: Any) -> Any:
        return self.best, x

    def offer(self, op: Offer) -> bool:
        if op.value > self.best:
            self.best = op.value
            return True
        return False


@effectful
def records(x: Any) -> Any:
    count = 0
    for i in range(len(x)):
        if (yield from Offer(x[i])):
            count += 1
    return count


def test_clauses_of_users_branch_on_symbols() -> None:
    check_staged(lambda x: handle(keep_best(), records(x)), (X,), (X[::-1].copy(),))


# --- exits ---------------------------------------------------------------------------------------


@effectful
def small(x: Any) -> Any:
    if x > 1.0:
        yield from throw(x)
    return x * 2.0


@effectful
def winding(x: Any) -> Any:
    yield from put(x)
    y = 0.0
    if x > 0.0:
        if x > 1.0:
            yield from throw(1.5)
        yield from put(x + 1.0)
        y = x
    else:
        y = yield from small(x + 10.0)
    yield from put(y + 100.0)
    return y


@effectful
def sums_up_to(n: Any, limit: Any) -> Any:
    for i in range(n):
        s: Any = yield from get()
        if s > limit:
            yield from throw(i)
        yield from put(s + i)
    return 7


@pytest.mark.parametrize("x", [3.0, 0.5, -1.0, -9.5])
def test_an_exit_leaves_the_state_outside_its_handler_as_it_was_then(x: float) -> None:
    check_staged(lambda x: handle(weak_exceptions(), small(x)), (x,))
    check_staged(lambda x: handle(run_state(0.0), handle(weak_exceptions(), winding(x))), (x,))
    check_staged(lambda x: handle(weak_exceptions(), handle(run_state(0.0), winding(x))), (x,))


@pytest.mark.parametrize("limit", [3, 100])
def test_an_exit_ends_a_loop_early(limit: int) -> None:
    def inside(n: Any, limit: Any) -> Any:
        return handle(run_state(0), handle(weak_exceptions(), sums_up_to(n, limit)))

    def outside(n: Any, limit: Any) -> Any:
        return handle(weak_exceptions(), handle(run_state(0), sums_up_to(n, limit)))

    check_staged(inside, (6, limit), (0, limit))
    check_staged(outside, (6, limit), (0, limit))


def test_no_round_follows_an_exit() -> None:
    program = text(lambda n, k: pe.run(attempt(sums_of(n, k))), 5, 3)
    assert "while count" in program

    @pe.kernel
    def stops(n: Any) -> Any:
        return pe.run(attempt(sums_of(n, 3)))

    assert stops(10**15) == Err(3)


@effectful
def sums_of(n: Any, k: Any) -> Any:
    total = 0
    for i in range(n):
        if i == k:
            yield from throw(i)
        total += i
    return total


def test_several_constants_are_told_apart() -> None:
    @effectful
    def valid(x: Any) -> Any:
        if x < 0.0:
            yield from throw("negative")
        if x > 2.0:
            yield from throw("big")
        return x + 1.0

    check_staged(lambda x: attempt(valid(x)), (-1.0,), (0.5,), (3.0,))

    def each(x: Any) -> Any:
        return pfor(Fin(5), lambda i: attempt(valid(x[i])))

    @pe.kernel
    def kernel(x: Any) -> Any:
        return pe.run(each(x))

    found, expected = kernel(X), run(each(X))
    assert isinstance(found, Table)
    assert list(found) == list(expected)
    assert found[1] == Err("big")


def test_an_answer_is_used_by_isinstance() -> None:
    @effectful
    def careful(x: Any) -> Any:
        r = yield from attempt(small(x))
        if isinstance(r, Ok):
            return r.value
        return r.error - 100.0

    check_staged(lambda x: careful(x), (0.5,), (3.0,))


# --- parallel loops ------------------------------------------------------------------------------


@effectful
def tells(x: Any, limit: Any) -> Any:
    @effectful
    def body(i: Any) -> Any:
        yield from accum(1.0)
        if x[i] > limit:
            yield from throw(x[i])
        yield from accum(x[i])
        return x[i] * 2.0

    doubled = yield from pfor(Fin(5), body)
    yield from accum(100.0)
    return doubled


@pytest.mark.parametrize("limit", [2.5, 10.0])
def test_handlers_meet_a_parallel_loop_in_either_order(limit: float) -> None:
    def inside(x: Any, limit: Any) -> Any:
        return handle(accumulate(0.0, operator.add), handle(weak_exceptions(), tells(x, limit)))

    def outside(x: Any, limit: Any) -> Any:
        return handle(weak_exceptions(), handle(accumulate(0.0, operator.add), tells(x, limit)))

    check_staged(inside, (X, limit))
    check_staged(outside, (X, limit))


def test_any_monoid_is_combined_in_index_order() -> None:
    @effectful
    def affine(x: Any) -> Any:
        def body(i: Any) -> Any:
            return accum((x[i], 1.0))

        yield from pfor(Fin(5), body)
        return 0.0

    def compose(f: Any, g: Any) -> Any:
        return f[0] * g[0], f[1] * g[0] + g[1]

    @effectful
    def largest(x: Any) -> Any:
        yield from pfor(Fin(5), lambda i: accum(x[i]))
        return 0.0

    check_staged(lambda x: handle(accumulate((1.0, 0.0), compose), affine(x)), (X,))
    check_staged(lambda x: handle(accumulate(MAX), largest(x)), (X,))


def test_loops_over_products_rows_and_nothing() -> None:
    @effectful
    def cells(x: Any) -> Any:
        @effectful
        def body(p: Any) -> Any:
            i, j = p
            if x[i, j] > 4.0:
                yield from throw(x[i, j])
            return x[i, j] + 1.0

        return (yield from pfor(Fin(2) * Fin(3), body))

    def rows(x: Any) -> Any:
        return pfor(x, lambda row: accum(row[0] * row[1]))

    square = np.arange(6.0).reshape(2, 3)

    def kernel(x: Any) -> Any:
        return pe.run(attempt(cells(x)))

    assert evaluated(kernel, square) == Err(5.0)
    found = evaluated(kernel, square - 2.0)
    np.testing.assert_array_equal(found.value, square - 1.0)

    def totals(x: Any) -> Any:
        return pe.run(handle(accumulate(0.0, operator.add), rows(x)))[0]

    assert evaluated(totals, square) == 0.0 * 1.0 + 3.0 * 4.0
    assert evaluated(totals, square[:0]) == 0.0


class total_of(ParHandler[Accum[float]]):
    """A handler with a traverse clause of its own."""

    def __init__(self) -> None:
        self.total = 0.0

    def ret(self, x: Any) -> Any:
        return self.total, x

    def accum(self, op: Any) -> None:
        self.total = self.total + op.value

    def traverse(self, n: Any, loop: Any, k: Any) -> Eff[Any, Any]:
        answers = yield from loop(lambda i: self._with(total=0.0))
        total = self.total
        for part, _ in answers:
            total = total + part
        self.total = total
        return (yield from k(pe.table(lambda i: answers[i][1])))


def test_a_traverse_clause_of_a_user() -> None:
    def kernel(x: Any) -> Any:
        @effectful
        def body(i: Any) -> Any:
            yield from accum(x[i])
            return x[i] + 1.0

        return pe.run(handle(total_of(), pfor(x.index, body)))

    total, values = evaluated(kernel, X)
    assert total == X.sum()
    np.testing.assert_array_equal(values, X + 1.0)


def test_nothing_of_handlers_is_left() -> None:
    @pe.kernel
    def loss(x: Any, limit: Any) -> Any:
        @effectful
        def body(i: Any) -> Any:
            r = yield from attempt(square(x[i], limit))
            if isinstance(r, Ok):
                return r.value
            return 0.0

        total, values = pe.run(handle(accumulate(0.0, operator.add), pfor(x.index, body)))
        return total + pe.sum(lambda i: values[i])

    kept = X[X <= 2.5]
    np.testing.assert_allclose(loss(X, 2.5), (kept * kept).sum() + (2.0 * kept).sum())
    np.testing.assert_allclose(
        pe.grad(loss)(X, 2.5), np.where(X <= 2.5, 2.0 * X + 2.0, 0.0), rtol=1e-14
    )
    explained = str(pe.explain(loss, X, 2.5))
    optimized = explained.partition("== optimized program")[2].partition("\n== ")[0]
    assert optimized.count("for ") == 1
    assert "runs in parallel" in explained
    with pe.threads(1):
        alone = loss(np.arange(100_000.0), 1e9)
    with pe.threads(3):
        assert loss(np.arange(100_000.0), 1e9) == alone


@effectful
def square(v: Any, limit: Any) -> Any:
    if v > limit:
        yield from throw(v)
    yield from accum(v * v)
    return v * 2.0


# --- clauses with k ------------------------------------------------------------------------------


class Scale(Effect):
    """Numbers are scaled."""


class Double(Operation[Scale, float]):
    value: float


class plus_one(Handler[Scale]):
    """Resumes once, and not in tail position."""

    def double(self, op: Double, k: Any) -> Any:
        answer = yield from k(op.value * 2.0)
        return answer + 1.0


class gives_up(Handler[Scale]):
    """Never resumes."""

    def double(self, op: Double, k: Any) -> Any:
        yield from ()
        return op.value


class says_why(Handler[Scale]):
    """Ends after a computation of its own."""

    @final
    def double(self, op: Double) -> Any:
        yield from accum(op.value)
        return -1.0


@effectful
def doubles(x: Any) -> Any:
    a = yield from Double(x)
    b = yield from Double(a)
    return a + b


def test_clauses_with_k_run_where_nothing_depends_on_symbols() -> None:
    check_staged(lambda x: handle(plus_one(), doubles(x)), (3.0,))
    check_staged(lambda x: handle(gives_up(), doubles(x)), (3.0,))
    told = accumulate(0.0, operator.add)
    check_staged(lambda x: handle(told, handle(says_why(), doubles(x))), (3.0,))


# --- what is captured ----------------------------------------------------------------------------

FACTOR = 10.0
STARTS = run_state(5.0)


@effectful
def scaled(x: Any) -> Any:
    yield from put(x * FACTOR)
    return FACTOR


def test_what_effectful_functions_read_is_never_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    @pe.kernel
    def kernel(x: Any) -> Any:
        return pe.run(handle(run_state(0.0), scaled(x)))

    assert kernel(3.0) == (30.0, 10.0)
    monkeypatch.setitem(globals(), "FACTOR", 20.0)
    assert kernel(3.0) == (60.0, 20.0)

    def other(x: Any) -> Any:
        yield from put(x + FACTOR)
        return 0.0

    monkeypatch.setitem(globals(), "scaled", effectful(other))
    assert kernel(3.0) == (23.0, 0.0)


def test_a_handler_from_outside_is_read_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    @effectful
    def reads(x: Any) -> Any:
        return (yield from get()) + x

    @pe.kernel
    def kernel(x: Any) -> Any:
        return pe.run(handle(STARTS, reads(x)))

    assert kernel(1.0) == (5.0, 6.0)
    monkeypatch.setattr(STARTS, "s", 7.0)
    assert kernel(1.0) == (7.0, 8.0)
    monkeypatch.setitem(globals(), "STARTS", run_state(9.0))
    assert kernel(1.0) == (9.0, 10.0)


def test_a_debugger_sees_the_program() -> None:
    @pe.kernel
    def kernel(x: Any) -> Any:
        return pe.run(handle(keep_best(), records(x)))

    assert kernel.debug(X) == (4.0, 3)
