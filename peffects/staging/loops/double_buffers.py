"""Two buffers that change places in each round: `u, v = v, u` of states.

A state is an object, and a loop that carried which object a name means would carry an address.  To
exchange what the states hold is the same, if nothing but the names of the round knows the states.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

from peffects.errors import MergeError
from peffects.staging.structures.accumulators import Reference
from peffects.staging.structures.trees import flatten
from peffects.staging.tracing.trace import here

__all__ = ["Settable", "exchanged"]


class Settable(Reference):
    """A state: what it holds can be read and replaced."""

    @abstractmethod
    def get(self) -> Any:
        """The value now."""

    @abstractmethod
    def set(self, value: object) -> None:
        """Replace the value."""


def exchanged(
    start: Mapping[str, object], frame: dict[str, object], dead: Collection[str]
) -> dict[str, object]:
    """The locals at the end of a round with the states that they had at its start.

    States that changed their names keep them, and exchange their values.  Raises MergeError where a
    name means another state that is not among these, or where another local knows one of them.
    What is `dead` is not read in the next round, and may be any state.
    """
    moved = {
        name: value
        for name, value in frame.items()
        if name not in dead
        and isinstance(value, Settable)
        and isinstance(start.get(name), Settable)
        and value is not start[name]
    }
    if not moved:
        return frame
    before = {id(start[name]) for name in moved}
    known = [leaf for name in frame.keys() - moved.keys() for leaf in flatten(frame[name])[0]]
    permuted = before == {id(value) for value in moved.values()} and len(before) == len(moved)
    if not permuted or any(id(leaf) in before for leaf in known):
        names = ", ".join(f"`{name}`" for name in moved)
        raise MergeError(
            f"a round of a loop ends with another state under the name {names}.",
            at=here(),
            fix="Set what the state holds: `u.set(v)`; two that only these two names know may be "
            "exchanged, `u, v = v, u`.",
        )
    values = {name: value.get() for name, value in moved.items()}
    for name, value in values.items():
        state = start[name]
        assert isinstance(state, Settable), "it was one when it was chosen"
        state.set(value)
    return {**frame, **{name: start[name] for name in moved}}
