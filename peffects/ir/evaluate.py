"""What a program means: a direct interpreter, the oracle for every pass and back-end.

Slow on purpose: scalars are numpy scalars, loops are Python loops, one binding at a time.  Sums of
floats are held wider than their terms, as `docs/decisions/015-how-reductions-add.md` says.  `order`
permutes the iterations of parallel loops (no result may depend on it, rounding apart); `Work`
counts operations, so that tests can state cost bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray

from peffects.ir.messages import bounds_error, bounds_text, iteration_notes
from peffects.ir.running import widen
from peffects.ir.sizes import bind_sizes
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
    Lit,
    Monoid,
    Prim,
    Program,
    Ref,
    Scalar,
    Table,
    Update,
    Var,
    While,
    WithAcc,
)
from peffects.ir.typing import set_of, value_of
from peffects.source import SrcInfo

Array: TypeAlias = NDArray[np.generic]
Value: TypeAlias = Any  # an array or a scalar of numpy, of a dtype known at run time only
Order: TypeAlias = Callable[[Sequence[int]], Iterable[int]]

COMBINE: dict[Monoid, Callable[[Value, Value], Value]] = {
    Monoid.ADD: np.add,
    Monoid.MUL: np.multiply,
    Monoid.MIN: np.minimum,
    Monoid.MAX: np.maximum,
    Monoid.AND: np.logical_and,
    Monoid.OR: np.logical_or,
}


def identity_of(monoid: Monoid, elem: Scalar) -> float | int | bool:
    """The identity of `monoid` on `elem`; of min and max, the largest and the smallest value."""
    match monoid:
        case Monoid.ADD | Monoid.OR:
            return elem_zero(elem)
        case Monoid.MUL | Monoid.AND:
            return type(elem_zero(elem))(1)
        case Monoid.MIN | Monoid.MAX:
            top = monoid is Monoid.MIN
            if elem.is_float:
                return float("inf") if top else float("-inf")
            if elem.is_integer:
                limits = np.iinfo(elem.dtype)
                return int(limits.max if top else limits.min)
            return top
        case _:
            assert_never(monoid)


def elem_zero(elem: Scalar) -> float | int | bool:
    """Zero of a scalar type, as a Python number."""
    return 0.0 if elem.is_float else 0 if elem.is_integer else False


def lost(total: Value, value: Value, new: Value) -> Value:
    """What rounding took from `new = total + value`: exact, whichever is larger (two-sum)."""
    more = new - total
    return (total - (new - more)) + (value - more)


@dataclass(slots=True)
class Work:
    """Costs of the primitives evaluated, and how many elements were read and written."""

    operations: int = 0
    accesses: int = 0


def evaluate(
    program: Program, args: Sequence[object], *, order: Order = iter, work: Work | None = None
) -> tuple[Value, ...]:
    """Run `program` on arrays and numbers; raises what its checks raise, at the user's line."""
    values = [_argument(var, arg) for var, arg in zip(program.params, args, strict=True)]
    env = dict(zip(program.params, values, strict=True))
    scalars = {
        v: int(x) for v, x in env.items() if isinstance(v.type, Scalar) and x.dtype.kind in "iu"
    }
    sizes = bind_sizes(program, [value.shape for value in values], scalars)
    env.update({var: np.int64(size) for var, size in sizes.items()})
    return _Evaluator(env, order, work or Work()).block(widen(program).body)


def _argument(var: Var, arg: object) -> Value:
    if isinstance(var.type, Table):
        return np.asarray(arg, dtype=var.type.elem.dtype)
    assert isinstance(var.type, Scalar)
    value: Value = np.asarray(arg).astype(var.type.dtype)[()]
    return value


def _empty(t: Scalar | Table, size: Callable[[Atom], int]) -> Array:
    if isinstance(t, Scalar):
        return np.empty((), t.dtype)
    return np.empty(tuple(size(dim.size) for dim in t.dims), t.elem.dtype)


