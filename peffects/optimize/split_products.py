"""Matrix products out of loops that also do other things, so that lowering finds them.

* A sum of products in a parallel loop over rows and columns is computed before it, as a table that
  the loop reads: `for i j. f(sum_k a[i, k] b[k, j])` is `p = a b; for i j. f(p[i, j])`.
* An update of an accumulator by a product is made after it, of tables that the loop gives as
  further results: `for i j k. r[k, j] += a[i, k] (f i j)` is `t = for i j. f i j; r += a^T t`.  So
  derivatives of products are products, too.

Loops are fused where that saves memory, and this takes them apart again: so a table is only made if
one over the same sizes, or more, is there anyway.  It runs once, after all fusion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from peffects.ir import primitives as p
from peffects.ir.builder import Builder, fresh_like
from peffects.ir.products import MOST_BATCH, TIMES, Operand, matrix_product, roles
from peffects.ir.rename import refresh
from peffects.ir.syntax import (
    F32,
    F64,
    Accumulate,
    Atom,
    Binding,
    Block,
    Bounds,
    Expr,
    For,
    Idx,
    Index,
    Lit,
    Monoid,
    Prim,
    Program,
    Ref,
    Table,
    Type,
    Var,
    WithAcc,
)
from peffects.ir.traverse import binders_of, blocks_of
from peffects.ir.typing import set_of, tabulate, value_of
from peffects.optimize.rewriting import with_bindings, with_expr
from peffects.source import SrcInfo

LEAST_INNER = 8
"""Sums of fewer products, where that is known, stay in their loop."""
_MOST_STEPS = 8
"""Operations on an element that may be done again to make a table of an operand."""


def split_products(program: Program) -> Program:
    """Take matrix products out of the parallel loops of the spine."""
    splitter = _Splitter([p.type for p in program.params])
    splitter.find_tables(program.body)
    body = splitter.block(program.body, frozenset())
    return program if body is program.body else replace(program, body=body)


class _Splitter:
    """Walks the spine; `shapes` are the sizes of all tables that are there anyway."""

    def __init__(self, params: Sequence[Type]) -> None:
        self.shapes: list[Counter[Atom]] = []
        for t in params:
            self.add_shape(t)

    def add_shape(self, t: Type) -> None:
        held = t.value if isinstance(t, Ref) else t
        if isinstance(held, Table):
            self.shapes.append(Counter(dim.size for dim in held.dims))

    def find_tables(self, block: Block) -> None:
        """Collect the tables and accumulators of the spine."""
        for binding in block.bindings:
            for var in binding.vars:
                self.add_shape(var.type)
            if isinstance(binding.expr, WithAcc):
                self.find_tables(binding.expr.body)

    def has_table(self, binders: Sequence[Var]) -> bool:
        """Whether a table over these sizes may be made."""
        wanted = Counter(set_of(binder).size for binder in binders)
        return any(wanted <= shape for shape in self.shapes)

    def block(self, block: Block, refs: frozenset[Var]) -> Block:
        bindings: list[Binding] = []
        for binding in block.bindings:
            expr = binding.expr
            if isinstance(expr, WithAcc):
                inner = self.block(expr.body, refs | set(expr.refs))
                new = expr if inner is expr.body else WithAcc(expr.refs, inner)
                bindings.append(with_expr(binding, new))
            elif isinstance(expr, For) and matrix_product(binding) is None:
                bindings += _SpineLoop(self, binding, refs).split()
            else:
                bindings.append(binding)
        return with_bindings(block, bindings)


@dataclass(frozen=True, slots=True)
class _Factor:
    """What a product multiplies: it depends on these loop variables; `operand` makes its table."""

    value: Atom
    binders: frozenset[Var]
    steps: tuple[Binding, ...]
    exported: bool = False


class _SpineLoop:
    """Splits one loop of the spine."""

    def __init__(self, splitter: _Splitter, binding: Binding, refs: frozenset[Var]) -> None:
        assert isinstance(binding.expr, For)
        self.splitter, self.binding, self.loop, self.refs = splitter, binding, binding.expr, refs
        self.before: list[Binding] = []
        self.after: list[Binding] = []
        self.steps: dict[Var, Binding] = {}  # elementwise, in the loop
        self.scopes: dict[Var, tuple[Var, ...]] = {}  # the loop variables around its binding
        self.order: dict[Var, int] = {}
        self.exports: dict[Var, Var] = {}

    def split(self) -> list[Binding]:
        """The bindings that stand for the loop's."""
        self.enter(self.loop.body, self.loop.binders)
        body = self.block(self.loop.body, self.loop.binders)
        if body is self.loop.body:
            return [self.binding]
        made, finals = self.leave(body, self.loop.binders)
        loop = Binding((*self.binding.vars, *finals), made, self.binding.src)
        if self.is_copy(loop):
            last = self.before[-1]
            return [*self.before[:-1], Binding(loop.vars, last.expr, last.src)]
        return [*self.before, loop, *self.after]

    def is_copy(self, loop: Binding) -> bool:
        """Whether all that is left of the loop is to read the last table, element by element."""
        assert isinstance(loop.expr, For)
        body = loop.expr.body
        if len(loop.vars) != 1 or len(body.bindings) != 1 or not self.before:
            return False
        (read,), (table,) = body.bindings, self.before[-1].vars
        return read.vars == body.results and read.expr == Index(
            table, loop.expr.binders, Bounds.PROVED
        )

    # --- what is where ------------------------------------------------------------------------

    def enter(self, block: Block, around: tuple[Var, ...]) -> None:
        """Note the scope of each binding."""
        for binding in block.bindings:
            expr = binding.expr
            for var in binding.vars:
                self.scopes[var] = around
                self.order[var] = len(self.order)
                if isinstance(expr, Prim | Index):
                    self.steps[var] = binding
            for var in binders_of(expr):
                self.scopes[var] = around
            inner = (*around, *expr.binders) if isinstance(expr, For) else around
            for nested in blocks_of(expr):
                self.enter(nested, inner)

    def is_outside(self, atom: Atom) -> bool:
        """Whether a value is there before the loop starts."""
        return isinstance(atom, Lit) or atom not in {*self.scopes, *self.loop.binders}

    # --- rewriting ----------------------------------------------------------------------------

    def block(self, block: Block, around: tuple[Var, ...]) -> Block:
        """The block without what is split off."""
        bindings: list[Binding] = []
        for binding in block.bindings:
            expr = binding.expr
            if isinstance(expr, WithAcc):
                binding = self.sum(binding, expr, around)
            elif isinstance(expr, Accumulate) and self.update(binding, expr, around):
                continue
            elif isinstance(expr, For):
                binding = self.nested(binding, expr, around)
            bindings.append(binding)
        return with_bindings(block, bindings)

    def nested(self, binding: Binding, loop: For, around: tuple[Var, ...]) -> Binding:
        inner = self.block(loop.body, (*around, *loop.binders))
        made, finals = self.leave(inner, loop.binders)
        if made.body is loop.body:
            return binding
        tables = [
            Var(final.name, t) for final, t in zip(finals, _tables(made, binding), strict=True)
        ]
        for table, final in zip(tables, finals, strict=True):
            self.exports[table] = final
            self.scopes[table] = around
        return Binding((*binding.vars, *tables), made, binding.src)

    def leave(self, body: Block, binders: tuple[Var, ...]) -> tuple[For, list[Var]]:
        """The loop with exported values of its body as results, and what they are in the end."""
        here = {var for binding in body.bindings for var in binding.vars}
        leaving = [var for var in self.exports if var in here]
        if leaving:
            body = Block(body.bindings, (*body.results, *leaving))
        return For(binders, body), [self.exports.pop(var) for var in leaving]

    def sum(self, binding: Binding, region: WithAcc, around: tuple[Var, ...]) -> Binding:
        """A read of the table of a product in place of a sum of products."""
        found = _sum_of_products(region)
        if found is None:
            return binding
        loop, times = found
        (inner,) = loop.binders
        factors = self.factors(times.args, (*around, inner), exports=False)
        if factors is None:
            return binding
        used = factors[0].binders | factors[1].binders
        out = tuple(index for index in around if index in used)
        fits = self.is_product(out, inner, factors) and self.splitter.has_table(out)
        if not fits or len(out) - 2 > MOST_BATCH:
            return binding
        operands = [self.operand(f, (*out, inner), binding.src) for f in factors]
        self.before.append(_table_of_product(times.op, out, inner, operands, binding))
        (table,) = self.before[-1].vars
        return Binding(binding.vars, Index(table, out, Bounds.PROVED), binding.src)

    def update(self, binding: Binding, update: Accumulate, around: tuple[Var, ...]) -> bool:
        """Make an update after the loop, if it is one of a product."""
        times = self.steps.get(update.value) if isinstance(update.value, Var) else None
        out = tuple(index for index in update.indices if index in around)
        rest = [index for index in around if index not in out]
        if update.ref not in self.refs or times is None or len(rest) != 1:
            return False
        if not _is_times(times.expr) or not _covers(update, out):  # type: ignore[arg-type]
            return False
        assert isinstance(times.expr, Prim)
        factors = self.factors(times.expr.args, around, exports=True)
        if factors is None or not self.is_product(out, rest[0], factors):  # type: ignore[arg-type]
            return False
        if len(out) - 2 > MOST_BATCH:
            return False
        operands = [self.operand(f, around, binding.src) for f in factors]
        self.after.append(
            _update_by_product(times.expr.op, update, out, rest[0], operands, binding.src)  # type: ignore[arg-type]
        )
        return True

    def is_product(self, out: tuple[Var, ...], inner: Var, factors: Sequence[_Factor]) -> bool:
        """Whether this is a product of matrices whose sizes are known before the loop."""
        size = set_of(inner).size
        if isinstance(size, Lit) and size.value < LEAST_INNER:
            return False
        if not all(self.is_outside(set_of(index).size) for index in (*out, inner)):
            return False
        return roles(out, inner, set(factors[0].binders), set(factors[1].binders)) is not None

    # --- factors ------------------------------------------------------------------------------

    def factors(
        self, values: Sequence[Atom], around: tuple[Var, ...], exports: bool
    ) -> tuple[_Factor, _Factor] | None:
        """How to get tables of two factors; None if that cannot be done, or takes more memory."""
        found = []
        for value in values:
            factor = self.elementwise(value, around)
            if factor is None and exports:
                factor = self.exported(value)
            if factor is None:
                return None
            ordered = [index for index in around if index in factor.binders]
            is_table = _direct(factor) is not None
            if not ordered or not (is_table or self.splitter.has_table(ordered)):
                return None
            found.append(factor)
        return found[0], found[1]

    def elementwise(self, value: Atom, around: tuple[Var, ...]) -> _Factor | None:
        """A factor that can be computed again from tables that are there before the loop."""
        steps: dict[Var, Binding] = {}
        binders: set[Var] = set()
        pending = [value]
        while pending:
            atom = pending.pop()
            if isinstance(atom, Var) and atom in around:
                binders.add(atom)
            elif not self.is_outside(atom):
                assert isinstance(atom, Var)
                step = self.steps.get(atom)
                if step is None or len(steps) > _MOST_STEPS:
                    return None
                expr = step.expr
                if isinstance(expr, Index):
                    if expr.bounds is Bounds.CHECKED or not self.is_outside(expr.table):
                        return None
                    pending += expr.indices
                else:
                    assert isinstance(expr, Prim)
                    pending += expr.args
                steps[atom] = step
        ordered = sorted(steps, key=lambda var: self.order[var])
        return _Factor(value, frozenset(binders), tuple(steps[var] for var in ordered))

    def exported(self, value: Atom) -> _Factor | None:
        """A factor that the loop computes, as a further result of it."""
        if not isinstance(value, Var) or value not in self.scopes:
            return None
        if value.type not in (F64, F32) or not self.is_of_nest(self.scopes[value]):
            return None
        return _Factor(value, frozenset(self.scopes[value]), (), exported=True)

    def is_of_nest(self, around: tuple[Var, ...]) -> bool:
        return all(self.is_outside(set_of(index).size) for index in around)

    def operand(self, factor: _Factor, around: tuple[Var, ...], src: SrcInfo) -> Operand:
        """The table of a factor, made before the loop or given by it where there is none."""
        direct = _direct(factor)
        if direct is not None:
            return direct
        if factor.exported:
            assert isinstance(factor.value, Var)
            scope = self.scopes[factor.value]
            known = self.exports.get(factor.value)
            if known is None:
                known = Var(
                    factor.value.name, tabulate(tuple(map(set_of, scope)), factor.value.type)
                )
                self.exports[factor.value] = known
            return Operand(known, scope)
        binders = tuple(index for index in around if index in factor.binders)
        fresh = tuple(map(fresh_like, binders))
        body = refresh(Block(factor.steps, (factor.value,)), dict(zip(binders, fresh, strict=True)))
        b = Builder(src)
        (table,) = b.loop(fresh, body, [getattr(factor.value, "name", "t")])
        self.before += b.bindings
        return Operand(table, binders)


