"""Resumptions: one-shot and multi-shot, dropped, expired, replayed, resumed elsewhere."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from peffects.errors import (
    NotReplayable,
    ReplayDivergence,
    ResumptionAlreadyUsed,
    ResumptionExpired,
)
from peffects.handlers import (
    accum,
    accumulate,
    all_worlds,
    amb,
    fail,
    get,
    put,
    run_state,
    throw,
    weak_exceptions,
)
from peffects.machine.handling.clauses import final, multi
from peffects.machine.handling.handler import Handler, ParHandler, handle
from peffects.machine.handling.operations import Effect, Operation, effectful, once
from peffects.parallel import CONCATENATE, Fin, Threads, pfor, run


class Ask(Effect): ...


class Question(Operation[Ask, Any]):
    text: str = ""


class saves(Handler[Ask]):
    """Answers with the question's resumption."""

    def question(self, op: Question, k: Any) -> Any:
        return k


class twice(Handler[Ask]):
    def question(self, op: Question, k: Any) -> Any:
        first = yield from k(1)
        return first, (yield from k(2))


@effectful
def asks() -> Any:
    return (yield from Question())


@effectful
def guarded(name: str = "frame") -> Any:
    try:
        answer = yield from Question()
    finally:
        yield from accum((name,))
    return answer


# --- one shot ------------------------------------------------------------------------------------


def test_resuming_twice_is_refused_with_both_places() -> None:
    with pytest.raises(ResumptionAlreadyUsed) as caught:
        run(handle(twice(), asks()))
    text = str(caught.value)
    assert "`Question` in handler `twice` is one-shot" in text
    assert "return first, (yield from k(2))" in text
    assert "first used at test_resumption.py:" in text
    assert "@multi" in text


def test_a_resumption_may_escape_its_handler_and_run_later() -> None:
    @effectful
    def program() -> Any:
        k = yield from handle(saves(), asks())
        yield from accum(("between",))
        return (yield from k(5))

    assert run(handle(accumulate(CONCATENATE), program())) == (("between",), 5)


def test_an_escaped_resumption_meets_the_handlers_of_where_it_resumes() -> None:
    @effectful
    def inside() -> Any:
        yield from Question()
        return (yield from get())

    @effectful
    def program() -> Any:
        k = yield from handle(run_state("first"), handle(saves(), inside()))
        return (yield from handle(run_state("second"), k[1](None)))

    assert run(program()) == ("second", "second")


def test_k_throw_raises_where_the_operation_was_performed() -> None:
    class fails_inside(Handler[Ask]):
        def question(self, op: Question, k: Any) -> Any:
            return (yield from k.throw(ValueError("asked")))

    @effectful
    def program() -> Any:
        try:
            yield from Question()
        except ValueError as error:
            return f"inside: {error}"

    assert run(handle(fails_inside(), program())) == "inside: asked"


def test_k_after_its_run_has_ended_is_refused() -> None:
    k = run(handle(saves(), asks()))
    with pytest.raises(ResumptionExpired, match="iteration or `run`"):
        run(k(1))


def test_k_after_its_iteration_has_ended_is_refused() -> None:
    @effectful
    def program() -> Any:
        ks = yield from pfor(Fin(2), lambda i: handle(saves(), asks()))
        return (yield from ks[0](1))

    with pytest.raises(ResumptionExpired):
        run(program())


def test_a_million_resumptions_in_sequence_keep_nothing() -> None:
    class answers(Handler[Ask]):
        def question(self, op: Question, k: Any) -> Any:
            return k

    @effectful
    def forever() -> Any:
        while True:
            yield from Question()

    @effectful
    def program() -> Any:
        k = yield from handle(answers(), forever())
        for _ in range(2000):
            k = yield from k(None)
        return "done"

    assert run(program()) == "done"


# --- dropping ------------------------------------------------------------------------------------


def test_k_that_nobody_keeps_is_unwound_when_its_clause_ends() -> None:
    class ignores(Handler[Ask]):
        def question(self, op: Question, k: Any) -> Any:
            yield from accum(("clause",))
            return "answer"

    @effectful
    def program() -> Any:
        answer = yield from handle(ignores(), guarded())
        yield from accum(("after",))
        return answer

    log, answer = run(handle(accumulate(CONCATENATE), program()))
    assert log == ("clause", "frame", "after")
    assert answer == "answer"


