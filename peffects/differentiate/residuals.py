"""What the linear part of a loop needs from the nonlinear part: recompute it, or save it.

Unzip leaves a choice at each `let` (You Only Linearize Once, section 6): a nonlinear value that the
linear part uses is saved as a residual, or computed again in front of the linear part.  Our rule,
per value and loop:

* around an outermost parallel loop nothing is saved: reverse mode recomputes the iteration, and the
  two loops fuse into one;
* inside a loop, a value is recomputed when that costs little (index expressions, a few arithmetic
  operations on what is at hand), and saved in a table, which there is scratch memory, otherwise;
* a table whose size is computed in the loop has another size in each iteration and is recomputed;
* of an integer `min(x, bound)` x is saved: who allocates memory for so many rounds sees the bound;
* a sequential loop saves what it carries, since that cannot be recomputed; of a table that it
  overwrites bit by bit it saves what was read.

A recomputed slice is a copy without effects (`ir/recompute.py`): its checks have passed in the
primal, its accumulations into references from outside have been done there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from peffects.ir import primitives as p
from peffects.ir.recompute import without_effects
from peffects.ir.syntax import (
    I64,
    Accumulate,
    Binding,
    Check,
    Cond,
    Expr,
    Index,
    Lit,
    Prim,
    Var,
)
from peffects.ir.traverse import expr_free_vars, sizes_of

SAVE_FROM = p.TRANSCENDENTAL
"""Values that cost at least this much to recompute inside a loop are saved."""
_LOOP = 10**9


@dataclass(frozen=True, slots=True)
class Slice:
    """How to get the needed values: `saved` ones are read from tables, `recomputed` run again."""

    saved: tuple[Var, ...]
    recomputed: tuple[Binding, ...]


def slice_for(
    needed: Iterable[Var],
    bindings: Iterable[Binding],
    must_save: Collection[Var],
    can_save: bool,
    costly: Collection[Var] = (),
) -> Slice:
    """Choose for each value of `bindings` that `needed` depends on whether it is saved.

    `must_save` are variables that exist in the loop but have no binding (carries).  What is read of
    `costly` tables is saved: they change in each round, and to save them would take a copy a round.
    """
    defined = {var: binding for binding in bindings for var in binding.vars}
    costs: dict[Var, int] = dict.fromkeys(costly, _LOOP)
    saved: dict[Var, None] = {}
    wanted: set[int] = set()
    pending = list(needed)
    seen: set[Var] = set()
    while pending:
        var = pending.pop()
        if var in seen:
            continue
        seen.add(var)
        if var in must_save:
            saved[var] = None
        elif var in defined:
            binding = defined[var]
            fits = can_save and not any(size in defined for size in sizes_of(var.type))
            dear = _cost(var, defined, costs) >= SAVE_FROM
            if fits and dear and not _is_bounded(binding, costs):
                saved[var] = None
            else:
                wanted.add(id(binding))
                pending.extend(expr_free_vars(binding.expr))
    again = tuple(without_effects(b) for b in bindings if id(b) in wanted)
    return Slice(tuple(saved), again)


def _is_bounded(binding: Binding, costs: dict[Var, int]) -> bool:
    """Whether this keeps an integer that is dear within a bound that is not."""
    match binding.expr:
        case Prim(p.MIN | p.MAX, args) if binding.vars[0].type == I64:
            return any(isinstance(arg, Lit) or costs[arg] < SAVE_FROM for arg in args)
        case _:
            return False


def _cost(var: Var, defined: dict[Var, Binding], costs: dict[Var, int]) -> int:
    """The cost of computing `var` from what is outside; shared subterms count each time."""
    pending = [var]
    while pending:
        top = pending[-1]
        if top in costs or top not in defined:
            costs.setdefault(top, 0)
            pending.pop()
            continue
        expr = defined[top].expr
        missing = [v for v in expr_free_vars(expr) if v not in costs]
        if missing:
            pending.extend(missing)
            continue
        pending.pop()
        costs[top] = _own_cost(expr) + sum(costs[v] for v in expr_free_vars(expr))
    return costs[var]


def _own_cost(expr: Expr) -> int:
    match expr:
        case Prim(op, _):
            return op.cost
        case Index() | Check() | Accumulate():
            return p.CHEAP
        case Cond(_, then, orelse):
            return max(sum(_own_cost(b.expr) for b in side.bindings) for side in (then, orelse))
        case _:
            return _LOOP
