"""Running sums: carries of a sequential loop that only grow.

    carry' = (carry + v) + w

In a fold that is marked as `running`, such carries are sums of ours, as in `cumsum`, or in a loop
that transposition made: the evaluator and native code hold them as they hold all sums.  What the
user adds in a loop of his own is added as he wrote it.
"""

from __future__ import annotations

from dataclasses import dataclass

from peffects.ir.primitives import ADD
from peffects.ir.syntax import Atom, Fold, Prim, Scalar, Var

__all__ = ["Step", "running_sums"]


@dataclass(frozen=True, slots=True)
class Step:
    """An addition to a running sum: which carry it is, and what is added."""

    carry: Var
    value: Atom


def running_sums(fold: Fold) -> dict[Var, Step]:
    """The additions of `fold` that make running sums, by their results."""
    if not fold.running:
        return {}
    sums = {
        binding.vars[0]: binding.expr.args
        for binding in fold.body.bindings
        if isinstance(binding.expr, Prim) and binding.expr.op is ADD
    }
    found: dict[Var, Step] = {}
    for carry, result in zip(fold.carries, fold.body.results, strict=False):
        if isinstance(carry.type, Scalar) and carry.type.is_float:
            found.update(_chain(carry, result, sums) or {})
    return found


def _chain(carry: Var, result: Atom, sums: dict[Var, tuple[Atom, ...]]) -> dict[Var, Step] | None:
    """The additions from `carry` to `result`; None if it is another value."""
    if result is carry:
        return {}
    if not isinstance(result, Var) or result not in sums:
        return None
    left, right = sums[result]
    for one, other in ((left, right), (right, left)):
        before = _chain(carry, one, sums)
        if before is not None:
            return {**before, result: Step(carry, other)}
    return None
