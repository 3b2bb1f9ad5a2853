"""Random effectful programs: staged under their handlers they give what the machine gives.

The programs (`fuzz/effect_programs.py`) have operations of standard and user-defined effects in
branches, loops, functions, scoped operations, inner handlers and parallel loops, in any order.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from fuzz.choices import Drawn, Seeded
from fuzz.effect_checks import check_staged
from fuzz.effect_programs import effect_program
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=60)
@given(st.data())
def test_the_evaluator_gives_what_the_machine_gives(data: Any) -> None:
    check_staged(effect_program(Drawn(data.draw)))


def test_most_programs_are_staged_and_no_kind_of_statement_is_never_drawn() -> None:
    programs = [effect_program(Seeded(seed)) for seed in range(60)]
    results = Counter(check_staged(program) for program in programs[:30])
    assert results["staged"] >= 20, results
    text = "\n".join(program.text for program in programs)
    words = ("catch(", "attempt(", "local(", "mask(", "pfor(", "@final", "yield from k(", "while",
             "break", "return self.n", "Leave(", "ask()", "put(", "accum(")  # fmt: skip
    assert [word for word in words if word not in text] == []
