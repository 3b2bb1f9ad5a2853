"""The runner of README snippets finds blocks, their output and their place."""

from __future__ import annotations

import inspect
import traceback
from pathlib import Path

import pytest
from snippets import Snippet, namespace, run_snippet, same_text, snippets

DOCUMENT = """# Title

```python
def double(x):
    return 2 * x
```

Some words.

```python
print(double(1.5))
```

```text
3.0
```

```bash
make demo
```

```python
double(None)
```
words
```text
a picture, not an output
```
"""


@pytest.fixture
def document(tmp_path: Path) -> Path:
    file = tmp_path / "DOC.md"
    file.write_text(DOCUMENT)
    return file


def test_snippets_are_found_with_line_and_output(document: Path) -> None:
    found = list(snippets(document))
    assert [snippet.line for snippet in found] == [4, 11, 23]
    assert [snippet.output for snippet in found] == [None, "3.0\n", None]


def test_snippets_share_a_namespace_and_have_source(document: Path) -> None:
    first, second, _ = snippets(document)
    module = namespace(document)
    assert run_snippet(first, module) == ""
    assert run_snippet(second, module) == "3.0\n"
    assert inspect.getsource(vars(module)["double"]) == first.code


def test_failure_points_into_the_document(document: Path) -> None:
    first, _, third = snippets(document)
    module = namespace(document)
    run_snippet(first, module)
    with pytest.raises(TypeError) as caught:
        run_snippet(third, module)
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(caught.tb)]
    assert places[-2:] == [("DOC.md:23", 23), ("DOC.md:4", 5)]


def test_blocks_in_other_languages_are_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "DOC.md"
    file.write_text("```\nplain\n```\n\n```pycon\n>>> 1\n```\n")
    assert list(snippets(file)) == []


@pytest.mark.parametrize(
    ("actual", "expected", "same"),
    [
        ("loss 0.30000000000000004\n", "loss 0.3", True),
        ("loss 0.31", "loss 0.30", False),
        ("4 rows", "5 rows", False),
        ("x = -1.0", "x = 1.0", False),
        ("1e-300", "0.0", False),
        ("[1. 2.]  \n", "[1. 2.]", True),
        ("PE104: 1.5", "PE105: 1.5", False),
        ("a\nb", "a b", False),
    ],
)
def test_texts_agree_up_to_rounding(actual: str, expected: str, same: bool) -> None:
    assert same_text(actual, expected) is same


def test_snippet_name_is_file_and_line() -> None:
    assert Snippet(Path("/x/README.md"), 7, "", None).name == "README.md:7"
