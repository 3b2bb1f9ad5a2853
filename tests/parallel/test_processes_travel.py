"""What travels to a worker process and back: classes of scripts, exceptions; what does not."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import linecache
import logging
import os
import subprocess
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.errors import NotPicklable
from peffects.handlers import (
    accum,
    accumulate,
    all_worlds,
    amb,
    ask,
    get,
    parallel_worlds,
    put,
    reader,
    run_state,
)
from peffects.handlers.state import State
from peffects.machine.checking.debugging import debug_checks, debugging
from peffects.machine.handling.handler import BasicHandler, handle
from peffects.machine.handling.operations import Effect, Operation, effectful, operations_of
from peffects.machine.running.pickling import pickled, unpickled
from peffects.parallel import ADD, Executor, Fin, Processes, Serial, pfor, run


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes(2, chunk=2) as executor:
        yield executor


# --- what a script defines -----------------------------------------------------------------------

SCRIPT = """
import enum, sys
from dataclasses import field
from peffects import BasicHandler, Effect, Fin, Operation, effectful, handle, pfor, run
from peffects.handlers import State, run_state
from peffects.parallel import Processes

FACTOR = 3

class Price(Effect): ...
class Other(Price): ...
class PriceOf(Operation[Price, int]):
    name: str
    times: int = 1
    tags: list = field(default_factory=list)
    def twice(self): return PriceOf(self.name, self.times * 2)
class Own(Operation[Price, int]):
    text: str
    def __init__(self, a, b): object.__setattr__(self, "text", f"{a}{b}")
class Checked(Operation[Price, int]):
    n: int
    def __post_init__(self): assert self.n >= 0
class Named(Operation[Price, int]):
    a: int
    b: int = field(default=4, kw_only=True)
class Plain(Operation[Price, int]): ...
class Fuel(State[int]): ...
class Color(enum.Enum):
    RED = 1
class prices(BasicHandler[Price]):
    def __init__(self, base, at=Price): self.base = base
    def price_of(self, op): return len(op.name) * op.times * self.base + len(op.tags)
    def own(self, op): return len(op.text)
    def checked(self, op): return op.n
    def named(self, op): return op.a * 10 + op.b
    def plain(self, op): return FACTOR
class Odd(Exception):
    def __init__(self, a, *, why):
        super().__init__(f"odd {a}")
        self.why = why

@effectful
def trip(i):
    yield from Fuel.put(int(i))
    one = PriceOf("xy", 2, [1])
    found = (yield from one), (yield from one.twice()), (yield from Own("ab", i))
    found += (yield from Checked(5)), (yield from Named(1)), (yield from Plain())
    found += (yield from PriceOf.at(Other)("abcd")), (yield from Fuel.get()), Color.RED
    return found, one

def program():
    loop = pfor(Fin(2), lambda i: handle(run_state(0, at=Fuel), trip(i)))
    return handle(prices(7), handle(prices(100, at=Other), loop))

def odd(i):
    try:
        raise KeyError("inner")
    except KeyError as error:
        raise Odd(3, why=Color.RED) from error

def main():
    with Processes(1) as executor:
        found = run(program(), executor=executor)
        assert found == run(program()), found
        assert found[0][1][0][-1] is Color.RED and type(found[0][1][1]) is PriceOf
        try:
            run(pfor(Fin(1), odd), executor=executor)
        except Odd as error:
            print(found[1][1][0], error, error.why, repr(error.__cause__))
"""
TOLD = "(29, 56, 3, 5, 14, 3, 400, 1, <Color.RED: 1>) odd 3 Color.RED KeyError('inner')"
MAIN = SCRIPT + '\nif __name__ == "__main__":\n    main()\n'
IN_EXEC = f"space = {{}}\nexec({SCRIPT!r}, space)\nspace['main']()"
UNDER_MULTIPROCESSING = (
    SCRIPT
    + """
