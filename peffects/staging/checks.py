"""`pe.check` and `assert`: conditions that stop a kernel, with a message and the iteration.

Of several iterations that fail, the first in index order is told, whatever the threads did.  The
indices of the loops around become values that the message shows, so the evaluator, compiled code
and every pass in between say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from peffects.errors import CheckFailedError, KernelTypeError
from peffects.ir import primitives as op
from peffects.ir.builder import bool_lit
from peffects.ir.syntax import Atom, Var
from peffects.staging.accumulators import as_table
from peffects.staging.branches import choose
from peffects.staging.ops import each
from peffects.staging.scalars import is_symbolic, is_whole, to_bool
from peffects.staging.texts import format_of
from peffects.staging.trace import Trace, current, here

__all__ = ["MOST_VALUES", "assertion", "check", "failed"]

MOST_VALUES = 14
"""Values that one message can show, indices included: what compiled code has room for."""
_FIX = "Give values for which it holds; or write what else to do: `if ...: ... else: ...`."


def check(condition: object, message: object = "") -> None:
    """Stop with CheckFailedError, which is an AssertionError, unless `condition` holds.

    In a kernel the whole call stops; the error has the message, the indices of the loops around,
    and the line.  The message may be an f-string with numbers of the kernel.  Of a table of
    conditions all must hold.
    """
    trace = current()
    if trace is None:
        if not condition:
            raise failed(str(message))
        return
    if is_whole(condition):
        flags = as_table(condition)
        each(lambda place: check(flags[place], message), over=flags.index_sets)
        return
    ok = to_bool(condition) if is_symbolic(condition) else bool_lit(bool(condition))
    text, operands = format_of(message)
    shown, indices = _indices(trace, len(operands))
    operands += indices
    if len(operands) > MOST_VALUES:
        raise KernelTypeError(
            f"a message shows {len(operands)} values, with the indices of the loops around.",
            at=here(),
            fix=f"Show {MOST_VALUES} at most.",
        )
    what = text or "the check does not hold"
    place = f" ({', '.join(shown)})" if shown else ""
    trace.check(ok, CheckFailedError, what.rstrip(".") + place + ".", operands, _FIX)


def failed(message: str, notes: Sequence[str] = ()) -> CheckFailedError:
    """The error of a check outside compiled code."""
    what = (message or "the check does not hold").rstrip(".") + "."
    return CheckFailedError(what, at=here(), notes=tuple(notes), fix=_FIX)


def _indices(trace: Trace, first: int) -> tuple[list[str], list[Atom]]:
    """The indices of the loops around, outermost first: their texts, and what these show."""
    variables: list[Var] = [var for scope in reversed([*trace.scope.up()]) for var in scope.indices]
    shown = [f"{var.name} = {{{k}}}" for k, var in enumerate(variables, start=first)]
    return shown, [trace.prim(op.ORDINAL, var) for var in variables]


def assertion(condition: object, message: Callable[[], object] | None) -> None:
    """`assert condition, message()`: the message is computed only where it is told."""
    trace = current()
    if trace is None or not is_symbolic(condition):
        if not condition:
            raise AssertionError(*([] if message is None else [message()]))
        return
    told = "the assertion does not hold"
    if message is None:
        check(condition, told)
        return
    choose(trace, condition, lambda: None, lambda: check(False, message()))
