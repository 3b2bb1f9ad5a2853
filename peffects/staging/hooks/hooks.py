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
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar, cast

import numpy as np

from peffects.errors import (
    ControlFlowError,
    KernelTypeError,
    SideEffectError,
    UnsupportedSyntaxError,
)
from peffects.ir import primitives as prims
from peffects.ir.syntax import BOOL
from peffects.machine.checking.locations import speaks_for_users
from peffects.parallel.index_sets.index_set import IndexSet
from peffects.parallel.index_sets.packed import Packed
from peffects.source import is_internal_file
from peffects.staging.captures.purity import check_no_effect, check_stable
from peffects.staging.captures.reads import StepKind
from peffects.staging.captures.without_source import is_of_library, names_in, watch_attributes
from peffects.staging.hooks.callees import REPLACED
from peffects.staging.hooks.places import as_place, is_told_apart
from peffects.staging.hooks.special_methods import COMPARE, SpecialMethods
from peffects.staging.hooks.writes import Writes, attribute_of, inputs_of
from peffects.staging.loops.branches import Branch, Dead, Frame, Names, StaticBranch, choose
from peffects.staging.loops.checks import assertion
from peffects.staging.loops.iteration import FoldLoop, ParLoop, StaticLoop, WhileLoop
from peffects.staging.loops.locals import UNSET
from peffects.staging.loops.ops import ParallelLoop
from peffects.staging.loops.ranges import sequential
from peffects.staging.numpy_surface.array_likes import takes_arrays, with_tables
from peffects.staging.rewriting.jumps import Stop
from peffects.staging.rewriting.rewritten import is_rewritten, is_users, rewritten, with_reads
from peffects.staging.scalars.for_user import for_user, has_symbols, what
from peffects.staging.scalars.symbols import (
    ScalarTracer,
    is_symbolic,
    is_whole,
    lift,
    logical,
    refuse_missing,
)
from peffects.staging.scalars.texts import text
from peffects.staging.structures.accumulators import Reference
from peffects.staging.structures.records import (
    RecordAccumulator,
    is_record_of_tables,
    table_of_records,
)
from peffects.staging.structures.tables import TableTracer
from peffects.staging.structures.tabular import items_of
from peffects.staging.tracing.recursion import DEEPEST, check_recursion
from peffects.staging.tracing.trace import Trace, current, here

__all__ = ["Hooks", "resolve"]

T = TypeVar("T")
Function = Callable[..., object]

_INSTEAD = {
    "`try`": "Write what may fail under an `if`, whose other side does not run; "
    "`pe.check(condition, message)` stops the kernel, and a `try` around its call catches that.",
    "`with`": "Put it around the call of the kernel.",
    "`match`": "Write `if`, `elif` and `else`; `pe.match` tells indices of sums and enums apart.",
    "a class definition": "Define the class outside the kernel.",
    "`del`": "Leave it out: a local ends with its function.",
}
"""What to write instead of statements that kernels do not have."""


