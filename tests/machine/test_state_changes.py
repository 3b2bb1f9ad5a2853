"""What iterations do to the fields of their handler is right afterwards, or refused, never lost."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import peffects.handlers
from peffects.errors import HandlerDefinitionError, TraverseError
from peffects.handlers import Err, accumulate, all_worlds, amb, attempt, throw
from peffects.machine.handling.clauses import final
from peffects.machine.handling.handler import (
    BasicHandler,
    CollectHandler,
    Handler,
    ParHandler,
    SplitHandler,
    check_state,
    handle,
    handler,
)
from peffects.machine.handling.operations import Effect, Operation, effectful
from peffects.machine.handling.state_changes import rebound_field
from peffects.parallel import ADD, Fin, Processes, Serial, Shuffled, Threads, pfor, run


class Count(Effect): ...


class Add(Operation[Count, None]):
    by: int


class Total(Operation[Count, Any]): ...


class Stop(Operation[Count, Any]): ...


def bump(object_: Any, by: int) -> None:
    object_.n += by


CHANGES = [
    "self.n = self.n + op.by",
    "self.n += op.by",
    "self.n, _ = self.n + op.by, 0",
    "[self.n, *_] = [self.n + op.by]",
    "(_, (self.n, _)) = (0, (self.n + op.by, 0))",
    "_ = self.n = self.n + op.by",
    "self.n: int = self.n + op.by",
    "for self.n in (self.n + op.by,): pass",
    "for _, self.n in [(0, self.n + op.by)]: pass",
    "with nullcontext(self.n + op.by) as self.n: pass",
    "del self.n",
    "self.made_here = op.by",
    "setattr(self, 'n', self.n + op.by)",
    "object.__setattr__(self, 'n', self.n + op.by)",
    "self.__setattr__('n', self.n + op.by)",
    "self.__dict__['n'] += op.by",
    "self.__dict__.update(n=self.n + op.by)",
    "vars(self)['n'] = self.n + op.by",
    "me = self; me.n += op.by",
    "me = you = self; you.n += op.by",
    "(me := self).n += op.by",
    "self._bump(op.by)",
    "self._bump_twice(op.by)",
    "type(self)._bump(self, op.by)",
    "self._bump_another(op.by, self)",
    "me = self; you = me; you.n += op.by",
    "bump(self, op.by)",
    "bump(by=op.by, object_=self)",
    "(lambda: setattr(self, 'n', self.n + op.by))()",
    "[bump(x, op.by) for x in [self]]",
    "exec('self.n += op.by')",
    "self.seen += [op.by]; self.n = len(self.seen)",
    "yield from (); self.n += op.by",
    "def inner():\n            self.n += op.by\n        inner()",
    "match op:\n            case Add(by=by): self.n += by",
    "try: pass\n        finally: self.n += op.by",
]
CLASS = """
class counting({base}):
    def __init__(self): self.n, self.m, self.seen = 0, 0, []
    def total(self, op): return self.n
    def add(self, op):
        {change}
    @final
    def stop(self, op): return "stopped"
    def _bump(self, by): self.n += by
    def _bump_another(self, by, other): other.n += by
    def _bump_twice(self, by):
        self._bump(by - 1)
        self._bump(1)