class _Evaluator:
    def __init__(self, env: dict[Var, Value], order: Order, work: Work) -> None:
        self.env, self.order, self.work = env, order, work
        self.counts: dict[Var, NDArray[np.int64]] = {}  # accumulations into what gets one each
        self.lows: dict[Var, Array] = {}  # what rounding took from sums
        self.around: list[Var] = []  # the indices of the loops that run, outermost first

    def atom(self, atom: Atom) -> Value:
        if isinstance(atom, Lit):
            value: Value = np.array(atom.value, atom.type.dtype)[()]
            return value
        return self.env[atom]

    def atoms(self, atoms: Sequence[Atom]) -> tuple[Value, ...]:
        return tuple(map(self.atom, atoms))

    def size(self, atom: Atom) -> int:
        return int(self.atom(atom))

    def block(self, block: Block) -> tuple[Value, ...]:
        for binding in block.bindings:
            results = self.expr(binding.expr, binding)
            self.env.update(zip(binding.vars, results, strict=True))
        return self.atoms(block.results)

    def expr(self, expr: Expr, binding: Binding) -> tuple[Value, ...]:
        match expr:
            case Prim(op, args):
                self.work.operations += op.cost
                with np.errstate(all="ignore"):
                    return (op.evaluate(*self.atoms(args)),)
            case Index(table, indices, bounds):
                self.work.accesses += 1
                array = self.env[table]
                return (array[self.place(table, array, indices, bounds, binding.src)],)
            case Update(table, indices, value, bounds):
                self.work.accesses += 1
                array = self.env[table].copy()
                place = self.place(binding.vars[0], array, indices, bounds, binding.src)
                array[place] = self.atom(value)
                return (array,)
            case For(binders, body):
                return self.loop(binders, body)
            case Fold():
                return self.fold(expr, binding)
            case While(carries, inits, test, body):
                state = self.atoms(inits)
                while True:
                    self.env.update(zip(carries, state, strict=True))
                    if not self.block(test)[0]:
                        return state
                    state = self.block(body)
            case Cond(pred, then, orelse):
                return self.block(then if self.atom(pred) else orelse)
            case WithAcc(refs, body):
                for ref in refs:
                    self.env[ref] = self.fresh(ref)
                results = self.block(body)
                for ref in refs:
                    self.round(ref)
                    if ref in self.counts:
                        wrong = self.counts.pop(ref) != 1
                        assert not wrong.any(), f"elements of {ref!r} do not get one value each"
                return (*results, *(self.env[ref][()] for ref in refs))
            case Accumulate(ref, indices, value, bounds):
                self.accumulate(ref, indices, value, bounds, binding.src)
                return ()
            case Check(ok, error, text, operands, fix, tells):
                if not self.atom(ok):
                    told = text.format(*(x.item() for x in self.atoms(operands)))
                    if not tells:
                        raise error(told, at=binding.src, notes=self.iteration(), fix=fix)
                    print(told, end="")
                return ()
            case _:
                assert_never(expr)

    def iteration(self) -> tuple[str, ...]:
        """Which iteration runs, as the notes of an error say it."""
        names = [binder.name for binder in self.around]
        return iteration_notes(names, [int(self.env[binder]) for binder in self.around])

    def loop(self, binders: tuple[Var, ...], body: Block) -> tuple[Value, ...]:
        shape = tuple(self.size(set_of(binder).size) for binder in binders)
        places = list(product(*map(range, shape)))
        tables: list[Array] = []
        self.around += binders
        for flat in self.order(range(len(places))):
            self.env.update({b: np.int64(i) for b, i in zip(binders, places[flat], strict=True)})
            results = self.block(body)
            if not tables:
                tables = [np.empty(shape + x.shape, x.dtype) for x in results]
            for table, value in zip(tables, results, strict=True):
                table[places[flat]] = value
            self.work.accesses += len(results)
        del self.around[len(self.around) - len(binders) :]
        if not places:
            return tuple(self.empty_table(shape, atom) for atom in body.results)
        return tuple(tables)

    def empty_table(self, shape: tuple[int, ...], atom: Atom) -> Array:
        assert isinstance(atom.type, Scalar | Table)
        inner = _empty(atom.type, self.size)
        return np.empty(shape + inner.shape, inner.dtype)

    def fold(self, fold: Fold, binding: Binding) -> tuple[Value, ...]:
        size = self.size(set_of(fold.binder).size)
        state, count = self.atoms(fold.inits), len(fold.carries)
        outputs = [self.empty_table((size,), atom) for atom in fold.body.results[count:]]
        self.around.append(fold.binder)
        for i in range(size - 1, -1, -1) if fold.reverse else range(size):
            self.env[fold.binder] = np.int64(i)
            self.env.update(zip(fold.carries, state, strict=True))
            results = self.block(fold.body)
            state = results[:count]
            for table, value in zip(outputs, results[count:], strict=True):
                table[i] = value
        self.around.pop()
        return (*state, *outputs)

    def fresh(self, ref: Var) -> Array:
        assert isinstance(ref.type, Ref)
        held = value_of(ref)
        array = _empty(held, self.size)
        elem = held.elem if isinstance(held, Table) else held
        array[...] = identity_of(ref.type.monoid, elem)
        if ref.type.monoid is Monoid.ADD and elem.is_float:
            array = array.astype(np.float64)
            if elem.dtype == "float64":
                self.lows[ref] = np.zeros_like(array)
        if ref.type.once:
            self.counts[ref] = np.zeros(array.shape, np.int64)
        return array

    def accumulate(
        self, ref: Var, indices: tuple[Atom, ...], value: Atom, bounds: Bounds, src: SrcInfo
    ) -> None:
        assert isinstance(ref.type, Ref)
        array = self.env[ref]
        place = self.place(ref, array, indices, bounds, src)
        with np.errstate(all="ignore"):
            before, more = array[place].copy(), self.atom(value)
            array[place] = COMBINE[ref.type.monoid](before, more)
            if ref in self.lows:
                self.lows[ref][place] += lost(before, more, array[place])
        if ref in self.counts:
            self.counts[ref][place] += 1
        self.work.operations += 1
        self.work.accesses += 1

    def round(self, ref: Var) -> None:
        """Make a sum a number, or numbers, of its type."""
        held, low = value_of(ref), self.lows.pop(ref, None)
        with np.errstate(all="ignore"):
            total = self.env[ref]
            if low is not None:
                total = np.where(np.isnan(total + low), total, total + low)
            self.env[ref] = total.astype((held.elem if isinstance(held, Table) else held).dtype)

    def place(
        self, table: Var, array: Value, indices: tuple[Atom, ...], bounds: Bounds, src: SrcInfo
    ) -> tuple[int, ...]:
        """The indices as ints; tested whatever `bounds` says, since this is the oracle."""
        place = tuple(map(self.size, indices))
        for axis, (index, size) in enumerate(zip(place, array.shape, strict=False)):
            if not 0 <= index < size:
                if bounds is Bounds.PROVED:
                    raise AssertionError(f"proved index {index} of {table!r} is out of bounds")
                text = bounds_text(table.name, axis)
                raise bounds_error(text, index, size, src, self.iteration())
        return place
