"""The texts of checks as those of failures: what is known goes into the text, the rest is shown."""

from __future__ import annotations

from peffects.codegen.lower.checks import check_failure
from peffects.errors import ValueRangeError
from peffects.ir.builder import int_lit
from peffects.ir.syntax import BOOL, F64, I64, Check, Lit, Var
from peffects.source import SrcInfo

HERE = SrcInfo("model.py", 3)


def test_literals_are_part_of_the_text_and_the_others_are_counted_anew() -> None:
    n, x = Var("n", I64), Var("x", F64)
    text = "{0} to {1}, not {2:.1f}: {{set}} of {1!r} and {3:>6.2f}"
    check = Check(Lit(True, BOOL), ValueRangeError, text, (int_lit(1), n, x, Lit(0.5, F64)), "fix")
    made = check_failure(check, HERE)
    assert made.shown == (n, x)
    assert made.failure.operands == ("int64", "float64")
    assert made.failure.text == "1 to {0}, not {1:.1f}: {{set}} of {0!r} and   0.50"
    assert made.failure.text.format(7, 2.25) == "1 to 7, not 2.2: {set} of 7 and   0.50"
    assert (made.failure.error, made.failure.at, made.failure.fix) == (ValueRangeError, HERE, "fix")
