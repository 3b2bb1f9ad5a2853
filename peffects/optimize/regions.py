"""A block without its accumulator scopes, and back.

`with_acc` says where an accumulator lives; what matters to a pass that reorders is less: the final
value comes after everything that accumulates.  `flatten` turns a block into nodes: its bindings,
with those inside of scopes, and for each accumulator a node that closes it.  `nest` puts the nodes
in a topological order and scopes around them again, each as short as the order allows.  So
neighboring and directly nested scopes become one, and what does not depend on a scope stands before
or behind it.

Sets of nodes are integers, a bit for each node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from peffects.ir.builder import fresh_like
from peffects.ir.rename import Renamer
from peffects.ir.syntax import Atom, Binding, Block, Var, WithAcc
from peffects.ir.traverse import sizes_of
from peffects.optimize.facts import FactTable, Footprint

Bits: TypeAlias = int
Shape: TypeAlias = "list[int | tuple[frozenset[Var], Shape]]"


@dataclass(slots=True)
class Node:
    """A binding; or, with `closes`, the point where an accumulator has its final value.

    `needs` must run before; `behind` is everything that must.
    """

    binding: Binding
    facts: Footprint
    closes: Var | None = None
    needs: Bits = 0
    behind: Bits = 0


@dataclass(slots=True)
class Flat:
    """The nodes of a block in their order, None where one was merged into another."""

    nodes: list[Node | None] = field(default_factory=list)
    results: tuple[Atom, ...] = ()
    shape: Shape = field(default_factory=list)
    writers: dict[Var, Bits] = field(default_factory=dict)

    def node(self, k: int) -> Node:
        """The node with number `k`, which exists."""
        node = self.nodes[k]
        assert node is not None
        return node

    def merge(self, into: int, other: int, binding: Binding, facts: Footprint) -> None:
        """Make one node of two; nothing that `other` needs may be behind `into`."""
        one, two, joined = self.node(into), self.node(other), 1 << into
        gone = 1 << other
        needs = (one.needs | two.needs) & ~joined
        behind = (one.behind | two.behind) & ~joined
        self.nodes[into] = Node(binding, facts, None, needs, behind)
        self.nodes[other] = None
        for node in self.nodes:
            if node is not None:
                if node.needs & gone:
                    node.needs = node.needs & ~gone | joined
                if node.behind & (gone | joined):
                    node.behind = node.behind & ~gone | joined | behind
        for ref, writers in self.writers.items():
            if writers & gone:
                self.writers[ref] = writers & ~gone | joined


def bits(mask: Bits) -> Iterator[int]:
    """The members of a set of nodes, in order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _lowest(mask: Bits) -> int:
    return (mask & -mask).bit_length() - 1


# --- flattening ----------------------------------------------------------------------------------


def flatten(block: Block, facts: FactTable) -> Flat:
    """The nodes of `block`.  A result of a scope is replaced by what it stands for inside."""
    walk = _Flattener(facts)
    walk.flat.shape = walk.region(block)
    walk.flat.results = tuple(map(walk.atom, block.results))
    return walk.flat


class _Flattener(Renamer):
    def __init__(self, facts: FactTable) -> None:
        super().__init__({}, fresh=False)
        self.facts = facts
        self.flat = Flat()
        self.definers: dict[Var, int] = {}
        self.last_failing = -1

    def region(self, block: Block) -> Shape:
        shape: Shape = []
        for binding in block.bindings:
            if isinstance(binding.expr, WithAcc):
                shape.append(self.scope(binding, binding.expr))
                continue
            if self.mapping and not self.facts.of(binding.expr).uses.isdisjoint(self.mapping):
                binding = self.binding(binding)
            shape.append(len(self.flat.nodes))
            self.add(Node(binding, self.facts.of(binding.expr)))
        return shape

    def scope(self, binding: Binding, scope: WithAcc) -> tuple[frozenset[Var], Shape]:
        refs = tuple(map(self.bind, scope.refs))
        self.flat.writers.update((ref, 0) for ref in refs)
        shape = self.region(scope.body)
        count = len(scope.body.results)
        results = map(self.atom, scope.body.results)
        self.mapping.update(zip(binding.vars[:count], results, strict=True))
        for ref, final in zip(refs, binding.vars[count:], strict=True):
            empty = Binding((self.bind(final),), WithAcc((ref,), Block((), ())), binding.src)
            self.add(Node(empty, self.facts.of(empty.expr), ref), self.flat.writers[ref])
        return frozenset(refs), shape

    def add(self, node: Node, needs: Bits = 0) -> None:
        number = len(self.flat.nodes)
        uses: set[Atom] = {*node.facts.uses}
        for ref in node.facts.writes:
            uses.update(sizes_of(ref.type))
            if ref in self.flat.writers:
                self.flat.writers[ref] |= 1 << number
        for var in uses:
            if isinstance(var, Var) and var in self.definers:
                needs |= 1 << self.definers[var]
        if (node.facts.fails or node.facts.trusts) and self.last_failing >= 0:
            needs |= 1 << self.last_failing
        if node.facts.fails:
            self.last_failing = number
        node.needs = node.behind = needs
        for other in bits(needs):
            node.behind |= self.flat.node(other).behind
        self.definers.update((var, number) for var in node.binding.vars)
        self.flat.nodes.append(node)


