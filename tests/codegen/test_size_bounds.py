"""Memory of local tables: bounds of their sizes hold whatever the numbers of the user are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_checks import check

import peffects as pe

X = np.arange(1.0, 9.0)


def at_least(x: Any, n: Any) -> Any:
    def body(i: Any) -> Any:
        size = max(n, int(i) + 1)
        t = pe.table(lambda k: x[i] * k, over=size)
        u = pe.table(lambda k: t[size - 1 - k] + 1.0, over=size)
        s = 0.0
        for k in range(int(i) + 1):
            s += t[k] * t[i - k] + u[k] * u[i - k] * t[0]
        return s

    return pe.table(body, over=x)


def summed(x: Any, n: Any, m: Any) -> Any:
    def body(i: Any) -> Any:
        size = max(n + m + int(i), 0)
        t = pe.table(lambda k: x[i] * k, over=size)
        s = 0.0
        for k in range(size):
            s += t[k] * t[size - 1 - k]
        return s

    return pe.table(body, over=x)


# In each, one negative number used to make the bound smaller than what another way needs.
@pytest.mark.parametrize("n", [12, 3, 0, -3, -1000, -(2**40)])
def test_a_negative_number_takes_no_memory_from_others(n: int) -> None:
    check(at_least, X, n)


@pytest.mark.parametrize(("n", "m"), [(3, 3), (-300, 303), (303, -300), (-5, -5), (-5, 2)])
def test_negative_terms_of_a_sum(n: int, m: int) -> None:
    check(summed, X, n, m)
