"""Rows of the standard effects: the revealed types stand behind each line.

Lines with `# refused` are mistakes that a checker has to find.
"""

from typing import reveal_type

from peffects.machine.handling.operations import Eff, effectful
from peffects.handlers import (
    Amb,
    Clock,
    Console,
    Log,
    Progress,
    Random,
    Reader,
    Scan,
    State,
    Throw,
    all_worlds,
    amb,
    ask,
    catch,
    choice,
    collect_errors,
    combine_errors,
    fake_clock,
    first_worlds,
    get,
    guard,
    info,
    integers,
    local,
    log_list,
    now,
    parallel_worlds,
    permutation,
    prefix_sums,
    prng,
    progress,
    progress_bar,
    raise_errors,
    read_line,
    scan,
    scripted,
    terminal,
    throw,
    weighted_worlds,
)
from peffects.machine.handling.handler import handle
from peffects.parallel import Fin, pfor, run


@effectful
def failing(i: int) -> Eff[Throw[str] | State[int], int]:
    if i == 2:
        yield from throw("two")
    return (yield from get())


@effectful
def drawing(i: int) -> Eff[Random | Log, str]:
    n = yield from integers(0, 3)
    reveal_type(n)  # int
    reveal_type((yield from choice(["a", "b"])))  # str
    reveal_type((yield from permutation(3)))  # list[int]
    yield from info("drawn", n=n)
    return "x"


@effectful
def choosing() -> Eff[Amb | Clock, int]:
    n: int = yield from amb([1, 2], [0.5, 0.5])
    yield from guard(n > 1)
    yield from now()
    return n


@effectful
def scanning(i: int) -> Eff[Scan[int] | Progress, int]:
    yield from progress(0.5)
    return (yield from scan(i))


@effectful
def reading() -> Eff[Reader[int] | Console, str]:
    n: int = yield from ask()
    return (yield from read_line()) * n


def recover(error: str) -> Eff[Log, float]:
    raise NotImplementedError


reveal_type(handle(collect_errors(), failing(1)))  # Generator[State[int], object, Ok[int] | Err[list[str]]]
reveal_type(handle(combine_errors(str.__add__), failing(1)))  # Generator[State[int], object, Ok[int] | Err[str]]
reveal_type(raise_errors(failing(1)))  # Generator[State[int], object, int]
reveal_type(catch(failing(1), recover))  # Generator[Throw[str] | State[int] | Log, object, int | float]
reveal_type(handle(prng(1), drawing(1)))  # Generator[Log, object, str]
reveal_type(handle(log_list(), handle(prng(1), drawing(1))))  # Generator[Never, object, tuple[list[Message], str]]
reveal_type(handle(all_worlds(), choosing()))  # Generator[Clock, object, list[int]]
reveal_type(handle(parallel_worlds(), choosing()))  # Generator[Clock, object, list[int]]
reveal_type(handle(first_worlds(2), choosing()))  # Generator[Clock, object, list[int]]
reveal_type(handle(weighted_worlds(), choosing()))  # Generator[Clock, object, list[tuple[int, int | float | Fraction]]]
reveal_type(run(handle(fake_clock(), handle(all_worlds(), choosing()))))  # tuple[float, list[int]]
reveal_type(handle(prefix_sums(0, int.__add__), scanning(1)))  # Generator[Progress, object, tuple[int, int]]
reveal_type(handle(progress_bar(), scanning(1)))  # Generator[Scan[int], object, int]
reveal_type(local(lambda n: n + 1, reading()))  # Generator[Reader[int] | Console, object, str]
reveal_type(handle(scripted(["a"]), reading()))  # Generator[Reader[int], object, tuple[list[str], str]]
run(choosing())  # refused
handle(terminal(), pfor(Fin(2), lambda i: read_line()))  # refused
