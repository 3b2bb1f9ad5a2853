"""A forgotten `yield from` is told, with the line; what is kept and performed later is not."""

# mypy: disable-error-code="unreachable, no-untyped-call, func-returns-value"

from __future__ import annotations

import copy
import gc
import inspect
import os
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import peffects as pe
from peffects.errors import MissingYieldFromError, NeverPerformed
from peffects.handlers import (
    accum,
    accumulate,
    all_worlds,
    amb,
    attempt,
    catch,
    fail,
    first_worlds,
    guard,
    put,
    run_state,
    throw,
    weak_exceptions,
)
from peffects.machine.checking.debugging import debug_checks
from peffects.machine.checking.never_performed import NEWEST, look_closely
from peffects.machine.handling.clauses import multi
from peffects.machine.handling.handler import BasicHandler, Handler, handle
from peffects.machine.handling.masking import mask
from peffects.machine.handling.operations import Effect, Operation, effectful, once, shared
from peffects.parallel import ADD, Fin, Processes, Threads, pfor, run

pytestmark = pytest.mark.filterwarnings("ignore:PE109")  # made, compared, thrown away


class Shop(Effect): ...


class Buy(Operation[Shop, int]):
    what: str


class shop(BasicHandler[Shop]):
    def buy(self, op: Buy) -> int:
        return len(op.what)


@effectful
def helper(x: Any = 0) -> Any:
    yield from ()
    return x


