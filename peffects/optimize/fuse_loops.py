"""Sibling loops over the same index sets become one loop.

Two parallel loops of a block fuse if nothing that must run between them stands in the way: the
second uses the first's tables only at its own index, and neither the first's accumulators nor
anything computed from its results.  What may be moved is moved out from between them; accumulator
scopes are no border (`regions.py`).  Outer loops come first, so that loops inside them meet.

The forward and the reverse part of a derivative are such loops when the cotangent is known before
the loop; with `common_subexpressions` after it, the forward part then is there once.

Order of failures: two loops that may both fail do not fuse, since an iteration of the second would
run before later ones of the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from peffects.ir.rename import Renamer
from peffects.ir.syntax import Atom, Binding, Block, For, Index, Program, Var, WithAcc
from peffects.ir.traverse import blocks_of, operands_of
from peffects.ir.typing import set_of
from peffects.optimize.facts import FactTable
from peffects.optimize.regions import Flat, bits, flatten, nest
from peffects.optimize.rewriting import with_bindings, with_blocks, with_expr


def fuse_loops(program: Program) -> Program:
    """Fuse sibling loops, in all blocks; merge and shorten accumulator scopes."""
    walk = _Fuser()
    body = walk.block(program.body)
    return program if body is program.body else replace(program, body=body)


class _Fuser:
    def __init__(self) -> None:
        self.facts = FactTable()

    def block(self, block: Block) -> Block:
        """`block` with its own loops fused, then those inside them."""
        loops = sum(isinstance(b.expr, For) for b in block.bindings)
        if loops > 1 or any(isinstance(b.expr, WithAcc) for b in block.bindings):
            flat = flatten(block, self.facts)
            self.fuse(flat)
            block = nest(flat) or block
        return self.inside(block)

    def inside(self, block: Block) -> Block:
        """The scopes of a block have been dealt with together with it; their loops have bodies."""
        return with_bindings(block, [self.binding(binding) for binding in block.bindings])

    def binding(self, binding: Binding) -> Binding:
        step = self.inside if isinstance(binding.expr, WithAcc) else self.block
        return with_expr(binding, with_blocks(binding.expr, step))

    def fuse(self, flat: Flat) -> None:
        groups: dict[tuple[Atom, ...], list[int]] = {}
        for number in range(len(flat.nodes)):
            expr = flat.node(number).binding.expr
            if not isinstance(expr, For):
                continue
            group = groups.setdefault(tuple(set_of(i).size for i in expr.binders), [])
            for other in reversed(group):
                if self.may_fuse(flat, other, number):
                    one, two = flat.node(other), flat.node(number)
                    facts = one.facts.joined(two.facts, one.binding.vars)
                    flat.merge(other, number, fused(one.binding, two.binding), facts)
                    break
            else:
                group.append(number)

    def may_fuse(self, flat: Flat, first: int, second: int) -> bool:
        """Whether the later loop may run with the earlier one, iteration by iteration."""
        one, two = flat.node(first), flat.node(second)
        if one.facts.fails and two.facts.fails:
            return False
        between = two.needs & ~(1 << first)
        if any(flat.node(k).behind >> first & 1 for k in bits(between)):
            return False
        tables = two.facts.uses.intersection(one.binding.vars)
        loop = two.binding.expr
        assert isinstance(loop, For)
        return not tables or self.reads_own_element(loop.body, loop.binders, tables)

    def reads_own_element(self, block: Block, binders: tuple[Var, ...], tables: Set[Var]) -> bool:
        """Whether each use of `tables` in the body of a loop is a read at the loop's own index."""
        if not tables.isdisjoint(block.results):
            return False
        for binding in block.bindings:
            expr = binding.expr
            if self.facts.of(expr).uses.isdisjoint(tables):
                continue
            operands = operands_of(expr)
            if isinstance(expr, Index) and expr.indices[: len(binders)] == binders:
                operands = expr.indices
            if not tables.isdisjoint(operands):
                return False
            if not all(self.reads_own_element(b, binders, tables) for b in blocks_of(expr)):
                return False
        return True


def fused(first: Binding, second: Binding) -> Binding:
    """One loop that runs both bodies and gives both loops' tables."""
    one, two = first.expr, second.expr
    assert isinstance(one, For) and isinstance(two, For)
    elements = dict(zip(first.vars, one.body.results, strict=True))
    binders = dict(zip(two.binders, one.binders, strict=True))
    body = _AtIndex(binders, one.binders, elements).block(two.body)
    both = Block(one.body.bindings + body.bindings, one.body.results + body.results)
    return Binding(first.vars + second.vars, For(one.binders, both), first.src)


class _AtIndex(Renamer):
    """Replaces reads of another loop's tables at the shared index by the elements themselves."""

    def __init__(
        self, mapping: Mapping[Var, Atom], binders: tuple[Var, ...], elements: Mapping[Var, Atom]
    ) -> None:
        super().__init__(mapping, fresh=False)
        self.binders, self.elements = binders, elements

    def block(self, block: Block) -> Block:
        bindings: list[Binding] = []
        for binding in block.bindings:
            expr = binding.expr
            if not isinstance(expr, Index) or expr.table not in self.elements:
                bindings.append(self.binding(binding))
                continue
            element, rest = self.elements[expr.table], expr.indices[len(self.binders) :]
            if rest:
                assert isinstance(element, Var)
                read = Binding(binding.vars, Index(element, rest, expr.bounds), binding.src)
                bindings.append(self.binding(read))
            else:
                self.mapping[binding.vars[0]] = element
        return Block(tuple(bindings), tuple(map(self.atom, block.results)))
