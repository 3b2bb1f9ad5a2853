"""What a program with a mistake has to keep: it works, or its error has a code and a line of it.

A Python error is right where plain Python (the machine, or `.debug`) raises the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from fuzz.effect_checks import ARGUMENTS, X
from fuzz.kernel_programs import KernelProgram, arguments
from fuzz.sources import EndlessError, OursError, check_polite, limited, load

import peffects as pe
from peffects import PeffectsError
from peffects.kernels.kernel import Kernel

__all__ = ["check_wrong_effects", "check_wrong_kernel"]


def _ending(call: Callable[[], Any], source: str) -> BaseException | None:
    """The error that a call ends in, which is polite."""
    try:
        call()
    except Exception as error:
        check_polite(error, source)
        return error
    return None


def _plain_ending(call: Callable[[], Any], source: str) -> BaseException | None:
    try:
        with limited(5.0):
            return _ending(call, source)
    except EndlessError as error:
        return error


def _check_native(
    native: Callable[[], Any], plain: Sequence[Callable[[], Any]], source: str
) -> str:
    """Python's errors come from plain Python, too, or from a side of an `if` not taken there."""
    ending = _ending(native, source)
    if ending is None or isinstance(ending, PeffectsError):
        return "works" if ending is None else ending.code
    raised = [_plain_ending(call, source) for call in plain]
    alike = any(type(error) is type(ending) for error in raised)
    if not alike and not isinstance(ending, NameError | TypeError | AttributeError):
        raise OursError(
            f"only the kernel raises {type(ending).__name__}: {ending}; plain: {raised}"
        ) from ending
    return type(ending).__name__


def _loaded(source: str) -> dict[str, Any] | str:
    """The names of a program; the code or the kind of error where it cannot be loaded."""
    try:
        return load(source)
    except Exception as error:
        return check_polite(error, source)


def check_wrong_kernel(drawn: KernelProgram) -> str:
    """The kernel works, or is refused well."""
    space = _loaded(drawn.text)
    if isinstance(space, str):
        return space
    args = arguments(drawn, 5, 3)
    function = space.get("kernel")
    if not callable(function):
        return "no kernel"
    plain = [lambda: Kernel(function).debug(*args), lambda: function(*args)]

    def native() -> Any:
        with pe.launch_options(timeout_s=2.0):
            return Kernel(function)(*args)

    return _check_native(native, plain, drawn.text)


def _machine(program: Callable[..., Any], s: float, n: int) -> Any:
    return pe.run(program(s, n, X))


def check_wrong_effects(source: str) -> str:
    """The machine and the kernel work, or refuse well."""
    space = _loaded(source)
    if isinstance(space, str):
        return space
    program, kernel = space.get("program"), space.get("kernel")
    if not callable(program) or not callable(kernel):
        return "no program"
    more = [*ARGUMENTS, (2.5, 1), (0.0, 3), (-3.0, 3)]
    plain = [functools.partial(_machine, program, s, n) for s, n in more]
    for call in plain:
        _plain_ending(call, source)
    with np.errstate(all="ignore"):
        return _check_native(lambda: pe.kernel(kernel).lower(*ARGUMENTS[0], X), plain, source)
