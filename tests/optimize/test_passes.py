"""A pass runs by name: checked, shown on demand, and blamed for what it did."""

from __future__ import annotations

from dataclasses import replace

import pytest
from programs import Sketch, matmul, num

from peffects.errors import InternalError
from peffects.ir import primitives as p
from peffects.ir.print import print_program
from peffects.ir.syntax import F64, Block, Program, Var
from peffects.optimize.passes import run
from peffects.optimize.simplify import simplify


def forget(program: Program) -> Program:
    """A wrong pass: its result is not bound."""
    return replace(program, body=Block((), (Var("lost", F64),)))


def test_wrong_pass_is_named() -> None:
    with pytest.raises(InternalError, match=r"forget.*not in scope"):
        run("forget", forget, matmul())


@pytest.mark.parametrize("setting", ["", "0"])
def test_check_can_be_left_out(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEFFECTS_CHECK", setting)
    assert run("forget", forget, matmul()).body.bindings == ()


@pytest.mark.parametrize(
    ("wanted", "is_shown"), [("simplify", True), ("all", True), ("hoist", False), ("", False)]
)
def test_result_is_shown_on_demand(
    wanted: str,
    is_shown: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PEFFECTS_DUMP", wanted)
    s = Sketch("shown")
    result = run("simplify", simplify, s.done(s.b.prim(p.ADD, num(1.0), num(2.0))))
    err = capsys.readouterr().err
    assert err == (f"--- after simplify\n{print_program(result)}\n" if is_shown else "")
