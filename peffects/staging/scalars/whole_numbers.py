"""The gate for whole numbers: sizes, bounds, steps, axes, shifts, counts come through it.

Users write them as Python's ints, numpy's integers of any width, signed or not, bools, indices of
loops and elements of arrays of integers (the `indptr` of a sparse matrix).  Behind the gate there
are Python's ints, where the number is known while the kernel is staged, and symbols that are i64.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from peffects.errors import KernelTypeError, ValueRangeError
from peffects.ir import primitives as op
from peffects.ir.builder import int_lit, lit_like
from peffects.ir.syntax import BOOL, I64, SCALARS, Lit, Var
from peffects.staging.scalars.arithmetic import Operand, cast
from peffects.staging.scalars.symbols import ScalarTracer, is_symbolic, operand
from peffects.staging.tracing.trace import here, staging

__all__ = ["Number", "known_whole", "literal_whole", "whole_number", "whole_operand"]

Number: TypeAlias = "int | ScalarTracer"
"""A whole number, known now or when the kernel runs."""

_U64 = SCALARS["uint64"]
_LARGEST = 2**63 - 1


def whole_operand(value: object, role: str) -> Operand:
    """`value` as an i64.  Raises KernelTypeError, naming its `role`, if it is no whole number."""
    x = operand(value)
    if x is None or not (x.type.is_integer or x.type == BOOL):
        what = f"{value!r:.60}" if x is None else f"a {x.type}"
        raise KernelTypeError(
            f"{role} is {what}, and a whole number is needed.",
            at=here(),
            fix="Give an int, or an integer of numpy; a float becomes one with `int(...)`.",
        )
    if isinstance(x.atom, Lit):
        return Operand(_literal(int(x.atom.value), role), I64, True)
    if x.type == _U64:
        _check_fits(x.atom, role)
    return Operand(cast(Operand(x.atom, x.type, False), I64), I64, True)


def _literal(value: int, role: str) -> Lit:
    if not -_LARGEST - 1 <= value <= _LARGEST:
        raise ValueRangeError(
            f"{role} is {value}, which does not fit in 64 bits.", at=here(), fix="Give less."
        )
    return int_lit(value)


def _check_fits(atom: Var, role: str) -> None:
    trace = staging()
    ok = trace.prim(op.LE, atom, lit_like(_LARGEST, _U64))
    text = f"{role} is {{0}}, which does not fit in 64 bits with a sign."
    trace.check(ok, ValueRangeError, text, (atom,), "Give less.")


def whole_number(value: object, role: str) -> Number:
    """`value` as a whole number: an int if it is known now, else an i64 that counts as Python's."""
    x = whole_operand(value, role)
    if isinstance(x.atom, Lit):
        return int(x.atom.value)
    scope = value.scope if isinstance(value, ScalarTracer) and value.atom is x.atom else None
    return ScalarTracer(x.atom, I64, True, scope or staging().scope)


def known_whole(value: object) -> int | None:
    """The int that `value` is, if it is a whole number that is known now; None otherwise."""
    if isinstance(value, bool | int | np.integer | np.bool_):
        return int(value)
    if isinstance(value, ScalarTracer) and isinstance(value.atom, Lit):
        return int(value.atom.value) if value.type.is_integer or value.type == BOOL else None
    return None


def literal_whole(value: object, role: str, fix: str) -> int:
    """A whole number that must be known while the kernel is staged, such as an axis."""
    found = known_whole(value)
    if found is None:
        depends = is_symbolic(value)
        what = "a value that only the running kernel knows" if depends else f"{value!r:.60}"
        why = ": numbers that a kernel reads from outside are its arguments" if depends else ""
        raise KernelTypeError(f"{role} is {what}{why}.", at=here(), fix=fix)
    return found
