"""Pickling by value: functions and classes that no module has travel with what refers to them.

That is cloudpickle's work (an optional extra).  Here is what it does not know: operations have
slots, with setters in their constructors; exceptions keep their causes, and their constructor is
not called again; code keeps its file, and that of a cell its text, for the lines of messages; a
class that comes back to the process where it was defined is the class there, as it is, and not
overwritten by what it was elsewhere.  Layer 1; next: `pickling.py`.
"""

from __future__ import annotations

import copyreg
import dataclasses
import functools
import io
import linecache
import sys
import threading
import uuid
import weakref
from collections import ChainMap
from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from peffects.errors import MissingExtraError
from peffects.machine.handling.operation_classes import with_constructor
from peffects.machine.handling.operations import Effect, Operation
from peffects.source import caller

__all__: list[str] = []

Reduced = tuple[Any, ...]

_HEAP_TYPE: Final = 1 << 9
"""The flag of classes that are no part of the interpreter."""

_lock = threading.Lock()
_names: weakref.WeakKeyDictionary[type, str] = weakref.WeakKeyDictionary()
_classes: weakref.WeakValueDictionary[str, type] = weakref.WeakValueDictionary()
_received: weakref.WeakSet[type] = weakref.WeakSet()


def cloudpickle() -> ModuleType:
    """The optional extra that pickles functions by value."""
    try:
        import cloudpickle as found
    except ModuleNotFoundError:
        raise MissingExtraError(
            "pickling lambdas and functions defined in functions needs cloudpickle.",
            at=caller(),
            fix="Install it: `pip install 'peffects[processes]'`.",
        ) from None
    return found  # type: ignore[no-any-return]


def pickled_by_value(what: object) -> bytes:
    """As bytes, with the functions and classes in it that no module has."""
    module = cloudpickle()
    if "__mp_main__" in sys.modules:  # the script, in a process that `multiprocessing` spawned
        module.register_pickle_by_value(sys.modules["__mp_main__"])
    buffer = io.BytesIO()
    _pickler(module)(buffer).dump(what)
    return buffer.getvalue()


@functools.cache
def _pickler(module: ModuleType) -> Any:
    """Cloudpickle's pickler with our rules."""
    base = module.Pickler

    def reducer_override(self: Any, value: Any) -> Any:
        if isinstance(value, type):
            return _reduce_class(value, base.reducer_override(self, value))
        if isinstance(value, BaseException):
            return _reduce_exception(value)
        # A worker's `__main__` is another one: kernels of a script go as its functions do.
        if getattr(value, "__module__", "") == "__main__" and hasattr(value, "__pe_function__"):
            reduced = value.__reduce__()
            by_name = isinstance(reduced, str)
            return (type(value), (value.__pe_function__,)) if by_name else reduced
        return base.reducer_override(self, value)

    def reduce_code(code: CodeType) -> Reduced:
        make, args, *_ = base.dispatch_table[CodeType](code)
        return _code_in_file, (code.co_filename, _source_of(code), make, args)

    ours = {CodeType: reduce_code, type(dataclasses.MISSING): _reduce_missing}
    table = ChainMap(ours, base.dispatch_table)
    members = {"dispatch_table": table, "reducer_override": reducer_override}
    return type("Pickler", (base,), members)


def _reduce_missing(_: object) -> Reduced:
    """The one object that says that a field has no default."""
    return getattr, (dataclasses, "MISSING")


def _source_of(code: CodeType) -> list[str] | None:
    """The lines of a cell, or of what `exec` was given, which no other process can read."""
    kept = linecache.cache.get(code.co_filename, ())
    return kept[2] if len(kept) == 4 and kept[1] is None else None


def _code_in_file(
    filename: str, source: list[str] | None, make: Callable[..., CodeType], args: tuple[Any, ...]
) -> CodeType:
    if source is not None and filename not in linecache.cache:
        linecache.cache[filename] = sum(map(len, source)), None, source, filename
    return make(*args).replace(co_filename=filename)


# --- classes -------------------------------------------------------------------------------------


def _reduce_class(cls: type, reduced: Any) -> Any:
    """By value: first an empty class, to which its parts may refer, then what fills it."""
    if not isinstance(reduced, tuple) or len(reduced) != 6:
        return reduced  # by name
    make, args, (members, slots), *_, fill = reduced
    if issubclass(cls, Effect):
        members = {name: value for name, value in members.items() if name != "_named"}  # a cache
    if issubclass(cls, Operation):
        if "_plain" not in cls.__dict__ and "_effect" in cls.__dict__:
            return cls._plain.at, (cls._effect,)
        members = {name: value for name, value in members.items() if name != "__init__"}
        metaclass, name, bases, keywords, *rest = args
        keywords = keywords | {
            "__slots__": cls.__dict__["__slots__"],
            "__dataclass_fields__": {},  # it is not to be made a dataclass again
        }
        args = metaclass, name, bases, keywords, *rest
    return _empty_class, (_name_of(cls), make, args), (members, slots, fill), None, None, _fill


def _name_of(cls: type) -> str:
    """What the class is called by all processes that have it."""
    with _lock:
        name = _names.get(cls)
        if name is None:
            name = _names[cls] = uuid.uuid4().hex
            _classes[name] = cls
        return name


def _empty_class(name: str, make: Callable[..., type], args: tuple[Any, ...]) -> type:
    found = _classes.get(name)
    if found is not None:
        return found
    made = make(*args)
    with _lock:
        found = _classes.setdefault(name, made)
        if found is made:
            _names[made] = name
            _received.add(made)
    return found


def _fill(cls: type, state: tuple[dict[str, Any], dict[str, Any], Callable[..., Any]]) -> None:
    """Give the class its members, unless this process has it from itself."""
    if cls not in _received:
        return
    members, slots, fill = state
    fill(cls, (members, slots))
    if issubclass(cls, Operation):
        with_constructor(cls)
        if "_plain" in cls.__dict__:
            cls._effect._operations[cls._clause] = cls


# --- exceptions ----------------------------------------------------------------------------------


def _reduce_exception(error: BaseException) -> Any:
    """With cause and context, and not by a call of a constructor that may want other arguments."""
    cls = type(error)
    if cls in copyreg.dispatch_table:
        return NotImplemented
    reduced = error.__reduce_ex__(4)
    if not isinstance(reduced, tuple) or len(reduced) not in (2, 3):
        return NotImplemented
    make, args, state = reduced if len(reduced) == 3 else (*reduced, None)
    its_own = isinstance(cls.__reduce__, FunctionType) or isinstance(
        cls.__reduce_ex__, FunctionType
    )
    if make is cls and not its_own and _has_python_constructor(cls):
        make, args = _without_constructor, (cls, *args)
    chain = error.__cause__, error.__context__, error.__suppress_context__
    return make, args, (state, chain), None, None, _complete_exception


def _has_python_constructor(cls: type[BaseException]) -> bool:
    return any(isinstance(getattr(cls, name), FunctionType) for name in ("__init__", "__new__"))


def _without_constructor(cls: type[BaseException], *args: Any) -> BaseException:
    """As the interpreter's own base class makes it, with all that it keeps of the arguments."""
    base: Any = next(base for base in cls.__mro__ if not base.__flags__ & _HEAP_TYPE)
    made: BaseException = base.__new__(cls, *args)
    base.__init__(made, *args)
    return made


def _complete_exception(error: BaseException, state: tuple[Any, Any]) -> None:
    own, (cause, context, suppressed) = state
    if own is not None:
        error.__setstate__(own)
    error.__cause__, error.__context__ = cause, context
    error.__suppress_context__ = suppressed
