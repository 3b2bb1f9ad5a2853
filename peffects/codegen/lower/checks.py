"""Checks of the IR as failures of the launcher: the same words, from operands of a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import Formatter

from peffects.codegen.program.loop_programs import MOST_OPERANDS, Failure
from peffects.errors import InternalError
from peffects.ir.syntax import Atom, Check, Lit, Scalar
from peffects.source import SrcInfo

__all__ = ["CheckFailure", "check_failure"]


@dataclass(frozen=True, slots=True)
class CheckFailure:
    """A failure, and the operands that its record holds."""

    failure: Failure
    shown: tuple[Atom, ...]


def check_failure(check: Check, src: SrcInfo) -> CheckFailure:
    """Translate the text of a check, whose operands are positional, to that of a failure.

    Literal operands become part of the text, since a record holds few numbers.
    """
    shown = tuple(dict.fromkeys(x for x in check.operands if not isinstance(x, Lit)))
    if len(shown) > MOST_OPERANDS:
        raise InternalError(f"lowering: a check shows {len(shown)} values, not {MOST_OPERANDS}.")
    text = "".join(
        literal.replace("{", "{{").replace("}", "}}")
        + ("" if name is None else _field(check.operands, shown, name, spec or "", conversion))
        for literal, name, spec, conversion in Formatter().parse(check.text)
    )
    types = (x.type.dtype if isinstance(x.type, Scalar) else "int64" for x in shown)
    failure = Failure(check.error, text, src, check.fix, tuple(types))
    return CheckFailure(failure, shown)


def _field(
    operands: Sequence[Atom], shown: Sequence[Atom], name: str, spec: str, conversion: str | None
) -> str:
    """The replacement field for the operand that `name` counts."""
    operand = operands[int(name)]
    suffix = (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
    if isinstance(operand, Lit):
        fixed = ("{0" + suffix + "}").format(operand.value)
        return fixed.replace("{", "{{").replace("}", "}}")
    return "{" + str(shown.index(operand)) + suffix + "}"
