"""Checks a program: scopes, types, effects, single binding.  Every pass is followed by it in tests.

A mistake found here is ours, so it is an `InternalError` that names the pass.  Linearity, which is
a property of what `differentiate/` makes, is checked in `differentiate/linearity.py`.
"""

from __future__ import annotations

from typing import assert_never

from peffects.errors import InternalError
from peffects.ir.syntax import (
    BOOL,
    I64,
    Accumulate,
    Atom,
    Binding,
    Block,
    Check,
    Cond,
    Expr,
    Fold,
    For,
    Idx,
    Index,
    Monoid,
    Prim,
    Program,
    Ref,
    Scalar,
    Table,
    Type,
    Update,
    Var,
    While,
    WithAcc,
)
from peffects.ir.traverse import sizes_of
from peffects.ir.typing import drop_axes, result_types, set_of, value_of


def check_program(program: Program, stage: str = "a pass") -> Program:
    """Give `program` back if it is well-formed; InternalError naming `stage` if it is not."""
    checker = _Checker(stage, program.name)
    for size in program.sizes:
        checker.bind(size.var)
    for param in program.params:
        checker.bind(param)
    checker.bindings(program.body)
    checker.results(program.body, checker.scope)  # a program may compute the sizes of its results
    return program


class _Checker:
    def __init__(self, stage: str, program: str) -> None:
        self.stage, self.program = stage, program
        self.scope: set[Var] = set()
        self.ever_bound: set[Var] = set()
        self.binding: Binding | None = None

    def fail(self, what: str) -> InternalError:
        at = f" (in {self.binding.expr})" if self.binding is not None else ""
        return InternalError(f"after {self.stage}, `{self.program}` is ill-formed: {what}{at}.")

    def require(self, ok: bool, what: str) -> None:
        if not ok:
            raise self.fail(what)

    def bind(self, var: Var) -> None:
        self.require(var not in self.ever_bound, f"{var!r} is bound twice")
        for size in sizes_of(var.type):
            self.use(size)
            self.require(size.type == I64, f"the size {size!r} is no i64")
        self.ever_bound.add(var)
        self.scope.add(var)

    def use(self, atom: Atom) -> None:
        if isinstance(atom, Var):
            self.require(atom in self.scope, f"{atom!r} is not in scope")

    def block(self, block: Block, binders: tuple[Var, ...] = ()) -> tuple[Type, ...]:
        outer = set(self.scope)
        for binder in binders:
            self.bind(binder)
        self.bindings(block)
        self.results(block, outer.union(binders))
        self.scope = outer
        return tuple(atom.type for atom in block.results)

    def bindings(self, block: Block) -> None:
        for binding in block.bindings:
            self.binding = binding
            self.expr(binding.expr)
            self.binding = binding
            types = result_types(binding.expr)
            declared = tuple(var.type for var in binding.vars)
            self.require(types == declared, f"{types} is bound to variables of {declared}")
            for var in binding.vars:
                self.bind(var)

    def results(self, block: Block, sizes: set[Var]) -> None:
        """The results are in scope, and their sizes are among `sizes`."""
        for atom in block.results:
            self.use(atom)
            self.require(not isinstance(atom.type, Ref), f"the reference {atom!r} escapes")
            for size in sizes_of(atom.type):
                self.require(
                    not isinstance(size, Var) or size in sizes,
                    f"the type of {atom!r} mentions {size!r}, which is bound inside the block",
                )

    def expr(self, expr: Expr) -> None:
        match expr:
            case Prim(op, args):
                self.atoms(args)
                op.result_type([arg.type for arg in args])
            case Index(table, indices, _):
                self.atoms((table, *indices))
                self.require(isinstance(table.type, Table), f"{table!r} is no table")
                self.indices(table.type, indices)
            case Update(table, indices, value, _):
                self.atoms((table, *indices, value))
                self.require(isinstance(table.type, Table), f"{table!r} is no table")
                self.require(bool(indices), f"{table!r} is replaced as a whole")
                self.indices(table.type, indices)
                rest = drop_axes(table.type, len(indices))
                self.require(rest == value.type, f"{table!r} takes {rest}, not {value.type}")
            case For(binders, body):
                self.require(bool(binders), "a loop without an index")
                for binder in binders:
                    set_of(binder)
                self.block(body, binders)
                for atom in body.results:
                    self.require(
                        not any(size in binders for size in sizes_of(atom.type)),
                        f"the size of {atom!r} depends on the loop's index",
                    )
            case Fold(binder, _, carries, inits, body):
                self.atoms(inits)
                types = self.block(body, (binder, *carries))
                self.carried(carries, inits, types[: len(carries)])
            case While(carries, inits, test, body):
                self.atoms(inits)
                scope = set(self.scope)
                tests = self.block(test, carries)
                self.require(tests == (BOOL,), "the test of a while is no bool")
                self.ever_bound -= set(carries)  # both blocks see the same carries
                self.scope = scope
                self.carried(carries, inits, self.block(body, carries))
            case Cond(pred, then, orelse):
                self.atoms((pred,))
                self.require(pred.type == BOOL, f"the condition {pred!r} is no bool")
                left, right = self.block(then), self.block(orelse)
                self.require(left == right, f"branches give {left} and {right}")
            case WithAcc(refs, body):
                for ref in refs:
                    value_of(ref)
                self.block(body, refs)
            case Accumulate(ref, indices, value, _):
                self.accumulate(ref, indices, value)
            case Check(ok, _, _, operands, _):
                self.atoms((ok, *operands))
                self.require(ok.type == BOOL, f"{ok!r} is no bool")
            case _:
                assert_never(expr)

    def atoms(self, atoms: tuple[Atom, ...]) -> None:
        for atom in atoms:
            self.use(atom)

    def indices(self, t: Type, indices: tuple[Atom, ...]) -> None:
        for index in indices:
            ok = isinstance(index.type, Idx) or index.type == I64
            self.require(ok, f"the index {index!r} is neither an index nor an i64")
        drop_axes(t, len(indices))

    def carried(
        self, carries: tuple[Var, ...], inits: tuple[Atom, ...], types: tuple[Type, ...]
    ) -> None:
        declared = tuple(var.type for var in carries)
        starts = tuple(atom.type for atom in inits)
        self.require(starts == declared == types, f"carries {declared} get {starts}, then {types}")

    def accumulate(self, ref: Var, indices: tuple[Atom, ...], value: Atom) -> None:
        self.atoms((ref, *indices, value))
        held = value_of(ref)
        self.indices(held, indices)
        rest = drop_axes(held, len(indices))
        self.require(rest == value.type, f"{ref!r} takes {rest}, not {value.type}")
        assert isinstance(ref.type, Ref)
        elem = held.elem if isinstance(held, Table) else held
        logical = ref.type.monoid in (Monoid.AND, Monoid.OR)
        self.require(isinstance(elem, Scalar), f"{ref!r} holds no scalars")
        self.require(elem != BOOL or logical, f"{ref.type.monoid} on bools")
