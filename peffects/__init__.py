"""Typed effects, parallel loops, compiled kernels, and derivatives of all of them.

Effects and handlers: `effectful`, `handle`, `run`, `pfor`; the standard effects are in
`peffects.handlers`.  Kernels: `kernel`, `table`, `sum`, `par`, `accumulator`.  Derivatives: `grad`,
`vjp`, `jvp`.  A look inside: `explain`.  Names are loaded when they are first used, so importing
peffects costs next to nothing.
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peffects.ad.api import grad, hvp, jvp, linearize, transpose, value_and_grad, vjp
    from peffects.ad.check_grads import check_grads
    from peffects.awaiting import Async, await_
    from peffects.clauses import final, multi
    from peffects.codegen.driver import set_threads, threads
    from peffects.codegen.launcher import launch_options
    from peffects.debugging import debug_checks
    from peffects.effects import Eff, Effect, Operation, Par, effectful, once
    from peffects.errors import PeffectsError
    from peffects.explanation import explain
    from peffects.handlers.throw import Err, Ok
    from peffects.handling import (
        BasicHandler,
        CollectHandler,
        Handler,
        ParHandler,
        SplitHandler,
        handle,
        handler,
    )
    from peffects.kernels import Kernel, kernel
    from peffects.loops import Loop
    from peffects.masking import mask
    from peffects.parallel.index_set import Fin, Idx
    from peffects.parallel.pfor import pfor
    from peffects.parallel.running import run
    from peffects.parallel.table import Table
    from peffects.parallel.tasks import run_async
    from peffects.pickling import pickled, unpickled
    from peffects.resumption import Resumption
    from peffects.staging.folds import (
        cummax,
        cummin,
        cumprod,
        cumsum,
        fold,
        scan,
    )
    from peffects.staging.maths import (
        arccos,
        arcsin,
        arctan,
        arctan2,
        ceil,
        cos,
        cosh,
        erf,
        exp,
        expm1,
        floor,
        isfinite,
        isnan,
        lgamma,
        log,
        log1p,
        maximum,
        minimum,
        sin,
        sinh,
        sqrt,
        tan,
        tanh,
        trunc,
    )
    from peffects.staging.ops import (
        accumulator,
        all,
        any,
        argmax,
        argmin,
        each,
        logsumexp,
        max,
        mean,
        min,
        par,
        prod,
        stop_gradient,
        sum,
        table,
        unchecked,
        where,
    )
    from peffects.staging.types import Array

__version__ = "0.1.0"

__all__ = [
    "Array",
    "Async",
    "BasicHandler",
    "CollectHandler",
    "Eff",
    "Effect",
    "Err",
    "Fin",
    "Handler",
    "Idx",
    "Kernel",
    "Loop",
    "Ok",
    "Operation",
    "Par",
    "ParHandler",
    "PeffectsError",
    "Resumption",
    "SplitHandler",
    "Table",
    "accumulator",
    "all",
    "any",
    "arccos",
    "arcsin",
    "arctan",
    "arctan2",
    "argmax",
    "argmin",
    "await_",
    "ceil",
    "check_grads",
    "cos",
    "cosh",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "debug_checks",
    "each",
    "effectful",
    "erf",
    "exp",
    "explain",
    "expm1",
    "final",
    "floor",
    "fold",
    "grad",
    "handle",
    "handler",
    "hvp",
    "isfinite",
    "isnan",
    "jvp",
    "kernel",
    "launch_options",
    "lgamma",
    "linearize",
    "log",
    "log1p",
    "logsumexp",
    "mask",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "multi",
    "once",
    "par",
    "pfor",
    "pickled",
    "prod",
    "run",
    "run_async",
    "scan",
    "set_threads",
    "sin",
    "sinh",
    "sqrt",
    "stop_gradient",
    "sum",
    "table",
    "tan",
    "tanh",
    "threads",
    "transpose",
    "trunc",
    "unchecked",
    "unpickled",
    "value_and_grad",
    "vjp",
    "where",
]

_HOMES = {
    "ad.api": (
        "grad",
        "hvp",
        "jvp",
        "linearize",
        "transpose",
        "value_and_grad",
        "vjp",
    ),
    "ad.check_grads": ("check_grads",),
    "awaiting": (
        "Async",
        "await_",
    ),
    "clauses": (
        "final",
        "multi",
    ),
    "codegen.driver": (
        "set_threads",
        "threads",
    ),
    "codegen.launcher": ("launch_options",),
    "debugging": ("debug_checks",),
    "effects": (
        "Eff",
        "Effect",
        "Operation",
        "Par",
        "effectful",
        "once",
    ),
    "errors": ("PeffectsError",),
    "explanation": ("explain",),
    "handling": (
        "BasicHandler",
        "CollectHandler",
        "Handler",
        "ParHandler",
        "SplitHandler",
        "handle",
        "handler",
    ),
    "handlers.throw": (
        "Err",
        "Ok",
    ),
    "kernels": (
        "Kernel",
        "kernel",
    ),
    "loops": ("Loop",),
    "masking": ("mask",),
    "parallel.index_set": (
        "Fin",
        "Idx",
    ),
    "parallel.pfor": ("pfor",),
    "parallel.running": ("run",),
    "parallel.tasks": ("run_async",),
    "pickling": (
        "pickled",
        "unpickled",
    ),
    "parallel.table": ("Table",),
    "resumption": ("Resumption",),
    "staging.folds": (
        "cummax",
        "cummin",
        "cumprod",
        "cumsum",
        "fold",
        "scan",
    ),
    "staging.maths": (
        "arccos",
        "arcsin",
        "arctan",
        "arctan2",
        "ceil",
        "cos",
        "cosh",
        "erf",
        "exp",
        "expm1",
        "floor",
        "isfinite",
        "isnan",
        "lgamma",
        "log",
        "log1p",
        "maximum",
        "minimum",
        "sin",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
        "trunc",
    ),
    "staging.ops": (
        "accumulator",
        "all",
        "any",
        "argmax",
        "argmin",
        "each",
        "logsumexp",
        "max",
        "mean",
        "min",
        "par",
        "prod",
        "stop_gradient",
        "sum",
        "table",
        "unchecked",
        "where",
    ),
    "staging.types": ("Array",),
}


def __getattr__(name: str) -> object:
    """Load a public name from its home, the first time that it is used."""
    for home, names in _HOMES.items():
        if name in names:
            if home.startswith("staging."):  # outside a kernel, a loop operation is one of its own
                _importlib.import_module("peffects.kernels")
            value: object = getattr(_importlib.import_module(f"peffects.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'peffects' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
