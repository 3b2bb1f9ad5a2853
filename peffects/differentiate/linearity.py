"""The linear type checker: which values of a block are linear, or where it goes wrong.

Colors as in Linear A (You Only Linearize Once, section 4): every value is linear or nonlinear, and
a linear value may only be added, negated, scaled by a nonlinear value, selected by a nonlinear
condition, indexed, tabulated or accumulated with `+`.  Differs from the paper: `dup` and `drop`
are implicit, so a linear variable may be used any number of times; what is refused is a use in a
nonlinear position, two linear factors in one product, and a sum of linear and nonlinear values.
Zero is linear.  Hence every result of a checked block is an algebraically linear function of the
linear inputs (fact (a) there).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from peffects.errors import LinearityError
from peffects.ir import primitives as p
from peffects.ir.syntax import (
    Accumulate,
    Atom,
    Binding,
    Block,
    Check,
    Cond,
    Fold,
    For,
    Index,
    Lit,
    Monoid,
    Prim,
    Ref,
    Update,
    Var,
    While,
    WithAcc,
)
from peffects.ir.traverse import free_vars, operands_of
from peffects.source import UNKNOWN, SrcInfo

_FIX = "A linear function only adds its inputs, scales them by other values, and rearranges them."


def linear_vars(block: Block, inputs: Iterable[Var]) -> set[Var]:
    """All variables of `block`, nested ones included, that are linear in `inputs`.

    Raises LinearityError, at the user's line, if a linear value is spent non-linearly, or if some
    result of `block` is not linear.
    """
    checker = _Linearity(set(inputs))
    checker.block(block)
    for result in block.results:
        if not checker.may_be_linear(result):
            raise LinearityError(
                f"the result {_spelled(result)} does not depend linearly on the inputs.", fix=_FIX
            )
    return checker.linear


def _spelled(atom: Atom) -> str:
    """A value as the user may know it: a number, or a name."""
    return str(atom.value) if isinstance(atom, Lit) else f"`{atom.name}`"


class _Linearity:
    def __init__(self, linear: set[Var]) -> None:
        self.linear = linear
        self.zeros: set[Var] = set()  # tables of zeros: linear if need be
        self.src: SrcInfo = UNKNOWN
        self.searching = False

    def is_linear(self, atom: Atom) -> bool:
        return isinstance(atom, Var) and atom in self.linear

    def may_be_linear(self, atom: Atom) -> bool:
        if isinstance(atom, Lit):
            return atom.value == 0
        return atom in self.linear or atom in self.zeros

    def block(self, block: Block) -> None:
        for binding in block.bindings:
            self.src = binding.src
            self.binding(binding)

    def reject(self, what: str) -> None:
        """Refuse, unless colors of carries are still being found: then a later sweep does."""
        if not self.searching:
            raise LinearityError(what, at=self.src, fix=_FIX)

    def nonlinear(self, atoms: Iterable[Atom], where: str) -> None:
        for atom in atoms:
            if self.is_linear(atom):
                self.reject(f"the linear value {_spelled(atom)} is spent {where}.")

    def mark(self, atoms: Iterable[Var]) -> None:
        self.linear.update(atoms)

    def binding(self, binding: Binding) -> None:
        expr = binding.expr
        match expr:
            case Prim(op, args):
                if any(map(self.is_linear, args)):
                    self.prim(op, args)
                    self.mark(binding.vars)
            case Index(table, indices, _):
                self.nonlinear(indices, "as an index")
                if self.is_linear(table):
                    self.mark(binding.vars)
            case Update(table, indices, value, _):
                self.nonlinear(indices, "as an index")
                self.update(table, value, binding.vars)
            case For(_, body):
                self.block(body)
                self.results(binding.vars, body.results)
            case Fold(_, _, carries, inits, body):
                self.carried(carries, inits, expr)
                # a loop of no steps gives what it started from, so the carries' colors count
                self.results(binding.vars, (*carries, *body.results[len(carries) :]))
            case While(_, inits, test, body):
                self.nonlinear((*inits, *free_vars(test), *free_vars(body)), "in a `while` loop")
            case Cond(pred, then, orelse):
                self.nonlinear((pred,), "as a condition")
                self.block(then)
                self.block(orelse)
                self.branches(binding.vars, then, orelse)
            case WithAcc(refs, body):
                self.with_acc(body)
                self.results(binding.vars, (*body.results, *refs))
            case Accumulate(ref, indices, value, _):
                self.nonlinear(indices, "as an index")
                self.accumulate(ref, value)
            case Check():
                self.nonlinear(operands_of(expr), "in a check")
            case _:
                assert_never(expr)

    def update(self, table: Var, value: Atom, results: Iterable[Var]) -> None:
        """A table of which one element is replaced: linear if both are, where one may be zero."""
        if self.is_linear(table) or self.is_linear(value):
            if not (self.may_be_linear(table) and self.may_be_linear(value)):
                self.reject(f"{value!r} is put into {table!r}, and only one of them is linear.")
            self.mark(results)
        elif self.may_be_linear(table) and self.may_be_linear(value):
            self.zeros.update(results)

    def results(self, variables: Iterable[Var], results: Iterable[Atom]) -> None:
        for var, result in zip(variables, results, strict=True):
            if self.is_linear(result):
                self.mark((var,))
            elif self.may_be_linear(result):
                self.zeros.add(var)

    def prim(self, op: p.Primitive, args: tuple[Atom, ...]) -> None:
        if op in (p.ADD, p.SUB):
            for arg in args:
                if not self.may_be_linear(arg):
                    self.reject(
                        f"`{op.name}` mixes a linear value with {_spelled(arg)}, which is not."
                    )
        elif op in (p.MUL, p.SCALE):
            if all(map(self.is_linear, args)):
                self.reject("two linear values are multiplied: spent twice.")
        elif op in (p.DIV, p.UNSCALE):
            self.nonlinear(args[1:], "as a divisor")
        elif op is p.SELECT:
            self.nonlinear(args[:1], "as a condition")
            if not all(map(self.may_be_linear, args[1:])):
                self.reject("a selection between a linear value and one that is not.")
        elif op is not p.NEG and op not in _FLOAT_CASTS:
            self.nonlinear(args, f"in `{op.name}`")

    def carried(self, carries: tuple[Var, ...], inits: tuple[Atom, ...], fold: Fold) -> None:
        """Carries are linear if they start so or become so: a fixpoint of at most their number."""
        steps = fold.body.results[: len(carries)]
        self.mark(c for c, init in zip(carries, inits, strict=True) if self.is_linear(init))
        outer, self.searching = self.searching, True
        while new := self.search(carries, steps, fold.body):
            self.mark(new)
        self.searching = outer
        self.block(fold.body)
        for carry, init, step in zip(carries, inits, steps, strict=True):
            if carry in self.linear and not (self.may_be_linear(init) and self.may_be_linear(step)):
                self.reject(f"the carried value {_spelled(carry)} is linear in some steps only.")

    def search(self, carries: tuple[Var, ...], steps: tuple[Atom, ...], body: Block) -> list[Var]:
        """The carries that a step makes linear and that are not known to be."""
        self.block(body)
        pairs = zip(carries, steps, strict=True)
        return [c for c, step in pairs if self.is_linear(step) and c not in self.linear]

    def branches(self, variables: tuple[Var, ...], then: Block, orelse: Block) -> None:
        for var, left, right in zip(variables, then.results, orelse.results, strict=True):
            if self.is_linear(left) or self.is_linear(right):
                if not (self.may_be_linear(left) and self.may_be_linear(right)):
                    self.reject("one branch gives a linear value and the other does not.")
                self.mark((var,))

    def with_acc(self, body: Block) -> None:
        """A reference is linear if something linear is accumulated: found in a first sweep."""
        outer, self.searching = self.searching, True
        self.block(body)
        self.searching = outer
        self.block(body)

    def accumulate(self, ref: Var, value: Atom) -> None:
        assert isinstance(ref.type, Ref)
        if self.is_linear(value):
            if ref.type.monoid is not Monoid.ADD:
                self.reject(f"a linear value is accumulated with `{ref.type.monoid.value}`.")
            self.mark((ref,))
        elif self.is_linear(ref) and not self.may_be_linear(value):
            self.reject(f"linear and other values are accumulated into `{ref.name}`.")


_FLOAT_CASTS = frozenset(op for scalar, op in p.CAST.items() if scalar.is_float)
