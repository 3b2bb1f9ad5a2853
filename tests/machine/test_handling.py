"""Handler classes: the kinds of clauses, the checks at definition, and the shapes of traverse."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import Any, Never, overload

import pytest

from peffects.errors import HandlerDefinitionError, UnhandledEffectError
from peffects.handlers import State, accum, accumulate, run_state
from peffects.machine.handling.clauses import FINAL, GENERAL, MULTI, final, multi
from peffects.machine.handling.handler import (
    BasicHandler,
    CollectHandler,
    Handler,
    ParHandler,
    SplitHandler,
    handle,
    handler,
)
from peffects.machine.handling.operations import Effect, Operation, effectful
from peffects.parallel import CONCATENATE, Fin, Shuffled, pfor, run


class Shop(Effect): ...


class Buy(Operation[Shop, int]):
    what: str


class Leave(Operation[Shop, Never]): ...


class Log(Effect): ...


class Note(Operation[Log, None]):
    text: str


class Ticket(Effect): ...


class Draw(Operation[Ticket, int]): ...


def test_clause_kinds_follow_from_signature_and_mark() -> None:
    class shop(Handler[Shop]):
        def buy(self, op: Buy, k: Any) -> Any: ...

        @final
        def leave(self, op: Leave) -> Any: ...

    kinds = {name: clause.kind for name, clause in shop._clauses.items()}
    assert kinds == {"buy": GENERAL, "leave": FINAL}

    class many(shop):
        @multi
        def buy(self, op: Buy, k: Any) -> Any: ...

    assert many._clauses["buy"].kind == MULTI
    assert many._has_multi
    assert not shop._has_multi


def test_a_clause_may_be_decorated_with_effectful() -> None:
    class logs(Handler[Log]):
        @effectful
        def note(self, op: Note) -> Any:
            yield from accum((op.text,))

    assert run(handle(accumulate(CONCATENATE), handle(logs(), Note("a")))) == (("a",), None)


def refused(define: Any, *parts: str) -> None:
    with pytest.raises(HandlerDefinitionError) as caught:
        define()
    text = str(caught.value)
    assert all(part in text for part in parts), text
    assert "at test_handling.py:" in text


def test_a_misspelt_clause_is_refused_with_what_was_meant() -> None:
    def define() -> None:
        class logs(Handler[Log]):
            def nite(self, op: Note) -> None: ...

    refused(define, "`nite`", "no such operation", "Did you mean `note`?", "its operations: `note`")


def test_a_public_helper_is_refused() -> None:
    def define() -> None:
        class logs(Handler[Log]):
            def note(self, op: Note) -> None: ...

            def prepare(self) -> None: ...

    refused(define, "`prepare`", "Name a helper `_prepare`")


def test_a_missing_clause_is_refused() -> None:
    def define() -> None:
        class shop(Handler[Shop]):
            @final
            def leave(self, op: Leave) -> None: ...

    refused(define, "no clause for `buy` of effect `Shop`", "`def buy(self, op)`")


def test_a_refusal_of_a_class_is_at_its_first_method() -> None:
    with pytest.raises(HandlerDefinitionError, match="has no clause for `note`") as caught:

        class half(Handler[Log]):
            def ret(self, x: Any) -> Any: ...

            def _helper(self) -> None: ...

    assert caught.value.at.function == "ret"


def test_a_clause_may_have_parameters_with_defaults() -> None:
    class counts(BasicHandler[Log]):
        def note(self, op: Note, times: int = 2) -> Any:
            return op.text * times

    assert run(handle(counts(), Note("ab"))) == "abab"


def test_answering_what_answers_never_is_refused() -> None:
    def at_once() -> None:
        class shop(Handler[Shop]):
            def buy(self, op: Buy) -> int:
                return 1

            def leave(self, op: Leave) -> None: ...

    def by_performing() -> None:
        class shop(Handler[Shop]):
            def buy(self, op: Buy) -> int:
                return 1

            def leave(self, op: Leave) -> Any:
                yield from accum(("left",))

    for define in (at_once, by_performing):
        refused(define, "would answer an operation that answers `Never`", "`@final`")


def test_wrong_numbers_of_parameters_are_refused() -> None:
    def too_many() -> None:
        class logs(Handler[Log]):
            def note(self, op: Note, k: Any, more: Any) -> None: ...

    def final_with_k() -> None:
        class logs(Handler[Log]):
            @final
            def note(self, op: Note, k: Any) -> None: ...

    def multi_without_k() -> None:
        class logs(Handler[Log]):
            @multi
            def note(self, op: Note) -> None: ...

    refused(too_many, "takes 4 parameters", "`(self, op)`")
    refused(final_with_k, "takes 3 parameters", "`(self, op)`")
    refused(multi_without_k, "takes 2 parameters", "`(self, op, k)`")


def test_a_clause_that_is_defined_twice_is_refused() -> None:
    def clause() -> None:
        class logs(Handler[Log]):
            def note(self, op: Note) -> None: ...

            def note(self, op: Note) -> Any:  # type: ignore[no-redef]  # noqa: F811
                return 1

    def ret() -> None:
        class logs(Handler[Log]):
            def ret(self, x: Any) -> Any:
                return x

            @final
            def note(self, op: Note) -> None: ...

            def ret(self, x: Any) -> Any:  # type: ignore[no-redef]  # noqa: F811
                return [x]

    refused(clause, "`logs` defines `note` twice", "the first one is at test_handling.py:")
    refused(ret, "`logs` defines `ret` twice", "Python keeps the last")
    first = clause.__code__.co_firstlineno + 2
    refused(clause, f"at test_handling.py:{first + 2} ", f"is at test_handling.py:{first}")


def test_a_clause_may_be_chosen_or_overloaded() -> None:
    class logs(Handler[Log]):
        @overload
        def note(self, op: Note) -> int: ...
        @overload
        def note(self, op: Any) -> int: ...
        def note(self, op: Any) -> int:
            return 1

    class imported(Handler[Log]):
        @typing.overload
        def note(self, op: Note) -> int: ...
        @typing.overload
        def note(self, op: Any) -> int: ...
        def note(self, op: Any) -> int:
            return 1

    for loud in (False, True):

        class chosen(Handler[Log]):
            if loud:

                def note(self, op: Note) -> int:
                    return 2
            else:

                def note(self, op: Note) -> int:
                    return 3

        assert run(handle(chosen(), Note("x"))) == (2 if loud else 3)
    assert run(handle(logs(), Note("x"))) == run(handle(imported(), Note("x"))) == 1


def test_methods_that_are_no_operation_clauses_have_their_parameters() -> None:
    def ret() -> None:
        class logs(Handler[Log]):
            def ret(self) -> Any: ...  # type: ignore[override]

            def note(self, op: Note) -> None: ...

    def traverse() -> None:
        class logs(ParHandler[Log]):
            def note(self, op: Note) -> None: ...

            def traverse(self, loop: Any, k: Any) -> Any:  # type: ignore[override]
                yield

    def collect() -> None:
        class logs(CollectHandler[Log]):
            def note(self, op: Note) -> None: ...

            def collect(self, n: Any, answers: Any) -> Any: ...  # type: ignore[override]

    def a_value() -> None:
        class logs(Handler[Log]):
            ret = 3  # type: ignore[assignment]

            def note(self, op: Note) -> None: ...

    refused(ret, "`ret` of handler `logs` takes 1 parameter.", "`def ret(self, x)`")
    refused(traverse, "takes 3 parameters", "`def traverse(self, n, loop, k)`")
    refused(collect, "takes 3 parameters", "`def collect(self, answers)`")
    refused(a_value, "`ret` of handler `logs` is no plain method")


def test_what_a_base_asks_for_is_not_left_out() -> None:
    def collect() -> None:
        class logs(CollectHandler[Log]):
            def note(self, op: Note) -> None: ...

    def split() -> None:
        class logs(SplitHandler[Log]):
            def note(self, op: Note) -> None: ...

    def ret() -> None:
        class logs(CollectHandler[Log]):
            count = 0

            def note(self, op: Note) -> None:
                self.count = self.count + 1

            def collect(self, answers: Any) -> Any:
                return answers

    refused(collect, "CollectHandler without `collect`", "`def collect(self, answers)`")
    refused(split, "SplitHandler without `split`", "`def split(self, n)`")
    refused(ret, "changes its state in `note` and has no `ret`", "would be lost")


def test_traverse_belongs_to_parallel_handlers_and_performs() -> None:
    def sequential_with_traverse() -> None:
        class logs(Handler[Log]):
            def note(self, op: Note) -> None: ...

            def traverse(self, n: Any, loop: Any, k: Any) -> Any:
                yield

    def parallel_without_traverse() -> None:
        class logs(ParHandler[Log]):
            def note(self, op: Note) -> None: ...

    def traverse_without_yield() -> None:
        class logs(ParHandler[Log]):
            def note(self, op: Note) -> None: ...

            def traverse(self, n: Any, loop: Any, k: Any) -> Any:
                return k(loop())

    refused(sequential_with_traverse, "no ParHandler", "class logs(ParHandler[...])")
    refused(parallel_without_traverse, "without traverse clause", "`BasicHandler`")
    refused(traverse_without_yield, "contains no `yield from`")


def test_slots_and_operations_in_place_of_effects_are_refused() -> None:
    def slots() -> None:
        class logs(Handler[Log]):
            __slots__ = ("text",)

            def note(self, op: Note) -> None: ...

    def names_operation() -> None:
        class logs(Handler[Note]):
            def note(self, op: Note) -> None: ...

    refused(slots, "`__slots__`")
    refused(names_operation, "names the operation `Note`", "names the effect: `Log`")


def test_a_basic_handler_with_changing_state_is_refused() -> None:
    def rebinds() -> None:
        class counts(BasicHandler[Log]):
            def note(self, op: Note) -> None:
                self.n = 1

    def answers_otherwise() -> None:
        class wraps(BasicHandler[Log]):
            def ret(self, x: Any) -> Any:
                return [x]

            def note(self, op: Note) -> None: ...

    def resumes() -> None:
        class resumes_by_hand(BasicHandler[Log]):
            def note(self, op: Note, k: Any) -> Any: ...

    for define, name in ((rebinds, "`note`"), (answers_otherwise, "`ret`"), (resumes, "`note`")):
        refused(define, "is a BasicHandler", name, "does more than answer")


def test_an_instance_of_another_effect_is_refused() -> None:
    with pytest.raises(HandlerDefinitionError, match="it is no named instance of `State`"):
        run_state(1, at=Log)  # type: ignore[arg-type]


def test_arguments_of_a_handler_without_init_are_refused() -> None:
    class logs(BasicHandler[Log]):
        def note(self, op: Note) -> None: ...

    with pytest.raises(TypeError, match="takes no arguments"):
        logs(3)  # type: ignore[call-arg]


def test_an_operation_defined_after_its_handler_is_refused_when_performed() -> None:
    class Late(Effect): ...

    class First(Operation[Late, None]): ...

    class early(Handler[Late]):
        def first(self, op: First) -> None: ...

    class Second(Operation[Late, None]): ...

    with pytest.raises(UnhandledEffectError, match="no clause `second`"):
        run(handle(early(), Second()))


def test_a_handler_has_handle_as_a_method() -> None:
    assert run(run_state(3).handle(State.get())) == (3, 3)


def test_forks_share_fields_and_with_changes_some() -> None:
    original = run_state(1)
    fork = original._fork()
    changed = original._with(s=2)
    assert (original.s, fork.s, changed.s) == (1, 1, 2)
    fork.s = 5
    assert original.s == 1
    assert repr(changed) == "run_state(s=2)"


def test_the_instance_may_be_given_by_position() -> None:
    class Fuel(State[int]): ...

    class holds(Handler[State[int]]):
        def __init__(self, start: int, at: type[State[int]] = State, limit: int = 9) -> None:
            self.start = start

        def get(self, op: Any) -> int:
            return self.start

        def put(self, op: Any) -> None: ...

    for instance in (holds(3, Fuel), holds(3, Fuel, 5), holds(3, at=Fuel)):
        assert run(handle(instance, Fuel.get())) == 3
    assert run(handle(holds(3), State.get())) == 3


def test_the_instance_survives_a_fork() -> None:
    class Fuel(State[int]): ...

    assert repr(run_state(1, at=Fuel)._fork()) == "run_state(s=1, at=Fuel)"


# --- the shapes of traverse ----------------------------------------------------------------------


def test_a_basic_handler_runs_around_a_parallel_for() -> None:
    class numbered(BasicHandler[Ticket]):
        def __init__(self, number: int) -> None:
            self.number = number

        def draw(self, op: Draw) -> int:
            return self.number

    @effectful
    def program() -> Any:
        drawn = yield from pfor(Fin(3), lambda i: Draw())
        return [*drawn, (yield from Draw())]

    assert run(handle(numbered(4), program()), executor=Shuffled(3)) == [4, 4, 4, 4]


def test_a_small_handler_runs_around_a_parallel_for() -> None:
    seven = handler(Draw, lambda op: 7)
    assert run(handle(seven, pfor(Fin(2), lambda i: Draw()))) == [7, 7]
    assert isinstance(seven, BasicHandler)


def test_a_collect_handler_says_how_answers_become_values() -> None:
    class notes(CollectHandler[Log]):
        def __init__(self) -> None:
            self.all: tuple[str, ...] = ()

        def ret(self, x: Any) -> Any:
            return self.all, x

        def note(self, op: Note) -> None:
            self.all = (*self.all, op.text)

        def collect(self, answers: Any) -> Any:
            self.all = tuple(text for texts, _ in answers for text in texts)
            return [value for _, value in answers]

    @effectful
    def body(i: int) -> Any:
        yield from Note(f"in {int(i)}")
        return i * i

    @effectful
    def program() -> Any:
        values = yield from pfor(Fin(3), body)
        yield from Note("end")
        return sum(values)

    answer = run(handle(notes(), program()), executor=Shuffled(1))
    assert answer == (("in 0", "in 1", "in 2", "end"), 5)


@pytest.mark.parametrize("as_sequence", [False, True])
def test_a_split_handler_says_how_iterations_start(as_sequence: bool) -> None:
    class tickets(SplitHandler[Ticket]):
        def __init__(self, first: int) -> None:
            self.next = first

        def draw(self, op: Draw) -> int:
            self.next = self.next + 1
            return self.next - 1

        def split(self, n: Any) -> Any:
            first = self.next
            self.next = first + 100 * len(n)
            if as_sequence:
                return [self._with(next=first + 100 * i) for i in range(len(n))]
            return lambda i: self._with(next=first + 100 * i)

    @effectful
    def program() -> Any:
        drawn = yield from pfor(Fin(3), lambda i: Draw())
        return [*drawn, (yield from Draw())]

    assert run(handle(tickets(5), program()), executor=Shuffled(1)) == [5, 105, 205, 305]


def test_a_handler_may_be_a_frozen_dataclass() -> None:
    @dataclass(frozen=True)
    class numbered(BasicHandler[Ticket]):
        first: int

        def draw(self, op: Draw) -> int:
            return self.first

    @effectful
    def ticket(i: int) -> Any:
        return (yield from Draw()) + i

    assert list(run(handle(numbered(5), pfor(Fin(2), ticket)))) == [5, 6]


@pytest.mark.parametrize("how", ["one", "list", "fresh"])
def test_iterations_do_not_share_the_handler_that_they_start_with(how: str) -> None:
    class tickets(ParHandler[Ticket]):
        def __init__(self, next_number: int) -> None:
            self.next_number = next_number

        def draw(self, op: Draw) -> int:
            self.next_number = self.next_number + 1
            return self.next_number

        def traverse(self, n: Any, loop: Any, k: Any) -> Any:
            first = self._with(next_number=10)
            starts = {
                "one": lambda i: first,
                "list": [first] * len(n),
                "fresh": lambda i: self._with(next_number=10),
            }
            values = yield from loop(starts[how])
            again = yield from loop(starts[how])
            assert values == again
            return (yield from k(values))

    @effectful
    def two(i: int) -> Any:
        return (yield from Draw()), (yield from Draw())

    assert list(run(handle(tickets(0), pfor(Fin(3), two)))) == [(11, 12)] * 3
