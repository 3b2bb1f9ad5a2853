"""`run` and `pfor` in kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from peffects.errors import KernelEffectError
from peffects.machine.handling.operations import check_computation, check_performed
from peffects.parallel.pfor import pfor
from peffects.parallel.running import run
from peffects.staging.effects.machine import StagingMachine
from peffects.staging.effects.parallel import staged_pfor
from peffects.staging.effects.random_keys import RANDOM_CALLS
from peffects.staging.tracing.trace import current, here

__all__ = ["EFFECT_CALLS"]


def _run(c: Any, /, **options: Any) -> Any:
    trace = current()
    if trace is None:
        return run(c, **options)
    if any(value is not None for value in options.values()):
        raise KernelEffectError(
            f"`run` is given {', '.join(options)} in a kernel.",
            at=here(),
            fix="Leave it out: the loops of a kernel are compiled.",
        )
    check_computation(c, "run")
    result = StagingMachine(trace).run(c)
    check_performed(result, "`run`")
    return result


def _pfor(n: Any, body: Any, /) -> Any:
    return pfor(n, body) if current() is None else staged_pfor(n, body)


EFFECT_CALLS: dict[object, Callable[..., Any]] = {run: _run, pfor: _pfor, **RANDOM_CALLS}
"""What is called in a kernel in place of the functions of the effect machine."""
