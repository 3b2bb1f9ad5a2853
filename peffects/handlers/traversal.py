"""Takes the answers of a loop's iterations apart, for traverse clauses of the standard handlers.

Where a handler further out ends an iteration early and gives a value for it, that value is not an
answer of the handlers inside: it has another form, and they say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from peffects.errors import LoopValuesError
from peffects.machine.handling.handler import Handler
from peffects.source import UNKNOWN, SrcInfo

__all__: list[str] = []


def pairs_of(
    handler: Handler[Any, Any], answers: Iterable[Any], place: SrcInfo = UNKNOWN
) -> tuple[list[Any], list[Any]]:
    """The first and the second parts of answers that are pairs, of a loop at `place`."""
    answers = list(answers)
    try:
        return [first for first, _ in answers], [second for _, second in answers]
    except (TypeError, ValueError):
        wrong = next(a for a in answers if not (isinstance(a, tuple) and len(a) == 2))
        raise foreign_answer(handler, wrong, place) from None


def lists_of(
    handler: Handler[Any, Any], answers: Iterable[Any], place: SrcInfo
) -> Sequence[list[Any]]:
    """Answers that are lists, of a loop at `place`."""
    answers = list(answers)
    for answer in answers:
        if not isinstance(answer, list):
            raise foreign_answer(handler, answer, place)
    return answers


def foreign_answer(handler: Handler[Any, Any], answer: object, place: SrcInfo) -> LoopValuesError:
    """An iteration of a loop at `place` has an answer that the handler did not make."""
    name = type(handler).__name__
    return LoopValuesError(
        f"an iteration of a parallel for gives `{name}` the answer {answer!r:.80}, which `{name}` "
        "did not make: a handler further out ended the iteration and answered in its place.",
        at=place,
        fix=f"Let that handler end the loop (its traverse clause gives the answer and does not call"
        f" `k`), or install it inside `{name}`.",
    )