class Hooks(Writes, SpecialMethods):
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
        check_stable(value)
        if name in self.freevars:
            kind = StepKind.CELL
        elif name in self.function.__globals__:
            kind = StepKind.GLOBAL
        else:
            return value
        inputs = inputs_of(trace)
        return inputs.reach(value, inputs.path_of(self.function).then(kind, name))

    def free_without_source(self, name: str, value: object) -> object:
        """What a function without source finds under a name: recorded, as far as it may read it."""
        found = self.free(name, value)
        trace = current()
        if trace is None or is_symbolic(found):
            return found
        if isinstance(found, FunctionType) or hasattr(found, "__pe_function__"):
            return _resolved_when_called(cast(Function, found))
        inputs = inputs_of(trace)
        names = names_in(self.function.__code__)
        watch_attributes(inputs, found, inputs.path_of(found), names)
        return found

    def attribute(self, owner: object, name: str) -> object:
        """`owner.name`; what an object from outside holds is read from outside, too."""
        if name == "__class__" and current() is not None and is_symbolic(owner):
            return REPLACED[type](owner)
        return self._attribute(owner, name, attribute_of(owner, name))

    @speaks_for_users
    def _getattr(self, owner: object, name: str, *default: object) -> object:
        """`getattr(owner, name, default)`."""
        if default and not self._hasattr(owner, name):
            return default[0]
        return self._attribute(owner, name, for_user(attribute_of, owner, name))

    @speaks_for_users
    def _hasattr(self, owner: object, name: str) -> bool:
        """`hasattr(owner, name)`."""
        trace, answer = current(), bool(for_user(hasattr, owner, name))
        if trace is not None and not is_symbolic(owner) and _from_outside(trace, owner):
            inputs = inputs_of(trace)
            inputs.reach(answer, inputs.path_of(owner).then(StepKind.HAS, name))
        return answer

    @speaks_for_users
    def _vars(self, *owner: object) -> object:
        """`vars(owner)`, or the locals of the function."""
        if not owner:
            return sys._getframe(1).f_locals
        if len(owner) > 1 or not hasattr(owner[0], "__dict__"):
            return for_user(vars, *owner)  # which Python refuses
        if is_symbolic(owner[0]):
            raise KernelTypeError(
                "`vars` of a value of the kernel, which has no attributes of its own.",
                at=here(),
                fix="Name what you need: `r.x`.",
            )
        return self.attribute(owner[0], "__dict__")

    def _attribute(self, owner: object, name: str, value: object) -> object:
        trace = current()
        if trace is None or is_symbolic(owner) or is_symbolic(value):
            return value
        if isinstance(owner, IndexSet | Packed):
            return value  # what it is made of was reached when it was
        check_stable(value)
        inputs = inputs_of(trace)
        if isinstance(value, MethodType) and value.__self__ is owner:
            path = inputs.path_of(owner).then(StepKind.ATTRIBUTE, name)
            if _from_outside(trace, owner):  # the method is new each time, its function is not
                inputs.reach(value.__func__, path.then(StepKind.ATTRIBUTE, "__func__"))
            return value
        if getattr(value, "__self__", None) is owner or not _from_outside(trace, owner):
            return value
        return inputs.reach(value, inputs.path_of(owner).then(StepKind.ATTRIBUTE, name))

    def item(self, owner: object, key: object) -> object:
        """`owner[key]`."""
        trace = current()
        if trace is None:
            return owner[key]  # type: ignore[index]
        if isinstance(owner, np.ndarray):
            owner = trace.inputs.capture(owner)
        if is_symbolic(owner) or isinstance(owner, Packed):
            return for_user(operator.getitem, owner, key)
        method = self.special(owner, "__getitem__")
        if method is not None:
            return method(key)
        if is_record_of_tables(owner, key):
            return table_of_records(owner, len(items_of(key)))[key]  # type: ignore[index]
        if is_symbolic(key):
            raise ControlFlowError(
                f"a {type(owner).__name__} is indexed with a symbol.",
                at=here(),
                fix="Put the values into an array, or loop over the Python sequence itself.",
            )
        return for_user(operator.getitem, owner, key)  # of what was reached, all entries were

    # --- what the function makes ------------------------------------------------------------------

    def made(self, value: T) -> T:
        """A list, dict or set that the function itself made, and may change."""
        trace = current()
        if trace is not None:
            trace.note_made(value)
        return value

    def mapping(self, value: T) -> T:
        """A value that stands after `**`."""
        if current() is not None and has_symbols((value,)) and not isinstance(value, Mapping):
            raise KernelTypeError(
                f"`**` is given {what(value)}, which is no mapping.",
                at=here(),
                fix="Give a dict; a record of a kernel has fields: `f(x=r.x)`.",
            )
        return value

    def named(self, name: str, value: T) -> T:
        """A value that is about to be assigned to the local `name`."""
        if isinstance(value, Reference | RecordAccumulator | ScalarTracer | TableTracer):
            value.rename(name)
        return value

    # --- calls -----------------------------------------------------------------------------------

    def callee(self, function: Function) -> Function:
        """What is called in place of `function`."""
        if current() is None:
            return resolve(function)
        called: object = function
        if has_symbols((called,)) and not callable(called):
            raise KernelTypeError(
                f"{what(called)} is called.",
                at=here(),
                fix="Call functions; index tables: `x[i]`.",
            )
        own = self._own_form(function)
        if own is not None:
            return own
        found = resolve(function)
        return found if _asks_for_itself(function, found) else self._asked(function, found)

    def _asked(self, original: Function, function: Function) -> Function:
        """A function of Python or a library, which calls what it is given as kernels call it."""
        calls_back = _is_of_library(original)

        def call(*args: Any, **kwargs: Any) -> object:
            if calls_back:
                args = tuple(self.each_of(args))
                kwargs = dict(zip(kwargs, self.each_of(kwargs.values()), strict=True))
            if current() is not None and takes_arrays(function):
                args, kwargs = with_tables(function, args, kwargs, symbols_only=True)
            return for_user(function, *args, **kwargs)

        return call

    def _own_form(self, function: Function) -> Function | None:
        """The form of a builtin that reads, so that what it reads is recorded; or its refusal."""
        try:
            form = self._forms.get(function)
        except TypeError:  # no hash
            return None
        return form or self.call_special(function)

    @functools.cached_property
    def _forms(self) -> dict[object, Function]:
        asked = functools.partial
        return {
            getattr: asked(for_user, self._getattr),
            hasattr: asked(for_user, self._hasattr),
            vars: self._vars,
        }

    def original(self, function: Function) -> Function:
        """What is called for a builtin on values without special methods of the user's."""
        return resolve(function)

    # --- control flow ----------------------------------------------------------------------------

    def branch(
        self, condition: object, names: Names, dead: Dead, frame: Frame
    ) -> Branch | StaticBranch:
        """The start of an `if`."""
        trace, condition = current(), self.truth(condition)
        if trace is None or not is_symbolic(condition):
            return StaticBranch(bool(condition))
        if trace.effects is not None:
            return cast(Branch, trace.effects.branch(condition, names, dead, frame))
        return Branch(trace, condition, names, dead, frame)

    def loop(
        self,
        iterable: object,
        names: Names,
        targets: Names,
        dead: Dead,
        frame: Frame,
        stop: tuple[str, str, int] | tuple[()],
    ) -> StaticLoop | ParLoop | FoldLoop:
        """The start of a `for`; `stop` says how it is left early."""
        leave = Stop(*stop) if stop else None
        trace = current()
        if trace is None:
            return StaticLoop(cast(list[object], iterable))
        effects = trace.effects
        if isinstance(iterable, ParallelLoop):
            if effects is not None:
                return cast(ParLoop, effects.par(iterable, names, targets, dead, frame, leave))
            return ParLoop(trace, iterable, names, targets, dead, frame, leave)
        found = sequential(iterable)
        if found is not None:
            if effects is not None:
                return cast(FoldLoop, effects.fold(found, names, targets, dead, frame, leave))
            return FoldLoop(trace, found, names, targets, dead, frame, leave)
        inputs = inputs_of(trace)
        iterable = self.iterate(iterable)
        if isinstance(iterable, list | tuple) and inputs.is_known(iterable):
            return StaticLoop(inputs.elements(iterable))
        return StaticLoop(cast(list[object], iterable))

    def while_loop(self, names: Names, dead: Dead) -> WhileLoop:
        """The start of a `while`."""
        trace = current()
        if trace is not None and trace.effects is not None:
            return cast(WhileLoop, trace.effects.while_loop(names, dead))
        return WhileLoop(trace, names, dead)

    def again(self, condition: object) -> object:
        """The condition of a `while` that runs while staging, whatever it is."""
        trace = current()
        if trace is not None:
            trace.count_step()
        return condition

    def leaving(self, what: str, constructs: tuple[object, ...]) -> None:
        """Refuse `break`, `continue`, `return` or `raise` where it would depend on a symbol."""
        if any(getattr(construct, "traced", False) for construct in constructs):
            fixes = {
                "return": "Set a local, and return it at the end.",
                "raise": "Write `pe.check(condition, message)`, which stops the kernel where the "
                "condition does not hold; or return a flag.",
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
            fix=_INSTEAD.get(what, "Move it out of the kernel."),
        )

    # --- checks and texts ------------------------------------------------------------------------

    def assertion(self, condition: object, message: Callable[[], object] | None) -> None:
        """`assert condition, message()`."""
        assertion(self.truth(condition), message)

    def text(self, *pieces: str | tuple[object, str, object]) -> object:
        """An f-string."""
        return text(*pieces)

    # --- expressions -----------------------------------------------------------------------------

    def choose(
        self, condition: object, then: Callable[[], object], orelse: Callable[[], object]
    ) -> object:
        """`then() if condition else orelse()`."""
        trace, condition = current(), self.truth(condition)
        if trace is None or not is_symbolic(condition):
            return then() if condition else orelse()
        return choose(trace, condition, then, orelse)

    def and_(self, left: object, right: Callable[[], object]) -> object:
        """`left and right()`."""
        truth = self.truth(left)
        if not is_symbolic(truth):
            return right() if truth else left
        return self.choose(truth, right, lambda: False if _is_bool(left) else left)

    def or_(self, left: object, right: Callable[[], object]) -> object:
        """`left or right()`."""
        truth = self.truth(left)
        if not is_symbolic(truth):
            return left if truth else right()
        return self.choose(truth, lambda: True if _is_bool(left) else left, right)

    def not_(self, value: object) -> object:
        """`not value`."""
        value = self.truth(value)
        if not is_symbolic(value):
            return not value
        if is_whole(value):
            lift(value)  # raises: the truth of a whole table is not one
        return logical(prims.NOT, value)

    def compare(
        self, left: object, symbols: tuple[str, ...], *others: Callable[[], object]
    ) -> object:
        """`left < others[0]() < others[1]() ...`."""
        right = others[0]()
        holds = self._holds(symbols[0], left, right)
        if len(others) == 1:
            return holds
        return self.and_(holds, lambda: self.compare(right, symbols[1:], *others[1:]))

    def _holds(self, symbol: str, left: object, right: object) -> object:
        """One comparison."""
        if symbol in ("is", "is not", "==", "!="):
            left, right = as_place(left, right), as_place(right, left)
        if symbol in ("is", "is not"):
            refuse_missing(left)
            told_apart = is_told_apart(left) or is_told_apart(right) or _are_bools(left, right)
            if not told_apart:
                return (left is right) == (symbol == "is")
            symbol = "==" if symbol == "is" else "!="
        if symbol in COMPARE:
            return self.compare_two(symbol, left, right)
        holds = self.contains(left, right)
        return holds if symbol == "in" else self.not_(holds)


