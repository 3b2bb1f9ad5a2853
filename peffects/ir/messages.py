"""Texts of run-time failures that the evaluator and compiled code both give."""

from __future__ import annotations


def bounds_text(table: str, axis: int) -> str:
    """The message of a failed bounds test; format it with `value` and `size`."""
    return f"index {{value}} is out of bounds for axis {axis} of `{table}` with size {{size}}."
