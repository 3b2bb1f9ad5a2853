"""`out=`: results that are written into arrays which the caller gives.

`targets` matches what the caller gave with the structure of the result, before anything runs.  The
launcher lets kernels write straight into an array where it can, and copies where it must: into one
that is not contiguous, or that shares memory with an argument, so that a result never depends on
what was overwritten.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from peffects.errors import OutArgumentError
from peffects.ir.syntax import Program, Table
from peffects.source import caller
from peffects.staging.stage import Result
from peffects.staging.structures.trees import ComplexParts, is_tree, parts_of

__all__ = ["Targets", "targets"]

Targets: TypeAlias = "list[NDArray[Any] | None]"
"""For each result of a program the array it is written to; None for a new one."""


def targets(
    program: Program, results: Callable[[Sequence[object]], object], out: object
) -> Targets:
    """The arrays in `out`, by result; `results` puts the results of `program` together.

    Raises OutArgumentError where `out` has another structure than the result, holds what is no
    array that can be written, one of another dtype or number of axes, or two that overlap.
    """
    count = len(program.body.results)
    found: Targets = [None] * count
    expected = results([Result(place) for place in range(count)])
    _match(expected, out, "out", program, found)
    given = [array for array in found if array is not None]
    for one, other in itertools.combinations(given, 2):
        if np.shares_memory(one, other):
            raise _refusal("two arrays in `out` overlap.", "Give each result its own array.")
    return found


def _match(expected: object, out: object, name: str, program: Program, found: Targets) -> None:
    """Note the arrays in `out`, the part `name` of what was given for `expected`."""
    if out is None:
        return
    if isinstance(expected, Result):
        if found[expected.place] is not None:
            raise _refusal(
                f"`{name}` is a second array for a result that is returned twice.",
                "Give None in one of the two places: both have the same array then.",
            )
        found[expected.place] = _array(out, name, program, expected.place)
        return
    if not is_tree(expected):
        raise _refusal(
            f"`{name}` is given for {expected!r}, which is no array.", "Give None in its place."
        )
    inner = dict(parts_of(expected))
    same = type(out) is type(expected) or (
        isinstance(expected, ComplexParts) and isinstance(out, np.ndarray) and out.dtype.kind == "c"
    )
    parts = dict(parts_of(out)) if same else {}
    if parts.keys() != inner.keys():
        raise _refusal(
            f"`{name}` is {_kind(out)}, but the result is {_kind(expected)}.",
            "Give arrays nested as the result is; None where a new array shall be made.",
        )
    for key, part in inner.items():
        _match(part, parts[key], f"{name}[{key!r}]", program, found)


def _array(out: object, name: str, program: Program, place: int) -> NDArray[Any]:
    """`out`, if it is an array that result number `place` may be written to."""
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise _refusal(
            f"`{name}` is of type {type(out).__name__}, not an ordinary numpy array.",
            "Give a numpy array, which is written to as it is.",
        )
    kind = program.body.results[place].type
    table = isinstance(kind, Table)
    ndim, scalar = (len(kind.dims), kind.elem) if isinstance(kind, Table) else (0, kind)
    dtype = np.dtype(getattr(scalar, "dtype", "int64"))  # an index is a number to the outside
    if out.dtype != dtype or out.ndim != ndim:
        what = f"is {dtype} with {_axes(ndim)}" if table else f"is one number of dtype {dtype}"
        raise _refusal(
            f"`{name}` is an array of dtype {out.dtype} with {_axes(out.ndim)}, but the result "
            f"{what}.",
            f"Give an array of dtype {dtype} with {_axes(ndim)}; nothing is converted silently.",
        )
    if not out.flags.writeable:
        raise _refusal(f"`{name}` is read-only.", "Give an array that can be written to.")
    return out


def _axes(count: int) -> str:
    return "1 axis" if count == 1 else f"{count} axes"


def _kind(value: object) -> str:
    """What a value is, in words."""
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, ComplexParts):
        return "one array of complex numbers"
    if isinstance(value, Result | np.ndarray):
        return "one array"
    return f"of type {type(value).__name__}"


def _refusal(what: str, fix: str) -> OutArgumentError:
    return OutArgumentError(what, at=caller(), fix=fix)
