"""What rewritten code calls: one `Hooks` object for each rewritten function.

Outside a trace, and on ordinary values, a hook does what Python would have done.  In a trace it
stages control flow on symbols, turns what is read from outside into parameters and guards, and
refuses what would happen once in place of many times.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import operator
import sys
from collections.abc import Callable
from types import FrameType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar, cast

import numpy as np

from peffects.errors import (
    ControlFlowError,
    KernelRecursionError,
    KernelTypeError,
    SideEffectError,
    UnsupportedSyntaxError,
)
from peffects.ir import primitives as prims
from peffects.ir.syntax import BOOL
from peffects.staging.accumulators import AccumulatorTracer
from peffects.staging.branches import Branch, Frame, Names, StaticBranch, choose
from peffects.staging.callees import REPLACED, check_no_effect
from peffects.staging.captures import StepKind
from peffects.staging.functions import is_rewritten, is_users, rewritten, with_reads
from peffects.staging.iteration import FoldLoop, ParLoop, StaticLoop, WhileLoop
from peffects.staging.jumps import Stop
from peffects.staging.ops import ParallelLoop
from peffects.staging.ranges import sequential
from peffects.staging.scalars import ScalarTracer, is_symbolic, logical
from peffects.staging.tables import TableTracer
from peffects.staging.trace import Trace, current, here
from peffects.staging.values import UNSET
from peffects.staging.writes import Writes, inputs_of

__all__ = ["Hooks", "resolve"]

T = TypeVar("T")
Function = Callable[..., object]

_COMPARE: dict[str, Callable[[Any, Any], object]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


class Hooks(Writes):
    """The hooks of one function."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.freevars = frozenset(function.__code__.co_freevars)
        self.slice = builtins.slice
        self.locals = builtins.locals
        self.unset = UNSET

    # --- reads -----------------------------------------------------------------------------------

    def free(self, name: str, value: object) -> object:
        """A variable of an enclosing function, a global or a builtin."""
        trace = current()
        if trace is None or is_symbolic(value):
            return value
        if name in self.freevars:
            kind = StepKind.CELL
        elif name in self.function.__globals__:
            kind = StepKind.GLOBAL
        else:
            return value
        inputs = inputs_of(trace)
        return inputs.reach(value, inputs.path_of(self.function).then(kind, name))

    def attribute(self, owner: object, name: str) -> object:
        """`owner.name`; what an object from outside holds is read from outside, too."""
        return self._attribute(owner, name, getattr(owner, name))

    def _getattr(self, owner: object, name: str, *default: object) -> object:
        """`getattr(owner, name, default)`."""
        return self._attribute(owner, name, getattr(owner, name, *default))

    def _attribute(self, owner: object, name: str, value: object) -> object:
        trace = current()
        if trace is None or is_symbolic(owner) or is_symbolic(value):
            return value
        if getattr(value, "__self__", None) is owner or not _from_outside(trace, owner):
            return value  # a method: it is new each time, and what it reads is captured by itself
        inputs = inputs_of(trace)
        return inputs.reach(value, inputs.path_of(owner).then(StepKind.ATTRIBUTE, name))

    def item(self, owner: object, key: object) -> object:
        """`owner[key]`."""
        trace = current()
        if trace is None:
            return owner[key]  # type: ignore[index]
        if isinstance(owner, np.ndarray):
            owner = trace.inputs.capture(owner)
        if is_symbolic(owner):
            return owner[key]  # type: ignore[index]
        if is_symbolic(key):
            raise ControlFlowError(
                f"a {type(owner).__name__} is indexed with a symbol.",
                at=here(),
                fix="Put the values into an array, or loop over the Python sequence itself.",
            )
        return owner[key]  # type: ignore[index]  # of what was reached, all entries were

    # --- what the function makes ------------------------------------------------------------------

    def made(self, value: T) -> T:
        """A list, dict or set that the function itself made, and may change."""
        trace = current()
        if trace is not None:
            trace.note_made(value)
        return value

    def named(self, name: str, value: T) -> T:
        """A value that is about to be assigned to the local `name`."""
        if isinstance(value, AccumulatorTracer | ScalarTracer | TableTracer):
            value.rename(name)
        return value

    # --- calls -----------------------------------------------------------------------------------

    def callee(self, function: Function) -> Function:
        """What is called in place of `function`."""
        return self._getattr if function is getattr else resolve(function)

    # --- control flow ----------------------------------------------------------------------------

    def branch(self, condition: object, names: Names, frame: Frame) -> Branch | StaticBranch:
        """The start of an `if`."""
        trace = current()
        if trace is None or not is_symbolic(condition):
            return StaticBranch(bool(condition))
        return Branch(trace, condition, names, frame)

    def loop(
        self,
        iterable: object,
        names: Names,
        targets: Names,
        frame: Frame,
        stop: tuple[str, str, int] | tuple[()],
    ) -> StaticLoop | ParLoop | FoldLoop:
        """The start of a `for`; `stop` says how it is left early."""
        leave = Stop(*stop) if stop else None
        trace = current()
        if trace is None:
            return StaticLoop(cast(list[object], iterable))
        if isinstance(iterable, ParallelLoop):
            return ParLoop(trace, iterable, names, targets, frame, leave)
        found = sequential(iterable)
        if found is not None:
            return FoldLoop(trace, found, names, targets, frame, leave)
        inputs = inputs_of(trace)
        if isinstance(iterable, list | tuple) and inputs.is_known(iterable):
            return StaticLoop(inputs.elements(iterable))
        return StaticLoop(cast(list[object], iterable))

    def while_loop(self, names: Names) -> WhileLoop:
        """The start of a `while`."""
        return WhileLoop(current(), names)

    def leaving(self, what: str, constructs: tuple[object, ...]) -> None:
        """Refuse `break`, `continue`, `return` or `raise` where it would depend on a symbol."""
        if any(getattr(construct, "traced", False) for construct in constructs):
            fixes = {
                "return": "Set a local, and return it at the end.",
                "raise": "Test arguments outside the kernel; inside, return a flag.",
            }
            default = (
                "Use a `while` loop with the condition, or skip the rest of the body with `if`."
            )
            raise UnsupportedSyntaxError(
                f"`{what}` inside a loop or an `if` that depends on values of the kernel.",
                at=here(),
                fix=fixes.get(what, default),
            )

    def refuse(self, what: str) -> None:
        """Refuse a statement that kernels do not have, if one is being staged."""
        if current() is None:
            return
        if what in ("`global`", "`nonlocal`"):
            raise SideEffectError(
                f"{what} in a kernel: the assignment would happen once, while it is staged.",
                at=here(),
                fix="Return the value.",
            )
        raise UnsupportedSyntaxError(
            f"{what} in a kernel.",
            at=here(),
            fix="Move it out of the kernel into a plain function.",
        )

    # --- expressions -----------------------------------------------------------------------------

    def choose(
        self, condition: object, then: Callable[[], object], orelse: Callable[[], object]
    ) -> object:
        """`then() if condition else orelse()`."""
        trace = current()
        if trace is None or not is_symbolic(condition):
            return then() if condition else orelse()
        return choose(trace, condition, then, orelse)

    def and_(self, left: object, right: Callable[[], object]) -> object:
        """`left and right()`."""
        if not is_symbolic(left):
            return left and right()
        return self.choose(left, right, lambda: False if _is_bool(left) else left)

    def or_(self, left: object, right: Callable[[], object]) -> object:
        """`left or right()`."""
        if not is_symbolic(left):
            return left or right()
        return self.choose(left, lambda: True if _is_bool(left) else left, right)

    def not_(self, value: object) -> object:
        """`not value`."""
        return logical(prims.NOT, value) if is_symbolic(value) else not value

    def compare(
        self, left: object, symbols: tuple[str, ...], *others: Callable[[], object]
    ) -> object:
        """`left < others[0]() < others[1]() ...`."""
        right = others[0]()
        holds = _COMPARE[symbols[0]](left, right)
        if len(others) == 1:
            return holds
        return self.and_(holds, lambda: self.compare(right, symbols[1:], *others[1:]))