def test_k_drop_unwinds_at_once_and_only_once() -> None:
    class drops(Handler[Ask]):
        def question(self, op: Question, k: Any) -> Any:
            yield from k.drop()
            yield from accum(("dropped",))
            yield from k.drop()
            return "answer"

    log, answer = run(handle(accumulate(CONCATENATE), handle(drops(), guarded())))
    assert (log, answer) == (("frame", "dropped"), "answer")


def test_resuming_what_was_dropped_is_refused() -> None:
    class drops(Handler[Ask]):
        def question(self, op: Question, k: Any) -> Any:
            yield from k.drop()
            return (yield from k(1))

    with pytest.raises(ResumptionExpired, match="after it was dropped"):
        run(handle(drops(), asks()))


def test_k_that_is_kept_is_unwound_when_its_run_ends_newest_first() -> None:
    events: list[str] = []

    @effectful
    def program(name: str) -> Any:
        try:
            yield from Question()
        finally:
            events.append(name)

    @effectful
    def keeps() -> Any:
        kept = []
        for name in ("first", "second"):
            kept.append((yield from handle(saves(), program(name))))
        events.append("end")
        return kept

    kept = run(keeps())
    assert events == ["end", "second", "first"]
    assert all("dropped" in repr(k) for k in kept)


def test_k_that_is_kept_is_unwound_when_its_iteration_ends() -> None:
    events: list[str] = []

    @effectful
    def program() -> Any:
        try:
            yield from Question()
        finally:
            events.append("unwound")

    @effectful
    def loops() -> Any:
        ks = yield from pfor(Fin(2), lambda i: handle(saves(), program()))
        events.append("after the loop")
        return len(ks)

    assert run(loops()) == 2
    assert events == ["unwound", "unwound", "after the loop"]


def test_finally_performs_the_effect_of_the_handler_that_dropped_it() -> None:
    class answers_the_second(Handler[Ask]):
        def question(self, op: Question, k: Any) -> Any:
            if op.text == "cleaning":
                return (yield from k("clean"))
            return "dropped"

    seen = []

    @effectful
    def program() -> Any:
        try:
            yield from Question()
        finally:
            seen.append((yield from Question("cleaning")))

    assert run(handle(answers_the_second(), program())) == "dropped"
    assert seen == ["clean"]


def test_a_clause_that_fails_unwinds_its_k() -> None:
    class fails(Handler[Ask]):
        def question(self, op: Question, k: Any) -> Any:
            yield from get()
            raise ValueError("clause")

    @effectful
    def program() -> Any:
        with pytest.raises(ValueError, match="clause"):
            yield from handle(fails(), guarded())

    assert run(handle(run_state(0), handle(accumulate(CONCATENATE), program()))) == (
        0,
        (("frame",), None),
    )


# --- many shots ----------------------------------------------------------------------------------


def test_each_world_has_its_own_locals() -> None:
    @effectful
    def program() -> Any:
        seen = []
        for _ in range(2):
            seen.append((yield from amb("ab")))
        return "".join(seen)

    assert run(handle(all_worlds(), program())) == ["aa", "ab", "ba", "bb"]


def test_finished_calls_are_not_run_again() -> None:
    calls = []

    @effectful
    def costly() -> Any:
        calls.append(1)
        yield from get()
        return "result"

    @effectful
    def program() -> Any:
        first = yield from costly()
        return first, (yield from amb([1, 2, 3]))

    worlds = run(handle(run_state(0), handle(all_worlds(), program())))
    assert worlds == (0, [("result", 1), ("result", 2), ("result", 3)])
    assert calls == [1]