# --- ordering ------------------------------------------------------------------------------------


class _Scheduler:
    """Chooses an order with little between the first and the last write of an accumulator."""

    def __init__(self, flat: Flat) -> None:
        self.flat = flat
        self.done: Bits = 0
        self.ready: Bits = 0
        self.open: list[Var] = []
        self.closing: Bits = 0
        self.writing: Bits = 0
        self.users: dict[int, list[int]] = {}
        for number, node in enumerate(flat.nodes):
            if node is None:
                continue
            for other in bits(node.needs):
                self.users.setdefault(other, []).append(number)
            self.closing |= bool(node.closes) << number
            self.ready |= (not node.needs) << number
        for writers in flat.writers.values():
            self.writing |= writers

    def order(self) -> list[int]:
        chosen = []
        while self.ready:
            number = self.choose()
            node = self.flat.node(number)
            chosen.append(number)
            self.done |= 1 << number
            self.ready ^= 1 << number
            for user in self.users.get(number, ()):
                if not self.flat.node(user).needs & ~self.done:
                    self.ready |= 1 << user
            if node.closes in self.open:
                self.open.remove(node.closes)
            self.open += [
                ref
                for ref in node.facts.writes
                if ref in self.flat.writers and ref not in self.open
            ]
        return chosen

    def choose(self) -> int:
        """Close what can be closed; else what open accumulators wait for; else the first."""
        if self.ready & self.closing:
            return _lowest(self.ready & self.closing)
        if self.open:
            waiting = self.waiting(self.open)
            return _lowest(self.ready & waiting or self.ready & self.behind(waiting))
        first = _lowest(self.ready)
        if not self.writing >> first & 1:
            return first
        written = [ref for ref in self.flat.node(first).facts.writes if ref in self.flat.writers]
        before = self.ready & self.behind(self.waiting(written)) & ~self.writing
        return _lowest(before) if before else first

    def waiting(self, refs: Iterable[Var]) -> Bits:
        found = 0
        for ref in refs:
            found |= self.flat.writers[ref]
        return found & ~self.done

    def behind(self, nodes: Bits) -> Bits:
        found = 0
        for number in bits(nodes):
            found |= self.flat.node(number).behind
        return found


# --- nesting -------------------------------------------------------------------------------------


class _SizeEscapesError(Exception):
    """A value would leave a scope in which the size of its type is computed."""


@dataclass(slots=True)
class _Region:
    """Where accumulators live: places in the sequence of nodes, both included."""

    start: int
    end: int
    refs: list[Var]
    inner: list[_Region] = field(default_factory=list)


def nest(flat: Flat) -> Block | None:
    """The block in its new order with scopes as short as can be.

    None if that is the order and the scopes that it had, or if sizes keep it from being built.
    """
    nester = _Nester(flat)
    if None not in flat.nodes and nester.shape(0, nester.end, nester.regions) == flat.shape:
        return None
    try:
        bindings = nester.bindings(0, nester.end, nester.regions)
    except _SizeEscapesError:
        return None
    return Block(tuple(bindings), flat.results)


