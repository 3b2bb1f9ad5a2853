"""A parameter sweep: Newton's method from many starts, with failures, logs and progress.

The polynomial x**3 - 2*x + 2 has one real root, and starts near 0 lead to a cycle 0, 1, 0, 1, ...
that never ends; others meet a point where the tangent is flat.  `newton` tells its log, its
progress and its failures, and knows nothing of the sweep.

Notice: one program, four sets of handlers.  `attempt` inside the loop puts results and failures
side by side; `weak_exceptions` around it stops at the first failure; `collect_errors` has them all;
`catch` tries again from another start, and takes the messages of the failed attempt back, since
`log_list` is inside of the handler of `Throw`.  The log is in the order of the starts on any number
of threads. (*Parallel Algebraic Effect Handlers*, ICFP 2024.)
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from peffects import Eff, Ok, effectful, handle, pfor, run
from peffects.handlers import (
    Log,
    Message,
    Progress,
    Result,
    Throw,
    attempt,
    catch,
    collect_errors,
    debug,
    info,
    log_list,
    progress,
    progress_bar,
    throw,
    weak_exceptions,
)
from peffects.parallel import Table, Threads

STEPS = 50


@dataclass(frozen=True)
class NoRoot:
    """Why Newton's method found nothing."""

    start: float
    reason: str


@effectful
def newton(start: float) -> Eff[Log | Progress | Throw[NoRoot], float]:
    """A root of x**3 - 2*x + 2."""
    x = start
    for step in range(STEPS):
        value, slope = x**3 - 2.0 * x + 2.0, 3.0 * x**2 - 2.0
        yield from debug("step", x=x, value=value)
        if abs(value) < 1e-12:
            yield from info("found", start=start, steps=step)
            return x
        if abs(slope) < 1e-3:
            yield from throw(NoRoot(start, f"the tangent at {x:.4f} is flat"))
        x -= value / slope
        yield from progress((step + 1) / STEPS)
    yield from throw(NoRoot(start, f"no convergence in {STEPS} steps"))
    return x


@effectful
def again(start: float) -> Eff[Log | Progress | Throw[NoRoot], float]:
    """Newton's method, once more from far on the left if it fails."""
    return (yield from catch(newton(start), lambda error: newton(-3.0)))


Method = Callable[[float], Eff[Any, Any]]


@effectful
def sweep(method: Method, starts: list[float]) -> Eff[Any, Table[Any, Any]]:
    """The method from each start."""
    yield from info("sweep", starts=len(starts))
    return (yield from pfor(starts, method))


def logged(program: Eff[Any, Any], *, level: int = logging.INFO, bar: bool = False) -> Any:
    """Run on threads, with a log and perhaps a bar; gives (messages, answer)."""
    drawn = handle(progress_bar("sweep", force=bar), program)
    return run(handle(log_list(level), drawn), executor=Threads())


def side_by_side(starts: list[float], *, bar: bool) -> None:
    """Show results and failures of each start."""
    answer: tuple[list[Message], list[Result[float, NoRoot]]] = logged(
        sweep(lambda x: attempt(newton(x)), starts), bar=bar
    )
    messages, results = answer
    for start, result in zip(starts, results, strict=True):
        found = f"{result.value:.9f}" if isinstance(result, Ok) else result.error.reason
        print(f"from {start:5.2f}: {found}")
    print(f"{len(messages)} messages; {messages[0]}; {messages[1]}")


def main(small: bool = False) -> None:
    """Sweep under four sets of handlers."""
    count = 9 if small else 2_001
    starts = [math.sqrt(2 / 3), *(-2.0 + 4.0 * i / (count - 1) for i in range(count))]
    side_by_side(starts[:: max(1, count // 9)], bar=not small)

    _, first = logged(handle(weak_exceptions(), sweep(newton, starts)))
    print(f"the first failure: {first.error}")

    _, collected = logged(handle(collect_errors(), sweep(newton, starts)))
    kinds = Counter(error.reason.partition(" at ")[0] for error in collected.error)
    print(f"all failures: {dict(kinds)}")

    inside = handle(weak_exceptions(), handle(log_list(logging.DEBUG), sweep(again, starts)))
    _, answer = logged(inside)
    messages, roots = answer.value
    print(f"with a second start: {len(roots)} of {len(starts)} roots, {len(messages)} messages")


if __name__ == "__main__":
    main()
