"""The eleven programs of effect-handlers-bench, at sizes whose results plain Python confirmed.

Each shows one way to use effects: state, abort, iteration, backtracking, generators, stored
resumptions, handlers within handlers.
"""

from __future__ import annotations

from typing import Any, Never

import pytest

from peffects.handlers import get, put, run_state
from peffects.machine.handling.clauses import final, multi
from peffects.machine.handling.handler import Handler, handle
from peffects.machine.handling.operations import Effect, Operation, effectful
from peffects.machine.resuming.resumption import Resumption
from peffects.parallel import Executor, Serial, Shuffled, Threads, pfor, run


@effectful
def countdown() -> Any:
    while True:
        n: int = yield from get()
        if n == 0:
            return n
        yield from put(n - 1)


@pytest.mark.parametrize("n", [5, 100_000])
def test_countdown(n: int) -> None:
    assert run(handle(run_state(n), countdown())) == (0, 0)


@effectful
def fibonacci(n: int) -> Any:
    if n < 2:
        return n
    return (yield from fibonacci(n - 1)) + (yield from fibonacci(n - 2))


@pytest.mark.parametrize(("n", "expected"), [(5, 5), (20, 6765), (25, 75025)])
def test_fibonacci_recursive(n: int, expected: int) -> None:
    assert run(fibonacci(n)) == expected


class Abort(Effect): ...


class Done(Operation[Abort, Never]):
    value: int


class aborts(Handler[Abort]):
    @final
    def done(self, op: Done) -> int:
        return op.value


@effectful
def product(xs: list[int], i: int = 0) -> Any:
    if i == len(xs):
        return 0
    if xs[i] == 0:
        yield from Done(0)
    return xs[i] * (yield from product(xs, i + 1))


@effectful
def product_early(n: int) -> Any:
    xs = list(range(1000, -1, -1))
    total = 0
    for _ in range(n):
        total += yield from handle(aborts(), product(xs))
    return total


@pytest.mark.parametrize("n", [5, 100])
def test_product_early(n: int) -> None:
    assert run(product_early(n)) == 0


class Iterate(Effect): ...


class Emit(Operation[Iterate, None]):
    value: int


class sums(Handler[Iterate]):
    def __init__(self) -> None:
        self.total = 0

    def ret(self, x: Any) -> int:
        return self.total

    def emit(self, op: Emit) -> None:
        self.total = self.total + op.value


@effectful
def iterator(n: int) -> Any:
    for i in range(n + 1):
        yield from Emit(i)


@pytest.mark.parametrize(("n", "expected"), [(5, 15), (1000, 500500)])
def test_iterator(n: int, expected: int) -> None:
    assert run(handle(sums(), iterator(n))) == expected


class Search(Effect): ...


class Pick(Operation[Search, int]):
    size: int


class Fail(Operation[Search, Never]): ...


class counts_solutions(Handler[Search]):
    @multi
    def pick(self, op: Pick, k: Resumption[int, int]) -> Any:
        count = 0
        for i in range(1, op.size + 1):
            count += yield from k(i)
        return count

    @final
    def fail(self, op: Fail) -> int:
        return 0


def safe(queen: int, queens: tuple[int, ...]) -> bool:
    return all(queen not in (q, q + d, q - d) for d, q in enumerate(queens, 1))


@effectful
def place(size: int, column: int) -> Any:
    if column == 0:
        return ()
    rest = yield from place(size, column - 1)
    queen: int = yield from Pick(size)
    if not safe(queen, rest):
        yield from Fail()
    return (queen, *rest)


@effectful
def nqueens(size: int) -> Any:
    yield from place(size, size)
    return 1


@pytest.mark.parametrize(("n", "expected"), [(4, 2), (5, 10), (6, 4), (7, 40)])
def test_nqueens(n: int, expected: int) -> None:
    assert run(handle(counts_solutions(), nqueens(n))) == expected


def test_nqueens_8() -> None:
    assert run(handle(counts_solutions(), nqueens(8))) == 92


class Next:
    """A value that was yielded, and the rest of the generator."""

    def __init__(self, value: int, rest: Resumption[None, Any]) -> None:
        self.value = value
        self.rest = rest


