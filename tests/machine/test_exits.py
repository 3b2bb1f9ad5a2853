"""Exits out of `finally`, `except` and `with`: what Python does with its exceptions.

A random program is run with effects, and as plain Python, where each exit is an exception that only
its own handler catches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from peffects.errors import UnhandledEffectError
from peffects.handlers import (
    Err,
    Ok,
    Throw,
    accum,
    accumulate,
    all_worlds,
    amb,
    catch,
    throw,
    weak_exceptions,
)
from peffects.machine.handling.handler import Handler, handle
from peffects.machine.handling.operations import Effect, Operation, effectful
from peffects.parallel import ADD, CONCATENATE, JOIN, Shuffled, Threads, pfor, run


class Other(Throw[str]): ...


INSTANCES: dict[str, Any] = {"a": Throw, "b": Other}


class Fails:
    """Raises at the exit of its `with`, whatever comes."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        raise ValueError("exit")


@effectful
def perform(program: Any) -> Any:
    """Run a program with effects."""
    return (yield from inline(program))


def inline(program: Any) -> Any:
    kind, *rest = program
    match kind:
        case "tell":
            yield from accum(rest[0])
        case "amb":
            return (yield from amb([0, 1]))
        case "raise":
            raise ValueError(rest[0])
        case "throw":
            yield from INSTANCES[rest[0]].throw(rest[1])
        case "attempt":
            return (yield from handle(weak_exceptions(at=INSTANCES[rest[0]]), perform(rest[1])))
        case "try":
            try:
                return (yield from part(rest[0]))
            finally:
                yield from part(rest[1])
        case "except":
            try:
                return (yield from part(rest[0]))
            except ValueError:
                return "caught", (yield from part(rest[1]))
        case "with":
            with Fails():
                return (yield from part(rest[0]))
        case "if":
            if (yield from part(rest[0])):
                return (yield from part(rest[1]))
        case "par":
            return list((yield from pfor(rest[0], perform)))
        case "inline":
            return (yield from inline(rest[0]))
        case "seq":
            values = []
            for program in rest[0]:
                values.append((yield from part(program)))
            return values
    return None


def part(program: Any) -> Any:
    """Inlined or called, as the program says."""
    return inline(program[1]) if program[0] == "inline" else perform(program)


class Exit(Exception):
    """An exit to the handler `target`: a number, higher further in."""

    def __init__(self, target: int, error: str) -> None:
        super().__init__(error)
        self.target = target
        self.error = error


class Model:
    """One world of a program as plain Python.

    The first world of a frame that is suspended runs its `finally`, and so does each that returns
    into it; another world that leaves it has nothing to clean up there.
    """

    def __init__(self, script: list[int]) -> None:
        self.script = script
        self.choices: list[int] = []
        self.told: list[str] = []
        self.scope: list[str] = []
        self.ran = [0]  # for each frame: how many choices had been made when it ran last

    def runs(self) -> None:
        self.ran[-1] = len(self.choices)

    def is_other_world_s(self) -> bool:
        """Whether a first world has taken the frame, and this is another one."""
        return any(self.choices[self.ran[-1] :])

    def call(self, program: Any) -> Any:
        """In a frame of its own."""
        depth = len(self.ran)
        self.ran.append(len(self.choices))
        try:
            return self.run(program)
        finally:
            del self.ran[depth:]

    def part(self, program: Any) -> Any:
        value = self.run(program[1]) if program[0] == "inline" else self.call(program)
        self.runs()
        return value

    def attempt(self, instance: str, program: Any) -> Any:
        depth = len(self.scope)
        self.scope.append(instance)
        try:
            return Ok(self.call(program))
        except Exit as exit_:
            if exit_.target != depth:
                raise
            return Err(exit_.error)
        finally:
            del self.scope[depth:]

    def choose(self) -> int:
        at = len(self.choices)
        self.choices.append(self.script[at] if at < len(self.script) else 0)
        return self.choices[-1]

    def loop(self, bodies: Any) -> Any:
        """All iterations run; of their ends the one furthest out counts, the first of those.

        An exception goes first, and takes along what the iterations told.
        """
        values, exits, told = [], [], len(self.told)
        failed: ValueError | None = None
        for body in bodies:
            scope = list(self.scope)
            try:
                values.append(self.call(body))
            except Exit as exit_:
                exits.append(exit_)
            except ValueError as error:
                failed = failed or error
            self.scope = scope
        if failed is not None:
            del self.told[told:]
            raise failed
        if exits:
            raise min(exits, key=lambda exit_: exit_.target)
        return values

    def run(self, program: Any) -> Any:
        kind, *rest = program
        match kind:
            case "tell":
                self.told.append(rest[0])
            case "amb":
                value = self.choose()
                self.runs()
                return value
            case "raise":
                raise ValueError(rest[0])
            case "throw":
                at = len(self.scope) - 1 - self.scope[::-1].index(rest[0])
                raise Exit(at, rest[1])
            case "attempt":
                answer = self.attempt(rest[0], rest[1])
                self.runs()
                return answer
            case "try":
                return self.try_finally(rest[0], rest[1])
            case "except":
                try:
                    return self.part(rest[0])
                except ValueError:
                    return "caught", self.part(rest[1])
            case "with":
                with Fails():
                    return self.part(rest[0])
            case "if":
                if self.part(rest[0]):
                    return self.part(rest[1])
            case "par":
                values = self.loop(rest[0])
                self.runs()
                return values
            case "inline":
                return self.run(rest[0])
            case "seq":
                return [self.part(program) for program in rest[0]]
        return None

    def try_finally(self, body: Any, final: Any) -> Any:
        try:
            return self.part(body)
        finally:
            if not self.is_other_world_s():
                self.runs()
                self.part(final)