def _is_bool(value: object) -> bool:
    return isinstance(value, ScalarTracer) and value.type == BOOL


def _from_outside(trace: Trace, owner: object) -> bool:
    """Whether what `owner` holds was there before the kernel was staged."""
    if isinstance(owner, ModuleType):
        file = getattr(owner, "__file__", None) or ""
        probe = FunctionType((lambda: None).__code__.replace(co_filename=file), {})
        return bool(file) and is_users(probe)
    return not trace.was_made(owner)


# --- callees -------------------------------------------------------------------------------------


def resolve(function: Function) -> Function:
    """What is called in place of `function`: its rewritten form, or a replacement."""
    plain = getattr(function, "__pe_function__", None)
    if plain is not None:
        return _function(plain, kernel=True)
    if isinstance(function, MethodType):
        inner = function.__func__
        if isinstance(inner, FunctionType):
            return MethodType(_function(inner), function.__self__)
        check_no_effect(function)
        return function
    if isinstance(function, FunctionType):
        return _function(function)
    try:
        replacement = REPLACED.get(function)
    except TypeError:
        replacement = None
    if replacement is not None:
        return replacement
    check_no_effect(function)
    if isinstance(function, functools.partial):
        return functools.partial(resolve(function.func), *function.args, **function.keywords)
    if isinstance(function, type):
        return _maker(function)
    call = inspect.getattr_static(type(function), "__call__", None)
    if isinstance(call, FunctionType) and is_users(call):
        return MethodType(_function(call), function)
    return function


def _maker(kind: type) -> Function:
    """The constructor of a class; what it makes belongs to the block that is being staged."""
    trace = current()
    if trace is None or issubclass(kind, BaseException):
        return kind

    def make(*args: object, **kwargs: object) -> object:
        value = kind(*args, **kwargs)
        trace.note_made(value)
        return value

    return make


_DEEPEST = 64


def _function(function: FunctionType, kernel: bool = False) -> Function:
    if is_rewritten(function):
        return function
    check_no_effect(function)
    if not is_users(function):
        return REPLACED.get(function, function)
    if inspect.isgeneratorfunction(function) and current() is not None:
        raise KernelTypeError(
            f"the generator function `{function.__name__}` is called in a kernel.",
            at=here(),
            fix="Effects in a kernel need their handlers inside it; loops are `for` statements.",
        )
    hooks = Hooks(function)
    new = rewritten(function, hooks)
    if current() is not None:
        _check_recursion(new, 1 if kernel else _DEEPEST)
        if new is function:
            return with_reads(function, hooks.free)
    return new


def _check_recursion(function: FunctionType, limit: int) -> None:
    """Raise KernelRecursionError if `function` is running `limit` times already."""
    frame: FrameType | None = sys._getframe(1)
    depth = 0
    while frame is not None:
        depth += frame.f_code is function.__code__
        frame = frame.f_back
    if depth >= limit:
        raise KernelRecursionError(
            f"`{function.__name__}` calls itself; staging it would not end.",
            at=here(),
            fix="Write a loop: `for _ in range(n): ...` with a local that is carried on.",
        )