if __name__ == "__main__":
    import multiprocessing
    for method in multiprocessing.get_all_start_methods():
        child = multiprocessing.get_context(method).Process(target=main)
        child.start()
        child.join()
"""
)


def output_of(arguments: list[str], directory: Path, stdin: str | None = None) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(pe.__file__).parent.parent)}
    environment.pop("PYTHONUNBUFFERED", None)
    done = subprocess.run(
        [sys.executable, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env=environment,
        cwd=directory,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        (["a_script.py"], None),
        (["-O", "-m", "a_script"], None),
        (["-c", MAIN], None),
        ([], MAIN),
        (["-c", IN_EXEC], None),
    ],
    ids=["file", "module", "command", "stdin", "exec"],
)
def test_what_a_script_defines_travels_whichever_way_it_is_run(
    arguments: list[str], stdin: str | None, tmp_path: Path
) -> None:
    (tmp_path / "a_script.py").write_text(MAIN)
    assert output_of(arguments, tmp_path, stdin) == [TOLD]


def test_a_script_may_start_its_workers_in_any_process_of_multiprocessing(tmp_path: Path) -> None:
    (tmp_path / "a_script.py").write_text(UNDER_MULTIPROCESSING)
    found = output_of(["a_script.py"], tmp_path)
    assert found == [TOLD] * len(found)
    assert len(found) >= 2  # spawn and fork, at least


def test_workers_are_those_of_the_process_that_started_them(processes: Processes) -> None:
    parents = set(run(pfor(Fin(4), lambda i: os.getpid()), executor=processes))
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child == 0:
        try:
            found = set(run(pfor(Fin(2), lambda i: os.getpid()), executor=processes))
            os.write(write, b"other" if found.isdisjoint(parents) else b"same")
            processes.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 9) == b"other"
    assert set(run(pfor(Fin(4), lambda i: os.getpid()), executor=processes)) == parents


LIMIT = 1


class Bounded:
    """A class that no module has by its name: it goes by value."""

    def limit(self) -> int:
        return LIMIT


Bounded.__qualname__ = "<locals>.Bounded"


@pytest.mark.parametrize("way", ["processes", "pickled"])
def test_a_class_that_comes_back_is_the_class_and_stays_as_it_is(
    processes: Processes, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Bounded.limit
    if way == "pickled":
        value = unpickled(pickled(Bounded()))
    else:
        (value,) = run(pfor(Fin(1), lambda i: Bounded()), executor=processes)
    assert type(value) is Bounded
    assert Bounded.limit is before
    monkeypatch.setattr(sys.modules[__name__], "LIMIT", 5)
    assert value.limit() == 5


def test_a_module_that_workers_cannot_import_is_told(processes: Processes) -> None:
    module = types.ModuleType("only_here")
    exec("def body(i):\n    return i\n", vars(module))
    sys.modules["only_here"] = module
    try:
        with pytest.raises(NotPicklable, match="No module named 'only_here'") as caught:
            run(pfor(Fin(2), vars(module)["body"]), executor=processes)
    finally:
        del sys.modules["only_here"]
    assert "pfor(Fin(2)" in caught.value.at.snippet()
    assert "register_pickle_by_value" in caught.value.fix


CELL = """\
def body(i):
    raise LookupError("bad")  # this line

def loop():
    return pfor(Fin(2), body)  # the loop
