"""The parameters of a program that is being staged: arguments, and what the kernel reads besides.

`reach` meets every value that the kernel's code reads from outside, with the path that leads to it.
A number or an array becomes a hidden parameter; anything else is used as it is, under a guard.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from types import FunctionType
from typing import Any

import numpy as np

from peffects.errors import KernelTypeError
from peffects.ir.syntax import I64, FinSet, Table, Var
from peffects.parallel.index_sets.dependent import Ragged
from peffects.parallel.index_sets.packed import Packed
from peffects.staging.captures.reads import (
    Capture,
    Constant,
    Path,
    SameObject,
    StepKind,
    Unchanged,
    token_of,
)
from peffects.staging.scalars.static_values import plain
from peffects.staging.scalars.symbols import ScalarTracer, is_symbolic
from peffects.staging.structures.complex_numbers import ComplexArithmetic
from peffects.staging.structures.packing import declare
from peffects.staging.structures.tables import TableTracer
from peffects.staging.structures.trees import (
    LEAF,
    Node,
    flatten,
    is_array_of_parts,
    is_tree,
    parts_of,
    unflatten,
)
from peffects.staging.tracing.argument_types import ArrayType, ScalarType, type_of
from peffects.staging.tracing.promotion import scalar_of
from peffects.staging.tracing.trace import Arrays, Trace, here

__all__ = ["KernelInputs"]

_CONTAINERS = (tuple, list, dict, set, bytearray, deque)
_MOST_ENTRIES = 1000
"""A container with more is not reached entry by entry, but guarded as a whole."""


class KernelInputs:
    """Parameters, captures and guards of one trace."""

    complexes = ComplexArithmetic()

    def __init__(
        self,
        resolve: Callable[[Callable[..., object]], Callable[..., object]],
        arrays: Arrays,
    ) -> None:
        self.resolve = resolve
        self.arrays = arrays
        self.trace: Trace | None = None
        self.params: list[Var] = []
        self.captures: list[Capture] = []
        self.guards: list[Unchanged | SameObject] = []
        self._paths: dict[int, tuple[Path, object]] = {}
        self._reached: dict[tuple[object, ...], object] = {}

    def parameter(self, kind: ArrayType | ScalarType, name: str) -> ScalarTracer | TableTracer:
        """A new parameter of the program."""
        trace = self.trace
        assert trace is not None, "parameters are made while a trace is going on"
        scalar = scalar_of(kind.dtype)
        if scalar is None:
            raise KernelTypeError(
                f"`{name}` has dtype {kind.dtype}, which kernels do not have.",
                at=here(),
                fix=_advice(kind.dtype),
            )
        place = len(self.params)
        if isinstance(kind, ScalarType) or kind.ndim == 0:
            var = Var(name, scalar)
            self.params.append(var)
            if scalar == I64:
                trace.sizes.scalar(var)
            weak = isinstance(kind, ScalarType) and kind.weak
            return ScalarTracer(var, scalar, weak, trace.root)
        dims = tuple(FinSet(trace.sizes.axis(place, k, name)) for k in range(kind.ndim))
        var = Var(name, Table(dims, scalar))
        self.params.append(var)
        return TableTracer(var, trace.root, name)

    # --- what is read from outside ---------------------------------------------------------------

    def know(self, value: object, path: Path) -> None:
        """Remember how `value` is reached: of several ways the first one."""
        value = getattr(value, "_pe_function", value)  # what `@effectful` wraps
        first, _ = self._paths.setdefault(id(value), (path, value))
        if first != path and isinstance(value, FunctionType):
            self.guards.append(SameObject(path, first))

    def path_of(self, value: object) -> Path:
        """How `value` was reached."""
        known = self._paths.get(id(value))
        return known[0] if known is not None else Path(Constant(value))

    def is_known(self, value: object) -> bool:
        """Whether `value` was reached by a recorded path."""
        return id(value) in self._paths

    def reach(self, value: object, path: Path) -> object:
        """What the kernel gets in place of `value`, which `path` leads to."""
        if is_symbolic(value):
            return value
        if is_array_of_parts(value) or isinstance(value, complex | np.complexfloating):
            return self._parts(value, path)
        key = self._key(path)
        if key not in self._reached:
            self._reached[key] = self._reach(value, path)
        return self._reached[key]

    def _reach(self, value: object, path: Path) -> object:
        kind = type_of(value)
        if kind is None or isinstance(value, bool | np.bool_ | enum.Enum):
            if isinstance(value, _CONTAINERS):
                return self._container(value, path)
            if isinstance(value, Packed | Ragged):
                return self._packed(value, path)
            self.know(value, path)
            self.guards.append(Unchanged(path, token_of(value)))
            return plain(value)
        self.captures.append(Capture(path, kind))
        return self.parameter(kind, path.name)

    def _container(self, value: Any, path: Path) -> object:
        """A copy with what the entries become; of unusual containers the value itself."""
        if not is_tree(value) or len(value) > _MOST_ENTRIES:
            self.know(value, path)
            self._guard(StepKind.KEYS, value, path)
            if isinstance(value, dict):
                self._guard(StepKind.VALUES, value, path)
            return value
        self._guard(StepKind.KEYS if isinstance(value, dict) else StepKind.LENGTH, value, path)
        entries = {
            key: self._entry(entry, path.then(StepKind.ITEM, key)) for key, entry in parts_of(value)
        }
        tree = Node(type(value), tuple(entries), (LEAF,) * len(entries))
        copy = unflatten(tree, list(entries.values()))
        self.know(copy, path)
        return copy

    def _packed(self, value: Packed | Ragged, path: Path) -> object:
        """A packed table or a ragged set from outside: its arrays become parameters."""
        self.know(value, path)
        self._guard(StepKind.ATTRIBUTE, value, path, "__class__")
        parts = {
            name: self.reach(part, path.then(StepKind.ATTRIBUTE, name))
            for name, part in parts_of(value)
        }
        copy = unflatten(Node(type(value), tuple(parts), (LEAF,) * len(parts)), [*parts.values()])
        if isinstance(copy, Packed) and self.trace is not None:
            with self.trace.at(self.trace.root):
                declare(copy, path.name)
        return copy

    def _parts(self, value: object, path: Path) -> object:
        """A complex number, or an array of complex numbers or with named fields, by its parts."""
        self._guard(StepKind.FORM, value, path)
        leaves, tree = flatten(value)
        paths = _paths_of_leaves(value, path)
        parts = [self.reach(leaf, way) for leaf, way in zip(leaves, paths, strict=True)]
        return unflatten(tree, parts)

    def record(self, value: object) -> object:
        """A dataclass from outside with its fields as the kernel reads them."""
        assert self.trace is not None, "records are read while a trace is going on"
        if is_symbolic(value) or not is_dataclass(value) or self.trace.was_made(value):
            return value
        path = self.path_of(value)
        fields = [
            self.record(self.reach(part, path.then(StepKind.ATTRIBUTE, name)))
            for name, part in parts_of(value)
        ]
        leaves = [leaf for field in fields for leaf in flatten(field)[0]]
        tree = Node(
            type(value),
            tuple(name for name, _ in parts_of(value)),
            tuple(flatten(field)[1] for field in fields),
        )
        return unflatten(tree, leaves)

    def _guard(self, kind: StepKind, value: object, path: Path, key: object = None) -> None:
        """Ask that a step from `value` leads to the same as now."""
        path = path.then(kind, key)
        self.guards.append(Unchanged(path, token_of(path.steps[-1].read(value))))

    def _entry(self, entry: object, path: Path) -> object:
        """What the kernel gets for an entry, which it may not use at all."""
        kind = type_of(entry)
        if kind is not None and scalar_of(kind.dtype) is None:
            self.guards.append(Unchanged(path, token_of(entry)))
            return entry
        return self.reach(entry, path)

    def _key(self, path: Path) -> tuple[object, ...]:
        start = path.start
        first = ("object", id(start.value)) if isinstance(start, Constant) else (start,)
        if isinstance(start, Constant):
            self.know(start.value, Path(start))  # keeps it alive, so that its id stays its own
        return (*first, *path.steps)

    def capture(self, value: object) -> object:
        """The hidden parameter for an array that is met without having been read by a name."""
        if type_of(value) is None and not is_array_of_parts(value):
            return value
        return self.reach(value, self.path_of(value))

    def elements(self, values: list[object] | tuple[object, ...]) -> list[object]:
        """The elements of a sequence from outside, each with its path."""
        path = self.path_of(values)
        self._guard(StepKind.LENGTH, values, path)
        return [self.reach(v, path.then(StepKind.ITEM, k)) for k, v in enumerate(values)]


_CONVERSIONS = {
    "float": "Convert it: `x.astype(float)`.",
    "longdouble": "Convert it: `x.astype(float)`.",
    "float16": "Convert it: `x.astype(np.float32)`.",
    "complex": "Convert it: `x.astype(complex)`.",
    "clongdouble": "Convert it: `x.astype(complex)`.",
    "object": "Convert it, if it holds numbers: `x.astype(float)`.",
    "str": "Turn text into numbers before the kernel.",
    "bytes": "Turn text into numbers before the kernel.",
    "datetime": "Convert it, and count in its unit: `x.astype(np.int64)`.",
    "timedelta": "Convert it, and count in its unit: `x.astype(np.int64)`.",
}


def _advice(dtype: str) -> str:
    """What to do with an array of a dtype that kernels do not have."""
    name = max((name for name in _CONVERSIONS if dtype.startswith(name)), key=len, default="")
    have = "Kernels compute with bools, integers, floats of 32 and 64 bits and complex numbers."
    return f"{_CONVERSIONS[name]} {have}" if name else have


def _paths_of_leaves(value: object, path: Path) -> Iterator[Path]:
    """The ways to the leaves of a value that has parts."""
    if not is_tree(value):
        yield path
        return
    for key, part in parts_of(value):
        kind = StepKind.ATTRIBUTE if key in ("real", "imag") and not _has_fields(value) else None
        yield from _paths_of_leaves(part, path.then(kind or StepKind.ITEM, key))


def _has_fields(value: object) -> bool:
    return getattr(getattr(value, "dtype", None), "names", None) is not None
