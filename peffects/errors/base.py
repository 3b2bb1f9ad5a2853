"""The base of all errors: what happened, at which user line, what to do.

The message format is golden-tested in `tests/test_errors.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from peffects.source import UNKNOWN, SrcInfo

__all__ = ["PeffectsError", "error_classes", "page_of"]


class PeffectsError(Exception):
    """Base of all errors of peffects.

    `what` says what happened, `at` is the user's line, `notes` are further lines (other places that
    matter), `fix` says what to do.  `code` identifies the mistake for `python -m peffects explain`.
    """

    code: ClassVar[str] = "PE000"

    def __init__(
        self, what: str, *, at: SrcInfo = UNKNOWN, notes: Sequence[str] = (), fix: str = ""
    ) -> None:
        self.what = what
        self.at = at
        self.notes = tuple(notes)
        self.fix = fix
        super().__init__(what)

    def __str__(self) -> str:
        lines = [f"{self.code} {type(self).__name__}: {self.what}"]
        if self.at.line:
            lines.append(f"  at {self.at}")
        lines += [f"  {note}" for note in self.notes]
        if self.fix:
            lines.append(f"  {self.fix}")
        lines.append(f"  python -m peffects explain {self.code}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.at, self.notes, self.fix)


def _rebuild(
    cls: type[PeffectsError], what: str, at: SrcInfo, notes: tuple[str, ...], fix: str
) -> PeffectsError:
    return cls(what, at=at, notes=notes, fix=fix)


def page_of(cls: type[PeffectsError]) -> str:
    """What the error means, with a wrong and a right program, in Markdown.

    The pages are in `docs/errors`, which the package has as `errors/pages`; of an error that has
    none, such as one that a user defined, the docstring is the page.
    """
    page = Path(__file__).with_name("pages") / f"{cls.code}.md"
    if page.is_file():
        return page.read_text("utf-8")
    return f"# {cls.code} {cls.__name__}\n\n{inspect.cleandoc(cls.__doc__ or '')}\n"


def error_classes() -> Iterator[type[PeffectsError]]:
    """All concrete error classes, in order of their codes."""
    pending, found = [PeffectsError], []
    while pending:
        cls = pending.pop()
        pending.extend(cls.__subclasses__())
        if cls is not PeffectsError:
            found.append(cls)
    yield from sorted(found, key=lambda cls: cls.code)