def test_state_inside_is_each_world_s_own_and_state_outside_is_shared() -> None:
    @effectful
    def program() -> Any:
        yield from put((yield from get()) + 1)
        x = yield from amb([10, 20])
        yield from put((yield from get()) + x)
        y = yield from amb([100, 200])
        yield from put((yield from get()) + y)
        return (yield from get())

    inside = run(handle(all_worlds(), handle(run_state(0), program())))
    assert inside == [(n, n) for n in (111, 211, 121, 221)]
    outside = run(handle(run_state(0), handle(all_worlds(), program())))
    assert outside == (631, [111, 311, 431, 631])


def test_one_shot_handlers_inside_a_multi_shot_one_are_copied_for_each_world() -> None:
    class collects(Handler[Ask]):
        def question(self, op: Question, k: Any) -> Any:
            rest = yield from k(op.text)
            return [op.text, *rest]

    @effectful
    def program() -> Any:
        a = yield from Question("a")
        b = yield from amb([1, 2])
        c = yield from Question(f"c{b}")
        return [a, c]

    worlds = run(handle(all_worlds(), handle(collects(), program())))
    assert worlds == [["a", "c1", "a", "c1"], ["a", "c2", "a", "c2"]]


def test_a_clause_that_chooses_before_it_resumes_resumes_in_each_world() -> None:
    class chooses(Handler[Ask]):
        def __init__(self) -> None:
            self.asked = 0

        def question(self, op: Question, k: Any) -> Any:
            self.asked = self.asked + 1
            x = yield from amb([1, 2])
            rest = yield from k(x)
            return [self.asked, *rest]

    @effectful
    def program() -> Any:
        return [(yield from Question()), (yield from Question())]

    worlds = run(handle(all_worlds(), handle(chooses(), program())))
    assert worlds == [[1, 2, a, b] for a, b in itertools.product([1, 2], repeat=2)]


def test_an_answering_generator_clause_that_chooses_keeps_the_state_of_its_world() -> None:
    class chooses(Handler[Ask]):
        def __init__(self) -> None:
            self.asked = 0

        def ret(self, x: Any) -> Any:
            return self.asked, x

        def question(self, op: Question) -> Any:
            self.asked = self.asked + 1
            x = yield from amb([1, 2])
            self.asked = self.asked + 10 * x
            return x

    @effectful
    def program() -> Any:
        return [(yield from Question()), (yield from Question())]

    worlds = run(handle(all_worlds(), handle(chooses(), program())))
    assert worlds == [(2 + 10 * (a + b), [a, b]) for a, b in itertools.product([1, 2], repeat=2)]


def test_a_traverse_clause_that_chooses_is_rebuilt_for_each_world() -> None:
    class chooses(ParHandler[Ask]):
        def question(self, op: Question) -> int:
            return 1

        def traverse(self, n: Any, loop: Any, k: Any) -> Any:
            x = yield from amb([1, 2])
            answers = yield from loop()
            return (yield from k([x * a for a in answers]))

    @effectful
    def program() -> Any:
        table = yield from pfor(Fin(2), lambda i: Question())
        return list(table)

    assert run(handle(all_worlds(), handle(chooses(), program()))) == [[1, 1], [2, 2]]


def test_exceptions_are_replayed_like_answers() -> None:
    class refuses(Handler[Ask]):
        def question(self, op: Question) -> Any:
            raise ValueError(op.text)

    @effectful
    def program() -> Any:
        try:
            yield from Question("x")
        except ValueError as error:
            caught = str(error)
        return caught, (yield from amb([1, 2]))

    assert run(handle(all_worlds(), handle(refuses(), program()))) == [("x", 1), ("x", 2)]


def test_worlds_enter_their_own_with_blocks_and_leave_them_once() -> None:
    events = []

    class resource:
        def __enter__(self) -> None:
            events.append("enter")

        def __exit__(self, *_: object) -> None:
            events.append("exit")

    @effectful
    def program() -> Any:
        with resource():
            x = yield from amb([1, 2, 3])
            if x == 2:
                yield from fail()
        return x

    assert run(handle(all_worlds(), program())) == [1, 3]
    assert events == ["enter", "exit"] * 3


def test_a_multi_clause_that_never_resumes_unwinds() -> None:
    class never(Handler[Ask]):
        @multi
        def question(self, op: Question, k: Any) -> Any:
            return []

    assert run(handle(accumulate(CONCATENATE), handle(never(), guarded()))) == (("frame",), [])


