"""`Ok | Err` where it is known only when the program runs which of the two it is.

An `Outcome` holds a flag and the parts of both; the part that is not there holds zeros.  When two
ways of control flow meet and one has an `Ok` and the other an `Err`, they meet in an `Outcome`, at
any depth of the structure.  In results of a program it becomes `Ok` or `Err` again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from peffects.handlers.throw import Err, Ok
from peffects.staging.structures.trees import OWN, Parts

__all__ = ["UNSET", "Err", "Ok", "Outcome", "Unset", "is_outcome", "parts_of_outcome"]


class Unset:
    """Stands for a value that is set before it is read: it meets any other value as that value."""

    def __repr__(self) -> str:
        return "<not set yet>"


UNSET = Unset()


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """`Ok(value)` if `ok`, else `Err(error)`."""

    _pe_symbolic: ClassVar[bool] = True

    ok: object
    value: object
    error: object

    @staticmethod
    def made(ok: object, value: object, error: object) -> object:
        """The outcome; an `Ok` or an `Err` where the flag is known."""
        if isinstance(ok, bool | np.bool_):
            return Ok(value) if ok else Err(error)
        return Outcome(ok, value, error)

    def __repr__(self) -> str:
        return f"<Ok({self.value!r}) or Err({self.error!r})>"


def is_outcome(value: object) -> bool:
    """Whether `value` is an `Ok`, an `Err` or either of them."""
    return isinstance(value, Ok | Err | Outcome)


def parts_of_outcome(value: object) -> Iterator[object]:
    """The flag, the value and the error; what is not there is UNSET."""
    match value:
        case Ok(inner):
            yield from (True, inner, UNSET)
        case Err(error):
            yield from (False, UNSET, error)
        case Outcome(ok, inner, error):
            yield from (ok, inner, error)


OWN[Ok] = Parts(("value",), lambda ok: (ok.value,), Ok)
OWN[Err] = Parts(("error",), lambda err: (err.error,), Err)
OWN[Outcome] = Parts(("ok", "value", "error"), lambda o: (o.ok, o.value, o.error), Outcome.made)
