"""Running sums: carries of a sequential loop that only grow, held wider than their terms.

    carry' = (carry + v) + w

A fold that is marked as `running` is ours, not a loop that the user wrote: `cumsum`, `scan`, or a
loop that transposition made.  Its carries that are sums, numbers or tables of them, are carried
wide, as `docs/decisions/015-how-reductions-add.md` says.  `widen` writes that out, so evaluator
and native code, which both begin with it, agree bit for bit.  A carry that comes back into what is
added to it is a recurrence, not a sum: it stays as it is, as does what a loop of the user's adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from peffects.ir import primitives as p
from peffects.ir.builder import Builder, zeros
from peffects.ir.syntax import (
    F32,
    F64,
    Atom,
    Binding,
    Block,
    Cond,
    Fold,
    For,
    Idx,
    Index,
    Lit,
    Prim,
    Program,
    Scalar,
    Table,
    Var,
    WithAcc,
)
from peffects.ir.traverse import blocks_of, expr_free_vars, operands_of, rebuild
from peffects.ir.typing import set_of

__all__ = ["SHORT", "widen"]

SHORT = 16
"""Loops that are known to have at most so many rounds add plainly, within 4 eps log2(n)."""


def widen(program: Program) -> Program:
    """The program with its running sums written out; no fold in it is `running`."""
    if not _has_running(program.body):
        return program
    return replace(program, body=_Widening().block(program.body))


def _has_running(block: Block) -> bool:
    return any(
        (isinstance(b.expr, Fold) and b.expr.running) or any(map(_has_running, blocks_of(b.expr)))
        for b in block.bindings
    )


# --- which carries are sums -----------------------------------------------------------------------


def _sums(fold: Fold) -> dict[Var, Atom]:
    """The carries of `fold` that are running sums, and all that is on the way to what they become.

    Values on that way are mapped to what they were before.
    """
    wanted = [
        (carry, result)
        for carry, result in zip(fold.carries, fold.body.results, strict=False)
        if _elem(carry) in (F32, F64) and result is not carry
    ]
    if not wanted:
        return {}
    values = dict[Var, frozenset[Atom]]()
    _note(fold, values)
    defined = _defined(fold.body)
    found: dict[Var, Atom] = {}
    for carry, result in wanted:
        way = _Way(defined)
        if way.leads(carry, result) and not _reaches(way.added, {carry, *way.carries}, values):
            found |= way.steps | {carry: carry}
    return found


class _Way:
    """The additions that lead from a carry to what it becomes."""

    def __init__(self, defined: Mapping[Var, Binding]) -> None:
        self.defined = defined
        self.steps: dict[Var, Atom] = {}
        self.added: list[Atom] = []
        self.carries: set[Var] = set()  # of loops on the way

    def leads(self, start: Var, end: Atom, place: tuple[Atom, ...] = ()) -> bool:
        """Whether `end` is `start`, or its element at `place`, and what is added to it."""
        if end is start and not place:
            return True
        binding = self.defined.get(end) if isinstance(end, Var) else None
        if binding is None or not isinstance(end, Var):
            return False
        match binding.expr:
            case Index(table, indices) if place and indices == place:
                before: Atom | None = table if self.leads(start, table) else None
            case Prim(p.ADD | p.SUB as op, (left, right)):
                before = left if self.leads(start, left, place) else None
                if before is None and op is p.ADD and self.leads(start, right, place):
                    before, right = right, left
                self.added.append(right)
            case For(binders, body) if not place and _is_over(binders, end):
                inner = body.results[binding.vars.index(end)]
                before = inner if self.leads(start, inner, binders) else None
            case Fold() as fold if not place and fold.running:
                before = self._through(start, fold, binding.vars.index(end))
            case _:
                before = None
        if before is None:
            return False
        self.steps[end] = before
        return True

    def _through(self, start: Var, fold: Fold, number: int) -> Atom | None:
        """What a sum was before a loop that adds to it."""
        if number >= len(fold.carries) or not self.leads(start, fold.inits[number]):
            return None
        carry, result = fold.carries[number], fold.body.results[number]
        self.carries.add(carry)
        inside = _Way({**self.defined, **_defined(fold.body)})
        if not inside.leads(carry, result):
            return None
        self.steps |= inside.steps | {carry: carry}
        self.added += inside.added
        self.carries |= inside.carries
        return fold.inits[number]


def _is_over(binders: tuple[Var, ...], table: Var) -> bool:
    """Whether the indices of a loop are all that a table has."""
    return isinstance(table.type, Table) and len(table.type.dims) == len(binders)


def _defined(block: Block) -> dict[Var, Binding]:
    """What binds the variables of a block, and of the parallel loops in it."""
    found = {var: binding for binding in block.bindings for var in binding.vars}
    for binding in block.bindings:
        if isinstance(binding.expr, For):
            found |= _defined(binding.expr.body)
    return found


def _note(fold: Fold, values: dict[Var, frozenset[Atom]]) -> None:
    """Note from what each value in a loop is made; carries, also from what they were."""
    for carry, init, result in zip(fold.carries, fold.inits, fold.body.results, strict=False):
        values[carry] = frozenset((init, result))
    _note_block(fold.body, values)


def _note_block(block: Block, values: dict[Var, frozenset[Atom]]) -> None:
    for binding in block.bindings:
        expr, every = binding.expr, frozenset[Atom](expr_free_vars(binding.expr))
        for number, var in enumerate(binding.vars):
            match expr:
                case For(binders, body):
                    sizes = (set_of(binder).size for binder in binders)
                    values[var] = frozenset((body.results[number], *sizes))
                case Cond(pred, then, orelse):
                    values[var] = frozenset((pred, then.results[number], orelse.results[number]))
                case WithAcc(_, body) if number < len(body.results):
                    values[var] = frozenset((body.results[number],))
                case _:
                    values[var] = every
        if isinstance(expr, Fold):
            _note(expr, values)
            continue
        for inner in blocks_of(expr):
            _note_block(inner, values)


def _reaches(
    values: Iterable[Atom], targets: set[Var], made_from: Mapping[Var, frozenset[Atom]]
) -> bool:
    """Whether one of `targets` goes into one of `values`."""
    pending, seen = list(values), set[Var]()
    while pending:
        atom = pending.pop()
        if isinstance(atom, Var) and atom not in seen:
            seen.add(atom)
            pending += made_from.get(atom, ())
    return not seen.isdisjoint(targets)


def _elem(carry: Var) -> Scalar | None:
    if isinstance(carry.type, Table):
        return carry.type.elem
    return carry.type if isinstance(carry.type, Scalar) else None


# --- wide sums ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Wide:
    """A running sum, or a table of them: `total`, an f64, and of f64 sums what it has lost."""

    total: Atom
    low: Atom | None = None

    @property
    def parts(self) -> tuple[Atom, ...]:
        """What is carried."""
        return (self.total,) if self.low is None else (self.total, self.low)

    @property
    def tables(self) -> tuple[Var, ...]:
        """The parts, of tables."""
        return tuple(part for part in self.parts if isinstance(part, Var))


class _Widening:
    """Copies blocks.

    `before` has the values on the ways of running sums, as `_sums` gives them; `needed` those of
    them that somebody asks for as numbers.
    """

    def __init__(self) -> None:
        self.before: dict[Var, Atom] = {}
        self.needed: set[Atom] = set()
        self.wide: dict[Var, _Wide] = {}

    def block(self, block: Block) -> Block:
        """A block that adds to no sum from outside of it."""
        b = Builder()
        self.bindings(b, block)
        return b.block(*block.results)

    def bindings(self, b: Builder, block: Block) -> None:
        for binding in block.bindings:
            b.at = binding.src
            self.binding(b, binding)

    def binding(self, b: Builder, binding: Binding) -> None:
        match binding.expr:
            case Index(table, indices) if binding.vars[0] in self.before:
                parts = [b.index(part, *indices) for part in self.wide[table].tables]
                self.bound(b, binding.vars[0], _Wide(*parts))
            case Prim(op, (left, right)) if binding.vars[0] in self.before:
                before = self.before[binding.vars[0]]
                assert isinstance(before, Var), "a sum starts from a carry"
                value = right if left is before else left
                total = _sum(b, self.wide[before], b.prim(p.NEG, value) if op is p.SUB else value)
                self.bound(b, binding.vars[0], total)
            case For() as loop if not self.before.keys().isdisjoint(binding.vars):
                self.tables(b, binding, loop)
            case Fold() as fold if fold.running:
                self.fold(b, binding, fold)
            case expr:
                made = rebuild(expr, lambda atom: atom, lambda var: var, self.block)
                b.bindings.append(replace(binding, expr=made))

    def bound(self, b: Builder, var: Var, wide: _Wide) -> None:
        """Let `wide` be what `var` is."""
        self.wide[var] = wide
        if var in self.needed:
            _bind_rounded(b, var, wide)

    def tables(self, b: Builder, binding: Binding, loop: For) -> None:
        """A parallel loop over the elements of tables of sums."""
        pairs = list(zip(binding.vars, loop.body.results, strict=True))
        kept = [(var, result) for var, result in pairs if var not in self.before]
        sums = [(var, result) for var, result in pairs if var in self.before]
        inner = b.nested()
        self.bindings(inner, loop.body)
        ends = [part for _, result in sums for part in self.wide_of(result).parts]
        body = inner.block(*(result for _, result in kept), *ends)
        made = b.emit(For(loop.binders, body), [var.name for var, _ in kept])
        self.rename(b, made, [var for var, _ in kept])
        parts = iter(made[len(kept) :])
        for var, result in sums:
            self.bound(b, var, _Wide(*(next(parts) for _ in self.wide_of(result).parts)))

    def rename(self, b: Builder, made: Sequence[Var], variables: Sequence[Var]) -> None:
        """Let the last binding bind `variables` in place of the first it has made."""
        last = b.bindings[-1]
        b.bindings[-1] = replace(last, vars=(*variables, *made[len(variables) :]))

    def fold(self, b: Builder, binding: Binding, fold: Fold) -> None:
        """A sequential loop: of its sums, what is wide is carried."""
        inside = any(carry in self.before for carry in fold.carries)  # on the way of another
        size = set_of(fold.binder).size
        if not inside and not (isinstance(size, Lit) and size.value <= SHORT):
            self.before |= _sums(fold)
            self.needed |= _needed(fold, self.before)
        count = len(fold.carries)
        sums = [k for k, carry in enumerate(fold.carries) if carry in self.before]
        kept = [k for k in range(count) if k not in sums]
        inner, inits, held = b.nested(), list[Atom](), list[Var]()
        for k in sums:
            start = self.start(b, fold.inits[k])
            names = (f"{fold.carries[k].name}_{part}" for part in ("total", "low"))
            parts = [Var(name, x.type) for name, x in zip(names, start.parts, strict=False)]
            inits += start.parts
            held += parts
            self.bound(inner, fold.carries[k], _Wide(*parts))
        self.bindings(inner, fold.body)
        results = fold.body.results
        ends = [part for k in sums for part in self.wide_of(results[k]).parts]
        body = inner.block(*(results[k] for k in kept), *ends, *results[count:])
        carries = (*(fold.carries[k] for k in kept), *held)
        starts = (*(fold.inits[k] for k in kept), *inits)
        last = [Var(var.name, var.type) for var in held]
        variables = (*(binding.vars[k] for k in kept), *last, *binding.vars[count:])
        made = Fold(fold.binder, fold.reverse, carries, starts, body)
        b.bindings.append(Binding(variables, made, binding.src))
        found = iter(last)
        for k in sums:
            wide = _Wide(*(next(found) for _ in self.wide_of(results[k]).parts))
            self.wide[binding.vars[k]] = wide
            if not inside or binding.vars[k] in self.needed:
                _bind_rounded(b, binding.vars[k], wide)

    def start(self, b: Builder, init: Atom) -> _Wide:
        """The sum that a loop starts from: a wide one on the way of another, else a value."""
        found = self.wide.get(init) if isinstance(init, Var) else None
        return found or _wide(b, init)

    def wide_of(self, atom: Atom) -> _Wide:
        assert isinstance(atom, Var), "a sum is a variable"
        return self.wide[atom]


def _needed(fold: Fold, before: Mapping[Var, Atom]) -> set[Atom]:
    """The values that a loop uses in other ways than to add to them."""
    found: set[Atom] = set(fold.body.results[len(fold.carries) :])
    for carry, init, result in zip(fold.carries, fold.inits, fold.body.results, strict=False):
        if carry not in before:
            found |= {init, result}
    _collect_needed(fold.body, before, found)
    return found


def _collect_needed(block: Block, before: Mapping[Var, Atom], found: set[Atom]) -> None:
    for binding in block.bindings:
        expr = binding.expr
        match expr:
            case Prim(_, args) if binding.vars[0] in before:
                place = args.index(before[binding.vars[0]])
                found.update(args[:place] + args[place + 1 :])
            case Index(_, indices) if binding.vars[0] in before:
                found.update(indices)
            case Fold():
                found |= _needed(expr, before)
            case For(_, body):
                pairs = zip(binding.vars, body.results, strict=True)
                found.update(result for var, result in pairs if var not in before)
                _collect_needed(body, before, found)
            case _:
                found.update(operands_of(expr))
                for inner in blocks_of(expr):
                    found.update(inner.results)
                    _collect_needed(inner, before, found)


# --- arithmetic -----------------------------------------------------------------------------------


def _sum(b: Builder, wide: _Wide, value: Atom) -> _Wide:
    """`wide + value`, and what rounding took from it.

    That is exact where the total is the larger one (Dekker's fast two-sum); where it is the
    smaller one, it is off by eps / 2 of the value at most.  So of n values it is eps / 2 sum|x|.
    """
    value = _in_f64(b, value)
    total = b.prim(p.ADD, wide.total, value, name="total")
    if wide.low is None:
        return _Wide(total)
    lost = b.prim(p.SUB, value, b.prim(p.SUB, total, wide.total))
    return _Wide(total, b.prim(p.ADD, wide.low, lost, name="low"))


def _bind_rounded(b: Builder, var: Var, wide: _Wide) -> None:
    """Bind `var` to a sum, or to a table of sums, as numbers of their type."""
    if not isinstance(var.type, Table):
        b.bindings.append(Binding((var,), _rounded(b, wide), b.at))
        return
    binders = tuple(Var("i", Idx(dim)) for dim in var.type.dims)
    inner = b.nested()
    element = _Wide(*(inner.index(part, *binders) for part in wide.tables))
    value = Var(var.name, var.type.elem)
    inner.bindings.append(Binding((value,), _rounded(inner, element), b.at))
    b.bindings.append(Binding((var,), For(binders, inner.block(value)), b.at))


def _rounded(b: Builder, wide: _Wide) -> Prim:
    if wide.low is None:
        return Prim(p.CAST[F32], (wide.total,))
    both = b.prim(p.ADD, wide.total, wide.low)
    is_number = b.prim(p.EQ, both, both)  # not where the total overflowed
    return Prim(p.SELECT, (is_number, both, wide.total))


def _wide(b: Builder, value: Atom) -> _Wide:
    """A number, or a table, as sums that nothing was added to."""
    t = value.type
    if not isinstance(t, Table):
        return _Wide(_in_f64(b, value), None if t == F32 else Lit(0.0, F64))
    if t.elem == F64:
        return _Wide(value, zeros(b, t))
    assert isinstance(value, Var), "there are no literal tables"
    binders = tuple(Var("i", Idx(dim)) for dim in t.dims)
    inner = b.nested()
    total = _in_f64(inner, inner.index(value, *binders))
    return _Wide(*b.loop(binders, inner.block(total), ("total",)))


def _in_f64(b: Builder, value: Atom) -> Atom:
    return value if value.type == F64 else b.prim(p.CAST[F64], value)
