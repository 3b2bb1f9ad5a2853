"""What a kernel tells: `pe.check` and `assert`, which stop it, and `print`.

Of several iterations that fail, the first in index order is told, whatever the threads did.  The
indices of the loops around become values that the message shows, so the evaluator, compiled code
and every pass in between say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from peffects.errors import CheckFailedError, KernelTypeError
from peffects.ir import primitives as op
from peffects.ir.builder import bool_lit
from peffects.ir.syntax import Atom, Check, Var
from peffects.staging.loops.branches import choose
from peffects.staging.loops.ops import each
from peffects.staging.scalars.symbols import is_symbolic, is_whole, to_bool
from peffects.staging.scalars.texts import format_of, text
from peffects.staging.structures.accumulators import as_table
from peffects.staging.tracing.trace import Kind, Trace, current, here

__all__ = ["MOST_VALUES", "assertion", "check", "failed", "print_line"]

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
    told, operands = format_of(message)
    shown, indices = _indices(trace, len(operands))
    operands += indices
    if len(operands) > MOST_VALUES:
        raise KernelTypeError(
            f"a message shows {len(operands)} values, with the indices of the loops around.",
            at=here(),
            fix=f"Show {MOST_VALUES} at most.",
        )
    what = told or "the check does not hold"
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
    if not is_symbolic(condition) and (condition or trace is None or _is_reached(trace)):
        if not condition:
            raise AssertionError(*([] if message is None else [message()]))
        return
    if trace is None:
        return
    told = "the assertion does not hold"
    if message is None:
        check(condition, told)
        return
    choose(trace, condition, lambda: None, lambda: check(False, message()))


def _is_reached(trace: Trace) -> bool:
    """Whether the kernel, or an iteration of it, comes here whatever its values are."""
    return all(scope.kind in (Kind.KERNEL, Kind.PARALLEL) for scope in trace.scope.up())


def print_line(*values: object, sep: object = " ", end: object = "\n", **options: object) -> None:
    """`print` in a kernel: numbers and texts, each time that it is reached, in order of indices."""
    trace = current()
    if trace is None:
        print(*values, sep=sep, end=end, **options)  # type: ignore[call-overload]
        return
    if options.get("file") is not None:
        raise KernelTypeError(
            "`print` in a kernel is given `file=`.",
            at=here(),
            fix="Print to the standard output, or return what is to be written.",
        )
    between, last = (default if x is None else str(x) for x, default in ((sep, " "), (end, "\n")))
    pieces: list[str | tuple[object, str, object]] = []
    for place, value in enumerate(values):
        pieces += [between] * (place > 0) + [(value, "", "")]
    format_string, operands = format_of(text(*pieces, last))
    if len(operands) > MOST_VALUES:
        raise KernelTypeError(
            f"`print` in a kernel shows {len(operands)} numbers.",
            at=here(),
            fix=f"Show {MOST_VALUES} at most in one line.",
        )
    never = bool_lit(False)
    trace.emit(Check(never, CheckFailedError, format_string, tuple(operands), tells=True))