def programs(*leaves: Any) -> st.SearchStrategy[Any]:
    letters = st.sampled_from("xyz")
    throws = st.tuples(st.just("throw"), st.sampled_from("ab"), letters)
    tells = st.tuples(st.just("tell"), letters)

    def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.one_of(
            st.tuples(st.just("try"), inner, inner),
            st.tuples(st.just("attempt"), st.sampled_from("ab"), inner),
            st.tuples(st.just("seq"), st.lists(inner, max_size=3)),
            st.tuples(st.just("par"), st.lists(inner, max_size=2)),
            st.tuples(st.just("inline"), inner),
            *(
                [st.tuples(st.just("except"), inner, inner), st.tuples(st.just("with"), inner)]
                if ("raise", "v") in leaves
                else [st.tuples(st.just("if"), inner, inner)]
            ),
        )

    return st.recursive(st.one_of(throws, tells, *map(st.just, leaves)), larger, max_leaves=10)


def with_effects(program: Any, executor: Any = None) -> Any:
    both = handle(weak_exceptions(at=Other), handle(weak_exceptions(), perform(program)))
    try:
        return run(handle(accumulate(JOIN), both), executor=executor)
    except ValueError as error:
        return str(error)


def as_python(program: Any) -> Any:
    model = Model([])
    try:
        answer = model.attempt("b", ("attempt", "a", program))
    except ValueError as error:
        return str(error)
    return "".join(model.told), answer


@settings(max_examples=300)
@given(programs(("raise", "v")))
@example(("try", ("throw", "a", "x"), ("throw", "a", "y")))
@example(("try", ("throw", "b", "x"), ("attempt", "a", ("throw", "a", "y"))))
@example(("attempt", "b", ("attempt", "a", ("try", ("throw", "b", "x"), ("throw", "a", "y")))))
@example(("except", ("with", ("throw", "a", "x")), ("throw", "a", "y")))
def test_exits_are_those_of_python(program: Any) -> None:
    expected = as_python(program)
    assert with_effects(program) == expected
    assert with_effects(program, Shuffled(1)) == expected


@settings(max_examples=30)
@given(programs(("raise", "v")))
def test_exits_on_threads(program: Any) -> None:
    assert with_effects(program, Threads(2, chunk=1)) == as_python(program)


def amount(program: Any) -> int:
    if not isinstance(program, tuple | list):
        return int(program == "amb")
    return sum(map(amount, program))


@settings(max_examples=150)
@given(programs(("amb",)).filter(lambda program: amount(program) <= 5))
@example(("try", ("throw", "a", "x"), ("if", ("amb",), ("throw", "a", "y"))))
@example(("try", ("par", [("throw", "a", "x")]), ("amb",)))
def test_exits_in_worlds_are_those_of_python(program: Any) -> None:
    expected: list[Any] = []
    script: list[Any] = []
    while True:
        model = Model(script)
        answer = model.attempt("b", ("attempt", "a", program))
        expected.append(("".join(model.told), answer))
        left = model.choices
        while left and left[-1] == 1:
            left.pop()
        if not left:
            break
        script = [*left[:-1], 1]
    both = handle(weak_exceptions(at=Other), handle(weak_exceptions(), perform(program)))
    assert run(handle(all_worlds(), handle(accumulate(JOIN), both))) == expected


