"""Walking the IR: the blocks, atoms and binders inside an expression, its effects, free variables.

`rebuild` is the one place that knows how to put an expression together again from changed parts;
every rewrite goes through it, so a new form is added here once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import assert_never

from peffects.ir.syntax import (
    Accumulate,
    Atom,
    Block,
    Bounds,
    Check,
    Cond,
    Expr,
    FinSet,
    Fold,
    For,
    Idx,
    Index,
    Prim,
    Ref,
    Table,
    Type,
    Update,
    Var,
    While,
    WithAcc,
)


def blocks_of(expr: Expr) -> tuple[Block, ...]:
    """The blocks directly inside `expr`."""
    match expr:
        case For(_, body) | Fold(body=body) | WithAcc(_, body):
            return (body,)
        case While(_, _, test, body):
            return (test, body)
        case Cond(_, then, orelse):
            return (then, orelse)
        case Prim() | Index() | Update() | Accumulate() | Check():
            return ()
        case _:
            assert_never(expr)


def binders_of(expr: Expr) -> tuple[Var, ...]:
    """The variables that `expr` binds in its blocks."""
    match expr:
        case For(binders, _):
            return binders
        case Fold(binder, _, carries):
            return (binder, *carries)
        case While(carries, _, _, _):
            return carries
        case WithAcc(refs, _):
            return refs
        case Prim() | Index() | Update() | Cond() | Accumulate() | Check():
            return ()
        case _:
            assert_never(expr)


def operands_of(expr: Expr) -> tuple[Atom, ...]:
    """The atoms that `expr` itself uses, not those that its blocks or types use."""
    match expr:
        case Prim(_, args):
            return args
        case Index(table, indices, _):
            return (table, *indices)
        case Update(table, indices, value, _):
            return (table, *indices, value)
        case Fold(inits=inits) | While(_, inits, _, _):
            return inits
        case Cond(pred, _, _):
            return (pred,)
        case Accumulate(ref, indices, value, _):
            return (ref, *indices, value)
        case Check(ok, _, _, operands, _):
            return (ok, *operands)
        case For() | WithAcc():
            return ()
        case _:
            assert_never(expr)


def sizes_of(t: Type) -> Iterator[Atom]:
    """The sizes that a type mentions."""
    match t:
        case Table(dims, _):
            yield from (dim.size for dim in dims)
        case Idx(index_set):
            yield index_set.size
        case Ref(_, value):
            yield from sizes_of(value)
        case _:
            pass


def free_vars(block: Block) -> dict[Var, None]:
    """The variables used in `block` and bound outside, in order of first use."""
    found: dict[Var, None] = {}
    _collect_free(block, set(), found)
    return found


def _collect_free(block: Block, bound: set[Var], found: dict[Var, None]) -> None:
    def use(atom: Atom) -> None:
        if isinstance(atom, Var) and atom not in bound:
            found.setdefault(atom)

    for binding in block.bindings:
        for atom in operands_of(binding.expr):
            use(atom)
        for binder in binders_of(binding.expr):
            for size in sizes_of(binder.type):
                use(size)
        bound.update(binders_of(binding.expr))
        for inner in blocks_of(binding.expr):
            _collect_free(inner, bound, found)
        bound.update(binding.vars)
    for atom in block.results:
        use(atom)


def expr_free_vars(expr: Expr) -> dict[Var, None]:
    """The variables that `expr` uses from outside, sizes of its binders included."""
    found: dict[Var, None] = {}
    for atom in operands_of(expr):
        if isinstance(atom, Var):
            found.setdefault(atom)
    bound = set(binders_of(expr))
    for binder in binders_of(expr):
        for size in sizes_of(binder.type):
            if isinstance(size, Var):
                found.setdefault(size)
    for block in blocks_of(expr):
        _collect_free(block, bound, found)
    return found


def accumulated_refs(block: Block) -> dict[Var, None]:
    """The references, bound outside `block`, that it accumulates into."""
    found: dict[Var, None] = {}
    bound: set[Var] = set()

    def visit(block: Block) -> None:
        for binding in block.bindings:
            bound.update(binders_of(binding.expr))
            if isinstance(binding.expr, Accumulate) and binding.expr.ref not in bound:
                found.setdefault(binding.expr.ref)
            for inner in blocks_of(binding.expr):
                visit(inner)

    visit(block)
    return found


def can_fail(expr: Expr) -> bool:
    """Whether running `expr` may stop the program with an error."""
    match expr:
        case Check():
            return True
        case (
            Index(_, _, Bounds.CHECKED)
            | Update(_, _, _, Bounds.CHECKED)
            | Accumulate(_, _, _, Bounds.CHECKED)
        ):
            return True
        case _:
            return any(can_fail(b.expr) for block in blocks_of(expr) for b in block.bindings)


def rebuild(
    expr: Expr,
    atom: Callable[[Atom], Atom],
    binder: Callable[[Var], Var],
    block: Callable[[Block], Block],
) -> Expr:
    """`expr` with its operands, binders and blocks replaced; binders are replaced before blocks."""

    def atoms(many: tuple[Atom, ...]) -> tuple[Atom, ...]:
        return tuple(map(atom, many))

    def variable(var: Var) -> Var:
        new = atom(var)
        assert isinstance(new, Var), "a table or reference is replaced by a variable"
        return new

    match expr:
        case Prim(op, args):
            return Prim(op, atoms(args))
        case Index(table, indices, bounds):
            return Index(variable(table), atoms(indices), bounds)
        case Update(table, indices, value, bounds):
            return Update(variable(table), atoms(indices), atom(value), bounds)
        case For(binders, body):
            return For(tuple(map(binder, binders)), block(body))
        case Fold(index, reverse, carries, inits, body, running):
            index, inits = binder(index), atoms(inits)
            carries = tuple(map(binder, carries))
            return Fold(index, reverse, carries, inits, block(body), running)
        case While(carries, inits, test, body):
            inits = atoms(inits)
            return While(tuple(map(binder, carries)), inits, block(test), block(body))
        case Cond(pred, then, orelse):
            return Cond(atom(pred), block(then), block(orelse))
        case WithAcc(refs, body):
            return WithAcc(tuple(map(binder, refs)), block(body))
        case Accumulate(ref, indices, value, bounds):
            return Accumulate(variable(ref), atoms(indices), atom(value), bounds)
        case Check(ok, error, text, operands, fix, tells):
            return Check(atom(ok), error, text, atoms(operands), fix, tells)
        case _:
            assert_never(expr)


def rebuild_type(t: Type, atom: Callable[[Atom], Atom]) -> Type:
    """`t` with its sizes replaced; the same object when nothing changes."""
    match t:
        case Table(dims, elem):
            new = tuple(FinSet(atom(d.size), d.label) for d in dims)
            return t if new == dims else Table(new, elem)
        case Idx(index_set):
            size = atom(index_set.size)
            return t if size == index_set.size else Idx(FinSet(size, index_set.label))
        case Ref(monoid, value, once):
            held = rebuild_type(value, atom)
            return t if held is value else Ref(monoid, held, once)  # type: ignore[arg-type]
        case _:
            return t
