"""Blocks to statements: what one thread does, one binding after the other.

Values are expressions for scalars, places for tables, targets for references.  A table result is
written straight into its final place: whoever lowers a block says where its results shall go, and
the binding that makes one writes there.  Views are places with another offset; only what lies
elsewhere is copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import assert_never

from peffects.codegen.lower.checks import check_failure
from peffects.codegen.lower.facts import has_no_loops
from peffects.codegen.lower.kernel import TablePlace
from peffects.codegen.lower.sums import SumLowering, adds_in
from peffects.codegen.lower.values import ProgramScope, Target, Value
from peffects.codegen.program.loop_ir import (
    SHORT_STEPS,
    Apply,
    Assign,
    Branch,
    Expr,
    Fail,
    ForLoop,
    Local,
    Operand,
    Stmt,
    Store,
    Until,
    literal,
    locals_in,
    plus,
    times,
    type_of,
)
from peffects.ir import primitives as p
from peffects.ir.syntax import (
    F64,
    I64,
    SCALARS,
    Accumulate,
    Atom,
    Binding,
    Block,
    Check,
    Cond,
    Fold,
    For,
    Idx,
    Index,
    Lit,
    Prim,
    Scalar,
    Table,
    Update,
    Var,
    While,
    WithAcc,
)
from peffects.ir.typing import set_of
from peffects.source import SrcInfo

__all__ = ["BlockLowering", "ProgramScope", "Target", "Value"]


class BlockLowering(SumLowering):
    """Lowers blocks into the kernel `k`."""

    # --- blocks -------------------------------------------------------------------------------

    def block(self, block: Block, places: Sequence[TablePlace | None]) -> list[Value]:
        """Lower `block`; the tables among its results go to `places`, where there are any."""
        wanted: dict[Var, TablePlace] = {}
        # What is a result twice may have to stay where it is, as a carry that is overwritten.
        stays = {a for a, place in zip(block.results, places, strict=True) if place is None}
        for atom, place in zip(block.results, places, strict=True):
            if place is not None and isinstance(atom, Var) and atom not in stays:
                wanted.setdefault(atom, place)
                for base in self.sources(atom):  # made there, it is overwritten there
                    wanted.setdefault(base, place)
        for binding in block.bindings:
            self.binding(binding, wanted)
        return [self.result(a, place) for a, place in zip(block.results, places, strict=True)]

    def sources(self, var: Var) -> Iterator[Var]:
        """The tables in whose memory `var` lies."""
        source = self.scope.facts.overwriting.source
        while var in source:
            var = source[var]
            yield var

    def result(self, atom: Atom, place: TablePlace | None) -> Value:
        """The value of a block's result, brought to its place."""
        if isinstance(atom.type, Scalar | Idx):
            return self.scalar(atom)
        assert isinstance(atom, Var), "there are no literal tables"
        found = self.place(atom)
        if place is None or found == place:
            return found
        self.copy(place, found)
        return place

    def binding(self, binding: Binding, wanted: dict[Var, TablePlace]) -> None:
        """Lower one binding; `wanted` says where tables shall go."""
        self.k.line(binding.src)
        variables = binding.vars
        match binding.expr:
            case Prim(op, args):
                self.bind(variables[0], self.prim(op, args, variables[0]))
            case Index(table, indices, bounds):
                self.bind(variables[0], self.index(table, indices, bounds, binding.src))
            case Update() as update:
                self.update(update, variables[0], wanted, binding.src)
            case For() as loop:
                self.loop(loop, variables, wanted)
            case Fold() as fold:
                self.fold(fold, variables, wanted)
            case While() as loop:
                self.while_loop(loop, variables, wanted)
            case Cond() as cond:
                self.cond(cond, variables, wanted)
            case WithAcc() as with_acc:
                self.with_acc(with_acc, variables, wanted)
            case Accumulate() as accumulation:
                self.accumulate(accumulation, binding.src)
            case Check() as check:
                self.check(check, binding.src)
            case other:
                assert_never(other)

    # --- loops --------------------------------------------------------------------------------

    @contextmanager
    def looping(
        self, ordered: bool, body: list[Stmt], binders: Sequence[Var] = ()
    ) -> Iterator[None]:
        """Append to the body of a loop whose iterations run in order, or in any order."""
        outer, self._ordered = self._ordered, ordered
        self._depth += 1
        with self.k.into(body), self.scope.inside(binders):
            yield
        self._depth -= 1
        self._ordered = outer

    def loop(self, loop: For, variables: tuple[Var, ...], wanted: dict[Var, TablePlace]) -> None:
        """A parallel loop inside a kernel: nested serial loops."""
        places = [self.new_place(var, wanted) for var in variables]
        self._axis(loop, 0, [None if x is None else x.offset for x in places], places)
        for var, place in zip(variables, places, strict=True):
            assert place is not None, "a loop makes tables"
            self.scope.values[var] = place

    def _axis(
        self,
        loop: For,
        axis: int,
        rows: Sequence[Operand | None],
        places: Sequence[TablePlace | None],
    ) -> None:
        """The loop over one binder, or the body after the last; `rows` are offsets in results."""
        if axis == len(loop.binders):
            self.rows(loop.body, rows, places, axis)
            return
        binder = loop.binders[axis]
        size = self.scalar(set_of(binder).size)
        index, body = self.k.local(binder.name, I64), list[Stmt]()
        self.scope.values[binder] = index
        is_last = axis == len(loop.binders) - 1
        hoisted = self.hoist(loop.body, binder) if is_last else []
        sums = self.sums_in(loop.body)
        rest = Block((Binding((), For(loop.binders[axis + 1 :], loop.body)),), ())
        adds = adds_in(loop.body if is_last else rest, sums)
        with self.looping(False, body, (binder,)):
            inner = [
                None
                if place is None or row is None
                else self.row(row, index, place.dims[axis + 1 :], is_last)
                for row, place in zip(rows, places, strict=True)
            ]
            self._axis(loop, axis + 1, inner, places)
            if adds is None:
                self.flush_all(sums.values())
        self.add_loop(index, size, body, sums.values() if adds else (), adds or 1)
        self.put_hoisted(hoisted)

    def row(self, base: Expr, index: Local, rest: Sequence[Atom], last: bool) -> Operand:
        """The offset of row `index` of a table at `base` whose rows have the sizes `rest`."""
        at = plus(base, times(index, self.elements(rest)))
        return at if last and not rest else self.k.operand("base", at)  # type: ignore[return-value]

    def rows(
        self,
        body: Block,
        offsets: Sequence[Expr | None],
        places: Sequence[TablePlace | None],
        axes: int,
    ) -> None:
        """Lower the body of a loop over `axes` axes; its results go to rows of `places`."""
        rows = [
            TablePlace(place.memory, offset, place.dims[axes:])  # type: ignore[arg-type]
            if place is not None and offset is not None and place.dims[axes:]
            else None
            for offset, place in zip(offsets, places, strict=True)
        ]
        values = self.block(body, rows)
        for value, offset, place in zip(values, offsets, places, strict=True):
            if not isinstance(value, TablePlace | Target):
                assert place is not None and offset is not None, "a loop makes tables"
                self.k.emit(Store(place.memory, offset, value))

    def fold(self, fold: Fold, variables: tuple[Var, ...], wanted: dict[Var, TablePlace]) -> None:
        """A sequential loop."""
        count = len(fold.carries)
        places = [self.new_place(var, wanted) for var in variables[count:]]
        size = self.scalar(set_of(fold.binder).size)
        carried = self.start(fold.carries, fold.inits, variables, wanted)
        index, body = self.k.local(fold.binder.name, I64), list[Stmt]()
        self.scope.values[fold.binder] = index
        with self.looping(True, body, (fold.binder,)):
            rows = self.halves(fold.carries, carried)
            offsets = []
            for place in places:
                assert place is not None, "outputs are tables"
                rest = place.dims[1:]
                offset = self.row(place.offset, index, rest, True)
                offsets.append(offset)
                rows.append(TablePlace(place.memory, offset, rest) if rest else None)
            values = self.block(fold.body, rows)
            for value, offset, place in zip(values[count:], offsets, places, strict=True):
                if not isinstance(value, TablePlace | Target):
                    assert place is not None, "outputs are tables"
                    self.k.emit(Store(place.memory, offset, value))
            self.advance(carried, values[:count])
            self.flush_in_order(fold.body, index)
        poll = 0 if self._depth else SHORT_STEPS if has_no_loops(fold.body) else 1
        self.k.emit(ForLoop(index, literal(0), size, tuple(body), fold.reverse, poll))
        self.finish(variables[:count], carried, wanted)
        for var, place in zip(variables[count:], places, strict=True):
            assert place is not None, "outputs are tables"
            self.scope.values[var] = place

    def while_loop(
        self, loop: While, variables: tuple[Var, ...], wanted: dict[Var, TablePlace]
    ) -> None:
        """A loop of unknown length."""
        carried = self.start(loop.carries, loop.inits, variables, wanted)
        test, body = list[Stmt](), list[Stmt]()
        with self.looping(True, test):
            (go_on,) = self.block(loop.test, [None])
            assert not isinstance(go_on, TablePlace | Target), "the test gives a bool"
        with self.looping(True, body):
            values = self.block(loop.body, self.halves(loop.carries, carried))
            self.advance(carried, values)
            self.flush_all(self.sums_in(loop.body).values())
        self.k.emit(Until(tuple(test), go_on, tuple(body)))
        self.finish(variables, carried, wanted)

    # --- carried values -----------------------------------------------------------------------
    # A scalar is a local.  A table has memory for two: the loop reads one half and writes the
    # other, and the local that holds the offset of the current half flips.  A table that is only
    # overwritten in place needs no other half.

    def start(
        self,
        carries: tuple[Var, ...],
        inits: tuple[Atom, ...],
        variables: Sequence[Var],
        wanted: dict[Var, TablePlace],
    ) -> list[Local | TablePlace]:
        """Storage for carried values, set to their start."""
        starts = [self.scalar(x) if not isinstance(x.type, Table) else None for x in inits]
        carried: list[Local | TablePlace] = []
        for carry, init, value, var in zip(carries, inits, starts, variables, strict=False):
            if value is not None:
                local = self.k.local(carry.name, type_of(value))
                self.k.emit(Assign(local, value))
                carried.append(local)
                self.scope.values[carry] = local
                continue
            assert isinstance(carry.type, Table) and isinstance(init, Var)
            if carry in self.scope.facts.overwriting.kept:
                carried.append(self.start_kept(carry, init, var, wanted))
                continue
            dims = tuple(dim.size for dim in carry.type.dims)
            memory = self.memory(carry.name, carry.type.elem, (Lit(2, I64), *dims))
            offset = self.k.assign(f"{carry.name}_half", literal(0))
            place = TablePlace(memory, offset, dims)
            self.copy(TablePlace(memory, literal(0), dims), self.place(init))
            carried.append(place)
            self.scope.values[carry] = place
        return carried

    def start_kept(
        self, carry: Var, init: Var, var: Var, wanted: dict[Var, TablePlace]
    ) -> TablePlace:
        """The place of a table that is overwritten: of its start, or of the result."""
        start = self.place(init)
        place: TablePlace | None = start
        if carry not in self.scope.facts.overwriting.source:
            place = self.new_place(var, wanted)
            assert place is not None, "a table is carried"
            self.copy(place, start)
        assert place is not None, "a table is carried"
        self.scope.values[carry] = place
        return place

    def halves(
        self, carries: Sequence[Var], carried: Sequence[Local | TablePlace]
    ) -> list[TablePlace | None]:
        """Where the next values of carried tables go; None where they are at their place."""
        kept = self.scope.facts.overwriting.kept
        return [
            None if isinstance(value, Local) or carry in kept else self.other_half(value)
            for carry, value in zip(carries, carried, strict=True)
        ]

    def other_half(self, carry: TablePlace) -> TablePlace:
        """Where the next value of a carried table goes."""
        size = self.elements(carry.dims)
        other = self.k.assign("other", Apply(p.SUB, (size, carry.offset), I64))
        return TablePlace(carry.memory, other, carry.dims)

    def advance(self, carried: Sequence[Local | TablePlace], values: Sequence[Value]) -> None:
        """Make `values` the carried ones, all at once."""
        pairs: list[tuple[Local, Expr]] = []
        for carry, value in zip(carried, values, strict=True):
            if isinstance(carry, Local):
                assert not isinstance(value, TablePlace | Target)
                pairs.append((carry, value))
            elif value != carry:
                assert isinstance(value, TablePlace) and isinstance(carry.offset, Local)
                pairs.append((carry.offset, value.offset))
        changed: set[Local] = set()
        ready: list[tuple[Local, Expr]] = []
        for local, value in pairs:
            if changed.intersection(locals_in(value)):
                value = self.k.assign(f"{local.name}_next", value)
            ready.append((local, value))
            changed.add(local)
        for local, value in ready:
            if local is not value:
                self.k.emit(Assign(local, value))

    def finish(
        self,
        variables: Sequence[Var],
        carried: Sequence[Local | TablePlace],
        wanted: dict[Var, TablePlace],
    ) -> None:
        """Bind the last carried values."""
        for var, carry in zip(variables, carried, strict=True):
            if var in wanted and isinstance(carry, TablePlace) and carry != wanted[var]:
                self.copy(wanted[var], carry)
                self.scope.values[var] = wanted[var]
            else:
                self.scope.values[var] = carry

    # --- branches -----------------------------------------------------------------------------

    def cond(self, cond: Cond, variables: tuple[Var, ...], wanted: dict[Var, TablePlace]) -> None:
        """One of two blocks; both write their results to the same places."""
        pred = self.scalar(cond.pred)
        results: list[Local | TablePlace] = []
        for var in variables:
            place = self.result_place(var, wanted)
            t = I64 if isinstance(var.type, Idx) else var.type
            results.append(self.k.local(var.name, t) if isinstance(t, Scalar) else place)  # type: ignore[arg-type]
        sides = []
        for block in (cond.then, cond.orelse):
            body = list[Stmt]()
            with self.k.into(body):
                values = self.block(
                    block, [x if isinstance(x, TablePlace) else None for x in results]
                )
                for result, value in zip(results, values, strict=True):
                    if isinstance(result, Local) and not isinstance(value, TablePlace | Target):
                        self.k.emit(Assign(result, value))
            sides.append(tuple(body))
        self.k.emit(Branch(pred, *sides))
        self.scope.values.update(zip(variables, results, strict=True))

    def result_place(self, var: Var, wanted: dict[Var, TablePlace]) -> TablePlace | None:
        """Where a result of a branch goes: to the table that both sides overwrite, if they do."""
        source = self.scope.facts.overwriting.source.get(var)
        return self.new_place(var, wanted) if source is None else self.place(source)

    # --- overwriting --------------------------------------------------------------------------

    def update(self, expr: Update, var: Var, wanted: dict[Var, TablePlace], src: SrcInfo) -> None:
        """`var = table[indices] <- value`: into the table's memory, or into a copy."""
        place = source = self.place(expr.table)
        if var not in self.scope.facts.overwriting.source:
            new = self.new_place(var, wanted)
            assert new is not None, "an update gives a table"
            place = new
            if place != source:
                self.copy(place, source)
        at = self.k.operand("at", self.offset(place, var, expr.indices, expr.bounds, src))
        self.scope.values[var] = place
        rest = place.dims[len(expr.indices) :]
        if rest:
            assert isinstance(expr.value, Var)
            self.copy(TablePlace(place.memory, at, rest), self.place(expr.value))
        else:
            self.k.emit(Store(place.memory, at, self.scalar(expr.value)))

    # --- accumulators -------------------------------------------------------------------------

    def with_acc(
        self, expr: WithAcc, variables: tuple[Var, ...], wanted: dict[Var, TablePlace]
    ) -> None:
        """Accumulators: scalars are locals, tables lie where their final value is wanted."""
        count = len(expr.body.results)
        targets = [
            self.new_target(ref, expr.body, wanted.get(var))
            for ref, var in zip(expr.refs, variables[count:], strict=True)
        ]
        self.scope.values.update(zip(expr.refs, targets, strict=True))
        values = self.block(expr.body, [wanted.get(var) for var in variables[:count]])
        for var, value in zip(variables[:count], values, strict=True):
            self.bind(var, value)
        for var, target in zip(variables[count:], targets, strict=True):
            elem = var.type.elem if isinstance(var.type, Table) else var.type
            assert isinstance(elem, Scalar)
            self.scope.values[var] = self.finished(target, elem, wanted.get(var))

    # --- checks -------------------------------------------------------------------------------

    def check(self, check: Check, src: SrcInfo) -> None:
        """Stop with the user's error unless the condition holds."""
        translated = check_failure(check, src)
        shown: list[Expr] = [*map(self.scalar, translated.shown)]
        if check.tells:
            number = self.scope.failure(translated.failure)
            told = self.k.tell(number, [*map(_word, shown)])
            self.k.emit(Branch(self.scalar(check.ok), (), told))
            return
        number, around = self.failure(translated.failure)
        shown += [literal(0)] * (2 - len(shown))
        fail = Fail(number, shown[0], shown[1], (*shown[2:], *around))
        self.k.emit(Branch(self.scalar(check.ok), (), (fail,)))


def _word(value: Expr) -> Expr:
    """A scalar in 64 bits, as a record of what is printed holds it: a float as a double's bits."""
    t = type_of(value)
    if t.is_float:
        wide = value if t == F64 else Apply(p.CAST[F64], (value,), F64)
        value = Apply(p.TO_BITS, (wide,), SCALARS["uint64"])
    return value if t == I64 else Apply(p.CAST[I64], (value,), I64)
