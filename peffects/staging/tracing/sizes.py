"""Which index sets are the same: union-find over the sizes that a trace meets.

Every axis of an array parameter has a size variable of its own; a loop whose index set is not
given gets a *placeholder*.  `unify` makes two sets one.  What that means depends on what is known
of them:

* a placeholder takes over the other side;
* axes, literals and integer parameters become one class, and the class becomes `Fact`s, which the
  launch checks, as long as an axis is among them;
* two literals that differ are the user's mistake, found at once;
* all else (a size that the kernel computes) needs a test at run time, which the caller emits.

`resolve` ends a trace: placeholders are replaced and facts written down.  Layer: imports `ir/`
only.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from peffects.ir.syntax import I64, Atom, Fact, Lit, SizeParam, Var
from peffects.source import UNKNOWN, SrcInfo

__all__ = ["Resolution", "Sizes", "Verdict"]


class Verdict(enum.Enum):
    """What came of an attempt to make two index sets one."""

    SAME = "the same from here on"
    TEST = "equal if a test at run time says so"
    DIFFERENT = "two different numbers"


class _Kind(enum.IntEnum):
    """What a size is; the order is that of preference when a class chooses its representative."""

    LITERAL = 0
    AXIS = 1
    SCALAR = 2
    COMPUTED = 3
    PLACEHOLDER = 4


@dataclass(slots=True)
class _Member:
    atom: Atom
    kind: _Kind
    text: str
    src: SrcInfo = UNKNOWN
    param: int = 0
    axis: int = 0


@dataclass(slots=True)
class _Class:
    members: list[_Member] = field(default_factory=list)

    @property
    def known(self) -> bool:
        return any(member.kind is not _Kind.PLACEHOLDER for member in self.members)

    def has(self, kind: _Kind) -> bool:
        return any(member.kind is kind for member in self.members)

    def best(self) -> _Member:
        return min(self.members, key=lambda member: member.kind)


@dataclass(frozen=True, slots=True)
class Resolution:
    """How placeholders and merged axes are replaced, and what the launch binds and checks."""

    mapping: dict[Var, Atom]
    sizes: tuple[SizeParam, ...]
    facts: tuple[Fact, ...]


class Sizes:
    """All sizes of one trace."""

    def __init__(self) -> None:
        self._classes: dict[Atom, _Class] = {}

    # --- making sizes ----------------------------------------------------------------------------

    def placeholder(self, name: str) -> Var:
        """The unknown size of a loop's index set."""
        return self._new(_Kind.PLACEHOLDER, name, f"the set of `{name}`")

    def axis(self, param: int, axis: int, name: str) -> Var:
        """The length of an axis of the array parameter `name`."""
        size = self._new(_Kind.AXIS, f"{name}_{axis}", f"axis {axis} of `{name}`")
        (member,) = self._classes[size].members
        member.param, member.axis = param, axis
        return size

    def scalar(self, param: Var) -> None:
        """Say that `param` is a parameter: an i64 that is known at launch."""
        self._classes[param] = _Class([_Member(param, _Kind.SCALAR, f"`{param.name}`")])

    def _new(self, kind: _Kind, name: str, text: str) -> Var:
        size = Var(name, I64)
        self._classes[size] = _Class([_Member(size, kind, text)])
        return size

    def _class(self, atom: Atom) -> _Class:
        if atom not in self._classes:
            literal = isinstance(atom, Lit)
            text = f"`Fin({atom.value})`" if isinstance(atom, Lit) else "a computed size"
            kind = _Kind.LITERAL if literal else _Kind.COMPUTED
            self._classes[atom] = _Class([_Member(atom, kind, text)])
        return self._classes[atom]

    # --- asking ----------------------------------------------------------------------------------

    def representative(self, atom: Atom) -> Atom:
        """The atom that stands for the size `atom` now."""
        return self._classes[atom].best().atom if atom in self._classes else atom

    def is_known(self, atom: Atom) -> bool:
        """Whether the size is more than a placeholder."""
        return self._class(atom).known

    def is_length(self, atom: Atom) -> bool:
        """Whether `atom` is surely not negative: an axis, a literal length, or a placeholder."""
        kind = self._class(atom).best().kind
        return kind in (_Kind.AXIS, _Kind.LITERAL, _Kind.PLACEHOLDER)

    def is_given(self, atom: Atom) -> bool:
        """Whether `atom` is known at launch: an axis, a literal, an integer argument."""
        return self._class(atom).best().kind < _Kind.COMPUTED

    def is_computed(self, atom: Atom) -> bool:
        """Whether `atom` is a value of the kernel: no axis, no literal, no argument."""
        return self._class(atom).best().kind is _Kind.COMPUTED

    def same(self, left: Atom, right: Atom) -> bool:
        """Whether two sizes are one."""
        return self._class(left) is self._class(right)

    # --- unifying --------------------------------------------------------------------------------

    def unify(self, left: Atom, right: Atom, src: SrcInfo) -> Verdict:
        """Make two sizes one, because of what the user wrote at `src`."""
        a, b = self._class(left), self._class(right)
        if a is b:
            return Verdict.SAME
        if a.known and b.known:
            verdict = _verdict(a, b)
            if verdict is not Verdict.SAME:
                return verdict
            for member in (*a.members, *b.members):
                member.src = member.src if member.src.line else src
        merged = _Class([*a.members, *b.members])
        for member in merged.members:
            self._classes[member.atom] = merged
        return Verdict.SAME

    def resolve(self) -> Resolution:
        """What becomes of all sizes at the end of the trace."""
        mapping: dict[Var, Atom] = {}
        sizes: list[SizeParam] = []
        facts: list[Fact] = []
        for group in {id(group): group for group in self._classes.values()}.values():
            best = group.best()
            for member in group.members:
                if member.kind is _Kind.AXIS and member is best:
                    assert isinstance(member.atom, Var)
                    sizes.append(SizeParam(member.atom, member.param, member.axis))
                elif member is not best and isinstance(member.atom, Var):
                    mapping[member.atom] = best.atom  # of a scalar, too: a fact says they are equal
                facts.extend(_facts(member, best, group))
        sizes.sort(key=lambda size: (size.param, size.axis))
        facts.sort(key=lambda fact: (fact.param, fact.axis))
        return Resolution(mapping, tuple(sizes), tuple(facts))


def _verdict(a: _Class, b: _Class) -> Verdict:
    """What can be said of two classes whose sizes are both known."""
    if a.has(_Kind.LITERAL) and b.has(_Kind.LITERAL):
        return Verdict.DIFFERENT
    if a.has(_Kind.COMPUTED) or b.has(_Kind.COMPUTED):
        return Verdict.TEST
    return Verdict.SAME if a.has(_Kind.AXIS) or b.has(_Kind.AXIS) else Verdict.TEST


def _facts(member: _Member, best: _Member, group: _Class) -> list[Fact]:
    """What the launch checks about `member`: that it is the class's size."""
    if member is best:
        return []
    if member.kind is _Kind.AXIS:
        return [Fact(member.param, member.axis, best.atom, best.text, member.src)]
    if member.kind is _Kind.SCALAR:
        axis = next(other for other in group.members if other.kind is _Kind.AXIS)
        return [Fact(axis.param, axis.axis, member.atom, member.text, member.src)]
    return []
