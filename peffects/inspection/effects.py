"""What `explain` says of an effectful program: its row, its handlers, its loops.

A computation is a description, so its handlers can be read off from the outside inwards, down to
the call of an effectful function; what that function performs is what its return type says.  The
function itself is not run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from typing import Any, get_args

from peffects.machine.checking.locations import place_of_site
from peffects.machine.handling.handler import (
    BasicHandler,
    CollectHandler,
    Handled,
    Handler,
    ParHandler,
    SplitHandler,
)
from peffects.machine.handling.operations import Call, Computation
from peffects.machine.resuming.parallel_for import ParFor
from peffects.source import of_code

__all__ = ["effect_sections", "is_effectful"]

_AROUND: dict[type, str] = {
    BasicHandler: "each iteration's answer is its value",
    CollectHandler: "it collects the iterations' answers",
    SplitHandler: "it splits its state, one part for each iteration",
    ParHandler: "its traverse clause runs the loop",
    Handler: "refused: it is sequential, without a traverse clause",
}
"""What a handler does around a parallel `for`, by the first base that it has."""


def is_effectful(value: object) -> bool:
    """Whether `value` is a computation, or an effectful function."""
    return isinstance(value, Computation) or hasattr(value, "_pe_function")


def effect_sections(value: object) -> dict[str, str]:
    """The sections `effects`, `handlers` and `loops` of a computation or an effectful function."""
    handlers: list[Handled] = []
    while isinstance(value, Handled):
        handlers.append(value)
        value = value.computation
    return {
        "effects": "\n".join(
            _row(value, {e.__name__ for h in handlers for e in h.handler._handled})
        ),
        "handlers": "\n".join(map(_handler, handlers)) or "none in this description",
        "loops": _loop(value) if isinstance(value, ParFor) else "those that the function performs",
    }


def _row(value: object, handled: Collection[str]) -> Iterator[str]:
    """The effects and the result of what is innermost, and which effects the handlers leave."""
    function = _function(value)
    if function is None:
        yield f"of {value!r}"
        return
    place = of_code(function.__code__)
    yield f"`{function.__name__}`, {place.short()}:"
    annotation = inspect.signature(function).return_annotation
    if annotation is inspect.Signature.empty:
        yield "  its return type is not written down: write `-> Eff[effects, result]`"
        return
    effects, result = _parts(annotation)
    yield f"  performs {effects}"
    yield f"  gives {result}"
    if handled:
        left = [part for part in _split(effects, "|") if part.partition("[")[0] not in handled]
        yield f"  left by the handlers: {' | '.join(left) or 'nothing'}"


def _function(value: object) -> Callable[..., Any] | None:
    if isinstance(value, ParFor):
        value = getattr(value, "function", value.body)
    found = value.function if isinstance(value, Call) else getattr(value, "_pe_function", None)
    return found if inspect.isfunction(found) else None


def _parts(annotation: object) -> tuple[str, str]:
    """The row and the result that `Eff[row, result]` names, as they are written."""
    if not isinstance(annotation, str):
        row, result = get_args(annotation) or (annotation, "Any")
        return _name(row), _name(result)
    row, *result = _split(annotation.partition("[")[2].rpartition("]")[0], ",")
    return row or annotation, result[0] if result else "Any"


def _split(text: str, separator: str) -> list[str]:
    """The parts of a type between separators that stand in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _name(part: object) -> str:
    return part.__name__ if isinstance(part, type) else str(part).replace("typing.", "")


def _handler(handled: Handled) -> str:
    """A handler, what it handles, and what it does around a parallel `for`."""
    handler = handled.handler
    base = next(base for base in _AROUND if isinstance(handler, base))
    names = ", ".join(effect.__name__ for effect in handler._handled)
    place = place_of_site(handled.site).short()
    return f"{handler!r}, {place}: handles {names}; around a parallel for {_AROUND[base]}"


def _loop(loop: ParFor) -> str:
    """A loop that is the whole program."""
    body: Any = getattr(loop, "function", loop.body)
    name = getattr(body, "__name__", repr(body))
    return (
        f"{loop.n!r}: `{name}` runs in the effect machine, once for each index, on the executor "
        "that `run` is given"
    )