# --- looking at expressions ----------------------------------------------------------------------


def _sum_of_products(region: WithAcc) -> tuple[For, Prim] | None:
    """The loop of a sum over one index of products, and the product."""
    if len(region.refs) != 1 or region.body.results or len(region.body.bindings) != 1:
        return None
    (ref,), loop = region.refs, region.body.bindings[0].expr
    assert isinstance(ref.type, Ref)
    if ref.type.monoid is not Monoid.ADD or ref.type.value not in (F64, F32):
        return None
    if not isinstance(loop, For) or len(loop.binders) != 1 or loop.body.results:
        return None
    if not loop.body.bindings:
        return None
    *steps, last = loop.body.bindings
    if not isinstance(last.expr, Accumulate) or last.expr.indices or last.expr.ref is not ref:
        return None
    if not all(isinstance(step.expr, Prim | Index) for step in steps):
        return None
    times = [step for step in steps if (last.expr.value,) == step.vars]
    if not times or not _is_times(times[0].expr):
        return None
    assert isinstance(times[0].expr, Prim)
    return loop, times[0].expr


def _is_times(expr: Expr) -> bool:
    return isinstance(expr, Prim) and expr.op in TIMES and expr.args[0].type in (F64, F32)


def _covers(update: Accumulate, out: tuple[Var, ...]) -> bool:
    """Whether the indices of an update of elements are different loop variables, one an axis."""
    assert isinstance(update.ref.type, Ref)
    held = value_of(update.ref)
    if update.ref.type.monoid is not Monoid.ADD or update.bounds is Bounds.CHECKED:
        return False
    if not isinstance(held, Table) or held.elem not in (F64, F32):
        return False
    if len(out) != len(held.dims) or len(set(out)) != len(out) or update.indices != out:
        return False
    return all(set_of(i).size == dim.size for i, dim in zip(out, held.dims, strict=True))


