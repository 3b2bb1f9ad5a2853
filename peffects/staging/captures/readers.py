"""The quick way from a call to the arguments of its program.

A program is called many times with arguments of the same types.  `read_call` takes a call apart
into leaves and a key that says their types, without the names and trees that `staging/stage.py`
compares; `reader` makes, once for a program, the function from leaves to the program's arguments.
Both only ever say yes where `Staged.arguments` would: a call that they do not understand goes the
general way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType, NoneType
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from peffects.ir.syntax import SCALARS
from peffects.staging.captures.reads import (
    Capture,
    CodeToken,
    PartsToken,
    Path,
    Root,
    SameObject,
    Static,
    Step,
    StepKind,
    Unchanged,
    ValueToken,
    plain_function,
    same_token,
    token_of,
)
from peffects.staging.structures.trees import is_array_of_parts, is_tree, parts_of, static_of
from peffects.staging.tracing.argument_types import ArgumentType, ArrayType, ScalarType, type_of

__all__ = ["ArgumentList", "CallKey", "Reader", "read_call", "reader", "same_argument"]

Reader: TypeAlias = "Callable[[Sequence[object]], list[Any] | None]"
"""From the leaves of a call to the program's arguments; None if the program may not fit."""
CallKey: TypeAlias = tuple[object, ...]
_Get: TypeAlias = "Callable[[Sequence[object]], object]"
_Test: TypeAlias = "Callable[[object], bool]"

_NOWHERE = (AttributeError, LookupError, TypeError, ValueError)
"""What reading a path raises that leads nowhere any more."""
_NUMPY_NUMBERS = frozenset(np.dtype(name).type for name in SCALARS)
_LEAVES = _NUMPY_NUMBERS | {
    float, int, bool, str, bytes, NoneType, FunctionType, BuiltinFunctionType, ModuleType,
    type,
}  # fmt: skip
"""Types whose values are leaves of which the type says all that a signature would."""

# --- calls ---------------------------------------------------------------------------------------


class ArgumentList(NamedTuple):
    """A call taken apart; calls with equal keys have equal signatures."""

    key: CallKey
    leaves: list[object]


def read_call(args: Sequence[object], kwargs: Mapping[str, object]) -> ArgumentList | None:
    """The key of a call and its leaves, from left to right; None if a leaf is an unusual one.

    An array is told by its dtype, byte order included, and its rank; an ordinary object by its
    class.
    """
    key: list[object] = []
    leaves: list[object] = []
    for arg in args:
        kind = type(arg)
        if kind is np.ndarray and not is_array_of_parts(arg):
            key.append(arg.dtype)  # type: ignore[attr-defined]
            key.append(arg.ndim)  # type: ignore[attr-defined]
            leaves.append(arg)
        elif kind in _LEAVES:
            key.append(kind)
            leaves.append(arg)
        elif not _read_nested(arg, key, leaves):
            return None
    if kwargs:
        key.append("keywords")  # else they would look like a dict among the arguments
        if not _read_nested(kwargs, key, leaves):
            return None
    return ArgumentList(tuple(key), leaves)


def _read_nested(value: object, key: list[object], leaves: list[object]) -> bool:
    """Read one argument of any kind; False if it is unusual."""
    kind = type(value)
    if is_tree(value):
        parts = list(parts_of(value))
        key += (
            kind,
            getattr(value, "ndim", None),
            tuple([name for name, _ in parts]),
            static_of(value),
        )
        return all([_read_nested(part, key, leaves) for _, part in parts])
    if kind is np.ndarray:
        array = cast("np.ndarray[Any, Any]", value)
        key += (array.dtype, array.ndim)
    elif kind in _LEAVES:
        key.append(kind)
    elif type_of(value) is None:
        key.append(kind)  # an object of the user's: guards watch over it
    else:
        return False  # a type, a subclass of a number or of ndarray, another library's array
    leaves.append(value)
    return True


def same_argument(quick: object, general: object) -> bool:
    """Whether both ways lead to one value: the parts of complex arrays are views, new each time."""
    if quick is general:
        return True
    if isinstance(quick, np.ndarray) and isinstance(general, np.ndarray):
        return bool(quick.__array_interface__ == general.__array_interface__)
    return type(quick) is type(general) and repr(quick) == repr(general)