class generates(Handler[Iterate]):
    def ret(self, x: Any) -> None:
        return None

    def emit(self, op: Emit, k: Resumption[None, Any]) -> Next:
        return Next(op.value, k)


Tree = tuple[Any, int, Any]


def complete_tree(height: int) -> Tree | None:
    tree: Tree | None = None
    for value in range(1, height + 1):
        tree = (tree, value, tree)
    return tree


@effectful
def walk(tree: Tree | None) -> Any:
    if tree is not None:
        left, value, right = tree
        yield from walk(left)
        yield from Emit(value)
        yield from walk(right)


@effectful
def generator(height: int) -> Any:
    total = 0
    step = yield from handle(generates(), walk(complete_tree(height)))
    while step is not None:
        total += step.value
        step = yield from step.rest(None)
    return total


@pytest.mark.parametrize(
    ("n", "expected"),
    [(5, 57), (10, 2036), (16, 131054), pytest.param(20, 2097130, marks=pytest.mark.slow)],
)
def test_generator(n: int, expected: int) -> None:
    assert run(generator(n)) == expected


class Choice(Effect): ...


class Choose(Operation[Choice, bool]): ...


def mix(x: int, y: int) -> int:
    return abs(x - 503 * y + 37) % 1009


class all_paths(Handler[Choice]):
    def ret(self, x: int) -> list[int]:
        return [x]

    @multi
    def choose(self, op: Choose, k: Resumption[bool, list[int]]) -> Any:
        left = yield from k(True)
        return left + (yield from k(False))


@effectful
def explore(tree: Tree | None) -> Any:
    if tree is None:
        return (yield from get())
    left, value, right = tree
    go_left = yield from Choose()
    state: int = yield from get()
    yield from put(mix(state, value))
    return mix(value, (yield from explore(left if go_left else right)))


@effectful
def tree_explore(height: int, rounds: int = 10) -> Any:
    tree = complete_tree(height)
    for _ in range(rounds):
        paths = yield from handle(all_paths(), explore(tree))
        yield from put(max(paths))
    return paths, (yield from get())


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (2, 903),
        (5, 946),
        (8, 1006),
        (10, 1003),
        pytest.param(12, 1002, marks=pytest.mark.slow),
    ],
)
def test_tree_explore(n: int, expected: int) -> None:
    state, _ = run(handle(run_state(0), tree_explore(n)))
    assert state == expected


def test_tree_explore_shares_the_state_among_paths() -> None:
    _, (paths, _) = run(handle(run_state(0), tree_explore(2, rounds=1)))
    assert paths == [393, 858, 562, 913]


class Flips(Effect): ...


class Flip(Operation[Flips, bool]): ...


class Failure(Effect): ...


class GiveUp(Operation[Failure, Never]): ...


class sums_worlds(Handler[Flips]):
    @multi
    def flip(self, op: Flip, k: Resumption[bool, int]) -> Any:
        yes = yield from k(True)
        return (yes + (yield from k(False))) % 1_000_000_007


class nothing(Handler[Failure]):
    @final
    def give_up(self, op: GiveUp) -> int:
        return 0


@effectful
def choice(n: int) -> Any:
    while n >= 1:
        if (yield from Flip()):
            return n
        n -= 1
    yield from GiveUp()


@effectful
def triple(n: int, total: int) -> Any:
    i: int = yield from choice(n)
    j: int = yield from choice(i - 1)
    k: int = yield from choice(j - 1)
    if i + j + k != total:
        yield from GiveUp()
    return (53 * i + 2809 * j + 148877 * k) % 1_000_000_007


@pytest.mark.parametrize(
    ("n", "expected"),
    [(10, 779312), (30, 33527270), pytest.param(100, 380148825, marks=pytest.mark.slow)],
)
def test_triples(n: int, expected: int) -> None:
    assert run(handle(sums_worlds(), handle(nothing(), triple(n, n)))) == expected


class Input(Effect): ...


class Read(Operation[Input, str]): ...


class Stop(Effect): ...


class StopNow(Operation[Stop, Never]): ...


class feeds(Handler[Input]):
    """Line i has i dollars; after the last line, `StopNow`."""

    def __init__(self, lines: int) -> None:
        self.lines = lines
        self.line = 0
        self.left = 0

    def read(self, op: Read) -> Any:
        if self.line > self.lines:
            yield from StopNow()
        if self.left > 0:
            self.left = self.left - 1
            return "$"
        self.line = self.line + 1
        self.left = self.line
        return "\n"