def _is_bool(value: object) -> bool:
    return isinstance(value, ScalarTracer) and value.type == BOOL


def _are_bools(left: object, right: object) -> bool:
    """Whether two values are bools, one of them a symbol: `flag is True` means `==`."""
    symbolic = _is_bool(left) or _is_bool(right)
    return symbolic and all(isinstance(value, bool) or _is_bool(value) for value in (left, right))


def _asks_for_itself(original: Function, found: Function) -> bool:
    """Whether a function is the user's, whose calls go through hooks, or ours, which has none."""
    plain = found.__func__ if isinstance(found, MethodType) else found
    if not isinstance(plain, FunctionType) or found is not original:
        return isinstance(plain, FunctionType) and is_rewritten(plain)
    return is_rewritten(plain) or is_internal_file(plain.__code__.co_filename)


def _is_of_library(function: Function) -> bool:
    """Whether a function may call others that it is given, such as `map` and `sorted`."""
    return isinstance(function, BuiltinFunctionType) or (
        isinstance(function, type) and function.__module__ in ("builtins", "functools", "itertools")
    )


def _from_outside(trace: Trace, owner: object) -> bool:
    """Whether what `owner` holds was there before the kernel was staged."""
    if isinstance(owner, ModuleType):
        return not is_of_library(owner)
    return not trace.was_made(owner)


