"""Sizes that are equal by algebra are one atom, computed in the outermost block that can.

A size that users compute, such as `len(x) - 1`, is brought into one form: a sum of products of
whole numbers with unknowns, and with terms `min(d, 0)` of such sums d.  Since `max(a, b)` is
`a + b - min(a, b)` and `min(a, b)` is `b + min(a - b, 0)`, the clipped lengths of slices have it,
too, and `len(x[:1]) + len(x[1:])` is `len(x)`.  What is equal only for some arguments is not
decided here: a test at run time is.

A size in this form needs nothing but its unknowns, so a table of `len(x) - 1` elements in the body
of a loop has a size that is known outside of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from peffects.ir import primitives as op
from peffects.ir.builder import int_lit
from peffects.ir.syntax import Atom, Lit, Prim, Var
from peffects.staging.tracing.trace import OpenBlock, Trace, staging

__all__ = ["is_natural", "outermost"]

_MOST_TERMS = 12


@dataclass(frozen=True, slots=True)
class AtMostZero:
    """`min(form, 0)`."""

    form: Form


@dataclass(frozen=True, slots=True)
class Quotient:
    """`form // divisor`, for a literal that is more than 0."""

    form: Form
    divisor: int


Term: TypeAlias = "Var | AtMostZero | Quotient"


@dataclass(frozen=True, slots=True)
class Form:
    """A sum of terms, each so many times, and a constant."""

    terms: frozenset[tuple[Term, int]] = frozenset()
    constant: int = 0

    def plus(self, other: Form, times: int = 1) -> Form:
        """`self + times * other`."""
        terms = dict(self.terms)
        for term, count in other.terms:
            terms[term] = terms.get(term, 0) + times * count
        kept = frozenset((term, count) for term, count in terms.items() if count)
        return Form(kept, self.constant + times * other.constant)

    def only(self) -> Term | None:
        """The term that it is, if it is one."""
        ((term, count),) = self.terms if len(self.terms) == 1 else ((None, 0),)
        return term if count == 1 and not self.constant else None


def _constant(value: int) -> Form:
    return Form(constant=value)


def _of(term: Term) -> Form:
    return Form(frozenset({(term, 1)}))


def outermost(atom: Atom, scope: OpenBlock) -> tuple[Atom, OpenBlock]:
    """The integer `atom`, known in `scope`, as the one atom of its form, and the block of that."""
    trace = staging()
    found = _FormReader(trace).form(atom, scope)
    if not found.terms:
        return int_lit(found.constant), trace.root
    home = _home(trace, found, scope)
    term = found.only()
    if isinstance(term, Var):
        return term, home
    key = ("form", found)
    known = trace.lengths.get(key)
    if known is not None and known[0].encloses(trace.scope):
        return known[1], known[0]
    if trace.numbers.get(atom, (None, None))[0] is not home:
        with trace.at(home):
            atom = _emit(trace, found, atom.name if isinstance(atom, Var) else "size")
    trace.lengths[key] = home, atom
    return atom, home


def is_natural(atom: Atom) -> bool:
    """Whether an integer is surely not negative."""
    trace = staging()
    return _is_natural(trace, _FormReader(trace).form(atom, trace.scope))


# --- from atoms to forms -------------------------------------------------------------------------


class _FormReader:
    """Brings atoms into their form."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.left = 64  # of long chains of arithmetic the end is enough

    def form(self, atom: Atom, scope: OpenBlock) -> Form:
        """The form of an integer that is known in `scope`."""
        atom = self.trace.sizes.representative(atom)
        if isinstance(atom, Lit):
            return _constant(int(atom.value))
        made, prim = self.trace.numbers.get(atom, (None, None))
        self.left -= 1
        if made is None or prim is None or self.left < 0:
            return _of(atom)
        found = self._arithmetic(prim, made)
        return _of(atom) if found is None or len(found.terms) > _MOST_TERMS else found

    def _arithmetic(self, prim: Prim, scope: OpenBlock) -> Form | None:
        """The form of what `prim` computes; None if it has none."""
        if prim.op not in _RULES:
            return None
        args = [self.form(arg, scope) for arg in prim.args]
        return _RULES[prim.op](self.trace, *args)


def _product(trace: Trace, x: Form, y: Form) -> Form | None:
    if x.terms and y.terms:
        return None
    many, factor = (x, y.constant) if x.terms else (y, x.constant)
    return _constant(0).plus(many, factor)


