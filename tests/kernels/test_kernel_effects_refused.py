"""Effects in kernels: what staging cannot decide is refused, at the user's line."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
from kernels.test_kernel_effects import (
    Double,
    Program,
    Scale,
    X,
    doubles,
    either_puts,
    plus_one,
    total_of,
)
from staged import staged

import peffects as pe
from peffects import Eff, Fin, Handler, effectful, handle, pfor
from peffects.errors import (
    ControlFlowError,
    DataRaceError,
    KernelEffectError,
    MergeError,
    MissingYieldFromError,
    PeffectsError,
    TraverseError,
    UnhandledEffectError,
    UnsupportedSyntaxError,
)
from peffects.handlers import (
    accum,
    accumulate,
    all_worlds,
    amb,
    attempt,
    collect_errors,
    get,
    put,
    run_state,
    throw,
)
from peffects.parallel import Serial

pytestmark = pytest.mark.filterwarnings("ignore:PE109")  # made, compared, thrown away


def check_refused(error: type[PeffectsError], program: Program, args: Any, *words: str) -> None:
    """Staging `program` raises `error`, at the line marked `# here`; the message has `words`."""

    def kernel(*args: Any) -> Any:
        return pe.run(program(*args))

    with pytest.raises(error) as caught:
        staged(kernel, *args)
    message = str(caught.value)
    for word in words:
        assert word in message
    assert "# here" in caught.value.at.snippet(), message


@effectful
def performs_get() -> Any:
    return (yield from get())  # here


@effectful
def doubles_sometimes(x: Any) -> Any:
    if x > 1.0:
        x = yield from Double(x)  # here
    return x


class either_k(Handler[Scale]):
    def double(self, op: Double, k: Any) -> Any:
        if op.value > 0.0:
            return (yield from k(1.0))  # here
        return (yield from k(2.0))


@effectful
def raises(x: Any) -> Any:
    if x > 1.0:
        raise ValueError("large")  # here
    yield from put(x)


@effectful
def forgets(x: Any) -> Any:
    y = get() + x  # here
    yield from put(y)


@effectful
def puts_in_parallel(x: Any) -> Any:
    for i in pe.par(x):  # here
        yield from put(x[i])


@effectful
def puts_in_pfor(x: Any) -> Any:
    yield from pfor(x.index, lambda i: put(x[i]))  # here


@effectful
def loops_over_a_list(x: Any) -> Any:
    yield from pfor([1, 2, 3], lambda i: accum(x[i]))  # here


@effectful
def throws_in_pfor(x: Any) -> Any:
    yield from pfor(x.index, lambda i: throw(x[i]))  # here


def under(handler: Any, function: Callable[..., Any]) -> Program:
    return lambda *args: handle(handler, function(*args))


REFUSED = [
    (
        KernelEffectError,
        under(collect_errors(), throws_in_pfor),
        (X,),
        "`collect_errors`",
        "`attempt`",
    ),
    (UnhandledEffectError, lambda _: performs_get(), (1.0,), "no handler handles", "State"),
    (KernelEffectError, under(plus_one(), doubles_sometimes), (1.0,), "`double` of `plus_one`"),
    (KernelEffectError, under(either_k(), doubles), (1.0,), "one side of an `if`"),
    (UnsupportedSyntaxError, under(run_state(0.0), raises), (1.0,), "`raise`"),
    (MissingYieldFromError, under(run_state(0.0), forgets), (1.0,), "yield from"),
    (DataRaceError, under(run_state(0.0), puts_in_parallel), (X,), "`run_state`", "pfor"),
    (TraverseError, under(run_state(0.0), puts_in_pfor), (X,), "no traverse clause"),
    (KernelEffectError, under(accumulate(0.0, operator.add), loops_over_a_list), (X,), "a list"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[3])
def test_what_staging_cannot_decide_is_refused(case: Any) -> None:
    error, program, args, *words = case
    check_refused(error, program, args, *words)


def test_worlds_are_refused() -> None:
    check_refused(
        KernelEffectError,
        lambda x: handle(all_worlds(), amb([x, 2.0])),  # here
        (1.0,),
        "`all_worlds` has a `@multi` clause",
    )


def test_answers_without_a_common_form_are_refused() -> None:
    @effectful
    def program(x: Any) -> Any:
        if x > 1.0:  # here
            yield from throw("large")
        if x < 0.0:
            yield from throw(x)
        return x

    check_refused(MergeError, lambda x: attempt(program(x)), (1.0,), "`weak_exceptions`", "'large'")


def test_an_unperformed_computation_is_no_result() -> None:
    with pytest.raises(KernelEffectError, match=r"pe\.run\(handle"):
        staged(lambda x: either_puts(x), 1.0)


def test_options_of_run_have_no_meaning() -> None:
    with pytest.raises(KernelEffectError, match="executor"):
        staged(lambda x: pe.run(handle(run_state(x), performs_get()), executor=Serial()), 1.0)


def test_answers_are_no_python_list() -> None:
    class sums(total_of):
        def traverse(self, n: Any, loop: Any, k: Any) -> Eff[Any, Any]:
            answers = yield from loop()
            self.total = sum(part for part, _ in answers)  # here
            return (yield from k(answers))

    check_refused(
        ControlFlowError,
        lambda x: handle(sums(), pfor(Fin(5), lambda i: accum(x[i]))),
        (X,),
        "known only when the kernel runs",
    )
