"""Writes in rewritten code: what a kernel may change, and what is refused.

A kernel's Python code runs once, so it may change only what the block that is being staged made
itself.  `a[i] = v`, `a.x = v` and `+=` have hooks of their own; every other target (of a tuple, a
starred name, a `for`, a `with`, a chain, a `del`) is written through a `WriteTarget`.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from peffects.errors import KernelTypeError, SideEffectError
from peffects.machine.checking.locations import speaks_for_users
from peffects.staging.captures.inputs import KernelInputs
from peffects.staging.captures.purity import change_fix
from peffects.staging.hooks.states import StateTracer
from peffects.staging.scalars.for_user import for_user, has_symbols, remainder, what
from peffects.staging.scalars.symbols import ScalarTracer, is_symbolic
from peffects.staging.structures.accumulators import AccumulatorTracer, UncheckedTracer
from peffects.staging.structures.records import RecordAccumulator
from peffects.staging.structures.tables import TableTracer, refuse_write
from peffects.staging.tracing.trace import Trace, current, here

__all__ = ["WriteTarget", "Writes", "attribute_of", "inputs_of"]

_AUGMENT: dict[str, tuple[str, Callable[[Any, Any], object]]] = {
    "+=": ("__iadd__", operator.iadd), "-=": ("__isub__", operator.isub),
    "*=": ("__imul__", operator.imul), "/=": ("__itruediv__", operator.itruediv),
    "//=": ("__ifloordiv__", operator.ifloordiv), "%=": ("__imod__", operator.imod),
    "**=": ("__ipow__", operator.ipow), "@=": ("__imatmul__", operator.imatmul),
    "&=": ("__iand__", operator.iand), "|=": ("__ior__", operator.ior),
    "^=": ("__ixor__", operator.ixor), "<<=": ("__ilshift__", operator.ilshift),
    ">>=": ("__irshift__", operator.irshift),
}  # fmt: skip


def inputs_of(trace: Trace) -> KernelInputs:
    """The inputs of the trace, with their paths."""
    assert isinstance(trace.inputs, KernelInputs)
    return trace.inputs


@speaks_for_users
def attribute_of(owner: object, name: str) -> object:
    """`owner.name`.  Raises KernelTypeError if it is a symbol without such an attribute."""
    try:
        return getattr(owner, name)
    except AttributeError as error:
        if current() is None or not has_symbols((owner,)):
            raise
        known = {ScalarTracer: "a number of a kernel", TableTracer: "a table of a kernel"}
        raise KernelTypeError(
            f"{known.get(type(owner), what(owner))} has no attribute `{name}`.",
            at=here(),
            fix="Another type is `int(v)`, `float(v)` or `np.float32(v)`; functions of numpy "
            "and of `pe` take numbers and tables.",
        ) from error


def _check_change(trace: Trace, value: object, part: str) -> None:
    if is_symbolic(value) and not trace.may_change(value):
        raise KernelTypeError(
            f"{part} {what(value)} is changed.",
            at=here(),
            fix="Make a new value: `x = x + 1`; `dataclasses.replace(r, x=1)`.",
        )
    if not trace.may_change(value):
        raise SideEffectError(
            f"{part} {what(value)} is changed, which was made outside {trace.scope.kind.value}.",
            at=here(),
            fix=change_fix(trace),
        )


def _check_item(trace: Trace, owner: object) -> None:
    """Raise unless an element of `owner` may be written; symbols refuse by themselves."""
    if isinstance(owner, np.ndarray):
        refuse_write(inputs_of(trace).path_of(owner).name)
    if not is_symbolic(owner):
        _check_change(trace, owner, "an element of")


def _check_attribute(trace: Trace, owner: object, name: str) -> None:
    if trace.effects is not None and trace.effects.may_rebind(owner):
        return
    _check_change(trace, owner, f"the attribute `{name}` of")


class WriteTarget:
    """`owner` as the object of a target: `place(a)[i]` and `place(a).x` may be written to."""

    __slots__ = ("_owner", "_trace")

    def __init__(self, trace: Trace, owner: object) -> None:
        object.__setattr__(self, "_trace", trace)
        object.__setattr__(self, "_owner", owner)

    _trace: Trace
    _owner: Any

    def __setitem__(self, key: object, value: object) -> None:
        _check_item(self._trace, self._owner)
        for_user(operator.setitem, self._owner, key, value)

    def __delitem__(self, key: object) -> None:
        if is_symbolic(self._owner):
            refuse_write(getattr(self._owner, "name", "a table"))
        _check_item(self._trace, self._owner)
        for_user(operator.delitem, self._owner, key)

    def __setattr__(self, name: str, value: object) -> None:
        _check_attribute(self._trace, self._owner, name)
        setattr(self._owner, name, value)

    def __delattr__(self, name: str) -> None:
        _check_attribute(self._trace, self._owner, name)
        delattr(self._owner, name)


class Writes(ABC):
    """The hooks of writes."""

    @abstractmethod
    def item(self, owner: object, key: object) -> object:
        """`owner[key]`."""

    def place(self, owner: object) -> object:
        """What stands for `owner` in a target."""
        trace = current()
        return owner if trace is None else WriteTarget(trace, owner)

    def set_item(self, owner: object, key: object, value: object) -> None:
        """`owner[key] = value`."""
        trace = current()
        if trace is not None:
            _check_item(trace, owner)
        for_user(operator.setitem, owner, key, value)

    def set_attribute(self, owner: object, name: str, value: object) -> None:
        """`owner.name = value`."""
        trace = current()
        if trace is not None:
            _check_attribute(trace, owner, name)
        setattr(owner, name, value)

    def augmented(self, symbol: str, target: object, value: object) -> object:
        """`target += value` for a local `target`; its new value."""
        trace = current()
        method, operation = _AUGMENT[symbol]
        if trace is not None and hasattr(type(target), method) and not is_symbolic(target):
            _check_change(trace, target, "the contents of")
        if symbol == "%=" and isinstance(target, str | bytes):
            return remainder(target, value)
        return for_user(operation, target, value)

    def augmented_attribute(self, symbol: str, owner: object, name: str, value: object) -> None:
        """`owner.name += value`."""
        target = attribute_of(owner, name)
        if isinstance(target, AccumulatorTracer | RecordAccumulator | StateTracer):
            for_user(_AUGMENT[symbol][1], target, value)
        else:
            self.set_attribute(owner, name, self.augmented(symbol, target, value))

    def augmented_item(
        self, symbol: str, owner: object, keys: tuple[object, ...], value: object
    ) -> None:
        """`owner[keys[0]][keys[1]] += value`."""
        if isinstance(owner, AccumulatorTracer | RecordAccumulator | UncheckedTracer):
            items = tuple(k for key in keys for k in (key if isinstance(key, tuple) else (key,)))
            owner.update(symbol, items, value)
            return
        if isinstance(owner, StateTracer):
            items = tuple(k for key in keys for k in (key if isinstance(key, tuple) else (key,)))
            owner.update_item(_AUGMENT[symbol][1], items, value)
            return
        for key in keys[:-1]:
            owner = self.item(owner, key)
        last = keys[-1]
        if is_symbolic(owner):
            owner[last] = value  # type: ignore[index]  # raises: a table is no accumulator
        held = for_user(operator.getitem, owner, last)
        if isinstance(held, AccumulatorTracer | RecordAccumulator | StateTracer):
            for_user(_AUGMENT[symbol][1], held, value)
        else:
            self.set_item(owner, last, self.augmented(symbol, held, value))
