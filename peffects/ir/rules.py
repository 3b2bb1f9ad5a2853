"""Rule tables: what one transformation does with each primitive, as data that tests can walk.

A table maps a primitive to its rule, or to a refusal with a reason.  There is no default: asking
for a missing rule is our mistake and says so (`MissingRuleError`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from peffects.errors import InternalError, MissingRuleError
from peffects.ir.primitives import Primitive

Rule = TypeVar("Rule")


class RuleTable(Generic[Rule]):
    """The rules of the transformation `name`, at most one for each primitive."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._rules: dict[Primitive, Rule] = {}
        self._refusals: dict[Primitive, str] = {}

    def register(self, *ops: Primitive) -> Callable[[Rule], Rule]:
        """Decorator: the decorated rule serves `ops`.  Raises InternalError on a duplicate."""

        def add(rule: Rule) -> Rule:
            for op in ops:
                self._claim(op)
                self._rules[op] = rule
            return rule

        return add

    def refuse(self, *ops: Primitive, why: str) -> None:
        """Say that the transformation does not apply to `ops`, and why."""
        for op in ops:
            self._claim(op)
            self._refusals[op] = why

    def __getitem__(self, op: Primitive) -> Rule:
        if op not in self._rules:
            why = self._refusals.get(op, "nobody wrote one")
            raise MissingRuleError(f"{self.name} has no rule for `{op.name}`: {why}.")
        return self._rules[op]

    def __contains__(self, op: Primitive) -> bool:
        return op in self._rules

    def refusal(self, op: Primitive) -> str | None:
        """The reason why there is no rule for `op`, if somebody gave one."""
        return self._refusals.get(op)

    def covered(self) -> Iterator[Primitive]:
        """All primitives with a rule or a refusal."""
        yield from self._rules
        yield from self._refusals

    def _claim(self, op: Primitive) -> None:
        if op in self._rules or op in self._refusals:
            raise InternalError(f"{self.name} has two rules for `{op.name}`.")