@contextmanager
def told() -> Iterator[list[warnings.WarningMessage]]:
    """The warnings of ours in the block, however often they were given before."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


@pytest.fixture(params=["closely", "quickly"])
def looking(request: pytest.FixtureRequest) -> None:
    """With and without the line of each computation when it is made."""
    look_closely()
    if request.param == "quickly":
        while NEWEST.last is not None:
            run(helper())
    assert (NEWEST.last is None) == (request.param == "quickly")


def statement() -> Any:
    yield from helper()
    Buy("tea")  # HERE
    return 1


def last_statement() -> Any:
    yield from helper()
    accum(1)  # HERE


def unused_local() -> Any:
    yield from helper()
    kept = Buy("tea")  # HERE
    yield from helper()
    return kept is None


def rebound_local() -> Any:
    yield from helper()
    kept = put(3)  # HERE
    kept = yield from helper()
    return kept


def makes_list() -> Any:
    yield from helper()
    return [Buy("tea")]  # HERE


def drops_a_list() -> Any:
    yield from effectful(makes_list)()
    yield from helper()


def comprehension() -> Any:
    yield from helper()
    [put(3) for _ in range(1)]  # HERE
    yield from helper()


def plain_function() -> None:
    guard(False)  # HERE


def calls_a_plain_function() -> Any:
    yield from helper()
    plain_function()
    yield from helper()


def lambda_body() -> Any:
    yield from helper()
    f = lambda: fail()  # noqa: E731  # HERE
    f()
    yield from helper()


def call_of_a_function() -> Any:
    yield from helper()
    helper(3)  # HERE
    yield from helper()


def loop() -> Any:
    yield from helper()
    pfor(Fin(3), helper)  # HERE
    yield from helper()


def handled() -> Any:
    yield from helper()
    handle(shop(), Buy("tea"))  # HERE
    yield from helper()


def scoped() -> Any:
    yield from helper()
    attempt(helper())  # HERE
    yield from helper()


def masked() -> Any:
    yield from helper()
    mask(Shop, Buy("tea"))  # HERE
    yield from helper()


def once_and_shared() -> Any:
    yield from helper()
    once(list)  # HERE
    yield from helper()


def shared_one() -> Any:
    yield from helper()
    shared(lambda: open(os.devnull))  # HERE  # noqa: SIM115
    yield from helper()


FORGETFUL = [
    statement,
    last_statement,
    unused_local,
    rebound_local,
    drops_a_list,
    comprehension,
    calls_a_plain_function,
    lambda_body,
    call_of_a_function,
    loop,
    handled,
    scoped,
    masked,
    once_and_shared,
    shared_one,
]
MAKERS: dict[Any, Any] = {
    drops_a_list: makes_list,
    calls_a_plain_function: plain_function,
}
forgetful = pytest.mark.parametrize("body", FORGETFUL, ids=lambda body: body.__name__)


def line_of(body: Callable[..., Any]) -> int:
    lines, first = inspect.getsourcelines(MAKERS.get(body, body))
    return first + next(k for k, text in enumerate(lines) if "HERE" in text)


@forgetful
def test_what_is_thrown_away_warns_at_the_line_that_made_it(body: Any) -> None:
    look_closely()
    with told() as caught:
        run(effectful(body)())
    assert [w.category for w in caught] == [NeverPerformed]
    assert (caught[0].filename, caught[0].lineno) == (__file__, line_of(body))


@forgetful
def test_it_is_told_when_code_is_no_longer_new(body: Any) -> None:
    """The line is then the last call before there that nobody performs."""
    program = effectful(body)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(program())
    for _ in range(300):
        run(helper())
    assert NEWEST.last is None
    with told() as caught:
        run(program())
    assert [w.category for w in caught] == [NeverPerformed]
    if body not in MAKERS and body is not lambda_body:
        assert caught[0].lineno == line_of(body)


@forgetful
def test_in_debug_mode_it_is_an_error_with_that_line(body: Any) -> None:
    with debug_checks(), pytest.raises(NeverPerformed) as caught:
        run(effectful(body)())
    assert caught.value.at.line == line_of(body)
    assert "missing `yield from`" in str(caught.value)


@pytest.mark.usefixtures("looking")
def test_a_million_later_it_is_told_too() -> None:
    @effectful
    def program() -> Any:
        for _ in range(1000):
            yield from Buy("tea")
        Buy("milk")
        return 1

    with told() as caught:
        run(handle(shop(), program()))
    assert [w.category for w in caught] == [NeverPerformed]
    assert "Buy(" in caught[0].message.at.snippet()  # type: ignore[union-attr]


def test_the_example_of_the_docs_is_told_twice() -> None:
    @effectful
    def large(n: int) -> Any:
        a = yield from amb(range(n))
        guard(a > 2)
        put(3)
        return a

    look_closely()
    with told() as caught:
        run(handle(all_worlds(), large(2)))
    texts = {w.message.at.snippet() for w in caught}  # type: ignore[union-attr]
    assert texts == {"guard(a > 2)", "put(3)"}


@pytest.mark.usefixtures("looking")
def test_a_condition_is_an_error_and_told_once() -> None:
    @effectful
    def program() -> Any:
        yield from helper()
        if Buy("tea"):
            return 1
        return 0

    with told() as caught, pytest.raises(MissingYieldFromError):
        run(program())
    assert caught == []


def test_outside_of_a_run_it_is_told_in_debug_mode_too() -> None:
    with told() as caught, debug_checks():
        accum(1)
    assert [w.category for w in caught] == [NeverPerformed]


def test_an_iteration_on_a_thread_tells() -> None:
    @effectful
    def body(i: int) -> Any:
        if i == 1:
            Buy("tea")
        return int(i)
        yield

    look_closely()
    with told() as caught:
        run(pfor(Fin(2), body), executor=Threads(2))
    assert [w.category for w in caught] == [NeverPerformed]
    with debug_checks(), pytest.raises(NeverPerformed):
        run(pfor(Fin(2), body), executor=Threads(2))
    with debug_checks(), pytest.raises(NeverPerformed):
        run(pfor(Fin(2), lambda i: (Buy("tea"), 1)[1]))


def test_a_thread_of_the_user_s_own_tells() -> None:
    with told() as caught:
        thread = threading.Thread(target=lambda: (look_closely(), accum(1), None)[2])
        thread.start()
        thread.join()
    assert [w.category for w in caught] == [NeverPerformed]


@pytest.mark.filterwarnings("always")
def test_an_iteration_in_a_process_tells() -> None:
    @effectful
    def body(i: int) -> Any:
        Buy("tea")
        yield from helper()
        return int(i)

    with Processes(1) as executor:
        with told() as caught:
            run(pfor(Fin(1), body), executor=executor)
        assert [w.category for w in caught] == [NeverPerformed]
        assert caught[0].filename == __file__
        with debug_checks(), pytest.raises(NeverPerformed):
            run(pfor(Fin(1), body), executor=executor)


def test_in_a_kernel_it_is_told_when_it_is_staged() -> None:
    @effectful
    def body(a: Any) -> Any:
        yield from accum(a)
        accum(2.0 * a)
        return a

    @pe.kernel
    def program(a: Any) -> Any:
        return run(handle(accumulate(ADD), body(a)))

    look_closely()
    with told() as caught:
        assert program(3.0) == (3.0, 3.0)
    assert [w.category for w in caught] == [NeverPerformed]
    assert caught[0].message.at.snippet() == "accum(2.0 * a)"  # type: ignore[union-attr]


class asks(Handler[Shop]):
    @multi
    def buy(self, op: Buy, k: Any) -> Any:
        k(1)
        return (yield from k(2))


def test_a_resumption_and_a_loop_in_clauses_are_told() -> None:
    @effectful
    def program() -> Any:
        return (yield from Buy("tea"))

    look_closely()
    with told() as caught:
        assert run(handle(asks(), program())) == 2
    assert [w.message.at.snippet() for w in caught] == ["k(1)"]  # type: ignore[union-attr]


# --- what is not told ----------------------------------------------------------------------------


@effectful
def stored_and_performed_later() -> Any:
    kept = Buy("tea")
    yield from helper()
    both = [kept, helper(3)]
    yield from helper()
    return (yield from both[0]) + (yield from both[1])


@effectful
def performed_again() -> Any:
    kept = Buy("tea")
    return [(yield from kept), (yield from kept)]


@effectful
def arguments() -> Any:
    found = yield from attempt(pair(Buy("tea"), helper(2)))
    return (yield from catch(throw(found), helper))


@effectful
def pair(a: Any, b: Any) -> Any:
    return (yield from a), (yield from b)


@effectful
def left_by_a_throw() -> Any:
    kept = Buy("tea")
    yield from throw("left")
    yield from kept


@effectful
def left_by_a_throw_through_finally() -> Any:
    kept = Buy("tea")
    try:
        yield from throw("left")
        yield from kept
    finally:
        yield from helper()


@effectful
def raised() -> Any:
    kept = Buy("tea")
    yield from helper()
    if kept is not None:
        raise LookupError
    yield from kept


@effectful
def caught_outside() -> Any:
    try:
        yield from raised()
    except LookupError:
        yield from helper()


@effectful
def failing_worlds() -> Any:
    kept = Buy("tea")
    x = yield from amb([1, 2])
    yield from guard(x == 2)
    return (yield from kept)


@effectful
def all_fail() -> Any:
    kept = Buy("tea")
    yield from fail()
    yield from kept


def silent(program: Any) -> Any:
    under: Any = handle(shop(), handle(weak_exceptions(catch=(LookupError,)), program()))
    return handle(all_worlds(), under)


@pytest.mark.usefixtures("looking")
@pytest.mark.parametrize(
    "program",
    [
        stored_and_performed_later,
        performed_again,
        arguments,
        left_by_a_throw,
        left_by_a_throw_through_finally,
        raised,
        caught_outside,
        failing_worlds,
        all_fail,
    ],
    ids=lambda program: program.__name__,
)
def test_what_is_performed_or_left_by_an_exit_is_not_told(program: Any) -> None:
    with told() as caught:
        run(silent(program))
        run(handle(first_worlds(1), handle(shop(), handle(weak_exceptions((LookupError,)), program()))))  # fmt: skip  # noqa: E501
        with debug_checks():
            run(silent(program))
            run(pfor(Fin(2), lambda i: silent(program)), executor=Threads(2))
    assert [str(w.message) for w in caught] == []


@pytest.mark.usefixtures("looking")
def test_what_a_frame_makes_again_for_a_further_world_is_not_told() -> None:
    """The frame runs again, not the calls it made: nobody performs what those got."""

    @effectful
    def passes_on() -> Any:
        kept = helper(1)
        first = yield from catch(kept, lambda e: 0)
        second = yield from catch(catch(helper(2), lambda e: 0), lambda e: 0)
        return first, second, (yield from amb([0, 1])), (yield from amb([2, 3]))

    with told() as caught:
        run(handle(shop(), handle(weak_exceptions(), handle(all_worlds(), passes_on()))))
        gc.collect()
    assert [str(w.message) for w in caught] == []


@pytest.mark.usefixtures("looking")
def test_what_is_copied_pickled_or_unpickled_is_not_told() -> None:
    with told() as caught:
        for made in (lambda: Buy("tea"), lambda: helper(1), lambda: handle(shop(), helper(2))):
            data = pickle.dumps(made())
            pickle.loads(data)
            copy.deepcopy(made())
        pickle.loads(pickle.dumps(pfor(Fin(2), helper)))
    assert caught == []


def test_what_is_held_when_the_program_ends_is_not_told() -> None:
    code = "from peffects.handlers import accum\nkept = accum(1)\n"
    quiet = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (quiet.returncode, quiet.stderr) == (0, "")
    loud = subprocess.run([sys.executable, "-c", code + "accum(2)"], capture_output=True, text=True)
    assert "<string>:3: NeverPerformed: PE109" in loud.stderr


def test_state_is_the_same_on_the_quick_way() -> None:
    """Performing clears what making wrote: nothing is kept alive."""
    while NEWEST.last is not None:
        run(helper())
    assert run(handle(run_state(1), put(2)))[0] == 2
    assert NEWEST.last is None