def _direct(factor: _Factor) -> Operand | None:
    """The table that a factor is an element of, at loop variables that all differ."""
    if len(factor.steps) != 1 or factor.steps[0].vars != (factor.value,):
        return None
    expr = factor.steps[0].expr
    if not isinstance(expr, Index):
        return None
    indices = tuple(i for i in expr.indices if isinstance(i, Var) and isinstance(i.type, Idx))
    held = expr.table.type
    assert isinstance(held, Table)
    is_plain = len(indices) == len(held.dims) and len(set(indices)) == len(indices)
    return Operand(expr.table, indices) if is_plain else None


def _tables(loop: For, binding: Binding) -> Iterator[Table]:
    """The types of the results that a loop has beyond those that are bound."""
    sets = tuple(map(set_of, loop.binders))
    for atom in loop.body.results[len(binding.vars) :]:
        yield tabulate(sets, atom.type)


# --- making products -----------------------------------------------------------------------------


def _multiplied(
    b: Builder, op: p.Primitive, mapping: dict[Var, Var], operands: Sequence[Operand]
) -> Var:
    """The product of two elements."""
    x, y = (b.index(o.table, *(mapping[i] for i in o.indices)) for o in operands)
    return b.prim(op, x, y)


def _table_of_product(
    op: p.Primitive,
    out: tuple[Var, ...],
    inner: Var,
    operands: Sequence[Operand],
    binding: Binding,
) -> Binding:
    mapping = {index: fresh_like(index) for index in (*out, inner)}
    b = Builder(binding.src)
    body, element = b.nested(), b.nested()
    value = _multiplied(body, op, mapping, operands)
    total = element.reduce(Monoid.ADD, [mapping[inner]], body.block(value))
    binders = tuple(mapping[index] for index in out)
    b.loop(binders, element.block(total), ["product"])
    return b.bindings[0]


def _update_by_product(
    op: p.Primitive,
    update: Accumulate,
    out: tuple[Var, ...],
    inner: Var,
    operands: Sequence[Operand],
    src: SrcInfo,
) -> Binding:
    mapping = {index: fresh_like(index) for index in (*out, inner)}
    b = Builder(src)
    body = b.nested()
    value = _multiplied(body, op, mapping, operands)
    body.accumulate(update.ref, tuple(mapping[index] for index in out), value)
    b.loop(tuple(mapping[index] for index in (*out, inner)), body.block())
    return b.bindings[0]
