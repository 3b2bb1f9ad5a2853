"""Unwinding in hard places: once, in order, with effects, in worlds, in loops, while unwinding."""

from __future__ import annotations

from typing import Any, Never

import pytest

from peffects.handlers import (
    Err,
    Ok,
    Throw,
    accum,
    accumulate,
    all_worlds,
    amb,
    fail,
    prng,
    run_state,
    throw,
    uniform,
    weak_exceptions,
)
from peffects.machine.handling.clauses import final
from peffects.machine.handling.handler import Handler, handle
from peffects.machine.handling.operations import Effect, Operation, effectful
from peffects.parallel import CONCATENATE, Executor, Fin, Serial, Shuffled, Threads, pfor, run


class Ask(Effect): ...


class Question(Operation[Ask, Any]): ...


class Quit(Effect): ...


class Leave(Operation[Quit, Never]): ...


class leaves(Handler[Quit]):
    @final
    def leave(self, op: Leave) -> str:
        return "left"


class resumes(Handler[Ask]):
    """One-shot, and not in tail position, so that the rest is captured."""

    def question(self, op: Question, k: Any) -> Any:
        rest = yield from k("answer")
        return "resumed", rest


class ignores(Handler[Ask]):
    @final
    def question(self, op: Question) -> str:
        return "ignored"


class Fails:
    """Raises at the exit of its `with`, whatever comes."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        raise ValueError("exit")


@effectful
def cleaning(name: str, inner: Any, *, ask: bool = False) -> Any:
    try:
        return (yield from inner)
    finally:
        if ask:
            yield from Question()
        yield from accum((name,))


def logged(program: Any) -> Any:
    return run(handle(accumulate(CONCATENATE), program))


def test_frames_of_several_handlers_unwind_from_the_top() -> None:
    program = cleaning("a", handle(run_state(0), cleaning("b", cleaning("c", Leave()))))
    assert logged(handle(leaves(), program)) == (("c", "b", "a"), "left")


def test_unwinding_may_be_captured_and_resumed() -> None:
    program = handle(leaves(), cleaning("outer", cleaning("inner", Leave(), ask=True)))
    answer = logged(handle(resumes(), program))
    assert answer == (("inner", "outer"), ("resumed", "left"))


def test_unwinding_may_itself_be_dropped_and_unwinds_the_rest_once() -> None:
    program = handle(leaves(), cleaning("outer", cleaning("inner", Leave(), ask=True)))
    answer = logged(cleaning("outside", handle(ignores(), program)))
    assert answer == (("outer", "outside"), "ignored")


def test_dropping_inside_an_unwinding_nests() -> None:
    @effectful
    def frame() -> Any:
        try:
            yield from Leave()
        finally:
            inner = yield from handle(ignores(), cleaning("nested", Question()))
            yield from accum((inner,))

    assert logged(handle(leaves(), frame())) == (("nested", "ignored"), "left")


def test_swallowing_the_unwinding_does_not_stop_it() -> None:
    @effectful
    def swallows() -> Any:
        try:
            yield from Leave()
        except BaseException:
            yield from accum(("swallowed",))
        return "went on"

    program = handle(leaves(), cleaning("outer", swallows()))
    assert logged(program) == (("swallowed", "outer"), "left")


def test_an_exception_while_unwinding_an_exception_keeps_both() -> None:
    class fails(Handler[Ask]):
        @final
        def question(self, op: Question) -> None:
            raise KeyError("clause")

    @effectful
    def program() -> Any:
        try:
            yield from Question()
        finally:
            raise ValueError("finally")

    with pytest.raises(ValueError, match="finally"):
        run(handle(fails(), program()))


def test_worlds_unwind_with_effects_each_once() -> None:
    @effectful
    def program() -> Any:
        x = yield from amb([1, 2, 3])
        try:
            y = yield from amb("ab")
            if y == "b" or x == 2:
                yield from fail()
        finally:
            yield from accum((f"{x}",))
        return x, y

    log, worlds = logged(handle(all_worlds(), program()))
    assert worlds == [(1, "a"), (3, "a")]
    assert log == ("1", "1", "2", "2", "3", "3")


def test_worlds_that_never_returned_into_a_frame_have_nothing_to_unwind_there() -> None:
    events = []

    @effectful
    def outer() -> Any:
        events.append("enter")
        try:
            return (yield from inner())
        finally:
            events.append("exit")

    @effectful
    def inner() -> Any:
        x = yield from amb([1, 2, 3])
        yield from fail()
        return x

    assert run(handle(all_worlds(), outer())) == []
    assert events == ["enter", "exit"]


@pytest.mark.parametrize("executor", [Serial(), Shuffled(2), Threads(3, chunk=1)], ids=repr)
def test_iterations_unwind_their_own_frames(executor: Executor) -> None:
    @effectful
    def body(i: int) -> Any:
        if i == 1:
            yield from throw("one")
        return int(i)

    program = pfor(Fin(3), lambda i: cleaning(f"{int(i)}", body(i)))
    answer = run(
        handle(accumulate(CONCATENATE), handle(weak_exceptions(), program)), executor=executor
    )
    assert answer == (("0", "1", "2"), Err("one"))


def test_the_rest_after_a_loop_that_threw_is_unwound() -> None:
    @effectful
    def program() -> Any:
        yield from pfor(Fin(2), throw)

    answer = logged(handle(weak_exceptions(), cleaning("around", program())))
    assert answer == (("around",), Err(0))


def test_state_of_a_handler_crossed_by_an_unwinding_is_lost_and_outside_kept() -> None:
    class Outer(Throw[str]): ...

    @effectful
    def program() -> Any:
        drawn = yield from uniform()
        try:
            yield from Outer.throw("stop")
        finally:
            yield from accum((drawn < 1,))

    answer = run(
        handle(
            accumulate(CONCATENATE),
            handle(
                weak_exceptions(at=Outer), handle(prng(1), handle(weak_exceptions(), program()))
            ),
        )
    )
    assert answer == ((True,), Err("stop"))


def test_finally_around_a_world_that_succeeds_runs_once_a_world() -> None:
    program = cleaning("end", amb([1, 2]))
    log, worlds = logged(handle(all_worlds(), handle(weak_exceptions(), program)))
    assert (log, worlds) == (("end", "end"), [Ok(1), Ok(2)])


def test_what_a_dropped_frame_gives_is_of_no_account() -> None:
    class drops(Handler[Ask]):
        def question(self, op: Question, k: Any) -> Any:
            return "dropped", (yield from k.drop())

    @effectful
    def program() -> Any:
        try:
            with Fails():
                yield from Question()
        except ValueError:  # in place of the unwinding, which goes on all the same
            return "went on"

    assert run(handle(drops(), program())) == ("dropped", None)
