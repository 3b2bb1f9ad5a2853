"""Functions that share variables with who made them: each world has them to itself."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from fuzz.choices import Drawn
from fuzz.variable_programs import check_variables, rows, variable_program
from hypothesis import given, settings
from hypothesis import strategies as st

from peffects import (
    BasicHandler,
    Effect,
    Fin,
    Operation,
    ParHandler,
    effectful,
    handle,
    mask,
    once,
    pfor,
    run,
)
from peffects.handlers import all_worlds, amb, catch, fail, first_worlds, weak_exceptions
from peffects.machine.resuming.variables import depends_on_maker
from peffects.machine.running.pickling import pickled, unpickled
from peffects.parallel import Serial


@effectful
def chosen(f: Callable[[int], int]) -> Any:
    """`f` of a choice."""
    return f((yield from amb([1, 2])))


@effectful
def given_by(c: Any) -> Any:
    return (yield from c)


class Ask(Effect): ...


class Of(Operation[Ask, int]):
    c: object


class asking(BasicHandler[Ask]):
    def of(self, op: Of) -> Any:
        return (yield from given_by(op.c))


Wrap = Callable[[Any], Any]
WAYS: dict[str, Wrap] = {
    "call": lambda c: c,
    "handler": lambda c: handle(asking(), c),
    "two handlers": lambda c: handle(asking(), handle(asking(), c)),
    "mask": lambda c: mask(Ask, handle(asking(), c)),
    "argument": given_by,
    "argument of an argument": lambda c: given_by(handle(asking(), given_by(c))),
    "catch": lambda c: catch(c, lambda error: 0),
    "operation": lambda c: handle(asking(), Of(c)),
    "operation under a handler": lambda c: handle(asking(), given_by(Of(c))),
}
by_each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def worlds(program: Any) -> Any:
    return run(handle(all_worlds(), handle(weak_exceptions(), program)))


def values(program: Any) -> list[Any]:
    return [answer.value for answer in worlds(program)]


@by_each_way
def test_a_lambda_reads_what_its_variable_was_in_its_world(way: Wrap) -> None:
    @effectful
    def program() -> Any:
        s = 0
        s = yield from way(chosen(lambda x: x + s))
        return s + 10

    assert values(program()) == [11, 12]


@by_each_way
def test_so_does_a_nested_function(way: Wrap) -> None:
    @effectful
    def program() -> Any:
        s = 0

        @effectful
        def choose() -> Any:
            return (yield from amb([1, 2])) + s

        s = yield from way(choose())
        s = yield from way(choose())
        return s

    assert values(program()) == [2, 3, 3, 4]


@by_each_way
def test_what_a_call_that_is_over_has_bound_stays_bound(way: Wrap) -> None:
    @effectful
    def program() -> Any:
        n = 0

        @effectful
        def tick() -> Any:
            nonlocal n
            n += 1
            return (yield from once(lambda: n))

        yield from way(tick())
        x = yield from amb([1, 2])
        yield from way(tick())
        y = yield from amb([10, 20])
        return n, x + y

    assert values(program()) == [(2, 11), (2, 21), (2, 12), (2, 22)]


@by_each_way
def test_a_call_that_goes_on_binds_in_its_world(way: Wrap) -> None:
    @effectful
    def program() -> Any:
        n = 0

        @effectful
        def tick() -> Any:
            nonlocal n
            n += 1
            x = yield from amb([1, 2])
            n += x
            return x

        x = yield from way(tick())
        y = yield from way(tick())
        return n, x + y

    assert values(program()) == [(4, 2), (5, 3), (5, 3), (6, 4)]


def test_branch_and_bound() -> None:
    def search(choose: Callable[[], Any]) -> Any:
        @effectful
        def program() -> Any:
            best, seen = 100, 0

            @effectful
            def go(depth: int) -> Any:
                nonlocal best, seen
                if depth == 0:
                    seen += 1
                    best = min(best, (yield from choose()))
                    return best
                left = yield from go(depth - 1)
                right = yield from go(depth - 1)
                return left + right

            total = yield from go(2)
            return total, best, seen

        return program()

    def best(costs: tuple[int, ...]) -> tuple[int, int, int]:
        best = list(itertools.accumulate(costs, min))
        return sum(best), best[-1], 4

    expected = [best(costs) for costs in itertools.product([3, 1, 2], repeat=4)]
    assert values(search(lambda: amb([3, 1, 2]))) == expected
    firsts = handle(first_worlds(50), handle(weak_exceptions(), search(lambda: amb([3, 1, 2]))))
    assert [answer.value for answer in run(firsts)] == expected[:50]


def test_the_variable_of_a_loop() -> None:
    @effectful
    def program() -> Any:
        out = 0
        for i in range(3):
            out = 10 * out + (yield from chosen(lambda x: x + i * out))  # noqa: B023
        return out

    def plain(xs: tuple[int, ...]) -> int:
        return functools.reduce(lambda out, ix: 10 * out + ix[1] + ix[0] * out, enumerate(xs), 0)

    assert values(program()) == [plain(xs) for xs in itertools.product([1, 2], repeat=3)]


@pytest.mark.parametrize(
    "held",
    [
        lambda f: functools.partial(f),
        lambda f: functools.partial(lambda g, x: g(x), f),
        lambda f: (f,),
        lambda f: [f],
        lambda f: {"f": f},
    ],
    ids=["partial", "argument of a partial", "tuple", "list", "dict"],
)
def test_functions_in_arguments(held: Callable[[Any], Any]) -> None:
    @effectful
    def called(holder: Any) -> Any:
        f = holder
        if isinstance(holder, dict):
            f = holder["f"]
        elif isinstance(holder, tuple | list):
            f = holder[0]
        return f((yield from amb([1, 2])))

    @effectful
    def program() -> Any:
        s = 0
        s = yield from called(held(lambda x: x + s))
        t = s
        s = yield from called(holder=held(lambda x: x + s))
        return t, s

    assert values(program()) == [(1, 2), (1, 3), (2, 3), (2, 4)]


def test_functions_that_refer_to_each_other() -> None:
    @effectful
    def program() -> Any:
        n = 0

        def add(k: int) -> int:
            nonlocal n
            n += k
            return twice(k - 1) if k > 1 else n

        def twice(k: int) -> int:
            add(k)
            return add(k)

        @effectful
        def through(k: int) -> Any:
            add(k)
            x = yield from amb([1, 2])
            return add(x)

        yield from through(1)
        yield from through(2)
        return n

    def plain(x: int, y: int) -> int:
        n = 0

        def add(k: int) -> None:
            nonlocal n
            n += k
            if k > 1:
                add(k - 1)
                add(k - 1)

        for k in (1, x, 2, y):
            add(k)
        return n

    assert values(program()) == [plain(x, y) for x, y in itertools.product([1, 2], repeat=2)]


def test_a_function_that_waits_for_a_loop_under_a_handler() -> None:
    """It is resumed by the clause of the loop, which stands between it and who made it."""

    @effectful
    def program() -> Any:
        a = 1

        @effectful
        def adds() -> Any:
            nonlocal a
            a += sum((yield from pfor(Fin(2), lambda i: chosen(lambda x: x + a))))
            return a

        a = yield from catch(adds(), lambda error: 0)
        return a

    assert values(program()) == [5, 6, 6, 7]


def test_a_function_that_waits_below_clauses_of_two_loops() -> None:
    """Each clause that resumed it still waits, between it and who made it."""

    @effectful
    def program() -> Any:
        a = 1

        @effectful
        def adds() -> Any:
            nonlocal a
            a += sum((yield from pfor(Fin(2), lambda i: chosen(lambda x: x + a))))
            a += sum((yield from pfor(Fin(2), lambda i: chosen(lambda x: x + a))))
            return a

        a = yield from catch(adds(), lambda error: 0)
        return a

    def plain(*rest: int) -> int:
        a = 1
        for x, y in [rest[:2], rest[2:]]:
            a += x + a + y + a
        return a

    assert values(program()) == [plain(*r) for r in itertools.product([1, 2], repeat=4)]


def test_a_variable_without_a_value() -> None:
    @effectful
    def program() -> Any:
        @effectful
        def known() -> Any:
            x = yield from amb([1, 2])
            try:
                return x, late
            except NameError:
                return x, "unbound"

        before = yield from known()
        late = before[0] * 10
        after = yield from known()
        del late
        return before[1], after, (yield from known())[1]

    expected = [
        ("unbound", (y, x * 10), "unbound") for x, y, _ in itertools.product([1, 2], repeat=3)
    ]
    assert values(program()) == expected


def test_a_call_that_is_over_has_unbound_a_variable() -> None:
    @effectful
    def program() -> Any:
        x = 1

        @effectful
        def forgets() -> Any:
            nonlocal x
            del x
            return None
            yield  # type: ignore[unreachable]

        yield from forgets()
        y = yield from amb([1, 2])
        try:
            return x, y
        except NameError:
            return "unbound", y

    assert values(program()) == [("unbound", 1), ("unbound", 2)]


def test_the_variable_of_a_for_is_bound_in_each_round() -> None:
    @effectful
    def program() -> Any:
        seen = []
        for i in range(2):
            seen.append((yield from chosen(lambda x: 10 * i + x)))  # noqa: B023
        return tuple(seen)

    assert values(program()) == [(x, 10 + y) for x, y in itertools.product([1, 2], repeat=2)]


class Twice(Effect): ...


class Again(Operation[Twice, int]): ...


class tenfold(ParHandler[Twice]):
    """Its clauses go on after what they resume."""

    def again(self, op: Again, k: Any) -> Any:
        return 10 * (yield from k(1))

    def traverse(self, n: Any, loop: Any, k: Any) -> Any:
        return (yield from k((yield from loop())))


def test_a_clause_goes_on_when_what_it_resumed_was_made_anew() -> None:
    @effectful
    def program() -> Any:
        a = 1

        @effectful
        def adds() -> Any:
            nonlocal a
            a += yield from Again()
            a += yield from chosen(lambda x: x + a)
            return a

        return (yield from handle(tenfold(), adds())), a

    assert values(program()) == [(10 * (4 + x), 4 + x) for x in (1, 2)]


def test_worlds_that_fail_leave_variables_as_they_are() -> None:
    @effectful
    def program() -> Any:
        tried = 0

        @effectful
        def attempt(limit: int) -> Any:
            nonlocal tried
            tried += 1
            x = yield from amb([1, 2, 3])
            tried += 10
            if x < limit:
                yield from fail()
            return x

        x = yield from attempt(2)
        y = yield from attempt(3)
        return tried, x, y

    assert values(program()) == [(22, 2, 3), (22, 3, 3)]


def test_variables_outside_the_choice_are_of_all_worlds() -> None:
    @effectful
    def program() -> Any:
        seen = 0

        @effectful
        def counts() -> Any:
            nonlocal seen
            x = yield from amb([1, 2])
            seen += 1
            return x, seen

        return (yield from handle(all_worlds(), counts())), seen

    assert run(program()) == ([(1, 1), (2, 2)], 2)


def test_worlds_in_pickles() -> None:
    pytest.importorskip("cloudpickle")

    @effectful
    def program() -> Any:
        n = 0

        @effectful
        def tick() -> Any:
            nonlocal n
            n += 1
            return (yield from once(lambda: n))

        yield from tick()
        return n + (yield from amb([1, 2]))

    again = unpickled(pickled(handle(all_worlds(), program())))
    assert run(again, executor=Serial()) == [2, 3]


def test_what_is_bound_once_costs_nothing() -> None:
    @effectful
    def program(n: int) -> Any:
        @effectful
        def search(k: int) -> Any:
            return k if k == n else (yield from search(k + 1))

        computation = search(0)
        dependent = depends_on_maker(computation)
        yield from computation
        return dependent

    assert run(program(3)) is False


@settings(max_examples=60)
@given(data=st.data())
def test_random_programs(data: st.DataObject) -> None:
    """Replayed worlds are what the program gives when it runs anew for each row of choices."""
    check_variables(variable_program(Drawn(data.draw)))


def test_the_oracle_tries_all_rows() -> None:
    def two(choose: Callable[[int], int]) -> tuple[int, ...]:
        x = choose(3)
        return (x, choose(2)) if x else (x,)

    assert list(rows(two)) == [(0,), (1, 0), (1, 1), (2, 0), (2, 1)]
