"""Exits that a frame swallows go on; exceptions that replace them in the frame are Python's."""

from __future__ import annotations

import contextlib
import linecache
import threading
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from peffects.handlers import Err, Ok, throw, weak_exceptions
from peffects.machine.handling.handler import Handler, handle
from peffects.machine.handling.operations import Effect, Operation, effectful
from peffects.parallel import run

Everything = BaseException
both = (ValueError, BaseException)


class Swallows:
    """Takes in whatever comes."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> bool:
        return True


class Passes:
    """Takes nothing in."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


class Fails:
    """Raises at its end."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> bool:
        raise ValueError("exit")


@contextlib.contextmanager
def passing() -> Iterator[None]:
    try:
        yield
    finally:
        lock.locked()


@contextlib.contextmanager
def failing() -> Iterator[None]:
    try:
        yield
    finally:
        raise ValueError("exit")


@contextlib.contextmanager
def swallowing() -> Iterator[None]:
    with contextlib.suppress(BaseException):
        yield


class PassesPlainly:
    """Takes nothing in, and says so."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> Literal[False]:
        return False


lock = threading.Lock()


def raises() -> None:
    raise ValueError("raised")


SWALLOW = [
    "try: yield from throw('x')\nexcept BaseException: pass",
    "try: yield from throw('x')\nexcept: pass",
    "try: yield from throw('x')\nexcept Everything: pass",
    "try: yield from throw('x')\nexcept both: pass",
    "try: yield from throw('x')\nexcept (KeyError, BaseException): pass",
    "try: yield from throw('x')\nexcept* BaseException: pass",
    "try: yield from throw('x')\nfinally: return 1",
    "while True:\n    try: yield from throw('x')\n    finally: break",
    "for _ in 'ab':\n    try: yield from throw('x')\n    finally: continue",
    "with Swallows(): yield from throw('x')",
    "with swallowing(): yield from throw('x')",
    "with contextlib.suppress(BaseException): yield from throw('x')",
    "with contextlib.suppress(KeyError, Everything): yield from throw('x')",
    "with contextlib.ExitStack() as stack:\n    stack.push(Swallows())\n    yield from throw('x')",
    "manager = Swallows()\nwith manager: yield from throw('x')",
    "with Swallows(), lock:\n    try: yield from throw('x')\n    finally: lock.locked()",
    "with Swallows():\n    with Passes():\n        yield from throw('x')",
    "try:\n    with passing(): yield from throw('x')\nexcept BaseException: pass",
    "try: pass\nexcept KeyError: pass\nelse:\n    with Swallows(): yield from throw('x')",
    "def inner():\n    with Swallows(): yield from throw('x')\nyield from inner()",
    "def inner():\n    with Passes(): yield from throw('x')\nwith Swallows(): yield from inner()",
    "kinds = BaseException\ntry: yield from throw('x')\nexcept kinds: pass",
]

CATCH = [
    "try:\n    try: yield from throw('x')\n    finally: raises()\nexcept ValueError: pass",
    "try:\n    with Fails(): yield from throw('x')\nexcept ValueError: pass",
    "try:\n    with failing(): yield from throw('x')\nexcept ValueError: pass",
    "try:\n    with lock, Fails(), passing(): yield from throw('x')\nexcept ValueError: pass",
    "try:\n    try: yield from throw('x')\n    finally: raises()\nexcept* ValueError: pass",
    "with contextlib.suppress(ValueError):\n    with Fails(): yield from throw('x')",
    "try:\n    try: pass\n    except KeyError: pass\n    else: yield from throw('x')\n"
    "    finally: raises()\nexcept ValueError: pass",
    "def inner():\n    try: yield from throw('x')\n    finally: raises()\n"
    "try: yield from inner()\nexcept ValueError: pass",
    "try:\n    try: pass\n    except BaseException: pass\n    else:\n"
    "        with Fails(): yield from throw('x')\nexcept ValueError: pass",
    "try:\n    try:\n        with Fails(): yield from throw('x')\n    finally:\n"
    "        for _ in 'ab': break\nexcept ValueError: pass",
    "try:\n    with PassesPlainly(), Fails(): yield from throw('x')\nexcept ValueError: pass",
]


def defined(body: str) -> Any:
    text = "def program():\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    text += "    return 'went on'\n"
    name = f"<swallowing {body}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    names = {**globals(), "throw": throw}
    exec(compile(text, name, "exec"), names)
    return effectful(names["program"])


@pytest.mark.parametrize("body", SWALLOW)
def test_an_exit_that_is_swallowed_goes_on(body: str) -> None:
    assert run(handle(weak_exceptions(), defined(body)())) == Err("x")


@pytest.mark.parametrize("body", CATCH)
def test_an_exception_that_replaces_an_exit_may_be_caught_in_the_frame(body: str) -> None:
    assert run(handle(weak_exceptions(), defined(body)())) == Ok("went on")


class Ask(Effect): ...


class Question(Operation[Ask, int]): ...


class silent(Handler[Ask]):
    def question(self, op: Question, k: Any) -> Any:
        return "silent"


def test_what_never_comes_back_is_swallowed_neither() -> None:
    @effectful
    def program() -> Any:
        with contextlib.suppress(BaseException):
            yield from Question()
        return "went on"

    assert run(handle(silent(), program())) == "silent"