class stops(Handler[Stop]):
    @final
    def stop_now(self, op: StopNow) -> None:
        return None


@effectful
def parse() -> Any:
    dollars = 0
    while True:
        char = yield from Read()
        if char == "$":
            dollars += 1
        elif char == "\n":
            yield from Emit(dollars)
            dollars = 0
        else:
            yield from StopNow()


@pytest.mark.parametrize(("n", "expected"), [(10, 55), (100, 5050)])
def test_parsing_dollars(n: int, expected: int) -> None:
    assert run(handle(sums(), handle(stops(), handle(feeds(n), parse())))) == expected


class Operate(Effect): ...


class Operator(Operation[Operate, None]):
    x: int


class not_in_tail_position(Handler[Operate]):
    def operator(self, op: Operator, k: Resumption[None, int]) -> Any:
        y = yield from k(None)
        return mix(op.x, y)


@effectful
def operate(n: int, s: int) -> Any:
    for x in range(n, 0, -1):
        yield from Operator(x)
    return s


@effectful
def resume_nontail(n: int, repetitions: int = 1000) -> Any:
    s = 0
    for _ in range(repetitions):
        s = yield from handle(not_in_tail_position(), operate(n, s))
    return s


def test_resume_nontail() -> None:
    assert run(resume_nontail(5)) == 37


def test_resume_nontail_100() -> None:
    assert run(resume_nontail(100)) == 518


@pytest.mark.slow
def test_resume_nontail_1000() -> None:
    assert run(resume_nontail(1000)) == 708


class Sieve(Effect): ...


class Prime(Operation[Sieve, bool]):
    number: int


class every_number(Handler[Sieve]):
    def prime(self, op: Prime) -> bool:
        return True


class divides(Handler[Sieve]):
    def __init__(self, prime: int) -> None:
        self.by = prime

    def prime(self, op: Prime) -> Any:
        if op.number % self.by == 0:
            return False
        return (yield from Prime(op.number))


@effectful
def primes(i: int, n: int, total: int) -> Any:
    while i < n:
        if (yield from Prime(i)):
            return (yield from handle(divides(i), primes(i + 1, n, total + i)))
        i += 1
    return total


@pytest.mark.parametrize(("n", "expected"), [(10, 17), (100, 1060), (1000, 76127)])
def test_handler_sieve(n: int, expected: int) -> None:
    assert run(handle(every_number(), primes(2, n, 0))) == expected


# --- the same searches with a parallel loop over the first choice --------------------------------


@effectful
def place_after(first: int, size: int) -> Any:
    rows: tuple[int, ...] = (first,)
    while len(rows) < size:
        queen: int = yield from Pick(size)
        if not safe(queen, rows):
            yield from Fail()
        rows = (queen, *rows)
    return 1


@pytest.mark.parametrize("executor", [Serial(), Shuffled(1), Threads(2, chunk=1)], ids=repr)
@pytest.mark.parametrize(("n", "expected"), [(5, 10), (6, 4), (7, 40)])
def test_nqueens_from_every_first_queen(executor: Executor, n: int, expected: int) -> None:
    @effectful
    def program() -> Any:
        return sum(
            (
                yield from pfor(
                    range(1, n + 1), lambda q: handle(counts_solutions(), place_after(q, n))
                )
            )
        )

    assert run(program(), executor=executor) == expected


@effectful
def triple_from(i: int, total: int) -> Any:
    j: int = yield from choice(i - 1)
    k: int = yield from choice(j - 1)
    if i + j + k != total:
        yield from GiveUp()
    return (53 * i + 2809 * j + 148877 * k) % 1_000_000_007


@pytest.mark.parametrize("executor", [Serial(), Shuffled(1), Threads(2, chunk=1)], ids=repr)
def test_triples_from_every_first_number(executor: Executor) -> None:
    @effectful
    def body(i: int) -> Any:
        return (yield from handle(sums_worlds(), handle(nothing(), triple_from(i, 30))))

    found = run(pfor(range(1, 31), body), executor=executor)
    assert sum(found) % 1_000_000_007 == 33527270
