"""Mistakes with effects, handlers and parallel `for`: PE1xx.

The page of each, which `python -m peffects explain CODE` prints, is in `docs/errors`.
"""

from __future__ import annotations

from peffects.errors.base import PeffectsError


class UnhandledEffectError(PeffectsError):
    """An operation was performed, and no handler in scope handles its effect.

    Wrong::

        run(program())                          # program performs accum("x")

    Right::

        run(handle(accumulate("", str.__add__), program()))

    A handler handles exactly one effect class: `run_state(1)` handles `State`, and not `Fuel`, its
    named instance; `run_state(1, at=Fuel)` handles `Fuel`.
    """

    code = "PE101"


class MissingYieldFromError(PeffectsError, TypeError):
    """A computation was used as if it were its result, or was made and never performed.

    Wrong::

        x = get() + 1            # an operator on a computation
        yield get()              # `yield` where `yield from` is due
        for v in values(): ...   # a loop over a computation
        return step(i)           # the computation itself is returned

    Right::

        x = (yield from get()) + 1
        return (yield from step(i))
    """

    code = "PE102"


class NotAComputationError(PeffectsError, TypeError):
    """A computation is due and something else was given, or a handler is due and was not given.

    Wrong::

        run(program)                        # the function
        handle(run_state, program())        # the class

    Right::

        run(program())
        handle(run_state(0), program())
    """

    code = "PE103"


class TraverseError(PeffectsError):
    """A handler without traverse clause stands around a parallel `for`.

    Such a handler is sequential: one iteration would have to see what another one did.

    Wrong::

        run(handle(run_state(0), parallel_program()))

    Right: handle the effect inside the loop body; or use a handler with a traverse clause, such as
    `accumulate`; or write the loop sequentially::

        for i in n:
            yield from body(i)
    """

    code = "PE104"


class HandlerDefinitionError(PeffectsError, TypeError):
    """A handler class is not what a handler may be; found when the class is defined.

    Wrong::

        class counter(Handler[State[int]]):
            def get(self, op): return self.n
            def putt(self, op): self.n = op.value      # no such operation

    Right: one clause for each operation, named like the operation class in snake_case; helpers
    start with an underscore; an operation that answers `Never` has a `@final` clause or takes `k`.
    """

    code = "PE105"


class OperationDefinitionError(PeffectsError, TypeError):
    """An operation class does not say which effect it belongs to, or says it twice.

    Wrong::

        class Flip(Operation): ...

    Right::

        class Flip(Operation[Choose, bool]): ...
    """

    code = "PE106"


class ResumptionAlreadyUsed(PeffectsError):
    """A one-shot resumption was resumed twice.

    Wrong::

        def flip(self, op, k):
            return (yield from k(True)) + (yield from k(False))

    Right: mark the clause, so that the answers of its frames are kept and it may resume again::

        @multi
        def flip(self, op, k): ...
    """

    code = "PE107"


class ResumptionExpired(PeffectsError):
    """A resumption was used after the iteration or the `run` it belongs to had ended.

    A resumption is the rest of one iteration of a parallel `for`, or of one `run`; when that has
    ended, what the resumption held has been unwound.

    Wrong::

        saved = run(handle(keeps_k(), program()))      # the answer is k
        run(saved(1))

    Right: resume inside the same `run` (and inside the same iteration)::

        @effectful
        def whole():
            k = yield from handle(keeps_k(), program())
            return (yield from k(1))
    """

    code = "PE108"


class NeverPerformed(PeffectsError, RuntimeWarning):
    """A computation was thrown away, and was never performed: a warning; in debug mode an error.

    Wrong::

        guard(a > 2)            # nothing happens
        put(a)

    Right::

        yield from guard(a > 2)
        yield from put(a)
    """

    code = "PE109"


class ReplayDivergence(PeffectsError):
    """Code between two operations did something else when it was run again for a further world.

    Resuming a second time rebuilds a generator by running it again with the answers it got before.

    Wrong::

        x = random.random()            # differs each time
        yield from (flip() if x < 0.5 else other())

    Right: make what varies an operation (`uniform()`), or keep its result with `once`::

        x = yield from once(random.random)
    """

    code = "PE110"


class NotReplayable(PeffectsError):
    """A frame has to be rebuilt for a further world, and nothing says how.

    Wrong::

        handle(all_worlds(), (amb([1, 2]) for _ in [0]))   # a bare generator object

    Right: pass the call of an `@effectful` function, which says how to start again::

        handle(all_worlds(), program())
    """

    code = "PE111"


class LoopValuesError(PeffectsError):
    """A traverse clause gave its continuation another number of values than the loop has indices.

    Or an iteration has an answer that its handler did not make: one further out ended it.

    Wrong::

        return (yield from k(answers[:1]))

    Right: one plain value for each index, in index order::

        return (yield from k([a.value for a in answers]))
    """

    code = "PE112"


class IndexSetError(PeffectsError, IndexError):
    """An index set was made of something that is no size, or indexed by what is not in it.

    Wrong::

        Fin(-3)
        table[-1]           # ambiguous: a slip in a stencil, or the last element?

    Right::

        Fin(3)
        table[len(table) - 1]
    """

    code = "PE113"


class LoopCancelled(PeffectsError):
    """An iteration stopped because its loop was cancelled (an error elsewhere, or Ctrl-C).

    It is raised by `report` inside the iteration and never leaves the loop.
    """

    code = "PE114"


class EffectArgumentError(PeffectsError, ValueError):
    """An operation or a handler of the standard effects was given what cannot work.

    Wrong::

        yield from integers(5, 5)           # no integer is in [5, 5)
        yield from choice([])               # nothing to choose from
        yield from amb("HT", weights=[1])   # two options, one weight

    Right::

        yield from integers(0, 5)
        yield from choice(["only one"])
        yield from amb("HT", weights=[0.4, 0.6])
    """

    code = "PE120"


class ScanDependenceError(PeffectsError):
    """What an iteration gives to `scan` depends on what `scan` answered it.

    Around a parallel `for`, `prefix_sums` runs the iterations twice: first to learn what each adds,
    then with what came before it.  So an iteration must add the same both times.

    Wrong::

        before = yield from scan(1)
        yield from scan(before)             # depends on the answer

    Right: add what does not depend on it, or write the loop sequentially::

        for i in n:
            yield from body(i)
    """

    code = "PE121"
