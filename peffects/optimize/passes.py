"""Running a pass: it gets a name, its result is checked, and what it made can be looked at.

`PEFFECTS_CHECK=1` checks scopes, types and effects after each pass (the tests always do); a mistake
is an InternalError that names the pass.  `PEFFECTS_DUMP=<pass>`, or `all`, prints the program that
the pass made to standard error, if it differs from the one that it was given.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from peffects.ir.check import check_program
from peffects.ir.print import print_program
from peffects.ir.syntax import Program

Pass: TypeAlias = Callable[[Program], Program]


@dataclass(frozen=True, slots=True)
class PassResult:
    """A pass that changed a program."""

    name: str
    before: Program
    after: Program


def run(
    name: str, transform: Pass, program: Program, steps: list[PassResult] | None = None
) -> Program:
    """The result of one pass, checked and shown where the environment asks for it.

    `steps` gets what the pass did, if it did anything.
    """
    result = transform(program)
    if result is program:
        return program
    if steps is not None:
        steps.append(PassResult(name, program, result))
    if os.environ.get("PEFFECTS_CHECK", "") not in ("", "0"):
        check_program(result, name)
    if os.environ.get("PEFFECTS_DUMP", "") in (name, "all"):
        print(f"--- after {name}\n{print_program(result)}", file=sys.stderr)
    return result
