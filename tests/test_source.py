"""The user's source: what is read of it, and how it is parsed."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator

import pytest

from peffects.source import syntax_tree

TEXT = "\n".join(f"def f{i}(x):\n    return (x + {i}) * (1 + (2 * (3 - x)))" for i in range(60))


class Parses:
    """Garbage that parses when it is collected."""

    def __init__(self) -> None:
        self.cycle = self

    def __del__(self) -> None:
        ast.parse("f(1)")


@pytest.fixture
def eager_collection() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(7)
    yield
    gc.set_threshold(*before)


def test_a_finalizer_that_parses_in_the_middle_does_no_harm(eager_collection: None) -> None:
    expected = ast.dump(ast.parse(TEXT))
    for _ in range(20):
        garbage = [Parses() for _ in range(5)]
        del garbage
        assert ast.dump(syntax_tree(TEXT)) == expected


def test_text_that_is_wrong_is_a_syntax_error() -> None:
    with pytest.raises(SyntaxError):
        syntax_tree("f(")
