"""What Python would do each time is refused in kernels, whatever does it."""

from __future__ import annotations

import collections
import datetime
import fractions
import functools
import gc
import itertools
import math
import operator
import os
import pathlib
import queue
import re
import socket
import statistics
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import peffects as pe
from peffects.errors import SideEffectError

LINES = iter(["1", "2"])
NUMBERS = itertools.count()
QUEUE: queue.Queue[float] = queue.Queue()
LOCK = threading.Lock()
SEEN: collections.Counter[str] = collections.Counter()
PLACE = pathlib.Path(__file__)


def endless() -> Iterator[float]:
    while True:
        yield 1.0


ONES = endless()

EFFECTS: dict[str, Callable[[Any], Any]] = {
    "the process": lambda x: x + os.getpid(),
    "random bytes": lambda x: x + os.urandom(1)[0],
    "the clock": lambda x: x + datetime.datetime.now().second,
    "the date": lambda x: x + datetime.date.today().day,
    "standard output": lambda x: (sys.stdout.write("x"), x)[1],
    "a file": lambda x: (PLACE.read_text(), x)[1],
    "whether a file exists": lambda x: x if os.path.exists(__file__) else -x,
    "a path": lambda x: x if pathlib.Path("x").exists() else -x,
    "an array of a file": lambda x: x + np.load("x.npy")[0],
    "an iterator": lambda x: x + float(next(LINES)),
    "a counter": lambda x: x + next(NUMBERS),
    "a generator": lambda x: x + next(ONES),
    "what is sent to a generator": lambda x: x + ONES.send(None),  # type: ignore[attr-defined]
    "a queue": lambda x: x + QUEUE.qsize(),
    "a lock": lambda x: (LOCK.acquire(blocking=False), x)[1],
    "a thread": lambda x: x + threading.active_count(),
    "a counting dict": lambda x: (SEEN.update("a"), x)[1],
    "a warning": lambda x: (warnings.warn("x", stacklevel=1), x)[1],
    "the collector": lambda x: (gc.collect(), x)[1],
    "the network": lambda x: (socket.gethostname(), x)[1],
    "an exit": lambda x: sys.exit(3),
    "the seed": lambda x: (np.random.seed(1), x)[1],
}


@pytest.mark.parametrize("what", EFFECTS)
def test_effects_of_libraries_are_refused(what: str) -> None:
    with pytest.raises(SideEffectError, match="once") as caught:
        pe.kernel(EFFECTS[what])(1.0)
    assert caught.value.fix
    assert "test_purity.py" in caught.value.at.file
    assert not SEEN and QUEUE.empty() and not LOCK.locked()
    assert next(NUMBERS) == next(NUMBERS) - 1


def test_draws_of_numpy_have_another_form_in_kernels() -> None:
    with pytest.raises(SideEffectError, match=r"pe\.random\.normal"):
        pe.kernel(lambda x: x + np.random.normal())(1.0)
    generator = np.random.default_rng(0)
    with pytest.raises(SideEffectError, match=r"prng\(seed\)"):
        pe.kernel(lambda x: x + generator.normal())(1.0)


def test_iterators_are_refused_before_they_are_advanced() -> None:
    lines = iter(["1", "2"])
    with pytest.raises(SideEffectError, match="list_iterator"):
        pe.kernel(lambda x: x + float(next(lines)))(1.0)
    assert next(lines) == "1"


def test_what_computes_may_be_called() -> None:
    pattern = re.compile("a+")
    day = datetime.date(2024, 2, 29)

    def f(x: Any) -> Any:
        halves = fractions.Fraction(1, 2), statistics.mean([1.0, 3.0])
        names = sorted({"b": 2, "a": 1}.items(), key=operator.itemgetter(1))
        found = pattern.match("aab")
        total = functools.reduce(operator.add, itertools.chain([1.0], [2.0]))
        later = day + datetime.timedelta(days=1)
        return (
            x * float(halves[0])
            + halves[1] * total
            + len(names[0][0])
            + (found.end() if found else 0)
            + math.comb(4, 2)
            + later.month
        )

    assert pe.kernel(f)(4.0) == 2.0 + 6.0 + 1 + 2 + 6 + 3
