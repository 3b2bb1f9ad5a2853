"""What the clauses of a handler do to its fields, where a parallel `for` would lose it.

Each iteration runs under a fork of the handler.  What becomes of a fork is lost unless the answer
of the iteration holds it: always with a `BasicHandler`, with a `CollectHandler` for the fields that
its `ret` does not read.  Assignments are found in the source when the class is defined; what code
does in other ways (`setattr`, helpers) is found when an iteration ends, by comparing the fields.
Layer 1; used by `clauses.py`, `resuming/parallel_for.py` and `running/stack.py`.
"""

from __future__ import annotations

import ast
import inspect
import operator
import pickle
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, ClassVar, Final, NamedTuple

from peffects.errors import TraverseError
from peffects.function_trees import FunctionNode, find_source
from peffects.machine.checking.locations import Site, place_of_site
from peffects.source import SrcInfo

__all__: list[str] = []

_SETTERS: Final = frozenset({"setattr", "delattr"})
_METHOD_SETTERS: Final = frozenset({"__setattr__", "__delattr__"})
_DICT_SETTERS: Final = frozenset(
    {"__setitem__", "__delitem__", "clear", "pop", "popitem", "setdefault", "update"}
)
PLAIN: Final = frozenset({int, float, complex, str, bytes, bool, type(None)})
"""Types whose values nobody can change."""
_LIMIT: Final = 1 << 16
"""Bytes of the pickled fields up to which they are compared in a worker process."""


class Losing(NamedTuple):
    """Which handlers lose what iterations do to their fields: why, and all fields but which.

    `sure` says that no clause sets a field that is lost, as the source shows.
    """

    why: str
    kept: frozenset[str]
    sure: bool


# --- in the source -----------------------------------------------------------------------------


def rebound_field(cls: type, function: Callable[..., Any]) -> str | None:
    """A field of `self` that `function` of class `cls` assigns to, itself or through a helper."""
    return _SourceReader(cls).assigned(inspect.unwrap(function), 0)


def _is_name(node: ast.AST, names: set[str]) -> bool:
    if isinstance(node, ast.NamedExpr):
        return _is_name(node.value, names)
    return isinstance(node, ast.Name) and node.id in names


def _walk(function: FunctionNode, names: set[str]) -> Iterator[ast.AST]:
    """What stands in a function, but for functions in it whose parameters hide one of `names`."""
    pending: list[ast.AST] = [function]
    while pending:
        node = pending.pop()
        if isinstance(node, FunctionNode) and node is not function:
            arguments = [n.arg for n in ast.walk(node.args) if isinstance(n, ast.arg)]
            if names.intersection(arguments):
                continue
        yield node
        pending.extend(ast.iter_child_nodes(node))


class _SourceReader:
    """Looks for assignments to the fields of one object, through the functions that get it."""

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.seen: set[tuple[int, int]] = set()

    def assigned(self, function: object, position: int) -> str | None:
        """A field of the parameter at `position` that `function` assigns to."""
        if not isinstance(function, FunctionType) or (id(function), position) in self.seen:
            return None
        self.seen.add((id(function), position))
        source = find_source(function.__code__)
        if source is None or position >= function.__code__.co_argcount:
            return None
        names = _aliases(source.node, function.__code__.co_varnames[position])
        for node in _walk(source.node, names):
            found = _stored(node, names)
            if found is None and isinstance(node, ast.Call):
                found = self._through_call(node, names, function)
            if found is not None:
                return found
        return None

    def _through_call(self, call: ast.Call, names: set[str], function: FunctionType) -> str | None:
        """A field that is assigned to by what `call` calls."""
        given = [at for at, argument in enumerate(call.args) if _is_name(argument, names)]
        match call.func:
            case ast.Name(id=name) if name in _SETTERS and given[:1] == [0]:
                return _constant(call.args[1:2])
            case ast.Attribute(attr=name) if name in _METHOD_SETTERS:
                own = _is_name(call.func.value, names)
                return _constant(call.args[0 if own else 1 :]) if own or given[:1] == [0] else None
            case ast.Attribute(value=value, attr=name) if _is_dict_of(value, names):
                return "__dict__" if name in _DICT_SETTERS else None
            case ast.Attribute(value=value, attr=name):
                bound = _is_name(value, names) or _is_super(value)
                positions = [0, *(at + 1 for at in given)] if bound else given
                targets = self._methods(name) if positions else ()
            case ast.Name(id=name):
                positions = given
                targets = iter([_global(function, name)])
            case _:
                return None
        for target in targets:
            for position in positions:
                found = self.assigned(target, position)
                if found is not None:
                    return found
        return None

    def _methods(self, name: str) -> Iterator[object]:
        """What a call of method `name` may mean: `super()` and overriding are not followed."""
        for base in self.cls.__mro__:
            if name in base.__dict__ and not base.__module__.startswith("peffects."):
                found = base.__dict__[name]
                yield getattr(found, "_pe_function", found)


