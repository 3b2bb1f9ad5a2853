"""Every error has a code, a page, one format, survives pickling, and is met in some test."""

from __future__ import annotations

import inspect
import pickle
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from peffects.errors import InternalError, MissingRuleError, PeffectsError, error_classes
from peffects.source import SrcInfo

ROOT = Path(__file__).resolve().parent.parent
ERRORS = list(error_classes())
OURS = [cls for cls in ERRORS if cls.code.startswith("PE9")]
# Errors that no user meets, with the reason; their pages need no program.
UNSEEN = {
    "PE114": "raised inside an iteration to end it, and taken by the loop",
}
USERS = [cls for cls in ERRORS if cls not in OURS and cls.code not in UNSEEN]

every_error = pytest.mark.parametrize("cls", ERRORS, ids=lambda cls: cls.code)


def an_error(cls: type[PeffectsError]) -> PeffectsError:
    """An error of `cls` with a line, two notes and a remedy."""
    return cls(
        "the loop met a handler that cannot run around it.",
        at=SrcInfo(__file__, 1, 0, "step"),
        notes=("handler installed at model.py:57", "loop started at model.py:58"),
        fix="Do one of: handle the effect inside the loop body; write the loop sequentially.",
    )


def test_codes_are_unique() -> None:
    codes = Counter(cls.code for cls in ERRORS)
    assert [code for code, count in codes.items() if count > 1] == []


@every_error
def test_code_is_the_class_s_own_and_well_formed(cls: type[PeffectsError]) -> None:
    assert "code" in vars(cls)
    assert re.fullmatch(r"PE[12349]\d\d", cls.code)


@every_error
def test_page_starts_with_a_sentence(cls: type[PeffectsError]) -> None:
    page = inspect.cleandoc(cls.__doc__ or "")
    assert page.partition("\n")[0].endswith((".", ":", "?"))


@pytest.mark.parametrize("cls", USERS, ids=lambda cls: cls.code)
def test_page_of_a_user_mistake_shows_wrong_and_right(cls: type[PeffectsError]) -> None:
    """The wrong one as code, indented or in backticks; the right one may be told in words."""
    page = inspect.cleandoc(cls.__doc__ or "")
    parts = re.fullmatch(r"(?s).*^Wrong\b(.*)^Right\b(.*)", page, re.MULTILINE)
    assert parts, page
    wrong, right = parts.groups()
    assert re.search(r"(?m)^ {4}\S|`\S", wrong), page
    assert re.search(r"\w", right), page


@pytest.mark.parametrize("cls", OURS, ids=lambda cls: cls.code)
def test_page_of_our_mistake_asks_for_a_report(cls: type[PeffectsError]) -> None:
    assert "report it" in inspect.cleandoc(cls.__doc__ or "")


@every_error
def test_error_is_met_in_a_test(cls: type[PeffectsError]) -> None:
    """Somewhere besides this file: a message that no test provokes may never have been seen."""
    tests = (ROOT / "tests").rglob("*.py")
    word = re.compile(rf"\b({cls.__name__}|{cls.code})\b")
    assert any(word.search(path.read_text()) for path in tests if path != Path(__file__))


def test_message_format(golden: Callable[..., None]) -> None:
    golden(str(an_error(InternalError)))


def test_message_leaves_out_what_is_not_known() -> None:
    assert str(MissingRuleError("no rule for `floor`.")) == (
        "PE902 MissingRuleError: no rule for `floor`.\n  python -m peffects explain PE902"
    )


@every_error
def test_error_survives_pickling(cls: type[PeffectsError]) -> None:
    before = an_error(cls)
    after = pickle.loads(pickle.dumps(before))
    assert type(after) is cls
    assert (after.what, after.at, after.notes, after.fix) == (
        before.what,
        before.at,
        before.notes,
        before.fix,
    )
    assert str(after) == str(before)
