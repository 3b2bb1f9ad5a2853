"""What type checkers know about rows without a plugin: the revealed types stand behind each line.

Lines with `# refused` are mistakes that a checker has to find.
"""

from typing import reveal_type

from peffects.machine.handling.operations import Eff, Effect, Operation, Par, effectful
from peffects.machine.handling.handler import handle
from peffects.handlers import (
    Accum,
    Reader,
    State,
    Throw,
    accum,
    accumulate,
    all_worlds,
    amb,
    ask,
    attempt,
    get,
    normal,
    prng,
    reader,
    run_state,
    throw,
    weak_exceptions,
)
from peffects.parallel import Fin, pfor, run


class Choose(Effect): ...


class Flip(Operation[Choose, bool]): ...


@effectful
def step(i: int) -> Eff[Accum[str] | Throw[str], None]:
    if i == 2:
        yield from accum("!")
        yield from throw("error")
    yield from accum(str(i))


@effectful
def program() -> Eff[Accum[str] | Throw[str] | Par, str]:
    yield from accum("start ")
    yield from pfor(Fin(5), step)
    yield from accum(" end")
    return "success"


@effectful
def sequential() -> Eff[State[int] | Reader[str], int]:
    n: int = yield from get()
    name: str = yield from ask()
    return n + len(name)


@effectful
def choose() -> Eff[Choose, bool]:
    return (yield from Flip())


log, result = run(handle(accumulate("", str.__add__), handle(weak_exceptions(), program())))
reveal_type(log)  # str
reveal_type(result)  # Ok[str] | Err[str]
reveal_type(handle(weak_exceptions(), program()))  # Generator[Par | Accum[str], object, Ok[str] | Err[str]]
reveal_type(attempt(program()))  # Generator[Par | Accum[str], object, Ok[str] | Err[str]]
reveal_type(handle(run_state(3), sequential()))  # Generator[Reader[str], object, tuple[int, int]]
reveal_type(run(handle(reader("x"), handle(run_state(3), sequential()))))  # tuple[int, int]
reveal_type(handle(prng(1), pfor(Fin(3), lambda i: normal())))  # Generator[Par, object, Table[Any, float]]
reveal_type(handle(all_worlds(), amb([1, 2])))  # Generator[Never, object, list[int]]
reveal_type(run(handle(all_worlds(), amb([1, 2]))))  # list[int]
reveal_type(choose())  # Generator[Choose, object, bool]
run(sequential())  # refused
handle(run_state("text"), handle(reader("x"), sequential()))
run(handle(run_state("text"), handle(reader("x"), sequential())))  # refused
handle(run_state(3), pfor(Fin(3), lambda i: get()))  # refused
