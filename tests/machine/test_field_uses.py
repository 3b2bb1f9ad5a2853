"""What the source of methods says of the fields of `self`, and when it says nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from machine.test_state_changes import CHANGES, UNCHANGED, Add, Count, Stop, Total, defined

from peffects.errors import HandlerDefinitionError, TraverseError
from peffects.machine.handling.clauses import final
from peffects.machine.handling.field_uses import fields_read, fields_set
from peffects.machine.handling.handler import BasicHandler, CollectHandler, ParHandler, handle
from peffects.machine.handling.operations import effectful
from peffects.parallel import Fin, pfor, run


class Uses:
    """Methods that use fields in all ways."""

    shared = 1

    def __init__(self) -> None:
        self.a = self.b = self.c = 0
        self.f: Callable[[int], int] = abs

    def reads(self) -> Any:
        return self.a, self.shared, self.f(1), [self.b for _ in range(2)]

    def sets(self) -> None:
        self.a, (self.b, *_) = 1, [2]

    def adds(self) -> None:
        self.a += 1

    def deletes(self) -> None:
        del self.a

    def follows(self) -> Any:
        return self._helper(3) + self._half + self._fixed(1)

    def recurses(self) -> Any:
        self.c = 1
        return self.recurses() if self.a else self.b

    def _helper(self, n: int) -> int:
        self.c = n
        return self.b

    @property
    def _half(self) -> int:
        return self.a // 2

    @_half.setter
    def _half(self, value: int) -> None:
        self.a = value

    @staticmethod
    def _fixed(n: int) -> int:
        return n

    @functools.cached_property
    def _once(self) -> int:
        return 1

    def sets_a_property(self) -> None:
        self._half = 3

    def in_a_lambda(self) -> Any:
        return lambda: self.a

    def gives_itself_away(self) -> Any:
        return str(self)

    def has_another_name(self) -> None:
        me = self
        me.a = 1

    def gives_a_method_away(self) -> Any:
        return self._helper

    def by_name(self) -> Any:
        return self.__dict__["a"]

    def by_super(self) -> None:
        super().__setattr__("a", 1)

    def by_text(self) -> None:
        exec("self.a = 1")

    def caches(self) -> int:
        return self._once

    @functools.wraps(reads)
    def wrapped(self) -> Any:
        return self.reads()


def names(*fields: str) -> frozenset[str]:
    return frozenset(fields)


@pytest.mark.parametrize(
    ("method", "read", "set_"),
    [
        (Uses.reads, names("a", "shared", "f", "b"), names()),
        (Uses.sets, names(), names("a", "b")),
        (Uses.adds, names(), names("a")),
        (Uses.deletes, names(), names("a")),
        (Uses.follows, names("a", "b"), names("c")),
        (Uses.recurses, names("a", "b"), names("c")),
        (Uses.sets_a_property, names(), names("a")),
        (Uses.in_a_lambda, names("a"), names()),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_fields_are_named(method: Any, read: frozenset[str], set_: frozenset[str]) -> None:
    assert fields_read(Uses, method) == read
    assert fields_set(Uses, [method]) == set_


@pytest.mark.parametrize(
    "method",
    [
        Uses.gives_itself_away,
        Uses.has_another_name,
        Uses.gives_a_method_away,
        Uses.by_name,
        Uses.by_super,
        Uses.by_text,
        Uses.caches,
        Uses.wrapped,
        len,
    ],
    ids=lambda method: method.__name__,
)
def test_it_may_be_all_of_them(method: Any) -> None:
    assert fields_read(Uses, method) is None
    assert fields_set(Uses, [Uses.reads, method]) is None


@pytest.mark.parametrize("hook", ["__setattr__", "__delattr__", "__getattribute__", "__getattr__"])
def test_hooks_may_do_anything(hook: str) -> None:
    kind: Any = type("Hooked", (Uses,), {hook: lambda self, *_: None})
    assert fields_set(kind, [Uses.reads]) is None
    assert (fields_read(kind, Uses.reads) is None) == hook.startswith("__get")


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_a_field_is_never_sure_not_to(change: str) -> None:
    assert not defined("own traverse", change, True)._losing.sure
    assert not defined("own traverse", change, False)._losing.sure


@pytest.mark.parametrize("change", [c for c in UNCHANGED if "_with" not in c])
def test_what_changes_nothing_is_sure(change: str) -> None:
    sure = defined("own traverse", change, True)._losing.sure
    assert sure or "def inner(self)" in change  # `self` of another function


# --- what follows for handlers -------------------------------------------------------------------


@effectful
def adds_in_a_loop() -> Any:
    yield from pfor(Fin(3), lambda i: Add(1))
    return (yield from Total())


class Kept(CollectHandler[Count]):
    """Its `ret` gives a field by a helper."""

    def __init__(self) -> None:
        self.n = self.m = 0

    def ret(self, x: Any) -> Any:
        return self._part(), x

    def _part(self) -> int:
        return self.n

    def add(self, op: Add) -> None:
        self.n += op.by

    def total(self, op: Total) -> int:
        return self.n

    @final
    def stop(self, op: Stop) -> Any:
        return self.n, None

    def collect(self, answers: Any) -> Any:
        self.n += sum(n - self.n for n, _ in answers)
        return [x for _, x in answers]


def test_a_helper_of_ret_may_give_the_field() -> None:
    assert Kept._losing is not None and Kept._losing.sure
    assert run(handle(Kept(), adds_in_a_loop())) == (3, 3)


def test_a_helper_of_ret_may_leave_the_field_out() -> None:
    class left_out(Kept):
        def _part(self) -> int:
            return self.m

    with pytest.raises(TraverseError, match=r"whose `ret` leaves that out.*`n`"):
        run(handle(left_out(), adds_in_a_loop()))


def test_a_traverse_clause_gets_what_ret_gives() -> None:
    class own(ParHandler[Count]):
        def __init__(self) -> None:
            self.n = self.m = 0

        def ret(self, x: Any) -> Any:
            return self.m, x

        def add(self, op: Add) -> None:
            self.n += op.by

        def total(self, op: Total) -> int:
            return self.n

        def stop(self, op: Stop) -> None: ...

        def traverse(self, n: Any, loop: Any, k: Any) -> Any:
            answers = yield from loop()
            return (yield from k([x for _, x in answers]))

    with pytest.raises(TraverseError, match=r"is a ParHandler whose `ret` leaves that out.*`n`"):
        run(handle(own(), adds_in_a_loop()))


def test_slots_of_a_base_are_refused() -> None:
    class slotted:
        __slots__ = ("n",)

    with pytest.raises(HandlerDefinitionError, match="`__slots__`, by its base `slotted`"):

        class counting(slotted, BasicHandler[Count]):
            def add(self, op: Add) -> None: ...

            def total(self, op: Total) -> int:
                return 0

            def stop(self, op: Stop) -> None: ...