class _Nester:
    def __init__(self, flat: Flat) -> None:
        self.flat = flat
        order = _Scheduler(flat).order()
        self.closers = {node.closes: node for node in flat.nodes if node and node.closes}
        self.sequence = [
            k for k in order if not (ref := flat.node(k).closes) or not flat.writers[ref]
        ]
        self.end = len(self.sequence)
        self.last_use: dict[Atom, int] = {}
        self.place_of: dict[Atom, int] = {}
        for place, number in enumerate(self.sequence):
            node = flat.node(number)
            self.last_use.update((var, place) for var in node.facts.uses)
            self.place_of.update((var, place) for var in node.binding.vars)
        self.last_use.update((atom, self.end) for atom in flat.results)
        self.regions = _tree(self.spans())

    def spans(self) -> list[_Region]:
        """A region for each accumulator, from its first write to its last; none overlap partly."""
        places: dict[Var, list[int]] = {}
        for place, number in enumerate(self.sequence):
            for ref in self.flat.node(number).facts.writes:
                if ref in self.closers:
                    places.setdefault(ref, []).append(place)
        spans = {
            ref: _Region(places[ref][0], places[ref][-1], [ref])
            for ref in self.closers
            if ref in places
        }
        regions = sorted(spans.values(), key=lambda r: r.end)
        for k, outer in enumerate(regions):  # ends in order: only a later end can be the outer
            for region in regions[:k]:
                if region.start < outer.start <= region.end < outer.end:
                    outer.start = region.start
        return regions

    def shape(self, start: int, end: int, regions: list[_Region]) -> Shape:
        shape: Shape = []
        for region in regions:
            shape += [self.item(k) for k in range(start, region.start)]
            inner = self.shape(region.start, region.end + 1, region.inner)
            shape.append((frozenset(region.refs), inner))
            start = region.end + 1
        return shape + [self.item(k) for k in range(start, end)]

    def item(self, place: int) -> int | tuple[frozenset[Var], Shape]:
        ref = self.flat.node(self.sequence[place]).closes
        return self.sequence[place] if ref is None else (frozenset((ref,)), [])

    def bindings(self, start: int, end: int, regions: list[_Region]) -> list[Binding]:
        out: list[Binding] = []
        for region in regions:
            out += self.plain(start, region.start)
            out.append(self.scope(region))
            start = region.end + 1
        return out + self.plain(start, end)

    def plain(self, start: int, end: int) -> list[Binding]:
        return [self.flat.node(k).binding for k in self.sequence[start:end]]

    def scope(self, region: _Region) -> Binding:
        """What is used behind the scope gets a second name inside."""
        inner = self.bindings(region.start, region.end + 1, region.inner)
        exports = {
            var: fresh_like(var)
            for binding in inner
            for var in binding.vars
            if self.last_use.get(var, -1) > region.end
        }
        for var in (*exports, *region.refs):
            if any(self.place_of.get(size, -1) >= region.start for size in sizes_of(var.type)):
                raise _SizeEscapesError
        renamer = Renamer(exports, fresh=False)
        inner = [_renamed(binding, renamer, exports) for binding in inner] if exports else inner
        closers = [self.closers[ref] for ref in region.refs]
        finals = [final for closer in closers for final in closer.binding.vars]
        scope = WithAcc(tuple(region.refs), Block(tuple(inner), tuple(exports.values())))
        return Binding((*exports, *finals), scope, closers[0].binding.src)


def _renamed(binding: Binding, renamer: Renamer, exports: dict[Var, Var]) -> Binding:
    new = renamer.binding(binding)
    variables = zip(binding.vars, new.vars, strict=True)
    return Binding(tuple(exports.get(old, var) for old, var in variables), new.expr, new.src)


def _tree(regions: list[_Region]) -> list[_Region]:
    """Regions inside regions; those with the same places become one."""
    top: list[_Region] = []
    around: list[_Region] = []
    for region in sorted(regions, key=lambda r: (r.start, -r.end)):
        while around and around[-1].end < region.start:
            around.pop()
        if around and (around[-1].start, around[-1].end) == (region.start, region.end):
            around[-1].refs += region.refs
            continue
        (around[-1].inner if around else top).append(region)
        around.append(region)
    return top
