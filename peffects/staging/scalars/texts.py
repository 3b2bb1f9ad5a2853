"""Texts with values of a kernel in them: what f-strings in kernels are.

A text is put together when the kernel runs and needs it, for a check that fails.  Until then it is
a `Template`: fixed pieces, and fields for numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from peffects.errors import KernelTypeError
from peffects.ir.syntax import Atom
from peffects.staging.scalars.symbols import Tracer, is_symbolic, is_whole, operand
from peffects.staging.tracing.trace import here, staging

__all__ = ["Field", "Template", "format_of", "text"]

_CONVERSIONS: dict[str, Callable[[object], str]] = {"s": str, "r": repr, "a": ascii}


@dataclass(frozen=True, slots=True)
class Field:
    """A number in a text, and how it is written: `{x!r:>8}`."""

    value: object
    conversion: str
    spec: str


class Template(Tracer):
    """A text that is known when the program runs."""

    def __init__(self, parts: tuple[str | Field, ...]) -> None:
        self.parts = parts
        self.scope = staging().scope

    def what(self) -> str:
        """What it is, for messages."""
        return "a text with values of the kernel in it"

    def _shown(self) -> str:
        return "<text with values of the kernel>"

    def __add__(self, other: object) -> Template:
        return Template((*self.parts, *_parts(other)))

    def __radd__(self, other: object) -> Template:
        return Template((*_parts(other), *self.parts))


def _parts(value: object) -> tuple[str | Field, ...]:
    """The pieces of a text."""
    if isinstance(value, Template):
        return value.parts
    if isinstance(value, str):
        return (value,)
    raise KernelTypeError(
        f"a text is joined with {value!r:.60}.", at=here(), fix="Join texts: `f'{a} {b}'`."
    )


def text(*pieces: str | tuple[object, str, Any]) -> object:
    """An f-string: its fixed pieces, and `(value, conversion, spec)` for each field."""
    if not any(isinstance(piece, tuple) and _is_late(piece) for piece in pieces):
        return "".join(x if isinstance(x, str) else _formatted(*x) for x in pieces)
    parts: list[str | Field] = []
    for piece in pieces:
        if isinstance(piece, str):
            parts.append(piece)
        elif not _is_late(piece):
            parts.append(_formatted(*piece))
        elif isinstance(piece[0], Template):
            parts += piece[0].parts
        else:
            parts.append(_field(*piece))
    return Template(tuple(parts))


def _is_late(piece: tuple[object, str, object]) -> bool:
    return is_symbolic(piece[0]) or is_symbolic(piece[2])


def _formatted(value: object, conversion: str, spec: str) -> str:
    """The text of a value that is known."""
    return format(_CONVERSIONS[conversion](value) if conversion else value, spec)


def _field(value: object, conversion: str, spec: object) -> Field:
    if is_symbolic(spec):
        raise KernelTypeError(
            "how a number is written depends on values of the kernel.",
            at=here(),
            fix="Write the format out: `{x:.3f}`.",
        )
    if is_whole(value) or (number := operand(value)) is None:
        raise KernelTypeError(
            f"{value!r:.60} stands in a text.", at=here(), fix="Show its elements: `{x[i]}`."
        )
    assert isinstance(spec, str)
    example: float | int = 0.0 if number.type.is_float else 0
    try:
        _formatted(example, conversion, spec)
    except ValueError as error:
        raise KernelTypeError(
            f"a number ({number.type}) cannot be written as {spec!r}: {error}.",
            at=here(),
            fix="Use a format of Python for numbers: `{x:.3f}`, `{n:>6}`.",
        ) from None
    return Field(value, conversion, spec)


def format_of(message: object) -> tuple[str, list[Atom]]:
    """A text as a format string, whose fields count the atoms given with it."""
    pieces, atoms = "", list[Atom]()
    for part in _parts(message):
        if isinstance(part, str):
            pieces += part.replace("{", "{{").replace("}", "}}")
            continue
        number = operand(part.value)
        assert number is not None, "fields hold numbers"
        suffix = (f"!{part.conversion}" if part.conversion else "") + (
            f":{part.spec}" if part.spec else ""
        )
        pieces += "{" + str(len(atoms)) + suffix + "}"
        atoms.append(number.atom)
    return pieces, atoms
