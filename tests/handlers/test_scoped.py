"""Scoped effects: what `catch`, `once`, `local` and depth limits do under each order of handlers.

The programs are those of the calculus of scoped effects (Bosman, van den Berg, Tang, Schrijvers);
where a scope needs more than the standard handlers, its handler is written here: `Begin` and `End`
mark the scope, and the clause of `Begin` sees every way in which the scope ended, each with the
rest of the program from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Never

import pytest

from peffects.handlers import (
    Err,
    Ok,
    State,
    all_worlds,
    amb,
    ask,
    catch,
    fail,
    get,
    guard,
    local,
    put,
    reader,
    run_state,
    throw,
    weak_exceptions,
)
from peffects.handlers.amb import Amb, AmbOp, Fail
from peffects.machine.handling.clauses import final, multi
from peffects.machine.handling.handler import Handler, handle
from peffects.machine.handling.operations import Effect, Operation, effectful
from peffects.machine.resuming.resumption import Resumption
from peffects.parallel import run


@effectful
def inc() -> Any:
    n: int = yield from get()
    yield from put(n + 1)
    return n


# --- catch ---------------------------------------------------------------------------------------


@effectful
def inc_checked() -> Any:
    n = yield from inc()
    if n > 10:
        yield from throw("Overflow")
    return n


@effectful
def catch_once() -> Any:
    return (yield from catch(inc_checked(), lambda error: 10))


@effectful
def three_times() -> Any:
    for _ in range(3):
        yield from inc_checked()
    return "success"


@effectful
def catch_later() -> Any:
    yield from inc_checked()
    return (yield from catch(three_times(), lambda error: "fail"))


CATCHES: list[tuple[Any, int, Any, Any]] = [
    (catch_once, 42, Ok((42, 10)), (43, Ok(10))),
    (catch_later, 1, Ok((5, "success")), (5, Ok("success"))),
    (catch_later, 8, Ok((9, "fail")), (12, Ok("fail"))),
    (catch_later, 42, Err("Overflow"), (43, Err("Overflow"))),
]


@pytest.mark.parametrize(("program", "start", "rolled_back", "kept"), CATCHES)
def test_catch_rolls_a_state_inside_back_and_keeps_one_outside(
    program: Any, start: int, rolled_back: Any, kept: Any
) -> None:
    assert run(handle(weak_exceptions(), handle(run_state(start), program()))) == rolled_back
    assert run(handle(run_state(start), handle(weak_exceptions(), program()))) == kept


# --- once ----------------------------------------------------------------------------------------


class Search(Effect): ...


class Choose(Operation[Search, Any]):
    options: tuple[Any, ...]


class Nothing(Operation[Search, Never]): ...


class Cut(Operation[Search, None]): ...


class Begin(Operation[Search, None]):
    limit: int = 0


class End(Operation[Search, Any]):
    value: Any


@effectful
def scope(c: Any, limit: int = 0) -> Any:
    yield from Begin(limit)
    value = yield from c
    return (yield from End(value))


@dataclass
class Ended:
    """A way in which a scope ended, and the rest from there."""

    value: Any
    k: Resumption[Any, Any]


class once_in_scopes(Handler[Search]):
    """Lists all worlds; of a scope only the first way to end."""

    def ret(self, x: Any) -> list[Any]:
        return [x]

    @multi
    def choose(self, op: Choose, k: Resumption[Any, Any]) -> Any:
        found: list[Any] = []
        for option in op.options:
            found = found + (yield from k(option))
        return found

    @final
    def nothing(self, op: Nothing) -> list[Any]:
        return []

    @multi
    def cut(self, op: Cut, k: Resumption[Any, Any]) -> Any:
        return (yield from k(None))

    @multi
    def begin(self, op: Begin, k: Resumption[Any, Any]) -> Any:
        ends = yield from k(None)
        return (yield from ends[0].k(ends[0].value)) if ends else []

    @multi
    def end(self, op: End, k: Resumption[Any, Any]) -> Any:
        return [Ended(op.value, k)]


@effectful
def inc_in_two_worlds() -> Any:
    yield from amb([True, False])
    return (yield from inc())


def test_worlds_have_a_state_each_inside_and_share_one_outside() -> None:
    assert run(handle(all_worlds(), handle(run_state(0), inc_in_two_worlds()))) == [(1, 0), (1, 0)]
    assert run(handle(run_state(0), handle(all_worlds(), inc_in_two_worlds()))) == (2, [0, 1])


@effectful
def choose_inc() -> Any:
    yield from Choose((True, False))
    return (yield from inc())


@effectful
def inc_after_once() -> Any:
    yield from scope(choose_inc())
    return (yield from inc())


def test_once_forwards_through_a_state_inside() -> None:
    assert run(handle(once_in_scopes(), handle(run_state(0), inc_after_once()))) == [(2, 1)]


@effectful
def inc_and_fail_first() -> Any:
    first = yield from Choose((True, False))
    n = yield from inc()
    if first:
        yield from Nothing()
    return n


def test_a_failed_world_of_once_is_rolled_back_inside_and_seen_outside() -> None:
    program = scope(inc_and_fail_first())
    assert run(handle(once_in_scopes(), handle(run_state(0), program))) == [(1, 0)]
    assert run(handle(run_state(0), handle(once_in_scopes(), program))) == (2, [1])


@effectful
def coin() -> Any:
    return (yield from Choose(("heads", "tails")))


def test_once_keeps_the_first() -> None:
    assert run(handle(once_in_scopes(), coin())) == ["heads", "tails"]
    assert run(handle(once_in_scopes(), scope(coin()))) == ["heads"]


class cut_in_scopes(Handler[Search]):
    """Lists worlds until a cut, which ends at its scope; the answer is (worlds, whether cut)."""

    def ret(self, x: Any) -> Any:
        return [x], False

    @multi
    def choose(self, op: Choose, k: Resumption[Any, Any]) -> Any:
        found: list[Any] = []
        for option in op.options:
            more, is_cut = yield from k(option)
            found = found + more
            if is_cut:
                return found, True
        return found, False

    @final
    def nothing(self, op: Nothing) -> Any:
        return [], False

    @multi
    def cut(self, op: Cut, k: Resumption[Any, Any]) -> Any:
        found, _ = yield from k(None)
        return found, True

    @multi
    def begin(self, op: Begin, k: Resumption[Any, Any]) -> Any:
        ends, _ = yield from k(None)
        found: list[Any] = []
        for end in ends:
            more, is_cut = yield from end.k(end.value)
            found = found + more
            if is_cut:
                return found, True
        return found, False

    @multi
    def end(self, op: End, k: Resumption[Any, Any]) -> Any:
        return [Ended(op.value, k)], False


@effectful
def cut_after_heads() -> Any:
    side = yield from Choose(("heads", "tails"))
    if side == "heads":
        yield from Cut()
    return side


def test_a_cut_prunes_up_to_its_scope() -> None:
    assert run(handle(cut_in_scopes(), cut_after_heads())) == (["heads"], True)
    assert run(handle(cut_in_scopes(), scope(cut_after_heads()))) == (["heads"], False)


# --- local ---------------------------------------------------------------------------------------


def test_local_changes_what_is_read_in_its_scope_only() -> None:
    @effectful
    def program() -> Any:
        before: int = yield from ask()
        inside: int = yield from local(lambda env: env + 5, ask())
        return (before, inside), (yield from ask())

    assert run(handle(reader(1), program())) == ((1, 6), 1)
    assert run(handle(reader(1), handle(all_worlds(), program()))) == [((1, 6), 1)]


def test_a_local_state() -> None:
    class X(State[int]): ...

    @effectful
    def program() -> Any:
        yield from X.put(10)
        _, inside = yield from handle(run_state(42, at=X), X.get())
        return inside, (yield from X.get())

    assert run(handle(run_state(0, at=X), program())) == (10, (42, 10))


# --- search to a depth ---------------------------------------------------------------------------


class to_depth(Handler[Search]):
    """Follows so many choices; a scope has a limit of its own.  Answers (result, depth left)."""

    def __init__(self, left: int, counts_scopes: bool) -> None:
        self.left = left
        self.counts_scopes = counts_scopes
        self.outer: Any = None

    def ret(self, x: Any) -> list[Any]:
        return [(x, self.left)]

    @multi
    def choose(self, op: Choose, k: Resumption[Any, Any]) -> Any:
        found: list[Any] = []
        if self.left == 0:
            return found
        self.left = self.left - 1
        for option in op.options:
            found = found + (yield from k(option))
        return found

    @final
    def nothing(self, op: Nothing) -> list[Any]:
        return []

    @multi
    def cut(self, op: Cut, k: Resumption[Any, Any]) -> Any:
        return (yield from k(None))

    @multi
    def begin(self, op: Begin, k: Resumption[Any, Any]) -> Any:
        self.outer = self.outer, self.left, op.limit
        self.left = op.limit
        found: list[Any] = []
        for end in (yield from k(None)):
            found = found + (yield from end.k(end.value))
        return found

    @multi
    def end(self, op: End, k: Resumption[Any, Any]) -> Any:
        self.outer, left, limit = self.outer
        used = limit - self.left
        self.left = left - used if self.counts_scopes else left
        return [Ended(op.value, k)]


@effectful
def chain(first: int, *rest: int) -> Any:
    if not rest or (yield from Choose((True, False))):
        return first
    return (yield from chain(*rest))


@effectful
def chains() -> Any:
    x = yield from scope(chain(1, 2, 3), 1)
    return (yield from chain(x, 4, 5, 6))


def test_a_scope_has_a_depth_of_its_own_or_one_that_counts() -> None:
    assert run(handle(to_depth(2, False), chains())) == [(1, 1), (4, 0)]
    assert run(handle(to_depth(2, True), chains())) == [(1, 0)]


class to_depth_by_amb(to_depth):
    """The same, with choices that are left to `Amb` further out."""

    def choose(self, op: Choose, k: Resumption[Any, Any]) -> Any:
        if self.left == 0:
            return []
        self.left = self.left - 1
        option = yield from amb(op.options)
        return (yield from k(option))


class nested_worlds(Handler[Amb]):
    """The results of a choice as a list, not joined to others."""

    @multi
    def amb(self, op: AmbOp, k: Resumption[Any, Any]) -> Any:
        found = []
        for option in op.options:
            found.append((yield from k(option)))
        return found

    @final
    def fail(self, op: Fail) -> list[Any]:
        return []


def test_the_shape_of_the_search() -> None:
    own = run(handle(nested_worlds(), handle(to_depth_by_amb(2, False), chains())))
    assert own == [[[(1, 1)], [[(4, 0)], []]], []]
    counted = run(handle(nested_worlds(), handle(to_depth_by_amb(2, True), chains())))
    assert counted == [[[(1, 0)], []], []]


# --- a parser ------------------------------------------------------------------------------------


@effectful
def char(accepted: str) -> Any:
    text: str = yield from get()
    yield from guard(text[:1] != "" and text[:1] in accepted)
    yield from put(text[1:])
    return text[0]


@effectful
def factor() -> Any:
    if (yield from amb([True, False])):
        return int((yield from char("0123456789")))
    yield from char("(")
    value = yield from expression()
    yield from char(")")
    return value


@effectful
def term() -> Any:
    value: int = yield from factor()
    if (yield from amb([True, False])):
        yield from char("*")
        return value * (yield from term())
    return value


@effectful
def expression() -> Any:
    value: int = yield from term()
    if (yield from amb([True, False])):
        yield from char("+")
        return value + (yield from expression())
    return value


def test_a_parser_finds_every_reading() -> None:
    readings = run(handle(all_worlds(), handle(run_state("(2+5)*8"), expression())))
    assert readings == [("", 56), ("*8", 7)]


def test_a_parser_of_nonsense_finds_nothing() -> None:
    assert run(handle(all_worlds(), handle(run_state("+"), expression()))) == []
    assert run(handle(all_worlds(), fail())) == []