def _quotient(trace: Trace, x: Form, y: Form) -> Form | None:
    divisor = y.constant
    if y.terms or divisor < 1:
        return None
    if all(count % divisor == 0 for _, count in x.terms):
        whole = frozenset((term, count // divisor) for term, count in x.terms)
        return Form(whole, x.constant // divisor)
    return _of(Quotient(x, divisor)) if x.terms else _constant(x.constant // divisor)


def _least(trace: Trace, x: Form, y: Form) -> Form:
    """`min(x, y)`, which is `y + min(x - y, 0)`."""
    return y.plus(_below(trace, x.plus(y, -1)))


def _below(trace: Trace, form: Form) -> Form:
    """`min(form, 0)`; of a form and its opposite one has the term: `min(-d, 0) = min(d, 0) - d`."""
    opposite = _constant(0).plus(form, -1)
    if _is_natural(trace, form):
        return _constant(0)
    if _is_natural(trace, opposite):
        return form
    if _sign(form) < 0:
        return _of(AtMostZero(opposite)).plus(opposite, -1)
    return _of(AtMostZero(form))


def _most(trace: Trace, x: Form, y: Form) -> Form:
    """`max(x, y)`."""
    return x.plus(y).plus(_least(trace, x, y), -1)


_RULES: dict[op.Primitive, Callable[..., Form | None]] = {
    op.ADD: lambda trace, x, y: x.plus(y),
    op.SUB: lambda trace, x, y: x.plus(y, -1),
    op.NEG: lambda trace, x: _constant(0).plus(x, -1),
    op.MUL: _product, op.FLOORDIV: _quotient, op.MIN: _least, op.MAX: _most,
}  # fmt: skip


def _serials(term: Term) -> list[int]:
    """What puts terms into an order."""
    if isinstance(term, Var):
        return [0, term.serial]
    return [1, *(part for inner, _ in _ordered(term.form) for part in _serials(inner))]


def _ordered(form: Form) -> list[tuple[Term, int]]:
    return sorted(form.terms, key=lambda pair: (_serials(pair[0]), pair[1]))


def _sign(form: Form) -> int:
    """That of the first term, for the choice between a form and its opposite."""
    return _ordered(form)[0][1] if form.terms else form.constant


def _is_natural(trace: Trace, form: Form) -> bool:
    """Whether all parts of a sum are surely not negative."""
    return form.constant >= 0 and all(
        count > 0 and _is_natural_term(trace, term) for term, count in form.terms
    )


def _is_natural_term(trace: Trace, term: Term) -> bool:
    if isinstance(term, Quotient):
        return _is_natural(trace, term.form)
    if not isinstance(term, Var):
        return False
    made, prim = trace.numbers.get(term, (trace.home_of(term), None))
    if prim is not None and prim.op is op.ORDINAL:
        return True
    # A test further in may not be made where the size is computed.
    tested = any(term in scope.nonnegative for scope in made.up())
    return tested or trace.sizes.is_length(term)


# --- from forms to atoms -------------------------------------------------------------------------


def _unknowns(form: Form) -> Iterator[Var]:
    for term, _ in form.terms:
        if isinstance(term, Var):
            yield term
        else:
            yield from _unknowns(term.form)


def _home(trace: Trace, form: Form, scope: OpenBlock) -> OpenBlock:
    """The outermost block that knows all unknowns of a form that is known in `scope`."""
    found = trace.root
    for var in _unknowns(form):
        made, _ = trace.numbers.get(var, (None, None))
        if made is None:  # an argument, an axis; of all else it is not known where it was made
            made = trace.home_of(var) if trace.sizes.is_given(var) else scope
        found = made if found.encloses(made) else found
    return found


def _emit(trace: Trace, form: Form, name: str) -> Atom:
    """The integer of a form, computed in the innermost open block."""
    total: Atom | None = None
    for term, count in _ordered(form):
        part = _term(trace, term)
        if abs(count) != 1:
            part = trace.prim(op.MUL, part, int_lit(abs(count)))
        if total is None:
            total = part if count > 0 else trace.prim(op.NEG, part)
        else:
            total = trace.prim(op.ADD if count > 0 else op.SUB, total, part)
    assert total is not None, "a constant is a literal"
    if not form.constant:
        return total
    primitive = op.ADD if form.constant > 0 else op.SUB
    return trace.prim(primitive, total, int_lit(abs(form.constant)), name=name)


def _term(trace: Trace, term: Term) -> Atom:
    if isinstance(term, Var):
        return term
    if isinstance(term, AtMostZero):
        return trace.prim(op.MIN, _emit(trace, term.form, "t"), int_lit(0))
    return trace.prim(op.FLOORDIV, _emit(trace, term.form, "t"), int_lit(term.divisor))
