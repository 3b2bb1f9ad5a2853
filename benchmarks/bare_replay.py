"""The least that multi-shot search on generators costs: replay without a machine.

`bench_effects.py` times it beside the machine and beside continuation-passing style.  A generator
cannot be copied, so a frame that goes on in several worlds runs again from its start, with the
answers that it got.  Here that is all that happens: two kinds of requests, no handlers but one in
the driver, no checks, no errors, recursion on the Python stack.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

__all__ = ["Request", "all_worlds"]


class Request:
    """A call, a choice or (of nothing) a failure."""

    __slots__ = ("args", "function")

    def __init__(self, function: Callable[..., Any] | None, args: tuple[Any, ...]) -> None:
        self.function = function
        self.args = args

    def __iter__(self) -> Generator[Any, Any, Any]:
        return (yield self)


def all_worlds(call: Request) -> list[Any]:
    """The results of all worlds of a call."""
    assert call.function is not None, "invariant: it is a call"
    return _worlds(call.function(*call.args), call, (), None, None)


def _worlds(gen: Any, call: Any, answers: tuple[Any, ...], sent: Any, below: Any) -> list[Any]:
    """What the frame gives when it gets `sent`; `below` are the frames that wait for it."""
    while True:
        try:
            request = gen.send(sent)
        except StopIteration as stop:
            if below is None:
                return [stop.value]
            call, answers, live, below = below
            gen = live.pop() if live else _again(call, answers)
            sent = stop.value
            answers = (*answers, sent)
            continue
        if request.function is not None:
            below = call, answers, [gen], below
            call, answers, sent = request, (), None
            gen = call.function(*call.args)
            continue
        results: list[Any] = []
        for option in request.args:
            frame = _again(call, answers) if gen is None else gen
            gen = None
            results += _worlds(frame, call, (*answers, option), option, below)
        return results


def _again(call: Any, answers: tuple[Any, ...]) -> Any:
    gen = call.function(*call.args)
    send = gen.send
    send(None)
    for answer in answers:
        send(answer)
    return gen
