"""Laws of effects on random programs, against direct interpreters of the same programs.

A program is a tuple tree; `perform` runs it with effects, the `model_*` functions say what it means
without any machine.  Programs with parallel loops also run in shuffled orders and on threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peffects.handlers import (
    Err,
    Ok,
    accum,
    accumulate,
    all_worlds,
    amb,
    fail,
    get,
    prng,
    put,
    reader,
    run_state,
    throw,
    uniform,
    weak_exceptions,
)
from peffects.machine.handling.handler import handle
from peffects.machine.handling.operations import effectful
from peffects.parallel import (
    JOIN,
    Executor,
    Fin,
    Serial,
    Shuffled,
    Threads,
    pfor,
    run,
)

Program = tuple[Any, ...]
EXECUTORS: list[Executor] = [Serial(), Shuffled(1), Shuffled(7), Threads(2, chunk=1)]
letters = st.sampled_from("abc")


def programs(*leaves: st.SearchStrategy[Program]) -> st.SearchStrategy[Program]:
    """Programs of these leaves, sequences and parallel loops (a list of bodies)."""
    return st.recursive(
        st.one_of(*leaves),
        lambda inner: st.tuples(st.sampled_from(["seq", "par"]), st.lists(inner, max_size=3)),
        max_leaves=10,
    )


tells = st.tuples(st.just("tell"), letters)
throws = st.tuples(st.just("throw"), letters)
ambs = st.tuples(st.just("amb"), st.integers(0, 3))
fails = st.just(("fail",))
gets = st.just(("get",))
puts = st.tuples(st.just("put"), st.integers(1, 3))

LEAVES: dict[str, Callable[..., Any]] = {
    "tell": accum,
    "throw": throw,
    "amb": lambda n: amb(range(n)),
    "fail": fail,
    "get": get,
    "draw": uniform,
}


@effectful
def perform(program: Program) -> Any:
    kind, *rest = program
    if kind == "seq":
        values = []
        for part in rest[0]:
            values.append((yield from perform(part)))
        return values
    if kind == "par":
        return list((yield from pfor(rest[0], perform)))
    if kind == "put":
        yield from put(10 * (yield from get()) + rest[0])
        return None
    return (yield from LEAVES[kind](*rest))


def same_on_all(make: Callable[[], Any]) -> Any:
    first, *others = [run(make(), executor=executor) for executor in EXECUTORS]
    assert all(other == first for other in others)
    return first


# --- accumulation and weak exceptions ------------------------------------------------------------


def model_weak(program: Program) -> tuple[str, Any]:
    kind, *rest = program
    if kind == "tell":
        return rest[0], Ok(None)
    if kind == "throw":
        return "", Err(rest[0])
    log, values = "", []
    error = None
    for part in rest[0]:
        part_log, answer = model_weak(part)
        log += part_log
        if isinstance(answer, Err):
            error = error or answer
            if kind == "seq":
                break
        else:
            values.append(answer.value)
    return log, error or Ok(values)


@given(programs(tells, throws))
def test_weak_exceptions_with_a_log_mean_what_the_model_says(program: Program) -> None:
    answer = same_on_all(
        lambda: handle(accumulate(JOIN), handle(weak_exceptions(), perform(program)))
    )
    assert answer == model_weak(program)


def sequential(program: Program) -> Program:
    kind, *rest = program
    return ("seq", [sequential(part) for part in rest[0]]) if kind in ("seq", "par") else program


@given(programs(tells))
def test_a_parallel_for_tells_as_the_sequential_loop(program: Program) -> None:
    parallel = run(handle(accumulate(JOIN), perform(program)))
    assert parallel == run(handle(accumulate(JOIN), perform(sequential(program))))


def under(name: str, program: Any) -> Any:
    handlers: dict[str, Callable[[], Any]] = {
        "accumulate": lambda: accumulate(JOIN),
        "weak_exceptions": weak_exceptions,
        "all_worlds": all_worlds,
        "reader": lambda: reader(1),
        "prng": lambda: prng(1),
    }
    return handle(handlers[name](), program)


HANDLERS = ["accumulate", "weak_exceptions", "all_worlds", "reader", "prng"]
every_handler = pytest.mark.parametrize("name", HANDLERS)


@every_handler
@given(st.integers(0, 4))
def test_a_loop_of_values_is_map(name: str, n: int) -> None:
    def value() -> Any:
        return under(name, pure([i * i for i in range(n)]))

    assert same_on_all(lambda: under(name, pfor(Fin(n), lambda i: i * i))) == run(value())


@effectful
def pure(value: Any) -> Any:
    yield from ()
    return value


BODIES = {
    "accumulate": programs(tells),
    "weak_exceptions": programs(throws, st.just(("seq", []))),
    "all_worlds": programs(ambs, fails),
}


@pytest.mark.parametrize("name", list(BODIES))
@given(st.data())
def test_a_loop_of_one_iteration_is_its_body(name: str, data: st.DataObject) -> None:
    program = data.draw(BODIES[name])
    looped = run(under(name, perform(("seq", [("par", [program])]))))
    plain = run(under(name, perform(("seq", [("seq", [program])]))))
    assert looped == plain


# --- worlds --------------------------------------------------------------------------------------


def model_worlds(program: Program) -> list[Any]:
    kind, *rest = program
    if kind == "amb":
        return list(range(rest[0]))
    if kind == "fail":
        return []
    worlds: list[list[Any]] = [[]]
    for part in rest[0]:
        answers = model_worlds(part)
        worlds = [[*world, answer] for world in worlds for answer in answers]
    return worlds


@settings(max_examples=60)
@given(programs(ambs, fails))
def test_worlds_are_the_product_in_order(program: Program) -> None:
    assert same_on_all(lambda: handle(all_worlds(), perform(program))) == model_worlds(program)


Continue = Callable[[Any, Any], list[Any]]


def model_local(program: Program, state: Any, k: Continue) -> list[Any]:
    """Worlds with a state of their own; `k` takes state and value."""
    kind, *rest = program
    if kind == "amb":
        return [w for i in range(rest[0]) for w in k(state, i)]
    if kind == "fail":
        return []
    if kind == "get":
        return k(state, state)
    if kind == "put":
        return k(10 * state + rest[0], None)

    def parts(left: list[Program], state: Any, values: list[Any]) -> list[Any]:
        if not left:
            return k(state, values)
        return model_local(left[0], state, lambda s, v: parts(left[1:], s, [*values, v]))

    return parts(rest[0], state, [])


def model_shared(program: Program, box: list[Any], k: Callable[[Any], list[Any]]) -> list[Any]:
    """Worlds that share one state, kept in `box`."""
    kind, *rest = program
    if kind == "amb":
        return [w for i in range(rest[0]) for w in k(i)]
    if kind == "fail":
        return []
    if kind == "get":
        return k(box[0])
    if kind == "put":
        box[0] = 10 * box[0] + rest[0]
        return k(None)

    def parts(left: list[Program], values: list[Any]) -> list[Any]:
        if not left:
            return k(values)
        return model_shared(left[0], box, lambda v: parts(left[1:], [*values, v]))

    return parts(rest[0], [])


stateful = programs(ambs, fails, gets, puts).map(sequential)


@given(stateful)
def test_state_inside_is_each_world_s_own(program: Program) -> None:
    expected = model_local(program, 1, lambda state, value: [(state, value)])
    assert run(handle(all_worlds(), handle(run_state(1), perform(program)))) == expected


@given(stateful)
def test_state_outside_is_shared_by_all_worlds(program: Program) -> None:
    box = [1]
    expected = model_shared(program, box, lambda value: [value])
    answer = run(handle(run_state(1), handle(all_worlds(), perform(program))))
    assert answer == (box[0], expected)


# --- random numbers ------------------------------------------------------------------------------


@given(programs(st.just(("draw",)), tells), st.integers())
def test_draws_are_a_function_of_seed_and_place(program: Program, seed: int) -> None:
    log, values = same_on_all(
        lambda: handle(accumulate(JOIN), handle(prng(seed), perform(program)))
    )
    swapped = run(handle(prng(seed), handle(accumulate(JOIN), perform(program))))
    assert swapped == (log, values)
