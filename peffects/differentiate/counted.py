"""Derivatives of `while` loops: the loop is run once to count its rounds, and then as a fold.

How often a `while` runs is known when it ends.  So its primal part is two loops: the `while`
itself, of which only the number of rounds is used, and a fold over as many rounds, which gives the
results and is linearized like any other: it saves what its linear part needs, for exactly these
rounds.  The work is twice that of the loop, whatever its longest length might be.

A loop that counts by itself (`while k < n and ...: ...; k += 1`, and every `range` loop with a
`break`) has no more than n rounds, so inside other loops the memory for them is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass

from peffects.ir import primitives as p
from peffects.ir.builder import Builder, fresh_like, int_lit
from peffects.ir.rename import refresh
from peffects.ir.syntax import (
    I64,
    Accumulate,
    Atom,
    Binding,
    Block,
    Check,
    Expr,
    FinSet,
    Fold,
    Idx,
    Lit,
    Prim,
    Var,
    While,
)
from peffects.ir.traverse import binders_of, rebuild
from peffects.source import SrcInfo


@dataclass(frozen=True, slots=True)
class _Counter:
    """The place of a carry that counts the rounds from 0, and what it is surely at most."""

    place: int
    bound: Atom | None


def counted(binding: Binding, loop: While) -> tuple[tuple[Binding, ...], Binding]:
    """The bindings that count the rounds of `loop`, and the binding of the fold that runs them."""
    b = Builder(binding.src)
    counter = _counter(loop)
    counting = _copy(loop) if counter else _with_counter(loop)
    place, bound = (counter.place, counter.bound) if counter else (len(loop.carries), None)
    ends = [fresh_like(carry) for carry in counting.carries]
    if counter:
        ends[place] = binding.vars[place]
    b.bindings.append(Binding(tuple(ends), counting, binding.src))
    rounds: Atom = ends[place]
    if bound is not None:  # it never exceeds the bound; this tells those who allocate memory
        rounds = b.prim(p.MAX, b.prim(p.MIN, rounds, bound), int_lit(0), name="rounds")
    kept = [k for k in range(len(loop.carries)) if counter is None or k != place]
    fold = _fold(loop, rounds, kept, loop.carries[place] if counter else None, binding.src)
    return tuple(b.bindings), Binding(tuple(binding.vars[k] for k in kept), fold, binding.src)


def _fold(loop: While, rounds: Atom, kept: list[int], counter: Var | None, src: SrcInfo) -> Fold:
    """`loop` as a fold over `rounds` rounds, whose index stands for the counter."""
    step = Var("step", Idx(FinSet(rounds)))
    carries = {loop.carries[k]: fresh_like(loop.carries[k]) for k in kept}
    mapping: dict[Var, Atom] = dict(carries)
    b = Builder(src)
    if counter is not None:
        mapping[counter] = b.ordinal(step)
    results = b.append(refresh(loop.body, mapping))
    body = b.block(*(results[k] for k in kept))
    return Fold(step, False, tuple(carries.values()), tuple(loop.inits[k] for k in kept), body)


def _counter(loop: While) -> _Counter | None:
    """The carry of `loop` that starts at 0 and grows by 1 in each round."""
    defined = {var: x.expr for x in loop.body.bindings for var in x.vars}
    for place, (carry, init) in enumerate(zip(loop.carries, loop.inits, strict=True)):
        end = loop.body.results[place]
        if carry.type != I64 or init != int_lit(0) or not isinstance(end, Var):
            continue
        match defined.get(end):
            case Prim(p.ADD, (left, right)) if {left, right} == {carry, int_lit(1)}:
                return _Counter(place, _bound(loop, carry))
    return None


def _bound(loop: While, carry: Var) -> Atom | None:
    """What the test of `loop` keeps the carry below, if that is known before the loop."""
    defined = {var: x.expr for x in loop.test.bindings for var in x.vars}
    pending = list(loop.test.results)
    while pending:
        atom = pending.pop()
        match defined.get(atom) if isinstance(atom, Var) else None:
            case Prim(p.AND, args):
                pending.extend(args)
            case Prim(p.LT, (left, right)) if left is carry:
                if isinstance(right, Lit) or (right not in defined and right not in loop.carries):
                    return right
    return None


def _copy(loop: While) -> While:
    """The loop without what happens in the fold: writes to accumulators of the outside, prints."""
    carries = {carry: fresh_like(carry) for carry in loop.carries}
    body = refresh(_without_writes(loop.body, frozenset()), carries)
    return While(tuple(carries.values()), loop.inits, refresh(loop.test, carries), body)


def _with_counter(loop: While) -> While:
    copied = _copy(loop)
    count = Var("count", I64)
    b = Builder()
    results = b.append(copied.body)
    body = b.block(*results, b.prim(p.ADD, count, int_lit(1), name="count"))
    return While((*copied.carries, count), (*loop.inits, int_lit(0)), copied.test, body)


def _without_writes(block: Block, inner: frozenset[Var]) -> Block:
    def visit(expr: Expr) -> Expr:
        mine = inner | set(binders_of(expr))
        return rebuild(expr, lambda a: a, lambda v: v, lambda b: _without_writes(b, mine))

    kept = tuple(
        Binding(x.vars, visit(x.expr), x.src)
        for x in block.bindings
        if not (isinstance(x.expr, Accumulate) and x.expr.ref not in inner)
        and not (isinstance(x.expr, Check) and x.expr.tells)
    )
    return Block(kept, block.results)