# --- clauses that do not resume, resumptions that are dropped ------------------------------------


class Ask(Effect): ...


class Question(Operation[Ask, Any]): ...


class ends(Handler[Ask]):
    def question(self, op: Question, k: Any) -> Any:
        return "ended"


class ends_by_generator(Handler[Ask]):
    def question(self, op: Question, k: Any) -> Any:
        yield from ()
        return "ended"


class raises(Handler[Ask]):
    def question(self, op: Question, k: Any) -> Any:
        raise ValueError("clause")


class drops(Handler[Ask]):
    def question(self, op: Question, k: Any) -> Any:
        return "dropped", (yield from k.drop())


class escapes(Handler[Ask]):
    def question(self, op: Question, k: Any) -> Any:
        return k


@effectful
def asks(then: Any) -> Any:
    try:
        yield from Question()
    finally:
        yield from perform(then)


@pytest.mark.parametrize("handler", [ends, ends_by_generator, raises], ids=lambda h: h.__name__)
def test_a_throw_replaces_the_end_of_a_clause_that_does_not_resume(handler: Any) -> None:
    thrown = ("throw", "a", "x")
    assert run(handle(weak_exceptions(), handle(handler(), asks(thrown)))) == Err("x")

    @effectful
    def goes_on() -> Any:
        answer = yield from handle(weak_exceptions(), asks(thrown))
        return "went on", answer

    assert run(handle(handler(), goes_on())) == ("went on", Err("x"))


def test_what_a_drop_ends_gives_none_whatever_its_finally_throws() -> None:
    @effectful
    def inside() -> Any:
        return (yield from handle(weak_exceptions(), asks(("throw", "a", "x"))))

    assert run(handle(drops(), inside())) == ("dropped", None)
    assert run(handle(weak_exceptions(), handle(drops(), asks(("throw", "a", "x"))))) == Err("x")


@pytest.mark.parametrize("ending", [lambda c: c, lambda c: pfor([0], lambda i: c)])
def test_an_effect_at_the_end_of_the_run_says_why_it_meets_no_handler(
    ending: Callable[[Any], Any],
) -> None:
    program = handle(accumulate(ADD), handle(escapes(), asks(("tell", "x"))))
    with pytest.raises(UnhandledEffectError) as caught:
        run(ending(program))
    message = str(caught.value)
    assert "`AccumOp` is performed in a `finally` or `with` at the end of the `run`" in message
    assert "nobody resumed `Question` in handler `escapes`" in message
    assert "handler of `Accum` around them has ended" in message
    assert "at test_exits.py" in message and "yield from accum(rest[0])" in message
    assert "`yield from k.drop()`" in message


def test_an_effect_at_the_end_of_the_run_meets_the_handlers_that_the_resumption_holds() -> None:
    seen = []

    @effectful
    def noting() -> Any:
        total, _ = yield from handle(accumulate(CONCATENATE), asks(("tell", ("x",))))
        seen.append(total)

    class keeps(Handler[Ask]):
        def question(self, op: Question, k: Any) -> Any:
            return [k]

    @effectful
    def around() -> Any:
        try:
            yield from noting()
        finally:
            seen.append("outer")

    run(handle(keeps(), around()))
    assert seen == ["outer"]


def test_a_throw_in_finally_reaches_catch_and_takes_back_what_its_scope_did() -> None:
    program = catch(
        perform(("try", ("throw", "a", "x"), ("throw", "a", "y"))), lambda error: ("on", error)
    )
    assert run(handle(weak_exceptions(), program)) == Ok(("on", "y"))


def test_swallowing_an_exit_does_not_stop_it_and_a_later_one_replaces_it() -> None:
    @effectful
    def swallows() -> Any:
        try:
            yield from throw("x")
        except BaseException:
            yield from accum(1)
        return 5

    assert run(handle(accumulate(ADD), handle(weak_exceptions(), swallows()))) == (1, Err("x"))