def test_worlds_may_run_as_a_parallel_for() -> None:
    class parallel_worlds(ParHandler[Ask]):
        def ret(self, x: Any) -> Any:
            return [x]

        @multi
        def question(self, op: Question, k: Any) -> Any:
            answers = yield from pfor(Fin(4), k)
            return [x for answer in answers for x in answer]

        def traverse(self, n: Any, loop: Any, k: Any) -> Any:
            yield from ()
            raise AssertionError("no loop inside")

    @effectful
    def digits() -> Any:
        a = yield from Question()
        b = yield from Question()
        return 10 * a + b

    expected = [10 * a + b for a, b in itertools.product(range(4), repeat=2)]
    for executor in (None, Threads(4, chunk=1)):
        assert run(handle(parallel_worlds(), digits()), executor=executor) == expected


# --- replay --------------------------------------------------------------------------------------


def test_code_that_is_not_deterministic_is_found_out() -> None:
    counter = itertools.count()

    @effectful
    def program() -> Any:
        yield from put(next(counter))
        return (yield from amb([1, 2]))

    with pytest.raises(ReplayDivergence) as caught:
        run(handle(run_state(0), handle(all_worlds(), program())))
    text = str(caught.value)
    assert "before it performed Put(value=0), now Put(value=1)" in text
    assert "test_resumption.py" in text
    assert "once(" in text


@pytest.mark.parametrize("again", ["returns", "raises", "calls another"])
def test_other_ways_to_diverge_are_found_out(again: str) -> None:
    runs = itertools.count()

    @effectful
    def other() -> Any:
        yield from get()

    @effectful
    def program() -> Any:
        if next(runs) == 0:
            yield from get()
        elif again == "raises":
            raise ValueError("second time")
        elif again == "calls another":
            yield from other()
        else:
            return "second time"
        return (yield from amb([1, 2]))

    with pytest.raises(ReplayDivergence):
        run(handle(run_state(0), handle(all_worlds(), program())))


def test_once_keeps_what_varies() -> None:
    counter = itertools.count()

    @effectful
    def program() -> Any:
        n = yield from once(lambda: next(counter))
        yield from put(n)
        return n, (yield from amb([1, 2]))

    assert run(handle(run_state(9), handle(all_worlds(), program()))) == (0, [(0, 1), (0, 2)])


def test_fresh_objects_as_arguments_are_no_divergence() -> None:
    @effectful
    def program() -> Any:
        yield from put([object()])
        return (yield from amb([1, 2]))

    assert run(handle(run_state(None), handle(all_worlds(), program())))[1] == [1, 2]


def test_a_bare_generator_cannot_run_again() -> None:
    def bare() -> Any:
        return (yield from amb([1, 2]))

    with pytest.raises(NotReplayable, match="`bare`"):
        run(handle(all_worlds(), bare()))


def test_a_computation_suspended_outside_a_multi_handler_cannot_resume_inside() -> None:
    @effectful
    def program() -> Any:
        k = yield from handle(saves(), asks())
        return (yield from handle(all_worlds(), k(1)))

    with pytest.raises(NotReplayable, match="captured outside"):
        run(program())


def test_throw_in_a_world_ends_all_of_them_or_one_by_the_order_of_handlers() -> None:
    @effectful
    def program() -> Any:
        x = yield from amb([1, 2, 3])
        if x == 2:
            yield from throw("two")
        return x

    one = run(handle(all_worlds(), handle(weak_exceptions(), program())))
    assert [type(a).__name__ for a in one] == ["Ok", "Err", "Ok"]
    assert run(handle(weak_exceptions(), handle(all_worlds(), program()))).error == "two"


def test_final_inside_a_loop_of_worlds() -> None:
    class first_only(Handler[Ask]):
        @final
        def question(self, op: Question) -> Any:
            return op.text

    @effectful
    def body() -> Any:
        x = yield from amb("ab")
        yield from Question(x)

    assert run(handle(all_worlds(), handle(first_only(), body()))) == ["a", "b"]
