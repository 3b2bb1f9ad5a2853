"""What a kernel reads besides its arguments, and how the launcher reads it again at each call.

A `Path` starts at the staged function or at one of its static arguments and goes on through
closure cells, globals, attributes and items.  Numbers and arrays at the end of a path become
hidden parameters (`Capture`); any other value on the way is a `Unchanged`: while it stays the same,
the program holds.  Of a list, tuple or dict every entry is reached, whatever the kernel does with
it; a long one, a set and the like are guarded by what they hold.  Paths are relative, so another
closure made by the same code uses the same program.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any, TypeAlias

from peffects.staging.scalars.static_values import StaticValue
from peffects.staging.tracing.argument_types import ArgumentType

__all__ = [
    "Capture",
    "CodeToken",
    "Constant",
    "PartsToken",
    "Path",
    "Root",
    "SameObject",
    "Static",
    "Step",
    "StepKind",
    "Unchanged",
    "ValueToken",
    "same_token",
    "token_of",
]


@dataclass(frozen=True, slots=True)
class Root:
    """The staged function itself."""


@dataclass(frozen=True, slots=True)
class Static:
    """The static argument number `position`, counted among all leaves of the arguments."""

    position: int


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """An object met on a way that nobody recorded; always the same object."""

    value: object


Start: TypeAlias = Root | Static | Constant


class StepKind(enum.Enum):
    """How a path goes on."""

    CELL = "closure variable"
    GLOBAL = "global"
    ATTRIBUTE = "attribute"
    ITEM = "item"
    LENGTH = "length"
    KEYS = "keys or elements"
    VALUES = "values"
    HAS = "whether there is"
    FORM = "kind of number or array"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a path."""

    kind: StepKind
    key: object = None

    def read(self, owner: object) -> object:
        """What the step leads to from `owner`."""
        match self.kind:
            case StepKind.CELL:
                function = plain_function(owner)
                place = function.__code__.co_freevars.index(str(self.key))
                return (function.__closure__ or ())[place].cell_contents
            case StepKind.GLOBAL:
                return plain_function(owner).__globals__[str(self.key)]
            case StepKind.ATTRIBUTE:
                return getattr(owner, str(self.key))
            case StepKind.ITEM:
                return owner[self.key]  # type: ignore[index]
            case StepKind.LENGTH:
                return len(owner)  # type: ignore[arg-type]
            case StepKind.KEYS:
                return Parts(type(owner), tuple(owner))  # type: ignore[arg-type]
            case StepKind.HAS:
                return hasattr(owner, str(self.key))
            case StepKind.FORM:
                return f"{type(owner).__name__} of {getattr(owner, 'dtype', None)}"
            case StepKind.VALUES:
                return Parts(type(owner), tuple(owner.values()))  # type: ignore[attr-defined]

    def __str__(self) -> str:
        match self.kind:
            case StepKind.ATTRIBUTE:
                return f".{self.key}"
            case StepKind.ITEM:
                return f"[{self.key!r}]"
            case StepKind.LENGTH | StepKind.KEYS | StepKind.VALUES | StepKind.HAS | StepKind.FORM:
                return f"({self.kind.value})"
            case StepKind.CELL | StepKind.GLOBAL:
                return f" {self.key}"


@dataclass(frozen=True, slots=True)
class Path:
    """A way to a value."""

    start: Start
    steps: tuple[Step, ...] = ()

    def then(self, kind: StepKind, key: object = None) -> Path:
        """This path with one more step."""
        return Path(self.start, (*self.steps, Step(kind, key)))

    def find(self, function: object, leaves: Sequence[object]) -> object:
        """The value now, for a call of `function` whose arguments have these leaves.

        None if the path leads nowhere any more: then staging again says what is missing.
        """
        try:
            return self._read(function, leaves)
        except (AttributeError, LookupError, TypeError, ValueError):
            return None

    def _read(self, function: object, leaves: Sequence[object]) -> object:
        match self.start:
            case Root():
                value = function
            case Static(position):
                value = leaves[position]
            case Constant(constant):
                value = constant
        for step in self.steps:
            value = step.read(value)
        return value

    @property
    def name(self) -> str:
        """The last name on the path, for messages and as a hint in the IR."""
        text = "".join(str(step) for step in self.steps).rpartition(" ")[2]
        return text.lstrip(".") or "captured"


@dataclass(frozen=True, slots=True)
class Capture:
    """A number or array that is read again at each call and passed as a hidden argument."""

    path: Path
    kind: ArgumentType


@dataclass(frozen=True, slots=True, eq=False)
class Unchanged:
    """A value that was used as it was: `token_of` it must stay the same."""

    path: Path
    token: object

    def holds(self, function: object, leaves: Sequence[object]) -> bool:
        """Whether the value is still what staging saw."""
        return same_token(token_of(self.path.find(function, leaves)), self.token)


@dataclass(frozen=True, slots=True, eq=False)
class SameObject:
    """Two paths led to one function, which then was known by the first: they must still do so."""

    path: Path
    other: Path

    def holds(self, function: object, leaves: Sequence[object]) -> bool:
        """Whether both paths lead to the same object."""
        return self.path.find(function, leaves) is self.other.find(function, leaves)


# --- tokens --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parts:
    """What a container held when it was read."""

    kind: type
    values: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class CodeToken:
    """A function that does the same, whatever its cells hold: what it reads is captured."""

    code: CodeType
    defaults: tuple[Any, ...] | None
    kwdefaults: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class ValueToken:
    """A small immutable value."""

    kind: type
    value: object


@dataclass(frozen=True, slots=True)
class PartsToken:
    """A container with these parts, in this order."""

    kind: type
    tokens: tuple[object, ...]


def plain_function(value: object) -> FunctionType:
    """The function behind a function, a method or a kernel object."""
    value = getattr(value, "__pe_function__", value)
    value = getattr(value, "_pe_function", value)
    if isinstance(value, MethodType):
        value = value.__func__
    assert isinstance(value, FunctionType), "paths go through functions written in Python only"
    return value


def token_of(value: object) -> object:
    """What must stay the same for a value that was used as it was.

    Of a function its code: what it reads is captured by itself.  Of small immutable values the
    value and its type, of all others the identity.
    """
    if isinstance(value, FunctionType):
        value = plain_function(value)
        return CodeToken(value.__code__, value.__defaults__, value.__kwdefaults__)
    if isinstance(value, str | bytes | bool | int | float | complex | None.__class__):
        return ValueToken(type(value), value)
    if isinstance(value, StaticValue):
        return ValueToken(StaticValue, value)
    if isinstance(value, Parts):
        return PartsToken(value.kind, tuple(map(token_of, value.values)))
    return value


def same_token(left: object, right: object) -> bool:
    """Whether two tokens are the same; objects are compared by identity."""
    match left, right:
        case CodeToken(), CodeToken():
            return (
                left.code is right.code
                and left.defaults is right.defaults
                and left.kwdefaults is right.kwdefaults
            )
        case ValueToken(), ValueToken():
            return left.kind is right.kind and bool(left.value == right.value)
        case PartsToken(), PartsToken():
            return (
                left.kind is right.kind
                and len(left.tokens) == len(right.tokens)
                and all(map(same_token, left.tokens, right.tokens))
            )
    return left is right
