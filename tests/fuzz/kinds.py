"""The kinds of random programs: how each is drawn, and what it has to keep."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from fuzz.choices import Choices
from fuzz.effect_checks import (
    check_effect_gradients,
    check_executors,
    check_staged,
    executors,
)
from fuzz.effect_programs import EffectProgram, effect_program
from fuzz.kernel_checks import check_gradients, check_values
from fuzz.kernel_programs import KernelProgram, kernel_program
from fuzz.variable_programs import check_variables, variable_program
from fuzz.wrong_checks import check_wrong_effects, check_wrong_kernel
from fuzz.wrong_programs import with_mistakes

from peffects.parallel import Executor

__all__ = ["ALL_KINDS", "KINDS", "Case", "Kind"]


@dataclass(frozen=True)
class Case:
    """A program to check; `dtype` is that of the argument `q` of kernels."""

    kind: str
    text: str
    dtype: str = "float64"

    def check(self) -> str:
        """A word for what became of it; raises where it does not keep what it has to."""
        return ALL_KINDS[self.kind].check(self)

    def script(self, found_by: str) -> str:
        """A file that checks the program again."""
        text = self.text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
        return (
            f'"""Found by `make fuzz SEED={found_by}`.  Run it with PYTHONPATH=.:tests"""\n\n'
            f'from fuzz.kinds import Case\n\nTEXT = """\\\n{text.rstrip()}\n"""\n'
            f"print(Case({self.kind!r}, TEXT, {self.dtype!r}).check())\n"
        )


class Kind(NamedTuple):
    """How programs of a kind are drawn and checked."""

    draw: Callable[[Choices], Case]
    check: Callable[[Case], str]


def _kernel(case: Case) -> KernelProgram:
    return KernelProgram(case.text, case.dtype)


def _drawn_kernel(kind: str, smooth: bool) -> Callable[[Choices], Case]:
    def draw(choices: Choices) -> Case:
        drawn = kernel_program(choices, smooth)
        return Case(kind, drawn.text, drawn.dtype)

    return draw


def _drawn_effects(kind: str, worlds: bool) -> Callable[[Choices], Case]:
    return lambda choices: Case(kind, effect_program(choices, worlds).text)


def _wrong_kernel(choices: Choices) -> Case:
    drawn = kernel_program(choices, False)
    return Case("wrong-kernels", with_mistakes(choices, drawn.text), drawn.dtype)


def _wrong_effects(choices: Choices) -> Case:
    return Case("wrong-effects", with_mistakes(choices, effect_program(choices).text))


_OPEN = contextlib.ExitStack()


@functools.cache
def _executors() -> list[Executor]:
    """What runs loops in other ways; its processes live as long as this one."""
    return _OPEN.enter_context(executors(1))


def _check_executors(case: Case) -> str:
    return check_executors(EffectProgram(case.text), _executors())


KINDS: dict[str, Kind] = {
    "staged": Kind(
        _drawn_effects("staged", False), lambda case: check_staged(EffectProgram(case.text))
    ),
    "native": Kind(
        _drawn_effects("native", False), lambda case: check_staged(EffectProgram(case.text), True)
    ),
    "executors": Kind(_drawn_effects("executors", True), _check_executors),
    "values": Kind(_drawn_kernel("values", False), lambda case: check_values(_kernel(case))),
    "gradients": Kind(
        _drawn_kernel("gradients", True), lambda case: check_gradients(_kernel(case))
    ),
    "effect-gradients": Kind(
        _drawn_effects("effect-gradients", False),
        lambda case: check_effect_gradients(EffectProgram(case.text)),
    ),
    "variables": Kind(
        lambda choices: Case("variables", variable_program(choices)),
        lambda case: check_variables(case.text),
    ),
    "wrong-effects": Kind(_wrong_effects, lambda case: check_wrong_effects(case.text)),
    "wrong-kernels": Kind(_wrong_kernel, lambda case: check_wrong_kernel(_kernel(case))),
}

# --- kinds that are wrong on purpose, for the tests of the search itself --------------------------


def _numbers(kind: str) -> Callable[[Choices], Case]:
    return lambda choices: Case(kind, str([choices.below(100) for _ in range(9)]))


def _all_small(case: Case) -> str:
    assert max(eval(case.text)) < 60, "a number is large"
    return "small"


def _crash(case: Case) -> str:
    os.kill(os.getpid(), signal.SIGSEGV)
    return "survived"


def _hang(case: Case) -> str:
    time.sleep(3600)
    return "awake"


ALL_KINDS = KINDS | {
    "planted": Kind(_numbers("planted"), _all_small),
    "crashes": Kind(_numbers("crashes"), _crash),
    "hangs": Kind(_numbers("hangs"), _hang),
}
