"""Kernels: user functions that are staged, compiled and launched when they are called.

A `Kernel` keeps one specialization for each signature (structure and types of the arguments) and,
where a kernel uses what it captures as it is, for each set of such values.  Arrays and numbers
that a kernel captures are read again at each call, so they are never stale.  A new size compiles
nothing.  Once a call has gone the general way, by signatures, calls like it go the quick way of
`staging/captures/readers.py`, which costs a few microseconds.

`Derivative` is a kernel whose program is made from another kernel's program; `ad/` defines which.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from peffects.errors import KernelTypeError, PeffectsError
from peffects.kernels.specialization import Callee, Lowered, Specialization, types_text
from peffects.machine.checking.locations import show_users_frames, users_frames
from peffects.notices import tell_if_slow
from peffects.remembered import Recent
from peffects.source import SrcInfo, caller
from peffects.staging.captures.readers import ArgumentList, CallKey, read_call, same_argument
from peffects.staging.loops.ops import run_outside_with
from peffects.staging.scalars.static_values import plain
from peffects.staging.stage import Signature, signature, stage
from peffects.staging.structures.trees import map_leaves
from peffects.staging.tracing.argument_types import abstract
from peffects.staging.tracing.trace import current, here
from peffects.stepping.session import debug

P = ParamSpec("P")
R = TypeVar("R")

_MOST_SPECIALIZATIONS = 128
"""Of one kernel.  A kernel that is called with ever new strings, say, forgets the oldest."""
_MOST_CALLERS = 1024

__all__ = ["Kernel", "kernel"]


class Kernel(Generic[P, R]):
    """What `@kernel` makes of a function: the same function, compiled when it is called.

    Called inside another kernel it becomes part of that kernel.  Thread-safe.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function, updated=())  # attributes stay its own
        self.__pe_function__ = function
        self._specializations: dict[Signature, list[Specialization]] = {}
        self._quick: dict[CallKey, list[Specialization]] = {}
        self._made: deque[tuple[Signature, Specialization]] = deque()
        self._lock = threading.RLock()

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    @overload
    def __call__(self, *args: Any, out: Any, **kwargs: Any) -> R: ...

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        """Stage and compile if this is new, then run.

        `out` is an array, or a structure of arrays like the result, that the result is written to;
        None stands for a new array.  It may overlap the arguments.  A kernel that has a parameter
        `out` of its own gets it.  Raises OutArgumentError if an array does not fit.
        """
        if current() is not None:
            return self.inline(args, kwargs)
        try:
            if "out" in kwargs and self._gives_out:
                out = kwargs.pop("out")
                specialization, values = self._ready(args, kwargs)
                return cast(R, specialization.run_into(values, out))
            specialization, values = self._ready(args, kwargs)
            return cast(R, specialization.run(values))
        except BaseException as error:
            show_users_frames(error)
            raise

    @functools.cached_property
    def _gives_out(self) -> bool:
        """Whether `out=` is ours: the function has no such parameter."""
        try:
            parameters = inspect.signature(self).parameters
        except (TypeError, ValueError):
            return True
        kinds = {parameter.kind for parameter in parameters.values()}
        return "out" not in parameters and inspect.Parameter.VAR_KEYWORD not in kinds

    @property
    def _name(self) -> str:
        return str(getattr(self, "__qualname__", "of a callable"))

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """A kernel among the methods of a class is a method."""
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        count = sum(map(len, self._specializations.values()))
        return f"<kernel {self._name}, {count} specialization{'' if count == 1 else 's'}>"

    def __reduce__(self) -> Any:
        """Pickle by name, as functions are; if there is none, by the function, as it can be."""
        path = getattr(self, "__qualname__", "")
        found: object = sys.modules.get(self.__module__)
        for name in path.split("."):
            found = getattr(found, name, None)
        return path if found is self else (Kernel, (self.__pe_function__,))

    @users_frames
    def debug(self, *args: Any, nan: bool = False, **kwargs: Any) -> R:
        """The value of a call, run as plain Python: print, `breakpoint()` and coverage work in it.

        Slow, for small arguments.  Loops run one iteration after the other; indices, divisions and
        conversions are tested as in compiled code and raise the same errors.  With `nan=True` the
        first nan that is read, assigned or returned raises NotANumberError, with its place.
        """
        args = tuple(map_leaves(plain, arg) for arg in args)
        kwargs = {name: map_leaves(plain, arg) for name, arg in kwargs.items()}
        return cast(R, debug(self.__pe_function__, args, kwargs, nan=nan))

    @users_frames
    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The kernel's program for arguments like these, or of these types; nothing runs.

        A type is `pe.Array[n, m, float]`, `float`, `int`, `bool`, a numpy type, or anything with
        `shape` and `dtype`; sizes do not matter.  `.compile()` of it compiles ahead of time.
        """
        args = tuple(map_leaves(abstract, arg) for arg in args)
        kwargs = {name: map_leaves(abstract, arg) for name, arg in kwargs.items()}
        callee = self.stage(args, kwargs)
        types = types_text(args, kwargs)
        return Lowered(callee, lambda: self.specialize(args, kwargs)[0], types)

    def stage(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Callee:
        """The program for arguments like these, or of these types."""
        return stage(self.__pe_function__, args, kwargs)

    def inline(self, args: Sequence[object], kwargs: Mapping[str, object]) -> R:
        """Run as part of the kernel that is being staged."""
        return self.__pe_function__(*args, **kwargs)  # type: ignore[arg-type]

    def signature(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Signature:
        """What specializations are found by."""
        return signature(args, kwargs)

    def _ready(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Specialization, Sequence[object]]:
        """What `specialize` gives, for calls like earlier ones by the quick way."""
        call = read_call(args, kwargs)
        if call is not None:
            for known in self._quick.get(call.key, ()):
                quick_values = known.read(call.leaves)
                if quick_values is not None:
                    return known, quick_values
        specialization, values = self.specialize(args, kwargs)
        if call is not None:
            self._remember(call, specialization, values)
        return specialization, values

    def specialize(
        self, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> tuple[Specialization, list[object]]:
        """The specialization for a call, and the values of its program's parameters."""
        key = self.signature(args, kwargs)
        found = self._find(key, args, kwargs)
        if found is None:
            with self._lock:  # the first call of several threads compiles
                found = self._find(key, args, kwargs) or self._make(key, args, kwargs)
        return found

    def _find(
        self, key: Signature, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> tuple[Specialization, list[object]] | None:
        for specialization in self._specializations.get(key, ()):
            values = specialization.callee.arguments(args, kwargs)
            if values is not None:
                return specialization, values
        return None

    def _make(
        self, key: Signature, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> tuple[Specialization, list[object]]:
        from peffects.kernels.pipeline import compile_program

        with tell_if_slow(f"peffects: {self._name} compiles, once for these types of arguments"):
            callee = self.stage(args, kwargs)
            compiled = compile_program(callee.program)
        specialization = Specialization(callee, compiled, callee.reader())
        values = callee.arguments(args, kwargs)
        assert values is not None, "a program fits the call that it was staged for"
        known = self._specializations.get(key, [])
        self._specializations = {**self._specializations, key: [*known, specialization]}
        self._made.append((key, specialization))
        if len(self._made) > _MOST_SPECIALIZATIONS:
            self._forget_oldest()
        return specialization, values

    def _forget_oldest(self) -> None:
        """Let go of the specialization made first; calls that run it now hold it themselves."""
        key, oldest = self._made.popleft()
        rest = [one for one in self._specializations[key] if one is not oldest]
        others = {k: s for k, s in self._specializations.items() if k != key}
        self._specializations = {**others, key: rest} if rest else others
        alive = {id(one) for _, one in self._made}
        quick = {k: [one for one in s if id(one) in alive] for k, s in self._quick.items()}
        self._quick = {k: s for k, s in quick.items() if s}

    def _remember(
        self, call: ArgumentList, specialization: Specialization, values: Sequence[object]
    ) -> None:
        """Take the quick way for such calls from now on, if it leads to the same values."""
        quick = specialization.read(call.leaves)
        if quick is None or len(quick) != len(values):
            return
        if all(map(same_argument, quick, values)):
            with self._lock:
                known = self._quick.get(call.key, [])
                if specialization not in known:
                    self._quick = {**self._quick, call.key: [*known, specialization]}


@users_frames
def kernel(function: Callable[P, R]) -> Kernel[P, R]:
    """Compile a function of arrays and numbers to parallel native code when it is called.

    The body is pointful: `pe.table`, `pe.sum`, `pe.max` and loops over `pe.par` are parallel,
    `range` loops sequential, `if` on array values a branch.  Inputs may be numpy arrays, anything
    with `__array_interface__` or DLPack, numbers, and tuples, dicts or dataclasses of them.  The
    first call with new argument *types* compiles (a second or less, kept on disk); new sizes do
    not.

    Raises an error with a code, the line and a remedy for what a kernel cannot contain: see
    `python -m peffects explain`.
    """
    _check_function(function)
    inner = getattr(function, "__func__", None)
    if isinstance(inner, Kernel):  # a kernel that is a method, bound to its instance
        return Kernel(MethodType(inner.__pe_function__, cast(MethodType, function).__self__))
    return Kernel(function)


_BELOW: dict[type, str] = {
    classmethod: "`@classmethod`",
    staticmethod: "`@staticmethod`",
    property: "`@property`",
}


def _check_function(function: object) -> None:
    """Raise KernelTypeError for what is no function, or none that can be compiled."""
    below = _BELOW.get(type(function))
    name = getattr(function, "__qualname__", repr(function))
    if below is not None:
        what = f"`kernel` is given what {below} made."
        fix = f"Put `@pe.kernel` below {below}, next to the function."
    elif isinstance(function, type):
        what, fix = f"`kernel` is given the class `{name}`.", "Make a kernel of its methods."
    elif not callable(function):
        what, fix = f"`kernel` is given {function!r}, which is no function.", "Give a function."
    elif inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        what = f"`kernel` is given `{name}`, an `async` function."
        fix = "Write `def`: a kernel computes, and waits for nothing."
    elif inspect.isgeneratorfunction(function):
        what = f"`kernel` is given `{name}`, which yields."
        fix = "Return the values; inside it, `pe.run(handle(..., f(x)))` performs effects."
    else:
        return
    raise KernelTypeError(what, at=caller(), fix=fix)


@functools.lru_cache(maxsize=256)
def _kernel_of(operation: Callable[..., object]) -> Kernel[..., object]:
    return Kernel(operation)


_callers: Recent[SrcInfo, bool] = Recent(_MOST_CALLERS)
"""The lines that called loop operations outside kernels."""


def _run_outside(
    operation: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    """Run a loop operation where no kernel is being staged: a kernel of its own.

    Its program was staged for the first caller with such arguments, whose line it knows as its own.
    """
    place = here()
    _callers.keep(place, True)
    try:
        return _kernel_of(operation)(*args, **kwargs)
    except PeffectsError as error:
        if _callers.get(error.at):
            error.at = place
        raise


run_outside_with(_run_outside)
