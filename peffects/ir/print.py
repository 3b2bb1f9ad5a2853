"""Prints programs for people, for golden tests, and, with `canonical=True`, as cache keys.

Names are made unique with a number where two variables share a hint.  The canonical text depends on
nothing but the program's meaning: hints, labels and user lines are left out of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from peffects.ir.syntax import (
    Accumulate,
    Atom,
    Binding,
    Block,
    Bounds,
    Check,
    Cond,
    FinSet,
    Fold,
    For,
    Idx,
    Index,
    Lit,
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
from peffects.ir.typing import set_of
from peffects.source import UNKNOWN, SrcInfo

_MARK = {Bounds.PROVED: "", Bounds.CHECKED: "?", Bounds.UNCHECKED: "!"}


def print_program(program: Program, *, canonical: bool = False) -> str:
    """The text of a program in the notation of `ir/syntax.py`."""
    return _Printer(canonical).program(program)


def lines_with_places(program: Program) -> list[tuple[str, SrcInfo]]:
    """The lines of `print_program`, each with the user's line that it comes from."""
    printer = _Printer(canonical=False)
    printer.program(program)
    return list(zip(printer.lines, printer.places, strict=True))


def print_block(block: Block) -> str:
    """The text of a block with free variables."""
    printer = _Printer(canonical=False)
    printer.block(block, 0)
    return "\n".join(printer.lines)


class _Printer:
    def __init__(self, canonical: bool) -> None:
        self.canonical = canonical
        self.names: dict[Var, str] = {}
        self.taken: dict[str, int] = {}
        self.lines: list[str] = []
        self.places: list[SrcInfo] = []
        self.at = UNKNOWN

    def name(self, var: Var) -> str:
        if var not in self.names:
            hint = "v" if self.canonical else var.name
            count = self.taken.get(hint, 0)
            self.taken[hint] = count + 1
            self.names[var] = f"{hint}{count}" if count or self.canonical else hint
        return self.names[var]

    def atom(self, atom: Atom) -> str:
        if isinstance(atom, Lit):
            return f"{atom.value!r}:{atom.type}" if self.canonical else _literal(atom)
        return self.name(atom)

    def atoms(self, atoms: Sequence[Atom]) -> str:
        return ", ".join(map(self.atom, atoms))

    def set(self, index_set: FinSet) -> str:
        size = self.atom(index_set.size)
        show = index_set.label and not self.canonical and index_set.label != size
        return f"{size}({index_set.label})" if show else size

    def type(self, t: Type) -> str:
        match t:
            case Scalar(name):
                return name
            case Table(dims, elem):
                return "=>".join([*map(self.set, dims), elem.name])
            case Idx(index_set):
                return f"Idx {self.set(index_set)}"
            case Ref(monoid, value):
                return f"Ref {monoid.value} {self.type(value)}"
            case _:
                assert_never(t)

    def typed(self, var: Var) -> str:
        return f"{self.name(var)}:{self.type(var.type)}"

    def binder(self, var: Var) -> str:
        return f"{self.name(var)}:{self.set(set_of(var))}"

    def put(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)
        self.places.append(self.at)

    def program(self, program: Program) -> str:
        sizes = ", ".join(
            f"{self.name(s.var)} = {self.name(program.params[s.param])}.{s.axis}"
            for s in program.sizes
        )
        params = ", ".join(map(self.typed, program.params))
        self.at = program.src
        title = "program" if self.canonical else program.name
        self.put(0, f"{title}({params})" + (f"   sizes {sizes}" if sizes else ""))
        for fact in program.facts:
            param = self.name(program.params[fact.param])
            where = "" if self.canonical else f"   ({fact.src.short()})"
            self.put(1, f"fact {param}.{fact.axis} = {self.atom(fact.size)}{where}")
        self.block(program.body, 1)
        return "\n".join(self.lines)

    def block(self, block: Block, depth: int) -> None:
        for binding in block.bindings:
            self.binding(binding, depth)
        if block.results or not block.bindings:
            self.put(depth, f"-> {self.atoms(block.results)}".rstrip())

    def binding(self, binding: Binding, depth: int) -> None:
        self.at = binding.src
        head, blocks = self.expr(binding)
        left = self.left(binding) if binding.vars else ""
        self.put(depth, left + head)
        for title, block in blocks:
            self.at = binding.src
            if title:
                self.put(depth, title)
            self.block(block, depth + 1)

    def left(self, binding: Binding) -> str:
        if self.canonical:
            return ", ".join(map(self.typed, binding.vars)) + " = "
        return ", ".join(map(self.name, binding.vars)) + " = "

    def expr(self, binding: Binding) -> tuple[str, list[tuple[str, Block]]]:
        match binding.expr:
            case Prim(op, args):
                return f"{op.name}({self.atoms(args)})", []
            case Index(table, indices, bounds):
                return f"{self.name(table)}[{self.atoms(indices)}]{_MARK[bounds]}", []
            case Update(table, indices, value, bounds):
                place = f"{self.name(table)}[{self.atoms(indices)}]{_MARK[bounds]}"
                return f"{place} <- {self.atom(value)}", []
            case For(binders, body):
                return f"for {', '.join(map(self.binder, binders))}.", [("", body)]
            case Fold(binder, reverse, carries, inits, body, running):
                rev = (" rev" if reverse else "") + (" running" if running else "")
                pairs = self.carried(carries, inits)
                return f"fold{rev} {self.binder(binder)}; {pairs}.", [("", body)]
            case While(carries, inits, test, body):
                return f"while {self.carried(carries, inits)}.", [("", test), ("do", body)]
            case Cond(pred, then, orelse):
                return f"cond {self.atom(pred)}", [("then", then), ("else", orelse)]
            case WithAcc(refs, body):
                return f"with_acc {', '.join(map(self.typed, refs))}.", [("", body)]
            case Accumulate(ref, indices, value, bounds):
                place = f"[{self.atoms(indices)}]{_MARK[bounds]}" if indices else ""
                assert isinstance(ref.type, Ref)
                sign = ref.type.monoid.value
                return f"{self.name(ref)}{place} {sign}= {self.atom(value)}", []
            case Check(ok, error, text, operands, _, tells):
                extra = f" ({self.atoms(operands)})" if operands else ""
                if tells:
                    return f"tell {text!r}{extra}", []
                return f"check {self.atom(ok)} {error.code} {text!r}{extra}", []
            case other:
                assert_never(other)

    def carried(self, carries: Sequence[Var], inits: Sequence[Atom]) -> str:
        starts = [self.atom(init) for init in inits]
        return ", ".join(f"{self.typed(c)} = {s}" for c, s in zip(carries, starts, strict=True))


def _literal(lit: Lit) -> str:
    text = repr(lit.value)
    return text if lit.type.name in ("f64", "i64", "bool") else f"{text}{lit.type.name}"