"""


def test_the_lines_of_a_cell_travel_with_its_code(processes: Processes) -> None:
    """Its text is nowhere but in this process, and what unwinds is seen in it."""
    linecache.cache["<a cell>"] = len(CELL), None, CELL.splitlines(keepends=True), "<a cell>"
    space: dict[str, Any] = {"pfor": pfor, "Fin": Fin, "__name__": "__main__"}
    exec(compile(CELL, "<a cell>", "exec"), space)

    @effectful
    def nested(i: int) -> Any:
        return (yield from space["loop"]())

    with pytest.raises(LookupError) as caught:
        run(pfor(Fin(1), nested), executor=processes)
    inner, _, lines = caught.value.__notes__
    assert inner.endswith("return pfor(Fin(2), body)  # the loop")
    assert 'raise LookupError("bad")  # this line' in lines


# --- what does not pickle ------------------------------------------------------------------------


class Unwilling:
    """Raises when it is pickled, or when it is unpickled; in the process that made it, or not."""

    def __init__(self, error: BaseException, when: str) -> None:
        self.error, self.when, self.maker = error, when, os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        if self.when == "pickled":
            raise self.error
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        here = os.getpid() == state["maker"]
        if state["when"] == "unpickled" or (state["when"] == "abroad" and not here):
            raise state["error"]
        self.__dict__.update(state)


ERRORS = [RuntimeError("no"), ZeroDivisionError("no"), EOFError("no"), OSError("no"), ImportError()]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("when", ["pickled", "unpickled", "abroad"])
def test_a_result_that_does_not_travel_names_its_iteration(
    processes: Processes, error: Exception, when: str
) -> None:
    def body(i: int) -> Any:
        return Unwilling(error, when) if i == 3 else int(i)

    with pytest.raises(NotPicklable, match=f"of iteration 3 .*{type(error).__name__}") as caught:
        run(pfor(Fin(6), body), executor=processes)
    assert "run(pfor(Fin(6), body)" in caught.value.at.snippet()
    assert caught.value.__notes__[0].startswith("in iteration 3 of the parallel for at")
    assert run(pfor(Fin(3), lambda i: int(i)), executor=processes) == [0, 1, 2]


@pytest.mark.parametrize("when", ["pickled", "unpickled", "abroad"])
def test_an_exception_that_does_not_travel_names_its_iteration(
    processes: Processes, when: str
) -> None:
    def body(i: int) -> Any:
        error = LookupError("the error itself")
        error.held = Unwilling(RuntimeError("no"), when)  # type: ignore[attr-defined]
        raise error

    with pytest.raises(NotPicklable, match=r"iteration 0 raised LookupError\(") as caught:
        run(pfor(Fin(2), body), executor=processes)
    assert "RuntimeError: no" in str(caught.value)
    assert "in body" in caught.value.__notes__[-1]


@pytest.mark.parametrize("when", ["pickled", "abroad"])
def test_bodies_arguments_and_handlers_that_do_not_travel_are_told_with_the_line(
    processes: Processes, when: str
) -> None:
    held: Any = Unwilling(RuntimeError("no"), when)
    loops: list[Callable[[], Any]] = [
        lambda: pfor(Fin(2), lambda i: held is None),
        lambda: pfor([held, held], lambda x: 1),
        lambda: handle(reader(held), pfor(Fin(2), lambda i: ask())),
        lambda: handle(accumulate(held, lambda a, b: a), pfor(Fin(2), lambda i: int(i))),
    ]
    for loop in loops:
        with pytest.raises(NotPicklable, match=r"body of a parallel for cannot.*no") as caught:
            run(loop(), executor=processes)
        assert "lambda: " in caught.value.at.snippet()


def test_a_value_whose_repr_raises_is_told_all_the_same(processes: Processes) -> None:
    class Shy(Unwilling):
        def __repr__(self) -> str:
            raise ValueError("no repr")

    with pytest.raises(NotPicklable, match="<Shy object, whose `repr` raises ValueError>"):
        run(pfor(Fin(1), lambda i: Shy(KeyError(), "pickled")), executor=processes)


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_pickled_tells_whatever_a_part_raises(error: Exception) -> None:
    with pytest.raises(NotPicklable, match=f"cannot be pickled: {type(error).__name__}"):
        pickled(put(Unwilling(error, "pickled")))


def test_what_cannot_be_pickled_does_not_end_debug_mode() -> None:
    @effectful
    def chooses() -> Any:
        held: Any = yield from get()
        x = yield from amb([1, 2])
        return held.when, x

    held = Unwilling(RuntimeError("no"), "pickled")
    with debug_checks():
        found = run(handle(all_worlds(), handle(run_state(held), chooses())))
    assert [x for _, (_, x) in found] == [1, 2]


# --- exceptions ----------------------------------------------------------------------------------


class Wrapped(Exception):
    """Its message is not what its constructor takes."""

    def __init__(self, number: int) -> None:
        super().__init__(f"number {number}")
        self.number = number


class Missing(OSError):
    def __init__(self, name: str, reason: str) -> None:
        super().__init__(2, reason, name)


class Several(ExceptionGroup[Exception]): ...


def raises_wrapped() -> None:
    raise Wrapped(3)


def raises_missing() -> None:
    raise Missing("a/path", "it is not there")


def raises_chain() -> None:
    try:
        try:
            raise KeyError("first")
        finally:
            raise Wrapped(2)
    except Wrapped as error:
        error.add_note("a note")
        raise ValueError("last") from error


def raises_group() -> None:
    raise Several("two", [Wrapped(1), KeyError("k")])


def raises_unicode() -> None:
    b"\xff".decode("ascii")


def raises_import() -> None:
    raise ImportError("none", name="a", path="b")


RAISING = [
    raises_wrapped,
    raises_missing,
    raises_chain,
    raises_group,
    raises_unicode,
    raises_import,
]


def described(error: BaseException | None) -> Any:
    """All of an exception that a handler of it may look at."""
    if error is None:
        return None
    notes = [n for n in getattr(error, "__notes__", ()) if "worker" not in n and "in iter" not in n]
    names = ("filename", "errno", "number", "name", "path", "object", "start")
    found = {name: getattr(error, name) for name in names if hasattr(error, name)}
    inner = [described(each) for each in getattr(error, "exceptions", ())]
    chain = described(error.__cause__), described(error.__context__), error.__suppress_context__
    return type(error), str(error), error.args and str(error.args), notes, found, inner, chain


@pytest.mark.parametrize("raises", RAISING)
def test_an_exception_comes_back_as_it_was(
    processes: Processes, raises: Callable[[], None]
) -> None:
    def caught(executor: Executor) -> Any:
        with pytest.raises(Exception) as found:
            run(pfor(Fin(1), lambda i: raises()), executor=executor)
        return described(found.value)

    assert caught(processes) == caught(Serial())


def test_a_cause_that_does_not_travel_is_left_behind(processes: Processes) -> None:
    def body(i: int) -> None:
        cause = KeyError("cause")
        cause.lock = threading.Lock()  # type: ignore[attr-defined]
        raise Wrapped(4) from cause

    with pytest.raises(Wrapped, match="number 4") as caught:
        run(pfor(Fin(1), body), executor=processes)
    assert caught.value.__cause__ is None


# --- resumptions ---------------------------------------------------------------------------------


@effectful
def world(i: int) -> Any:
    x: list[int] = yield from amb([[0], [1]])
    x.append(2)
    yield from accum(x[0])
    y: list[int] = yield from amb([[3], [4]])
    return x + y


@pytest.mark.parametrize("copies", [None, copy.deepcopy], ids=["shared", "copied"])
def test_worlds_run_in_parallel_around_any_handler(
    processes: Processes, copies: Callable[[Any], Any] | None
) -> None:
    around: list[Callable[[], Any]] = [
        lambda: handle(accumulate(ADD), pfor(Fin(2), world)),
        lambda: handle(run_state(1), handle(accumulate(ADD), world(0))),
        lambda: handle(accumulate(ADD), handle(reader(1), pfor(Fin(1), world))),
    ]
    for inner in around:
        expected = run(handle(all_worlds(), inner()), copy_answers=copies)
        found = run(handle(parallel_worlds(), inner()), executor=processes, copy_answers=copies)
        assert found == expected


# --- what is around a loop -----------------------------------------------------------------------


def test_iterations_see_what_is_around_their_loop(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(pfor(Fin(2), lambda i: i), executor=processes)  # the workers are there before
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OF_THE_LOOP", "yes")
    (tmp_path / "of_the_loop.py").write_text("NAME = 'found'\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def body(i: int) -> Any:
        name = importlib.import_module("of_the_loop").NAME
        return os.getcwd(), os.environ["OF_THE_LOOP"], name, sys.getrecursionlimit()

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 77)
    try:
        found = run(pfor(Fin(4), body), executor=processes)
    finally:
        sys.setrecursionlimit(limit)
    assert set(found) == {(str(tmp_path), "yes", "found", limit + 77)}
    with debug_checks(), np.errstate(divide="raise"):
        assert set(run(pfor(Fin(2), lambda i: debugging()), executor=processes)) == {True}
        with pytest.raises(FloatingPointError):
            run(pfor(Fin(2), lambda i: np.ones(1) / 0.0), executor=processes)
    assert set(run(pfor(Fin(2), lambda i: debugging()), executor=processes)) == {False}


class Tell(Effect): ...


class Told(Operation[Tell, None]):
    text: str


class tells(BasicHandler[Tell]):
    def told(self, op: Told) -> None:
        pass


def test_warnings_come_back_and_obey_the_filters_here(processes: Processes) -> None:
    def body(i: int) -> None:
        warnings.warn(f"number {i}", UserWarning, stacklevel=1)
        warnings.warn("not this one", ImportWarning, stacklevel=1)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", "not this")
        run(pfor(Fin(3), body), executor=processes)
    assert sorted(str(w.message) for w in caught) == ["number 0", "number 1", "number 2"]
    assert {Path(w.filename).name for w in caught} == {Path(__file__).name}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        with pytest.raises(UserWarning, match="number 0"):
            run(pfor(Fin(3), body), executor=processes)


def test_a_forgotten_yield_from_in_a_worker_is_told_here(processes: Processes) -> None:
    @effectful
    def forgets(i: int) -> Any:
        Told("nobody performs this")
        return (yield from Told("this"))

    with pytest.warns(pe.errors.NeverPerformed, match="`Told` was made and thrown away"):
        run(handle(tells(), pfor(Fin(1), forgets)), executor=processes)


def test_a_log_record_with_anything_in_it_comes_back(
    processes: Processes, caplog: pytest.LogCaptureFixture
) -> None:
    def body(i: int) -> None:
        extra = {"lock": threading.Lock(), "shy": Unwilling(OSError("no"), "unpickled"), "n": 3}
        logging.getLogger("user").warning("with %s", "extras", extra=extra)

    run(pfor(Fin(1), body), executor=processes)
    (record,) = [record for record in caplog.records if record.name == "user"]
    found: Any = record
    assert (record.getMessage(), found.n) == ("with extras", 3)
    assert "lock" in found.lock
    assert "Unwilling" in found.shy


def test_operations_handlers_and_index_sets_are_results(processes: Processes) -> None:
    def body(i: int) -> Any:  # an operation that is a result is for whoever gets it
        return [Told("a"), State.get, Fin(3), tells(), Told, dataclasses.fields(Told)[0].name]

    (found,) = run(pfor(Fin(1), body), executor=processes)
    assert (type(found[0]), found[0].text) == (Told, "a")
    assert found[2] == Fin(3)
    assert type(found[3]) is tells
    assert found[4:] == [Told, "text"]


class Known(Effect):
    """It has a module; the operation does not."""


def test_an_effect_knows_its_operations_in_another_process(processes: Processes) -> None:
    class Question(Operation[Known, int]): ...

    @effectful
    def known(i: int) -> Any:
        return list(operations_of(Question._effect)), os.getpid()
        yield  # type: ignore[unreachable]

    answers = run(pfor(Fin(2), known), executor=processes)
    assert [names for names, _ in answers] == [["question"]] * 2
    assert all(pid != os.getpid() for _, pid in answers)
