"""The standard effects with their handlers, each in a file of its own."""

from peffects.handlers.accum import Accum, AccumOp, accum, accumulate
from peffects.handlers.amb import Amb, AmbOp, Fail, all_worlds, amb, fail
from peffects.handlers.random import Normal, Random, Uniform, normal, prng, uniform
from peffects.handlers.reader import Ask, Reader, ask, reader
from peffects.handlers.state import Get, Put, State, get, put, run_state
from peffects.handlers.throw import (
    Err,
    Ok,
    Result,
    Throw,
    ThrowOp,
    attempt,
    throw,
    weak_exceptions,
)

__all__ = [
    "Accum",
    "AccumOp",
    "Amb",
    "AmbOp",
    "Ask",
    "Err",
    "Fail",
    "Get",
    "Normal",
    "Ok",
    "Put",
    "Random",
    "Reader",
    "Result",
    "State",
    "Throw",
    "ThrowOp",
    "Uniform",
    "accum",
    "accumulate",
    "all_worlds",
    "amb",
    "ask",
    "attempt",
    "fail",
    "get",
    "normal",
    "prng",
    "put",
    "reader",
    "run_state",
    "throw",
    "uniform",
    "weak_exceptions",
]
