"""Takes away what no result needs: bindings, loop results, carries, accumulators.

One walk from the end to the beginning, which knows at each binding what is used below it.  What may
fail stays, as does what accumulates into a reference that somebody reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar, assert_never

from peffects.ir.syntax import (
    Accumulate,
    Atom,
    Binding,
    Block,
    Bounds,
    Check,
    Cond,
    Expr,
    Fold,
    For,
    Index,
    Prim,
    Program,
    Update,
    Var,
    While,
    WithAcc,
)
from peffects.ir.traverse import binders_of, blocks_of, operands_of, sizes_of
from peffects.optimize.facts import FactTable

_T = TypeVar("_T")


def dead_code(program: Program) -> Program:
    """Drop pure bindings, results, carries and accumulators that nothing uses."""
    walk = _Liveness(_tested(program.body))
    body = walk.block(program.body, program.body.results)
    return program if body is program.body else replace(program, body=body)


def _tested(block: Block) -> set[Var]:
    """References with an accumulation that may fail: they stay for the sake of the failure."""
    found: set[Var] = set()
    for binding in block.bindings:
        expr = binding.expr
        if isinstance(expr, Accumulate) and expr.bounds is Bounds.CHECKED:
            found.add(expr.ref)
        for inner in blocks_of(expr):
            found |= _tested(inner)
    return found


class _Liveness:
    """`live` has the variables that are used below the binding at hand."""

    def __init__(self, tested: set[Var]) -> None:
        self.live = tested
        self.facts = FactTable()

    def use(self, atoms: Iterable[Atom]) -> None:
        self.live.update(a for a in atoms if isinstance(a, Var))

    def block(self, block: Block, results: tuple[Atom, ...]) -> Block:
        """`block` with these of its results."""
        self.use(results)
        kept: list[Binding] = []
        for binding in reversed(block.bindings):
            new = self.binding(binding)
            if new is not None:
                kept.append(new)
        if len(results) == len(block.results) and _same(kept[::-1], block.bindings):
            return block
        return Block(tuple(kept[::-1]), results)

    def binding(self, binding: Binding) -> Binding | None:
        expr = binding.expr
        wanted = [var in self.live for var in binding.vars]
        match expr:
            case Prim():
                is_needed = wanted[0]
            case Index(_, _, bounds) | Update(_, _, _, bounds):
                is_needed = wanted[0] or bounds is Bounds.CHECKED
            case Accumulate(ref, _, _, _):
                is_needed = ref in self.live
            case Check():
                is_needed = True
            case For() | Fold() | While() | Cond() | WithAcc():
                return self.with_blocks(binding, wanted)
            case _:
                assert_never(expr)
        if not is_needed:
            return None
        self.use(operands_of(expr))
        return binding

    def with_blocks(self, binding: Binding, wanted: list[bool]) -> Binding | None:
        expr = binding.expr
        if isinstance(expr, While) and not any(wanted) and self.facts.of(expr).movable:
            return None
        new, wanted = self.projected(expr, wanted)
        if not any(wanted) and not any(block.bindings for block in blocks_of(new)):
            return None
        self.use(operands_of(new))
        for binder in binders_of(new):
            self.use(sizes_of(binder.type))
        if all(wanted) and all(map(_is, blocks_of(new), blocks_of(expr))):
            return binding
        return Binding(_pick(binding.vars, wanted), new, binding.src)

    def projected(self, expr: Expr, wanted: list[bool]) -> tuple[Expr, list[bool]]:
        """`expr` with the wanted results, and those that it has to give because of others."""
        match expr:
            case For(binders, body):
                return For(binders, self.block(body, _pick(body.results, wanted))), wanted
            case Cond(pred, then, orelse):
                sides = [self.block(side, _pick(side.results, wanted)) for side in (then, orelse)]
                return Cond(pred, *sides), wanted
            case Fold(binder, reverse, carries, inits, body, running):
                (body,), wanted = self.loop((body,), carries, wanted)
                kept = wanted[: len(carries)]
                carries, inits = _pick(carries, kept), _pick(inits, kept)
                return Fold(binder, reverse, carries, inits, body, running), wanted
            case While(carries, inits, test, body):
                (body, test), wanted = self.loop((body, test), carries, wanted)
                return While(_pick(carries, wanted), _pick(inits, wanted), test, body), wanted
            case WithAcc(refs, body):
                count = len(body.results)
                finals = [
                    is_used or ref in self.live
                    for ref, is_used in zip(refs, wanted[count:], strict=True)
                ]
                self.use(_pick(refs, finals))
                results = _pick(body.results, wanted[:count])
                return WithAcc(_pick(refs, finals), self.block(body, results)), [
                    *wanted[:count],
                    *finals,
                ]
            case Prim() | Index() | Update() | Accumulate() | Check():
                return expr, wanted
            case _:
                assert_never(expr)

    def loop(
        self, blocks: tuple[Block, ...], carries: tuple[Var, ...], wanted: list[bool]
    ) -> tuple[tuple[Block, ...], list[bool]]:
        """A carry is needed if its last value is, or if something needed uses it in the loop."""
        wanted = list(wanted)
        while True:
            body = self.block(blocks[0], _pick(blocks[0].results, wanted))
            rest = tuple(self.block(block, block.results) for block in blocks[1:])
            needed = [
                is_used or carry in self.live
                for carry, is_used in zip(carries, wanted, strict=False)
            ]
            if needed == wanted[: len(carries)]:
                return (body, *rest), wanted
            wanted[: len(carries)] = needed


def _pick(items: Sequence[_T], wanted: Sequence[bool]) -> tuple[_T, ...]:
    return tuple(item for item, is_wanted in zip(items, wanted, strict=True) if is_wanted)


def _is(left: object, right: object) -> bool:
    return left is right


def _same(left: Sequence[object], right: Sequence[object]) -> bool:
    return len(left) == len(right) and all(map(_is, left, right))