def _aliases(node: ast.AST, name: str) -> set[str]:
    """The local names of what `name` is."""
    names = {name}
    while True:
        more = {
            target.id
            for found in ast.walk(node)
            if isinstance(found, ast.Assign | ast.AnnAssign | ast.NamedExpr)
            and found.value is not None
            and _is_name(found.value, names)
            for target in (found.targets if isinstance(found, ast.Assign) else [found.target])
            if isinstance(target, ast.Name)
        }
        if more <= names:
            return names
        names |= more


def _stored(node: ast.AST, names: set[str]) -> str | None:
    """The field that is a target: of an assignment, a `for`, a `with`, a `del`."""
    if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
        if isinstance(node, ast.Attribute) and _is_name(node.value, names):
            return node.attr
        if isinstance(node, ast.Subscript) and _is_dict_of(node.value, names):
            return _constant([node.slice])
    return None


def _is_dict_of(node: ast.AST, names: set[str]) -> bool:
    match node:
        case ast.Attribute(value=value, attr="__dict__"):
            return _is_name(value, names)
        case ast.Call(func=ast.Name(id="vars"), args=[argument]):
            return _is_name(argument, names)
    return False


def _is_super(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _is_name(node.func, {"super"})


def _constant(nodes: list[ast.expr]) -> str:
    name = nodes[0].value if nodes and isinstance(nodes[0], ast.Constant) else None
    return name if isinstance(name, str) else "__dict__"


def _global(function: FunctionType, name: str) -> object:
    """What a name means in a function, if it is no local one."""
    if name in function.__code__.co_freevars and function.__closure__ is not None:
        cell = function.__closure__[function.__code__.co_freevars.index(name)]
        try:
            return cell.cell_contents
        except ValueError:  # not yet bound
            return None
    return function.__globals__.get(name)


# --- when an iteration ends --------------------------------------------------------------------


class Watch:
    """The fields that iterations of a loop start with, and must end with.

    A worker process gets a copy, of which it also knows what the fields hold: a list that
    iterations of this process append to is the handler's own list, there it is a copy.
    """

    __slots__ = ("fields", "held", "losing", "name", "place", "site")
    asks_here: ClassVar[bool] = True
    """Whether iterations of this process have to ask at their end."""

    def __init__(
        self,
        fields: dict[str, Any],
        name: str,
        losing: Losing,
        site: Site | SrcInfo,
        place: SrcInfo,
    ) -> None:
        self.fields = fields
        self.name = name
        self.losing = losing
        self.site = site
        self.place = place
        self.held: dict[str, bytes] | None = None

    def over(self, handler: object) -> Watch:
        """The same of this handler: while staging, numbers in its fields have become symbols."""
        return type(self)(dict(vars(handler)), self.name, self.losing, self.site, self.place)

    def lost(self, handler: object) -> TraverseError | None:
        """What an iteration has done to the fields of its handler."""
        before, now = self.fields, vars(handler)
        if len(now) != len(before) or not all(map(operator.is_, now.values(), before.values())):
            for name in {**before, **now}:
                if name not in self.losing.kept and not _same(before, now, name):
                    return self._lost(name, f"{_shown(before, name)} before, {_shown(now, name)}")
        for name, held in (self.held or {}).items():
            if name in now and _contents(now[name]) != held:
                return self._lost(name, f"a copy here, now {_shown(now, name)}")
        return None

    def _lost(self, field: str, how: str) -> TraverseError:
        return TraverseError(
            f"handler `{self.name}` {self.losing.why}, and an iteration of a parallel for changes"
            f" its field `{field}` ({how} after it), which would be lost.",
            at=self.place,
            notes=(f"handler installed at {place_of_site(self.site).short()}",),
            fix="Let the iterations' answers hold it: a `CollectHandler` whose `ret` gives the"
            f" `{field}` of an iteration and whose `collect` puts them together; or use"
            " `accumulate`; or write the loop sequentially: `for i in n: yield from body(i)`.",
        )

    def __reduce__(self) -> tuple[object, ...]:
        site = place_of_site(self.site)
        return _watch_copies, (self.fields, self.name, self.losing, site, self.place)


class WatchElsewhere(Watch):
    """For clauses that are known to set nothing: only a worker process has to look at its copy."""

    __slots__ = ()
    asks_here = False


def _watch_copies(*parts: Any) -> Watch:
    made = Watch(*parts)
    held = {
        name: _contents(value)
        for name, value in made.fields.items()
        if type(value) not in PLAIN and name not in made.losing.kept
    }
    made.held = {name: b for name, b in held.items() if b is not None and len(b) <= _LIMIT} or None
    return made


def _contents(value: object) -> bytes | None:
    try:
        return pickle.dumps(value)
    except Exception:  # a part of the user's may raise anything
        return None  # what has no bytes cannot be compared


def _same(before: dict[str, Any], now: dict[str, Any], name: str) -> bool:
    if name not in before or name not in now:
        return False
    a, b = before[name], now[name]
    return a is b or (type(a) is type(b) and type(a) in PLAIN and (a == b or (a != a and b != b)))


def _shown(fields: dict[str, Any], name: str) -> str:
    return f"{fields[name]!r:.40}" if name in fields else "not there"