"""
BASES = {
    "basic": ("BasicHandler[Count]", ""),
    "collects": ("CollectHandler[Count]", "    def collect(self, answers): return answers\n"),
    "leaves it out": (
        "CollectHandler[Count]",
        "    def ret(self, x): return self.m, x\n"
        "    def collect(self, answers): return [x for _, x in answers]\n",
    ),
    "own traverse": (
        "ParHandler[Count]",
        "    def traverse(self, n, loop, k):\n"
        "        values = yield from loop()\n"
        "        return (yield from k(values))\n",
    ),
}


def defined(base: str, change: str, with_source: bool) -> Any:
    """The handler class; `with_source` says whether peffects can read its text."""
    kind, more = BASES[base]
    text = CLASS.format(base=kind, change=change) + more
    if base == "basic":
        text = text.replace('    @final\n    def stop(self, op): return "stopped"\n', "")
        text += "    def stop(self, op): return None\n"
    name = f"<{base} {change} {with_source}>"
    if with_source:
        linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    names: dict[str, Any] = {**globals(), "nullcontext": _given}
    exec(compile(text, name, "exec"), names)
    return names["counting"]


class _given:
    def __init__(self, value: int) -> None:
        self.value = value

    def __enter__(self) -> int:
        return self.value

    def __exit__(self, *_: object) -> None: ...


@effectful
def adds_in_a_loop() -> Any:
    yield from pfor(Fin(3), lambda i: Add(1))
    return (yield from Total())


TOLD = [(base, True) for base in BASES] + [
    (base, False)
    for base in BASES
    if base != "leaves it out"  # without source `ret` may read all
]


@pytest.mark.parametrize(("base", "with_source"), TOLD)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_a_loop_would_lose_is_refused(
    base: str, change: str, with_source: bool
) -> None:
    for executor in (Serial(), Shuffled(1), Threads(2)):
        with pytest.raises((HandlerDefinitionError, TraverseError), match="`counting`"):
            run(handle(defined(base, change, with_source)(), adds_in_a_loop()), executor=executor)


READ_ANYWAY = ("exec(", "[bump(x", "bump(by=")
"""What cannot be seen in the source of the clause; found when it has run."""


@pytest.mark.parametrize("change", [c for c in CHANGES if not c.startswith(READ_ANYWAY)])
def test_an_assignment_is_found_when_the_class_is_defined(change: str) -> None:
    for base in ("basic", "collects"):
        with pytest.raises(HandlerDefinitionError, match="`add`"):
            defined(base, change, True)


def test_the_message_names_field_values_and_places() -> None:
    kind = defined("basic", "self.n += op.by", False)
    with pytest.raises(TraverseError) as caught:
        run(handle(kind(), adds_in_a_loop()))
    message = str(caught.value)
    assert "is a BasicHandler" in message
    assert "changes its field `n` (0 before, 1 after it)" in message
    assert "at test_state_changes.py" in message and "pfor(Fin(3), lambda i: Add(1))" in message
    assert "handler installed at test_state_changes.py" in message
    assert "`collect`" in message


UNCHANGED = [
    "return self.n",
    "self.n == op.by",
    "n = self.n + op.by",
    "other = self._with(n=1); other.n = 2",
    "op_n = [self.n for self_n in [1]]",
    "self._with(n=op.by)",
    "yield from (); return self.n",
    "def inner(self): self.n = 1",
]


@pytest.mark.parametrize("with_source", [True, False], ids=["source", "no source"])
@pytest.mark.parametrize("base", list(BASES))
@pytest.mark.parametrize("change", UNCHANGED)
def test_what_changes_nothing_runs(base: str, change: str, with_source: bool) -> None:
    assert run(handle(defined(base, change, with_source)(), adds_in_a_loop())) in (0, (0, 0))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ("self.n += by", "n"),
        ("setattr(self, 'n', by)", "n"),
        ("self.__setattr__('n', by)", "n"),
        ("object.__setattr__(self, 'n', by)", "n"),
        ("self.__dict__['n'] = by", "n"),
        ("vars(self).update(n=by)", "__dict__"),
        ("setattr(self, by, by)", "__dict__"),
        ("bump(self, by)", "n"),
        ("bump(by, self)", None),
    ],
)
def test_the_field_is_named(change: str, field: str | None) -> None:
    text = f"def add(self, by): {change}\n"
    name = f"<field {change}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    names = dict(globals())
    exec(compile(text, name, "exec"), names)
    assert rebound_field(object, names["add"]) == field


def test_inherited_clauses_are_clauses() -> None:
    class adds:
        n = 0

        def add(self, op: Add) -> None:
            self.n += op.by

    class quiet(BasicHandler[Count]):
        n = 0

        def add(self, op: Add) -> None: ...

        def total(self, op: Total) -> int:
            return self.n

        def stop(self, op: Stop) -> None: ...

    with pytest.raises(HandlerDefinitionError, match="`louder`"):

        class louder(quiet):
            def add(self, op: Add) -> None:
                self.n = self.n + 1

    with pytest.raises(HandlerDefinitionError, match="`mixed`"):

        class mixed(adds, quiet): ...

    class late(quiet):
        def add(self, op: Add) -> None:
            setattr(*(self, "n", self.n + op.by))

    with pytest.raises(TraverseError, match=r"`n` \(not there before, 1 after it"):
        run(handle(late(), adds_in_a_loop()))


class one_at_a_time(CollectHandler[Count]):
    """Answers hold nothing; one clause ends an iteration early, one does not resume."""

    def __init__(self) -> None:
        self.n = 0

    def add(self, op: Add) -> None:
        setattr(*(self, "n", self.n + op.by))

    def total(self, op: Total, k: Any) -> Any:
        return "dropped"

    @final
    def stop(self, op: Stop) -> str:
        return "stopped"

    def collect(self, answers: Any) -> Any:
        return answers


def test_another_nan_is_no_change() -> None:
    class undefined(CollectHandler[Count]):
        def __init__(self) -> None:
            self.n = float("nan")

        def add(self, op: Add) -> None:
            setattr(*(self, "n", float("nan")))

        def total(self, op: Total) -> Any:
            return "nothing lost"

        def stop(self, op: Stop) -> None: ...

        def collect(self, answers: Any) -> Any:
            return answers

    assert run(handle(undefined(), adds_in_a_loop())) == "nothing lost"


@pytest.mark.parametrize("end", [Stop, Total])
@pytest.mark.parametrize("adds", [True, False])
def test_iterations_that_end_early_are_compared_too(end: Any, adds: bool) -> None:
    @effectful
    def iteration(_: int) -> Any:
        if adds:
            yield from Add(1)
        yield from end()

    program = handle(one_at_a_time(), pfor(Fin(2), iteration))
    if adds:
        with pytest.raises(TraverseError, match="CollectHandler without `ret`"):
            run(program)
    else:
        assert list(run(program)) == ["stopped" if end is Stop else "dropped"] * 2


def test_every_world_of_an_iteration_is_compared() -> None:
    @effectful
    def iteration(_: int) -> Any:
        if (yield from amb([False, True])):
            yield from Add(1)

    with pytest.raises(TraverseError, match="`n`"):
        run(handle(all_worlds(), handle(one_at_a_time(), pfor(Fin(1), iteration))))


def test_a_state_that_is_lost_with_an_iteration_that_left_is_no_fault() -> None:
    @effectful
    def iteration(_: int) -> Any:
        yield from Add(1)
        yield from throw("left")

    program = pfor(Fin(2), iteration)
    assert run(attempt(handle(one_at_a_time(), program))) == Err("left")


def test_a_traverse_clause_may_say_that_iterations_start_anew() -> None:
    class local_count(ParHandler[Count]):
        def __init__(self) -> None:
            self.n = 0

        def add(self, op: Add) -> None:
            self.n += op.by

        def total(self, op: Total) -> int:
            return self.n

        def stop(self, op: Stop) -> None: ...

        def traverse(self, n: Any, loop: Any, k: Any) -> Any:
            values = yield from loop(lambda i: self)
            return (yield from k(values))

    assert run(handle(local_count(), adds_in_a_loop())) == 0


class notes(BasicHandler[Count]):
    def __init__(self, seen: Any) -> None:
        self.seen = seen

    def add(self, op: Add) -> None:
        if isinstance(self.seen, dict):
            self.seen[op.by] = 1
        else:
            self.seen.append(op.by)

    def total(self, op: Total) -> int:
        return len(self.seen)

    def stop(self, op: Stop) -> None: ...


@effectful
def adds_one(_: int) -> Any:
    yield from Add(1)


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes(2) as executor:
        yield executor


@pytest.mark.parametrize("make", [list, dict])
def test_a_list_of_the_handler_is_its_own_here_and_a_copy_in_a_worker(
    make: Callable[[], Any], processes: Processes
) -> None:
    seen = make()
    run(handle(notes(seen), pfor(Fin(3), adds_one)), executor=Threads(2))
    assert len(seen) == (3 if make is list else 1)
    with pytest.raises(TraverseError, match=r"`seen` \(a copy here, now .1"):
        run(handle(notes(make()), pfor(Fin(3), adds_one)), executor=processes)


def test_a_worker_compares_copies_where_no_clause_sets_a_field(processes: Processes) -> None:
    assert notes._losing is not None and notes._losing.sure
    with pytest.raises(TraverseError, match="a copy here"):
        run(handle(notes([]), pfor(Fin(1), adds_one)), executor=processes)


def test_a_worker_runs_what_changes_nothing(processes: Processes) -> None:
    program = pfor(Fin(3), _asks_total)
    assert list(run(handle(notes([4, 5]), program), executor=processes)) == [2, 2, 2]


@effectful
def _asks_total(_: int) -> Any:
    return (yield from Total())


def test_a_small_handler_has_no_state() -> None:
    seen: list[int] = []

    class One(Effect): ...

    class Note(Operation[One, None]):
        by: int

    small = handler(Note, lambda op: seen.append(op.by))
    run(handle(small, pfor(Fin(3), lambda i: Note(int(i)))))
    assert seen == [0, 1, 2] and vars(small) == {}


OURS = [
    kind
    for kind in vars(peffects.handlers).values()
    if isinstance(kind, type) and issubclass(kind, Handler)
]


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_our_own_handlers_lose_nothing(kind: Any) -> None:
    class copy(kind):  # type: ignore[misc]
        _effects = kind._effects

    check_state(copy)
    if copy._ret is None and issubclass(kind, ParHandler):
        assert issubclass(kind, BasicHandler | SplitHandler) or copy._losing is not None


# --- random programs: refused, or what the sequential loop gives --------------------------------

PROGRAMS = st.recursive(
    st.one_of(st.tuples(st.just("add"), st.integers(0, 2)), st.just(("total",))),
    lambda inner: st.tuples(st.sampled_from(["seq", "par"]), st.lists(inner, max_size=3)),
    max_leaves=6,
)


@effectful
def perform(program: Any, parallel: bool) -> Any:
    kind, *rest = program
    if kind == "add":
        return (yield from Add(rest[0]))
    if kind == "total":
        return (yield from Total())
    if kind == "par" and parallel:
        return list((yield from pfor(rest[0], lambda part: perform(part, True))))
    values = []
    for part in rest[0]:
        values.append((yield from perform(part, parallel)))
    return values


KINDS = st.tuples(st.sampled_from(TOLD), st.sampled_from([*CHANGES, *UNCHANGED]))


def forget_totals(program: Any) -> Any:
    """Totals inside of loops depend on the order by their meaning."""
    kind, *rest = program
    if kind == "par":
        return kind, [_without_totals(part) for part in rest[0]]
    return (kind, [forget_totals(part) for part in rest[0]]) if kind == "seq" else program


def _without_totals(program: Any) -> Any:
    kind, *rest = program
    if kind == "total":
        return "add", 0
    return (
        (kind, [_without_totals(part) for part in rest[0]]) if kind in ("seq", "par") else program
    )


@given(PROGRAMS.map(forget_totals), KINDS)
def test_a_random_loop_is_refused_or_the_sequential_one(program: Any, kind: Any) -> None:
    try:
        (base, with_source), change = kind
        counting = defined(base, change, with_source)
        found = run(handle(counting(), perform(program, True)))
    except (HandlerDefinitionError, TraverseError):
        return
    except AttributeError:  # a clause deletes the field
        return
    assert found == run(handle(counting(), perform(program, False)))


@given(PROGRAMS.map(forget_totals))
def test_a_state_that_answers_hold_is_right(program: Any) -> None:
    class sums(CollectHandler[Count]):
        def __init__(self) -> None:
            self.n = self.own = 0

        def ret(self, x: Any) -> Any:
            return self.n, self.own, x

        def add(self, op: Add) -> None:
            self.n, self.own = self.n + op.by, self.own + op.by

        def total(self, op: Total) -> int:
            return self.n

        def stop(self, op: Stop) -> None: ...

        def collect(self, answers: Any) -> Any:
            start = self.own
            self.own = start + sum(own - start for _, own, _ in answers)
            self.n += self.own - start
            return [value for _, _, value in answers]

    parallel, sequential = (run(handle(sums(), perform(program, p))) for p in (True, False))
    assert parallel == sequential
    assert run(handle(accumulate(ADD), handle(sums(), perform(program, True))))[1] == sequential