# --- callees -------------------------------------------------------------------------------------


def resolve(function: Function) -> Function:
    """What is called in place of `function`: its rewritten form, or a replacement."""
    plain = getattr(function, "__pe_function__", None)
    if plain is not None:
        return _function(plain, kernel=True)
    replacement = _replacement(function)
    if replacement is not None:
        return replacement
    if isinstance(function, MethodType):
        check_no_effect(function)
        inner = function.__func__
        if isinstance(inner, FunctionType):
            return MethodType(_function(inner), function.__self__)
        return function
    if isinstance(function, FunctionType):
        return _function(function)
    check_no_effect(function)
    if isinstance(function, functools.partial):
        return functools.partial(resolve(function.func), *function.args, **function.keywords)
    if isinstance(function, type):
        return _maker(function)
    call = inspect.getattr_static(type(function), "__call__", None)
    if isinstance(call, FunctionType) and is_users(call):
        return MethodType(_function(call), function)
    return function


def _resolved_when_called(function: Function) -> Function:
    """What calls `resolve(function)`: not before, as a function may know itself."""

    @functools.wraps(function, updated=())
    def call(*args: object, **kwargs: object) -> object:
        return resolve(function)(*args, **kwargs)

    return call


def _replacement(function: Function) -> Function | None:
    try:
        return REPLACED.get(function)
    except TypeError:  # not hashable
        return None


def _maker(kind: type) -> Function:
    """The constructor of a class; what it makes belongs to the block that is being staged."""
    trace = current()
    if trace is None or issubclass(kind, BaseException):
        return kind

    def make(*args: object, **kwargs: object) -> object:
        value = for_user(kind, *args, **kwargs)
        trace.note_made(value)
        return value

    return make


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
            fix="Decorate it with `@effectful` and perform it under its handlers: "
            "`pe.run(handle(..., f(x)))`; loops are `for` statements.",
        )
    hooks = Hooks(function)
    new = rewritten(function, hooks)
    if current() is not None:
        check_recursion(new.__code__, 1 if kernel else DEEPEST)
        if new is function:
            return with_reads(function, hooks.free_without_source)
    return new