# --- programs ------------------------------------------------------------------------------------


def reader(
    function: Callable[..., object],
    kinds: Sequence[ArgumentType | None],
    guards: Sequence[Unchanged | SameObject],
    captures: Sequence[Capture],
) -> Reader:
    """The reader of a program that was staged from `function`, for leaves of these `kinds`."""
    tests = [
        (_getter(guard.path, function), _test_of(guard))
        for guard in guards
        if isinstance(guard, Unchanged)
    ]
    pairs = [
        (_getter(guard.path, function), _getter(guard.other, function))
        for guard in guards
        if isinstance(guard, SameObject)
    ]
    places = [place for place, kind in enumerate(kinds) if kind is not None]
    reads = [(_getter(c.path, function), _test_of_kind(c.kind)) for c in captures]

    def read(leaves: Sequence[object]) -> list[Any] | None:
        try:
            for get, holds in tests:
                if not holds(get(leaves)):
                    return None
            for get, other in pairs:
                if get(leaves) is not other(leaves):
                    return None
            values = [leaves[place] for place in places]
            for get, fits in reads:
                value = get(leaves)
                if not fits(value):
                    return None
                values.append(value)
        except _NOWHERE:
            return None
        return values

    return read


def _getter(path: Path, function: object) -> _Get:
    """What reads the value at the end of `path`."""
    match path.start:
        case Root():
            return _from_root(path.steps, function)
        case Static(position):
            return _along(lambda leaves: leaves[position], path.steps)
        case constant:
            value = constant.value
            return _along(lambda leaves: value, path.steps)


def _from_root(steps: Sequence[Step], function: object) -> _Get:
    """The first step from the function itself is taken now: its cells and globals stay its own."""
    if steps and steps[0].kind is StepKind.GLOBAL:
        names, name = plain_function(function).__globals__, str(steps[0].key)
        return _along(lambda leaves: names[name], steps[1:])
    if steps and steps[0].kind is StepKind.CELL:
        plain = plain_function(function)
        place = plain.__code__.co_freevars.index(str(steps[0].key))
        cell = (plain.__closure__ or ())[place]
        return _along(lambda leaves: cell.cell_contents, steps[1:])
    return _along(lambda leaves: function, steps)


def _along(get: _Get, steps: Sequence[Step]) -> _Get:
    for step in steps:
        get = _then(get, step)
    return get


def _then(get: _Get, step: Step) -> _Get:
    """`get`, and one step on."""
    match step.kind:
        case StepKind.ATTRIBUTE:
            name = str(step.key)
            return lambda leaves: getattr(get(leaves), name)
        case StepKind.ITEM:
            key = step.key
            return lambda leaves: get(leaves)[key]  # type: ignore[index]
        case _:
            return lambda leaves: step.read(get(leaves))


def _test_of(guard: Unchanged) -> _Test:
    """Whether a value is still what `guard` saw; objects and code are compared by identity."""
    token = guard.token
    match token:
        case CodeToken(code, defaults, kwdefaults):
            return lambda value: (
                isinstance(value, FunctionType)
                and value.__code__ is code
                and value.__defaults__ is defaults
                and value.__kwdefaults__ is kwdefaults
            )
        case ValueToken(kind, known):
            return lambda value: type(value) is kind and bool(value == known)
        case PartsToken():
            return lambda value: same_token(token_of(value), token)
    return lambda value: value is token


def _test_of_kind(kind: ArgumentType) -> _Test:
    """Whether a captured value has the type `kind`, and needs no conversion to be an argument."""
    if isinstance(kind, ArrayType):
        native, name, ndim = np.dtype(kind.dtype), kind.dtype, kind.ndim
        return lambda value: (
            type(value) is np.ndarray
            and value.ndim == ndim
            and (value.dtype is native or value.dtype.name == name)
        )
    types = _types_of(kind)
    return lambda value: type(value) in types


def _types_of(kind: ScalarType) -> frozenset[type]:
    if kind.weak:
        return frozenset({float if kind.dtype == "float64" else int})
    dtype = np.dtype(kind.dtype)
    return frozenset({bool, dtype.type} if kind.dtype == "bool" else {dtype.type})
